//! Which strategy runs on each concern. The rule files say what may run, control decisions
//! say what does.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::authority::HeldBy;
use super::timing::Recent;
use spoolgate_rules::Rulebook;
use spoolgate_rules::strategies::{Strategy, StrategyStatus};
use spoolgate_wire::control::{ControlAction, ControlDecision, ControlStatus, RiskMode};
use spoolgate_wire::ids::{ConcernId, ControlId, Principal};

/// What was decided on all concerns so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControlState {
    /// Concerns that a decision changed; all others are in the state that the rule files give them.
    pub concerns: BTreeMap<ConcernId, ConcernState>,
}

/// What was decided on one concern.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConcernState {
    /// Id of the current strategy; `None` if there is none.
    pub current: Option<ControlId>,
    /// Whether the current strategy is paused.
    pub paused: bool,
    /// The concern's own risk mode.
    pub risk_mode: RiskMode,
    /// Which of that only a person relaxes.
    #[serde(default, skip_serializing_if = "HeldBy::is_nobody")]
    pub held_by: HeldBy,
    /// The decisions that later ones are compared with.
    #[serde(default, skip_serializing_if = "Recent::is_empty")]
    pub recent: Recent,
}

/// One change of the control state or of the index of decision ids.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Change {
    /// A decision_id is used up. Only the index records this.
    Decided {
        /// The sender.
        source: Principal,
        /// The id.
        decision_id: ControlId,
        /// SHA-256 of the payload, hex.
        payload_hash: String,
        /// The status of the decision.
        status: ControlStatus,
    },
    /// A concern has a new state.
    Concern {
        /// The concern.
        concern: ConcernId,
        /// Its whole new state.
        state: ConcernState,
    },
}

impl ConcernState {
    /// Returns whether the same strategy runs in the same mode; the deciders may differ.
    pub fn runs_like(&self, other: &ConcernState) -> bool {
        let of = |state: &ConcernState| (state.current.clone(), state.paused, state.risk_mode);
        of(self) == of(other)
    }
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

    /// Returns the state of a concern: as decided, or as the rule files give it.
    pub fn of(&self, rules: &Rulebook, concern: &ConcernId) -> ConcernState {
        self.concerns.get(concern).cloned().unwrap_or_else(|| {
            let active = rules
                .strategies_of(concern)
                .find(|s| s.status == StrategyStatus::Active);
            // INVARIANT: a strategy's name is also a valid control id.
            let current = active.and_then(|strategy| ControlId::parse(strategy.id()).ok());
            ConcernState {
                current,
                ..ConcernState::default()
            }
        })
    }
}

/// Returns the current strategy of a concern, if a file of that concern still has it.
pub fn current<'a>(
    rules: &'a Rulebook,
    state: &ControlState,
    concern: &'a ConcernId,
) -> Option<&'a Strategy> {
    named(rules, concern, state.of(rules, concern).current.as_ref())
}

/// Returns the strategy of a concern with this id.
pub(super) fn named<'a>(
    rules: &'a Rulebook,
    concern: &'a ConcernId,
    id: Option<&ControlId>,
) -> Option<&'a Strategy> {
    rules
        .strategies_of(concern)
        .find(|strategy| id.is_some_and(|id| strategy.has_id(id)))
}

/// Returns the strategy that is active in this state of a concern: it is current, and neither
/// control nor its file pauses it.
pub(super) fn active<'a>(
    rules: &'a Rulebook,
    concern: &'a ConcernId,
    state: &ConcernState,
) -> Option<&'a Strategy> {
    named(rules, concern, state.current.as_ref())
        .filter(|strategy| !state.paused && strategy.status != StrategyStatus::Paused)
}

/// Returns the risk mode in force in this state of a concern: the stricter one of the concern's
/// mode and the mode in its current strategy's file.
pub fn mode(rules: &Rulebook, concern: &ConcernId, state: &ConcernState) -> RiskMode {
    let of_file =
        named(rules, concern, state.current.as_ref()).map_or(RiskMode::Normal, |s| s.risk_mode);
    state.risk_mode.max(of_file)
}

/// Returns whether a decision cannot make anything riskier: a pause, or a mode that is not laxer
/// than the one in force.
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

/// What a strategy may do at the moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// `active`, `paused` or `standby`.
    pub status: StrategyStatus,
    /// The mode in force.
    pub mode: RiskMode,
    /// Why control keeps it from entering, as the end of a sentence about the strategy; `None` if
    /// control does not.
    pub closed: Option<String>,
}

/// Returns what a strategy may do at the moment.
pub fn standing(rules: &Rulebook, state: &ControlState, strategy: &Strategy) -> Standing {
    let Some(concern) = &strategy.concern else {
        let mode = strategy.risk_mode;
        return Standing {
            status: strategy.status,
            mode,
            closed: only_exits(mode, "its file"),
        };
    };
    // This runs for every order, so it does not look at other strategies: the rule files make at
    // most one strategy per concern active.
    let decided = state.concerns.get(concern);
    let mode = strategy
        .risk_mode
        .max(decided.map_or(RiskMode::Normal, |decided| decided.risk_mode));
    let is_current = match decided {
        Some(decided) => decided
            .current
            .as_ref()
            .is_some_and(|id| strategy.has_id(id)),
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
                    format!(
                        "is on standby: `{current}` is current on `{concern}`; it may only \
                        reduce"
                    )
                }
                None => format!(
                    "is on standby: nothing is current on `{concern}`; it may only \
                    reduce"
                ),
            };
            (StrategyStatus::Standby, Some(why))
        }
    };
    Standing {
        status,
        mode,
        closed,
    }
}

fn only_exits(mode: RiskMode, of: &str) -> Option<String> {
    (mode == RiskMode::ExitsOnly)
        .then(|| format!("may only exit: the risk mode of {of} is exits_only"))
}
