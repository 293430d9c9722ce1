//! Dishonest files: links that come and go, devices, sparse files, forged times, writers that keep
//! their descriptors.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use spoolgate_wire::code::Code;
use spoolgate_wire::signing::sha256_hex;

use crate::attacks::siege::{Siege, about, is_root, mknod};
use crate::kit::world::code_of;

const FLAT_AND_OWN: [&str; 2] = ["", "alpha-dir"];

/// A sender that links and unlinks instead of renaming has two links for a moment. A sender that
/// keeps the second link is refused when its two seconds are over, and not before.
#[test]
fn a_second_hard_link_may_go_away_in_time() {
    let mut siege = Siege::new(101);
    let mut home = siege.world.open();
    for agent in ["trend-bot", "alpha-bot"] {
        let spool = crate::kit::world::World::spool_of(agent);
        for name in ["passing", "staying"] {
            let draft = siege.world.draft(agent, "orders.list", "{}");
            siege
                .world
                .drop_file(spool, &format!("{name}.tmp"), siege.world.sign(&draft));
            let hidden = siege.world.inbox(spool, format!("{name}.tmp").as_bytes());
            fs::hard_link(
                &hidden,
                siege.world.inbox(spool, format!("{name}.json").as_bytes()),
            )
            .unwrap();
        }
    }
    for _ in 0..9 {
        assert!(home.round(false).unwrap().outcomes.is_empty());
        siege.world.pass_ms(200);
    }
    for spool in FLAT_AND_OWN {
        fs::remove_file(siege.world.inbox(spool, b"passing.tmp")).unwrap();
    }
    let outcomes = siege.world.drain(&mut home);
    assert_eq!(outcomes.len(), 4, "{outcomes:?}");
    for spool in FLAT_AND_OWN {
        siege.one_each(&[
            (spool, b"passing.json", None),
            (spool, b"staying.json", Some(Code::LinkedFile)),
        ]);
    }
    siege.stands(home);
}

/// Reading `/dev/zero` would never end, and opening a tape could rewind it.
#[test]
fn devices_are_refused_unopened() {
    let mut siege = Siege::new(102);
    if !is_root("making devices") {
        return;
    }
    let mut home = siege.world.open();
    for spool in FLAT_AND_OWN {
        for (name, kind) in [
            ("null", ["c", "1", "3"]),
            ("zero", ["c", "1", "5"]),
            ("tty", ["c", "5", "0"]),
            ("loop", ["b", "7", "200"]),
            ("nothing", ["b", "240", "77"]),
        ] {
            if !mknod(
                &siege.world.inbox(spool, format!("{name}.json").as_bytes()),
                &kind,
            ) {
                return;
            }
        }
    }
    let outcomes = siege.world.drain(&mut home);
    assert_eq!(outcomes.len(), 10, "{outcomes:?}");
    for spool in FLAT_AND_OWN {
        let names = [
            &b"null.json"[..],
            b"zero.json",
            b"tty.json",
            b"loop.json",
            b"nothing.json",
        ];
        siege.one_each(&names.map(|name| (spool, name, Some(Code::NotAFile))));
    }
    siege.stands(home);
}

/// The size of a file does not determine the cost of reading it: at most the cap and one byte are
/// read.
#[test]
fn a_sparse_file_of_a_terabyte() {
    let mut siege = Siege::new(103);
    let mut home = siege.world.open();
    for spool in FLAT_AND_OWN {
        let file = File::create(siege.world.inbox(spool, b"sparse.json")).unwrap();
        file.write_all_at(b"{", 0).unwrap();
        if let Err(error) = file.set_len(1 << 40) {
            println!("skipped: no sparse files of 1 TB here: {error}");
            return;
        }
    }
    let outcomes = siege.world.drain(&mut home);
    for spool in FLAT_AND_OWN {
        siege.one_each(&[(spool, b"sparse.json", Some(Code::TooLarge))]);
    }
    for outcome in &outcomes {
        // The file is moved unchanged, because it was not read to its end.
        let kept = siege
            .world
            .root
            .join("spool")
            .join(outcome.decision.kept.as_ref().unwrap());
        assert_eq!(fs::metadata(kept).unwrap().len(), 1 << 40);
    }
    siege.stands(home);
}

/// The waiting time counts from when the gate first saw a file, whatever times the file has.
#[test]
fn forged_times_of_files_change_nothing() {
    let mut siege = Siege::new(104);
    let mut home = siege.world.open();
    let times = [
        ("1970", 0),
        ("2100", 4_102_444_800),
        ("before", -1_000_000_000),
        ("1999", 915_148_800),
    ];
    let mut names = Vec::new();
    for (what, seconds) in times {
        let draft = siege.world.draft("trend-bot", "orders.list", "{}");
        let whole = siege.world.sign(&draft);
        let half = whole[..whole.len() / 2].to_owned();
        for (kind, text) in [("whole", whole), ("half", half)] {
            let name = format!("{kind}-{what}.json");
            siege.world.drop_file("", &name, text);
            let path = siege.world.inbox("", name.as_bytes());
            let stamp = rustix::fs::Timespec {
                tv_sec: seconds,
                tv_nsec: 0,
            };
            let times = rustix::fs::Timestamps {
                last_access: stamp,
                last_modification: stamp,
            };
            let none = rustix::fs::AtFlags::empty();
            rustix::fs::utimensat(rustix::fs::CWD, &path, &times, none).unwrap();
            names.push((kind, name));
        }
    }
    let start = siege.world.now();
    let first = home.round(false).unwrap().outcomes;
    assert_eq!(
        first.len(),
        4,
        "whole ones at once, half ones not: {first:?}"
    );
    let rest = siege.world.drain(&mut home);
    for (kind, name) in &names {
        let outcome = about(if *kind == "whole" { &first } else { &rest }, name);
        let code = if *kind == "whole" {
            None
        } else {
            Some(Code::MalformedJson)
        };
        let waited_ms = outcome.decision.timestamp.since_ms(start);
        assert!(
            (*kind == "whole") == (waited_ms < 2000) && waited_ms < 3000,
            "{name}: {waited_ms} ms"
        );
        assert!(
            outcome.decision.timestamp >= start,
            "the receipt is the gate's own time"
        );
        siege.one_each(&[("", name.as_bytes(), code)]);
    }
    siege.stands(home);
}

/// The gate used to keep the file itself, so a writer with an open descriptor could change the
/// evidence afterwards.
#[test]
fn a_writer_that_keeps_its_descriptor_changes_nothing() {
    let mut siege = Siege::new(105);
    let mut home = siege.world.open();
    let mut files = Vec::new();
    for spool in FLAT_AND_OWN {
        let agent = if spool.is_empty() {
            "trend-bot"
        } else {
            "alpha-bot"
        };
        let forged = siege.world.draft(agent, "orders.list", "{}");
        let bytes = siege.world.sign_with(&forged, &[7; 32]);
        for (name, bytes) in [
            ("forged", bytes.as_str()),
            ("shape", "{}"),
            ("torn", r#"{"id":"#),
        ] {
            let path = siege.world.inbox(spool, format!("{name}.json").as_bytes());
            let mut file = File::create(&path).unwrap();
            file.write_all(bytes.as_bytes()).unwrap();
            files.push((spool, name, file));
        }
    }
    let outcomes = siege.world.drain(&mut home);
    assert_eq!(outcomes.len(), 6);
    for (_, _, file) in &files {
        file.write_all_at(b"I never sent this", 0).unwrap();
        file.set_len(17).unwrap();
    }
    for (spool, name, _) in &files {
        let code = match *name {
            "forged" => Code::SignatureInvalid,
            "shape" => Code::MalformedEnvelope,
            _ => Code::MalformedJson,
        };
        siege.one_each(&[(spool, format!("{name}.json").as_bytes(), Some(code))]);
    }
    siege.stands(home);
}

/// The same when the gate dies between the seal and keeping: a file that is still what was decided
/// is kept as a copy; a file that its writer has changed is kept as it is, and the ledger shows the
/// difference.
#[test]
fn kept_bytes_after_a_death_between_seal_and_keeping() {
    let dies = Arc::new(AtomicBool::new(true));
    let is_dying = Arc::clone(&dies);
    let siege = Siege::with_disk(
        106,
        Box::new(
            move |verb: &str, path: &Path, _: Option<&Path>, is_after: bool| {
                let hit = verb == "write" && path.starts_with("spool/rejected") && !is_after;
                (hit && is_dying.load(Ordering::SeqCst)).then(|| io::Error::other("the power went"))
            },
        ),
    );
    let mut siege = siege;
    let mut home = siege.world.open();
    for name in ["still.json", "changed.json"] {
        siege.world.drop_file("", name, r#"{"id":"r1"}"#);
    }
    let changed = File::options()
        .write(true)
        .open(siege.world.inbox("", b"changed.json"))
        .unwrap();
    let still = File::options()
        .write(true)
        .open(siege.world.inbox("", b"still.json"))
        .unwrap();
    assert!(home.round(false).is_err());
    drop(home);
    changed.write_all_at(b"I", 0).unwrap();
    dies.store(false, Ordering::SeqCst);
    let home = siege.world.open();
    still.write_all_at(b"I", 0).unwrap();
    let ledger = siege.world.ledger();
    for (name, is_same) in [("still.json", true), ("changed.json", false)] {
        let lines: Vec<_> = ledger.iter().filter(|line| line["file"] == name).collect();
        let [line] = &lines[..] else {
            panic!("{name}: {lines:?}")
        };
        let kept = siege
            .world
            .root
            .join("spool")
            .join(line["kept"].as_str().unwrap());
        let kept = fs::read(kept).unwrap();
        assert_eq!(
            sha256_hex(&kept) == line["file_sha256"].as_str().unwrap(),
            is_same,
            "{name}"
        );
    }
    siege.stands(home);
}

/// What the sender writes after the claim is neither decided nor kept.
#[test]
fn a_claimed_file_is_never_opened_again() {
    let mut siege = Siege::new(107);
    let mut home = siege.world.open();
    let draft = siege.world.draft("trend-bot", "orders.list", "{}");
    let name = format!("{}.json", draft.id);
    let text = siege.world.sign(&draft);
    siege.world.drop_file("", &name, &text);
    let file = File::options()
        .write(true)
        .open(siege.world.inbox("", name.as_bytes()))
        .unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let writer = {
        let (stop, text) = (Arc::clone(&stop), text.clone());
        // Two good requests overwrite each other: the gate may read either, or a mixture.
        std::thread::spawn(move || {
            let other = text.replace("orders.list", "fills__list");
            while !stop.load(Ordering::SeqCst) {
                for version in [&other, &text] {
                    file.write_all_at(version.as_bytes(), 0).unwrap();
                }
            }
        })
    };
    let outcomes = siege.world.drain(&mut home);
    stop.store(true, Ordering::SeqCst);
    writer.join().unwrap();
    let code = code_of(about(&outcomes, &name));
    assert!(
        matches!(code, None | Some(Code::SignatureInvalid)),
        "{code:?}"
    );
    siege.one_each(&[("", name.as_bytes(), code)]);
    siege.stands(home);
}
