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
    /// Every seat that could still be filled was.
    Seats,
    /// Its deadline had passed.
    Deadline,
}

/// The council's decision on a case, with all that it rests on.
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
    /// Why now.
    pub closed_by: ClosedBy,
    /// The outcome.
    pub outcome: Stance,
    /// The contract's object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Box<RawValue>>,
    /// Its digest instead, where it is larger than 8 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision_blob: Option<String>,
    /// Rules, seats, dissent and computed evidence behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<Box<RawValue>>,
    /// Its digest instead, where it is larger than 8 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record_blob: Option<String>,
    /// Where the decision is, below the spool.
    pub answer: String,
    /// Hash of the rulebook it was decided under.
    pub rulebook: String,
    /// What it does to the state.
    pub changes: Vec<Change>,
}
