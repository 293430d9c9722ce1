//! The answer to a request, as in `spool/out`.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::code::{Code, Exit, Retry};
use super::time::Time;

/// Outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AnswerStatus {
    /// Carried out.
    Success,
    /// Refused or malformed; `error` says why.
    Error,
    /// Held until a person approves.
    RequiresApproval,
    /// Too many requests; `data.retryAfterMs` says how long to wait.
    RateLimited,
}

/// Why a request was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AnswerError {
    /// Stable code.
    pub code: Code,
    /// What happened, where, and what to do.
    pub message: String,
}

/// What the gate removed from the texts of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Removed {
    /// Number of invisible, tag and direction characters.
    pub invisible: u64,
}

/// The ActionResponse of the gateway document.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// Id of the request; empty if it could not be read.
    #[serde(rename = "requestId")]
    pub request_id: String,
    /// Time of the gate's clock at the decision.
    pub timestamp: Time,
    /// Outcome.
    pub status: AnswerStatus,
    /// Body that the contract defines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::schema::any")]
    pub data: Option<Box<RawValue>>,
    /// What was removed from the texts of `data` and of the message; absent if nothing was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed: Option<Removed>,
    /// Whether a person redacted the result: what was redacted is left out. Absent if not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub redacted: bool,
    /// Why the request did not succeed; absent after a success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<AnswerError>,
    /// Number of the ledger line that holds the final status, decimal.
    #[serde(rename = "auditRef")]
    pub audit_ref: String,
}

/// Number of bytes that an answer usually needs around its `data`.
const ENVELOPE_BYTES_USUAL: usize = 512;

impl Answer {
    /// Renders the file: one line of JSON.
    pub fn to_bytes(&self) -> Vec<u8> {
        let data = self.data.as_ref().map_or(0, |data| data.get().len());
        let mut bytes = Vec::with_capacity(data.saturating_add(ENVELOPE_BYTES_USUAL));
        if serde_json::to_writer(&mut bytes, self).is_err() {
            bytes.clear();
        }
        bytes.push(b'\n');
        bytes
    }

    /// Whether and how the sender may try again; `None` after a success, and in answers of earlier
    /// versions.
    pub fn retry(&self) -> Option<Retry> {
        #[derive(Deserialize)]
        struct Advice {
            retry: Retry,
        }
        self.error.as_ref()?;
        let advice: Advice = serde_json::from_str(self.data.as_ref()?.get()).ok()?;
        Some(advice.retry)
    }

    /// The exit code of a command that ends with this answer.
    ///
    /// ```
    /// use spoolgate_wire::answer::Answer;
    /// use spoolgate_wire::code::{Code, Exit};
    ///
    /// let file = r#"{"requestId":"r-1","timestamp":"2026-03-02T12:00:00.000Z","status":"error",
    ///     "error":{"code":"TIMESTAMP_STALE","message":"too old"},"auditRef":"7"}"#;
    /// let answer: Answer = serde_json::from_str(file)?;
    /// assert_eq!(answer.error.as_ref().map(|error| error.code), Some(Code::TimestampStale));
    /// assert_eq!(answer.exit(), Exit::Refused);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn exit(&self) -> Exit {
        match (self.status, &self.error) {
            (AnswerStatus::Success, _) => Exit::Success,
            (AnswerStatus::RequiresApproval, _) => Exit::NeedsApproval,
            (AnswerStatus::RateLimited, _) => Exit::RateLimited,
            (AnswerStatus::Error, Some(error)) => error.code.exit(),
            (AnswerStatus::Error, None) => Exit::Refused,
        }
    }
}
