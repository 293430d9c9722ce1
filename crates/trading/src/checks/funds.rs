//! Checks whether the account and the market have room for an order: cash and volume.

use super::limits::source_of;
use super::{CheckRow, OrderFacts, STATE, Subject};
use crate::lack::{NO_INSTRUMENT, NO_MARKET, NOT_EXACT};
use crate::sums::cost;
use crate::valuation::is_fresh;

/// The cash that the entry takes is at most the free cash: the account is a cash account, without
/// margin.
///
/// An entry takes price x size x multiplier x (1 + taker_fee), with the worst entry as price of
/// buys and the notional price for sells. Free cash is cash - 2 x the cost of buying every short
/// back at its mark (its proceeds are owed back, and the same amount again is its collateral) -
/// what the unfilled part of every working entry takes.
pub(super) fn buying_power(subject: &Subject, facts: &OrderFacts) -> CheckRow {
    let Some(instrument) = subject.instrument else {
        return NO_INSTRUMENT.row("usd", STATE);
    };
    let Some(price) = facts.cost_price() else {
        return NO_MARKET.row("usd", STATE);
    };
    let free = match facts.around.sums.free() {
        Ok(free) => free,
        Err(unknown) => return *unknown,
    };
    let Some(cost) = cost(price, facts.size, instrument) else {
        return NOT_EXACT.row("usd", STATE);
    };
    CheckRow::compared(cost, free, "usd", STATE).unless(
        cost <= free,
        || "it needs more cash than shorts and working entries leave free",
    )
}

/// size <= max_volume_share x volume of the last bar, which must be fresh and have a volume. No row
/// if safety.yaml sets no share.
pub(super) fn liquidity_participation(subject: &Subject, facts: &OrderFacts) -> Option<CheckRow> {
    let share = subject.rules.safety.max_volume_share?;
    let source = source_of(subject);
    let Some(instrument) = subject.instrument else {
        return Some(NO_INSTRUMENT.row("size", source));
    };
    let (now, safety) = (subject.ctx.now, &subject.rules.safety);
    let last = subject
        .book
        .markets
        .get(&instrument.symbol)
        .and_then(|market| market.last.as_ref());
    let last = last.filter(|last| is_fresh(last.time, now, instrument, safety));
    let Some(volume) = last.and_then(|last| last.volume) else {
        return Some(CheckRow::unknown(
            "size",
            source,
            "no fresh bar shows the volume of the market",
        ));
    };
    let Some(limit) = volume
        .checked_mul(*share)
        .and_then(|limit| subject.reduced(limit))
    else {
        return Some(NOT_EXACT.row("size", source));
    };
    let row = CheckRow::compared(facts.size, limit, "size", source);
    Some(row.unless(
        facts.size <= limit,
        || "the order exceeds its permitted share of the market's volume",
    ))
}
