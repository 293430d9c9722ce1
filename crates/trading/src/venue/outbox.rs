//! The outbox: what the changes of a ledger line mean for orders at a venue behind a bridge.
//!
//! Deciding code treats an order as gone as soon as the gate wants it gone. This module makes the
//! book correct: the order stays in it, reserved, until the venue has reported its end; and each
//! order whose last instruction differs from what the order shall be now gets one new instruction.
//!
//! Where the venue does not itself keep orders that reduce within the position (`reduce_only: false`,
//! as on spot, where each of them also locks the balance), this holds for each leg at every moment:
//!
//! ```text
//! sum of (most - filled) over the reducing orders that the venue may be working <= |position|
//! ```
//!
//! So whatever fills, in whatever order and however late it is reported, no leg sells more than it
//! holds. Resting exits and targets wait at the gate until the market is there; stops make room for
//! exits that go, down to nothing, and take it back when these are gone; and whatever has no room
//! waits for it.

use std::collections::BTreeMap;

use crate::book::{Book, Bridge};
use crate::change::Change;
use crate::exits;
use crate::order::{AtVenue, Instruction, Order, OrderEnd, OrderRole, Verb, Why};
use spoolgate_rules::safety::BridgeLimits;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{OrderId, Principal, StrategyName, Symbol};
use spoolgate_wire::orders::{OrderType, Side, TimeInForce};
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
pub fn hand_over(
    book: &Book,
    limits: &BridgeLimits,
    changes: Vec<Change>,
    at: Time,
) -> Vec<Change> {
    let at_venues = book
        .orders
        .values()
        .filter(|order| order.at_venue.is_some());
    let mut line = Line {
        orders: at_venues
            .map(|order| (order.order_id, order.clone()))
            .collect(),
        held: book
            .positions
            .iter()
            .filter(|(_, position)| position.held_at.is_some())
            .map(|(leg, position)| (leg.clone(), position.size))
            .collect(),
        room: book
            .bridges
            .iter()
            .map(|(name, bridge)| (name.clone(), room_of(bridge, limits, at)))
            .collect(),
        changes: Vec::new(),
    };
    changes.into_iter().for_each(|change| line.take(change));
    line.end_idle_stops(at);
    line.instruct(limits, at);
    line.changes
}

/// Returns what earlier lines left for later: instructions that had no room there, and the end of
/// exits with nothing left to reduce. Empty once nothing is owed.
pub fn owed(book: &Book, limits: &BridgeLimits, at: Time) -> Vec<Change> {
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
        limits,
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
    /// The signed positions at venues after the changes so far.
    held: BTreeMap<LegOf, Amount>,
    /// How many more instructions each bridge may be given now, besides those that cannot wait.
    room: BTreeMap<Principal, usize>,
    changes: Vec<Change>,
}

/// Seconds of instructions at the highest rate that a bridge may be given at once.
const BURST_S: u32 = 4;

/// Returns how many paced instructions a bridge may be given now: in any four seconds at most four times
/// the rate.
fn room_of(bridge: &Bridge, limits: &BridgeLimits, now: Time) -> usize {
    let most = limits.instructions_per_s.saturating_mul(BURST_S);
    let burst_ms = i64::from(BURST_S).saturating_mul(1000);
    // A time later than now dates from before the clock was set back.
    let is_recent = |at: &&Time| (0..burst_ms).contains(&now.since_ms(**at));
    let given = bridge.paced.iter().filter(is_recent).count();
    usize::try_from(most)
        .unwrap_or(usize::MAX)
        .saturating_sub(given)
}

/// Whether an instruction waits for the pace of its bridge: tightened stops, cancels that agents sent,
/// and entries. Exits, flattens, stops that grow or make room, and what the gate itself ends go at once.
pub(crate) fn is_paced(order: &Order, next: &Instruction) -> bool {
    let told = order.at_venue.as_ref().and_then(|venue| venue.told);
    match (order.role, next.instruction) {
        (_, Verb::Cancel) => order.ending() == Some(OrderEnd::Cancelled),
        (OrderRole::Exit, _) => false,
        (OrderRole::Protective | OrderRole::Target, _) => {
            told.is_some_and(|told| told.size == next.size)
        }
        // An adjustment is over in its own line.
        (OrderRole::Entry | OrderRole::Adjust, _) => true,
    }
}

/// A leg: the part of one strategy in one symbol.
type LegOf = (Symbol, StrategyName);

/// What the venue may be working of the reducing orders of a leg on one side, and what they shall be.
struct Bound {
    /// How much more may go to the venue; below 0 if there is too much.
    room: Amount,
    /// The whole sizes that the stops shall have there.
    stops: BTreeMap<OrderId, Amount>,
    /// Whether stops are still larger there than they shall be, so that room is on its way.
    is_clearing: bool,
}

impl Bound {
    /// Returns how much of the whole size `wanted` of an order may be at the venue, which may be working
    /// `before` of it. A stop takes what room there is. So does an exit once all stops are out of the way:
    /// an order of which the venue says nothing holds up its own size and no more.
    fn within(&self, order: &Order, wanted: Amount, before: Amount) -> Amount {
        let most = before
            .checked_add(self.room.max(Amount::ZERO))
            .unwrap_or(before);
        if wanted <= most {
            wanted
        } else if order.role == OrderRole::Protective || !self.is_clearing {
            most
        } else {
            before
        }
    }
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
        if let Change::OrderFilled(fill) = &change
            && self.orders.contains_key(&fill.order_id)
        {
            let leg = (fill.symbol.clone(), fill.strategy.clone());
            let held = self.held.entry(leg).or_insert(Amount::ZERO);
            // A sum that overflows here does not fold either.
            let after = fill.moves().and_then(|moves| held.checked_add(moves));
            *held = after.unwrap_or(*held);
        }
        self.changes.push(change);
    }

    /// Ends orders that have nothing left to do. Where the venue keeps orders that reduce within the
    /// position, a stop or target that shrinks to 0 is ended, and with a stop the rest of its entry.
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
            let is_out = |venue: &AtVenue| venue.is_out() && venue.reduce_only;
            matches!(order.role, OrderRole::Protective | OrderRole::Target)
                && order.at_venue.as_ref().is_some_and(is_out)
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

    /// Adds at most one instruction per order. Where there is a bound, exits come before stops, which
    /// get the room that is left.
    fn instruct(&mut self, limits: &BridgeLimits, at: Time) {
        let mut room = if self.changes.len() > CHANGES_MAX {
            0
        } else {
            INSTRUCTIONS_MAX
        };
        let mut bounds: BTreeMap<(LegOf, Side), Bound> = BTreeMap::new();
        let is_first = |order: &&Order| order.is_bounded() && order.role != OrderRole::Protective;
        let (first, others): (Vec<&Order>, Vec<&Order>) = self.orders.values().partition(is_first);
        let mut paced = self.room.clone();
        let mut due = Vec::new();
        for order in first.into_iter().chain(others) {
            if room == 0 {
                break;
            }
            let bound = order.is_bounded().then(|| {
                let leg = (order.symbol.clone(), order.strategy.clone());
                let key = (leg, order.side);
                bounds
                    .entry(key)
                    .or_insert_with_key(|(leg, side)| self.bound(leg, *side))
            });
            if exits::waits(order, self.orders.values()) {
                continue;
            }
            let Some(next) = instruction(order, bound, limits, at) else {
                continue;
            };
            if is_paced(order, &next)
                && let Some(left) = paced.get_mut(&next.bridge)
            {
                if *left == 0 {
                    continue;
                }
                *left = left.saturating_sub(1);
            }
            due.push(Change::Instructed(next));
            room = room.saturating_sub(1);
        }
        due.into_iter().for_each(|change| self.push(change));
    }

    /// Returns what the reducing orders of a leg on this side may be at the venue. What cannot be
    /// computed leaves no room, and stops what they protect.
    fn bound(&self, leg: &LegOf, side: Side) -> Bound {
        let (symbol, strategy) = leg;
        let held = self.held.get(leg).copied().unwrap_or(Amount::ZERO);
        let is_closing = if side == Side::Buy {
            held.is_negative()
        } else {
            held.is_positive()
        };
        let held = if is_closing { held.abs() } else { Amount::ZERO };
        // What is less than a lot cannot be at the venue.
        let mut of_leg = self.orders.values();
        let held = of_leg
            .find(|order| order.is_of(strategy, symbol))
            .map_or(held, |order| order.whole(held));
        let reducing = || {
            let orders = self.orders.values();
            orders.filter(|order| {
                order.role != OrderRole::Entry
                    && order.side == side
                    && order.is_of(strategy, symbol)
            })
        };
        let minus = |left: Amount, size: Amount| left.checked_sub(size).unwrap_or(Amount::ZERO);
        let room = reducing().fold(held, |room, order| {
            minus(
                room,
                order
                    .at_venue
                    .as_ref()
                    .map_or(Amount::ZERO, |it| it.may_fill(order.filled)),
            )
        });
        // One that waits for its turn takes none yet.
        let goes = |order: &&Order| {
            order.takes_room()
                && order.ending().is_none()
                && !exits::waits(order, self.orders.values())
        };
        let mut left = reducing()
            .filter(goes)
            .fold(held, |left, order| minus(left, order.leaves()));
        let (mut stops, mut is_clearing) = (BTreeMap::new(), false);
        // The oldest give way first.
        let works =
            |order: &&Order| order.role == OrderRole::Protective && order.ending().is_none();
        for stop in reducing().filter(works).rev() {
            let size = stop.leaves().min(left.max(Amount::ZERO));
            left = minus(left, size);
            let there = stop
                .at_venue
                .as_ref()
                .map(|venue| venue.may_fill(stop.filled));
            is_clearing |= there.is_some_and(|there| there > size);
            stops.extend(
                stop.filled
                    .checked_add(size)
                    .map(|size| (stop.order_id, size)),
            );
        }
        Bound {
            room,
            stops,
            is_clearing,
        }
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
/// `bound` is the bound of its leg, if there is one; the instruction uses up part of its room.
fn instruction(
    order: &Order,
    bound: Option<&mut Bound>,
    limits: &BridgeLimits,
    at: Time,
) -> Option<Instruction> {
    let venue = order.at_venue.as_ref()?;
    if venue.is_resting_after_loss(at) {
        return None;
    }
    let wanted = match &bound {
        Some(_) if order.is_held() => order.filled,
        Some(bound) => bound
            .stops
            .get(&order.order_id)
            .copied()
            .unwrap_or(order.size),
        None => order.size,
    };
    let before = if venue.is_out() {
        venue.most()
    } else {
        order.filled
    };
    let size = match &bound {
        Some(bound) => bound.within(order, wanted, before),
        None => wanted,
    };
    // A released order goes as `ioc`: it fills at once or comes back.
    let is_let_go = venue.released && order.rests();
    let verb = match (venue.is_out(), venue.told, venue.ending) {
        (false, _, Some(_)) | (true, None, _) => return None,
        (false, ..) if size <= order.filled => return None,
        (false, ..) => Verb::Place,
        (true, Some(_), Some(_)) => Verb::Cancel,
        (true, Some(_), None) if bound.is_some() && wanted <= order.filled => Verb::Cancel,
        (true, Some(_), None) if is_let_go && !venue.lost => return None,
        (true, Some(told), None)
            if told.size == size && told.trigger == order.trigger && !venue.lost =>
        {
            return None;
        }
        // A bridge that no longer has it places it anew.
        (true, Some(_), None) if bound.is_some() => Verb::Place,
        (true, Some(_), None) => Verb::Replace,
    };
    let size = if verb == Verb::Cancel {
        order.size
    } else {
        size
    };
    if let Some(bound) = bound
        && verb != Verb::Cancel
        && let Some(more) = size.checked_sub(before).filter(|more| more.is_positive())
    {
        bound.room = bound.room.checked_sub(more).unwrap_or(Amount::ZERO);
    }
    let is_stop_let_go = is_let_go && order.order_type == OrderType::Stop;
    Some(Instruction {
        order_id: order.order_id,
        version: venue.version.saturating_add(1),
        instruction: verb,
        bridge: venue.bridge.clone(),
        symbol: order.symbol.clone(),
        side: order.side,
        order_type: if is_stop_let_go {
            OrderType::Market
        } else {
            order.order_type
        },
        size,
        price: order.price,
        trigger: order.trigger.filter(|_| !is_stop_let_go),
        time_in_force: if is_let_go {
            TimeInForce::Ioc
        } else {
            order.time_in_force
        },
        reduce_only: order.role != OrderRole::Entry,
        at: Some(at),
        valid_until: valid_until(order, verb, limits, at),
    })
}

/// How long a bridge may send what reduces, milliseconds. Whatever is still wanted then is
/// instructed again.
const REDUCING_VALID_MS: i64 = 60_000;

/// Returns until when a bridge may send an instruction; `None` for a cancel, which is never too late.
fn valid_until(order: &Order, verb: Verb, limits: &BridgeLimits, at: Time) -> Option<Time> {
    let valid_ms = match (verb, order.role) {
        (Verb::Cancel, _) => return None,
        (_, OrderRole::Entry) => i64::from(*limits.entry_valid_s).saturating_mul(1000),
        _ => REDUCING_VALID_MS,
    };
    Some(at.plus_ms(valid_ms))
}

/// Applies a change to the orders at venues: the part of the fold that needs no positions.
fn follow(orders: &mut BTreeMap<OrderId, Order>, change: &Change) {
    match change {
        Change::OrderPlaced(order) if order.at_venue.is_some() => {
            orders.insert(order.order_id, Order::clone(order));
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
        Change::OrderReleased { order_id } => {
            if let Some(venue) = at_venue(orders, *order_id) {
                venue.released = true;
            }
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
            ended,
            gone,
            at,
            ..
        } => {
            if let Some(venue) = at_venue(orders, *order_id) {
                venue.report(*working, *gone, *at);
                venue.end_up_to(*ended);
            }
        }
        Change::TakenBack { order_id, version } => {
            if let Some(venue) = at_venue(orders, *order_id) {
                venue.take_back(*version);
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
