//! The signed envelope around every request, read strictly.

use std::borrow::Cow;

#[cfg(feature = "schema")]
use schemars::{Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::ids::{NameError, Principal, RequestId};
use super::json::{self, JsonError};
use super::shape;
use super::signing;
use super::time::{Time, TimeError};

/// Largest request of any kind, in bytes.
pub const REQUEST_BYTES_MAX: usize = 10_000_000;

/// An envelope with well-formed fields. Its signature is not verified yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The request's id.
    pub id: RequestId,
    /// Its timestamp as sent: the signature covers these bytes.
    pub timestamp_text: String,
    /// Its timestamp, for freshness.
    pub timestamp: Time,
    /// The requested action.
    pub action: String,
    /// The payload: its text as sent, without insignificant white space.
    pub payload: String,
    /// The principal that claims to be the sender.
    pub source: Principal,
    /// The signature as sent.
    pub signature: String,
    /// The task that makes the request and what caused it, if given: an object's text as sent,
    /// without insignificant white space.
    pub causality: Option<String>,
}

/// Why bytes are not an envelope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EnvelopeError {
    /// Not strict JSON.
    #[error("{0}")]
    Json(#[from] JsonError),
    /// A field is missing, unknown or of the wrong type.
    #[error("{0}")]
    Shape(String),
    /// A field does not have its form.
    #[error("{0}")]
    Form(String),
}

/// The members of an envelope as they are read. Their JSON Schema is the schema of a request file.
#[derive(Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fields<'a> {
    /// Id of the request; used once. The answer has the same id.
    #[serde(borrow)]
    #[schemars(with = "RequestId")]
    id: Cow<'a, str>,
    /// Time of signing by the sender's clock: a request that is too old or too far in the future is
    /// refused.
    #[serde(borrow)]
    #[schemars(with = "Time")]
    timestamp: Cow<'a, str>,
    /// The requested action, such as `order.submit`.
    #[serde(borrow)]
    #[schemars(schema_with = "action_schema")]
    action: Cow<'a, str>,
    /// Payload of the action; its schema is named after the action.
    #[serde(borrow)]
    #[schemars(schema_with = "crate::schema::object")]
    payload: &'a RawValue,
    /// The sender.
    #[serde(borrow)]
    #[schemars(with = "Principal")]
    source: Cow<'a, str>,
    /// Signature of the signing string: 64 hex digits of an HMAC-SHA-256, or `ed25519:` and base64.
    #[serde(borrow)]
    #[schemars(schema_with = "signature_schema")]
    signature: Cow<'a, str>,
    /// The task that makes the request and what caused it; absent if there is none. An object of at
    /// most 8192 bytes.
    #[serde(borrow, default, deserialize_with = "present")]
    #[schemars(schema_with = "crate::schema::object")]
    causality: Option<&'a RawValue>,
}

#[cfg(feature = "schema")]
fn action_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "pattern": format!("^[a-z._]{{1,{ACTION_BYTES_MAX}}}$")})
}

#[cfg(feature = "schema")]
fn signature_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "minLength": 1, "maxLength": SIGNATURE_BYTES_MAX,
        "pattern": r"^[\u0000-\u007f]*$"})
}

/// Reads a member that is present, whatever it is: `null` is not the same as an absent member.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// Longest action name.
const ACTION_BYTES_MAX: usize = 64;
/// Longest signature: `ed25519:` and 88 base64 characters.
const SIGNATURE_BYTES_MAX: usize = 96;
/// Longest causality, in bytes of its text without insignificant white space.
pub const CAUSALITY_BYTES_MAX: usize = 8 * 1024;

/// Returns the `id` that bytes name which are not a request, such as JSON with a key twice: the value of
/// the first member `id` of an object, if it is 1 to 128 printable ASCII characters without escapes.
/// Nobody signed it. It only tells a client with several requests on one connection which of them
/// was refused.
///
/// ```
/// use spoolgate_wire::envelope::claimed_id;
///
/// assert_eq!(claimed_id(br#"{"x":[{"id":"no"}],"id": "r-1", "action""#), Some("r-1"));
/// assert_eq!(claimed_id(b"[]"), None);
/// ```
pub fn claimed_id(bytes: &[u8]) -> Option<&str> {
    let text = str::from_utf8(bytes).unwrap_or_else(|error| {
        let (valid, _) = bytes
            .split_at_checked(error.valid_up_to())
            .unwrap_or_default();
        str::from_utf8(valid).unwrap_or_default()
    });
    let mut rest = text.trim_ascii_start().strip_prefix('{')?;
    let mut depth = 1_u32;
    while depth > 0 {
        let at = rest.find(['"', '{', '[', '}', ']'])?;
        let (token, behind) = rest.split_at_checked(at)?.1.split_at_checked(1)?;
        match token {
            "\"" => {
                let (content, after) = string(behind)?;
                let value = after.trim_ascii_start().strip_prefix(':');
                if depth == 1
                    && content == "id"
                    && let Some(value) = value
                {
                    let (id, _) = string(value.trim_ascii_start().strip_prefix('"')?)?;
                    let is_plain = |byte| matches!(byte, b' '..=b'~') && byte != b'\\';
                    let fits = (1..=128).contains(&id.len()) && id.bytes().all(is_plain);
                    return Some(id).filter(|_| fits);
                }
                rest = after;
            }
            "{" | "[" => (depth, rest) = (depth.saturating_add(1), behind),
            _ => (depth, rest) = (depth.saturating_sub(1), behind),
        }
    }
    None
}

/// Splits text behind a quotation mark into the string's content, as written, and what follows it.
fn string(text: &str) -> Option<(&str, &str)> {
    let mut is_escaped = false;
    let end = text.bytes().position(|byte| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    })?;
    Some((text.get(..end)?, text.get(end.saturating_add(1)..)?))
}

impl Envelope {
    /// Reads an envelope: one strict JSON object with exactly the six fields and optionally
    /// `causality`, which is an object like the payload.
    ///
    /// ```
    /// use spoolgate_wire::envelope::Envelope;
    ///
    /// let text = r#"{"id":"r-1","timestamp":"2026-03-02T12:00:00Z","action":"orders.list","payload":{ },
    ///     "source":"trend-bot","signature":"00"}"#;
    /// let request = Envelope::parse(text.as_bytes())?;
    /// assert_eq!((request.id.as_str(), request.payload.as_str()), ("r-1", "{}"));
    /// let more = text.replace("{ }", "{},\"note\":1");
    /// let error = Envelope::parse(more.as_bytes()).unwrap_err().to_string();
    /// assert!(error.contains("unknown field `note`"));
    /// # Ok::<(), spoolgate_wire::envelope::EnvelopeError>(())
    /// ```
    ///
    /// # Errors
    /// Returns an [`EnvelopeError`] with the place or the field.
    pub fn parse(bytes: &[u8]) -> Result<Envelope, EnvelopeError> {
        let text = json::check_object(bytes)?;
        let fields: Fields<'_> =
            shape::from_json(text).map_err(|error| EnvelopeError::Shape(error.to_string()))?;
        let name = |error: NameError| EnvelopeError::Form(error.to_string());
        let timestamp = Time::parse(&fields.timestamp)
            .map_err(|error: TimeError| EnvelopeError::Form(error.to_string()))?;
        let action_ok = !fields.action.is_empty()
            && fields.action.len() <= ACTION_BYTES_MAX
            && fields
                .action
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b == b'.' || b == b'_');
        if !action_ok {
            return Err(EnvelopeError::Form(format!(
                "`action` must be 1 to {ACTION_BYTES_MAX} characters of a-z, `.` and `_`"
            )));
        }
        if fields.signature.is_empty()
            || fields.signature.len() > SIGNATURE_BYTES_MAX
            || !fields.signature.is_ascii()
        {
            return Err(EnvelopeError::Form(
                "`signature` is neither 64 hex digits nor `ed25519:` and base64".to_owned(),
            ));
        }
        let payload = json::minify(fields.payload.get()).into_owned();
        if !payload.starts_with('{') {
            return Err(EnvelopeError::Form("`payload` is not an object".to_owned()));
        }
        let causality = fields.causality.map(read_causality).transpose()?;
        Ok(Envelope {
            id: RequestId::parse(&fields.id).map_err(name)?,
            timestamp_text: fields.timestamp.into_owned(),
            timestamp,
            action: fields.action.into_owned(),
            payload,
            source: Principal::parse(&fields.source).map_err(name)?,
            signature: fields.signature.into_owned(),
            causality,
        })
    }

    /// The text that was signed.
    pub fn signing_string(&self) -> String {
        self.signing_string_of(&self.payload_hash())
    }

    /// As [`Envelope::signing_string`], from [`Envelope::payload_hash`].
    pub fn signing_string_of(&self, payload_hash: &str) -> String {
        let causality_hash = self
            .causality
            .as_ref()
            .map(|text| signing::sha256_hex(text.as_bytes()));
        signing::signing_string_of(
            self.id.as_str(),
            &self.timestamp_text,
            &self.action,
            payload_hash,
            causality_hash.as_deref(),
        )
    }

    /// SHA-256 of the signing string, hex: two requests with the same hash are the same request.
    pub fn request_hash(&self) -> String {
        signing::sha256_hex(self.signing_string().as_bytes())
    }

    /// SHA-256 of the payload bytes, hex.
    pub fn payload_hash(&self) -> String {
        signing::sha256_hex(self.payload.as_bytes())
    }

    /// Renders the envelope as JSON, with the fields in the contract's order.
    pub fn to_json(&self) -> String {
        // `to_string` of plain text cannot fail; serde_json quotes any text correctly.
        let quoted = |text: &str| serde_json::to_string(text).unwrap_or_default();
        let causality = match &self.causality {
            Some(text) => format!(",\"causality\":{text}"),
            None => String::new(),
        };
        format!(
            "{{\"id\":{},\"timestamp\":{},\"action\":{},\"payload\":{},\"source\":{},\
                \"signature\":{}{causality}}}",
            quoted(self.id.as_str()),
            quoted(&self.timestamp_text),
            quoted(&self.action),
            self.payload,
            quoted(self.source.as_str()),
            quoted(&self.signature)
        )
    }
}

fn read_causality(value: &RawValue) -> Result<String, EnvelopeError> {
    let text = json::minify(value.get());
    if !text.starts_with('{') {
        return Err(EnvelopeError::Form(
            "`causality` is not an object; leave it out where there is none".to_owned(),
        ));
    }
    if text.len() > CAUSALITY_BYTES_MAX {
        return Err(EnvelopeError::Form(format!(
            "`causality` has {} bytes without white space, the limit is {CAUSALITY_BYTES_MAX}",
            text.len()
        )));
    }
    Ok(text.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#" {"id":"r1","timestamp":"2026-02-20T14:42:00Z","action":"order.cancel","payload":{ "order_id" : "o 1" , "n":0.10000000000000000001},"source":"bot","signature":"ab"} "#;

    #[test]
    fn the_payload_keeps_its_bytes_but_for_white_space() {
        let envelope = Envelope::parse(GOOD.as_bytes()).unwrap();
        assert_eq!(
            envelope.payload,
            r#"{"order_id":"o 1","n":0.10000000000000000001}"#
        );
        assert_eq!(
            Envelope::parse(envelope.to_json().as_bytes()).unwrap(),
            envelope
        );
    }

    fn with_causality(causality: &str) -> Result<Envelope, EnvelopeError> {
        let member = format!(r#""signature":"ab" , "causality" : {causality}"#);
        Envelope::parse(GOOD.replace(r#""signature":"ab""#, &member).as_bytes())
    }

    #[test]
    fn causality_keeps_its_bytes_and_is_signed() {
        let plain = Envelope::parse(GOOD.as_bytes()).unwrap();
        assert_eq!(plain.causality, None);
        let envelope = with_causality(r#"{ "root_task_id" : "t 1", "spawn_depth":0.0 }"#).unwrap();
        assert_eq!(
            envelope.causality.as_deref(),
            Some(r#"{"root_task_id":"t 1","spawn_depth":0.0}"#)
        );
        assert!(
            envelope
                .to_json()
                .ends_with(r#""ab","causality":{"root_task_id":"t 1","spawn_depth":0.0}}"#)
        );
        assert_eq!(
            Envelope::parse(envelope.to_json().as_bytes()).unwrap(),
            envelope
        );
        let empty = with_causality("{}").unwrap();
        let other = with_causality(r#"{ "root_task_id" : "t 1", "spawn_depth":0 }"#).unwrap();
        let all = [plain, envelope, empty, other];
        let hashes: std::collections::BTreeSet<_> =
            all.iter().map(Envelope::request_hash).collect();
        assert_eq!(hashes.len(), all.len());
    }

    #[test]
    fn causality_is_an_object_of_bounded_size() {
        let of_bytes = |bytes: usize| format!(r#"{{ "a" : "{}" }}"#, "x".repeat(bytes - 8));
        assert_eq!(
            with_causality(&of_bytes(8192))
                .unwrap()
                .causality
                .unwrap()
                .len(),
            8192
        );
        for (causality, expect) in [
            ("null", "`causality` is not an object"),
            ("[]", "`causality` is not an object"),
            (r#""{}""#, "`causality` is not an object"),
            ("1", "`causality` is not an object"),
            (
                &of_bytes(8193),
                "`causality` has 8193 bytes without white space, the limit is 8192",
            ),
            (r#"{},"causality":{}"#, "duplicate key `causality`"),
            (r#"{"a":1,"\u0061":2}"#, "duplicate key `a`"),
            (r#"{},"seen":{}"#, "unknown field `seen`"),
        ] {
            let error = with_causality(causality).unwrap_err().to_string();
            assert!(error.contains(expect), "{causality}: {error}");
        }
    }

    #[test]
    fn every_deviation_is_refused_by_name() {
        for (from, to, expect) in [
            (r#""id":"r1","#, "", "missing field `id`"),
            (r#""id":"r1""#, r#""id":1"#, "expected a string"),
            (r#""id":"r1""#, r#""id":null"#, "expected a string"),
            (
                r#""id":"r1""#,
                r#""id":"r1","id":"r1""#,
                "duplicate key `id`",
            ),
            (
                r#""id":"r1""#,
                r#""id":"r1","\u0069d":"r1""#,
                "duplicate key `id`",
            ),
            (r#""id":"r1""#, r#""id":"../r1""#, "not a request id"),
            (
                r#""source":"bot""#,
                r#""source":"bot","admin":true"#,
                "unknown field `admin`",
            ),
            (
                r#""source":"bot""#,
                r#""source":"../bot""#,
                "not a principal",
            ),
            (
                "2026-02-20T14:42:00Z",
                "2026-02-20T14:42:00+00:00",
                "not a time",
            ),
            ("order.cancel", "order|cancel", "`action` must be"),
            (
                r#""signature":"ab""#,
                r#""signature":"""#,
                "`signature` is neither",
            ),
            (
                r#"{ "order_id" : "o 1" , "n":0.10000000000000000001}"#,
                "[1]",
                "`payload` is not an object",
            ),
        ] {
            let error = Envelope::parse(GOOD.replace(from, to).as_bytes())
                .unwrap_err()
                .to_string();
            assert!(error.contains(expect), "{to}: {error}");
        }
        let array = r#"["r1","2026-02-20T14:42:00Z","order.cancel",{},"bot","ab"]"#;
        assert!(Envelope::parse(array.as_bytes()).is_err());
    }
}
