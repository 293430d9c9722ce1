//! The line about how an outgoing action ended.

use super::cage::Cage;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::answers::from_blob;
use super::decision::{Flow, Metadata, Status};
use super::error::LineAnswerError;
use crate::state::Change;
use spoolgate_wire::answer::{Answer, AnswerStatus, Removed};
use spoolgate_wire::code::Code;
use spoolgate_wire::sealed::{Disclosure, Field, Salt, blob_name, standing_for};
use spoolgate_wire::time::Time;

/// Content that must be durable before its line, by the name of its blob.
pub type Blob = (String, Vec<u8>);

/// Field name of the sealed data.
const DATA: &str = "data";
/// Field name of the sealed complaint.
const COMPLAINT: &str = "complaint";
/// Field name of the sealed message.
pub(crate) const MESSAGE: &str = "message";

/// Whether the message of this code has words of the adapter.
fn quotes_adapter(code: Code) -> bool {
    matches!(code, Code::AdapterFailed | Code::AdapterOutput)
}

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
    /// What is sealed: `data`, `complaint` and `message` (of the metadata), as far as the adapter
    /// wrote them. The member holds `{"_sd": digest}`, as text where it is a text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sealed: Vec<Field>,
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
            data: self.metadata.with_repair(data)?,
            removed: self.removed,
            redacted: false,
            error: self.metadata.answered(),
            audit_ref: self.id.clone(),
        })
    }

    /// What the adapter wrote, by the names of fields, in their order.
    fn written(&self) -> Vec<(&'static str, String)> {
        let code = self.metadata.code;
        let text = |text: &String| serde_json::Value::from(text.as_str()).to_string();
        let data = self.data.as_ref().map(|data| data.get().to_owned());
        let data = data.filter(|_| code != Some(Code::StubAdapter));
        let message = self.metadata.message.as_ref();
        let message = message.filter(|_| code.is_some_and(quotes_adapter));
        [
            (DATA, data),
            (COMPLAINT, self.complaint.as_ref().map(text)),
            (MESSAGE, message.map(text)),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
    }

    /// Seals what the adapter wrote, with one salt for each member. Returns the disclosures by the
    /// names of their blobs, which must be durable before the line.
    ///
    /// # Errors
    /// Returns the error of `salt`.
    pub fn seal<E>(&mut self, salt: &mut dyn FnMut() -> Result<Salt, E>) -> Result<Vec<Blob>, E> {
        let mut blobs = Vec::new();
        self.sealed.clear();
        for (name, value) in self.written() {
            let Disclosure { digest, text } = Disclosure::new(salt()?, name, &value);
            let stub = standing_for(&digest);
            let stub = match name {
                DATA => stub,
                _ => serde_json::Value::from(stub).to_string(),
            };
            self.reveal(name, Some(&stub));
            blobs.push((blob_name(&digest), text.into_bytes()));
            self.sealed.push(Field {
                field: name.to_owned(),
                sd: digest,
            });
        }
        Ok(blobs)
    }

    /// Puts the JSON value of a sealed member in its place; without a value, the member is absent.
    pub fn reveal(&mut self, name: &str, value: Option<&str>) {
        let text = || value.and_then(|value| serde_json::from_str(value).ok());
        match name {
            DATA => {
                self.data = value.and_then(|value| RawValue::from_string(value.to_owned()).ok());
            }
            COMPLAINT => self.complaint = text(),
            MESSAGE => self.metadata.message = text(),
            _ => {}
        }
    }

    /// Whether this member is sealed.
    pub fn is_sealed(&self, name: &str) -> bool {
        self.sealed.iter().any(|field| field.field == name)
    }

    /// Whether the members that `sealed` names hold its digests, and no other member may be sealed.
    pub fn is_sealed_as_named(&self) -> bool {
        let stubs = self.sealed.iter().map(|Field { field, sd }| {
            let stub = standing_for(sd);
            match field.as_str() {
                DATA => (field.as_str(), stub),
                _ => (field.as_str(), serde_json::Value::from(stub).to_string()),
            }
        });
        stubs.eq(self.written())
    }

    /// Every path below the spool that the answer is written to.
    pub fn answers(&self) -> impl Iterator<Item = &str> {
        [self.answer.as_str()]
            .into_iter()
            .chain(self.also.iter().map(String::as_str))
    }
}
