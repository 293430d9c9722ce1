//! The line about how an outgoing action ended.

use super::cage::Cage;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::answers::from_blob;
use super::decision::{Flow, Metadata, Status};
use super::error::LineAnswerError;
use crate::state::Change;
use spoolgate_wire::answer::{Answer, AnswerStatus, Removed};
use spoolgate_wire::time::Time;

/// The result of an outgoing action.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Response {
    /// The gate's clock.
    pub timestamp: Time,
    /// Id of this line: its own seq.
    pub id: String,
    /// Id of the request.
    pub request_id: String,
    /// Its action.
    pub action: String,
    /// The sender.
    pub source: String,
    /// Always `response`.
    pub direction: Flow,
    /// `success` or `error`.
    pub status: Status,
    /// SHA-256 of the payload, hex, as its request line has it.
    pub payload_hash: Option<String>,
    /// The signature as its request line has it.
    pub signature: Option<String>,
    /// Its request line.
    pub request_line: u64,
    /// `stub` or `exec`.
    pub adapter: String,
    /// How the adapter ended, as a text.
    pub note: String,
    /// What the adapter wrote to standard error; it is not part of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complaint: Option<String>,
    /// What the cage of the program enforced; absent if none ran, or without a cage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cage: Option<Cage>,
    /// The result that the adapter reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Box<RawValue>>,
    /// The digest of its blob instead, if it is larger than 8 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_blob: Option<String>,
    /// What was removed from the texts of `data` and of the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed: Option<Removed>,
    /// The exact reason.
    pub metadata: Metadata,
    /// Spool the request came through.
    pub spool: String,
    /// Path of the answer, below the spool.
    pub answer: String,
    /// Paths of further copies of the answer, below the spool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
    /// Hash of the rulebook in force.
    pub rulebook: String,
    /// The changes to the state.
    pub changes: Vec<Change>,
}

impl Response {
    /// Rebuilds the answer byte for byte. `blob` holds the bytes of `data_blob`, if the line has
    /// one.
    ///
    /// # Errors
    /// Returns [`LineAnswerError`] if a blob is needed and missing or is not JSON.
    pub fn answer(&self, blob: Option<&[u8]>) -> Result<Answer, LineAnswerError> {
        let data = match (&self.data, &self.data_blob) {
            (Some(data), _) => Some(data.clone()),
            (None, Some(digest)) => Some(from_blob(digest, blob)?),
            (None, None) => None,
        };
        Ok(Answer {
            request_id: self.request_id.clone(),
            timestamp: self.timestamp,
            status: if self.status == Status::Success {
                AnswerStatus::Success
            } else {
                AnswerStatus::Error
            },
            data,
            removed: self.removed,
            error: self.metadata.answered(),
            audit_ref: self.id.clone(),
        })
    }

    /// Every path below the spool that the answer is written to.
    pub fn answers(&self) -> impl Iterator<Item = &str> {
        [self.answer.as_str()]
            .into_iter()
            .chain(self.also.iter().map(String::as_str))
    }
}
