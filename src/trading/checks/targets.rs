//! Cancels and tightens: requests about an order that stands already.

use super::{Finding, STATE, Subject};
use crate::trading::order::{Order, OrderRole};
use crate::wire::amount::Amount;
use crate::wire::ids::Leg;
use crate::wire::orders::Side;

/// The order is open and neither a protective stop nor what takes the place of a refused one: to cancel these
/// would be a loosening. An order that has
/// already ended is a no-op, because the cancel may have crossed its last fill.
pub(super) fn cancel_ok(subject: &Subject) -> Finding {
    let Some(order) = subject.target else {
        let closed = subject.ctx.closed_order.filter(|closed| Some(closed.order_id) == subject.target_id);
        let Some(closed) = closed else {
            return Finding::yes_no(Some("there is no such order".to_owned()), STATE);
        };
        let mut finding = Finding::yes_no(None, STATE);
        finding.reason = Some(format!("nothing to do: `{}` is no longer open", closed.order_id).into());
        return finding;
    };
    let id = order.order_id;
    if order.ending().is_some() {
        let mut finding = Finding::yes_no(None, STATE);
        finding.reason = Some(format!("nothing to do: the venue was asked to end `{id}`").into());
        return finding;
    }
    let fault = if order.role == OrderRole::Protective {
        Some(format!("`{id}` is a protective stop: tighten it, or exit the position and it goes with it"))
    } else if id.leg == Leg::Flatten {
        Some(format!("`{id}` closes what no stop protects: the venue has none"))
    } else {
        None
    };
    Finding::yes_no(fault, STATE)
}

/// The stop is open, not triggered, and the new price is closer to the market by direction (long: higher,
/// short: lower), above 0, and would not trigger at once. Equal is a no-op. Without a fresh price the
/// last condition is left out: a stop must never be kept wide because data are missing.
pub(super) fn tighten_ok(subject: &Subject) -> Finding {
    let stop = subject.target.filter(|order| order.role == OrderRole::Protective);
    let (Some(stop), Some(new)) = (stop, subject.new_stop) else {
        return Finding::unknown("price", STATE, "no open protective stop has this id");
    };
    let Some(old) = stop.trigger else {
        return Finding::unknown("price", STATE, "the stop has no price");
    };
    let finding = Finding::compared(new, old, "price", STATE);
    if stop.triggered {
        return finding.unless(false, || "the stop has already been triggered".to_owned());
    }
    if stop.ending().is_some() {
        return finding.unless(false, || "the venue was asked to end the stop");
    }
    if new == old {
        let mut finding = finding;
        finding.reason = Some("nothing to do: the stop is there already".into());
        return finding;
    }
    let (is_tighter, rule) = match stop.side {
        Side::Sell => (new > old, "of a long only moves up"),
        Side::Buy => (new < old && new.is_positive(), "of a short only moves down"),
    };
    if !is_tighter {
        return finding.unless(false, || format!("the stop {rule}; this would loosen it"));
    }
    match fresh_mark(subject, stop) {
        None => {
            let mut finding = finding;
            finding.reason = Some("no fresh price: not compared with the market".into());
            finding
        }
        Some(mark) => {
            let is_clear = match stop.side {
                Side::Sell => new < mark,
                Side::Buy => new > mark,
            };
            finding.unless(is_clear, || {
                format!("it would trigger at once: the market is at {mark}; send an exit")
            })
        }
    }
}

/// What the stop would be triggered by, if it is fresh.
fn fresh_mark(subject: &Subject, stop: &Order) -> Option<Amount> {
    let is_long = stop.side == Side::Sell;
    subject.book.fresh_mark(subject.instrument?, is_long, subject.rules, subject.ctx.now)
}
