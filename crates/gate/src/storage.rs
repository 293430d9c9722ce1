//! What the gate serves when its disk is nearly full. How much is free is looked up before a
//! decision; a decision that depends on it says how much it was.

use std::fmt;

use super::actions::Body;
use super::gateway;
use super::handle::Turn;
use super::prepare::{Authentic, Refusal};
use super::safer::Safer;
use serde::{Deserialize, Serialize};
use spoolgate_rules::safety::StorageLimits;
use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::answer::{Answer, AnswerError, AnswerStatus};
use spoolgate_wire::code::Code;
use spoolgate_wire::repair::Repair;
use spoolgate_wire::time::Time;

/// How long the sender of a refused request should wait, milliseconds.
pub(super) const RETRY_MS: i64 = 10_000;

/// How much of what it is asked for a gate serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Everything.
    #[default]
    Normal,
    /// What only makes things safer, and queries. The rest is refused.
    Low,
    /// Exits, cancels, tightens and halts. The rest waits where it is.
    Reserve,
}

impl Level {
    /// Whether everything is served.
    pub fn is_normal(&self) -> bool {
        *self == Level::Normal
    }
}

/// Free room on the disk of the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Free bytes.
    pub bytes: u64,
    /// Files that can still be made, and all that the file system can hold; `None` if it does not
    /// limit them.
    pub files: Option<(u64, u64)>,
}

/// What is scarce on the disk of the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scarce {
    /// Free bytes.
    Bytes(u64),
    /// Files that can still be made.
    Files {
        /// How many.
        free: u64,
        /// How many files the file system can hold.
        all: u64,
    },
}

const BYTES: &str = " bytes are free on the disk of the ledger";
const OF: &str = " of ";
const FILES: &str = " files can still be made on the disk of the ledger";

impl fmt::Display for Scarce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scarce::Bytes(free) => write!(f, "{free}{BYTES}"),
            Scarce::Files { free, all } => write!(f, "{free}{OF}{all}{FILES}"),
        }
    }
}

impl Scarce {
    /// What is scarce, or `None` if there is enough. A gate that was low needs a quarter more than
    /// one that was not, so that it does not change its mind with every file.
    pub fn of(room: Room, storage: &StorageLimits, was_low: bool) -> Option<Scarce> {
        if room.bytes < bound(storage.floor_bytes.get(), was_low) {
            return Some(Scarce::Bytes(room.bytes));
        }
        let (free, all) = room.files?;
        let least = u128::from(all) * if was_low { 125 } else { 100 };
        (u128::from(free) * 2000 <= least).then_some(Scarce::Files { free, all })
    }

    /// Reads back what the message of a refusal says.
    pub(super) fn of_message(message: &str) -> Option<Scarce> {
        if let Some((free, _)) = message.split_once(BYTES) {
            return free.parse().ok().map(Scarce::Bytes);
        }
        let (free, all) = message.split_once(FILES)?.0.split_once(OF)?;
        let (free, all) = (free.parse().ok()?, all.parse().ok()?);
        Some(Scarce::Files { free, all })
    }

    /// Says what is refused, and until when.
    fn refusal(self, storage: &StorageLimits) -> String {
        let until = match self {
            Scarce::Bytes(_) => format!("{} bytes are", bound(storage.floor_bytes.get(), true)),
            Scarce::Files { .. } => "a sixteenth is".to_owned(),
        };
        format!(
            "{self}: until {until} free, the gate serves exits, cancels, tightens, halts, stricter \
                control decisions, revocations and queries"
        )
    }
}

/// When to send again what a full disk refused.
fn waiting() -> Repair {
    Repair {
        retry_after_ms: u64::try_from(RETRY_MS).ok(),
        ..Repair::of(Code::StorageLow.retry())
    }
}

/// The answer to a frame that a gate on a full disk neither decides nor writes a line for.
pub fn without_line(request_id: &str, now: Time) -> Answer {
    Answer {
        request_id: request_id.to_owned(),
        timestamp: now,
        status: AnswerStatus::RateLimited,
        data: waiting().added_to(gateway::retry_after(RETRY_MS)).ok(),
        removed: None,
        redacted: false,
        error: Some(AnswerError {
            code: Code::StorageLow,
            message: "the disk of the gate has no room for a line about this: it serves exits, \
                cancels, tightens and halts, and of these only what still changes something"
                .to_owned(),
        }),
        audit_ref: String::new(),
    }
}

/// The bound below which a level is entered, or a quarter more to leave it.
pub fn bound(bytes: u64, was_below: bool) -> u64 {
    bytes.saturating_add(if was_below { bytes / 4 } else { 0 })
}

/// Whether a request changes nothing, or reports what has happened: a fill, or that its sender is
/// alive. Refused, it would leave the book wrong or trip the dead man's switch.
fn is_news_or_query(body: &Body) -> bool {
    let changes_nothing = body.rule.tool.is_some_and(|tool| tool.is_query);
    changes_nothing
        || matches!(
            body.rule.name,
            ActionName::RequestCheck | ActionName::VenueReport | ActionName::Heartbeat
        )
}

/// The refusal of a request that the gate does not serve while room is scarce.
pub(super) fn refusal(turn: &Turn<'_>, authentic: &Authentic, body: &Body) -> Option<Refusal> {
    let scarce = turn.lookups.scarce?;
    let source = &authentic.envelope.source;
    let rule = turn.rules.principals.get(source)?;
    let is_served = turn.granted.is_some()
        || is_news_or_query(body)
        || Safer::of(source, rule, body, turn.state, turn.rules) == Safer::Yes;
    (!is_served).then(|| Refusal::new(Code::StorageLow, scarce.refusal(&turn.rules.safety.storage)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn storage() -> StorageLimits {
        StorageLimits::default()
    }

    fn scarce(bytes: u64, files: Option<(u64, u64)>, was_low: bool) -> bool {
        Scarce::of(Room { bytes, files }, &storage(), was_low).is_some()
    }

    #[test]
    fn a_level_is_entered_below_its_bound_and_left_a_quarter_above() {
        let floor = 256 << 20;
        for (bytes, is_low) in [(floor - 1, true), (floor, false), (floor + 1, false)] {
            assert_eq!(scarce(bytes, None, false), is_low, "{bytes}");
        }
        let back = floor / 4 * 5;
        for (bytes, is_low) in [(floor, true), (back - 1, true), (back, false)] {
            assert_eq!(scarce(bytes, None, true), is_low, "{bytes}");
        }
        for (free, is_low) in [(49, true), (50, true), (51, false)] {
            assert_eq!(
                scarce(u64::MAX, Some((free, 1000)), false),
                is_low,
                "{free}"
            );
        }
        for (free, is_low) in [(51, true), (62, true), (63, false)] {
            assert_eq!(scarce(u64::MAX, Some((free, 1000)), true), is_low, "{free}");
        }
    }

    #[test]
    fn a_refusal_says_what_was_scarce() {
        for scarce in [
            Scarce::Bytes(0),
            Scarce::Bytes(268_435_455),
            Scarce::Files {
                free: 3,
                all: 65_536,
            },
        ] {
            let message = scarce.refusal(&storage());
            assert_eq!(Scarce::of_message(&message), Some(scarce), "{message}");
        }
        assert_eq!(Scarce::of_message("wait, then send it again"), None);
    }
}
