//! The keys that each file of the log is sealed and signed with. A rotation begins a file: the
//! first batch is `segment`, `rotate` and a seal of the new key, so every file has one pair of
//! keys. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signature, Signer as _, VerifyingKey};

use super::line::{self, LineError};
use super::log::LogSigner;
use super::note::{KeyError, VerifierKey};
use super::tree::Hash;
pub use spoolgate_wire::heads::Rotation;
use spoolgate_wire::ids::Principal;
use spoolgate_wire::signing::{hex, unhex};
use spoolgate_wire::time::Time;

/// Longest reason of a rotation, bytes.
pub const REASON_BYTES_MAX: usize = 500;

/// The body of a `genesis` line. The ledger uses the origin and the keys; it knows the other
/// members only to refuse a line that has more of them.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct GenesisBody {
    origin: String,
    log_key: String,
    seal_key: String,
    #[serde(rename = "timestamp")]
    _timestamp: Time,
    #[serde(rename = "format")]
    _format: u32,
    #[serde(rename = "nonce")]
    _nonce: String,
    #[serde(rename = "rulebook")]
    _rulebook: String,
    #[serde(rename = "program")]
    _program: String,
    #[serde(rename = "semantics")]
    _semantics: Option<u32>,
    #[serde(rename = "changes")]
    _changes: Vec<Box<serde_json::value::RawValue>>,
}

/// Why texts are not a log's name and keys.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// The log key is not a verifier key.
    #[error("log key: {0}")]
    LogKey(KeyError),
    /// The log key has another name than the log.
    #[error("the log key is named `{}`, not `{origin}`", named.escape_debug())]
    Name {
        /// Name of the key.
        named: String,
        /// The log's origin.
        origin: String,
    },
    /// The seal key is not an Ed25519 key in hex.
    #[error("the seal key is missing")]
    SealKey,
}

/// Why a log's first line does not tell its keys.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GenesisError {
    /// The bytes are not a ledger line.
    #[error("{0}")]
    Line(#[from] LineError),
    /// It is a line of another kind.
    #[error("the first line is not a genesis line")]
    Kind,
    /// A member that contains a key is missing or has another type.
    #[error("genesis line: {0}")]
    Members(#[from] serde_json::Error),
    /// A key is invalid.
    #[error("genesis line: {0}")]
    Keys(#[from] IdentityError),
}

/// Why a rotation is not one from the keys in force.
#[derive(Debug, thiserror::Error)]
#[error("rotate line {line}: {fault}")]
#[non_exhaustive]
pub struct RotationError {
    /// Number of the line.
    pub line: u64,
    /// What is wrong with it.
    #[source]
    pub fault: RotationFault,
}

/// What is wrong with a rotation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RotationFault {
    /// The body is not that of a rotation.
    #[error("{0}")]
    Body(#[from] serde_json::Error),
    /// See [`is_reason`].
    #[error("its reason is not one line of text")]
    Reason,
    /// A new key is invalid.
    #[error("{0}")]
    Keys(#[from] IdentityError),
    /// A new key is the old one.
    #[error("a key does not change")]
    Unchanged,
    /// This key did not sign it.
    #[error("the signature of the {0} does not verify")]
    Signature(&'static str),
}

/// A log's name and the pair of keys in force somewhere in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogIdentity {
    /// Its origin, which is also the name of its key.
    pub origin: String,
    /// Verifies its checkpoints.
    pub log_key: VerifierKey,
    /// Verifies its seals.
    pub seal_key: VerifyingKey,
}

impl LogIdentity {
    /// Makes an identity from the keys as lines contain them: a verifier key named after the
    /// origin, and a hex key.
    ///
    /// # Errors
    /// Returns [`IdentityError`] if a key is invalid.
    pub fn new(origin: &str, log_key: &str, seal_key: &str) -> Result<LogIdentity, IdentityError> {
        let log_key: VerifierKey = log_key.parse().map_err(IdentityError::LogKey)?;
        if log_key.name() != origin {
            return Err(IdentityError::Name {
                named: log_key.name().to_owned(),
                origin: origin.to_owned(),
            });
        }
        let seal_key = unhex(seal_key)
            .and_then(|bytes| bytes.try_into().ok())
            .and_then(|bytes: [u8; 32]| VerifyingKey::from_bytes(&bytes).ok())
            .filter(|key| !key.is_weak())
            .ok_or(IdentityError::SealKey)?;
        Ok(LogIdentity {
            origin: origin.to_owned(),
            log_key,
            seal_key,
        })
    }

    /// The keys that a log begins with, from its first line without its LF.
    ///
    /// ```
    /// use std::path::Path;
    ///
    /// use spoolgate_ledger::{find::Finder, folder::Folder, rotation::LogIdentity};
    ///
    /// let folder = Folder::open("testdata/log")?;
    /// let first = Finder::open(&folder, Path::new(""))?.line(0)?.ok_or("the log is empty")?;
    /// let keys = LogIdentity::of_first_line(&first)?;
    /// let noted = "example.org/log+d3e49c8a+AWksKng6bXZg10G5xS93kpMNoz9Hdu4hkpWOLKnrr1xf";
    /// assert_eq!(keys.log_key.to_string(), noted);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`GenesisError`] if that is not a genesis line with valid keys.
    pub fn of_first_line(bytes: &[u8]) -> Result<LogIdentity, GenesisError> {
        let line = line::parse(bytes)?;
        if line.kind != "genesis" {
            return Err(GenesisError::Kind);
        }
        let keys: GenesisBody = serde_json::from_str(&line.body())?;
        Ok(LogIdentity::new(
            &keys.origin,
            &keys.log_key,
            &keys.seal_key,
        )?)
    }

    /// The seal key in hex, as lines contain it.
    pub fn seal_key_hex(&self) -> String {
        hex(self.seal_key.as_bytes())
    }
}

/// Who rotates keys, when and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// Time of the gate's clock.
    pub timestamp: Time,
    /// The person who rotates the keys.
    pub by: Principal,
    /// One line, not empty, at most [`REASON_BYTES_MAX`] bytes.
    pub reason: String,
}

/// Whether the text is allowed as the reason of a rotation or of giving up a head.
pub fn is_reason(text: &str) -> bool {
    !text.trim().is_empty() && text.len() <= REASON_BYTES_MAX && !text.chars().any(char::is_control)
}

/// Signs a rotation from `old` to `new` as line `seq`, which follows the line with leaf hash
/// `prev`.
pub fn sign(order: &Order, old: &LogSigner, new: &LogSigner, seq: u64, prev: &Hash) -> Rotation {
    let mut rotation = Rotation {
        timestamp: order.timestamp,
        by: order.by.clone(),
        reason: order.reason.clone(),
        log_key: new.verifier().to_string(),
        seal_key: hex(new.seal.verifying_key().as_bytes()),
        old_log_sig: String::new(),
        old_seal_sig: String::new(),
        new_log_sig: String::new(),
    };
    let text = text(&rotation, &old.origin, seq, prev);
    rotation.old_log_sig = STANDARD.encode(old.log.sign_text(&text));
    rotation.old_seal_sig = STANDARD.encode(old.seal.sign(text.as_bytes()).to_bytes());
    rotation.new_log_sig = STANDARD.encode(new.log.sign_text(&text));
    rotation
}

/// The text that is signed, with one value per line.
fn text(rotation: &Rotation, origin: &str, seq: u64, prev: &Hash) -> String {
    let Rotation {
        timestamp,
        by,
        reason,
        log_key,
        seal_key,
        ..
    } = rotation;
    format!(
        "spoolgate-rotate/v1\n{origin}\n{seq}\n{prev}\n{timestamp}\n{by}\n{reason}\n{log_key}\n{seal_key}\n"
    )
}

/// Checks that `old`, the keys in force before, handed over to new keys at this place. Returns the
/// new keys.
///
/// # Errors
/// Returns [`RotationError`] if a signature does not verify or a key did not change.
pub fn check(
    rotation: &Rotation,
    old: &LogIdentity,
    seq: u64,
    prev: &Hash,
) -> Result<LogIdentity, RotationError> {
    hand_over(rotation, old, seq, prev).map_err(|fault| RotationError { line: seq, fault })
}

fn hand_over(
    rotation: &Rotation,
    old: &LogIdentity,
    seq: u64,
    prev: &Hash,
) -> Result<LogIdentity, RotationFault> {
    if !is_reason(&rotation.reason) {
        return Err(RotationFault::Reason);
    }
    let new = LogIdentity::new(&old.origin, &rotation.log_key, &rotation.seal_key)?;
    if new.log_key == old.log_key || new.seal_key == old.seal_key {
        return Err(RotationFault::Unchanged);
    }
    let text = text(rotation, &old.origin, seq, prev);
    let by_log_key = |key: &VerifierKey, signature: &str| {
        STANDARD
            .decode(signature)
            .is_ok_and(|bytes| key.verifies(&text, &bytes))
    };
    let by_seal_key = |key: &VerifyingKey, signature: &str| {
        let signature = STANDARD.decode(signature).ok();
        let signature = signature.and_then(|bytes| Signature::from_slice(&bytes).ok());
        signature.is_some_and(|signature| key.verify_strict(text.as_bytes(), &signature).is_ok())
    };
    for (whose, holds) in [
        (
            "old log key",
            by_log_key(&old.log_key, &rotation.old_log_sig),
        ),
        (
            "old seal key",
            by_seal_key(&old.seal_key, &rotation.old_seal_sig),
        ),
        (
            "new log key",
            by_log_key(&new.log_key, &rotation.new_log_sig),
        ),
    ] {
        if !holds {
            return Err(RotationFault::Signature(whose));
        }
    }
    Ok(new)
}

/// As [`check`], for a `rotate` line.
///
/// # Errors
/// As [`check`].
pub fn check_line(line: &line::Line<'_>, old: &LogIdentity) -> Result<LogIdentity, RotationError> {
    let rotation: Rotation = serde_json::from_str(&line.body()).map_err(|error| RotationError {
        line: line.seq,
        fault: error.into(),
    })?;
    check(&rotation, old, line.seq, &line.prev)
}

/// Keys, and the line from which on they are in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeysFrom {
    /// First line of the file that began with them.
    pub line: u64,
    /// The keys.
    pub keys: LogIdentity,
}

/// The keys of a log, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline(Vec<KeysFrom>);

impl Timeline {
    /// Begins with the keys that are in force at `line`.
    pub fn from(line: u64, keys: LogIdentity) -> Timeline {
        Timeline(vec![KeysFrom { line, keys }])
    }

    /// Adds keys that are in force from `line` on, unless they are in force already.
    pub fn extend(&mut self, line: u64, keys: &LogIdentity) {
        if self.0.last().is_none_or(|last| last.keys != *keys) {
            self.0.push(KeysFrom {
                line,
                keys: keys.clone(),
            });
        }
    }

    /// The keys that count for a head of `size` lines, and for line `size`, which seals it: an old
    /// key signs nothing later, a new one nothing earlier.
    pub fn at(&self, size: u64) -> Option<&LogIdentity> {
        self.0
            .iter()
            .rev()
            .find(|from| from.line <= size)
            .map(|from| &from.keys)
    }

    /// The newest keys.
    pub fn last(&self) -> Option<&LogIdentity> {
        self.0.last().map(|from| &from.keys)
    }

    /// All keys with their first lines.
    pub fn all(&self) -> &[KeysFrom] {
        &self.0
    }
}
