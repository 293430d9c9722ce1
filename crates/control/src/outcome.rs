//! Turns a control decision into its answer and its changes.

use super::checks::{self, Plan, Vector};
use super::registry::{self, Change, ControlState, standing};
use super::{Facts, Reconciled};
use spoolgate_rules::Rulebook;
use spoolgate_rules::strategies::{Strategy, StrategyStatus};
use spoolgate_wire::checks::CheckRow;
use spoolgate_wire::code::Retry;
use spoolgate_wire::control::fault::retry_of;
use spoolgate_wire::control::{
    ControlAction, ControlAttempt, ControlDecision, ControlFault, ControlResponse, ControlResult,
    ControlStatus, ModeChange, Validation,
};
use spoolgate_wire::ids::{ControlId, StrategyName};
use spoolgate_wire::time::Time;

/// The result of a control decision.
#[derive(Debug)]
pub struct Outcome {
    /// The answer's body.
    pub response: ControlResponse,
    /// The full check vector.
    pub rows: Vec<CheckRow>,
    /// Why it was rejected or failed, if it was.
    pub message: Option<String>,
    /// Changes of the control state and of the index of decision ids.
    pub changes: Vec<Change>,
}

fn nothing_done() -> ControlResult {
    ControlResult {
        mode_change: ModeChange::None,
        reconciled: false,
        cancelled_orders: Vec::new(),
        positions_kept: Vec::new(),
        would_be: None,
        retry_after_ms: None,
    }
}

/// Returns the answer to a payload that is not a control decision.
pub fn no_decision(attempt: &ControlAttempt, fault: ControlFault, now: Time) -> ControlResponse {
    let echo = attempt.echo.clone();
    ControlResponse {
        ok: false,
        status: ControlStatus::Rejected,
        decision_id: echo.decision_id,
        concern_id: echo.concern_id,
        action: echo.action,
        from_strategy_id: None,
        to_strategy_id: None,
        risk_mode: None,
        dry_run: echo.dry_run,
        validation: Validation::default(),
        warnings: Vec::new(),
        errors: vec![fault],
        result: nothing_done(),
        applied_at: now,
    }
}

/// Returns what becomes of orders and positions after a change of a concern, which closes these
/// strategies to entries. `E` is the reason why that cannot be said.
pub type Reconcile<'a, E> = &'a dyn Fn(&Change, &[&StrategyName]) -> Result<Reconciled, E>;

/// Decides. `degraded` returns why a strategy's execution cannot be trusted. The decision itself
/// cancels nothing: the orders that `reconcile` names are pulled because they are no longer allowed.
pub fn decide<'a, E: std::error::Error>(
    decision: &'a ControlDecision,
    facts: &Facts<'a>,
    degraded: &dyn Fn(&Strategy) -> Vec<String>,
    reconcile: Reconcile<'_, E>,
) -> Outcome {
    let done_before = facts.earlier.filter(|earlier| {
        let is_same = checks::is_same(earlier, decision, facts.payload_hash);
        decision.dry_run && earlier.status != ControlStatus::Failed && is_same
    });
    if let Some(earlier) = done_before {
        let plan = checks::run(facts, decision, degraded).1;
        let mut vector = Vector::default();
        vector
            .warnings
            .push(format!("this was decided in ledger line {}", earlier.seq));
        return answer(decision, facts, vector, plan.as_ref(), earlier.status, None);
    }
    let (mut vector, plan) = checks::run(facts, decision, degraded);
    let changed = plan
        .as_ref()
        .filter(|plan| plan.changes && vector.faults.is_empty());
    let reconciled = changed.map(|plan| reconcile(&change_of(plan), &closed_by(facts.rules, plan)));
    let (status, reconciled) = match reconciled {
        Some(Err(why)) => {
            vector.check(
                "reconcile",
                "state",
                ControlFault::ReconcileFailed,
                Some(why.to_string()),
            );
            (ControlStatus::Failed, None)
        }
        Some(Ok(reconciled)) => (ControlStatus::Applied, Some(reconciled)),
        None if vector.faults.is_empty() => (ControlStatus::Noop, None),
        None => (ControlStatus::Rejected, None),
    };
    answer(decision, facts, vector, plan.as_ref(), status, reconciled)
}

fn change_of(plan: &Plan<'_>) -> Change {
    Change::Concern {
        concern: plan.concern.clone(),
        state: plan.after.clone(),
    }
}

/// Returns the strategies of the concern that may not enter after the plan was applied.
fn closed_by<'a>(rules: &'a Rulebook, plan: &Plan<'a>) -> Vec<&'a StrategyName> {
    let mut after = ControlState::default();
    after
        .concerns
        .insert(plan.concern.clone(), plan.after.clone());
    rules
        .strategies_of(plan.concern)
        .filter(|strategy| {
            let stands = standing(rules, &after, strategy);
            stands.closed.is_some() || stands.status == StrategyStatus::Paused
        })
        .map(|strategy| &strategy.name)
        .collect()
}

/// Builds the outcome. `would` is the status of the answer, unless the decision is a dry run.
fn answer(
    decision: &ControlDecision,
    facts: &Facts<'_>,
    vector: Vector,
    plan: Option<&Plan<'_>>,
    would: ControlStatus,
    reconciled: Option<Reconciled>,
) -> Outcome {
    let is_dry = decision.dry_run;
    let status = if is_dry { ControlStatus::Noop } else { would };
    let is_applied = status == ControlStatus::Applied;
    let mut result = nothing_done();
    if let Some(reconciled) = reconciled {
        result.cancelled_orders = reconciled.cancelled_orders;
        result.positions_kept = reconciled.positions_kept;
    }
    let runs_on = plan.is_none_or(|plan| plan.before.runs_like(&plan.after));
    if is_applied && !runs_on {
        result.mode_change = ModeChange::Applied;
    }
    result.reconciled = is_applied;
    result.would_be = is_dry.then_some(would);
    // No time helps a decision that something else refuses for good.
    result.retry_after_ms = vector
        .retry_after_ms
        .filter(|_| retry_of(&vector.faults) == Retry::NewId);
    let id = |strategy: &Strategy| ControlId::parse(strategy.id()).ok();
    let from = plan
        .and_then(|plan| registry::active(facts.rules, plan.concern, &plan.before))
        .and_then(id);
    let target = decision.target_strategy_id.clone();
    let to = match decision.action {
        ControlAction::Switch => target,
        ControlAction::Resume => {
            target.or_else(|| plan.and_then(|plan| plan.after.current.clone()))
        }
        ControlAction::Pause => None,
        ControlAction::SetRiskMode => from.clone(),
    };
    let risk_mode = plan.map(|plan| {
        let state = if is_applied {
            &plan.after
        } else {
            &plan.before
        };
        registry::mode(facts.rules, plan.concern, state)
    });
    let mut changes = Vec::new();
    // A conflict must not replace the first decision with this id.
    let takes_id = !is_dry && !vector.faults.contains(&ControlFault::DecisionIdConflict);
    if takes_id {
        changes.push(Change::Decided {
            source: facts.source.clone(),
            decision_id: decision.decision_id.clone(),
            payload_hash: facts.payload_hash.to_owned(),
            status,
        });
    }
    if let Some(plan) = plan.filter(|_| is_applied) {
        changes.push(change_of(plan));
    }
    let failed = vector
        .rows
        .iter()
        .find(|row| !row.passed)
        .filter(|_| !status.is_ok());
    let message = failed.map(|row| {
        let reason = row.reason.as_deref().unwrap_or("no reason is given");
        format!("check `{}` failed: {reason}", row.name)
    });
    let response = ControlResponse {
        ok: would.is_ok(),
        status,
        decision_id: Some(decision.decision_id.clone()),
        concern_id: Some(decision.concern_id.clone()),
        action: Some(decision.action.as_str().to_owned()),
        from_strategy_id: from,
        to_strategy_id: to,
        risk_mode,
        dry_run: Some(is_dry),
        validation: vector.validation,
        warnings: vector.warnings,
        errors: vector.faults,
        result,
        applied_at: facts.now,
    };
    Outcome {
        response,
        rows: vector.rows,
        message,
        changes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spoolgate_rules::Bundle;
    use spoolgate_wire::ids::Principal;

    /// This cannot happen with a book that the gate wrote: the market refuses to cancel an entry.
    #[test]
    fn an_irreconcilable_outcome_fails_and_changes_only_the_record() {
        let files = [
            (
                "rules/safety.yaml",
                include_str!("../../../rules/safety.yaml"),
            ),
            (
                "rules/principals.yaml",
                include_str!("../../../rules/principals.yaml"),
            ),
            (
                "rules/instruments.yaml",
                include_str!("../../../rules/instruments.yaml"),
            ),
            (
                "rules/strategies/trend.yaml",
                include_str!("../../../rules/strategies/trend.yaml"),
            ),
            (
                "rules/strategies/range.yaml",
                include_str!("../../../rules/strategies/range.yaml"),
            ),
        ];
        let files = files.map(|(path, text)| (path.to_owned(), text.to_owned()));
        let rules = Rulebook::compile(&Bundle {
            files: files.into(),
        })
        .unwrap();
        let source = Principal::parse("hermes").unwrap();
        let attempt = ControlAttempt::read(
            r#"{"decision_id":"d","concern_id":"paper:btc-usd","account_id":"paper","market_symbol":"btc-usd",
               "action":"pause","reason":"r","confidence":1}"#,
        );
        let decision = attempt.decision.unwrap();
        let facts = Facts {
            rules: &rules,
            state: &ControlState::default(),
            source: &source,
            rule: &rules.principals[&source],
            payload_hash: "h",
            earlier: None,
            line: 1,
            now: Time::EPOCH,
            received_at: Time::EPOCH,
            halted: None,
            clock_fault: None,
            rulebook_fault: None,
        };
        let fails = |_: &Change, _: &[&StrategyName]| -> Result<Reconciled, std::fmt::Error> {
            Err(std::fmt::Error)
        };
        let outcome = decide(&decision, &facts, &|_| Vec::new(), &fails);
        assert_eq!(outcome.response.status, ControlStatus::Failed);
        assert_eq!(outcome.response.errors, [ControlFault::ReconcileFailed]);
        assert_eq!(
            outcome.message.unwrap(),
            format!("check `reconcile` failed: {}", std::fmt::Error)
        );
        assert!(matches!(
            outcome.changes.as_slice(),
            [Change::Decided {
                status: ControlStatus::Failed,
                ..
            }]
        ));
    }
}
