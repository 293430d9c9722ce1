//! What refusals of control and of admission say about trying again.

use std::collections::BTreeMap;

use crate::kit::desk::Desk;
use crate::kit::tasks::{Gate, Task};
use serde_json::{Value, json};
use spoolgate_admission::receipt::Reason;
use spoolgate_gate::Decision;
use spoolgate_home::Home;
use spoolgate_wire::code::{Code, Retry};
use spoolgate_wire::control::ControlFault;
use spoolgate_wire::repair::Repair;

const PRINCIPALS: &str = "principals:
  - {name: owner, role: human}
  - {name: bot, role: agent, strategies: [trend], admission: {domains: [{tenant: t, surface: s, \
      profile: p}], roots_per_hour: 2}}
  - {name: none, role: agent, admission: {domains: [{tenant: t, surface: s, profile: p}]}}
";
const POLICY: &str = "{max_spawn_depth: 3, recursion_budget: 5, leases_per_hour: 1}";

fn gate() -> Gate {
    Gate::new(PRINCIPALS, [("t/s/p", POLICY)])
}

#[track_caller]
fn repair(decision: &Decision) -> &Repair {
    decision.metadata.repair.as_deref().expect("a refusal")
}

fn reason(decision: &Decision) -> Option<Reason> {
    decision.receipt.as_deref()?.rejection_reason_code
}

fn root(n: u32) -> Task {
    Task::parse(&format!("r{n}@tree-{n}"))
}

/// An order and a request to the council, for which admission is a step.
fn steps() -> [(&'static str, &'static str); 2] {
    let order = r#"{"strategy":"trend","symbol":"BTC-USD","side":"buy","size":"0.01","order_type":"market","stop_price":"6600","thesis_slug":"btc-range-long","planned_entry":"6800","planned_stop":"6600"}"#;
    let case = r#"{"request_id":"case","timestamp":"2026-03-02T11:59:00Z","proposer":"A","change_type":"CODE_REFACTOR","context":{"summary":"s","files_changed":[],"key_metrics":{}}}"#;
    [("order.submit", order), ("council.request", case)]
}

#[test]
fn a_root_or_a_lease_too_many_is_told_when_there_is_room() {
    let mut gate = gate();
    assert!(gate.admit("bot", &root(1)).metadata.code.is_none());
    gate.now = gate.now.plus_ms(1000);
    assert!(gate.admit("bot", &root(2)).metadata.code.is_none());
    gate.now = gate.now.plus_ms(1000);
    let mut lease = root(1);
    lease.kind = "lease".to_owned();
    let mut body = lease.body();
    body["envelope"]
        .as_object_mut()
        .unwrap()
        .remove("causality");
    let lease =
        |gate: &mut Gate, id: &str| gate.ask("bot", id, "admission.admit", &body.to_string(), None);
    assert!(lease(&mut gate, "l1").metadata.code.is_none());
    let second = lease(&mut gate, "l2");
    assert_eq!(reason(&second), Some(Reason::LeasesExceeded));
    assert_eq!(
        (repair(&second).retry, repair(&second).retry_after_ms),
        (Retry::NewId, Some(3_600_000))
    );
    // The first root leaves the hour 3,598,000 ms from now.
    let denied = gate.admit("bot", &root(3));
    assert_eq!(reason(&denied), Some(Reason::RootsExceeded));
    let expect = (Retry::NewId, Some(3_598_000));
    assert_eq!(
        (repair(&denied).retry, repair(&denied).retry_after_ms),
        expect
    );
    let causality = root(3).causality().to_string();
    for (n, (action, payload)) in steps().into_iter().enumerate() {
        let denied = gate.ask("bot", &format!("s{n}"), action, payload, Some(&causality));
        assert_eq!(reason(&denied), Some(Reason::RootsExceeded), "{action}");
        assert_eq!(
            (repair(&denied).retry, repair(&denied).retry_after_ms),
            expect,
            "{action}"
        );
    }
    gate.now = gate.now.plus_ms(3_597_999);
    let early = gate.admit("bot", &root(4));
    assert_eq!(repair(&early).retry_after_ms, Some(1));
    gate.now = gate.now.plus_ms(1);
    assert!(gate.admit("bot", &root(5)).metadata.code.is_none());
    // No time helps without a number in the grant.
    let never = gate.admit("none", &root(6));
    assert_eq!(reason(&never), Some(Reason::RootsExceeded));
    assert_eq!(
        (repair(&never).retry, repair(&never).retry_after_ms),
        (Retry::Never, None)
    );
}

#[test]
fn a_step_says_what_its_reason_says() {
    let mut gate = gate();
    assert!(gate.admit("bot", &root(1)).metadata.code.is_none());
    for (child, expect) in [
        ("a<nobody@tree-1", Reason::UnknownParent),
        ("a<r1@tree-1", Reason::BudgetExhausted),
    ] {
        let mut task = Task::parse(child);
        task.budget = Some(json!(0));
        for (n, (action, payload)) in steps().into_iter().enumerate() {
            let id = format!("{}-{n}", expect.name());
            let causality = task.causality().to_string();
            let denied = gate.ask("bot", &id, action, payload, Some(&causality));
            assert_eq!(reason(&denied), Some(expect), "{action}");
            assert_eq!(*repair(&denied), Repair::of(expect.retry()), "{action}");
        }
    }
}

#[test]
fn all_faults_of_causality_come_at_once_and_its_id_stays_open() {
    let bad = r#"{"root_task_id":7,"parent_task_id":null,"spawn_depth":"0","caused_by_receipt_id":"r-01","depth":1}"#;
    for (action, payload) in steps() {
        let mut gate = gate();
        let denied = gate.ask("bot", "r", action, payload, Some(bad));
        assert_eq!(reason(&denied), Some(Reason::MissingFields), "{action}");
        let repair = repair(&denied);
        assert_eq!(repair.retry, Retry::SameId, "{action}");
        let pointers: Vec<&str> = repair
            .faults
            .iter()
            .map(|fault| fault.pointer.as_str())
            .collect();
        assert_eq!(
            pointers,
            [
                "/causality/root_task_id",
                "/causality/spawn_depth",
                "/causality/caused_by_receipt_id",
                "/causality/depth",
                "/causality/capability_id",
            ],
            "{action}"
        );
        let mut repaired: Value = serde_json::from_str(bad).unwrap();
        for fault in &repair.faults {
            assert!(fault.at.is_some(), "{fault:?}");
            let name = fault.pointer.rsplit('/').next().unwrap();
            match &fault.example {
                Some(example) => repaired[name] = example.clone(),
                None => drop(repaired.as_object_mut().unwrap().remove(name)),
            }
        }
        let again = gate.ask("bot", "r", action, payload, Some(&repaired.to_string()));
        assert_eq!(again.attempt, 1, "{action}");
        assert_ne!(reason(&again), Some(Reason::MissingFields), "{action}");
    }
}

#[test]
fn causality_that_only_warns_is_no_reason_to_repair() {
    let mut gate = gate();
    let asked = gate.ask(
        "bot",
        "r",
        "portfolio.get",
        "{}",
        Some(r#"{"root_task_id":7}"#),
    );
    assert_eq!(reason(&asked), Some(Reason::MissingFields));
    assert_eq!(asked.metadata, Default::default());
}

#[test]
fn an_admission_request_with_causality_beside_it_says_where() {
    let mut gate = gate();
    let mut body = root(1).body();
    body["forward"] = json!(false);
    let denied = gate.ask(
        "bot",
        "r",
        "admission.admit",
        &body.to_string(),
        Some(&root(1).causality().to_string()),
    );
    let pointers: Vec<(&str, Option<&Value>)> = repair(&denied)
        .faults
        .iter()
        .map(|fault| (fault.pointer.as_str(), fault.example.as_ref()))
        .collect();
    assert_eq!(
        pointers,
        [
            ("/payload/forward", Some(&json!(true))),
            ("/causality", None)
        ]
    );
    body["forward"] = json!(true);
    let admitted = gate.ask("bot", "r", "admission.admit", &body.to_string(), None);
    assert_eq!((admitted.metadata.code, admitted.attempt), (None, 1));
}

fn decide(desk: &Desk, home: &mut Home, who: &str, id: &str, more: Value) -> (Option<Code>, Value) {
    let mut body = json!({
        "decision_id": id, "concern_id": "paper:btc-usd", "account_id": "paper",
        "market_symbol": "btc-usd", "action": "pause", "reason": "why", "confidence": 0.9,
    });
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    let body = body.to_string();
    let outcome = match who {
        "owner" => desk.one_as_owner(home, id, "control.apply", &body),
        agent => desk.one(home, agent, id, "control.apply", &body),
    };
    let data = outcome.answer.data.expect("a response");
    (
        outcome.decision.metadata.code,
        serde_json::from_str(data.get()).unwrap(),
    )
}

#[test]
fn a_decision_that_is_too_soon_is_told_when() {
    let desk = Desk::with_limits("");
    let mut home = desk.open();
    let to = |name: &str| json!({"action": "switch", "target_strategy_id": name});
    let (code, _) = decide(&desk, &mut home, "hermes", "d1", to("range"));
    assert_eq!(code, None);
    let (code, data) = decide(&desk, &mut home, "hermes", "d2", to("trend"));
    assert_eq!(code, Some(Code::ControlRejected));
    assert_eq!(data["errors"], json!([ControlFault::TooSoon]));
    assert_eq!(
        (&data["retry"], &data["retry_after_ms"]),
        (&json!("new_id"), &data["result"]["retry_after_ms"])
    );
    assert_eq!(data["retry_after_ms"], 60_000);
    desk.place.pass_s(59);
    let (_, data) = decide(&desk, &mut home, "hermes", "d3", to("trend"));
    assert_eq!(data["retry_after_ms"], 1000);
    desk.place.pass_s(1);
    let (code, data) = decide(&desk, &mut home, "hermes", "d4", to("trend"));
    assert_eq!((code, data.get("retry")), (None, None));

    // What a person holds is not lifted by waiting, and the same decision is answered the same.
    let (code, _) = decide(&desk, &mut home, "owner", "d5", json!({}));
    assert_eq!(code, None);
    let resume = json!({"action": "resume"});
    let (_, data) = decide(&desk, &mut home, "hermes", "d6", resume);
    assert_eq!(data["errors"], json!(["held_by_person", "too_soon"]));
    assert_eq!(
        (&data["retry"], data.get("retry_after_ms")),
        (&json!("never"), None)
    );
    assert_eq!(data["result"].get("retry_after_ms"), None);
}

#[test]
fn the_same_decision_is_told_the_same() {
    let desk = Desk::with_limits("");
    let mut home = desk.open();
    let body = json!({
        "decision_id": "d", "concern_id": "paper:btc-usd", "account_id": "paper",
        "market_symbol": "btc-usd", "action": "resume", "reason": "why", "confidence": 0.9,
    });
    let (code, _) = decide(&desk, &mut home, "owner", "d1", json!({}));
    assert_eq!(code, None);
    let told: Vec<BTreeMap<String, Value>> = ["r1", "r2"]
        .into_iter()
        .map(|id| {
            let outcome = desk.one(&mut home, "hermes", id, "control.apply", &body.to_string());
            serde_json::from_str(outcome.answer.data.unwrap().get()).unwrap()
        })
        .collect();
    assert_eq!(told[0]["retry"], "never");
    assert_eq!(told[0], told[1]);
}
