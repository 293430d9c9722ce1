//! Limits that are fractions of the capital base: risk, position, exposure; and what may be lost before a halt.
//! Compared as money, by multiplication. A limit blocks only orders that make things worse.

use std::borrow::Cow;

use super::halts::NO_EQUITY;
use super::order::{NO_INSTRUMENT, NO_MARKET, NOT_EXACT};
use super::{Finding, OrderFacts, SAFETY, SAFETY_REDUCED, Subject, strategy_file};
use crate::rules::instruments::Instrument;
use crate::trading::risk;
use crate::wire::amount::Amount;
use crate::wire::orders::Side;

const NO_BASE: &str = "the capital base is 0: equity is used up";

/// The limit `fraction x capital base`, reduced where the risk mode says so, or why there is none.
fn limit_of(subject: &Subject, facts: &OrderFacts, fraction: Amount) -> Result<Amount, &'static str> {
    let base = facts.capital_base.ok_or(NO_EQUITY)?;
    subject.reduced(fraction).and_then(|fraction| base.checked_mul(fraction)).ok_or(NOT_EXACT)
}

/// Where the limits of safety.yaml come from in the risk mode in force.
pub(super) fn source_of(subject: &Subject) -> &'static str {
    if subject.ctx.limit_factor.is_some() { SAFETY_REDUCED } else { SAFETY }
}

/// What this order could lose down to its stop, with slippage and fees both ways, plus, where it adds to
/// a position or to pending entries of the same strategy, symbol and direction, what those could lose.
/// At most `max_single_trade_risk` x capital base.
pub(super) fn max_single_trade_risk(subject: &Subject, facts: &OrderFacts) -> Finding {
    let source = source_of(subject);
    let Some(instrument) = subject.instrument else {
        return Finding::unknown("usd", source, NO_INSTRUMENT);
    };
    let limit = match limit_of(subject, facts, subject.rules.safety.max_single_trade_risk) {
        Ok(limit) => limit,
        Err(reason) => return Finding::unknown("usd", source, reason),
    };
    if facts.market.is_none() {
        return Finding::unknown("usd", source, NO_MARKET);
    }
    let others = || facts.around.risks(subject, facts, instrument);
    let risk = own_risk(subject, facts, instrument)
        .and_then(|own| others()?.iter().try_fold(own, |sum, other| sum.checked_add(*other)));
    let Some(risk) = risk else {
        return Finding::unknown("usd", source, NOT_EXACT);
    };
    judge(risk, limit, source, false, "the trade could lose too much down to its stop")
}

/// What this order alone could lose down to its stop.
fn own_risk(subject: &Subject, facts: &OrderFacts, instrument: &Instrument) -> Option<Amount> {
    let (stop, safety) = (facts.order.planned_stop, &subject.rules.safety);
    risk::of_entry(facts.worst_entry?, stop, facts.size, instrument, safety)
}

/// The worst case of the symbol with this order, max(|net + open buys|, |net - open sells|) x price x multiplier,
/// exits and stops left out: at most `max_single_position` x capital base.
pub(super) fn max_single_position(subject: &Subject, facts: &OrderFacts) -> Finding {
    let source = source_of(subject);
    let Some(instrument) = subject.instrument else {
        return Finding::unknown("usd", source, NO_INSTRUMENT);
    };
    let limit = match limit_of(subject, facts, subject.rules.safety.max_single_position) {
        Ok(limit) => limit,
        Err(reason) => return Finding::unknown("usd", source, reason),
    };
    let Some(price) = facts.notional_price else {
        return Finding::unknown("usd", source, NO_MARKET);
    };
    let Some((notional, is_worse)) = own_worst_case(subject, facts, instrument, price) else {
        return Finding::unknown("usd", source, NOT_EXACT);
    };
    judge(notional, limit, source, !is_worse, "the position in this symbol could grow too large")
}

/// The worst case of the order's own symbol, and whether this order makes it worse.
fn own_worst_case(
    subject: &Subject,
    facts: &OrderFacts,
    instrument: &Instrument,
    price: Amount,
) -> Option<(Amount, bool)> {
    let before = facts.around.own(subject, instrument)?;
    let after = before.with(facts.order.side, facts.size)?;
    let units = after.units();
    Some((after.money(units, instrument, price)?, units > before.units()))
}

/// The worst cases of all symbols with this order: at most `max_total_exposure` x capital base. A symbol
/// with anything open needs a fresh price.
pub(super) fn max_total_exposure(subject: &Subject, facts: &OrderFacts) -> Finding {
    let reason = "all positions together could grow too large";
    exposure(subject, facts, subject.rules.safety.max_total_exposure, reason, |instrument, price| {
        let others = match &facts.around.others(subject, facts).all {
            Ok(sides) => Ok(sides.worst),
            Err(unknown) => Err(unknown.clone()),
        };
        (others, own_worst_case(subject, facts, instrument, price))
    })
}

/// What could be held of all symbols in the direction of this order, with it: the sum of max(0, net + open
/// buys) x price x multiplier for buys, of max(0, open sells - net) for sells. At most
/// `max_same_direction_exposure` x capital base.
pub(super) fn same_direction_exposure(subject: &Subject, facts: &OrderFacts) -> Finding {
    let reason = "too much could be held in one direction";
    let side = facts.order.side;
    exposure(subject, facts, subject.rules.safety.same_direction(), reason, |instrument, price| {
        let others = match &facts.around.others(subject, facts).all {
            Ok(sides) if side == Side::Buy => Ok(sides.long),
            Ok(sides) => Ok(sides.short),
            Err(unknown) => Err(unknown.clone()),
        };
        let own = || {
            let before = facts.around.own(subject, instrument)?;
            let after = before.with(side, facts.size)?;
            let units = after.units_on(side);
            Some((after.money(units, instrument, price)?, units > before.units_on(side)))
        };
        (others, own())
    })
}

/// The worst cases of all symbols in the `group` of this instrument, with this order: at most
/// `max_correlated_group` x capital base. No row for an instrument without a group.
pub(super) fn correlated_group(subject: &Subject, facts: &OrderFacts) -> Option<Finding> {
    subject.instrument?.group.as_ref()?;
    let reason = "what moves together could grow too large";
    Some(exposure(subject, facts, subject.rules.safety.correlated_group(), reason, |instrument, price| {
        let others = facts.around.others(subject, facts).group.clone();
        (others, own_worst_case(subject, facts, instrument, price))
    }))
}

/// A sum of worst cases against a fraction of the capital base. `sums` gives that of the other symbols, and the
/// order's own with whether the order makes it worse.
fn exposure(
    subject: &Subject,
    facts: &OrderFacts,
    fraction: Amount,
    reason: &'static str,
    sums: impl FnOnce(&Instrument, Amount) -> (Result<Amount, Finding>, Option<(Amount, bool)>),
) -> Finding {
    let source = source_of(subject);
    let limit = match limit_of(subject, facts, fraction) {
        Ok(limit) => limit,
        Err(reason) => return Finding::unknown("usd", source, reason),
    };
    let (Some(price), Some(instrument)) = (facts.notional_price, subject.instrument) else {
        return Finding::unknown("usd", source, NO_MARKET);
    };
    let (others, own) = sums(instrument, price);
    let others = match others {
        Ok(others) => others,
        Err(unknown) => return unknown,
    };
    let sum = own.and_then(|(own, is_worse)| Some((others.checked_add(own)?, is_worse)));
    let Some((sum, is_worse)) = sum else {
        return Finding::unknown("usd", source, NOT_EXACT);
    };
    judge(sum, limit, source, !is_worse, reason)
}

/// The worst cases of all symbols, of this strategy alone, with this order: at most the strategy's `allocation`
/// x capital base. No row for a strategy without one.
pub(super) fn strategy_allocation(subject: &Subject, facts: &OrderFacts) -> Option<Finding> {
    let name = &facts.order.strategy;
    let allocation = subject.rules.strategies.get(name)?.allocation?;
    let mut source = strategy_file(name);
    if subject.ctx.limit_factor.is_some() {
        source.push_str(" (reduced)");
    }
    let limit = match limit_of(subject, facts, allocation) {
        Ok(limit) => limit,
        Err(reason) => return Some(Finding::unknown("usd", source, reason)),
    };
    let (Some(price), Some(instrument)) = (facts.notional_price, subject.instrument) else {
        return Some(Finding::unknown("usd", source, NO_MARKET));
    };
    let others = match facts.around.others_of_strategy(subject, facts) {
        Ok(others) => others,
        Err(unknown) => return Some(unknown),
    };
    let own = || {
        let before = facts.around.own_of_strategy(subject, facts)?;
        let after = before.with(facts.order.side, facts.size)?;
        let units = after.units();
        let sum = others.checked_add(after.money(units, instrument, price)?)?;
        Some((sum, units > before.units()))
    };
    let Some((sum, is_worse)) = own() else {
        return Some(Finding::unknown("usd", source, NOT_EXACT));
    };
    let reason = "the strategy could hold more than it is allotted";
    Some(judge(sum, limit, source, !is_worse, reason))
}

/// What all positions could lose down to their stops, a position without one its whole notional, and all pending
/// entries, with this order: at most `max_portfolio_risk` x capital base.
pub(super) fn max_portfolio_risk(subject: &Subject, facts: &OrderFacts) -> Finding {
    let source = source_of(subject);
    let limit = match limit_of(subject, facts, subject.rules.safety.max_portfolio_risk) {
        Ok(limit) => limit,
        Err(reason) => return Finding::unknown("usd", source, reason),
    };
    match all_risk(subject, facts, source) {
        Ok(risk) => judge(risk, limit, source, false, "all trades together could lose too much"),
        Err(unknown) => unknown,
    }
}

/// The same risk: at most what is left to lose before the day's or the week's loss halts, whichever is less. So no
/// trade can lose through the halt.
pub(super) fn loss_budget(subject: &Subject, facts: &OrderFacts) -> Finding {
    let source = source_of(subject);
    let left = match facts.around.left_to_lose(subject, facts) {
        Ok(left) => left,
        Err(reason) => return Finding::unknown("usd", source, reason),
    };
    let Some(limit) = subject.reduced(left) else {
        return Finding::unknown("usd", source, NOT_EXACT);
    };
    let risk = match all_risk(subject, facts, source) {
        Ok(risk) => risk,
        Err(unknown) => return unknown,
    };
    Finding::compared(risk, limit, "usd", source).unless(
        limit.is_positive() && risk <= limit,
        || "all trades together could lose more than the day or the week has left",
    )
}

/// The open risk and that of this order.
fn all_risk(subject: &Subject, facts: &OrderFacts, source: &'static str) -> Result<Amount, Finding> {
    let (Some(instrument), Some(_)) = (subject.instrument, facts.market) else {
        return Err(Finding::unknown("usd", source, NO_MARKET));
    };
    let open = facts.around.open_risk(subject, facts)?;
    let risk = own_risk(subject, facts, instrument).and_then(|own| open.checked_add(own));
    risk.ok_or_else(|| Finding::unknown("usd", source, NOT_EXACT))
}

/// A book over its limit by a move of prices still takes what does not make it worse; a capital base of 0
/// takes nothing.
fn judge(
    value: Amount,
    limit: Amount,
    source: impl Into<Cow<'static, str>>,
    is_harmless: bool,
    reason: &'static str,
) -> Finding {
    let finding = Finding::compared(value, limit, "usd", source);
    if !limit.is_positive() {
        return finding.unless(false, || NO_BASE);
    }
    finding.unless(value <= limit || is_harmless, || reason)
}
