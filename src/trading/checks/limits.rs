//! Limits that are fractions of the capital base: risk of the trade, position, exposure. Compared as
//! money, by multiplication. A limit blocks only orders that make things worse.

use std::cell::OnceCell;

use super::order::{NO_INSTRUMENT, NO_MARKET, NOT_EXACT};
use super::{Finding, INSTRUMENTS, OrderFacts, SAFETY, SAFETY_REDUCED, Subject};
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

/// What stands open around an order, as far as limits count it: found when a limit first asks for it, then the
/// same for every size.
#[derive(Clone, Debug, Default)]
pub struct Around {
    /// What the position and pending entries that the order adds to could lose, one by one: they are added up
    /// in one order with every size, so that what is exact does not depend on who asks.
    risks: OnceCell<Option<Vec<Amount>>>,
    /// What is open in its symbol.
    own: OnceCell<Option<Open>>,
    /// The exposure of all symbols, in the order of the instruments.
    exposures: OnceCell<Vec<Exposure>>,
}

/// What one symbol adds to total exposure.
#[derive(Clone, Debug)]
enum Exposure {
    /// The order's own symbol: depends on its size.
    Own,
    /// Worst case of another symbol, account currency.
    Other(Amount),
    /// Nobody knows: what the check has found then.
    Unknown(Finding),
}

/// The limit `fraction x capital base`, reduced where the risk mode says so, or why there is none.
fn limit_of(subject: &Subject, facts: &OrderFacts, fraction: Amount) -> Result<Amount, &'static str> {
    let base = facts.capital_base.ok_or(NO_EQUITY)?;
    subject.reduced(fraction).and_then(|fraction| base.checked_mul(fraction)).ok_or(NOT_EXACT)
}

fn source_of(subject: &Subject) -> &'static str {
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
    let Some(market) = facts.market else {
        return Finding::unknown("usd", source, NO_MARKET);
    };
    let Some(risk) = trade_risk(subject, facts, instrument, &market) else {
        return Finding::unknown("usd", source, NOT_EXACT);
    };
    Finding::compared(risk, limit, "usd", source).unless(limit.is_positive() && risk <= limit, || {
        if limit.is_positive() { "the trade could lose too much down to its stop" } else { NO_BASE }
    })
}

fn trade_risk(
    subject: &Subject,
    facts: &OrderFacts,
    instrument: &Instrument,
    market: &TwoSided,
) -> Option<Amount> {
    let (stop, safety) = (facts.order.planned_stop, &subject.rules.safety);
    let own = risk::of_entry(facts.worst_entry?, stop, facts.size, instrument, safety)?;
    let others = facts.around.risks.get_or_init(|| other_risks(subject, facts, instrument, market));
    others.as_ref()?.iter().try_fold(own, |sum, other| sum.checked_add(*other))
}

/// Risk of the position and of each pending entry that the order adds to. None if one is not exact.
fn other_risks(
    subject: &Subject,
    facts: &OrderFacts,
    instrument: &Instrument,
    market: &TwoSided,
) -> Option<Vec<Amount>> {
    let (book, safety, order) = (subject.book, &subject.rules.safety, facts.order);
    let mut risks = Vec::new();
    let key = (order.symbol.clone(), order.strategy.clone());
    if let Some(position) = book.positions.get(&key).filter(|held| held.closing_side() != order.side) {
        let (mark, _) = book.mark(instrument, position.size.is_positive())?;
        risks.push(risk::of_position(book, position, mark, instrument, safety)?);
    }
    let pending = pending_entries(book, &order.symbol)
        .filter(|open| open.side == order.side && open.strategy == order.strategy);
    for open in pending {
        risks.push(risk::of_pending(book, open, market, instrument, safety)?);
    }
    Some(risks)
}

/// The worst case of one symbol over all strategies, in units and in money.
struct WorstCase {
    /// max(|net + open buys + this buy|, |net - open sells - this sell|), exits and stops left out.
    units: Amount,
    /// The same without this order.
    units_before: Amount,
    /// units x price x multiplier, account currency.
    notional: Amount,
}

/// Open entries of a symbol.
fn pending_entries<'a>(book: &'a Book, symbol: &'a Symbol) -> impl Iterator<Item = &'a Order> {
    book.orders.values().filter(move |order| order.role == OrderRole::Entry && order.symbol == *symbol)
}

/// What is open in one symbol over all strategies, exits and stops left out.
#[derive(Clone, Debug)]
struct Open {
    /// net + open buys, units.
    long: Amount,
    /// net - open sells, units.
    short: Amount,
    /// The highest price among pending entries.
    highest: Option<Amount>,
}

impl Open {
    /// None if a sum is not exact.
    fn of(book: &Book, symbol: &Symbol) -> Option<Open> {
        let held = book.positions.values().filter(|position| position.symbol == *symbol);
        let mut net = Amount::ZERO;
        for position in held {
            net = net.checked_add(position.size)?;
        }
        let mut open = Open { long: net, short: net, highest: None };
        for order in pending_entries(book, symbol) {
            match order.side {
                Side::Buy => open.long = open.long.checked_add(order.leaves())?,
                Side::Sell => open.short = open.short.checked_sub(order.leaves())?,
            }
            open.highest = open.highest.max(Some(order.price.or(order.trigger).unwrap_or(Amount::ZERO)));
        }
        Some(open)
    }

    /// With `added` on top, side and size of a new order. It counts at `price`, or at the highest price of
    /// pending entries where that is higher.
    fn worst_case(
        &self,
        instrument: &Instrument,
        price: Amount,
        added: Option<(Side, Amount)>,
    ) -> Option<WorstCase> {
        let (mut long, mut short) = (self.long, self.short);
        let units_before = long.abs().max(short.abs());
        match added {
            Some((Side::Buy, size)) => long = long.checked_add(size)?,
            Some((Side::Sell, size)) => short = short.checked_sub(size)?,
            None => {}
        }
        let units = long.abs().max(short.abs());
        let price = self.highest.map_or(price, |highest| price.max(highest));
        let notional = units.checked_mul(price)?.checked_mul(instrument.multiplier)?;
        Some(WorstCase { units, units_before, notional })
    }
}

/// The worst case of a symbol in which nothing is added, as money in account currency: at the ask, or at the
/// highest price of pending entries where that is higher.
pub(crate) fn open_notional(book: &Book, instrument: &Instrument, ask: Amount) -> Option<Amount> {
    Open::of(book, &instrument.symbol)?.worst_case(instrument, ask, None).map(|worst| worst.notional)
}

/// The worst case of the order's own symbol.
fn own_worst_case(
    subject: &Subject,
    facts: &OrderFacts,
    instrument: &Instrument,
    price: Amount,
) -> Option<WorstCase> {
    let own = facts.around.own.get_or_init(|| Open::of(subject.book, &instrument.symbol));
    own.as_ref()?.worst_case(instrument, price, Some((facts.order.side, facts.size)))
}

/// The worst case of the symbol with this order: at most `max_single_position` x capital base.
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
    let Some(worst) = own_worst_case(subject, facts, instrument, price) else {
        return Finding::unknown("usd", source, NOT_EXACT);
    };
    judge(
        worst.notional,
        limit,
        source,
        worst.units <= worst.units_before,
        "the position in this symbol could grow too large",
    )
}

/// The worst cases of all symbols with this order: at most `max_total_exposure` x capital base. A symbol
/// with anything open needs a fresh price.
pub(super) fn max_total_exposure(subject: &Subject, facts: &OrderFacts) -> Finding {
    let source = source_of(subject);
    let limit = match limit_of(subject, facts, subject.rules.safety.max_total_exposure) {
        Ok(limit) => limit,
        Err(reason) => return Finding::unknown("usd", source, reason),
    };
    let (Some(price), Some(instrument)) = (facts.notional_price, subject.instrument) else {
        return Finding::unknown("usd", source, NO_MARKET);
    };
    let mut sum = Amount::ZERO;
    let mut is_worse = true;
    for exposure in facts.around.exposures.get_or_init(|| exposures(subject, facts)) {
        let notional = match exposure {
            Exposure::Unknown(finding) => return finding.clone(),
            Exposure::Other(notional) => Some(*notional),
            Exposure::Own => own_worst_case(subject, facts, instrument, price).map(|worst| {
                is_worse = worst.units > worst.units_before;
                worst.notional
            }),
        };
        let Some(total) = notional.and_then(|notional| sum.checked_add(notional)) else {
            return Finding::unknown("usd", source, NOT_EXACT);
        };
        sum = total;
    }
    judge(sum, limit, source, !is_worse, "all positions together could grow too large")
}

fn exposures(subject: &Subject, facts: &OrderFacts) -> Vec<Exposure> {
    // Positions without an instrument make equity unknown already; entries do not.
    let mut entries = subject.book.orders.values().filter(|order| order.role == OrderRole::Entry);
    if let Some(order) = entries.find(|order| !subject.rules.instruments.contains_key(&order.symbol)) {
        let reason =
            format!("`{}` has the open entry `{}` and is not configured", order.symbol, order.order_id);
        return vec![Exposure::Unknown(Finding::unknown("usd", INSTRUMENTS, reason))];
    }
    let mut exposures = Vec::new();
    for instrument in subject.rules.instruments.values() {
        if instrument.symbol == *facts.symbol() {
            // Its price is fresh, or the order would have no notional price.
            exposures.push(Exposure::Own);
        } else if is_open(subject.book, &instrument.symbol) {
            exposures.push(exposure_of(subject, instrument));
        }
    }
    exposures
}

/// Exposure of a symbol that is not the order's and has something open.
fn exposure_of(subject: &Subject, instrument: &Instrument) -> Exposure {
    let (book, safety) = (subject.book, &subject.rules.safety);
    let seen = book.two_sided(instrument);
    let Some(seen) = seen.filter(|seen| is_fresh(seen.time, subject.ctx.now, instrument, safety)) else {
        let reason = format!("no fresh price of `{}`, which has something open", instrument.symbol);
        return Exposure::Unknown(Finding::unknown("usd", SAFETY, reason));
    };
    let unknown = || Exposure::Unknown(Finding::unknown("usd", SAFETY, NOT_EXACT));
    open_notional(book, instrument, seen.ask).map_or_else(unknown, Exposure::Other)
}

/// Whether anything in the symbol counts towards exposure.
fn is_open(book: &Book, symbol: &Symbol) -> bool {
    book.positions.keys().any(|(held, _)| held == symbol) || pending_entries(book, symbol).next().is_some()
}

/// A book over its limit by a move of prices still takes what does not make it worse; a capital base of 0
/// takes nothing.
fn judge(
    value: Amount,
    limit: Amount,
    source: &'static str,
    is_harmless: bool,
    reason: &'static str,
) -> Finding {
    let finding = Finding::compared(value, limit, "usd", source);
    if !limit.is_positive() {
        return finding.unless(false, || NO_BASE);
    }
    finding.unless(value <= limit || is_harmless, || reason)
}
