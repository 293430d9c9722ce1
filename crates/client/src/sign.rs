//! Makes signed envelopes in the one form that the gate accepts.

use std::time::{SystemTime, UNIX_EPOCH};

use spoolgate_wire::envelope::{CAUSALITY_BYTES_MAX, Envelope};
use spoolgate_wire::ids::{NameError, Principal, RequestId};
use spoolgate_wire::json::{self, JsonError};
use spoolgate_wire::signing::{SignKey, hex};
use spoolgate_wire::time::{Time, TimeError};

/// Why an envelope cannot be signed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SignError {
    /// The payload is not a strict JSON object.
    #[error("the payload: {0}")]
    Payload(JsonError),
    /// The causality is not a strict JSON object.
    #[error("the causality: {0}")]
    Causality(JsonError),
    /// The causality is too long.
    #[error(
        "the causality has {bytes} bytes without white space, the limit is {CAUSALITY_BYTES_MAX}"
    )]
    CausalityTooLong {
        /// Its length in bytes without white space.
        bytes: usize,
    },
    /// The id is invalid.
    #[error("{0}")]
    Id(#[from] NameError),
    /// The timestamp is invalid.
    #[error("{0}")]
    Timestamp(#[from] TimeError),
    /// A random id cannot be generated.
    #[error("the operating system gave no random bytes: {0}")]
    Entropy(#[from] getrandom::Error),
}

/// 32 random hex digits, for ids and file names.
///
/// # Errors
/// Returns the operating system's error if it has no random bytes.
pub fn random_name() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(hex(&bytes))
}

/// The machine's clock; before 1970 or after 9999 it reads as 1970, which every gate refuses as too
/// old.
fn now() -> Time {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_millis())
        .ok()
        .and_then(|ms| Time::from_ms(ms).ok())
        .unwrap_or(Time::EPOCH)
}

/// Makes a signed envelope. Payload and causality are JSON objects and keep their text except for
/// insignificant white space. By default `id` is random and `timestamp` is the current time.
///
/// ```
/// use spoolgate_client::sign;
/// use spoolgate_wire::{ids::Principal, signing::SignKey};
///
/// let key = SignKey::Hmac([7; 32]);
/// let by = Principal::parse("trend-bot")?;
/// let request = sign(&key, &by, "orders.list", "{ }", None, None, None)?;
/// assert_eq!(request.payload, "{}");
/// assert!(key.verify_key().verifies(&request.signing_string(), &request.signature));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns a [`SignError`] that names what is wrong.
pub fn sign(
    key: &SignKey,
    source: &Principal,
    action: &str,
    payload: &str,
    causality: Option<&str>,
    id: Option<&str>,
    timestamp: Option<&str>,
) -> Result<Envelope, SignError> {
    let id = match id {
        Some(id) => id.to_owned(),
        None => random_name()?,
    };
    let timestamp_text = match timestamp {
        Some(text) => text.to_owned(),
        None => now().to_string(),
    };
    let timestamp = Time::parse(&timestamp_text)?;
    let object = |text: &str| -> Result<String, JsonError> {
        Ok(json::minify(json::check_object(text.as_bytes())?).into_owned())
    };
    let payload = object(payload).map_err(SignError::Payload)?;
    let causality = causality
        .map(object)
        .transpose()
        .map_err(SignError::Causality)?;
    if let Some(text) = causality
        .as_ref()
        .filter(|text| text.len() > CAUSALITY_BYTES_MAX)
    {
        return Err(SignError::CausalityTooLong { bytes: text.len() });
    }
    let mut envelope = Envelope {
        id: RequestId::parse(&id)?,
        timestamp_text,
        timestamp,
        action: action.to_owned(),
        payload,
        source: source.clone(),
        signature: String::new(),
        causality,
    };
    envelope.signature = key.sign(&envelope.signing_string());
    Ok(envelope)
}
