//! SSH signatures over files, as `ssh-keygen -Y sign` writes them, and the list of who may sign, in the format of git's
//! allowed_signers. Ed25519 keys. Nothing is asked of ssh-keygen itself.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use ed25519_dalek::{Signature, VerifyingKey};
use sha2::{Digest, Sha256, Sha512};

use super::time::Time;

/// What approvals are signed for: `ssh-keygen -Y sign -n spoolgate`.
pub const NAMESPACE: &str = "spoolgate";
/// Largest signature file, bytes.
pub const SIGNATURE_BYTES_MAX: usize = 16 * 1024;
/// Largest list of signers, bytes.
pub const SIGNERS_BYTES_MAX: usize = 256 * 1024;
/// Longest identity that is shown, characters.
const IDENTITY_CHARS_MAX: usize = 200;

const MAGIC: &[u8] = b"SSHSIG";
const BEGIN: &str = "-----BEGIN SSH SIGNATURE-----";
const END: &str = "-----END SSH SIGNATURE-----";
const KEY_TYPE: &[u8] = b"ssh-ed25519";

/// Who may sign.
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

/// Whose signature it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    /// The principals of its line among the signers.
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
    /// The line that cannot be read and why: a list with such a line approves nothing.
    pub fn read(text: &str) -> Result<Signers, String> {
        let mut signers = Vec::new();
        for (line, number) in text.lines().zip(1_usize..) {
            let line = line.trim();
            if !line.is_empty() && !line.starts_with('#') {
                signers.push(signer(line).map_err(|why| format!("line {number}: {why}"))?);
            }
        }
        Ok(Signers(signers))
    }

    /// Whose signature over `message` it is, at `now`.
    ///
    /// # Errors
    /// Why it counts for nothing.
    pub fn verify(&self, message: &[u8], armored: &str, now: Time) -> Result<Signed, String> {
        let (key, reserved, hash_name, signature) = signature(armored)?;
        let hash = match hash_name {
            ref name if name == b"sha512" => Sha512::digest(message).to_vec(),
            ref name if name == b"sha256" => Sha256::digest(message).to_vec(),
            _ => return Err("the signature's hash is neither sha512 nor sha256".to_owned()),
        };
        let mut signed = MAGIC.to_vec();
        for field in [NAMESPACE.as_bytes(), &reserved, &hash_name, &hash] {
            push_text(&mut signed, field);
        }
        let verifying = VerifyingKey::from_bytes(&key).map_err(|_| "the key is none".to_owned())?;
        verifying
            .verify_strict(&signed, &Signature::from_bytes(&signature))
            .map_err(|_| "the signature is not one over this file".to_owned())?;
        let own: Vec<&Signer> = self.0.iter().filter(|signer| signer.key == key).collect();
        if own.is_empty() {
            return Err(format!("key {} is not among the signers", fingerprint(&key)));
        }
        let counts = |signer: &&&Signer| {
            // As ssh does it: one pattern with `!` that matches outweighs all others.
            let has_namespace = |names: &Vec<String>| {
                let is = |pattern: &str| matches(pattern.as_bytes(), NAMESPACE.as_bytes());
                let is_barred = names.iter().any(|name| name.strip_prefix('!').is_some_and(is));
                !is_barred && names.iter().any(|name| is(name))
            };
            signer.namespaces.as_ref().is_none_or(has_namespace)
                && signer.valid_after.is_none_or(|after| now >= after)
                && signer.valid_before.is_none_or(|before| now < before)
        };
        let signer = own.iter().find(counts).ok_or_else(|| {
            format!("key {} may not sign for `{NAMESPACE}` at this time", fingerprint(&key))
        })?;
        Ok(Signed { identity: signer.identity.clone(), key: fingerprint(&key) })
    }
}

/// Key, reserved field, name of the hash, and the signature itself.
type Parts = ([u8; 32], Vec<u8>, Vec<u8>, [u8; 64]);

fn signature(armored: &str) -> Result<Parts, String> {
    let no_signature = || "it is no SSH signature".to_owned();
    let inner = armored.trim().strip_prefix(BEGIN).and_then(|rest| rest.strip_suffix(END));
    let inner: String = inner.ok_or_else(no_signature)?.split_ascii_whitespace().collect();
    let bytes = STANDARD.decode(inner).map_err(|_| no_signature())?;
    let mut fields = Fields(&bytes);
    let mut read = || {
        if fields.take(MAGIC.len())? != MAGIC || fields.number()? != 1 {
            return None;
        }
        let parts = (fields.text()?, fields.text()?, fields.text()?, fields.text()?, fields.text()?);
        fields.end()?;
        Some(parts)
    };
    let (key, namespace, reserved, hash, signature) = read().ok_or_else(no_signature)?;
    if namespace != NAMESPACE.as_bytes() {
        return Err(format!("it was made for another purpose: sign with `-n {NAMESPACE}`"));
    }
    let only_ed25519 = || "it is not by an Ed25519 key; no other is taken".to_owned();
    let key = ed25519_key(key).ok_or_else(only_ed25519)?;
    let mut fields = Fields(signature);
    let is_known = fields.text() == Some(KEY_TYPE);
    let signature = fields.text().and_then(|bytes| <[u8; 64]>::try_from(bytes).ok());
    match signature.filter(|_| is_known && fields.end().is_some()) {
        Some(signature) => Ok((key, reserved.to_vec(), hash.to_vec(), signature)),
        None => Err(only_ed25519()),
    }
}

/// A line: principals, options if any, type of key, key, comment.
fn signer(line: &str) -> Result<Signer, String> {
    let (principals, rest) = word(line)?;
    let (next, after) = word(rest)?;
    let (options, key_type, rest) = if is_key_type(next) {
        ("", next, after)
    } else {
        let (key_type, after) = word(after)?;
        (next, key_type, after)
    };
    if key_type.as_bytes() != KEY_TYPE {
        return Err(format!("`{}` is not ssh-ed25519; no other key is taken", short(key_type)));
    }
    let blob = rest.split_ascii_whitespace().next().and_then(|text| STANDARD.decode(text).ok());
    let key = blob.and_then(|blob| ed25519_key(&blob)).ok_or("the key cannot be read")?;
    let mut signer =
        Signer { identity: short(principals), namespaces: None, valid_after: None, valid_before: None, key };
    let mut named = BTreeSet::new();
    for option in split_options(options)? {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        if !named.insert(name.to_ascii_lowercase()) {
            return Err(format!("option `{}` stands there twice", short(name)));
        }
        let value = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(value);
        match name.to_ascii_lowercase().as_str() {
            "namespaces" => signer.namespaces = Some(value.split(',').map(str::to_owned).collect()),
            "valid-after" => signer.valid_after = Some(time(value)?),
            "valid-before" => signer.valid_before = Some(time(value)?),
            "cert-authority" => return Err("certificates are not taken: name the key itself".to_owned()),
            _ => return Err(format!("unknown option `{}`", short(name))),
        }
    }
    Ok(signer)
}

fn short(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(IDENTITY_CHARS_MAX).collect()
}

fn is_key_type(word: &str) -> bool {
    ["ssh-", "ecdsa-", "sk-"].iter().any(|start| word.starts_with(start))
}

/// The first word and what follows; blanks between quotes belong to the word.
fn word(text: &str) -> Result<(&str, &str), String> {
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
    if is_quoted || text.is_empty() { Err("it ends too early".to_owned()) } else { Ok((text, "")) }
}

fn split_options(text: &str) -> Result<Vec<&str>, String> {
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
    if is_quoted { Err("a quote is not closed".to_owned()) } else { Ok(options) }
}

/// `YYYYMMDD`, `YYYYMMDDHHMM` or `YYYYMMDDHHMMSS`, with `Z` or without: UTC in both cases.
fn time(text: &str) -> Result<Time, String> {
    let fail = || format!("`{}` is no time such as 20270101 or 202701011200Z", short(text));
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

/// Whether a pattern with `*` and `?` matches, as ssh does it.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    // Where a star was met last, and how much of the text it has taken.
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
