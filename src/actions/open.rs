//! What is on its way out, and what is kept of what went: a fold of ledger lines.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::anomaly::Signed;
use super::windows::Hour;
use crate::wire::gateway::ActionId;
use crate::wire::ids::{Principal, RequestId, ServiceName};
use crate::wire::time::Time;

/// Most places besides its own that one answer goes to.
pub const ALSO_MAX: usize = 64;
/// Most services of which it is known that something went there. Of one that had to be forgotten the next use is a first
/// one again.
const DESTINATIONS_MAX: usize = 4096;
/// Most bytes of payloads that may be open: they are in memory.
pub const OPEN_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// An action whose request line stands and whose response does not yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenAction {
    /// Its name, after its request line.
    pub id: ActionId,
    /// Id of the request.
    pub request_id: RequestId,
    /// Who signed it.
    pub source: Principal,
    /// Its action.
    pub action: String,
    /// Where it goes.
    pub service: ServiceName,
    /// The host of that.
    pub host: String,
    /// `stub` or `exec`.
    pub adapter: String,
    /// SHA-256 of the payload as its line has it, hex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_hash: Option<String>,
    /// The signature as its line has it; none where it is sealed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// Spool it came through, as lines name it.
    pub spool: String,
    /// Where its answer will be, below the spool.
    pub answer: String,
    /// Where else: of copies of the request that came meanwhile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
    /// Size of its payload, bytes.
    #[serde(default)]
    pub payload_bytes: u64,
    /// When it was signed.
    pub signed_at: Time,
    /// When it was begun.
    pub begun_at: Time,
}

impl OpenAction {
    /// Whether its answer goes there, a path below the spool.
    pub fn answers(&self, place: &str) -> bool {
        self.answer == place || self.also.iter().any(|also| also == place)
    }
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Change {
    /// One is about to be done.
    Opened(Box<OpenAction>),
    /// The first one since a service was allowed goes there.
    FirstUse {
        /// The service.
        service: ServiceName,
        /// Which that is.
        destination: Destination,
    },
    /// A copy of its request came through another door: the answer goes there too.
    AlsoAnswer {
        /// Which.
        id: ActionId,
        /// Where, below the spool.
        answer: String,
    },
    /// It is known what came of it, or that nobody will know.
    Closed {
        /// Which.
        id: ActionId,
    },
}

/// What a name on the allowlist stood for when something went there. Taken off and allowed again, or put elsewhere, it is
/// another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Destination {
    /// Its host.
    pub host: String,
    /// Since when it was allowed.
    pub added_at: Time,
}

/// What is kept of outgoing actions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActionsState {
    /// Those that are open.
    pub open: BTreeMap<ActionId, OpenAction>,
    /// How many were begun within an hour, by principal and action.
    pub hours: BTreeMap<Principal, BTreeMap<String, Hour>>,
    /// The same of everybody and every action.
    pub all: Hour,
    /// When they were signed, by principal.
    pub signed: BTreeMap<Principal, Signed>,
    /// Services that something went to.
    pub destinations: BTreeMap<ServiceName, Destination>,
}

/// The second that a time is in.
pub fn second_of(time: Time) -> i64 {
    time.ms().div_euclid(1000)
}

/// The part of a limit that one principal may take, where there are others.
fn share(most: u64) -> u64 {
    most.saturating_sub(most / 4).max(1)
}

impl ActionsState {
    /// Whether a step can be the next: each action begins once and ends once.
    ///
    /// # Errors
    /// Why not.
    pub fn fits(&self, change: &Change) -> Result<(), String> {
        let (id, must_be_open) = match change {
            Change::Opened(action) => (action.id, false),
            Change::AlsoAnswer { id, .. } | Change::Closed { id } => (*id, true),
            Change::FirstUse { .. } => return Ok(()),
        };
        match (self.open.contains_key(&id), must_be_open) {
            (false, true) => Err(format!("action {id} is not open")),
            (true, false) => Err(format!("action {id} is open already")),
            _ => Ok(()),
        }
    }

    /// Whether a copy of this action's request finds no room for its answer.
    pub fn is_full_of_copies(&self, id: ActionId, answer: &str) -> bool {
        let open = self.open.get(&id);
        open.is_some_and(|open| !open.answers(answer) && open.also.len() >= ALSO_MAX)
    }

    /// Why no action of this size may be opened now, where there may be `most`; `has_others`: besides `source` there is
    /// somebody who may ask for actions, and for whom room is left.
    pub fn without_room(
        &self,
        source: &Principal,
        bytes: u64,
        most: u32,
        has_others: bool,
    ) -> Option<String> {
        let own = || self.open.values().filter(|open| open.source == *source);
        let count = |open: usize| u64::try_from(open).unwrap_or(u64::MAX).saturating_add(1);
        let sum = |open: &mut dyn Iterator<Item = &OpenAction>| {
            open.fold(bytes, |sum, open| sum.saturating_add(open.payload_bytes))
        };
        let limit = |most: u64| if has_others { share(most) } else { most };
        if count(self.open.len()) > u64::from(most) {
            Some(format!("{most} actions are open already"))
        } else if count(own().count()) > limit(most.into()) {
            Some(format!("`{source}` has {} of {most} open actions already", own().count()))
        } else if sum(&mut self.open.values()) > OPEN_BYTES_MAX {
            Some(format!("with its payload, those of open actions have more than {OPEN_BYTES_MAX} bytes"))
        } else if sum(&mut own()) > limit(OPEN_BYTES_MAX) {
            let most = limit(OPEN_BYTES_MAX);
            Some(format!("with its payload, those of open actions of `{source}` have more than {most} bytes"))
        } else {
            None
        }
    }

    /// Applies a step.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Opened(action) => {
                let second = second_of(action.begun_at);
                self.hours
                    .entry(action.source.clone())
                    .or_default()
                    .entry(action.action.clone())
                    .or_default()
                    .count(second);
                self.all.count(second);
                let signed = self.signed.entry(action.source.clone()).or_default();
                signed.note(action.signed_at.ms(), action.begun_at.ms());
                self.open.insert(action.id, action.as_ref().clone());
            }
            Change::FirstUse { service, destination } => {
                self.destinations.insert(service.clone(), destination.clone());
                if self.destinations.len() > DESTINATIONS_MAX {
                    let oldest = self.destinations.iter().min_by_key(|(_, known)| known.added_at);
                    let oldest = oldest.map(|(name, _)| name.clone());
                    oldest.map(|name| self.destinations.remove(&name));
                }
            }
            Change::AlsoAnswer { id, answer } => {
                if let Some(action) = self.open.get_mut(id) {
                    action.also.push(answer.clone());
                }
            }
            Change::Closed { id } => {
                self.open.remove(id);
            }
        }
    }
}
