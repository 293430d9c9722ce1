//! What approvers decide about proposals.

use std::fs;

use serde_json::json;
use spoolgate_gate::proposals::{Approver, Change as Step, Found};
use spoolgate_wire::code::Code;
use spoolgate_wire::ids::Principal;
use spoolgate_wire::signing::sha256_hex;

use super::gate::{
    Gate, acknowledged, activate, code, ledger, message, modify, own_rule, step, suspend,
};
use crate::kit::place::drain;

fn sha256(gate: &Gate, id: &str) -> String {
    sha256_hex(
        gate.read(&format!("proposals/pending/{id}.yaml"))
            .as_bytes(),
    )
}

fn waiting(gate: &Gate, home: &mut spoolgate_home::Home) -> String {
    let mut rule = own_rule("all", "5");
    rule["applies_to"] = json!({"action": "order.submit"});
    let (id, auto) = acknowledged(&gate.propose(home, &activate(rule)));
    assert!(!auto);
    id
}

#[test]
fn an_approved_proposal_is_applied_once() {
    let gate = Gate::new();
    let mut home = gate.open();
    let id = waiting(&gate, &mut home);
    let sha256 = sha256(&gate, &id);
    let approve = json!({"id": id, "sha256": sha256});
    assert_eq!(
        code(&gate.bot_asks(&mut home, "proposal.approve", &approve)),
        Some(Code::NotPermitted)
    );
    let wrong = json!({"id": id, "sha256": "0".repeat(64)});
    assert_eq!(
        code(&gate.owner_asks(&mut home, "proposal.approve", &wrong)),
        Some(Code::StateConflict)
    );
    let unknown = json!({"id": "p-1", "sha256": "0".repeat(64)});
    assert_eq!(
        code(&gate.owner_asks(&mut home, "proposal.approve", &unknown)),
        Some(Code::NotFound)
    );
    let outcome = gate.owner_asks(&mut home, "proposal.approve", &approve);
    let Step::Applied {
        proposed,
        by,
        file_sha256,
        rulebook,
    } = step(&outcome)
    else {
        panic!()
    };
    assert_eq!(by, Approver::Person(Principal::parse("owner").unwrap()));
    assert_eq!(file_sha256, Some(sha256));
    assert_eq!(home.rulebook().hash, rulebook);
    assert_eq!(Some(gate.read("rules/active/all.yaml")), proposed.new);
    assert!(!gate.path(&format!("proposals/pending/{id}.yaml")).exists());
    assert!(
        gate.read(&format!("proposals/applied/{id}.yaml"))
            .contains("decided_by: owner")
    );
    assert_eq!(
        code(&gate.owner_asks(&mut home, "proposal.approve", &approve)),
        Some(Code::StateConflict)
    );
    assert_eq!(
        ledger(&gate)
            .0
            .iter()
            .filter(|(_, step)| matches!(step, Step::Applied { .. }))
            .count(),
        1
    );
}

#[test]
fn a_declined_proposal_ends() {
    let gate = Gate::new();
    let mut home = gate.open();
    let id = waiting(&gate, &mut home);
    let approve = json!({"id": id, "sha256": sha256(&gate, &id)});
    let decline = json!({"id": id, "reason": "too few trades"});
    let outcome = gate.owner_asks(&mut home, "proposal.decline", &decline);
    assert!(matches!(step(&outcome), Step::Declined { .. }));
    assert!(
        gate.read(&format!("proposals/declined/{id}.yaml"))
            .contains("reason: too few trades")
    );
    assert!(!gate.path(&format!("proposals/pending/{id}.yaml")).exists());
    let again = gate.owner_asks(&mut home, "proposal.approve", &approve);
    assert_eq!(code(&again), Some(Code::StateConflict));
    assert!(message(&again).contains("too few trades"));
    assert!(home.rulebook().ruleset.rules.is_empty());
    // The same proposal may be sent again after it was declined.
    waiting(&gate, &mut home);
}

/// Its change is then only in a line of the same batch, which the index does not have yet.
#[test]
fn a_proposal_that_returns_and_is_declined_in_one_batch_has_its_file() {
    let gate = Gate::new();
    let mut home = gate.open();
    acknowledged(&gate.propose(&mut home, &activate(own_rule("cap", "5"))));
    let (id, _) = acknowledged(&gate.propose(&mut home, &suspend("cap")));
    let approve = json!({"id": id, "sha256": sha256(&gate, &id)}).to_string();
    assert!(acknowledged(&gate.propose(&mut home, &modify("cap", "5", "4", true))).1);
    gate.pass_s(61);
    gate.drop_in(&gate.owner, "owner", "proposal.approve", &approve);
    let decline = json!({"id": id, "reason": "too few trades"}).to_string();
    gate.drop_in(&gate.owner, "owner", "proposal.decline", &decline);
    let outcomes = drain(&mut home).unwrap();
    assert!(matches!(step(&outcomes[0]), Step::Pended { .. }));
    assert!(matches!(step(&outcomes[1]), Step::Declined { .. }));
    let [back, declined] = [0, 1].map(|n| home.record(outcomes[n].seq).unwrap().0);
    assert_eq!(back, declined, "one batch");
    assert!(
        gate.read(&format!("proposals/declined/{id}.yaml"))
            .contains("reason: too few trades")
    );
    assert!(!gate.path(&format!("proposals/pending/{id}.yaml")).exists());
}

#[test]
fn reverting_restores_the_former_file_and_is_for_people() {
    let gate = Gate::new();
    let mut home = gate.open();
    let made = acknowledged(&gate.propose(&mut home, &activate(own_rule("cap", "5")))).0;
    let first = gate.read("rules/active/cap.yaml");
    let moved = acknowledged(&gate.propose(&mut home, &modify("cap", "5", "4", true))).0;
    let revert = |id: &str| json!({"id": id, "reason": "it blocked winners"});
    assert_eq!(
        code(&gate.bot_asks(&mut home, "proposal.revert", &revert(&moved))),
        Some(Code::NotPermitted)
    );
    // The later change first.
    let early = gate.owner_asks(&mut home, "proposal.revert", &revert(&made));
    assert_eq!(code(&early), Some(Code::StateConflict));
    let outcome = gate.owner_asks(&mut home, "proposal.revert", &revert(&moved));
    let Step::Applied { proposed, .. } = step(&outcome) else {
        panic!()
    };
    assert_eq!(proposed.direction, Found::Loosening);
    assert_eq!(gate.read("rules/active/cap.yaml"), first);
    assert!(
        gate.owner_asks(&mut home, "proposal.revert", &revert(&made))
            .answer
            .error
            .is_none()
    );
    assert!(!gate.path("rules/active/cap.yaml").exists());
    let hash = home.rulebook().hash.clone();
    gate.settle(&mut home);
    drop(home);
    let home = gate.open();
    assert_eq!(home.rulebook().hash, hash);
    assert!(home.rulebook().ruleset.rules.is_empty());
}

#[test]
fn a_proposal_whose_base_moved_waits_again() {
    let gate = Gate::new();
    let mut home = gate.open();
    acknowledged(&gate.propose(&mut home, &activate(own_rule("cap", "5"))));
    let (id, _) = acknowledged(&gate.propose(&mut home, &suspend("cap")));
    let seen = sha256(&gate, &id);
    // The rule's own bytes change.
    assert!(acknowledged(&gate.propose(&mut home, &modify("cap", "5", "4", true))).1);
    let approve = json!({"id": id, "sha256": seen});
    let outcome = gate.owner_asks(&mut home, "proposal.approve", &approve);
    assert_eq!(code(&outcome), Some(Code::BaseMoved));
    let Step::Pended { proposed, .. } = step(&outcome) else {
        panic!()
    };
    assert!(proposed.old.unwrap().contains('4'));
    assert_ne!(sha256(&gate, &id), seen);
    assert_eq!(
        code(&gate.owner_asks(&mut home, "proposal.approve", &approve)),
        Some(Code::StateConflict)
    );
    let approve = json!({"id": id, "sha256": sha256(&gate, &id)});
    assert!(
        gate.owner_asks(&mut home, "proposal.approve", &approve)
            .answer
            .error
            .is_none()
    );
    assert!(
        gate.read("rules/active/cap.yaml")
            .contains("status: suspended")
    );
    // Only the direction changes: with a person's rule, the change is no longer a loosening.
    acknowledged(&gate.propose(&mut home, &activate(own_rule("two", "5"))));
    let (id, _) = acknowledged(&gate.propose(&mut home, &suspend("two")));
    let core = gate
        .read("rules/active/two.yaml")
        .replace("id: two", "id: core-two");
    fs::write(gate.path("rules/core/core-two.yaml"), core).unwrap();
    gate.settle(&mut home);
    let approve = json!({"id": id, "sha256": sha256(&gate, &id)});
    let outcome = gate.owner_asks(&mut home, "proposal.approve", &approve);
    assert_eq!(code(&outcome), Some(Code::BaseMoved));
    let Step::Pended { proposed, .. } = step(&outcome) else {
        panic!()
    };
    assert_eq!(proposed.direction, Found::Same);
    // Changes elsewhere do not affect it.
    acknowledged(&gate.propose(&mut home, &activate(own_rule("three", "5"))));
    let approve = json!({"id": id, "sha256": sha256(&gate, &id)});
    assert!(
        gate.owner_asks(&mut home, "proposal.approve", &approve)
            .answer
            .error
            .is_none()
    );
}

#[test]
fn a_command_notifies_people_of_waiting_proposals() {
    let gate = Gate::under(|root| {
        let command = "command: {program: sh, args: [-c, \"cat > told.$$\"], time_limit_s: 20, \
            output_bytes_max: 10}\n";
        crate::kit::uncaged(root);
        fs::write(root.join("rules/notify.yaml"), command).unwrap();
    });
    let mut home = gate.open();
    let id = waiting(&gate, &mut home);
    assert!(acknowledged(&gate.propose(&mut home, &activate(own_rule("cap", "5")))).1);
    home.finish("done").unwrap();
    let told: Vec<String> = fs::read_dir(gate.root.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.file_name()
                .unwrap()
                .to_string_lossy()
                .starts_with("told.")
        })
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    assert_eq!(told, [gate.read(&format!("proposals/pending/{id}.yaml"))]);
}
