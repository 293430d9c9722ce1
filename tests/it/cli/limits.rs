//! `limits`: another value of a limit for a while.

use std::fs;

use super::{err, out};
use crate::kit::{Scratch, spoolgate, succeed};
use serde_json::{Value, json};

/// The limits as `limits list` prints them as JSON.
fn listed(scratch: &Scratch) -> Vec<Value> {
    let text = succeed(&scratch.home(), &["--format", "json", "limits", "list"]);
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn a_limit_is_overridden_shown_and_ended() {
    let scratch = Scratch::with_prices();
    let home = scratch.home();
    let before = listed(&scratch);
    assert_eq!(before.len(), 9);
    assert!(
        before.iter().all(|row| row["until"].is_null()),
        "{before:?}"
    );
    let name = "max_single_position";
    let set = [
        "limits", "override", name, "0.08", "--until", "2h", "--reason", "the roll",
    ];
    let said = succeed(&home, &set);
    assert!(
        said.starts_with("`max_single_position` is 0.08 until "),
        "{said}"
    );
    let rows = listed(&scratch);
    let row = rows.iter().find(|row| row["limit"] == name).unwrap();
    assert_eq!(
        (&row["value"], &row["in_file"]),
        (&json!("0.08"), &json!("0.05"))
    );
    assert_eq!(
        (&row["reason"], row["line"].is_u64()),
        (&json!("the roll"), true)
    );
    let text = succeed(&home, &["limits", "list"]);
    assert!(text.contains("the roll"), "{text}");
    let portfolio = succeed(&home, &["--format", "json", "portfolio"]);
    let line = &row["line"];
    assert!(
        portfolio.contains("safety.yaml (override until "),
        "{portfolio}"
    );
    assert!(
        portfolio.contains(&format!(", line {line})")),
        "{portfolio}"
    );
    assert!(portfolio.contains("\"warning\":false"), "{portfolio}");
    let told = succeed(&home, &["explain", &line.to_string()]);
    assert!(
        told.contains("`max_single_position` is 0.08 until "),
        "{told}"
    );
    succeed(&home, &["limits", "end", name]);
    assert_eq!(listed(&scratch), before);
    // A time instead of a duration, and a loss in money.
    let day = ["limits", "override", "max_daily_loss", "100", "--until"];
    let until = row["until"].as_str().unwrap();
    succeed(
        &home,
        &[&day[..], &[until, "--reason", "a release"]].concat(),
    );
    assert_eq!(
        listed(&scratch)
            .iter()
            .filter(|row| !row["until"].is_null())
            .count(),
        1
    );
    succeed(&home, &["audit", "replay"]);
}

#[test]
fn what_is_too_much_too_long_or_of_an_agent_is_refused() {
    let scratch = Scratch::with_prices();
    let home = scratch.home();
    let before = listed(&scratch);
    for (name, value, until, code, why) in [
        ("max_single_position", "0.15", "1h", 1, "STATE_CONFLICT"),
        (
            "max_single_position",
            "0.06",
            "25h",
            1,
            "more than 24 h ahead",
        ),
        (
            "max_single_position",
            "0.06",
            "2018-01-01T00:00:00Z",
            1,
            "has passed",
        ),
        ("max_single_position", "0", "1h", 1, "above 0"),
        ("max_drawdown", "0.2", "1h", 2, "it cannot be overridden"),
        ("max_single_position", "much", "1h", 2, "much"),
        ("max_single_position", "0.06", "2d", 2, "30m or 2h"),
    ] {
        let set = [
            "limits", "override", name, value, "--until", until, "--reason", "r",
        ];
        let done = spoolgate(&home, &set);
        let said = format!("{}{}", out(&done), err(&done));
        let found = done.status.code();
        let is_refused = found == Some(code) || (code == 1 && found == Some(2));
        assert!(is_refused, "{value} {until}: {found:?} {said}");
        assert!(said.contains(why), "{value} {until}: {said}");
    }
    let done = spoolgate(&home, &["limits", "end", "max_single_position"]);
    assert_eq!(done.status.code(), Some(1));
    assert!(err(&done).contains("no limit is"), "{}", err(&done));
    let payload = json!({"limit": "max_single_position", "value": "0.06",
        "until": "2099-01-01T00:00:00Z", "reason": "r"});
    let request = scratch.request("mine", "limits.override", &payload.to_string());
    let file = scratch.beside("mine.json");
    fs::write(&file, request).unwrap();
    let done = spoolgate(
        &home,
        &["--format", "json", "handle", file.to_str().unwrap()],
    );
    assert!(out(&done).contains("NOT_PERMITTED"), "{}", out(&done));
    assert_eq!(listed(&scratch), before);
}
