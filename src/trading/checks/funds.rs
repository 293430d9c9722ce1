//! Whether the account and the market have room for an order: cash and volume.

use super::around::cost;
use super::limits::source_of;
use super::order::{NO_INSTRUMENT, NO_MARKET, NOT_EXACT};
use super::{Finding, OrderFacts, STATE, Subject};
use crate::trading::valuation::is_fresh;
use crate::wire::orders::Side;

/// A cash account, without margin: what the entry takes is at most what is free.
///
/// It takes price x size x multiplier x (1 + taker_fee): buys at their worst entry, sells at their notional price.
/// Free is cash - 2 x what it takes to buy every short back at its mark (its proceeds are not one's own, and as
/// much again is its collateral) - what every working entry takes for what is left of it.
pub(super) fn buying_power(subject: &Subject, facts: &OrderFacts) -> Finding {
    let Some(instrument) = subject.instrument else {
        return Finding::unknown("usd", STATE, NO_INSTRUMENT);
    };
    let price = match facts.order.side {
        Side::Buy => facts.worst_entry,
        Side::Sell => facts.notional_price,
    };
    let Some(price) = price else {
        return Finding::unknown("usd", STATE, NO_MARKET);
    };
    let free = match facts.around.free(subject, facts) {
        Ok(free) => free,
        Err(unknown) => return unknown,
    };
    let Some(cost) = cost(price, facts.size, instrument) else {
        return Finding::unknown("usd", STATE, NOT_EXACT);
    };
    Finding::compared(cost, free, "usd", STATE)
        .unless(cost <= free, || "it takes more cash than shorts and working entries leave free")
}

/// size <= max_volume_share x volume of the last bar, which must be fresh and have one. No row where safety.yaml
/// sets no share.
pub(super) fn liquidity_participation(subject: &Subject, facts: &OrderFacts) -> Option<Finding> {
    let share = subject.rules.safety.max_volume_share?;
    let source = source_of(subject);
    let Some(instrument) = subject.instrument else {
        return Some(Finding::unknown("size", source, NO_INSTRUMENT));
    };
    let (now, safety) = (subject.ctx.now, &subject.rules.safety);
    let last = subject.book.markets.get(&instrument.symbol).and_then(|market| market.last.as_ref());
    let last = last.filter(|last| is_fresh(last.time, now, instrument, safety));
    let Some(volume) = last.and_then(|last| last.volume) else {
        return Some(Finding::unknown("size", source, "no fresh bar says what volume the market has"));
    };
    let Some(limit) = volume.checked_mul(share).and_then(|limit| subject.reduced(limit)) else {
        return Some(Finding::unknown("size", source, NOT_EXACT));
    };
    let finding = Finding::compared(facts.size, limit, "size", source);
    Some(finding.unless(facts.size <= limit, || "more than its share of what the market trades"))
}
