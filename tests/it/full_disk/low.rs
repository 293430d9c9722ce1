//! Little room: what only makes things safer is served, the rest is refused and may be sent again.

use std::path::Path;
use std::sync::Arc;

use crate::kit::desk::{Desk, order};
use crate::kit::ledger_files::lines_of;
use crate::kit::place::Place;
use serde_json::{Value, json};
use spoolgate_home::Home;
use spoolgate_home::batch::Outcome;
use spoolgate_replay::replay::{Options, replay};
use spoolgate_wire::code::Code;
use spoolgate_wire::ids::Leg;

const FLOOR: u64 = 4 << 20;
const LIMITS: &str = "storage: {floor_bytes: 4194304}";

/// Returns the code of a refusal.
fn code(outcome: &Outcome) -> Option<Code> {
    outcome.decision.metadata.code
}

/// Returns a desk whose agent `trend-bot` holds a position with a stop and a resting order.
fn desk() -> (Desk, Home, String, String) {
    let desk = Desk::with_limits(LIMITS);
    let mut home = desk.open();
    let buy = order("trend", "buy", "0.02", None, "btc-range-long");
    let bought = desk.one(&mut home, "trend-bot", "buy", "order.submit", &buy);
    assert_eq!(code(&bought), None, "{bought:?}");
    desk.bar(&mut home, "6800", "6800");
    let rest = order("trend", "buy", "0.002", Some("6700"), "btc-dip-long");
    let rest = desk.one(&mut home, "trend-bot", "rest", "order.submit", &rest);
    let resting = rest.decision.order_id.unwrap().to_string();
    let orders = &home.state().book.orders;
    let stop = orders.keys().find(|id| id.leg == Leg::Stop).unwrap();
    let stop = stop.to_string();
    (desk, home, resting, stop)
}

fn answer(desk: &Desk, id: &str) -> Value {
    serde_json::from_slice(&desk.place.disk.get(format!("spool/out/{id}.json")).unwrap()).unwrap()
}

/// Returns the notes of the lines that tell of the room on the disk.
pub(super) fn storage_lines(place: &Place) -> Vec<String> {
    let log = place.disk.get("audit/log-00000001.jsonl").unwrap();
    let lines = lines_of(&log).into_iter();
    lines
        .map(|line| serde_json::from_slice::<Value>(&line).unwrap())
        .filter(|line| line["kind"] == "storage")
        .map(|line| line["note"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn what_makes_things_safer_is_served_and_the_rest_may_come_again() {
    let (desk, mut home, resting, stop) = desk();
    desk.place.disk.leave(Some(FLOOR / 2));
    let tighten = json!({"order_id": stop, "new_stop": "6650"}).to_string();
    let exit = order("trend", "sell", "0.001", None, "btc-range-long");
    let pause = json!({
        "decision_id": "d1", "concern_id": "paper:btc-usd", "account_id": "paper",
            "market_symbol": "btc-usd", "action": "pause", "reason": "why", "confidence": 0.9,
    });
    let served = [
        (
            "trend-bot",
            "order.cancel",
            json!({"order_id": resting}).to_string(),
        ),
        ("trend-bot", "order.tighten_stop", tighten),
        ("trend-bot", "order.submit", exit),
        (
            "trend-bot",
            "market.get",
            r#"{"symbol":"BTC-USD"}"#.to_owned(),
        ),
        ("trend-bot", "heartbeat", "{}".to_owned()),
        ("hermes", "control.apply", pause.to_string()),
        ("trend-bot", "halt.set", r#"{"reason":"drill"}"#.to_owned()),
    ];
    for (n, (who, action, payload)) in served.iter().enumerate() {
        let outcome = desk.one(&mut home, who, &format!("s{n}"), action, payload);
        assert_eq!(code(&outcome), None, "{action}: {outcome:?}");
    }
    let mut resume = pause;
    (resume["action"], resume["decision_id"]) = (json!("resume"), json!("d2"));
    let entry = order("trend", "buy", "0.002", Some("6700"), "btc-dip-long");
    for (who, id, action, payload) in [
        ("hermes", "resume", "control.apply", resume.to_string()),
        ("trend-bot", "entry", "order.submit", entry),
    ] {
        let outcome = desk.one(&mut home, who, id, action, &payload);
        assert_eq!(
            code(&outcome),
            Some(Code::StorageLow),
            "{action}: {outcome:?}"
        );
        assert!(outcome.decision.changes.is_empty() && outcome.decision.rate.is_none());
        let answer = answer(&desk, id);
        assert_eq!(answer["status"], "rate_limited");
        assert_eq!(answer["data"], json!({"retryAfterMs": 10_000}));
    }
    let clear = r#"{"scope":"all","reason":"back"}"#;
    let outcome = desk.one_as_owner(&mut home, "clear", "halt.clear", clear);
    assert_eq!(code(&outcome), Some(Code::StorageLow), "also of a person");
    let lines = storage_lines(&desk.place);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0].contains(" bytes are free on the disk of the ledger"),
        "{lines:?}"
    );
    // There is room again only a quarter above the floor.
    desk.place.disk.leave(Some(FLOOR + FLOOR / 4 - 1));
    let outcome = desk.one_as_owner(&mut home, "clear", "halt.clear", clear);
    assert_eq!(code(&outcome), Some(Code::StorageLow));
    desk.place.disk.leave(Some(FLOOR + FLOOR / 4 + 100_000));
    let outcome = desk.one_as_owner(&mut home, "clear", "halt.clear", clear);
    assert_eq!(code(&outcome), None, "the same id: it was not used up");
    assert_eq!(storage_lines(&desk.place).len(), 2);
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
