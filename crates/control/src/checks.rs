//! The checks of a control decision: one row per check, in the order in which the
//! answer lists them.

use super::authority;
use super::registry::{self, ConcernState};
use super::timing;
use super::{Earlier, Facts, may_decide};
use spoolgate_rules::strategies::Strategy;
use spoolgate_wire::checks::CheckRow;
use spoolgate_wire::control::{
    ControlAction, ControlAttempt, ControlDecision, ControlFault, RiskMode, Validation,
};
use spoolgate_wire::ids::{ConcernId, ControlId};
use spoolgate_wire::time::Time;

const REQUEST: &str = "request";
const STATE: &str = "state";
const PRINCIPALS: &str = "principals.yaml";
const SAFETY: &str = "safety.yaml";
const STRATEGIES: &str = "strategies";

/// Rows of the check vector, and the codes of the failed rows.
#[derive(Debug, Default)]
pub struct Vector {
    /// The rows.
    pub rows: Vec<CheckRow>,
    /// The codes of the failed rows, in the same order.
    pub faults: Vec<ControlFault>,
    /// What the checks compared, for the answer.
    pub validation: Validation,
    /// Findings that did not cause a refusal.
    pub warnings: Vec<String>,
    /// How long to wait before a new decision, if this one is too soon. Milliseconds.
    pub retry_after_ms: Option<u64>,
}

impl Vector {
    /// Adds a yes-or-no row. The row fails with `fault` if `why` is given.
    pub fn check(
        &mut self,
        name: &'static str,
        source: &'static str,
        fault: ControlFault,
        why: Option<String>,
    ) {
        self.faults.extend(why.is_some().then_some(fault));
        self.rows.push(CheckRow::yes_no(why, source).named(name));
    }

    /// Adds a row that passes although there is a fault, because of an override or because the
    /// decision makes nothing riskier.
    fn lift(&mut self, name: &'static str, source: &'static str, by: &str, why: &str) {
        self.rows.push(
            CheckRow::yes_no(Some(why.to_owned()), source)
                .named(name)
                .lifted(by),
        );
    }

    /// Adds a yes-or-no row. An override lifts it, with a warning about what is `lifted`, if it
    /// lifts this fault at all.
    fn check_or_lift(
        &mut self,
        name: &'static str,
        source: &'static str,
        fault: ControlFault,
        why: Option<String>,
        lifted: Option<&str>,
    ) {
        match (why, lifted) {
            (Some(why), Some(what)) if fault.is_lifted_by_override() => {
                self.warnings.push(format!("override lifted {what}: {why}"));
                self.lift(name, source, LIFTED, &why);
            }
            (why, _) => self.check(name, source, fault, why),
        }
    }
}

/// What a decision would change on its concern.
#[derive(Debug)]
pub struct Plan<'a> {
    /// The concern.
    pub concern: &'a ConcernId,
    /// The concern's state before.
    pub before: ConcernState,
    /// The concern's state after.
    pub after: ConcernState,
    /// Whether that differs in more than what is remembered of the decision.
    pub changes: bool,
    /// The strategy that the decision is about, if any.
    pub subject: Option<&'a Strategy>,
}

/// Runs all checks. The plan is `None` if the concern is not known.
pub fn run<'a>(
    facts: &Facts<'a>,
    decision: &'a ControlDecision,
    degraded: &dyn Fn(&Strategy) -> Vec<String>,
) -> (Vector, Option<Plan<'a>>) {
    let mut vector = Vector::default();
    idempotency(&mut vector, facts, decision);
    let known = concern(&mut vector, facts, decision);
    let mut plan = known.then(|| plan(facts, decision));
    let is_safer = match &plan {
        Some(plan) => !plan.changes || registry::makes_safer(facts.rules, facts.state, decision),
        None => false,
    };
    if let Some(plan) = &plan {
        rights(&mut vector, facts, decision, plan);
        about_strategies(&mut vector, facts, decision, plan);
    }
    let lifts = overrides(&mut vector, facts, decision, plan.as_ref());
    if let Some(plan) = &mut plan {
        expectation(&mut vector, facts, decision, plan, lifts);
        let requested_at = requested_at(&mut vector, facts, decision, plan, is_safer);
        plan.after.recent = plan.before.recent.with(facts, requested_at, is_safer);
    }
    let floor = facts.rules.safety.control_confidence_min;
    let confident = decision.confidence >= *floor;
    let why = (!confident).then(|| format!("{} is below {floor}", decision.confidence));
    vector
        .faults
        .extend((!confident && !is_safer).then_some(ControlFault::ConfidenceTooLow));
    let row = CheckRow::compared(decision.confidence, *floor, "fraction", SAFETY).unless_fault(why);
    let row = row.named("confidence");
    vector
        .rows
        .push(if is_safer { row.lifted(EXEMPT) } else { row });
    if let Some(plan) = &plan {
        execution(&mut vector, decision, plan, degraded, is_safer, lifts);
        risk_mode(&mut vector, facts, decision, plan);
        let too_soon = timing::too_soon(facts, &plan.before.recent).filter(|_| !is_safer);
        vector.retry_after_ms = too_soon.as_ref().map(|(wait_ms, _)| *wait_ms);
        let why = too_soon.map(|(_, why)| why);
        vector.check("damping", SAFETY, ControlFault::TooSoon, why);
    }
    for (name, source, fault, why) in [
        ("halts", STATE, ControlFault::Halted, facts.halted),
        ("clock", STATE, ControlFault::ClockFault, facts.clock_fault),
        (
            "rulebook",
            STATE,
            ControlFault::RulebookFault,
            facts.rulebook_fault,
        ),
    ] {
        match why {
            Some(why) if is_safer => vector.lift(name, source, EXEMPT, why),
            _ => vector.check(name, source, fault, why.map(str::to_owned)),
        }
    }
    (vector, plan)
}

const EXEMPT: &str = "exempt, as it makes nothing riskier";
const LIFTED: &str = "lifted by override";

/// Returns whether the earlier decision with this decision_id was the same one. A dry run is the
/// same if only `dry_run` differs.
pub fn is_same(earlier: &Earlier, decision: &ControlDecision, payload_hash: &str) -> bool {
    if !decision.dry_run {
        return earlier.payload_hash == payload_hash;
    }
    let read = earlier
        .payload
        .as_deref()
        .map(ControlAttempt::read)
        .and_then(|read| read.decision.ok());
    read.is_some_and(|read| {
        ControlDecision {
            dry_run: true,
            ..read
        } == *decision
    })
}

/// Returns the vector of a decision that was made before: its stored response is sent again, and no
/// other check runs.
pub fn again(earlier: &Earlier) -> Vec<CheckRow> {
    let remark = format!(
        "decided in ledger line {}; this is the response stored there",
        earlier.seq
    );
    vec![
        CheckRow::yes_no(None, STATE)
            .named("decision_id_free")
            .remarked(remark),
    ]
}

fn idempotency(vector: &mut Vector, facts: &Facts<'_>, decision: &ControlDecision) {
    let other = facts
        .earlier
        .filter(|earlier| !is_same(earlier, decision, facts.payload_hash));
    let why = other.map(|earlier| {
        format!(
            "ledger line {} decided another payload under this decision_id",
            earlier.seq
        )
    });
    vector.check(
        "decision_id_free",
        STATE,
        ControlFault::DecisionIdConflict,
        why,
    );
}

/// Checks that the concern matches account and market; returns whether some strategy file has it.
fn concern(vector: &mut Vector, facts: &Facts<'_>, decision: &ControlDecision) -> bool {
    let ControlDecision {
        concern_id,
        account_id,
        market_symbol,
        ..
    } = decision;
    let pair = ConcernId::of(account_id, market_symbol);
    let is_pair = pair == *concern_id;
    let why = (!is_pair).then(|| {
        format!(
            "`{concern_id}` is not `{pair}`, the id that its account \
        and market make"
        )
    });
    vector.check("concern_match", REQUEST, ControlFault::ConcernMismatch, why);
    let (account, market) = concern_id
        .as_str()
        .split_once(':')
        .unwrap_or((concern_id.as_str(), ""));
    vector.validation.account_match = Some(account == account_id.as_str());
    vector.validation.market_match = Some(market == market_symbol.as_str());
    let is_known = is_pair && facts.rules.strategies_of(concern_id).next().is_some();
    vector.validation.concern_match = Some(is_known);
    if is_pair {
        let why = (!is_known).then(|| {
            format!(
                "no file in rules/strategies has the concern \
            `{concern_id}`"
            )
        });
        vector.check(
            "concern_known",
            STRATEGIES,
            ControlFault::ConcernUnknown,
            why,
        );
    }
    is_known
}

/// Computes what the decision requests, whether or not it is permitted.
fn plan<'a>(facts: &Facts<'a>, decision: &'a ControlDecision) -> Plan<'a> {
    let concern = &decision.concern_id;
    let before = facts.state.of(facts.rules, concern);
    let target = decision.target_strategy_id.as_ref();
    let mut after = before.clone();
    let runs = |after: &mut ConcernState, id: Option<&ControlId>| {
        after.current = id.cloned().or_else(|| after.current.take());
        after.paused = false;
    };
    match decision.action {
        ControlAction::Switch | ControlAction::Resume => runs(&mut after, target),
        ControlAction::Pause => after.paused = true,
        ControlAction::SetRiskMode => {
            after.risk_mode = decision.risk_mode.unwrap_or(before.risk_mode)
        }
    }
    let subject = match decision.action {
        ControlAction::Switch | ControlAction::Resume => after.current.as_ref(),
        ControlAction::Pause | ControlAction::SetRiskMode => before.current.as_ref(),
    };
    let subject = registry::named(facts.rules, concern, subject);
    authority::take(facts, decision, &before, &mut after);
    Plan {
        concern,
        subject,
        changes: before != after,
        before,
        after,
    }
}

/// Checks the sender's right, and that it relaxes nothing that a person holds.
fn rights(vector: &mut Vector, facts: &Facts<'_>, decision: &ControlDecision, plan: &Plan<'_>) {
    let (concern, before, after) = (plan.concern, &plan.before, &plan.after);
    let safer = registry::makes_safer(facts.rules, facts.state, decision);
    let may =
        may_decide(facts, concern, safer) || authority::takes_back(facts, decision, before, after);
    let why = (!may).then(|| {
        format!(
            "`{}` may not decide this on `{concern}`; a person may grant it",
            facts.source
        )
    });
    vector.check("authorised", PRINCIPALS, ControlFault::NotAuthorised, why);
    let why = authority::held(facts, decision, before, after);
    vector.check("authority", STATE, ControlFault::HeldByPerson, why);
}

/// Checks the time of the decision by the sender's clock; returns it if nothing is wrong with it.
fn requested_at(
    vector: &mut Vector,
    facts: &Facts<'_>,
    decision: &ControlDecision,
    plan: &Plan<'_>,
    is_safer: bool,
) -> Option<Time> {
    let name = "requested_at";
    let Some(time) = decision.requested_at else {
        let warning = format!("{name} is absent, so it was not checked");
        vector.warnings.push(warning);
        return None;
    };
    match timing::requested_at(facts, &plan.before.recent, time) {
        None => {
            vector.check(name, SAFETY, ControlFault::RequestedAtStale, None);
            return Some(time);
        }
        Some((fault, why)) if is_safer => {
            vector.warnings.push(format!("`{}`: {why}", fault.as_str()));
            vector.lift(name, SAFETY, EXEMPT, &why);
        }
        Some((fault, why)) => vector.check(name, SAFETY, fault, Some(why)),
    }
    None
}

/// Checks that the named strategies exist, belong to the concern and are in the state that the
/// action needs.
fn about_strategies(
    vector: &mut Vector,
    facts: &Facts<'_>,
    decision: &ControlDecision,
    plan: &Plan<'_>,
) {
    let concern = plan.concern;
    let current = registry::named(facts.rules, concern, plan.before.current.as_ref());
    if let Some(id) = &decision.target_strategy_id {
        let target = facts
            .rules
            .strategies
            .values()
            .find(|strategy| strategy.has_id(id));
        vector.validation.target_exists = Some(target.is_some());
        let why = target
            .is_none()
            .then(|| format!("strategy `{id}` does not exist"));
        vector.check(
            "target_exists",
            STRATEGIES,
            ControlFault::TargetUnknown,
            why,
        );
        if let Some(target) = target {
            vector.validation.account_match =
                Some(target.account.as_ref() == Some(&decision.account_id));
            vector.validation.market_match =
                Some(target.market.as_ref() == Some(&decision.market_symbol));
            let is_here = target.concern.as_ref() == Some(concern);
            let why = (!is_here).then(|| {
                format!(
                    "strategy `{id}` does not have the concern \
                `{concern}`"
                )
            });
            vector.check(
                "target_match",
                STRATEGIES,
                ControlFault::TargetMismatch,
                why,
            );
            if is_here
                && matches!(
                    decision.action,
                    ControlAction::Pause | ControlAction::SetRiskMode
                )
            {
                let why = current.is_none_or(|current| !current.has_id(id)).then(|| {
                    format!(
                        "strategy `{id}` is not current on `{concern}`; leave the target out, or \
                            name the current strategy"
                    )
                });
                vector.check("target_current", STATE, ControlFault::TargetNotCurrent, why);
            }
        }
    }
    let needs_one = match decision.action {
        ControlAction::Pause => true,
        ControlAction::Resume => decision.target_strategy_id.is_none(),
        ControlAction::Switch | ControlAction::SetRiskMode => false,
    };
    if needs_one {
        let why = current
            .is_none()
            .then(|| format!("no strategy is current on `{concern}`; switch to one"));
        vector.check("strategy_named", STATE, ControlFault::NoStrategy, why);
    }
    if decision.action == ControlAction::Resume {
        let active = registry::active(facts.rules, concern, &plan.before);
        let another = active.filter(|active| {
            decision
                .target_strategy_id
                .as_ref()
                .is_some_and(|target| !active.has_id(target))
        });
        let why =
            another.map(|active| format!("strategy `{}` is active; switch instead", active.id()));
        vector.check("no_other_active", STATE, ControlFault::AnotherActive, why);
    }
}

/// If the decision claims an override, checks the right to it. Returns whether the
/// override lifts checks.
fn overrides(
    vector: &mut Vector,
    facts: &Facts<'_>,
    decision: &ControlDecision,
    plan: Option<&Plan<'_>>,
) -> bool {
    if !decision.overrides {
        return false;
    }
    let right = &facts.rule.control;
    let may = right.overrides && plan.is_some_and(|plan| right.concerns.contains(plan.concern));
    let why = (!may).then(|| {
        format!(
            "`{}` may not override on `{}`",
            facts.source, decision.concern_id
        )
    });
    vector.check(
        "override",
        PRINCIPALS,
        ControlFault::OverrideNotPermitted,
        why,
    );
    may
}

fn expectation(
    vector: &mut Vector,
    facts: &Facts<'_>,
    decision: &ControlDecision,
    plan: &Plan<'_>,
    lifts: bool,
) {
    let Some(expected) = &decision.expected_active_strategy_id else {
        vector
            .warnings
            .push("expected_active_strategy_id is absent, so it was not checked".to_owned());
        return;
    };
    let active = registry::active(facts.rules, plan.concern, &plan.before);
    let matches = match (expected, active) {
        (None, None) => true,
        (Some(expected), Some(active)) => active.has_id(expected),
        _ => false,
    };
    vector.validation.expected_active_match = Some(matches);
    let told = |id: Option<&str>| id.map_or_else(|| "nothing".to_owned(), |id| format!("`{id}`"));
    let expected = told(expected.as_ref().map(ControlId::as_str));
    let why = (!matches).then(|| {
        format!(
            "{expected} was expected to be active, but {} is",
            told(active.map(Strategy::id))
        )
    });
    let fault = ControlFault::ExpectationFailed;
    let lifted = lifts.then_some("the expectation");
    vector.check_or_lift("expected_active", STATE, fault, why, lifted);
}

/// Checks that the strategy that is to run can run and that its execution can be trusted.
fn execution(
    vector: &mut Vector,
    decision: &ControlDecision,
    plan: &Plan<'_>,
    degraded: &dyn Fn(&Strategy) -> Vec<String>,
    is_safer: bool,
    lifts: bool,
) {
    let Some(strategy) = plan.subject else { return };
    if matches!(
        decision.action,
        ControlAction::Switch | ControlAction::Resume
    ) {
        let why = strategy.not_runnable();
        vector.validation.target_runnable = Some(why.is_none());
        // Even a decision that changes nothing fails here if the strategy's file pauses it or lists
        // no instrument.
        vector.check(
            "target_runnable",
            STRATEGIES,
            ControlFault::TargetNotRunnable,
            why,
        );
    }
    let reasons = degraded(strategy);
    let why = (!reasons.is_empty())
        .then(|| format!("`{}` is degraded: {}", strategy.id(), reasons.join("; ")));
    match why {
        Some(why) if is_safer => vector.lift("execution", STATE, EXEMPT, &why),
        why => {
            let fault = ControlFault::ExecutionDegraded;
            let lifted = lifts.then_some("degraded execution");
            vector.check_or_lift("execution", STATE, fault, why, lifted);
        }
    }
}

fn risk_mode(vector: &mut Vector, facts: &Facts<'_>, decision: &ControlDecision, plan: &Plan<'_>) {
    let Some(wanted) = decision.risk_mode else {
        return;
    };
    if decision.action != ControlAction::SetRiskMode {
        if plan.subject.is_none() {
            return;
        }
        let in_force = registry::mode(facts.rules, plan.concern, &plan.after);
        let why = (wanted != in_force).then(|| {
            format!(
                "`risk_mode` is {}, but {} would be in force; use `set_risk_mode` to change it",
                wanted.as_str(),
                in_force.as_str()
            )
        });
        return vector.check(
            "risk_mode_match",
            REQUEST,
            ControlFault::RiskModeMismatch,
            why,
        );
    }
    let floor = plan
        .subject
        .map_or(RiskMode::Normal, |strategy| strategy.risk_mode);
    let why = (wanted < floor).then(|| {
        let file = plan.subject.map_or("", |strategy| strategy.name.as_str());
        format!(
            "rules/strategies/{file}.yaml allows nothing laxer than {}",
            floor.as_str()
        )
    });
    vector.check(
        "risk_mode_permitted",
        STRATEGIES,
        ControlFault::RiskModeNotPermitted,
        why,
    );
}
