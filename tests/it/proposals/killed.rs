//! A gate that is killed at any write between a proposal and its files: the proposal is applied
//! once, and the old rule file never undoes it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use spoolgate_gate::proposals::Change as Step;
use spoolgate_gate::{Change, Record};
use spoolgate_home::{Home, HomeError};
use spoolgate_host::real_disk::RealDisk;

use crate::kit::layered::{Fuse, Hook, Layered};

use super::gate::{Gate, acknowledged, activate, copy_tree, ledger, modify, own_rule};

/// Opens a home that dies after as many more changes as its fuse allows.
fn dying(gate: &Gate) -> (Home, Arc<Fuse>) {
    let fuse = Fuse::endless();
    let burns = Arc::clone(&fuse);
    let home = over(gate, move |call| {
        if call.is_change() || call.is_of_log() {
            burns.burn()
        } else {
            Ok(())
        }
    });
    (home, fuse)
}

fn over(gate: &Gate, hook: impl Hook + 'static) -> Home {
    let disk =
        Layered::before(Arc::new(RealDisk::open(gate.root.path()).unwrap()), hook).without_syncs();
    Home::open(gate.root.path(), gate.seams_with(Arc::new(disk))).unwrap()
}

/// Copies the home.
fn fork(gate: &Gate) -> Gate {
    let root = crate::kit::folder();
    copy_tree(gate.root.path(), root.path());
    gate.elsewhere(root)
}

/// Returns the number of steps of proposals and of the allowlist.
fn steps(gate: &Gate) -> usize {
    let lines = crate::kit::lines(gate.root.path()).unwrap();
    let changes = lines
        .iter()
        .flat_map(|(_, _, record)| record.iter().flat_map(Record::changes));
    changes
        .filter(|change| matches!(change, Change::Proposal(_) | Change::Services(_)))
        .count()
}

/// Returns the names in a folder of a home.
fn names(gate: &Gate, folder: &str) -> BTreeSet<OsString> {
    let entries = std::fs::read_dir(gate.path(folder)).into_iter().flatten();
    entries.map(|entry| entry.unwrap().file_name()).collect()
}

/// Returns what a person sees of rules and of waiting proposals: names and texts.
fn seen(gate: &Gate) -> (BTreeSet<OsString>, BTreeSet<OsString>, Vec<Option<String>>) {
    let text = |path: &str| std::fs::read_to_string(gate.path(path)).ok();
    let texts = [
        "rules/active/cap.yaml",
        "rules/active/all.yaml",
        "rules/services.yaml",
    ];
    (
        names(gate, "rules/active"),
        names(gate, "proposals/pending"),
        texts.map(text).to_vec(),
    )
}

/// Kills the gate at every write of `ask` in turn; `good` checks what must hold once it has started
/// again. A client that was answered before still sees the same answer.
fn at_every_write(base: &Gate, ask: &dyn Fn(&Gate), good: &dyn Fn(&Gate, &Home, i64)) {
    for n in 0.. {
        let gate = fork(base);
        let (mut home, fuse) = dying(&gate);
        ask(&gate);
        fuse.set(n);
        let mut done = || -> Result<(), HomeError> {
            crate::kit::place::drain(&mut home)?;
            home.finish("done")
        };
        let died = done().is_err();
        drop(home);
        if names(&gate, "spool/out") != names(base, "spool/out") {
            assert_ne!(
                seen(&gate),
                seen(base),
                "killed at write {n}: answered before its file was there"
            );
        }
        let mut home = gate.open();
        good(&gate, &home, n);
        crate::kit::place::drain(&mut home).unwrap();
        gate.settle(&mut home);
        good(&gate, &home, n);
        assert_eq!(steps(&gate), steps(base) + 1, "killed at write {n}");
        if !died {
            assert!(n > 10, "only {n} writes");
            return;
        }
    }
}

/// Opens a home on whose disk `rules/active` is not a folder while the flag is set.
pub(super) fn with_a_flag(gate: &Gate) -> (Home, Arc<AtomicBool>) {
    let up = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&up);
    let home = over(gate, move |call| {
        let is_there =
            ["rename", "write"].contains(&call.verb) && call.target().starts_with("rules/active");
        let is_blocked = is_there && flag.load(Ordering::SeqCst);
        if is_blocked {
            Err(io::Error::from_raw_os_error(20))
        } else {
            Ok(())
        }
    });
    (home, up)
}

/// Makes a gate that died with the effect of `ask` in the ledger and with the old `path`.
pub(super) fn before_its_file(base: &Gate, path: &str, ask: &dyn Fn(&Gate)) -> Gate {
    let before = std::fs::read(base.path(path)).ok();
    for n in 0..200 {
        let gate = fork(base);
        let (mut home, fuse) = dying(&gate);
        ask(&gate);
        fuse.set(n);
        assert!(
            crate::kit::place::drain(&mut home).is_err(),
            "it did not die at write {n}"
        );
        drop(home);
        let is_applied = ledger(&gate).0.len() > ledger(base).0.len();
        if is_applied && std::fs::read(gate.path(path)).ok() == before {
            return gate;
        }
    }
    panic!("its file is always there");
}

#[test]
fn an_automatic_proposal_is_applied_once_wherever_the_gate_dies() {
    let base = Gate::new();
    let mut home = base.open();
    assert!(acknowledged(&base.propose(&mut home, &activate(own_rule("cap", "5")))).1);
    home.finish("ready").unwrap();
    drop(home);
    base.pass_s(61);
    let ask = |gate: &Gate| {
        let proposal = modify("cap", "5", "4", true).to_string();
        gate.drop_in(&gate.bot, "trend-bot", "rule.propose", &proposal);
    };
    at_every_write(&base, &ask, &|gate, home, n| {
        let steps = ledger(gate).0;
        // What the ledger says is in force, in memory and in the file, whatever was written before
        // the kill.
        let Some((
            _,
            Step::Applied {
                proposed, rulebook, ..
            },
        )) = steps.get(1)
        else {
            return;
        };
        assert_eq!(home.rulebook().hash, *rulebook, "killed at write {n}");
        assert_eq!(
            Some(gate.read("rules/active/cap.yaml")),
            proposed.new,
            "killed at write {n}"
        );
        assert!(
            gate.path(&format!("proposals/applied/{}.yaml", proposed.proposal_id))
                .exists(),
            "{n}"
        );
    });
}

#[test]
fn a_waiting_proposal_has_its_file_wherever_the_gate_dies() {
    let base = Gate::new();
    base.open().finish("ready").unwrap();
    base.pass_s(61);
    let ask = |gate: &Gate| {
        let mut rule = own_rule("all", "5");
        rule["applies_to"] = json!({"action": "order.submit"});
        gate.drop_in(
            &gate.bot,
            "trend-bot",
            "rule.propose",
            &activate(rule).to_string(),
        );
    };
    at_every_write(&base, &ask, &|gate, home, n| {
        let pending: Vec<_> = home.state().proposals.pending.iter().collect();
        if let [(id, waits)] = pending[..] {
            let text = gate.read(&format!("proposals/pending/{id}.yaml"));
            assert_eq!(
                spoolgate_wire::signing::sha256_hex(text.as_bytes()),
                waits.file_sha256,
                "{n}"
            );
        }
        assert!(home.rulebook().ruleset.rules.is_empty());
    });
}

#[test]
fn an_approved_proposal_is_applied_once_wherever_the_gate_dies() {
    let base = Gate::new();
    let mut home = base.open();
    let mut rule = own_rule("all", "5");
    rule["applies_to"] = json!({"action": "order.submit"});
    let (id, _) = acknowledged(&base.propose(&mut home, &activate(rule)));
    home.finish("ready").unwrap();
    drop(home);
    base.pass_s(61);
    let text = base.read(&format!("proposals/pending/{id}.yaml"));
    let approve = json!({"id": id, "sha256": spoolgate_wire::signing::sha256_hex(text.as_bytes())})
        .to_string();
    let ask = |gate: &Gate| {
        gate.drop_in(&gate.owner, "owner", "proposal.approve", &approve);
    };
    at_every_write(&base, &ask, &|gate, home, n| {
        let steps = ledger(gate).0;
        let Some((
            _,
            Step::Applied {
                proposed, rulebook, ..
            },
        )) = steps.get(1)
        else {
            return;
        };
        assert_eq!(home.rulebook().hash, *rulebook, "killed at write {n}");
        assert_eq!(
            Some(gate.read("rules/active/all.yaml")),
            proposed.new,
            "killed at write {n}"
        );
        assert!(
            !gate.path(&format!("proposals/pending/{id}.yaml")).exists(),
            "killed at write {n}"
        );
    });
}

#[test]
fn the_allowlist_is_what_the_ledger_says_wherever_the_gate_dies() {
    let base = Gate::new();
    base.open().finish("ready").unwrap();
    base.pass_s(61);
    let before = steps(&base);
    let ask = |gate: &Gate| {
        let add = json!({"service": "bank", "host": "bank.example", "protocol": "https",
            "methods": ["GET"]});
        gate.drop_in(&gate.owner, "owner", "services.add", &add.to_string());
    };
    at_every_write(&base, &ask, &|gate, home, n| {
        let is_added = steps(gate) > before;
        let text = gate.read("rules/services.yaml");
        assert_eq!(
            text.contains("bank.example\""),
            is_added,
            "killed at write {n}"
        );
        assert_eq!(
            home.rulebook().services.named("bank").is_some(),
            is_added,
            "killed at write {n}"
        );
        assert_eq!(
            home.rulebook().files.files["rules/services.yaml"],
            text,
            "killed at write {n}"
        );
    });
}

#[test]
fn a_lost_file_of_an_allowlist_change_is_written_again() {
    let base = Gate::new();
    base.open().finish("ready").unwrap();
    base.pass_s(61);
    let (before, lines_before) = (
        steps(&base),
        crate::kit::lines(base.root.path()).unwrap().len(),
    );
    let old = base.read("rules/services.yaml");
    let mut without_claim = 0;
    for n in 0.. {
        let gate = fork(&base);
        let (mut home, fuse) = dying(&gate);
        let add = json!({"service": "bank", "host": "bank.example", "protocol": "https",
            "methods": ["GET"]});
        let id = gate.drop_in(&gate.owner, "owner", "services.add", &add.to_string());
        let [from, to] =
            ["spool/in", "spool/local/in"].map(|folder| gate.path(&format!("{folder}/{id}.json")));
        std::fs::rename(from, to).unwrap();
        fuse.set(n);
        let died = crate::kit::place::drain(&mut home).is_err();
        drop(home);
        if !died {
            break;
        }
        let lines = crate::kit::lines(gate.root.path()).unwrap();
        let is_synced = lines
            .iter()
            .skip(lines_before)
            .any(|(_, kind, _)| kind == "published");
        if steps(&gate) == before || is_synced {
            continue;
        }
        // A power cut may remove what was not synced; the claim may be gone for good.
        std::fs::write(gate.path("rules/services.yaml"), &old).unwrap();
        without_claim += u32::from(
            std::fs::read_dir(gate.path("spool/work"))
                .unwrap()
                .next()
                .is_none(),
        );
        let home = gate.open();
        let text = gate.read("rules/services.yaml");
        assert!(text.contains("bank.example\""), "killed at write {n}");
        assert_eq!(
            home.rulebook().files.files["rules/services.yaml"],
            text,
            "killed at write {n}"
        );
    }
    assert!(without_claim > 0);
}
