//! Turnover of a day, refusals by venues in a row, the age of working entries, and warnings before a
//! limit is reached.

use super::book::{Baseline, Book};
use super::change::Change;
use super::order::{OrderEnd, OrderRole};
use super::testing::*;
use super::usage::usage;
use spoolgate_rules::overrides::Override;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::checks::CheckRow;
use spoolgate_wire::ids::{OrderId, Principal};
use spoolgate_wire::limits::LimitName;
use spoolgate_wire::time::Time;

const DAY_MS: i64 = 86_400_000;

fn turned_over(world: &World) -> Amount {
    world.book.account.turnover
}

/// What entries filled, by the fills themselves.
fn of_fills(changes: &[Change]) -> Amount {
    let entries = changes.iter().filter_map(|change| match change {
        Change::OrderFilled(fill) if fill.role == OrderRole::Entry => {
            fill.price.checked_mul(fill.size)
        }
        _ => None,
    });
    entries.fold(Amount::ZERO, |sum, one| sum.checked_add(one).unwrap())
}

#[test]
fn entry_fills_of_the_day_turn_over_and_exits_do_not() {
    let mut world = World::new();
    world.accepted(&buy("0.02"));
    // In two parts.
    let mut changes = world.bar_of("6800", "6800", "6800", "6800", Some("0.1"));
    assert_eq!(world.position(), a("0.01"));
    changes.extend(world.bar_of("6900", "6900", "6900", "6900", Some("0.1")));
    assert_eq!(world.position(), a("0.02"));
    let entered = of_fills(&changes);
    assert!(entered > a("137"), "{entered}");
    assert_eq!(turned_over(&world), entered);
    world.accepted(&sell("0.02"));
    world.flat("6900");
    assert_eq!(world.position(), Amount::ZERO);
    assert_eq!(turned_over(&world), entered, "an exit turns nothing over");
    // Neither a restart nor an older book changes it.
    let kept = serde_json::to_string(&world.book).unwrap();
    assert_eq!(serde_json::from_str::<Book>(&kept).unwrap(), world.book);
    assert!(
        !serde_json::to_string(&World::new().book)
            .unwrap()
            .contains("turnover")
    );
    let day = |start: Time| {
        let (equity, net_deposits) = (a("5000"), a("5000"));
        Change::DayOpened(Baseline {
            start,
            equity,
            net_deposits,
            counts: true,
        })
    };
    let tomorrow = world.now.plus_ms(DAY_MS).day_start();
    world.apply(&[day(tomorrow)]);
    assert_eq!(turned_over(&world), Amount::ZERO);
    assert_eq!(
        world.row_of(&buy("0.01"), "daily_turnover").value,
        Some(a("69.1035345"))
    );
}

#[test]
fn a_fill_is_booked_whatever_digits_the_day_has_turned_over() {
    let mut world = World::new();
    world.accepted(&buy("0.01"));
    world.book.account.turnover = a("12345678901234567890.12345678");
    let changes = world.flat("6800.1");
    assert!(of_fills(&changes).is_positive());
    assert!(turned_over(&world) > a("12345678901234567890.12345678"));
}

#[test]
fn turnover_counts_what_works_at_its_remaining_size_and_the_risk_mode_does_not_change_it() {
    let mut world = World::new();
    // A resting buy at 6750, of which half fills; a sale counts at the bid or its own higher price.
    let rest = market_order("trend", "BTC-USD", "buy", "0.01", "6700", 1);
    world.accepted(&limit(rest, "6750"));
    let sale = market_order("mean", "ETH-USD", "sell", "0.1", "206", 0);
    world.accepted(&limit(sale, "201"));
    let order = market_order("mean", "ETH-USD", "buy", "0.1", "195", 0);
    // 0.01 x 6750 + 0.1 x 201 + 0.1 x 200.2 x 1.001
    let expected = a("107.64002");
    let row = world.row_of(&order, "daily_turnover");
    assert_eq!((row.value, row.limit), (Some(expected), Some(a("50000"))));
    world.limit_factor = Some(a("0.5"));
    let row = world.row_of(&order, "daily_turnover");
    assert_eq!(
        (row.limit, row.source.as_ref()),
        (Some(a("50000")), "safety.yaml")
    );
    world.limit_factor = None;
    world.bar_of("6750", "6750", "6740", "6740", Some("0.05"));
    assert_eq!(world.position(), a("0.005"));
    let filled = turned_over(&world);
    world.quote("200", "200.2");
    let row = world.row_of(&order, "daily_turnover");
    let works = a("73.89002").checked_add(filled).unwrap();
    assert_eq!(row.value, Some(works), "0.005 x 6750 is left of the first");
    // It is refused with what still fits, and exits are not.
    world.rules.safety.max_daily_turnover = a("0.02").try_into().unwrap();
    let verdict = world.ask(&order);
    assert_eq!(failed(&verdict)[0].name, "daily_turnover");
    let headroom = verdict.headroom.unwrap();
    let found = (headroom.max_size, headroom.binding_check.as_str());
    assert_eq!(found, (a("0.06"), "daily_turnover"), "12.4 is left");
    assert!(world.ask(&sell("0.005")).accepted);
}

#[test]
fn what_has_filled_too_much_pulls_every_entry_and_a_new_day_none() {
    let mut world = World::new();
    let rest = |n: u8| {
        limit(
            market_order("trend", "BTC-USD", "buy", "0.01", "6700", n),
            "6750",
        )
    };
    let ids = [0, 1].map(|n| {
        world.wait(31_000);
        world.accepted(&rest(n))
    });
    // 100 x 1.1 is above what filled and one entry, 0.01 x 6750, and below both.
    world.rules.safety.max_daily_turnover = a("0.02").try_into().unwrap();
    let pulled = |ids: &[OrderId]| {
        let check = |id: &OrderId| (*id, "daily_turnover".to_owned());
        ids.iter().map(check).collect::<Vec<_>>()
    };
    for (filled, expected) in [
        ("0", vec![ids[1]]),
        ("42.5", vec![ids[1]]),
        ("42.5000000001", vec![ids[1], ids[0]]),
        ("1000", vec![ids[1], ids[0]]),
    ] {
        world.book.account.turnover = a(filled);
        assert_eq!(world.pulls("0.1"), pulled(&expected), "{filled}");
    }
    world.book.account.turnover = Amount::ZERO;
    world.rules.safety.max_daily_turnover = a("0.027").try_into().unwrap();
    assert_eq!(world.pulls("0"), [], "0.02 x 6750 is 135");
}

#[test]
fn a_working_entry_is_pulled_a_millisecond_after_its_age() {
    for (age_ms, stays) in [(DAY_MS - 1, true), (DAY_MS, true), (DAY_MS + 1, false)] {
        for sign in [1, -1] {
            let mut world = World::new();
            let id = world.accepted(&limit(buy("0.01"), "6750"));
            world.wait(sign * age_ms);
            let expected = [(id, "order_age".to_owned())];
            let expected: &[_] = if stays { &[] } else { &expected };
            assert_eq!(world.pulls("0.1"), expected, "{sign} x {age_ms}");
        }
    }
    let mut world = World::new();
    world.rules.safety.max_order_age_s = 60.try_into().unwrap();
    let (old, exit) = (
        world.accepted(&limit(buy("0.01"), "6750")),
        OrderId::of_line(7),
    );
    world.wait(60_000);
    let rest = market_order("trend", "BTC-USD", "buy", "0.01", "6700", 1);
    let young = world.accepted(&limit(rest, "6751"));
    world.wait(1);
    // Only it goes, with its stop, and it says why. Exits have no age.
    let pulls = super::guard::pulls(&world.book, &world.rules, &world, world.now, a("0.1"));
    let [pull] = pulls.as_slice() else {
        panic!("{pulls:?}")
    };
    assert_eq!(pull.order.order_id, old);
    let why = (&*pull.why.check, pull.why.value, pull.why.limit);
    assert_eq!(why, ("order_age", Some(a("60001")), Some(a("60000"))));
    world.settle("0.1");
    assert!(world.book.orders.contains_key(&young));
    // A new order has no row.
    let rows = world.ask(&buy("0.01")).checks;
    assert!(rows.iter().all(|row| row.name != "order_age"));
    let mut world = World::holding("0.01");
    world.seq = 6;
    assert_eq!(world.accepted(&limit(sell("0.01"), "7000")), exit);
    world.wait(10 * DAY_MS);
    assert_eq!(world.pulls("0.1"), []);
}

/// A refused entry of `trend`: the venue of the world finds its price too far.
fn refuse(world: &mut World, thesis: u8) -> OrderId {
    world.wait(31_000);
    let order = market_order("trend", "BTC-USD", "buy", "0.01", "6700", thesis);
    let id = world.accepted(&limit(order, "6750"));
    let far = a("0.001").try_into().unwrap();
    let instrument = world.rules.instruments.get_mut(&btc()).unwrap();
    instrument.percent_price = Some(far);
    let changes = world.flat("6800");
    world
        .rules
        .instruments
        .get_mut(&btc())
        .unwrap()
        .percent_price = None;
    let is_refused = |change: &Change| change.ended() == Some((id, OrderEnd::Refused));
    assert!(changes.iter().any(is_refused), "{changes:?}");
    id
}

fn rejects(world: &World) -> u32 {
    world
        .book
        .conduct
        .get(&trend())
        .map_or(0, |conduct| conduct.rejects)
}

#[test]
fn refusals_in_a_row_close_a_strategy_until_a_person_clears_it() {
    let mut world = World::new();
    let order = market_order("trend", "BTC-USD", "buy", "0.01", "6700", 3);
    for n in 1..=5 {
        assert!(world.row_of(&order, "reject_streak").passed, "{n}");
        refuse(&mut world, u8::try_from(n % 3).unwrap());
        assert_eq!(
            rejects(&world),
            n,
            "the entry counts, not what it takes along"
        );
    }
    assert_eq!(world.refused(&order), ["reject_streak"]);
    let mean = market_order("mean", "BTC-USD", "buy", "0.01", "6700", 0);
    assert!(world.ask(&mean).accepted, "another strategy");
    let kept = serde_json::to_string(&world.book).unwrap();
    world.book = serde_json::from_str::<Book>(&kept).unwrap();
    world.wait(10 * DAY_MS);
    assert!(!world.row_of(&order, "reject_streak").passed);
    world.apply(&[Change::StrategyCleared { strategy: trend() }]);
    assert_eq!(rejects(&world), 0);
    assert!(world.row_of(&order, "reject_streak").passed);
}

#[test]
fn a_fill_of_a_later_entry_ends_the_row_and_of_an_earlier_one_does_not() {
    let mut world = World::new();
    let early = market_order("trend", "BTC-USD", "buy", "0.01", "6700", 3);
    world.accepted(&limit(early, "6795"));
    // Only the price of a new order is asked, and the first row has come for this one.
    world.flat("6800");
    for n in 1..=2 {
        refuse(&mut world, n);
    }
    world.bar("6800", "6800", "6730", "6750");
    assert_eq!(world.position(), a("0.01"), "the early one filled");
    assert_eq!(rejects(&world), 2);
    world.accepted(&sell("0.01"));
    world.flat("6800");
    assert_eq!(
        (world.position(), rejects(&world)),
        (Amount::ZERO, 2),
        "an exit"
    );
    world.wait(31_000);
    world.accepted(&buy("0.01"));
    world.flat("6800");
    assert_eq!((world.position(), rejects(&world)), (a("0.01"), 0));
    refuse(&mut world, 1);
    assert_eq!(rejects(&world), 1, "it begins again");
}

/// Every sum and loss at one unit below, at and above `warn_at` of its limit.
#[test]
fn a_warning_begins_at_warn_at_and_refuses_nothing() {
    // 0.01 x 6803.4 is 0.8 of 85.0425; prices and sizes of a purchase.
    for (limit, is_near) in [
        ("85.0424999999", true),
        ("85.0425", true),
        ("85.0425000001", false),
        ("68.034", true),
    ] {
        let mut world = World::new();
        world.rules.safety.max_single_position = Amount::ONE.try_into().unwrap();
        world.rules.safety.max_total_capital = a(limit).try_into().unwrap();
        let verdict = world.ask(&buy("0.01"));
        let found = row(&verdict, "max_single_position");
        assert_eq!((found.passed, found.warning), (true, is_near), "{limit}");
    }
    let mut world = World::new();
    world.rules.safety.max_single_position = Amount::ONE.try_into().unwrap();
    world.rules.safety.max_total_capital = a("68.0339").try_into().unwrap();
    let found = world.row_of(&buy("0.01"), "max_single_position");
    assert_eq!(
        (found.passed, found.warning),
        (false, false),
        "beyond the limit"
    );
    // A loss: 0.8 x 250.
    for (lost, is_near) in [("199.9999999999", false), ("200", true), ("249", true)] {
        let mut world = World::new();
        let day = world.book.account.day.as_mut().unwrap();
        day.equity = day.equity.checked_add(a(lost)).unwrap();
        let found = world.row_of(&buy("0.01"), "daily_loss_halt");
        assert_eq!((found.passed, found.warning), (true, is_near), "{lost}");
        let limits = usage(&world.book, &world.rules, world.now, &Default::default());
        let shown = limits.iter().find(|row| row.check == "daily_loss_halt");
        assert_eq!(shown.unwrap().warning, is_near, "{lost}");
        // An exit is not warned.
        let mut world = World::holding("0.01");
        let day = world.book.account.day.as_mut().unwrap();
        day.equity = day.equity.checked_add(a(lost)).unwrap();
        assert!(!world.row_of(&sell("0.01"), "daily_loss_halt").warning);
    }
    // At 1 only the limit itself is near.
    let mut world = World::new();
    world.rules.safety.warn_at = Amount::ONE.try_into().unwrap();
    world.rules.safety.max_single_position = Amount::ONE.try_into().unwrap();
    for (limit, is_near) in [("68.034", true), ("68.0340000001", false)] {
        world.rules.safety.max_total_capital = a(limit).try_into().unwrap();
        let found = world.row_of(&buy("0.01"), "max_single_position");
        assert_eq!(found.warning, is_near, "{limit}");
    }
}

#[test]
fn what_is_used_warns_by_its_limit_too() {
    let mut world = World::holding("0.01");
    // 68.0339... of the position against 1000; a limit of 85.0425 is near.
    for (limit, is_near) in [("1000", false), ("85.0425", true)] {
        world.rules.safety.max_single_position = Amount::ONE.try_into().unwrap();
        world.rules.safety.max_total_capital = a(limit).try_into().unwrap();
        let limits = usage(&world.book, &world.rules, world.now, &Default::default());
        let shown = limits
            .iter()
            .find(|row| row.check == "max_single_position" && row.of == "BTC-USD")
            .unwrap();
        assert_eq!(shown.warning, is_near, "{shown:?}");
        assert_eq!(shown.used, Some(a("68.034")));
    }
}

/// A book with a position, entries on both sides, losses and turnover, in which every limit that can
/// be overridden is near some order.
fn busy() -> World {
    let mut world = World::holding("0.03");
    let rest = |side: &str, stop: &str, price: &str| {
        limit(
            market_order("mean", "BTC-USD", side, "0.01", stop, 1),
            price,
        )
    };
    world.accepted(&rest("buy", "6690", "6750"));
    world.wait(31_000);
    world.accepted(&rest("sell", "6950", "6850"));
    let safety = &mut world.rules.safety;
    safety.max_single_position = a("0.08").try_into().unwrap();
    safety.max_single_trade_risk = a("0.002").try_into().unwrap();
    safety.max_total_exposure = a("0.09").try_into().unwrap();
    safety.max_portfolio_risk = a("0.004").try_into().unwrap();
    safety.max_daily_loss = a("12").try_into().unwrap();
    safety.max_weekly_loss = a("45").try_into().unwrap();
    safety.max_daily_turnover = a("0.1").try_into().unwrap();
    for instrument in world.rules.instruments.values_mut() {
        instrument.group = Some("coins".to_owned());
    }
    world
}

#[test]
fn an_override_decides_as_the_same_value_in_the_file() {
    let set = |value: Amount| Override {
        value,
        until: Time::parse("2026-02-21T14:00:00Z").unwrap(),
        by: Principal::parse("operator").unwrap(),
        at: Time::parse(NOON).unwrap(),
        line: 91,
        reason: "a test".to_owned(),
    };
    let mut orders = Vec::new();
    for size in ["0.002", "0.006", "0.011", "0.03"] {
        for (strategy, side, stop) in [("trend", "buy", "6700"), ("mean", "sell", "6900")] {
            orders.push(market_order(strategy, "BTC-USD", side, size, stop, 2));
        }
        let eth = a(size)
            .checked_mul(a("30"))
            .unwrap()
            .round_down_to(a("0.01"));
        let eth = eth.unwrap().to_string();
        orders.push(market_order("trend", "ETH-USD", "buy", &eth, "195", 0));
    }
    let mut differs = 0;
    for name in LimitName::ALL {
        for times in ["0.2", "0.7", "1", "1.3", "1.9", "2", "2.1", "50"] {
            let (mut under, mut written) = (busy(), busy());
            let plain = busy().rules.safety.limit(name);
            let value = plain.checked_mul(a(times)).unwrap();
            let cut = value.min(plain.checked_mul(a("2")).unwrap());
            written.rules.safety.set_limit(name, cut).unwrap();
            under.rules.put_under(&[(name, set(value))].into());
            let context = format!("{name:?} x {times}");
            for margin in ["0", "0.1"] {
                let pulls = under.pulls(margin);
                assert_eq!(pulls, written.pulls(margin), "{context} {margin}");
                differs += usize::from(pulls != busy().pulls(margin));
            }
            for order in &orders {
                // Each also compares the headroom with that of the naive search.
                let (one, other) = (under.ask(order), written.ask(order));
                assert_eq!(one.accepted, other.accepted, "{context} {order:?}");
                assert_eq!(one.headroom, other.headroom, "{context} {order:?}");
                for (row, plain) in one.checks.iter().zip(&other.checks) {
                    let told = (row.passed, row.value, row.limit, row.warning);
                    let plain_told = (plain.passed, plain.value, plain.limit, plain.warning);
                    assert_eq!((&row.name, told), (&plain.name, plain_told), "{context}");
                }
                let is_told = |row: &CheckRow| row.source.contains("override until 14:00, line 91");
                assert!(one.checks.iter().any(is_told), "{context}: no row says so");
                assert!(!other.checks.iter().any(is_told));
                differs += usize::from(one.accepted != busy().ask(order).accepted);
            }
            let shown = |world: &World| {
                let rows = usage(&world.book, &world.rules, world.now, &Default::default());
                let told = rows.into_iter().map(|row| (row.check, row.used, row.limit));
                told.collect::<Vec<_>>()
            };
            assert_eq!(shown(&under), shown(&written), "{context}");
        }
    }
    assert!(differs > 100, "{differs}: overrides decide nothing here");
}
