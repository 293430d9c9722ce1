//! C2SP signed notes (<https://c2sp.org/signed-note>) and checkpoints
//! (<https://c2sp.org/tlog-checkpoint>) with Ed25519 keys. Pure.
//!
//! A note is text, an empty line, and signature lines. A checkpoint is a note whose text is the
//! head of a log. Notes come from files and from other machines, so nothing in a note is trusted
//! before [`open_note`] has returned its text.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use sha2::{Digest as _, Sha256};

use super::tree::Hash;

/// Signature type byte of plain Ed25519 in signed-note; the only type supported here.
const ALGORITHM_ED25519: u8 = 0x01;

/// What a signature line starts with: em dash U+2014 and a space.
const SIGNATURE_PREFIX: &str = "\u{2014} ";

/// Largest note that is read, in bytes: a million, as in Go's sumdb/note.
pub const NOTE_BYTES_MAX: usize = 1_000_000;

/// Most signature lines in one note: 100, as in Go's sumdb/note. The specification demands at
/// least 16.
pub const SIGNATURE_LINES_MAX: usize = 100;

/// Why a verifier or signer key is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The name is empty or holds a space, a plus sign or a control character.
    #[error("key name `{}` is empty or holds a space, a plus sign or a control character",
        .name.escape_debug())]
    Name {
        /// The name as given.
        name: String,
    },
    /// The text does not have the form `<name>+<key id>+<base64>`.
    #[error(
        "verifier key is not of the form `<name>+<8 hex digits>+<base64>`, as `spoolgate init` \
            printed it"
    )]
    Form,
    /// The type byte before the public key does not mean Ed25519.
    #[error(
        "verifier key has algorithm {algorithm:#04x}, only Ed25519 ({ALGORITHM_ED25519:#04x}) is \
            supported"
    )]
    Algorithm {
        /// The byte found.
        algorithm: u8,
    },
    /// The bytes are not an Ed25519 public key, or one of small order under which anybody can sign.
    #[error("not a usable Ed25519 public key")]
    Point,
    /// The key id in the text differs from the one computed from name and key, so one of the three
    /// was mistyped.
    #[error("verifier key states key id `{}`, but its name and key give \
        `{expected}`", .found.escape_debug())]
    Id {
        /// The id as written.
        found: String,
        /// The id computed.
        expected: KeyId,
    },
}

/// Why a note or a checkpoint was not accepted, or not signed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoteError {
    /// Larger than [`NOTE_BYTES_MAX`].
    #[error("note is {size_bytes} bytes, the limit is {limit_bytes}")]
    TooLarge {
        /// Bytes in the note.
        size_bytes: usize,
        /// The limit.
        limit_bytes: usize,
    },
    /// A control character other than newline.
    #[error("control character at byte {offset} of the note")]
    ControlCharacter {
        /// Byte offset from the start of the text that was given.
        offset: usize,
    },
    /// The last line of the text or of the note has no newline.
    #[error("the last line does not end in a newline")]
    NoFinalNewline,
    /// There is no empty line with signature lines after it.
    #[error("note has no signature lines after an empty line")]
    NoSignatures,
    /// A line of the signature block is not a signature line.
    #[error("signature line {line} is malformed")]
    SignatureLine {
        /// Number of the line within the signature block, from 1.
        line: usize,
    },
    /// More than [`SIGNATURE_LINES_MAX`] signature lines.
    #[error("note has more than {limit} signature lines")]
    TooManySignatures {
        /// The limit.
        limit: usize,
    },
    /// Two different known keys have the same name and key id, so a signature cannot be assigned.
    #[error("two known keys have the name `{name}+{id}`")]
    AmbiguousKey {
        /// Name of both keys.
        name: String,
        /// Key id of both keys.
        id: KeyId,
    },
    /// A signature line by a known key does not verify.
    #[error("signature by known key `{name}+{id}` does not verify")]
    BadSignature {
        /// Name of the key.
        name: String,
        /// Key id of the key.
        id: KeyId,
    },
    /// No signature line is by a known key.
    #[error("note has no signature by a known key")]
    NoKnownSignature,
    /// A checkpoint of fewer than three lines.
    #[error("checkpoint has fewer than three lines")]
    TooFewLines,
    /// An empty line in a checkpoint, an empty origin included.
    #[error("line {line} of the checkpoint is empty")]
    EmptyLine {
        /// Line number, from 1.
        line: usize,
    },
    /// The tree size is not a canonical decimal number that fits 64 bits.
    #[error("checkpoint tree size is not a plain decimal number without leading zeros")]
    TreeSize,
    /// The root hash is not the canonical base64 of 32 bytes.
    #[error("checkpoint root hash is not the base64 of 32 bytes")]
    RootHash,
    /// A field to be signed is empty or contains a newline, or fields contradict each other, so
    /// that the text would mean something else.
    #[error("the fields to be signed do not survive their own text form")]
    Ambiguous,
    /// The checkpoint is of another log.
    #[error("checkpoint is of log `{found}`, expected `{expected}`")]
    Origin {
        /// The origin line found; the signature over it is good.
        found: String,
        /// The origin that was expected.
        expected: String,
    },
}

/// First four bytes of `SHA-256(name || 0x0A || 0x01 || public key)` (signed-note, "Ed25519
/// signatures").
///
/// Prints as 8 lower-case hex digits. A label to find a key by, much too short to prove anything.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyId([u8; 4]);

impl KeyId {
    fn of(name: &str, key: &VerifyingKey) -> KeyId {
        let digest = Sha256::new()
            .chain_update(name)
            .chain_update([b'\n', ALGORITHM_ED25519])
            .chain_update(key.as_bytes())
            .finalize();
        let [a, b, c, d, ..]: [u8; 32] = digest.into();
        KeyId([a, b, c, d])
    }

    /// The four bytes, in the order in which they precede a signature.
    pub const fn as_bytes(&self) -> &[u8; 4] {
        &self.0
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", u32::from_be_bytes(self.0))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Checks that a name is not empty and contains no Unicode space and no plus (signed-note,
/// "Format"). Refuses control characters as well, because a note that named such a key would be
/// malformed.
fn check_name(name: &str) -> Result<(), KeyError> {
    let bad = |c: char| c == '+' || c.is_whitespace() || c.is_control();
    if name.is_empty() || name.contains(bad) {
        return Err(KeyError::Name {
            name: name.to_owned(),
        });
    }
    Ok(())
}

/// A named Ed25519 public key. Text form (vkey): `<name>+<8 hex key id>+<base64(0x01 || 32 key
/// bytes)>`.
#[derive(Clone, PartialEq, Eq)]
pub struct VerifierKey {
    name: String,
    id: KeyId,
    key: VerifyingKey,
}

impl VerifierKey {
    /// Names a public key.
    ///
    /// # Errors
    /// Returns [`KeyError::Name`] for a name that is not allowed in a note, or [`KeyError::Point`]
    /// for bytes that are not a point of the curve or are one of its few points of small order.
    pub fn new(name: &str, public_key: &[u8; 32]) -> Result<VerifierKey, KeyError> {
        check_name(name)?;
        let key = VerifyingKey::from_bytes(public_key).map_err(|_| KeyError::Point)?;
        if key.is_weak() {
            return Err(KeyError::Point);
        }
        Ok(VerifierKey {
            name: name.to_owned(),
            id: KeyId::of(name, &key),
            key,
        })
    }

    /// The key name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The key id.
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// The 32 bytes of the public key.
    pub fn public_key(&self) -> &[u8; 32] {
        self.key.as_bytes()
    }

    /// Whether `signature` is a valid signature of this key over `text`: 64 bytes that pass strict
    /// verification, which accepts only one encoding of a signature and no keys or nonces of small
    /// order.
    pub(super) fn verifies(&self, text: &str, signature: &[u8]) -> bool {
        Signature::from_slice(signature)
            .is_ok_and(|signature| self.key.verify_strict(text.as_bytes(), &signature).is_ok())
    }
}

impl FromStr for VerifierKey {
    type Err = KeyError;

    /// Reads a vkey. Only the text that [`VerifierKey`] prints is accepted, so upper-case hex and
    /// loose base64 are [`KeyError::Id`] and [`KeyError::Form`].
    fn from_str(text: &str) -> Result<VerifierKey, KeyError> {
        // The base64 may contain plus signs, but name and id may not, so the first two plus signs
        // split the text.
        let (name, rest) = text.split_once('+').ok_or(KeyError::Form)?;
        let (id, key) = rest.split_once('+').ok_or(KeyError::Form)?;
        let bytes = STANDARD.decode(key).map_err(|_| KeyError::Form)?;
        let (algorithm, key) = bytes.split_first().ok_or(KeyError::Form)?;
        if *algorithm != ALGORITHM_ED25519 {
            return Err(KeyError::Algorithm {
                algorithm: *algorithm,
            });
        }
        let key = VerifierKey::new(name, key.try_into().map_err(|_| KeyError::Form)?)?;
        if key.id.to_string() != id {
            return Err(KeyError::Id {
                found: id.to_owned(),
                expected: key.id,
            });
        }
        Ok(key)
    }
}

impl fmt::Display for VerifierKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = vec![ALGORITHM_ED25519];
        bytes.extend_from_slice(self.key.as_bytes());
        write!(f, "{}+{}+{}", self.name, self.id, STANDARD.encode(bytes))
    }
}

impl fmt::Debug for VerifierKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VerifierKey({self})")
    }
}

/// A named Ed25519 secret key. Its memory is wiped when it is dropped, and it never prints the
/// secret.
pub struct SignerKey {
    verifier: VerifierKey,
    key: SigningKey,
}

impl SignerKey {
    /// Makes the key from its 32 secret bytes (the seed of RFC 8032). The caller wipes its own copy
    /// of them.
    ///
    /// # Errors
    /// Returns [`KeyError::Name`] for a name that is not allowed in a note.
    pub fn from_seed(name: &str, seed: &[u8; 32]) -> Result<SignerKey, KeyError> {
        let key = SigningKey::from_bytes(seed);
        Ok(SignerKey {
            verifier: VerifierKey::new(name, key.verifying_key().as_bytes())?,
            key,
        })
    }

    /// The key name.
    pub fn name(&self) -> &str {
        self.verifier.name()
    }

    /// The public key, to be published as the vkey of the log.
    pub fn verifier(&self) -> &VerifierKey {
        &self.verifier
    }

    /// Signs a text that is not a note. Its first line must be one that no note can have.
    pub(super) fn sign_text(&self, text: &str) -> [u8; 64] {
        self.key.sign(text.as_bytes()).to_bytes()
    }
}

impl fmt::Debug for SignerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "SignerKey({}+{}, secret)",
            self.verifier.name, self.verifier.id
        )
    }
}

/// Checks that a text contains no control character except newlines, and that its last line ends in
/// a newline (signed-note, "Format").
fn check_text(text: &str) -> Result<(), NoteError> {
    if let Some(offset) = text.bytes().position(|byte| byte < b' ' && byte != b'\n') {
        return Err(NoteError::ControlCharacter { offset });
    }
    if !text.ends_with('\n') {
        return Err(NoteError::NoFinalNewline);
    }
    Ok(())
}

/// Signs `text`: the text, an empty line, and the line `— <name> <base64(key id || signature)>`.
///
/// The signature is deterministic, so the same text and key give the same note.
///
/// # Errors
/// Returns [`NoteError::ControlCharacter`] or [`NoteError::NoFinalNewline`] for a text that is not
/// allowed in a note, or [`NoteError::TooLarge`] for a note that [`open_note`] would not read.
pub fn sign_note(text: &str, signer: &SignerKey) -> Result<String, NoteError> {
    check_text(text)?;
    let mut signature = signer.verifier.id.0.to_vec();
    signature.extend_from_slice(&signer.key.sign(text.as_bytes()).to_bytes());
    let note = format!(
        "{text}\n{SIGNATURE_PREFIX}{} {}\n",
        signer.name(),
        STANDARD.encode(signature)
    );
    check_size(&note)?;
    Ok(note)
}

fn check_size(note: &str) -> Result<(), NoteError> {
    if note.len() > NOTE_BYTES_MAX {
        return Err(NoteError::TooLarge {
            size_bytes: note.len(),
            limit_bytes: NOTE_BYTES_MAX,
        });
    }
    Ok(())
}

/// One line of a signature block.
struct SignatureLine<'n> {
    name: &'n str,
    id: KeyId,
    /// The bytes after the key id; at least one byte, and 64 bytes if the key is an Ed25519 key.
    signature: Vec<u8>,
}

impl SignatureLine<'_> {
    /// Reads a line without its newline; `None` if it is malformed.
    fn parse(line: &str) -> Option<SignatureLine<'_>> {
        let (name, base64) = line.strip_prefix(SIGNATURE_PREFIX)?.split_once(' ')?;
        check_name(name).ok()?;
        let bytes = STANDARD.decode(base64).ok()?;
        let (id, signature) = bytes.split_first_chunk()?;
        (!signature.is_empty()).then(|| SignatureLine {
            name,
            id: KeyId(*id),
            signature: signature.to_vec(),
        })
    }

    /// The known key that this line claims to be by.
    fn find_key<'k>(&self, known: &'k [VerifierKey]) -> Result<Option<&'k VerifierKey>, NoteError> {
        let mut same = known
            .iter()
            .filter(|key| key.name == self.name && key.id == self.id);
        let found = same.next();
        // The same key listed twice is harmless; two keys behind one label are not.
        if same.any(|key| Some(key) != found) {
            return Err(NoteError::AmbiguousKey {
                name: self.name.to_owned(),
                id: self.id,
            });
        }
        Ok(found)
    }
}

/// Splits a note at its last empty line into the signed text (with its final newline) and the
/// signature lines.
fn split_note(note: &str) -> Result<(&str, &str), NoteError> {
    let empty_line = note.rfind("\n\n").ok_or(NoteError::NoSignatures)?;
    let (text, rest) = note
        .split_at_checked(empty_line + 1)
        .ok_or(NoteError::NoSignatures)?;
    // `rest` is the newline of the empty line and the signature block, which ends in a newline of
    // its own.
    let block = rest
        .strip_prefix('\n')
        .and_then(|rest| rest.strip_suffix('\n'))
        .ok_or(NoteError::NoSignatures)?;
    Ok((text, block))
}

/// Checks the signatures of a note and returns its text, final newline included, and the names of
/// the known keys that signed it, in the order of their lines.
///
/// Lines by unknown keys must be well formed and are otherwise ignored. A line is by a known key if
/// both name and key id match that key. Of several lines by one known key only the first counts.
/// Two known keys with the same name are two signers, so that name is returned twice.
///
/// # Errors
/// Returns [`NoteError`] if the note is malformed, if a known key's signature does not verify (that
/// rejects the whole note), or if no known key signed it. No part of a rejected note may be used.
pub fn open_note<'n>(
    note: &'n str,
    known: &[VerifierKey],
) -> Result<(&'n str, Vec<&'n str>), NoteError> {
    check_size(note)?;
    check_text(note)?;
    let (text, block) = split_note(note)?;
    // Counted before any key is tried, so that a long block costs no signature checks.
    if block.split('\n').nth(SIGNATURE_LINES_MAX).is_some() {
        return Err(NoteError::TooManySignatures {
            limit: SIGNATURE_LINES_MAX,
        });
    }
    let mut names = Vec::new();
    let mut seen: Vec<&VerifierKey> = Vec::new();
    for (index, line) in block.split('\n').enumerate() {
        let line =
            SignatureLine::parse(line).ok_or(NoteError::SignatureLine { line: index + 1 })?;
        let Some(key) = line.find_key(known)? else {
            continue;
        };
        if seen.contains(&key) {
            continue;
        }
        if !key.verifies(text, &line.signature) {
            return Err(NoteError::BadSignature {
                name: key.name.clone(),
                id: key.id,
            });
        }
        seen.push(key);
        names.push(line.name);
    }
    if names.is_empty() {
        return Err(NoteError::NoKnownSignature);
    }
    Ok((text, names))
}

/// The head of a log: what a checkpoint's text says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Name of the log: a schema-less URL by convention. Non-empty, one line.
    pub origin: String,
    /// Number of leaves in the tree.
    pub size: u64,
    /// Root of the tree.
    pub root: Hash,
    /// Further lines, each non-empty, that other logs may add. The signature covers them; they have
    /// no other meaning here.
    pub extensions: Vec<String>,
}

impl Checkpoint {
    /// A checkpoint without extension lines, as spoolgate writes it.
    pub fn new(origin: &str, size: u64, root: Hash) -> Checkpoint {
        Checkpoint {
            origin: origin.to_owned(),
            size,
            root,
            extensions: Vec::new(),
        }
    }

    /// The note text: origin, decimal size and base64 root, then any extensions, each ended by a
    /// newline (tlog-checkpoint, "Note text").
    pub fn text(&self) -> String {
        let mut text = format!(
            "{}\n{}\n{}\n",
            self.origin,
            self.size,
            self.root.to_base64()
        );
        for line in &self.extensions {
            text.push_str(line);
            text.push('\n');
        }
        text
    }

    /// Reads a note text. [`Checkpoint::text`] of the result is the same text, byte for byte.
    ///
    /// # Errors
    /// Returns [`NoteError`] for fewer than three lines, an empty line, a missing final newline, a
    /// control character, a size that is not canonical, or a root that is not the canonical base64
    /// of 32 bytes. Control characters include DEL and U+0080 to U+009F, which the specification
    /// allows: their only use is to confuse a terminal.
    pub fn parse(text: &str) -> Result<Checkpoint, NoteError> {
        if let Some((offset, _)) = text
            .char_indices()
            .find(|(_, c)| c.is_control() && *c != '\n')
        {
            return Err(NoteError::ControlCharacter { offset });
        }
        let lines = text
            .strip_suffix('\n')
            .ok_or(NoteError::NoFinalNewline)?
            .split('\n');
        if let Some(index) = lines.clone().position(str::is_empty) {
            return Err(NoteError::EmptyLine { line: index + 1 });
        }
        let mut lines = lines.map(str::to_owned);
        let mut next = || lines.next().ok_or(NoteError::TooFewLines);
        let (origin, size, root) = (next()?, next()?, next()?);
        Ok(Checkpoint {
            origin,
            size: parse_size(&size).ok_or(NoteError::TreeSize)?,
            root: Hash::from_base64(&root).ok_or(NoteError::RootHash)?,
            extensions: lines.collect(),
        })
    }
}

/// Parses a decimal number in its canonical form. `u64::from_str` alone would accept `+1` and `01`.
fn parse_size(text: &str) -> Option<u64> {
    text.parse()
        .ok()
        .filter(|size: &u64| size.to_string() == text)
}

/// Signs a checkpoint as a note.
///
/// ```
/// use spoolgate_ledger::note::{Checkpoint, SignerKey, open_checkpoint, sign_checkpoint};
/// use spoolgate_ledger::tree::leaf_hash;
///
/// let signer = SignerKey::from_seed("example.org/log", &[7; 32])?;
/// let head = Checkpoint::new("example.org/log", 1, leaf_hash(b"the only line"));
/// let note = sign_checkpoint(&head, &signer)?;
/// assert_eq!(open_checkpoint(&note, signer.verifier(), "example.org/log")?, head);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns the error of [`Checkpoint::parse`] for the checkpoint's text, or
/// [`NoteError::Ambiguous`] if the text reads back as another checkpoint (an origin with a
/// newline): a log must never sign a head that it did not mean.
pub fn sign_checkpoint(checkpoint: &Checkpoint, signer: &SignerKey) -> Result<String, NoteError> {
    let text = checkpoint.text();
    if Checkpoint::parse(&text)? != *checkpoint {
        return Err(NoteError::Ambiguous);
    }
    sign_note(&text, signer)
}

/// Opens a checkpoint note of the log `origin` that `key` must have signed. Other signers' lines
/// are ignored.
///
/// ```
/// use spoolgate_ledger::note::{VerifierKey, open_checkpoint};
///
/// let key = "example.org/log+d3e49c8a+AWksKng6bXZg10G5xS93kpMNoz9Hdu4hkpWOLKnrr1xf";
/// let key: VerifierKey = key.parse()?;
/// let note = std::fs::read_to_string("testdata/log/checkpoint")?;
/// let head = open_checkpoint(&note, &key, "example.org/log")?;
/// assert_eq!(head.size, 10);
/// assert!(open_checkpoint(&note.replace("\n10\n", "\n11\n"), &key, "example.org/log").is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns the errors of [`open_note`] and [`Checkpoint::parse`], or [`NoteError::Origin`] for a
/// checkpoint of another log: one key may serve several logs, and the name in a signature line is
/// not part of the signed text.
pub fn open_checkpoint(
    note: &str,
    key: &VerifierKey,
    origin: &str,
) -> Result<Checkpoint, NoteError> {
    let (text, _) = open_note(note, std::slice::from_ref(key))?;
    let checkpoint = Checkpoint::parse(text)?;
    if checkpoint.origin != origin {
        return Err(NoteError::Origin {
            found: checkpoint.origin,
            expected: origin.to_owned(),
        });
    }
    Ok(checkpoint)
}

/// Returns what a checkpoint states without checking its signature: its size decides which key must
/// have signed it.
pub fn claimed(note: &str) -> Option<Checkpoint> {
    check_size(note).ok()?;
    let (text, _) = split_note(note).ok()?;
    Checkpoint::parse(text).ok()
}

#[cfg(test)]
mod tests;
