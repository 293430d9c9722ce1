//! Every two reasons that can apply at the same time: the earlier one is the reason, and the vector
//! shows both.

use std::collections::BTreeSet;

use crate::kit::tasks::{Gate, Task, check_receipt};
use serde_json::json;
use spoolgate_admission::receipt::Reason;
use spoolgate_gate::Decision;

const PRINCIPALS: &str = "principals:
  - name: bot
    role: agent
    admission:
      domains: [{tenant: t, surface: s, profile: p}, {tenant: t, surface: s, profile: q}, {tenant: \
          t, surface: s, profile: none}]
      roots_per_hour: 20
  - name: idle
    role: agent
    admission:
      domains: [{tenant: t, surface: s, profile: p}]
  - {name: plain, role: agent}
";

/// Sends a request that fails exactly these checks, as far as possible, after a root `a` of the
/// tree `T`.
fn failing(reasons: [Reason; 2]) -> Decision {
    let has = |reason| reasons.contains(&reason);
    let mut policy = vec![if has(Reason::DepthExceeded) {
        "max_spawn_depth: 1"
    } else {
        "max_spawn_depth: 9"
    }];
    let limits = [
        (Reason::DescendantsExceeded, "max_total_descendants: 0"),
        (Reason::RepeatsExceeded, "max_repeats_per_capability: 1"),
        (
            Reason::AncestorWindowViolated,
            "max_repeats_in_ancestor_window: 1\nancestor_window_size: 1",
        ),
        (Reason::CapabilityDenied, "capability_denylist: [c]"),
        (Reason::TreeExpired, "max_tree_age_s: 1"),
        (Reason::MoneyExhausted, "budget_usd: 1\nreserve_usd: 2"),
        (
            Reason::TokensExhausted,
            "budget_tokens: 1\nreserve_tokens: 2",
        ),
        (Reason::TargetDenied, "allowed_targets: []"),
        (Reason::ArtifactTooLarge, "max_artifact_size_bytes: 1"),
        (Reason::InvariantViolation, "can_spawn: false"),
    ];
    policy.extend(
        limits
            .iter()
            .filter(|(reason, _)| has(*reason))
            .map(|(_, line)| *line),
    );
    let policy = policy.join("\n");
    let rules_with = |policy: &str| {
        let policies = [("t/s/p", policy), ("t/s/q", "max_spawn_depth: 9")];
        Gate::new(PRINCIPALS, policies)
    };
    let mut gate = rules_with("max_spawn_depth: 9");
    let mut root = Task::parse("a");
    if has(Reason::ProfileMismatch) {
        root.domain = "t/s/q".to_owned();
    }
    let first = gate.admit("bot", &root);
    assert!(first.metadata.code.is_none(), "{first:?}");
    gate.rules = rules_with(&policy).rules;
    if has(Reason::TreeExpired) {
        gate.now = gate.now.plus_ms(1001);
    }

    let is_root = has(Reason::RootsExceeded);
    let mut task = match (is_root, has(Reason::TaskExists)) {
        (true, false) => Task::parse("x@X"),
        (true, true) => Task::parse("x"),
        (false, false) => Task::parse("x<a"),
        (false, true) => Task::parse("T<a"),
    };
    if has(Reason::UnknownParent) {
        task.parent = Some("zz".to_owned());
    }
    task.cause = has(Reason::UnknownReceipt).then(|| json!("r-999"));
    task.depth = has(Reason::DepthMismatch).then(|| json!(77));
    task.budget = has(Reason::BudgetExhausted).then(|| json!(0));
    task.payload = json!({"target": "anything"});
    if has(Reason::PolicyUnavailable) {
        task.domain = "t/s/none".to_owned();
    }
    let mut body = task.body();
    let envelope = body["envelope"].as_object_mut().unwrap();
    if has(Reason::MissingCausality) {
        envelope.remove("causality");
    }
    if has(Reason::LeasesExceeded) {
        envelope.remove("causality");
        envelope.insert("payload_kind".to_owned(), json!("lease"));
    }
    if has(Reason::MissingFields) {
        envelope.remove("payload_kind");
    }
    let from = match (has(Reason::DomainDenied), is_root) {
        (true, _) => "plain",
        (false, true) => "idle",
        (false, false) => "bot",
    };
    let decision = gate.ask(from, &task.id, "admission.admit", &body.to_string(), None);
    check_receipt(&decision);
    decision
}

/// Returns why two reasons never occur in one vector. `None` if they can.
fn apart(first: Reason, second: Reason) -> Option<&'static str> {
    use Reason::*;
    Some(match (first, second) {
        (_, RequestRefused) => "the step's own: said only where every check of admission passed",
        (MissingFields, _) => "of what cannot be read nothing is computed",
        (DomainDenied, PolicyUnavailable) => return None,
        (DomainDenied | PolicyUnavailable, _) => {
            "there is nothing to measure by, and nothing of the tree is told"
        }
        (MissingCausality, LeasesExceeded) => "what needs causality has no rate without it",
        (MissingCausality, DomainDenied | PolicyUnavailable) => return None,
        (LeasesExceeded, DomainDenied | PolicyUnavailable) => "there is no limit to measure by",
        (LeasesExceeded, TargetDenied | ArtifactTooLarge) => return None,
        (LeasesExceeded, InvariantViolation) => "a lease spawns nothing",
        (LeasesExceeded, _) => "without causality there is no place in a tree, and no capability",
        (MissingCausality, TargetDenied | ArtifactTooLarge | InvariantViolation) => return None,
        (MissingCausality, _) => "without causality there is no place in a tree, and no capability",
        (UnknownParent, RootsExceeded) => "a root has no parent",
        (UnknownParent, AncestorWindowViolated) => "of nobody's child no ancestors are known",
        (ProfileMismatch, RootsExceeded) => "a root is bound to no profile yet",
        (RootsExceeded, TreeExpired) => "a new tree has no age",
        (RootsExceeded, DepthExceeded) => "a root has depth 0, and every policy allows that",
        (RootsExceeded, DescendantsExceeded) => "a root is nobody's descendant",
        (RootsExceeded, RepeatsExceeded) => {
            "a new tree holds no task; one that is there is `task_exists` already"
        }
        (RootsExceeded, AncestorWindowViolated) => "a root has no ancestors",
        _ => return None,
    })
}

#[test]
fn the_earlier_of_two_reasons_is_the_reason() {
    let (mut together, mut never) = (0, 0);
    for (place, first) in Reason::ALL.iter().enumerate() {
        for second in &Reason::ALL[place + 1..] {
            // No body fails with it: tests/it/admission/step.rs tests it together with others.
            if *second == Reason::RequestRefused {
                never += 1;
                continue;
            }
            let decision = failing([*first, *second]);
            let failed: BTreeSet<&str> = decision
                .checks
                .iter()
                .filter(|row| !row.passed)
                .map(|row| &*row.name)
                .collect();
            let both = [first.name(), second.name()];
            if let Some(why) = apart(*first, *second) {
                never += 1;
                assert!(
                    !both.iter().all(|name| failed.contains(name)),
                    "{both:?} fail together, not: {why}"
                );
                continue;
            }
            together += 1;
            let mut expected = BTreeSet::from(both);
            if *first == Reason::UnknownParent {
                // A limit on an unknown value counts as failed.
                expected.insert(Reason::DepthExceeded.name());
            }
            assert_eq!(failed, expected);
            let receipt = decision.receipt.as_deref().unwrap();
            assert_eq!(receipt.rejection_reason_code, Some(*first), "{both:?}");
            let refusal = decision.metadata.message.as_deref().unwrap();
            assert!(
                refusal.starts_with(&format!("{}: ", first.name())),
                "{refusal}"
            );
        }
    }
    assert_eq!((together, never), (153, 123));
}

#[test]
fn rows_are_in_the_order_of_the_reasons() {
    let place = |name: &str| {
        Reason::ALL
            .iter()
            .position(|reason| reason.name() == name)
            .unwrap()
    };
    for second in Reason::ALL {
        let decision = failing([Reason::InvariantViolation, *second]);
        let places: Vec<usize> = decision.checks.iter().map(|row| place(&row.name)).collect();
        assert!(
            places.is_sorted_by(|a, b| a < b),
            "{:?}: {places:?}",
            second.name()
        );
    }
}
