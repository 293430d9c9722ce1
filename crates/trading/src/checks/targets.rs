//! Cancels and tightens: requests about an order that is already open.

use super::{CheckRow, STATE, Subject};
use crate::order::{AtVenue, Order, OrderEnd, OrderRole};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::Leg;
use spoolgate_wire::orders::Side;

/// The order is open and is not a protective stop. An order of the gate that closes a position, and an
/// exit for which stops make room at its venue, are cancelled by a person only: by sending exits and
/// taking them back an agent could keep the stop away. If the order has already ended, the cancel is a
/// no-op, because it may have crossed the last fill.
pub(super) fn cancel_ok(subject: &Subject) -> CheckRow {
    let Some(order) = subject.target else {
        let closed = subject
            .ctx
            .closed_order
            .filter(|closed| Some(closed.order_id) == subject.target_id);
        let Some(closed) = closed else {
            let fault = "the order does not exist; name one that `spoolgate orders` shows";
            return CheckRow::yes_no(Some(fault.to_owned()), STATE);
        };
        let ended = match closed.end {
            OrderEnd::Filled => "had filled",
            OrderEnd::Cancelled => "was cancelled before",
            OrderEnd::Retired => "had ended, because nothing was left for it to do",
            OrderEnd::Refused => "was refused by its venue",
            OrderEnd::Expired => "had expired",
            OrderEnd::Pulled => "was pulled by the gate",
        };
        let remark = format!("nothing to do: `{}` {ended}", closed.order_id);
        return CheckRow::yes_no(None, STATE).remarked(remark);
    };
    let id = order.order_id;
    if order.ending().is_some() {
        let remark = format!("nothing to do: the venue was already asked to end `{id}`");
        return CheckRow::yes_no(None, STATE).remarked(remark);
    }
    let fault = if order.role == OrderRole::Protective {
        Some(format!(
            "`{id}` is a protective stop: tighten it, or exit the position, which ends it too"
        ))
    } else if id.leg == Leg::Flatten && !subject.is_of_person() {
        Some(format!(
            "`{id}` closes a position for the gate or for a person; only a person cancels it"
        ))
    } else if order.takes_room() && !subject.is_of_person() {
        Some(format!(
            "`{id}` is on its way out and stops make room for it at the venue; too late to cancel"
        ))
    } else {
        None
    };
    let row = CheckRow::yes_no(fault, STATE);
    if row.passed && order.at_venue.as_ref().is_some_and(AtVenue::is_out) {
        let remark =
            format!("its venue was asked to end `{id}`; until it confirms, it may still fill");
        return row.remarked(remark);
    }
    row
}

/// The stop is open, not triggered, and the new price is closer to the market by direction (long:
/// higher, short: lower), above 0, and would not trigger at once. An equal price is a no-op.
/// Without a fresh price the last condition is skipped: a stop must never be kept wide because data
/// are missing.
pub(super) fn tighten_ok(subject: &Subject) -> CheckRow {
    let stop = subject
        .target
        .filter(|order| order.role == OrderRole::Protective);
    let (Some(stop), Some(new)) = (stop, subject.new_stop) else {
        return CheckRow::unknown("price", STATE, "no open protective stop has this id");
    };
    let Some(old) = stop.trigger else {
        return CheckRow::unknown("price", STATE, "the stop has no price");
    };
    let row = CheckRow::compared(new, old, "price", STATE);
    if stop.triggered {
        return row.unless(false, || "the stop has already been triggered".to_owned());
    }
    if stop.ending().is_some() {
        return row.unless(false, || "the venue was already asked to end the stop");
    }
    if new == old {
        return row.remarked("nothing to do: the stop is already at this price");
    }
    let (is_tighter, rule) = match stop.side {
        Side::Sell => (new > old, "of a long only moves up"),
        Side::Buy => (new < old && new.is_positive(), "of a short only moves down"),
    };
    if !is_tighter {
        return row.unless(false, || format!("the stop {rule}; this would loosen it"));
    }
    match fresh_mark(subject, stop) {
        None => {
            let mut row = row;
            row.reason = Some("no fresh price: not compared with the market".into());
            row
        }
        Some(mark) => {
            let is_clear = match stop.side {
                Side::Sell => new < mark,
                Side::Buy => new > mark,
            };
            row.unless(is_clear, || {
                format!("it would trigger at once: the market is at {mark}; send an exit")
            })
        }
    }
}

/// Returns the mark that would trigger the stop, if it is fresh.
fn fresh_mark(subject: &Subject, stop: &Order) -> Option<Amount> {
    let is_long = stop.side == Side::Sell;
    subject
        .book
        .fresh_mark(subject.instrument?, is_long, subject.rules, subject.ctx.now)
}
