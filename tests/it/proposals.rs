//! Proposals from agents: which apply themselves, which wait for approvers, what approvers decide,
//! and hostile proposals.

mod blocked;
mod cited;
pub(crate) mod gate;
mod hangup;
mod harmless;
mod hostile;
mod killed;
mod people;
mod replayed;
mod signed;
mod texts;

use std::fs;

use gate::{Gate, acknowledged, activate, code, ledger, modify, own_rule, step, suspend};
use serde_json::json;
use spoolgate_gate::proposals::{Approver, Change as Step, Found, Note};
use spoolgate_wire::code::Code;

#[test]
fn a_rule_of_its_own_is_in_force_with_the_next_decision() {
    let gate = Gate::new();
    let mut home = gate.open();
    let outcome = gate.propose(&mut home, &activate(own_rule("size-cap", "0.5")));
    let (id, auto) = acknowledged(&outcome);
    assert_eq!((id, auto), (format!("p-{}", outcome.seq), true));
    let Step::Applied {
        proposed,
        by,
        rulebook,
        ..
    } = step(&outcome)
    else {
        panic!()
    };
    assert_eq!(
        (by, proposed.direction),
        (Approver::Proof, Found::Tightening)
    );
    assert_eq!(home.rulebook().hash, rulebook);
    assert_eq!(Some(gate.read("rules/active/size-cap.yaml")), proposed.new);
    assert!(
        gate.read(&format!("proposals/applied/p-{}.yaml", outcome.seq))
            .contains("+then: reject")
    );
    assert!(
        gate.path(&format!("audit/rulebooks/{rulebook}.json"))
            .exists()
    );
    // Reading the files changes nothing, now or after a start.
    gate.settle(&mut home);
    home.finish("done").unwrap();
    drop(home);
    let home = gate.open();
    assert_eq!(home.rulebook().hash, rulebook);
    assert!(
        home.rulebook()
            .ruleset
            .rules
            .contains_key(&"size-cap".parse_rule())
    );
    let (_, hashes) = ledger(&gate);
    assert_eq!(hashes.last(), Some(&rulebook));
}

trait ParseRule {
    fn parse_rule(&self) -> spoolgate_wire::ids::RuleId;
}

impl ParseRule for str {
    fn parse_rule(&self) -> spoolgate_wire::ids::RuleId {
        spoolgate_wire::ids::RuleId::parse(self).unwrap()
    }
}

#[test]
fn two_proposals_of_one_batch_are_decided_one_on_the_other() {
    let gate = Gate::new();
    let mut home = gate.open();
    gate.drop_in(
        &gate.bot,
        "trend-bot",
        "rule.propose",
        &activate(own_rule("cap", "5")).to_string(),
    );
    gate.drop_in(
        &gate.bot,
        "trend-bot",
        "rule.propose",
        &modify("cap", "5", "4", true).to_string(),
    );
    let outcomes = crate::kit::place::drain(&mut home).unwrap();
    assert_eq!(
        outcomes
            .iter()
            .map(|one| acknowledged(one).1)
            .collect::<Vec<_>>(),
        [true, true]
    );
    assert!(gate.read("rules/active/cap.yaml").contains('4'));
    let hash = home.rulebook().hash.clone();
    gate.settle(&mut home);
    assert_eq!(home.rulebook().hash, hash);
    // The rulebook in force is exactly the one that the files give.
    let files = spoolgate_host::rule_folder::load(gate.root.path()).unwrap();
    assert_eq!(
        spoolgate_rules::Rulebook::compile(&files).unwrap(),
        *home.rulebook()
    );
}

#[test]
fn a_change_that_affects_others_waits() {
    let gate = Gate::new();
    let mut home = gate.open();
    let rule = |id: &str, applies_to: serde_json::Value| {
        let mut rule = own_rule(id, "1");
        rule["applies_to"] = applies_to;
        rule
    };
    let cases = [
        (rule("everybody", json!({"action": "order.submit"})), false),
        (
            rule(
                "another",
                json!({"action": "order.submit", "principal": ["research-bot"]}),
            ),
            false,
        ),
        (
            rule(
                "both",
                json!({"action": "order.submit", "principal": ["trend-bot", "research-bot"]}),
            ),
            false,
        ),
        (
            rule(
                "strategy",
                json!({"action": "order.submit", "strategy": ["trend"]}),
            ),
            true,
        ),
    ];
    for (rule, applies) in cases {
        let outcome = gate.propose(&mut home, &activate(rule.clone()));
        assert_eq!(acknowledged(&outcome).1, applies, "{rule}: {outcome:?}");
        if !applies {
            let Step::Pended { proposed, .. } = step(&outcome) else {
                panic!()
            };
            assert_eq!(proposed.direction, Found::Tightening);
            assert!(proposed.why_people.unwrap().contains("trend-bot"), "{rule}");
        }
    }
    assert!(!gate.path("rules/active/everybody.yaml").exists());
}

#[test]
fn a_loosening_waits_with_a_witness_whatever_is_claimed() {
    let gate = Gate::new();
    let mut home = gate.open();
    assert!(acknowledged(&gate.propose(&mut home, &activate(own_rule("cap", "5")))).1);
    let before = home.rulebook().hash.clone();
    for (proposal, direction) in [
        (modify("cap", "5", "6", false), Found::Loosening),
        (suspend("cap"), Found::Loosening),
        (
            {
                let mut rule = own_rule("cap", "4");
                rule["status"] = json!("shadow");
                activate(rule)
            },
            Found::Loosening,
        ),
    ] {
        let outcome = gate.propose(&mut home, &proposal);
        let (id, auto) = acknowledged(&outcome);
        assert!(!auto, "{proposal}");
        let Step::Pended { proposed, .. } = step(&outcome) else {
            panic!()
        };
        assert_eq!(proposed.direction, direction);
        let witness = proposed.witness.unwrap();
        assert!(
            witness.contains("order.size") && witness.contains("refused before"),
            "{witness}"
        );
        assert!(proposed.notes.is_empty());
        let file = gate.read(&format!("proposals/pending/{id}.yaml"));
        assert!(
            file.contains("@@ ") && file.contains(&witness[..20]),
            "{file}"
        );
    }
    assert_eq!(home.rulebook().hash, before);
}

#[test]
fn evidence_is_counted_and_a_difference_is_shown() {
    let gate = Gate::new();
    let mut home = gate.open();
    let first = gate.propose(&mut home, &activate(own_rule("a", "5")));
    for (sample, lines, found, differs) in [
        (1, vec![first.seq], 1, false),
        (2, vec![first.seq], 1, true),
        (2, vec![first.seq, 999_999], 1, true),
        (1, vec![first.seq + 1], 0, true),
    ] {
        let mut proposal = activate(own_rule(&format!("b{sample}{}", lines.len()), "5"));
        proposal["Activate"]["evidence"] =
            json!({"summary": "s", "sample_size": sample, "ledger_seqs": lines});
        proposal["Activate"]["rule"]["id"] =
            json!(format!("rule-{sample}-{}", lines[lines.len() - 1]));
        let outcome = gate.propose(&mut home, &proposal);
        let Step::Applied { proposed, .. } = step(&outcome) else {
            panic!("{outcome:?}")
        };
        assert_eq!(proposed.evidence.unwrap().found, found);
        assert_eq!(
            proposed.notes.contains(&Note::EvidenceDiffers),
            differs,
            "{lines:?}"
        );
    }
}

#[test]
fn a_persons_edit_that_has_not_settled_and_a_proposal_lose_neither() {
    let gate = Gate::new();
    let mut home = gate.open();
    assert!(acknowledged(&gate.propose(&mut home, &activate(own_rule("cap", "5")))).1);
    gate.settle(&mut home);
    // Another file, and the same file again.
    let edit = gate
        .read("rules/active/cap.yaml")
        .replace("too large", "far too large");
    let core = edit.replace("id: cap", "id: core-cap");
    fs::write(gate.path("rules/core/core-cap.yaml"), &core).unwrap();
    assert!(acknowledged(&gate.propose(&mut home, &activate(own_rule("other", "5")))).1);
    gate.settle(&mut home);
    let ids: Vec<&str> = home
        .rulebook()
        .ruleset
        .rules
        .keys()
        .map(|id| id.as_str())
        .collect();
    assert_eq!(ids, ["cap", "core-cap", "other"]);
    fs::write(gate.path("rules/active/cap.yaml"), &edit).unwrap();
    gate.drop_in(
        &gate.bot,
        "trend-bot",
        "rule.propose",
        &modify("cap", "5", "4", true).to_string(),
    );
    let outcomes = crate::kit::place::drain(&mut home).unwrap();
    assert!(!acknowledged(&outcomes[0]).1);
    let Step::Pended { proposed, .. } = step(&outcomes[0]) else {
        panic!()
    };
    assert!(proposed.why_people.unwrap().contains("being edited"));
    gate.settle(&mut home);
    assert_eq!(gate.read("rules/active/cap.yaml"), edit);
    assert_eq!(home.rulebook().files.files["rules/active/cap.yaml"], edit);
}

#[test]
fn too_many_that_wait_and_the_same_twice_are_refused() {
    let gate = Gate::new();
    let mut home = gate.open();
    let all = |n: usize| {
        let mut rule = own_rule(&format!("all-{n}"), "5");
        rule["applies_to"] = json!({"action": "order.submit"});
        activate(rule)
    };
    assert!(!acknowledged(&gate.propose(&mut home, &all(0))).1);
    assert_eq!(
        code(&gate.propose(&mut home, &all(0))),
        Some(Code::ProposalDuplicate)
    );
    for n in 1..16 {
        assert!(!acknowledged(&gate.propose(&mut home, &all(n))).1);
    }
    assert_eq!(
        code(&gate.propose(&mut home, &all(16))),
        Some(Code::ProposalsFull)
    );
    // A proposal that applies itself does not need room.
    assert!(acknowledged(&gate.propose(&mut home, &activate(own_rule("own", "5")))).1);
}
