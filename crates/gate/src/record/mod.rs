//! The bodies of ledger lines, except those that the ledger itself writes. Each kind has fixed keys
//! in a fixed order. A decision line alone can rebuild its answer; the changes of all lines,
//! folded, are the state.

mod answers;
mod cage;
mod case;
mod decision;
mod error;
mod events;
mod inputs;
mod response;

pub use answers::{AdmissionAnswer, OrderAnswer};
#[cfg(feature = "schema")]
pub(crate) use answers::{HeldAnswer, LimitedAnswer};
pub use cage::Cage;
pub use case::{CaseDecision, ClosedBy};
pub use decision::{Decision, Flow, Metadata, Ruling, Status};
pub use error::{LineAnswerError, RecordError};
pub use events::{Admin, Event, EventKind, Genesis, MarketRows, Published, Redaction};
pub use inputs::{AdmissionInput, AskedFor, Input};
pub(crate) use response::MESSAGE;
pub use response::{Blob, Response};

use serde::Deserialize;

use super::state::Change;
use spoolgate_wire::heads::{GivenUp, Rotation};
use spoolgate_wire::time::Time;

/// A line of any kind except the ledger's own kinds, `segment` and `seal`.
#[derive(Clone, Debug)]
pub enum Record {
    /// `genesis`.
    Genesis(Genesis),
    /// A line that is not about one request.
    Event(EventKind, Event),
    /// `rotate`: the log has new keys of its own.
    Rotate(Rotation),
    /// `admin`: an act of a person on the ledger's folder, under the lock.
    Admin(Admin),
    /// `published`.
    Published(Published),
    /// `market`.
    Market(MarketRows),
    /// `input`: the answer of a role's command.
    Input(Input),
    /// Also `input`: the answer of a command to admission.
    AdmissionInput(Box<AdmissionInput>),
    /// `council`: the decision on a case.
    Council(Box<CaseDecision>),
    /// `decision`.
    Decision(Box<Decision>),
    /// `response`: the result of an outgoing action.
    Response(Box<Response>),
    /// `redact`.
    Redact(Redaction),
}

impl Record {
    /// The line's `kind`.
    pub fn kind(&self) -> &'static str {
        match self {
            Record::Genesis(_) => "genesis",
            Record::Event(kind, _) => kind.name(),
            Record::Rotate(_) => "rotate",
            Record::Admin(_) => "admin",
            Record::Published(_) => "published",
            Record::Market(_) => "market",
            Record::Input(_) | Record::AdmissionInput(_) => "input",
            Record::Council(_) => "council",
            Record::Decision(decision) => decision.kind(),
            Record::Response(_) => "response",
            Record::Redact(_) => "redact",
        }
    }

    /// Whether the line contains instructions to a bridge.
    pub fn instructs(&self) -> bool {
        super::outbox::instructs(self.changes())
    }

    /// The heads that a person gave up by accepting a rollback.
    pub fn given_up(&self) -> impl Iterator<Item = &GivenUp> {
        self.changes().iter().filter_map(|change| match change {
            Change::HeadsGivenUp(given_up) => Some(given_up),
            _ => None,
        })
    }

    /// Whether the index remembers the position of the line: all lines but `published`. Answers,
    /// cases, instructions and rules are rebuilt from them, and they can be queried.
    pub fn is_indexed(&self) -> bool {
        !matches!(self, Record::Published(_))
    }

    /// The line's body as a JSON object.
    ///
    /// # Errors
    /// Returns the serialiser's error.
    pub fn body(&self) -> Result<String, RecordError> {
        Ok(match self {
            Record::Genesis(body) => serde_json::to_string(body),
            Record::Event(_, body) => serde_json::to_string(body),
            Record::Rotate(body) => serde_json::to_string(body),
            Record::Admin(body) => serde_json::to_string(body),
            Record::Published(body) => serde_json::to_string(body),
            Record::Market(body) => serde_json::to_string(body),
            Record::Input(body) => serde_json::to_string(body),
            Record::AdmissionInput(body) => serde_json::to_string(body),
            Record::Council(body) => serde_json::to_string(body),
            Record::Redact(body) => serde_json::to_string(body),
            Record::Response(body) => serde_json::to_string(body),
            Record::Decision(body) => return body.body(),
        }?)
    }

    /// Reads a body; returns `None` for the ledger's own kinds.
    ///
    /// # Errors
    /// Returns why the body cannot be read, or that the kind is unknown.
    pub fn parse(kind: &str, body: &str) -> Result<Option<Record>, RecordError> {
        fn read<'a, T: Deserialize<'a>>(body: &'a str) -> Result<T, serde_json::Error> {
            serde_json::from_str(body)
        }
        Ok(Some(match kind {
            "genesis" => Record::Genesis(read(body)?),
            "rotate" => Record::Rotate(read(body)?),
            "admin" => Record::Admin(read(body)?),
            "published" => Record::Published(read(body)?),
            "market" => Record::Market(read(body)?),
            "input" => match read(body) {
                Ok(input) => Record::Input(input),
                Err(role) => match read(body) {
                    Ok(input) => Record::AdmissionInput(input),
                    Err(admission) => return Err(RecordError::Input { role, admission }),
                },
            },
            "council" => Record::Council(Box::new(read(body)?)),
            "decision" | "request" => {
                let decision: Decision = read(body)?;
                if (decision.status == Status::Pending) != (kind == "request") {
                    return Err(RecordError::Pending);
                }
                Record::Decision(Box::new(decision))
            }
            "response" => Record::Response(Box::new(read(body)?)),
            "redact" => Record::Redact(read(body)?),
            "seal" | "segment" => return Ok(None),
            other => match EventKind::named(other) {
                Some(kind) => Record::Event(kind, read(body)?),
                None => return Err(RecordError::Kind(other.to_owned())),
            },
        }))
    }

    /// The time of the gate's clock at which the line was written.
    pub fn timestamp(&self) -> Time {
        match self {
            Record::Genesis(body) => body.timestamp,
            Record::Event(_, body) => body.timestamp,
            Record::Rotate(body) => body.timestamp,
            Record::Admin(body) => body.timestamp,
            Record::Published(body) => body.timestamp,
            Record::Market(body) => body.timestamp,
            Record::Input(body) => body.timestamp,
            Record::AdmissionInput(body) => body.timestamp,
            Record::Council(body) => body.timestamp,
            Record::Decision(body) => body.timestamp,
            Record::Response(body) => body.timestamp,
            Record::Redact(body) => body.timestamp,
        }
    }

    /// The changes to the state.
    pub fn changes(&self) -> &[Change] {
        match self {
            Record::Genesis(body) => &body.changes,
            Record::Event(_, body) => &body.changes,
            Record::Rotate(_) | Record::Published(_) | Record::Redact(_) => &[],
            Record::Admin(body) => &body.changes,
            Record::Market(body) => &body.changes,
            Record::Input(body) => &body.changes,
            Record::AdmissionInput(body) => &body.changes,
            Record::Council(body) => &body.changes,
            Record::Decision(body) => &body.changes,
            Record::Response(body) => &body.changes,
        }
    }
}

/// The body of a line of this kind, read and written again: `audit verify` compares the two. Empty for a kind that this program does not know.
///
/// # Errors
/// Describes what is wrong with the body.
pub fn canonical(
    kind: &str,
    body: &str,
) -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
    Ok(Record::parse(kind, body)?
        .map(|record| record.body())
        .transpose()?
        .unwrap_or_default())
}
