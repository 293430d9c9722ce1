//! Exits, targets and positions that turn around.

use super::*;
use crate::order::OrderEnd;
use spoolgate_wire::orders::{Side, TimeInForce};

#[test]
fn a_stop_and_an_exit_that_cross_are_booked_in_two_parts() {
    let mut desk = Desk::holding("0.01");
    desk.submit(&sell("0.008"));
    let shrunk = desk.trade("o-5", "0.008", "0.008", "6790");
    assert_eq!(
        shrunk,
        [
            "filled o-5 sell 0.008@6790",
            "closed o-5 filled",
            "replace o-1-stop.2 sell 0.002 at 6700"
        ]
    );
    // The venue had triggered the stop for the whole size.
    let crossed = desk.trade("o-1-stop", "0.01", "0.01", "6699");
    assert_eq!(
        crossed,
        [
            "triggered o-1-stop",
            "filled o-1-stop sell 0.002@6699",
            "ending o-1-stop retired",
            "filled o-1-stop sell 0.008@6699",
            "closed o-1-stop filled",
            "place o-7-flatten.1 buy 0.008"
        ]
    );
    assert_eq!(desk.world.position(), a("-0.008"));
    desk.trade("o-7-flatten", "0.008", "0.008", "6701");
    assert_eq!(
        (desk.orders(), desk.world.position()),
        (vec![], Amount::ZERO)
    );
    assert_eq!(desk.world.book.doubted_symbols.len(), 0);
    // One fee per trade: entry, exit, stop, and the buy-back.
    assert_eq!(desk.world.book.account.fees, a("0.04"));
}

#[test]
fn working_orders_of_a_position_are_cancelled_when_it_reverses() {
    let mut desk = Desk::holding("0.01");
    desk.submit(&limit(sell("0.006"), "6900"));
    desk.submit(&sell("0.004"));
    let stopped = desk.trade("o-1-stop", "0.01", "0.01", "6699");
    assert_eq!(
        stopped,
        [
            "triggered o-1-stop",
            "filled o-1-stop sell 0.01@6699",
            "closed o-1-stop filled",
            "ending o-5 retired",
            "ending o-6 retired",
            "cancel o-5.2 sell 0.006 at 6900",
            "cancel o-6.2 sell 0.004"
        ]
    );
    let late = desk.trade("o-6", "0.004", "0.004", "6699");
    assert_eq!(
        late,
        [
            "filled o-6 sell 0.004@6699",
            "closed o-6 filled",
            "place o-8-flatten.1 buy 0.004"
        ]
    );
    assert_eq!(desk.ended("o-5", "canceled", "0"), ["closed o-5 retired"]);
    assert_eq!(desk.unprotected(), Amount::ZERO);
}

#[test]
fn a_target_takes_its_stop_down_and_both_end_the_entry() {
    let mut desk = Desk::new();
    desk.submit(&with_target(limit(buy("0.02"), "6790"), "6900"));
    let placed = desk.trade("o-1", "0.01", "0.01", "6790");
    assert_eq!(
        placed,
        [
            "filled o-1 buy 0.01@6790",
            "place o-1-stop.1 sell 0.01 at 6700",
            "place o-1-target.1 sell 0.01 at 6900"
        ]
    );
    let hit = desk.trade("o-1-target", "0.004", "0.004", "6900");
    assert_eq!(
        hit,
        [
            "filled o-1-target sell 0.004@6900",
            "ending o-1 retired",
            "cancel o-1.2 buy 0.02 at 6790",
            "replace o-1-stop.2 sell 0.006 at 6700"
        ]
    );
    let rest = desk.trade("o-1-target", "0.006", "0.01", "6900");
    assert_eq!(
        rest,
        [
            "filled o-1-target sell 0.006@6900",
            "closed o-1-target filled",
            "ending o-1-stop retired",
            "cancel o-1-stop.3 sell 0 at 6700"
        ]
    );
    desk.ended("o-1-stop", "canceled", "0");
    assert_eq!(desk.orders(), ["o-1 0.02/0.01 ending"]);
}

#[test]
fn an_exit_to_flat_ends_an_entry_that_still_works() {
    // Its stop cannot wait at the venue with nothing to protect, and the entry must not fill
    // without a stop.
    let mut desk = Desk::new();
    desk.submit(&limit(buy("0.02"), "6790"));
    desk.trade("o-1", "0.01", "0.01", "6790");
    // An exit below the entry would have cancelled the entry.
    desk.submit(&limit(sell("0.01"), "6850"));
    let flat = desk.trade("o-3", "0.01", "0.01", "6800");
    assert_eq!(
        flat,
        [
            "filled o-3 sell 0.01@6800",
            "closed o-3 filled",
            "ending o-1-stop retired",
            "ending o-1 retired",
            "cancel o-1.2 buy 0.02 at 6790",
            "cancel o-1-stop.2 sell 0 at 6700"
        ]
    );
    let late = desk.trade("o-1", "0.01", "0.02", "6790");
    assert_eq!(
        late,
        [
            "filled o-1 buy 0.01@6790",
            "closed o-1 filled",
            "place o-5-flatten.1 sell 0.01"
        ]
    );
    // The old stop fills instead of its replacement, which is ended.
    let crossed = desk.trade("o-1-stop", "0.01", "0.01", "6700");
    assert_eq!(
        crossed,
        [
            "triggered o-1-stop",
            "filled o-1-stop sell 0.01@6700",
            "closed o-1-stop filled",
            "ending o-5-flatten retired",
            "cancel o-5-flatten.2 sell 0.01"
        ]
    );
    assert_eq!(
        desk.ended("o-5-flatten", "canceled", "0"),
        ["closed o-5-flatten retired"]
    );
    assert_eq!(
        desk.world.book.doubted_symbols.len(),
        0,
        "it was asked to end"
    );
}

#[test]
fn an_ending_exit_still_takes_its_part_of_the_capacity() {
    let mut desk = Desk::holding("0.01");
    desk.submit(&limit(sell("0.006"), "6900"));
    assert_eq!(
        desk.cancel("o-5"),
        ["ending o-5 cancelled", "cancel o-5.2 sell 0.006 at 6900"]
    );
    assert_eq!(desk.world.refused(&sell("0.005")), ["reduce_only"]);
    assert_eq!(desk.submit(&sell("0.004")).len(), 1);
    desk.ended("o-5", "canceled", "0");
    assert_eq!(desk.submit(&limit(sell("0.006"), "6900")).len(), 1);
}

#[test]
fn a_market_exit_waits_until_the_one_in_flight_is_gone() {
    let mut desk = Desk::holding("0.02");
    assert_eq!(desk.submit(&sell("0.004")), ["place o-5.1 sell 0.004"]);
    assert_eq!(desk.submit(&sell("0.003")), [""; 0]);
    assert_eq!(desk.submit(&sell("0.002")), [""; 0], "merged into `o-6`");
    // What a bridge was told is not added to, so even the first one that waits takes more.
    desk.trade("o-5", "0.001", "0.001", "6800");
    assert_eq!(desk.submit(&sell("0.002")), [""; 0]);
    // A cancel that the venue has not confirmed keeps it in flight: it may still fill.
    assert_eq!(
        desk.cancel("o-5"),
        ["ending o-5 cancelled", "cancel o-5.2 sell 0.004"]
    );
    assert_eq!(desk.submit(&sell("0.002")), [""; 0]);
    assert_eq!(
        desk.ended("o-5", "canceled", "0.001"),
        ["closed o-5 cancelled", "place o-6.1 sell 0.009"]
    );
    // Now `o-6` is in flight and is no longer added to.
    desk.submit(&sell("0.002"));
    let sizes: Vec<String> = desk.orders();
    assert_eq!(
        sizes,
        ["o-1-stop 0.019/0", "o-6 0.009/0", "o-13 0.002/0"],
        "{sizes:?}"
    );
    let done = desk.trade("o-6", "0.009", "0.009", "6800");
    assert!(
        done.contains(&"place o-13.1 sell 0.002".to_owned()),
        "{done:?}"
    );
}

/// Otherwise exits that gave way and whose cancels a silent bridge does not confirm would in the end
/// leave no capacity, and an exit would be refused.
#[test]
fn exits_that_gave_way_are_free_before_the_venue_confirms_it() {
    let mut desk = Desk::holding("0.016");
    for _ in 0..40 {
        desk.submit(&limit(sell("0.002"), "6900"));
        let orders = desk.world.book.orders.values();
        let exits = orders.filter(|order| order.role == OrderRole::Exit);
        let working = exits.filter(|order| order.ending().is_none());
        assert!(working.count() <= crate::exits::WORKING_MAX);
    }
    assert_eq!(
        desk.world.refused(&limit(sell("0.003"), "6900")),
        ["reduce_only"]
    );
}

/// The bridge that would get an instruction for this order, if any.
fn goes_to(changes: &[Change]) -> Option<Principal> {
    let placed = changes.iter().find_map(|change| match change {
        Change::OrderPlaced(order) => Some(order),
        _ => None,
    });
    placed
        .expect("an order")
        .at_venue
        .as_ref()
        .map(|venue| venue.bridge.clone())
}

#[test]
fn an_exit_goes_where_the_position_is_whatever_became_of_the_instrument() {
    let mut desk = Desk::holding("0.02");
    let exit = sell("0.01");
    let other = desk.world.rules.instruments[&btc()].clone();
    let mut changed: Vec<Option<spoolgate_rules::instruments::Instrument>> = vec![None];
    for bridge in [None, Some(bridge("another"))] {
        changed.push(Some(spoolgate_rules::instruments::Instrument {
            bridge,
            ..other.clone()
        }));
    }
    for instrument in changed {
        desk.world.rules.instruments.remove(&btc());
        if let Some(instrument) = instrument {
            desk.world.rules.instruments.insert(btc(), instrument);
            let more = market_order("trend", "BTC-USD", "buy", "0.01", "6700", 1);
            let row = desk.world.row_of(&more, "instrument_allowed");
            assert!(!row.passed && row.reason.unwrap().contains("at another venue"));
        }
        let verdict = desk.world.ask(&exit);
        assert!(verdict.accepted, "{:#?}", failed(&verdict));
        assert_eq!(goes_to(&verdict.changes), Some(bridge("exchange")));
    }
    assert!(goes_to(&desk.world.ask(&exit).changes).is_some());
    let told = desk.submit(&exit);
    assert!(
        told[0].starts_with("place o-") && told[0].ends_with(" sell 0.01"),
        "{told:?}"
    );
}

#[test]
fn a_position_on_paper_is_left_on_paper() {
    let mut desk = Desk::new();
    desk.world.rules.instruments.get_mut(&btc()).unwrap().bridge = None;
    let verdict = desk.world.ask(&buy("0.01"));
    assert_eq!(goes_to(&verdict.changes), None);
    desk.line(verdict.changes);
    let pending = market_order("trend", "BTC-USD", "buy", "0.01", "6700", 1);
    assert!(desk.world.row_of(&pending, "instrument_allowed").passed);
    desk.world.rules.instruments.get_mut(&btc()).unwrap().bridge = Some(bridge("exchange"));
    // The entry still works on paper; then the position is held there.
    assert!(!desk.world.row_of(&pending, "instrument_allowed").passed);
    desk.world.bar("6800", "6810", "6790", "6800");
    assert_eq!(desk.world.position(), a("0.01"));
    assert!(!desk.world.row_of(&pending, "instrument_allowed").passed);
    let verdict = desk.world.ask(&sell("0.01"));
    assert_eq!(goes_to(&verdict.changes), None);
    desk.line(verdict.changes);
    desk.world.bar("6800", "6810", "6790", "6800");
    assert_eq!(desk.world.position(), Amount::ZERO);
    assert!(desk.world.row_of(&pending, "instrument_allowed").passed);
}

/// What gave way may still fill until the venue says that it is gone: no other exit goes out before,
/// and it closes no more than is left then.
#[test]
fn an_exit_waits_until_what_gave_way_is_gone() {
    let full = || {
        let mut desk = Desk::holding("0.018");
        for _ in 0..8 {
            desk.submit(&limit(sell("0.002"), "6900"));
        }
        let ninth = desk.submit(&limit(sell("0.004"), "6890"));
        let cancel = "cancel o-12.2 sell 0.002 at 6900".to_owned();
        assert!(ninth.contains(&cancel), "{ninth:?}");
        assert!(!ninth.iter().any(|told| told.contains("place o-13.1")));
        desk
    };
    let mut desk = full();
    let gone = desk.ended("o-12", "canceled", "0");
    let placed = "place o-13.1 sell 0.004 at 6890".to_owned();
    assert!(gone.contains(&placed), "{gone:?}");
    // The cancel comes too late, and others have filled.
    let mut desk = full();
    for id in 5..12 {
        let filled = desk.trade(&format!("o-{id}"), "0.002", "0.002", "6900");
        assert!(!filled.iter().any(|told| told.contains("place o-13")));
    }
    let late = desk.trade("o-12", "0.002", "0.002", "6900");
    let placed = "place o-13.1 sell 0.002 at 6890".to_owned();
    assert!(late.contains(&placed), "{late:?}");
    desk.trade("o-13", "0.002", "0.002", "6890");
    assert_eq!(desk.world.position(), Amount::ZERO);
}

/// A venue that enforces nothing: the stop makes room before an exit goes, and takes it back after.
#[test]
fn a_stop_makes_room_for_an_exit_and_takes_it_back() {
    let mut desk = Desk::holding_at(false, "0.02");
    let exit = desk.submit(&sell("0.005"));
    assert_eq!(exit, ["place o-1-stop.2 sell 0.015 at 6700"]);
    let placed = desk.works("o-1-stop", 2);
    assert_eq!(placed, ["place o-5.1 sell 0.005"]);
    // It fails, and the stop covers everything again.
    let failed = desk.ended("o-5", "rejected", "0");
    assert!(
        failed.contains(&"place o-1-stop.3 sell 0.02 at 6700".to_owned()),
        "{failed:?}"
    );
    desk.works("o-1-stop", 3);
    // All of it: the stop is parked, and what the venue filled of it meanwhile is not sold again.
    let exit = desk.submit(&sell("0.02"));
    assert_eq!(exit, ["cancel o-1-stop.4 sell 0.02 at 6700"]);
    desk.trade("o-1-stop", "0.004", "0.004", "6700");
    let parked = desk.ended("o-1-stop", "canceled", "0.004");
    assert_eq!(parked, ["place o-9.1 sell 0.016"]);
    let lost = desk.ended("o-9", "canceled", "0");
    assert!(
        lost.contains(&"place o-1-stop.5 sell 0.02 at 6700".to_owned()),
        "{lost:?}"
    );
    desk.works("o-1-stop", 5);
    assert_eq!(desk.unprotected(), Amount::ZERO);
    desk.trade("o-1-stop", "0.016", "0.02", "6700");
    assert_eq!(desk.orders(), [""; 0]);
}

/// Exits and targets that rest wait at the gate, go as `ioc` when the market is there, and come back.
#[test]
fn resting_exits_wait_at_the_gate() {
    let mut desk = Desk::at(false);
    let mut entry = buy("0.02");
    entry.target_price = Some(a("6900"));
    desk.submit(&entry);
    desk.works("o-1", 1);
    let filled = desk.trade("o-1", "0.02", "0.02", "6800");
    assert!(
        !filled.iter().any(|told| told.contains("target")),
        "{filled:?}"
    );
    desk.works("o-1-stop", 1);
    assert_eq!(desk.submit(&limit(sell("0.02"), "6900")), [""; 0]);
    let rests = oid("o-5");
    // Both are reached; only one of them is ever there.
    let target = oid("o-1-target");
    let gone = desk.line(
        [rests, target]
            .map(|order_id| Change::OrderReleased { order_id })
            .into(),
    );
    assert_eq!(gone, ["cancel o-1-stop.2 sell 0.02 at 6700"]);
    let placed = desk.ended("o-1-stop", "canceled", "0");
    assert_eq!(placed, ["place o-1-target.1 sell 0.02 at 6900"]);
    let order = &desk.world.book.orders[&target];
    assert!(order.at_venue.as_ref().unwrap().released);
    desk.works("o-1-target", 1);
    let half = desk.trade("o-1-target", "0.005", "0.005", "6900");
    assert!(
        !half.iter().any(|told| told.starts_with("place")),
        "{half:?}"
    );
    // What it could not fill is back at the gate, and the other one goes.
    let back = desk.ended("o-1-target", "expired", "0.005");
    assert_eq!(back, ["place o-5.1 sell 0.015 at 6900"]);
    assert!(desk.world.book.orders[&target].is_held());
    desk.works("o-5", 1);
    let back = desk.ended("o-5", "expired", "0");
    assert_eq!(back, ["place o-1-stop.3 sell 0.015 at 6700"]);
    assert!(desk.world.book.orders[&rests].is_held());
    desk.works("o-1-stop", 3);
    desk.trade("o-1-stop", "0.015", "0.015", "6700");
    assert_eq!(desk.orders(), [""; 0]);
}

/// An agent cannot keep the stop away with exits that the market does not reach.
#[test]
fn an_ioc_exit_that_the_market_does_not_reach_ends_at_the_gate() {
    for (price, expect) in [("6900", &[][..]), ("6700", &["replaced"][..])] {
        let mut desk = Desk::holding_at(false, "0.02");
        let mut exit = limit(sell("0.005"), price);
        exit.time_in_force = TimeInForce::Ioc;
        let told = desk.submit(&exit);
        let stop = told.iter().filter(|told| told.contains("o-1-stop"));
        assert_eq!(stop.count(), expect.len(), "{told:?}");
        let is_open = desk.world.book.orders.contains_key(&oid("o-5"));
        assert_eq!(is_open, !expect.is_empty(), "{told:?}");
    }
}

/// An agent cannot keep the stop away with exits that it takes back either.
#[test]
fn an_exit_that_stops_make_room_for_is_too_late_to_cancel() {
    for (reduce_only, exit, is_late) in [
        (false, sell("0.005"), true),
        (false, limit(sell("0.005"), "6900"), false),
        (false, limit(sell("0.005"), "6700"), true),
        (true, sell("0.005"), false),
        (true, limit(sell("0.005"), "6700"), false),
    ] {
        let mut desk = Desk::holding_at(reduce_only, "0.02");
        desk.submit(&exit);
        let id = desk.world.book.orders.keys().copied().find(|id| id.seq > 1);
        let verdict = desk.world.cancel(id.unwrap());
        assert_eq!(!verdict.accepted, is_late, "{reduce_only} {exit:?}");
    }
}

/// An order of which the venue says nothing holds up its own size, and no more.
#[test]
fn a_silent_order_holds_up_only_its_own_size() {
    let mut desk = Desk::holding_at(false, "0.02");
    desk.submit(&limit(sell("0.005"), "6700"));
    let placed = desk.works("o-1-stop", 2);
    assert_eq!(placed, ["place o-5.1 sell 0.005 at 6700"]);
    desk.submit(&sell("0.015"));
    desk.ended("o-1-stop", "canceled", "0");
    desk.works("o-7", 1);
    // Both are to end, and only one of them does: the stop takes back all but the other.
    let at = desk.world.now;
    desk.line(
        ["o-5", "o-7"]
            .map(|id| Change::OrderClosed {
                order_id: oid(id),
                end: OrderEnd::Retired,
                at,
                why: None,
            })
            .into(),
    );
    let gone = desk.ended("o-7", "canceled", "0");
    assert!(
        gone.contains(&"place o-1-stop.4 sell 0.015 at 6700".to_owned()),
        "{gone:?}"
    );
    desk.works("o-1-stop", 4);
    let gone = desk.ended("o-5", "canceled", "0");
    assert!(
        gone.contains(&"place o-1-stop.5 sell 0.02 at 6700".to_owned()),
        "{gone:?}"
    );
}

/// A limit that the venue does not fill takes the stops away once in ten seconds at most.
#[test]
fn an_exit_that_comes_back_unfilled_waits() {
    let mut desk = Desk::holding_at(false, "0.02");
    let exit = limit(sell("0.02"), "6700");
    desk.submit(&exit);
    desk.ended("o-1-stop", "canceled", "0");
    desk.works("o-5", 1);
    let back = desk.ended("o-5", "expired", "0");
    assert_eq!(back, ["place o-1-stop.3 sell 0.02 at 6700"]);
    let is_reached = |desk: &Desk| {
        let world = &desk.world;
        let order = &world.book.orders[&oid("o-5")];
        crate::exits::is_reached(&world.book, &world.rules, order, world.now)
    };
    for (ms, expect) in [(0, false), (9_999, false), (1, true)] {
        desk.world.wait(ms);
        assert_eq!(is_reached(&desk), expect, "{ms}");
    }
}

/// A resting exit goes with its limit or better, and past its trigger; a triggered one goes on wherever
/// the market is by then.
#[test]
fn a_resting_exit_is_reached_at_its_price() {
    let mut desk = Desk::holding_at(false, "0.02");
    desk.submit(&limit(sell("0.02"), "6900"));
    let world = &desk.world;
    let resting = &world.book.orders[&oid("o-5")];
    let instrument = &world.rules.instruments[&btc()];
    let seen = world.book.two_sided(instrument).unwrap();
    let unit = a("0.0000000001");
    let around = |at: Amount| {
        [
            at.checked_sub(unit).unwrap(),
            at,
            at.checked_add(unit).unwrap(),
        ]
    };
    let is_reached = |order: &crate::order::Order| {
        crate::exits::is_reached(&world.book, &world.rules, order, world.now)
    };
    for (side, is_limit, at, expect) in [
        (Side::Sell, true, seen.bid, [true, true, false]),
        (Side::Buy, true, seen.ask, [false, true, true]),
        (Side::Sell, false, seen.bid, [false, true, true]),
        (Side::Buy, false, seen.ask, [true, true, false]),
    ] {
        for (at, expect) in around(at).into_iter().zip(expect) {
            let mut order = resting.clone();
            (order.side, order.price, order.trigger) = match is_limit {
                true => (side, Some(at), None),
                false => (side, None, Some(at)),
            };
            assert_eq!(is_reached(&order), expect, "{side:?} {is_limit} {at}");
            order.triggered = true;
            assert!(is_reached(&order), "{side:?} {is_limit} {at}");
        }
    }
}

/// A market exit that waits for the one in flight leaves its part of the stop at the venue.
#[test]
fn a_stop_makes_no_room_for_an_exit_that_waits_its_turn() {
    let mut desk = Desk::holding_at(false, "0.02");
    desk.submit(&sell("0.005"));
    desk.works("o-1-stop", 2);
    assert_eq!(desk.submit(&sell("0.005")), [""; 0]);
    let filled = desk.trade("o-5", "0.005", "0.005", "6800");
    let stop = "place o-1-stop.3 sell 0.01 at 6700".to_owned();
    assert!(filled.contains(&stop), "{filled:?}");
}

/// The row that brings the market to a resting exit lets it go.
#[test]
fn a_row_lets_a_resting_exit_go() {
    for (close, goes) in [("6890", false), ("6960", true)] {
        let mut desk = Desk::holding_at(false, "0.02");
        desk.submit(&limit(sell("0.02"), "6900"));
        desk.world.wait(60_000);
        let row = crate::market_row::Row::Bar {
            open_ms: desk.world.now.ms() - 60_000,
            interval_ms: 60_000,
            open: a("6800"),
            high: a(close),
            low: a("6800"),
            close: a(close),
            volume: None,
        };
        let (world, now) = (&desk.world, desk.world.now);
        let steps =
            crate::venue::on_rows(&world.book, &world.rules, &btc(), &[row], None, now, 0).unwrap();
        let changes = steps.into_iter().flat_map(|step| step.changes).collect();
        let told = desk.line(changes);
        let parked = told.contains(&"cancel o-1-stop.2 sell 0.02 at 6700".to_owned());
        assert_eq!(parked, goes, "{close}: {told:?}");
    }
}
