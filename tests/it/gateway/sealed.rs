//! The sealed members of outgoing actions: subjects, texts, titles, descriptions, headers and
//! bodies. No rule that reads them and no message shows them, the adapter gets them, and after a
//! redaction nothing in the home contains them or lets somebody confirm a guess.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::kit::gateway_home::{DONE, ECHO, GatewayHome, code, settle};
use crate::kit::ledger_files::Files;
use serde_json::{Value, json};
use spoolgate_gate::actions;
use spoolgate_gate::history;
use spoolgate_gate::record::{Decision, Status};
use spoolgate_home::redact::{Asked, Plan};
use spoolgate_home::{Home, sealed};
use spoolgate_ledger::disk::Disk;
use spoolgate_replay::replay::{Class, Options, Report, replay};
use spoolgate_rules::rule::historic;
use spoolgate_wire::signing::sha256_hex;

/// Is in every sealed member and nowhere else; JSON escapes none of its characters.
pub(super) const SECRET: &str = "the-password-is-hunter2";

/// Returns each action with sealed members: a payload, their pointers, and the readings of rules
/// that show them.
fn sealing() -> Vec<(&'static str, Value, Vec<&'static str>, Vec<&'static str>)> {
    let mail = json!({"to": ["ann@example.com"], "subject": format!("s {SECRET}"),
        "body": format!("b {SECRET}\n")});
    let event = json!({
        "title": format!("t {SECRET}"), "startTime": "2026-03-03T10:00:00Z",
            "endTime": "2026-03-03T11:00:00Z",
        "description": format!("d {SECRET}"),
    });
    let call = json!({
        "service": "bank", "endpoint": "/v1/pay", "method": "POST", "headers": {"X-A": SECRET},
        "body": {"to": SECRET, "n": 7},
    });
    let of_mail = vec!["payload.subject", "payload.body", "payload.texts[]"];
    let of_event = vec!["payload.title", "payload.description", "payload.texts[]"];
    let of_call = vec![
        "payload.header_names[]",
        "payload.header_values[]",
        "payload.body_texts[]",
        "payload.texts[]",
    ];
    vec![
        (
            "email.send",
            mail.clone(),
            vec!["/body", "/subject"],
            of_mail.clone(),
        ),
        ("email.draft", mail, vec!["/body", "/subject"], of_mail),
        (
            "calendar.create",
            event.clone(),
            vec!["/description", "/title"],
            of_event.clone(),
        ),
        (
            "calendar.update",
            event,
            vec!["/description", "/title"],
            of_event,
        ),
        ("service.api_call", call, vec!["/body", "/headers"], of_call),
    ]
}

/// Returns a rule that reads all of them and whose message shows all of them.
fn rule(action: &str, readings: &[&str], then: &str) -> String {
    let when: String = readings
        .iter()
        .map(|name| format!("- {{field: '{name}', op: present}}\n"))
        .collect();
    let said: Vec<String> = readings.iter().map(|name| format!("{{{name}}}")).collect();
    format!(
        "id: tells\nstatus: active\napplies_to: {{action: {action}}}\nwhen:\n{when}then: \
            {then}\nmessage: \"it says {}\"\ncreated: 2026-01-01T00:00:00Z\ncreated_from: \
            a-test\nhypothesis: {{metric: none, population: all, baseline_value: 0, \
            baseline_sample: 1, review_after_n: 1}}\n",
        said.join(" and ")
    )
}

fn is_within(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// Returns the files of the whole home, including those of SQLite, that contain one of these texts.
pub(super) fn holding(home: &GatewayHome, texts: &[String]) -> Vec<String> {
    let mut files = home.place.disk.files_below("");
    let mut folders = vec![home.place.root.path().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => files.push((path.clone(), fs::read(path).unwrap())),
            }
        }
    }
    assert!(files.len() > 20, "nothing was searched");
    let holds = |bytes: &[u8]| texts.iter().any(|text| is_within(bytes, text.as_bytes()));
    files
        .into_iter()
        .filter(|(_, bytes)| holds(bytes))
        .map(|(path, _)| path.display().to_string())
        .collect()
}

/// Returns every text that would reveal the secret, or would confirm a guess.
fn tell_tales(home: &GatewayHome, lines: &[&Decision], payload: &str) -> Vec<String> {
    let mut texts = vec![SECRET.to_owned(), sha256_hex(payload.as_bytes())];
    let members: BTreeMap<String, Value> = serde_json::from_str(payload).unwrap();
    for value in members
        .values()
        .filter(|value| value.to_string().contains(SECRET))
    {
        texts.push(sha256_hex(value.to_string().as_bytes()));
        texts.extend(value.as_str().map(|text| sha256_hex(text.as_bytes())));
    }
    for decision in lines {
        for field in &decision.sealed {
            let disk: &dyn Disk = home.place.disk.as_ref();
            let sealed::Standing::Disclosed(opened) = sealed::disclosure(disk, field).unwrap()
            else {
                panic!("{field:?}")
            };
            texts.push(sealed::text_of(&opened));
            if field.field == "digests" {
                let digests: Value = serde_json::from_str(&opened.value).unwrap();
                for name in ["payload_hash", "request_hash", "signature", "file_sha256"] {
                    texts.extend(digests[name].as_str().map(str::to_owned));
                }
                assert_eq!(digests["payload_hash"], sha256_hex(payload.as_bytes()));
            }
        }
    }
    texts
}

pub(super) fn asked(line: u64, fields: &[&str]) -> Asked {
    let fields = fields.iter().map(|field| (*field).to_owned()).collect();
    Asked {
        lines: vec![line],
        fields,
        reason: "a customer asked".to_owned(),
        by: "owner (uid 0)".to_owned(),
    }
}

fn audit(home: &GatewayHome) -> Vec<(PathBuf, Vec<u8>)> {
    home.place.disk.files_below("audit")
}

fn replayed(home: &GatewayHome) -> Report {
    let disk = Arc::new(crate::kit::memory_disk::MemoryDisk::with(&audit(home)));
    let report = replay(
        disk,
        Path::new("audit"),
        &Options {
            threads: 2,
            answers: None,
        },
        &mut |_| {},
    )
    .unwrap();
    assert!(report.is_same(), "{report:#?}");
    report
}

fn not_again(report: &Report) -> BTreeMap<String, u64> {
    let rows = report
        .rows
        .iter()
        .filter(|row| row.class == Class::NotAgain);
    rows.map(|row| (row.what.clone(), row.lines)).collect()
}

pub(super) fn check_sound(home: &GatewayHome) {
    let report = Files::of(&home.place).verify(true).unwrap();
    assert!(report.ok, "{:?}", report.problems);
    let (_, same) = Home::rebuild(home.place.root.path(), home.place.seams()).unwrap();
    assert!(same, "a rebuild gives another state");
}

/// Returns the lines of the request `id`.
pub(super) fn lines_of(home: &GatewayHome, id: &str) -> Vec<(u64, Decision)> {
    let decisions = home.decisions().into_iter();
    decisions
        .filter(|(_, decision)| decision.request_id.as_deref() == Some(id))
        .collect()
}

fn check_redacted(home: &GatewayHome, id: &str, payload: &str, facts: &[&str]) {
    let lines = lines_of(home, id);
    let texts = tell_tales(
        home,
        &lines.iter().map(|(_, line)| line).collect::<Vec<_>>(),
        payload,
    );
    // Only the disclosures contain it; the request's file is gone, and the adapter wrote nothing.
    let before = holding(home, &texts);
    assert!(
        !before.is_empty()
            && before
                .iter()
                .all(|path| path.starts_with("audit/blobs/sd-")),
        "{before:?}"
    );
    let (_, line) = lines.first().unwrap();
    for name in facts {
        let name = name.trim_end_matches("[]");
        let noted: Value = serde_json::from_str(line.facts.as_ref().unwrap().get()).unwrap();
        assert!(noted[name]["sealed"].is_string(), "{name}: {noted}");
    }
    let whole = replayed(home);
    assert!(not_again(&whole).is_empty(), "{whole:#?}");
    let mut gate = home.open();
    let done = gate.redact(&asked(lines[0].0, &[])).unwrap();
    assert!(matches!(done, Plan::Delete(_)));
    gate.save_snapshot().unwrap();
    drop(gate);
    assert_eq!(holding(home, &texts), Vec::<String>::new());
    check_sound(home);
    assert_eq!(
        holding(home, &texts),
        Vec::<String>::new(),
        "a rebuild brings nothing back"
    );
    let report = replayed(home);
    assert!(not_again(&report).values().sum::<u64>() >= 1, "{report:#?}");
    // If it is sent again, it counts as another request: nothing is done, and nothing comes back.
    let mut gate = home.open();
    let before = home.responses().len();
    home.ask(id, lines[0].1.action.as_deref().unwrap(), payload);
    settle(&mut gate);
    drop(gate);
    let again = home.decision(id).unwrap();
    assert_eq!(
        again.metadata.code.map(|code| code.to_string()),
        Some("REQUEST_ID_CONFLICT".to_owned())
    );
    assert_eq!(home.responses().len(), before);
    assert_eq!(holding(home, &texts), Vec::<String>::new());
}

#[test]
fn only_the_adapter_gets_sealed_members_and_they_can_be_redacted() {
    for (action, payload, pointers, readings) in sealing() {
        let home = GatewayHome::new(DONE);
        home.edit("rules/active/tells.yaml", |_| {
            rule(action, &readings, "warn")
        });
        let mut gate = home.open();
        let payload = payload.to_string();
        let answer = home.one(&mut gate, "r1", action, &payload);
        assert_eq!(code(&answer), "", "{action}: {answer:?}");
        drop(gate);
        let (_, line) = &lines_of(&home, "r1")[0];
        assert_eq!(line.status, Status::Pending);
        let mut fields: Vec<&str> = line
            .sealed
            .iter()
            .map(|field| field.field.as_str())
            .collect();
        fields.sort_unstable();
        assert_eq!(fields, [pointers, vec!["digests"]].concat(), "{action}");
        assert_eq!(
            (&line.signature, &line.file_sha256),
            (&None, &None),
            "{action}"
        );
        let warned = line.checks.iter().find(|row| row.name == "tells").unwrap();
        let sealed = vec!["(sealed)"; readings.len()].join(" and ");
        assert_eq!(
            warned.reason.as_deref(),
            Some(format!("warn: it says {sealed}").as_str()),
            "{action}"
        );
        check_redacted(&home, "r1", &payload, &readings);
    }
}

#[test]
fn a_held_action_is_sealed_in_both_of_its_lines() {
    for (action, payload, _, readings) in sealing() {
        let home = GatewayHome::new(DONE);
        home.edit("rules/active/tells.yaml", |_| {
            rule(action, &readings, "hold")
        });
        let mut gate = home.open();
        let payload = payload.to_string();
        let held = home.one(&mut gate, "r1", action, &payload);
        let told: Value = serde_json::from_str(held.data.as_ref().unwrap().get()).unwrap();
        let line = lines_of(&home, "r1")[0].0;
        let refused = gate.redact(&asked(line, &[])).unwrap_err();
        assert!(
            refused.to_string().contains("grant or deny it first"),
            "{refused}"
        );
        let grant = json!({"id": told["Held"]["hold_id"],
            "request_sha256": told["Held"]["request_sha256"]});
        let granted = home.one_as_owner(&mut gate, "g1", "approval.grant", &grant.to_string());
        assert_eq!(code(&granted), "", "{granted:?} {told}");
        assert_eq!(home.responses().len(), 1, "{action}");
        drop(gate);
        assert_eq!(lines_of(&home, "r1").len(), 2);
        check_redacted(&home, "r1", &payload, &readings);
    }
}

#[test]
fn a_payload_of_the_wrong_shape_is_sealed_whole_and_its_refusal_names_no_value() {
    for (action, payload, ..) in sealing() {
        let home = GatewayHome::new(DONE);
        let mut gate = home.open();
        let mut wrong = payload.clone();
        wrong["extra"] = json!(SECRET);
        let answer = home.one(&mut gate, "r1", action, &wrong.to_string());
        drop(gate);
        assert_eq!(code(&answer), "MALFORMED_PAYLOAD");
        let (_, line) = &lines_of(&home, "r1")[0];
        assert_eq!(line.sealed[0].field, "", "{action}");
        let texts = tell_tales(&home, &[line], &wrong.to_string());
        let before = holding(&home, &texts);
        assert!(
            before
                .iter()
                .all(|path| path.starts_with("audit/blobs/sd-")),
            "{action}: {before:?}"
        );
        assert!(home.responses().is_empty());
    }
}

#[test]
fn one_member_can_be_redacted_alone() {
    let home = GatewayHome::new(DONE);
    let mut gate = home.open();
    let payload =
        r#"{"to":["ann@example.com"],"subject":"harmless","body":"the-password-is-hunter2"}"#;
    home.one(&mut gate, "r1", "email.send", payload);
    let (line, _) = lines_of(&home, "r1").remove(0);
    let refused = gate.redact(&asked(line, &["/to"])).unwrap_err().to_string();
    assert!(
        refused.contains("`/to` was logged in clear as a fact"),
        "{refused}"
    );
    gate.redact(&asked(line, &["/body"])).unwrap();
    drop(gate);
    let decision = home.decision("r1").unwrap();
    let disk: &dyn Disk = home.place.disk.as_ref();
    let standing: Vec<(String, bool)> = decision
        .sealed
        .iter()
        .map(|field| {
            let is_there = matches!(
                sealed::disclosure(disk, field).unwrap(),
                sealed::Standing::Disclosed(_)
            );
            (field.field.clone(), is_there)
        })
        .collect();
    let wanted = [("/subject", true), ("/body", false), ("digests", false)];
    assert_eq!(
        standing,
        wanted.map(|(field, there)| (field.to_owned(), there))
    );
    check_sound(&home);
    replayed(&home);
}

/// A call without headers and body has nothing to seal, so its line has its hashes like any other
/// line.
#[test]
fn a_request_without_sealed_members_keeps_its_hashes() {
    let home = GatewayHome::new(ECHO);
    let mut gate = home.open();
    let payload = r#"{"service":"bank","endpoint":"/v1/balance","method":"GET"}"#;
    let answer = home.one(&mut gate, "r1", "service.api_call", payload);
    assert_eq!(code(&answer), "");
    drop(gate);
    let line = home.decision("r1").unwrap();
    assert!(line.sealed.is_empty() && line.signature.is_some() && line.file_sha256.is_some());
    assert_eq!(line.payload_hash, Some(sha256_hex(payload.as_bytes())));
    let response = home.responses().into_values().next().unwrap();
    assert_eq!(
        (response.payload_hash, response.signature),
        (line.payload_hash, line.signature)
    );
    check_sound(&home);
    assert!(not_again(&replayed(&home)).is_empty());
}

/// History is kept only of facts, so a redaction has nothing to delete there.
#[test]
fn no_history_is_kept_of_what_is_sealed() {
    for (action, payload, _, readings) in sealing() {
        for name in readings {
            assert!(
                !historic::is_kept(action, name.trim_end_matches("[]")),
                "{action} {name}"
            );
        }
        let kept = history::values(action, &payload.to_string());
        assert!(
            kept.values().flatten().all(|value| !value.contains(SECRET)),
            "{action}: {kept:?}"
        );
        assert!(!actions::find(action).unwrap().sealed.is_empty());
    }
}
