//! Snapshots of a venue against the book: one doubt per difference, at the limit and beside it.

use super::*;
use crate::book::Bridge;
use crate::venue::snapshot::{Compared, Stale, compare};
use serde_json::{Value, json};
use spoolgate_wire::ids::{Currency, ExecId};
use spoolgate_wire::venue::Snapshot;

/// A desk that holds 0.02 BTC with a confirmed stop, on a spot venue where BTC is a coin. The account
/// also trades ETH on paper.
fn desk() -> Desk {
    let mut desk = Desk::holding("0.02");
    let btc = desk.world.rules.instruments.get_mut(&btc()).unwrap();
    btc.base = Some(Currency::parse("BTC").unwrap());
    let known = Bridge {
        run: "r1".to_owned(),
        booked: Some(ExecId::parse("E4").unwrap()),
        ..Bridge::default()
    };
    desk.world.book.bridges.insert(bridge("exchange"), known);
    desk
}

/// What a venue that agrees with that desk states.
fn agreeing() -> Value {
    json!({"run": "r1", "taken_at": desk().world.now, "after_exec": "E4",
        "balances": [{"currency": "BTC", "total": "0.02", "available": "0"}],
        "positions": [],
        "orders": [{"order_id": "o-1-stop", "version": 1, "cum_qty": "0", "size": "0.02",
            "price": null, "trigger": "6700"}],
        "foreign": []})
}

/// Compares with what the venue states now.
fn compared_now(desk: &Desk, snapshot: &Value) -> Result<Compared, Stale> {
    let mut snapshot = snapshot.clone();
    snapshot["taken_at"] = json!(desk.world.now);
    compared(desk, &snapshot)
}

fn compared(desk: &Desk, snapshot: &Value) -> Result<Compared, Stale> {
    let snapshot: Snapshot = serde_json::from_str(&snapshot.to_string()).unwrap();
    snapshot.check().unwrap();
    let world = &desk.world;
    compare(
        &world.book,
        &world.rules,
        &snapshot,
        &bridge("exchange"),
        world.now,
    )
}

/// Returns what differs, and the symbols that it closes.
fn differences(desk: &Desk, snapshot: &Value) -> (Vec<String>, Vec<String>) {
    let found = compared_now(desk, snapshot).unwrap();
    let closed = found.changes.iter().filter_map(|change| match change {
        Change::SymbolDoubted { symbol, .. } => Some(symbol.to_string()),
        _ => None,
    });
    let closed = closed.collect();
    assert!(matches!(
        &found.changes[0],
        Change::Reconciled { differences, .. } if *differences == found.differences.len() as u64
    ));
    (found.differences, closed)
}

#[test]
fn a_venue_that_agrees_closes_nothing() {
    let mut desk = desk();
    assert_eq!(differences(&desk, &agreeing()), (vec![], vec![]));
    let found = compared(&desk, &agreeing()).unwrap();
    desk.world.apply(&found.changes);
    let known = &desk.world.book.bridges[&bridge("exchange")];
    assert_eq!(known.reconciled_at, Some(desk.world.now));
}

#[test]
fn each_difference_is_one_doubt() {
    let stop = agreeing()["orders"][0].clone();
    for (path, value, says) in [
        (
            "/orders/0/cum_qty",
            json!("0.001"),
            "has filled 0 in the book, and 0.001 at the venue",
        ),
        (
            "/orders/0/version",
            json!(2),
            "works version 2 of `o-1-stop`",
        ),
        (
            "/orders/0/size",
            json!("0.019"),
            "another size, price or trigger",
        ),
        (
            "/orders/0/trigger",
            json!("6699"),
            "another size, price or trigger",
        ),
        (
            "/orders/0/trigger",
            json!(null),
            "another size, price or trigger",
        ),
        (
            "/orders/0/price",
            json!("6690"),
            "another size, price or trigger",
        ),
        (
            "/orders",
            json!([stop, stop]),
            "works `o-1-stop` more than once",
        ),
        (
            "/orders",
            json!([]),
            "works in the book, and not at the venue",
        ),
        (
            "/balances",
            json!([]),
            "the book holds 0.02 BTC, and the venue 0",
        ),
    ] {
        let mut snapshot = agreeing();
        *snapshot.pointer_mut(path).unwrap() = value;
        let (found, closed) = differences(&desk(), &snapshot);
        assert_eq!(found.len(), 1, "{path}: {found:?}");
        assert!(found[0].contains(says), "{path}: {found:?}");
        assert_eq!(closed, ["BTC-USD"], "{path}");
    }
    let mut snapshot = agreeing();
    let unknown = json!({"order_id": "o-77", "version": 1, "cum_qty": "0", "size": "0.1",
        "price": "1", "trigger": null});
    snapshot["orders"].as_array_mut().unwrap().push(unknown);
    snapshot["foreign"] = json!([{"venue_id": "X\n", "symbol": "ETH-USD", "side": "buy",
        "size": "1"}]);
    let (found, closed) = differences(&desk(), &snapshot);
    assert_eq!(
        found,
        [
            "the venue works `o-77`, which is not open in the book",
            "the venue works a foreign order in ETH-USD: buy 1 of `X\\n`",
        ]
    );
    // Another bridge trades that, or nobody does.
    assert_eq!(closed, ["BTC-USD"]);
    // A person has not looked yet, so there is nothing new to close.
    let mut doubted = desk();
    let first = compared(&doubted, &snapshot).unwrap();
    doubted.world.apply(&first.changes);
    assert_eq!(differences(&doubted, &snapshot), (found, vec![]));
}

#[test]
fn a_coin_may_be_short_by_less_than_a_lot() {
    let desk = desk();
    let lot = desk.world.rules.instruments[&btc()].lot;
    let unit = a("0.0000000001");
    for (short, is_fault) in [
        (lot.checked_sub(unit).unwrap(), false),
        (*lot, true),
        (lot.checked_add(unit).unwrap(), true),
        (a("-5"), false),
    ] {
        let mut snapshot = agreeing();
        let total = a("0.02").checked_sub(short).unwrap();
        snapshot["balances"][0]["total"] = json!(total.to_string());
        let (found, _) = differences(&desk, &snapshot);
        assert_eq!(!found.is_empty(), is_fault, "{short}: {found:?}");
    }
}

#[test]
fn positions_count_where_there_is_no_coin_and_cash_where_nothing_else_trades() {
    let mut desk = desk();
    desk.world.rules.instruments.get_mut(&btc()).unwrap().base = None;
    let mut snapshot = agreeing();
    let (found, _) = differences(&desk, &snapshot);
    assert!(found[0].contains("on spot, state `base`"), "{found:?}");
    snapshot["positions"] = json!([{"symbol": "BTC-USD", "size": "0.02"}]);
    assert_eq!(differences(&desk, &snapshot).0, [""; 0]);

    let mut desk = self::desk();
    desk.world.rules.instruments.remove(&eth());
    let cash = desk.world.book.account.cash;
    let mut snapshot = agreeing();
    for (total, is_fault) in [
        (cash.checked_sub(a("0.01")).unwrap(), true),
        (cash, false),
        (cash.checked_add(a("0.01")).unwrap(), false),
    ] {
        let usd = json!({"currency": "USD", "total": total.to_string(), "available": "0"});
        snapshot["balances"] = json!([agreeing()["balances"][0], usd]);
        let (found, _) = differences(&desk, &snapshot);
        assert_eq!(!found.is_empty(), is_fault, "{total}: {found:?}");
    }
}

#[test]
fn a_snapshot_of_another_moment_is_stale() {
    for (member, value) in [
        ("run", json!("r0")),
        ("after_exec", json!("E3")),
        ("after_exec", json!(null)),
        ("taken_at", json!(desk().world.now.plus_ms(-60_001))),
        ("taken_at", json!(desk().world.now.plus_ms(60_001))),
    ] {
        let mut snapshot = agreeing();
        snapshot[member] = value;
        assert!(compared(&desk(), &snapshot).is_err(), "{member}");
    }
    for ms in [-60_000, 60_000] {
        let mut snapshot = agreeing();
        snapshot["taken_at"] = json!(desk().world.now.plus_ms(ms));
        assert_eq!(compared(&desk(), &snapshot).unwrap().differences, [""; 0]);
    }
    let mut unheard = desk();
    unheard.world.book.bridges.clear();
    assert!(compared(&unheard, &agreeing()).is_err());
}

#[test]
fn what_is_under_way_is_no_difference() {
    // The stop is tightened, and the bridge has not taken that yet, or has carried it out already.
    let mut desk = desk();
    desk.tighten("o-1-stop", "6750").unwrap();
    assert_eq!(differences(&desk, &agreeing()).0, [""; 0]);
    // Or it has cancelled the old stop, and lost the venue before it could place the new one.
    let mut between = agreeing();
    between["orders"] = json!([]);
    assert_eq!(differences(&desk, &between).0, [""; 0]);
    let mut snapshot = agreeing();
    snapshot["orders"][0]["version"] = json!(2);
    snapshot["orders"][0]["trigger"] = json!("6750");
    assert_eq!(differences(&desk, &snapshot).0, [""; 0]);
    // A cancel that is on its way may have arrived.
    desk.submit(&limit(
        market_order("trend", "BTC-USD", "buy", "0.002", "6690", 1),
        "6750",
    ));
    assert_eq!(
        differences(&desk, &snapshot).0,
        [""; 0],
        "not confirmed yet"
    );
}

/// An order that was let go fills at once or comes back. If the report of its end never comes, it would
/// hold up whatever waits for its room for ever, and nobody would be told.
#[test]
fn an_order_that_was_let_go_may_be_missing_for_a_while() {
    let mut desk = Desk::holding_at(false, "0.02");
    let btc = desk.world.rules.instruments.get_mut(&btc()).unwrap();
    btc.base = Some(Currency::parse("BTC").unwrap());
    desk.submit(&limit(sell("0.02"), "6790"));
    let placed = desk.ended("o-1-stop", "canceled", "0");
    assert_eq!(placed, ["place o-5.1 sell 0.02 at 6790"]);
    desk.works("o-5", 1);
    let known = Bridge {
        run: "r1".to_owned(),
        ..Bridge::default()
    };
    desk.world.book.bridges.insert(bridge("exchange"), known);
    let mut snapshot = agreeing();
    (snapshot["orders"], snapshot["after_exec"]) = (json!([]), Value::Null);
    desk.world.wait(14_999);
    assert_eq!(differences(&desk, &snapshot).0, [""; 0]);
    desk.world.wait(1);
    assert_eq!(
        differences(&desk, &snapshot).0,
        ["`o-5` works in the book, and not at the venue"]
    );
}
