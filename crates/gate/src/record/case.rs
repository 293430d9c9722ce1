//! The line of a council decision.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::state::Change;
use spoolgate_wire::council::Stance;
use spoolgate_wire::ids::RequestId;
use spoolgate_wire::time::Time;

/// Why a case was decided when it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClosedBy {
    /// Every seat that could be filled is filled.
    Seats,
    /// Its deadline had passed.
    Deadline,
    /// A verdict that is not an approval came after an earlier decision.
    Objection,
}

/// The council's decision on a case, with everything that it depends on.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseDecision {
    /// The gate's clock.
    pub timestamp: Time,
    /// The case.
    pub request_id: RequestId,
    /// Payload hash of its request.
    pub request_sha256: String,
    /// Line of its request.
    pub request_line: u64,
    /// Lines of the verdicts that counted, oldest first.
    pub verdict_lines: Vec<u64>,
    /// Why the case was decided when it was.
    pub closed_by: ClosedBy,
    /// Line of the decision that this one replaces, after an objection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revises: Option<u64>,
    /// The outcome.
    pub outcome: Stance,
    /// The contract's object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Box<RawValue>>,
    /// The digest of its blob instead, if it is larger than 8 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision_blob: Option<String>,
    /// Rules, seats, dissent and computed evidence behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<Box<RawValue>>,
    /// The digest of its blob instead, if it is larger than 8 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record_blob: Option<String>,
    /// Path of the decision, below the spool.
    pub answer: String,
    /// Paths of its copies in the own spools of those who voted, below the spool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub copies: Vec<String>,
    /// Hash of the rulebook it was decided under.
    pub rulebook: String,
    /// The changes to the state.
    pub changes: Vec<Change>,
}

impl CaseDecision {
    /// Returns all places of the decision, below the spool.
    pub fn answers(&self) -> impl Iterator<Item = &str> {
        [&self.answer]
            .into_iter()
            .chain(&self.copies)
            .map(String::as_str)
    }
}
