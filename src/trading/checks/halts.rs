//! What stops every entry: an untrusted clock, broken rules, losses, people.

use super::{Finding, OrderFacts, SAFETY, STATE, Subject, strategy_file};
use crate::rules::hours::Window;
use crate::trading::book::{Baseline, Book, Doubt};
use crate::wire::amount::Amount;
use crate::wire::time::Time;

/// What is said where equity is missing.
pub(super) const NO_EQUITY: &str = "equity is unknown: a price of an open position is missing or stale";

/// The gate's clock can be trusted.
pub(super) fn clock(subject: &Subject, _: &OrderFacts) -> Finding {
    Finding::yes_no(subject.ctx.clock_fault.map(str::to_owned), STATE)
}

/// The rule files can be used as they stand.
pub(super) fn rulebook(subject: &Subject, _: &OrderFacts) -> Finding {
    Finding::yes_no(subject.ctx.rulebook_fault.map(str::to_owned), STATE)
}

/// Profit and loss of the UTC day = equity - equity at its start - deposits since > -max_daily_loss.
/// Equality halts.
pub(super) fn daily_loss_halt(subject: &Subject, facts: &OrderFacts) -> Finding {
    loss_halt(subject, facts, &Period::day(subject))
}

/// Profit and loss of the week, from Monday UTC, as of the day > -max_weekly_loss. Equality halts.
pub(super) fn weekly_loss_halt(subject: &Subject, facts: &OrderFacts) -> Finding {
    loss_halt(subject, facts, &Period::week(subject))
}

/// A period that losses are counted in.
struct Period<'a> {
    baseline: Option<&'a Baseline>,
    start: Time,
    loss_max: Amount,
    no_baseline: &'static str,
    inexact: &'static str,
    halted: &'static str,
}

impl<'a> Period<'a> {
    fn day(subject: &Subject<'a>) -> Period<'a> {
        Period {
            baseline: subject.book.account.day.as_ref(),
            start: subject.ctx.now.day_start(),
            loss_max: subject.rules.safety.max_daily_loss,
            no_baseline: "today's starting equity is not recorded yet",
            inexact: "the day's profit cannot be computed exactly",
            halted: "the day's loss has reached its limit; entries go on tomorrow",
        }
    }

    fn week(subject: &Subject<'a>) -> Period<'a> {
        Period {
            baseline: subject.book.account.week.as_ref(),
            start: subject.ctx.now.week_start(),
            loss_max: subject.rules.safety.max_weekly_loss,
            no_baseline: "this week's starting equity is not recorded yet",
            inexact: "the week's profit cannot be computed exactly",
            halted: "the week's loss has reached its limit; entries go on next week",
        }
    }

    /// Profit and loss, or why it is not known. A baseline of another period would hide a loss of this one
    /// behind that one's profit.
    fn profit(&self, book: &Book, equity: Amount) -> Result<Amount, &'static str> {
        let baseline = self.baseline.filter(|baseline| baseline.start == self.start);
        book.profit_since(baseline.ok_or(self.no_baseline)?, equity).ok_or(self.inexact)
    }
}

fn loss_halt(subject: &Subject, facts: &OrderFacts, period: &Period) -> Finding {
    let Some(equity) = facts.equity else {
        return Finding::unknown("usd", SAFETY, NO_EQUITY);
    };
    match period.profit(subject.book, equity) {
        Ok(profit) => Finding::compared(profit, -period.loss_max, "usd", SAFETY)
            .unless(profit > -period.loss_max, || period.halted),
        Err(reason) => {
            let source = if reason == period.no_baseline { STATE } else { SAFETY };
            Finding::unknown("usd", source, reason)
        }
    }
}

/// What may be lost before the day's or the week's loss halts, whichever is less: limit + profit and loss.
pub(super) fn left_to_lose(subject: &Subject, facts: &OrderFacts) -> Result<Amount, &'static str> {
    let equity = facts.equity.ok_or(NO_EQUITY)?;
    let left = |period: Period| {
        let profit = period.profit(subject.book, equity)?;
        period.loss_max.checked_add(profit).ok_or(period.inexact)
    };
    Ok(left(Period::day(subject))?.min(left(Period::week(subject))?))
}

/// Drawdown = peak - equity < max_drawdown x peak, and not latched since an earlier one.
pub(super) fn drawdown_halt(subject: &Subject, facts: &OrderFacts) -> Finding {
    let account = &subject.book.account;
    let (Some(equity), Some(peak)) = (facts.equity, account.peak_equity) else {
        return Finding::unknown("usd", SAFETY, "equity or its peak is unknown");
    };
    let limit = peak.checked_mul(subject.rules.safety.max_drawdown);
    let (Some(drawdown), Some(limit)) = (peak.checked_sub(equity), limit) else {
        return Finding::unknown("usd", SAFETY, "the drawdown cannot be computed exactly");
    };
    let finding = Finding::compared(drawdown, limit, "usd", SAFETY);
    if let Some(since) = account.drawdown_since {
        return finding
            .unless(false, || format!("halted by a drawdown since {since}; a person must clear it"));
    }
    finding
        .unless(drawdown < limit && peak > Amount::ZERO, || "the drawdown has reached its limit".to_owned())
}

/// Nobody has halted trading.
pub(super) fn manual_halt(subject: &Subject, _: &OrderFacts) -> Finding {
    Finding::yes_no(subject.ctx.halted.map(str::to_owned), STATE)
}

/// The gate has heard of the sender.
pub(super) fn dead_man(subject: &Subject, _: &OrderFacts) -> Finding {
    Finding::yes_no(subject.ctx.unheard.map(str::to_owned), STATE)
}

/// The time is outside the restricted windows of safety.yaml and of the strategy.
pub(super) fn time_window(subject: &Subject, facts: &OrderFacts) -> Finding {
    let (now, name) = (subject.ctx.now, &facts.order.strategy);
    let fault = |window: &Window| Some(format!("nothing is entered from {window}"));
    if let Some(window) = subject.rules.safety.restricted.iter().find(|window| window.holds(now)) {
        return Finding::yes_no(fault(window), SAFETY);
    }
    let strategy = subject.rules.strategies.get(name);
    let own = strategy.and_then(|strategy| strategy.restricted.iter().find(|window| window.holds(now)));
    match own {
        Some(window) => Finding::yes_no(fault(window), strategy_file(name)),
        None => Finding::yes_no(None, SAFETY),
    }
}

/// The symbol is not halted by an implausible gap.
pub(super) fn symbol_halt(subject: &Subject, facts: &OrderFacts) -> Finding {
    let gap = subject.book.halted_symbols.get(facts.symbol());
    let gap = gap.map(|gap| {
        format!(
            "the market opened at {} after {} at {}, which is hard to believe; a person clears it",
            gap.open, gap.previous, gap.time
        )
    });
    let doubt = subject.book.doubted_symbols.get(facts.symbol()).map(|Doubt { at, what, .. }| {
        format!("book and venue may differ since {at}: {what}; a person looks and clears it")
    });
    // Whoever clears one clears both, so both are said.
    let faults: Vec<String> = gap.into_iter().chain(doubt).collect();
    let fault = (!faults.is_empty()).then(|| faults.join("; besides, "));
    Finding::yes_no(fault, STATE)
}
