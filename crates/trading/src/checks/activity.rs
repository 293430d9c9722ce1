//! Checks of how much is open, and of how often a strategy or an agent acts.

use super::{CheckRow, Kind, OrderFacts, SAFETY, Subject};
use crate::book::Book;
use crate::conduct::Conduct;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::Principal;
use spoolgate_wire::time::Time;

/// The window in which rates are counted.
const RATE_WINDOW_MS: i64 = 60_000;

/// Compares a count with its limit.
fn counted(count: usize, limit: u32, passed: bool, reason: &'static str) -> CheckRow {
    let count = Amount::from_i64(i64::try_from(count).unwrap_or(i64::MAX));
    CheckRow::compared(count, Amount::from(limit), "count", SAFETY).unless(passed, || reason)
}

/// Whether `count` is at most `limit`.
fn fits(count: usize, limit: u32) -> bool {
    u32::try_from(count).is_ok_and(|count| count <= limit)
}

/// Pairs of symbol and strategy that hold a position, more than dust, or have a working entry,
/// including this order's pair: at most `max_open_positions`. An order for a pair that is already open always
/// passes.
pub(super) fn max_open_positions(subject: &Subject, facts: &OrderFacts) -> CheckRow {
    let (order, sums) = (facts.order, &facts.around.sums);
    let mut open = sums.legs().iter().filter(|leg| leg.is_open);
    let is_open = open.any(|leg| leg.is_of(&order.strategy, &order.symbol));
    let count = sums.open_legs().saturating_add(usize::from(!is_open));
    let limit = subject.rules.safety.max_open_positions;
    counted(
        count,
        limit,
        is_open || fits(count, limit),
        "too many positions would be open",
    )
}

/// Open orders including this one, without protective stops: at most `max_open_orders`.
pub(super) fn max_open_orders(subject: &Subject, facts: &OrderFacts) -> CheckRow {
    let (count, limit) = (
        facts.around.sums.open_orders().saturating_add(1),
        subject.rules.safety.max_open_orders,
    );
    counted(
        count,
        limit,
        fits(count, limit),
        "too many orders would be open",
    )
}

/// Entries accepted within the last minute, including this one: at most `max_entries_per_minute`
/// for the sender and `max_entries_per_minute_all` for all agents together. An entry exactly one
/// minute old no longer counts. Exits, cancels and tightens are neither counted nor held back.
pub(super) fn order_rate(subject: &Subject, _: &OrderFacts) -> CheckRow {
    let (own, all) = recent_entries(subject.book, subject.ctx.source, subject.ctx.now);
    let (own, all) = (own.saturating_add(1), all.saturating_add(1));
    let safety = &subject.rules.safety;
    let (own_max, all_max) = (
        safety.max_entries_per_minute,
        safety.max_entries_per_minute_all,
    );
    if fits(own, own_max) && !fits(all, all_max) {
        return counted(
            all,
            all_max,
            false,
            "too many entries within a minute, over all agents",
        );
    }
    counted(
        own,
        own_max,
        fits(own, own_max),
        "too many entries within a minute",
    )
}

/// Messages of agents within the last minute, including this one: at most `max_messages_per_minute`
/// for the sender and `max_messages_per_minute_all` for all agents together. Exits, cancels and
/// tightens are counted separately, against `max_protected_per_minute`; exceeding it is only a
/// warning here.
pub(super) fn message_rate(subject: &Subject) -> CheckRow {
    let (messages, safety) = (&subject.ctx.messages, &subject.rules.safety);
    let compared = |count: u32, limit: u32, reason: &'static str| {
        let row = CheckRow::compared(Amount::from(count), Amount::from(limit), "count", SAFETY);
        row.unless(count <= limit, || reason)
    };
    if matches!(subject.kind, Kind::Exit | Kind::Cancel | Kind::Tighten) {
        let most = safety.max_protected_per_minute;
        return compared(
            messages.protected,
            most,
            "many exits, cancels and tightens within a minute",
        );
    }
    let (own_max, all_max) = (
        safety.max_messages_per_minute,
        safety.max_messages_per_minute_all,
    );
    if messages.own <= *own_max && messages.all > *all_max {
        return compared(
            messages.all,
            *all_max,
            "too many messages within a minute, over all agents",
        );
    }
    compared(messages.own, *own_max, "too many messages within a minute")
}

/// Counts the entries accepted within the minute before `now`: those of this sender, and all.
pub(crate) fn recent_entries(book: &Book, source: &Principal, now: Time) -> (usize, usize) {
    // A time later than now dates from before the clock was set back.
    let is_recent = |at: Time| now.since_ms(at).saturating_abs() < RATE_WINDOW_MS;
    let recent = book
        .recent_entries
        .iter()
        .filter(|entry| is_recent(entry.at));
    recent.fold((0_usize, 0_usize), |(own, all), entry| {
        (
            own.saturating_add(usize::from(entry.source == *source)),
            all.saturating_add(1),
        )
    })
}

/// Fewer than `max_executions` entries of the strategy executed within the last
/// `executions_window_s`. A strategy that reached the limit stays closed until a person clears it.
pub(super) fn repeated_execution(subject: &Subject, facts: &OrderFacts) -> CheckRow {
    let safety = &subject.rules.safety;
    let conduct = subject.book.conduct.get(&facts.order.strategy);
    let within =
        |conduct: &Conduct| conduct.executions_within(*safety.executions_window_s, subject.ctx.now);
    let (count, limit) = (conduct.map_or(0, within), safety.max_executions);
    let is_below = !u32::try_from(count).is_ok_and(|count| count >= *limit);
    let row = counted(
        count,
        *limit,
        is_below,
        "the strategy has executed too often; wait",
    );
    match conduct.and_then(|conduct| conduct.disabled_since) {
        Some(since) => row.unless(false, || {
            format!("closed since {since} because it executed too often; a person must clear it")
        }),
        None => row,
    }
}

/// Fewer than `max_losing_trades` closed trades of the strategy in a row have lost, fees included.
/// A person clears the streak.
pub(super) fn loss_streak(subject: &Subject, facts: &OrderFacts) -> CheckRow {
    let losing = subject
        .book
        .conduct
        .get(&facts.order.strategy)
        .map_or(0, |conduct| conduct.losing);
    let limit = subject.rules.safety.max_losing_trades;
    let (value, most) = (Amount::from(losing), Amount::from(*limit));
    CheckRow::compared(value, most, "count", SAFETY).unless(
        losing < *limit,
        || "too many trades in a row have lost; a person must clear it",
    )
}

/// Fewer than `max_rejects` orders of the strategy in a row were refused by their venues. A person
/// clears the row.
pub(super) fn reject_streak(subject: &Subject, facts: &OrderFacts) -> CheckRow {
    let conduct = subject.book.conduct.get(&facts.order.strategy);
    let rejects = conduct.map_or(0, |conduct| conduct.rejects);
    let limit = subject.rules.safety.max_rejects;
    let (value, most) = (Amount::from(rejects), Amount::from(*limit));
    CheckRow::compared(value, most, "count", SAFETY).unless(
        rejects < *limit,
        || "too many orders in a row were refused by their venue; a person must clear it",
    )
}

/// The working entry was accepted at most `max_order_age_s` ago. No row for a new order.
pub(super) fn order_age(subject: &Subject, _: &OrderFacts) -> Option<CheckRow> {
    if !subject.is_again {
        return None;
    }
    let limit_ms = i64::from(*subject.rules.safety.max_order_age_s).saturating_mul(1000);
    let ctx = subject.ctx;
    // A time later than now dates from before the clock was set back.
    let age_ms = ctx.now.since_ms(ctx.requested_at).saturating_abs();
    let (value, limit) = (Amount::from_i64(age_ms), Amount::from_i64(limit_ms));
    let row = CheckRow::compared(value, limit, "ms", SAFETY);
    Some(row.unless(age_ms <= limit_ms, || "the entry has worked for too long"))
}

/// At least `cooldown_s` have passed since a protective stop of the strategy last filled.
pub(super) fn cooldown(subject: &Subject, facts: &OrderFacts) -> CheckRow {
    let at = subject
        .book
        .conduct
        .get(&facts.order.strategy)
        .and_then(|conduct| conduct.stopped_out_at);
    let Some(at) = at else {
        return CheckRow::yes_no(None, SAFETY);
    };
    let limit_ms = i64::from(*subject.rules.safety.cooldown_s).saturating_mul(1000);
    // A time later than now dates from before the clock was set back.
    let since_ms = subject.ctx.now.since_ms(at).saturating_abs();
    let (value, limit) = (Amount::from_i64(since_ms), Amount::from_i64(limit_ms));
    CheckRow::compared(value, limit, "ms", SAFETY).unless(since_ms >= limit_ms, || {
        format!("stopped out at {at}; wait before entering again")
    })
}
