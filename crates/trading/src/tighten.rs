//! `order.tighten_stop`: the only way to move a stop.

use super::book::Book;
use super::change::Change;
use super::checks::{self, Kind, Subject};
use super::requests::{Context, Verdict};
use spoolgate_rules::Rulebook;
use spoolgate_wire::ids::Leg;
use spoolgate_wire::orders::TightenStop;

/// Decides a tighten. The request may name the stop or the entry it was placed with.
pub fn tighten(book: &Book, rules: &Rulebook, request: &TightenStop, ctx: &Context) -> Verdict {
    let named = request.order_id;
    // A target, or an exit that replaces a refused stop, is not another name of its entry's stop.
    let stop_id = if named.leg == Leg::Order {
        named.stop()
    } else {
        named
    };
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
