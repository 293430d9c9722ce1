//! The contract's example decision, from plausible verdicts; and the same verdicts over what its
//! request states.

use spoolgate_council::aggregate::Ruling;

use super::decide;
use spoolgate_council::finding::{Evidence, Finding};
use spoolgate_rules::roles::Roles;
use spoolgate_wire::council::{
    Artifacts, Axis, CouncilDecision, CouncilRequest, RoleVerdict, Severity, Stance,
};

/// The request of the contract document.
pub(crate) fn literal() -> CouncilRequest {
    serde_json::from_str(
        r#"{"request_id": "req_123456789", "timestamp": "2025-12-09T12:00:00Z", "proposer": "QuantResearchAgent_v1",
            "change_type": "DECLARE_PASS",
            "context": {
              "summary": "Declaring that Strategy v2.1 has passed validation based on new OOS tests.",
              "files_changed": ["notes/strategy_evaluation_checklist.md"],
              "key_metrics": {"total_return": 15.4, "sharpe": 1.2, "max_dd": -4.5, "oos_win_rate": 55.0}},
            "artifacts": {
              "spec_content": "... markdown string ...", "diff_content": "... git diff string ...",
              "validation_report": "... markdown table string ...", "monte_carlo_stats": "... json string ..."}}"#,
    )
    .unwrap()
}

/// The same with artifacts in place of the words that stand for them.
pub(crate) fn request() -> CouncilRequest {
    let mut request = literal();
    let words = "word ".repeat(20);
    request.artifacts = Artifacts {
        spec_content: Some(words),
        diff_content: Some("-old\n+new\n".to_owned()),
        validation_report: Some("| sharpe | 1.2 |".to_owned()),
        monte_carlo_stats: Some(r#"{"sharpe_p5": 0.4}"#.to_owned()),
    };
    request
}

#[test]
fn the_contract_s_own_request_stands_for_artifacts_that_are_missing() {
    let roles = Roles::shipped().unwrap();
    let mut approving = votes();
    approving.retain(|vote| vote.role != "Quant Researcher");
    let told = decide(&literal(), &approving, &[plausible()], &roles).decision;
    assert_eq!(told.final_outcome, Stance::NeedsMoreInfo);
    for name in ["validation_report", "monte_carlo_stats"] {
        let issue = format!("The artifact {name} is missing.");
        assert!(told.blocking_issues.contains(&issue), "{told:?}");
    }
    // The contract's verdict counts as it says.
    let officer = votes().remove(3);
    let seat = spoolgate_council::seats::reading(literal().change_type, &officer, &roles);
    assert_eq!(seat.unwrap().verdict, Stance::Approve);
}

/// Four filed verdicts; that of the Risk Officer is from the contract document.
pub(crate) fn votes() -> Vec<RoleVerdict> {
    serde_json::from_str(
        r#"[
        {"role": "Integration Engineer", "verdict": "APPROVE", "confidence_score": 0.8,
         "checklist_results": [{"question": "Can it be undone?", "answer": "Yes, one flag", "pass": true}],
         "concerns": ["The nightly report reads the old file.", "Two dashboards have to move.", "Nobody owns the rollback."],
         "required_actions": ["Name an owner of the rollback."]},
        {"role": "Quant Researcher", "verdict": "REJECT", "confidence_score": 0.95,
         "checklist_results": [{"question": "Is there an explicit Train/Test separation?", "answer": "No", "pass": false}],
         "concerns": ["In-Sample data leakage"],
         "required_actions": ["Refactor validation script to enforce strict Train/Test split.", "Re-run backtest."]},
        {"role": "Code Auditor", "verdict": "APPROVE", "confidence_score": 0.85,
         "checklist_results": [{"question": "Does the change do what it says?", "answer": "Yes", "pass": true}],
         "concerns": ["The loader has no test of its own."], "required_actions": []},
        {"role": "Risk Officer", "verdict": "APPROVE", "confidence_score": 0.9,
         "checklist_results": [
           {"question": "Does it hold over weekend?", "answer": "No", "pass": true},
           {"question": "Max DD < limit?", "answer": "Yes, 4.5% vs 10%", "pass": true}],
         "concerns": ["Leverage seems high for this volatility regime."],
         "required_actions": ["Run stress test with 2x volatility."]}]"#,
    )
    .unwrap()
}

fn row(check_id: &str, severity: Severity, axis: Axis, failed: Option<&str>) -> Finding {
    Finding {
        check_id: check_id.to_owned(),
        question: format!("{check_id}?"),
        answer: "computed".to_owned(),
        pass: Some(failed.is_none()),
        severity,
        axis,
        headline: check_id == "RC-02",
        message: failed.map(str::to_owned),
        value: None,
        threshold: None,
        source: "key_metrics".to_owned(),
    }
}

/// The Realism Checker over a Sharpe ratio of 5.0 and an out-of-sample win rate of 39 %.
pub(crate) fn implausible() -> Evidence {
    Evidence {
        role: "Realism Checker".to_owned(),
        verdict: Stance::Reject,
        findings: vec![
            row("RC-01", Severity::Blocker, Axis::Assumptions, None),
            row(
                "RC-02",
                Severity::Major,
                Axis::RealisticNewness,
                Some("The reported Sharpe of 5.0 is statistically implausible."),
            ),
            row(
                "RC-05",
                Severity::Blocker,
                Axis::Overfitting,
                Some("OOS win rate is only 39%."),
            ),
            row(
                "RC-07",
                Severity::Minor,
                Axis::Assumptions,
                Some("Costs per trade are not stated."),
            ),
        ],
        required_actions: vec!["Re-run backtest.".to_owned()],
    }
}

/// The same over what the contract's request states: 1.2 and 55 %.
fn plausible() -> Evidence {
    Evidence {
        role: "Realism Checker".to_owned(),
        verdict: Stance::NeedsMoreInfo,
        findings: vec![
            row("RC-01", Severity::Blocker, Axis::Assumptions, None),
            row("RC-02", Severity::Major, Axis::RealisticNewness, None),
            row("RC-05", Severity::Blocker, Axis::Overfitting, None),
            row(
                "RC-07",
                Severity::Minor,
                Axis::Assumptions,
                Some("Costs per trade are not stated."),
            ),
        ],
        required_actions: vec!["Supply the number of years.".to_owned()],
    }
}

fn ruling(evidence: Evidence) -> Ruling {
    decide(
        &request(),
        &votes(),
        &[evidence],
        &Roles::shipped().unwrap(),
    )
}

/// The decision of the contract document, letter for letter.
const DECISION: &str = r#"{
  "request_id": "req_123456789",
  "final_outcome": "REJECT",
  "axis_scores": {
    "assumptions": 8.0,
    "applicability": 10.0,
    "code_correctness": 9.0,
    "realistic_newness": 4.0,
    "overfitting": 2.0,
    "implications": 7.0
  },
  "summary_reasoning": "The council REJECTS this proposal. While the code is correct and applicable, the Quant Researcher and Realism Checker flagged significant overfitting risks (Axis 5 score: 2.0). The reported Sharpe of 5.0 is statistically implausible.",
  "blocking_issues": [
    "In-Sample data leakage detected by Quant Researcher.",
    "OOS win rate is only 39%."
  ],
  "next_steps": [
    "Refactor validation script to enforce strict Train/Test split.",
    "Re-run backtest."
  ]
}"#;

#[test]
fn the_contracts_decision_is_reproduced_field_by_field() {
    let ruling = ruling(implausible());
    let expect: CouncilDecision = serde_json::from_str(DECISION).unwrap();
    assert_eq!(ruling.decision, expect);
    assert_eq!(
        serde_json::to_string_pretty(&ruling.decision).unwrap(),
        DECISION
    );
    let dissent: Vec<_> = ruling
        .deliberation
        .dissent
        .iter()
        .map(|one| one.role.as_str())
        .collect();
    assert_eq!(
        dissent,
        ["Risk Officer", "Code Auditor", "Integration Engineer"]
    );
    let results: Vec<_> = ruling
        .deliberation
        .rules
        .iter()
        .map(|rule| rule.result)
        .collect();
    let (no, open, yes) = (Stance::Reject, Stance::NeedsMoreInfo, Stance::Approve);
    assert_eq!(
        results,
        [no, no, yes, yes, yes, yes, yes, no],
        "veto, seats, complete, open, foreign, distinct, panel, floor"
    );
    assert!(open > no && ruling.deliberation.not_assessed.is_empty());
}

#[test]
fn the_same_votes_over_the_metrics_really_stated_give_something_else() {
    let ruling = ruling(plausible());
    let expect: CouncilDecision = serde_json::from_str(DECISION).unwrap();
    let decision = &ruling.decision;
    let scores = Axis::ALL.map(|axis| decision.axis_scores.get(axis).tenths());
    // Overfitting: the Quant Researcher alone, capped by its rejection; realism: unsure, and
    // nothing failed.
    assert_eq!(scores, [80, 100, 90, 60, 40, 70]);
    assert_ne!(decision.summary_reasoning, expect.summary_reasoning);
    assert!(
        !decision.summary_reasoning.contains("Sharpe")
            && !decision.summary_reasoning.contains("Realism")
    );
    assert_eq!(
        decision.blocking_issues,
        ["In-Sample data leakage detected by Quant Researcher."]
    );
    let mut calm = votes();
    calm[1].verdict = "APPROVE".to_owned();
    calm[1].checklist_results[0].pass = Some(true);
    let calm = decide(
        &request(),
        &calm,
        &[plausible()],
        &Roles::shipped().unwrap(),
    );
    assert_eq!(
        calm.decision.final_outcome,
        Stance::NeedsMoreInfo,
        "an unsure Realism Checker"
    );
    assert_eq!(calm.decision.next_steps, ["Supply the number of years."]);
}
