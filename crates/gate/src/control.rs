//! Control decisions at the gate: what they read from the book, what they change, and the registry
//! view.

use serde::Serialize;
use serde_json::value::RawValue;

use super::handle::data;
use super::handle::{Judged, Outcome, Turn};
use super::prepare::{Authentic, Refusal, escaped};
use super::pulls;
use super::state::{Change, FoldError, State};
use spoolgate_control::{self as control, ControlState, Facts, Reconciled, standing};
use spoolgate_rules::Rulebook;
use spoolgate_rules::principals::PrincipalRule;
use spoolgate_rules::strategies::Strategy;
use spoolgate_trading::Book;
use spoolgate_trading::order::OrderRole;
use spoolgate_trading::valuation::is_fresh;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::code::{Code, Retry};
use spoolgate_wire::control::fault::retry_of;
use spoolgate_wire::control::{
    ControlAttempt, ControlDecision, ControlResponse, ControlStatus, PositionKept, RiskMode,
};
use spoolgate_wire::ids::{ConcernId, ConcernPart, Principal, StrategyName, Symbol};
use spoolgate_wire::time::Time;

/// What to do about a decision that no new decision_id makes possible.
const LEAVE: &str = "see data.errors and data.validation (docs/control.md); it stays refused until \
    a person, or what it names, changes that";

/// A strategy as `strategies.list` and `strategies.get` show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct StrategyView<'a> {
    /// The id that controllers use.
    pub strategy_id: &'a str,
    /// Its name in orders.
    pub name: &'a StrategyName,
    /// Its concern; null if only its file controls it.
    pub concern_id: Option<&'a ConcernId>,
    /// The concern's account.
    pub account_id: Option<&'a ConcernPart>,
    /// The concern's market.
    pub market_symbol: Option<&'a ConcernPart>,
    /// `active`, `paused` or `standby`, as of now.
    pub status: &'static str,
    /// The status in its file.
    pub file_status: &'static str,
    /// The risk mode in force.
    pub risk_mode: RiskMode,
    /// Whether it can run.
    pub runnable: bool,
    /// Whether its execution cannot be relied on.
    pub degraded: bool,
    /// Why it is degraded.
    pub degraded_reasons: Vec<String>,
    /// Symbols that it may enter.
    pub instruments: &'a [Symbol],
}

/// All strategies in their present state, by name.
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

/// Reasons why a strategy's execution cannot be relied on: an operator marked it as degraded, a
/// market that it trades is unknown, or a position is not fully covered by its protective stops.
fn degraded(book: &Book, rules: &Rulebook, strategy: &Strategy, now: Time) -> Vec<String> {
    let mut reasons: Vec<String> = strategy.degraded.iter().cloned().collect();
    for symbol in &strategy.instruments {
        let is_known = rules.instruments.get(symbol).is_some_and(|instrument| {
            book.two_sided(instrument)
                .is_some_and(|seen| is_fresh(seen.time, now, instrument, &rules.safety))
        });
        if !is_known {
            reasons.push(format!("`{symbol}` has no fresh bid and ask"));
        }
    }
    for position in book
        .positions
        .values()
        .filter(|position| position.strategy == strategy.name && !position.is_dust())
    {
        let stops = book.orders.values().filter(|order| {
            order.role == OrderRole::Protective
                && order.ending().is_none()
                && order.is_of(&strategy.name, &position.symbol)
                && order.side == position.closing_side()
        });
        let covered = stops
            .map(|stop| stop.leaves())
            .try_fold(Amount::ZERO, Amount::checked_add);
        if covered.is_none_or(|covered| covered < position.whole()) {
            reasons.push(format!(
                "the position in `{}` is not covered by its protective stops",
                position.symbol
            ));
        }
    }
    reasons
}

/// Whether quotas of a spool do not apply to a control decision: it cannot increase risk, and its
/// sender may make it.
pub(super) fn passes_quota(
    attempt: &ControlAttempt,
    state: &State,
    rules: &Rulebook,
    source: &Principal,
    rule: &PrincipalRule,
) -> bool {
    let Ok(decision) = &attempt.decision else {
        return false;
    };
    let facts = bare(rules, &state.control, source, rule);
    !decision.dry_run
        && control::registry::makes_safer(rules, &state.control, decision)
        && control::may_decide(&facts, &decision.concern_id, true)
}

/// The facts for a permission check: only the sender is known.
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
        line: 0,
        now: Time::EPOCH,
        received_at: Time::EPOCH,
        halted: None,
        clock_fault: None,
        rulebook_fault: None,
    }
}

/// What control imposes on a strategy's entries: why none are allowed, and the factor on its
/// limits.
pub(super) fn of_entries(
    state: &State,
    rules: &Rulebook,
    strategy: &StrategyName,
) -> (Option<String>, Option<Amount>) {
    let Some(strategy) = rules.strategies.get(strategy) else {
        return (None, None);
    };
    let stands = standing(rules, &state.control, strategy);
    let factor = (stands.mode == RiskMode::Reduced).then_some(rules.safety.reduced_risk_factor);
    (stands.closed, factor.map(|bound| bound.get()))
}

impl Turn<'_> {
    /// Decides a control decision.
    ///
    /// # Errors
    /// Returns a [`Refusal`] if it cannot be decided.
    pub(super) fn control(
        &self,
        authentic: &Authentic,
        attempt: &ControlAttempt,
    ) -> Result<Outcome, Refusal> {
        match &attempt.decision {
            Ok(decision) => self.control_decision(authentic, decision),
            Err(error) => {
                let response = control::outcome::no_decision(attempt, error.fault(), self.now);
                let data = data(&response)?;
                let malformed = authentic
                    .body
                    .as_ref()
                    .ok()
                    .and_then(|it| it.malformed.as_deref());
                let words = malformed.map_or_else(|| error.to_string(), |it| it.words.clone());
                let what = format!("payload of `control.apply`: {words}");
                let faults = malformed.map(|it| it.faults.clone()).unwrap_or_default();
                let refusal = Refusal::new(Code::MalformedPayload, what).with_faults(faults);
                let refusal = Some(refusal);
                Ok(Outcome {
                    data,
                    judged: Some(Judged {
                        rows: Vec::new(),
                        refusal,
                    }),
                    ..Outcome::default()
                })
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
        // `may_do` has checked that the sender is there.
        let Some(rule) = self.rules.principals.get(source) else {
            return Err(Refusal::new(
                Code::NotPermitted,
                format!("`{source}` is not in rules/principals.yaml"),
            ));
        };
        let drawdown = self.state.book.account.drawdown_since;
        let halted = self.state.halted(source).or_else(|| {
            drawdown.map(|since| {
                format!("the drawdown limit was reached at {since}; a person must clear it")
            })
        });
        let clock_fault = self.state.clock_fault();
        let facts = Facts {
            payload_hash: &authentic.payload_hash,
            earlier,
            line: self.seq,
            now: self.now,
            received_at: self
                .granted
                .map_or(self.now, |granted| granted.hold.held_at),
            halted: halted.as_deref(),
            clock_fault: clock_fault.as_deref(),
            rulebook_fault: self.state.rulebook.fault.as_deref(),
            ..bare(self.rules, &self.state.control, source, rule)
        };
        let book = &self.state.book;
        let reconcile = |change: &control::Change, names: &[&StrategyName]| {
            let mut after = self.state.clone();
            after.apply(&Change::Control(change.clone()))?;
            let pulled = pulls::due(&after, self.rules, Amount::ZERO, self.now);
            let mut book_after = book.clone();
            let changes = pulled.iter().flat_map(|pull| pull.changes(book, self.now));
            for change in changes {
                book_after.apply(&change)?;
            }
            let held = book.positions.values();
            let kept = held.filter(|held| names.contains(&&held.strategy));
            Ok::<_, FoldError>(Reconciled {
                cancelled_orders: pulled.iter().map(|pull| pull.order.order_id).collect(),
                positions_kept: kept
                    .map(|held| PositionKept {
                        strategy: held.strategy.clone(),
                        symbol: held.symbol.clone(),
                    })
                    .collect(),
            })
        };
        let degraded = |strategy: &Strategy| degraded(book, self.rules, strategy, self.now);
        let outcome = control::decide(decision, &facts, &degraded, &reconcile);
        let response = &outcome.response;
        let refusal = outcome.message.map(|message| {
            let code = code_of(response.status);
            let retry = retry_of(&response.errors);
            // No new decision helps where a person has to decide first, or the state to change.
            let refusal = if retry == Retry::Never {
                Refusal::recorded(code, format!("{}; {LEAVE}", escaped(&message)))
            } else {
                Refusal::new(code, message)
            };
            refusal
                .retried(retry)
                .waiting(response.result.retry_after_ms)
        });
        Ok(Outcome {
            data: data(response)?,
            changes: outcome.changes.into_iter().map(Change::Control).collect(),
            judged: Some(Judged {
                rows: outcome.rows,
                refusal,
            }),
            ..Outcome::default()
        })
    }
}

/// Repeats the original response without looking anything up or changing anything.
fn said_before(earlier: &control::Earlier) -> Result<Outcome, Refusal> {
    let data = earlier
        .data
        .clone()
        .and_then(|data| RawValue::from_string(data).ok());
    let data = data.ok_or_else(|| {
        let what = format!(
            "the response stored in ledger line {} cannot be rebuilt: `audit/blobs` lacks a part \
                of it",
            earlier.seq
        );
        Refusal::new(Code::Internal, what)
    })?;
    let message = earlier.message.clone().filter(|_| !earlier.status.is_ok());
    let refusal = message.map(|message| {
        let response: Option<ControlResponse> = serde_json::from_str(data.get()).ok();
        let errors = response.map(|response| response.errors).unwrap_or_default();
        // Its time to wait was counted from that decision.
        Refusal::recorded(code_of(earlier.status), message).retried(retry_of(&errors))
    });
    let rows = control::checks::again(earlier);
    Ok(Outcome {
        data: Some(data),
        judged: Some(Judged { rows, refusal }),
        ..Outcome::default()
    })
}

fn code_of(status: ControlStatus) -> Code {
    if status == ControlStatus::Failed {
        Code::ControlFailed
    } else {
        Code::ControlRejected
    }
}
