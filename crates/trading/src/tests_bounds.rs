//! Every numeric check at its limit, one unit below and one above, on both sides:
//! `tests/data/limits.txt`, one case per line. A failure names the line.

use std::collections::{BTreeMap, BTreeSet};

use super::book::{Last, Quote, RecentEntry};
use super::change::Change;
use super::order::{OrderRole, Position};
use super::requests::{Messages, Verdict};
use super::testing::*;
use super::{checks, order};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{OrderId, Principal, StrategyName};
use spoolgate_wire::orders::{OrderType, Side, SubmitOrder};

const CASES: &str = include_str!("../../../tests/data/limits.txt");

/// Checks with a yes-or-no answer; the tables in `tests.rs` and its sisters cover them.
const YES_OR_NO: [&str; 15] = [
    "clock",
    "rulebook",
    "duplicate_order",
    "instrument_allowed",
    "strategy_active",
    "thesis_valid",
    "arithmetic_range",
    "price_tick",
    "manual_halt",
    "dead_man",
    "venue_alive",
    "time_window",
    "self_cross",
    "symbol_halt",
    "cancel_ok",
];

/// Checks of working entries alone, which have no row for a new order.
const OF_WORKING: [&str; 1] = ["order_age"];

struct Case<'a> {
    check: &'a str,
    order: &'a str,
    key: &'a str,
    values: [&'a str; 3],
    passes: &'a str,
}

fn cases() -> Vec<Case<'static>> {
    let lines = CASES
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .map(|line| {
            let cells: Vec<&str> = line.split_whitespace().collect();
            let [check, order, key, below, at, above, passes] = cells.as_slice() else {
                panic!("{line}")
            };
            assert_eq!(passes.len(), 3, "{line}");
            Case {
                check,
                order,
                key,
                values: [*below, *at, *above],
                passes,
            }
        })
        .collect()
}

/// Returns the world and the order from which a case starts.
fn start(order: &str) -> (World, SubmitOrder) {
    let (name, price) = order
        .split_once('@')
        .map_or((order, None), |(name, price)| (name, Some(price)));
    let (mut world, mut order) = match name {
        "buy" => (World::new(), buy("0.01")),
        "sell" => (World::new(), sell("0.01")),
        "eth-buy" => (
            World::new(),
            market_order("trend", "ETH-USD", "buy", "0.1", "195", 0),
        ),
        "eth-sell" => (
            World::new(),
            market_order("trend", "ETH-USD", "sell", "0.1", "206", 0),
        ),
        "exit-sell" | "stop-sell" => (World::holding("0.01"), sell("0.01")),
        "exit-buy" | "stop-buy" => (World::holding("-0.01"), buy("0.01")),
        other => panic!("no order `{other}`"),
    };
    if let Some(price) = price {
        order = limit(order, price);
    }
    // Nothing else of that day is younger than the signature of an old exit.
    let long_ago = world.now.plus_ms(-1_000_000_000);
    world
        .book
        .positions
        .values_mut()
        .for_each(|held| held.increased_at = long_ago);
    world.rules.safety.max_volume_share = Some(a("0.1").try_into().unwrap());
    world
        .rules
        .instruments
        .values_mut()
        .for_each(|found| found.group = Some("coins".to_owned()));
    world
        .rules
        .strategies
        .values_mut()
        .for_each(|found| found.allocation = Some(Amount::ONE.try_into().unwrap()));
    let safety = &mut world.rules.safety;
    safety.executions_window_s = 3600.try_into().unwrap();
    safety.cooldown_s = 300.try_into().unwrap();
    volume(&mut world, "1000");
    (world, order)
}

fn volume(world: &mut World, volume: &str) {
    world
        .book
        .markets
        .get_mut(&btc())
        .unwrap()
        .last
        .as_mut()
        .unwrap()
        .volume = Some(a(volume));
}

fn whole(value: &str) -> i64 {
    value.parse().unwrap()
}

/// Sets a limit to the whole base, and sets the base.
fn base(world: &mut World, value: &str) -> Amount {
    world.rules.safety.max_total_capital = a(value).try_into().unwrap();
    Amount::ONE
}

fn earlier(world: &World, order: &SubmitOrder, source: &str, ago_ms: i64) -> RecentEntry {
    RecentEntry {
        at: world.now.plus_ms(-ago_ms),
        source: Principal::parse(source).unwrap(),
        strategy: order.strategy.clone(),
        symbol: order.symbol.clone(),
        side: order.side,
        order_type: order.order_type,
        size: a("1"),
        price: order.price,
    }
}

/// Sets bid, ask and last of ETH.
fn eth_market(world: &mut World, bid: &str, ask: &str, last: &str) {
    let time = world.now;
    let (last, quote) = (
        Last {
            price: a(last),
            volume: None,
            time,
        },
        Quote {
            bid: a(bid),
            ask: a(ask),
            time,
        },
    );
    world.apply(&[Change::MarketMoved {
        symbol: eth(),
        earlier: Vec::new(),
        last: Some(last),
        quote: Some(quote),
        reached: None,
    }]);
}

fn conduct(world: &mut World) -> &mut super::conduct::Conduct {
    world.book.conduct.entry(trend()).or_default()
}

/// Sets the one value that the case names.
#[expect(clippy::too_many_lines, reason = "one arm per value")]
fn put(world: &mut World, order: &mut SubmitOrder, key: &str, value: &str) {
    let safety = &mut world.rules.safety;
    let instrument = world.rules.instruments.get_mut(&btc()).unwrap();
    match key {
        "age_ms" => world.requested_at = Some(world.now.plus_ms(-whole(value))),
        "ahead_ms" => world.requested_at = Some(world.now.plus_ms(whole(value))),
        "size" => order.size = a(value),
        "price" => order.price = Some(a(value)),
        "target" => order.target_price = Some(a(value)),
        "stop" => (order.stop_price, order.planned_stop) = (Some(a(value)), a(value)),
        "min_size" => instrument.min_size = a(value).try_into().unwrap(),
        "max_size" => instrument.max_size = a(value).try_into().unwrap(),
        "min_notional" => instrument.min_notional = a(value).try_into().unwrap(),
        "max_order_value" => safety.max_order_value = a(value).try_into().unwrap(),
        "to_plan" => safety.slippage_to_plan = a(value).try_into().unwrap(),
        "daily_loss" => safety.max_daily_loss = a(value).try_into().unwrap(),
        "weekly_loss" => safety.max_weekly_loss = a(value).try_into().unwrap(),
        "trade_base" => {
            world.rules.safety.max_single_trade_risk = base(world, value).try_into().unwrap()
        }
        "position_base" => {
            world.rules.safety.max_single_position = base(world, value).try_into().unwrap()
        }
        "total_base" => {
            world.rules.safety.max_total_exposure = base(world, value).try_into().unwrap()
        }
        "direction_base" => {
            world.rules.safety.max_same_direction_exposure =
                Some(base(world, value).try_into().unwrap())
        }
        "group_base" => {
            world.rules.safety.max_correlated_group = Some(base(world, value).try_into().unwrap())
        }
        "portfolio_base" => {
            world.rules.safety.max_portfolio_risk = base(world, value).try_into().unwrap()
        }
        "turnover_base" => {
            world.rules.safety.max_daily_turnover = base(world, value).try_into().unwrap()
        }
        "turned_over" => {
            world.rules.safety.max_daily_turnover = base(world, "1000").try_into().unwrap();
            world.book.account.turnover = a(value);
        }
        "rejects" => conduct(world).rejects = u32::try_from(whole(value)).unwrap(),
        "allocation_base" => drop(base(world, value)),
        "data_age_ms" => world.wait(whole(value)),
        "ask_over_399" => eth_market(world, "399", value, "400"),
        "last_under_202" => eth_market(world, "202", "202", value),
        "last_over_198" => eth_market(world, "198", "198", value),
        "cash" => world.book.account.cash = a(value),
        "volume" => volume(world, value),
        "lost_today" | "lost_this_week" => {
            let account = &mut world.book.account;
            let period = if key == "lost_today" {
                &mut account.day
            } else {
                &mut account.week
            };
            let begun = period.as_mut().unwrap();
            begun.equity = begun.equity.checked_add(a(value)).unwrap();
        }
        "left_of_4000" => {
            world.book.account.cash = a(value);
            world.book.account.peak_equity = Some(a("4000"));
        }
        "losing" => {
            safety.max_losing_trades = 3.try_into().unwrap();
            conduct(world).losing = u32::try_from(whole(value)).unwrap();
        }
        "executions" => {
            safety.max_executions = 3.try_into().unwrap();
            let now = world.now;
            conduct(world)
                .executions
                .extend((0..whole(value)).map(|_| now));
        }
        "executed_ago_ms" => {
            safety.max_executions = 1.try_into().unwrap();
            let at = world.now.plus_ms(-whole(value));
            conduct(world).executions.push_back(at);
        }
        "stopped_ago_ms" => {
            let at = world.now.plus_ms(-whole(value));
            conduct(world).stopped_out_at = Some(at);
        }
        "own_entries" | "entries_of_all" => {
            let source = if key == "own_entries" { "alice" } else { "bob" };
            let of_all = key == "entries_of_all";
            (
                safety.max_entries_per_minute,
                safety.max_entries_per_minute_all,
            ) = if of_all { (1000, 3) } else { (3, 1000) };
            for _ in 0..whole(value) {
                let entry = earlier(world, order, source, 0);
                world.book.recent_entries.push_back(entry);
            }
        }
        "own_messages" | "messages_of_all" => {
            safety.max_messages_per_minute = 3.try_into().unwrap();
            safety.max_messages_per_minute_all = 5.try_into().unwrap();
            let count = u32::try_from(whole(value)).unwrap();
            let own = if key == "own_messages" { count } else { 1 };
            world.messages = Messages {
                own,
                all: count,
                protected: 0,
            };
        }
        "entries_ago_ms" => {
            safety.max_entries_per_minute = 1;
            let entry = earlier(world, order, "alice", whole(value));
            world.book.recent_entries.push_back(entry);
        }
        "open_positions" | "open_orders" => {
            (safety.max_open_positions, safety.max_open_orders) = (3, 3);
            open(world, key == "open_positions", whole(value));
        }
        other => panic!("nothing is called `{other}`"),
    }
}

/// Opens this many positions, or orders, of other agents, worth next to nothing.
fn open(world: &mut World, are_positions: bool, count: i64) {
    for n in 0..count {
        let strategy = StrategyName::parse(&format!("s{n}")).unwrap();
        let id = OrderId::of_line(900 + u64::try_from(n).unwrap());
        if are_positions {
            let (symbol, size, cost, result) =
                (btc(), a("0.0000000001"), Amount::ZERO, Amount::ZERO);
            let (increased_at, theses) = (world.now, BTreeSet::new());
            let held = Position {
                strategy,
                symbol,
                size,
                cost,
                result,
                increased_at,
                theses,
                held_at: None,
                dropped: None,
                unfilled_at: None,
            };
            world
                .book
                .positions
                .insert((btc(), held.strategy.clone()), held);
        } else {
            let resting = order::Order {
                order_id: id,
                source: Principal::parse("bob").unwrap(),
                strategy,
                symbol: eth(),
                side: Side::Buy,
                role: OrderRole::Exit,
                order_type: OrderType::Market,
                size: a("1"),
                filled: Amount::ZERO,
                price: None,
                trigger: None,
                triggered: false,
                thesis_slug: None,
                accepted_at: world.now,
                time_in_force: Default::default(),
                at_venue: None,
                key_id: None,
            };
            world.book.orders.insert(id, resting);
        }
    }
}

fn decide(case: &Case<'_>, value: &str) -> Verdict {
    let (mut world, mut order) = start(case.order);
    if case.order.starts_with("stop-") {
        assert_eq!(case.key, "new_stop");
        return world.tighten(OrderId::of_line(1), value);
    }
    put(&mut world, &mut order, case.key, value);
    world.ask(&order)
}

#[test]
fn every_case_of_the_table() {
    let cases = cases();
    assert!(cases.len() > 90, "{}", cases.len());
    for case in &cases {
        for (value, passes) in case.values.iter().zip(case.passes.chars()) {
            let found = row(&decide(case, value), case.check);
            let name = format!("{} {} {} {value}", case.check, case.order, case.key);
            assert_eq!(found.passed, passes == 'y', "{name}: {found:?}");
            assert!(
                found.value.is_some() && found.limit.is_some(),
                "{name}: {found:?}"
            );
            assert_ne!(found.unit, "bool", "{name}");
            // A refusal gives a reason.
            assert!(passes == 'y' || found.reason.is_some(), "{name}");
        }
        assert!(
            case.passes.contains('y') && case.passes.contains('n'),
            "{} never changes",
            case.check
        );
    }
}

#[test]
fn every_numeric_check_is_in_the_table_on_both_sides() {
    let mut sides: BTreeMap<&str, BTreeSet<bool>> = BTreeMap::new();
    for case in cases() {
        sides
            .entry(case.check)
            .or_default()
            .insert(case.order.contains("buy"));
    }
    for check in checks::names() {
        let is_numeric = !YES_OR_NO.contains(&check) && !OF_WORKING.contains(&check);
        let in_table = sides.get(check).map_or(0, BTreeSet::len);
        assert_eq!(
            in_table,
            if is_numeric { 2 } else { 0 },
            "{check}: tests/data/limits.txt needs both sides of it"
        );
    }
    // A check listed as yes-or-no returns nothing else, for any order.
    let mut rows = Vec::new();
    for order in ["buy", "sell", "exit-sell", "exit-buy", "eth-buy"] {
        let (mut world, order) = start(order);
        rows.extend(world.ask(&order).checks);
        world.book.markets.clear();
        rows.extend(world.ask(&order).checks);
    }
    let (mut world, _) = start("stop-sell");
    rows.extend(world.cancel(OrderId::of_line(1)).checks);
    for row in rows {
        assert!(
            !YES_OR_NO.contains(&row.name.as_ref()) || row.unit == "bool",
            "{row:?}"
        );
    }
}
