//! What is sealed in a request's line: members that are not facts, and every hash from which they
//! could be guessed. Salts are inputs like the clock, drawn by the host; with the salts of a line,
//! its sealing can be recomputed.

use serde::{Deserialize, Serialize};

use super::actions;
use super::decide::MEMBER_BYTES_MAX;
use super::handle::Turn;
use super::prepare::{Authentic, Prepared};
use super::record::Decision;
use spoolgate_wire::sealed::{self, Disclosure, Field, Salt, blob_name};
use spoolgate_wire::signing;

/// Field name of the sealed hashes of what was signed.
pub const DIGESTS: &str = "digests";
/// Field name of the sealed bytes of a held request.
pub const FILE: &str = "file";
/// The whole payload: where the sealed members are is not known if the payload does not have the
/// shape of its action.
const WHOLE: &[&str] = &[""];
/// Readings of rules whose value is a sealed member or part of one, with the member's pointer.
const READINGS: &[(&str, &str)] = &[
    ("council.diff", "/artifacts/diff_content"),
    ("payload.subject", "/subject"),
    ("payload.body", "/body"),
    ("payload.title", "/title"),
    ("payload.description", "/description"),
    ("payload.header_names", "/headers"),
    ("payload.header_values", "/headers"),
    ("payload.body_texts", "/body"),
    ("payload.body_to", "/body"),
    ("payload.body_hosts", "/body"),
    ("payload.body_amount", "/body"),
];
/// The reading of all texts in a payload, including sealed members.
const ALL_TEXTS: &str = "payload.texts";
/// Replaces the file's digest in other lines about a request with sealed members.
pub const NO_DIGEST: &str = "sealed";

/// The hashes of what was signed. Sealed values could be guessed and tested against each of them,
/// so they are sealed too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Digests {
    /// SHA-256 of the payload as it was signed, hex.
    pub payload_hash: String,
    /// SHA-256 of the signing string, hex.
    pub request_hash: String,
    /// The signature as sent.
    pub signature: String,
    /// SHA-256 of the file's bytes, hex; `None` if there was no file.
    pub file_sha256: Option<String>,
}

/// A request with its sealed members cut out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealing {
    /// The payload as its line holds it.
    text: String,
    /// SHA-256 of that payload, hex. The digests in that payload act as its salt.
    payload_hash: String,
    /// SHA-256 of the signing string over that payload, hex.
    request_hash: String,
    fields: Vec<Field>,
    disclosures: Vec<Disclosure>,
    digests: Disclosure,
    file: Option<Disclosure>,
}

/// Whether requests of this action have sealed members. Those of an action that does not exist do: a
/// misspelt name must not put a text into the ledger that could never be taken back.
pub fn is_sealed(action: &str) -> bool {
    actions::find(action).is_none_or(|rule| !rule.sealed.is_empty())
}

/// The pointer of the sealed member that a reading shows; empty for the whole payload. The reading
/// of all texts counts as sealed for every action, so that authors of rules need not think of it.
pub(super) fn pointer_of(reading: &str) -> Option<&'static str> {
    if reading == ALL_TEXTS {
        return WHOLE.first().copied();
    }
    READINGS
        .iter()
        .find(|(name, _)| *name == reading)
        .map(|(_, pointer)| *pointer)
}

/// Cuts the sealed members out of a request; `None` if it has none. `bytes` is the content of its
/// file. Draws one salt per member, in the order of the payload, one for the hashes and one for the
/// file.
///
/// # Errors
/// Returns the error of `salt`.
pub fn seal<E>(
    request: &Prepared,
    bytes: Option<&[u8]>,
    salt: &mut dyn FnMut() -> Result<Salt, E>,
) -> Result<Option<Sealing>, E> {
    let Ok(authentic) = &request.request else {
        return Ok(None);
    };
    let Authentic {
        envelope,
        payload_hash,
        request_hash,
        body,
        ..
    } = authentic;
    let pointers = match body {
        Ok(body) => body.rule.sealed,
        Err(_) if is_sealed(&envelope.action) => WHOLE,
        Err(_) => &[],
    };
    if pointers.is_empty() {
        return Ok(None);
    }
    let cut = sealed::cut(&envelope.payload, pointers, salt)?;
    if cut.fields.is_empty() {
        return Ok(None);
    }
    let digests = Digests {
        payload_hash: payload_hash.clone(),
        request_hash: request_hash.clone(),
        signature: envelope.signature.clone(),
        file_sha256: request.file_sha256.clone(),
    };
    // A struct of texts always serialises.
    let digests = Disclosure::new(
        salt()?,
        DIGESTS,
        &serde_json::to_string(&digests).unwrap_or_default(),
    );
    let file = match bytes.map(String::from_utf8_lossy) {
        Some(text) => Some(Disclosure::new(
            salt()?,
            FILE,
            &serde_json::Value::from(text).to_string(),
        )),
        None => None,
    };
    let payload_hash = signing::sha256_hex(cut.text.as_bytes());
    let request_hash = signing::sha256_hex(envelope.signing_string_of(&payload_hash).as_bytes());
    let (fields, disclosures) = (cut.fields, cut.disclosures);
    Ok(Some(Sealing {
        text: cut.text,
        payload_hash,
        request_hash,
        fields,
        disclosures,
        digests,
        file,
    }))
}

impl Sealing {
    /// The sealing with the request hash of its line, for a request whose causality the ledger does
    /// not hold: what was hashed cannot be restored.
    pub fn with_request_hash(self, of_line: &Decision) -> Sealing {
        let request_hash = of_line.request_hash.clone();
        Sealing {
            request_hash: request_hash.unwrap_or(self.request_hash),
            ..self
        }
    }

    /// The name by which a hold refers to the file's bytes.
    pub(super) fn file_name(&self) -> Option<String> {
        self.file.as_ref().map(|file| blob_name(&file.digest))
    }

    /// Writes the request without its sealed parts into the line; `is_kept` is whether the line
    /// keeps the payload. Returns the blobs that must be durable before the line.
    pub(super) fn put_into(
        &self,
        decision: &mut Decision,
        is_kept: bool,
    ) -> Vec<(String, Vec<u8>)> {
        decision.payload_hash = Some(self.payload_hash.clone());
        decision.request_hash = Some(self.request_hash.clone());
        decision.payload = Some(self.text.clone()).filter(|_| is_kept);
        let fields = self
            .fields
            .iter()
            .zip(&self.disclosures)
            .filter(|_| is_kept);
        let mut blobs: Vec<(String, Vec<u8>)> = Vec::new();
        for (field, disclosure) in fields {
            decision.sealed.push(field.clone());
            blobs.push(blob(disclosure));
        }
        decision.sealed.push(Field {
            field: DIGESTS.to_owned(),
            sd: self.digests.digest.clone(),
        });
        blobs.push(blob(&self.digests));
        blobs
    }

    /// Adds the file's bytes to the sealed fields of a held request's line.
    pub(super) fn put_file_into(&self, decision: &mut Decision) -> Option<(String, Vec<u8>)> {
        let file = self.file.as_ref()?;
        decision.sealed.push(Field {
            field: FILE.to_owned(),
            sd: file.digest.clone(),
        });
        Some(blob(file))
    }
}

fn blob(disclosure: &Disclosure) -> (String, Vec<u8>) {
    (
        blob_name(&disclosure.digest),
        disclosure.text.clone().into_bytes(),
    )
}

/// Removes everything from a line against which sealed values could be tested.
pub(super) fn conceal(decision: &mut Decision) {
    decision.payload_hash = None;
    decision.request_hash = None;
    decision.signature = None;
    decision.file_sha256 = None;
}

/// The decision with the hashes that are sealed in its line, as it was made.
pub fn revealed(decision: &Decision, digests: Digests) -> Decision {
    let Digests {
        payload_hash,
        request_hash,
        signature,
        file_sha256,
    } = digests;
    Decision {
        payload_hash: Some(payload_hash),
        request_hash: Some(request_hash),
        signature: Some(signature),
        file_sha256,
        ..decision.clone()
    }
}

impl Turn<'_> {
    /// The payload hash that lines may contain.
    pub(super) fn payload_hash(&self, authentic: &Authentic) -> String {
        let sealing = self.lookups.sealing.as_ref();
        sealing.map_or_else(
            || authentic.payload_hash.clone(),
            |sealing| sealing.payload_hash.clone(),
        )
    }

    /// The request hash that lines may contain.
    pub(super) fn request_hash(&self, authentic: &Authentic) -> String {
        let sealing = self.lookups.sealing.as_ref();
        sealing.map_or_else(
            || authentic.request_hash.clone(),
            |sealing| sealing.request_hash.clone(),
        )
    }
}

/// Whether a payload that no action can read is small enough to be kept.
pub(super) fn is_kept(authentic: &Authentic) -> bool {
    authentic.body.is_ok() || authentic.envelope.payload.len() <= MEMBER_BYTES_MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use spoolgate_rules::rule::field;

    #[test]
    fn readings_of_sealed_members_are_fields_of_sealed_members() {
        for (name, pointer) in READINGS {
            assert!(field::find(name).is_some(), "{name}");
            let (above, _) = pointer.rsplit_once('/').unwrap();
            let mut sealed = actions::rows().flat_map(|rule| rule.sealed);
            assert!(
                sealed.any(|of| *of == *pointer || *of == format!("{above}/*")),
                "{pointer}"
            );
        }
        assert!(field::find(ALL_TEXTS).is_some());
        assert_eq!(pointer_of("council.diff"), Some("/artifacts/diff_content"));
        assert_eq!(pointer_of("payload.texts"), Some(""));
        assert_eq!(pointer_of("council.summary"), None);
    }
}
