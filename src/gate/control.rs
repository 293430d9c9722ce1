//! Control decisions at the gate: what they need of the book, what they do to it, and the registry as it is shown.

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::handle::{Judged, Outcome, Turn};
use super::prepare::{Authentic, Refusal};
use super::state::{Change, State};
use crate::control::{self, ControlState, Facts, Reconciled, standing};
use crate::rules::Rulebook;
use crate::rules::principals::PrincipalRule;
use crate::rules::strategies::Strategy;
use crate::trading::order::OrderRole;
use crate::trading::reconcile::reconcile;
use crate::trading::valuation::is_fresh;
use crate::trading::{self, Book};
use crate::wire::amount::Amount;
use crate::wire::code::Code;
use crate::wire::control::{ControlAttempt, ControlDecision, ControlStatus, PositionKept, RiskMode};
use crate::wire::ids::{ConcernId, ConcernPart, ControlId, Principal, StrategyName, Symbol};
use crate::wire::time::Time;

/// A strategy as `strategies.list` and `strategies.get` show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct StrategyView<'a> {
    /// What controllers call it.
    pub strategy_id: &'a str,
    /// Its name in orders.
    pub name: &'a StrategyName,
    /// Its concern; null: only its file decides on it.
    pub concern_id: Option<&'a ConcernId>,
    /// The concern's account.
    pub account_id: Option<&'a ConcernPart>,
    /// The concern's market.
    pub market_symbol: Option<&'a ConcernPart>,
    /// `active`, `paused` or `standby`, as things stand.
    pub status: &'static str,
    /// What its file says.
    pub file_status: &'static str,
    /// The mode in force.
    pub risk_mode: RiskMode,
    /// Whether it can run.
    pub runnable: bool,
    /// Whether its execution is not to be trusted.
    pub degraded: bool,
    /// Why not.
    pub degraded_reasons: Vec<String>,
    /// What it may enter.
    pub instruments: &'a [Symbol],
}

/// The registry as things stand, by name.
pub fn strategies<'a>(state: &State, rules: &'a Rulebook, now: Time) -> Vec<StrategyView<'a>> {
    let view = |strategy: &'a Strategy| {
        let stands = standing(rules, &state.control, strategy);
        let degraded_reasons = degraded(&state.book, rules, strategy, now);
        StrategyView {
            strategy_id: strategy.id(),
            name: &strategy.name,
            concern_id: strategy.concern.as_ref(),
            account_id: strategy.account.as_ref(),
            market_symbol: strategy.market.as_ref(),
            status: stands.status.as_str(),
            file_status: strategy.status.as_str(),
            risk_mode: stands.mode,
            runnable: strategy.not_runnable().is_none(),
            degraded: !degraded_reasons.is_empty(),
            degraded_reasons,
            instruments: &strategy.instruments,
        }
    };
    rules.strategies.values().map(view).collect()
}

/// Why a strategy's execution is not to be trusted: a person says so, a market that it trades is not known, or a
/// position is not wholly covered by its protective stops.
fn degraded(book: &Book, rules: &Rulebook, strategy: &Strategy, now: Time) -> Vec<String> {
    let mut reasons: Vec<String> = strategy.degraded.iter().cloned().collect();
    for symbol in &strategy.instruments {
        let is_known = rules.instruments.get(symbol).is_some_and(|instrument| {
            book.two_sided(instrument).is_some_and(|seen| is_fresh(seen.time, now, instrument, &rules.safety))
        });
        if !is_known {
            reasons.push(format!("`{symbol}` has no fresh bid and ask"));
        }
    }
    for position in book.positions.values().filter(|position| position.strategy == strategy.name) {
        let stops = book.orders.values().filter(|order| {
            order.role == OrderRole::Protective
                && order.ending().is_none()
                && order.is_of(&strategy.name, &position.symbol)
                && order.side == position.closing_side()
        });
        let covered = stops.map(|stop| stop.leaves()).try_fold(Amount::ZERO, Amount::checked_add);
        if covered.is_none_or(|covered| covered < position.size.abs()) {
            reasons.push(format!(
                "the position in `{}` is not covered by its protective stops",
                position.symbol
            ));
        }
    }
    reasons
}

/// Whether no quota of a spool holds a decision back: only what can make nothing riskier, from whoever may decide it.
pub(super) fn passes_quota(
    attempt: &ControlAttempt,
    state: &State,
    rules: &Rulebook,
    source: &Principal,
    rule: &PrincipalRule,
) -> bool {
    let Ok(decision) = &attempt.decision else { return false };
    let facts = Facts { now: Time::EPOCH, ..bare(rules, &state.control, source, rule) };
    !decision.dry_run
        && control::registry::makes_safer(rules, &state.control, decision)
        && control::may_decide(&facts, &decision.concern_id, true)
}

/// Facts of which only who decides is known.
fn bare<'a>(
    rules: &'a Rulebook,
    state: &'a ControlState,
    source: &'a Principal,
    rule: &'a PrincipalRule,
) -> Facts<'a> {
    Facts {
        rules,
        state,
        source,
        rule,
        payload_hash: "",
        earlier: None,
        now: Time::EPOCH,
        halted: None,
        clock_fault: None,
        rulebook_fault: None,
    }
}

fn raw(body: &impl Serialize) -> Result<Box<RawValue>, Refusal> {
    to_raw_value(body)
        .map_err(|error| Refusal::new(Code::Internal, format!("the answer cannot be written: {error}")))
}

/// What control says of a strategy's entries: why it may make none, and what its limits are multiplied by.
pub(super) fn of_entries(
    state: &State,
    rules: &Rulebook,
    strategy: &StrategyName,
) -> (Option<String>, Option<Amount>) {
    let Some(strategy) = rules.strategies.get(strategy) else { return (None, None) };
    let stands = standing(rules, &state.control, strategy);
    let factor = (stands.mode == RiskMode::Reduced).then_some(rules.safety.reduced_risk_factor);
    (stands.closed, factor)
}

#[derive(Serialize, schemars::JsonSchema)]
pub(super) enum Shown<'a> {
    /// All of them.
    Strategies(Vec<StrategyView<'a>>),
    /// The one that was asked for.
    Strategy(StrategyView<'a>),
}

impl Turn<'_> {
    /// `strategies.list`, and `strategies.get` of one.
    pub(super) fn show_strategies(&self, only: Option<&ControlId>) -> Result<Outcome, Refusal> {
        let mut all = strategies(self.state, self.rules, self.now);
        let shown =
            match only {
                None => Shown::Strategies(all),
                Some(id) => {
                    all.retain(|view| view.strategy_id == id.as_str());
                    let found = all.pop();
                    Shown::Strategy(found.ok_or_else(|| {
                        Refusal::new(Code::NotFound, format!("there is no strategy `{id}`"))
                    })?)
                }
            };
        Ok(Outcome { data: Some(raw(&shown)?), ..Outcome::default() })
    }

    /// Decides a control decision, or says why it is none.
    pub(super) fn control(
        &self,
        authentic: &Authentic,
        attempt: &ControlAttempt,
    ) -> Result<Outcome, Refusal> {
        match &attempt.decision {
            Ok(decision) => self.control_decision(authentic, decision),
            Err((fault, why)) => {
                let data = Some(raw(&control::outcome::no_decision(attempt, *fault, self.now))?);
                let what = format!("payload of `control.apply`: {why}");
                let refusal = Some(Refusal::new(Code::MalformedPayload, what));
                Ok(Outcome { data, judged: Some(Judged { rows: Vec::new(), refusal }), ..Outcome::default() })
            }
        }
    }

    fn control_decision(
        &self,
        authentic: &Authentic,
        decision: &ControlDecision,
    ) -> Result<Outcome, Refusal> {
        let source = &authentic.envelope.source;
        let earlier = self.lookups.decided.as_ref();
        let same = earlier.filter(|earlier| earlier.payload_hash == authentic.payload_hash);
        if let Some(earlier) = same.filter(|earlier| earlier.status != ControlStatus::Failed) {
            return said_before(earlier);
        }
        // `may_do` has found it.
        let Some(rule) = self.rules.principals.get(source) else {
            return Err(Refusal::new(
                Code::NotPermitted,
                format!("`{source}` is not in rules/principals.yaml"),
            ));
        };
        let drawdown = self.state.book.account.drawdown_since;
        let halted = self.state.halted(source).or_else(|| {
            drawdown.map(|since| format!("the drawdown limit was reached at {since}; a person clears it"))
        });
        let clock_fault = self.state.clock_fault();
        let facts = Facts {
            payload_hash: &authentic.payload_hash,
            earlier,
            now: self.now,
            halted: halted.as_deref(),
            clock_fault: clock_fault.as_deref(),
            rulebook_fault: self.state.rulebook.fault.as_deref(),
            ..bare(self.rules, &self.state.control, source, rule)
        };
        let book = &self.state.book;
        let cancel = |names: &[&StrategyName]| -> Result<Reconciled<trading::Change>, String> {
            let done = reconcile(book, names, self.now).map_err(|error| error.to_string())?;
            let kept = done.kept.into_iter().map(|(strategy, symbol)| PositionKept { strategy, symbol });
            Ok(Reconciled {
                cancelled_orders: done.cancelled,
                positions_kept: kept.collect(),
                changes: done.changes,
            })
        };
        let degraded = |strategy: &Strategy| degraded(book, self.rules, strategy, self.now);
        let outcome = control::decide(decision, &facts, &degraded, &cancel);
        let refusal = outcome.message.map(|message| Refusal::new(code_of(outcome.response.status), message));
        let of_book = outcome.effects.into_iter().map(Change::Book);
        Ok(Outcome {
            data: Some(raw(&outcome.response)?),
            changes: of_book.chain(outcome.changes.into_iter().map(Change::Control)).collect(),
            judged: Some(Judged { rows: outcome.rows, refusal }),
            ..Outcome::default()
        })
    }
}

/// The original response once more: nothing is looked at, nothing changes.
fn said_before(earlier: &control::Earlier) -> Result<Outcome, Refusal> {
    let data = earlier.data.clone().and_then(|data| RawValue::from_string(data).ok()).ok_or_else(|| {
        let what = format!(
            "the stored response in ledger line {} cannot be made again, audit/blobs lacks a part of it",
            earlier.seq
        );
        Refusal::new(Code::Internal, what)
    })?;
    let message = earlier.message.clone().filter(|_| !earlier.status.is_ok());
    let refusal = message.map(|message| Refusal { code: code_of(earlier.status), message });
    let rows = control::checks::again(earlier);
    Ok(Outcome { data: Some(data), judged: Some(Judged { rows, refusal }), ..Outcome::default() })
}

fn code_of(status: ControlStatus) -> Code {
    if status == ControlStatus::Failed { Code::ControlFailed } else { Code::ControlRejected }
}
