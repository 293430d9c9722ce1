//! `rules/retention.yaml`: the files of answers to outgoing actions go when the ledger says that
//! they are old, and nothing brings them back.

use crate::kit::gateway_home::{ECHO, GatewayHome, code, settle};
use serde_json::{Value, json};
use spoolgate_host::clock::Clock;

const KEPT_MS: i64 = 60_000;

fn home_that_forgets() -> GatewayHome {
    let home = GatewayHome::new(ECHO);
    home.edit("rules/retention.yaml", |_| {
        "outgoing_answers_s: 60\n".to_owned()
    });
    home
}

fn pass_ms(home: &GatewayHome, ms: i64) {
    home.place.clock.set(home.place.clock.now().plus_ms(ms));
}

#[test]
fn answers_go_when_their_lines_are_old_and_a_start_does_not_bring_them_back() {
    let home = home_that_forgets();
    let mut gate = home.open();
    home.one(&mut gate, "r1", "email.fetch", "{}");
    home.one(&mut gate, "refused", "email.send", "{}");
    let decision = "spool/out/case.decision.json";
    home.place.disk.put(decision, b"{}");
    for (ms, is_there) in [(KEPT_MS - 1, true), (1, true), (1, false)] {
        pass_ms(&home, ms);
        gate.round(false).unwrap();
        for id in ["r1", "refused"] {
            assert_eq!(home.answer(id).is_some(), is_there, "{id} {ms}");
        }
    }
    assert!(home.place.disk.get(decision).is_some());
    assert!(home.answer("key-core").is_some(), "no outgoing action");
    home.one(&mut gate, "r2", "email.fetch", "{}");
    assert!(home.answer("r2").is_some());
    // The gate is killed before its answers are known to be durable.
    drop(gate);
    let mut gate = home.open();
    assert!(home.answer("r1").is_none() && home.answer("r2").is_some());
    settle(&mut gate);
    assert!(home.answer("r1").is_none() && home.answer("r2").is_some());
    // Whoever sends the same request again gets its answer from the ledger, for as long again.
    drop(gate);
    let log = home.log();
    let mut gate = home.open();
    pass_ms(&home, KEPT_MS + 1);
    gate.round(false).unwrap();
    assert!(home.answer("r2").is_none());
    assert!(home.log().starts_with(&log), "no line changes");
}

#[test]
fn one_round_removes_a_bounded_number_and_the_next_goes_on() {
    let home = home_that_forgets();
    home.edit("rules/gateway.yaml", |text| {
        let mut rules: Value = serde_json::from_str(text).unwrap();
        rules["anomalies"] = json!({"burst_max": 1000});
        rules["rates"] = json!({"per_hour": {"email.fetch": 1000}, "all_per_hour": 1000});
        rules.to_string()
    });
    let mut gate = home.open();
    for n in 0..70 {
        home.ask(&format!("r{n}"), "email.fetch", "{}");
    }
    settle(&mut gate);
    let left = || {
        (0..70)
            .filter(|n| home.answer(&format!("r{n}")).is_some())
            .count()
    };
    assert_eq!(left(), 70);
    pass_ms(&home, KEPT_MS + 1);
    gate.round(false).unwrap();
    let after_one = left();
    assert_eq!(after_one, 70 - 64);
    for _ in 0..3 {
        gate.round(false).unwrap();
    }
    assert_eq!(left(), 0);
}

#[test]
fn the_answer_to_a_held_request_stays_until_it_is_decided() {
    let home = home_that_forgets();
    let mut gate = home.open();
    for n in 0..30 {
        home.ask(&format!("r{n}"), "email.fetch", "{}");
    }
    settle(&mut gate);
    pass_ms(&home, KEPT_MS + 1);
    for _ in 0..3 {
        gate.round(false).unwrap();
    }
    let left: Vec<_> = (0..30)
        .filter_map(|n| home.answer(&format!("r{n}")))
        .collect();
    assert!(!left.is_empty() && left.len() < 30);
    assert!(left.iter().all(|answer| code(answer) == "HELD"));
}

#[test]
fn without_the_file_all_answers_stay() {
    let home = GatewayHome::new(ECHO);
    let mut gate = home.open();
    home.one(&mut gate, "r1", "email.fetch", "{}");
    pass_ms(&home, 400 * 24 * 3_600_000);
    for _ in 0..3 {
        gate.round(false).unwrap();
    }
    assert!(home.answer("r1").is_some());
}
