//! How much is open and how much has been going on.

use super::{Finding, OrderFacts, SAFETY, Subject};
use crate::trading::order::{Order, OrderRole};
use crate::wire::amount::Amount;

/// A count against its limit.
fn counted(count: usize, limit: u32, passed: bool, reason: &'static str) -> Finding {
    let count = Amount::from_i64(i64::try_from(count).unwrap_or(i64::MAX));
    Finding::compared(count, Amount::from(limit), "count", SAFETY).unless(passed, || reason)
}

/// Whether `count` is at most `limit`.
fn fits(count: usize, limit: u32) -> bool {
    u32::try_from(count).is_ok_and(|count| count <= limit)
}

/// Pairs of symbol and strategy that hold a position or have a working entry, with this order's: at most
/// `max_open_positions`. What adds to a pair that is open already opens nothing.
pub(super) fn max_open_positions(subject: &Subject, facts: &OrderFacts) -> Finding {
    let (book, order) = (subject.book, facts.order);
    let entries = || book.orders.values().filter(|open| open.role == OrderRole::Entry);
    let is_held = |open: &Order| book.positions.values().any(|held| open.is_of(&held.strategy, &held.symbol));
    let is_first = |(nth, open): &(usize, &Order)| {
        !is_held(open) && !entries().take(*nth).any(|other| open.is_of(&other.strategy, &other.symbol))
    };
    let pending = entries().enumerate().filter(|found| is_first(found)).count();
    let is_open = entries().any(|open| open.is_of(&order.strategy, &order.symbol))
        || book.positions.values().any(|held| held.strategy == order.strategy && held.symbol == order.symbol);
    let count = book.positions.len().saturating_add(pending).saturating_add(usize::from(!is_open));
    let limit = subject.rules.safety.max_open_positions;
    counted(count, limit, is_open || fits(count, limit), "too many positions would be open")
}

/// Open orders with this one, protective stops not counted: at most `max_open_orders`.
pub(super) fn max_open_orders(subject: &Subject, _: &OrderFacts) -> Finding {
    let open = subject.book.orders.values().filter(|order| order.role != OrderRole::Protective).count();
    let (count, limit) = (open.saturating_add(1), subject.rules.safety.max_open_orders);
    counted(count, limit, fits(count, limit), "too many orders would be open")
}
