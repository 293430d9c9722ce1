//! SSH signatures of files, as `ssh-keygen -Y sign` writes them, and the list of signers in the
//! format of git's allowed_signers. Ed25519 keys only, in software or in a FIDO token. Does not run
//! ssh-keygen, and accepts nothing that it refuses.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use ed25519_dalek::{Signature, VerifyingKey};
use sha2::{Digest, Sha256, Sha512};

use super::time::Time;

mod line;

pub use line::SignerFault;
use line::{matches, signer};

/// The namespace of approvals: `ssh-keygen -Y sign -n spoolgate`.
pub const NAMESPACE: &str = "spoolgate";
/// Largest signature file, in bytes.
pub const SIGNATURE_BYTES_MAX: usize = 16 * 1024;
/// Largest list of signers, in bytes.
pub const SIGNERS_BYTES_MAX: usize = 256 * 1024;

const MAGIC: &[u8] = b"SSHSIG";
const BEGIN: &str = "-----BEGIN SSH SIGNATURE-----\n";
const END: &str = "\n-----END SSH SIGNATURE-----";
const ED25519: &str = "ssh-ed25519";
const FIDO: &str = "sk-ssh-ed25519@openssh.com";
/// Flag of FIDO: a person touched the token.
const USER_PRESENT: u8 = 0x01;
/// Flag of FIDO: the token verified the person.
const USER_VERIFIED: u8 = 0x04;

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
    #[error("it is not by an Ed25519 key, in software or in a FIDO token")]
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
pub struct Signers {
    keys: Vec<Signer>,
    skipped: Vec<Skipped>,
}

/// A line of the list that counts for nothing, because its key is of another type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Number of the line, from 1.
    pub line: usize,
    /// The type of its key.
    pub key_type: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Signer {
    identity: String,
    namespaces: Option<Vec<String>>,
    valid_after: Option<Time>,
    valid_before: Option<Time>,
    key: Key,
}

/// A public key.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    point: [u8; 32],
    /// For a key in a FIDO token: the application that the token knows it by.
    application: Option<Vec<u8>>,
}

/// The signer of a verified signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    /// The signer's identity in the list.
    pub identity: String,
    /// The key's fingerprint, as `ssh-keygen -l` shows it.
    pub key: String,
    /// What the FIDO token attests; `None` if the key is in software.
    pub token: Option<Token>,
}

/// What a FIDO token attests about the making of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// A person touched the token.
    pub is_present: bool,
    /// The token verified the person, by PIN or fingerprint.
    pub is_verified: bool,
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

impl Key {
    /// Reads a key of one of the two accepted types.
    fn read(blob: &[u8]) -> Option<Key> {
        let mut fields = Fields(blob);
        let key_type = fields.text()?;
        let point = fields.text()?.try_into().ok()?;
        let application = if key_type == FIDO.as_bytes() {
            // For ssh, a text ends at a zero byte.
            Some(fields.text().filter(|text| !text.contains(&0))?.to_owned())
        } else if key_type == ED25519.as_bytes() {
            None
        } else {
            return None;
        };
        fields.end()?;
        Some(Key { point, application })
    }

    fn key_type(&self) -> &'static str {
        match self.application {
            Some(_) => FIDO,
            None => ED25519,
        }
    }

    fn fingerprint(&self) -> String {
        let mut blob = Vec::new();
        push_text(&mut blob, self.key_type().as_bytes());
        push_text(&mut blob, &self.point);
        if let Some(application) = &self.application {
            push_text(&mut blob, application);
        }
        format!("SHA256:{}", STANDARD_NO_PAD.encode(Sha256::digest(blob)))
    }
}

impl Signers {
    /// Reads the list.
    ///
    /// # Errors
    /// Returns [`SignersError`] for the first bad line: a list with such a line approves nothing.
    /// A line whose key is of another type than Ed25519 is not bad; see [`Signers::skipped`].
    pub fn read(text: &str) -> Result<Signers, SignersError> {
        let (mut keys, mut skipped) = (Vec::<Signer>::new(), Vec::new());
        let mut owners: BTreeMap<[u8; 32], String> = BTreeMap::new();
        for (line, number) in text.lines().zip(1_usize..) {
            // As in ssh; other white space is part of a word.
            let line = line.trim_matches([' ', '\t', '\r']);
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let fail = |fault| SignersError {
                line: number,
                fault,
            };
            let signer = match signer(line).map_err(fail)? {
                Ok(signer) => signer,
                Err(key_type) => {
                    skipped.push(Skipped {
                        line: number,
                        key_type,
                    });
                    continue;
                }
            };
            let owner = owners.entry(signer.key.point);
            let owner = owner.or_insert_with(|| signer.identity.clone());
            if *owner != signer.identity {
                return Err(fail(SignerFault::SharedKey(owner.clone())));
            }
            keys.push(signer);
        }
        Ok(Signers { keys, skipped })
    }

    /// Returns the lines that count for nothing, in order: their keys are of other types.
    pub fn skipped(&self) -> &[Skipped] {
        &self.skipped
    }

    /// Returns the identities that have a key, sorted.
    pub fn identities(&self) -> BTreeSet<&str> {
        let signers = self.keys.iter();
        signers.map(|signer| signer.identity.as_str()).collect()
    }

    /// Returns what each key may do, in words that are equal only for equal keys with equal rights.
    pub fn entries(&self) -> impl Iterator<Item = String> {
        self.keys.iter().map(|signer| {
            let Signer {
                identity,
                namespaces,
                valid_after,
                valid_before,
                key,
            } = signer;
            let mut words = format!("{identity} {}", key.fingerprint());
            if let Some(namespaces) = namespaces {
                words.push_str(&format!(" for {}", namespaces.join(",")));
            }
            for (word, time) in [("from", valid_after), ("until", valid_before)] {
                words.extend(time.map(|time| format!(" {word} {time}")));
            }
            words
        })
    }

    /// Verifies a signature over `message` at the time `now`, and returns its signer: a signature has
    /// one key, and a key has one identity. The caller decides whether what a FIDO token attests is
    /// enough.
    ///
    /// # Errors
    /// Returns [`SignatureError`] if the signature does not count.
    pub fn verify(
        &self,
        message: &[u8],
        armored: &str,
        now: Time,
    ) -> Result<Signed, SignatureError> {
        let signature = DetachedSignature::read(armored)?;
        signature.verify(message)?;
        let DetachedSignature { key, token, .. } = signature;
        let own: Vec<&Signer> = self
            .keys
            .iter()
            .filter(|signer| signer.key == key)
            .collect();
        if own.is_empty() {
            return Err(SignatureError::Unknown(key.fingerprint()));
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
                && signer.valid_before.is_none_or(|before| now <= before)
        };
        let signer = own
            .iter()
            .find(counts)
            .ok_or_else(|| SignatureError::NotNow(key.fingerprint()))?;
        Ok(Signed {
            identity: signer.identity.clone(),
            key: key.fingerprint(),
            token: token.map(|(flags, _)| Token {
                is_present: flags & USER_PRESENT != 0,
                is_verified: flags & USER_VERIFIED != 0,
            }),
        })
    }
}

/// A signature as its file has it.
struct DetachedSignature {
    key: Key,
    reserved: Vec<u8>,
    hash_name: Vec<u8>,
    signature: [u8; 64],
    /// Flags and counter of a FIDO token, which it signs too.
    token: Option<(u8, u32)>,
}

impl DetachedSignature {
    /// Reads the file. As ssh, it accepts no byte before the first line, and no CRLF.
    fn read(armored: &str) -> Result<DetachedSignature, SignatureError> {
        let inner = armored
            .strip_prefix(BEGIN)
            .and_then(|rest| rest.trim_end_matches([' ', '\t', '\n']).strip_suffix(END))
            .filter(|inner| !inner.contains('\r'));
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
        let (key, namespace, reserved, hash_name, blob) = read().ok_or(SignatureError::Form)?;
        if namespace != NAMESPACE.as_bytes() {
            return Err(SignatureError::Namespace);
        }
        let key = Key::read(key).ok_or(SignatureError::Algorithm)?;
        let mut fields = Fields(blob);
        let mut read = || {
            if fields.text()? != key.key_type().as_bytes() {
                return None;
            }
            let signature = fields.text()?.try_into().ok()?;
            let token = match key.application {
                Some(_) => {
                    let &[flags] = fields.take(1)? else {
                        return None;
                    };
                    Some((flags, fields.number()?))
                }
                None => None,
            };
            fields.end()?;
            Some((signature, token))
        };
        let (signature, token) = read().ok_or(SignatureError::Algorithm)?;
        Ok(DetachedSignature {
            reserved: reserved.to_vec(),
            hash_name: hash_name.to_vec(),
            signature,
            token,
            key,
        })
    }

    /// Verifies that the key signed this message.
    fn verify(&self, message: &[u8]) -> Result<(), SignatureError> {
        let hash = match self.hash_name.as_slice() {
            b"sha512" => Sha512::digest(message).to_vec(),
            b"sha256" => Sha256::digest(message).to_vec(),
            _ => return Err(SignatureError::Hash),
        };
        let mut signed = MAGIC.to_vec();
        for field in [NAMESPACE.as_bytes(), &self.reserved, &self.hash_name, &hash] {
            push_text(&mut signed, field);
        }
        if let (Some(application), Some((flags, counter))) = (&self.key.application, self.token) {
            // A token signs hashes of application and message, and what it attests (PROTOCOL.u2f).
            let message = Sha256::digest(&signed);
            signed = Sha256::digest(application).to_vec();
            signed.push(flags);
            signed.extend(counter.to_be_bytes());
            signed.extend(message);
        }
        VerifyingKey::from_bytes(&self.key.point)
            .map_err(|_| SignatureError::Key)?
            .verify_strict(&signed, &Signature::from_bytes(&self.signature))
            .map_err(|_| SignatureError::Message)
    }
}
