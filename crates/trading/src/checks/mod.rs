//! The checks: one small function each, in one list in the order of the table in docs/trading.md.
//! Every check that applies runs, so that the vector is complete; the first failed one names the
//! rejection.

mod activity;
mod around;
mod crossing;
mod freshness;
mod funds;
mod halts;
mod identity;
mod limits;
mod market;
mod order;
mod stops;
mod subject;
mod targets;

pub(super) use activity::recent_entries;
pub(super) use crossing::crossed_entries;
pub(crate) use halts::{left_to_lose, week_left};
pub(crate) use identity::{Seen, ThesisUse, thesis_fault};
pub use subject::{Kind, OrderFacts, Subject};

use std::borrow::Cow;

use crate::lack::NO_EQUITY;
use spoolgate_wire::checks::CheckRow;
use spoolgate_wire::ids::StrategyName;

/// Source of limits in `rules/safety.yaml`.
const SAFETY: &str = "safety.yaml";
/// Source of filters and fees.
const INSTRUMENTS: &str = "instruments.yaml";
/// Source of values that belong to principals.
const PRINCIPALS: &str = "principals.yaml";
/// Source of values from the book or the gate.
const STATE: &str = "state";
/// Source of values from control decisions.
const CONTROL: &str = "control";
/// Source of limits in `rules/safety.yaml` in risk mode `reduced`.
const SAFETY_REDUCED: &str = "safety.yaml (reduced)";
/// Source of filters in risk mode `reduced`.
const INSTRUMENTS_REDUCED: &str = "instruments.yaml (reduced)";
/// Source of values from the wire contract.
const CONTRACT: &str = "contract";

/// Returns the file of a strategy, as the source of its values.
fn strategy_file(name: &StrategyName) -> String {
    ["strategies/", name.as_str(), ".yaml"].concat()
}

/// Which arguments a check takes.
#[derive(Clone, Copy)]
enum Run {
    /// Applies to any request.
    Any(fn(&Subject) -> CheckRow),
    /// Applies to orders only.
    Order(fn(&Subject, &OrderFacts) -> CheckRow),
    /// Applies to orders; no row if no limit is set or the order lacks the optional field.
    Set(fn(&Subject, &OrderFacts) -> Option<CheckRow>),
}

/// What the outcome of a check depends on when working entries are asked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It is asked only when the order is submitted.
    Once,
    /// The account, its rules and the clock.
    Account,
    /// The sender, the strategy, the symbol and the side.
    Leg,
    /// The thesis.
    Thesis,
    /// The entry itself.
    Order,
    /// A sum that the entry is a part of: see [`crate::guard`].
    Sum,
}

/// One row of the table.
struct Check {
    /// Its name in answers.
    name: &'static str,
    /// The kinds of request that it refuses.
    blocks: &'static [Kind],
    /// The kinds for which it only warns and never refuses.
    warns: &'static [Kind],
    /// Whether its outcome depends on the size of the order.
    by_size: bool,
    /// Whether working entries are asked again by it, and about what.
    standing: Standing,
    /// The function that runs the check.
    run: Run,
}

use Kind::{Cancel, Entry, Exit, Flip, Tighten};

const ALL: &[Kind] = &[Entry, Exit, Flip, Cancel, Tighten];
const ENTRIES: &[Kind] = &[Entry];
const EXITS: &[Kind] = &[Exit, Flip];
const ORDERS: &[Kind] = &[Entry, Exit, Flip];
const PRICED: &[Kind] = &[Entry, Exit, Flip, Tighten];
const SAFER: &[Kind] = &[Exit, Cancel, Tighten];
const NONE: &[Kind] = &[];

const fn any(name: &'static str, blocks: &'static [Kind], run: fn(&Subject) -> CheckRow) -> Check {
    Check {
        name,
        blocks,
        warns: NONE,
        by_size: false,
        standing: Standing::Once,
        run: Run::Any(run),
    }
}

const fn entry(name: &'static str, run: fn(&Subject, &OrderFacts) -> CheckRow) -> Check {
    Check {
        name,
        blocks: ENTRIES,
        warns: NONE,
        by_size: false,
        standing: Standing::Once,
        run: Run::Order(run),
    }
}

/// A check of an entry that has a row only where its limit is set.
const fn where_set(
    name: &'static str,
    run: fn(&Subject, &OrderFacts) -> Option<CheckRow>,
) -> Check {
    Check {
        name,
        blocks: ENTRIES,
        warns: NONE,
        by_size: false,
        standing: Standing::Once,
        run: Run::Set(run),
    }
}

/// A check of an entry that is only a warning for exits.
const fn entry_warns(name: &'static str, run: fn(&Subject, &OrderFacts) -> CheckRow) -> Check {
    Check {
        name,
        blocks: ENTRIES,
        warns: EXITS,
        by_size: false,
        standing: Standing::Once,
        run: Run::Order(run),
    }
}

/// A check of an optional field of an entry; no row if the field is absent.
const fn entry_given(
    name: &'static str,
    run: fn(&Subject, &OrderFacts) -> Option<CheckRow>,
) -> Check {
    Check {
        name,
        blocks: ENTRIES,
        warns: EXITS,
        by_size: false,
        standing: Standing::Once,
        run: Run::Set(run),
    }
}

const fn sized(check: Check) -> Check {
    Check {
        by_size: true,
        ..check
    }
}

const fn standing(standing: Standing, check: Check) -> Check {
    Check { standing, ..check }
}

const fn blocks(check: Check, blocks: &'static [Kind]) -> Check {
    Check { blocks, ..check }
}

/// The table of checks. Only the rows whose `blocks` contains exits, cancels or tightens can refuse
/// them (docs/trading.md, "the protected lane").
const CHECKS: &[Check] = &[
    any("request_freshness", ALL, freshness::request_freshness),
    standing(Standing::Account, entry("clock", halts::clock)),
    standing(Standing::Account, entry("rulebook", halts::rulebook)),
    entry("duplicate_order", identity::duplicate_order),
    standing(
        Standing::Leg,
        entry_warns("instrument_allowed", identity::instrument_allowed),
    ),
    standing(
        Standing::Leg,
        any("strategy_active", ALL, identity::strategy_active),
    ),
    standing(
        Standing::Thesis,
        entry("thesis_valid", identity::thesis_valid),
    ),
    sized(entry_warns("arithmetic_range", order::arithmetic_range)),
    any("price_tick", PRICED, order::price_tick),
    sized(blocks(entry("size_lot", order::size_lot), ORDERS)),
    sized(entry("min_notional", order::min_notional)),
    sized(entry("max_order_value", order::max_order_value)),
    sized(entry("max_order_size", order::max_order_size)),
    entry("stop_required", stops::stop_required),
    sized(entry("stop_hostable", stops::stop_hostable)),
    entry("stop_distance", stops::stop_distance),
    entry_given("target_valid", stops::target_valid),
    entry_warns("price_collar", market::price_collar),
    entry("slippage_to_plan", market::slippage_to_plan),
    entry_warns("market_data", market::market_data),
    standing(
        Standing::Sum,
        sized(entry(
            "max_single_trade_risk",
            limits::max_single_trade_risk,
        )),
    ),
    standing(
        Standing::Sum,
        sized(entry("max_single_position", limits::max_single_position)),
    ),
    standing(
        Standing::Sum,
        sized(entry("max_total_exposure", limits::max_total_exposure)),
    ),
    standing(
        Standing::Sum,
        sized(entry(
            "same_direction_exposure",
            limits::same_direction_exposure,
        )),
    ),
    standing(
        Standing::Sum,
        sized(where_set("correlated_group", limits::correlated_group)),
    ),
    standing(
        Standing::Sum,
        sized(where_set(
            "strategy_allocation",
            limits::strategy_allocation,
        )),
    ),
    standing(
        Standing::Sum,
        sized(entry("max_portfolio_risk", limits::max_portfolio_risk)),
    ),
    standing(
        Standing::Sum,
        sized(entry("loss_budget", limits::loss_budget)),
    ),
    standing(
        Standing::Sum,
        sized(entry("gap_budget", limits::gap_budget)),
    ),
    standing(
        Standing::Sum,
        sized(entry("daily_turnover", limits::daily_turnover)),
    ),
    standing(
        Standing::Account,
        entry_warns("daily_loss_halt", halts::daily_loss_halt),
    ),
    standing(
        Standing::Account,
        entry_warns("weekly_loss_halt", halts::weekly_loss_halt),
    ),
    standing(
        Standing::Account,
        entry_warns("drawdown_halt", halts::drawdown_halt),
    ),
    standing(
        Standing::Leg,
        entry_warns("manual_halt", halts::manual_halt),
    ),
    standing(Standing::Leg, entry("dead_man", halts::dead_man)),
    standing(Standing::Leg, where_set("venue_alive", halts::venue_alive)),
    standing(
        Standing::Sum,
        entry("max_open_positions", activity::max_open_positions),
    ),
    standing(
        Standing::Sum,
        entry("max_open_orders", activity::max_open_orders),
    ),
    standing(
        Standing::Sum,
        sized(entry("buying_power", funds::buying_power)),
    ),
    sized(where_set(
        "liquidity_participation",
        funds::liquidity_participation,
    )),
    standing(Standing::Leg, entry("time_window", halts::time_window)),
    entry("order_rate", activity::order_rate),
    Check {
        warns: SAFER,
        ..any("message_rate", &[Entry, Flip], activity::message_rate)
    },
    standing(
        Standing::Leg,
        entry("repeated_execution", activity::repeated_execution),
    ),
    standing(Standing::Leg, entry("loss_streak", activity::loss_streak)),
    standing(
        Standing::Leg,
        entry("reject_streak", activity::reject_streak),
    ),
    standing(Standing::Leg, entry("cooldown", activity::cooldown)),
    standing(Standing::Order, where_set("order_age", activity::order_age)),
    entry_warns("self_cross", crossing::self_cross),
    standing(
        Standing::Leg,
        entry_warns("symbol_halt", halts::symbol_halt),
    ),
    sized(blocks(entry("reduce_only", order::reduce_only), EXITS)),
    any("cancel_ok", &[Cancel], targets::cancel_ok),
    any("tighten_ok", &[Tighten], targets::tighten_ok),
];

/// Checks whose rows warn of an entry that comes near their limits.
const WARNED: [&str; 14] = [
    "max_single_position",
    "max_total_exposure",
    "same_direction_exposure",
    "correlated_group",
    "strategy_allocation",
    "max_portfolio_risk",
    "loss_budget",
    "gap_budget",
    "daily_turnover",
    "daily_loss_halt",
    "weekly_loss_halt",
    "drawdown_halt",
    "max_open_positions",
    "max_open_orders",
];

/// Runs every check that applies to the subject.
pub fn run(subject: &Subject) -> Vec<CheckRow> {
    let mut rows = Vec::with_capacity(CHECKS.len());
    rows.extend(CHECKS.iter().filter_map(|check| row(check, subject)));
    keep_roots(&mut rows, subject);
    rows
}

/// Keeps `follows_from` only where the named check failed, too. If equity is unknown although the
/// prices of the order's own symbol are fresh, each row that lacks it names the position without a
/// fresh price.
fn keep_roots(rows: &mut [CheckRow], subject: &Subject) {
    let roots = rows.iter().filter(|row| row.is_root());
    let roots: Vec<Cow<'static, str>> = roots.map(|row| row.name.clone()).collect();
    for row in rows {
        let Some(root) = &row.follows_from else {
            continue;
        };
        if row.passed || !roots.contains(root) {
            row.follows_from = None;
            if !row.passed && row.reason.as_deref() == Some(NO_EQUITY.reason) {
                row.reason = unpriced(subject).map(Cow::Owned).or(row.reason.take());
            }
        }
    }
}

/// Says which position cannot be valued, and how old its newest price is.
fn unpriced(subject: &Subject) -> Option<String> {
    let held = subject.book.positions.values().find(|held| {
        let instrument = subject.rules.instruments.get(&held.symbol);
        let mark = instrument.and_then(|it| {
            subject
                .book
                .fresh_mark(it, false, subject.rules, subject.ctx.now)
        });
        mark.is_none()
    })?;
    let symbol = &held.symbol;
    let instrument = subject.rules.instruments.get(symbol)?;
    let seen = subject.book.two_sided(instrument);
    let what = seen.map_or_else(
        || format!("no price of `{symbol}` is known"),
        |seen| market::age(symbol, instrument, subject, &seen),
    );
    Some(format!("equity is unknown: {what}"))
}

/// Returns the names of all checks, in order.
pub fn names() -> impl Iterator<Item = &'static str> {
    CHECKS.iter().map(|check| check.name)
}

/// Runs the check of this name, whether or not it blocks this kind of request; `None` if the check
/// has no row.
pub fn found(name: &str, subject: &Subject) -> Option<CheckRow> {
    let check = CHECKS.iter().find(|check| check.name == name)?;
    row_of(check, subject)
}

/// Returns the name of the first check that refuses, without building rows.
pub fn refusal(subject: &Subject) -> Option<&'static str> {
    CHECKS
        .iter()
        .find(|check| refuses(check, subject))
        .map(|check| check.name)
}

/// Like [`refusal`], but only for checks whose outcome depends on the size, without `except`.
pub fn refusal_by_size(subject: &Subject, except: &[&str]) -> Option<&'static str> {
    let mut sized = CHECKS
        .iter()
        .filter(|check| check.by_size && !except.contains(&check.name));
    sized
        .find(|check| refuses(check, subject))
        .map(|check| check.name)
}

/// Whether the outcome of this check depends on the size of the order.
pub fn is_by_size(name: &str) -> bool {
    CHECKS
        .iter()
        .any(|check| check.name == name && check.by_size)
}

/// Returns the row of the first check of this scope that closes a working entry. A check that cannot
/// be computed, for lack of a price, closes nothing that was accepted.
pub(crate) fn closed(subject: &Subject, scope: Standing) -> Option<CheckRow> {
    let mut checks = CHECKS.iter().filter(|check| check.standing == scope);
    checks.find_map(|check| row_of(check, subject).filter(|row| !row.passed && row.value.is_some()))
}

/// Returns the checks of sums, in the order of the table.
pub(crate) fn sums() -> impl Iterator<Item = &'static str> {
    let checks = CHECKS.iter();
    let sums = checks.filter(|check| check.standing == Standing::Sum);
    sums.map(|check| check.name)
}

/// Returns the name of the first check that failed by itself, and not because another did.
pub fn first_failed(rows: &[CheckRow]) -> Option<&str> {
    let root = rows.iter().find(|row| row.is_root());
    root.map(|row| &*row.name)
}

fn row(check: &Check, subject: &Subject) -> Option<CheckRow> {
    let is_blocking = check.blocks.contains(&subject.kind);
    if !is_blocking && !check.warns.contains(&subject.kind) {
        return None;
    }
    let row = row_of(check, subject)?;
    let is_warned = subject.kind == Entry && WARNED.contains(&check.name);
    Some(if is_warned {
        row.warned(*subject.rules.safety.warn_at)
    } else if is_blocking {
        row
    } else {
        row.lifted("exempt")
    })
}

fn refuses(check: &Check, subject: &Subject) -> bool {
    check.blocks.contains(&subject.kind) && row_of(check, subject).is_some_and(|row| !row.passed)
}

/// Runs the check; `None` if it has no row.
fn row_of(check: &Check, subject: &Subject) -> Option<CheckRow> {
    let row = match (check.run, &subject.order) {
        (Run::Any(run), _) => run(subject),
        (Run::Order(run), Some(order)) => run(subject, order),
        (Run::Set(run), Some(order)) => run(subject, order)?,
        (Run::Order(_) | Run::Set(_), None) => {
            CheckRow::unknown("bool", CONTRACT, "there is no order to check")
        }
    };
    Some(row.named(check.name))
}

#[cfg(test)]
mod table {
    use super::names;

    #[test]
    fn the_table_in_the_docs_has_every_check_in_this_order() {
        let docs = include_str!("../../../../docs/trading.md");
        let table = docs.split("## Checks\n").nth(1).unwrap();
        let first_cells = table
            .lines()
            .filter(|line| line.starts_with("| `"))
            .map(|line| line.split('|').nth(1).unwrap());
        let told: Vec<&str> = first_cells
            .flat_map(|cell| cell.split('`').skip(1).step_by(2))
            .collect();
        let mut rest = told.iter();
        for name in names() {
            assert!(
                rest.any(|told| *told == name),
                "docs/trading.md lacks `{name}`, or has it elsewhere"
            );
        }
    }
}
