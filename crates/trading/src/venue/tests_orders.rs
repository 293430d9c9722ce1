//! Time in force, targets, implausible gaps and funding.

use crate::change::Change;
use crate::order::{OrderEnd, OrderRole};
use crate::testing::*;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::OrderId;
use spoolgate_wire::orders::{SubmitOrder, TimeInForce};

fn lasting(mut order: SubmitOrder, lasts: TimeInForce) -> SubmitOrder {
    order.time_in_force = lasts;
    order
}

fn aiming(mut order: SubmitOrder, target: &str) -> SubmitOrder {
    order.target_price = Some(a(target));
    order
}

fn ended(changes: &[Change]) -> Vec<(String, OrderEnd)> {
    changes
        .iter()
        .filter_map(Change::ended)
        .map(|(id, end)| (id.to_string(), end))
        .collect()
}

fn left(world: &World) -> Vec<(String, Amount)> {
    world
        .book
        .orders
        .values()
        .map(|order| (order.order_id.to_string(), order.leaves()))
        .collect()
}

#[test]
fn the_unfilled_rest_of_an_ioc_order_is_cancelled() {
    let mut world = World::new();
    let entry = world.accepted(&lasting(buy("0.01"), TimeInForce::Ioc));
    let changes = world.bar_of("6800", "6800", "6800", "6800", Some("0.04"));
    assert_eq!(fills(&changes).len(), 1);
    assert_eq!(ended(&changes), [("o-1".to_owned(), OrderEnd::Expired)]);
    assert_eq!(left(&world), [(entry.stop().to_string(), a("0.004"))]);
    // The same for exits; an exit that is not reached ends, and its position stays protected.
    world.accepted(&lasting(limit(sell("0.004"), "6900"), TimeInForce::Ioc));
    let changes = world.flat("6800");
    assert_eq!(ended(&changes), [("o-2".to_owned(), OrderEnd::Expired)]);
    assert_eq!(left(&world).len(), 1);
    // An entry that fills nothing takes its stop along. A bar that opened before the entry is not
    // usable for it.
    let mut world = World::new();
    let open_ms = world.now.ms();
    world.wait(1000);
    world.accepted(&lasting(limit(buy("0.01"), "6750"), TimeInForce::Ioc));
    world.wait(59_000);
    let price = a("6800");
    let row = crate::market_row::Row::Bar {
        open_ms,
        interval_ms: 60_000,
        open: price,
        high: price,
        low: price,
        close: price,
        volume: None,
    };
    world.rows(&btc(), &[row]);
    assert_eq!(left(&world).len(), 2);
    world.flat("6800");
    assert!(world.book.orders.is_empty());
}

#[test]
fn a_day_order_ends_with_its_utc_day_by_row_or_by_clock() {
    let hours = |n: i64| n * 3_600_000;
    let placed = || {
        let mut world = World::holding("0.01");
        world.accepted(&lasting(
            limit(
                market_order("trend", "BTC-USD", "buy", "0.02", "6690", 1),
                "6750",
            ),
            TimeInForce::Day,
        ));
        world.accepted(&lasting(limit(sell("0.01"), "6900"), TimeInForce::Day));
        world
    };
    let over = [
        ("o-2".to_owned(), OrderEnd::Expired),
        ("o-2-stop".to_owned(), OrderEnd::Retired),
        ("o-3".to_owned(), OrderEnd::Expired),
    ];
    let mut world = placed();
    world.wait(hours(11));
    assert!(ended(&world.flat("6800")).is_empty());
    assert!(super::end_day(&world.book, world.now).is_empty());
    // The first row of the new day fills neither order, though it reaches both.
    world.wait(hours(1));
    let changes = world.bar("6800", "6950", "6740", "6800");
    assert!(fills(&changes).is_empty());
    assert_eq!(ended(&changes), over);
    let mut world = placed();
    world.wait(hours(12));
    let changes = super::end_day(&world.book, world.now);
    assert_eq!(ended(&changes), over);
    world.apply(&changes);
    assert_eq!(left(&world), [("o-1-stop".to_owned(), a("0.01"))]);
}

#[test]
fn a_target_grows_with_its_entry_and_closes_it() {
    let mut world = World::new();
    let verdict = world.submit(&aiming(buy("0.01"), "6900"));
    let roles: Vec<_> = verdict
        .changes
        .iter()
        .map(|change| match change {
            Change::OrderPlaced(order) => (order.order_id.to_string(), order.role, order.size),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        roles[1..],
        [
            ("o-1-stop".to_owned(), OrderRole::Protective, Amount::ZERO),
            ("o-1-target".to_owned(), OrderRole::Target, Amount::ZERO)
        ]
    );
    world.bar_of("6800", "6800", "6800", "6800", Some("0.04"));
    assert_eq!(
        left(&world)[1..],
        [
            ("o-1-stop".into(), a("0.004")),
            ("o-1-target".into(), a("0.004"))
        ]
    );
    // An exit of the agent shrinks both, and is not refused because of the target.
    world.accepted(&sell("0.003"));
    world.bar_of("6800", "6800", "6800", "6800", Some("0.03"));
    assert_eq!(
        left(&world)[1..],
        [
            ("o-1-stop".into(), a("0.001")),
            ("o-1-target".into(), a("0.001"))
        ]
    );
    // The target ends the trade: the rest of the entry and the stop end with it. The bar here has
    // volume 0 for the entry.
    let changes = world.bar_of("6950", "6950", "6950", "6950", Some("0"));
    assert!(ended(&changes).is_empty());
    world
        .book
        .orders
        .get_mut(&OrderId::of_line(1))
        .unwrap()
        .order_type = spoolgate_wire::orders::OrderType::Limit;
    world
        .book
        .orders
        .get_mut(&OrderId::of_line(1))
        .unwrap()
        .price = Some(a("6700"));
    let changes = world.flat("6950");
    assert_eq!(fills(&changes), ["o-1-target sell 0.001@6939.5 0.0069395"]);
    assert!(world.book.orders.is_empty() && world.book.positions.is_empty());
}

#[test]
fn of_stop_and_target_one_cancels_the_other_and_the_stop_comes_first() {
    let holding = || {
        let mut world = World::new();
        world.accepted(&aiming(buy("0.01"), "6900"));
        world.flat("6800");
        world
    };
    let mut world = holding();
    let changes = world.bar("6800", "6950", "6650", "6900");
    assert_eq!(fills(&changes), ["o-1-stop sell 0.01@6693.3 0.066933"]);
    assert!(world.book.orders.is_empty());
    // A stop that triggers without volume still ends the target.
    let mut world = holding();
    let changes = world.bar_of("6800", "6800", "6690", "6700", Some("0"));
    assert_eq!(
        ended(&changes),
        [("o-1-target".to_owned(), OrderEnd::Retired)]
    );
    let mut world = holding();
    // Half of the target fills; the stop covers the other half.
    world.bar_of("6800", "6910", "6800", "6800", Some("0.05"));
    assert_eq!(
        left(&world),
        [
            ("o-1-stop".into(), a("0.005")),
            ("o-1-target".into(), a("0.005"))
        ]
    );
    world.bar("6800", "6910", "6800", "6800");
    assert!(world.book.orders.is_empty() && world.book.positions.is_empty());
    // The target's own stop shrinks, not the oldest one.
    let mut world = World::holding("0.01");
    world.accepted(&aiming(
        market_order("trend", "BTC-USD", "buy", "0.02", "6690", 1),
        "6900",
    ));
    world.flat("6800");
    world.bar("6800", "6910", "6800", "6800");
    assert_eq!(left(&world), [("o-1-stop".into(), a("0.01"))]);
    assert_eq!(world.position(), a("0.01"));
}

#[test]
fn a_target_closes_nothing_that_the_same_bar_opened() {
    let mut world = World::holding("0.01");
    world.accepted(&aiming(
        limit(
            market_order("trend", "BTC-USD", "buy", "0.02", "6690", 1),
            "6750",
        ),
        "6810",
    ));
    let changes = world.bar("6800", "6850", "6740", "6800");
    assert_eq!(fills(&changes).len(), 1, "only the entry: {changes:?}");
    assert_eq!(
        fills(&world.bar("6800", "6850", "6800", "6800")),
        ["o-2-target sell 0.02@6810 0.02724"]
    );
}

#[test]
fn a_target_is_checked_where_it_is_given_cancelled_alone_and_never_tightened() {
    for (order, target, passes) in [
        // Worst entry 6800 x 1.0005 x 1.001 = 6810.2034; the ask is 6803.4.
        (buy("0.01"), "6810.3", true),
        (buy("0.01"), "6810.2", false),
        (buy("0.01"), "6850.05", false),
        (sell("0.01"), "6789.8", true),
        (sell("0.01"), "6789.9", false),
        // A limit below the market: the market decides.
        (limit(buy("0.01"), "6750"), "6803.4", false),
        (limit(buy("0.01"), "6750"), "6803.5", true),
        (limit(sell("0.01"), "6850"), "6796.6", false),
        (limit(sell("0.01"), "6850"), "6796.5", true),
    ] {
        let mut world = World::new();
        let row = world.row_of(&aiming(order.clone(), target), "target_valid");
        assert_eq!(row.passed, passes, "{order:?} {target}: {row:?}");
        assert_eq!(world.submit(&aiming(order, target)).accepted, passes);
    }
    let mut world = World::new();
    let has_row = |world: &mut World, order: &SubmitOrder| {
        world
            .ask(order)
            .checks
            .iter()
            .any(|row| row.name == "target_valid")
    };
    assert!(!has_row(&mut world, &buy("0.01")));
    let entry = world.accepted(&aiming(buy("0.01"), "6900"));
    world.flat("6800");
    assert!(!world.tighten(entry.target(), "6890").accepted);
    assert!(world.tighten(entry, "6710").accepted);
    assert_eq!(world.book.orders[&entry.target()].price, Some(a("6900")));
    assert_eq!(world.book.orders[&entry.stop()].trigger, Some(a("6710")));
    // An exit is not refused because of its target.
    let verdict = world.ask(&aiming(sell("0.01"), "1"));
    assert!(verdict.accepted);
    assert!(
        row(&verdict, "target_valid")
            .reason
            .unwrap()
            .starts_with("exempt: ")
    );
    assert!(world.cancel(entry.target()).accepted);
    assert_eq!(left(&world), [(entry.stop().to_string(), a("0.01"))]);
    // Cancelling an unfilled entry ends both.
    let mut world = World::new();
    let entry = world.accepted(&aiming(limit(buy("0.01"), "6750"), "6900"));
    assert!(world.cancel(entry).accepted);
    assert!(world.book.orders.is_empty());
}

#[test]
fn a_target_that_the_venue_refuses_leaves_the_stop() {
    let mut world = World::new();
    world.accepted(&aiming(buy("0.01"), "6900"));
    // 6700 is a multiple of 67 and 6900 is not.
    world.rules.instruments.get_mut(&btc()).unwrap().tick = a("67").try_into().unwrap();
    let changes = world.flat("6800");
    assert!(
        ended(&changes).contains(&("o-1-target".to_owned(), OrderEnd::Refused)),
        "{changes:?}"
    );
    assert_eq!(left(&world), [("o-1-stop".into(), a("0.01"))]);
}

#[test]
fn funding_is_charged_once_per_time_and_symbol_at_the_mark() {
    let at = |text: &str| spoolgate_wire::time::Time::parse(text).unwrap();
    let fund = |world: &World, rate: &str, time: &str| {
        super::on_funding(
            &world.book,
            &world.rules,
            &btc(),
            a(rate),
            at(time),
            world.now,
        )
    };
    // 0.01 x 6800 x rate; receipts are rounded down.
    for (size, rate, expect) in [
        ("0.01", "0.0001", "0.0068"),
        ("0.01", "-0.0001", "-0.0068"),
        ("-0.01", "0.0001", "-0.0068"),
        ("0.01", "0.0000000001", "0.00000001"),
        ("-0.01", "0.0000000001", "0"),
    ] {
        let mut world = World::holding(size);
        let before = world.book.account.clone();
        let day = before.day.clone().unwrap();
        let equity = world.book.equity_last_known(&world.rules).unwrap();
        world.apply(&fund(&world, rate, "2026-02-21T08:00:00Z").unwrap());
        let account = &world.book.account;
        assert_eq!(account.funding, a(expect), "{size} {rate}");
        assert_eq!(before.cash.checked_sub(account.cash), Some(a(expect)));
        let now = world.book.equity_last_known(&world.rules).unwrap();
        assert_eq!(equity.checked_sub(now), Some(a(expect)));
        assert_eq!(
            world.book.profit_since(&day, now),
            world
                .book
                .profit_since(&day, equity)
                .unwrap()
                .checked_sub(a(expect)),
            "part of the daily loss"
        );
        let view =
            crate::views::portfolio(&world.book, &world.rules, world.now, &Default::default());
        assert_eq!(view.funding, a(expect));
    }
    let mut world = World::holding("0.01");
    for (time, expect) in [
        ("2026-02-21T09:00:00Z", "funding is due at"),
        ("2026-02-21T16:00:00Z", "not due yet"),
        ("2026-02-21T00:00:00Z", "more than a period old"),
    ] {
        let error = fund(&world, "0.0001", time).unwrap_err().to_string();
        assert!(error.contains(expect), "{time}: {error}");
    }
    world.apply(&fund(&world, "0.0001", "2026-02-21T08:00:00Z").unwrap());
    let again = fund(&world, "0.0002", "2026-02-21T08:00:00Z")
        .unwrap_err()
        .to_string();
    assert!(again.contains("charged for 2026-02-21T08:00:00"), "{again}");
    world.book.markets.clear();
    world.wait(4 * 3_600_000);
    assert!(
        fund(&world, "0.0001", "2026-02-21T16:00:00Z")
            .unwrap_err()
            .to_string()
            .contains("no price")
    );
    // Without any position the time is used up all the same, so that a later position does not pay
    // for it.
    let mut world = World::new();
    world.apply(&fund(&world, "0.0001", "2026-02-21T08:00:00Z").unwrap());
    assert!(fund(&world, "0.0001", "2026-02-21T08:00:00Z").is_err());
    assert_eq!(world.book.account.funding, Amount::ZERO);
}

#[test]
fn funding_can_latch_the_drawdown() {
    let mut world = World::holding("0.1");
    world.rules.safety.max_drawdown = a("0.01").try_into().unwrap();
    let time = spoolgate_wire::time::Time::parse("2026-02-21T08:00:00Z").unwrap();
    let changes = super::on_funding(
        &world.book,
        &world.rules,
        &btc(),
        a("0.08"),
        time,
        world.now,
    )
    .unwrap();
    world.apply(&changes);
    assert!(world.book.account.drawdown_since.is_some(), "54.4 of 5000");
}
