//! Payloads of requests as the gate reads them.

use std::fmt::Debug;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use super::admission::{AdmissionAttempt, BodyFields};
use super::control::{ControlAttempt, ControlDecision};
use super::shape;
use super::venue::{Sent, VenueReport};

/// Why a payload is invalid: a message for its sender, which names the member and what is expected
/// there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PayloadError(String);

impl From<String> for PayloadError {
    fn from(message: String) -> PayloadError {
        PayloadError(message)
    }
}

impl From<&str> for PayloadError {
    fn from(message: &str) -> PayloadError {
        PayloadError(message.to_owned())
    }
}

impl From<PayloadError> for String {
    fn from(error: PayloadError) -> String {
        error.0
    }
}

/// What an action takes.
pub trait Payload: Debug + JsonSchema + Send + Sync + Sized + 'static {
    /// Reads strict JSON without insignificant white space.
    ///
    /// # Errors
    /// Returns what is wrong with it, and where.
    fn read(text: &str) -> Result<Self, PayloadError>;
}

impl<T: DeserializeOwned + Debug + JsonSchema + Send + Sync + 'static> Payload for T {
    fn read(text: &str) -> Result<T, PayloadError> {
        shape::from_json(text).map_err(|error| error.to_string().into())
    }
}

// The contracts answer these two even if they have the wrong shape.
impl Payload for AdmissionAttempt {
    fn read(text: &str) -> Result<AdmissionAttempt, PayloadError> {
        Ok(AdmissionAttempt::read(text))
    }
}

impl Payload for ControlAttempt {
    fn read(text: &str) -> Result<ControlAttempt, PayloadError> {
        Ok(ControlAttempt::read(text))
    }
}

crate::schema_of!(AdmissionAttempt, BodyFields<'_>);
crate::schema_of!(ControlAttempt, ControlDecision);
crate::schema_of!(VenueReport, Sent);
