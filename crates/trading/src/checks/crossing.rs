//! Orders that would trade with another order of the same sender.

use super::{CheckRow, OrderFacts, STATE, Subject};
use crate::order::{Order, OrderRole};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::orders::{OrderType, Side};

/// The order would not match a resting limit order of the same sender, whatever its strategy. An
/// entry that would match one is refused. An exit passes, and the resting entry is cancelled
/// instead.
pub(super) fn self_cross(subject: &Subject, facts: &OrderFacts) -> CheckRow {
    let fault = crossed(subject, facts).next().map(|order| {
        let what = if order.role == OrderRole::Entry {
            "entry"
        } else {
            "exit"
        };
        format!(
            "it would trade against the account's own resting {what} `{}`",
            order.order_id
        )
    });
    CheckRow::yes_no(fault, STATE)
}

/// Returns the sender's own resting entries that an exit would trade with, by id.
pub(crate) fn crossed_entries<'a>(
    subject: &'a Subject,
    facts: &'a OrderFacts,
) -> impl Iterator<Item = &'a Order> {
    crossed(subject, facts).filter(|order| order.role == OrderRole::Entry)
}

/// Returns the sender's own limit orders on the other side of the same symbol whose price this
/// order reaches.
fn crossed<'a>(subject: &'a Subject, facts: &'a OrderFacts) -> impl Iterator<Item = &'a Order> {
    let order = facts.order;
    subject.book.orders.values().filter(move |resting| {
        resting.symbol == order.symbol
            && resting.side != order.side
            && resting.source == *subject.ctx.source
            && resting.order_type == OrderType::Limit
            && resting.price.is_some_and(|price| reaches(facts, price))
    })
}

/// Whether the order would trade at this price: a limit order up to its own price, a market order
/// up to its worst entry, a stop order between its trigger and its worst entry. If the market is
/// unknown, the order reaches every price.
fn reaches(facts: &OrderFacts, price: Amount) -> bool {
    let own = facts.terms.own_price;
    let (from, to) = match facts.order.order_type {
        OrderType::Limit => (None, own),
        OrderType::Market => (None, facts.worst_entry),
        OrderType::Stop => (own, facts.worst_entry),
    };
    match facts.order.side {
        Side::Buy => from.is_none_or(|from| price >= from) && to.is_none_or(|to| price <= to),
        Side::Sell => from.is_none_or(|from| price <= from) && to.is_none_or(|to| price >= to),
    }
}
