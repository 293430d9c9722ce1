//! `spoolgate control apply` and `spoolgate strategies`: their output and exit codes; and the
//! demo's controller.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::decision;
use crate::kit::{PROGRAM, Scratch, command, show, spoolgate, succeed};
use serde_json::{Value, json};

/// Applies a decision; returns exit code and answer.
fn apply(home: &Path, file: &Path, payload: &str, by: &[&str]) -> (Option<i32>, Value) {
    fs::write(file, payload).unwrap();
    let mut args = vec![
        "--format",
        "json",
        "control",
        "apply",
        file.to_str().unwrap(),
    ];
    args.extend(by);
    let done = spoolgate(home, &args);
    let answer = serde_json::from_slice(&done.stdout).unwrap_or_else(|_| panic!("{}", show(&done)));
    (done.status.code(), answer)
}

#[test]
fn a_decision_from_the_command_line() {
    let scratch = Scratch::new();
    let home = scratch.home();
    let (file, key) = (
        scratch.beside("decision.json"),
        scratch.beside("hermes.key"),
    );
    succeed(
        &home,
        &["keys", "add", "hermes", "--out", key.to_str().unwrap()],
    );
    let hermes = ["--as", "hermes", "--key", key.to_str().unwrap()];
    let status = |answer: &Value| answer["data"]["status"].clone();
    let (exit, answer) = apply(
        &home,
        &file,
        &decision("d1", json!({"dry_run": true})),
        &hermes,
    );
    assert_eq!((exit, status(&answer)), (Some(0), json!("noop")));
    assert_eq!(answer["data"]["result"]["would_be"], "applied");
    let (exit, first) = apply(&home, &file, &decision("d1", json!({})), &hermes);
    assert_eq!((exit, status(&first)), (Some(0), json!("applied")));
    let (exit, again) = apply(&home, &file, &decision("d1", json!({})), &hermes);
    assert_eq!((exit, &again["data"]), (Some(0), &first["data"]));
    assert_ne!(again["auditRef"], first["auditRef"]);
    let (exit, answer) = apply(
        &home,
        &file,
        &decision("d1", json!({"reason": "another"})),
        &hermes,
    );
    assert_eq!(
        (exit, &answer["data"]["errors"]),
        (Some(1), &json!(["decision_id_conflict"]))
    );
    assert_eq!(answer["error"]["code"], "CONTROL_REJECTED");
    let (exit, answer) = apply(&home, &file, r#"{"action":"keep"}"#, &hermes);
    assert_eq!(
        (exit, &answer["data"]["errors"]),
        (Some(2), &json!(["action_not_supported"]))
    );
    // There are no prices, so nothing that may enter more is allowed; a person without a grant may
    // pause all the same.
    let (exit, answer) = apply(
        &home,
        &file,
        &decision("d2", json!({"action": "resume"})),
        &hermes,
    );
    assert_eq!(
        (exit, &answer["data"]["errors"]),
        (Some(1), &json!(["execution_degraded"]))
    );
    let (exit, answer) = apply(&home, &file, &decision("d2", json!({})), &[]);
    assert_eq!((exit, status(&answer)), (Some(0), json!("applied")));
    assert_eq!(answer["data"]["result"]["mode_change"], "none");

    let told = succeed(&home, &["strategies", "list"]);
    let row = told.lines().find(|line| line.starts_with("trend")).unwrap();
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(
        cells,
        ["trend", "paper:btc-usd", "paused", "normal", "yes", "yes"]
    );
    let shown: Value = serde_json::from_str(&succeed(
        &home,
        &["--format", "json", "strategies", "show", "range"],
    ))
    .unwrap();
    assert_eq!(
        (&shown["status"], &shown["file_status"]),
        (&json!("standby"), &json!("standby"))
    );
    assert_eq!(
        shown["degraded_reasons"],
        json!(["`BTC-USD` has no fresh bid and ask"])
    );
    let none = spoolgate(&home, &["strategies", "show", "nobody"]);
    assert_eq!(none.status.code(), Some(2));
    // As text: the decision as a table, and the reason of the refusal on standard error.
    let table = command(
        &home,
        &["control", "apply", file.to_str().unwrap(), "--as", "hermes"],
    )
    .output()
    .unwrap();
    let (out, err) = (
        String::from_utf8(table.stdout).unwrap(),
        String::from_utf8(table.stderr).unwrap(),
    );
    assert!(
        out.contains("status") && out.contains("rejected") && out.contains("decision_id_conflict"),
        "{out}"
    );
    assert!(
        err.contains("CONTROL_REJECTED: check `decision_id_free` failed"),
        "{err}"
    );
}

#[test]
fn the_demo_s_controller_pauses_and_resumes() {
    let dir = crate::kit::folder();
    let home = dir.path().join("demo");
    let done = Command::new(PROGRAM)
        .args(["--format", "json", "demo"])
        .arg(&home)
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", show(&done));
    let day: Value = serde_json::from_slice(&done.stdout).unwrap();
    let answer = |id: &str| {
        let found = day["decisions"]
            .as_array()
            .unwrap()
            .iter()
            .find(|answer| answer["requestId"] == id);
        found.unwrap_or_else(|| panic!("no answer {id}"))["data"].clone()
    };
    let pause = answer("pause");
    assert_eq!(
        pause["result"]["cancelled_orders"],
        json!([answer("buy-8")["Accepted"]["order_id"]])
    );
    assert_eq!(
        pause["result"]["positions_kept"],
        json!([{"strategy": "trend", "symbol": "BTC-USD"}])
    );
    let refused = answer("buy-paused");
    let failed: Vec<&Value> = refused["Rejected"]["checks_failed"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["check_name"])
        .collect();
    assert_eq!(failed, ["strategy_active"]);
    assert!(answer("exit-paused")["Accepted"]["order_id"].is_string());
    assert_eq!(answer("switch")["errors"], json!(["expectation_failed"]));
    assert_eq!(answer("resume")["status"], "applied");
    assert_eq!(
        day["portfolio"]["positions"][0]["size"], "0.02",
        "the exit filled while it was paused"
    );
}
