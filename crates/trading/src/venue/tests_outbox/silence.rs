//! Bridges and venues that say nothing: instructions that reached nobody, stops that are not confirmed,
//! signs of life.

use super::*;
use crate::book::{Bridge, Silence};
use crate::order::STATED_MAX;
use crate::venue::report::taken_back;

impl Desk {
    /// The gate took a file back.
    fn take_back(&mut self, id: &str, version: u32) -> Vec<String> {
        let (book, rules, now) = (&self.world.book, &self.world.rules, self.world.now);
        let changes = taken_back(book, rules, oid(id), version, now).unwrap();
        self.line(changes)
    }

    /// The bridge reports that it did nothing about a version.
    fn expired(&mut self, id: &str, version: u32, cum: &str) -> Result<Vec<String>, String> {
        let rest = format!(
            r#""exec_type":"rejected","text":"expired","version":{version},"cum_qty":"{cum}""#
        );
        self.report(id, &rest)
    }

    fn covers(&self, id: &str) -> (Amount, Option<Amount>) {
        self.world.book.orders[&oid(id)].cover(self.world.now, 15_000)
    }
}

#[test]
fn an_entry_that_nobody_sent_is_over() {
    for is_asked in [false, true] {
        let mut desk = Desk::new();
        desk.submit(&limit(buy("0.01"), "6790"));
        if is_asked {
            desk.cancel("o-1");
            assert_eq!(desk.orders(), ["o-1 0.01/0 ending"]);
        }
        let (mut by_file, mut by_report) = (Desk::new(), desk);
        by_file.world.book = by_report.world.book.clone();
        by_file.take_back("o-1", 1);
        by_report.expired("o-1", 1, "0").unwrap();
        for desk in [by_file, by_report] {
            assert_eq!(desk.orders(), [""; 0], "asked: {is_asked}");
        }
    }
}

#[test]
fn a_version_that_is_no_news_changes_nothing() {
    let mut desk = Desk::new();
    desk.submit(&limit(buy("0.01"), "6790"));
    desk.works("o-1", 1);
    let before = desk.world.book.clone();
    for (id, version) in [("o-1", 2), ("o-9", 1), ("o-1", 0)] {
        assert_eq!(desk.take_back(id, version), [""; 0], "{id}.{version}");
    }
    assert_eq!(desk.world.book, before);
    let refused = desk.expired("o-1", 2, "0").unwrap_err();
    assert!(refused.starts_with("REPORT_IMPOSSIBLE"), "{refused}");
    let mut desk = Desk::holding("0.01");
    desk.tighten("o-1-stop", "6750").unwrap();
    desk.works("o-1-stop", 2);
    let refused = desk.expired("o-1-stop", 1, "0").unwrap_err();
    assert_eq!(refused, "REPORT_UNKNOWN");
}

#[test]
fn a_stop_that_came_too_late_is_instructed_again_and_the_old_one_stays() {
    let mut desk = Desk::holding("0.01");
    desk.tighten("o-1-stop", "6750").unwrap();
    desk.expired("o-1-stop", 2, "0").unwrap();
    let venue = desk.world.book.orders[&oid("o-1-stop")]
        .at_venue
        .clone()
        .unwrap();
    assert!(venue.is_out() && venue.lost);
    assert_eq!(venue.most(), a("0.01"), "version 1 works on");
    // A bridge whose clock is ahead would refuse each of them.
    desk.world.wait(4_999);
    assert_eq!(desk.line(Vec::new()), [""; 0]);
    desk.world.wait(1);
    assert_eq!(desk.line_owing(), ["replace o-1-stop.3 sell 0.01 at 6750"]);
    desk.works("o-1-stop", 3);
    assert_eq!(desk.covers("o-1-stop"), (a("0.01"), Some(a("6750"))));
}

#[test]
fn an_exit_at_the_market_that_came_too_late_goes_again() {
    for reduce_only in [false, true] {
        let mut desk = Desk::holding_at(reduce_only, "0.01");
        desk.submit(&sell("0.01"));
        if !reduce_only {
            desk.report(
                "o-1-stop",
                r#""exec_type":"canceled","version":2,"cum_qty":"0""#,
            )
            .unwrap();
        }
        desk.expired("o-4", 1, "0")
            .or_else(|_| desk.expired("o-5", 1, "0"))
            .unwrap();
        desk.world.wait(5_000);
        let told = desk.line_owing();
        assert!(told[0].starts_with("place o-"), "{reduce_only}: {told:?}");
        assert!(told[0].contains(".2 sell 0.01"), "{reduce_only}: {told:?}");
    }
}

impl Desk {
    /// Writes a line for what is owed.
    fn line_owing(&mut self) -> Vec<String> {
        let limits = &self.world.rules.safety.bridges;
        let changes = owed(&self.world.book, limits, self.world.now);
        self.line(changes)
    }
}

#[test]
fn a_stop_covers_for_15_s_before_it_is_confirmed() {
    let mut desk = Desk::new();
    desk.submit(&buy("0.01"));
    desk.works("o-1", 1);
    desk.trade("o-1", "0.01", "0.01", "6800");
    let whole = (a("0.01"), Some(a("6700")));
    desk.world.wait(14_999);
    assert_eq!(desk.covers("o-1-stop"), whole);
    desk.world.wait(1);
    assert_eq!(desk.covers("o-1-stop").0, Amount::ZERO);
    desk.works("o-1-stop", 1);
    assert_eq!(desk.covers("o-1-stop"), whole);
    desk.world.wait(1_000_000);
    assert_eq!(
        desk.covers("o-1-stop"),
        whole,
        "once confirmed, it stays so"
    );
    // A tighten that is not confirmed counts as long, then the old level does. Tightening again does
    // not make that longer.
    desk.tighten("o-1-stop", "6710").unwrap();
    desk.world.wait(14_000);
    desk.tighten("o-1-stop", "6720").unwrap();
    desk.world.wait(999);
    assert_eq!(desk.covers("o-1-stop"), (a("0.01"), Some(a("6720"))));
    desk.world.wait(1);
    assert_eq!(desk.covers("o-1-stop"), whole);
}

/// The bridge has taken version 1 out of the market and has not placed version 2 yet.
#[test]
fn a_version_that_ended_before_the_stop_was_placed_again_covers_nothing() {
    let mut desk = Desk::holding_at(false, "0.01");
    desk.world.wait(60_000);
    desk.tighten("o-1-stop", "6750").unwrap();
    let canceled = r#""exec_type":"canceled","version":1,"cum_qty":"0""#;
    let before = (desk.world.book.clone(), desk.world.now);
    desk.report("o-1-stop", canceled).unwrap();
    assert_eq!(desk.covers("o-1-stop").0, a("0.01"), "version 2 is young");
    desk.world.wait(15_000);
    assert_eq!(desk.covers("o-1-stop").0, Amount::ZERO);
    assert_eq!(desk.orders(), ["o-1-stop 0.01/0"]);
    let again = desk.report("o-1-stop", canceled).unwrap_err();
    assert_eq!(again, "REPORT_UNKNOWN");
    desk.works("o-1-stop", 2);
    assert_eq!(desk.covers("o-1-stop"), (a("0.01"), Some(a("6750"))));
    // Version 2 came too late: nothing is left, and the stop is placed again.
    (desk.world.book, desk.world.now) = before;
    desk.expired("o-1-stop", 2, "0").unwrap();
    desk.report("o-1-stop", canceled).unwrap();
    let venue = desk.world.book.orders[&oid("o-1-stop")].at_venue.clone();
    assert!(venue.unwrap().gone);
    desk.world.wait(5_000);
    assert_eq!(desk.line_owing(), ["place o-1-stop.3 sell 0.01 at 6750"]);
}

#[test]
fn a_stop_that_the_market_has_passed_covers_nothing_after_15_s() {
    let mut desk = Desk::holding("0.01");
    desk.world.wait(60_000);
    desk.world.bar("6710", "6710", "6700.01", "6700.01");
    desk.world.wait(20_000);
    assert_eq!(desk.covers("o-1-stop").0, a("0.01"), "not passed");
    desk.world.bar("6705", "6705", "6700", "6700");
    let passed = desk.world.book.orders[&oid("o-1-stop")]
        .at_venue
        .as_ref()
        .unwrap()
        .passed_at;
    let passed = passed.unwrap();
    let at = |desk: &mut Desk, ms| {
        desk.world.now = passed.plus_ms(ms);
        desk.covers("o-1-stop").0
    };
    assert_eq!(at(&mut desk, 14_999), a("0.01"));
    assert_eq!(at(&mut desk, 15_000), Amount::ZERO);
    // A person looks; or it trades after all.
    let mut cleared = desk.world.book.clone();
    cleared
        .apply(&Change::SymbolCleared { symbol: btc() })
        .unwrap();
    let venue = cleared.orders[&oid("o-1-stop")].at_venue.as_ref().unwrap();
    assert_eq!(venue.passed_at, None);
    desk.trade("o-1-stop", "0.004", "0.004", "6700");
    assert_eq!(desk.covers("o-1-stop").0, a("0.006"));
}

#[test]
fn many_unanswered_versions_take_bounded_room_and_are_never_forgotten() {
    let mut desk = Desk::at(true);
    desk.submit(&buy("0.02"));
    desk.works("o-1", 1);
    for n in 1..=20 {
        let cum = a("0.001").checked_mul(Amount::from_i64(n)).unwrap();
        desk.trade("o-1", "0.001", &cum.to_string(), "6800");
    }
    let stop = |desk: &Desk| {
        desk.world.book.orders[&oid("o-1-stop")]
            .at_venue
            .clone()
            .unwrap()
    };
    let venue = stop(&desk);
    assert_eq!((venue.version, venue.sizes.len()), (19, STATED_MAX));
    assert_eq!(venue.most(), a("0.02"));
    assert_eq!(desk.take_back("o-1-stop", venue.merged), [""; 0]);
    assert_eq!(
        stop(&desk),
        venue,
        "it may stand for a version that was taken"
    );
    desk.take_back("o-1-stop", 19);
    assert_eq!(stop(&desk).most(), a("0.019"));
    desk.works("o-1-stop", 18);
    assert_eq!(stop(&desk).sizes.len(), 1);
}

#[test]
fn entries_need_a_bridge_that_is_alive_and_agrees() {
    let mut desk = Desk::new();
    desk.world.is_heard = false;
    let name = bridge("exchange");
    let entry = limit(buy("0.01"), "6790");
    let now = desk.world.now;
    let known = |silent: Option<Silence>, reconciled_at| Bridge {
        silent,
        reconciled_at,
        ..Bridge::default()
    };
    let silence = || Silence {
        since: now,
        why: "it writes no `.alive`".to_owned(),
    };
    let before = desk.world.book.clone();
    for (state, passes, says) in [
        (None, false, "no sign of life yet"),
        (
            Some(known(None, None)),
            false,
            "no snapshot of the venue in this run",
        ),
        (
            Some(known(None, Some(now.plus_ms(-300_001)))),
            false,
            "no snapshot of the venue since",
        ),
        (Some(known(None, Some(now.plus_ms(-300_000)))), true, ""),
        (Some(known(None, Some(now))), true, ""),
        (
            Some(known(None, Some(now.plus_ms(1)))),
            false,
            "no snapshot of the venue since",
        ),
        (
            Some(known(Some(silence()), Some(now))),
            false,
            "it writes no `.alive`",
        ),
    ] {
        desk.world.book = before.clone();
        if let Some(state) = state {
            desk.world.book.bridges.insert(name.clone(), state);
        }
        let row = desk.world.row_of(&entry, "venue_alive");
        assert_eq!(row.passed, passes, "{says}");
        assert!(row.reason.unwrap_or_default().contains(says), "{says}");
    }
    // Exits need none, and orders on paper have no such row.
    desk.world.book = Desk::holding("0.01").world.book;
    desk.world.book.bridges.clear();
    desk.submit(&sell("0.01"));
    let mut paper = World::new();
    let verdict = paper.ask(&entry);
    assert!(verdict.accepted);
    assert!(verdict.checks.iter().all(|row| row.name != "venue_alive"));
}

#[test]
fn a_silent_bridge_pulls_its_working_entries_and_nothing_else() {
    let mut desk = Desk::holding("0.01");
    desk.submit(&limit(
        market_order("trend", "BTC-USD", "buy", "0.002", "6690", 1),
        "6750",
    ));
    desk.world.is_heard = false;
    assert_eq!(desk.world.pulls("0.1"), []);
    let silent = Change::BridgeSilent {
        bridge: bridge("exchange"),
        since: desk.world.now,
        why: "it does not reach its venue".to_owned(),
    };
    desk.world.apply(&[silent]);
    let pulls = desk.world.pulls("0.1");
    assert_eq!(pulls.len(), 1);
    assert_eq!(pulls[0].1, "venue_alive");
    assert_eq!(pulls[0].0.leg, spoolgate_wire::ids::Leg::Order);
    // Heard again, it needs a new snapshot first.
    let heard = Change::BridgeHeard {
        bridge: bridge("exchange"),
        run: "r2".to_owned(),
        at: desk.world.now,
    };
    desk.world.apply(&[heard]);
    assert_eq!(desk.world.pulls("0.1").len(), 1);
    let reconciled = Change::Reconciled {
        bridge: bridge("exchange"),
        at: desk.world.now,
        run: "r2".to_owned(),
        differences: 0,
    };
    desk.world.apply(&[reconciled]);
    assert_eq!(desk.world.pulls("0.1"), []);
}
