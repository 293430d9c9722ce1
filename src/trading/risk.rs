//! What is at risk down to protective stops, account currency. A stop is assumed to slip.

use super::book::Book;
use super::order::{Order, OrderRole, Position};
use super::pricing::{self, Terms};
use super::valuation::TwoSided;
use crate::rules::instruments::Instrument;
use crate::rules::safety::Safety;
use crate::wire::amount::Amount;
use crate::wire::orders::OrderType;

/// Risk of `size` entered at `entry` with its stop at `stop`:
/// (|entry - stop| + taker_fee x (entry + stop) + stop_slippage x stop) x size x multiplier.
pub fn of_entry(
    entry: Amount,
    stop: Amount,
    size: Amount,
    instrument: &Instrument,
    safety: &Safety,
) -> Option<Amount> {
    let distance = entry.checked_sub(stop)?.abs();
    let fees = entry.checked_add(stop)?.checked_mul(instrument.taker_fee)?;
    let slip = stop.checked_mul(safety.stop_slippage)?;
    let each = distance.checked_add(fees)?.checked_add(slip)?;
    each.checked_mul(size)?.checked_mul(instrument.multiplier)
}

/// Risk of what a position still holds: for each protective stop (max(0, mark - stop) + stop_slippage x
/// stop) x leaves x multiplier, mirrored for shorts; what no stop protects risks its whole notional.
pub fn of_position(
    book: &Book,
    position: &Position,
    mark: Amount,
    instrument: &Instrument,
    safety: &Safety,
) -> Option<Amount> {
    let mut unprotected = position.size.abs();
    let mut each_size = Amount::ZERO;
    for order in stops_of(book, position) {
        let Some(stop) = order.trigger else { continue };
        let gap = if position.size.is_positive() { mark.checked_sub(stop)? } else { stop.checked_sub(mark)? };
        let each = gap.max(Amount::ZERO).checked_add(stop.checked_mul(safety.stop_slippage)?)?;
        let covered = order.leaves().min(unprotected);
        each_size = each_size.checked_add(each.checked_mul(covered)?)?;
        unprotected = unprotected.checked_sub(covered)?;
    }
    each_size.checked_add(mark.checked_mul(unprotected)?)?.checked_mul(instrument.multiplier)
}

/// Risk of what is left of an open entry, at its own worst price down to its stop; without a stop its
/// whole notional.
pub fn of_pending(
    book: &Book,
    order: &Order,
    market: &TwoSided,
    instrument: &Instrument,
    safety: &Safety,
) -> Option<Amount> {
    // A triggered stop order is a market order by now.
    let order_type = if order.triggered { OrderType::Market } else { order.order_type };
    let terms = Terms { side: order.side, order_type, own_price: order.price.or(order.trigger) };
    let entry = pricing::worst_entry(&terms, market, safety.entry_slippage)?;
    let stop = book.orders.get(&order.order_id.stop()).filter(|stop| stop.ending().is_none());
    match stop.and_then(|stop| stop.trigger) {
        Some(stop) => of_entry(entry, stop, order.leaves(), instrument, safety),
        None => entry.checked_mul(order.leaves())?.checked_mul(instrument.multiplier),
    }
}

/// The working protective stops of a position, in id order. One that its venue was asked to end may be gone any
/// moment: it protects nothing.
pub fn stops_of<'a>(book: &'a Book, position: &'a Position) -> impl Iterator<Item = &'a Order> {
    book.orders.values().filter(|order| {
        order.role == OrderRole::Protective
            && order.side == position.closing_side()
            && order.ending().is_none()
            && order.is_of(&position.strategy, &position.symbol)
            && order.leaves().is_positive()
    })
}
