//! Which keys a file of the log is sealed and signed with. A rotation begins a file: its first batch is
//! `segment`, `rotate` and a seal of the new key, so every file has one pair of keys. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signature, Signer as _, VerifyingKey};

use super::line;
use super::log::LogSigner;
use super::note::VerifierKey;
use super::tree::Hash;
use crate::gate::record::Genesis;
pub use crate::wire::heads::Rotation;
use crate::wire::ids::Principal;
use crate::wire::signing::{hex, unhex};
use crate::wire::time::Time;

/// Longest reason of a rotation, bytes.
pub const REASON_BYTES_MAX: usize = 500;

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
    /// From the keys as lines have them: a verifier key under the origin's name, and hex.
    ///
    /// # Errors
    /// A message naming which of them is none.
    pub fn new(origin: &str, log_key: &str, seal_key: &str) -> Result<LogIdentity, String> {
        let log_key: VerifierKey = log_key.parse().map_err(|error| format!("log key: {error}"))?;
        if log_key.name() != origin {
            return Err(format!("the log key is named `{}`, not `{origin}`", log_key.name().escape_debug()));
        }
        let seal_key = unhex(seal_key)
            .and_then(|bytes| bytes.try_into().ok())
            .and_then(|bytes: [u8; 32]| VerifyingKey::from_bytes(&bytes).ok())
            .filter(|key| !key.is_weak())
            .ok_or("there is no seal key")?;
        Ok(LogIdentity { origin: origin.to_owned(), log_key, seal_key })
    }

    /// The keys that a log begins with.
    ///
    /// # Errors
    /// A message.
    pub fn of_genesis(genesis: &Genesis) -> Result<LogIdentity, String> {
        LogIdentity::new(&genesis.origin, &genesis.log_key, &genesis.seal_key)
            .map_err(|error| format!("genesis line: {error}"))
    }

    /// The same from the first line of a log, without its LF.
    ///
    /// # Errors
    /// A message.
    pub fn of_first_line(bytes: &[u8]) -> Result<LogIdentity, String> {
        let line = line::parse(bytes).map_err(|error| error.to_string())?;
        if line.kind != "genesis" {
            return Err("the first line is not a genesis line".to_owned());
        }
        let genesis: Genesis =
            serde_json::from_str(&line.body()).map_err(|error| format!("genesis line: {error}"))?;
        LogIdentity::of_genesis(&genesis)
    }

    /// The seal key as lines have it.
    pub fn seal_key_hex(&self) -> String {
        hex(self.seal_key.as_bytes())
    }
}

/// Who rotates keys, when and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// The gate's clock.
    pub timestamp: Time,
    /// The person.
    pub by: Principal,
    /// One line, not empty, at most [`REASON_BYTES_MAX`] bytes.
    pub reason: String,
}

/// Whether this can be the reason of a rotation, or of giving up a head.
pub fn is_reason(text: &str) -> bool {
    !text.trim().is_empty() && text.len() <= REASON_BYTES_MAX && !text.chars().any(char::is_control)
}

impl Rotation {
    /// Hands over from `old` to `new` in line `seq` behind the line with leaf hash `prev`.
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
        let text = rotation.text(&old.origin, seq, prev);
        rotation.old_log_sig = STANDARD.encode(old.log.sign_text(&text));
        rotation.old_seal_sig = STANDARD.encode(old.seal.sign(text.as_bytes()).to_bytes());
        rotation.new_log_sig = STANDARD.encode(new.log.sign_text(&text));
        rotation
    }

    /// What is signed: a line each.
    fn text(&self, origin: &str, seq: u64, prev: &Hash) -> String {
        let Rotation { timestamp, by, reason, log_key, seal_key, .. } = self;
        format!(
            "spoolgate-rotate/v1\n{origin}\n{seq}\n{prev}\n{timestamp}\n{by}\n{reason}\n{log_key}\n{seal_key}\n"
        )
    }

    /// The keys in force from its file on, if `old`, those in force before, handed over to them at this place.
    ///
    /// # Errors
    /// A message.
    pub fn check(&self, old: &LogIdentity, seq: u64, prev: &Hash) -> Result<LogIdentity, String> {
        let fail = |what: String| format!("rotate line {seq}: {what}");
        if !is_reason(&self.reason) {
            return Err(fail("its reason is not one line of text".to_owned()));
        }
        let new = LogIdentity::new(&old.origin, &self.log_key, &self.seal_key).map_err(fail)?;
        if new.log_key == old.log_key || new.seal_key == old.seal_key {
            return Err(fail("a key stays what it was".to_owned()));
        }
        let text = self.text(&old.origin, seq, prev);
        let by_log_key = |key: &VerifierKey, signature: &str| {
            STANDARD.decode(signature).is_ok_and(|bytes| key.verifies(&text, &bytes))
        };
        let by_seal_key = |key: &VerifyingKey, signature: &str| {
            let signature = STANDARD.decode(signature).ok();
            let signature = signature.and_then(|bytes| Signature::from_slice(&bytes).ok());
            signature.is_some_and(|signature| key.verify_strict(text.as_bytes(), &signature).is_ok())
        };
        for (whose, holds) in [
            ("old log key", by_log_key(&old.log_key, &self.old_log_sig)),
            ("old seal key", by_seal_key(&old.seal_key, &self.old_seal_sig)),
            ("new log key", by_log_key(&new.log_key, &self.new_log_sig)),
        ] {
            if !holds {
                return Err(fail(format!("the signature of the {whose} does not verify")));
            }
        }
        Ok(new)
    }

    /// The same for a line's body.
    ///
    /// # Errors
    /// A message.
    pub fn check_line(line: &line::Line<'_>, old: &LogIdentity) -> Result<LogIdentity, String> {
        let rotation: Rotation = serde_json::from_str(&line.body())
            .map_err(|error| format!("rotate line {}: {error}", line.seq))?;
        rotation.check(old, line.seq, &line.prev)
    }
}

/// Keys, and the line from which they count.
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
    /// The keys that are in force where this begins.
    pub fn from(line: u64, keys: LogIdentity) -> Timeline {
        Timeline(vec![KeysFrom { line, keys }])
    }

    /// Those in force from `line` on, unless they are what was in force before.
    pub fn extend(&mut self, line: u64, keys: &LogIdentity) {
        if self.0.last().is_none_or(|last| last.keys != *keys) {
            self.0.push(KeysFrom { line, keys: keys.clone() });
        }
    }

    /// The keys that count for a head of `size` lines, and for line `size`, which seals it: an ended key signs for
    /// nothing later, a new one for nothing earlier.
    pub fn at(&self, size: u64) -> Option<&LogIdentity> {
        self.0.iter().rev().find(|from| from.line <= size).map(|from| &from.keys)
    }

    /// The last ones.
    pub fn last(&self) -> Option<&LogIdentity> {
        self.0.last().map(|from| &from.keys)
    }

    /// All of them.
    pub fn all(&self) -> &[KeysFrom] {
        &self.0
    }
}
