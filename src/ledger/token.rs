//! Admission tokens: what a downstream tool needs, besides the log's public key, to tell that the gate admitted
//! the envelope it was handed. Pure.
//!
//! A token is a signed note under the log's key whose text is six lines: `<origin>/admission`, receipt id,
//! request hash, SHA-256 of the envelope's text, request id, SHA-256 of the receipt's text. The first line keeps
//! it from ever being taken for a checkpoint; together they leave no byte of a forwarded file that could be
//! changed unseen.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::note::{self, NoteError, SignerKey, VerifierKey};
use crate::wire::envelope::REQUEST_BYTES_MAX;
use crate::wire::ids::RequestId;
use crate::wire::json::{self, JsonError};
use crate::wire::signing::{sha256_hex, unhex};

/// Largest forwarded file that is read, in bytes: the largest request, its receipt and its token.
pub const FORWARDED_BYTES_MAX: usize = REQUEST_BYTES_MAX + 1_000_000;

/// The phase of a receipt that a token may stand for.
const PHASE_ACCEPTED: &str = "accepted";

/// Why a token or a forwarded file is not what it should be. Nothing of it may be used then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The token is no note that this key signed.
    #[error(
        "the token is not signed by `{key}`: {source}; take the file from spool/forward again, or name the key of the log that issued it"
    )]
    Note {
        /// The key, as a vkey.
        key: Box<VerifierKey>,
        /// What the note lacks.
        source: NoteError,
    },
    /// Other signature lines beside the log's own: a token has one form.
    #[error("the token has {lines} signature lines; one that the gate issued has one")]
    SignatureLines {
        /// How many there are.
        lines: usize,
    },
    /// The log signed it, but as something else, such as a checkpoint, or as the token of another log.
    #[error(
        "the token begins with `{}`, not with `{expected}`: it is no admission token of this log",
        .found.escape_debug()
    )]
    Kind {
        /// Its first line.
        found: String,
        /// What that of a token of this log says.
        expected: String,
    },
    /// A line of the token is not what stands there.
    #[error("line {line} of the token is not {expected}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// What stands there.
        expected: &'static str,
    },
    /// The file is larger than any that the gate writes.
    #[error("the forwarded file has {size_bytes} bytes, the limit is {FORWARDED_BYTES_MAX}")]
    TooLarge {
        /// Its size.
        size_bytes: usize,
    },
    /// The file is not strict JSON.
    #[error("the forwarded file cannot be read: {0}")]
    Json(#[from] JsonError),
    /// A member is missing, unknown, or of the wrong type.
    #[error("the forwarded file cannot be read: {0}")]
    Shape(String),
    /// A part of the file is not the one that the token was issued for.
    #[error(
        "{part} of the file is `{}`, and the token was issued for `{signed}`; take the file from spool/forward again",
        .found.escape_debug()
    )]
    Mismatch {
        /// Which part.
        part: &'static str,
        /// What the file says, or the SHA-256 of it.
        found: String,
        /// What the token says.
        signed: String,
    },
    /// The receipt in the file is not one of an admission.
    #[error("the receipt's phase is `{}`, not `{PHASE_ACCEPTED}`: nothing was admitted", .found.escape_debug())]
    Phase {
        /// What it is.
        found: String,
    },
}

impl TokenError {
    /// Whether the file could not even be read, so that nothing is known of its token.
    pub fn is_unreadable(&self) -> bool {
        matches!(self, TokenError::TooLarge { .. } | TokenError::Json(_) | TokenError::Shape(_))
    }
}

/// What a token says: the log admitted this envelope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Id of the receipt of the admission.
    pub receipt_id: String,
    /// Hash of the signed request that asked for it: 64 hex digits.
    pub request_hash: String,
    /// SHA-256 of the admitted envelope's text without insignificant white space: 64 hex digits.
    pub envelope_sha256: String,
    /// Id of that request, which is the id of the admitted task.
    pub request_id: String,
    /// SHA-256 of the receipt's text without insignificant white space: 64 hex digits.
    pub receipt_sha256: String,
}

impl Claim {
    fn text(&self, origin: &str) -> String {
        let Claim { receipt_id, request_hash, envelope_sha256, request_id, receipt_sha256 } = self;
        format!(
            "{}\n{receipt_id}\n{request_hash}\n{envelope_sha256}\n{request_id}\n{receipt_sha256}\n",
            kind(origin)
        )
    }

    /// Reads the text of a note that was opened. [`Claim::text`] of the result is the same text.
    fn parse(text: &str, origin: &str) -> Result<Claim, TokenError> {
        let mut lines = text.split_terminator('\n');
        let (first, expected) = (lines.next().unwrap_or_default(), kind(origin));
        if first != expected {
            return Err(TokenError::Kind { found: first.to_owned(), expected });
        }
        let mut next = |line, expected, is_good: fn(&str) -> bool| {
            let found = lines.next().filter(|found| is_good(found)).map(str::to_owned);
            found.ok_or(TokenError::Line { line, expected })
        };
        let claim = Claim {
            receipt_id: next(2, "a receipt id", is_id)?,
            request_hash: next(3, "a request hash, 64 lower-case hex digits", is_sha256)?,
            envelope_sha256: next(4, "an envelope's SHA-256, 64 lower-case hex digits", is_sha256)?,
            request_id: next(5, "a request id", is_id)?,
            receipt_sha256: next(6, "a receipt's SHA-256, 64 lower-case hex digits", is_sha256)?,
        };
        match lines.next() {
            None => Ok(claim),
            Some(_) => Err(TokenError::Line { line: 7, expected: "absent" }),
        }
    }
}

/// The first line of a log's tokens.
fn kind(origin: &str) -> String {
    format!("{origin}/admission")
}

/// Receipts are named like requests: nothing that could be two lines, or move a terminal's cursor.
fn is_id(text: &str) -> bool {
    RequestId::parse(text).is_ok()
}

fn is_sha256(text: &str) -> bool {
    text.len() == 64 && unhex(text).is_some()
}

/// Issues a token. The same claim and key give the same token.
///
/// # Errors
/// [`NoteError::Ambiguous`] for an id or a hash that is none: a log must never sign what it did not mean.
pub fn issue(key: &SignerKey, origin: &str, claim: &Claim) -> Result<String, NoteError> {
    let text = claim.text(origin);
    if Claim::parse(&text, origin).as_ref() != Ok(claim) {
        return Err(NoteError::Ambiguous);
    }
    note::sign_note(&text, key)
}

/// What a token of the log `origin` says, if `key` signed it and it is in the one form that [`issue`] writes.
///
/// # Errors
/// [`TokenError`] naming what is wrong with it.
pub fn verify(token: &str, key: &VerifierKey, origin: &str) -> Result<Claim, TokenError> {
    let (text, _) = note::open_note(token, std::slice::from_ref(key))
        .map_err(|source| TokenError::Note { key: Box::new(key.clone()), source })?;
    // Lines by unknown keys are for notes that others sign too; nobody signs these.
    let lines = token.lines().count().saturating_sub(text.lines().count() + 1);
    if lines != 1 {
        return Err(TokenError::SignatureLines { lines });
    }
    Claim::parse(text, origin)
}

/// A forwarded file whose token is genuine and was issued for what the file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forwarded {
    /// What the token says.
    pub claim: Claim,
    /// The admitted envelope's text without insignificant white space.
    pub envelope: String,
    /// The receipt's text, the same way.
    pub receipt: String,
}

/// A forwarded file, its members in the order in which they are written.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct File<'a> {
    #[serde(borrow)]
    receipt_id: Cow<'a, str>,
    #[serde(borrow)]
    request_id: Cow<'a, str>,
    #[serde(borrow)]
    request_hash: Cow<'a, str>,
    #[serde(borrow)]
    envelope: &'a RawValue,
    #[serde(borrow)]
    receipt: &'a RawValue,
    #[serde(borrow)]
    token: Cow<'a, str>,
}

/// What every receipt says; its counters are for whoever reads it.
#[derive(Deserialize)]
struct ReceiptHead<'a> {
    #[serde(borrow)]
    receipt_id: Cow<'a, str>,
    #[serde(borrow)]
    request_hash: Cow<'a, str>,
    #[serde(borrow)]
    phase: Cow<'a, str>,
}

fn object(value: &RawValue, name: &str) -> Result<String, TokenError> {
    let text = json::minify(value.get());
    if !text.starts_with('{') {
        return Err(TokenError::Shape(format!("`{name}` is not an object")));
    }
    Ok(text.into_owned())
}

/// Reads a file of `spool/forward` and verifies that the log `origin` admitted what it holds.
///
/// # Errors
/// [`TokenError`] naming what is wrong; [`TokenError::is_unreadable`] tells no forwarded file from a false one.
pub fn verify_forwarded(bytes: &[u8], key: &VerifierKey, origin: &str) -> Result<Forwarded, TokenError> {
    if bytes.len() > FORWARDED_BYTES_MAX {
        return Err(TokenError::TooLarge { size_bytes: bytes.len() });
    }
    let shape = |error: serde_json::Error| TokenError::Shape(error.to_string());
    let file: File<'_> = serde_json::from_str(json::check_object(bytes)?).map_err(shape)?;
    let (envelope, receipt) = (object(file.envelope, "envelope")?, object(file.receipt, "receipt")?);
    let head: ReceiptHead<'_> =
        serde_json::from_str(&receipt).map_err(|error| TokenError::Shape(format!("`receipt`: {error}")))?;

    let claim = verify(&file.token, key, origin)?;
    let (envelope_sha256, receipt_sha256) = (sha256_hex(envelope.as_bytes()), sha256_hex(receipt.as_bytes()));
    for (part, found, signed) in [
        ("`receipt_id`", &*file.receipt_id, &claim.receipt_id),
        ("`receipt.receipt_id`", &head.receipt_id, &claim.receipt_id),
        ("`request_hash`", &file.request_hash, &claim.request_hash),
        ("`receipt.request_hash`", &head.request_hash, &claim.request_hash),
        ("the SHA-256 of `envelope`", &envelope_sha256, &claim.envelope_sha256),
        ("`request_id`", &file.request_id, &claim.request_id),
        ("the SHA-256 of `receipt`", &receipt_sha256, &claim.receipt_sha256),
    ] {
        if found != signed {
            return Err(TokenError::Mismatch { part, found: found.to_owned(), signed: signed.clone() });
        }
    }
    if head.phase != PHASE_ACCEPTED {
        return Err(TokenError::Phase { found: head.phase.into_owned() });
    }
    Ok(Forwarded { claim, envelope, receipt })
}

/// A forwarded file as the gate writes it: one line, the same bytes for the same parts. `envelope_text` and
/// `receipt_text` are JSON objects; the receipt names `receipt_id` and `request_hash` and its phase is `accepted`.
///
/// # Errors
/// [`NoteError::Ambiguous`] if the parts do not fit each other, so that [`verify_forwarded`] would refuse the
/// file: a log must never sign what it did not mean.
pub fn forwarded(
    receipt_id: &str,
    request_id: &str,
    request_hash: &str,
    envelope_text: &str,
    receipt_text: &str,
    signer: &SignerKey,
    origin: &str,
) -> Result<Vec<u8>, NoteError> {
    let (envelope, receipt) = (json::minify(envelope_text), json::minify(receipt_text));
    let claim = Claim {
        receipt_id: receipt_id.to_owned(),
        request_hash: request_hash.to_owned(),
        envelope_sha256: sha256_hex(envelope.as_bytes()),
        request_id: request_id.to_owned(),
        receipt_sha256: sha256_hex(receipt.as_bytes()),
    };
    let file = File {
        receipt_id: receipt_id.into(),
        request_id: request_id.into(),
        request_hash: request_hash.into(),
        envelope: raw(&envelope)?,
        receipt: raw(&receipt)?,
        token: issue(signer, origin, &claim)?.into(),
    };
    let mut bytes = serde_json::to_vec(&file).map_err(|_| NoteError::Ambiguous)?;
    bytes.push(b'\n');
    match verify_forwarded(&bytes, signer.verifier(), origin) {
        Ok(_) => Ok(bytes),
        Err(_) => Err(NoteError::Ambiguous),
    }
}

fn raw(text: &str) -> Result<&RawValue, NoteError> {
    serde_json::from_str(text).map_err(|_| NoteError::Ambiguous)
}
