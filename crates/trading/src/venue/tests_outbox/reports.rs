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

#[test]
fn refusals_by_a_venue_count_until_it_takes_or_fills_a_later_entry() {
    let rejects = |desk: &Desk| desk.world.book.conduct.get(&trend()).map(|c| c.rejects);
    let mut desk = Desk::new();
    let send = |desk: &mut Desk, thesis: u8| {
        desk.world.wait(1);
        let order = market_order("trend", "BTC-USD", "buy", "0.002", "6700", thesis);
        // Each at another price, or it would be a duplicate.
        let price = (6790 - desk.world.seq).to_string();
        desk.submit(&limit(order, &price));
        format!("o-{}", desk.world.seq)
    };
    let early = send(&mut desk, 3);
    for n in 1..=2 {
        let id = send(&mut desk, 0);
        desk.ended(&id, "rejected", "0");
        assert_eq!(rejects(&desk), Some(n));
    }
    // The bridge never sent it, or the order ended without being refused.
    let id = send(&mut desk, 0);
    let text = r#""exec_type":"rejected","cum_qty":"0","version":1,"text":"expired""#;
    desk.report(&id, text).unwrap();
    for how in ["canceled", "expired"] {
        let id = send(&mut desk, 0);
        desk.ended(&id, how, "0");
    }
    assert_eq!(rejects(&desk), Some(2));
    // Any other text counts.
    let id = send(&mut desk, 0);
    let text = r#""exec_type":"rejected","cum_qty":"0","version":1,"text":"Expired""#;
    desk.report(&id, text).unwrap();
    assert_eq!(rejects(&desk), Some(3));
    // An entry that was accepted before the last refusal says nothing, a later one does.
    desk.works(&early, 1);
    assert_eq!(rejects(&desk), Some(3));
    let later = send(&mut desk, 0);
    desk.works(&later, 1);
    assert_eq!(rejects(&desk), Some(0));
    let id = send(&mut desk, 1);
    desk.ended(&id, "rejected", "0");
    assert_eq!(rejects(&desk), Some(1));
    desk.trade(&later, "0.002", "0.002", "6790");
    assert_eq!(rejects(&desk), Some(1), "it was accepted before that");
    let later = send(&mut desk, 2);
    desk.trade(&later, "0.001", "0.001", "6790");
    assert_eq!(rejects(&desk), Some(0), "a part of an entry is enough");
    desk.trade(&later, "0.001", "0.002", "6790");
    // Stops and exits count too, and their acknowledgements end nothing.
    desk.works(&format!("{later}-stop"), 1);
    desk.submit(&sell("0.002"));
    let exit = format!("o-{}", desk.world.seq);
    desk.ended(&exit, "rejected", "0");
    assert_eq!(rejects(&desk), Some(1));
    desk.world.wait(1);
    desk.submit(&sell("0.002"));
    let exit = format!("o-{}", desk.world.seq);
    desk.works(&exit, 1);
    desk.trade(&exit, "0.002", "0.002", "6790");
    assert_eq!(rejects(&desk), Some(1));
    // What the gate was about to end anyway is no refusal.
    let id = send(&mut desk, 1);
    desk.cancel(&id);
    desk.ended(&id, "rejected", "0");
    assert_eq!(rejects(&desk), Some(1));
}

#[test]
fn a_row_of_refusals_stays_closed_whatever_is_still_reported() {
    let mut desk = Desk::new();
    let sent: Vec<String> = (0..3)
        .map(|n| {
            desk.world.wait(1000);
            let order = market_order("trend", "BTC-USD", "buy", "0.002", "6700", n);
            desk.submit(&limit(order, &format!("678{n}")));
            format!("o-{}", desk.world.seq)
        })
        .collect();
    desk.world.rules.safety.max_rejects = 2.try_into().unwrap();
    desk.world.wait(1);
    desk.ended(&sent[0], "rejected", "0");
    assert_eq!(desk.world.pulls("0.1"), []);
    desk.ended(&sent[1], "rejected", "0");
    let check = "reject_streak".to_owned();
    assert_eq!(desk.world.pulls("0.1"), [(oid(&sent[2]), check)]);
    desk.works(&sent[2], 1);
    desk.trade(&sent[2], "0.002", "0.002", "6780");
    let order = market_order("trend", "BTC-USD", "buy", "0.002", "6700", 3);
    assert_eq!(desk.world.refused(&order), ["reject_streak"]);
    let strategy = trend();
    desk.line(vec![Change::StrategyCleared { strategy }]);
    assert!(desk.world.ask(&order).accepted);
}
