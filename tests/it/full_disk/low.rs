//! Little room: what only makes things safer is served, the rest is refused and may be sent again.

use std::path::Path;
use std::sync::Arc;

use crate::kit::desk::{Desk, order};
use crate::kit::ledger_files::lines_of;
use crate::kit::place::Place;
use crate::kit::place::drain;
use serde_json::{Value, json};
use spoolgate_home::Home;
use spoolgate_home::batch::Outcome;
use spoolgate_host::spool::publish;
use spoolgate_ledger::disk::{Disk as _, Mode};
use spoolgate_replay::replay::{Options, replay};
use spoolgate_wire::code::Code;
use spoolgate_wire::ids::Leg;

const FLOOR: u64 = 4 << 20;
const LIMITS: &str = "storage: {floor_bytes: 4194304}";

/// Returns the code of a refusal.
pub(super) fn code(outcome: &Outcome) -> Option<Code> {
    outcome.decision.metadata.code
}

/// Returns a desk whose agent `trend-bot` holds a position with a stop and a resting order.
pub(super) fn desk() -> (Desk, Home, String, String) {
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
        assert!(outcome.decision.changes.is_empty());
        let answer = answer(&desk, id);
        assert_eq!(answer["status"], "rate_limited");
        assert_eq!(
            answer["data"],
            json!({"retryAfterMs": 10_000, "retry": "after", "retry_after_ms": 10_000})
        );
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

fn is_waiting(desk: &Desk, id: &str) -> bool {
    desk.place.disk.get(format!("spool/in/{id}.json")).is_some()
}

fn decisions(desk: &Desk) -> usize {
    let log = desk.place.disk.get("audit/log-00000001.jsonl").unwrap();
    let lines = lines_of(&log).into_iter();
    lines
        .map(|line| serde_json::from_slice::<Value>(&line).unwrap())
        .filter(|line| line["kind"] == "decision")
        .count()
}

/// A refusal that needs a blob, which has no room: the request waits, the gate goes on, and what
/// cannot wait is served in the same round.
#[test]
fn a_request_whose_payload_has_no_room_waits_and_ends_no_gate() {
    let (desk, mut home, ..) = desk();
    desk.place.disk.leave(Some(FLOOR / 2));
    drain(&mut home).unwrap();
    // The files stood in the spool when the disk filled up.
    desk.ask("trend-bot", "bad", "email.send", r#"{"b":"x"}"#);
    desk.ask("trend-bot", "halt", "halt.set", r#"{"reason":"drill"}"#);
    desk.place.disk.leave(Some(0));
    let outcomes = drain(&mut home).unwrap();
    let ids: Vec<_> = outcomes
        .iter()
        .map(|it| (it.answer.request_id.as_str(), code(it)))
        .collect();
    assert_eq!(ids, [("halt", None)]);
    assert!(is_waiting(&desk, "bad"));
    // A gate that starts on the full disk leaves it too.
    drop(home);
    let mut home = desk.place.open().unwrap();
    assert!(drain(&mut home).unwrap().is_empty());
    assert!(is_waiting(&desk, "bad"));
    desk.place.disk.leave(None);
    desk.place.pass_s(120);
    home.write_news().unwrap();
    let outcomes = drain(&mut home).unwrap();
    assert_eq!(outcomes.len(), 1, "{outcomes:?}");
    assert_eq!(code(&outcomes[0]), Some(Code::MalformedPayload));
}

#[test]
fn a_halt_that_is_in_force_takes_no_room_from_others() {
    for free in [FLOOR / 2, 0] {
        let (desk, mut home, ..) = desk();
        let before = decisions(&desk);
        for n in 0..5 {
            let halt = r#"{"reason":"again"}"#;
            desk.ask("trend-bot", &format!("own-{n}"), "halt.set", halt);
            // Another scope is another halt, and a person is always heard.
            desk.ask("research-bot", &format!("other-{n}"), "halt.set", halt);
        }
        desk.place
            .ask_as_owner("all", "halt.set", r#"{"reason":"all"}"#);
        desk.place.disk.leave(Some(free));
        home.write_news().unwrap();
        drain(&mut home).unwrap();
        assert_eq!(
            decisions(&desk),
            before + 3,
            "{free} free: the first of each"
        );
        assert_eq!(home.state().halts.principals.len(), 2);
        assert!(home.state().halts.all.is_some());
    }
}

/// With little room or none, an agent gets a line for what changes something, and for nothing else,
/// however often it asks.
#[test]
fn what_changes_nothing_takes_no_room_from_others() {
    for free in [FLOOR / 2, 0] {
        let (desk, mut home, resting, stop) = desk();
        let before = decisions(&desk);
        let tighten = |price: &str| json!({"order_id": stop, "new_stop": price}).to_string();
        let asks = [
            (
                "halt-other",
                "halt.set",
                json!({"principal": "research-bot", "reason": "drill"}).to_string(),
            ),
            (
                "halt-nobody",
                "halt.set",
                json!({"principal": "nobody", "reason": "drill"}).to_string(),
            ),
            ("tighten", "order.tighten_stop", tighten("6650")),
            ("loosen", "order.tighten_stop", tighten("6000")),
            (
                "cancel-stop",
                "order.cancel",
                json!({"order_id": stop}).to_string(),
            ),
            (
                "cancel",
                "order.cancel",
                json!({"order_id": resting}).to_string(),
            ),
        ];
        for n in 0..5 {
            for (id, action, payload) in &asks {
                desk.ask("trend-bot", &format!("{id}-{n}"), action, payload);
            }
            // What belongs to somebody else.
            let (_, action, cancel) = &asks[5];
            desk.ask("research-bot", &format!("other-{n}"), action, cancel);
        }
        desk.place.disk.leave(Some(free));
        home.write_news().unwrap();
        let outcomes = drain(&mut home).unwrap();
        let told: Vec<_> = outcomes
            .iter()
            .map(|it| (it.answer.request_id.as_str(), code(it)))
            .collect();
        assert_eq!(
            told,
            [("cancel-0", None), ("tighten-0", None)],
            "{free} free: the first of each that changes something"
        );
        assert_eq!(decisions(&desk), before + 2, "{free} free");
        // Nothing was lost: with room again, each gets its answer.
        desk.place.disk.leave(None);
        desk.place.pass_s(120);
        home.write_news().unwrap();
        assert_eq!(drain(&mut home).unwrap().len(), 33, "{free} free");
    }
}

#[test]
fn refusals_with_little_room_are_bounded() {
    let desk = Desk::with_limits(&format!("{LIMITS}\nmax_messages_per_minute: 4"));
    let mut home = desk.open();
    desk.place.pass_s(120);
    home.write_news().unwrap();
    desk.place.disk.leave(Some(FLOOR / 2));
    home.write_news().unwrap();
    let before = decisions(&desk);
    let entry = order("trend", "buy", "0.002", Some("6700"), "btc-dip-long");
    for n in 0..10 {
        desk.ask("trend-bot", &format!("entry-{n}"), "order.submit", &entry);
        desk.place
            .disk
            .put(format!("spool/in/junk-{n}.json"), b"{\"no\": \"request\"}");
    }
    let outcomes = drain(&mut home).unwrap();
    let low = outcomes
        .iter()
        .filter(|it| code(it) == Some(Code::StorageLow));
    assert_eq!((low.count(), outcomes.len()), (4, 4));
    assert_eq!(decisions(&desk), before + 4);
    // Nothing keeps the agent from what makes things safer.
    let halt = desk.one(
        &mut home,
        "trend-bot",
        "halt",
        "halt.set",
        r#"{"reason":"drill"}"#,
    );
    assert_eq!(code(&halt), None);
    desk.place.disk.leave(None);
    desk.place.pass_s(120);
    home.write_news().unwrap();
    assert_eq!(
        drain(&mut home).unwrap().len(),
        16,
        "the rest, once there is room"
    );
}

/// A flood of answers leaves half of the kept files to instructions for venues.
#[test]
fn answers_leave_room_for_instructions() {
    let desk = Desk::with_limits(LIMITS);
    let disk = desk.place.disk.as_ref();
    publish::fill_reserve(disk);
    desk.place.disk.leave(Some(0));
    let put = |path: String| {
        let put = publish::publish(disk, Path::new(&path), b"{}\n", Mode::Shared).unwrap();
        matches!(put, publish::Published::Done)
    };
    let answered = (0..200)
        .filter(|n| put(format!("spool/out/a{n}.json")))
        .count();
    assert_eq!(answered, 128);
    disk.create_dir(Path::new("spool/outbox/exchange"), Mode::Shared)
        .unwrap();
    let told = (0..200).filter(|n| put(format!("spool/outbox/exchange/o-{n}.1.json")));
    assert_eq!(told.count(), 128);
}
