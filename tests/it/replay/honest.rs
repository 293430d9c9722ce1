//! Ledgers of gates that nobody tampered with replay the same, whatever was sent and whatever people
//! did: with every answer.

use std::fs;
use std::path::Path;

use serde_json::json;

use spoolgate_rules::gateway::ACTIONS;

use crate::kit::gateway_home::let_trend_bot_act;
use crate::kit::{Scratch, contents, show, spoolgate, succeed};

const CAUSALITY: &str = r#"{"root_task_id":"task","parent_task_id":null,"capability_id":"plan"}"#;

/// Signs a request of the agent with the program and puts it into the spool.
fn sent(scratch: &Scratch, id: &str, action: &str, payload: &str, more: &[&str]) {
    let file = scratch.beside("payload.json");
    fs::write(&file, payload).unwrap();
    let key = scratch.beside("bot.key");
    let sign = [
        "sign",
        file.to_str().unwrap(),
        "--as",
        "trend-bot",
        "--action",
        action,
        "--key",
        key.to_str().unwrap(),
        "--id",
        id,
    ];
    let signed = succeed(&scratch.home(), &[&sign[..], more].concat());
    fs::write(scratch.home().join(format!("spool/in/{id}.json")), signed).unwrap();
}

#[track_caller]
fn replays(home: &Path) {
    let out = home.join("spool/out");
    let done = spoolgate(
        home,
        &["audit", "replay", "--answers", out.to_str().unwrap()],
    );
    assert!(done.status.success(), "{}", show(&done));
}

/// A line of a request that was refused before admission does not hold its causality.
#[test]
fn requests_with_causality() {
    let scratch = Scratch::new();
    let home = scratch.home();
    let file = scratch.beside("causality.json");
    let mail = r#"{"to":["ann@example.com"],"subject":"s","body":"a word"}"#;
    let entry = json!({
        "strategy": "trend", "symbol": "BTC-USD", "side": "buy", "size": 0.01,
        "order_type": "limit", "price": 6750, "stop_price": 6600, "thesis_slug": "none",
        "planned_entry": 6750, "planned_stop": 6600,
    })
    .to_string();
    let old = &["--timestamp", "2026-01-01T00:00:00Z"][..];
    let cases: &[(&str, &str, &[&str])] = &[
        ("email.send", mail, &[]),
        ("email.send", mail, old),
        (
            "email.send",
            r#"{"to":["ann@example.com"],"subject":"s","body":5}"#,
            &[],
        ),
        (
            "council.request",
            r#"{"artifacts":{"diff_content":7}}"#,
            &[],
        ),
        (
            "request.check",
            r#"{"action":"order.cancel","payload":5}"#,
            &[],
        ),
        ("portfolio.get", "{}", &[]),
        ("portfolio.get", "{}", old),
        ("order.submit", &entry, &[]),
        ("admission.evaluate", r#"{"envelope":{}}"#, &[]),
    ];
    let mut number = 0;
    for causality in [CAUSALITY, r#"{"x":1}"#, "{}", r#"{"root_task_id":"task"}"#] {
        fs::write(&file, causality).unwrap();
        for (action, payload, more) in cases {
            number += 1;
            let with = [&["--causality", file.to_str().unwrap()][..], more].concat();
            sent(&scratch, &format!("r-{number}"), action, payload, &with);
        }
    }
    succeed(&home, &["run", "--until-idle"]);
    replays(&home);
    let_trend_bot_act(&home);
    sent(
        &scratch,
        "permitted",
        "email.send",
        mail,
        &["--causality", file.to_str().unwrap()],
    );
    succeed(&home, &["run", "--until-idle"]);
    replays(&home);
}

/// The refusal of a repeated request whose answer was pruned stays right when the segment is back.
#[test]
fn segments_that_were_pruned_and_brought_back() {
    let scratch = Scratch::new();
    let home = scratch.home();
    let mail = r#"{"to":["ann@example.com"],"subject":"s","body":"a word"}"#;
    let all = [("q1", "portfolio.get", "{}"), ("m1", "email.send", mail)];
    let send = |more: &[&str]| {
        all.iter()
            .for_each(|(id, action, payload)| sent(&scratch, id, action, payload, more));
        succeed(&home, &["run", "--until-idle"]);
    };
    let time = spoolgate_wire::time::Time::from_ms(
        std::time::SystemTime::UNIX_EPOCH
            .elapsed()
            .unwrap()
            .as_millis() as i64,
    )
    .unwrap()
    .to_string();
    let at = ["--timestamp", time.as_str()];
    send(&at);
    let copy = scratch.beside("copy");
    fs::create_dir(&copy).unwrap();
    succeed(&home, &["audit", "rotate", "--reason", "r"]);
    succeed(&home, &["audit", "archive"]);
    let archive = "log-00000001.jsonl.zst";
    fs::copy(home.join("audit").join(archive), copy.join(archive)).unwrap();
    let prune = [
        "audit",
        "prune",
        "--before",
        "2",
        "--copied-to",
        copy.to_str().unwrap(),
        "--yes",
    ];
    succeed(&home, &prune);
    send(&at);
    let answers = contents(&home.join("spool/out"));
    let is_pruned = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).contains("PRUNED");
    assert_eq!(
        answers.values().filter(|bytes| is_pruned(bytes)).count(),
        all.len()
    );
    fs::copy(copy.join(archive), home.join("audit").join(archive)).unwrap();
    let done = spoolgate(&home, &["audit", "replay"]);
    assert!(done.status.success(), "{}", show(&done));
    send(&at);
    replays(&home);
}

/// A hold that is granted after its key was revoked ends as a refusal, and replay finds the same.
#[test]
fn holds_granted_after_their_key_was_revoked() {
    let scratch = Scratch::new();
    let home = scratch.home();
    let_trend_bot_act(&home);
    let rules = json!({
        "adapters": [{"actions": ACTIONS, "adapter": "stub"}],
        "anomalies": {"burst_max": 1000, "burst_window_s": 5, "payload_bytes_max": 1000},
    });
    fs::write(home.join("rules/gateway.yaml"), rules.to_string()).unwrap();
    let mail =
        json!({"to": ["ann@example.com"], "subject": "s", "body": "x".repeat(2000)}).to_string();
    let draft =
        json!({"to": ["ann@example.com"], "subject": "s", "body": "y".repeat(2000)}).to_string();
    let mut holds = Vec::new();
    for (id, action, payload) in [("m1", "email.send", mail), ("d1", "email.draft", draft)] {
        sent(&scratch, id, action, &payload, &[]);
        succeed(&home, &["run", "--until-idle"]);
        let answer = fs::read(home.join(format!("spool/out/{id}.json"))).unwrap();
        let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap();
        if let Some(hold) = answer["data"]["Held"]["hold_id"].as_str() {
            holds.push(hold.to_owned());
        }
    }
    assert_eq!(holds.len(), 2, "{:?}", contents(&home.join("spool/out")));
    let listed = succeed(&home, &["--format", "json", "keys", "list"]);
    let key = listed
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .find(|key| key["principal"] == "trend-bot")
        .unwrap();
    succeed(
        &home,
        &[
            "keys",
            "revoke",
            key["key_id"].as_str().unwrap(),
            "--reason",
            "lost",
        ],
    );
    for hold in &holds {
        spoolgate(
            &home,
            &["approvals", "grant", hold, "--reason", "looked at it"],
        );
    }
    let answer = fs::read_to_string(home.join("spool/out/m1.json")).unwrap();
    assert!(answer.contains("SIGNATURE_INVALID"), "{answer}");
    replays(&home);
}

/// A number in a request that no line can have is a line that does not exist.
#[test]
fn line_numbers_beyond_the_index() {
    let scratch = Scratch::new();
    let home = scratch.home();
    let most = [i64::MAX as u64, 1 << 63, u64::MAX];
    for (n, number) in most.into_iter().enumerate() {
        let suspend = json!({"Suspend": {"rule_id": "nope", "reason": "r", "evidence": {
            "summary": "s", "sample_size": 1, "ledger_seqs": [number]}}});
        sent(
            &scratch,
            &format!("s-{n}"),
            "rule.propose",
            &suspend.to_string(),
            &[],
        );
    }
    succeed(&home, &["run", "--until-idle"]);
    for number in most {
        for what in ["approve", "decline", "revert"] {
            let id = format!("p-{number}");
            let reason = if what == "approve" {
                &[][..]
            } else {
                &["--reason", "r"]
            };
            let done = spoolgate(&home, &[&["proposals", what, &id], reason].concat());
            let code = done.status.code();
            assert!(
                [Some(1), Some(2)].contains(&code),
                "{what} {number}: {}",
                show(&done)
            );
        }
        let done = spoolgate(
            &home,
            &["approvals", "deny", &format!("h-{number}"), "--reason", "r"],
        );
        assert_ne!(done.status.code(), Some(6), "{}", show(&done));
        let done = spoolgate(&home, &["proposals", "show", &format!("p-{number}")]);
        assert_eq!(done.status.code(), Some(2), "{}", show(&done));
    }
    assert_eq!(fs::read_dir(home.join("spool/work")).unwrap().count(), 0);
    replays(&home);
    succeed(&home, &["rules", "backtest"]);
}
