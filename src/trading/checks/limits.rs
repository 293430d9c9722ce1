//! Limits that are fractions of the capital base: risk of the trade, position, exposure. Compared as
//! money, by multiplication. A limit blocks only orders that make things worse.

use super::order::{NO_INSTRUMENT, NO_MARKET, NOT_EXACT};
use super::{Finding, INSTRUMENTS, OrderFacts, SAFETY, Subject};
use crate::rules::instruments::Instrument;
use crate::trading::book::Book;
use crate::trading::order::{Order, OrderRole};
use crate::trading::risk;
use crate::trading::valuation::{TwoSided, is_fresh};
use crate::wire::amount::Amount;
use crate::wire::ids::Symbol;
use crate::wire::orders::Side;

const NO_EQUITY: &str = "equity is unknown: a price of an open position is missing or stale";
const NO_BASE: &str = "the capital base is 0: equity is used up";

/// The limit `fraction x capital base`, or why there is none.
fn limit_of(facts: &OrderFacts, fraction: Amount) -> Result<Amount, &'static str> {
    let base = facts.capital_base.ok_or(NO_EQUITY)?;
    base.checked_mul(fraction).ok_or(NOT_EXACT)
}

/// What this order could lose down to its stop, with slippage and fees both ways, plus, where it adds to
/// a position or to pending entries of the same strategy, symbol and direction, what those could lose.
/// At most `max_single_trade_risk` x capital base.
pub(super) fn max_single_trade_risk(subject: &Subject, facts: &OrderFacts) -> Finding {
    let Some(instrument) = subject.instrument else {
        return Finding::unknown("usd", SAFETY, NO_INSTRUMENT);
    };
    let limit = match limit_of(facts, subject.rules.safety.max_single_trade_risk) {
        Ok(limit) => limit,
        Err(reason) => return Finding::unknown("usd", SAFETY, reason),
    };
    let Some(market) = facts.market else {
        return Finding::unknown("usd", SAFETY, NO_MARKET);
    };
    let Some(risk) = trade_risk(subject, facts, instrument, &market) else {
        return Finding::unknown("usd", SAFETY, NOT_EXACT);
    };
    Finding::compared(risk, limit, "usd", SAFETY).unless(limit.is_positive() && risk <= limit, || {
        if limit.is_positive() { "the trade could lose too much down to its stop" } else { NO_BASE }
            .to_owned()
    })
}

fn trade_risk(
    subject: &Subject,
    facts: &OrderFacts,
    instrument: &Instrument,
    market: &TwoSided,
) -> Option<Amount> {
    let (book, safety, order) = (subject.book, &subject.rules.safety, facts.order);
    let mut sum = risk::of_entry(facts.worst_entry?, order.planned_stop, facts.size, instrument, safety)?;
    let key = (order.symbol.clone(), order.strategy.clone());
    if let Some(position) = book.positions.get(&key).filter(|held| held.closing_side() != order.side) {
        let (mark, _) = book.mark(instrument, position.size.is_positive())?;
        sum = sum.checked_add(risk::of_position(book, position, mark, instrument, safety)?)?;
    }
    let pending = pending_entries(book, &order.symbol)
        .filter(|open| open.side == order.side && open.strategy == order.strategy);
    for open in pending {
        sum = sum.checked_add(risk::of_pending(book, open, market, instrument, safety)?)?;
    }
    Some(sum)
}

/// The worst case of one symbol over all strategies, in units and in money.
pub(crate) struct WorstCase {
    /// max(|net + open buys + this buy|, |net - open sells - this sell|), exits and stops left out.
    pub units: Amount,
    /// The same without this order.
    pub units_before: Amount,
    /// units x price x multiplier, account currency.
    pub notional: Amount,
}

/// Open entries of a symbol.
fn pending_entries<'a>(book: &'a Book, symbol: &'a Symbol) -> impl Iterator<Item = &'a Order> {
    book.orders.values().filter(move |order| order.role == OrderRole::Entry && order.symbol == *symbol)
}

/// The worst case of `symbol` with `added` on top: side, size and notional price of a new order. The
/// price is the highest among the new order's (without one: the ask) and those of pending entries.
pub(crate) fn worst_case(
    book: &Book,
    instrument: &Instrument,
    ask: Amount,
    added: Option<(Side, Amount, Amount)>,
) -> Option<WorstCase> {
    let symbol = &instrument.symbol;
    let held = book.positions.values().filter(|position| position.symbol == *symbol);
    let mut net = Amount::ZERO;
    for position in held {
        net = net.checked_add(position.size)?;
    }
    let mut price = added.map_or(ask, |(_, _, price)| price);
    let (mut long, mut short) = (net, net);
    for order in pending_entries(book, symbol) {
        match order.side {
            Side::Buy => long = long.checked_add(order.leaves())?,
            Side::Sell => short = short.checked_sub(order.leaves())?,
        }
        price = price.max(order.price.or(order.trigger).unwrap_or(Amount::ZERO));
    }
    let units_before = long.abs().max(short.abs());
    match added {
        Some((Side::Buy, size, _)) => long = long.checked_add(size)?,
        Some((Side::Sell, size, _)) => short = short.checked_sub(size)?,
        None => {}
    }
    let units = long.abs().max(short.abs());
    let notional = units.checked_mul(price)?.checked_mul(instrument.multiplier)?;
    Some(WorstCase { units, units_before, notional })
}

/// The worst case of the symbol with this order: at most `max_single_position` x capital base.
pub(super) fn max_single_position(subject: &Subject, facts: &OrderFacts) -> Finding {
    let Some(instrument) = subject.instrument else {
        return Finding::unknown("usd", SAFETY, NO_INSTRUMENT);
    };
    let limit = match limit_of(facts, subject.rules.safety.max_single_position) {
        Ok(limit) => limit,
        Err(reason) => return Finding::unknown("usd", SAFETY, reason),
    };
    let (Some(market), Some(price)) = (facts.market, facts.notional_price) else {
        return Finding::unknown("usd", SAFETY, NO_MARKET);
    };
    let added = Some((facts.order.side, facts.size, price));
    let Some(worst) = worst_case(subject.book, instrument, market.ask, added) else {
        return Finding::unknown("usd", SAFETY, NOT_EXACT);
    };
    judge(
        worst.notional,
        limit,
        worst.units <= worst.units_before,
        "the position in this symbol could grow too large",
    )
}

/// The worst cases of all symbols with this order: at most `max_total_exposure` x capital base. A symbol
/// with anything open needs a fresh price.
pub(super) fn max_total_exposure(subject: &Subject, facts: &OrderFacts) -> Finding {
    let limit = match limit_of(facts, subject.rules.safety.max_total_exposure) {
        Ok(limit) => limit,
        Err(reason) => return Finding::unknown("usd", SAFETY, reason),
    };
    let Some(price) = facts.notional_price else {
        return Finding::unknown("usd", SAFETY, NO_MARKET);
    };
    // Positions without an instrument make equity unknown already; entries do not.
    let mut entries = subject.book.orders.values().filter(|order| order.role == OrderRole::Entry);
    if let Some(order) = entries.find(|order| !subject.rules.instruments.contains_key(&order.symbol)) {
        let reason =
            format!("`{}` has the open entry `{}` and is not configured", order.symbol, order.order_id);
        return Finding::unknown("usd", INSTRUMENTS, reason);
    }
    let mut sum = Amount::ZERO;
    let mut is_worse = true;
    for instrument in subject.rules.instruments.values() {
        let is_this = instrument.symbol == *facts.symbol();
        if !is_this && !is_open(subject.book, &instrument.symbol) {
            continue;
        }
        let seen = subject.book.two_sided(instrument);
        let fresh =
            seen.filter(|seen| is_fresh(seen.time, subject.ctx.now, instrument, &subject.rules.safety));
        let Some(seen) = fresh else {
            let reason = format!("no fresh price of `{}`, which has something open", instrument.symbol);
            return Finding::unknown("usd", SAFETY, reason);
        };
        let added = is_this.then_some((facts.order.side, facts.size, price));
        let worst = worst_case(subject.book, instrument, seen.ask, added);
        let total = worst.as_ref().and_then(|worst| sum.checked_add(worst.notional));
        let (Some(worst), Some(total)) = (worst, total) else {
            return Finding::unknown("usd", SAFETY, NOT_EXACT);
        };
        sum = total;
        if is_this {
            is_worse = worst.units > worst.units_before;
        }
    }
    judge(sum, limit, !is_worse, "all positions together could grow too large")
}

/// Whether anything in the symbol counts towards exposure.
fn is_open(book: &Book, symbol: &Symbol) -> bool {
    book.positions.keys().any(|(held, _)| held == symbol) || pending_entries(book, symbol).next().is_some()
}

/// A book over its limit by a move of prices still takes what does not make it worse; a capital base of 0
/// takes nothing.
fn judge(value: Amount, limit: Amount, is_harmless: bool, reason: &str) -> Finding {
    let finding = Finding::compared(value, limit, "usd", SAFETY);
    if !limit.is_positive() {
        return finding.unless(false, || NO_BASE.to_owned());
    }
    finding.unless(value <= limit || is_harmless, || reason.to_owned())
}
