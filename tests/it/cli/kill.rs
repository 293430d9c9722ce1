//! `kill`: what it prints and how it ends, with and without a gate, a bridge, rules and keys.

use std::fs;
use std::path::Path;

use super::{err, out};
use crate::kit::process::Running;
use crate::kit::venue::enable_outbox;
use crate::kit::{Scratch, Sent, sign, spoolgate, succeed};
use serde_json::{Value, json};
use spoolgate_wire::signing::SignKey;

/// Submits a buy of BTC-USD: at a price, or at the market.
fn buy(scratch: &Scratch, id: &str, price: Option<&str>) -> String {
    let mut order = json!({"strategy": "trend", "symbol": "BTC-USD", "side": "buy", "size": "0.002",
        "order_type": "market", "stop_price": "6600", "thesis_slug": "btc-range-long",
        "planned_entry": "6800", "planned_stop": "6600"});
    if let Some(price) = price {
        order["order_type"] = json!("limit");
        order["price"] = json!(price);
        order["planned_entry"] = json!(price);
    }
    let request = scratch.request(id, "order.submit", &order.to_string());
    let file = scratch.beside(&format!("{id}.json"));
    fs::write(&file, request).unwrap();
    let answer = succeed(
        &scratch.home(),
        &["--format", "json", "handle", file.to_str().unwrap()],
    );
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let id = answer["data"]["Accepted"]["order_id"].as_str();
    id.unwrap_or_else(|| panic!("{answer}")).to_owned()
}

/// Runs `kill` with these options and returns its exit code and its JSON.
fn kill(home: &Path, options: &[&str]) -> (i32, Value) {
    let command = ["--format", "json", "kill", "--reason", "drill"];
    let done = spoolgate(home, &[&command, options].concat());
    let told = serde_json::from_str(&out(&done))
        .unwrap_or_else(|error| panic!("{error}: {}{}", out(&done), err(&done)));
    (done.status.code().unwrap(), told)
}

#[test]
fn entries_go_with_and_without_a_gate() {
    for has_gate in [false, true] {
        let scratch = Scratch::with_prices();
        let home = scratch.home();
        let id = buy(&scratch, "rest", Some("6740"));
        let gate = has_gate.then(|| Running::watching(&home));
        let done = spoolgate(&home, &["kill", "--strategy", "trend", "--reason", "drill"]);
        assert_eq!(done.status.code(), Some(0), "{}{}", out(&done), err(&done));
        let said = out(&done);
        let mut lines = said.lines();
        let first = lines.next().unwrap();
        assert!(
            first.ends_with(": entries closed for strategy trend"),
            "{said}"
        );
        assert_eq!(
            lines.next(),
            Some("entries     1    pulled 1, gone 1"),
            "{said}"
        );
        assert_eq!(lines.next(), Some("positions   0"), "{said}");
        let told = succeed(&home, &["explain", &id]);
        assert!(told.contains("manual_halt"), "{told}");
        // Nothing is left to do, and the halt is there until a person clears it.
        let (code, again) = kill(&home, &["--flatten"]);
        assert_eq!((code, &again["not_confirmed"]), (0, &json!([])), "{again}");
        assert!(succeed(&home, &["status"]).contains("positions are closed"));
        succeed(&home, &["halt", "clear", "--reason", "r"]);
        succeed(
            &home,
            &["halt", "clear", "--strategy", "trend", "--reason", "r"],
        );
        assert!(!succeed(&home, &["status"]).contains("halted by"));
        if let Some(gate) = gate {
            gate.stop();
        }
        succeed(&home, &["audit", "replay"]);
    }
}

/// A home that holds 0.002 BTC at the venue behind `exchange`, and the bridge's key.
fn holding() -> (Scratch, SignKey) {
    let scratch = Scratch::with_prices();
    let key = enable_outbox(&scratch);
    let held = buy(&scratch, "held", None);
    trade(&scratch, &key, "T1", &held);
    (scratch, key)
}

/// Reports that an order of 0.002 traded.
fn trade(scratch: &Scratch, key: &SignKey, exec: &str, order: &str) {
    let trade = json!({"order_id": order, "exec_id": exec, "exec_type": "trade",
        "transact_time": "2026-02-21T12:00:30Z", "last_qty": "0.002", "last_px": "6790",
        "fee": "0.01", "liquidity": "taker", "cum_qty": "0.002"});
    let report = sign(key, "exchange", exec, "venue.report", &trade.to_string());
    Sent::new(&format!("{exec}.json"), report).drop_into(&scratch.home());
    succeed(&scratch.home(), &["run", "--until-idle"]);
}

#[test]
fn a_dead_bridge_ends_it_with_8_and_the_list() {
    let (scratch, _) = holding();
    let home = scratch.home();
    let thesis = home.join("proposals/theses/btc-range-long.md");
    let text = fs::read_to_string(&thesis).unwrap();
    let text = text.replace("slug: btc-range-long", "slug: second");
    fs::write(home.join("proposals/theses/second.md"), text).unwrap();
    let rest = json!({"strategy": "trend", "symbol": "BTC-USD", "side": "buy", "size": "0.002",
        "order_type": "limit", "price": "6740", "stop_price": "6600", "thesis_slug": "second",
        "planned_entry": "6740", "planned_stop": "6600"});
    let rest = scratch.request("rest", "order.submit", &rest.to_string());
    Sent::new("rest.json", rest).drop_into(&home);
    succeed(&home, &["run", "--until-idle"]);
    let orders = succeed(&home, &["--format", "json", "orders"]);
    let entry = orders
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .find(|order| order["role"] == "entry")
        .unwrap_or_else(|| panic!("{orders}"));
    let entry = entry["order_id"].as_str().unwrap();
    // The bridge has taken it, and died.
    fs::remove_file(home.join(format!("spool/outbox/exchange/{entry}.1.json"))).unwrap();
    let (code, told) = kill(&home, &["--bridge", "exchange", "--flatten", "--wait", "1"]);
    assert_eq!(code, 8, "{told}");
    let line = told["line"].as_str().unwrap().to_owned();
    assert_eq!(
        told["entries"]["waiting"],
        json!({"exchange": [entry]}),
        "{told}"
    );
    let flatten = told["positions"][0]["order"].as_str().unwrap().to_owned();
    assert!(flatten.ends_with("-flatten"), "{told}");
    assert_eq!(told["not_confirmed"], json!([entry, flatten]), "{told}");
    assert!(
        told["bridges"][0]["untaken"].as_u64().unwrap() >= 2,
        "{told}"
    );
    let done = spoolgate(
        &home,
        &["kill", "--flatten", "--wait", "1", "--reason", "again"],
    );
    assert_eq!(done.status.code(), Some(8));
    let said = out(&done);
    assert!(said.contains("waiting for `exchange` 1"), "{said}");
    assert!(
        said.contains(&format!("{flatten} not answered by `exchange`")),
        "{said}"
    );
    assert!(
        said.contains("(exit code 8; `spoolgate orders` tells more)"),
        "{said}"
    );
    assert!(
        said.contains(&format!("after 1 s: {entry} {flatten}")),
        "{said}"
    );
    assert!(line.parse::<u64>().is_ok(), "{line}");
    succeed(&home, &["audit", "replay"]);
}

#[test]
fn what_cannot_be_is_refused_with_what_would_work() {
    let scratch = Scratch::with_prices();
    let home = scratch.home();
    for (options, code, expect) in [
        (&["--strategy", "nobody"][..], 1, "`trend`"),
        (&["--symbol", "XRP-USD"], 1, "`BTC-USD`"),
        (&["--bridge", "exchange"], 1, "there is no bridge"),
        (
            &["--bridge", "b", "--strategy", "trend"],
            2,
            "name at most one",
        ),
        (&["--wait", "-1"], 2, "seconds up to 3600"),
        (&["--wait", "3601"], 2, "seconds up to 3600"),
        (&["--wait", "1.5"], 2, "seconds up to 3600"),
        (&["--wait", "x"], 2, "seconds up to 3600"),
    ] {
        let command = ["kill", "--reason", "drill"];
        let done = spoolgate(&home, &[&command, options].concat());
        assert_eq!(
            done.status.code(),
            Some(code),
            "{options:?}: {}",
            err(&done)
        );
        assert!(err(&done).contains(expect), "{options:?}: {}", err(&done));
    }
    assert!(!home.join("rules/HALT").exists());
    let done = spoolgate(&home, &["kill", "--reason", " "]);
    assert_eq!(done.status.code(), Some(2), "{}", err(&done));
    for wait in ["0", "1", "3600"] {
        let (code, told) = kill(&home, &["--wait", wait]);
        assert_eq!(code, 0, "{told}");
    }
}

#[test]
fn a_drill_changes_nothing_and_is_recorded() {
    let (scratch, _) = holding();
    let home = scratch.home();
    let doctor = || out(&spoolgate(&home, &["doctor"]));
    assert!(doctor().contains("the kill switch was never drilled"));
    let orders = succeed(&home, &["--format", "json", "orders"]);
    let drill = ["kill", "--drill", "--reason", "quarterly"];
    let said = succeed(&home, &drill);
    let lines: Vec<&str> = said.lines().collect();
    assert!(
        lines[0].ends_with(": a drill; nothing was changed"),
        "{said}"
    );
    assert_eq!(lines[1], "entries     0    would be pulled");
    assert_eq!(lines[2], "exits       0    would be retired by --flatten");
    assert_eq!(lines[3], "positions   1    would be closed by --flatten");
    assert!(lines[4].starts_with("exchange    1    instructions; it last reported "));
    assert!(lines[4].contains("untaken for"), "{said}");
    assert_eq!(orders, succeed(&home, &["--format", "json", "orders"]));
    assert!(doctor().contains("the kill switch was drilled at"));
    let told = succeed(&home, &[&["--format", "json"][..], &drill].concat());
    let told: Value = serde_json::from_str(&told).unwrap();
    let counts = &told["data"]["HaltSet"]["drill"];
    assert_eq!(counts["positions"], 1, "{told}");
    assert!(counts["bridges"][0]["heard_ms"].is_u64(), "{told}");
    let line = told["auditRef"].as_str();
    let line = line.unwrap_or_else(|| panic!("{told}"));
    assert!(succeed(&home, &["audit", "show", line]).contains("heard_ms"));
    for (options, code) in [
        (&["--strategy", "nobody"][..], 1),
        (&["--wait", "3"], 2),
        (&["--flatten"], 2),
    ] {
        let done = spoolgate(&home, &[&drill[..], options].concat());
        assert_eq!(done.status.code(), Some(code), "{options:?}");
    }
    // A drill that cannot be recorded halts nobody.
    let keyring = fs::read(home.join("state/keyring.db")).unwrap();
    fs::write(home.join("state/keyring.db"), "not a database").unwrap();
    assert_eq!(spoolgate(&home, &drill).status.code(), Some(6));
    assert!(!home.join("rules/HALT").exists());
    fs::write(home.join("state/keyring.db"), keyring).unwrap();
    succeed(&home, &["audit", "replay"]);
}

/// An agent whose key is at hand halts only itself, and the command says so.
#[test]
fn an_agents_kill_names_the_agent_and_a_filled_order_is_not_called_cancelled() {
    let scratch = Scratch::with_prices();
    let home = scratch.home();
    let rest = buy(&scratch, "rest", Some("6740"));
    for (command, expect) in [
        (&["kill"][..], ": entries closed for trend-bot"),
        (&["halt", "set"], "entries of `trend-bot` are halted"),
    ] {
        let own = ["--as", "trend-bot", "--reason", "drill"];
        let said = succeed(&home, &[command, &own].concat());
        assert!(said.contains(expect), "{said}");
    }
    let said = succeed(&home, &["order", "cancel", &rest, "--reason", "r"]);
    assert!(said.contains("was pulled"), "{said}");
    let mut pause = fs::read_to_string(home.join("rules/safety.yaml")).unwrap();
    pause = pause.replace(
        "restricted: []",
        "restricted: [{from: \"00:00\", to: \"23:59\"}]",
    );
    fs::write(home.join("rules/safety.yaml"), pause).unwrap();
    succeed(&home, &["run", "--until-idle"]);
    succeed(
        &home,
        &["halt", "clear", "--principal", "trend-bot", "--reason", "r"],
    );
    let status = succeed(&home, &["status"]);
    assert!(status.contains("`time_window`"), "{status}");
}

#[test]
fn without_rules_or_a_keyring() {
    let (scratch, key) = holding();
    let home = scratch.home();
    fs::write(home.join("rules/safety.yaml"), "no_such_key: 1\n").unwrap();
    // Without the keyring only the file is left.
    let keyring = fs::read(home.join("state/keyring.db")).unwrap();
    fs::write(home.join("state/keyring.db"), "not a database").unwrap();
    let command = ["kill", "--flatten", "--wait", "1", "--reason", "drill"];
    let done = spoolgate(&home, &command);
    assert_eq!(done.status.code(), Some(8), "{}{}", out(&done), err(&done));
    let halt = fs::read_to_string(home.join("rules/HALT")).unwrap();
    assert_eq!(halt, "flatten\n");
    let done = spoolgate(&home, &[&command[..], &["--strategy", "trend"]].concat());
    assert!(err(&done).contains("closes no positions"), "{}", err(&done));
    fs::remove_file(home.join("rules/HALT")).unwrap();
    fs::write(home.join("state/keyring.db"), keyring).unwrap();
    // Without any rules no gate starts, and the reason is told once.
    let (kept, away) = (home.join("audit/rulebooks"), home.join("audit/away"));
    fs::rename(&kept, &away).unwrap();
    let done = spoolgate(&home, &command);
    assert_eq!(done.status.code(), Some(8), "{}{}", out(&done), err(&done));
    assert_eq!(
        err(&done).matches("No such file").count(),
        3,
        "{}",
        err(&done)
    );
    fs::rename(&away, &kept).unwrap();
    fs::remove_file(home.join("rules/HALT")).unwrap();
    let (code, told) = kill(&home, &["--flatten", "--wait", "1"]);
    assert_eq!(
        (code, &told["halted_by"]),
        (8, &json!("halt.set")),
        "{told}"
    );
    let flatten = told["not_confirmed"][0].as_str().unwrap();
    // The stop makes room for it first.
    let orders = succeed(&home, &["--format", "json", "orders"]);
    let mut orders = orders
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let stop = orders.find(|order| order["role"] == "protective").unwrap();
    let gone = json!({"order_id": stop["order_id"], "exec_id": "C1", "exec_type": "canceled",
        "transact_time": "2026-02-21T12:00:30Z", "cum_qty": 0});
    let report = sign(&key, "exchange", "C1", "venue.report", &gone.to_string());
    Sent::new("C1.json", report).drop_into(&home);
    succeed(&home, &["run", "--until-idle"]);
    trade(&scratch, &key, "T2", flatten);
    let (code, told) = kill(&home, &["--flatten", "--wait", "1"]);
    assert_eq!((code, &told["positions"]), (0, &json!([])), "{told}");
    succeed(&home, &["audit", "replay"]);
}

/// An agent named as the sender may not close positions, and is told so: nobody is halted for it.
#[test]
fn a_sender_that_may_not_is_told_so() {
    let scratch = Scratch::with_prices();
    let home = scratch.home();
    let command = ["kill", "--flatten", "--as", "trend-bot", "--reason", "r"];
    let done = spoolgate(&home, &command);
    assert_eq!(done.status.code(), Some(1), "{}{}", out(&done), err(&done));
    assert!(err(&done).contains("only a person"), "{}", err(&done));
    assert!(!home.join("rules/HALT").exists());
    let status = succeed(&home, &["status"]);
    assert!(
        status.contains("entries open") || status.contains("entries     open"),
        "{status}"
    );
}
