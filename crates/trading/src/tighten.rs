//! `order.tighten_stop`: the only way to move a stop.

use super::book::Book;
use super::change::Change;
use super::checks::{self, Kind, Subject};
use super::order::{Order, OrderRole};
use super::requests::{Context, Verdict};
use spoolgate_rules::Rulebook;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{Leg, OrderId};
use spoolgate_wire::orders::{Side, TightenStop};

/// Decides a tighten. The request may name the stop or the entry it was placed with.
pub fn tighten(book: &Book, rules: &Rulebook, request: &TightenStop, ctx: &Context) -> Verdict {
    let stop_id = stop_of(request.order_id);
    let mut subject = Subject::of_target(book, rules, stop_id, Kind::Tighten, ctx);
    subject.new_stop = Some(request.new_stop);
    subject.prices = vec![("new_stop", request.new_stop)];
    let rows = checks::run(&subject);
    let accepted = checks::first_failed(&rows).is_none();
    let changes = match subject.target {
        Some(stop) if accepted && stop.trigger != Some(request.new_stop) => {
            vec![Change::StopMoved {
                order_id: stop.order_id,
                trigger: request.new_stop,
            }]
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

/// Returns the stop that a tighten names: itself, or the stop of an entry.
pub fn stop_of(named: OrderId) -> OrderId {
    // A target, or an exit that replaces a refused stop, is not another name of its entry's stop.
    if named.leg == Leg::Order {
        named.stop()
    } else {
        named
    }
}

/// Whether this is a protective stop that the price would move towards the market. Otherwise
/// `tighten_ok` fails or has nothing to do.
pub fn is_tighter(stop: &Order, new: Amount) -> bool {
    let can_move = stop.role == OrderRole::Protective && !stop.triggered && stop.ending().is_none();
    can_move
        && stop.trigger.is_some_and(|old| match stop.side {
            Side::Sell => new > old,
            Side::Buy => new < old,
        })
}
