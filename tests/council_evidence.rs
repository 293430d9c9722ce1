//! The computed votes of the Realism Checker and the Quant Researcher: rows, limits, missing and hostile input.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::float_arithmetic,
    clippy::print_stdout,
    reason = "tests"
)]

use serde_json::{Value, json};
use spoolgate::council::evidence::{quant_researcher, realism_checker};
use spoolgate::council::finding::{Evidence, Finding};
use spoolgate::rules::evidence::EvidencePolicy;
use spoolgate::wire::council::{CouncilRequest, Severity, Stance};

fn request(metrics: Value) -> CouncilRequest {
    from(json!({"context": {"summary": "s", "key_metrics": metrics}}))
}

/// A request with these members beside the usual ones.
fn from(members: Value) -> CouncilRequest {
    let mut whole = json!({
        "request_id": "req_1", "timestamp": "2025-12-09T12:00:00Z", "proposer": "p", "change_type": "DECLARE_PASS",
        "context": {"summary": "s"}
    });
    for (name, member) in members.as_object().unwrap() {
        whole[name] = member.clone();
    }
    serde_json::from_str(&whole.to_string()).unwrap()
}

fn realism(request: &CouncilRequest) -> Evidence {
    realism_checker(request, &EvidencePolicy::default())
}

fn quant(request: &CouncilRequest) -> Evidence {
    quant_researcher(request, &EvidencePolicy::default(), 0)
}

fn row<'a>(evidence: &'a Evidence, id: &str) -> &'a Finding {
    evidence.findings.iter().find(|finding| finding.check_id == id).unwrap()
}

fn seed() -> CouncilRequest {
    let text = r#"{"request_id":"req_123456789","timestamp":"2025-12-09T12:00:00Z","proposer":"QuantResearchAgent_v1",
        "change_type":"DECLARE_PASS","context":{"summary":"Declaring that Strategy v2.1 has passed validation based on new OOS tests.",
        "files_changed":["notes/strategy_evaluation_checklist.md"],"key_metrics":
        {"total_return":15.4,"sharpe":1.2,"max_dd":-4.5,"oos_win_rate":55.0}},"artifacts":{"spec_content":"... markdown string ...",
        "diff_content":"... git diff string ...","validation_report":"... markdown table string ...","monte_carlo_stats":"... json string ..."}}"#;
    serde_json::from_str(text).unwrap()
}

#[test]
fn the_seeds_request_is_neither_approved_nor_rejected() {
    for evidence in [realism(&seed()), quant(&seed())] {
        println!("{}", serde_json::to_string_pretty(&evidence).unwrap());
        assert_eq!(evidence.verdict, Stance::NeedsMoreInfo, "{evidence:?}");
    }
}
