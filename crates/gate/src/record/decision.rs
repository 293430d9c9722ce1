//! The line of a request and its decision, which can rebuild its answer.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::error::RecordError;
use crate::actions::Lane;
use crate::approvals;
use crate::prepare::Refusal;
use crate::rates::Bucket;
use crate::state::Change;
use spoolgate_admission::Receipt;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::answer::AnswerError;
use spoolgate_wire::approvals::HoldId;
use spoolgate_wire::checks::CheckRow;
use spoolgate_wire::code::{Code, Retry};
use spoolgate_wire::ids::OrderId;
use spoolgate_wire::orders::Headroom;
use spoolgate_wire::repair::Repair;
use spoolgate_wire::sealed::Field;
use spoolgate_wire::time::Time;

/// Maximum age of an exit, cancel or tighten that counts as a sign of life of its sender,
/// milliseconds.
const LIFE_AGE_MAX_MS: i64 = 300_000;

/// Bytes that most decision lines of orders fit into.
const BODY_BYTES_USUAL: usize = 6 * 1024;

/// Status of a request in the audit trail, spelled as in the gateway contract. `rate_limited` and
/// `requires_approval` are spelled as in the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Carried out.
    Success,
    /// Refused.
    #[default]
    Rejected,
    /// Refused for now: the same request may come again later.
    RateLimited,
    /// Held until a person approves: nothing is done yet.
    #[serde(rename = "requires_approval")]
    Held,
    /// About to be carried out outside; the result is in a response line.
    Pending,
    /// Tried outside, and not known to be done.
    Error,
}

/// ACCEPTED or REJECTED, for requests with a check vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ruling {
    /// Every blocking check passed.
    #[serde(rename = "ACCEPTED")]
    Accepted,
    /// A blocking check failed.
    #[serde(rename = "REJECTED")]
    Rejected,
}

/// Direction of an audit entry; a decision is request and response in one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Flow {
    /// A request that is about to be carried out.
    Request,
    /// The answer to a request.
    #[default]
    Response,
}

/// Why, exactly.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metadata {
    /// Code of a refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// What, where and what to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The line whose stored answer was given again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay_of: Option<u64>,
    /// Whether and how its sender may try again; absent from lines of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair: Option<Box<Repair>>,
}

impl Metadata {
    /// The metadata of a refusal.
    pub(crate) fn of(refusal: Refusal) -> Metadata {
        Metadata {
            code: Some(refusal.code),
            message: Some(refusal.message),
            replay_of: None,
            repair: Some(Box::new(refusal.repair)),
        }
    }

    /// Adds how to try again to the body of a refusal.
    pub(super) fn with_repair(
        &self,
        data: Option<Box<RawValue>>,
    ) -> Result<Option<Box<RawValue>>, serde_json::Error> {
        match &self.repair {
            Some(repair) => repair.added_to(data).map(Some),
            None => Ok(data),
        }
    }

    /// The reason as it is answered.
    pub(super) fn answered(&self) -> Option<AnswerError> {
        let message = |code: Code| {
            self.message
                .clone()
                .unwrap_or_else(|| code.remedy().to_owned())
        };
        self.code.map(|code| AnswerError {
            code,
            message: message(code),
        })
    }
}

#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// A request and its decision in one line: nothing outside happened in between.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decision {
    /// The gate's clock.
    pub timestamp: Time,
    /// Id of this line: its own seq.
    pub id: String,
    /// Id of the request, where it could be read.
    pub request_id: Option<String>,
    /// Its action.
    pub action: Option<String>,
    /// The sender. Without a good signature, the principal that the request names as its sender.
    pub source: Option<String>,
    /// `response`; `request` of one that is pending.
    pub direction: Flow,
    /// Outcome.
    pub status: Status,
    /// SHA-256 of the payload, hex.
    pub payload_hash: Option<String>,
    /// The signature as sent.
    pub signature: Option<String>,
    /// The key that verified it; null if no key did.
    pub key_id: Option<String>,
    /// SHA-256 of the signing string, hex.
    pub request_hash: Option<String>,
    /// The signed timestamp as sent.
    pub requested_at: Option<String>,
    /// Spool it came through: `flat`, `local` or `agent-<name>`.
    pub spool: String,
    /// Name of its file; a name that is not one is given as `=` and a hash.
    pub file: String,
    /// SHA-256 of the file's bytes, hex; null if the gate did not read them.
    pub file_sha256: Option<String>,
    /// Size of the file in bytes.
    pub file_bytes: Option<u64>,
    /// Lane it was decided in.
    pub lane: Lane,
    /// The rate that it counts in among its sender's messages; absent if it does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Bucket>,
    /// How many requests under its id, whose shapes were refused, it replaces; absent if none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempt: u32,
    /// The payload's type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_type: Option<String>,
    /// Strategy of an order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<String>,
    /// Symbol of an order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub symbol: Option<String>,
    /// Side of an order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side: Option<String>,
    /// Size of an order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Amount>,
    /// The payload's text, as a string, so that text from agents never looks like a ledger line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<String>,
    /// The digest of its blob instead, if it is larger than 8 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_blob: Option<String>,
    /// What is sealed: members of the payload, which holds `{"_sd": digest}` in their places, the
    /// hashes of what was signed, and the file's bytes of a held request. If anything is sealed,
    /// `payload_hash` and `request_hash` are computed over the payload as it is here, and signature
    /// and file hash are null.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sealed: Vec<Field>,
    /// The full check vector.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckRow>,
    /// The ruling over it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Ruling>,
    /// The order it is about, or that it made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order_id: Option<OrderId>,
    /// The largest size that would pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headroom: Option<Headroom>,
    /// The answer's body, if it does not follow from the check vector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Box<RawValue>>,
    /// The digest of its blob instead, if it is larger than 8 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_blob: Option<String>,
    /// The receipt of admission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Box<Receipt>>,
    /// The exact reason.
    pub metadata: Metadata,
    /// Path of the answer, below the spool.
    pub answer: String,
    /// Path of the kept bytes of a file that is not a request, below the spool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
    /// The hold that it ends: this is the final answer to a held request, whether decided again or
    /// not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<HoldId>,
    /// The values that its rules read, by the names of fields. Numbers (as texts), names and texts,
    /// `true` and `false`, lists of these, null if the request leaves the field out,
    /// `{"unknown": why}`, and `{"sha256", "bytes"}` for a long text. Absent if no rules were
    /// applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts: Option<Box<RawValue>>,
    /// The digest of their blob instead, if they are larger than 8 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts_blob: Option<String>,
    /// Hash of the rulebook it was decided under.
    pub rulebook: String,
    /// The changes to the state.
    pub changes: Vec<Change>,
}

impl Decision {
    /// The line's `kind`: `request` for an action that is about to be carried out outside.
    pub fn kind(&self) -> &'static str {
        if self.status == Status::Pending {
            "request"
        } else {
            "decision"
        }
    }

    /// The line's body as a JSON object.
    ///
    /// # Errors
    /// Returns the serialiser's error.
    pub fn body(&self) -> Result<String, RecordError> {
        let mut body = Vec::with_capacity(BODY_BYTES_USUAL);
        serde_json::to_writer(&mut body, self)?;
        Ok(String::from_utf8(body)?)
    }

    /// Whether its id is used up. An id is not used up by a request without a good signature, by
    /// one whose answer leaves an earlier answer in place, or by one that may be sent again.
    pub fn uses_up_its_id(&self) -> bool {
        let is_left_over = |code: Code| code.stands_aside() || code.is_for_later();
        self.key_id.is_some() && !self.metadata.code.is_some_and(is_left_over)
    }

    /// Whether its sender may repair it under its id: then another request replaces its answer.
    pub fn leaves_id_open(&self) -> bool {
        let repair = self.metadata.repair.as_deref();
        self.uses_up_its_id() && repair.is_some_and(|repair| repair.retry == Retry::SameId)
    }

    /// The sender, if this request is a sign of life. A copy of an earlier request is not, nor is
    /// the end of a hold, nor an exit, cancel or tighten that arrives late: these are carried out
    /// even a day late, but by then they do not show that the sender is alive.
    pub fn is_sign_of_life_of(&self) -> Option<&str> {
        let is_late = || {
            let signed = self
                .requested_at
                .as_deref()
                .and_then(|text| Time::parse(text).ok());
            signed.is_none_or(|signed| {
                self.timestamp.since_ms(signed).saturating_abs() > LIFE_AGE_MAX_MS
            })
        };
        let is_fresh = self.metadata.replay_of.is_none()
            && self.metadata.code != Some(Code::TimestampStale)
            && self.hold.is_none()
            && (self.lane != Lane::Protected || !is_late());
        self.source
            .as_deref()
            .filter(|_| is_fresh && self.uses_up_its_id())
    }

    /// Whether it opened a council case.
    pub fn opens_a_case(&self) -> bool {
        self.status == Status::Success
            && self.metadata.replay_of.is_none()
            && self.request_type.as_deref() == Some("CouncilRequest")
    }

    /// Path of the task that an ALLOW forwarded, below the spool.
    pub fn forwarded_to(&self) -> Option<&str> {
        self.receipt.as_ref()?.forwarded_to.as_deref()
    }

    /// The changes of held requests.
    pub fn of_approvals(&self) -> impl Iterator<Item = &approvals::Change> {
        self.changes.iter().filter_map(|change| match change {
            Change::Approvals(change) => Some(change),
            _ => None,
        })
    }

    /// Whether it changes rule files, proposals or credentials, which a start after a crash puts in
    /// place again.
    pub fn changes_rules(&self) -> bool {
        self.changes
            .iter()
            .any(|change| matches!(change, Change::Proposal(_) | Change::Services(_)))
    }
}
