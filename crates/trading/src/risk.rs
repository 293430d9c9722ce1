//! The risk of positions and entries down to their protective stops, account currency. Stops are
//! assumed to slip.

use super::book::Book;
use super::facts::View;
use super::order::{Order, OrderRole, Position};
use super::pricing::{Terms, worst_entry};
use spoolgate_rules::Rulebook;
use spoolgate_rules::instruments::Instrument;
use spoolgate_rules::safety::Safety;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::orders::SubmitOrder;
use spoolgate_wire::time::Time;

/// Computes the risk of `size` entered at `entry` with its stop at `stop`: (|entry - stop| +
/// taker_fee x (entry + stop) + stop_slippage x stop) x size x multiplier.
pub fn of_entry(
    entry: Amount,
    stop: Amount,
    size: Amount,
    instrument: &Instrument,
    safety: &Safety,
) -> Option<Amount> {
    let distance = entry.checked_sub(stop)?.abs();
    let fees = entry
        .checked_add(stop)?
        .checked_mul(*instrument.taker_fee)?;
    let slip = stop.checked_mul(*safety.stop_slippage)?;
    let each = distance.checked_add(fees)?.checked_add(slip)?;
    each.checked_mul(size)?.checked_mul(*instrument.multiplier)
}

/// Computes the risk of an order that is asked for, from its worst entry at the market of `now` down
/// to its planned stop: the field `order.risk` of rules. `None` without a fresh market, or if it
/// cannot be computed exactly.
pub fn of_order(book: &Book, rules: &Rulebook, order: &SubmitOrder, now: Time) -> Option<Amount> {
    let view = View::of(book, rules, &order.symbol, now)?;
    let (instrument, safety) = (rules.instruments.get(&order.symbol)?, &rules.safety);
    let worst = worst_entry(&Terms::asked(order), &view.seen?, *safety.entry_slippage)?;
    of_entry(worst, order.planned_stop, order.size, instrument, safety)
}

/// Computes the risk of an open position: for each protective stop (|mark - out| + (stop_slippage +
/// taker_fee) x out) x leaves x multiplier, where `out` is the stop, or the mark if the mark has
/// passed the stop. Size without a stop, or with one that its venue does not confirm, risks its whole
/// notional. The exit fee is included;
/// otherwise limits would hold only until the stops fill.
pub fn of_position(
    book: &Book,
    position: &Position,
    mark: Amount,
    instrument: &Instrument,
    safety: &Safety,
    now: Time,
) -> Option<Amount> {
    let mut unprotected = position.size.abs();
    let mut each_size = Amount::ZERO;
    for order in stops_of(book, position) {
        let (covers, trigger) = order.cover(now, grace_ms(safety));
        let Some(stop) = trigger else { continue };
        let out = if position.size.is_positive() {
            stop.min(mark)
        } else {
            stop.max(mark)
        };
        let costs = out.checked_mul(safety.stop_slippage.checked_add(*instrument.taker_fee)?)?;
        let each = mark.checked_sub(out)?.abs().checked_add(costs)?;
        let covered = covers.min(unprotected);
        each_size = each_size.checked_add(each.checked_mul(covered)?)?;
        unprotected = unprotected.checked_sub(covered)?;
    }
    each_size
        .checked_add(mark.checked_mul(unprotected)?)?
        .checked_mul(*instrument.multiplier)
}

/// How long a stop at a venue counts before it is confirmed, milliseconds.
pub fn grace_ms(safety: &Safety) -> i64 {
    i64::from(*safety.bridges.stop_confirm_s).saturating_mul(1000)
}

/// Returns the first stop of a position that its venue does not confirm, if the position is not covered
/// whole without it.
pub fn unconfirmed<'a>(
    book: &'a Book,
    position: &'a Position,
    safety: &Safety,
    now: Time,
) -> Option<&'a Order> {
    let covers = |stop: &Order| stop.cover(now, grace_ms(safety)).0;
    let mut sum = Some(Amount::ZERO);
    for stop in stops_of(book, position) {
        sum = sum.and_then(|sum| sum.checked_add(covers(stop)));
    }
    if sum.is_some_and(|sum| sum >= position.size.abs()) {
        return None;
    }
    let mut stops = stops_of(book, position);
    stops.find(|stop| covers(stop) < stop.leaves())
}

/// Computes the risk of the open part of an entry, from `entry`, its worst price, down to its own
/// stop; without a working stop its whole notional.
pub fn of_pending(
    order: &Order,
    stop: Option<&Order>,
    entry: Amount,
    instrument: &Instrument,
    safety: &Safety,
) -> Option<Amount> {
    let stop = stop.filter(|stop| stop.ending().is_none());
    match stop.and_then(|stop| stop.trigger) {
        Some(stop) => of_entry(entry, stop, order.open(), instrument, safety),
        None => entry
            .checked_mul(order.open())?
            .checked_mul(*instrument.multiplier),
    }
}

/// Returns the working protective stops of a position, in id order. A stop that the venue was asked
/// to end may be gone at any moment, so it protects nothing.
pub fn stops_of<'a>(book: &'a Book, position: &'a Position) -> impl Iterator<Item = &'a Order> {
    book.orders.values().filter(|order| {
        order.role == OrderRole::Protective
            && order.side == position.closing_side()
            && order.ending().is_none()
            && order.is_of(&position.strategy, &position.symbol)
            && order.leaves().is_positive()
    })
}
