//! `order.submit`: the check vector, and the orders that an accepted request places.

use super::book::Book;
use super::cancel::close;
use super::change::Change;
use super::checks::{self, Kind, Subject};
use super::exits;
use super::headroom::headroom;
use super::order::{AtVenue, Merged, Order, OrderEnd, OrderRole, Position};
use super::requests::{Context, Verdict};
use super::units::Units;
use spoolgate_rules::Rulebook;
use spoolgate_rules::instruments::Instrument;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{OrderId, Principal};
use spoolgate_wire::orders::{OrderType, SubmitOrder, TimeInForce};
use spoolgate_wire::time::Time;

/// Maximum number of own entries that an exit cancels, so that its ledger line is never too long.
/// An exit that crosses more is still accepted.
const CROSSED_MAX: usize = 100;

/// Decides an order. An accepted entry also places its protective stop, and its target if it names
/// one, both with size 0 until the entry fills. An accepted exit cancels the sender's own resting
/// entries that it would trade with, and joins the exits of its leg.
pub fn submit(book: &Book, rules: &Rulebook, order: &SubmitOrder, ctx: &Context) -> Verdict {
    let subject = Subject::of_order(book, rules, order, ctx);
    let rows = checks::run(&subject);
    if checks::first_failed(&rows).is_some() {
        let headroom = Some(headroom(&subject, &rows));
        return Verdict {
            checks: rows,
            accepted: false,
            headroom,
            changes: Vec::new(),
        };
    }
    let changes = match subject.kind {
        Kind::Entry => {
            let entry = new_order(
                order,
                &sent_by(ctx),
                OrderRole::Entry,
                // The stop of a long position is worth the least, and the price of a short one.
                at_venue_of(
                    subject.instrument,
                    order.planned_stop.min(order.planned_entry),
                ),
            );
            placed(order, entry)
                .into_iter()
                .map(|order| Change::OrderPlaced(Box::new(order)))
                .collect()
        }
        _ => {
            let crossed = subject
                .order
                .iter()
                .flat_map(|facts| checks::crossed_entries(&subject, facts));
            let crossed = crossed.take(CROSSED_MAX);
            let mut changes: Vec<Change> = crossed
                .flat_map(|entry| close(book, entry, OrderEnd::Cancelled, ctx.now))
                .collect();
            changes.extend(exit_changes(book, rules, order, ctx));
            changes
        }
    };
    Verdict {
        checks: rows,
        accepted: true,
        headroom: None,
        changes,
    }
}

/// Returns what an accepted exit changes among the exits of its leg: resting ones give way to it, and
/// it is placed, or merged into the market exit that waits.
fn exit_changes(
    book: &Book,
    rules: &Rulebook,
    order: &SubmitOrder,
    ctx: &Context<'_>,
) -> Vec<Change> {
    let SubmitOrder {
        strategy,
        symbol,
        side,
        order_type,
        ..
    } = order;
    let joining = exits::joining(book, strategy, symbol, *side, *order_type);
    let merged = joining.into.and_then(|waiting| {
        Some(Change::ExitMerged(Merged {
            order_id: waiting.order_id,
            size: waiting.size.checked_add(waiting.whole(order.size))?,
            time_in_force: exits::longer(waiting.time_in_force, order.time_in_force),
            at: ctx.now,
        }))
    });
    if let Some(merged) = merged {
        return vec![merged];
    }
    let giving_way = joining.giving_way.into_iter();
    let mut changes: Vec<Change> = giving_way
        .flat_map(|exit| close(book, exit, OrderEnd::Retired, ctx.now))
        .collect();
    let held = book.positions.get(&(symbol.clone(), strategy.clone()));
    let at_venue = held.and_then(Position::exit_at_venue);
    let at_venue = at_venue.map(|at_venue| {
        // The venue may have changed its lot since the position was opened.
        let now = rules.instruments.get(symbol).map(Units::of).map(Box::new);
        let kept = at_venue.units.clone();
        at_venue.in_units(now.or(kept))
    });
    let mut exit = new_order(order, &sent_by(ctx), OrderRole::Exit, at_venue);
    // Only an exit of all that is left may be off the lot.
    let whole = Some(exit.whole(exit.size)).filter(|whole| whole.is_positive());
    exit.size = whole.unwrap_or(exit.size);
    let is_over = let_go(book, rules, &mut exit, ctx.now);
    let over = Change::OrderClosed {
        order_id: exit.order_id,
        end: OrderEnd::Expired,
        at: ctx.now,
        why: None,
    };
    changes.push(Change::OrderPlaced(Box::new(exit)));
    changes.extend(is_over.then_some(over));
    changes
}

/// Lets an exit go that would wait at the gate for its price, if the market is there. Returns whether it
/// is over, because it does not wait.
fn let_go(book: &Book, rules: &Rulebook, exit: &mut Order, now: Time) -> bool {
    let is_reached = exits::is_reached(book, rules, exit, now);
    let has_price = exit.order_type != OrderType::Market;
    match exit
        .at_venue
        .as_mut()
        .filter(|venue| !venue.reduce_only && has_price)
    {
        Some(venue) => {
            venue.released = is_reached;
            !is_reached && exit.time_in_force == TimeInForce::Ioc
        }
        None => false,
    }
}

/// The sender of an order, the time, and the id that the order gets.
pub(super) struct Sent<'a> {
    pub(super) source: &'a Principal,
    pub(super) order_id: OrderId,
    pub(super) now: Time,
    /// The key that signed it.
    pub(super) key_id: Option<&'a str>,
}

fn sent_by<'a>(ctx: &Context<'a>) -> Sent<'a> {
    Sent {
        source: ctx.source,
        order_id: ctx.order_id,
        now: ctx.now,
        key_id: ctx.key_id,
    }
}

/// Returns an entry with its protective stop, and its target if it names one.
fn placed(order: &SubmitOrder, entry: Order) -> Vec<Order> {
    let stop = protective_stop(&entry, order.planned_stop);
    let target = order.target_price.map(|price| target(&entry, price));
    [Some(entry), Some(stop), target]
        .into_iter()
        .flatten()
        .collect()
}

/// Returns the orders that an entry would place on paper, wherever orders of its instrument go.
pub(super) fn entry_on_paper(order: &SubmitOrder, sent: &Sent<'_>) -> Vec<Order> {
    placed(order, new_order(order, sent, OrderRole::Entry, None))
}

fn new_order(
    order: &SubmitOrder,
    sent: &Sent<'_>,
    role: OrderRole,
    at_venue: Option<AtVenue>,
) -> Order {
    Order {
        order_id: sent.order_id,
        source: sent.source.clone(),
        strategy: order.strategy.clone(),
        symbol: order.symbol.clone(),
        side: order.side,
        role,
        order_type: order.order_type,
        size: order.size,
        filled: Amount::ZERO,
        price: order.price,
        trigger: order
            .stop_price
            .filter(|_| order.order_type == OrderType::Stop),
        triggered: false,
        // The thesis of an exit is only schema-checked, so it is not recorded as if it had been.
        thesis_slug: (role == OrderRole::Entry).then(|| order.thesis_slug.clone()),
        accepted_at: sent.now,
        time_in_force: order.time_in_force,
        at_venue,
        key_id: sent
            .key_id
            .filter(|_| role == OrderRole::Entry)
            .map(str::to_owned),
    }
}

/// Returns the venue state of a new order of this instrument, before any instruction; `None` on
/// paper. `price` is the lowest one at which an order of the position is expected.
pub fn at_venue_of(instrument: Option<&Instrument>, price: Amount) -> Option<AtVenue> {
    let instrument = instrument?;
    let at_venue = AtVenue::new(
        instrument.bridge.clone()?,
        *instrument.multiplier,
        instrument.reduce_only,
    );
    Some(at_venue.in_units(Some(Box::new(Units::at(instrument, price)))))
}

fn protective_stop(entry: &Order, trigger: Amount) -> Order {
    Order {
        order_id: entry.order_id.stop(),
        side: entry.side.opposite(),
        role: OrderRole::Protective,
        order_type: OrderType::Stop,
        size: Amount::ZERO,
        price: None,
        trigger: Some(trigger),
        thesis_slug: None,
        time_in_force: TimeInForce::Gtc,
        key_id: None,
        ..entry.clone()
    }
}

fn target(entry: &Order, price: Amount) -> Order {
    Order {
        order_id: entry.order_id.target(),
        side: entry.side.opposite(),
        role: OrderRole::Target,
        order_type: OrderType::Limit,
        size: Amount::ZERO,
        price: Some(price),
        trigger: None,
        thesis_slug: None,
        time_in_force: TimeInForce::Gtc,
        key_id: None,
        ..entry.clone()
    }
}
