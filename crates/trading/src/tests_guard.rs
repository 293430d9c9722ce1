//! Message rates, silent agents, restricted instruments, and theses that the market has refuted.

use super::absent;
use super::change::Change;
use super::checks;
use super::order::OrderRole;
use super::requests::{Messages, Verdict};
use super::testing::*;
use crate::market_row::Row;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{Leg, OrderId, ThesisSlug};
use spoolgate_wire::time::Time;

fn protected(world: &mut World) -> [Verdict; 3] {
    let exit = world.ask(&sell("0.01"));
    let tightened = world.tighten(OrderId::of_line(1).stop(), "6701");
    let resting = world.accepted(&limit(
        market_order("mean", "BTC-USD", "buy", "0.01", "6600", 0),
        "6790",
    ));
    [exit, tightened, world.cancel(resting)]
}

#[test]
fn messages_are_held_back_above_their_limits_and_the_protected_lane_is_told() {
    for (messages, limits, passes, value) in [
        ((9, 9), (10, 100), true, 9),
        ((10, 10), (10, 100), true, 10),
        ((11, 11), (10, 100), false, 11),
        ((1, 99), (10, 100), true, 1),
        ((1, 100), (10, 100), true, 1),
        ((1, 101), (10, 100), false, 101),
        ((11, 101), (10, 100), false, 11),
    ] {
        let mut world = World::new();
        (world.messages.own, world.messages.all) = messages;
        world.messages.protected = 1_000_000;
        let safety = &mut world.rules.safety;
        safety.max_messages_per_minute = limits.0.try_into().unwrap();
        safety.max_messages_per_minute_all = limits.1.try_into().unwrap();
        let row = world.row_of(&buy("0.01"), "message_rate");
        assert_eq!(
            (row.passed, row.value),
            (passes, Some(Amount::from(value))),
            "{messages:?}"
        );
        assert_eq!(row.reason.is_none(), passes);
        if !passes {
            assert_eq!(world.refused(&buy("0.01")), ["message_rate"]);
        }
    }
    for (sent, is_told) in [(9, false), (10, false), (11, true)] {
        let mut world = World::holding("0.01");
        world.rules.safety.max_protected_per_minute = 10;
        world.messages = Messages {
            protected: sent,
            ..Messages::default()
        };
        for verdict in protected(&mut world) {
            let row = row(&verdict, "message_rate");
            assert!(verdict.accepted && row.passed, "{verdict:?}");
            let told = row
                .reason
                .is_some_and(|reason| reason.starts_with("exempt: many exits"));
            assert_eq!((row.value, told), (Some(Amount::from(sent)), is_told));
        }
        // Ordinary messages do not use up this limit.
        world.messages = Messages {
            own: 1_000_000,
            all: 1_000_000,
            protected: 1,
        };
        assert!(
            row(&world.ask(&sell("0.01")), "message_rate")
                .reason
                .is_none()
        );
        // A flip is not an exit, so it is not a way around the limit.
        let flip = world.ask(&sell("0.02"));
        assert_eq!(checks::first_failed(&flip.checks), Some("message_rate"));
    }
}

#[test]
fn who_is_not_heard_of_enters_nothing_and_leaves_all_the_same() {
    let mut world = World::holding("0.01");
    world.unheard = Some("nothing was heard");
    assert_eq!(
        world.refused(&market_order("mean", "BTC-USD", "buy", "0.01", "6600", 0)),
        ["dead_man"]
    );
    let exit = world.ask(&sell("0.01"));
    assert!(exit.accepted && !exit.checks.iter().any(|row| row.name == "dead_man"));
    assert!(world.tighten(OrderId::of_line(1).stop(), "6701").accepted);
}

#[test]
fn a_restricted_instrument_is_left_and_not_entered() {
    let mut world = World::holding("0.01");
    world.rules.safety.restricted_instruments = vec![eth()];
    assert!(world.row_of(&buy("0.01"), "instrument_allowed").passed);
    world.rules.safety.restricted_instruments = vec![eth(), btc()];
    let row = world.row_of(
        &market_order("mean", "BTC-USD", "buy", "0.01", "6600", 0),
        "instrument_allowed",
    );
    assert_eq!((row.passed, &*row.source), (false, "safety.yaml"));
    assert!(row.reason.unwrap().contains("restricted"));
    assert!(world.ask(&sell("0.01")).accepted);
    assert!(world.tighten(OrderId::of_line(1).stop(), "6701").accepted);
}

#[test]
fn one_order_closes_the_position_of_an_absent_agent() {
    let mut world = World::holding("0.01");
    let alice = spoolgate_wire::ids::Principal::parse("alice").unwrap();
    // One order closes the position, whatever else rests, and there is never a second one for the
    // same size.
    let position = world.book.positions.values().next().unwrap().clone();
    let close =
        |world: &World| absent::close_at_market(&world.book, &position, &alice, 900, world.now);
    let change = close(&world).unwrap();
    let Change::OrderPlaced(order) = &change else {
        panic!()
    };
    assert_eq!(
        (order.size, order.role, order.order_id.leg),
        (a("0.01"), OrderRole::Exit, Leg::Flatten)
    );
    world.apply(&[change]);
    assert_eq!(close(&world), None);
    // On a bar that goes through the stop, the market order fills first, and the stop sells nothing
    // more.
    let changes = world.bar("6800", "6800", "6500", "6500");
    assert_eq!(fills(&changes).len(), 1, "{changes:?}");
    assert!(world.book.positions.is_empty() && world.book.orders.is_empty());
}

fn slug(text: &str) -> ThesisSlug {
    ThesisSlug::parse(text).unwrap()
}

fn refuted(changes: &[Change]) -> Vec<(String, String)> {
    let told = |change: &Change| match change {
        Change::ThesisRefuted { slug, price, .. } => Some((slug.to_string(), price.to_string())),
        _ => None,
    };
    changes.iter().filter_map(told).collect()
}

#[test]
fn a_thesis_is_refuted_by_what_a_bar_or_a_quote_once_reached() {
    // Low and high of a bar that opens and closes in the middle.
    for (low, high, expect) in [
        ("6500.1", "6999.9", None),
        ("6500", "6999.9", Some("6500")),
        ("6499.9", "6999.9", Some("6499.9")),
        ("6500.1", "7000", Some("7000")),
        ("6500.1", "7000.1", Some("7000.1")),
    ] {
        let mut world = World::new();
        let thesis = world
            .rules
            .theses
            .get_mut(&slug("trend-btc-long-0"))
            .unwrap();
        thesis.invalid_below = Some(a("6500").try_into().unwrap());
        thesis.invalid_above = Some(a("7000").try_into().unwrap());
        let told = refuted(&world.bar("6800", high, low, "6800"));
        let expect: Vec<(String, String)> = expect
            .map(|price| ("trend-btc-long-0".to_owned(), price.to_owned()))
            .into_iter()
            .collect();
        assert_eq!(told, expect, "{low} {high}");
        // The price is back in the middle; only what happened counts.
        let row = world.row_of(&buy("0.01"), "thesis_valid");
        assert_eq!(row.passed, expect.is_empty(), "{low} {high}");
        if let Some((_, price)) = expect.first() {
            let reason = row.reason.unwrap();
            assert!(
                reason.contains(&world.now.to_string()) && reason.contains(price.as_str()),
                "{reason}"
            );
            assert!(
                refuted(&world.bar("6800", high, low, "6800")).is_empty(),
                "told once"
            );
            let other = market_order("trend", "BTC-USD", "buy", "0.01", "6700", 1);
            assert!(
                world.row_of(&other, "thesis_valid").passed,
                "another thesis"
            );
        }
    }
    for (bid, ask, expect) in [
        ("199", "200", None),
        ("190.1", "190.3", None),
        ("190", "190.2", Some("190")),
        ("209.7", "209.9", None),
        ("209.8", "210", Some("210")),
    ] {
        let mut world = World::new();
        let thesis = world
            .rules
            .theses
            .get_mut(&slug("trend-eth-long-0"))
            .unwrap();
        thesis.invalid_below = Some(a("190").try_into().unwrap());
        thesis.invalid_above = Some(a("210").try_into().unwrap());
        world.wait(1000);
        let told = refuted(&world.quote(bid, ask));
        assert_eq!(
            told.first().map(|(_, price)| price.as_str()),
            expect,
            "{bid} {ask}"
        );
    }
}

#[test]
fn a_thesis_is_refuted_only_while_it_stands() {
    type Set = fn(&mut spoolgate_rules::theses::Thesis, Time);
    let tables: [(Set, bool); 4] = [
        (|thesis, now| thesis.since = Some(now.plus_ms(60_000)), true),
        (
            |thesis, now| thesis.since = Some(now.plus_ms(60_001)),
            false,
        ),
        (|thesis, now| thesis.expires = now.plus_ms(60_001), true),
        (|thesis, now| thesis.expires = now.plus_ms(60_000), false),
    ];
    for (n, (set, is_refuted)) in tables.into_iter().enumerate() {
        let mut world = World::new();
        let now = world.now;
        let thesis = world
            .rules
            .theses
            .get_mut(&slug("trend-btc-long-0"))
            .unwrap();
        thesis.invalid_below = Some(a("6500").try_into().unwrap());
        set(thesis, now);
        // Known a minute from now.
        assert_eq!(
            refuted(&world.bar("6800", "6800", "6400", "6800")).len(),
            usize::from(is_refuted),
            "{n}"
        );
        // The same row again changes nothing.
        let row = Row::Bar {
            open_ms: now.ms(),
            interval_ms: 60_000,
            open: a("6800"),
            high: a("6800"),
            low: a("6000"),
            close: a("6800"),
            volume: None,
        };
        assert!(world.rows(&btc(), &[row]).is_empty());
    }
}

#[test]
fn many_theses_fall_with_one_bar_and_steps_stay_small() {
    let mut world = World::new();
    let model = world.rules.theses[&slug("trend-btc-long-0")].clone();
    for n in 0..2000 {
        let mut thesis = model.clone();
        thesis.slug = slug(&format!("t-{n}"));
        thesis.invalid_below = Some(
            a("6500")
                .checked_sub(Amount::from(n))
                .unwrap()
                .try_into()
                .unwrap(),
        );
        world.rules.theses.insert(thesis.slug.clone(), thesis);
    }
    // `rows` asserts the size of each step.
    assert_eq!(
        refuted(&world.bar("6800", "6800", "6001", "6800")).len(),
        500
    );
    assert_eq!(refuted(&world.bar("6800", "6800", "6001", "6800")).len(), 0);
    assert_eq!(refuted(&world.bar("6800", "6800", "6000", "6800")).len(), 1);
    assert_eq!(world.book.refuted.len(), 501);
}

#[test]
fn exits_do_not_ask_what_became_of_their_thesis() {
    let mut world = World::holding("0.01");
    world
        .rules
        .theses
        .get_mut(&slug("trend-btc-long-0"))
        .unwrap()
        .invalid_below = Some(a("6750").try_into().unwrap());
    assert_eq!(refuted(&world.bar("6800", "6800", "6740", "6800")).len(), 1);
    assert!(world.ask(&sell("0.01")).accepted);
    assert!(world.tighten(OrderId::of_line(1).stop(), "6701").accepted);
}
