//! The working exits of a leg, which is the part of one strategy in one symbol. However many exits
//! an agent sends, each is accepted, and a leg keeps few of them:
//!
//! - at most [`WORKING_MAX`] work; for one more the newest resting exit gives way;
//! - one market exit is in flight; further ones merge into one that waits for it.
//!
//! Counted are the exits that agents sent and that the gate does not want to end. Protective stops
//! and targets follow their entries, and market orders `o-N-flatten` come from people and from the
//! gate: they do not count, never give way, and nothing waits for them or merges into them.

use super::book::Book;
use super::order::{Order, OrderRole};
use spoolgate_wire::ids::{Leg, StrategyName, Symbol};
use spoolgate_wire::orders::{OrderType, Side, TimeInForce};

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

/// Whether a market exit waits, so that no bridge is instructed about it: an earlier one of its leg
/// may still fill.
pub(super) fn waits<'a>(exit: &Order, mut orders: impl Iterator<Item = &'a Order>) -> bool {
    let is_ahead = |order: &Order| {
        is_sent(order)
            && is_at_market(order)
            && order.order_id < exit.order_id
            && order.side == exit.side
            && order.is_of(&exit.strategy, &exit.symbol)
    };
    is_sent(exit) && is_at_market(exit) && orders.any(is_ahead)
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
    order.ending().is_none()
        && order
            .at_venue
            .as_ref()
            .is_none_or(|venue| venue.version == 0)
}
