//! The contract's example decision through the whole gate: five filed verdicts and the gate's own
//! computation, in the demo. With the figures that the contract's request really states, the same
//! verdicts do not give that decision.

use std::process::Command;

use serde_json::{Value, json};

use crate::council_rules::example;

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_spoolgate"))
}

#[test]
fn the_demo_s_case_is_decided_as_the_contract_shows() {
    let scratch = crate::kit::folder();
    let home = scratch.path().join("home");
    let done = program()
        .args(["--format", "json", "demo"])
        .arg(&home)
        .output()
        .unwrap();
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    let told: Value = serde_json::from_slice(&done.stdout).unwrap();
    let expected = json!({
        "request_id": "trend-v2-1-passes",
        "final_outcome": "REJECT",
        "axis_scores": {"assumptions": 8.0, "applicability": 10.0, "code_correctness": 9.0,
            "realistic_newness": 4.0, "overfitting": 2.0, "implications": 7.0},
        "summary_reasoning": "The council REJECTS this proposal. While the code is correct and \
            applicable, the Quant Researcher and Realism Checker flagged significant overfitting \
            risks (Axis 5 score: 2.0). The reported Sharpe of 5.0 is statistically implausible.",
        "blocking_issues": ["In-Sample data leakage detected by Quant Researcher.",
            "OOS win rate is only 39%."],
        "next_steps": ["Refactor validation script to enforce strict Train/Test split.",
            "Re-run backtest."],
    });
    assert_eq!(told["council"], expected);
    // The record beside it has the same content, and the ledger alone gives it again.
    let mut show = program();
    show.arg("--home").arg(&home).args([
        "--format",
        "json",
        "council",
        "show",
        "trend-v2-1-passes",
    ]);
    let shown = show.output().unwrap();
    assert!(
        shown.status.success(),
        "{}",
        String::from_utf8_lossy(&shown.stderr)
    );
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(shown["decision"], expected);
    assert_eq!(shown["recomputes"], true);
    let alias = shown["alias"].as_str().unwrap();
    for path in [
        "spool/out/trend-v2-1-passes.decision.json",
        &format!("council/cases/{alias}/decision.json"),
    ] {
        let file: Value = serde_json::from_slice(&std::fs::read(home.join(path)).unwrap()).unwrap();
        assert_eq!(file, expected, "{path}");
    }
}

/// The contract's request states Sharpe 1.2 and a win rate of 55 %: nothing implausible, and too
/// little to approve.
#[test]
fn the_figures_that_the_contract_s_request_states_do_not_reject() {
    use spoolgate_council::signers::Filed;
    use spoolgate_gate::council::calculate;
    use spoolgate_rules::roles::Roles;
    use spoolgate_wire::council::{RoleVerdict, Stance};

    let roles = Roles::shipped().unwrap();
    let judged = |votes: &[RoleVerdict]| {
        let filed = Filed::apart(votes.iter().cloned());
        calculate(&roles, &example::request(), &filed, None).decision
    };
    let mut votes = example::votes();
    let told = judged(&votes);
    assert_eq!(
        told.final_outcome,
        Stance::Reject,
        "the Quant Researcher's veto stands"
    );
    assert!(
        !told.summary_reasoning.contains("implausible"),
        "{}",
        told.summary_reasoning
    );
    assert!(
        !told
            .blocking_issues
            .iter()
            .any(|issue| issue.contains("OOS")),
        "{:?}",
        told.blocking_issues
    );
    votes.retain(|vote| vote.role != "Quant Researcher");
    let told = judged(&votes);
    assert_eq!(told.final_outcome, Stance::NeedsMoreInfo);
    assert!(
        told.next_steps.iter().any(|step| step.contains("years")),
        "{:?}",
        told.next_steps
    );
}
