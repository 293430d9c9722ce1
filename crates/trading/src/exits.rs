//! The working exits of a leg, which is the part of one strategy in one symbol. However many exits
//! an agent sends, each is accepted, and a leg keeps few of them:
//!
//! - at most [`WORKING_MAX`] work; for one more the newest resting exit gives way;
//! - one market exit is in flight; further ones merge into one that waits for it.
//!
//! Counted are the exits that agents sent and that the gate does not want to end. Protective stops
//! and targets follow their entries, and market orders `o-N-flatten` come from people and from the
//! gate: they do not count, never give way, and nothing merges into them.
//!
//! What goes to a venue, and when there is room for it, is in `venue::outbox`.

use super::book::Book;
use super::order::{AtVenue, Order, OrderEnd, OrderRole};
use super::valuation::is_fresh;
use spoolgate_rules::Rulebook;
use spoolgate_wire::ids::{Leg, StrategyName, Symbol};
use spoolgate_wire::orders::{OrderType, Side, TimeInForce};
use spoolgate_wire::time::Time;

/// Maximum number of working exits of a leg.
pub const WORKING_MAX: usize = 8;

/// Maximum number of exits that one exit ends, so that its ledger line is never too long. Only a
/// leg that an earlier version filled has more.
const GIVING_WAY_MAX: usize = 100;

/// What becomes of the exits of a leg when one more joins them.
#[derive(Clone, Debug, Default)]
pub struct Joining<'a> {
    /// The waiting market exit that takes the new one in, if it does not become an order of its own.
    pub into: Option<&'a Order>,
    /// The resting exits that give way, the newest first.
    pub giving_way: Vec<&'a Order>,
}

/// Returns what an order of this type changes among the exits of its leg.
pub fn joining<'a>(
    book: &'a Book,
    strategy: &StrategyName,
    symbol: &Symbol,
    side: Side,
    order_type: OrderType,
) -> Joining<'a> {
    let orders = book.orders.values();
    let sent = orders
        .filter(|order| is_sent(order) && order.side == side && order.is_of(strategy, symbol));
    let sent: Vec<&Order> = sent.collect();
    if order_type == OrderType::Market {
        // The first one is in flight.
        let waiting = sent.iter().filter(|order| is_at_market(order)).skip(1);
        if let Some(waiting) = waiting.filter(|order| may_grow(order)).last() {
            return Joining {
                into: Some(waiting),
                giving_way: Vec::new(),
            };
        }
    }
    let working = || sent.iter().filter(|order| order.ending().is_none());
    let too_many = working()
        .count()
        .saturating_add(1)
        .saturating_sub(WORKING_MAX);
    let resting = working().rev().filter(|order| !is_at_market(order));
    Joining {
        into: None,
        giving_way: resting
            .copied()
            .take(too_many.min(GIVING_WAY_MAX))
            .collect(),
    }
}

/// Whether an exit waits, so that no bridge is instructed about it: it is a market exit and an earlier
/// one of its leg is in flight; or, where the room at the venue is not counted, an exit or target of its
/// leg that was retired may still fill there. An order of the gate waits for what was retired only while
/// a stop works, because a position without one is worse.
pub(super) fn waits<'a>(exit: &Order, orders: impl Iterator<Item = &'a Order> + Clone) -> bool {
    if exit.role != OrderRole::Exit || !exit.is_untold() {
        return false;
    }
    let mut leg =
        orders.filter(|order| order.side == exit.side && order.is_of(&exit.strategy, &exit.symbol));
    let is_stop = |order: &Order| order.role == OrderRole::Protective && order.ending().is_none();
    let is_enforced = exit
        .at_venue
        .as_ref()
        .is_some_and(|venue| venue.reduce_only);
    let may_wait = is_enforced && (is_sent(exit) || leg.clone().any(is_stop));
    let is_queued = is_sent(exit) && is_at_market(exit);
    leg.any(|order| {
        let is_market_exit = is_sent(order) && is_at_market(order);
        let is_earlier = is_queued && is_market_exit && order.order_id < exit.order_id;
        is_earlier || may_wait && is_leaving(order, is_sent(exit))
    })
}

/// Whether a venue may still fill an exit or target whose size is not reserved: one that the gate has
/// retired, and beside an order of the gate also one that an agent cancels.
fn is_leaving(order: &Order, is_for_sent: bool) -> bool {
    let is_exit = matches!(order.role, OrderRole::Exit | OrderRole::Target);
    let is_out = order.at_venue.as_ref().is_some_and(AtVenue::is_out);
    let is_free = match order.ending() {
        Some(OrderEnd::Retired) => true,
        ending => ending.is_some() && !is_for_sent,
    };
    is_exit && is_out && is_free
}

/// How long no exit with a price of its own goes to a venue for which stops make room, after one came
/// back unfilled: otherwise a limit at the bid that the venue does not fill would keep the stops away,
/// milliseconds.
const AGAIN_MS: i64 = 10_000;

/// Whether the market is where an exit or target that rests would trade: the bid for sales, the ask for
/// purchases, at its limit or better, or past its trigger, which stays so. False without a fresh price,
/// and for [`AGAIN_MS`] after an exit of its leg came back unfilled.
pub(super) fn is_reached(book: &Book, rules: &Rulebook, order: &Order, now: Time) -> bool {
    if order.triggered {
        return true;
    }
    let key = (order.symbol.clone(), order.strategy.clone());
    let unfilled_at = book.positions.get(&key).and_then(|held| held.unfilled_at);
    // A time later than now dates from before the clock was set back.
    if unfilled_at.is_some_and(|at| now.since_ms(at).saturating_abs() < AGAIN_MS) {
        return false;
    }
    let Some(instrument) = rules.instruments.get(&order.symbol) else {
        return false;
    };
    let seen = book.two_sided(instrument);
    let Some(seen) = seen.filter(|seen| is_fresh(seen.time, now, instrument, &rules.safety)) else {
        return false;
    };
    match (order.side, order.price, order.trigger) {
        (Side::Sell, Some(limit), _) => seen.bid >= limit,
        (Side::Buy, Some(limit), _) => seen.ask <= limit,
        (Side::Sell, None, Some(trigger)) => seen.bid <= trigger,
        (Side::Buy, None, Some(trigger)) => seen.ask >= trigger,
        (_, None, None) => false,
    }
}

/// Returns how long a merged exit stays open: as long as the one that stays longer.
pub(super) fn longer(one: TimeInForce, other: TimeInForce) -> TimeInForce {
    [TimeInForce::Gtc, TimeInForce::Day]
        .into_iter()
        .find(|longest| [one, other].contains(longest))
        .unwrap_or(TimeInForce::Ioc)
}

/// Whether an agent sent this exit.
fn is_sent(order: &Order) -> bool {
    order.role == OrderRole::Exit && order.order_id.leg == Leg::Order
}

fn is_at_market(order: &Order) -> bool {
    order.order_type == OrderType::Market
}

/// Whether more can be added: no bridge knows it yet, and nothing ends it.
fn may_grow(order: &Order) -> bool {
    order.ending().is_none() && (order.at_venue.is_none() || order.is_untold())
}
