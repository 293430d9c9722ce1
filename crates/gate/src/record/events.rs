//! Lines that are not about one request: the first line of a log, events, market rows, what is
//! published, what is redacted, and what a person did.

use serde::{Deserialize, Serialize};

use crate::state::Change;
use spoolgate_wire::ids::Principal;
use spoolgate_wire::sealed::Field;
use spoolgate_wire::time::Time;

/// First line of a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Genesis {
    /// The gate's clock.
    pub timestamp: Time,
    /// Version of the format: 1.
    pub format: u32,
    /// Name of the log in checkpoints: a schema-less URL.
    pub origin: String,
    /// Verifier key of checkpoints, C2SP signed-note form.
    pub log_key: String,
    /// Public key of seals, hex.
    pub seal_key: String,
    /// 32 random bytes, hex: no two logs share a first line.
    pub nonce: String,
    /// Hash of the first rulebook.
    pub rulebook: String,
    /// Version of the program.
    pub program: String,
    /// The first state: rulebook and the first person's key.
    pub changes: Vec<Change>,
}

/// What a line that is not about one request reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A watcher or drain began.
    Start,
    /// It ended in order.
    Stop,
    /// A rulebook came into force, or the files cannot be used.
    Rulebook,
    /// A new day.
    Tick,
    /// The halt file appeared or went.
    Halt,
    /// The machine's clock stepped back.
    ClockStep,
    /// An agent is not heard of.
    DeadMan,
    /// Files of a spool wait over its quota, or no longer.
    Quota,
    /// A proposal was approved by a signature.
    Proposal,
}

impl EventKind {
    const ALL: [EventKind; 9] = [
        EventKind::Start,
        EventKind::Stop,
        EventKind::Rulebook,
        EventKind::Tick,
        EventKind::Halt,
        EventKind::ClockStep,
        EventKind::DeadMan,
        EventKind::Quota,
        EventKind::Proposal,
    ];

    /// The line's `kind`.
    pub const fn name(self) -> &'static str {
        match self {
            EventKind::Start => "start",
            EventKind::Stop => "stop",
            EventKind::Rulebook => "rulebook",
            EventKind::Tick => "tick",
            EventKind::Halt => "halt",
            EventKind::ClockStep => "clock_step",
            EventKind::DeadMan => "dead_man",
            EventKind::Quota => "quota",
            EventKind::Proposal => "proposal",
        }
    }

    pub(super) fn named(name: &str) -> Option<EventKind> {
        EventKind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// The body of a line that is not about one request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// The gate's clock.
    pub timestamp: Time,
    /// What happened, in words.
    pub note: String,
    /// What it does to the state.
    pub changes: Vec<Change>,
}

/// Answers up to a line are durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The gate's clock.
    pub timestamp: Time,
    /// All answers of lines up to this one are on disk.
    pub up_to: u64,
}

/// Market rows and what they did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MarketRows {
    /// The gate's clock.
    pub timestamp: Time,
    /// Instrument.
    pub symbol: String,
    /// Name of the file they came from. Absent, like the next two, if the rows are in the payload
    /// of the decision that follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_name: Option<String>,
    /// SHA-256 of that file, hex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_sha256: Option<String>,
    /// The rows' digest: they lie in `audit/blobs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows_sha256: Option<String>,
    /// First row of this line, from 0.
    pub first_row: u64,
    /// How many rows.
    pub row_count: u64,
    /// What they did.
    pub changes: Vec<Change>,
}

/// Disclosures of a line's sealed fields that are deleted from here on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Redaction {
    /// The gate's clock.
    pub timestamp: Time,
    /// Who did it, as the gate's machine knows them.
    pub by: String,
    /// Why.
    pub reason: String,
    /// The line.
    pub line: u64,
    /// What of it.
    pub fields: Vec<Field>,
}

/// Body of an `admin` line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Admin {
    /// The gate's clock.
    pub timestamp: Time,
    /// The person.
    pub by: Principal,
    /// Why, in the person's words.
    pub reason: String,
    /// What was done.
    pub note: String,
    /// What it does to the state.
    pub changes: Vec<Change>,
}
