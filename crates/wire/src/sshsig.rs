//! SSH signatures of files, as `ssh-keygen -Y sign` writes them, and the list of signers in the
//! format of git's allowed_signers. Ed25519 keys only. Does not run ssh-keygen.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use ed25519_dalek::{Signature, VerifyingKey};
use sha2::{Digest, Sha256, Sha512};

use super::time::Time;

/// The namespace of approvals: `ssh-keygen -Y sign -n spoolgate`.
pub const NAMESPACE: &str = "spoolgate";
/// Largest signature file, in bytes.
pub const SIGNATURE_BYTES_MAX: usize = 16 * 1024;
/// Largest list of signers, in bytes.
pub const SIGNERS_BYTES_MAX: usize = 256 * 1024;
/// Longest identity that is shown, in characters.
const IDENTITY_CHARS_MAX: usize = 200;

const MAGIC: &[u8] = b"SSHSIG";
const BEGIN: &str = "-----BEGIN SSH SIGNATURE-----";
const END: &str = "-----END SSH SIGNATURE-----";
const KEY_TYPE: &[u8] = b"ssh-ed25519";

/// Why a list of signers cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {fault}")]
#[non_exhaustive]
pub struct SignersError {
    /// Number of the first bad line, from 1.
    pub line: usize,
    /// What is wrong with it.
    #[source]
    pub fault: SignerFault,
}

/// What is wrong with a line of the list. Texts are without control characters, and truncated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SignerFault {
    /// A member of the line is missing, or a quote around one is not closed.
    #[error("it ends too early")]
    Short,
    /// A quote in the options is not closed.
    #[error("a quote is not closed")]
    Quote,
    /// The key is of this type.
    #[error("`{0}` is not ssh-ed25519, the only accepted kind of key")]
    KeyType(String),
    /// The key is not one in base64.
    #[error("the key cannot be read")]
    Key,
    /// An option is given twice.
    #[error("option `{0}` is given twice")]
    Twice(String),
    /// An option that this program does not know.
    #[error("unknown option `{0}`")]
    UnknownOption(String),
    /// The key may certify other keys.
    #[error("certificates are not accepted: name the key itself")]
    Certificate,
    /// The value of an option is not a time.
    #[error("`{0}` is not a time such as 20270101 or 202701011200Z")]
    Time(String),
}

/// Why a signature does not count.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SignatureError {
    /// The file is not an SSH signature.
    #[error("it is not an SSH signature")]
    Form,
    /// The signature is of another namespace.
    #[error("it was made for another purpose: sign with `-n {NAMESPACE}`")]
    Namespace,
    /// The key or the signature is of another algorithm.
    #[error("it is not by an Ed25519 key, the only accepted kind")]
    Algorithm,
    /// The message was hashed with an unknown algorithm.
    #[error("the signature's hash is neither sha512 nor sha256")]
    Hash,
    /// The key's bytes are not a point of the curve.
    #[error("the key is not an Ed25519 key")]
    Key,
    /// The signature does not verify over the message.
    #[error("the signature does not fit this file")]
    Message,
    /// The list does not have the key with this fingerprint.
    #[error("key {0} is not among the signers")]
    Unknown(String),
    /// The list has the key with this fingerprint, but for other namespaces or times.
    #[error("key {0} may not sign for `{NAMESPACE}` at this time")]
    NotNow(String),
}

/// The list of keys that may sign.
///
/// ```
/// use spoolgate_wire::sshsig::Signers;
/// use spoolgate_wire::time::Time;
///
/// let signers = Signers::read(
///     "ann@example.org ssh-ed25519 \
///      AAAAC3NzaC1lZDI1NTE5AAAAICyg3PYERNsWi/Gt8LS5dZTCrLn7cm55zAqgt/KY6HCM",
/// )?;
/// let signature = "-----BEGIN SSH SIGNATURE-----
/// U1NIU0lHAAAAAQAAADMAAAALc3NoLWVkMjU1MTkAAAAgLKDc9gRE2xaL8a3wtLl1lMKsuf
/// tybnnMCqC38pjocIwAAAAJc3Bvb2xnYXRlAAAAAAAAAAZzaGE1MTIAAABTAAAAC3NzaC1l
/// ZDI1NTE5AAAAQG269WZtt3Q3a08gEbiVImLoMOuwVNHXRcLx3USeNy38iZWTGJkI+MrCeN
/// ia46tfkLf+r5ADdSu7EksrT0zxPAs=
/// -----END SSH SIGNATURE-----";
/// let signed = signers.verify(b"a limit of 5", signature, Time::EPOCH)?;
/// assert_eq!(signed.identity, "ann@example.org");
/// assert!(signers.verify(b"a limit of 9", signature, Time::EPOCH).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signers(Vec<Signer>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Signer {
    identity: String,
    namespaces: Option<Vec<String>>,
    valid_after: Option<Time>,
    valid_before: Option<Time>,
    key: [u8; 32],
}

/// The signer of a verified signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    /// The principals in the signer's line of the list.
    pub identity: String,
    /// The key's fingerprint, as `ssh-keygen -l` shows it.
    pub key: String,
}

/// Reads length-prefixed fields (RFC 4251).
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(count)?;
        self.0 = tail;
        Some(head)
    }

    fn number(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_be_bytes)
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let length = self.number()?;
        self.take(usize::try_from(length).ok()?)
    }

    fn end(&self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}

fn push_text(out: &mut Vec<u8>, text: &[u8]) {
    out.extend(u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes());
    out.extend(text);
}

fn ed25519_key(blob: &[u8]) -> Option<[u8; 32]> {
    let mut fields = Fields(blob);
    let is_known = fields.text()? == KEY_TYPE;
    let key = fields.text()?.try_into().ok()?;
    fields.end()?;
    is_known.then_some(key)
}

fn fingerprint(key: &[u8; 32]) -> String {
    let mut blob = Vec::new();
    push_text(&mut blob, KEY_TYPE);
    push_text(&mut blob, key);
    format!("SHA256:{}", STANDARD_NO_PAD.encode(Sha256::digest(blob)))
}

impl Signers {
    /// Reads the list.
    ///
    /// # Errors
    /// Returns [`SignersError`] for the first bad line: a list with such a line approves nothing.
    pub fn read(text: &str) -> Result<Signers, SignersError> {
        let mut signers = Vec::new();
        for (line, number) in text.lines().zip(1_usize..) {
            let line = line.trim();
            if !line.is_empty() && !line.starts_with('#') {
                signers.push(signer(line).map_err(|fault| SignersError {
                    line: number,
                    fault,
                })?);
            }
        }
        Ok(Signers(signers))
    }

    /// Returns the identities that have a key, sorted.
    pub fn identities(&self) -> BTreeSet<&str> {
        let signers = self.0.iter();
        signers.map(|signer| signer.identity.as_str()).collect()
    }

    /// Verifies a signature over `message` at the time `now`, and returns its signer.
    ///
    /// # Errors
    /// Returns [`SignatureError`] if the signature does not count.
    pub fn verify(
        &self,
        message: &[u8],
        armored: &str,
        now: Time,
    ) -> Result<Signed, SignatureError> {
        let (key, reserved, hash_name, signature) = signature(armored)?;
        let hash = match hash_name {
            ref name if name == b"sha512" => Sha512::digest(message).to_vec(),
            ref name if name == b"sha256" => Sha256::digest(message).to_vec(),
            _ => return Err(SignatureError::Hash),
        };
        let mut signed = MAGIC.to_vec();
        for field in [NAMESPACE.as_bytes(), &reserved, &hash_name, &hash] {
            push_text(&mut signed, field);
        }
        let verifying = VerifyingKey::from_bytes(&key).map_err(|_| SignatureError::Key)?;
        verifying
            .verify_strict(&signed, &Signature::from_bytes(&signature))
            .map_err(|_| SignatureError::Message)?;
        let own: Vec<&Signer> = self.0.iter().filter(|signer| signer.key == key).collect();
        if own.is_empty() {
            return Err(SignatureError::Unknown(fingerprint(&key)));
        }
        let counts = |signer: &&&Signer| {
            // As in ssh, a matching pattern with `!` outweighs all others.
            let has_namespace = |names: &Vec<String>| {
                let is = |pattern: &str| matches(pattern.as_bytes(), NAMESPACE.as_bytes());
                let is_barred = names
                    .iter()
                    .any(|name| name.strip_prefix('!').is_some_and(is));
                !is_barred && names.iter().any(|name| is(name))
            };
            signer.namespaces.as_ref().is_none_or(has_namespace)
                && signer.valid_after.is_none_or(|after| now >= after)
                && signer.valid_before.is_none_or(|before| now < before)
        };
        let signer = own
            .iter()
            .find(counts)
            .ok_or_else(|| SignatureError::NotNow(fingerprint(&key)))?;
        Ok(Signed {
            identity: signer.identity.clone(),
            key: fingerprint(&key),
        })
    }
}

/// Key, reserved field, name of the hash, and the signature itself.
type Parts = ([u8; 32], Vec<u8>, Vec<u8>, [u8; 64]);

fn signature(armored: &str) -> Result<Parts, SignatureError> {
    let inner = armored
        .trim()
        .strip_prefix(BEGIN)
        .and_then(|rest| rest.strip_suffix(END));
    let inner: String = inner
        .ok_or(SignatureError::Form)?
        .split_ascii_whitespace()
        .collect();
    let bytes = STANDARD.decode(inner).map_err(|_| SignatureError::Form)?;
    let mut fields = Fields(&bytes);
    let mut read = || {
        if fields.take(MAGIC.len())? != MAGIC || fields.number()? != 1 {
            return None;
        }
        let parts = (
            fields.text()?,
            fields.text()?,
            fields.text()?,
            fields.text()?,
            fields.text()?,
        );
        fields.end()?;
        Some(parts)
    };
    let (key, namespace, reserved, hash, signature) = read().ok_or(SignatureError::Form)?;
    if namespace != NAMESPACE.as_bytes() {
        return Err(SignatureError::Namespace);
    }
    let key = ed25519_key(key).ok_or(SignatureError::Algorithm)?;
    let mut fields = Fields(signature);
    let is_known = fields.text() == Some(KEY_TYPE);
    let signature = fields
        .text()
        .and_then(|bytes| <[u8; 64]>::try_from(bytes).ok());
    match signature.filter(|_| is_known && fields.end().is_some()) {
        Some(signature) => Ok((key, reserved.to_vec(), hash.to_vec(), signature)),
        None => Err(SignatureError::Algorithm),
    }
}

/// Reads a line: principals, optional options, type of key, key, comment.
fn signer(line: &str) -> Result<Signer, SignerFault> {
    let (principals, rest) = word(line)?;
    let (next, after) = word(rest)?;
    let (options, key_type, rest) = if is_key_type(next) {
        ("", next, after)
    } else {
        let (key_type, after) = word(after)?;
        (next, key_type, after)
    };
    if key_type.as_bytes() != KEY_TYPE {
        return Err(SignerFault::KeyType(short(key_type)));
    }
    let blob = rest
        .split_ascii_whitespace()
        .next()
        .and_then(|text| STANDARD.decode(text).ok());
    let key = blob
        .and_then(|blob| ed25519_key(&blob))
        .ok_or(SignerFault::Key)?;
    let mut signer = Signer {
        identity: short(principals),
        namespaces: None,
        valid_after: None,
        valid_before: None,
        key,
    };
    let mut named = BTreeSet::new();
    for option in split_options(options)? {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        if !named.insert(name.to_ascii_lowercase()) {
            return Err(SignerFault::Twice(short(name)));
        }
        let value = value
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'))
            .unwrap_or(value);
        match name.to_ascii_lowercase().as_str() {
            "namespaces" => signer.namespaces = Some(value.split(',').map(str::to_owned).collect()),
            "valid-after" => signer.valid_after = Some(time(value)?),
            "valid-before" => signer.valid_before = Some(time(value)?),
            "cert-authority" => return Err(SignerFault::Certificate),
            _ => return Err(SignerFault::UnknownOption(short(name))),
        }
    }
    Ok(signer)
}

fn short(text: &str) -> String {
    text.chars()
        .filter(|c| !c.is_control())
        .take(IDENTITY_CHARS_MAX)
        .collect()
}

fn is_key_type(word: &str) -> bool {
    ["ssh-", "ecdsa-", "sk-"]
        .iter()
        .any(|start| word.starts_with(start))
}

/// Returns the first word and the rest; blanks between quotes belong to the word.
fn word(text: &str) -> Result<(&str, &str), SignerFault> {
    let text = text.trim_start();
    let mut is_quoted = false;
    for (at, c) in text.char_indices() {
        match c {
            '"' => is_quoted = !is_quoted,
            ' ' | '\t' if !is_quoted => {
                let (word, rest) = text.split_at(at);
                return Ok((word, rest));
            }
            _ => {}
        }
    }
    if is_quoted || text.is_empty() {
        Err(SignerFault::Short)
    } else {
        Ok((text, ""))
    }
}

fn split_options(text: &str) -> Result<Vec<&str>, SignerFault> {
    let mut options = Vec::new();
    let mut is_quoted = false;
    let mut from = 0;
    for (at, c) in text.char_indices() {
        match c {
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => {
                options.extend(text.get(from..at));
                from = at.saturating_add(1);
            }
            _ => {}
        }
    }
    options.extend(text.get(from..).filter(|rest| !rest.is_empty()));
    if is_quoted {
        Err(SignerFault::Quote)
    } else {
        Ok(options)
    }
}

/// Reads `YYYYMMDD`, `YYYYMMDDHHMM` or `YYYYMMDDHHMMSS`, with or without `Z`: UTC in both cases.
fn time(text: &str) -> Result<Time, SignerFault> {
    let fail = || SignerFault::Time(short(text));
    let digits = text.strip_suffix('Z').unwrap_or(text);
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) || !matches!(digits.len(), 8 | 12 | 14) {
        return Err(fail());
    }
    let filled = format!("{digits:0<14}");
    let part = |from: usize, to: usize| filled.get(from..to).unwrap_or_default();
    let (date, clock) = (
        format!("{}-{}-{}", part(0, 4), part(4, 6), part(6, 8)),
        format!("{}:{}:{}", part(8, 10), part(10, 12), part(12, 14)),
    );
    Time::parse(&format!("{date}T{clock}Z")).map_err(|_| fail())
}

/// Whether a pattern with `*` and `?` matches, by the rules of ssh.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    // The last star in the pattern, and the position in the text up to which it matches.
    let (mut p, mut t) = (0_usize, 0_usize);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p = p.saturating_add(1);
            }
            Some(byte) if *byte == b'?' || text.get(t) == Some(byte) => {
                p = p.saturating_add(1);
                t = t.saturating_add(1);
            }
            _ => match &mut star {
                Some((at, taken)) => {
                    *taken = taken.saturating_add(1);
                    (p, t) = (at.saturating_add(1), *taken);
                }
                None => return false,
            },
        }
    }
    pattern.iter().skip(p).all(|byte| *byte == b'*')
}
