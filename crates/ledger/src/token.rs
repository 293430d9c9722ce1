//! Admission tokens. With one, and with the log's public key, a downstream tool can check that the
//! gate admitted the envelope it received. Pure.
//!
//! A token is a signed note under the log's key whose text has six lines: `<origin>/admission`,
//! receipt id, request hash, SHA-256 of the envelope's text, request id, SHA-256 of the receipt's
//! text. Because of the first line, it can never be taken for a checkpoint. Together the lines
//! protect every byte of a forwarded file.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::note::{self, NoteError, SignerKey, VerifierKey};
use spoolgate_wire::envelope::REQUEST_BYTES_MAX;
use spoolgate_wire::ids::RequestId;
use spoolgate_wire::json::{self, JsonError};
use spoolgate_wire::signing::{sha256_hex, unhex};

/// Largest forwarded file that is read, in bytes: the largest request, its receipt and its token.
pub const FORWARDED_BYTES_MAX: usize = REQUEST_BYTES_MAX + 1_000_000;

/// The phase of a receipt for which a token may be issued.
const PHASE_ACCEPTED: &str = "accepted";

/// Why a token or a forwarded file is rejected. No part of it may be used then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The token is not a note that this key signed.
    #[error(
        "the token is not signed by `{key}`: {source}; take the file from spool/forward again, or \
            name the key of the log that issued it"
    )]
    Note {
        /// The key, as a vkey.
        key: Box<VerifierKey>,
        /// What is wrong with the note.
        source: NoteError,
    },
    /// The token has other signature lines besides the log's own: a token has exactly one form.
    #[error("the token has {lines} signature lines; one that the gate issued has one")]
    SignatureLines {
        /// How many there are.
        lines: usize,
    },
    /// The log signed the text, but as something else, such as a checkpoint, or the token is
    /// another log's.
    #[error(
        "the token begins with `{}`, not with `{expected}`: it is not an admission token of this \
            log",
        .found.escape_debug()
    )]
    Kind {
        /// The first line of the token.
        found: String,
        /// The first line of a token of this log.
        expected: String,
    },
    /// A line of the token does not have the expected form.
    #[error("line {line} of the token is not {expected}")]
    Line {
        /// Number of the line, from 1.
        line: usize,
        /// What the line should be.
        expected: &'static str,
    },
    /// The file is larger than any file the gate writes.
    #[error("the forwarded file has {size_bytes} bytes, the limit is {FORWARDED_BYTES_MAX}")]
    TooLarge {
        /// Size of the file.
        size_bytes: usize,
    },
    /// The file is not strict JSON.
    #[error("the forwarded file cannot be read: {0}")]
    Json(#[from] JsonError),
    /// A member is missing, unknown, or of the wrong type.
    #[error("the forwarded file cannot be read: {0}")]
    Shape(String),
    /// A part of the file is not the part that the token was issued for.
    #[error(
        "{part} of the file is `{}`, but the token was issued for `{signed}`; take the file from \
            spool/forward again",
        .found.escape_debug()
    )]
    Mismatch {
        /// Which part.
        part: &'static str,
        /// The text in the file, or its SHA-256.
        found: String,
        /// The text or SHA-256 in the token.
        signed: String,
    },
    /// The receipt in the file is not the receipt of an admission.
    #[error("the receipt's phase is `{}`, not `{PHASE_ACCEPTED}`: nothing was admitted",
        .found.escape_debug())]
    Phase {
        /// The phase in the receipt.
        found: String,
    },
}

impl TokenError {
    /// Whether the file could not be read at all, so that nothing is known about its token.
    pub fn is_unreadable(&self) -> bool {
        matches!(
            self,
            TokenError::TooLarge { .. } | TokenError::Json(_) | TokenError::Shape(_)
        )
    }
}

/// What a token states: the log admitted this envelope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Id of the admission's receipt.
    pub receipt_id: String,
    /// Hash of the signed request that asked for it: 64 hex digits.
    pub request_hash: String,
    /// SHA-256 of the admitted envelope's text without insignificant white space: 64 hex digits.
    pub envelope_sha256: String,
    /// Id of the signed request, which is also the id of the admitted task.
    pub request_id: String,
    /// SHA-256 of the receipt's text without insignificant white space: 64 hex digits.
    pub receipt_sha256: String,
}

impl Claim {
    fn text(&self, origin: &str) -> String {
        let Claim {
            receipt_id,
            request_hash,
            envelope_sha256,
            request_id,
            receipt_sha256,
        } = self;
        format!(
            "{}\n{receipt_id}\n{request_hash}\n{envelope_sha256}\n{request_id}\n{receipt_sha256}\n",
            kind(origin)
        )
    }

    /// Reads the text of an opened note. [`Claim::text`] of the result is the same text.
    fn parse(text: &str, origin: &str) -> Result<Claim, TokenError> {
        let mut lines = text.split_terminator('\n');
        let (first, expected) = (lines.next().unwrap_or_default(), kind(origin));
        if first != expected {
            return Err(TokenError::Kind {
                found: first.to_owned(),
                expected,
            });
        }
        let mut next = |line, expected, is_good: fn(&str) -> bool| {
            let found = lines
                .next()
                .filter(|found| is_good(found))
                .map(str::to_owned);
            found.ok_or(TokenError::Line { line, expected })
        };
        let claim = Claim {
            receipt_id: next(2, "a receipt id", is_id)?,
            request_hash: next(3, "a request hash, 64 lower-case hex digits", is_sha256)?,
            envelope_sha256: next(
                4,
                "an envelope's SHA-256, 64 lower-case hex digits",
                is_sha256,
            )?,
            request_id: next(5, "a request id", is_id)?,
            receipt_sha256: next(
                6,
                "a receipt's SHA-256, 64 lower-case hex digits",
                is_sha256,
            )?,
        };
        match lines.next() {
            None => Ok(claim),
            Some(_) => Err(TokenError::Line {
                line: 7,
                expected: "absent",
            }),
        }
    }
}

/// The first line of a log's tokens.
fn kind(origin: &str) -> String {
    format!("{origin}/admission")
}

/// Whether the text is a receipt id. Receipt ids have the form of request ids: no line breaks,
/// nothing that could move a terminal's cursor.
fn is_id(text: &str) -> bool {
    RequestId::parse(text).is_ok()
}

fn is_sha256(text: &str) -> bool {
    text.len() == 64 && unhex(text).is_some()
}

/// Issues a token. The same claim and key give the same token.
///
/// ```
/// use spoolgate_ledger::{note::SignerKey, token};
/// use spoolgate_wire::signing::sha256_hex;
///
/// let key = SignerKey::from_seed("example.org/log", &[1; 32])?;
/// let claim = token::Claim {
///     receipt_id: "r-1".to_owned(),
///     request_hash: sha256_hex(b"the signed request"),
///     envelope_sha256: sha256_hex(br#"{"task":"count"}"#),
///     request_id: "t-1".to_owned(),
///     receipt_sha256: sha256_hex(b"{}"),
/// };
/// let text = token::issue(&key, "example.org/log", &claim)?;
/// assert_eq!(token::verify(&text, key.verifier(), "example.org/log")?, claim);
/// assert!(token::verify(&text.replace("t-1", "t-2"), key.verifier(), "example.org/log").is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns [`NoteError::Ambiguous`] for an invalid id or hash: a log must never sign what it did
/// not mean.
pub fn issue(key: &SignerKey, origin: &str, claim: &Claim) -> Result<String, NoteError> {
    let text = claim.text(origin);
    if Claim::parse(&text, origin).as_ref() != Ok(claim) {
        return Err(NoteError::Ambiguous);
    }
    note::sign_note(&text, key)
}

/// Returns the claim of a token of the log `origin`, if `key` signed it and it has the form that
/// [`issue`] writes.
///
/// # Errors
/// Returns a [`TokenError`] that names what is wrong with it.
pub fn verify(token: &str, key: &VerifierKey, origin: &str) -> Result<Claim, TokenError> {
    let (text, _) =
        note::open_note(token, std::slice::from_ref(key)).map_err(|source| TokenError::Note {
            key: Box::new(key.clone()),
            source,
        })?;
    // Notes may have lines by other signers, but tokens may not: only the log signs them.
    let lines = token
        .lines()
        .count()
        .saturating_sub(text.lines().count() + 1);
    if lines != 1 {
        return Err(TokenError::SignatureLines { lines });
    }
    Claim::parse(text, origin)
}

/// A forwarded file whose token is genuine and was issued for the contents of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forwarded {
    /// The claim in the token.
    pub claim: Claim,
    /// The admitted envelope's text without insignificant white space.
    pub envelope: String,
    /// The receipt's text without insignificant white space.
    pub receipt: String,
}

/// A forwarded file, with its members in the order in which they are written.
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

/// The members that are read of a receipt; its counters are for other readers.
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

/// Reads a file of `spool/forward` and verifies that the log `origin` admitted its contents.
///
/// ```
/// use spoolgate_ledger::{note::SignerKey, token};
/// use spoolgate_wire::signing::sha256_hex;
///
/// let origin = "example.org/log";
/// let key = SignerKey::from_seed(origin, &[1; 32])?;
/// let (task, hash) = (r#"{"task":"count"}"#, sha256_hex(b"the signed request"));
/// let receipt = format!(r#"{{"receipt_id":"r-1","request_hash":"{hash}","phase":"accepted"}}"#);
/// let file = token::forwarded("r-1", "t-1", &hash, task, &receipt, &key, origin)?;
///
/// let admitted = token::verify_forwarded(&file, key.verifier(), origin)?;
/// assert_eq!((admitted.envelope.as_str(), admitted.claim.request_id.as_str()), (task, "t-1"));
/// let forged = String::from_utf8(file)?.replace("count", "erase");
/// assert!(token::verify_forwarded(forged.as_bytes(), key.verifier(), origin).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns a [`TokenError`] that names what is wrong; [`TokenError::is_unreadable`] distinguishes a
/// file that is not a forwarded file from a false one.
pub fn verify_forwarded(
    bytes: &[u8],
    key: &VerifierKey,
    origin: &str,
) -> Result<Forwarded, TokenError> {
    if bytes.len() > FORWARDED_BYTES_MAX {
        return Err(TokenError::TooLarge {
            size_bytes: bytes.len(),
        });
    }
    let shape = |error: serde_json::Error| TokenError::Shape(error.to_string());
    let file: File<'_> = serde_json::from_str(json::check_object(bytes)?).map_err(shape)?;
    let (envelope, receipt) = (
        object(file.envelope, "envelope")?,
        object(file.receipt, "receipt")?,
    );
    let head: ReceiptHead<'_> = serde_json::from_str(&receipt)
        .map_err(|error| TokenError::Shape(format!("`receipt`: {error}")))?;

    let claim = verify(&file.token, key, origin)?;
    let (envelope_sha256, receipt_sha256) = (
        sha256_hex(envelope.as_bytes()),
        sha256_hex(receipt.as_bytes()),
    );
    for (part, found, signed) in [
        ("`receipt_id`", &*file.receipt_id, &claim.receipt_id),
        ("`receipt.receipt_id`", &head.receipt_id, &claim.receipt_id),
        ("`request_hash`", &file.request_hash, &claim.request_hash),
        (
            "`receipt.request_hash`",
            &head.request_hash,
            &claim.request_hash,
        ),
        (
            "the SHA-256 of `envelope`",
            &envelope_sha256,
            &claim.envelope_sha256,
        ),
        ("`request_id`", &file.request_id, &claim.request_id),
        (
            "the SHA-256 of `receipt`",
            &receipt_sha256,
            &claim.receipt_sha256,
        ),
    ] {
        if found != signed {
            return Err(TokenError::Mismatch {
                part,
                found: found.to_owned(),
                signed: signed.clone(),
            });
        }
    }
    if head.phase != PHASE_ACCEPTED {
        return Err(TokenError::Phase {
            found: head.phase.into_owned(),
        });
    }
    Ok(Forwarded {
        claim,
        envelope,
        receipt,
    })
}

/// Renders a forwarded file as the gate writes it: one line, the same bytes for the same parts.
/// `envelope_text` and `receipt_text` are JSON objects; the receipt names `receipt_id` and
/// `request_hash`, and its phase is `accepted`.
///
/// # Errors
/// Returns [`NoteError::Ambiguous`] if the parts do not match, so that [`verify_forwarded`] would
/// reject the file: a log must never sign what it did not mean.
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
