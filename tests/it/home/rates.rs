//! Rates of messages in a home: whose requests are limited and whose are not, what happens to the
//! id of a limited request, and what is still known after a restart, a rebuild and a kill.

use std::fs;
use std::process::Stdio;

use crate::kit::desk::{Desk, failed, order};
use crate::kit::place::drain;
use crate::kit::{Scratch, command, succeed};
use serde_json::{Value, json};
use spoolgate_gate::Decision;
use spoolgate_gate::rates::Bucket;
use spoolgate_gate::record::Status;
use spoolgate_home::Home;
use spoolgate_home::batch::Outcome;
use spoolgate_wire::code::Code;
use spoolgate_wire::ids::Leg;

const LIMITS: &str =
    "max_messages_per_minute: 5\nmax_messages_per_minute_all: 8\nmax_protected_per_minute: 2";

fn code(outcome: &Outcome) -> Option<Code> {
    outcome.decision.metadata.code
}

fn query(desk: &Desk, home: &mut Home, who: &str, id: &str) -> Outcome {
    desk.one(home, who, id, "market.get", r#"{"symbol":"BTC-USD"}"#)
}

/// Sends this number of queries in one batch and returns how many are answered.
fn answered(desk: &Desk, home: &mut Home, who: &str, stem: &str, count: usize) -> usize {
    (0..count).for_each(|n| {
        desk.ask(
            who,
            &format!("{stem}-{n:03}"),
            "market.get",
            r#"{"symbol":"BTC-USD"}"#,
        )
    });
    let outcomes = drain(home).unwrap();
    assert_eq!(outcomes.len(), count);
    for outcome in &outcomes {
        let is_answered = outcome.decision.status == Status::Success;
        assert_eq!(code(outcome), (!is_answered).then_some(Code::RateLimited));
        assert_eq!(
            outcome.decision.rate,
            is_answered.then_some(Bucket::Ordinary)
        );
    }
    outcomes
        .iter()
        .filter(|outcome| code(outcome).is_none())
        .count()
}

fn answer_in_spool(desk: &Desk, id: &str) -> Value {
    serde_json::from_slice(&desk.place.disk.get(format!("spool/out/{id}.json")).unwrap()).unwrap()
}

#[test]
fn a_limited_request_uses_up_no_id_and_is_decided_afresh_later() {
    let desk = Desk::with_limits(LIMITS);
    let mut home = desk.open();
    assert_eq!(answered(&desk, &mut home, "research-bot", "a", 5), 5);
    desk.ask(
        "research-bot",
        "late",
        "market.get",
        r#"{"symbol":"BTC-USD"}"#,
    );
    let file = desk.place.disk.get("spool/in/late.json").unwrap();
    let send = |home: &mut Home| {
        desk.place.disk.put("spool/in/late.json", &file);
        drain(home).unwrap().pop().unwrap()
    };
    for _ in 0..3 {
        let refused = send(&mut home);
        assert_eq!(
            (code(&refused), refused.decision.metadata.replay_of),
            (Some(Code::RateLimited), None)
        );
        let answer = answer_in_spool(&desk, "late");
        assert_eq!(
            (&answer["status"], &answer["error"]["code"]),
            (&json!("rate_limited"), &json!("RATE_LIMITED"))
        );
        assert_eq!(
            answer["data"],
            json!({"retryAfterMs": 61_000, "retry": "after", "retry_after_ms": 61_000})
        );
    }
    // After a restart or a rebuild the request is still limited, and its id is still unused.
    drop(home);
    let (again, same) = Home::rebuild(desk.place.root.path(), desk.place.seams()).unwrap();
    assert!(same);
    drop(again);
    desk.place.forget_state();
    let mut home = desk.open();
    assert_eq!(code(&send(&mut home)), Some(Code::RateLimited));
    desk.place.pass_s(60);
    assert_eq!(
        code(&send(&mut home)),
        Some(Code::RateLimited),
        "the minute's last second"
    );
    assert_eq!(answer_in_spool(&desk, "late")["data"]["retryAfterMs"], 1000);
    desk.place.pass_s(1);
    let done = send(&mut home);
    assert_eq!(
        (code(&done), done.decision.metadata.replay_of),
        (None, None)
    );
    let answer = desk.place.disk.get("spool/out/late.json").unwrap();
    assert_eq!(answer_in_spool(&desk, "late")["status"], "success");
    let again = send(&mut home);
    assert_eq!(again.decision.metadata.replay_of, Some(done.seq));
    assert_eq!(desk.place.disk.get("spool/out/late.json").unwrap(), answer);
    // After a crash the newest answer is there, not the refusals before it.
    desk.place.disk.put("spool/out/late.json", b"torn");
    drop(home);
    drop(desk.open());
    assert_eq!(desk.place.disk.get("spool/out/late.json").unwrap(), answer);
}

#[test]
fn an_agent_in_a_loop_uses_only_its_own_limit() {
    let desk = Desk::with_limits(LIMITS);
    let mut home = desk.open();
    // Eight for all agents: five for the agent in the loop, and three for all others.
    assert_eq!(answered(&desk, &mut home, "research-bot", "loop", 100), 5);
    assert_eq!(answered(&desk, &mut home, "hermes", "other", 5), 3);
    assert_eq!(answered(&desk, &mut home, "trend-bot", "third", 1), 0);
    // Persons and feeds are not limited.
    for n in 0..20 {
        let outcome = desk.one_as_owner(&mut home, &format!("p-{n}"), "portfolio.get", "{}");
        assert_eq!((code(&outcome), outcome.decision.rate), (None, None));
        assert_eq!(
            code(&query(&desk, &mut home, "prices", &format!("f-{n}"))),
            None
        );
    }
    desk.place.pass_s(61);
    assert_eq!(answered(&desk, &mut home, "trend-bot", "fourth", 7), 5);
}

#[test]
fn copies_use_up_nothing_of_a_limit() {
    let desk = Desk::with_limits(LIMITS);
    let mut home = desk.open();
    query(&desk, &mut home, "trend-bot", "first");
    desk.ask(
        "trend-bot",
        "second",
        "market.get",
        r#"{"symbol":"BTC-USD"}"#,
    );
    let copy = desk.place.disk.get("spool/in/second.json").unwrap();
    drain(&mut home).unwrap();
    for n in 0..50 {
        desk.place
            .disk
            .put(format!("spool/in/copy-{n}.json"), &copy);
    }
    let outcomes = drain(&mut home).unwrap();
    assert!(
        outcomes
            .iter()
            .all(|outcome| outcome.decision.metadata.replay_of.is_some())
    );
    assert!(
        outcomes
            .iter()
            .all(|outcome| outcome.decision.rate.is_none())
    );
    assert_eq!(answered(&desk, &mut home, "trend-bot", "rest", 10), 3);
    // Beyond the limit, a request that was answered still gets its stored answer.
    desk.place.disk.put("spool/in/copy-last.json", &copy);
    let again = drain(&mut home).unwrap().pop().unwrap();
    assert_eq!(
        (code(&again), again.decision.metadata.replay_of.is_some()),
        (None, true)
    );
}

#[test]
fn requests_that_make_things_safer_are_never_limited() {
    let desk = Desk::with_limits(LIMITS);
    let mut home = desk.open();
    let entry =
        |size: &str, price: Option<&str>, thesis: &str| order("trend", "buy", size, price, thesis);
    let bought = desk.one(
        &mut home,
        "trend-bot",
        "buy",
        "order.submit",
        &entry("0.02", None, "btc-range-long"),
    );
    assert_eq!(failed(&bought), [""; 0]);
    desk.bar(&mut home, "6800", "6800");
    let rest = entry("0.002", Some("6700"), "btc-dip-long");
    let resting = desk
        .one(&mut home, "trend-bot", "rest", "order.submit", &rest)
        .decision
        .order_id
        .unwrap();
    // Both agents are at their limits now.
    assert_eq!(answered(&desk, &mut home, "trend-bot", "t", 20), 3);
    assert_eq!(answered(&desk, &mut home, "hermes", "h", 20), 3);
    let stop = home
        .state()
        .book
        .orders
        .keys()
        .find(|id| id.leg == Leg::Stop)
        .copied()
        .unwrap();
    let mut told = Vec::new();
    let exit = order("trend", "sell", "0.001", None, "btc-range-long");
    let mut safer: Vec<(String, &str, String)> = (0..8)
        .map(|n| (format!("exit-{n}"), "order.submit", exit.clone()))
        .collect();
    let cancel = json!({"order_id": resting}).to_string();
    safer.insert(1, ("cancel".to_owned(), "order.cancel", cancel));
    let tighten = json!({"order_id": stop, "new_stop": "6650"}).to_string();
    safer.insert(2, ("tighten".to_owned(), "order.tighten_stop", tighten));
    for (id, action, payload) in &safer {
        let outcome = desk.one(&mut home, "trend-bot", id, action, payload);
        assert_eq!(
            (code(&outcome), outcome.decision.rate),
            (None, Some(Bucket::Protected)),
            "{id}: {outcome:?}"
        );
        let row = outcome
            .decision
            .checks
            .iter()
            .find(|row| row.name == "message_rate")
            .unwrap();
        assert!(row.passed);
        told.push(row.reason.is_some());
    }
    assert_eq!(
        told,
        [[false; 2].as_slice(), [true; 8].as_slice()].concat(),
        "from the third on they are told"
    );
    let decision = json!({
        "decision_id": "d1", "concern_id": "paper:btc-usd", "account_id": "paper",
            "market_symbol": "btc-usd",
        "action": "pause", "reason": "why", "confidence": 0.9,
    });
    let others = [
        ("hermes", "control.apply", decision.to_string()),
        ("trend-bot", "heartbeat", "{}".to_owned()),
        ("trend-bot", "halt.set", r#"{"reason":"drill"}"#.to_owned()),
    ];
    for (who, action, payload) in &others {
        let outcome = desk.one(&mut home, who, &format!("{who}-{action}"), action, payload);
        assert_eq!(
            (code(&outcome), outcome.decision.rate),
            (None, None),
            "{action}: {outcome:?}"
        );
    }
    let mut resume = decision;
    (resume["action"], resume["decision_id"]) = (json!("resume"), json!("d2"));
    let outcome = desk.one(
        &mut home,
        "hermes",
        "resume",
        "control.apply",
        &resume.to_string(),
    );
    assert_eq!(
        code(&outcome),
        Some(Code::RateLimited),
        "what makes riskier waits as everything else"
    );
    // All of that has used up nothing of the other count.
    desk.place.pass_s(61);
    assert_eq!(answered(&desk, &mut home, "trend-bot", "u", 20), 5);
}

#[test]
fn an_entry_beyond_the_limit_is_decided_afresh_under_its_id() {
    let desk = Desk::with_limits(LIMITS);
    let mut home = desk.open();
    assert_eq!(answered(&desk, &mut home, "trend-bot", "a", 4), 4);
    let buy = |size: &str, thesis: &str| order("trend", "buy", size, Some("6700"), thesis);
    let fifth = desk.one(
        &mut home,
        "trend-bot",
        "fifth",
        "order.submit",
        &buy("0.002", "btc-range-long"),
    );
    assert_eq!((code(&fifth), failed(&fifth)), (None, vec![]));
    desk.ask(
        "trend-bot",
        "sixth",
        "order.submit",
        &buy("0.003", "btc-dip-long"),
    );
    let file = desk.place.disk.get("spool/in/sixth.json").unwrap();
    let sixth = drain(&mut home).unwrap().pop().unwrap();
    assert_eq!(
        (code(&sixth), failed(&sixth)),
        (Some(Code::RateLimited), vec!["message_rate".to_owned()])
    );
    assert!(sixth.decision.changes.is_empty() && sixth.decision.rate.is_none());
    let answer = answer_in_spool(&desk, "sixth");
    assert_eq!(answer["status"], "rate_limited");
    assert_eq!(
        answer["data"]["Rejected"]["checks_failed"][0]["check_name"],
        "message_rate"
    );
    desk.place.pass_s(61);
    desk.place.disk.put("spool/in/sixth.json", &file);
    let sixth = drain(&mut home).unwrap().pop().unwrap();
    assert_eq!((code(&sixth), failed(&sixth)), (None, vec![]));
}

#[test]
fn a_request_limited_again_and_again_fills_no_disk() {
    let desk = Desk::with_limits(LIMITS);
    let mut home = desk.open();
    assert_eq!(answered(&desk, &mut home, "research-bot", "a", 5), 5);
    let blobs = desk.place.disk.files_below("audit/blobs").len();
    for n in 0..5 {
        let request = json!({
            "request_id": format!("case-{n}"), "timestamp": "2026-03-02T12:00:00Z",
                "proposer": "research-bot",
            "change_type": "CODE_REFACTOR", "context": {"summary": "why"},
            "artifacts": {"diff_content": "+ a line\n".repeat(2000 + n)},
        });
        let outcome = desk.one(
            &mut home,
            "research-bot",
            &format!("c-{n}"),
            "council.request",
            &request.to_string(),
        );
        let Decision {
            metadata,
            payload,
            payload_blob,
            payload_hash,
            sealed,
            ..
        } = &outcome.decision;
        assert_eq!(
            metadata.code,
            Some(Code::RateLimited),
            "{:?}",
            metadata.message
        );
        // Its line contains no unsalted hash either.
        assert!(
            payload.is_none()
                && payload_blob.is_none()
                && payload_hash.is_none()
                && sealed.is_empty()
        );
    }
    assert_eq!(desk.place.disk.files_below("audit/blobs").len(), blobs);
}

/// After a kill, the next gate counts what the previous one has answered.
#[test]
fn a_kill_does_not_reset_the_message_rates() {
    let scratch = Scratch::new();
    let home = scratch.home();
    let safety = home.join("rules/safety.yaml");
    let text = fs::read_to_string(&safety).unwrap();
    let text = text.replace(
        "max_messages_per_minute: 600 ",
        "max_messages_per_minute: 3 ",
    );
    assert!(text.contains("max_messages_per_minute: 3 "));
    fs::write(&safety, text).unwrap();
    let begun = std::time::Instant::now();
    let mut watcher = command(&home, &["watch"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    (0..3).for_each(|n| scratch.query(&format!("q-{n}")).drop_into(&home));
    let there = |id: &str| home.join(format!("spool/out/{id}.json")).exists();
    while !(0..3).all(|n| there(&format!("q-{n}"))) {
        assert!(begun.elapsed().as_secs() < 30, "no answers");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    watcher.kill().unwrap();
    watcher.wait().unwrap();
    scratch.query("q-3").drop_into(&home);
    succeed(&home, &["run", "--until-idle"]);
    let answer = fs::read_to_string(home.join("spool/out/q-3.json")).unwrap();
    assert!(begun.elapsed().as_secs() < 55, "too slow to say anything");
    assert!(answer.contains("RATE_LIMITED"), "{answer}");
    let file = scratch.beside("q-4.json");
    fs::write(&file, scratch.query("q-4").bytes).unwrap();
    let done = crate::kit::spoolgate(&home, &["handle", file.to_str().unwrap()]);
    assert_eq!(done.status.code(), Some(4), "{}", crate::kit::show(&done));
}
