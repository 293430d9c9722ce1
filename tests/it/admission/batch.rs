//! Several tasks in one batch of a home: which one gets the last unit, which files are forwarded,
//! and what a crash between seal and `published` leaves.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::kit::place::{Keys, ORIGIN, Place, drain};
use crate::kit::signed;
use crate::kit::tasks::{Task, check_receipt, reserved};
use serde_json::{Value, json};
use spoolgate_admission::receipt::Reason;
use spoolgate_home::Home;
use spoolgate_home::batch::Outcome;
use spoolgate_home::layout::log_signer;
use spoolgate_host::clock::Clock;
use spoolgate_host::keyring::SqliteKeyring;
use spoolgate_ledger::note::VerifierKey;
use spoolgate_ledger::token::verify_forwarded;
use spoolgate_wire::code::Code;

const PRINCIPALS: &str = "principals:
  - {name: owner, role: human}
  - {name: bot, role: agent, admission: {domains: [{tenant: t, surface: s, profile: p}], \
      roots_per_hour: 20}}
  - {name: peer, role: agent, admission: {domains: [{tenant: t, surface: s, profile: p}], \
      roots_per_hour: 20}}
  - {name: lone, role: agent, spool: lone, admission: {domains: [{tenant: t, surface: s, profile: \
      p}], roots_per_hour: 20}}
";

/// A home with three agents, one of them with a spool of its own.
struct Desk {
    place: Place,
    keys: Keys,
}

impl Desk {
    fn new(policy: &str) -> Desk {
        let place = Place::new(11);
        let write = |path: &str, text: &str| {
            let path = place.root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        fs::remove_dir_all(place.root.path().join("rules/strategies")).unwrap();
        fs::remove_dir_all(place.root.path().join("proposals/theses")).unwrap();
        write("rules/principals.yaml", PRINCIPALS);
        write("rules/admission/t/s/p.yaml", policy);
        let keys = place.ask_for_keys(["bot", "peer", "lone"]);
        let desk = Desk { place, keys };
        let mut home = desk.place.settled();
        home.finish("the desk is ready").unwrap();
        drop(home);
        desk
    }

    fn open(&self) -> Home {
        self.place.open().unwrap()
    }

    /// Drops a task into the spool of its source, under a file name of its own.
    fn drop(&self, from: &str, file: &str, task: &Task) {
        let now = self.place.clock.now();
        let body = task.body().to_string();
        let envelope = signed(
            &self.keys[from],
            from,
            &task.id,
            "admission.admit",
            &body,
            now,
        );
        let folder = if from == "lone" {
            "spool/in/lone/new"
        } else {
            "spool/in"
        };
        self.place.disk.put(
            format!("{folder}/{file}.json"),
            envelope.to_json().as_bytes(),
        );
    }

    fn send(&self, from: &str, task: &str) {
        let task = Task::parse(task);
        self.drop(from, &task.id.clone(), &task);
    }

    /// Decides what waits, in one batch.
    fn batch(&self, home: &mut Home, files: usize) -> Vec<Outcome> {
        let before = home.position().batch;
        let outcomes = drain(home).unwrap();
        assert_eq!(outcomes.len(), files, "{outcomes:?}");
        assert_eq!(home.position().batch, before + 1, "one batch");
        outcomes
            .iter()
            .for_each(|outcome| check_receipt(&outcome.decision));
        outcomes
    }

    fn forwarded(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        self.place
            .disk
            .files_below("spool/forward")
            .into_iter()
            .collect()
    }

    fn key(&self) -> VerifierKey {
        let keys = SqliteKeyring::open(self.place.root.path(), false)
            .unwrap()
            .log_keys()
            .unwrap();
        log_signer(ORIGIN, &keys).unwrap().log.verifier().clone()
    }

    /// Checks that files and index agree with the ledger.
    fn agrees(&self, home: Home, outcomes: &[Outcome]) {
        let expected: BTreeMap<PathBuf, &Outcome> = outcomes
            .iter()
            .filter_map(|outcome| {
                Some((
                    Path::new("spool").join(outcome.decision.forwarded_to()?),
                    outcome,
                ))
            })
            .collect();
        let there = self.forwarded();
        assert_eq!(
            there.keys().collect::<Vec<_>>(),
            expected.keys().collect::<Vec<_>>()
        );
        for (path, bytes) in there {
            let found = verify_forwarded(&bytes, &self.key(), ORIGIN).unwrap();
            let receipt = expected[&path].decision.receipt.as_deref().unwrap();
            assert_eq!(found.claim.receipt_id, receipt.receipt_id);
            assert_eq!(found.receipt, serde_json::to_string(receipt).unwrap());
            let envelope: Value = serde_json::from_str(&found.envelope).unwrap();
            let counters = receipt.effective_counters;
            assert_eq!(
                envelope["causality"]["spawn_depth"],
                json!(counters.spawn_depth)
            );
            let left = &envelope["causality"]["recursion_budget_remaining"];
            assert_eq!(*left, json!(counters.recursion_budget_remaining));
        }
        let index = home.store().dump().unwrap();
        drop(home);
        let (again, same) = Home::rebuild(self.place.root.path(), self.place.seams()).unwrap();
        assert!(
            same && again.store().dump().unwrap() == index,
            "the index made again is another one"
        );
    }
}

fn reason(outcome: &Outcome) -> Option<Reason> {
    outcome
        .decision
        .receipt
        .as_ref()
        .expect("a receipt")
        .rejection_reason_code
}

#[test]
fn siblings_of_one_batch_share_the_last_unit() {
    for (policy, expect) in [
        (
            "max_spawn_depth: 9\nrecursion_budget: 2\n",
            Reason::BudgetExhausted,
        ),
        (
            "max_spawn_depth: 9\nmax_total_descendants: 1\n",
            Reason::DescendantsExceeded,
        ),
        (
            "max_spawn_depth: 9\nmax_repeats_per_capability: 2\n",
            Reason::RepeatsExceeded,
        ),
    ] {
        let desk = Desk::new(policy);
        let mut home = desk.open();
        desk.send("bot", "a");
        let mut all = desk.batch(&mut home, 1);
        for n in 0..12 {
            desk.send(["bot", "peer", "lone"][n % 3], &format!("c{n:02}<a"));
        }
        let done = desk.batch(&mut home, 12);
        let admitted: Vec<&Outcome> = done
            .iter()
            .filter(|outcome| reason(outcome).is_none())
            .collect();
        assert_eq!(admitted.len(), 1, "{policy}");
        assert!(
            done.iter()
                .filter_map(reason)
                .all(|reason| reason == expect),
            "{policy}"
        );
        all.extend(done);
        desk.agrees(home, &all);
    }
}

#[test]
fn a_tree_of_one_batch() {
    // A root and its children may come together, because the files of one spool are decided by
    // name.
    let desk = Desk::new("max_spawn_depth: 3\nrecursion_budget: 4\n");
    let mut home = desk.open();
    for task in ["a", "b<a", "c<b", "d<c", "e<a", "f<a"] {
        desk.send("bot", task);
    }
    let done = desk.batch(&mut home, 6);
    let reasons: Vec<_> = done.iter().map(reason).collect();
    let (deep, spent) = (Some(Reason::DepthExceeded), Some(Reason::BudgetExhausted));
    assert_eq!(reasons, [None, None, None, deep, None, spent]);
    let budgets: Vec<_> = done
        .iter()
        .filter_map(|outcome| reserved(&outcome.decision)?.budget)
        .collect();
    assert_eq!(budgets, [3, 2, 1, 0]);
    desk.agrees(home, &done);
}

#[test]
fn two_who_open_the_same_root_in_one_batch() {
    let desk = Desk::new("max_spawn_depth: 3\n");
    let mut home = desk.open();
    desk.send("bot", "one");
    desk.send("peer", "two");
    desk.send("lone", "three");
    let done = desk.batch(&mut home, 3);
    assert_eq!(
        done.iter()
            .filter(|outcome| reason(outcome).is_none())
            .count(),
        1
    );
    assert_eq!(
        done.iter()
            .filter(|outcome| reason(outcome) == Some(Reason::TaskExists))
            .count(),
        2
    );
    assert_eq!(
        home.state().admission.roots.len(),
        1,
        "who was denied opened none"
    );
    desk.agrees(home, &done);
}

#[test]
fn one_id_several_times_in_one_batch() {
    let desk = Desk::new("max_spawn_depth: 3\nrecursion_budget: 9\n");
    let mut home = desk.open();
    desk.send("bot", "a");
    let mut all = desk.batch(&mut home, 1);
    let task = Task::parse("x<a");
    desk.drop("bot", "1", &task);
    desk.drop("bot", "2-the-same", &task);
    desk.drop("bot", "3-another", &Task::parse("x<a:d"));
    desk.drop("peer", "4-a-stranger", &task);
    desk.drop("lone", "5-another-spool", &task);
    let done = desk.batch(&mut home, 5);
    let by_file = |file: &str| {
        done.iter()
            .find(|outcome| outcome.decision.file.starts_with(file))
            .unwrap()
    };
    // Spools are decided one after the other, so either may be first.
    let (flat, lone) = (by_file("1"), by_file("5"));
    let mut reasons = [reason(flat), reason(lone)];
    reasons.sort();
    assert_eq!(reasons, [None, Some(Reason::TaskExists)]);
    assert_eq!(by_file("2").decision.metadata.replay_of, Some(flat.seq));
    for file in ["3", "4"] {
        assert_eq!(
            by_file(file).decision.metadata.code,
            Some(Code::RequestIdConflict)
        );
        assert!(by_file(file).decision.receipt.is_none());
    }
    let taken: Vec<_> = done
        .iter()
        .filter_map(|outcome| reserved(&outcome.decision))
        .collect();
    assert_eq!((taken.len(), taken[0].budget), (1, Some(7)));
    all.extend(done);
    desk.agrees(home, &all);
}

// After a kill between seal and `published`, or after its consumer has taken it, the file comes
// back once, byte for byte.
#[test]
fn a_forwarded_file_comes_back_until_it_is_published() {
    let desk = Desk::new("max_spawn_depth: 3\n");
    let mut home = desk.open();
    for task in ["a", "b<a", "z<nobody"] {
        desk.send("bot", task);
    }
    desk.batch(&mut home, 3);
    let forwarded = desk.forwarded();
    assert_eq!(forwarded.len(), 2);
    drop(home);
    let first = forwarded.keys().next().unwrap();
    desk.place.disk.drop_file(first);
    assert_eq!(desk.forwarded().len(), 1);
    drop(desk.open());
    assert_eq!(desk.forwarded(), forwarded, "at least once");
    // Somebody changed it: it is restored.
    desk.place.disk.put(first, b"{}");
    let mut home = desk.open();
    assert_eq!(desk.forwarded(), forwarded);
    home.finish("it is published").unwrap();
    drop(home);
    desk.place.disk.drop_file(first);
    drop(desk.open());
    assert_eq!(
        desk.forwarded().len(),
        1,
        "a consumer's work is not undone for ever"
    );
}

// A number that SQLite cannot hold ended the gate, again at every start.
#[test]
fn no_receipt_id_ends_the_gate() {
    let desk = Desk::new("max_spawn_depth: 3\n");
    let mut home = desk.open();
    desk.send("bot", "a");
    desk.batch(&mut home, 1);
    for (n, id) in [
        "r-9223372036854775807",
        "r-9223372036854775808",
        "r-18446744073709551615",
    ]
    .iter()
    .enumerate()
    {
        let task = Task {
            cause: Some(json!(id)),
            ..Task::parse(&format!("b{n}<a"))
        };
        desk.drop("bot", &task.id, &task);
        let done = desk.batch(&mut home, 1);
        assert_eq!(reason(&done[0]), Some(Reason::UnknownReceipt), "{id}");
    }
}

// A payload that is only read as text: its content must not change its destination.
#[test]
fn a_payload_that_no_reader_holds_is_forwarded_as_it_is() {
    let desk = Desk::new("max_spawn_depth: 3\n");
    let mut home = desk.open();
    let mut task = Task::parse("a");
    task.payload = json!({"blob": "x".repeat(20_000), "target": "\u{202e}\u{1b}[31m"});
    desk.drop("bot", "a", &task);
    let done = desk.batch(&mut home, 1);
    let path = format!("forward/s/r-{}.json", done[0].seq);
    assert_eq!(done[0].decision.forwarded_to(), Some(path.as_str()));
    assert!(
        done[0].decision.payload_blob.is_some(),
        "it is kept by digest"
    );
    desk.agrees(home, &done);
}
