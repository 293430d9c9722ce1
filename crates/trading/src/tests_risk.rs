//! Limits on the risk of the whole book, on losses, on open positions and orders, and on cash: each
//! one unit below, on and above the limit, on both sides, with regression tests for failures seen
//! in other systems.

use super::book::Book;
use super::change::Change;
use super::testing::*;
use super::venue::open_periods;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{OrderId, StrategyName};
use spoolgate_wire::orders::SubmitOrder;

const UNIT: &str = "0.0000000001";
const DAY_MS: i64 = 86_400_000;

/// One unit below, at and above `at`, each with whether a value of `at` passes under that limit.
fn around(at: Amount) -> [(Amount, bool); 3] {
    let unit = a(UNIT);
    [
        (at.checked_sub(unit).unwrap(), false),
        (at, true),
        (at.checked_add(unit).unwrap(), true),
    ]
}

fn at(mut order: SubmitOrder, planned_entry: &str) -> SubmitOrder {
    order.planned_entry = a(planned_entry);
    order
}

/// `trend` and `mean` hold both symbols, long and short; `other` has working entries on both sides.
fn busy() -> World {
    let mut world = World::new();
    world.rules.safety.max_daily_loss = a("100000").try_into().unwrap();
    world.rules.safety.max_weekly_loss = a("100000").try_into().unwrap();
    world.accepted(&buy("0.01"));
    world.accepted(&market_order("mean", "BTC-USD", "sell", "0.004", "6900", 0));
    world.accepted(&market_order("trend", "ETH-USD", "buy", "0.2", "195", 0));
    world.accepted(&market_order("mean", "ETH-USD", "sell", "0.5", "206", 0));
    world.flat("6800");
    world.wait(1000);
    world.quote("200", "200.2");
    assert_eq!(world.book.positions.len(), 4);
    world.accepted(&limit(
        market_order("mean", "ETH-USD", "sell", "0.1", "210", 1),
        "204",
    ));
    world.accepted(&limit(
        market_order("trend", "BTC-USD", "buy", "0.003", "6650", 1),
        "6750",
    ));
    world
}

/// Orders of both sides for a book with much open.
fn either_side() -> [SubmitOrder; 4] {
    [
        market_order("trend", "BTC-USD", "buy", "0.02", "6700", 2),
        market_order("mean", "BTC-USD", "sell", "0.03", "6900", 2),
        limit(
            market_order("trend", "ETH-USD", "buy", "1.5", "190", 2),
            "198.01",
        ),
        limit(
            market_order("mean", "ETH-USD", "sell", "0.3", "210", 2),
            "203.07",
        ),
    ]
}

#[test]
fn the_worst_entry_is_held_to_the_plan_either_way() {
    // Worst entries 6810.2034 and 6789.8034; the limit of a buy at 6790 is 6790.
    for (order, planned, tolerance) in [
        (buy("0.01"), "6800", "0.0015005"),
        (sell("0.01"), "6800", "0.0014995"),
        (limit(buy("0.01"), "6790"), "8000", "0.15125"),
        (limit(sell("0.01"), "6810"), "4800", "0.41875"),
    ] {
        let order = at(order, planned);
        for (tolerance, passes) in around(a(tolerance)) {
            let mut world = World::new();
            world.rules.safety.slippage_to_plan = tolerance.try_into().unwrap();
            assert_eq!(
                world.row_of(&order, "slippage_to_plan").passed,
                passes,
                "{order:?} {tolerance}"
            );
        }
    }
    for planned in ["0", "-6800"] {
        assert!(
            !World::new()
                .row_of(&at(buy("0.01"), planned), "slippage_to_plan")
                .passed,
            "{planned}"
        );
    }
    let mut world = World::holding("0.01");
    world.rules.safety.slippage_to_plan = a(UNIT).try_into().unwrap();
    world.accepted(&at(sell("0.01"), "1"));
}

type Set = fn(&mut World);

/// Sets each limit in turn to the whole capital base, then sets the base one unit below, to, and
/// above the value.
#[test]
fn every_fraction_of_the_capital_base_at_one_unit_below_on_and_above() {
    let tables: [(&str, Set); 4] = [
        ("same_direction_exposure", |world| {
            world.rules.safety.max_same_direction_exposure = Some(Amount::ONE.try_into().unwrap());
        }),
        ("correlated_group", |world| {
            world.rules.safety.max_correlated_group = Some(Amount::ONE.try_into().unwrap());
            for instrument in world.rules.instruments.values_mut() {
                instrument.group = Some("coins".to_owned());
            }
        }),
        ("strategy_allocation", |world| {
            for strategy in world.rules.strategies.values_mut() {
                strategy.allocation = Some(Amount::ONE.try_into().unwrap());
            }
        }),
        ("max_portfolio_risk", |world| {
            world.rules.safety.max_portfolio_risk = Amount::ONE.try_into().unwrap()
        }),
    ];
    for order in either_side() {
        for (name, set) in tables {
            let mut world = busy();
            set(&mut world);
            let value = world.row_of(&order, name).value.unwrap();
            for (base, passes) in around(value) {
                world.rules.safety.max_total_capital = base.try_into().unwrap();
                let row = world.row_of(&order, name);
                assert_eq!(
                    (row.passed, row.limit),
                    (passes, Some(base)),
                    "{name} {order:?}"
                );
                assert_eq!((row.unit.as_ref(), row.value), ("usd", Some(value)));
            }
            // Reduced: the same limit as with twice the base.
            world.limit_factor = Some(a("0.5"));
            for (base, passes) in around(value) {
                world.rules.safety.max_total_capital =
                    base.checked_add(base).unwrap().try_into().unwrap();
                let row = world.row_of(&order, name);
                assert_eq!(
                    (row.passed, row.limit),
                    (passes, Some(base)),
                    "{name} {order:?}"
                );
                assert!(row.source.ends_with(".yaml (reduced)"), "{}", row.source);
            }
        }
    }
}

#[test]
fn the_exposures_by_hand() {
    let mut world = busy();
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
    let mut value = |order: &SubmitOrder, name: &str| world.row_of(order, name).value.unwrap();
    let [buy_btc, sell_btc, buy_eth, sell_eth] = either_side();
    // BTC, ask 6803.4: long 0.01 + 0.003, short 0.004. ETH, at the limit above the ask, 204: long
    // 0.2, short 0.5 + 0.1. No leg is netted against another one.
    // Long: 0.033 x 6803.4 and 0.2 x 204; short: 0.034 x 6803.4 and 0.6 x 204.
    assert_eq!(value(&buy_btc, "same_direction_exposure"), a("265.3122"));
    assert_eq!(value(&sell_btc, "same_direction_exposure"), a("353.7156"));
    // Worst of ETH after the buy: long 1.7 x 204; of BTC 0.013 x 6803.4.
    assert_eq!(value(&buy_eth, "correlated_group"), a("435.2442"));
    assert_eq!(value(&buy_eth, "same_direction_exposure"), a("435.2442"));
    // Short: 0.9 x 204 and 0.004 x 6803.4.
    assert_eq!(value(&sell_eth, "same_direction_exposure"), a("210.8136"));
    // Of `trend` alone: long 0.033 BTC and 0.2 ETH; of `mean`: short 0.034 BTC and 0.6 ETH.
    assert_eq!(value(&buy_btc, "strategy_allocation"), a("265.3122"));
    assert_eq!(value(&sell_btc, "strategy_allocation"), a("353.7156"));
    // A tenth of the worst cases: (0.033 x 6803.4 + 0.6 x 204) / 10.
    assert_eq!(value(&buy_btc, "gap_budget"), a("34.69122"));
}

#[test]
fn a_limit_that_is_not_set_has_no_row() {
    let verdict = World::new().ask(&buy("0.01"));
    let names: Vec<_> = verdict.checks.iter().map(|row| row.name.as_ref()).collect();
    for name in [
        "correlated_group",
        "strategy_allocation",
        "liquidity_participation",
    ] {
        assert!(!names.contains(&name), "{name}");
    }
    // A symbol in another group does not count.
    let mut world = busy();
    world.rules.instruments.get_mut(&btc()).unwrap().group = Some("coins".to_owned());
    world.rules.instruments.get_mut(&eth()).unwrap().group = Some("other coins".to_owned());
    let alone = world.row_of(&buy("0.02"), "max_single_position").value;
    assert_eq!(world.row_of(&buy("0.02"), "correlated_group").value, alone);
}

#[test]
fn open_risk_counts_every_stop_where_it_stands_and_what_has_none_whole() {
    let mut world = World::holding("0.01");
    let other = market_order("mean", "ETH-USD", "buy", "0.5", "195", 0);
    // (200.2 x 1.001 - 195 + 0.001 x (200.4002 + 195) + 0.001 x 195) x 0.5
    let own = a("2.9953001");
    let value = |world: &mut World| {
        let value = world.row_of(&other, "max_portfolio_risk").value.unwrap();
        assert_eq!(world.row_of(&other, "loss_budget").value, Some(value));
        value.checked_sub(own).unwrap()
    };
    // With slippage and exit fee: (6800 - 6700 + 6.7 + 6.7) x 0.01
    assert_eq!(value(&mut world), a("1.134"));
    world.tighten(OrderId::of_line(1), "6750");
    assert_eq!(value(&mut world), a("0.635"));
    // A pending entry from its limit: (6790 - 6700 + 0.001 x (6790 + 6700) + 6.7) x 0.002
    let pending = world.accepted(&limit(
        market_order("mean", "BTC-USD", "buy", "0.002", "6700", 0),
        "6790",
    ));
    assert_eq!(value(&mut world), a("0.85538"));
    world.cancel(pending);
    world.book.orders.clear();
    assert_eq!(value(&mut world), a("68"));
}

#[test]
fn two_entries_that_together_risk_too_much_do_not_both_pass() {
    let mut world = World::new();
    let first = buy("0.01");
    let second = market_order("mean", "ETH-USD", "buy", "0.3", "195", 0);
    let one = world.row_of(&first, "max_portfolio_risk").value.unwrap();
    let most = one.checked_add(a("0.1")).unwrap();
    let share = most.checked_mul(a("0.001")).unwrap().round_dp_up(10);
    world.rules.safety.max_portfolio_risk = share.try_into().unwrap();
    world.rules.safety.max_total_capital = a("1000").try_into().unwrap();
    world.rules.safety.max_single_position = Amount::ONE.try_into().unwrap();
    world.rules.safety.max_total_exposure = Amount::ONE.try_into().unwrap();
    world.rules.safety.max_single_trade_risk = Amount::ONE.try_into().unwrap();
    world.accepted(&first);
    assert_eq!(world.refused(&second), ["max_portfolio_risk"]);
}

#[test]
fn one_trade_able_to_lose_three_daily_limits() {
    let mut world = World::new();
    world.rules.safety.max_daily_loss = a("30").try_into().unwrap();
    let order = market_order("trend", "BTC-USD", "buy", "0.14", "6150", 0);
    assert_eq!(world.refused(&order), ["loss_budget"]);
    let row = world.row_of(&order, "loss_budget");
    assert!(
        row.value.unwrap() > a("90") && row.limit == Some(a("30")),
        "{row:?}"
    );
    let headroom = world.ask(&order).headroom.unwrap();
    assert_eq!(headroom.binding_check, "loss_budget");
    assert!(headroom.max_size.is_positive());
}

#[test]
fn the_loss_budget_is_what_day_and_week_have_left() {
    for order in [buy("0.01"), sell("0.01")] {
        let value = World::new().row_of(&order, "loss_budget").value.unwrap();
        for (limit, passes) in around(value) {
            for is_week in [false, true] {
                for lost in ["0", "7"] {
                    let mut world = World::new();
                    let lost = a(lost);
                    let full = limit.checked_add(lost).unwrap();
                    let (period, loss_max) = match is_week {
                        true => (
                            &mut world.book.account.week,
                            &mut world.rules.safety.max_weekly_loss,
                        ),
                        false => (
                            &mut world.book.account.day,
                            &mut world.rules.safety.max_daily_loss,
                        ),
                    };
                    let baseline = period.as_mut().unwrap();
                    baseline.equity = baseline.equity.checked_add(lost).unwrap();
                    *loss_max = full.try_into().unwrap();
                    let row = world.row_of(&order, "loss_budget");
                    assert_eq!(
                        (row.passed, row.limit),
                        (passes, Some(limit)),
                        "week {is_week} {lost}"
                    );
                }
            }
        }
    }
    let mut world = World::new();
    world.limit_factor = Some(a("0.5"));
    let row = world.row_of(&buy("0.01"), "loss_budget");
    assert_eq!(
        (row.limit, row.source.as_ref()),
        (Some(a("125")), "safety.yaml (reduced)")
    );
}

#[test]
fn the_weekly_loss_counts_what_is_not_realised_and_equality_halts() {
    for (close, passes) in [("4400.1", true), ("4400", false), ("4399.9", false)] {
        let mut world = World::holding("0.1");
        world.book.orders.clear();
        let week = world.book.account.week.as_mut().unwrap();
        // At 4400 the loss is exactly 500.
        week.equity = world.book.account.cash.checked_add(a("940")).unwrap();
        world.bar("6800", "6800", close, close);
        let order = market_order("mean", "BTC-USD", "buy", "0.002", "4300", 0);
        assert_eq!(
            world.row_of(&order, "weekly_loss_halt").passed,
            passes,
            "{close}"
        );
        // Exits show the reason and still pass.
        let row = world.row_of(&sell("0.1"), "weekly_loss_halt");
        assert_eq!((row.passed, row.reason.is_some()), (true, !passes));
    }
}

#[test]
fn the_weeks_baseline_outlives_days_and_restarts_and_deposits_are_no_profit() {
    let mut world = World::new();
    let opened = world.book.account.week.clone().unwrap();
    assert_eq!(opened.start.to_string(), "2026-02-16T00:00:00.000Z");
    // On Saturday the week has lost 100.
    world.apply(&[Change::AccountAdjusted { amount: a("1000") }]);
    world.book.account.cash = world.book.account.cash.checked_sub(a("100")).unwrap();
    let pnl = |world: &mut World| world.row_of(&buy("0.01"), "weekly_loss_halt").value;
    assert_eq!(pnl(&mut world), Some(a("-100")));
    let view = super::views::portfolio(&world.book, &world.rules, world.now, &Default::default());
    assert_eq!(view.week_pnl, Some(a("-100")));
    // A restart restores the book.
    let kept = serde_json::to_string(&world.book).unwrap();
    world.book = serde_json::from_str::<Book>(&kept).unwrap();
    // Sunday opens a day but no week.
    world.wait(DAY_MS);
    let changes = open_periods(&world.book, &world.rules, world.now);
    assert!(
        matches!(changes.as_slice(), [Change::DayOpened(_)]),
        "{changes:?}"
    );
    world.apply(&changes);
    assert_eq!(pnl(&mut world), Some(a("-100")));
    let day = world.row_of(&buy("0.01"), "daily_loss_halt").value;
    assert_eq!(day, Some(Amount::ZERO));
    // Monday opens both; until then the loss of the week is unknown.
    world.wait(DAY_MS);
    let row = world.row_of(&buy("0.01"), "weekly_loss_halt");
    assert_eq!((row.passed, row.value), (false, None));
    let changes = open_periods(&world.book, &world.rules, world.now);
    assert!(
        matches!(
            changes.as_slice(),
            [Change::DayOpened(_), Change::WeekOpened(_)]
        ),
        "{changes:?}"
    );
    world.apply(&changes);
    assert_eq!(pnl(&mut world), Some(Amount::ZERO));
}

#[test]
fn open_positions_are_counted_with_entries_that_may_become_some() {
    for (most, passes) in [(1, false), (2, true), (3, true)] {
        for pending in [false, true] {
            let mut world = World::new();
            match pending {
                true => drop(world.accepted(&limit(buy("0.01"), "6790"))),
                false => world = World::holding("0.01"),
            }
            world.rules.safety.max_open_positions = most;
            let other = market_order("mean", "BTC-USD", "buy", "0.01", "6700", 0);
            let row = world.row_of(&other, "max_open_positions");
            assert_eq!(
                (row.passed, row.value),
                (passes, Some(a("2"))),
                "{most} {pending}"
            );
            assert_eq!(
                (row.unit.as_ref(), row.limit),
                ("count", Some(Amount::from(most)))
            );
            // An order that adds to an open position opens no other one.
            let more = market_order("trend", "BTC-USD", "buy", "0.01", "6700", 1);
            world.rules.safety.max_open_positions = 0;
            let row = world.row_of(&more, "max_open_positions");
            assert_eq!((row.passed, row.value), (true, Some(Amount::ONE)));
        }
    }
}

#[test]
fn open_orders_are_counted_without_protective_stops() {
    for (most, passes) in [(2, false), (3, true), (4, true)] {
        let mut world = World::holding("0.01");
        world.accepted(&limit(sell("0.01"), "7000"));
        world.accepted(&limit(
            market_order("trend", "BTC-USD", "buy", "0.01", "6700", 1),
            "6790",
        ));
        assert_eq!(world.book.orders.len(), 4);
        world.rules.safety.max_open_orders = most;
        let order = market_order("mean", "BTC-USD", "buy", "0.01", "6700", 0);
        let row = world.row_of(&order, "max_open_orders");
        assert_eq!((row.passed, row.value), (passes, Some(a("3"))), "{most}");
    }
    let mut world = World::holding("0.01");
    world.rules.safety.max_open_orders = 0;
    world.accepted(&sell("0.01"));
}

#[test]
fn an_entry_takes_no_more_cash_than_is_free() {
    for order in [
        buy("0.01"),
        sell("0.01"),
        limit(buy("0.01"), "6790"),
        limit(sell("0.01"), "6810"),
    ] {
        let value = World::new().row_of(&order, "buying_power").value.unwrap();
        for (cash, passes) in around(value) {
            let mut world = World::new();
            world.book.account.cash = cash;
            let row = world.row_of(&order, "buying_power");
            assert_eq!((row.passed, row.limit), (passes, Some(cash)), "{order:?}");
        }
    }
    let cost = |order: &SubmitOrder| World::new().row_of(order, "buying_power").value.unwrap();
    // 6810.2034 x 0.01 x 1.001 and 6796.6 x 0.01 x 1.001.
    assert_eq!(cost(&buy("0.01")), a("68.170136034"));
    assert_eq!(cost(&sell("0.01")), a("68.033966"));
}

#[test]
fn cash_is_held_back_for_working_entries_and_for_shorts() {
    let free = |world: &mut World| {
        let order = market_order("other", "ETH-USD", "buy", "0.1", "195", 0);
        world.row_of(&order, "buying_power").limit.unwrap()
    };
    let mut world = World::new();
    world.accepted(&limit(buy("0.01"), "6790"));
    world.accepted(&limit(
        market_order("mean", "ETH-USD", "sell", "0.5", "210", 0),
        "204",
    ));
    // 5000 - 6790 x 0.01 x 1.001 - 204 x 0.5 x 1.001
    assert_eq!(free(&mut world), a("4829.9301"));
    // A short brings in its proceeds and ties up twice the cost of buying it back.
    let mut world = World::holding("-0.1");
    let cash = world.book.account.cash;
    assert!(cash > a("5600"));
    assert_eq!(free(&mut world), cash.checked_sub(a("1360")).unwrap());
    // Exits are not limited by it.
    world.book.account.cash = a("-10000");
    world.accepted(&market_order("trend", "BTC-USD", "buy", "0.1", "6700", 1));
}

#[test]
fn an_order_is_a_share_of_what_the_market_trades() {
    for order in [buy("0.01"), sell("0.01")] {
        for (volume, passes) in [("0.0999", false), ("0.1", true), ("0.1001", true)] {
            let mut world = World::new();
            world.rules.safety.max_volume_share = Some(a("0.1").try_into().unwrap());
            world.bar_of("6800", "6800", "6800", "6800", Some(volume));
            let row = world.row_of(&order, "liquidity_participation");
            assert_eq!(
                (row.passed, row.value),
                (passes, Some(a("0.01"))),
                "{volume}"
            );
            world.limit_factor = Some(a("0.5"));
            assert!(!world.row_of(&order, "liquidity_participation").passed);
        }
        let mut world = World::new();
        world.rules.safety.max_volume_share = Some(Amount::ONE.try_into().unwrap());
        let row = world.row_of(&order, "liquidity_participation");
        assert_eq!(
            (row.passed, row.value),
            (false, None),
            "a bar without volume"
        );
        world.bar_of("6800", "6800", "6800", "6800", Some("0"));
        assert!(!world.row_of(&order, "liquidity_participation").passed);
    }
    let mut world = World::new();
    world.rules.safety.max_volume_share = Some(a("0.1").try_into().unwrap());
    world.bar_of("6800", "6800", "6800", "6800", Some("0.5"));
    let headroom = world.ask(&buy("0.1")).headroom.unwrap();
    assert_eq!(
        (headroom.max_size, headroom.binding_check.as_str()),
        (a("0.05"), "liquidity_participation")
    );
}

#[test]
fn a_price_that_is_missing_elsewhere_closes_what_counts_it() {
    let mut world = World::new();
    world.accepted(&limit(
        market_order("mean", "ETH-USD", "buy", "0.1", "190", 0),
        "198",
    ));
    world.book.markets.remove(&eth());
    assert_eq!(
        world.refused(&buy("0.01")),
        [
            "max_total_exposure",
            "same_direction_exposure",
            "max_portfolio_risk",
            "loss_budget",
            "gap_budget",
            "daily_turnover",
            "buying_power"
        ]
    );
    let mean = StrategyName::parse("mean").unwrap();
    world.rules.strategies.get_mut(&mean).unwrap().allocation =
        Some(Amount::ONE.try_into().unwrap());
    let order = market_order("mean", "BTC-USD", "buy", "0.01", "6700", 0);
    assert!(!world.row_of(&order, "strategy_allocation").passed);
}
