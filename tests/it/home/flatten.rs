//! Halts that close positions: by a person's request and by the file `rules/HALT`, with nothing in
//! order but the book; and 2,000 orders that go at once, whatever line was the last before a crash.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::halts::{desk, refusal, replays};
use crate::kit::campaign;
use crate::kit::desk::{Desk, failed, order};
use crate::kit::ledger_files::lines_of;
use crate::kit::place::drain;
use crate::kit::venue::{PATIENT, hear_anew};
use serde_json::{Value, json};
use spoolgate_home::Home;
use spoolgate_home::open::Seams;
use spoolgate_host::clock::Clock;
use spoolgate_host::keyring::{SqliteKeyring, key_id};
use spoolgate_trading::order::OrderRole;
use spoolgate_wire::code::Code;
use spoolgate_wire::ids::{Leg, OrderId, Principal};
use spoolgate_wire::signing::SignKey;

/// The agent holds 0.02 BTC for `trend`, with a stop, a target and a resting exit, and 0.01 for
/// `range`, on paper.
fn holding() -> (Desk, Home) {
    let desk = desk(false);
    let mut home = desk.open();
    for (id, strategy, size, thesis) in [
        ("buy-1", "trend", "0.02", "btc-range-long"),
        ("buy-2", "range", "0.01", "other"),
    ] {
        let buy = order(strategy, "buy", size, None, thesis);
        let mut buy: Value = serde_json::from_str(&buy).unwrap();
        buy["target_price"] = json!("7200");
        let buy = desk.one(&mut home, "trend-bot", id, "order.submit", &buy.to_string());
        assert_eq!(failed(&buy), [""; 0]);
    }
    desk.bar(&mut home, "6800", "6800");
    let exit = order("trend", "sell", "0.005", Some("7100"), "btc-range-long");
    let exit = desk.one(&mut home, "trend-bot", "exit", "order.submit", &exit);
    assert_eq!(failed(&exit), [""; 0]);
    assert_eq!(home.state().book.positions.len(), 2);
    (desk, home)
}

/// Strategy, role and size of the working orders.
fn working(home: &Home) -> Vec<String> {
    let orders = home.state().book.orders.values();
    let told = orders.map(|order| {
        let role = match (order.order_id.leg, order.role) {
            (Leg::Flatten, _) => "flatten",
            (_, OrderRole::Entry) => "entry",
            (_, OrderRole::Exit) => "exit",
            (_, OrderRole::Protective) => "stop",
            (_, OrderRole::Target) => "target",
            (_, OrderRole::Adjust) => "adjust",
        };
        format!("{} {role} {}", order.strategy, order.size)
    });
    let mut told: Vec<String> = told.collect();
    told.sort();
    told
}

const RANGE: [&str; 2] = ["range stop 0.01", "range target 0.01"];

#[test]
fn each_scope_closes_its_legs_and_retires_their_exits() {
    let closed = ["trend flatten 0.02", "trend stop 0.02"];
    let trend = [&RANGE[..], &closed].concat();
    let all = ["range flatten 0.01", "range stop 0.01"];
    let all = [&all[..], &closed].concat();
    for (scope, expect) in [
        (json!({"strategy": "trend"}), &trend),
        (json!({"symbol": "BTC-USD"}), &all),
        (json!({}), &all),
        (json!({"principal": "trend-bot"}), &all),
    ] {
        let (desk, mut home) = holding();
        let before = working(&home);
        let mut halt = scope.clone();
        halt["reason"] = json!("misbehaves");
        halt["flatten"] = json!(true);
        let halt = halt.to_string();
        let no = desk.one(&mut home, "trend-bot", "no", "halt.set", &halt);
        assert_eq!(refusal(&no).0, Code::NotPermitted);
        assert_eq!(working(&home), before);
        // A drill counts the same and changes nothing.
        let mut drill = scope.clone();
        drill["reason"] = json!("quarterly");
        drill["drill"] = json!(true);
        let drill = drill.to_string();
        let no = desk.one(&mut home, "trend-bot", "no-drill", "halt.set", &drill);
        assert_eq!(refusal(&no).0, Code::NotPermitted);
        let drilled = desk.one_as_owner(&mut home, "drill", "halt.set", &drill);
        assert_eq!(working(&home), before);
        let told: Value = serde_json::from_str(drilled.answer.data.unwrap().get()).unwrap();
        let legs = if expect == &trend { 1 } else { 2 };
        // Each leg has a target, and `trend` a resting exit too.
        let counts = json!({"entries": 0, "exits": legs + 1, "positions": legs, "bridges": []});
        assert_eq!(told["HaltSet"]["drill"], counts, "{scope}");
        // A drill of a part says nothing about a stop of everything.
        let drilled_at = Some(drilled.decision.timestamp).filter(|_| scope == json!({}));
        assert_eq!(home.state().drilled_at, drilled_at, "{scope}");
        let set = desk.one_as_owner(&mut home, "halt", "halt.set", &halt);
        assert!(set.answer.error.is_none(), "{set:?}");
        assert_eq!(&working(&home), expect, "{scope}");
        // The same again changes nothing, and nobody but a person takes it back.
        desk.one_as_owner(&mut home, "again", "halt.set", &halt);
        let weaker = json!({"strategy": "trend", "keep_orders": true, "reason": "r"}).to_string();
        desk.one(&mut home, "trend-bot", "weaker", "halt.set", &weaker);
        assert_eq!(&working(&home), expect, "{scope}");
        desk.bar(&mut home, "6790", "6790");
        let left = if expect == &trend { &RANGE[..] } else { &[] };
        assert_eq!(working(&home), left, "{scope}");
        assert_eq!(home.state().book.positions.len(), left.len() / 2);
        replays(&desk.place, home);
    }
}

#[test]
fn a_bridge_that_holds_nothing_and_both_flags_close_nothing() {
    let (desk, mut home) = holding();
    let before = working(&home);
    let halt = json!({"bridge": "exchange", "flatten": true, "reason": "r"}).to_string();
    let set = desk.one_as_owner(&mut home, "halt", "halt.set", &halt);
    assert!(set.answer.error.is_none(), "{set:?}");
    assert_eq!(working(&home), before);
    let both = json!({"keep_orders": true, "flatten": true, "reason": "r"}).to_string();
    let no = desk.one_as_owner(&mut home, "both", "halt.set", &both);
    let (code, message) = refusal(&no);
    assert_eq!(code, Code::MalformedPayload);
    assert!(message.contains("exclude each other"), "{message}");
    replays(&desk.place, home);
}

#[test]
fn what_an_agent_can_take_back_does_not_count_as_closing() {
    let (desk, mut home) = holding();
    // The other 0.005 is reserved by the exit that rests.
    let market = order("trend", "sell", "0.015", None, "btc-range-long");
    let halt = json!({"strategy": "trend", "flatten": true, "reason": "r"}).to_string();
    let exit = desk.one(&mut home, "trend-bot", "market", "order.submit", &market);
    assert_eq!(failed(&exit), [""; 0]);
    desk.one_as_owner(&mut home, "halt", "halt.set", &halt);
    let expect = ["trend flatten 0.02", "trend stop 0.02"];
    assert_eq!(working(&home), [&RANGE[..], &expect].concat());
    // In one batch the agent takes an exit back and sends it anew, so that the exit is always younger
    // than the next row. The row closes the position all the same.
    let id = exit.decision.order_id.unwrap();
    let cancel = json!({"order_id": id}).to_string();
    desk.ask("trend-bot", "cancel", "order.cancel", &cancel);
    desk.ask("trend-bot", "again", "order.submit", &market);
    drain(&mut home).unwrap();
    desk.bar(&mut home, "6790", "6790");
    assert_eq!(working(&home), RANGE);
    replays(&desk.place, home);
}

/// Whatever ended orders of a person before, a halt that closes positions begins at once, and again
/// after its own order was cancelled.
#[test]
fn orders_that_ended_before_a_halt_do_not_delay_it() {
    let (desk, mut home) = holding();
    let flatten_of = |home: &Home| {
        let orders = home.state().book.orders.keys().copied();
        let mut found = orders.filter(|id| id.leg == Leg::Flatten);
        found.next()
    };
    let cancel = |home: &mut Home, nth: usize| {
        let id = json!({"order_id": flatten_of(home).unwrap()}).to_string();
        let done = desk.one_as_owner(home, &format!("cancel-{nth}"), "order.cancel", &id);
        assert!(done.answer.error.is_none(), "{done:?}");
    };
    for nth in 0..5 {
        let close = json!({"strategy": "trend", "symbol": "BTC-USD", "reason": "r"}).to_string();
        desk.one_as_owner(&mut home, &format!("close-{nth}"), "position.close", &close);
        cancel(&mut home, nth);
        assert_eq!(flatten_of(&home), None);
    }
    let halt = json!({"strategy": "trend", "flatten": true, "reason": "r"}).to_string();
    for nth in 10..16 {
        desk.one_as_owner(&mut home, &format!("halt-{nth}"), "halt.set", &halt);
        let first = flatten_of(&home).unwrap();
        cancel(&mut home, nth);
        assert!(flatten_of(&home).is_some_and(|id| id != first), "{nth}");
    }
    assert!(home.state().book.doubted_symbols.is_empty());
    desk.bar(&mut home, "6790", "6790");
    assert_eq!(working(&home), RANGE);
    replays(&desk.place, home);
}

/// Nothing but the book is in order: rules are broken, the agent has no key, prices are days old.
#[test]
fn it_needs_neither_rules_nor_the_agents_key() {
    for by_file in [false, true] {
        let (desk, mut home) = holding();
        let bot = Principal::parse("trend-bot").unwrap();
        let now = desk.place.clock.now();
        let key = home.state().active_keys(&bot, now).next().unwrap();
        let revoke = json!({"key_id": key, "reason": "stolen"}).to_string();
        desk.one_as_owner(&mut home, "k1", "keys.revoke", &revoke);
        desk.edit("rules/instruments.yaml", |text| {
            text.replace("BTC-USD", "XRP-USD")
        });
        desk.edit("rules/safety.yaml", |text| {
            format!("{text}\nno_such_key: 1\n")
        });
        for _ in 0..3 {
            desk.place.pass_s(86_400);
            home.write_news().unwrap();
        }
        assert!(home.rules_fault().is_some());
        if by_file {
            desk.place.disk.put("rules/HALT", b"flatten\n");
            home.write_news().unwrap();
        } else {
            let halt = json!({"flatten": true, "reason": "r"}).to_string();
            desk.one_as_owner(&mut home, "halt", "halt.set", &halt);
        }
        let expect = [
            "range flatten 0.01",
            "range stop 0.01",
            "trend flatten 0.02",
            "trend stop 0.02",
        ];
        assert_eq!(working(&home), expect);
        desk.bar(&mut home, "6790", "6790");
        assert_eq!(working(&home), [""; 0]);
        replays(&desk.place, home);
    }
}

#[test]
fn the_first_line_of_the_halt_file_says_whether_it_closes_positions() {
    for (text, flattens) in [
        ("", false),
        ("flatten", true),
        ("flatten\n", true),
        (" flatten \r\nbecause\n", true),
        ("flatten now\n", false),
        ("\nflatten\n", false),
        ("FLATTEN\n", false),
        ("unflatten\n", false),
    ] {
        let (desk, mut home) = holding();
        desk.place.disk.put("rules/HALT", text.as_bytes());
        home.write_news().unwrap();
        let closing = working(&home).iter().any(|told| told.contains("flatten"));
        assert_eq!(closing, flattens, "{text:?}");
        assert!(home.state().halts.file, "{text:?}");
        // The demand can be added, and taken back before anything filled.
        desk.place.disk.put("rules/HALT", b"flatten");
        home.write_news().unwrap();
        assert!(home.state().halts.file_flattens, "{text:?}");
        desk.place.disk.put("rules/HALT", b"");
        home.write_news().unwrap();
        assert!(!home.state().halts.file_flattens, "{text:?}");
        replays(&desk.place, home);
    }
}

/// How many orders rest.
const RESTING: usize = 2000;

/// A home with so many resting orders, on paper or at a venue.
fn crowded(is_at_venue: bool, resting: usize) -> (Desk, Vec<OrderId>) {
    let limits = "max_open_orders: 10000\nmax_entries_per_minute: 1000\n\
        max_entries_per_minute_all: 1000\nmax_messages_per_minute: 10000\nduplicate_window_s: 0\n\
        max_total_capital: 1000000\nmax_single_position: 1\nmax_portfolio_risk: 1\n\
        max_single_trade_risk: 1\nmax_weekly_loss: 100000\nmax_daily_loss: 100000\n\
        max_total_exposure: 100\nmax_same_direction_exposure: 100\nmax_correlated_group: 100";
    let desk = Desk::with_limits(limits);
    for n in 0..resting {
        let path = format!("proposals/theses/t{n}.md");
        let text = format!(
            "---\nslug: t{n}\nstrategy: trend\nsymbol: BTC-USD\ndirection: long\n\
                expires: 2030-01-01T00:00:00Z\ninvalid_below: 100\n---\nWhy.\n"
        );
        std::fs::write(desk.place.root.path().join(path), text).unwrap();
    }
    if is_at_venue {
        desk.edit("rules/principals.yaml", |text| {
            text.replace(
                "principals:\n",
                "principals:\n  - {name: exchange, role: bridge}\n",
            )
        });
        desk.edit("rules/instruments.yaml", |text| {
            text.replace(
                "    bar_s: 60\n",
                "    bar_s: 60\n    venue: outbox\n    bridge: exchange\n",
            )
        });
        desk.edit("rules/safety.yaml", |text| format!("{text}{PATIENT}"));
    }
    let mut home = desk.open();
    if is_at_venue {
        hear_anew(&desk.place, &mut home);
    }
    let more = json!({"amount": "995000", "reason": "more"}).to_string();
    desk.one_as_owner(&mut home, "more", "account.adjust", &more);
    let mut ids = Vec::new();
    for part in (0..resting).collect::<Vec<_>>().chunks(500) {
        for n in part {
            let price = format!("{}.{:02}", 6650 + n / 100, n % 100);
            let rest = order("trend", "buy", "0.002", Some(&price), &format!("t{n}"));
            desk.ask("trend-bot", &format!("r{n:04}"), "order.submit", &rest);
        }
        for outcome in drain(&mut home).unwrap() {
            assert!(outcome.answer.error.is_none(), "{outcome:?}");
            ids.extend(outcome.decision.order_id);
        }
        desk.bar(&mut home, "6800", "6800");
    }
    home.finish("all rest").unwrap();
    // The bridge has taken them all.
    for (path, _) in desk.place.disk.files_below("spool/outbox") {
        if !path.ends_with(".alive") {
            desk.place.disk.drop_file(path);
        }
    }
    assert_eq!(ids.len(), resting);
    (desk, ids)
}

/// How often each order was pulled, by the lines of the ledger.
fn pulled(desk: &Desk) -> BTreeMap<String, usize> {
    let mut pulled = BTreeMap::new();
    for (path, log) in desk.place.disk.files_below("audit") {
        if !path.to_string_lossy().contains("log-") {
            continue;
        }
        for line in lines_of(&log) {
            let line: Value = serde_json::from_slice(&line).unwrap();
            // What was taken back from its bridge ends for good in a line of its own.
            if line["kind"] == "bridge" {
                continue;
            }
            for change in line["changes"].as_array().into_iter().flatten() {
                for kind in ["OrderClosed", "OrderEnding"] {
                    let change = &change["Book"][kind];
                    if change["end"] == "pulled" {
                        let id = change["order_id"].as_str().unwrap().to_owned();
                        *pulled.entry(id).or_default() += 1;
                    }
                }
            }
        }
    }
    pulled
}

fn halt(desk: &Desk, seams: Seams) {
    let halt = json!({"flatten": true, "reason": "drill"}).to_string();
    desk.place.ask_as_owner("halt", "halt.set", &halt);
    let mut home = desk.place.open_with(seams).unwrap();
    drain(&mut home).unwrap();
    home.finish("done").unwrap();
}

#[test]
fn two_thousand_resting_orders_are_each_pulled_once_whatever_the_last_call_was() {
    for is_at_venue in [false, true] {
        let (desk, ids) = crowded(is_at_venue, RESTING);
        let fork = || Desk {
            place: desk.place.fork(),
            keys: desk.keys.clone(),
        };
        let once: BTreeMap<String, usize> = ids.iter().map(|id| (id.to_string(), 1)).collect();
        let whole = fork();
        let (seams, fuse) = whole.place.mortal(i64::MAX, false);
        halt(&whole, seams);
        let calls = i64::MAX - fuse.left();
        assert_eq!(pulled(&whole), once);
        let home = whole.open();
        let entries = home.state().book.orders.values();
        assert!(entries.clone().all(|order| order.ending().is_some()));
        assert_eq!(entries.count() > 0, is_at_venue);
        replays(&whole.place, home);
        let step = usize::try_from(calls).unwrap() / campaign(2, 40);
        for at in (1..=calls).step_by(step.max(1)) {
            for after in [false, true] {
                let what = format!("call {at} of {calls}, after: {after}, venue: {is_at_venue}");
                let desk = fork();
                let (seams, _) = desk.place.mortal(at, after);
                let died = catch_unwind(AssertUnwindSafe(|| halt(&desk, seams)));
                assert!(died.is_err(), "{what}: it lived");
                let mut home = desk.open();
                drain(&mut home).unwrap();
                assert_eq!(pulled(&desk), once, "{what}");
                replays(&desk.place, home);
            }
        }
    }
}

/// A position at a venue is closed at its bridge, and what fills late is closed again.
#[test]
fn what_fills_after_its_cancel_is_closed_again() {
    let desk = desk(true);
    let key = SignKey::Hmac([8; 32]);
    let keyring = SqliteKeyring::open(desk.place.root.path(), false).unwrap();
    keyring.insert(&key.verify_key()).unwrap();
    let id = key_id(&key.verify_key());
    let payload = json!({"principal": "exchange", "key_id": id, "algorithm": "hmac-sha256"});
    let mut home = desk.open();
    desk.one_as_owner(&mut home, "key", "keys.add", &payload.to_string());
    let rest = order("trend", "buy", "0.02", Some("6700"), "btc-range-long");
    let rest = desk.one(&mut home, "trend-bot", "rest", "order.submit", &rest);
    let entry = rest.decision.order_id.unwrap();
    // The bridge has taken it.
    let file = format!("spool/outbox/exchange/{entry}.1.json");
    desk.place.disk.drop_file(file);
    let halt = json!({"bridge": "exchange", "flatten": true, "reason": "down"}).to_string();
    desk.one_as_owner(&mut home, "halt", "halt.set", &halt);
    assert!(home.state().book.orders[&entry].ending().is_some());
    let late = json!({"order_id": entry, "exec_id": "T1", "exec_type": "trade",
        "transact_time": "2026-03-02T12:00:00Z", "last_qty": "0.02", "last_px": "6700", "fee": 0,
        "liquidity": "taker", "cum_qty": "0.02"});
    let late = late.to_string();
    desk.place
        .ask(&key, "exchange", "T1", "venue.report", &late);
    assert!(drain(&mut home).unwrap()[0].answer.error.is_none());
    let orders = home.state().book.orders.values();
    let closing: Vec<_> = orders
        .filter(|order| order.order_id.leg == Leg::Flatten)
        .map(|order| (order.size.to_string(), order.at_venue.is_some()))
        .collect();
    let sum: usize = closing.len();
    assert!(sum >= 1 && closing.iter().all(|(_, at_venue)| *at_venue));
    replays(&desk.place, home);
}
