//! The signed envelope around every request, read strictly.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::ids::{NameError, Principal, RequestId};
use super::json::{self, JsonError};
use super::signing;
use super::time::{Time, TimeError};

/// Largest request of any kind, in bytes.
pub const REQUEST_BYTES_MAX: usize = 10_000_000;

/// An envelope whose fields are well-formed. Nothing here says that its signature is good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The request's id.
    pub id: RequestId,
    /// Its timestamp as sent: the signature covers these bytes.
    pub timestamp_text: String,
    /// Its timestamp, for freshness.
    pub timestamp: Time,
    /// What it asks for.
    pub action: String,
    /// Its payload: the text as sent without insignificant white space.
    pub payload: String,
    /// Who claims to have signed.
    pub source: Principal,
    /// The signature as sent.
    pub signature: String,
}

/// Why bytes are not an envelope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    /// Not strict JSON.
    #[error("{0}")]
    Json(#[from] JsonError),
    /// A field is missing, unknown, of the wrong type or of the wrong form.
    #[error("{0}")]
    Shape(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    timestamp: Cow<'a, str>,
    #[serde(borrow)]
    action: Cow<'a, str>,
    #[serde(borrow)]
    payload: &'a RawValue,
    #[serde(borrow)]
    source: Cow<'a, str>,
    #[serde(borrow)]
    signature: Cow<'a, str>,
}

/// Longest action name.
const ACTION_BYTES_MAX: usize = 64;
/// Longest signature: `ed25519:` and 88 base64 characters.
const SIGNATURE_BYTES_MAX: usize = 96;

impl Envelope {
    /// Reads an envelope: one strict JSON object of exactly the six fields, the payload an object.
    ///
    /// # Errors
    /// [`EnvelopeError`] naming the place or the field.
    pub fn parse(bytes: &[u8]) -> Result<Envelope, EnvelopeError> {
        let text = json::check_object(bytes)?;
        let fields: Fields<'_> =
            serde_json::from_str(text).map_err(|error| EnvelopeError::Shape(error.to_string()))?;
        let name = |error: NameError| EnvelopeError::Shape(error.to_string());
        let timestamp = Time::parse(&fields.timestamp)
            .map_err(|error: TimeError| EnvelopeError::Shape(error.to_string()))?;
        let action_ok = !fields.action.is_empty()
            && fields.action.len() <= ACTION_BYTES_MAX
            && fields.action.bytes().all(|b| b.is_ascii_lowercase() || b == b'.' || b == b'_');
        if !action_ok {
            return Err(EnvelopeError::Shape(format!(
                "`action` is not 1 to {ACTION_BYTES_MAX} of a-z, `.` and `_`"
            )));
        }
        if fields.signature.is_empty()
            || fields.signature.len() > SIGNATURE_BYTES_MAX
            || !fields.signature.is_ascii()
        {
            return Err(EnvelopeError::Shape(
                "`signature` is neither 64 hex digits nor `ed25519:` and base64".to_owned(),
            ));
        }
        let payload = json::minify(fields.payload.get()).into_owned();
        if !payload.starts_with('{') {
            return Err(EnvelopeError::Shape("`payload` is not an object".to_owned()));
        }
        Ok(Envelope {
            id: RequestId::parse(&fields.id).map_err(name)?,
            timestamp_text: fields.timestamp.into_owned(),
            timestamp,
            action: fields.action.into_owned(),
            payload,
            source: Principal::parse(&fields.source).map_err(name)?,
            signature: fields.signature.into_owned(),
        })
    }

    /// What was signed.
    pub fn signing_string(&self) -> String {
        signing::signing_string(self.id.as_str(), &self.timestamp_text, &self.action, &self.payload)
    }

    /// The same, given [`Envelope::payload_hash`].
    pub fn signing_string_of(&self, payload_hash: &str) -> String {
        signing::signing_string_of(self.id.as_str(), &self.timestamp_text, &self.action, payload_hash)
    }

    /// SHA-256 of the signing string, hex: what "the same request" means.
    pub fn request_hash(&self) -> String {
        signing::sha256_hex(self.signing_string().as_bytes())
    }

    /// SHA-256 of the payload bytes, hex.
    pub fn payload_hash(&self) -> String {
        signing::sha256_hex(self.payload.as_bytes())
    }

    /// The envelope as JSON, fields in the document's order.
    pub fn to_json(&self) -> String {
        // `to_string` of plain text cannot fail; quoting by serde_json keeps it correct for any text.
        let quoted = |text: &str| serde_json::to_string(text).unwrap_or_default();
        format!(
            "{{\"id\":{},\"timestamp\":{},\"action\":{},\"payload\":{},\"source\":{},\"signature\":{}}}",
            quoted(self.id.as_str()),
            quoted(&self.timestamp_text),
            quoted(&self.action),
            self.payload,
            quoted(self.source.as_str()),
            quoted(&self.signature)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#" {"id":"r1","timestamp":"2026-02-20T14:42:00Z","action":"order.cancel","payload":{ "order_id" : "o 1" , "n":0.10000000000000000001},"source":"bot","signature":"ab"} "#;

    #[test]
    fn the_payload_keeps_its_bytes_but_for_white_space() {
        let envelope = Envelope::parse(GOOD.as_bytes()).unwrap();
        assert_eq!(envelope.payload, r#"{"order_id":"o 1","n":0.10000000000000000001}"#);
        assert_eq!(Envelope::parse(envelope.to_json().as_bytes()).unwrap(), envelope);
    }

    #[test]
    fn every_deviation_is_refused_by_name() {
        for (from, to, expect) in [
            (r#""id":"r1","#, "", "missing field `id`"),
            (r#""id":"r1""#, r#""id":1"#, "expected a string"),
            (r#""id":"r1""#, r#""id":null"#, "expected a string"),
            (r#""id":"r1""#, r#""id":"r1","id":"r1""#, "duplicate key `id`"),
            (r#""id":"r1""#, r#""id":"r1","\u0069d":"r1""#, "duplicate key `id`"),
            (r#""id":"r1""#, r#""id":"../r1""#, "not a request id"),
            (r#""source":"bot""#, r#""source":"bot","admin":true"#, "unknown field `admin`"),
            (r#""source":"bot""#, r#""source":"../bot""#, "not a principal"),
            ("2026-02-20T14:42:00Z", "2026-02-20T14:42:00+00:00", "not a time"),
            ("order.cancel", "order|cancel", "`action` is not"),
            (r#""signature":"ab""#, r#""signature":"""#, "`signature` is neither"),
            (r#"{ "order_id" : "o 1" , "n":0.10000000000000000001}"#, "[1]", "`payload` is not an object"),
        ] {
            let error = Envelope::parse(GOOD.replace(from, to).as_bytes()).unwrap_err().to_string();
            assert!(error.contains(expect), "{to}: {error}");
        }
        let array = r#"["r1","2026-02-20T14:42:00Z","order.cancel",{},"bot","ab"]"#;
        assert!(Envelope::parse(array.as_bytes()).is_err());
    }
}
