//! What runs on each concern: the rule files say what may, control says what does.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::rules::Rulebook;
use crate::rules::strategies::{Strategy, StrategyStatus};
use crate::wire::control::{ControlAction, ControlDecision, ControlStatus, RiskMode};
use crate::wire::ids::{ConcernId, ControlId, Principal};

/// What was decided on every concern so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControlState {
    /// Concerns that a decision changed; the others are as the rule files start them.
    pub concerns: BTreeMap<ConcernId, ConcernState>,
}

/// What was decided on one concern.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConcernState {
    /// Id of its current strategy; none: there is none.
    pub current: Option<ControlId>,
    /// Whether that is paused.
    pub paused: bool,
    /// The concern's own risk mode.
    pub risk_mode: RiskMode,
}

/// One step of the control state, and of the index of decision ids.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Change {
    /// A decision_id is used up: the index keeps it.
    Decided {
        /// By whom.
        source: Principal,
        /// The id.
        decision_id: ControlId,
        /// SHA-256 of the payload, hex.
        payload_hash: String,
        /// What came of it.
        status: ControlStatus,
    },
    /// A concern is in this state now.
    Concern {
        /// Which.
        concern: ConcernId,
        /// Its whole new state.
        state: ConcernState,
    },
}

impl ControlState {
    /// Applies one change.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Decided { .. } => {}
            Change::Concern { concern, state } => {
                self.concerns.insert(concern.clone(), state.clone());
            }
        }
    }

    /// The state of a concern: as decided, or as the rule files start it.
    pub fn of(&self, rules: &Rulebook, concern: &ConcernId) -> ConcernState {
        self.concerns.get(concern).cloned().unwrap_or_else(|| {
            let active = rules.strategies_of(concern).find(|s| s.status == StrategyStatus::Active);
            // INVARIANT: a strategy's name is a control id too.
            let current = active.and_then(|strategy| ControlId::parse(strategy.id()).ok());
            ConcernState { current, ..ConcernState::default() }
        })
    }
}

/// The current strategy of a concern, as far as a file of that concern still has it.
pub fn current<'a>(
    rules: &'a Rulebook,
    state: &ControlState,
    concern: &'a ConcernId,
) -> Option<&'a Strategy> {
    named(rules, concern, state.of(rules, concern).current.as_ref())
}

/// The strategy of a concern with this id.
pub(super) fn named<'a>(
    rules: &'a Rulebook,
    concern: &'a ConcernId,
    id: Option<&ControlId>,
) -> Option<&'a Strategy> {
    rules.strategies_of(concern).find(|strategy| id.is_some_and(|id| strategy.has_id(id)))
}

/// The strategy that is active in this state of a concern: current, and paused neither by control nor by its file.
pub(super) fn active<'a>(
    rules: &'a Rulebook,
    concern: &'a ConcernId,
    state: &ConcernState,
) -> Option<&'a Strategy> {
    named(rules, concern, state.current.as_ref())
        .filter(|strategy| !state.paused && strategy.status != StrategyStatus::Paused)
}

/// The mode in force on a concern in this state: the stricter of the concern's and of its current strategy's file.
pub(crate) fn mode(rules: &Rulebook, concern: &ConcernId, state: &ConcernState) -> RiskMode {
    let of_file = named(rules, concern, state.current.as_ref()).map_or(RiskMode::Normal, |s| s.risk_mode);
    state.risk_mode.max(of_file)
}

/// Whether a decision cannot make anything riskier: a pause, or a mode that is not laxer than the one in force.
pub fn makes_safer(rules: &Rulebook, state: &ControlState, decision: &ControlDecision) -> bool {
    let concern = &decision.concern_id;
    match (decision.action, decision.risk_mode) {
        (ControlAction::Pause, _) => true,
        (ControlAction::SetRiskMode, Some(wanted)) => {
            wanted >= mode(rules, concern, &state.of(rules, concern))
        }
        _ => false,
    }
}

/// What a strategy may do as things stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// `active`, `paused` or `standby`.
    pub status: StrategyStatus,
    /// The mode in force.
    pub mode: RiskMode,
    /// Why it may enter nothing, as the end of a sentence about it; none: nothing of control holds it.
    pub closed: Option<String>,
}

/// How things stand for a strategy.
pub fn standing(rules: &Rulebook, state: &ControlState, strategy: &Strategy) -> Standing {
    let Some(concern) = &strategy.concern else {
        let mode = strategy.risk_mode;
        return Standing { status: strategy.status, mode, closed: only_exits(mode, "its file") };
    };
    // Asked of every order, so without a look at the other strategies: at most one of a concern is active by its file.
    let decided = state.concerns.get(concern);
    let mode = strategy.risk_mode.max(decided.map_or(RiskMode::Normal, |decided| decided.risk_mode));
    let is_current = match decided {
        Some(decided) => decided.current.as_ref().is_some_and(|id| strategy.has_id(id)),
        None => strategy.status == StrategyStatus::Active,
    };
    let is_paused = decided.is_some_and(|decided| decided.paused);
    let (status, closed) = match (strategy.status, is_current, is_paused) {
        (StrategyStatus::Paused, ..) => (StrategyStatus::Paused, None),
        (_, true, true) => {
            let why = format!("is paused on `{concern}` by a control decision; it may only reduce");
            (StrategyStatus::Paused, Some(why))
        }
        (_, true, false) => (StrategyStatus::Active, only_exits(mode, concern.as_str())),
        (_, false, _) => {
            let why = match &state.of(rules, concern).current {
                Some(current) => {
                    format!("stands by: `{current}` is current on `{concern}`; it may only reduce")
                }
                None => format!("stands by: nothing is current on `{concern}`; it may only reduce"),
            };
            (StrategyStatus::Standby, Some(why))
        }
    };
    Standing { status, mode, closed }
}

fn only_exits(mode: RiskMode, of: &str) -> Option<String> {
    (mode == RiskMode::ExitsOnly).then(|| format!("may only exit: the risk mode of {of} is exits_only"))
}
