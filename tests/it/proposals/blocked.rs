//! An object is in the place of a rule's file.

use std::fs;
use std::sync::atomic::Ordering;

use serde_json::json;
use spoolgate_gate::proposals::Change as Step;
use spoolgate_wire::code::Code;
use spoolgate_wire::signing::sha256_hex;

use super::gate::{Gate, acknowledged, activate, code, ledger, message, own_rule, step};
use super::killed::{before_its_file, with_a_flag};
use crate::kit::desk::order;

const CAP: &str = "rules/active/cap.yaml";

#[test]
fn a_folder_where_a_new_rule_would_lie_has_it_wait_until_it_is_gone() {
    let gate = Gate::new();
    let mut home = gate.open();
    fs::create_dir(gate.path(CAP)).unwrap();
    let outcome = gate.propose(&mut home, &activate(own_rule("cap", "5")));
    let (id, auto) = acknowledged(&outcome);
    assert!(!auto);
    let Step::Pended { proposed, .. } = step(&outcome) else {
        panic!()
    };
    assert!(proposed.why_people.unwrap().contains("being edited"));
    let sha256 = sha256_hex(
        gate.read(&format!("proposals/pending/{id}.yaml"))
            .as_bytes(),
    );
    let approve = json!({"id": id, "sha256": sha256});
    let refused = gate.owner_asks(&mut home, "proposal.approve", &approve);
    assert_eq!(code(&refused), Some(Code::StateConflict));
    assert!(message(&refused).contains(CAP));
    fs::remove_dir(gate.path(CAP)).unwrap();
    assert_eq!(
        code(&gate.owner_asks(&mut home, "proposal.approve", &approve)),
        None
    );
    assert!(gate.read(CAP).contains("id: cap"));
}

/// Makes a gate that died when a rule was applied and its file was not written.
fn died() -> Gate {
    let base = Gate::new();
    base.open().finish("ready").unwrap();
    base.pass_s(61);
    before_its_file(&base, CAP, &|gate| {
        let proposal = activate(own_rule("cap", "5")).to_string();
        gate.drop_in(&gate.bot, "trend-bot", "rule.propose", &proposal);
    })
}

#[test]
fn a_folder_in_the_place_of_an_applied_rule_is_kept_aside_with_what_is_in_it() {
    let gate = died();
    fs::create_dir(gate.path(CAP)).unwrap();
    fs::write(gate.path(CAP).join("note.txt"), "mine").unwrap();
    let mut home = gate.open();
    let (
        _,
        Step::Applied {
            proposed, rulebook, ..
        },
    ) = ledger(&gate).0.pop().unwrap()
    else {
        panic!()
    };
    assert_eq!(Some(gate.read(CAP)), proposed.new);
    let aside: Vec<_> = fs::read_dir(gate.path("proposals/edited"))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(aside.len(), 1);
    assert_eq!(
        fs::read_to_string(aside[0].path().join("note.txt")).unwrap(),
        "mine"
    );
    gate.settle(&mut home);
    assert_eq!(
        (home.rulebook().hash.as_str(), home.rules_fault()),
        (rulebook.as_str(), None)
    );
}

#[test]
fn where_a_rule_cannot_be_written_entries_are_refused_until_it_can() {
    let gate = Gate::new();
    let (mut home, up) = with_a_flag(&gate);
    up.store(true, Ordering::SeqCst);
    let outcome = gate.propose(&mut home, &activate(own_rule("cap", "5")));
    assert!(acknowledged(&outcome).1);
    let Step::Applied {
        proposed, rulebook, ..
    } = step(&outcome)
    else {
        panic!()
    };
    // The applied change is in force all the same, and the files without it do not undo it.
    gate.settle(&mut home);
    assert_eq!(home.rulebook().hash, rulebook);
    assert!(home.state().rulebook.fault.as_ref().unwrap().contains(CAP));
    let buy = order("trend", "buy", "0.002", None, "btc-range-long");
    let refused = gate.bot_asks(
        &mut home,
        "order.submit",
        &serde_json::from_str(&buy).unwrap(),
    );
    assert_eq!(code(&refused), Some(Code::RulebookInvalid), "{refused:?}");
    up.store(false, Ordering::SeqCst);
    gate.settle(&mut home);
    assert_eq!(Some(gate.read(CAP)), proposed.new);
    assert_eq!(
        (home.rulebook().hash.as_str(), &home.state().rulebook.fault),
        (rulebook.as_str(), &None)
    );
}
