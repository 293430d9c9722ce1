//! Attacks that succeeded on other ledgers, performed on this one. [`FAILURES`] names the test of
//! each; some are in `ledger_damage.rs` and `faults.rs`, which have the tools for them.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use crate::kit::ledger_files::{
    Files, Forger, Opened, forge, is_seal, lines_of, small, three_segments,
};
use crate::kit::memory_disk::MemoryDisk;
use crate::kit::place::ORIGIN;
use ed25519_dalek::SigningKey;
use sha2::{Digest, Sha256};
use spoolgate_host::keyring::LogKeys;
use spoolgate_ledger::disk::{Access, Disk};
use spoolgate_ledger::log::LogSigner;
use spoolgate_ledger::note::{self, Checkpoint, SignerKey};
use spoolgate_ledger::rotation::Order;
use spoolgate_ledger::seal::Seal;
use spoolgate_ledger::tree::{Frontier, Hash, leaf_hash};
use spoolgate_ledger::verify::{self, Options, Report};
use spoolgate_ledger::{LedgerError, frames, recover, segment};
use spoolgate_wire::ids::Principal;
use spoolgate_wire::signing::hex;
use spoolgate_wire::time::Time;

/// Each failure, the file of its test, and the test.
const FAILURES: &[(&str, &str, &str)] = &[
    (
        "chain over id, payload hash and signature: status flips",
        "failures",
        "a_status_flipped",
    ),
    (
        "chain over id, payload hash and signature: truncation",
        "failures",
        "truncated_behind_any_line",
    ),
    (
        "chain over id, payload hash and signature: re-pointed deletions",
        "failures",
        "deleted_and_pointed_over",
    ),
    (
        "chain beside tree",
        "failures",
        "a_chain_and_a_tree_over_different_lines",
    ),
    (
        "bit flip between hash and tree",
        "failures",
        "a_bit_flipped_between_hashing_and_the_medium",
    ),
    (
        "bit flip between hash and tree",
        "faults",
        "lines_that_read_back_differently",
    ),
    (
        "an unsealed file passing with a key",
        "failures",
        "an_unsealed_file_with_the_right_key",
    ),
    (
        "an unsealed file passing with a key",
        "damage",
        "a_forger_without_the_key",
    ),
    (
        "a later key re-sealing old lines",
        "failures",
        "a_later_key_seals_nothing_old",
    ),
    (
        "a mid-log bit flip taken for a torn tail",
        "failures",
        "a_flip_in_the_middle_is_no_torn_tail",
    ),
    (
        "a mid-log bit flip taken for a torn tail",
        "damage",
        "bits_of_a_log_without_its_newest_checkpoint",
    ),
    (
        "appending behind a torn tail",
        "damage",
        "nothing_is_appended_behind_a_torn_tail",
    ),
    (
        "appending behind a torn tail",
        "damage",
        "every_length_of_a_batch_that_no_checkpoint_knows",
    ),
    ("fsync EIO then OK", "faults", "a_sync_that_fails_once"),
    (
        "a declared length past EOF: segment line and rest",
        "damage",
        "a_sealed_segment_line_must_still_be_true",
    ),
    (
        "a declared length past EOF: archives",
        "failures",
        "an_archive_that_declares_more_than_it_holds",
    ),
    (
        "a torn last line that bricks the log",
        "damage",
        "every_length_of_a_batch_that_no_checkpoint_knows",
    ),
    (
        "text containing the start of a line",
        "damage",
        "agents_cannot_write_the_start_of_a_line",
    ),
    (
        "a line of 65,536 bytes",
        "damage",
        "a_line_of_65535_bytes_and_one_more",
    ),
    (
        "two checkpoints of one size with different roots",
        "failures",
        "two_heads_of_one_size",
    ),
    (
        "two checkpoints of one size with different roots",
        "damage",
        "checkpoints",
    ),
    ("NUL tails from fallocate", "damage", "nul_tails_and_holes"),
];

#[test]
fn every_failure_has_its_test() {
    for (failure, file, name) in FAILURES {
        let name_of = if *file == "damage" {
            "ledger_damage".to_owned()
        } else {
            format!("ledger/{file}")
        };
        let stem = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/it/{name_of}"));
        let parts = std::fs::read_dir(&stem).into_iter().flatten();
        let found = parts
            .map(|part| part.unwrap().path())
            .chain([stem.with_extension("rs")])
            .any(|path| {
                let text = std::fs::read_to_string(path).unwrap();
                text.contains(&format!("#[test]\nfn {name}()"))
            });
        assert!(found, "{failure}: no `{name}` in {}", stem.display());
    }
}

fn verified(files: &Files, options: &Options) -> Report {
    verify::verify(
        &MemoryDisk::with(&files.files),
        Path::new("audit"),
        options,
        &|_| {},
    )
    .unwrap()
}

fn with_lines(files: &Files, lines: &[Vec<u8>]) -> Files {
    files
        .without_checkpoint()
        .with_segment(1, [lines.join(&b'\n'), vec![b'\n']].concat())
}

/// A weak chain: each link covers only the id, the payload hash and the signature of the entry
/// before. Returns the last link; everything else can be changed.
fn weak_chain(lines: &[Vec<u8>]) -> String {
    let field = |text: &str, name: &str| {
        let found = text.split(&format!("\"{name}\":\"")).nth(1);
        found
            .and_then(|rest| rest.split('"').next())
            .unwrap_or_default()
            .to_owned()
    };
    lines.iter().fold(String::new(), |before, line| {
        let text = String::from_utf8(line.clone()).unwrap();
        let covered = ["request_id", "payload_hash", "signature"]
            .map(|name| field(&text, name))
            .join(".");
        hex(&Sha256::digest(format!("{before}.{covered}")))
    })
}

/// The verdict, the status, the reason: everything that the weak chain leaves out is in the hash
/// here.
#[test]
fn a_status_flipped() {
    let (_place, files, _) = small();
    let lines = lines_of(files.segment(1));
    let mut flipped = 0;
    for (n, line) in lines.iter().enumerate() {
        let text = String::from_utf8(line.clone()).unwrap();
        for (from, to) in [
            ("\"ACCEPTED\"", "\"REJECTED\""),
            ("\"REJECTED\"", "\"ACCEPTED\""),
            ("\"success\"", "\"pending\""),
            ("\"passed\":false", "\"passed\":true"),
            ("\"passed\":true", "\"passed\":false"),
            ("\"size\":\"0.01\"", "\"size\":\"9.01\""),
        ] {
            if !text.contains(from) || is_seal(line) {
                continue;
            }
            let mut edited = lines.clone();
            edited[n] = text.replacen(from, to, 1).into_bytes();
            assert_eq!(
                weak_chain(&edited),
                weak_chain(&lines),
                "line {n}, {from}: nobody's weakness"
            );
            let report = verified(&with_lines(&files, &edited), &Options::default());
            let next = format!("line {} does not name the line before it", n + 1);
            assert!(
                !report.ok && report.problems[0].what == next,
                "line {n}, {from}: {report:?}"
            );
            flipped += 1;
        }
    }
    assert!(flipped >= 5, "{flipped}");
}

/// A shorter chain is as valid as a long one. Here a log must end with a whole batch, and a shorter
/// one contradicts every head over more lines.
#[test]
fn truncated_behind_any_line() {
    let (_place, files, _) = small();
    let lines = lines_of(files.segment(1));
    let head = (
        "noted".to_owned(),
        String::from_utf8(files.checkpoint()).unwrap(),
    );
    for length in 1..lines.len() {
        let cut = with_lines(&files, &lines[..length]);
        let sealed = is_seal(&lines[length - 1]);
        assert_eq!(
            verified(&cut, &Options::default()).ok,
            sealed,
            "cut to {length} lines"
        );
        let with_head = Options {
            heads: vec![head.clone()],
            ..Options::default()
        };
        assert!(
            !verified(&cut, &with_head).ok,
            "cut to {length} lines, with a head"
        );
    }
}

/// Each entry names an earlier entry: the entry between is deleted, and every link holds.
#[test]
fn deleted_and_pointed_over() {
    let (_place, files, _) = small();
    let lines = lines_of(files.segment(1));
    for n in 1..lines.len() - 1 {
        let mut pointed = lines.clone();
        pointed.remove(n);
        let next = String::from_utf8(pointed[n].clone()).unwrap();
        pointed[n] =
            format!("{{\"prev\":\"{}\"{}", leaf_hash(&lines[n - 1]), &next[74..]).into_bytes();
        let report = verified(&with_lines(&files, &pointed), &Options::default());
        assert!(!report.ok, "line {n} pointed over");
        // Numbers and all later links are corrected too: then the seals find it.
        let mut gone = lines.clone();
        gone.remove(n);
        let forged = files
            .without_checkpoint()
            .with_segment(1, forge(&gone, &files.keys, Forger::Keyless));
        let links = Options {
            chain: true,
            ..Options::default()
        };
        assert!(
            verified(&forged, &links).ok,
            "line {n}: the forger forgot a link"
        );
        assert!(
            !verified(&forged, &Options::default()).ok,
            "line {n} taken out"
        );
    }
}

/// A chain that is kept beside a tree can be about other entries (CVE-2022-36111). Here links and
/// tree share one hash per line; a seal over a tree of other lines does not hold, even with the
/// true key.
#[test]
fn a_chain_and_a_tree_over_different_lines() {
    let (_place, files, _) = small();
    let lines = lines_of(files.segment(1));
    let key = SigningKey::from_bytes(&files.keys.seal_seed);
    let edit = |n: usize| n == 3;
    for (what, in_chain, in_tree) in [("the chain", true, false), ("the tree", false, true)] {
        let (mut head, mut tree) = (Hash::ZERO, Frontier::new());
        let mut written = Vec::new();
        let mut batch = 0;
        for (n, line) in lines.iter().enumerate() {
            let text = String::from_utf8(line.clone()).unwrap();
            let kind = text.find(",\"kind\":").unwrap();
            let mut text = format!(
                "{{\"prev\":\"{head}\",\"seq\":{n},\"batch\":{batch}{}",
                &text[kind..]
            );
            if is_seal(line) {
                let at = text.find("\"size\":").unwrap();
                let seal = Seal::sign(&key, ORIGIN, n as u64, &tree.root(), &head);
                text = format!("{}{}", &text[..at], &seal.body()[1..]);
                batch += 1;
            }
            let changed = if edit(n) {
                text.replacen("2026-", "2027-", 1)
            } else {
                text.clone()
            };
            // If the chain is about the changed line, the file has it; otherwise the file has the
            // original line.
            let shown = if in_chain { &changed } else { &text };
            written.push(shown.clone().into_bytes());
            head = leaf_hash(shown.as_bytes());
            tree.push(leaf_hash(if in_tree { &changed } else { &text }.as_bytes()));
        }
        let forged = with_lines(&files, &written);
        assert!(
            verified(
                &forged,
                &Options {
                    chain: true,
                    ..Options::default()
                }
            )
            .ok,
            "{what}"
        );
        let report = verified(&forged, &Options::default());
        assert!(
            !report.ok && report.problems[0].what.contains("another size or root"),
            "{what}: {report:?}"
        );
        assert!(!matches!(forged.open(), Opened::Clean(_)), "{what}: opens");
    }
}

/// One bit of an entry that changed between hashing and writing ended a transparency log (Yeti
/// 2022): the tree was signed, and the entry could never be shown. Here the written bytes are read
/// back before anything is signed for others.
#[test]
fn a_bit_flipped_between_hashing_and_the_medium() {
    let (_place, files, _) = small();
    let known = files.segment(1).len();
    let lines = lines_of(files.segment(1)).len();
    let body = r#"{"timestamp":"2026-03-02T12:00:00.000Z","note":"n","changes":[]}"#.to_owned();
    let length = {
        let disk = Arc::new(MemoryDisk::with(&files.files));
        let (mut ledger, _) =
            recover::open(disk.clone(), files.signer(), None, &mut |_| Ok(())).unwrap();
        ledger.append(&[("start", body.clone())]).unwrap();
        disk.get("audit/log-00000001.jsonl").unwrap().len() - known
    };
    let mut later = 0;
    for at in 0..length {
        let disk = Arc::new(MemoryDisk::with(&files.files));
        let (mut ledger, _) =
            recover::open(disk.clone(), files.signer(), None, &mut |_| Ok(())).unwrap();
        disk.faults.lock().unwrap().append_flip = Some((at, u8::try_from(at % 8).unwrap()));
        assert!(
            ledger.append(&[("start", body.clone())]).is_err(),
            "byte {at}"
        );
        let again = ledger.append(&[("start", body.clone())]);
        assert!(
            matches!(again, Err(LedgerError::Poisoned)),
            "byte {at}: {:?}",
            again.err()
        );
        assert_eq!(
            disk.get("audit/checkpoint").unwrap(),
            files.checkpoint(),
            "byte {at}: a head was signed"
        );
        drop(ledger);
        let after = Files {
            files: disk.files_below(""),
            keys: files.keys.clone(),
        };
        match after.open() {
            Opened::Torn(kept) => assert_eq!(kept.len(), lines, "byte {at}"),
            // The number of its batch became that of a later batch: this is refused, not cut.
            Opened::Corrupt(why) if why.contains("follows it") => later += 1,
            other => panic!("byte {at}: {other:?}"),
        }
    }
    assert!(
        later <= 4,
        "{later}: two lines have two digits each at most"
    );
}

/// A file without any seal, and an auditor with the right key: journald passed such files.
#[test]
fn an_unsealed_file_with_the_right_key() {
    let (_place, files, _) = small();
    let key = verified(&files, &Options::default())
        .log_key
        .parse()
        .unwrap();
    let options = Options {
        key: Some(key),
        ..Options::default()
    };
    assert!(verified(&files, &options).ok);
    let lines = lines_of(files.segment(1));
    for (what, kept) in [
        (
            "no seal",
            lines
                .iter()
                .filter(|line| !is_seal(line))
                .cloned()
                .collect::<Vec<_>>(),
        ),
        ("only the first line", lines[..1].to_vec()),
        (
            "lines behind the last seal",
            [lines.clone(), vec![lines[3].clone()]].concat(),
        ),
    ] {
        let unsealed = forge(&kept, &files.keys, Forger::HoldsSealKey);
        let unsealed = files.without_checkpoint().with_segment(1, unsealed);
        assert!(
            verified(
                &unsealed,
                &Options {
                    chain: true,
                    ..Options::default()
                }
            )
            .ok,
            "{what}: links"
        );
        let report = verified(&unsealed, &options);
        assert!(!report.ok, "{what}: {report:?}");
    }
}

/// Makes a ledger of two files, the second under other keys.
fn rotated() -> (Files, LogSigner) {
    let (_place, files, _) = small();
    let disk = Arc::new(MemoryDisk::with(&files.files));
    let (mut ledger, _) =
        recover::open(disk.clone(), files.signer(), None, &mut |_| Ok(())).unwrap();
    let next = || LogSigner {
        origin: ORIGIN.to_owned(),
        log: SignerKey::from_seed(ORIGIN, &[31; 32]).unwrap(),
        seal: SigningKey::from_bytes(&[32; 32]),
    };
    let order = Order {
        timestamp: Time::parse("2026-03-02T12:00:00Z").unwrap(),
        by: Principal::parse("owner").unwrap(),
        reason: "every year".to_owned(),
    };
    ledger.rotate(next(), &order).unwrap();
    let body = r#"{"timestamp":"2026-03-02T12:00:00.000Z","note":"n","changes":[]}"#.to_owned();
    ledger.append(&[("start", body)]).unwrap();
    let after = Files {
        files: disk.files_below(""),
        keys: files.keys.clone(),
    };
    (after.without_checkpoint(), next())
}

/// The holder of the current key must not be able to change what an earlier key sealed
/// (CVE-2023-31439). Nor may the old key seal anything after the rotation.
#[test]
fn a_later_key_seals_nothing_old() {
    let (files, next) = rotated();
    let report = verified(&files, &Options::default());
    assert!(report.ok && report.segments == 2, "{report:?}");
    let keys_of = |seal: &SigningKey| LogKeys {
        seal_seed: seal.to_bytes(),
        ..files.keys.clone()
    };
    let (one, two) = (lines_of(files.segment(1)), lines_of(files.segment(2)));
    let mut edited = one.clone();
    edited[3] = String::from_utf8(one[3].clone())
        .unwrap()
        .replacen("2026-", "2027-", 1)
        .into_bytes();
    // The first file is sealed again with the new key, unchanged or edited, and the second is
    // corrected to follow it.
    for (what, lines) in [("as it was", &one), ("edited", &edited)] {
        let first = forge(lines, &keys_of(&next.seal), Forger::HoldsSealKey);
        let head = leaf_hash(lines_of(&first).last().unwrap());
        let mut behind = two.clone();
        let text = String::from_utf8(two[0].clone()).unwrap();
        let old = leaf_hash(one.last().unwrap()).to_string();
        assert!(text.contains(&old));
        behind[0] = text.replace(&old, &head.to_string()).into_bytes();
        let all = forge(
            &[lines_of(&first), behind].concat(),
            &keys_of(&next.seal),
            Forger::HoldsSealKey,
        );
        let (first, second) = all.split_at(first.len());
        let resealed = files
            .with_segment(1, first.to_vec())
            .with_segment(2, second.to_vec());
        assert!(
            verified(
                &resealed,
                &Options {
                    chain: true,
                    ..Options::default()
                }
            )
            .ok,
            "{what}: links"
        );
        let report = verified(&resealed, &Options::default());
        assert!(
            !report.ok && report.problems[0].file.ends_with("1.jsonl"),
            "{what}: {report:?}"
        );
    }
    // The second file is sealed with the old key.
    let all = forge(&[one, two].concat(), &files.keys, Forger::HoldsSealKey);
    let (first, second) = all.split_at(files.segment(1).len());
    assert_eq!(first, files.segment(1));
    let by_old = files.with_segment(2, second.to_vec());
    let report = verified(&by_old, &Options::default());
    assert!(
        !report.ok && report.problems[0].file.ends_with("2.jsonl"),
        "{report:?}"
    );
}

/// A bit flips before the last seal, and no head is at hand: a recovery that cuts there loses
/// answered batches.
#[test]
fn a_flip_in_the_middle_is_no_torn_tail() {
    let (_place, files, _) = small();
    let bare = files.without_checkpoint();
    let log = bare.segment(1);
    let ends = bare.seal_ends(1);
    let last_batch = ends[ends.len() - 2];
    let disk_of = |files: &Files| Arc::new(MemoryDisk::with(&files.files));
    for at in (0..last_batch).step_by(11) {
        let mut flipped = log.to_vec();
        flipped[at] ^= 1 << (at % 8);
        let damaged = bare.with_segment(1, flipped);
        let disk = disk_of(&damaged);
        let opened = damaged.open_on(&disk);
        assert!(
            matches!(opened, Opened::Corrupt(_)),
            "byte {at}: {opened:?}"
        );
        assert_eq!(
            disk.files_below(""),
            damaged.files,
            "byte {at}: something was written"
        );
    }
}

/// Anybody can write sizes into an archive: sizes beyond the content must neither be trusted nor
/// allocated.
#[test]
fn an_archive_that_declares_more_than_it_holds() {
    let files = three_segments();
    let disk = MemoryDisk::with(&files.files);
    let plain = disk.open_log(&segment::path(1), Access::Read).unwrap();
    let packed = frames::pack(plain.as_ref(), &mut |_| {}).unwrap();
    let name = Path::new("audit").join(segment::archive_name(1));
    let archived = files.with(&segment::path(1), None);
    assert!(archived.with(&name, Some(packed.clone())).verifies());
    // One frame: its packed size, its plain size, the number of frames, and the length of the
    // table.
    let table = packed.len() - 9 - 8;
    for (what, at) in [
        ("packed", table),
        ("plain", table + 4),
        ("frames", table + 8),
        ("table", table - 4),
    ] {
        let declared = u32::from_le_bytes(packed[at..at + 4].try_into().unwrap());
        for other in [0, declared - 1, declared + 1, declared + 70_000, u32::MAX] {
            if other == declared {
                continue;
            }
            let mut lying = packed.clone();
            lying[at..at + 4].copy_from_slice(&other.to_le_bytes());
            let lying = archived.with(&name, Some(lying));
            let told = lying.verify(false);
            assert!(
                told.as_ref().map_or(true, |report| !report.ok),
                "{what} {other}: {told:?}"
            );
        }
    }
    for cut in (0..packed.len()).step_by(13) {
        let cut_off = archived.with(&name, Some(packed[..cut].to_vec()));
        assert!(!cut_off.verifies(), "cut to {cut}");
    }
}

/// The log key signed two histories of the same length: each head proves the other log wrong,
/// without anything else.
#[test]
fn two_heads_of_one_size() {
    let (_place, files, _) = small();
    let lines = lines_of(files.segment(1));
    let mut other = lines.clone();
    other[3] = String::from_utf8(lines[3].clone())
        .unwrap()
        .replacen("2026-", "2027-", 1)
        .into_bytes();
    let other = files
        .with_segment(1, forge(&other, &files.keys, Forger::HoldsSealKey))
        .without_checkpoint();
    let size = lines.len() as u64 - 1;
    let root = verified(&other, &Options::default()).root;
    let head = Checkpoint::new(ORIGIN, size, Hash::from_hex(&root).unwrap());
    let signed = note::sign_checkpoint(&head, &files.signer().log).unwrap();
    let ours = String::from_utf8(files.checkpoint()).unwrap();
    let sizes: BTreeSet<&str> = [&ours, &signed]
        .iter()
        .filter_map(|text| text.lines().nth(1))
        .collect();
    assert_eq!(sizes.len(), 1, "heads of one size");
    for (log, head, fits) in [
        (&files, &ours, true),
        (&files, &signed, false),
        (&other, &ours, false),
    ] {
        let options = Options {
            heads: vec![("noted".to_owned(), head.clone())],
            ..Options::default()
        };
        let report = verified(&log.without_checkpoint(), &options);
        assert_eq!(report.ok, fits, "{report:?}");
        assert!(
            fits || report.problems[0].what.contains("had root"),
            "{report:?}"
        );
    }
    assert!(
        matches!(
            files.with_checkpoint(signed.as_bytes()).open(),
            Opened::Corrupt(_)
        ),
        "opens"
    );
}
