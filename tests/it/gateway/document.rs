//! The tests that the gateway document lists for rate limiter, anomaly detection, audit trail and
//! validation pipeline: one test per line of it, through the whole gate.

use std::fs;

use crate::kit::gateway_home::{DONE, GOOD, GatewayHome, NOTED, SERVICES, code, exec, settle};
use crate::kit::ledger_files::Files;
use crate::kit::memory_disk::Faults;
use serde_json::{Value, json};
use spoolgate_gate::record::{Decision, Flow, Status};
use spoolgate_home::{Home, HomeError};
use spoolgate_ledger::verify;
use spoolgate_replay::query::{Books, Filter};
use spoolgate_wire::answer::{Answer, AnswerStatus};
use spoolgate_wire::signing::SignKey;

const MAIL: &str = GOOD[1].1;
const CALL: &str = GOOD[8].1;

fn check<'a>(line: &'a Decision, name: &str) -> Option<&'a spoolgate_wire::checks::CheckRow> {
    line.checks.iter().find(|row| row.name == name)
}

/// Sends this number of mails, two seconds apart.
fn mails(home: &GatewayHome, opened: &mut Home, stem: &str, count: usize) -> Vec<Answer> {
    let one = |n: usize| {
        home.place.pass_s(2);
        home.one(opened, &format!("{stem}-{n}"), "email.send", MAIL)
    };
    (0..count).map(one).collect()
}

// The rate limiter.

#[test]
fn requests_within_the_limit_pass() {
    let home = GatewayHome::new(DONE);
    let mut opened = home.open();
    assert!(
        mails(&home, &mut opened, "m", 20)
            .iter()
            .all(|answer| answer.status == AnswerStatus::Success)
    );
}

#[test]
fn a_request_beyond_the_limit_of_its_action_is_rate_limited() {
    let home = GatewayHome::new(DONE);
    let mut opened = home.open();
    let answers = mails(&home, &mut opened, "m", 21);
    let last = answers.last().unwrap();
    assert_eq!(
        (last.status, code(last).as_str()),
        (AnswerStatus::RateLimited, "RATE_LIMITED")
    );
    assert!(
        !check(&home.decision("m-20").unwrap(), "action_rate")
            .unwrap()
            .passed
    );
    // Another action is not limited.
    assert_eq!(
        code(&home.one(&mut opened, "other", "email.draft", MAIL)),
        ""
    );
}

#[test]
fn a_request_beyond_the_limit_of_all_is_rate_limited() {
    let home = GatewayHome::new(DONE);
    home.edit("rules/gateway.yaml", |text| {
        text.replacen('{', r#"{"rates":{"all_per_hour":4},"#, 1)
    });
    let mut opened = home.open();
    for (n, (action, payload)) in GOOD.iter().take(5).enumerate() {
        let answer = home.one(&mut opened, &format!("n-{n}"), action, payload);
        assert_eq!(
            answer.status == AnswerStatus::RateLimited,
            n == 4,
            "{action}"
        );
    }
    assert!(
        !check(&home.decision("n-4").unwrap(), "gateway_rate")
            .unwrap()
            .passed
    );
    assert!(
        check(&home.decision("n-4").unwrap(), "action_rate")
            .unwrap()
            .passed
    );
}

#[test]
fn limits_are_over_when_their_window_is() {
    let home = GatewayHome::new(DONE);
    home.edit("rules/gateway.yaml", |text| {
        text.replacen('{', r#"{"rates":{"per_hour":{"email.send":2}},"#, 1)
    });
    let mut opened = home.open();
    let codes = |answers: Vec<Answer>| answers.iter().map(code).collect::<Vec<String>>();
    assert_eq!(
        codes(mails(&home, &mut opened, "a", 3)),
        ["", "", "RATE_LIMITED"]
    );
    home.place.pass_s(3601);
    assert_eq!(
        codes(mails(&home, &mut opened, "b", 3)),
        ["", "", "RATE_LIMITED"]
    );
}

// Anomaly detection.

#[test]
fn more_than_ten_requests_in_five_seconds_are_a_burst() {
    let home = GatewayHome::new(NOTED);
    let mut opened = home.open();
    (0..11).for_each(|n| home.ask(&format!("n-{n:02}"), "email.send", MAIL));
    settle(&mut opened);
    let statuses: Vec<AnswerStatus> = (0..11)
        .map(|n| home.answer(&format!("n-{n:02}")).unwrap().status)
        .collect();
    assert!(
        statuses[..10]
            .iter()
            .all(|status| *status == AnswerStatus::Success)
    );
    assert_eq!(statuses[10], AnswerStatus::RequiresApproval);
    assert_eq!(home.ran().len(), 10);
    let line = home.decision("n-10").unwrap();
    let row = check(&line, "anomaly_burst").unwrap();
    assert_eq!((line.status, row.passed), (Status::Held, false));
    assert_eq!(
        row.reason.as_deref().unwrap(),
        "more than 10 actions of `core` were signed or began within 5 s"
    );
}

#[test]
fn the_first_request_to_a_new_destination_is_flagged_and_done() {
    let home = GatewayHome::new(DONE);
    let mut opened = home.open();
    for (id, is_first) in [("a", true), ("b", false)] {
        assert_eq!(
            code(&home.one(&mut opened, id, "service.api_call", CALL)),
            ""
        );
        let line = home.decision(id).unwrap();
        let row = check(&line, "anomaly_destination").unwrap();
        assert!(row.passed);
        assert_eq!(
            row.reason
                .as_deref()
                .is_some_and(|why| why.starts_with("warn: ")),
            is_first,
            "{id}"
        );
    }
}

#[test]
fn a_payload_of_more_than_a_megabyte_is_flagged() {
    let home = GatewayHome::new(NOTED);
    let mut opened = home.open();
    let large = json!({"to": ["ann@example.com"], "subject": "s", "body": "x".repeat(1_000_000)})
        .to_string();
    let answer = home.one(&mut opened, "a", "email.send", &large);
    assert_eq!(
        (answer.status, code(&answer).as_str()),
        (AnswerStatus::RequiresApproval, "HELD")
    );
    assert!(
        answer
            .error
            .unwrap()
            .message
            .contains("the payload is larger than 1000000 bytes")
    );
    assert!(home.ran().is_empty());
}

#[test]
fn ordinary_requests_are_not_flagged() {
    let home = GatewayHome::new(DONE);
    let mut opened = home.open();
    for (n, (action, payload)) in GOOD.iter().cycle().take(36).enumerate() {
        home.place.pass_s(1);
        let id = format!("n-{n}");
        assert_eq!(
            code(&home.one(&mut opened, &id, action, payload)),
            "",
            "{action}"
        );
        let line = home.decision(&id).unwrap();
        assert!(line.checks.iter().all(|row| row.passed));
    }
}

// The audit trail.

#[test]
fn the_entry_is_durable_before_the_action_is_begun() {
    // A batch that cannot be made durable begins nothing.
    for faults in [
        Faults {
            sync_failures: 1,
            ..Faults::default()
        },
        Faults {
            append_room: Some(100),
            ..Faults::default()
        },
    ] {
        let home = GatewayHome::new(NOTED);
        let mut opened = home.open();
        home.ask("a", "email.send", MAIL);
        *home.place.disk.faults.lock().unwrap() = faults;
        assert!(opened.round(false).is_err());
        *home.place.disk.faults.lock().unwrap() = Faults::default();
        drop(opened);
        assert!(home.ran().is_empty());
    }
    // An action that begins finds its entry sealed, with no response yet.
    let slow = r#"cat >/dev/null; while [ ! -e go ]; do sleep 0.02; done; echo '{"success":true}'"#;
    let home = GatewayHome::new(slow);
    let mut opened = home.open();
    home.ask("a", "email.send", MAIL);
    while opened.round(false).unwrap().more {}
    let lines = home.lines();
    let request = lines
        .iter()
        .position(|(_, kind, _)| kind == "request")
        .unwrap();
    assert_eq!(lines[request + 1].1, "seal");
    assert!(home.responses().is_empty() && home.answer("a").is_none());
    let line = home.decision("a").unwrap();
    assert_eq!(
        (line.status, line.direction),
        (Status::Pending, Flow::Request)
    );
    fs::write(home.path("go"), "").unwrap();
    settle(&mut opened);
    assert_eq!(home.responses().len(), 1);
}

/// Makes a home with a request that was done, one that was refused and one that was held, and
/// closes it in order.
fn written() -> GatewayHome {
    let home = GatewayHome::new(DONE);
    home.edit("rules/gateway.yaml", |text| {
        text.replacen('{', r#"{"anomalies":{"payload_bytes_max":200},"#, 1)
    });
    let mut opened = home.open();
    assert_eq!(code(&home.one(&mut opened, "done", "email.send", MAIL)), "");
    home.place.pass_s(10);
    let elsewhere = CALL.replace("bank", "elsewhere");
    assert_eq!(
        code(&home.one(&mut opened, "refused", "service.api_call", &elsewhere)),
        "NOT_ALLOWLISTED"
    );
    let large = MAIL.replace("a word", &"x".repeat(300));
    assert_eq!(
        code(&home.one(&mut opened, "held", "email.send", &large)),
        "HELD"
    );
    opened.finish("done").unwrap();
    drop(opened);
    home
}

#[test]
fn no_entry_can_be_modified_or_deleted_unnoticed() {
    let home = written();
    let files = Files::of(&home.place);
    let log = files.segment(1).to_vec();
    assert!(files.verify(true).unwrap().ok);
    let lines: Vec<&[u8]> = log.split_inclusive(|byte| *byte == b'\n').collect();
    let joined = |lines: &[&[u8]]| lines.concat();
    for n in 0..lines.len() {
        // One byte of it: at the start, in the middle and at the end.
        for at in [1, lines[n].len() / 2, lines[n].len() - 3] {
            let mut changed = lines[n].to_vec();
            changed[at] ^= 1;
            let mut all = lines.clone();
            all[n] = &changed;
            let other = files.with_segment(1, joined(&all));
            assert!(!other.verifies(), "byte {at} of line {n}");
        }
        // The whole line, or two lines in another order.
        let without: Vec<&[u8]> = lines
            .iter()
            .enumerate()
            .filter(|(at, _)| *at != n)
            .map(|(_, line)| *line)
            .collect();
        assert!(
            !files.with_segment(1, joined(&without)).verifies(),
            "line {n} deleted"
        );
        if n + 1 < lines.len() {
            let mut all = lines.clone();
            all.swap(n, n + 1);
            assert!(
                !files.with_segment(1, joined(&all)).verifies(),
                "lines {n} and {} swapped",
                n + 1
            );
        }
    }
}

#[test]
fn the_chain_is_verified_over_all_entries() {
    let home = written();
    let options = verify::Options {
        strict: Some(spoolgate_gate::record::canonical),
        ..verify::Options::default()
    };
    let report = verify::verify(
        home.place.disk.as_ref(),
        std::path::Path::new("audit"),
        &options,
        &|_| {},
    )
    .unwrap();
    assert!(report.ok, "{report:?}");
    assert_eq!(usize::try_from(report.lines).unwrap(), home.lines().len());
    let kinds: Vec<String> = home.lines().into_iter().map(|(_, kind, _)| kind).collect();
    for kind in ["request", "response", "decision"] {
        assert!(kinds.iter().any(|known| known == kind), "{kind}");
    }
}

#[test]
fn queries_find_what_is_there() {
    let home = written();
    let books = Books::of_home(home.place.root.path(), &home.place.seams()).unwrap();
    let find = |filter: &Filter, newest: Option<usize>| {
        let mut found: Vec<(String, String)> = Vec::new();
        books
            .find(filter, newest, &mut |line| -> Result<(), HomeError> {
                let body: Value = serde_json::from_str(&line.text).unwrap();
                let text = |key: &str| body[key].as_str().unwrap_or_default().to_owned();
                found.push((text("kind"), text("request_id")));
                Ok(())
            })
            .unwrap();
        found
    };
    let named = |kind: &str, id: &str| (kind.to_owned(), id.to_owned());
    let by_id = Filter {
        request_ids: vec!["done".to_owned()],
        ..Filter::default()
    };
    assert_eq!(
        find(&by_id, None),
        [named("request", "done"), named("response", "done")]
    );
    let by_action = Filter {
        actions: vec!["service.api_call".to_owned()],
        ..Filter::default()
    };
    assert_eq!(find(&by_action, None), [named("decision", "refused")]);
    let begun = home.decision("refused").unwrap().timestamp;
    let late = Filter {
        from: Some(begun),
        actions: vec!["email.*".to_owned()],
        ..Filter::default()
    };
    assert_eq!(find(&late, None), [named("decision", "held")]);
    let early = Filter {
        to: Some(begun),
        actions: vec!["email.*".to_owned()],
        ..Filter::default()
    };
    assert_eq!(
        find(&early, None),
        [named("request", "done"), named("response", "done")]
    );
    let failed = Filter {
        failed_checks: vec!["anomaly_payload".to_owned()],
        ..Filter::default()
    };
    assert_eq!(find(&failed, None), [named("decision", "held")]);
    let core = Filter {
        sources: vec!["core".to_owned()],
        ..Filter::default()
    };
    assert_eq!(find(&core, Some(1)), [named("decision", "held")]);
    assert_eq!(find(&core, None).len(), 4);
}

// The validation pipeline.

#[test]
fn a_valid_request_passes_every_step_and_succeeds() {
    let home = GatewayHome::new(NOTED);
    let mut opened = home.open();
    let answer = home.one(&mut opened, "a", "email.send", MAIL);
    assert_eq!(
        (answer.status, answer.request_id.as_str()),
        (AnswerStatus::Success, "a")
    );
    let line = home.decision("a").unwrap();
    let names: Vec<&str> = line.checks.iter().map(|row| &*row.name).collect();
    assert_eq!(
        names,
        [
            "rulebook",
            "clock",
            "manual_halt",
            "allowlist",
            "action_rate",
            "gateway_rate",
            "open_actions",
            "anomaly_burst",
            "anomaly_payload",
            "anomaly_destination",
            "adapter",
        ]
    );
    assert!(line.checks.iter().all(|row| row.passed));
    assert_eq!(home.ran().len(), 1);
}

/// Checks what remains of a request that was stopped before the check vector.
#[track_caller]
fn is_stopped(home: &GatewayHome, expect: &str) {
    let line = home.decisions().into_values().next_back().unwrap();
    assert_eq!(line.metadata.code.unwrap().name(), expect);
    assert_eq!(
        (line.status, line.direction),
        (Status::Rejected, Flow::Response)
    );
    assert!(
        check(&line, "allowlist").is_none() && line.checks.is_empty(),
        "{line:?}"
    );
    assert!(home.ran().is_empty() && home.responses().is_empty());
}

#[test]
fn a_failure_of_the_schema_short_circuits() {
    let home = GatewayHome::new(NOTED);
    let mut opened = home.open();
    for (n, (action, payload)) in GOOD.iter().enumerate() {
        let unknown = match *payload {
            "{}" => r#"{"unknown":1}"#.to_owned(),
            payload => payload.replacen('{', r#"{"unknown":1,"#, 1),
        };
        let answer = home.one(&mut opened, &format!("n-{n}"), action, &unknown);
        assert_eq!(
            (answer.status, code(&answer).as_str()),
            (AnswerStatus::Error, "MALFORMED_PAYLOAD")
        );
        is_stopped(&home, "MALFORMED_PAYLOAD");
    }
}

#[test]
fn a_failure_of_the_signature_short_circuits() {
    let home = GatewayHome::new(NOTED);
    let mut opened = home.open();
    let mut envelope = home.envelope("a", "email.send", MAIL);
    envelope.signature = SignKey::Hmac([1; 32]).sign(&envelope.signing_string());
    home.put("a", envelope.to_json().as_bytes());
    settle(&mut opened);
    assert_eq!(
        code(&home.answer("a.json.error").unwrap()),
        "SIGNATURE_INVALID"
    );
    is_stopped(&home, "SIGNATURE_INVALID");
    // Its id is not used up.
    assert_eq!(code(&home.one(&mut opened, "a", "email.send", MAIL)), "");
}

#[test]
fn a_failure_of_the_allowlist_short_circuits() {
    let home = GatewayHome::new(NOTED);
    let mut opened = home.open();
    let answer = home.one(
        &mut opened,
        "a",
        "service.api_call",
        &CALL.replace("bank", "elsewhere"),
    );
    assert_eq!(
        (answer.status, code(&answer).as_str()),
        (AnswerStatus::Error, "NOT_ALLOWLISTED")
    );
    let line = home.decision("a").unwrap();
    let failed: Vec<&str> = line
        .checks
        .iter()
        .filter(|row| !row.passed)
        .map(|row| &*row.name)
        .collect();
    assert_eq!(failed[0], "allowlist");
    assert!(home.ran().is_empty() && home.responses().is_empty() && line.changes.is_empty());
}

#[test]
fn a_failure_of_the_rate_short_circuits() {
    let home = GatewayHome::new(NOTED);
    home.edit("rules/gateway.yaml", |text| {
        text.replacen('{', r#"{"rates":{"per_hour":{"email.send":1}},"#, 1)
    });
    let mut opened = home.open();
    assert_eq!(code(&home.one(&mut opened, "a", "email.send", MAIL)), "");
    let answer = home.one(&mut opened, "b", "email.send", MAIL);
    assert_eq!(
        (answer.status, code(&answer).as_str()),
        (AnswerStatus::RateLimited, "RATE_LIMITED")
    );
    assert_eq!((home.ran().len(), home.responses().len()), (1, 1));
}

#[test]
fn every_rejection_is_in_the_ledger_with_its_reason() {
    let home = GatewayHome::new(NOTED);
    home.edit("rules/gateway.yaml", |text| {
        let limits =
            r#"{"rates":{"per_hour":{"email.draft":1}},"anomalies":{"payload_bytes_max":500},"#;
        text.replacen('{', limits, 1)
    });
    let mut opened = home.open();
    home.one(&mut opened, "fine", "email.draft", MAIL);
    let large = MAIL.replace("a word", &"x".repeat(500));
    for (id, action, payload, expect) in [
        ("schema", "email.send", "{}".to_owned(), "MALFORMED_PAYLOAD"),
        ("action", "email.sned", MAIL.to_owned(), "UNKNOWN_ACTION"),
        (
            "allowlist",
            "service.api_call",
            CALL.replace("bank", "elsewhere"),
            "NOT_ALLOWLISTED",
        ),
        ("rate", "email.draft", MAIL.to_owned(), "RATE_LIMITED"),
        ("anomaly", "email.send", large, "HELD"),
    ] {
        let answer = home.one(&mut opened, id, action, &payload);
        let line = home.decision(id).unwrap();
        let error = answer.error.unwrap();
        assert_eq!(
            (error.code.name(), line.metadata.code.unwrap().name()),
            (expect, expect)
        );
        assert_eq!(Some(error.message), line.metadata.message, "{id}");
        assert_eq!(answer.audit_ref, line.id);
    }
    let mut forged = home.envelope("signature", "email.send", MAIL);
    forged.signature = SignKey::Hmac([1; 32]).sign(&forged.signing_string());
    home.put("signature", forged.to_json().as_bytes());
    settle(&mut opened);
    let line = home.decision("signature").unwrap();
    let answer = home.answer("signature.json.error").unwrap();
    assert_eq!(
        answer.error.unwrap().message,
        line.metadata.message.unwrap()
    );
    assert_eq!(home.ran().len(), 1);
}

#[test]
fn the_trail_has_the_request_as_pending_and_then_the_response() {
    let failing =
        r#"cat >/dev/null; echo '{"success":false,"error":{"code":"NO_ROOM","message":"full"}}'"#;
    let adapters =
        json!({"adapters": [exec(&["email.send"], DONE, 10), exec(&["email.draft"], failing, 10)]});
    let home = GatewayHome::with(SERVICES, &adapters.to_string());
    let mut opened = home.open();
    for (id, action, expect) in [
        ("a", "email.send", Status::Success),
        ("b", "email.draft", Status::Error),
    ] {
        home.one(&mut opened, id, action, MAIL);
        let mut both = home.lines().into_iter().filter(|(_, kind, record)| {
            let is_of_it = record.as_ref().is_some_and(|record| {
                record
                    .body()
                    .unwrap()
                    .contains(&format!(r#""request_id":"{id}""#))
            });
            is_of_it && (kind == "request" || kind == "response")
        });
        let (request, kind, _) = both.next().unwrap();
        assert_eq!(kind, "request");
        let (response, kind, _) = both.next().unwrap();
        assert_eq!((kind.as_str(), both.next().is_none()), ("response", true));
        assert!(request < response);
        let line = home.decision(id).unwrap();
        assert_eq!(
            (line.status, line.direction),
            (Status::Pending, Flow::Request)
        );
        let end = &home.responses()[&response];
        assert_eq!(
            (end.status, end.direction, end.request_line),
            (expect, Flow::Response, request)
        );
        assert_eq!(
            (&end.payload_hash, &end.signature),
            (&line.payload_hash, &line.signature)
        );
        assert_eq!(home.answer(id).unwrap().audit_ref, response.to_string());
    }
}
