//! The outbox: what the changes of a ledger line mean for orders at a venue behind a bridge.
//!
//! Deciding code treats an order as gone as soon as the gate wants it gone. This module makes the
//! book correct: the order stays in it, reserved, until the venue has reported its end; and each
//! order whose last instruction differs from what the order shall be now gets one new instruction.

use std::collections::BTreeMap;

use crate::book::Book;
use crate::change::Change;
use crate::exits;
use crate::order::{Instruction, Order, OrderEnd, OrderRole, Verb, Why};
use spoolgate_wire::ids::OrderId;
use spoolgate_wire::time::Time;

/// Maximum number of instructions per line, so that the line fits; [`owed`] returns the rest.
const INSTRUCTIONS_MAX: usize = 32;

/// A line with more changes than this has no room for instructions.
const CHANGES_MAX: usize = 128;

/// Maximum number of exits that one line ends because nothing is left to reduce, so that the line
/// fits; [`owed`] ends the rest.
pub(super) const IDLE_EXITS_MAX: usize = 100;

/// Returns the changes of a line over `book` after handing orders at venues over: an order that is
/// to end becomes a request to the venue to end it, and an order that the venue works differently
/// from what it shall be gets an instruction. Changes of other orders stay as they are.
pub fn hand_over(book: &Book, changes: Vec<Change>, at: Time) -> Vec<Change> {
    let at_venues = book
        .orders
        .values()
        .filter(|order| order.at_venue.is_some());
    let mut line = Line {
        orders: at_venues
            .map(|order| (order.order_id, order.clone()))
            .collect(),
        changes: Vec::new(),
    };
    changes.into_iter().for_each(|change| line.take(change));
    line.end_idle_stops(at);
    line.instruct();
    line.changes
}

/// Returns what earlier lines left for later: instructions that had no room there, and the end of
/// exits with nothing left to reduce. Empty once nothing is owed.
pub fn owed(book: &Book, at: Time) -> Vec<Change> {
    let is_idle = |order: &&Order| {
        let held = book
            .positions
            .get(&(order.symbol.clone(), order.strategy.clone()));
        order.at_venue.is_some()
            && order.role == OrderRole::Exit
            && order.ending().is_none()
            && held.is_none_or(|held| held.closing_side() != order.side)
    };
    let end = OrderEnd::Retired;
    let idle = book.orders.values().filter(is_idle).take(IDLE_EXITS_MAX);
    hand_over(
        book,
        idle.map(|order| Change::OrderClosed {
            order_id: order.order_id,
            end,
            at,
            why: None,
        })
        .collect(),
        at,
    )
}

/// A ledger line under construction.
struct Line {
    /// The orders at venues after the changes so far.
    orders: BTreeMap<OrderId, Order>,
    changes: Vec<Change>,
}

impl Line {
    /// Adds a change, replacing the close of an order that the venue may still be working.
    fn take(&mut self, change: Change) {
        match &change {
            Change::OrderClosed {
                order_id,
                end,
                at,
                why,
            } if self.stays(*order_id) => self.end(*order_id, *end, *at, why.clone()),
            _ => self.push(change),
        }
    }

    /// Whether the venue may be working this order, so that it must stay in the book.
    fn stays(&self, order_id: OrderId) -> bool {
        self.orders.get(&order_id).is_some_and(|order| {
            order
                .at_venue
                .as_ref()
                .is_some_and(|venue| venue.is_out() && order.filled < venue.most())
        })
    }

    /// Asks the venue to end an order, at most once.
    fn end(&mut self, order_id: OrderId, end: OrderEnd, at: Time, why: Option<Why>) {
        let is_new = self
            .orders
            .get(&order_id)
            .is_some_and(|order| order.ending().is_none());
        if is_new {
            self.push(Change::OrderEnding {
                order_id,
                end,
                at,
                why,
            });
        }
    }

    fn push(&mut self, change: Change) {
        follow(&mut self.orders, &change);
        self.changes.push(change);
    }

    /// Ends orders that have nothing left to do. A stop or target at a venue cannot shrink to 0 and
    /// wait there, so it is ended. With a stop the rest of its entry ends too, because it would
    /// otherwise fill without a stop.
    fn end_idle_stops(&mut self, at: Time) {
        let filled: Vec<OrderId> = self
            .orders
            .values()
            .filter(|order| is_filled(order))
            .map(|o| o.order_id)
            .collect();
        for order_id in filled {
            self.push(Change::OrderClosed {
                order_id,
                end: OrderEnd::Filled,
                at,
                why: None,
            });
        }
        let is_idle = |order: &&Order| {
            matches!(order.role, OrderRole::Protective | OrderRole::Target)
                && order.at_venue.as_ref().is_some_and(|venue| venue.is_out())
                && order.leaves().is_zero()
        };
        let idle: Vec<(OrderId, OrderRole)> = self
            .orders
            .values()
            .filter(is_idle)
            .map(|order| (order.order_id, order.role))
            .collect();
        for (order_id, role) in idle {
            self.end(order_id, OrderEnd::Retired, at, None);
            if role == OrderRole::Protective {
                self.end(order_id.entry(), OrderEnd::Retired, at, None);
            }
        }
    }

    /// Adds at most one instruction per order.
    fn instruct(&mut self) {
        let room = if self.changes.len() > CHANGES_MAX {
            0
        } else {
            INSTRUCTIONS_MAX
        };
        let is_ready =
            |order: &&Order| !order.is_untold() || !exits::waits(order, self.orders.values());
        let due = self.orders.values().filter(is_ready);
        let due = due.filter_map(instruction).take(room);
        let due: Vec<Instruction> = due.collect();
        due.into_iter()
            .for_each(|instruction| self.push(Change::Instructed(instruction)));
    }
}

/// Whether no part of the order can fill any more: it has filled the largest size that the venue
/// may be working.
fn is_filled(order: &Order) -> bool {
    let is_over = order.ending().is_some() || order.leaves().is_zero();
    is_over
        && order
            .at_venue
            .as_ref()
            .is_some_and(|venue| venue.is_out() && order.filled >= venue.most())
}

/// Returns the next instruction for an order, if its last one differs from what the order shall be.
fn instruction(order: &Order) -> Option<Instruction> {
    let venue = order.at_venue.as_ref()?;
    let verb = match (venue.version, venue.told, venue.ending) {
        (0, _, Some(_)) => return None,
        (0, _, None) if order.leaves().is_zero() => return None,
        (0, _, None) => Verb::Place,
        (_, None, _) => return None,
        (_, Some(_), Some(_)) => Verb::Cancel,
        (_, Some(told), None) if told.size == order.size && told.trigger == order.trigger => {
            return None;
        }
        (_, Some(_), None) => Verb::Replace,
    };
    Some(Instruction {
        order_id: order.order_id,
        version: venue.version.saturating_add(1),
        instruction: verb,
        bridge: venue.bridge.clone(),
        symbol: order.symbol.clone(),
        side: order.side,
        order_type: order.order_type,
        size: order.size,
        price: order.price,
        trigger: order.trigger,
        time_in_force: order.time_in_force,
        reduce_only: order.role != OrderRole::Entry,
    })
}

/// Applies a change to the orders at venues: the part of the fold that needs no positions.
fn follow(orders: &mut BTreeMap<OrderId, Order>, change: &Change) {
    match change {
        Change::OrderPlaced(order) if order.at_venue.is_some() => {
            orders.insert(order.order_id, order.clone());
        }
        Change::OrderFilled(fill) => {
            if let Some(order) = orders.get_mut(&fill.order_id) {
                // A sum that overflows here does not fold either.
                order.filled = order.filled.checked_add(fill.size).unwrap_or(order.filled);
            }
        }
        Change::StopResized { order_id, size } => {
            orders
                .entry(*order_id)
                .and_modify(|order| order.size = *size);
        }
        Change::ExitMerged(merged) => {
            orders
                .entry(merged.order_id)
                .and_modify(|order| order.merge(merged));
        }
        Change::StopMoved { order_id, trigger } => {
            orders
                .entry(*order_id)
                .and_modify(|order| order.trigger = Some(*trigger));
        }
        Change::OrderClosed { order_id, .. } | Change::OrderRefused { order_id, .. } => {
            orders.remove(order_id);
        }
        Change::OrderEnding { order_id, end, .. } => {
            if let Some(venue) = at_venue(orders, *order_id) {
                venue.ending.get_or_insert(*end);
            }
        }
        Change::Instructed(instruction) => {
            if let Some(venue) = at_venue(orders, instruction.order_id) {
                venue.instruct(instruction);
            }
        }
        Change::VenueReported {
            order_id,
            working,
            gone,
            ..
        } => {
            if let Some(venue) = at_venue(orders, *order_id) {
                venue.report(*working, *gone);
            }
        }
        _ => {}
    }
}

fn at_venue(
    orders: &mut BTreeMap<OrderId, Order>,
    order_id: OrderId,
) -> Option<&mut crate::order::AtVenue> {
    orders.get_mut(&order_id)?.at_venue.as_mut()
}
