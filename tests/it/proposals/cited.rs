//! Proposals that cite a case of the council.

use serde_json::{Value, json};
use spoolgate_gate::proposals::{Approver, Change as Step};
use spoolgate_home::Home;
use spoolgate_wire::code::Code;
use spoolgate_wire::ids::Principal;
use spoolgate_wire::signing::sha256_hex;

use super::gate::{Gate, acknowledged, activate, code, message, own_rule, step};

/// Opens a case on `named`, with verdicts of the auditor and the engineer. Returns its request.
fn case(gate: &Gate, home: &mut Home, n: u8, named: &str, stance: &str) -> String {
    let id = format!("req-{n}");
    let request = json!({
        "request_id": id, "timestamp": "2026-03-02T11:59:00Z", "proposer": "Trend bot",
        "change_type": "CODE_REFACTOR",
        "context": {"summary": "A cap on sizes.", "files_changed": [named], "key_metrics": {}},
        "artifacts": {"diff_content": "+id: cap"},
    })
    .to_string();
    let proposer = gate.key_of(home, "research-bot", 20 + 3 * n);
    let asked = gate.asks(home, &proposer, "research-bot", "council.request", &request);
    assert_eq!(code(&asked), None, "{asked:?}");
    for (at, role, name) in [
        (1, "Code Auditor", "code-auditor"),
        (2, "Integration Engineer", "integration-engineer"),
    ] {
        vote(gate, home, (20 + 3 * n + at, name, role), &request, stance);
    }
    request
}

/// Files a verdict of `(key, principal, role)` on a request.
fn vote(gate: &Gate, home: &mut Home, by: (u8, &str, &str), request: &str, stance: &str) {
    let (seed, name, role) = by;
    let key = gate.key_of(home, name, seed);
    let asked: Value = serde_json::from_str(request).unwrap();
    let verdict = json!({
        "request_id": asked["request_id"], "request_sha256": sha256_hex(request.as_bytes()),
        "verdict": {
            "role": role, "verdict": stance, "confidence_score": 0.9,
            "checklist_results": [{"question": "is it small", "answer": "yes", "pass": true}],
            "concerns": [], "required_actions": [],
        },
    });
    let said = gate.asks(home, &key, name, "council.verdict", &verdict.to_string());
    assert_eq!(code(&said), None, "{said:?}");
}

fn citing(id: &str) -> Value {
    let mut rule = own_rule("cap", "5");
    rule["applies_to"] = json!({"action": "order.submit"});
    let mut proposal = activate(rule);
    proposal["Activate"]["evidence"]["council_request_id"] = json!(id);
    proposal
}

#[test]
fn a_case_that_approved_this_very_payload_counts_and_people_still_decide() {
    let gate = Gate::new();
    let mut home = gate.open();
    let proposal = citing("req-1");
    let named = format!("proposal:{}", sha256_hex(proposal.to_string().as_bytes()));
    // Before the case exists, and while it is not decided.
    assert_eq!(
        code(&gate.propose(&mut home, &proposal)),
        Some(Code::CitationFalse)
    );
    case(&gate, &mut home, 1, &named, "APPROVE");
    let outcome = gate.propose(&mut home, &proposal);
    let (id, auto) = acknowledged(&outcome);
    assert!(!auto);
    let Step::Pended { file_sha256, .. } = step(&outcome) else {
        panic!()
    };
    assert!(
        gate.read(&format!("proposals/pending/{id}.yaml"))
            .contains("council_request_id: req-1")
    );
    let approve = json!({"id": id, "sha256": file_sha256});
    let outcome = gate.owner_asks(&mut home, "proposal.approve", &approve);
    let Step::Applied { proposed, by, .. } = step(&outcome) else {
        panic!("{outcome:?}")
    };
    assert_eq!(by, Approver::Person(Principal::parse("owner").unwrap()));
    assert_eq!(
        proposed
            .evidence
            .unwrap()
            .council_request_id
            .unwrap()
            .as_str(),
        "req-1"
    );
    assert!(gate.read("rules/active/cap.yaml").contains("id: cap"));
}

#[test]
fn a_case_on_something_else_or_with_another_outcome_does_not() {
    let gate = Gate::new();
    let mut home = gate.open();
    let proposal = citing("req-1");
    case(
        &gate,
        &mut home,
        1,
        &format!("proposal:{}", "0".repeat(64)),
        "APPROVE",
    );
    let outcome = gate.propose(&mut home, &proposal);
    assert_eq!(code(&outcome), Some(Code::CitationFalse));
    assert!(
        message(&outcome).contains("does not name"),
        "{}",
        message(&outcome)
    );
    let proposal = citing("req-2");
    let named = format!("proposal:{}", sha256_hex(proposal.to_string().as_bytes()));
    case(&gate, &mut home, 2, &named, "REJECT");
    let outcome = gate.propose(&mut home, &proposal);
    assert_eq!(code(&outcome), Some(Code::CitationFalse));
    assert!(
        message(&outcome).contains("REJECT"),
        "{}",
        message(&outcome)
    );
}

#[test]
fn an_objection_takes_a_case_away_from_proposals() {
    let gate = Gate::new();
    let mut home = gate.open();
    let proposal = citing("req-1");
    let named = format!("proposal:{}", sha256_hex(proposal.to_string().as_bytes()));
    let request = case(&gate, &mut home, 1, &named, "APPROVE");
    let auditor = (60, "code-auditor", "Code Auditor");
    vote(&gate, &mut home, auditor, &request, "REJECT");
    let outcome = gate.propose(&mut home, &proposal);
    assert_eq!(code(&outcome), Some(Code::CitationFalse));
    let why = "the outcome of case `req-1` is REJECT";
    assert!(message(&outcome).contains(why), "{}", message(&outcome));
}
