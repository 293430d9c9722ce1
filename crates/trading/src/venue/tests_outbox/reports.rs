//! Reports of bridges: the gate books them, refuses them or marks the instrument as doubtful.

use super::*;

#[test]
fn orders_that_a_venue_rejects_or_drops() {
    // An entry is refused or dropped.
    for how in ["rejected", "canceled", "expired"] {
        let mut desk = Desk::new();
        desk.submit(&with_target(limit(buy("0.02"), "6790"), "6900"));
        assert_eq!(
            desk.ended("o-1", how, "0").len(),
            3,
            "with stop and target, which were never placed"
        );
        assert_eq!(desk.orders(), [""; 0]);
    }
    // The rest of a partly filled entry expires.
    let mut desk = Desk::new();
    desk.submit(&limit(buy("0.02"), "6790"));
    desk.trade("o-1", "0.01", "0.01", "6790");
    assert_eq!(desk.ended("o-1", "expired", "0.01"), ["closed o-1 expired"]);
    assert_eq!(desk.orders(), ["o-1-stop 0.01/0"]);
    // An exit is refused: the stop is still there.
    desk.submit(&sell("0.01"));
    assert_eq!(
        desk.ended("o-4", "rejected", "0"),
        ["refused o-4: no such price"]
    );
    assert_eq!(desk.orders(), ["o-1-stop 0.01/0"]);
    // A tightened stop is refused: the venue no longer has it.
    assert_eq!(
        desk.tighten("o-1-stop", "6790").unwrap(),
        ["replace o-1-stop.2 sell 0.01 at 6790"]
    );
    assert_eq!(
        desk.ended("o-1-stop", "rejected", "0"),
        [
            "refused o-1-stop: no such price",
            "place o-7-flatten.1 sell 0.01"
        ]
    );
    // The market order in its place is refused: a person has to look.
    assert_eq!(
        desk.ended("o-7-flatten", "rejected", "0"),
        ["refused o-7-flatten: no such price", "doubted BTC-USD"]
    );
    let entry = market_order("trend", "BTC-USD", "buy", "0.01", "6700", 1);
    assert_eq!(desk.world.refused(&entry), ["symbol_halt"]);
    assert_eq!(
        desk.submit(&sell("0.01")),
        ["place o-10.1 sell 0.01"],
        "exits go on"
    );
    let symbol = btc();
    desk.line(vec![Change::SymbolCleared { symbol }]);
    assert!(desk.world.book.doubted_symbols.is_empty());
}

#[test]
fn reports_that_are_not_booked() {
    let trade = |size: &str, cum: &str| {
        format!(
            r#""exec_type":"trade","last_qty":"{size}","last_px":"6800","fee":0,"liquidity":"maker","cum_qty":"{cum}""#
        )
    };
    let mut desk = Desk::new();
    desk.submit(&buy("0.02"));
    let clear = |desk: &mut Desk| desk.line(vec![Change::SymbolCleared { symbol: btc() }]);
    for (by, id, booked_in, rest, expect) in [
        (
            "exchange",
            "o-1",
            Some(9),
            trade("0.01", "0.01"),
            "REPORT_DUPLICATE",
        ),
        (
            "exchange",
            "o-9",
            None,
            r#""exec_type":"canceled","cum_qty":0"#.to_owned(),
            "REPORT_UNKNOWN",
        ),
        (
            "exchange",
            "o-9",
            None,
            trade("0.01", "0.01"),
            "REPORT_UNKNOWN; doubted BTC-USD",
        ),
        (
            "exchange",
            "o-1-target",
            None,
            trade("0.01", "0.01"),
            "REPORT_UNKNOWN; doubted BTC-USD",
        ),
        // Another bridge does not know the order, and closes no symbol that is not its own.
        (
            "other",
            "o-1",
            None,
            trade("0.01", "0.01"),
            "REPORT_UNKNOWN",
        ),
        (
            "exchange",
            "o-1",
            None,
            trade("0.01", "0.02"),
            "REPORT_OUT_OF_ORDER; doubted BTC-USD",
        ),
        (
            "exchange",
            "o-1",
            None,
            trade("0.01", "0.005"),
            "REPORT_OUT_OF_ORDER; doubted BTC-USD",
        ),
        (
            "exchange",
            "o-1",
            None,
            r#""exec_type":"canceled","cum_qty":"0.01""#.to_owned(),
            "REPORT_OUT_OF_ORDER; doubted BTC-USD",
        ),
        (
            "exchange",
            "o-1",
            None,
            trade("0.021", "0.021"),
            "REPORT_IMPOSSIBLE; doubted BTC-USD",
        ),
        (
            "exchange",
            "o-1",
            None,
            r#""exec_type":"new","version":2,"cum_qty":0"#.to_owned(),
            "REPORT_IMPOSSIBLE; doubted BTC-USD",
        ),
        (
            "exchange",
            "o-1-stop",
            None,
            r#""exec_type":"new","version":1,"cum_qty":0"#.to_owned(),
            "REPORT_IMPOSSIBLE; doubted BTC-USD",
        ),
        (
            "exchange",
            "o-1",
            None,
            trade("999999999999", "999999999999"),
            "REPORT_IMPOSSIBLE; doubted BTC-USD",
        ),
    ] {
        let before = desk.world.book.clone();
        let refused = desk.report_by(by, id, "X", booked_in, &rest).unwrap_err();
        assert_eq!(refused, expect, "{by} {id} {rest}");
        clear(&mut desk);
        assert_eq!(desk.world.book, before);
    }
}

/// The refusal mentions both the gap and the doubt, because one command clears both.
#[test]
fn a_gap_and_a_doubt_are_cleared_together() {
    let mut desk = Desk::new();
    desk.submit(&buy("0.02"));
    desk.try_trade("o-1", "0.01", "0.02", "1").unwrap_err();
    let gap = Gap {
        previous: a("6800"),
        open: a("5000"),
        time: desk.world.now,
    };
    desk.line(vec![Change::SymbolHalted { symbol: btc(), gap }]);
    let why = desk
        .world
        .row_of(&buy("0.01"), "symbol_halt")
        .reason
        .unwrap();
    assert!(
        why.contains("opened at 5000") && why.contains("with this report is not"),
        "{why}"
    );
    desk.line(vec![Change::SymbolCleared { symbol: btc() }]);
    // An existing doubt is not recorded twice.
    desk.try_trade("o-1", "0.01", "0.02", "1").unwrap_err();
    assert_eq!(
        desk.try_trade("o-1", "0.01", "0.02", "1").unwrap_err(),
        "REPORT_OUT_OF_ORDER"
    );
}

#[test]
fn numbers_that_cannot_be_held_are_impossible() {
    let mut desk = Desk::holding("0.01");
    desk.world.apply(&[Change::AccountAdjusted {
        amount: a("0.0000000000000000000001"),
    }]);
    let rest = r#""exec_type":"trade","last_qty":"0.01","last_px":"999999999999.0000000001","fee":0,"liquidity":"maker","cum_qty":"0.01""#;
    assert_eq!(
        desk.report("o-1-stop", rest).unwrap_err(),
        "REPORT_IMPOSSIBLE; doubted BTC-USD"
    );
    assert_eq!(desk.orders(), ["o-1-stop 0.01/0"]);
}

#[test]
fn a_bridge_that_pays_and_a_clock_ahead() {
    let mut desk = Desk::new();
    desk.submit(&buy("0.02"));
    let text = r#"{"order_id":"o-1","exec_id":"E","transact_time":"2030-01-01T00:00:00Z","exec_type":"trade",
        "last_qty":"0.02","last_px":"6800","fee":"-0.05","liquidity":"maker","cum_qty":"0.02"}"#;
    let report: VenueReport = serde_json::from_str(text).unwrap();
    let bridge = bridge("exchange");
    let by = Reporting {
        bridge: &bridge,
        booked_in: None,
        now: desk.world.now,
        seq: 9,
    };
    let changes = on_report(&desk.world.book, &desk.world.rules, &report, &by).unwrap();
    desk.line(changes);
    assert_eq!(desk.world.book.account.fees, a("-0.05"));
    assert_eq!(
        desk.world.book.conduct[&trend()].executions,
        [desk.world.now],
        "never in the future"
    );
}

#[test]
fn an_instrument_that_is_gone_from_the_rules_is_booked_all_the_same() {
    let mut desk = Desk::holding("0.01");
    desk.world.rules.instruments.remove(&btc());
    assert_eq!(desk.trade("o-1-stop", "0.01", "0.01", "6700").len(), 3);
    assert_eq!(desk.world.position(), Amount::ZERO);
}

#[test]
fn a_version_that_says_to_cancel_is_none_that_the_venue_can_work() {
    let mut desk = Desk::new();
    desk.submit(&limit(buy("0.02"), "6790"));
    assert_eq!(
        desk.cancel("o-1").last().unwrap(),
        "cancel o-1.2 buy 0.02 at 6790"
    );
    let works = r#""exec_type":"replaced","version":2,"cum_qty":0"#;
    assert_eq!(
        desk.report("o-1", works).unwrap_err(),
        "REPORT_IMPOSSIBLE; doubted BTC-USD"
    );
    assert_eq!(desk.orders(), ["o-1 0.02/0 ending"]);
    // The venue may still fill the size of the earlier instruction.
    assert_eq!(
        desk.trade("o-1", "0.02", "0.02", "6790")[0],
        "filled o-1 buy 0.02@6790"
    );
}
