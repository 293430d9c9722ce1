//! What follows a fill: protective stops follow the position, and no order is left that could
//! reduce a position that is gone.

use super::paper::Run;
use super::{VenueError, filters};
use crate::absent::is_closing;
use crate::change::Change;
use crate::fold::ApplyError;
use crate::order::{Order, OrderEnd, OrderRole, Position};
use crate::risk::stops_of;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{Leg, OrderId};

impl Run<'_> {
    /// Settles after a fill of `order` (as it was before the fill) that opened `opened` in its own
    /// direction or reduced the position by `reduced`; one of the two is 0.
    pub(super) fn settle(
        &mut self,
        order: &Order,
        opened: Amount,
        reduced: Amount,
    ) -> Result<(), VenueError> {
        let protected = self.protectable(order, opened)?;
        if protected.is_positive() {
            self.grow_stop(order, protected)?;
            self.grow_target(order, protected)?;
        }
        let is_done = self
            .book
            .orders
            .get(&order.order_id)
            .is_some_and(|now| now.leaves().is_zero());
        if is_done {
            self.close(order.order_id, OrderEnd::Filled)?;
        }
        if reduced.is_positive() {
            if order.role == OrderRole::Target {
                self.end_entry_of(order)?;
                self.shrink_own_stop(order, reduced)?;
            }
            self.shrink_stops(order)?;
        }
        self.retire_idle(order)?;
        self.match_targets(order)
    }

    /// Returns by how much the stop of `order` grows after a fill that opened `opened`: at a venue by
    /// whole lots, with the rest of earlier fills. A size below the smallest order gets no stop yet.
    pub(super) fn protectable(&self, order: &Order, opened: Amount) -> Result<Amount, VenueError> {
        let units = order.at_venue.as_ref().and_then(|it| it.units.as_ref());
        let key = (order.symbol.clone(), order.strategy.clone());
        let (Some(units), Some(held)) = (units, self.book.positions.get(&key)) else {
            return Ok(opened);
        };
        if opened.is_zero() || units.is_dust(held.size.abs()) {
            return Ok(Amount::ZERO);
        }
        let stop = self.book.orders.get(&order.order_id.stop());
        let covers = stop.map_or(Amount::ZERO, Order::leaves);
        let leaving = self.book.orders.values().filter(|other| {
            let is_flatten = other.order_id.leg == Leg::Flatten;
            is_flatten && is_closing(other) && other.is_of(&order.strategy, &order.symbol)
        });
        let covered = stops_of(&self.book, held).chain(leaving).map(Order::leaves);
        let mut left_over = exact(held.size.abs().checked_sub(opened))?;
        for covered in covered {
            left_over = exact(left_over.checked_sub(covered))?;
        }
        let left_over = left_over.max(Amount::ZERO);
        // The rest is at most that of an order that is not dust, unless the venue has
        // refused a stop. That part is being closed, or a person has been called.
        let grows = units.whole(exact(opened.checked_add(left_over))?);
        let is_dust = units.is_dust(exact(covers.checked_add(grows))?);
        Ok(if is_dust { Amount::ZERO } else { grows })
    }

    fn grow_stop(&mut self, entry: &Order, by: Amount) -> Result<(), VenueError> {
        let order_id = entry.order_id.stop();
        let Some(stop) = self.book.orders.get(&order_id) else {
            return Ok(());
        };
        if stop.leaves().is_zero()
            && let Some(reason) =
                filters::refuses_stop(stop, entry.size, &self.book, self.instrument)
        {
            return self.flatten(entry, by, reason);
        }
        let size = exact(stop.size.checked_add(by))?;
        self.emit(Change::StopResized { order_id, size })
    }

    /// Grows the target with the stop. If the venue refuses the target, the stop stays.
    fn grow_target(&mut self, entry: &Order, by: Amount) -> Result<(), VenueError> {
        let order_id = entry.order_id.target();
        let Some(target) = self.book.orders.get(&order_id) else {
            return Ok(());
        };
        if target.leaves().is_zero()
            && let Some(reason) = filters::refuses_target(target, &self.book, self.instrument)
        {
            let at = self.now;
            return self.emit(Change::OrderRefused {
                order_id,
                reason,
                at,
            });
        }
        let size = exact(target.size.checked_add(by))?;
        self.emit(Change::StopResized { order_id, size })
    }

    /// Shrinks the stop by what its target has closed.
    fn shrink_own_stop(&mut self, target: &Order, by: Amount) -> Result<(), VenueError> {
        let order_id = target.order_id.stop();
        let Some(stop) = self.book.orders.get(&order_id) else {
            return Ok(());
        };
        let left = exact(stop.leaves().checked_sub(by.min(stop.leaves())))?;
        let left = Some(stop.whole(left)).filter(|left| !stop.is_dust(*left));
        let size = exact(stop.filled.checked_add(left.unwrap_or(Amount::ZERO)))?;
        self.emit(Change::StopResized { order_id, size })
    }

    /// Resizes each target to what its stop protects, and closes a target whose stop is gone.
    pub(super) fn match_targets(&mut self, order: &Order) -> Result<(), VenueError> {
        let own = self.book.orders.values().filter(|other| {
            other.role == OrderRole::Target && other.is_of(&order.strategy, &order.symbol)
        });
        let targets: Vec<Order> = own.cloned().collect();
        for target in targets {
            let order_id = target.order_id;
            let Some(stop) = self.book.orders.get(&order_id.stop()) else {
                self.close(order_id, OrderEnd::Retired)?;
                continue;
            };
            let size = exact(target.filled.checked_add(stop.leaves()))?;
            if size != target.size {
                self.emit(Change::StopResized { order_id, size })?;
            }
        }
        Ok(())
    }

    /// Closes an order that has nothing left to do, if it is open.
    pub(super) fn retire(&mut self, order_id: OrderId) -> Result<(), VenueError> {
        if self.book.orders.contains_key(&order_id) {
            self.close(order_id, OrderEnd::Retired)?;
        }
        Ok(())
    }

    /// Handles a stop that the venue refused: the rest of the entry is cancelled, and what it has
    /// just opened is closed at the market from the next row on.
    fn flatten(&mut self, entry: &Order, opened: Amount, reason: String) -> Result<(), VenueError> {
        let at = self.now;
        self.emit(Change::OrderRefused {
            order_id: entry.order_id.stop(),
            reason,
            at,
        })?;
        self.retire(entry.order_id.target())?;
        self.close(entry.order_id, OrderEnd::Cancelled)?;
        let (order_id, side) = (entry.order_id.flatten(), entry.side.opposite());
        let leaving = entry.leaving(order_id, side, opened, self.row_time);
        self.emit(Change::OrderPlaced(Box::new(leaving)))
    }

    /// Shrinks stops that protect more than the position, the oldest first. No venue takes a stop of
    /// dust: where one would be left, the next ones shrink instead, and if that is not enough, the
    /// oldest are given up whole. Less than the smallest order is then without a stop.
    fn shrink_stops(&mut self, order: &Order) -> Result<(), VenueError> {
        let key = (order.symbol.clone(), order.strategy.clone());
        // If the position is flat, `retire_idle` closes the stops.
        let Some(position) = self.book.positions.get(&key) else {
            return Ok(());
        };
        let stops: Vec<Order> = stops_of(&self.book, position).cloned().collect();
        let mut excess = -position.size.abs();
        for stop in &stops {
            excess = exact(excess.checked_add(stop.leaves()))?;
        }
        let mut left: Vec<(&Order, Amount)> = Vec::new();
        for stop in &stops {
            let cut = excess.min(stop.leaves()).max(Amount::ZERO);
            let mut rest = exact(stop.leaves().checked_sub(cut))?;
            if cut.is_positive() {
                rest = stop.whole(rest);
                if rest.is_positive() && stop.is_dust(rest) {
                    rest = stop.least().min(stop.leaves());
                }
            }
            let less = exact(stop.leaves().checked_sub(rest))?;
            excess = exact(excess.checked_sub(less))?;
            left.push((stop, rest));
        }
        for (_, rest) in &mut left {
            if excess.is_positive() {
                excess = exact(excess.checked_sub(*rest))?;
                *rest = Amount::ZERO;
            }
        }
        for (stop, rest) in left
            .into_iter()
            .filter(|(stop, rest)| *rest != stop.leaves())
        {
            let order_id = stop.order_id;
            let size = exact(stop.filled.checked_add(rest))?;
            self.emit(Change::StopResized { order_id, size })?;
        }
        Ok(())
    }

    /// Closes orders that have nothing left to do: exits without a position, and stops that protect
    /// nothing and whose entry is not open. The stop of an open entry stays for the entry's next
    /// fill. An exit that no bridge knows yet shrinks with the position.
    pub(super) fn retire_idle(&mut self, order: &Order) -> Result<(), VenueError> {
        let key = (order.symbol.clone(), order.strategy.clone());
        // What is less than a lot cannot be sold: nothing is left to do.
        let held = self.book.positions.get(&key).map(Position::whole);
        let held = held.filter(|held| held.is_positive());
        let is_flat = held.is_none();
        let own = self
            .book
            .orders
            .values()
            .filter(|other| other.is_of(&order.strategy, &order.symbol));
        let others: Vec<Order> = own.cloned().collect();
        for other in others {
            let entry_id = OrderId::of_line(other.order_id.seq);
            let is_entry_open = self.book.orders.contains_key(&entry_id);
            match other.role {
                OrderRole::Exit if is_flat => self.close(other.order_id, OrderEnd::Retired)?,
                OrderRole::Exit if other.is_untold() => {
                    let (order_id, left) = (other.order_id, held.unwrap_or(other.size));
                    let size = exact(other.filled.checked_add(left.min(other.leaves())))?;
                    if size < other.size {
                        self.emit(Change::StopResized { order_id, size })?;
                    }
                }
                OrderRole::Protective
                    if !is_entry_open && (is_flat || other.leaves().is_zero()) =>
                {
                    self.close(other.order_id, OrderEnd::Retired)?;
                }
                OrderRole::Protective if is_flat && other.leaves().is_positive() => {
                    let size = other.filled;
                    self.emit(Change::StopResized {
                        order_id: other.order_id,
                        size,
                    })?;
                }
                OrderRole::Entry
                | OrderRole::Exit
                | OrderRole::Protective
                | OrderRole::Target
                | OrderRole::Adjust => {}
            }
        }
        Ok(())
    }

    /// Ends the entry of a protective stop that triggered or a target that filled: the rest of the
    /// entry would be bought only to be sold again.
    pub(super) fn end_entry_of(&mut self, stop: &Order) -> Result<(), VenueError> {
        self.retire(stop.order_id.entry())
    }

    pub(super) fn close(&mut self, order_id: OrderId, end: OrderEnd) -> Result<(), VenueError> {
        let at = self.now;
        let why = None;
        self.emit(Change::OrderClosed {
            order_id,
            end,
            at,
            why,
        })
    }
}

/// Unwraps a sum of sizes within one position; such sums are bounded by sums that the fold already
/// held.
fn exact(value: Option<Amount>) -> Result<Amount, VenueError> {
    value.ok_or(VenueError::Book(ApplyError::Arithmetic {
        what: "the size of a protective stop",
    }))
}
