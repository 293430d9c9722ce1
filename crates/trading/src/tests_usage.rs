//! The displayed use of limits matches the checks: an order exactly as large as what is left
//! passes, one lot more does not.

use super::testing::*;
use super::usage::{LimitUse, usage};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::checks::CheckRow;
use spoolgate_wire::ids::Symbol;
use spoolgate_wire::orders::SubmitOrder;

/// A book with much open on both sides in both symbols and limits on groups and allocations, where
/// the short side is worse.
fn busy() -> World {
    let mut world = World::new();
    let safety = &mut world.rules.safety;
    safety.max_daily_loss = a("100000").try_into().unwrap();
    safety.max_weekly_loss = a("90000").try_into().unwrap();
    world
        .rules
        .instruments
        .values_mut()
        .for_each(|found| found.group = Some("coins".to_owned()));
    world
        .rules
        .strategies
        .values_mut()
        .for_each(|found| found.allocation = Some(a("0.3").try_into().unwrap()));
    world.accepted(&buy("0.01"));
    world.accepted(&market_order("trend", "ETH-USD", "buy", "0.2", "195", 0));
    world.accepted(&market_order("mean", "ETH-USD", "sell", "0.5", "206", 0));
    world.bar_of("6800", "6800", "6800", "6800", Some("20"));
    world.wait(1000);
    world.quote("200", "200.2");
    assert_eq!(world.book.positions.len(), 3);
    world.accepted(&limit(
        market_order("trend", "BTC-USD", "buy", "0.003", "6650", 1),
        "6750",
    ));
    world.rules.safety.max_volume_share = Some(a("0.1").try_into().unwrap());
    world
}

fn shown(world: &World) -> Vec<LimitUse> {
    usage(&world.book, &world.rules, world.now, &Default::default())
}

fn used_of(world: &World, check: &str, of: &str) -> LimitUse {
    let rows = shown(world);
    let found = rows.iter().find(|row| row.check == check && row.of == of);
    found
        .unwrap_or_else(|| panic!("no row {check} of {of}: {rows:#?}"))
        .clone()
}

fn lots(template: &SubmitOrder, lot: &str, count: i64) -> SubmitOrder {
    SubmitOrder {
        size: a(lot).checked_mul(Amount::from_i64(count)).unwrap(),
        ..template.clone()
    }
}

/// Returns the row of the check for this many lots.
fn row_at(
    world: &mut World,
    template: &SubmitOrder,
    lot: &str,
    check: &str,
    count: i64,
) -> CheckRow {
    world.row_of(&lots(template, lot, count), check)
}

#[test]
fn an_order_as_large_as_what_is_left_passes_and_one_lot_more_does_not() {
    let long = market_order("trend", "BTC-USD", "buy", "0.01", "6700", 2);
    let short = market_order("mean", "BTC-USD", "sell", "0.01", "6900", 2);
    type Set = fn(&mut World, Amount);
    let tables: [(&str, &str, &SubmitOrder, Set); 9] = [
        ("max_single_position", "BTC-USD", &long, |w, one| {
            w.rules.safety.max_single_position = one.try_into().unwrap()
        }),
        ("max_total_exposure", "account", &long, |w, one| {
            w.rules.safety.max_total_exposure = one.try_into().unwrap()
        }),
        ("same_direction_exposure", "long", &long, |w, one| {
            w.rules.safety.max_same_direction_exposure = Some(one.try_into().unwrap());
        }),
        ("same_direction_exposure", "short", &short, |w, one| {
            w.rules.safety.max_same_direction_exposure = Some(one.try_into().unwrap());
        }),
        ("correlated_group", "group coins", &long, |w, one| {
            w.rules.safety.max_correlated_group = Some(one.try_into().unwrap())
        }),
        ("strategy_allocation", "strategy trend", &long, |w, one| {
            w.rules
                .strategies
                .values_mut()
                .for_each(|found| found.allocation = Some(one.try_into().unwrap()));
        }),
        ("max_portfolio_risk", "account", &long, |w, one| {
            w.rules.safety.max_portfolio_risk = one.try_into().unwrap()
        }),
        ("loss_budget", "account", &short, |_, _| {}),
        ("liquidity_participation", "BTC-USD", &long, |_, _| {}),
    ];
    for (check, of, template, set) in tables {
        // Eleven lots sell what is held long; only beyond that does a sale add to what could be
        // short.
        for count in [12, 15, 23] {
            let mut world = busy();
            set(&mut world, Amount::ONE);
            let value = row_at(&mut world, template, "0.001", check, count)
                .value
                .unwrap();
            // Each limit in turn has room for exactly this many lots.
            match check {
                "loss_budget" => {
                    world.rules.safety.max_weekly_loss = value
                        .checked_sub(profit(&world))
                        .unwrap()
                        .try_into()
                        .unwrap()
                }
                "liquidity_participation" => {
                    volume(&mut world, value.checked_mul(a("10")).unwrap())
                }
                _ => world.rules.safety.max_total_capital = value.try_into().unwrap(),
            }
            let row = used_of(&world, check, of);
            let at = row_at(&mut world, template, "0.001", check, count);
            let adds = at.value.unwrap().checked_sub(row.used.unwrap()).unwrap();
            assert_eq!(row.left, Some(adds), "{check} {of} {count}: {row:?}");
            assert_eq!((row.limit, &row.source), (at.limit, &at.source));
            assert!(at.passed, "{check} {of} {count}: {at:?}");
            assert!(
                !row_at(&mut world, template, "0.001", check, count + 1).passed,
                "{check} {of} {count}"
            );
            assert_eq!(row.closed, None);
        }
    }
}

/// Profit of the week so far.
fn profit(world: &World) -> Amount {
    let week = world.book.account.week.as_ref().unwrap();
    let equity = world.book.equity(&world.rules, world.now).unwrap();
    world.book.profit_since(week, equity).unwrap()
}

fn volume(world: &mut World, volume: Amount) {
    world
        .book
        .markets
        .get_mut(&btc())
        .unwrap()
        .last
        .as_mut()
        .unwrap()
        .volume = Some(volume);
}

#[test]
fn cash_that_is_left_is_what_an_order_may_take() {
    let order = market_order("trend", "BTC-USD", "buy", "0.01", "6700", 2);
    for count in [2, 5] {
        let mut world = busy();
        let takes = row_at(&mut world, &order, "0.001", "buying_power", count)
            .value
            .unwrap();
        let held = used_of(&world, "buying_power", "account").used.unwrap();
        world.book.account.cash = held.checked_add(takes).unwrap();
        let row = used_of(&world, "buying_power", "account");
        assert_eq!((row.used, row.left), (Some(held), Some(takes)));
        assert!(row_at(&mut world, &order, "0.001", "buying_power", count).passed);
        assert!(!row_at(&mut world, &order, "0.001", "buying_power", count + 1).passed);
    }
}

#[test]
fn counts_that_are_left_are_orders_that_pass() {
    let nth = |n: u8| {
        market_order(
            "trend",
            "BTC-USD",
            "buy",
            &format!("0.00{}", n + 2),
            "6700",
            n,
        )
    };
    type Set = fn(&mut World, u32);
    let tables: [(&str, &str, Set); 3] = [
        ("max_open_orders", "account", |w, most| {
            w.rules.safety.max_open_orders = most
        }),
        ("order_rate", "agent alice, this minute", |w, most| {
            w.rules.safety.max_entries_per_minute = most
        }),
        ("order_rate", "all agents, this minute", |w, most| {
            w.rules.safety.max_entries_per_minute_all = most
        }),
    ];
    for (check, of, set) in tables {
        let mut world = World::new();
        set(&mut world, 3);
        let rest = |n: u8| limit(nth(n), "6790");
        for n in 0..3 {
            let row = used_of(&world, check, of);
            assert_eq!(
                (row.used, row.left, row.closed),
                (Some(count(n)), Some(count(3 - n)), None),
                "{check}"
            );
            world.accepted(&rest(n));
        }
        let row = used_of(&world, check, of);
        assert_eq!(
            (row.left, row.closed.as_deref()),
            (Some(Amount::ZERO), Some("nothing is left"))
        );
        assert_eq!(world.refused(&rest(3)), [check]);
    }
    let mut world = World::holding("0.01");
    world.rules.safety.max_open_positions = 2;
    assert_eq!(
        used_of(&world, "max_open_positions", "account").left,
        Some(Amount::ONE)
    );
    world.accepted(&limit(
        market_order("mean", "BTC-USD", "buy", "0.01", "6700", 0),
        "6790",
    ));
    assert_eq!(
        used_of(&world, "max_open_positions", "account").left,
        Some(Amount::ZERO)
    );
    assert_eq!(
        world.refused(&market_order("mean", "ETH-USD", "buy", "0.1", "195", 0)),
        ["max_open_positions"]
    );
}

fn count(n: u8) -> Amount {
    Amount::from(u32::from(n))
}

#[test]
fn the_remaining_loss_is_shown_until_the_halt() {
    let order = buy("0.002");
    for (lost, left, is_open) in [
        ("0", "250", true),
        ("249.99", "0.01", true),
        ("250", "0", false),
    ] {
        for check in ["daily_loss_halt", "weekly_loss_halt"] {
            let mut world = World::new();
            world.rules.safety.max_weekly_loss = a("250").try_into().unwrap();
            let account = &mut world.book.account;
            for period in [&mut account.day, &mut account.week] {
                let begun = period.as_mut().unwrap();
                begun.equity = begun.equity.checked_add(a(lost)).unwrap();
            }
            let row = used_of(&world, check, "account");
            assert_eq!(
                (row.used, row.left),
                (Some(a(lost)), Some(a(left))),
                "{check}"
            );
            assert_eq!(
                (row.closed.is_none(), world.row_of(&order, check).passed),
                (is_open, is_open),
                "{lost}"
            );
        }
    }
    let mut world = World::new();
    world.book.account.peak_equity = Some(a("5882.35"));
    let row = used_of(&world, "drawdown_halt", "account");
    assert!(
        row.left.unwrap().is_positive() && row.closed.is_none(),
        "{row:?}"
    );
    world.book.account.peak_equity = Some(a("5882.36"));
    let row = used_of(&world, "drawdown_halt", "account");
    assert!(
        row.left.unwrap().is_negative() && row.closed.is_some(),
        "{row:?}"
    );
    assert!(!world.row_of(&order, "drawdown_halt").passed);
}

#[test]
fn the_headroom_of_a_strategy_is_shown() {
    let mut world = World::new();
    world.rules.safety.max_losing_trades = 3.try_into().unwrap();
    world.rules.safety.max_executions = 5.try_into().unwrap();
    world.rules.safety.cooldown_s = 300.try_into().unwrap();
    let conduct = world.book.conduct.entry(trend()).or_default();
    (conduct.losing, conduct.stopped_out_at) = (2, Some(world.now));
    conduct.executions.extend([world.now; 4]);
    for check in ["loss_streak", "repeated_execution"] {
        let row = used_of(&world, check, "strategy trend");
        assert_eq!((row.left, row.closed), (Some(Amount::ONE), None), "{check}");
        assert!(world.row_of(&buy("0.01"), check).passed);
    }
    let row = used_of(&world, "cooldown", "strategy trend");
    let until = world.now.plus_ms(300_000).to_string();
    assert!(row.closed.unwrap().ends_with(&until));
    world.wait(300_000);
    assert!(shown(&world).iter().all(|row| row.check != "cooldown"));
    let conduct = world.book.conduct.get_mut(&trend()).unwrap();
    conduct.losing = 3;
    assert!(
        used_of(&world, "loss_streak", "strategy trend")
            .closed
            .is_some()
    );
}

#[test]
fn a_missing_price_is_told_and_closes() {
    let mut world = busy();
    world
        .book
        .markets
        .remove(&Symbol::parse("ETH-USD").unwrap());
    for (check, of) in [
        ("max_total_exposure", "account"),
        ("max_portfolio_risk", "account"),
        ("buying_power", "account"),
    ] {
        let row = used_of(&world, check, of);
        assert_eq!((row.left, row.closed.is_some()), (None, true), "{row:?}");
    }
    assert_eq!(used_of(&world, "daily_loss_halt", "account").used, None);
}

#[test]
fn reduced_limits_are_shown_for_the_strategies_they_hold() {
    let world = World::new();
    let reduced = [(trend(), a("0.5"))].into();
    let rows = usage(&world.book, &world.rules, world.now, &reduced);
    let of = |of: &str| {
        let row = rows
            .iter()
            .find(|row| row.check == "max_total_exposure" && row.of == of);
        row.unwrap_or_else(|| panic!("{of}: {rows:#?}")).limit
    };
    assert_eq!(of("account"), Some(a("2500")));
    assert_eq!(of("account, for `trend` (reduced)"), Some(a("1250")));
}
