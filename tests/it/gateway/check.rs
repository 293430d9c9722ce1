//! `request.check`: a client that may not read the home learns what the answer to the request would
//! be, and nothing is done.

use std::path::Path;
use std::sync::Arc;

use crate::kit::desk::{Desk, order};
use crate::kit::gateway_home::{GatewayHome, NOTED, SERVICES, code, exec, gateway, settle};
use crate::kit::memory_disk::MemoryDisk;
use serde_json::{Value, json};
use spoolgate_gate::actions::request_check;
use spoolgate_home::Home;
use spoolgate_replay::replay::{Class, Options, replay};
use spoolgate_rules::gateway::ACTIONS;
use spoolgate_wire::answer::{Answer, AnswerStatus};

fn data(answer: &Answer) -> Value {
    serde_json::from_str(answer.data.as_ref().map_or("null", |data| data.get())).unwrap()
}

/// Returns the payload of `request.check` for an action and its payload.
fn question(action: &str, payload: &str) -> String {
    format!(r#"{{"action":"{action}","payload":{payload}}}"#)
}

/// Removes from an answer what belongs to the line: the order's name, and the values that rate or
/// freshness rows have measured.
fn stripped(mut answer: Value) -> Value {
    for body in ["Accepted", "Rejected"] {
        let Some(body) = answer.get_mut(body).and_then(Value::as_object_mut) else {
            continue;
        };
        body.remove("order_id");
        for rows in ["checks_passed", "checks_failed"] {
            if let Some(rows) = body.get_mut(rows).and_then(Value::as_array_mut) {
                // One more message has arrived by then.
                rows.retain(|row| row["check_name"] != "message_rate");
            }
        }
    }
    // A check has no file of its own, so its faults have no positions.
    let faults = answer.get_mut("faults").and_then(Value::as_array_mut);
    for fault in faults.into_iter().flatten() {
        fault.as_object_mut().unwrap().remove("at");
    }
    answer
}

/// Checks that the state rebuilt from the ledger equals the one that the home had.
fn check_rebuilt(desk: &Desk, home: Home) {
    drop(home);
    let (_, same) = Home::rebuild(desk.place.root.path(), desk.place.seams()).unwrap();
    assert!(same);
}

#[test]
fn a_check_predicts_the_answer_and_leaves_the_book_alone() {
    let desk = Desk::with_limits("");
    let mut home = desk.open();
    let limit = |size| order("trend", "buy", size, Some("6790"), "btc-range-long");
    let cases = [
        ("order.submit", limit("0.01")),
        ("order.submit", limit("50")),
        ("order.submit", limit("0")),
        ("order.submit", limit("0.0000000001")),
        (
            "order.submit",
            order("range", "buy", "0.01", Some("6790"), "no-such-thesis"),
        ),
        ("order.submit", "{}".to_owned()),
        (
            "order.submit",
            r#"{"strategy":"trend","override":true}"#.to_owned(),
        ),
        ("order.cancel", r#"{"order_id":"o-999"}"#.to_owned()),
        (
            "order.tighten_stop",
            r#"{"order_id":"o-999","new_stop":"6700"}"#.to_owned(),
        ),
    ];
    let mut statuses = Vec::new();
    for (n, (action, payload)) in cases.iter().enumerate() {
        let before = serde_json::to_string(&home.state().book).unwrap();
        let asked = desk.one(
            &mut home,
            "trend-bot",
            &format!("c{n}"),
            "request.check",
            &question(action, payload),
        );
        assert_eq!(
            serde_json::to_string(&home.state().book).unwrap(),
            before,
            "{payload}"
        );
        assert!(
            asked.decision.changes.is_empty(),
            "{:?}",
            asked.decision.changes
        );
        assert_eq!(
            asked.answer.status,
            AnswerStatus::Success,
            "{:?}",
            asked.answer.error
        );
        let would_be = data(&asked.answer)["would_be"].clone();
        let sent = desk.one(&mut home, "trend-bot", &format!("r{n}"), action, payload);
        let expect = serde_json::to_value(sent.answer.status).unwrap();
        assert_eq!(would_be["status"], expect, "{payload}");
        assert_eq!(
            stripped(would_be["data"].clone()),
            stripped(data(&sent.answer)),
            "{payload}"
        );
        let error = sent
            .answer
            .error
            .as_ref()
            .map_or(Value::Null, |error| serde_json::to_value(error).unwrap());
        assert_eq!(would_be["error"]["code"], error["code"], "{payload}");
        let message = |error: &Value| {
            let message = error["message"].as_str().unwrap_or_default().to_owned();
            match message
                .split_once("at line ")
                .map(|(what, at)| (what, at.split_once(": ")))
            {
                Some((what, Some((_, rest)))) => format!("{what}{rest}"),
                _ => message,
            }
        };
        assert_eq!(message(&would_be["error"]), message(&error), "{payload}");
        statuses.push((
            would_be["status"].clone(),
            would_be["error"]["code"].clone(),
        ));
    }
    assert_eq!(statuses[0].0, "success");
    assert_eq!(statuses[1].1, "CHECKS_FAILED");
    assert_eq!(statuses[5].1, "MALFORMED_PAYLOAD");
    check_rebuilt(&desk, home);
}

#[test]
fn a_check_looks_up_a_closed_order_as_the_request_does() {
    let desk = Desk::with_limits("");
    let mut home = desk.open();
    let entry = order("trend", "buy", "0.01", Some("6790"), "btc-range-long");
    let placed = desk.one(&mut home, "trend-bot", "r0", "order.submit", &entry);
    let placed = placed.decision.order_id;
    let cancel = json!({"order_id": placed.unwrap()}).to_string();
    let ask = |home: &mut Home, id: &str| {
        data(
            &desk
                .one(
                    home,
                    "trend-bot",
                    id,
                    "request.check",
                    &question("order.cancel", &cancel),
                )
                .answer,
        )
    };
    assert_eq!(ask(&mut home, "open")["would_be"]["status"], "success");
    assert_eq!(
        ask(&mut home, "open-still")["would_be"]["status"],
        "success",
        "the first one cancelled nothing"
    );
    desk.one(&mut home, "trend-bot", "cancel", "order.cancel", &cancel);
    let gone = ask(&mut home, "gone");
    let again = desk.one(&mut home, "trend-bot", "again", "order.cancel", &cancel);
    assert_eq!(
        stripped(gone["would_be"]["data"].clone()),
        stripped(data(&again.answer))
    );
    check_rebuilt(&desk, home);
}

#[test]
fn an_outgoing_action_that_is_asked_about_is_neither_done_nor_held_nor_counted() {
    let rules = "id: strangers\nstatus: active\napplies_to: {action: email.send}\nwhen: [{field: \
        'payload.to[]', op: in, value: [eve@example.org]}]\nthen: hold\nmessage: \"eve\"\n";
    let home = GatewayHome::with(SERVICES, &gateway(&[exec(&ACTIONS, NOTED, 10)]));
    std::fs::create_dir_all(home.path("rules/core")).unwrap();
    std::fs::write(home.path("rules/core/strangers.yaml"), rules).unwrap();
    let mut opened = home.open();
    let mail =
        |to: &str| json!({"to": [to], "subject": "the subject", "body": "SECRET-BODY"}).to_string();
    let ask = |opened: &mut Home, id: &str, action: &str, payload: &str| {
        let answer = home.one(opened, id, "request.check", &question(action, payload));
        assert_eq!(code(&answer), "", "{answer:?}");
        data(&answer)["would_be"].clone()
    };
    let told = ask(&mut opened, "a", "email.send", &mail("ann@example.com"));
    assert_eq!(told, json!({"status": "pending"}));
    let told = ask(&mut opened, "b", "email.send", &mail("eve@example.org"));
    assert_eq!(
        (&told["status"], &told["error"]["code"]),
        (&json!("requires_approval"), &json!("HELD"))
    );
    assert!(opened.state().approvals.iter().next().is_none());
    let call = json!({"service": "nowhere", "endpoint": "/", "method": "GET"}).to_string();
    assert_eq!(
        ask(&mut opened, "c", "service.api_call", &call)["error"]["code"],
        "NOT_ALLOWLISTED"
    );
    let told = ask(
        &mut opened,
        "d",
        "email.send",
        r#"{"to":["ann@example.com"],"subject":"SECRET-BODY","body":7}"#,
    );
    assert_eq!(told["error"]["code"], "MALFORMED_PAYLOAD");
    settle(&mut opened);
    assert!(home.ran().is_empty(), "an adapter ran");
    let log = String::from_utf8(home.log()).unwrap();
    assert!(
        !log.contains("SECRET-BODY") && !log.contains("the subject"),
        "what is sealed stands in the ledger"
    );
    let kinds: Vec<String> = home.lines().into_iter().map(|(_, kind, _)| kind).collect();
    assert!(!kinds.iter().any(|kind| kind == "request"), "{kinds:?}");
    drop(opened);
    let audit = Arc::new(MemoryDisk::with(&home.place.disk.files_below("audit")));
    let options = Options {
        threads: 2,
        answers: None,
    };
    let report = replay(audit, Path::new("audit"), &options, &mut |_| {}).unwrap();
    assert!(report.is_same(), "{report:#?}");
    assert!(
        report.rows.iter().all(|row| row.class != Class::NotAgain),
        "{report:#?}"
    );
}

#[test]
fn actions_with_their_own_dry_run_or_for_persons_cannot_be_checked() {
    let desk = Desk::with_limits("");
    let mut home = desk.open();
    for (n, action) in [
        "control.apply",
        "request.check",
        "halt.clear",
        "approval.grant",
        "keys.add",
        "no.such",
        "",
    ]
    .into_iter()
    .enumerate()
    {
        assert!(!request_check::checked().any(|name| *action == name));
        let sent = desk.one(
            &mut home,
            "trend-bot",
            &format!("n{n}"),
            "request.check",
            &question(action, "{}"),
        );
        assert_eq!(
            sent.answer.error.unwrap().code.to_string(),
            "MALFORMED_PAYLOAD",
            "{action}"
        );
    }
    let extra = r#"{"action":"order.cancel","payload":{"order_id":"o-1"},"dry_run":false}"#;
    let sent = desk.one(&mut home, "trend-bot", "extra", "request.check", extra);
    assert_eq!(
        sent.answer.error.unwrap().code.to_string(),
        "MALFORMED_PAYLOAD"
    );
    check_rebuilt(&desk, home);
}

#[test]
fn a_check_counts_as_a_message() {
    let desk = Desk::with_limits("max_messages_per_minute: 3");
    let mut home = desk.open();
    let ask = question("order.cancel", r#"{"order_id":"o-1"}"#);
    let mut codes = Vec::new();
    for n in 0..4 {
        let sent = desk.one(
            &mut home,
            "trend-bot",
            &format!("m{n}"),
            "request.check",
            &ask,
        );
        codes.push(sent.answer.error.map(|error| error.code.to_string()));
    }
    assert_eq!(codes, [None, None, None, Some("RATE_LIMITED".to_owned())]);
    check_rebuilt(&desk, home);
}
