//! Whether an order opens, reduces, or would reverse a position. Decided when the order's turn
//! comes, against the strategy's own position: no strategy reduces the position of another.

use super::book::Book;
use super::exits;
use super::order::{Order, OrderEnd, OrderRole};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{StrategyName, Symbol};
use spoolgate_wire::orders::{OrderType, Side};

/// The class of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// No part of it reduces.
    Entry,
    /// All of it reduces.
    Exit,
    /// It would close the position and open the opposite one, so it must be split. If working exits
    /// already reduce the whole position, no part of this order reduces; it is still not an entry,
    /// because it would reverse the position as soon as those exits fill.
    Flip {
        /// The part that reduces.
        reduce: Amount,
        /// The part that would open.
        increase: Amount,
    },
}

/// Returns what an order of this type may still reduce on this side: max(0, |the strategy's own
/// position| - leaves of its other exits, without those that [give way](exits::joining) to it or gave
/// way before).
/// `None` if it holds nothing that this side reduces. Protective stops do not count, because they
/// shrink with the position.
pub fn capacity(
    book: &Book,
    strategy: &StrategyName,
    symbol: &Symbol,
    side: Side,
    order_type: OrderType,
) -> Option<Amount> {
    let key = (symbol.clone(), strategy.clone());
    let position = book
        .positions
        .get(&key)
        .filter(|position| position.closing_side() == side)?;
    let giving_way = exits::joining(book, strategy, symbol, side, order_type).giving_way;
    let is_free = |order: &Order| giving_way.iter().any(|it| it.order_id == order.order_id);
    let exits = book.orders.values().filter(|order| {
        order.role == OrderRole::Exit
            && order.side == side
            && order.is_of(strategy, symbol)
            && order.ending() != Some(OrderEnd::Retired)
            && !is_free(order)
    });
    let left = exits
        .map(Order::leaves)
        .try_fold(position.size.abs(), Amount::checked_sub);
    // A sum that is not exact is larger than any position, so nothing is left.
    Some(
        left.filter(|left| left.is_positive())
            .unwrap_or(Amount::ZERO),
    )
}

/// Classifies an order of this size: reduce = min(size, capacity), increase = size - reduce.
pub fn classify(size: Amount, capacity: Option<Amount>) -> Class {
    let Some(capacity) = capacity else {
        return Class::Entry;
    };
    let reduce = size.min(capacity);
    match size.checked_sub(reduce) {
        Some(increase) if increase.is_zero() => Class::Exit,
        // Without an exact difference the order is larger than any position.
        increase => Class::Flip {
            reduce,
            increase: increase.unwrap_or(size),
        },
    }
}
