//! Signed envelopes, made the one way that the gate reads them.

use crate::host::clock::{Clock, SystemClock};
use crate::host::entropy::{Entropy, EntropyError, SystemEntropy};
use crate::wire::envelope::{CAUSALITY_BYTES_MAX, Envelope};
use crate::wire::ids::{NameError, Principal, RequestId};
use crate::wire::json::{self, JsonError};
use crate::wire::signing::{SignKey, hex};
use crate::wire::time::{Time, TimeError};

/// Why there is nothing to sign.
#[derive(Debug, thiserror::Error)]
pub enum SignError {
    /// The payload is no strict JSON object.
    #[error("the payload: {0}")]
    Payload(JsonError),
    /// The causality is none.
    #[error("the causality: {0}")]
    Causality(JsonError),
    /// The causality is too long.
    #[error("the causality has {bytes} bytes without white space, the limit is {CAUSALITY_BYTES_MAX}")]
    CausalityTooLong {
        /// How long it is.
        bytes: usize,
    },
    /// The id is none.
    #[error("{0}")]
    Id(#[from] NameError),
    /// The timestamp is none.
    #[error("{0}")]
    Timestamp(#[from] TimeError),
    /// There is no id to be had.
    #[error("{0}")]
    Entropy(#[from] EntropyError),
}

/// 32 random hex digits, for ids and file names.
///
/// # Errors
/// [`EntropyError`] if the system has none.
pub fn random_name() -> Result<String, EntropyError> {
    Ok(hex(&SystemEntropy.bytes32()?).chars().take(32).collect())
}

/// Makes a signed envelope. Payload and causality are JSON objects, and keep their text but for insignificant white space;
/// `id` is a random one and `timestamp` now where they are not given.
///
/// # Errors
/// [`SignError`] naming what is wrong.
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
        None => SystemClock::default().now().to_string(),
    };
    let timestamp = Time::parse(&timestamp_text)?;
    let object = |text: &str| -> Result<String, JsonError> {
        Ok(json::minify(json::check_object(text.as_bytes())?).into_owned())
    };
    let payload = object(payload).map_err(SignError::Payload)?;
    let causality = causality.map(object).transpose().map_err(SignError::Causality)?;
    if let Some(text) = causality.as_ref().filter(|text| text.len() > CAUSALITY_BYTES_MAX) {
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
