//! A day of a home in memory that has every kind of line.

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};
use spoolgate_gate::approvals::Hold;
use spoolgate_home::Home;
use spoolgate_host::clock::Clock;

use super::Files;
use crate::kit::desk::{Desk, order};
use crate::kit::place::drain;

const LIMITS: &str = "dead_man: {timeout_s: 60, action: liquidate_all}\nhold_expires_s: 600";

fn buy(size: &str, price: Option<&str>) -> String {
    order("trend", "buy", size, price, "btc-range-long")
}

/// Sends an order that a rule holds.
fn hold(desk: &Desk, home: &mut Home, id: &str) -> Hold {
    let order = order("trend", "buy", "0.003", Some("6750"), "btc-dip-long");
    let outcome = desk.one(home, "trend-bot", id, "order.submit", &order);
    let found = home.state().approvals.iter().next().cloned();
    found.unwrap_or_else(|| panic!("not held: {outcome:?}"))
}

fn end(desk: &Desk, home: &mut Home, hold: &Hold, id: &str, action: &str) {
    let payload = json!({"id": hold.id, "request_sha256": hold.request_sha256}).to_string();
    desk.place.ask_as_owner(id, action, &payload);
    let outcomes = drain(home).unwrap();
    assert_eq!(outcomes.len(), 2, "{outcomes:?}");
}

fn rule(desk: &Desk, id: &str, size: &str, then: &str) {
    let when = format!("[{{field: order.size, op: lt, value: {size}}}]");
    let text = format!(
        "id: {id}\nstatus: active\napplies_to: {{action: order.submit}}\nwhen: {when}\nthen: \
            {then}\nmessage: \"{id}\"\n"
    );
    desk.edit(&format!("rules/core/{id}.yaml"), |_| text.clone());
}

fn requests(desk: &Desk, home: &mut Home) {
    let place = &desk.place;
    // Accepted, sent again, its id used by another request, and sent to the wrong spool.
    let bought = desk.one(
        home,
        "trend-bot",
        "buy-1",
        "order.submit",
        &buy("0.01", None),
    );
    assert!(bought.answer.error.is_none(), "{bought:?}");
    let sent = place.disk.get("spool/out/buy-1.json").unwrap();
    desk.ask("trend-bot", "buy-1", "order.submit", &buy("0.01", None));
    drain(home).unwrap();
    assert_eq!(place.disk.get("spool/out/buy-1.json").unwrap(), sent);
    desk.ask("trend-bot", "buy-1", "order.submit", &buy("0.011", None));
    desk.ask("trend-bot", "look", "portfolio.get", "{}");
    drain(home).unwrap();
    // A file that is not a request.
    place.disk.put("spool/in/junk.json", b"{");
    place.disk.put("spool/in/other.json", br#"{"id":"x"}"#);
    place.disk.put("spool/in/a b.json", b"{}");
    let key = spoolgate_wire::signing::SignKey::Hmac([99; 32]);
    place.ask(
        &key,
        "trend-bot",
        "forged",
        "order.submit",
        &buy("0.01", None),
    );
    // Payloads that do not fit their action, small and large; and an action that does not exist.
    desk.ask("trend-bot", "odd", "order.submit", r#"{"a":1}"#);
    desk.ask(
        "trend-bot",
        "odd-large",
        "council.request",
        &format!(r#"{{"a":"{}"}}"#, "x".repeat(20_000)),
    );
    desk.ask(
        "trend-bot",
        "too-large",
        "order.submit",
        &format!(r#"{{"a":"{}"}}"#, "x".repeat(80_000)),
    );
    desk.ask("trend-bot", "unknown", "order.dream", "{}");
    desk.ask("trend-bot", "not-mine", "halt.clear", r#"{"reason":"x"}"#);
    // The gate waits for what may be half-written.
    for _ in 0..3 {
        drain(home).unwrap();
        place.pass_s(3);
    }
    desk.bar(home, "6800", "6790");
    desk.ask("trend-bot", "orders", "orders.list", "{}");
    desk.ask(
        "trend-bot",
        "fills",
        "fills.list",
        r#"{"since":"2026-03-01T00:00:00Z"}"#,
    );
    for list in [
        "instruments.list",
        "theses.list",
        "cases.list",
        "proposals.list",
        "rules.list",
    ] {
        desk.ask("trend-bot", list, list, "{}");
    }
    drain(home).unwrap();
}

fn control(id: &str) -> String {
    json!({
        "decision_id": id, "concern_id": "paper:btc-usd", "account_id": "paper",
            "market_symbol": "btc-usd",
        "action": "pause", "reason": "why", "confidence": 0.9,
    })
    .to_string()
}

fn holds(desk: &Desk, home: &mut Home) {
    hold(desk, home, "held-3");
    desk.place.pass_s(601);
    drain(home).unwrap();
    assert_eq!(home.state().approvals.iter().count(), 0);
    desk.bar(home, "6800", "6800");
    for (id, action) in [("held-2", "approval.deny"), ("held-1", "approval.grant")] {
        let held = hold(desk, home, id);
        end(desk, home, &held, &format!("{id}-end"), action);
        // Sent again, it gets the final answer.
        let order = order("trend", "buy", "0.003", Some("6750"), "btc-dip-long");
        desk.ask("trend-bot", id, "order.submit", &order);
        drain(home).unwrap();
    }
}

fn case(id: &str) -> String {
    json!({
        "request_id": id, "timestamp": "2026-03-02T11:59:00Z", "proposer": "QuantResearchAgent_v1",
        "change_type": "CODE_REFACTOR",
        "context": {"summary": "s", "files_changed": ["a.md"], "key_metrics": {"sharpe": 1.2}},
        "artifacts": {"spec_content": "# Spec", "diff_content": "x".repeat(10_000)},
    })
    .to_string()
}

fn council(desk: &Desk, home: &mut Home) {
    desk.one(
        home,
        "research-bot",
        "case-1",
        "council.request",
        &case("req_1"),
    );
    desk.one(
        home,
        "research-bot",
        "case-2",
        "council.request",
        &case("req_1"),
    );
    desk.ask("hermes", "c1", "control.apply", &control("d1"));
    desk.ask("hermes", "c2", "control.apply", &control("d1"));
    drain(home).unwrap();
    // The owner holds the pause, and the agent may not end it.
    let resume = |id: &str| control(id).replace("pause", "resume");
    let owner = |id: &str, payload: &str| desk.place.ask_as_owner(id, "control.apply", payload);
    owner("c3", &control("d2"));
    drain(home).unwrap();
    desk.one(home, "hermes", "c4", "control.apply", &resume("d3"));
    owner("c5", &resume("d4"));
    drain(home).unwrap();
    let later = json!(desk.place.clock.now().plus_ms(-901_000)).to_string();
    for (id, action) in [("d5", "resume"), ("d6", "pause")] {
        let members = format!("\"requested_at\":{later},\"reason\"");
        let payload = control(id).replace("pause", action);
        let payload = payload.replace("\"reason\"", &members);
        desk.one(home, "hermes", id, "control.apply", &payload);
    }
    // No role answers: the case is decided at its deadline.
    desk.place.pass_s(8 * 86_400);
    drain(home).unwrap();
    drain(home).unwrap();
}

fn rules(desk: &Desk, home: &mut Home) {
    let evidence = json!({"summary": "s", "sample_size": 2, "ledger_seqs": [4, 5]});
    let proposed: Value = json!({"Activate": {"rule": {
        "id": "no-more", "status": "active", "applies_to": {"action": "order.submit",
            "principal": ["trend-bot"]},
        "when": [{"field": "order.size", "op": "gt", "value": "0.5"}], "then": "reject",
            "message": "no more",
    }, "evidence": evidence}});
    desk.one(
        home,
        "trend-bot",
        "p1",
        "rule.propose",
        &proposed.to_string(),
    );
    let loosen = json!({"Suspend": {"rule_id": "look-first", "reason": "r", "evidence": evidence}});
    desk.one(home, "trend-bot", "p2", "rule.propose", &loosen.to_string());
    desk.one(home, "trend-bot", "p3", "rule.propose", &loosen.to_string());
    drain(home).unwrap();
    // Rule files that cannot be used, and then can be used again.
    desk.edit("rules/core/broken.yaml", |_| "no rule\n".to_owned());
    for _ in 0..4 {
        desk.place.pass_s(2);
        home.write_news().unwrap();
    }
    fs::remove_file(desk.place.root.path().join("rules/core/broken.yaml")).unwrap();
    for _ in 0..4 {
        desk.place.pass_s(2);
        home.write_news().unwrap();
    }
}

/// The agent is silent, and its position is closed; then the halt file, the clock, a quota.
fn absent(desk: &Desk, home: &mut Home) {
    let place = &desk.place;
    home.begin_watching();
    desk.bar(home, "6800", "6800");
    for _ in 0..70 {
        place.pass_s(1);
        drain(home).unwrap();
    }
    desk.bar(home, "6790", "6790");
    place.disk.leave(Some(1 << 20));
    desk.one(home, "trend-bot", "beat", "heartbeat", "{}");
    place.disk.leave(None);
    desk.one(home, "trend-bot", "again", "heartbeat", "{}");
    place.disk.put("rules/HALT", b"");
    home.write_news().unwrap();
    place.disk.drop_file("rules/HALT");
    home.write_news().unwrap();
    home.note(spoolgate_gate::EventKind::Quota, "files wait");
    home.write_news().unwrap();
    home.mark_published().unwrap();
    place.clock.set(place.clock.now().plus_ms(-10_000));
    home.write_news().unwrap();
    place.ask_as_owner("clock", "clock.accept", r#"{"reason":"seen"}"#);
    drain(home).unwrap();
    home.write_news().unwrap();
}

fn live() -> Desk {
    let desk = Desk::with_limits(LIMITS);
    fs::create_dir_all(desk.place.root.path().join("rules/core")).unwrap();
    rule(&desk, "look-first", "0.004", "hold");
    let mut home = desk.open();
    home.note(spoolgate_gate::EventKind::Start, "a run started");
    requests(&desk, &mut home);
    holds(&desk, &mut home);
    desk.bar(&mut home, "6800", "6800");
    rules(&desk, &mut home);
    absent(&desk, &mut home);
    council(&desk, &mut home);
    home.finish("the end").unwrap();
    drop(home);
    // A second process.
    let mut home = desk.open();
    drain(&mut home).unwrap();
    home.finish("the end").unwrap();
    drop(home);
    desk
}

/// Returns everything that the day left on the disk.
pub(super) fn home() -> Files {
    let desk = live();
    [
        desk.place.disk.files_below("audit"),
        desk.place.disk.files_below("spool/out"),
    ]
    .concat()
}

/// Returns the audit folder.
pub(super) fn audit() -> Files {
    live().place.disk.files_below("audit")
}

/// Returns the audit folder, and the keys that its log is written with.
pub(super) fn audit_with_keys() -> (Files, spoolgate_host::keyring::LogKeys) {
    let desk = live();
    (desk.place.disk.files_below("audit"), desk.place.log_keys())
}

/// Returns the index of the line whose text contains these parts.
pub(super) fn line_with(lines: &[Vec<u8>], parts: &[&str]) -> usize {
    let holds = |line: &&Vec<u8>| {
        let text = String::from_utf8_lossy(line);
        parts.iter().all(|part| text.contains(part))
    };
    let found: BTreeMap<usize, &Vec<u8>> = lines
        .iter()
        .enumerate()
        .filter(|(_, line)| holds(line))
        .collect();
    *found
        .keys()
        .next()
        .unwrap_or_else(|| panic!("no line with {parts:?}"))
}
