//! Open actions, and what is remembered of earlier ones: a fold over ledger lines.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::anomaly::Signed;
use super::windows::Hour;
use spoolgate_wire::gateway::ActionId;
use spoolgate_wire::ids::{Principal, RequestId, ServiceName};
use spoolgate_wire::time::Time;

/// Most additional places that one answer is written to.
pub const ALSO_MAX: usize = 64;
/// Most services that are remembered as destinations. If one was forgotten, its next use counts as
/// its first one again.
const DESTINATIONS_MAX: usize = 4096;
/// The semantics from which on actions also count as a burst by the times at which they begin.
pub const STARTS_COUNT_FROM: u32 = 4;
/// Most bytes of payloads of open actions, which are in memory.
pub const OPEN_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// An action whose request line is in the ledger and whose response line is not yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenAction {
    /// Its id, named after its request line.
    pub id: ActionId,
    /// Id of the request.
    pub request_id: RequestId,
    /// The sender.
    pub source: Principal,
    /// Its action.
    pub action: String,
    /// The service that it goes to.
    pub service: ServiceName,
    /// The service's host.
    pub host: String,
    /// `stub` or `exec`.
    pub adapter: String,
    /// SHA-256 of the payload as in its ledger line, hex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_hash: Option<String>,
    /// The signature as in its ledger line; `None` if it is sealed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// The spool that it came through, as ledger lines name it.
    pub spool: String,
    /// Where its answer is written, below the spool.
    pub answer: String,
    /// Further places for its answer, for copies of the request that arrived meanwhile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
    /// Size of its payload, bytes.
    #[serde(default)]
    pub payload_bytes: u64,
    /// When it was signed.
    pub signed_at: Time,
    /// When it began.
    pub begun_at: Time,
}

impl OpenAction {
    /// Returns whether its answer is written to this path below the spool.
    pub fn answers(&self, place: &str) -> bool {
        self.answer == place || self.also.iter().any(|also| also == place)
    }
}

/// Why an outgoing action cannot begin or end like this.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The action is not open.
    #[error("action {0} is not open")]
    NotOpen(ActionId),
    /// The action was opened before.
    #[error("action {0} is already open")]
    AlreadyOpen(ActionId),
}

/// One change of [`ActionsState`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Change {
    /// An action is about to begin.
    Opened(Box<OpenAction>),
    /// An action goes to a service for the first time since the service was added.
    FirstUse {
        /// The service.
        service: ServiceName,
        /// The destination behind its name.
        destination: Destination,
    },
    /// A copy of the request came through another spool, so the answer is written there too.
    AlsoAnswer {
        /// The action.
        id: ActionId,
        /// The additional place, below the spool.
        answer: String,
    },
    /// The result is known, or it is certain that it will never be known.
    Closed {
        /// The action.
        id: ActionId,
    },
}

/// What a name on the allowlist stood for when an action went there. A service that is removed and
/// added again, or that gets another host, is a new destination.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Destination {
    /// Its host.
    pub host: String,
    /// When the service was added.
    pub added_at: Time,
}

/// What is remembered of outgoing actions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActionsState {
    /// The open actions.
    pub open: BTreeMap<ActionId, OpenAction>,
    /// Actions begun within an hour, by principal and action.
    pub hours: BTreeMap<Principal, BTreeMap<String, Hour>>,
    /// Actions begun within an hour, over all principals and actions.
    pub all: Hour,
    /// When the actions were signed, by principal.
    pub signed: BTreeMap<Principal, Signed>,
    /// Destinations of earlier actions, by service.
    pub destinations: BTreeMap<ServiceName, Destination>,
    /// When the newest gate started; `None` if its line is of semantics below
    /// [`STARTS_COUNT_FROM`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
}

/// Returns the second that a time is in.
pub fn second_of(time: Time) -> i64 {
    time.ms().div_euclid(1000)
}

/// Returns the part of a limit that one principal may use if there are other principals.
fn share(most: u64) -> u64 {
    most.saturating_sub(most / 4).max(1)
}

impl ActionsState {
    /// Checks that a change is possible: each action begins once and ends once.
    ///
    /// # Errors
    /// Returns an [`OpenError`] if it is not.
    pub fn fits(&self, change: &Change) -> Result<(), OpenError> {
        let (id, must_be_open) = match change {
            Change::Opened(action) => (action.id, false),
            Change::AlsoAnswer { id, .. } | Change::Closed { id } => (*id, true),
            Change::FirstUse { .. } => return Ok(()),
        };
        match (self.open.contains_key(&id), must_be_open) {
            (false, true) => Err(OpenError::NotOpen(id)),
            (true, false) => Err(OpenError::AlreadyOpen(id)),
            _ => Ok(()),
        }
    }

    /// Returns whether the answer to this action cannot be written to one more place.
    pub fn is_full_of_copies(&self, id: ActionId, answer: &str) -> bool {
        let open = self.open.get(&id);
        open.is_some_and(|open| !open.answers(answer) && open.also.len() >= ALSO_MAX)
    }

    /// Returns why no action of this size may begin now, or `None` if it may. At most `most`
    /// actions may be open. With `has_others`, other principals may request actions too, and room
    /// is left for them.
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
            Some(format!("{most} actions are already open"))
        } else if count(own().count()) > limit(most.into()) {
            Some(format!(
                "`{source}` already has {} of {most} open actions",
                own().count()
            ))
        } else if sum(&mut self.open.values()) > OPEN_BYTES_MAX {
            Some(format!(
                "with this payload, the payloads of open actions would have more than \
                    {OPEN_BYTES_MAX} bytes"
            ))
        } else if sum(&mut own()) > limit(OPEN_BYTES_MAX) {
            let most = limit(OPEN_BYTES_MAX);
            Some(format!(
                "with this payload, the payloads of open actions of `{source}` would have more \
                    than {most} bytes"
            ))
        } else {
            None
        }
    }

    /// Returns whether a request was signed while the newest gate ran. If the clock was set back
    /// since the gate started, that cannot be told, and counts as yes.
    pub fn is_live(&self, signed_at: Time, now: Time) -> bool {
        self.started_at
            .is_some_and(|start| signed_at >= start || now < start)
    }

    /// Applies a change.
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
                let is_live = self.is_live(action.signed_at, action.begun_at);
                let signed = self.signed.entry(action.source.clone()).or_default();
                signed.note(action.signed_at.ms(), action.begun_at.ms(), is_live);
                self.open.insert(action.id, action.as_ref().clone());
            }
            Change::FirstUse {
                service,
                destination,
            } => {
                self.destinations
                    .insert(service.clone(), destination.clone());
                if self.destinations.len() > DESTINATIONS_MAX {
                    let oldest = self
                        .destinations
                        .iter()
                        .min_by_key(|(_, known)| known.added_at);
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
