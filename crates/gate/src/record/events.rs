//! Lines that are not about one request: the first line of a log, events, market rows, published
//! answers, redactions, and acts of a person on the ledger's folder.

use serde::{Deserialize, Serialize};

use super::cage::Cage;
use crate::state::{Change, first_semantics, is_first_semantics};
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
    /// What that version decides and writes, as [`SEMANTICS`](crate::state::SEMANTICS) counts it.
    #[serde(
        default = "first_semantics",
        skip_serializing_if = "is_first_semantics"
    )]
    pub semantics: u32,
    /// The first state: rulebook and the first person's key.
    pub changes: Vec<Change>,
}

/// What a line that is not about one request reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A watcher or drain began.
    Start,
    /// The watcher or drain ended without a failure.
    Stop,
    /// A rulebook came into force, or the files cannot be used.
    Rulebook,
    /// A new day began.
    Tick,
    /// The halt file was created or removed.
    Halt,
    /// The machine's clock stepped back.
    ClockStep,
    /// An agent sent nothing for too long.
    DeadMan,
    /// The waiting files of a spool exceed its quota, or no longer do.
    Quota,
    /// A proposal was approved by a signature.
    Proposal,
    /// The disk of the ledger has little room, none, or enough again.
    Storage,
    /// Working entries that are no longer allowed were withdrawn.
    Pull,
    /// A bridge to a venue fell silent or gives signs of life again, or its instructions were taken
    /// back.
    Bridge,
    /// A notice did not reach a receiver of `rules/notify.yaml`.
    NotTold,
}

impl EventKind {
    const ALL: [EventKind; 13] = [
        EventKind::Start,
        EventKind::Stop,
        EventKind::Rulebook,
        EventKind::Tick,
        EventKind::Halt,
        EventKind::ClockStep,
        EventKind::DeadMan,
        EventKind::Quota,
        EventKind::Proposal,
        EventKind::Storage,
        EventKind::Pull,
        EventKind::Bridge,
        EventKind::NotTold,
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
            EventKind::Storage => "storage",
            EventKind::Pull => "pull",
            EventKind::Bridge => "bridge",
            EventKind::NotTold => "not_told",
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
    /// A description of the event.
    pub note: String,
    /// The changes to the state.
    pub changes: Vec<Change>,
    /// Of a `start` line: what the cage of a program enforces here. Absent if the rules name no
    /// program, or without a cage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cage: Option<Cage>,
}

/// Records that all answers up to a line are durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The gate's clock.
    pub timestamp: Time,
    /// All answers of lines up to this one are on disk.
    pub up_to: u64,
}

/// Market rows and their changes to the state.
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
    /// Digest of the rows, which are in `audit/blobs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows_sha256: Option<String>,
    /// First row of this line, from 0.
    pub first_row: u64,
    /// Number of rows.
    pub row_count: u64,
    /// The changes to the state.
    pub changes: Vec<Change>,
}

/// Records that disclosures of a line's sealed fields are deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Redaction {
    /// The gate's clock.
    pub timestamp: Time,
    /// The user of the gate's machine who did it.
    pub by: String,
    /// The reason.
    pub reason: String,
    /// The line.
    pub line: u64,
    /// The fields of that line.
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
    /// The reason that the person gave.
    pub reason: String,
    /// What was done.
    pub note: String,
    /// The changes to the state.
    pub changes: Vec<Change>,
}
