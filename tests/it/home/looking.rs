//! `explain`, `selftest` and the limits of `portfolio` in a real home: their output and their exit
//! codes.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::kit::{Scratch, command, log_bytes, show, sign, spoolgate, succeed};
use serde_json::Value;

fn order(side: &str, size: &str, price: &str, stop: &str) -> String {
    serde_json::json!({
        "strategy": "trend", "symbol": "BTC-USD", "side": side, "size": size, "order_type": "limit",
            "price": price,
        "stop_price": stop, "thesis_slug": "btc-range-long", "planned_entry": price,
            "planned_stop": stop,
    })
    .to_string()
}

/// Hands over a request of the agent; returns the exit code and the answer.
fn handle(scratch: &Scratch, id: &str, action: &str, payload: &str) -> (i32, Value) {
    handed(scratch, id, scratch.request(id, action, payload))
}

fn handed(scratch: &Scratch, id: &str, request: Vec<u8>) -> (i32, Value) {
    let file = scratch.beside(&format!("{id}.json"));
    fs::write(&file, request).unwrap();
    let done = spoolgate(&scratch.home(), &["handle", file.to_str().unwrap()]);
    (
        done.status.code().unwrap(),
        serde_json::from_slice(&done.stdout).unwrap_or_else(|_| panic!("{}", show(&done))),
    )
}

fn explain(scratch: &Scratch, what: &str) -> Value {
    serde_json::from_str(&succeed(
        &scratch.home(),
        &["--format", "json", "explain", what],
    ))
    .unwrap()
}

fn says(scratch: &Scratch, what: &str, words: &[&str]) {
    let told = succeed(&scratch.home(), &["explain", what]);
    for word in words {
        assert!(told.contains(word), "{what}: no {word:?} in\n{told}");
    }
}

#[test]
fn an_order_is_explained_from_its_request_to_its_end() {
    let scratch = Scratch::with_prices();
    let (exit, answer) = handle(
        &scratch,
        "first",
        "order.submit",
        &order("buy", "0.02", "6700", "6600"),
    );
    assert_eq!(exit, 0, "{answer}");
    let line = answer["auditRef"].as_str().unwrap().to_owned();
    let id = format!("o-{line}");
    // By request, by line, by order and by its stop: the same decision.
    let told = explain(&scratch, "first");
    for what in [line.as_str(), &id, &format!("{id}-stop")] {
        assert_eq!(explain(&scratch, what), told, "{what}");
    }
    assert_eq!(told["outcome"], "accepted");
    assert_eq!(
        (told["failed"].as_array().unwrap().len(), &told["needs"]),
        (0, &serde_json::json!([]))
    );
    says(
        &scratch,
        "first",
        &[
            "`trend-bot` asked to buy 0.02 BTC-USD (limit at 6700, stop 6600",
            "ACCEPTED",
            "placed the entry",
            "is open, 0.02 unfilled",
        ],
    );
    let (exit, _) = handle(
        &scratch,
        "tighter",
        "order.tighten_stop",
        &format!(r#"{{"order_id":"{id}","new_stop":"6620"}}"#),
    );
    assert_eq!(exit, 0);
    says(
        &scratch,
        "tighter",
        &["to tighten the stop of", "moved the stop", "to 6620"],
    );
    says(&scratch, "first", &["tightened from 6600 to 6620"]);
    let (exit, _) = handle(
        &scratch,
        "away",
        "order.cancel",
        &format!(r#"{{"order_id":"{id}"}}"#),
    );
    assert_eq!(exit, 0);
    says(
        &scratch,
        "away",
        &["to cancel", "was cancelled", "was retired"],
    );
    says(&scratch, "first", &["was cancelled", "was retired"]);
    // The same bytes get the stored answer: it is still the first decision.
    assert_eq!(explain(&scratch, "first")["line"], told["line"]);
}

#[test]
fn a_refusal_is_explained_with_what_would_pass() {
    let scratch = Scratch::with_prices();
    let (exit, answer) = handle(
        &scratch,
        "big",
        "order.submit",
        &order("buy", "0.1", "6760", "6600"),
    );
    assert_eq!(exit, 1);
    let told = explain(&scratch, "big");
    assert_eq!(told["outcome"], "refused");
    assert_eq!(
        told["failed"].as_array().unwrap().len(),
        answer["data"]["Rejected"]["checks_failed"]
            .as_array()
            .unwrap()
            .len()
    );
    assert_eq!(told["headroom"], answer["data"]["Rejected"]["headroom"]);
    assert_eq!(told["failed"][0]["name"], "max_single_position");
    let fits = told["headroom"]["max_size"].as_str().unwrap();
    says(
        &scratch,
        "big",
        &[
            "REFUSED (CHECKS_FAILED)",
            "max_single_position",
            &format!("at most {fits} would pass"),
        ],
    );
    // The size that the message names passes.
    let (exit, _) = handle(
        &scratch,
        "fits",
        "order.submit",
        &order("buy", fits, "6760", "6600"),
    );
    assert_eq!(exit, 0);
}

#[test]
fn every_kind_of_request_is_explained() {
    let scratch = Scratch::with_prices();
    let home = scratch.home();
    succeed(&home, &["halt", "set", "--reason", "a drill"]);
    let (_, forged) = handed(
        &scratch,
        "forged",
        sign(&scratch.owner, "trend-bot", "forged", "market.get", "{}"),
    );
    let refused = |id: &str, action: &str, payload: &str| {
        assert_ne!(handle(&scratch, id, action, payload).0, 0)
    };
    refused(
        "nobody",
        "account.adjust",
        r#"{"amount":"5","reason":"mine"}"#,
    );
    refused("odd", "no.such", "{}");
    refused("wrong", "order.submit", r#"{"strategy":7}"#);
    let (_, query) = handle(&scratch, "look", "portfolio.get", "{}");
    assert!(
        query["data"]["Portfolio"]["limits"]
            .as_array()
            .unwrap()
            .len()
            > 10
    );
    refused("task", "admission.admit", r#"{"goal":"none"}"#);
    let halted = handle(
        &scratch,
        "halted",
        "order.submit",
        &order("buy", "0.02", "6700", "6600"),
    );
    assert_eq!(halted.0, 1);
    for (what, words) in [
        ("nobody", "NOT_PERMITTED"),
        ("odd", "UNKNOWN_ACTION"),
        ("wrong", "MALFORMED_PAYLOAD"),
        ("look", "portfolio.get"),
        ("task", "REFUSED"),
        ("halted", "manual_halt"),
        // Its signature did not verify, so no index knows its id.
        ("forged", "SIGNATURE_INVALID"),
        (forged["auditRef"].as_str().unwrap(), "SIGNATURE_INVALID"),
        ("0", "the log"),
    ] {
        says(&scratch, what, &[words]);
    }
    // Every line of the ledger, whatever it is about.
    let lines: usize = log_bytes(&home)
        .iter()
        .map(|log| log.split(|byte| *byte == b'\n').count() - 1)
        .sum();
    let mut told = String::new();
    for line in 0..=lines {
        let done = spoolgate(&home, &["explain", &line.to_string()]);
        let text = String::from_utf8(done.stdout.clone()).unwrap();
        let is_of_the_ledger = text.is_empty() && done.status.code() == Some(2);
        assert!(is_of_the_ledger || done.status.success(), "{}", show(&done));
        told.push_str(&text);
    }
    for words in [
        "entries of everybody were halted: a drill",
        "5000 was deposited",
        "market rows of BTC-USD",
    ] {
        assert!(told.contains(words), "no {words:?}");
    }
}

#[test]
fn missing_requests_lines_and_orders_end_with_2() {
    let scratch = Scratch::new();
    for what in [
        "no-such-request",
        "o-1",
        "o-99999",
        "99999",
        "o-1-stop",
        "../etc/passwd",
        "",
    ] {
        let done = spoolgate(&scratch.home(), &["explain", what]);
        assert_eq!(done.status.code(), Some(2), "{what}: {}", show(&done));
        assert!(
            String::from_utf8_lossy(&done.stderr).contains("has no request, line or order"),
            "{}",
            show(&done)
        );
    }
}

#[test]
fn looking_goes_on_beside_a_running_gate_and_changes_nothing() {
    let scratch = Scratch::with_prices();
    let home = scratch.home();
    handle(
        &scratch,
        "first",
        "order.submit",
        &order("buy", "0.02", "6700", "6600"),
    );
    let mut watcher = command(&home, &["watch"]);
    let mut watcher = watcher
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The watcher prints this once it holds the lock.
    let mut first_words = String::new();
    BufReader::new(watcher.stderr.take().unwrap())
        .read_line(&mut first_words)
        .unwrap();
    assert!(first_words.contains("watching"), "{first_words}");
    handle(
        &scratch,
        "second",
        "order.submit",
        &order("buy", "0.2", "6700", "6600"),
    );
    let before = log_bytes(&home);
    says(&scratch, "first", &["ACCEPTED"]);
    says(&scratch, "second", &["REFUSED"]);
    succeed(&home, &["selftest"]);
    succeed(&home, &["portfolio"]);
    let after = log_bytes(&home);
    watcher.kill().unwrap();
    watcher.wait().unwrap();
    for (old, new) in before.iter().zip(&after) {
        let grown = String::from_utf8_lossy(&new[old.len()..]).into_owned();
        assert!(
            new.starts_with(old) && !grown.contains("\"decision\""),
            "{grown}"
        );
    }
}

#[test]
fn the_self_test_ends_with_1_when_a_breaker_is_wired_to_nothing() {
    let scratch = Scratch::new();
    let home = scratch.home();
    let told = succeed(&home, &["selftest"]);
    assert!(told.contains("every check trips"), "{told}");
    let rows = |told: &str| {
        told.lines()
            .filter(|line| line.split_whitespace().nth(1) == Some("tripped"))
            .count()
    };
    assert!(rows(&told) >= 41, "{told}");
    // The shipped limits are made for more than one instrument, so some can never bind.
    assert_eq!(
        spoolgate(&home, &["selftest", "--strict"]).status.code(),
        Some(1)
    );
    let safety = home.join("rules/safety.yaml");
    let text = fs::read_to_string(&safety).unwrap();
    fs::write(
        &safety,
        text.replace("max_weekly_loss: 500", "max_weekly_loss: 50000"),
    )
    .unwrap();
    // A gate loads the new rules.
    succeed(&home, &["run", "--until-idle"]);
    let done = spoolgate(&home, &["selftest"]);
    let told = String::from_utf8_lossy(&done.stdout).into_owned();
    assert_eq!(done.status.code(), Some(1), "{told}");
    let row = told
        .lines()
        .find(|line| line.starts_with("weekly_loss_halt"))
        .unwrap();
    assert!(
        row.contains("CANNOT TRIP") && row.contains("max_weekly_loss of 50000 is not less"),
        "{row}"
    );
    let json = spoolgate(&home, &["--format", "json", "selftest"]);
    let report: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(
        (json.status.code(), &report["ok"]),
        (Some(1), &Value::Bool(false))
    );
    assert!(
        report["never_binds"]
            .as_array()
            .unwrap()
            .iter()
            .any(|found| found["limit"] == "max_weekly_loss")
    );
}

#[test]
fn the_portfolio_shows_every_limit_and_what_is_left() {
    let scratch = Scratch::with_prices();
    let home = scratch.home();
    handle(
        &scratch,
        "first",
        "order.submit",
        &order("buy", "0.02", "6700", "6600"),
    );
    let looked = || -> Value {
        serde_json::from_str(&succeed(&home, &["--format", "json", "portfolio"])).unwrap()
    };
    let mut view = looked();
    let of = |view: &Value, check: &str, of: &str| -> Value {
        let limits = view["limits"].as_array().unwrap();
        let found = limits
            .iter()
            .find(|row| row["check"] == check && row["of"] == of);
        found
            .unwrap_or_else(|| panic!("no {check} of {of} in {limits:#?}"))
            .clone()
    };
    let row = of(&view, "max_total_exposure", "account");
    let amount = |name: &str| row[name].as_str().unwrap().parse::<f64>().unwrap();
    assert!(
        (amount("used") - amount("limit") + amount("left")).abs() < 1e-9,
        "{row}"
    );
    assert!(amount("used") > 130.0 && amount("limit") == 2500.0, "{row}");
    assert_eq!(of(&view, "max_open_orders", "account")["used"], "1");
    // The halt pulls the order.
    succeed(&home, &["halt", "set", "--reason", "a drill"]);
    view = looked();
    assert_eq!(of(&view, "max_open_orders", "account")["used"], "0");
    assert!(
        of(&view, "manual_halt", "account")["closed"]
            .as_str()
            .unwrap()
            .contains("a drill")
    );
    assert!(
        of(&view, "strategy_active", "strategy range")["closed"]
            .as_str()
            .unwrap()
            .contains("is on standby")
    );
    let told = succeed(&home, &["portfolio"]);
    for check in [
        "max_total_exposure",
        "same_direction_exposure",
        "loss_budget",
        "gap_budget",
        "drawdown_halt",
        "buying_power",
        "order_rate",
    ] {
        assert!(told.contains(check), "{told}");
    }
}

#[test]
fn rule_files_that_no_gate_has_loaded_are_not_taken_for_the_rules_in_force() {
    let scratch = Scratch::with_prices();
    let said = || {
        let portfolio = succeed(&scratch.home(), &["portfolio"]);
        let tested = spoolgate(&scratch.home(), &["selftest"]);
        let remark = String::from_utf8(tested.stderr.clone()).unwrap();
        // The rules that were tested are not the rules in the files.
        let code = i32::from(remark.contains("rule file"));
        assert_eq!(tested.status.code(), Some(code), "{}", show(&tested));
        [portfolio, remark]
    };
    succeed(&scratch.home(), &["run", "--until-idle"]);
    assert!(
        said().iter().all(|text| !text.contains("rule file")),
        "{:?}",
        said()
    );
    let path = scratch.home().join("rules/safety.yaml");
    let rules = fs::read_to_string(&path).unwrap();
    for (text, words) in [
        (
            rules.replace("max_order_value: 1000", "max_order_value: 900 "),
            "are not in force yet",
        ),
        (
            rules.replace("max_order_value", "max_odrer_value"),
            "no gate has tried to load it yet",
        ),
    ] {
        assert_ne!(text, rules);
        fs::write(&path, text).unwrap();
        assert!(
            said().iter().all(|text| text.contains(words)),
            "{:?}",
            said()
        );
    }
    // A gate has loaded them and reports it once.
    succeed(&scratch.home(), &["run", "--until-idle"]);
    assert!(
        said()
            .iter()
            .all(|text| text.matches("rule file").count() == 1),
        "{:?}",
        said()
    );
    fs::write(&path, rules).unwrap();
    succeed(&scratch.home(), &["run", "--until-idle"]);
    assert!(
        said().iter().all(|text| !text.contains("rule file")),
        "{:?}",
        said()
    );
}
