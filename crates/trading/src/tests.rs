//! Checks at their limits, and regression tests for failures seen in other systems.

mod account;
mod market_data;

use super::change::Change;
use super::order::{OrderEnd, OrderRole};
use super::requests::ClosedOrder;
use super::testing::*;
use spoolgate_rules::strategies::StrategyStatus;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{OrderId, Principal, StrategyName};
use spoolgate_wire::orders::SubmitOrder;

#[test]
fn an_entry_that_breaks_nothing_passes_every_check_and_brings_its_stop() {
    let mut world = World::new();
    for order in [buy("0.01"), sell("0.01")] {
        let verdict = world.ask(&order);
        assert!(verdict.accepted, "{:#?}", failed(&verdict));
        assert_eq!(verdict.checks.len(), 44);
        let [Change::OrderPlaced(entry), Change::OrderPlaced(stop)] = verdict.changes.as_slice()
        else {
            panic!()
        };
        assert_eq!(
            (entry.role, stop.role),
            (OrderRole::Entry, OrderRole::Protective)
        );
        assert_eq!(stop.order_id, entry.order_id.stop());
        assert_eq!(
            (stop.size, stop.trigger),
            (Amount::ZERO, Some(order.planned_stop))
        );
        assert_eq!(stop.side, entry.side.opposite());
    }
}

/// For each limit: first finds the value that is compared with it, then sets the limit one unit
/// below, to, and above that value.
#[test]
fn every_numeric_limit_at_one_unit_below_on_and_above() {
    type Set = fn(&mut World, Amount);
    let base: Set = |world, limit| world.rules.safety.max_total_capital = limit.try_into().unwrap();
    let tables: [(&str, Set, bool); 4] = [
        (
            "max_order_value",
            |world, limit| world.rules.safety.max_order_value = limit.try_into().unwrap(),
            true,
        ),
        (
            "max_order_size",
            |world, limit| instrument(world).max_size = limit.try_into().unwrap(),
            true,
        ),
        (
            "min_notional",
            |world, limit| instrument(world).min_notional = limit.try_into().unwrap(),
            false,
        ),
        (
            "size_lot",
            |world, limit| instrument(world).min_size = limit.try_into().unwrap(),
            false,
        ),
    ];
    let fractions: [(&str, Set); 3] = [
        ("max_single_trade_risk", |world, one| {
            world.rules.safety.max_single_trade_risk = one.try_into().unwrap()
        }),
        ("max_single_position", |world, one| {
            world.rules.safety.max_single_position = one.try_into().unwrap()
        }),
        ("max_total_exposure", |world, one| {
            world.rules.safety.max_total_exposure = one.try_into().unwrap()
        }),
    ];
    let unit = a("0.0000000001");
    for order in [
        buy("0.01"),
        sell("0.01"),
        limit(buy("0.01"), "6790.1"),
        limit(sell("0.01"), "6810.1"),
    ] {
        let value = |name: &str| World::new().row_of(&order, name).value.unwrap();
        for (name, set, is_most) in tables {
            let at = value(name);
            for (limit, passes) in around(at, unit, is_most) {
                let mut world = World::new();
                set(&mut world, limit);
                assert_eq!(
                    world.row_of(&order, name).passed,
                    passes,
                    "{name} {at} {limit}"
                );
            }
        }
        for (name, set) in fractions {
            let at = value(name);
            for (limit, passes) in around(at, unit, true) {
                let mut world = World::new();
                set(&mut world, Amount::ONE);
                base(&mut world, limit);
                assert_eq!(
                    world.row_of(&order, name).passed,
                    passes,
                    "{name} {at} {limit}"
                );
            }
        }
    }
}

fn around(at: Amount, unit: Amount, is_most: bool) -> [(Amount, bool); 3] {
    let (below, above) = (at.checked_sub(unit).unwrap(), at.checked_add(unit).unwrap());
    [(below, !is_most), (at, true), (above, is_most)]
}

fn instrument(world: &mut World) -> &mut spoolgate_rules::instruments::Instrument {
    world.rules.instruments.get_mut(&btc()).unwrap()
}

#[test]
fn the_formulas_by_hand() {
    let mut world = World::new();
    // Ask 6803.4, worst entry 6803.4 x 1.001 = 6810.2034.
    let value = |world: &mut World, order: &SubmitOrder, name: &str| {
        world.row_of(order, name).value.unwrap()
    };
    assert_eq!(
        value(&mut world, &buy("0.01"), "max_order_value"),
        a("68.034")
    );
    assert_eq!(
        value(&mut world, &buy("0.01"), "stop_distance"),
        a("110.2034")
    );
    // (110.2034 + 0.001 x (6810.2034 + 6700) + 0.001 x 6700) x 0.01
    assert_eq!(
        value(&mut world, &buy("0.01"), "max_single_trade_risk"),
        a("1.304136034")
    );
    // Bid 6796.6, worst entry 6796.6 x 0.999 = 6789.8034; (110.1966 + 13.6898034 + 6.9) x 0.01
    assert_eq!(
        value(&mut world, &sell("0.01"), "max_single_trade_risk"),
        a("1.307864034")
    );
    assert_eq!(
        value(&mut world, &sell("0.01"), "max_order_value"),
        a("67.966")
    );
    assert_eq!(
        value(&mut world, &limit(buy("0.01"), "6700.1"), "max_order_value"),
        a("68.034")
    );
    assert_eq!(
        value(&mut world, &limit(sell("0.01"), "6900"), "max_order_value"),
        a("69")
    );
    let row = world.row_of(&buy("0.01"), "max_single_position");
    assert_eq!((row.value, row.limit), (Some(a("68.034")), Some(a("1000"))));
}

#[test]
fn worst_entry_of_every_type_and_side() {
    let market = super::valuation::TwoSided {
        bid: a("99"),
        ask: a("101"),
        time: World::new().now,
    };
    use spoolgate_wire::orders::{OrderType::*, Side::*};
    for (side, order_type, own, expect) in [
        (Buy, Market, None, "102.01"),
        (Buy, Limit, Some("100"), "100"),
        (Buy, Limit, Some("101"), "101"),
        (Buy, Limit, Some("200"), "102.01"),
        (Buy, Stop, Some("110"), "111.1"),
        (Buy, Stop, Some("90"), "102.01"),
        (Sell, Market, None, "98.01"),
        (Sell, Limit, Some("100"), "100"),
        (Sell, Limit, Some("99"), "99"),
        (Sell, Limit, Some("50"), "98.01"),
        (Sell, Stop, Some("90"), "89.1"),
        (Sell, Stop, Some("110"), "98.01"),
    ] {
        let terms = super::pricing::Terms {
            side,
            order_type,
            own_price: own.map(a),
        };
        assert_eq!(
            super::pricing::worst_entry(&terms, &market, a("0.01")),
            Some(a(expect)),
            "{terms:?}"
        );
    }
}

#[test]
fn stops_are_on_the_right_side_far_enough_and_not_too_far() {
    // Long: worst entry 6810.2034, bounds 0.1% and 10%, bid 6796.6. Short: worst 6789.8034, ask
    // 6803.4.
    for (order, stop, expect) in [
        (buy("0.01"), "6796.5", ""),
        (buy("0.01"), "6796.6", "stop_required"),
        (buy("0.01"), "6803.4", "stop_required stop_distance"),
        (
            buy("0.01"),
            "6810.3",
            "stop_required stop_hostable stop_distance",
        ),
        (buy("0.01"), "6129.2", ""),
        (buy("0.01"), "6129.1", "stop_distance"),
        (buy("0.01"), "6700.05", "price_tick stop_hostable"),
        (
            buy("0.01"),
            "0",
            "stop_required stop_hostable stop_distance",
        ),
        (sell("0.01"), "6803.5", ""),
        (sell("0.01"), "6803.4", "stop_required"),
        (sell("0.01"), "7468.7", ""),
        (sell("0.01"), "7468.8", "stop_distance"),
    ] {
        let mut order = order;
        (order.planned_stop, order.stop_price) = (a(stop), Some(a(stop)));
        let failed: Vec<String> = failed(&World::new().ask(&order))
            .into_iter()
            .map(|row| row.name.into_owned())
            .collect();
        assert_eq!(
            failed.join(" "),
            expect,
            "{} stop {stop}",
            order.side.as_str()
        );
    }
    let mut order = buy("0.01");
    order.stop_price = None;
    assert_eq!(World::new().refused(&order), ["stop_required"]);
    order.stop_price = Some(a("6700.1"));
    assert_eq!(World::new().refused(&order), ["stop_required"]);
}

#[test]
fn collars_on_both_sides() {
    // Ask 6803.4: 2% above is 6939.468, 10% below 6123.06. Bid 6796.6: 2% below 6660.668, 10% above
    // 7476.26.
    for (order, passes) in [
        (limit(buy("0.01"), "6939.4"), true),
        (limit(buy("0.01"), "6939.5"), false),
        (limit(buy("0.01"), "6123.1"), true),
        (limit(buy("0.01"), "6123"), false),
        (limit(sell("0.01"), "6660.7"), true),
        (limit(sell("0.01"), "6660.6"), false),
        (limit(sell("0.01"), "7476.2"), true),
        (limit(sell("0.01"), "7476.3"), false),
        (stop(buy("0.01"), "6939.4"), true),
        (stop(buy("0.01"), "6939.5"), false),
    ] {
        assert_eq!(
            World::new().row_of(&order, "price_collar").passed,
            passes,
            "{order:?}"
        );
    }
}

#[test]
fn ages_at_their_bounds() {
    // (who, ms of age, entry passes)
    for (age, passes) in [
        (0, true),
        (60_000, true),
        (60_001, false),
        (-5_000, true),
        (-5_001, false),
    ] {
        let mut world = World::new();
        world.requested_at = Some(world.now.plus_ms(-age));
        assert_eq!(
            world.row_of(&buy("0.01"), "request_freshness").passed,
            passes,
            "{age}"
        );
    }
    for (age, passes) in [(120_000, true), (120_001, false)] {
        let mut world = World::new();
        world.wait(age);
        assert_eq!(
            world.row_of(&buy("0.01"), "market_data").passed,
            passes,
            "market data {age}"
        );
    }
    let mut world = World::new();
    world.source = Principal::parse("bob").unwrap();
    world.requested_at = Some(world.now.plus_ms(-10_001));
    let order = market_order("other", "BTC-USD", "buy", "0.01", "6700", 0);
    let row = world.row_of(&order, "request_freshness");
    assert_eq!(
        (row.passed, &*row.source, row.limit),
        (false, "principals.yaml", Some(a("10000")))
    );
}

#[test]
fn an_old_exit_passes_only_against_the_position_it_was_signed_for() {
    let mut world = World::holding("0.01");
    let grown_at = world.now;
    world.wait(3_600_000);
    for (requested_at, passes) in [
        (grown_at.plus_ms(1), true),
        (grown_at, false),
        (grown_at.plus_ms(-1), false),
        (world.now.plus_ms(-60_000), true),
    ] {
        world.requested_at = Some(requested_at);
        assert_eq!(world.ask(&sell("0.01")).accepted, passes, "{requested_at}");
    }
    world.requested_at = Some(grown_at.plus_ms(1));
    world.wait(86_400_000 - 3_600_000 + 1);
    assert!(world.ask(&sell("0.01")).accepted);
    world.wait(1);
    assert!(!world.ask(&sell("0.01")).accepted);
}

#[test]
fn duplicates_within_the_window_its_end_included() {
    let mut world = World::new();
    world.accepted(&buy("0.01"));
    let again = market_order("trend", "BTC-USD", "buy", "0.010", "6700", 1);
    world.wait(30_000);
    assert_eq!(world.refused(&again), ["duplicate_order"]);
    assert!(
        world
            .ask(&market_order("trend", "BTC-USD", "buy", "0.011", "6700", 1))
            .accepted
    );
    world.wait(1);
    assert!(world.ask(&again).accepted);
}

#[test]
fn recent_entries_stay_bounded() {
    let mut world = World::new();
    let Change::OrderPlaced(order) = world.ask(&buy("0.01")).changes.remove(0) else {
        panic!()
    };
    for (seq, at_ms) in (0..5000)
        .map(|n| (n, n))
        .chain([(5000, 605_000), (5001, 1_300_000)])
    {
        let mut order = order.clone();
        order.order_id = OrderId::of_line(seq);
        order.accepted_at = world.now.plus_ms(i64::try_from(at_ms).unwrap());
        world.book.apply(&Change::OrderPlaced(order)).unwrap();
        assert!(world.book.recent_entries.len() <= 4096);
    }
    assert_eq!(world.book.recent_entries.len(), 1);
}

#[test]
fn theses_must_fit_and_are_used_once() {
    let mut world = World::new();
    let check = |world: &mut World, order: &SubmitOrder| world.row_of(order, "thesis_valid").passed;
    assert!(check(&mut world, &buy("0.01")));
    assert!(!check(
        &mut world,
        &market_order("trend", "BTC-USD", "buy", "0.01", "6700", 9)
    ));
    for slug in ["mean-btc-long-0", "trend-eth-long-0", "trend-btc-short-0"] {
        let mut order = buy("0.01");
        order.thesis_slug = spoolgate_wire::ids::ThesisSlug::parse(slug).unwrap();
        assert!(!check(&mut world, &order), "{slug}");
    }
    let slug = buy("0.01").thesis_slug;
    // Last 6800, middle 6800.
    for (below, above, passes) in [
        ("6799.9", "6800.1", true),
        ("6800", "6900", false),
        ("6700", "6800", false),
        ("6800.1", "6900", false),
    ] {
        let thesis = world.rules.theses.get_mut(&slug).unwrap();
        thesis.invalid_below = Some(a(below).try_into().unwrap());
        thesis.invalid_above = Some(a(above).try_into().unwrap());
        assert_eq!(check(&mut world, &buy("0.01")), passes, "{below} {above}");
    }
    let now = world.now;
    let thesis = world.rules.theses.get_mut(&slug).unwrap();
    (thesis.invalid_below, thesis.invalid_above, thesis.expires) = (None, None, now);
    assert!(!check(&mut world, &buy("0.01")));
    world.rules.theses.get_mut(&slug).unwrap().expires = now.plus_ms(1_000_000);
    world.accepted(&buy("0.01"));
    assert!(!check(&mut world, &buy("0.02")), "open entry");
    world.flat("6800");
    assert!(!check(&mut world, &buy("0.02")), "open position");
    world.accepted(&sell("0.01"));
    world.flat("6800");
    assert!(check(&mut world, &buy("0.02")), "closed again");
}

#[test]
fn strategies_and_instruments_are_the_senders_and_active() {
    let mut world = World::new();
    world.rules.strategies.get_mut(&trend()).unwrap().status = StrategyStatus::Paused;
    assert_eq!(world.refused(&buy("0.01")), ["strategy_active"]);
    let mut world = World::new();
    world
        .rules
        .strategies
        .get_mut(&trend())
        .unwrap()
        .instruments
        .clear();
    assert_eq!(world.refused(&buy("0.01")), ["instrument_allowed"]);
    let mut world = World::new();
    world
        .rules
        .strategies
        .get_mut(&trend())
        .unwrap()
        .directions
        .clear();
    assert_eq!(world.refused(&buy("0.01")), ["instrument_allowed"]);
    let mut world = World::holding("0.01");
    let entry = OrderId::of_line(1);
    world.source = Principal::parse("bob").unwrap();
    assert_eq!(
        world.refused(&sell("0.01")),
        ["strategy_active"],
        "nobody reduces what somebody else owns"
    );
    assert!(!world.tighten(entry, "6750").accepted);
    let mut world = World::new();
    let id = world.accepted(&limit(buy("0.01"), "6750"));
    world.source = Principal::parse("bob").unwrap();
    assert!(!world.cancel(id).accepted);
}

#[test]
fn halts_and_faults_stop_entries_and_never_exits() {
    type Set = fn(&mut World);
    let table: [(&str, Set); 9] = [
        ("manual_halt", |world| {
            world.halted = Some("a person halted trading")
        }),
        ("clock", |world| {
            world.clock_fault = Some("the clock stepped back")
        }),
        ("rulebook", |world| {
            world.rulebook_fault = Some("rules/safety.yaml:3: no")
        }),
        ("market_data", |world| world.book.markets.clear()),
        ("market_data", |world| world.wait(10_000_000)),
        ("daily_loss_halt", |world| {
            world.book.account.day.as_mut().unwrap().equity = a("9000")
        }),
        ("drawdown_halt", |world| {
            world.book.account.drawdown_since = Some(world.now)
        }),
        ("strategy_active", |world| {
            drop(world.rules.strategies.remove(&trend()))
        }),
        ("max_single_trade_risk", |world| {
            world.book.account.cash = a("-90000")
        }),
    ];
    for (name, set) in table {
        let mut world = World::holding("0.01");
        set(&mut world);
        let entry = market_order("trend", "BTC-USD", "buy", "0.02", "6700", 1);
        assert!(world.refused(&entry).contains(&name.to_owned()), "{name}");
        let verdict = world.ask(&sell("0.01"));
        assert!(verdict.accepted, "{name}: {:?}", failed(&verdict));
        assert!(
            world.tighten(OrderId::of_line(1), "6750").accepted,
            "{name}"
        );
        let shown = verdict.checks.iter().find(|row| row.name == name);
        if let Some(reason) = shown.and_then(|row| row.reason.as_ref()) {
            assert!(reason.starts_with("exempt: "), "{name}: {reason}");
        }
    }
}

#[test]
fn an_exit_is_not_blocked_by_a_minimum_or_a_missing_instrument() {
    let mut world = World::holding("0.01");
    instrument(&mut world).min_notional = a("100000").try_into().unwrap();
    assert!(world.ask(&sell("0.005")).accepted);
    instrument(&mut world).min_size = a("0.5").try_into().unwrap();
    assert!(world.ask(&sell("0.01")).accepted, "all that is left");
    assert_eq!(world.refused(&sell("0.005")), ["size_lot"]);
    instrument(&mut world).lot = a("0.003").try_into().unwrap();
    assert!(world.ask(&sell("0.01")).accepted, "all that is left");
    world.rules.instruments.clear();
    assert!(world.ask(&sell("0.01")).accepted);
}

/// Regression: with the whole position in working exits, another order on that side reduced nothing
/// and counted as an entry. With a thesis of the other direction it was accepted, and would have
/// reversed the position.
#[test]
fn a_position_at_work_in_exits_takes_no_further_exit_and_no_entry_against_it() {
    let mut world = World::holding("0.01");
    world.accepted(&sell("0.01"));
    let verdict = world.ask(&sell("0.01"));
    assert_eq!(failed(&verdict).len(), 1, "{:#?}", failed(&verdict));
    let reason = row(&verdict, "reduce_only").reason.unwrap();
    assert_eq!(
        reason,
        "working exits already reduce the whole position; cancel one of them first"
    );
}

#[test]
fn a_sell_of_ten_does_not_turn_a_long_of_one() {
    let mut world = World::holding("0.01");
    let verdict = world.ask(&sell("0.1"));
    assert_eq!(failed(&verdict).len(), 1);
    let row = row(&verdict, "reduce_only");
    assert_eq!(
        row.reason.unwrap(),
        "split into an exit of 0.01 and an entry of 0.09"
    );
    let headroom = verdict.headroom.unwrap();
    assert_eq!(
        (headroom.max_size, headroom.binding_check.as_str()),
        (a("0.01"), "reduce_only")
    );
    world.accepted(&limit(sell("0.006"), "6900"));
    assert_eq!(row_limit(&mut world, "0.1"), Some(a("0.004")));
}

fn row_limit(world: &mut World, size: &str) -> Option<Amount> {
    world.row_of(&sell(size), "reduce_only").limit
}

#[test]
fn of_two_entries_jointly_over_exactly_one_passes() {
    let mut world = World::new();
    world.rules.safety.max_single_position = a("0.02").try_into().unwrap();
    world.accepted(&buy("0.008"));
    let second = market_order("mean", "BTC-USD", "buy", "0.007", "6700", 0);
    let verdict = world.ask(&second);
    assert_eq!(
        row(&verdict, "max_single_position").value,
        Some(a("102.051"))
    );
    let headroom = verdict.headroom.unwrap();
    assert_eq!(
        (headroom.max_size, headroom.binding_check.as_str()),
        (a("0.006"), "max_single_position")
    );
    // Sells never net against buys: they have a worst case of their own.
    world.accepted(&market_order("mean", "BTC-USD", "sell", "0.014", "6900", 0));
}

#[test]
fn headroom_is_the_largest_size_that_passes() {
    for order in [
        buy("5"),
        sell("5"),
        limit(buy("0.7"), "6790.1"),
        stop(sell("0.7"), "6750"),
        buy("0.0105"),
    ] {
        let verdict = World::new().ask(&order);
        assert!(!verdict.accepted);
        let headroom = verdict.headroom.unwrap();
        let mut fitting = order.clone();
        fitting.size = headroom.max_size;
        assert!(World::new().ask(&fitting).accepted, "{headroom:?}");
        fitting.size = headroom.max_size.checked_add(a("0.001")).unwrap();
        assert_eq!(
            *World::new().refused(&fitting).first().unwrap(),
            headroom.binding_check
        );
    }
    let mut world = World::new();
    world.halted = Some("halted");
    let headroom = world.ask(&buy("5")).headroom.unwrap();
    assert_eq!(
        (headroom.max_size, headroom.binding_check.as_str()),
        (Amount::ZERO, "manual_halt")
    );
    let mut world = World::new();
    instrument(&mut world).min_notional = a("4999").try_into().unwrap();
    let headroom = world.ask(&buy("0.01")).headroom.unwrap();
    assert_eq!(
        (headroom.max_size, headroom.binding_check.as_str()),
        (Amount::ZERO, "min_notional")
    );
    let mut world = World::new();
    instrument(&mut world).lot = Amount::ZERO.try_into().unwrap();
    let headroom = world.ask(&buy("5")).headroom.unwrap();
    assert_eq!(
        (headroom.max_size, headroom.binding_check.as_str()),
        (a("0.14698533"), "max_order_value")
    );
}

#[test]
fn cancels() {
    let mut world = World::new();
    let id = world.accepted(&limit(buy("0.01"), "6750"));
    assert!(!world.cancel(id.stop()).accepted, "a protective stop");
    assert!(!world.cancel(OrderId::of_line(99)).accepted, "unknown");
    assert!(world.cancel(id).accepted);
    assert!(world.book.orders.is_empty());
    assert!(!world.cancel(id).accepted, "the host did not find it");
    let ended = |strategy| ClosedOrder {
        order_id: id,
        strategy,
        end: OrderEnd::Cancelled,
        why: None,
    };
    world.closed = Some(ended(trend()));
    let verdict = world.cancel(id);
    assert!(verdict.accepted && verdict.changes.is_empty());
    world.closed = Some(ended(StrategyName::parse("other").unwrap()));
    assert!(!world.cancel(id).accepted, "somebody else's");
    // What has filled keeps its stop.
    let mut world = World::new();
    let id = world.accepted(&buy("0.01"));
    world.bar_of("6800", "6800", "6800", "6800", Some("0.05"));
    assert_eq!(world.position(), a("0.005"));
    assert!(world.cancel(id).accepted);
    assert_eq!(
        world
            .book
            .orders
            .values()
            .map(|order| order.leaves())
            .collect::<Vec<_>>(),
        [a("0.005")]
    );
}

#[test]
fn stops_only_tighten() {
    let id = OrderId::of_line(1);
    for (size, table) in [
        (
            "0.01",
            [
                ("6699.9", false),
                ("6700", true),
                ("6700.1", true),
                ("6799.9", true),
                ("6800", false),
                ("6750.05", false),
            ],
        ),
        (
            "-0.01",
            [
                ("6900.1", false),
                ("6900", true),
                ("6899.9", true),
                ("6800.1", true),
                ("6800", false),
                ("0", false),
            ],
        ),
    ] {
        for (new_stop, accepted) in table {
            for id in [id, id.stop()] {
                let mut world = World::holding(size);
                let old = world.book.orders[&id.stop()].trigger.unwrap();
                let verdict = world.tighten(id, new_stop);
                assert_eq!(verdict.accepted, accepted, "{size} {new_stop}");
                assert_eq!(verdict.changes.is_empty(), !accepted || old == a(new_stop));
            }
        }
    }
    let mut world = World::holding("0.01");
    world.wait(10_000_000);
    let verdict = world.tighten(id, "6801");
    assert!(verdict.accepted, "nothing fresh to compare with");
    assert!(row(&verdict, "tighten_ok").reason.is_some());
    assert!(!world.tighten(OrderId::of_line(9), "6801").accepted);
}

#[test]
fn rulebooks_with_a_duplicate_window_the_book_cannot_keep_do_not_load() {
    let mut bundle = spoolgate_rules::Bundle::default();
    let text = SAFETY.replace("duplicate_window_s: 30", "duplicate_window_s: 601");
    bundle.files.insert("rules/safety.yaml".into(), text);
    let error = spoolgate_rules::Rulebook::compile(&bundle).unwrap_err();
    assert!(error.message.contains("duplicate_window_s"), "{error}");
}

#[test]
fn views_tell_what_is_unknown() {
    let mut world = World::holding("0.01");
    let view = super::views::portfolio(&world.book, &world.rules, world.now, &Default::default());
    let json = serde_json::to_value(&view).unwrap();
    assert_eq!(json["positions"][0]["average_price"], "6810.3");
    assert_eq!(json["positions"][0]["stops"][0]["trigger"], "6700");
    assert_eq!(view.open_risk, Some(a("1.134")));
    assert_eq!(view.exposure, Some(a("68.034")));
    assert_eq!(view.unrealised, Some(a("-0.103")));
    world.wait(121_000);
    let view = super::views::portfolio(&world.book, &world.rules, world.now, &Default::default());
    assert_eq!(
        (view.equity, view.open_risk, view.exposure, view.day_pnl),
        (None, None, None, None)
    );
    let market = super::views::market(&world.book, &world.rules, &btc(), world.now).unwrap();
    assert!(market.stale);
    assert_eq!(market.ask, Some(a("6803.4")));
    let orders = super::views::orders(&world.book, |order| order.role == OrderRole::Protective);
    assert_eq!(serde_json::to_value(&orders).unwrap()[0]["leaves"], "0.01");
}
