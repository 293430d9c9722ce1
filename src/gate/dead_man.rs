//! The dead man's switch: an agent that has something open and is not heard of may not enter any more, until a
//! heartbeat. How long the gate has watched without hearing of it is the host's to say; what follows is decided here.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::handle::{AnswerBody, Outcome, Turn, data};
use super::prepare::Refusal;
use super::state::{self, State};
use crate::rules::Rulebook;
use crate::rules::principals::{PrincipalRule, Role};
use crate::rules::safety::DeadManAction;
use crate::trading::absent;
use crate::trading::views::UnheardView;
use crate::wire::admin::Heartbeat;
use crate::wire::code::Code;
use crate::wire::ids::{Leg, Principal};
use crate::wire::time::Time;

/// What is known of silent agents.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeadMan {
    /// Agents whose entries are closed until a heartbeat.
    pub tripped: BTreeMap<Principal, Tripped>,
    /// How long earlier processes had watched without hearing of an agent, milliseconds.
    pub unheard_ms: BTreeMap<Principal, u64>,
}

/// When the switch tripped for an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tripped {
    /// When, on the gate's clock.
    pub at: Time,
    /// How long the gate had watched without hearing of it, milliseconds.
    pub unheard_ms: u64,
    /// What follows, as it was configured then.
    pub action: DeadManAction,
}

/// One step of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Change {
    /// The switch has tripped.
    Tripped {
        /// For whom.
        principal: Principal,
        /// When and after how long.
        tripped: Tripped,
    },
    /// A heartbeat: its time counts from nothing, and a switch that has tripped is armed again.
    Beat {
        /// Whose.
        principal: Principal,
    },
    /// The process ends: how long it and those before have not heard of an agent.
    Unheard {
        /// Of whom.
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

    /// Notes that `source` has been heard of. That arms nothing again.
    pub fn hear(&mut self, source: &str) {
        // Almost always empty: only what earlier processes left stands in it.
        if !self.unheard_ms.is_empty() {
            self.unheard_ms.retain(|principal, _| principal.as_str() != source);
        }
    }

    /// Why entries of `principal` are closed, if they are.
    pub fn closes(&self, principal: &Principal) -> Option<String> {
        let Tripped { at, unheard_ms, .. } = self.tripped.get(principal)?;
        let watched_s = unheard_ms / 1000;
        Some(format!(
            "nothing was heard of `{principal}` for {watched_s} s until {at}; it sends a heartbeat, or a person does for it"
        ))
    }
}

/// Whether a strategy of the agent holds a position or has an order open.
fn has_something_open(state: &State, rule: &PrincipalRule) -> bool {
    let book = &state.book;
    let mut owners = book.positions.values().map(|held| &held.strategy);
    let mut senders = book.orders.values().map(|order| &order.strategy);
    !rule.strategies.is_empty()
        && (owners.any(|name| rule.strategies.contains(name))
            || senders.any(|name| rule.strategies.contains(name)))
}

/// Agents that must be heard of: those with something open for whom the switch has not tripped yet.
pub fn awaited<'a>(state: &'a State, rules: &'a Rulebook) -> impl Iterator<Item = &'a Principal> {
    let is_awaited = |rule: &&PrincipalRule| {
        rule.role == Role::Agent
            && !state.dead_man.tripped.contains_key(&rule.name)
            && has_something_open(state, rule)
    };
    let agents = rules.principals.values().filter(move |_| rules.safety.dead_man.is_some());
    agents.filter(is_awaited).map(|rule| &rule.name)
}

/// What follows if the gate has watched for `unheard_ms` without hearing of `agent`: nothing before the timeout. Its
/// working entries go, because nobody is there to look after what they would open.
pub fn trip(
    state: &State,
    rules: &Rulebook,
    agent: &Principal,
    unheard_ms: u64,
    now: Time,
) -> Vec<state::Change> {
    let Some(dead_man) = &rules.safety.dead_man else { return Vec::new() };
    if unheard_ms < u64::from(dead_man.timeout_s).saturating_mul(1000) {
        return Vec::new();
    }
    let tripped = Tripped { at: now, unheard_ms, action: dead_man.action };
    let tripped = Change::Tripped { principal: agent.clone(), tripped };
    let withdrawn = absent::withdraw(&state.book, agent, now).into_iter().map(state::Change::Book);
    [state::Change::DeadMan(tripped)].into_iter().chain(withdrawn).collect()
}

/// The next position that the switch closes at the market, by an order of the line `seq`: of strategies none of whose
/// agents is left, and of symbols where no order like it waits for a person to look.
pub fn liquidate(state: &State, rules: &Rulebook, seq: u64, now: Time) -> Option<Vec<state::Change>> {
    let liquidates = |name: &Principal| {
        let tripped = state.dead_man.tripped.get(name);
        tripped.is_some_and(|tripped| tripped.action == DeadManAction::LiquidateAll)
    };
    if !state.dead_man.tripped.keys().any(liquidates) {
        return None;
    }
    let last_of = |position: &crate::trading::order::Position| {
        let mut agents = rules
            .principals
            .values()
            .filter(|rule| rule.role == Role::Agent && rule.strategies.contains(&position.strategy))
            .peekable();
        let first = agents.peek().map(|rule| rule.name.clone());
        first.filter(|_| agents.all(|rule| liquidates(&rule.name)))
    };
    // What a venue has dropped once it would drop again, as often as it is sent; what went otherwise may have filled.
    let is_stuck = |symbol| {
        state.book.doubted_symbols.get(symbol).is_some_and(|doubt| doubt.order_id.leg == Leg::Flatten)
    };
    let positions = state.book.positions.values().filter(|position| !is_stuck(&position.symbol));
    let mut orders = positions.filter_map(|position| {
        let agent = last_of(position)?;
        absent::close_at_market(&state.book, position, &agent, seq, now)
    });
    orders.next().map(|change| vec![state::Change::Book(change)])
}

/// Who is not heard of.
pub fn unheard(state: &State) -> Vec<UnheardView> {
    let unheard = state.dead_man.tripped.iter().map(|(principal, tripped)| UnheardView {
        principal: principal.clone(),
        since: tripped.at,
        action: tripped.action.as_str(),
    });
    unheard.collect()
}

impl Turn<'_> {
    pub(super) fn heartbeat(&self, source: &Principal, beat: &Heartbeat) -> Result<Outcome, Refusal> {
        let is_human = self.rules.role(source) == Some(Role::Human);
        let principal = match (&beat.principal, is_human) {
            (None, false) => source,
            (Some(named), true) => named,
            (Some(named), false) if named == source => named,
            (Some(named), false) => {
                let what = format!("an agent's heartbeat is its own; `{named}` is not `{source}`");
                return Err(Refusal::new(Code::NotPermitted, what));
            }
            (None, true) => {
                let what = "a person's heartbeat is for an agent: name it as `principal`";
                return Err(Refusal::new(Code::MalformedPayload, what));
            }
        };
        if self.rules.role(principal) != Some(Role::Agent) {
            let what = format!("`{principal}` is no agent of rules/principals.yaml");
            return Err(Refusal::new(Code::NotFound, what));
        }
        let armed_again = self.state.dead_man.tripped.contains_key(principal);
        let data = data(&AnswerBody::Heartbeat { principal, armed_again })?;
        let beat = Change::Beat { principal: principal.clone() };
        Ok(Outcome { data, changes: vec![state::Change::DeadMan(beat)], ..Outcome::default() })
    }
}
