//! `order.cancel`.

use super::book::Book;
use super::change::Change;
use super::checks::{self, Kind, Subject};
use super::order::{Order, OrderEnd, OrderRole};
use super::requests::{Context, Verdict};
use crate::rules::Rulebook;
use crate::wire::orders::CancelOrder;
use crate::wire::time::Time;

/// Decides a cancel. With an entry goes its protective stop, unless that protects what has filled.
pub fn cancel(book: &Book, rules: &Rulebook, request: &CancelOrder, ctx: &Context) -> Verdict {
    let subject = Subject::of_target(book, rules, request.order_id, Kind::Cancel, ctx);
    let rows = checks::run(&subject);
    let accepted = checks::first_failed(&rows).is_none();
    let changes = match subject.target {
        Some(order) if accepted => close(book, order, ctx.now),
        _ => Vec::new(),
    };
    Verdict { checks: rows, accepted, headroom: None, changes }
}

/// Takes an order out of the book, and with an entry its protective stop, unless that protects what has filled.
pub(super) fn close(book: &Book, order: &Order, at: Time) -> Vec<Change> {
    let mut changes = vec![Change::OrderClosed { order_id: order.order_id, end: OrderEnd::Cancelled, at }];
    let stop = book.orders.get(&order.order_id.stop()).filter(|_| order.role == OrderRole::Entry);
    if let Some(stop) = stop.filter(|stop| stop.leaves().is_zero()) {
        changes.push(Change::OrderClosed { order_id: stop.order_id, end: OrderEnd::Retired, at });
    }
    changes
}
