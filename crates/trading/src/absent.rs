//! What the gate does with the orders and positions of an agent that is absent, and a check for
//! rule files that lack what an open position or order needs.

use super::book::Book;
use super::change::Change;
use super::order::{AtVenue, Order, OrderEnd, OrderRole, Position};
use spoolgate_rules::Rulebook;
use spoolgate_rules::instruments::is_imitated;
use spoolgate_rules::principals::Role;
use spoolgate_rules::rulebook::RulebookError;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{Leg, OrderId, Principal};
use spoolgate_wire::orders::{OrderType, TimeInForce};
use spoolgate_wire::time::Time;

/// Returns what is wrong if the rules leave a position or order of the book without its instrument,
/// its strategy, a principal who may reduce it, or the bridge that reports on it.
pub fn left_behind(book: &Book, rules: &Rulebook) -> Option<RulebookError> {
    without_owner(book, rules).or_else(|| without_bridge(book, rules))
}

/// A bridge that is no principal any more cannot report: fills would be missed, and its orders would
/// stay in the book for ever.
fn without_bridge(book: &Book, rules: &Rulebook) -> Option<RulebookError> {
    let orders = book.orders.values();
    let at_venues = orders.filter_map(|order| {
        let venue = order.at_venue.as_ref()?;
        Some((&venue.bridge, format!("order `{}`", order.order_id)))
    });
    let held = book.positions.values().filter_map(|position| {
        let what = format!(
            "the position of `{}` in `{}`",
            position.strategy, position.symbol
        );
        Some((&position.held_at.as_ref()?.bridge, what))
    });
    let is_there = |bridge: &Principal| {
        let rule = rules.principals.get(bridge);
        is_imitated(bridge) || rule.is_some_and(|rule| rule.role == Role::Bridge)
    };
    let (bridge, what) = at_venues
        .chain(held)
        .find(|(bridge, _)| !is_there(bridge))?;
    let what = format!(
        "bridge `{bridge}` was removed, but {what} is at its venue; put it back until `orders` and \
            `portfolio` show nothing there any more, or revoke its key"
    );
    Some(RulebookError::new("rules/principals.yaml", None, what))
}

fn without_owner(book: &Book, rules: &Rulebook) -> Option<RulebookError> {
    let positions = book
        .positions
        .keys()
        .map(|(symbol, strategy)| ("position", symbol, strategy));
    let orders = book
        .orders
        .values()
        .map(|order| ("order", &order.symbol, &order.strategy));
    positions.chain(orders).find_map(|(what, symbol, strategy)| {
        let open = format!(
            "strategy `{strategy}` has an open {what} in `{symbol}`; put it back until the {what} \
                is closed"
        );
        let (file, gone) = if !rules.instruments.contains_key(symbol) {
            ("rules/instruments.yaml".to_owned(), format!("instrument `{symbol}` was removed"))
        } else if !rules.strategies.contains_key(strategy) {
            (format!("rules/strategies/{strategy}.yaml"), "the file was removed".to_owned())
        } else if !rules.principals.values().any(|rule| rule.strategies.contains(strategy)) {
            ("rules/principals.yaml".to_owned(), format!("no principal has strategy `{strategy}` \
                any more"))
        } else {
            return None;
        };
        Some(RulebookError::new(file, None, format!("{gone}, but {open}")))
    })
}

/// Returns the part of a position that is not [closing](is_closing) yet, as far as its venue takes it:
/// nothing of dust. `None` if it is not exact.
pub fn left_to_close(book: &Book, position: &Position) -> Option<Amount> {
    if position.is_dust() {
        return Some(Amount::ZERO);
    }
    let mut orders = book.orders.values();
    orders.try_fold(position.whole(), |left, order| {
        if is_closing(order) && order.is_of(&position.strategy, &position.symbol) {
            left.checked_sub(order.leaves())
        } else {
            Some(left)
        }
    })
}

/// Whether an order closes a position at the market and no agent takes it back: it is an order of a
/// person or of the gate, or a venue may be filling it, and nobody ends it.
pub fn is_closing(order: &Order) -> bool {
    let is_market_exit = order.role == OrderRole::Exit
        && order.order_type == OrderType::Market
        && order.ending().is_none();
    let is_out = || order.at_venue.as_ref().is_some_and(AtVenue::is_out);
    is_market_exit && (order.order_id.leg == Leg::Flatten || is_out())
}

/// Returns the exits of agents that give way to an order of a person or of the gate: those that are
/// not [closing](is_closing) the position already.
pub fn sent_exits<'a>(book: &'a Book, position: &'a Position) -> impl Iterator<Item = &'a Order> {
    book.orders.values().filter(|order| {
        let is_sent = order.role == OrderRole::Exit && !is_closing(order);
        is_sent && order.is_of(&position.strategy, &position.symbol) && order.ending().is_none()
    })
}

/// Retires orders, at most [`RETIRED_MAX`] of them.
pub fn retire<'a>(orders: impl Iterator<Item = &'a Order>, at: Time) -> Vec<Change> {
    let retired = orders.take(RETIRED_MAX).map(|order| Change::OrderClosed {
        order_id: order.order_id,
        end: OrderEnd::Retired,
        at,
        why: None,
    });
    retired.collect()
}

/// Maximum number of orders that one line retires, so that it fits. A leg has fewer exits, unless an
/// earlier version filled it.
pub const RETIRED_MAX: usize = 99;

/// Returns the order of line `seq` that closes what is [left to close](left_to_close) of a position;
/// `None` if that is nothing.
pub fn close_at_market(
    book: &Book,
    position: &Position,
    agent: &Principal,
    seq: u64,
    now: Time,
) -> Option<Change> {
    let size = left_to_close(book, position).filter(|left| left.is_positive())?;
    let order = market_exit(position, size, agent, seq, now);
    Some(Change::OrderPlaced(Box::new(order)))
}

/// Returns the market order of line `seq` that closes `size` of a position for `source`. Stops stay
/// until the position is flat: whichever fills first, fills are clamped to the held size.
pub fn market_exit(
    position: &Position,
    size: Amount,
    source: &Principal,
    seq: u64,
    now: Time,
) -> Order {
    Order {
        order_id: OrderId::of_line(seq).flatten(),
        source: source.clone(),
        strategy: position.strategy.clone(),
        symbol: position.symbol.clone(),
        side: position.closing_side(),
        role: OrderRole::Exit,
        order_type: OrderType::Market,
        size,
        filled: Amount::ZERO,
        price: None,
        trigger: None,
        triggered: false,
        thesis_slug: None,
        accepted_at: now,
        time_in_force: TimeInForce::Gtc,
        at_venue: position.exit_at_venue(),
        key_id: None,
    }
}
