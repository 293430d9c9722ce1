//! What stops every entry: an untrusted clock, broken rules, losses, people.

use super::{Finding, OrderFacts, SAFETY, STATE, Subject};
use crate::wire::amount::Amount;

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
    let account = &subject.book.account;
    let Some(equity) = facts.equity else {
        return Finding::unknown(
            "usd",
            SAFETY,
            "equity is unknown: a price of an open position is missing or stale",
        );
    };
    // A baseline of another day would hide today's loss behind that one's profit.
    let today = subject.ctx.now.day_start();
    if account.day.as_ref().is_none_or(|day| day.start != today) {
        return Finding::unknown("usd", STATE, "today's starting equity is not recorded yet");
    }
    let limit = -subject.rules.safety.max_daily_loss;
    let Some(profit) = subject.book.day_profit(equity) else {
        return Finding::unknown("usd", SAFETY, "the day's profit cannot be computed exactly");
    };
    Finding::compared(profit, limit, "usd", SAFETY)
        .unless(profit > limit, || "the day's loss has reached its limit; entries go on tomorrow".to_owned())
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

/// The symbol is not halted by an implausible gap.
pub(super) fn symbol_halt(subject: &Subject, facts: &OrderFacts) -> Finding {
    let gap = subject.book.halted_symbols.get(facts.symbol());
    let fault = gap.map(|gap| {
        format!(
            "the market opened at {} after {} at {}, which is hard to believe; a person clears it",
            gap.open, gap.previous, gap.time
        )
    });
    Finding::yes_no(fault, STATE)
}
