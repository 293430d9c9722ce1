//! The log's keys are rotated: what verifies before and after, kills at every step, and what a key
//! that has ended, or is not in force yet, must not do (journald CVE-2023-31439: a later key sealed
//! old lines again).

use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::kit::layered::{Fuse, Layered};
use crate::kit::ledger_files::{Files, Opened, lines_of};
use crate::kit::memory_disk::MemoryDisk;
use crate::kit::place::{ORIGIN, Place, drain};
use crate::kit::{Scratch, command, show, succeed};
use ed25519_dalek::SigningKey;
use spoolgate_home::index::Store;
use spoolgate_home::rotation::Rotated;
use spoolgate_home::{Home, HomeError, Seams, layout, read};
use spoolgate_host::entropy::SeededEntropy;
use spoolgate_host::keyring::{LogKeys, SqliteKeyring};
use spoolgate_ledger::log::LogSigner;
use spoolgate_ledger::note::{self, Checkpoint};
use spoolgate_ledger::recover;
use spoolgate_ledger::rotation::{self, LogIdentity, Order, Rotation, Timeline};
use spoolgate_ledger::seal::Seal;
use spoolgate_ledger::tree::{Hash, leaf_hash};
use spoolgate_ledger::verify::{self, Options, Report};
use spoolgate_wire::code::Exit;
use spoolgate_wire::ids::Principal;
use spoolgate_wire::time::Time;

fn owner() -> Principal {
    Principal::parse("owner").unwrap()
}

/// Makes a home with some lines.
fn ready(seed: u64) -> Place {
    let place = Place::new(seed);
    place.ask_for_agent_key("k1");
    go_on(&place, "ready");
    place
}

fn go_on(place: &Place, what: &str) {
    place.ask_as_owner(what, "halt.set", r#"{"reason":"a drill"}"#);
    let mut home = place.open().unwrap();
    drain(&mut home).unwrap();
    home.finish(what).unwrap();
}

fn rotate(place: &Place) -> Rotated {
    rotate_with(place, 11)
}

fn rotate_with(place: &Place, seed: u64) -> Rotated {
    let mut seams = place.seams();
    seams.entropy = Arc::new(SeededEntropy::new(seed));
    place
        .open_with(seams)
        .unwrap()
        .rotate_keys(&owner(), "yearly")
        .unwrap()
}

fn keyring(place: &Place) -> SqliteKeyring {
    SqliteKeyring::open(place.root.path(), false).unwrap()
}

fn seeds(keys: &LogKeys) -> ([u8; 32], [u8; 32]) {
    (keys.log_seed, keys.seal_seed)
}

fn report(files: &Files, options: &Options) -> Report {
    let options = Options {
        strict: Some(spoolgate_gate::record::canonical),
        threads: 1,
        ..options.clone()
    };
    verify::verify(
        &MemoryDisk::with(&files.files),
        Path::new("audit"),
        &options,
        &|_| {},
    )
    .unwrap()
}

fn with_head(files: &Files, text: &str) -> Report {
    report(
        files,
        &Options {
            heads: vec![("noted".to_owned(), text.to_owned())],
            ..Options::default()
        },
    )
}

/// Checks that the state equals the state folded from the first line.
fn check_sound(place: &Place, what: &str) {
    let report = report(&Files::of(place), &Options::default());
    assert!(report.ok, "{what}: {:?}", report.problems);
    let (_, same) = Home::rebuild(place.root.path(), place.seams()).unwrap();
    assert!(same, "{what}: a rebuild gives another state");
}

#[test]
fn old_heads_and_both_keys_verify_afterwards() {
    let place = ready(1);
    let before = keyring(&place).log_keys().unwrap();
    let old_head = String::from_utf8(place.disk.get("audit/checkpoint").unwrap()).unwrap();
    let rotated = rotate(&place);
    // The index has the line without another start.
    let index = Store::open_read_only(place.root.path()).unwrap();
    let there = index.line(rotated.line).unwrap().unwrap();
    assert!(
        place.open().unwrap().record(rotated.line).is_ok(),
        "{there:?}"
    );
    drop(index);
    let kinds: Vec<String> = lines_of(&place.disk.get("audit/log-00000002.jsonl").unwrap())
        .iter()
        .map(|line| {
            String::from_utf8_lossy(line)
                .split('"')
                .nth(11)
                .unwrap()
                .to_owned()
        })
        .collect();
    assert_eq!(kinds, ["segment", "rotate", "seal"]);
    let after = keyring(&place).log_keys().unwrap();
    assert_ne!(before.log_seed, after.log_seed);
    assert_ne!(before.seal_seed, after.seal_seed);
    assert!(keyring(&place).pending_log_keys().unwrap().is_none());
    // The file contains no byte sequence of the old seeds.
    let bytes = fs::read(place.root.path().join("state/keyring.db")).unwrap();
    for seed in [before.log_seed, before.seal_seed] {
        assert!(
            !bytes.windows(32).any(|window| window == seed),
            "an old seed is in the keyring"
        );
    }
    go_on(&place, "after");
    check_sound(&place, "after a rotation");
    let again = rotate_with(&place, 12);
    assert_eq!(again.old_log_key, rotated.log_key);
    go_on(&place, "after-two");
    let files = Files::of(&place);
    let report_now = with_head(&files, &old_head);
    assert!(report_now.ok, "{:?}", report_now.problems);
    let keys: Vec<&str> = report_now
        .keys
        .iter()
        .map(|key| key.log_key.as_str())
        .collect();
    assert_eq!(
        keys,
        [&rotated.old_log_key, &rotated.log_key, &again.log_key]
    );
    assert_eq!(
        (report_now.keys[0].from_line, report_now.keys[1].from_line),
        (0, rotated.line - 1)
    );
    assert_eq!(report_now.log_key, again.log_key);
    for key in keys {
        let options = Options {
            key: Some(key.parse().unwrap()),
            ..Options::default()
        };
        assert!(report(&files, &options).ok, "--key {key}");
    }
    let other = layout::log_signer(
        ORIGIN,
        &LogKeys {
            log_seed: [9; 32],
            seal_seed: [9; 32],
        },
    )
    .unwrap();
    let options = Options {
        key: Some(other.verifier().clone()),
        ..Options::default()
    };
    assert!(!report(&files, &options).ok);
    // Readers without a keyring follow the keys too, from the first line and from the snapshot.
    let view = read::read(place.root.path(), &place.seams()).unwrap();
    place.forget_state();
    let from_first = read::read(place.root.path(), &place.seams()).unwrap();
    assert_eq!(view.state, from_first.state);
    let timeline =
        recover::keys_over_time(&MemoryDisk::with(&files.files), Path::new("audit")).unwrap();
    assert_eq!(timeline.all().len(), 3);
}

/// After a kill at any change of the disk, the home opens with the keys that its log ends with, and
/// continues.
#[test]
fn a_kill_at_every_step() {
    let base = ready(2);
    let old = seeds(&keyring(&base).log_keys().unwrap());
    let (mut kept, mut rotated) = (0, 0);
    for steps in 0.. {
        let place = base.fork();
        let mut home = place.open().unwrap();
        drop(home);
        let fuse = Fuse::endless();
        let burns = Arc::clone(&fuse);
        let dying = Layered::before(place.disk.clone(), move |call| {
            if call.is_change() {
                burns.burn()
            } else {
                Ok(())
            }
        });
        home = place
            .open_with(Seams {
                disk: Arc::new(dying),
                ..place.seams()
            })
            .unwrap();
        fuse.set(steps);
        let ended = home.rotate_keys(&owner(), "yearly").is_ok();
        drop(home);
        // The next start completes it.
        go_on(&place, &format!("next-{steps}"));
        check_sound(&place, &format!("killed after {steps} changes"));
        assert!(
            keyring(&place).pending_log_keys().unwrap().is_none(),
            "{steps}"
        );
        let has_file = place.disk.get("audit/log-00000002.jsonl").is_some();
        let is_new = seeds(&keyring(&place).log_keys().unwrap()) != old;
        assert_eq!(is_new, has_file, "killed after {steps} changes");
        if is_new {
            rotated += 1
        } else {
            kept += 1
        }
        if ended {
            break;
        }
    }
    assert!(
        kept >= 1 && rotated >= 3,
        "{kept} kept the old keys, {rotated} have new ones"
    );
}

/// The gate was killed between the appearance of the file and the deletion of the old keys.
#[test]
fn both_pairs_in_the_keyring() {
    let base = ready(3);
    let place = base.fork();
    let pending = LogKeys {
        log_seed: [5; 32],
        seal_seed: [6; 32],
    };
    keyring(&place).set_pending_log_keys(&pending).unwrap();
    // The file never appeared: the old keys stay.
    let unchanged = place.fork();
    go_on(&unchanged, "kept");
    assert!(keyring(&unchanged).pending_log_keys().unwrap().is_none());
    check_sound(&unchanged, "kept");
    // The file appeared.
    let files = Files::of(&place);
    let next = layout::log_signer(ORIGIN, &pending).unwrap();
    let (mut ledger, _) =
        recover::open(place.disk.clone(), files.signer(), None, &mut |_| Ok(())).unwrap();
    ledger.rotate(next, &order()).unwrap();
    drop(ledger);
    go_on(&place, "went-on");
    assert_eq!(seeds(&keyring(&place).log_keys().unwrap()), seeds(&pending));
    assert!(keyring(&place).pending_log_keys().unwrap().is_none());
    check_sound(&place, "went on");
    // A keyring that is older than the rotation cannot continue.
    for file in ["state/keyring.db", "state/keyring.key"] {
        fs::copy(base.root.path().join(file), place.root.path().join(file)).unwrap();
    }
    let error = place.open().err().unwrap();
    assert!(
        error.exit() == Exit::LedgerCorrupt && error.to_string().contains("the keyring has"),
        "{error}"
    );
}

fn order() -> Order {
    let timestamp = Time::parse("2026-03-02T12:00:00Z").unwrap();
    Order {
        timestamp,
        by: owner(),
        reason: "yearly".to_owned(),
    }
}

/// Makes a log that was rotated once, with a batch after the rotation. Also returns the keys from
/// before.
fn rotated(seed: u64) -> (Place, LogKeys) {
    let place = ready(seed);
    let old = keyring(&place).log_keys().unwrap();
    rotate(&place);
    go_on(&place, "after");
    (place, old)
}

fn refuses(files: &Files, what: &str) {
    let problems = files.verify(true);
    assert!(
        !problems.as_ref().is_ok_and(|report| report.ok),
        "{what}: verify"
    );
    assert!(!matches!(files.open(), Opened::Clean(_)), "{what}: open");
}

#[test]
fn one_bit_in_each_member_of_the_rotate_line() {
    let (place, _) = rotated(4);
    let files = Files::of(&place);
    let text = files.segment(2).to_vec();
    let line = lines_of(&text)[1].clone();
    let start = text
        .windows(line.len())
        .position(|window| window == line)
        .unwrap();
    let members = [
        "timestamp",
        "by",
        "reason",
        "log_key",
        "seal_key",
        "old_log_sig",
        "old_seal_sig",
        "new_log_sig",
    ];
    let shown = String::from_utf8(line).unwrap();
    for member in members {
        let value = shown.find(&format!("\"{member}\":\"")).unwrap() + member.len() + 4;
        for bit in [0, 1] {
            let mut changed = text.clone();
            changed[start + value + 2] ^= 1 << bit;
            refuses(
                &files.with_segment(2, changed),
                &format!("bit {bit} in {member}"),
            );
        }
    }
}

/// The holder of the new keys, who can recompute everything after the rotation, cannot change what
/// the old keys signed.
#[test]
fn a_hand_over_says_what_was_signed() {
    let signer = |log: u8, seal: u8| {
        let keys = LogKeys {
            log_seed: [log; 32],
            seal_seed: [seal; 32],
        };
        layout::log_signer(ORIGIN, &keys).unwrap()
    };
    let (old, new, other) = (signer(1, 2), signer(3, 4), signer(5, 6));
    let prev = leaf_hash(b"segment");
    let good = rotation::sign(&order(), &old, &new, 8, &prev);
    assert_eq!(
        rotation::check(&good, &old.identity(), 8, &prev).unwrap(),
        new.identity()
    );
    type Edit = fn(&mut Rotation, &Rotation);
    let others = rotation::sign(&order(), &other, &other, 8, &prev);
    let edits: [(&str, Edit); 9] = [
        ("timestamp", |rotation, _| {
            rotation.timestamp = rotation.timestamp.plus_ms(1)
        }),
        ("by", |rotation, _| {
            rotation.by = Principal::parse("somebody").unwrap()
        }),
        ("reason", |rotation, _| rotation.reason.push('.')),
        ("a reason of two lines", |rotation, _| {
            rotation.reason.push_str("\nx")
        }),
        ("log_key", |rotation, other| {
            rotation.log_key.clone_from(&other.log_key)
        }),
        ("seal_key", |rotation, other| {
            rotation.seal_key.clone_from(&other.seal_key)
        }),
        ("old_log_sig", |rotation, other| {
            rotation.old_log_sig.clone_from(&other.old_log_sig)
        }),
        ("old_seal_sig", |rotation, other| {
            rotation.old_seal_sig.clone_from(&other.old_seal_sig)
        }),
        ("new_log_sig", |rotation, other| {
            rotation.new_log_sig.clone_from(&other.new_log_sig)
        }),
    ];
    let refused = |rotation: &Rotation, identity: &LogIdentity, seq, prev: &Hash, what: &str| {
        assert!(
            rotation::check(rotation, identity, seq, prev).is_err(),
            "{what}"
        );
    };
    for (what, edit) in edits {
        let mut changed = good.clone();
        edit(&mut changed, &others);
        refused(&changed, &old.identity(), 8, &prev, what);
    }
    refused(&good, &old.identity(), 9, &prev, "another line");
    refused(
        &good,
        &old.identity(),
        8,
        &leaf_hash(b"x"),
        "behind another line",
    );
    refused(&good, &other.identity(), 8, &prev, "of another log");
    let elsewhere = LogIdentity {
        origin: "example.org/other".to_owned(),
        ..old.identity()
    };
    refused(&good, &elsewhere, 8, &prev, "under another name");
    let same = rotation::sign(&order(), &old, &old, 8, &prev);
    refused(&same, &old.identity(), 8, &prev, "no new keys");
    for (what, log, seal) in [
        ("the old log key stays", 1, 4),
        ("the old seal key stays", 3, 2),
    ] {
        let changed = rotation::sign(&order(), &old, &signer(log, seal), 8, &prev);
        refused(&changed, &old.identity(), 8, &prev, what);
    }
    // The first line of a file is the first under its keys.
    let mut keys = Timeline::from(0, old.identity());
    keys.extend(5, &old.identity());
    keys.extend(8, &new.identity());
    assert_eq!(keys.all().len(), 2, "keys that stay begin nothing");
    for (size, pair) in [(0, &old), (7, &old), (8, &new), (9, &new)] {
        assert_eq!(*keys.at(size).unwrap(), pair.identity(), "{size}");
    }
}

/// Replaces the last seal of a file by a seal of another key.
fn resealed(files: &Files, number: u32, key: &SigningKey) -> Files {
    let mut lines = lines_of(files.segment(number));
    let last = String::from_utf8(lines.pop().unwrap()).unwrap();
    let (start, body) = last.split_once("\"size\":").unwrap();
    let seal: Seal = serde_json::from_str(&format!("{{\"size\":{body}")).unwrap();
    let root = Hash::from_hex(&seal.root).unwrap();
    let forged = Seal::sign(
        key,
        ORIGIN,
        seal.size,
        &root,
        &leaf_hash(lines.last().unwrap()),
    );
    lines.push(format!("{start}{}", &forged.body()[1..]).into_bytes());
    let mut bytes = lines.join(&b'\n');
    bytes.push(b'\n');
    files.with_segment(number, bytes)
}

#[test]
fn a_key_seals_only_its_own_lines() {
    let (place, old) = rotated(5);
    let files = Files::of(&place);
    let (old, new) = (layout::log_signer(ORIGIN, &old).unwrap(), files.signer());
    refuses(
        &resealed(&files, 2, &old.seal),
        "the old key seals later lines",
    );
    // A head of the log before the rotation: the new key is not in force yet.
    let first = files
        .with(Path::new("audit/log-00000002.jsonl"), None)
        .without_checkpoint();
    refuses(
        &resealed(&first, 1, &new.seal),
        "the new key seals old lines",
    );
    assert_eq!(resealed(&files, 2, &new.seal).segment(2), files.segment(2));
    // Heads:
    let end = files.verify(false).unwrap();
    let sign = |signer: &LogSigner, size: u64, root: &str| {
        let checkpoint = Checkpoint::new(ORIGIN, size, Hash::from_hex(root).unwrap());
        note::sign_checkpoint(&checkpoint, &signer.log).unwrap()
    };
    let (size, root) = (end.lines - 1, end.root.as_str());
    assert!(with_head(&files, &sign(&new, size, root)).ok);
    assert!(
        !with_head(&files, &sign(&old, size, root)).ok,
        "an ended key signs a later head"
    );
    let before = first.verify(false).unwrap();
    let (size, root) = (before.lines - 1, before.root.as_str());
    assert!(with_head(&files, &sign(&old, size, root)).ok);
    assert!(
        !with_head(&files, &sign(&new, size, root)).ok,
        "a new key signs an earlier head"
    );
    // The holder of the ended key can neither stop the gate with a head of its own nor hide a head.
    let forged = sign(&old, 10_000, root);
    assert!(matches!(
        files.with_checkpoint(forged.as_bytes()).open(),
        Opened::Clean(_)
    ));
    let genuine = sign(&new, 10_000, root);
    assert!(matches!(
        files.with_checkpoint(genuine.as_bytes()).open(),
        Opened::Corrupt(_)
    ));
}

#[test]
fn a_rotate_line_anywhere_else_is_refused() {
    let place = ready(6);
    let files = Files::of(&place);
    let other = layout::log_signer(
        ORIGIN,
        &LogKeys {
            log_seed: [5; 32],
            seal_seed: [6; 32],
        },
    )
    .unwrap();
    for (what, ahead) in [("first of a batch", 0), ("second of a batch", 1)] {
        let disk = Arc::new(MemoryDisk::with(&files.files));
        let (mut ledger, _) =
            recover::open(disk.clone(), files.signer(), None, &mut |_| Ok(())).unwrap();
        let seq = ledger.position().seq + ahead;
        let rotation = rotation::sign(
            &order(),
            &files.signer(),
            &other,
            seq,
            &ledger.position().head,
        );
        let stop = (
            "stop",
            r#"{"timestamp":"2026-03-02T12:00:00.000Z","note":"n","changes":[]}"#.to_owned(),
        );
        let mut bodies = vec![stop; usize::try_from(ahead).unwrap()];
        bodies.push(("rotate", serde_json::to_string(&rotation).unwrap()));
        ledger.append(&bodies).unwrap();
        ledger.publish_head().unwrap();
        let all = disk.files_below("audit");
        let changed = Files {
            files: all,
            ..files.clone()
        };
        refuses(&changed, what);
    }
    // A second rotate line in the same file.
    let (place, _) = rotated(7);
    let files = Files::of(&place);
    let mut lines = lines_of(files.segment(2));
    lines.insert(2, lines[1].clone());
    let mut bytes = lines.join(&b'\n');
    bytes.push(b'\n');
    refuses(&files.with_segment(2, bytes), "twice");
}

#[test]
fn which_principals_may_rotate() {
    let place = ready(8);
    let mut home = place.open().unwrap();
    for (by, reason) in [
        ("trend-bot", "x"),
        ("nobody", "x"),
        ("owner", ""),
        ("owner", "two\nlines"),
    ] {
        let error = home
            .rotate_keys(&Principal::parse(by).unwrap(), reason)
            .unwrap_err();
        assert!(
            matches!(error, HomeError::NotAllowed(_)),
            "{by}, {reason:?}: {error}"
        );
    }
    drop(home);
    assert!(place.disk.get("audit/log-00000002.jsonl").is_none());
    assert!(keyring(&place).pending_log_keys().unwrap().is_none());
    // Randomness that repeats itself: a line that no reader would accept is not written.
    rotate_with(&place, 13);
    let mut seams = place.seams();
    seams.entropy = Arc::new(SeededEntropy::new(13));
    let error = place
        .open_with(seams)
        .unwrap()
        .rotate_keys(&owner(), "again")
        .unwrap_err();
    assert!(error.to_string().contains("does not change"), "{error}");
    go_on(&place, "on");
    check_sound(&place, "after keys that came twice");
}

#[test]
fn the_command() {
    let scratch = Scratch::new();
    let home = scratch.home();
    let told = succeed(&home, &["audit", "rotate", "--reason", "yearly"]);
    assert!(
        told.contains("log key") && told.contains("Publish"),
        "{told}"
    );
    let shown = succeed(&home, &["audit", "verify"]);
    assert!(
        shown.contains("key from line 0") && shown.contains("not listed"),
        "{shown}"
    );
    let lines = succeed(&home, &["audit", "tail"]);
    assert!(
        lines.contains("rotate") && lines.contains("yearly"),
        "{lines}"
    );
    // Also when the index says which lines there are.
    let found = succeed(&home, &["audit", "query", "--kind", "rotate"]);
    let read = succeed(&home, &["audit", "query", "--kind", "rotate", "--no-index"]);
    assert!(found == read && found.contains("yearly"), "{found}{read}");
    let lock = spoolgate_host::lock::try_lock(&home).unwrap().unwrap();
    let busy = command(&home, &["audit", "rotate", "--reason", "again"])
        .output()
        .unwrap();
    assert_eq!(busy.status.code(), Some(7), "{}", show(&busy));
    drop(lock);
}
