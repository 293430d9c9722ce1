//! The dead man's switch: an agent that has something open and stays silent may not enter again
//! until a heartbeat. The host measures how long the gate has watched without hearing from the
//! agent; the consequences are decided here.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::state::State;
use spoolgate_rules::Rulebook;
use spoolgate_rules::principals::{PrincipalRule, Role};
use spoolgate_rules::safety::DeadManAction;
use spoolgate_trading::views::UnheardView;
use spoolgate_wire::ids::{Principal, StrategyName};
use spoolgate_wire::time::Time;

/// What is known about silent agents.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeadMan {
    /// Agents whose entries are closed until a heartbeat.
    pub tripped: BTreeMap<Principal, Tripped>,
    /// How long earlier processes watched without hearing from an agent, milliseconds.
    pub unheard_ms: BTreeMap<Principal, u64>,
}

/// When the switch tripped for an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tripped {
    /// The time, on the gate's clock.
    pub at: Time,
    /// How long the gate had watched without hearing from the agent, milliseconds.
    pub unheard_ms: u64,
    /// The consequence, as it was configured then.
    pub action: DeadManAction,
}

/// A change of the dead man's switch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Change {
    /// The switch has tripped.
    Tripped {
        /// The agent.
        principal: Principal,
        /// When it tripped, and after how long.
        tripped: Tripped,
    },
    /// A heartbeat: the agent's silence is counted from zero again, and a tripped switch is
    /// rearmed.
    Beat {
        /// The agent.
        principal: Principal,
    },
    /// The process ends; keeps how long it and earlier processes have not heard from an agent.
    Unheard {
        /// The agent.
        principal: Principal,
        /// How long they watched, milliseconds.
        ms: u64,
    },
}

impl DeadMan {
    pub(super) fn apply(&mut self, change: &Change) {
        match change {
            Change::Tripped { principal, tripped } => {
                self.unheard_ms.remove(principal);
                self.tripped.insert(principal.clone(), tripped.clone());
            }
            Change::Beat { principal } => {
                self.unheard_ms.remove(principal);
                self.tripped.remove(principal);
            }
            Change::Unheard { principal, ms } => {
                self.unheard_ms.insert(principal.clone(), *ms);
            }
        }
    }

    /// Notes a sign of life from `source`. That does not rearm a tripped switch.
    pub fn hear(&mut self, source: &str) {
        // Almost always empty: it only holds what earlier processes left.
        if !self.unheard_ms.is_empty() {
            self.unheard_ms
                .retain(|principal, _| principal.as_str() != source);
        }
    }

    /// Returns why entries of `principal` are closed, if they are.
    pub fn closes(&self, principal: &Principal) -> Option<String> {
        let Tripped { at, unheard_ms, .. } = self.tripped.get(principal)?;
        let watched_s = unheard_ms / 1000;
        Some(format!(
            "nothing was heard from `{principal}` for {watched_s} s until {at}; it must send a \
                heartbeat, or a person must send one for it"
        ))
    }
}

/// Whether a strategy of the agent has an open position, more than dust, or an open order.
fn has_something_open(state: &State, rule: &PrincipalRule) -> bool {
    let book = &state.book;
    let held = book.positions.values().filter(|held| !held.is_dust());
    let mut owners = held.map(|held| &held.strategy);
    let mut senders = book.orders.values().map(|order| &order.strategy);
    !rule.strategies.is_empty()
        && (owners.any(|name| rule.strategies.contains(name))
            || senders.any(|name| rule.strategies.contains(name)))
}

/// Agents that the gate must hear from: those with something open whose switch has not tripped.
pub fn awaited<'a>(state: &'a State, rules: &'a Rulebook) -> impl Iterator<Item = &'a Principal> {
    let is_awaited = |rule: &&PrincipalRule| {
        rule.role == Role::Agent
            && !state.dead_man.tripped.contains_key(&rule.name)
            && has_something_open(state, rule)
    };
    let agents = rules
        .principals
        .values()
        .filter(move |_| rules.safety.dead_man.is_some());
    agents.filter(is_awaited).map(|rule| &rule.name)
}

/// Returns the change if the gate has watched for `unheard_ms` without hearing from `agent`; none
/// before the timeout. Its working entries are then no longer allowed, because the agent is not
/// there to manage the positions that these would open.
pub fn trip(rules: &Rulebook, agent: &Principal, unheard_ms: u64, now: Time) -> Option<Change> {
    let dead_man = rules.safety.dead_man.as_ref()?;
    if unheard_ms < u64::from(*dead_man.timeout_s).saturating_mul(1000) {
        return None;
    }
    let tripped = Tripped {
        at: now,
        unheard_ms,
        action: dead_man.action,
    };
    Some(Change::Tripped {
        principal: agent.clone(),
        tripped,
    })
}

/// Whether the agent's switch has tripped and closes positions.
fn liquidates(state: &State, name: &Principal) -> bool {
    let tripped = state.dead_man.tripped.get(name);
    tripped.is_some_and(|tripped| tripped.action == DeadManAction::LiquidateAll)
}

/// Whether the switch of any agent closes positions.
pub(super) fn liquidates_any(state: &State) -> bool {
    let mut tripped = state.dead_man.tripped.keys();
    tripped.any(|name| liquidates(state, name))
}

/// Returns for whom the switch closes the positions of a strategy: the first of its agents, once all
/// of them have tripped.
pub(super) fn liquidator(
    state: &State,
    rules: &Rulebook,
    strategy: &StrategyName,
) -> Option<Principal> {
    let mut agents = rules
        .principals
        .values()
        .filter(|rule| rule.role == Role::Agent && rule.strategies.contains(strategy))
        .peekable();
    let first = agents.peek().map(|rule| rule.name.clone());
    first.filter(|_| agents.all(|rule| liquidates(state, &rule.name)))
}

/// The agents whose switch has tripped.
pub fn unheard(state: &State) -> Vec<UnheardView> {
    let unheard = state
        .dead_man
        .tripped
        .iter()
        .map(|(principal, tripped)| UnheardView {
            principal: principal.clone(),
            since: tripped.at,
            action: tripped.action.as_str(),
        });
    unheard.collect()
}
