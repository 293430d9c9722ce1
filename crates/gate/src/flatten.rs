//! Flattening: the gate closes positions at the market because a halt or the dead man's switch says
//! that they shall be flat.
//!
//! It follows from the state alone: each leg in scope shall be flat. Resting exits and targets of the
//! leg are retired, so that nothing else sells what the order at the market sells; its stops work until
//! the position is flat. What fills later, such as an entry whose cancel came too late, is closed
//! again. What an agent can take back, even an exit at the market, does not count as closing. An order
//! that a venue drops is placed again after 5, 25 and 125 s; after that the symbol is doubted, and a
//! person has to look, or to demand it anew.

use super::dead_man;
use super::events;
use super::halts::{Halts, On};
use super::outbox;
use super::record::{Event, EventKind};
use super::state::{Change, State};
use spoolgate_rules::Rulebook;
use spoolgate_trading::absent;
use spoolgate_trading::book::{Book, Doubt};
use spoolgate_trading::change;
use spoolgate_trading::order::{Dropped, Order, OrderRole, Position};
use spoolgate_wire::ids::{Principal, StrategyName, Symbol};
use spoolgate_wire::time::Time;

/// How long the gate waits before it places another order, after each one that was dropped,
/// milliseconds.
const AGAIN_MS: [i64; 3] = [5_000, 25_000, 125_000];

/// The sender of orders that `rules/HALT` demands where no agent has the strategy.
const HALT_FILE: &str = "halt-file";

/// Why a position shall be flat.
struct Cause {
    by: Principal,
    kind: EventKind,
    note: String,
}

/// Returns the next line that brings a position closer to flat; `None` if nothing is to be done now.
/// After it, ask again. `seq` is its number.
pub fn next(state: &State, rules: &Rulebook, seq: u64, now: Time) -> Option<(EventKind, Event)> {
    let demands = state.halts.flattens() || dead_man::liquidates_any(state);
    if !demands {
        return None;
    }
    let mut positions = state.book.positions.values();
    positions.find_map(|position| {
        let cause = cause(state, rules, position)?;
        let changes = changes(&state.book, position, &cause, seq, now);
        let changes = changes.into_iter().map(Change::Book).collect();
        let changes = outbox::of_line(&state.book, rules, changes, now);
        (!changes.is_empty()).then_some(())?;
        let event = Event {
            timestamp: now,
            note: cause.note,
            changes,
            cage: None,
        };
        Some((cause.kind, event))
    })
}

/// Whether the position of a strategy in a symbol shall be flat.
pub fn is_wanted(
    state: &State,
    rules: &Rulebook,
    symbol: &Symbol,
    strategy: &StrategyName,
) -> bool {
    let key = (symbol.clone(), strategy.clone());
    let position = state.book.positions.get(&key);
    position.is_some_and(|position| cause(state, rules, position).is_some())
}

/// Returns what is to be done about a position now.
fn changes(
    book: &Book,
    position: &Position,
    cause: &Cause,
    seq: u64,
    now: Time,
) -> Vec<change::Change> {
    if let Some(dropped) = position.dropped {
        let Some(again) = again_at(dropped) else {
            return doubt(book, position, dropped, now);
        };
        // A time later than now dates from before the clock was set back.
        if (dropped.at..again).contains(&now) {
            return Vec::new();
        }
    }
    let mut changes = absent::retire(resting(book, position), now);
    // What is left for the next line would sell beside the order.
    if resting(book, position).count() <= absent::RETIRED_MAX {
        changes.extend(absent::close_at_market(book, position, &cause.by, seq, now));
    }
    changes
}

/// Returns the exits and targets of agents that rest or wait beside a position.
pub(super) fn resting<'a>(
    book: &'a Book,
    position: &'a Position,
) -> impl Iterator<Item = &'a Order> {
    let targets = book.orders.values().filter(|order| {
        order.role == OrderRole::Target
            && order.is_of(&position.strategy, &position.symbol)
            && order.ending().is_none()
    });
    absent::sent_exits(book, position).chain(targets)
}

/// Returns when another order may be placed; `None` once the gate has given up.
pub fn again_at(dropped: Dropped) -> Option<Time> {
    let nth = usize::try_from(dropped.times.saturating_sub(1)).ok()?;
    let wait_ms = *AGAIN_MS.get(nth)?;
    Some(dropped.at.plus_ms(wait_ms))
}

/// Doubts the symbol, if this order does not do so already: a venue that dropped so many would drop
/// the next one too; or it may have filled.
fn doubt(book: &Book, position: &Position, dropped: Dropped, now: Time) -> Vec<change::Change> {
    let Dropped {
        order_id, times, ..
    } = dropped;
    let known = book.doubted_symbols.get(&position.symbol);
    if known.is_some_and(|doubt| doubt.order_id == Some(order_id)) {
        return Vec::new();
    }
    let what = format!(
        "`{order_id}` was to close the position of `{}`, and it is the {times}th that was dropped",
        position.strategy
    );
    let symbol = position.symbol.clone();
    let doubt = Doubt {
        order_id: Some(order_id),
        what,
        at: now,
    };
    vec![change::Change::SymbolDoubted { symbol, doubt }]
}

/// Returns why a position shall be flat, if it shall.
fn cause(state: &State, rules: &Rulebook, position: &Position) -> Option<Cause> {
    let of_halts = demanded(&state.halts, rules, position).map(|(by, what)| Cause {
        by,
        kind: EventKind::Halt,
        note: format!("{what} closes this position at the market"),
    });
    of_halts.or_else(|| {
        Some(Cause {
            by: dead_man::liquidator(state, rules, &position.strategy)?,
            kind: EventKind::DeadMan,
            note: events::LIQUIDATED.to_owned(),
        })
    })
}

/// Returns who halted so that this position shall be flat, and what the halt is called; `None` if no
/// halt demands it.
pub(super) fn demanded(
    halts: &Halts,
    rules: &Rulebook,
    position: &Position,
) -> Option<(Principal, String)> {
    let agents = || {
        let rules = rules.principals.values();
        rules.filter(|rule| rule.strategies.contains(&position.strategy))
    };
    if halts.file_flattens {
        let by = agents().next().map(|rule| rule.name.clone());
        let by = by.or_else(|| Principal::parse(HALT_FILE).ok())?;
        return Some((by, "`rules/HALT`".to_owned()));
    }
    if let Some(halt) = halts.all.as_ref().filter(|halt| halt.flatten) {
        return Some((halt.by.clone(), "a halt of everybody".to_owned()));
    }
    let own = agents().find_map(|rule| {
        let halt = halts.principals.get(&rule.name)?;
        halt.flatten.then_some((&rule.name, halt))
    });
    if let Some((name, halt)) = own {
        return Some((halt.by.clone(), format!("a halt of `{name}`")));
    }
    let bridge = position.held_at.as_ref().map(|held_at| &held_at.bridge);
    let parts = [
        Some(On::Strategy(position.strategy.clone())),
        Some(On::Symbol(position.symbol.clone())),
        bridge.map(|name| On::Bridge(name.clone())),
    ];
    parts.into_iter().flatten().find_map(|on| {
        let halt = halts.of(None, Some(&on)).filter(|halt| halt.flatten)?;
        Some((halt.by.clone(), format!("a halt of {on}")))
    })
}
