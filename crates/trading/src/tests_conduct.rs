//! Limits on orders that come too often, too soon, at the wrong time, or against the sender's own;
//! exits feel none of them.

use super::book::Book;
use super::change::Change;
use super::order::{OrderEnd, OrderRole};
use super::testing::*;
use crate::market_row::Row;
use spoolgate_rules::hours::Window;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{OrderId, Principal, StrategyName};
use spoolgate_wire::orders::SubmitOrder;
use spoolgate_wire::time::Time;

/// An entry of `trend` with another thesis than the entry before.
fn nth(side: &str, nth: u8) -> SubmitOrder {
    let stop = if side == "buy" { "6700" } else { "6900" };
    market_order("trend", "BTC-USD", side, "0.01", stop, nth % 4)
}

fn resting(order: SubmitOrder, price: &str) -> SubmitOrder {
    limit(order, price)
}

#[test]
fn entries_of_a_minute_are_counted_by_agent_and_over_all() {
    for (own_max, all_max, others, passes) in [
        (2, 9, 0, false),
        (3, 9, 0, true),
        (4, 9, 0, true),
        (9, 2, 0, false),
        (9, 3, 0, true),
        (3, 4, 2, false),
        (3, 5, 2, true),
    ] {
        let mut world = World::new();
        for (nth_order, price) in ["6790", "6791"].into_iter().enumerate() {
            let nth_order = u8::try_from(nth_order).unwrap();
            world.accepted(&resting(nth("buy", nth_order), price));
        }
        world.source = Principal::parse("bob").unwrap();
        for thesis in 0..others {
            let order = market_order("other", "BTC-USD", "buy", "0.01", "6700", thesis);
            world.accepted(&resting(order, if thesis == 0 { "6780" } else { "6781" }));
        }
        world.source = Principal::parse("alice").unwrap();
        world.rules.safety.max_entries_per_minute = own_max;
        world.rules.safety.max_entries_per_minute_all = all_max;
        let order = nth("buy", 2);
        assert_eq!(
            world.row_of(&order, "order_rate").passed,
            passes,
            "{own_max} {all_max} {others}"
        );
        // A minute later none of them counts; a millisecond earlier all do.
        world.wait(59_999);
        assert_eq!(world.row_of(&order, "order_rate").passed, passes);
        world.wait(1);
        let row = world.row_of(&order, "order_rate");
        assert_eq!((row.passed, row.value), (true, Some(Amount::ONE)));
    }
    let mut world = World::new();
    world.rules.safety.max_entries_per_minute = 0;
    assert_eq!(world.refused(&buy("0.01")), ["order_rate"]);
}

#[test]
fn a_strategy_that_executes_too_often_is_closed_until_a_person_clears_it() {
    let hour_ms = 3_600_000;
    for (most, closed) in [(1, true), (2, true), (3, false)] {
        let mut world = World::new();
        world.rules.safety.max_executions = most.try_into().unwrap();
        world.accepted(&resting(nth("buy", 0), "6790"));
        world.accepted(&resting(nth("buy", 1), "6789"));
        // Both fill in parts; the parts of one entry count as one execution.
        let mut changes = Vec::new();
        for _ in 0..4 {
            changes.extend(world.bar_of("6700.1", "6700.1", "6700.1", "6700.1", Some("0.06")));
        }
        assert_eq!(world.position(), a("0.02"));
        let entered = |change: &&Change| {
            matches!(change,
            Change::OrderFilled(fill) if fill.role == OrderRole::Entry)
        };
        assert!(changes.iter().filter(entered).count() > 2, "in parts");
        assert_eq!(world.book.conduct[&trend()].executions.len(), 2);
        let latches = changes
            .iter()
            .filter(|change| matches!(change, Change::StrategyDisabled { .. }))
            .count();
        assert_eq!(latches, usize::from(closed), "{most}");
        let order = nth("buy", 2);
        assert_eq!(
            world.row_of(&order, "repeated_execution").passed,
            !closed,
            "{most}"
        );
        let mean = market_order("mean", "BTC-USD", "buy", "0.01", "6600", 0);
        assert!(world.row_of(&mean, "repeated_execution").passed);
        // Neither time nor a restart reopens it.
        world.wait(2 * hour_ms);
        let kept = serde_json::to_string(&world.book).unwrap();
        world.book = serde_json::from_str::<Book>(&kept).unwrap();
        let row = world.row_of(&order, "repeated_execution");
        assert_eq!(
            (row.passed, row.value),
            (!closed, Some(Amount::ZERO)),
            "{most}"
        );
        assert!(world.ask(&sell("0.02")).accepted);
        world.apply(&[Change::StrategyCleared { strategy: trend() }]);
        assert!(world.row_of(&order, "repeated_execution").passed);
    }
}

#[test]
fn executions_count_within_their_window() {
    let mut world = World::new();
    world.accepted(&buy("0.01"));
    world.flat("6800");
    let at = world.book.conduct[&trend()].executions[0];
    world.rules.safety.max_executions = 1.try_into().unwrap();
    for (since_ms, passes) in [(3_599_999, false), (3_600_000, true), (3_600_001, true)] {
        world.now = at.plus_ms(since_ms);
        assert_eq!(
            world.row_of(&nth("buy", 1), "repeated_execution").passed,
            passes,
            "{since_ms}"
        );
    }
}

/// Buys at about 6800 and sells at the given prices in turn, in equal parts.
fn trade(world: &mut World, exits: &[&str]) {
    let thesis = u8::try_from(world.seq % 4).unwrap();
    world.wait(31_000);
    world.flat("6800");
    world.accepted(&nth("buy", thesis));
    world.flat("6800");
    for (done, price) in exits.iter().enumerate() {
        let left = exits.len() - done;
        let size = if left == 1 {
            world.position()
        } else {
            a("0.005")
        };
        world.accepted(&sell(&size.to_string()));
        world.flat(price);
    }
    assert_eq!(world.position(), Amount::ZERO);
}

#[test]
fn losing_trades_in_a_row_are_counted_from_flat_to_flat_with_fees() {
    let mut world = World::new();
    let losing = |world: &World| world.book.conduct[&trend()].losing;
    trade(&mut world, &["6790"]);
    assert_eq!(losing(&world), 1);
    // A round trip at the same price: fees and slippage lose.
    trade(&mut world, &["6800"]);
    assert_eq!(losing(&world), 2);
    // A losing part in a winning trade.
    trade(&mut world, &["6790", "7200"]);
    assert_eq!(losing(&world), 0);
    // A winning part in a losing trade.
    trade(&mut world, &["6850", "6710"]);
    trade(&mut world, &["6750"]);
    assert_eq!(losing(&world), 2);
    for (most, passes) in [(1, false), (2, false), (3, true)] {
        world.rules.safety.max_losing_trades = most.try_into().unwrap();
        let row = world.row_of(&nth("buy", 0), "loss_streak");
        assert_eq!((row.passed, row.value), (passes, Some(a("2"))), "{most}");
        assert_eq!(row.unit, "count");
        let mean = market_order("mean", "BTC-USD", "sell", "0.01", "6900", 0);
        assert!(world.row_of(&mean, "loss_streak").passed);
    }
    world.rules.safety.max_losing_trades = 2.try_into().unwrap();
    world.apply(&[Change::StrategyCleared { strategy: trend() }]);
    assert!(world.row_of(&nth("buy", 0), "loss_streak").passed);
    // A round trip without slippage: the fees lose; without fees a trade that breaks even does not
    // count as a loss.
    for found in world.rules.instruments.values_mut() {
        (found.half_spread, found.slippage) = (
            spoolgate_rules::bounds::Slippage::least(),
            spoolgate_rules::bounds::Slippage::least(),
        );
    }
    trade(&mut world, &["6800"]);
    assert_eq!(losing(&world), 1);
    world
        .rules
        .instruments
        .values_mut()
        .for_each(|found| found.taker_fee = Amount::ZERO.try_into().unwrap());
    trade(&mut world, &["6800"]);
    assert_eq!(losing(&world), 0);
}

#[test]
fn a_stop_out_cools_its_strategy_down() {
    for (side, through) in [("buy", "6690"), ("sell", "6910")] {
        let mut world = World::new();
        world.accepted(&nth(side, 0));
        world.flat("6800");
        world.flat(through);
        assert_eq!(world.position(), Amount::ZERO);
        let stopped_at = world.book.conduct[&trend()].stopped_out_at.unwrap();
        world.rules.safety.cooldown_s = 300.try_into().unwrap();
        let order = nth(side, 1);
        for (since_ms, passes) in [
            (0, false),
            (299_999, false),
            (300_000, true),
            (300_001, true),
        ] {
            world.now = stopped_at.plus_ms(since_ms);
            let row = world.row_of(&order, "cooldown");
            assert_eq!(
                (row.passed, row.value),
                (passes, Some(Amount::from_i64(since_ms)))
            );
        }
        world.now = stopped_at;
        let mean = market_order("mean", "BTC-USD", side, "0.01", "6700", 0);
        assert!(world.row_of(&mean, "cooldown").passed);
        // Clearing the streak does not shorten the cooldown.
        world.apply(&[Change::StrategyCleared { strategy: trend() }]);
        assert!(!world.row_of(&order, "cooldown").passed);
    }
    // An exit that the agent sends is not a stop-out.
    let mut world = World::holding("0.01");
    world.rules.safety.cooldown_s = 300.try_into().unwrap();
    world.accepted(&sell("0.01"));
    world.flat("6700.1");
    assert_eq!(world.position(), Amount::ZERO);
    assert!(world.row_of(&nth("buy", 1), "cooldown").passed);
}

#[test]
fn an_entry_does_not_trade_with_the_own_resting_order() {
    // Ask 6803.4, bid 6796.6; worst entries 6810.2034 and 6789.8034.
    let at_market = |side| {
        market_order(
            "mean",
            "BTC-USD",
            side,
            "0.01",
            if side == "buy" { "6700" } else { "6900" },
            0,
        )
    };
    for (own, order, passes) in [
        (("sell", "6810.2"), at_market("buy"), false),
        (("sell", "6810.3"), at_market("buy"), true),
        (("buy", "6789.9"), at_market("sell"), false),
        (("buy", "6789.8"), at_market("sell"), true),
        (("sell", "6850"), resting(at_market("buy"), "6849.9"), true),
        (("sell", "6850"), resting(at_market("buy"), "6850"), false),
        (("sell", "6850"), resting(at_market("buy"), "6850.1"), false),
        (("buy", "6750"), resting(at_market("sell"), "6750.1"), true),
        (("buy", "6750"), resting(at_market("sell"), "6750"), false),
        (("buy", "6750"), resting(at_market("sell"), "6749.9"), false),
        // Stops from 6830 up to 6836.83, and from 6770 down to 6763.23.
        (("sell", "6829.9"), stop(at_market("buy"), "6830"), true),
        (("sell", "6830"), stop(at_market("buy"), "6830"), false),
        (("sell", "6836.8"), stop(at_market("buy"), "6830"), false),
        (("sell", "6836.9"), stop(at_market("buy"), "6830"), true),
        (("buy", "6770.1"), stop(at_market("sell"), "6770"), true),
        (("buy", "6770"), stop(at_market("sell"), "6770"), false),
        (("buy", "6763.3"), stop(at_market("sell"), "6770"), false),
        (("buy", "6763.2"), stop(at_market("sell"), "6770"), true),
        // The same side never crosses.
        (("buy", "6790"), at_market("buy"), true),
    ] {
        let mut world = World::new();
        let id = world.accepted(&resting(nth(own.0, 0), own.1));
        let row = world.row_of(&order, "self_cross");
        assert_eq!(row.passed, passes, "{own:?} {order:?}");
        if !passes {
            assert!(row.reason.unwrap().contains(&id.to_string()));
        }
        // The order of another agent may be traded with, and so may an order in another symbol.
        world.source = Principal::parse("bob").unwrap();
        let mut others = order.clone();
        others.strategy = StrategyName::parse("other").unwrap();
        assert!(world.row_of(&others, "self_cross").passed);
    }
    // A resting exit counts as well.
    let mut world = World::holding("0.01");
    world.accepted(&resting(sell("0.01"), "6805"));
    assert!(!world.row_of(&at_market("buy"), "self_cross").passed);
}

#[test]
fn an_exit_takes_the_own_resting_entry_away_instead() {
    let mut world = World::holding("0.01");
    let reached = world.accepted(&resting(nth("buy", 1), "6795"));
    let below = world.accepted(&resting(
        market_order("mean", "BTC-USD", "buy", "0.01", "6700", 1),
        "6780",
    ));
    let exit = sell("0.01");
    let verdict = world.ask(&exit);
    let row = row(&verdict, "self_cross");
    assert!(row.passed && row.reason.unwrap().starts_with("exempt: "));
    let closed = |id: OrderId, end: OrderEnd| {
        matches!(&verdict.changes[..],
        changes if changes.iter().any(|change| matches!(change, Change::OrderClosed { order_id,
        end: how, .. } if *order_id == id && *how == end)))
    };
    assert!(closed(reached, OrderEnd::Cancelled) && closed(reached.stop(), OrderEnd::Retired));
    assert_eq!(verdict.changes.len(), 3);
    assert!(
        matches!(verdict.changes.last(), Some(Change::OrderPlaced(order)) if order.role
            == OrderRole::Exit)
    );
    world.apply(&verdict.changes);
    assert!(world.book.orders.contains_key(&below) && !world.book.orders.contains_key(&reached));
    // If the market is unknown, every order resting on the other side could be met.
    let mut world = World::holding("0.01");
    let resting_entry = world.accepted(&resting(nth("buy", 1), "6790"));
    world.book.markets.clear();
    let exit = world.accepted(&sell("0.01"));
    assert!(
        !world.book.orders.contains_key(&resting_entry) && world.book.orders.contains_key(&exit)
    );
    // An exit that rests far away touches nothing, and a resting exit of another strategy stays.
    let mut world = World::holding("0.01");
    let resting_entry = world.accepted(&resting(nth("buy", 1), "6790"));
    world.accepted(&resting(sell("0.01"), "7000"));
    assert!(world.book.orders.contains_key(&resting_entry));
}

#[test]
fn nothing_is_entered_in_a_restricted_window() {
    let window = |text: &str| vec![serde_yaml::from_str::<Window>(text).unwrap()];
    let noon = Time::parse(NOON).unwrap();
    for order in [buy("0.01"), sell("0.01")] {
        for (text, since_ms, passes) in [
            ("{from: 12:10, to: 12:20}", 599_999, true),
            ("{from: 12:10, to: 12:20}", 600_000, false),
            ("{from: 12:10, to: 12:20}", 1_199_999, false),
            ("{from: 12:10, to: 12:20}", 1_200_000, true),
            ("{from: 23:00, to: 12:10}", 599_999, false),
            ("{from: 23:00, to: 12:10}", 600_000, true),
        ] {
            let mut world = World::holding("0.01");
            world.now = noon.plus_ms(since_ms);
            world.rules.safety.restricted = window(text);
            let row = world.row_of(
                &market_order("mean", "BTC-USD", order.side.as_str(), "0.01", "6700", 0),
                "time_window",
            );
            assert_eq!(
                (row.passed, row.source.as_ref()),
                (passes, "safety.yaml"),
                "{text} {since_ms}"
            );
            world.rules.safety.restricted.clear();
            let mean = StrategyName::parse("mean").unwrap();
            world.rules.strategies.get_mut(&mean).unwrap().restricted = window(text);
            let mut other = order.clone();
            other.strategy = mean;
            assert_eq!(
                world.row_of(&other, "time_window").passed,
                passes,
                "{text} {since_ms}"
            );
            assert!(
                world.row_of(&nth("buy", 1), "time_window").passed,
                "another strategy's window"
            );
        }
    }
    let mut world = World::holding("0.01");
    world.rules.safety.restricted = window("{from: 11:00, to: 13:00}");
    world.accepted(&sell("0.01"));
}

#[test]
fn checks_that_refuse_entries_pass_all_exits() {
    let mut world = World::holding("0.01");
    let entry = world.accepted(&limit(nth("buy", 1), "6750"));
    world.shut();
    let other = market_order("mean", "BTC-USD", "buy", "0.01", "6700", 0);
    let refused = world.refused(&other);
    for name in SHUT {
        assert!(
            refused.iter().any(|found| found == name),
            "{name}: {refused:?}"
        );
    }
    let names: Vec<_> = failed(&world.ask(&sell("0.01")))
        .into_iter()
        .map(|row| row.name)
        .collect();
    assert!(names.is_empty(), "{names:?}");
    assert!(world.tighten(OrderId::of_line(1), "6710").accepted);
    assert!(world.cancel(entry).accepted);
    world.accepted(&sell("0.01"));
    world.flat("6800");
    assert_eq!(world.position(), Amount::ZERO);
}

#[test]
fn rows_that_come_late_are_counted_when_they_happened() {
    let mut world = World::new();
    world.rules.safety.max_executions = 1.try_into().unwrap();
    world.rules.safety.cooldown_s = 300.try_into().unwrap();
    world.rules.safety.executions_window_s = 300.try_into().unwrap();
    world.accepted(&buy("0.01"));
    let opened = world.now;
    world.wait(600_000);
    let bar = |minute: i64, price: &str| Row::Bar {
        open_ms: opened.ms() + minute * 60_000,
        interval_ms: 60_000,
        open: a(price),
        high: a(price),
        low: a(price),
        close: a(price),
        volume: None,
    };
    world.rows(&btc(), &[bar(0, "6800"), bar(1, "6690"), bar(9, "6800")]);
    let conduct = &world.book.conduct[&trend()];
    assert_eq!(conduct.stopped_out_at, Some(opened.plus_ms(120_000)));
    assert_eq!(conduct.executions, [opened.plus_ms(60_000)]);
    assert_eq!(
        conduct.disabled_since,
        Some(opened.plus_ms(60_000)),
        "latched however late it is known"
    );
    assert!(world.row_of(&nth("buy", 1), "cooldown").passed);
    assert!(!world.row_of(&nth("buy", 1), "repeated_execution").passed);
}

#[test]
fn an_exit_that_crosses_very_many_own_entries_still_fits_its_line() {
    let mut world = World::holding("0.01");
    let resting = world.accepted(&limit(
        market_order("trend", "BTC-USD", "buy", "0.01", "6690", 1),
        "6790",
    ));
    let (entry, stop) = (
        world.book.orders[&resting].clone(),
        world.book.orders[&resting.stop()].clone(),
    );
    for n in 10_000..10_500 {
        let order_id = OrderId::of_line(n);
        for order in [
            super::order::Order {
                order_id,
                ..entry.clone()
            },
            super::order::Order {
                order_id: order_id.stop(),
                ..stop.clone()
            },
        ] {
            world.book.orders.insert(order.order_id, order);
        }
    }
    let verdict = world.ask(&limit(sell("0.01"), "6780"));
    assert!(verdict.accepted, "{:#?}", failed(&verdict));
    assert!(serde_json::to_vec(&verdict.changes).unwrap().len() < 40_000);
    assert_eq!(
        verdict
            .changes
            .iter()
            .filter(|change| change.ended().is_some())
            .count(),
        200
    );
}
