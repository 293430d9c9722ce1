//! Working entries are asked again: every door and every sum pulls what it no longer allows, the
//! newest first, and nothing else.

use super::change::Change;
use super::order::OrderEnd;
use super::testing::*;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{Leg, OrderId, StrategyName, ThesisSlug};
use spoolgate_wire::orders::SubmitOrder;

const UNIT: &str = "0.0000000001";
const MARGIN: &str = "0.1";

/// One unit below, at and above `at`, each with whether a sum of `at` stays under that limit.
fn around(at: Amount) -> [(Amount, bool); 3] {
    let unit = a(UNIT);
    [
        (at.checked_sub(unit).unwrap(), false),
        (at, true),
        (at.checked_add(unit).unwrap(), true),
    ]
}

/// A resting buy of `trend`, 0.01 BTC at 6750 or a little less.
fn resting(thesis: u8) -> SubmitOrder {
    limit(
        market_order("trend", "BTC-USD", "buy", "0.01", "6700", thesis),
        ["6750", "6749", "6748"][usize::from(thesis)],
    )
}

fn world() -> (World, OrderId) {
    let mut world = World::new();
    let id = world.accepted(&resting(0));
    assert_eq!(world.pulls("0.0000000001"), []);
    (world, id)
}

type Close = fn(&mut World);

#[test]
fn every_closed_door_pulls() {
    let doors: [(&str, Close); 21] = [
        ("manual_halt", |world| world.halted = Some("halted")),
        ("dead_man", |world| world.unheard = Some("silent")),
        ("strategy_active", |world| world.paused = Some("paused")),
        ("strategy_active", |world| world.key_fault = Some("revoked")),
        ("strategy_active", |world| {
            world.rules.strategies.remove(&trend());
        }),
        ("strategy_active", |world| {
            let rule = world.rules.principals.get_mut(&world.source).unwrap();
            rule.strategies.retain(|name| *name != trend());
        }),
        ("clock", |world| world.clock_fault = Some("clock")),
        ("rulebook", |world| world.rulebook_fault = Some("rules")),
        ("thesis_valid", |world| {
            let slug = ThesisSlug::parse("trend-btc-long-0").unwrap();
            world.rules.theses.get_mut(&slug).unwrap().expires = world.now;
        }),
        ("thesis_valid", |world| {
            let slug = ThesisSlug::parse("trend-btc-long-0").unwrap();
            world.rules.theses.remove(&slug);
        }),
        ("thesis_valid", |world| {
            let slug = ThesisSlug::parse("trend-btc-long-0").unwrap();
            let at = world.now;
            let price = a("1");
            world.apply(&[Change::ThesisRefuted { slug, at, price }]);
        }),
        ("instrument_allowed", |world| {
            world.rules.safety.restricted_instruments = vec![btc()];
        }),
        ("time_window", |world| {
            let window = serde_json::from_str(r#"{"from":"00:00","to":"23:59"}"#).unwrap();
            world.rules.safety.restricted = vec![window];
        }),
        ("daily_loss_halt", |world| {
            let day = world.book.account.day.as_mut().unwrap();
            day.equity = day.equity.checked_add(a("250")).unwrap();
        }),
        ("weekly_loss_halt", |world| {
            let week = world.book.account.week.as_mut().unwrap();
            week.equity = week.equity.checked_add(a("500")).unwrap();
        }),
        ("drawdown_halt", |world| {
            world.book.account.drawdown_since = Some(world.now);
        }),
        ("repeated_execution", |world| {
            let conduct = world.book.conduct.entry(trend()).or_default();
            conduct.disabled_since = Some(world.now);
        }),
        ("loss_streak", |world| {
            world.book.conduct.entry(trend()).or_default().losing = 1000;
        }),
        ("reject_streak", |world| {
            world.book.conduct.entry(trend()).or_default().rejects = 5;
        }),
        ("order_age", |world| world.wait(86_400_001)),
        ("symbol_halt", |world| {
            let gap = super::book::Gap {
                previous: a("1"),
                open: a("2"),
                time: world.now,
            };
            world.apply(&[Change::SymbolHalted { symbol: btc(), gap }]);
        }),
    ];
    for (check, close) in doors {
        let (mut world, id) = world();
        close(&mut world);
        assert_eq!(world.pulls(MARGIN), [(id, check.to_owned())]);
        world.settle(MARGIN);
        assert!(world.book.orders.is_empty(), "{check}: its stop goes along");
    }
}

#[test]
fn a_pull_says_why_and_leaves_exits_stops_and_others() {
    let mut world = World::holding("0.02");
    let exit = world.accepted(&limit(sell("0.01"), "7000"));
    let mean = StrategyName::parse("mean").unwrap();
    let other = world.accepted(&limit(
        market_order("mean", "BTC-USD", "buy", "0.002", "6690", 1),
        "6750",
    ));
    let id = world.accepted(&resting(1));
    world.rules.strategies.remove(&trend());
    let pulls = super::guard::pulls(&world.book, &world.rules, &world, world.now, a(MARGIN));
    let [pull] = pulls.as_slice() else {
        panic!("{pulls:?}")
    };
    let changes = pull.changes(&world.book, world.now);
    let Change::OrderClosed {
        order_id, end, why, ..
    } = &changes[0]
    else {
        panic!("{changes:?}")
    };
    assert_eq!((*order_id, *end), (id, OrderEnd::Pulled));
    let why = why.as_ref().unwrap();
    assert_eq!(
        (why.check.as_str(), why.value, why.limit),
        ("strategy_active", None, None)
    );
    world.settle(MARGIN);
    let left: Vec<OrderId> = world.book.orders.keys().copied().collect();
    assert!(left.contains(&exit) && left.contains(&other) && left.contains(&other.stop()));
    assert!(!left.contains(&id) && !left.contains(&id.stop()));
    let stops = left.iter().filter(|id| id.leg == Leg::Stop).count();
    assert_eq!(stops, 2, "the position's and the other entry's");
    assert_eq!(world.book.orders[&other].strategy, mean);
}

#[test]
fn what_has_no_price_pulls_nothing_on_paper() {
    let (mut world, _) = world();
    world.wait(1_000_000);
    assert_eq!(world.pulls(MARGIN), []);
    world.book.markets.clear();
    assert_eq!(world.pulls(MARGIN), []);
}

/// A sum is asked again when a later pull has lowered a price: only then does this entry lower it.
#[test]
fn what_a_later_pull_makes_the_highest_price_is_pulled_too() {
    let mut world = World::new();
    let short = |name: &str| market_order(name, "BTC-USD", "sell", "0.01", "6950", 0);
    let mean = world.accepted(&limit(short("mean"), "6850"));
    world.accepted(&market_order("mean", "BTC-USD", "buy", "0.02", "6700", 0));
    world.flat("6800");
    let trend = world.accepted(&limit(short("trend"), "6860"));
    // `mean` holds more than its part; the price of `trend` counts for it until `trend` is pulled.
    for (name, part) in [("mean", "0.02"), ("trend", "0.001")] {
        let name = StrategyName::parse(name).unwrap();
        let strategy = world.rules.strategies.get_mut(&name).unwrap();
        strategy.allocation = Some(a(part).try_into().unwrap());
    }
    let check = "strategy_allocation".to_owned();
    assert_eq!(world.pulls("0"), [(trend, check.clone()), (mean, check)]);
    world.settle("0");
}

type Set = fn(&mut World, Amount);

/// Sets the base to that many times the amount.
fn base(world: &mut World, value: Amount, times: &str) {
    let base = value.checked_mul(a(times)).unwrap();
    world.rules.safety.max_total_capital = base.try_into().unwrap();
}

/// Sets each limit to a part of the base or to an amount, so that it lies one unit below, at and
/// above the sum, without a margin and with one.
#[test]
fn every_sum_at_one_unit_below_on_and_above() {
    let tables: [(&str, Set); 11] = [
        ("max_single_trade_risk", |world, value| {
            world.rules.safety.max_single_trade_risk = a("0.01").try_into().unwrap();
            base(world, value, "100");
        }),
        ("max_single_position", |world, value| {
            base(world, value, "1");
        }),
        ("max_total_exposure", |world, value| {
            world.rules.safety.max_total_exposure = a("0.5").try_into().unwrap();
            base(world, value, "2");
        }),
        ("same_direction_exposure", |world, value| {
            let limit = a("0.5").try_into().unwrap();
            world.rules.safety.max_same_direction_exposure = Some(limit);
            base(world, value, "2");
        }),
        ("correlated_group", |world, value| {
            let limit = a("0.5").try_into().unwrap();
            world.rules.safety.max_correlated_group = Some(limit);
            for instrument in world.rules.instruments.values_mut() {
                instrument.group = Some("coins".to_owned());
            }
            base(world, value, "2");
        }),
        ("strategy_allocation", |world, value| {
            for strategy in world.rules.strategies.values_mut() {
                strategy.allocation = Some(a("0.5").try_into().unwrap());
            }
            base(world, value, "2");
        }),
        ("max_portfolio_risk", |world, value| {
            world.rules.safety.max_portfolio_risk = a("0.01").try_into().unwrap();
            base(world, value, "100");
        }),
        ("loss_budget", |world, value| {
            world.rules.safety.max_daily_loss = value.try_into().unwrap();
        }),
        ("gap_budget", |world, value| {
            world.rules.safety.max_weekly_loss = value.try_into().unwrap();
        }),
        ("daily_turnover", |world, value| {
            world.rules.safety.max_daily_turnover = a("0.5").try_into().unwrap();
            base(world, value, "2");
        }),
        ("max_open_orders", |world, value| {
            world.rules.safety.max_open_orders = value.to_string().parse().unwrap();
        }),
    ];
    // 0.01 x 6803.4; (6750 - 6700 + 0.001 x (6750 + 6700) + 0.001 x 6700) x 0.01; a tenth of the
    // first; 0.01 x 6750.
    let value = |check: &str| match check {
        "max_single_trade_risk" | "max_portfolio_risk" | "loss_budget" => a("0.7015"),
        "gap_budget" => a("6.8034"),
        "daily_turnover" => a("67.5"),
        _ => a("68.034"),
    };
    let loosened = || {
        let (mut world, id) = world();
        let safety = &mut world.rules.safety;
        let all = Amount::ONE;
        safety.max_single_trade_risk = all.try_into().unwrap();
        safety.max_single_position = all.try_into().unwrap();
        safety.max_total_exposure = a("100").try_into().unwrap();
        safety.max_portfolio_risk = all.try_into().unwrap();
        safety.max_daily_loss = a("100000").try_into().unwrap();
        safety.max_weekly_loss = a("100000").try_into().unwrap();
        (world, id)
    };
    for (check, set) in tables {
        if check == "max_open_orders" {
            for (most, stays) in [("0", false), ("1", true), ("2", true)] {
                let (mut world, id) = loosened();
                set(&mut world, a(most));
                let told = [(id, check.to_owned())];
                let expected: &[_] = if stays { &[] } else { &told };
                assert_eq!(world.pulls(MARGIN), expected, "{most}");
            }
            continue;
        }
        for (margin, limit) in [("0", value(check)), ("1", half(value(check)))] {
            for (limit, stays) in around(limit) {
                let (mut world, id) = loosened();
                set(&mut world, limit);
                let pulled = world.pulls(margin);
                let told = pulled
                    .iter()
                    .any(|(pulled, by)| (*pulled, by.as_str()) == (id, check));
                assert!(stays != told, "{check} {margin} {limit}: {pulled:?}");
            }
        }
    }
}

#[test]
fn entries_that_the_cash_does_not_cover_go() {
    // 19.9 x 1.001, without a margin and with one.
    for (margin, cash) in [("0", "19.9199"), ("1", "9.95995")] {
        for (cash, stays) in around(a(cash)) {
            let mut world = World::holding("0.1");
            let rest = market_order("trend", "ETH-USD", "buy", "0.1", "197", 0);
            let id = world.accepted(&limit(rest, "199"));
            // The position's worth stands for the cash that is gone.
            world.book.account.cash = cash;
            world.book.account.day = None;
            world.book.account.week = None;
            world.book.account.peak_equity = None;
            let expected = [(id, "buying_power".to_owned())];
            let expected: &[_] = if stays { &[] } else { &expected };
            world.rules.safety.max_single_position = Amount::ONE.try_into().unwrap();
            world.rules.safety.max_total_exposure = a("100").try_into().unwrap();
            world.rules.safety.max_single_trade_risk = Amount::ONE.try_into().unwrap();
            world.rules.safety.max_total_capital = a("100000").try_into().unwrap();
            let mut pulls = world.pulls(margin);
            pulls.retain(|(_, check)| check == "buying_power");
            assert_eq!(pulls, expected, "{margin} {cash}");
        }
    }
}

/// Half of an amount.
fn half(amount: Amount) -> Amount {
    amount.checked_mul(a("0.5")).unwrap()
}

#[test]
fn the_newest_entry_that_lowers_the_sum_goes_first() {
    let mut world = World::new();
    let ids: Vec<OrderId> = (0..3).map(|n| world.accepted(&resting(n))).collect();
    // The newest is on the other side and does not add to the worse one.
    let against = world.accepted(&limit(
        market_order("mean", "BTC-USD", "sell", "0.002", "6900", 0),
        "6802",
    ));
    // 0.03 x 6803.4 is above, 0.02 x 6803.4 below 0.0274 x 5000 x 1.1 = 150.7.
    world.rules.safety.max_single_position = a("0.0274").try_into().unwrap();
    let expected = [(ids[2], "max_single_position".to_owned())];
    assert_eq!(world.pulls(MARGIN), expected);
    world.settle(MARGIN);
    assert!(world.book.orders.contains_key(&against));
    // Without the margin one more goes: 136.068 is above 136.
    let expected = [(ids[1], "max_single_position".to_owned())];
    world.rules.safety.max_single_position = a("0.0272").try_into().unwrap();
    assert_eq!(world.pulls("0"), expected);
}

#[test]
fn where_both_sides_are_equal_the_newest_goes_and_then_the_other_side() {
    let mut world = World::new();
    let buy = world.accepted(&resting(0));
    let sell = world.accepted(&limit(
        market_order("mean", "BTC-USD", "sell", "0.01", "6900", 0),
        "6802",
    ));
    world.rules.safety.max_single_position = a("0.0001").try_into().unwrap();
    let pulled: Vec<OrderId> = world.pulls(MARGIN).into_iter().map(|(id, _)| id).collect();
    assert_eq!(pulled, [sell, buy]);
    // A position on one side keeps the sum up, so that nothing on the other side has to go.
    let mut world = World::holding("0.01");
    let sell = market_order("mean", "BTC-USD", "sell", "0.01", "6900", 0);
    world.accepted(&limit(sell, "6802"));
    world.rules.safety.max_single_position = a("0.0001").try_into().unwrap();
    assert_eq!(world.pulls(MARGIN), []);
}

#[test]
fn a_reduced_strategy_is_held_to_less() {
    let (mut world, id) = world();
    world.rules.safety.max_single_position = a("0.02").try_into().unwrap();
    assert_eq!(world.pulls("0"), []);
    world.limit_factor = Some(a("0.5"));
    let expected = [(id, "max_single_position".to_owned())];
    assert_eq!(world.pulls("0"), expected);
}

#[test]
fn a_row_whose_open_makes_an_entry_inadmissible_does_not_fill_it() {
    use super::market_row::Row;
    let (mut world, id) = world();
    // The open refutes the thesis; the bar then comes back through the entry's price.
    let slug = ThesisSlug::parse("trend-btc-long-0").unwrap();
    let thesis = world.rules.theses.get_mut(&slug).unwrap();
    thesis.invalid_below = Some(a("6745").try_into().unwrap());
    let open_ms = world.now.ms();
    world.wait(60_000);
    let bar = |open: &str| Row::Bar {
        open_ms,
        interval_ms: 60_000,
        open: a(open),
        high: a("6800"),
        low: a("6740"),
        close: a("6790"),
        volume: None,
    };
    for (open, expected) in [("6745", OrderEnd::Pulled), ("6745.1", OrderEnd::Filled)] {
        let steps = super::venue::on_rows(
            &world.book,
            &world.rules,
            &btc(),
            &[bar(open)],
            Some(&world),
            world.now,
            0,
        );
        let changes = steps.unwrap().into_iter().flat_map(|step| step.changes);
        let ended: Vec<_> = changes.filter_map(|change| change.ended()).collect();
        assert!(ended.contains(&(id, expected)), "{open}: {ended:?}");
    }
}
