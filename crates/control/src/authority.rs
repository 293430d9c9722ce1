//! What a person made stricter, only a person relaxes.

use serde::{Deserialize, Serialize};

use super::Facts;
use super::registry::ConcernState;
use spoolgate_rules::principals::Role;
use spoolgate_wire::control::{ControlAction, ControlDecision, RiskMode};
use spoolgate_wire::ids::Principal;
use spoolgate_wire::time::Time;

/// A decision of a person that only a person relaxes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hold {
    /// The person.
    pub principal: Principal,
    /// The ledger line of the decision.
    pub line: u64,
    /// When it was decided.
    pub at: Time,
    /// The person's reason.
    pub reason: String,
    /// Whether others decided on the same, before or after, so that the person does not take it
    /// back alone: it was not as lax as can be when the person made it stricter, or another person
    /// wanted it as strict, or somebody made it stricter still.
    #[serde(default, skip_serializing_if = "is_false")]
    pub shared: bool,
}

// serde passes a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_false(flag: &bool) -> bool {
    !*flag
}

/// Which parts of a concern's state a person holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeldBy {
    /// Who holds the pause; `None` if the concern is not paused, or no person decided it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Hold>,
    /// Who holds the risk mode; `None` if it is normal, or no person decided it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk_mode: Option<Hold>,
}

impl HeldBy {
    /// Returns whether no person holds anything.
    pub fn is_nobody(&self) -> bool {
        *self == HeldBy::default()
    }
}

/// Records in `after`, the state that the sender decides, what a person holds from now on. A person who
/// asks for a state that is already as strict does not take over another person's hold.
pub(super) fn take(
    facts: &Facts<'_>,
    decision: &ControlDecision,
    before: &ConcernState,
    after: &mut ConcernState,
) {
    if facts.rule.role != Role::Human {
        let hold = after.held_by.risk_mode.as_mut();
        if let Some(hold) = hold.filter(|_| after.risk_mode > before.risk_mode) {
            hold.shared = true;
        }
        return;
    }
    let hold = |held: &mut Option<Hold>, is_same: bool, is_strict: bool| {
        let own = is_own(facts, held.as_ref());
        if let Some(held) = held.as_mut().filter(|_| is_same) {
            held.shared |= !own;
            return;
        }
        let shared = match held {
            Some(held) => held.shared || !own,
            None => is_strict,
        };
        *held = Some(Hold {
            principal: facts.source.clone(),
            line: facts.line,
            at: facts.now,
            reason: decision.reason.clone(),
            shared,
        });
    };
    match decision.action {
        ControlAction::Pause => hold(&mut after.held_by.paused, true, before.paused),
        ControlAction::Switch | ControlAction::Resume => after.held_by.paused = None,
        ControlAction::SetRiskMode if after.risk_mode == RiskMode::Normal => {
            after.held_by.risk_mode = None;
        }
        ControlAction::SetRiskMode => {
            let is_same = after.risk_mode == before.risk_mode;
            let is_strict = before.risk_mode != RiskMode::Normal;
            hold(&mut after.held_by.risk_mode, is_same, is_strict);
        }
    }
}

fn is_own(facts: &Facts<'_>, held: Option<&Hold>) -> bool {
    held.is_some_and(|hold| hold.principal == *facts.source)
}

/// Returns whether a person takes back what that person alone made stricter. Nobody has to be
/// granted the concern for that: a person may make any concern stricter, and must be able to end
/// it.
pub(super) fn takes_back(
    facts: &Facts<'_>,
    decision: &ControlDecision,
    before: &ConcernState,
    after: &ConcernState,
) -> bool {
    let held = &before.held_by;
    let is_alone = |held: Option<&Hold>| is_own(facts, held) && held.is_some_and(|it| !it.shared);
    facts.rule.role == Role::Human
        && match decision.action {
            ControlAction::Resume => {
                is_alone(held.paused.as_ref()) && after.current == before.current
            }
            ControlAction::SetRiskMode => is_alone(held.risk_mode.as_ref()),
            ControlAction::Switch | ControlAction::Pause => false,
        }
}

/// Returns why the sender may not relax the concern, if a person holds it. While a person has
/// stopped a concern, by a pause or the mode exits_only, others may not choose what runs after it
/// either.
pub(super) fn held(
    facts: &Facts<'_>,
    decision: &ControlDecision,
    before: &ConcernState,
    after: &ConcernState,
) -> Option<String> {
    if facts.rule.role == Role::Human || before == after {
        return None;
    }
    let HeldBy { paused, risk_mode } = &before.held_by;
    let pause = paused.as_ref().map(|hold| (hold, "paused it", "resumes"));
    let mode = risk_mode
        .as_ref()
        .map(|hold| (hold, "set its risk mode", "sets a laxer one"));
    let stops = before.risk_mode == RiskMode::ExitsOnly;
    let (hold, did, relaxes) = match decision.action {
        ControlAction::Pause => None,
        ControlAction::Switch | ControlAction::Resume => pause.or(mode.filter(|_| stops)),
        ControlAction::SetRiskMode => mode.filter(|_| after.risk_mode < before.risk_mode),
    }?;
    Some(format!(
        "{} {did} at {} (line {}): {}; a person {relaxes}",
        hold.principal, hold.at, hold.line, hold.reason
    ))
}
