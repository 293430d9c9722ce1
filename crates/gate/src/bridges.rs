//! The lines about bridges to venues: what the host noticed of their signs of life, and instructions
//! that it took back.

use std::collections::BTreeSet;

use super::outbox;
use super::record::Event;
use super::state::{Change, State};
use spoolgate_rules::Rulebook;
use spoolgate_rules::instruments::is_imitated;
use spoolgate_trading as trading;
use spoolgate_trading::book::Doubt;
use spoolgate_trading::risk;
use spoolgate_trading::venue::imitated::answers;
use spoolgate_trading::venue::report;
use spoolgate_wire::ids::{OrderId, Principal, Symbol};
use spoolgate_wire::time::Time;

/// Maximum number of instructions that one line takes back, so that the line fits: each can end an
/// entry, its stop and its target.
const TAKEN_BACK_PER_LINE: usize = 30;

/// Returns the bridges that anything depends on: those of the instruments, and those with orders or
/// positions at their venues. The imitated exchange has none.
pub fn used<'a>(state: &'a State, rules: &'a Rulebook) -> BTreeSet<&'a Principal> {
    let instruments = rules.instruments.values();
    let orders = state.book.orders.values();
    let positions = state.book.positions.values();
    instruments
        .filter_map(|it| it.bridge.as_ref())
        .chain(orders.filter_map(|order| Some(&order.at_venue.as_ref()?.bridge)))
        .chain(positions.filter_map(|held| Some(&held.held_at.as_ref()?.bridge)))
        .filter(|bridge| !is_imitated(bridge))
        .collect()
}

/// The line of something that was noticed of a bridge: that it is silent or heard, or that it has
/// answered the ping of a drill. `None` for any other change.
pub fn noticed(change: trading::Change, now: Time) -> Option<Event> {
    let note = match &change {
        trading::Change::BridgeSilent { bridge, since, why } => format!(
            "bridge `{bridge}` is silent since {since}: {why}; entries at its venue are refused"
        ),
        trading::Change::BridgeHeard { bridge, .. } => {
            format!("bridge `{bridge}` gives signs of life")
        }
        trading::Change::PingAnswered { bridge, line, .. } => {
            format!("bridge `{bridge}` answered the ping of line {line}")
        }
        _ => return None,
    };
    Some(Event {
        timestamp: now,
        note,
        changes: vec![Change::Book(change)],
        cage: None,
    })
}

/// How long after a person was told of an order that its bridge does not answer they are told again,
/// milliseconds.
const TOLD_AGAIN_MS: i64 = 3_600_000;

/// Maximum number of orders and symbols of one line about missing answers.
const MISSING_PER_LINE: usize = 100;

/// The next line about answers that are missing: positions whose stops no venue has confirmed in time,
/// which closes their symbols for entries, and orders whose bridge does not answer. `None` if nothing is
/// new; after it, ask again.
pub fn missing(state: &State, rules: &Rulebook, now: Time) -> Option<Event> {
    let (book, safety) = (&state.book, &rules.safety);
    let mut changes: Vec<trading::Change> = Vec::new();
    let mut doubted: BTreeSet<&Symbol> = book.doubted_symbols.keys().collect();
    for position in book
        .positions
        .values()
        .filter(|held| held.held_at.is_some())
    {
        let Some(stop) = risk::unconfirmed(book, position, safety, now) else {
            continue;
        };
        if doubted.insert(&position.symbol) {
            let order_id = stop.order_id;
            let is_passed = stop
                .at_venue
                .as_ref()
                .is_some_and(|venue| venue.passed_at.is_some());
            let what = if is_passed {
                format!("the market has passed the trigger of `{order_id}`, and it has not traded")
            } else {
                format!("the venue has not confirmed `{order_id}`, so it protects nothing")
            };
            changes.push(trading::Change::SymbolDoubted {
                symbol: position.symbol.clone(),
                doubt: Doubt {
                    order_id: Some(order_id),
                    what,
                    at: now,
                },
            });
        }
    }
    let timeout_ms = i64::from(*safety.bridges.timeout_s).saturating_mul(1000);
    for order in book.orders.values() {
        let Some(venue) = &order.at_venue else {
            continue;
        };
        let is_missed = |since: Time| now.since_ms(since) >= timeout_ms;
        let is_told = |at: Time| now.since_ms(at) < TOLD_AGAIN_MS;
        if venue.unanswered_since().is_some_and(is_missed) && !venue.alarmed_at.is_some_and(is_told)
        {
            let order_id = order.order_id;
            changes.push(trading::Change::Unanswered { order_id, at: now });
        }
    }
    changes.truncate(MISSING_PER_LINE);
    (!changes.is_empty()).then(|| Event {
        timestamp: now,
        note: MISSING.to_owned(),
        changes: changes.into_iter().map(Change::Book).collect(),
        cage: None,
    })
}

/// The note of a line about answers that are missing.
const MISSING: &str = "bridges have not answered in time";

/// Whether a line is about answers that are missing.
pub fn is_about_missing(line: &Event) -> bool {
    line.note == MISSING
}

/// The note of a line with answers of the imitated exchange.
const IMITATED: &str = "the imitated exchange has answered";

/// Whether a line holds answers of the imitated exchange.
pub fn is_of_imitated(line: &Event) -> bool {
    line.note == IMITATED
}

/// The next line with what the imitated exchange answers by now; `None` if nothing is due. After it, ask
/// again. `seq` is its number.
pub fn imitated(state: &State, rules: &Rulebook, seq: u64, now: Time) -> Option<Event> {
    // What the book refuses stays as it is: the order waits for its answer.
    let changes = answers(&state.book, rules, now, seq).ok()?;
    if changes.is_empty() {
        return None;
    }
    let changes = changes.into_iter().map(Change::Book).collect();
    Some(Event {
        timestamp: now,
        note: IMITATED.to_owned(),
        changes: outbox::of_line(&state.book, rules, changes, now),
        cage: None,
    })
}

/// The next line about instructions that the host took back, each by order and version; `None` if
/// none of them may be taken for one that reached nobody. After it, ask again.
pub fn taken_back(
    state: &State,
    rules: &Rulebook,
    files: &[(OrderId, u32)],
    now: Time,
) -> Option<Event> {
    let mut book = state.book.clone();
    let mut changes = Vec::new();
    let mut count = 0_usize;
    for (order_id, version) in files {
        if count == TAKEN_BACK_PER_LINE {
            break;
        }
        // What the book refuses stays as it is: the order waits for its bridge.
        let Ok(back) = report::taken_back(&book, rules, *order_id, *version, now) else {
            continue;
        };
        if back.is_empty() || back.iter().any(|change| book.apply(change).is_err()) {
            continue;
        }
        count = count.saturating_add(1);
        changes.extend(back.into_iter().map(Change::Book));
    }
    if changes.is_empty() {
        return None;
    }
    let note = match count {
        1 => "an instruction that its bridge had not taken was taken back".to_owned(),
        count => format!("{count} instructions that bridges had not taken were taken back"),
    };
    Some(Event {
        timestamp: now,
        note,
        changes: outbox::of_line(&state.book, rules, changes, now),
        cage: None,
    })
}

/// The instructions that a line takes back.
pub fn taken_back_by(changes: &[Change]) -> Vec<(OrderId, u32)> {
    let changes = changes.iter().filter_map(|change| match change {
        Change::Book(trading::Change::TakenBack { order_id, version }) => {
            Some((*order_id, *version))
        }
        _ => None,
    });
    changes.collect()
}
