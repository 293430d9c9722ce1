//! Pruned segments: the gate continues, old heads and proofs hold, what remains is checked, and
//! nothing is decided again or on an incomplete state because a line is missing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::kit::closed::{archive_all, ask, cut, dying, four_segments};
use crate::kit::ledger_files::{Files, Opened};
use crate::kit::memory_disk::MemoryDisk;
use crate::kit::place::{Place, drain};
use spoolgate_home::pruning::{Pruned, UpTo};
use spoolgate_home::{Home, HomeError, Seams, read};
use spoolgate_host::entropy::SeededEntropy;
use spoolgate_ledger::disk::Disk;
use spoolgate_ledger::prove::{ProveError, Prover};
use spoolgate_ledger::recover;
use spoolgate_ledger::stub::Stub;
use spoolgate_ledger::verify::{self, Options, Reached, Report};
use spoolgate_ledger::{LedgerError, segment};
use spoolgate_wire::code::Code;
use spoolgate_wire::ids::Principal;
use spoolgate_wire::signing::SignKey;

fn audit() -> &'static Path {
    Path::new("audit")
}

fn archive_path(number: u32) -> PathBuf {
    audit().join(segment::archive_name(number))
}

fn stub_path(number: u32) -> PathBuf {
    audit().join(segment::stub_name(number))
}

/// Copies the archives of a home to another disk.
fn copies(place: &Place) -> MemoryDisk {
    let copies = MemoryDisk::default();
    for (path, bytes) in place.disk.files_below("audit") {
        if path.to_string_lossy().ends_with(".zst") {
            copies.put(path.file_name().unwrap(), &bytes);
        }
    }
    copies
}

fn prune(
    place: &Place,
    up_to: UpTo,
    copies: Option<&MemoryDisk>,
) -> Result<Vec<Pruned>, HomeError> {
    let copies = copies.map(|copies| copies as &dyn Disk);
    Home::prune(
        place.root.path(),
        place.seams(),
        up_to,
        copies,
        false,
        &mut |_| {},
    )
}

fn check_with(disk: &dyn Disk, heads: Vec<(String, String)>) -> Report {
    let options = Options {
        strict: Some(spoolgate_gate::record::canonical),
        threads: 2,
        heads,
        ..Options::default()
    };
    verify::verify(disk, audit(), &options, &|_| {}).unwrap()
}

/// Makes four segments, of which the first `count` are pruned. Also returns the copies and the
/// checkpoint from before.
fn pruned(seed: u64, count: u32) -> (Place, SignKey, MemoryDisk, String) {
    let (place, bot) = four_segments(seed);
    archive_all(place.disk.as_ref(), 0).unwrap();
    let head = String::from_utf8(place.disk.get("audit/checkpoint").unwrap()).unwrap();
    let copied = copies(&place);
    let done = prune(&place, UpTo::Before(count + 1), Some(&copied)).unwrap();
    assert_eq!(done.len(), usize::try_from(count).unwrap());
    (place, bot, copied, head)
}

fn missing(error: &HomeError) -> Vec<String> {
    match error {
        HomeError::Ledger(LedgerError::Pruned(missing)) => {
            assert!(missing.0.iter().all(|one| one.sha256.is_some()));
            missing.0.iter().map(|one| one.file.clone()).collect()
        }
        other => panic!("not for what was pruned: {other}"),
    }
}

#[test]
fn a_pruned_home_verifies_and_goes_on() {
    let (place, bot, _, head) = pruned(1, 3);
    for number in 1..4 {
        assert_eq!(place.disk.get(archive_path(number)), None);
        assert!(place.disk.get(stub_path(number)).is_some());
    }
    let report = check_with(place.disk.as_ref(), vec![("noted".to_owned(), head)]);
    assert!(report.ok, "{:?}", report.problems);
    assert_eq!((report.segments, report.pruned, report.torn), (4, 3, 1));
    assert!(
        report.unseen_lines > 300 && report.unseen_lines < report.lines,
        "{report:?}"
    );
    let unseen = format!(
        "the content of {} of {} lines",
        report.unseen_lines, report.lines
    );
    assert!(
        report
            .not_shown
            .iter()
            .any(|what| what.starts_with(&unseen)),
        "{:?}",
        report.not_shown
    );
    assert_eq!(report.reached, Reached::RememberedHead);

    let mut home = place.open().unwrap();
    ask(&place, &bot, "later");
    let outcomes = drain(&mut home).unwrap();
    assert!(
        outcomes[0].answer.error.is_none(),
        "{:?}",
        outcomes[0].answer
    );
    drop(home);
    assert!(place.open().is_ok());
    assert!(read::read(place.root.path(), &place.seams()).is_ok());
    assert!(check_with(place.disk.as_ref(), Vec::new()).ok);
    // A segment that the log does not have is a mistake, not a segment that needs no pruning.
    match prune(&place, UpTo::Before(9), None) {
        Err(HomeError::NotAllowed(why)) => assert!(why.contains("log-00000009"), "{why}"),
        other => panic!("{other:?}"),
    }
    place.disk.drop_file(audit().join("SEGMENTS"));
    let report = check_with(place.disk.as_ref(), Vec::new());
    let problem = &report.problems[0];
    let names_it = problem.what.contains("does not name `log-00000001.jsonl`");
    assert!(problem.file == "SEGMENTS" && names_it, "{report:?}");
}

#[test]
fn a_repeated_request_is_refused_and_never_decided_again() {
    let (place, bot, copied, _) = pruned(2, 3);
    let answer = place.disk.get("spool/out/l1.json").unwrap();
    let mut home = place.open().unwrap();
    ask(&place, &bot, "l1");
    let outcomes = drain(&mut home).unwrap();
    let error = outcomes[0].answer.error.as_ref().unwrap();
    assert_eq!(error.code, Code::Pruned, "{error:?}");
    assert!(
        error.message.contains("log-00000001.jsonl"),
        "{}",
        error.message
    );
    assert_eq!(outcomes[0].decision.metadata.replay_of, None);
    assert_eq!(
        place.disk.get("spool/out/l1.json").unwrap(),
        answer,
        "the answer that stands is left alone"
    );
    // The same id with other content has the same result as ever.
    place.ask(&bot, "trend-bot", "l1", "portfolio.get", "{}");
    let error = drain(&mut home).unwrap()[0].answer.error.clone().unwrap();
    assert_eq!(error.code, Code::RequestIdConflict);
    // After the archive is brought back beside the open gate, the answer is the same as ever.
    place.disk.put(
        archive_path(1),
        &copied.get(segment::archive_name(1)).unwrap(),
    );
    place.disk.drop_file("spool/out/l1.json");
    ask(&place, &bot, "l1");
    let outcomes = drain(&mut home).unwrap();
    assert!(outcomes[0].decision.metadata.replay_of.is_some());
    assert_eq!(place.disk.get("spool/out/l1.json").unwrap(), answer);
    drop(home);
    assert!(check_with(place.disk.as_ref(), Vec::new()).ok);
}

#[test]
fn without_its_state_it_says_what_to_bring_back() {
    let (place, _, copied, _) = pruned(3, 2);
    let state = place.open().unwrap().state().clone();
    let whole = place.fork();
    let wanted = vec![
        "log-00000001.jsonl".to_owned(),
        "log-00000002.jsonl".to_owned(),
    ];
    // A rebuild that fails leaves the existing state.
    let Err(error) = Home::rebuild(place.root.path(), place.seams()) else {
        panic!("rebuilt from nothing")
    };
    assert_eq!(missing(&error), wanted);
    assert!(place.open().is_ok());

    let state_db = place.root.path().join("state/state.db");
    let good = std::fs::read(&state_db).unwrap();
    place.forget_state();
    for damage in [
        None,
        Some(b"no database".to_vec()),
        Some(good[..good.len() / 2].to_vec()),
    ] {
        place.forget_state();
        if let Some(bytes) = &damage {
            std::fs::write(&state_db, bytes).unwrap();
        }
        let error = place.open().map(|_| ()).unwrap_err();
        assert_eq!(missing(&error), wanted);
        assert!(
            error.to_string().contains(
                &Stub::read(place.disk.as_ref(), audit(), 2)
                    .unwrap()
                    .header
                    .sha256
            )
        );
        let there = std::fs::read(&state_db).ok();
        assert_eq!(
            there, damage,
            "what is no good is not replaced by something empty"
        );
        let error = read::read(place.root.path(), &place.seams())
            .map(|_| ())
            .unwrap_err();
        assert_eq!(missing(&error), wanted);
    }
    place.forget_state();
    // One of two segments is not enough.
    place.disk.put(
        archive_path(2),
        &copied.get(segment::archive_name(2)).unwrap(),
    );
    assert_eq!(missing(&place.open().map(|_| ()).unwrap_err()), wanted[..1]);
    place.disk.put(
        archive_path(1),
        &copied.get(segment::archive_name(1)).unwrap(),
    );
    assert_eq!(*place.open().unwrap().state(), state);
    assert!(check_with(place.disk.as_ref(), Vec::new()).ok);
    // The form of the segment does not matter either.
    whole.forget_state();
    for number in 1..3 {
        let file = segment::open(&archives_only(&copied), audit(), number).unwrap();
        let length = usize::try_from(file.len().unwrap()).unwrap();
        let plain = spoolgate_ledger::disk::read_exact_at(file.as_ref(), 0, length).unwrap();
        whole.disk.put(segment::path(number), &plain);
    }
    assert_eq!(*whole.open().unwrap().state(), state);
    assert!(Home::rebuild(whole.root.path(), whole.seams()).unwrap().1);
}

fn archives_only(copies: &MemoryDisk) -> MemoryDisk {
    let disk = MemoryDisk::default();
    for (path, bytes) in copies.files_below("") {
        disk.put(audit().join(path), &bytes);
    }
    disk
}

#[test]
fn readers_of_everything_report_what_is_missing() {
    let (place, _, _, _) = pruned(4, 2);
    let replayed = spoolgate_replay::history::each_decision(
        place.root.path(),
        &place.seams(),
        &mut |_| {},
        &mut |_, _| Ok(()),
    );
    assert_eq!(missing(&replayed.unwrap_err()).len(), 2);
    let view = read::read(place.root.path(), &place.seams()).unwrap();
    let seen = view.request_lines("l1").unwrap();
    assert_eq!(
        missing(&view.record(seen[0]).unwrap_err()),
        ["log-00000001.jsonl"]
    );
}

#[test]
fn proofs_hold_over_what_was_pruned() {
    let (place, _) = four_segments(5);
    archive_all(place.disk.as_ref(), 0).unwrap();
    let copied = copies(&place);
    let disk: &dyn Disk = place.disk.as_ref();
    let lines = verify::verify(disk, audit(), &Options::default(), &|_| {})
        .unwrap()
        .lines;
    let old = {
        let prover = Prover::open(disk, audit()).unwrap();
        prover.newest().unwrap()
    };
    let (early, late) = (lines / 2, lines - 20);
    let (line, receipt) = {
        let prover = Prover::open(disk, audit()).unwrap();
        let line = prover.finder().unwrap().line(early).unwrap().unwrap();
        (line, prover.receipt(early, &old).unwrap())
    };
    prune(&place, UpTo::Keep(0), Some(&copied)).unwrap();
    for name in ["leaves", "leaves.8", "leaves.16", "leaves.24"] {
        place.disk.drop_file(audit().join(name));
    }
    let prover = Prover::open(disk, audit()).unwrap();
    receipt.check(&old.key).unwrap();
    let new = prover.newest().unwrap();
    prover.check_head(&new.checkpoint).unwrap();
    prover.check_head(&old.checkpoint).unwrap();
    assert!(old.checkpoint.size < new.checkpoint.size);
    prover.extension(&old, &new).unwrap();
    // The line itself is missing here. With a copy of the line its receipt can be made, and with
    // another line it cannot.
    let refused = prover.receipt(early, &new).map(|_| ()).unwrap_err();
    assert!(
        matches!(refused, ProveError::Ledger(LedgerError::Pruned(_))),
        "{refused}"
    );
    prover
        .receipt_of(early, line.clone(), &new)
        .unwrap()
        .check(&new.key)
        .unwrap();
    // The log is sound, so only the question was wrong.
    for (seq, line) in [(early + 1, line), (late, b"{}".to_vec())] {
        let refused = prover.receipt_of(seq, line, &new);
        assert!(
            matches!(refused, Err(ProveError::OtherLine(n)) if n == seq),
            "{refused:?}"
        );
    }
    // The first batch of each segment remains.
    prover.receipt(0, &new).unwrap().check(&new.key).unwrap();
}

#[test]
fn heads_within_pruned_segments_still_count() {
    let place = Place::new(6);
    let bot = place.ask_for_agent_key("k1");
    drain(&mut place.open().unwrap()).unwrap();
    let mut heads = Vec::new();
    for round in 0..6 {
        ask(&place, &bot, &format!("r{round}"));
        drain(&mut place.open().unwrap()).unwrap();
        heads.push(String::from_utf8(place.disk.get("audit/checkpoint").unwrap()).unwrap());
        if round % 2 == 1 {
            cut(&place);
        }
    }
    archive_all(place.disk.as_ref(), 0).unwrap();
    prune(&place, UpTo::Keep(0), None).unwrap();
    let named = |head: &String| vec![("noted".to_owned(), head.clone())];
    for head in &heads {
        let report = check_with(place.disk.as_ref(), named(head));
        assert!(
            report.ok && report.heads.len() == 1,
            "{head}{:?}",
            report.problems
        );
    }
    // The head of another home with the same log key does not count.
    let other = Place::new(6);
    let bot = other.ask_for_agent_key("k1");
    drain(&mut other.open().unwrap()).unwrap();
    other.pass_s(1);
    ask(&other, &bot, "else");
    drain(&mut other.open().unwrap()).unwrap();
    let fork = String::from_utf8(other.disk.get("audit/checkpoint").unwrap()).unwrap();
    let report = check_with(place.disk.as_ref(), named(&fork));
    assert!(
        !report.ok && report.reached < Reached::RememberedHead,
        "{fork}"
    );
}

/// The hand-overs are in the first batches, which pruning keeps: the keys, heads and proofs of
/// every time stay valid.
#[test]
fn keys_of_every_time_are_known_over_pruned_segments() {
    let (place, bot) = four_segments(8);
    let head = || String::from_utf8(place.disk.get("audit/checkpoint").unwrap()).unwrap();
    let owner = Principal::parse("owner").unwrap();
    let mut heads = vec![head()];
    let mut keys = Vec::new();
    for seed in [31, 32] {
        let seams = Seams {
            entropy: Arc::new(SeededEntropy::new(seed)),
            ..place.seams()
        };
        let rotated = place
            .open_with(seams)
            .unwrap()
            .rotate_keys(&owner, "yearly")
            .unwrap();
        keys.push(rotated.old_log_key);
        ask(&place, &bot, &format!("after{seed}"));
        drain(&mut place.open().unwrap()).unwrap();
        keys.push(rotated.log_key);
        heads.push(head());
    }
    keys.dedup();
    let before = recover::keys_over_time(place.disk.as_ref(), audit()).unwrap();
    cut(&place);
    archive_all(place.disk.as_ref(), 0).unwrap();
    prune(&place, UpTo::Keep(0), None).unwrap();
    let disk: &dyn Disk = place.disk.as_ref();
    assert!(
        recover::kept(disk, audit())
            .unwrap()
            .iter()
            .filter(|(_, kept)| kept.is_pruned())
            .count()
            >= 6
    );
    let after = recover::keys_over_time(disk, audit()).unwrap();
    assert_eq!(after, before);
    let known: Vec<String> = after
        .all()
        .iter()
        .map(|from| from.keys.log_key.to_string())
        .collect();
    assert_eq!(known, keys);
    let prover = Prover::open(disk, audit()).unwrap();
    let newest = prover.newest().unwrap();
    for (text, key) in heads.iter().zip(&keys) {
        let report = check_with(disk, vec![("noted".to_owned(), text.clone())]);
        assert!(report.ok && report.keys.len() == 3, "{:?}", report.problems);
        let head = prover.head(text).unwrap();
        assert_eq!(head.key.to_string(), *key);
        prover.check_head(&head.checkpoint).unwrap();
        prover
            .extension(&head, &newest)
            .unwrap()
            .check(&head.checkpoint, &newest.key)
            .unwrap();
    }
}

/// A stub that is consistent but does not match the log around it.
#[test]
fn a_stub_that_states_something_else() {
    let (place, _, _, _) = pruned(9, 3);
    let files = Files::of(&place);
    assert!(files.verifies());
    let path = stub_path(2);
    let bytes = place.disk.get(&path).unwrap();
    let stub = Stub::from_bytes(&bytes).unwrap();
    assert_eq!(stub.to_bytes().unwrap(), bytes);
    type Edit = (&'static str, fn(&mut Stub));
    let edits: [Edit; 9] = [
        ("another first line", |stub| stub.header.first_line += 1),
        ("another first batch", |stub| stub.header.first_batch += 1),
        ("a batch more", |stub| stub.header.batches += 1),
        ("a batch less", |stub| stub.header.batches -= 1),
        ("another length", |stub| stub.header.length += 1),
        ("no rest", |stub| stub.header.rest = None),
        ("another sum", |stub| stub.header.sha256 = "0".repeat(64)),
        ("a line less", |stub| {
            stub.header.lines -= 1;
            stub.leaves.pop();
        }),
        ("a line more", |stub| {
            stub.header.lines += 1;
            stub.leaves.push(stub.leaves[0]);
        }),
    ];
    for (what, edit) in edits {
        let mut changed = stub.clone();
        edit(&mut changed);
        assert_ne!(changed, stub, "{what}");
        assert!(
            !files
                .with(&path, Some(changed.to_bytes().unwrap()))
                .verifies(),
            "{what}"
        );
    }
    let spaced = [b"{ ", &bytes[1..]].concat();
    assert!(Stub::from_bytes(&spaced).is_err(), "another spelling");
    assert!(
        Stub::from_bytes(&[&bytes[..], b"x"].concat()).is_err(),
        "a byte more"
    );
    assert!(
        Stub::from_bytes(&bytes[..bytes.len() - 32]).is_err(),
        "a hash less"
    );
    assert!(
        Stub::from_bytes(&[&bytes[..], &[0; 32]].concat()).is_err(),
        "a hash more"
    );
}

#[test]
fn segments_left_by_pruning_are_checked_byte_by_byte() {
    let (place, _, copied, _) = pruned(7, 3);
    let files = Files::of(&place);
    assert!(files.verifies(), "{:?}", files.verify(false));
    let mut tried = 0;
    for number in 1..4 {
        let path = stub_path(number);
        let stub = place.disk.get(&path).unwrap();
        let step = if stub.len() > 10_000 { 61 } else { 3 };
        for at in (0..stub.len()).step_by(step).chain(0..300) {
            let mut changed = stub.clone();
            changed[at] ^= 1 << (at % 8);
            let report = files.with(&path, Some(changed)).verify(false);
            assert!(
                !report.is_ok_and(|report| report.ok),
                "byte {at} of stub {number}"
            );
            tried += 1;
        }
        for length in [0, 1, 200, stub.len() - 32, stub.len() - 1] {
            assert!(
                !files.with(&path, Some(stub[..length].to_vec())).verifies(),
                "{number} cut to {length}"
            );
        }
        let other = place.disk.get(stub_path(number % 3 + 1)).unwrap();
        assert!(
            !files.with(&path, Some(other)).verifies(),
            "{number} swapped"
        );
        assert!(!files.with(&path, None).verifies(), "{number} gone");
    }
    println!("{tried} bytes changed");
    // Beside the content that was brought back, the stub is compared with that content.
    let path = stub_path(2);
    let mut changed = place.disk.get(&path).unwrap();
    let last = changed.len() - 40;
    changed[last] ^= 1;
    let back = files.with(&archive_path(2), copied.get(segment::archive_name(2)));
    assert!(back.verifies());
    assert!(!back.with(&path, Some(changed)).verifies());
    assert!(
        !files.with(Path::new("audit/SEGMENTS"), None).verifies(),
        "what was pruned must be listed"
    );
    // Reading from the first line on is impossible.
    let disk = Arc::new(MemoryDisk::with(&files.files));
    let error = spoolgate_ledger::recover::open(disk, files.signer(), None, &mut |_| Ok(()));
    assert!(matches!(error, Err(LedgerError::Pruned(_))));
    assert!(matches!(
        back.with(&stub_path(1), None).open(),
        Opened::Corrupt(_)
    ));
}

#[test]
fn pruning_that_is_stopped_anywhere_loses_nothing() {
    let place = Place::new(8);
    let bot = place.ask_for_agent_key("k1");
    for round in 0..3 {
        ask(&place, &bot, &format!("r{round}"));
        drain(&mut place.open().unwrap()).unwrap();
        cut(&place);
    }
    archive_all(place.disk.as_ref(), 1).unwrap();
    drop(place.open().unwrap());
    let mut steps = 0;
    let mut stopped = 0;
    loop {
        let here = place.fork();
        let seams = Seams {
            disk: Arc::new(dying(&here.disk, steps)),
            ..here.seams()
        };
        let ended = Home::prune(
            here.root.path(),
            seams,
            UpTo::Before(3),
            None,
            false,
            &mut |_| {},
        );
        let left = Files::of(&here);
        assert!(
            left.verifies(),
            "stopped at step {steps}: {:?}",
            left.verify(false).map(|r| r.problems)
        );
        let mut home = here.open().unwrap();
        ask(&here, &bot, "after");
        assert!(drain(&mut home).unwrap()[0].answer.error.is_none());
        drop(home);
        let again = prune(&here, UpTo::Before(3), None).unwrap();
        let pruned: Vec<bool> = (1..5)
            .map(|number| here.disk.get(archive_path(number)).is_none())
            .collect();
        assert_eq!(
            pruned,
            [true, true, true, true],
            "none of them is an archive any more, or was not one"
        );
        assert!(here.disk.get(segment::path(3)).is_some() && here.disk.get(stub_path(3)).is_none());
        assert!(check_with(here.disk.as_ref(), Vec::new()).ok);
        stopped += usize::from(again.len() == 1);
        if ended.is_ok() {
            break;
        }
        steps += 1;
    }
    println!("stopped at each of {steps} steps, {stopped} times between two segments");
    assert!(steps > 10 && stopped > 0);
}

#[test]
fn it_refuses_without_copies_archives_or_while_lines_are_needed() {
    let (place, _) = four_segments(9);
    let told = |up_to, copies: Option<&MemoryDisk>, part: &str| {
        let before = place.disk.files_below("audit/log");
        let error = prune(&place, up_to, copies).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
        assert_eq!(place.disk.files_below("audit/log"), before);
    };
    told(UpTo::Keep(1), None, "audit archive");
    archive_all(place.disk.as_ref(), 0).unwrap();
    let good = copies(&place);
    told(UpTo::Keep(1), Some(&MemoryDisk::default()), "no copy");
    let wrong = good.copy();
    wrong.put(
        segment::archive_name(2),
        &good.get(segment::archive_name(1)).unwrap(),
    );
    told(UpTo::Keep(1), Some(&wrong), "SHA-256");
    let damaged = good.copy();
    let mut bytes = good.get(segment::archive_name(2)).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    damaged.put(segment::archive_name(2), &bytes);
    told(UpTo::Keep(1), Some(&damaged), "its copy");
    // The copy may be plain, and segments that are not pruned need no copy.
    assert_eq!(prune(&place, UpTo::Before(1), Some(&good)).unwrap(), []);
    let first = prune(&place, UpTo::Before(2), Some(&good)).unwrap();
    assert_eq!(
        first
            .iter()
            .map(|one| one.file.as_str())
            .collect::<Vec<_>>(),
        ["log-00000001.jsonl"]
    );
    assert_eq!(
        prune(&place, UpTo::Before(2), Some(&MemoryDisk::default())).unwrap(),
        []
    );
    // The last segment stays, however many are to be pruned.
    assert_eq!(prune(&place, UpTo::Keep(0), Some(&good)).unwrap().len(), 2);
    assert!(place.disk.get(segment::path(4)).is_some());
    // A running gate prevents pruning.
    let _running = place.open().unwrap();
    assert!(matches!(
        prune(&place, UpTo::Keep(0), None),
        Err(HomeError::Busy(_))
    ));
}
