//! Working entries that the gate no longer allows: each cause pulls in the batch of its line, no
//! later row fills the entry, and a replay writes the same lines.

use std::path::Path;
use std::sync::Arc;

use crate::kit::desk::{Desk, order};
use crate::kit::ledger_files::lines_of;
use crate::kit::place::drain;
use serde_json::{Value, json};
use spoolgate_home::Home;
use spoolgate_host::clock::Clock;
use spoolgate_replay::replay::{Options, replay};
use spoolgate_wire::ids::{OrderId, Principal};

/// A desk whose agent has one resting buy at 6700, and the id of that order.
fn resting(limits: &str) -> (Desk, Home, OrderId) {
    let desk = Desk::with_limits(limits);
    let mut home = desk.open();
    let rest = order("trend", "buy", "0.01", Some("6700"), "btc-dip-long");
    let rest = desk.one(&mut home, "trend-bot", "rest", "order.submit", &rest);
    let id = rest.decision.order_id.unwrap();
    assert!(home.state().book.orders.contains_key(&id), "{rest:?}");
    (desk, home, id)
}

fn lines(desk: &Desk) -> Vec<Value> {
    let log = desk.place.disk.get("audit/log-00000001.jsonl").unwrap();
    let lines = lines_of(&log).into_iter();
    lines
        .map(|line| serde_json::from_slice(&line).unwrap())
        .collect()
}

fn answer(desk: &Desk, id: &str) -> Value {
    serde_json::from_slice(&desk.place.disk.get(format!("spool/out/{id}.json")).unwrap()).unwrap()
}

/// The lines of kind `pull`.
fn pulls(desk: &Desk) -> Vec<Value> {
    let mut lines = lines(desk);
    lines.retain(|line| line["kind"] == "pull");
    lines
}

fn replays(desk: &Desk, mut home: Home) {
    home.finish("done").unwrap();
    drop(home);
    let options = Options {
        threads: 1,
        answers: None,
    };
    let disk = Arc::clone(&desk.place.disk);
    let replayed = replay(disk, Path::new("audit"), &options, &mut |_| {}).unwrap();
    assert!(replayed.is_same(), "{replayed:?}");
}

type Cause = fn(&Desk, &mut Home);

/// Changes a rule file and lets the gate load it.
fn edit(desk: &Desk, home: &mut Home, path: &str, change: impl Fn(&str) -> String) {
    desk.edit(path, change);
    load(desk, home);
}

/// Lets the gate load changed files, which must have stood still for a while.
fn load(desk: &Desk, home: &mut Home) {
    for _ in 0..3 {
        desk.place.pass_s(2);
        home.write_news().unwrap();
    }
}

const CAUSES: [(&str, Cause); 11] = [
    ("manual_halt", |desk, home| {
        let halt = r#"{"reason":"drill"}"#;
        desk.one_as_owner(home, "halt", "halt.set", halt);
    }),
    ("manual_halt", |desk, home| {
        let halt = r#"{"reason":"drill"}"#;
        desk.one(home, "trend-bot", "halt", "halt.set", halt);
    }),
    ("manual_halt", |desk, home| {
        desk.place.disk.put("rules/HALT", b"");
        home.write_news().unwrap();
    }),
    ("strategy_active", |desk, home| {
        let bot = Principal::parse("trend-bot").unwrap();
        let now = desk.place.clock.now();
        let key = home.state().active_keys(&bot, now).next().unwrap();
        let payload = json!({"key_id": key, "reason": "stolen"}).to_string();
        desk.one_as_owner(home, "revoke", "keys.revoke", &payload);
    }),
    ("strategy_active", |desk, home| {
        let pause = json!({
            "decision_id": "d1", "concern_id": "paper:btc-usd", "account_id": "paper",
                "market_symbol": "btc-usd", "action": "pause", "reason": "why", "confidence": 0.9,
        });
        desk.one(home, "hermes", "pause", "control.apply", &pause.to_string());
        let answer = answer(desk, "pause");
        let cancelled = &answer["data"]["result"]["cancelled_orders"];
        assert_eq!(cancelled.as_array().unwrap().len(), 1, "{answer}");
    }),
    ("instrument_allowed", |desk, home| {
        edit(desk, home, "rules/safety.yaml", |text| {
            text.replace(
                "restricted_instruments: []",
                "restricted_instruments: [BTC-USD]",
            )
        });
    }),
    ("max_single_position", |desk, home| {
        edit(desk, home, "rules/safety.yaml", |text| {
            text.replace("max_single_position: 0.05", "max_single_position: 0.001")
        });
    }),
    ("rulebook", |desk, home| {
        edit(desk, home, "rules/safety.yaml", |text| {
            format!("{text}\nno_such_key: 1\n")
        });
    }),
    ("thesis_valid", |desk, home| {
        desk.place.pass_s(2000 * 86_400);
        home.write_news().unwrap();
    }),
    ("thesis_valid", |desk, home| {
        edit(desk, home, "proposals/theses/btc-dip-long.md", |text| {
            text.replace("invalid_below: 6000", "invalid_below: 6790")
        });
        desk.bar(home, "6795", "6789");
    }),
    ("time_window", |desk, home| {
        edit(desk, home, "rules/safety.yaml", |text| {
            text.replace(
                "restricted: []",
                "restricted: [{from: \"00:00\", to: \"23:59\"}]",
            )
        });
    }),
];

#[test]
fn every_cause_pulls_at_once_and_nothing_fills_later() {
    for (nth, (check, cause)) in CAUSES.iter().enumerate() {
        let (desk, mut home, id) = resting("max_spread: 0.5");
        cause(&desk, &mut home);
        let orders = &home.state().book.orders;
        assert!(
            !orders.contains_key(&id) && orders.is_empty(),
            "cause {nth}: {check}"
        );
        let said = lines(&desk)
            .iter()
            .map(Value::to_string)
            .find(|line| line.contains("\"pulled\""))
            .unwrap_or_else(|| panic!("cause {nth}: no line says that it was pulled"));
        assert!(
            said.contains(&format!("\"check\":\"{check}\"")),
            "cause {nth}: {said}"
        );
        // What would have filled it.
        if *check != "rulebook" && nth != 8 {
            desk.bar(&mut home, "6700", "6650");
        }
        assert!(
            home.state().book.positions.is_empty(),
            "cause {nth}: {check}"
        );
        replays(&desk, home);
    }
}

#[test]
fn an_order_of_exactly_the_headroom_stays_when_prices_drift_and_goes_when_the_limit_is_cut() {
    let desk = Desk::with_limits("max_single_position: 0.05");
    let mut home = desk.open();
    let first = order("trend", "buy", "0.01", Some("6700"), "btc-dip-long");
    let first = desk.one(&mut home, "trend-bot", "first", "order.submit", &first);
    let most = order("trend", "buy", "1", Some("6750"), "btc-range-long");
    desk.one(&mut home, "trend-bot", "large", "order.submit", &most);
    let large = answer(&desk, "large");
    let size = large["data"]["Rejected"]["headroom"]["max_size"].as_str();
    let size = size.unwrap_or_else(|| panic!("{large}"));
    let most = order("trend", "buy", size, Some("6750"), "btc-range-long");
    let most = desk.one(&mut home, "trend-bot", "most", "order.submit", &most);
    let (first, most) = (
        first.decision.order_id.unwrap(),
        most.decision.order_id.unwrap(),
    );
    assert!(home.state().book.orders.contains_key(&most));
    desk.bar(&mut home, "7100", "7100");
    assert_eq!(pulls(&desk), Vec::<Value>::new(), "within the margin");
    edit(&desk, &mut home, "rules/safety.yaml", |text| {
        text.replace("max_single_position: 0.05", "max_single_position: 0.0495")
    });
    let orders = &home.state().book.orders;
    assert!(
        orders.contains_key(&first) && !orders.contains_key(&most),
        "the newest goes"
    );
    assert_eq!(pulls(&desk).len(), 1);
    replays(&desk, home);
}

/// A pause is a decision about a strategy, however much that strategy has open.
#[test]
fn a_pause_stops_more_orders_than_fit_a_line() {
    let limits = "max_open_orders: 1000\nmax_entries_per_minute: 1000\n\
        max_entries_per_minute_all: 1000\nmax_messages_per_minute: 10000\nduplicate_window_s: 0\n\
        max_total_capital: 1000000\nmax_single_position: 1\nmax_portfolio_risk: 1\n\
        max_single_trade_risk: 1\nmax_total_exposure: 100\nmax_same_direction_exposure: 100\n\
        max_correlated_group: 100";
    let desk = Desk::with_limits(limits);
    let mut home = desk.open();
    let slugs = 0..250;
    for n in slugs.clone() {
        let path = format!("proposals/theses/t{n}.md");
        let text = format!(
            "---\nslug: t{n}\nstrategy: trend\nsymbol: BTC-USD\ndirection: long\n\
                expires: 2030-01-01T00:00:00Z\ninvalid_below: 100\n---\nWhy.\n"
        );
        std::fs::write(desk.place.root.path().join(path), text).unwrap();
    }
    load(&desk, &mut home);
    for n in slugs.clone() {
        let price = format!("{}.{:02}", 6650 + n / 100, n % 100);
        let rest = order("trend", "buy", "0.002", Some(&price), &format!("t{n}"));
        desk.ask("trend-bot", &format!("r{n:03}"), "order.submit", &rest);
    }
    let outcomes = drain(&mut home).unwrap();
    let refused = outcomes.iter().find(|it| it.answer.error.is_some());
    assert!(refused.is_none(), "{refused:?}");
    let pause = json!({
        "decision_id": "d1", "concern_id": "paper:btc-usd", "account_id": "paper",
            "market_symbol": "btc-usd", "action": "pause", "reason": "why", "confidence": 0.9,
    });
    let paused = desk.one(
        &mut home,
        "hermes",
        "pause",
        "control.apply",
        &pause.to_string(),
    );
    assert!(paused.answer.error.is_none(), "{paused:?}");
    assert!(home.state().book.orders.is_empty());
    let pulls = pulls(&desk);
    assert_eq!(pulls.len(), 3, "100 and 100 and 50");
    let ended = pulls
        .iter()
        .map(|line| line.to_string().matches("\"pulled\"").count());
    assert_eq!(ended.sum::<usize>(), slugs.len());
    replays(&desk, home);
}
