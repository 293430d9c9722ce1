//! Whether an order opens, reduces, or would turn a position around. Asked when the order's turn comes,
//! against the strategy's own position: nobody reduces what somebody else owns.

use super::book::Book;
use super::order::OrderRole;
use crate::wire::amount::Amount;
use crate::wire::ids::{StrategyName, Symbol};
use crate::wire::orders::Side;

/// The class of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Nothing of it reduces.
    Entry,
    /// All of it reduces.
    Exit,
    /// It would close the position and open the opposite one; it must be split. Where working exits already
    /// reduce the whole position nothing of it reduces, and it is no entry either: it would turn the position
    /// around as soon as they fill.
    Flip {
        /// The part that reduces.
        reduce: Amount,
        /// The part that would open.
        increase: Amount,
    },
}

/// What the strategy may still reduce on this side:
/// max(0, |its own position| - leaves of its other working exits); none where it holds nothing that this
/// side reduces. Protective stops do not count, because they shrink with the position.
pub fn capacity(book: &Book, strategy: &StrategyName, symbol: &Symbol, side: Side) -> Option<Amount> {
    let key = (symbol.clone(), strategy.clone());
    let position = book.positions.get(&key).filter(|position| position.closing_side() == side)?;
    let exits = book
        .orders
        .values()
        .filter(|order| order.role == OrderRole::Exit && order.side == side && order.is_of(strategy, symbol));
    let left = exits.map(super::order::Order::leaves).try_fold(position.size.abs(), Amount::checked_sub);
    // A sum that cannot be held exactly is larger than any position: nothing is left.
    Some(left.filter(|left| left.is_positive()).unwrap_or(Amount::ZERO))
}

/// Classifies an order of this size: reduce = min(size, capacity), increase = size - reduce.
pub fn classify(size: Amount, capacity: Option<Amount>) -> Class {
    let Some(capacity) = capacity else { return Class::Entry };
    let reduce = size.min(capacity);
    match size.checked_sub(reduce) {
        Some(increase) if increase.is_zero() => Class::Exit,
        // Without an exact difference the order is larger than anything held.
        increase => Class::Flip { reduce, increase: increase.unwrap_or(size) },
    }
}
