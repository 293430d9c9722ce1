//! `order.cancel`.

use super::book::Book;
use super::change::Change;
use super::checks::{self, Kind, Subject};
use super::order::{Order, OrderEnd, OrderRole, Why};
use super::requests::{Context, Verdict};
use spoolgate_rules::Rulebook;
use spoolgate_wire::ids::Leg;
use spoolgate_wire::orders::CancelOrder;
use spoolgate_wire::time::Time;

/// Decides a cancel. Cancelling an entry also closes its protective stop and its target, unless
/// they cover what has already filled.
pub fn cancel(book: &Book, rules: &Rulebook, request: &CancelOrder, ctx: &Context) -> Verdict {
    let subject = Subject::of_target(book, rules, request.order_id, Kind::Cancel, ctx);
    let rows = checks::run(&subject);
    let accepted = checks::first_failed(&rows).is_none();
    let changes = match subject.target {
        // What ends already is not ended again.
        Some(order) if accepted && order.ending().is_none() => {
            close(book, order, OrderEnd::Cancelled, ctx.now)
        }
        _ => Vec::new(),
    };
    Verdict {
        checks: rows,
        accepted,
        headroom: None,
        changes,
    }
}

/// Whether a program may still cancel this order, if it is its own: `cancel_ok` fails or has nothing
/// to do otherwise.
pub fn is_open_to_programs(order: &Order) -> bool {
    order.ending().is_none()
        && order.role != OrderRole::Protective
        && order.order_id.leg != Leg::Flatten
}

/// Removes an order from the book; for an entry also its protective stop and target, unless they
/// cover what has already filled.
pub(super) fn close(book: &Book, order: &Order, end: OrderEnd, at: Time) -> Vec<Change> {
    closed(book, order, end, at, None)
}

/// Withdraws an entry that a check no longer allows, with what `close` closes along with it.
pub fn pull(book: &Book, order: &Order, why: Why, at: Time) -> Vec<Change> {
    closed(book, order, OrderEnd::Pulled, at, Some(why))
}

fn closed(book: &Book, order: &Order, end: OrderEnd, at: Time, why: Option<Why>) -> Vec<Change> {
    let mut changes = vec![Change::OrderClosed {
        order_id: order.order_id,
        end,
        at,
        why,
    }];
    if order.role == OrderRole::Entry {
        let along = [order.order_id.stop(), order.order_id.target()];
        let idle = along
            .iter()
            .filter_map(|id| book.orders.get(id))
            .filter(|order| order.leaves().is_zero());
        changes.extend(idle.map(|order| Change::OrderClosed {
            order_id: order.order_id,
            end: OrderEnd::Retired,
            at,
            why: None,
        }));
    }
    changes
}
