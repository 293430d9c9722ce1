//! How much is open and how much has been going on.

use super::{Finding, Kind, OrderFacts, SAFETY, Subject};
use crate::trading::book::Book;
use crate::trading::conduct::Conduct;
use crate::trading::order::{Order, OrderRole};
use crate::wire::amount::Amount;
use crate::wire::ids::Principal;
use crate::wire::time::Time;

/// What rates are counted over.
const RATE_WINDOW_MS: i64 = 60_000;

/// A count against its limit.
fn counted(count: usize, limit: u32, passed: bool, reason: &'static str) -> Finding {
    let count = Amount::from_i64(i64::try_from(count).unwrap_or(i64::MAX));
    Finding::compared(count, Amount::from(limit), "count", SAFETY).unless(passed, || reason)
}

/// Whether `count` is at most `limit`.
fn fits(count: usize, limit: u32) -> bool {
    u32::try_from(count).is_ok_and(|count| count <= limit)
}

/// Pairs of symbol and strategy that hold a position or have a working entry, with this order's: at most
/// `max_open_positions`. What adds to a pair that is open already opens nothing.
pub(super) fn max_open_positions(subject: &Subject, facts: &OrderFacts) -> Finding {
    let (book, order) = (subject.book, facts.order);
    let is_open = entries(book).any(|open| open.is_of(&order.strategy, &order.symbol))
        || book.positions.values().any(|held| held.strategy == order.strategy && held.symbol == order.symbol);
    let count = open_pairs(book).saturating_add(usize::from(!is_open));
    let limit = subject.rules.safety.max_open_positions;
    counted(count, limit, is_open || fits(count, limit), "too many positions would be open")
}

/// Pairs of symbol and strategy that hold a position or have a working entry.
pub(in crate::trading) fn open_pairs(book: &Book) -> usize {
    let is_held = |open: &Order| book.positions.values().any(|held| open.is_of(&held.strategy, &held.symbol));
    let is_first = |(nth, open): &(usize, &Order)| {
        !is_held(open) && !entries(book).take(*nth).any(|other| open.is_of(&other.strategy, &other.symbol))
    };
    let pending = entries(book).enumerate().filter(|found| is_first(found)).count();
    book.positions.len().saturating_add(pending)
}

fn entries(book: &Book) -> impl Iterator<Item = &Order> {
    book.orders.values().filter(|open| open.role == OrderRole::Entry)
}

/// Open orders, protective stops not counted.
pub(crate) fn open_orders(book: &Book) -> usize {
    book.orders.values().filter(|order| order.role != OrderRole::Protective).count()
}

/// Open orders with this one, protective stops not counted: at most `max_open_orders`.
pub(super) fn max_open_orders(subject: &Subject, _: &OrderFacts) -> Finding {
    let (count, limit) = (open_orders(subject.book).saturating_add(1), subject.rules.safety.max_open_orders);
    counted(count, limit, fits(count, limit), "too many orders would be open")
}

/// Entries accepted within the last minute with this one: of the sender at most `max_entries_per_minute`, of all
/// together at most `max_entries_per_minute_all`. An entry of a minute ago counts no more. Exits, cancels and
/// tightens are not counted and never held back.
pub(super) fn order_rate(subject: &Subject, _: &OrderFacts) -> Finding {
    let (own, all) = recent_entries(subject.book, subject.ctx.source, subject.ctx.now);
    let (own, all) = (own.saturating_add(1), all.saturating_add(1));
    let safety = &subject.rules.safety;
    let (own_max, all_max) = (safety.max_entries_per_minute, safety.max_entries_per_minute_all);
    if fits(own, own_max) && !fits(all, all_max) {
        return counted(all, all_max, false, "too many entries within a minute, over all agents");
    }
    counted(own, own_max, fits(own, own_max), "too many entries within a minute")
}

/// Messages of agents within the last minute with this one: of the sender at most `max_messages_per_minute`, of all
/// together at most `max_messages_per_minute_all`. Exits, cancels and tightens are counted apart, against
/// `max_protected_per_minute`, and only told.
pub(super) fn message_rate(subject: &Subject) -> Finding {
    let (messages, safety) = (&subject.ctx.messages, &subject.rules.safety);
    let compared = |count: u32, limit: u32, reason: &'static str| {
        let finding = Finding::compared(Amount::from(count), Amount::from(limit), "count", SAFETY);
        finding.unless(count <= limit, || reason)
    };
    if matches!(subject.kind, Kind::Exit | Kind::Cancel | Kind::Tighten) {
        let most = safety.max_protected_per_minute;
        return compared(messages.protected, most, "many exits, cancels and tightens within a minute");
    }
    let (own_max, all_max) = (safety.max_messages_per_minute, safety.max_messages_per_minute_all);
    if messages.own <= own_max && messages.all > all_max {
        return compared(messages.all, all_max, "too many messages within a minute, over all agents");
    }
    compared(messages.own, own_max, "too many messages within a minute")
}

/// Entries accepted within the minute before `now`: of this sender, and of all.
pub(in crate::trading) fn recent_entries(book: &Book, source: &Principal, now: Time) -> (usize, usize) {
    // Later than now is from before the clock was set back.
    let is_recent = |at: Time| now.since_ms(at).saturating_abs() < RATE_WINDOW_MS;
    let recent = book.recent_entries.iter().filter(|entry| is_recent(entry.at));
    recent.fold((0_usize, 0_usize), |(own, all), entry| {
        (own.saturating_add(usize::from(entry.source == *source)), all.saturating_add(1))
    })
}

/// Fewer than `max_executions` entries of the strategy executed within the last `executions_window_s`. Once there
/// were as many, it is closed until a person clears it.
pub(super) fn repeated_execution(subject: &Subject, facts: &OrderFacts) -> Finding {
    let safety = &subject.rules.safety;
    let conduct = subject.book.conduct.get(&facts.order.strategy);
    let within = |conduct: &Conduct| conduct.executions_within(safety.executions_window_s, subject.ctx.now);
    let (count, limit) = (conduct.map_or(0, within), safety.max_executions);
    let is_below = !u32::try_from(count).is_ok_and(|count| count >= limit);
    let finding = counted(count, limit, is_below, "the strategy has executed too often; wait");
    match conduct.and_then(|conduct| conduct.disabled_since) {
        Some(since) => finding
            .unless(false, || format!("closed since {since}: it executed too often; a person clears it")),
        None => finding,
    }
}

/// Fewer than `max_losing_trades` closed trades of the strategy in a row have lost, fees included. A person clears
/// the streak.
pub(super) fn loss_streak(subject: &Subject, facts: &OrderFacts) -> Finding {
    let losing = subject.book.conduct.get(&facts.order.strategy).map_or(0, |conduct| conduct.losing);
    let limit = subject.rules.safety.max_losing_trades;
    let (value, most) = (Amount::from(losing), Amount::from(limit));
    Finding::compared(value, most, "count", SAFETY)
        .unless(losing < limit, || "too many trades in a row have lost; a person clears it")
}

/// At least `cooldown_s` since a protective stop of the strategy last filled.
pub(super) fn cooldown(subject: &Subject, facts: &OrderFacts) -> Finding {
    let at = subject.book.conduct.get(&facts.order.strategy).and_then(|conduct| conduct.stopped_out_at);
    let Some(at) = at else { return Finding::yes_no(None, SAFETY) };
    let limit_ms = i64::from(subject.rules.safety.cooldown_s).saturating_mul(1000);
    // Later than now is from before the clock was set back.
    let since_ms = subject.ctx.now.since_ms(at).saturating_abs();
    let (value, limit) = (Amount::from_i64(since_ms), Amount::from_i64(limit_ms));
    Finding::compared(value, limit, "ms", SAFETY)
        .unless(since_ms >= limit_ms, || format!("stopped out at {at}; wait before entering again"))
}
