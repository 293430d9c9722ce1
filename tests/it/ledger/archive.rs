//! Archived segments: a home whose closed segments are compressed verifies, opens and continues as
//! before; archiving that is interrupted anywhere loses nothing; every change of an archive is
//! found, and costs no more than an error.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use crate::kit::closed::{archive_all, ask, dying, four_segments};
use crate::kit::ledger_files::{Files, Opened};
use crate::kit::memory_disk::MemoryDisk;
use crate::kit::place::{Place, drain};
use spoolgate_ledger::disk::{Access, Disk, LogFile};
use spoolgate_ledger::frames::{self, Archive};
use spoolgate_ledger::verify::{self, Options, Report};
use spoolgate_ledger::{archive, segment};

fn audit() -> &'static Path {
    Path::new("audit")
}

fn check(disk: &dyn Disk, threads: usize) -> Report {
    let options = Options {
        strict: Some(spoolgate_gate::record::canonical),
        threads,
        ..Options::default()
    };
    verify::verify(disk, audit(), &options, &|_| {}).unwrap()
}

fn archive_path(number: u32) -> PathBuf {
    audit().join(segment::archive_name(number))
}

/// Returns every file of the audit folder except the checkpoint.
fn ledger_of(disk: &MemoryDisk) -> BTreeMap<PathBuf, Vec<u8>> {
    let all = disk.files_below("audit").into_iter();
    all.filter(|(path, _)| path.parent() == Some(audit()) && !path.ends_with("checkpoint"))
        .collect()
}

fn bytes_of(file: &dyn LogFile) -> io::Result<Vec<u8>> {
    let length = usize::try_from(file.len()?).unwrap();
    spoolgate_ledger::disk::read_exact_at(file, 0, length)
}

/// Opens an archive with these bytes on a disk of its own and reads it to its end.
fn unpack(archive: &[u8]) -> io::Result<Vec<u8>> {
    let disk = MemoryDisk::default();
    disk.put("a", archive);
    bytes_of(&Archive::over(
        disk.open_log(Path::new("a"), Access::Read)?,
    )?)
}

fn packed(plain: &[u8]) -> Vec<u8> {
    let disk = MemoryDisk::default();
    disk.put("p", plain);
    frames::pack(
        disk.open_log(Path::new("p"), Access::Read)
            .unwrap()
            .as_ref(),
        &mut |_| {},
    )
    .unwrap()
}

#[test]
fn an_archived_home_verifies_opens_and_goes_on() {
    let (place, bot) = four_segments(1);
    let before = check(place.disk.as_ref(), 1);
    assert!(before.ok, "{:?}", before.problems);
    assert_eq!((before.segments, before.torn, before.archived), (4, 1, 0));
    let plain = ledger_of(&place.disk);
    let answers: Vec<Vec<u8>> = (1..4)
        .map(|n| place.disk.get(format!("spool/out/l{n}.json")).unwrap())
        .collect();

    // The gate is open meanwhile.
    let mut home = place.open().unwrap();
    assert_eq!(archive_all(place.disk.as_ref(), 0).unwrap(), 3);
    ask(&place, &bot, "beside");
    assert_eq!(drain(&mut home).unwrap().len(), 1);
    for (n, answer) in (1..4).zip(&answers) {
        // The stored answer is in an archive now.
        place.disk.drop_file(format!("spool/out/l{n}.json"));
        let seen = drain_again(&place, &mut home, &bot, &format!("l{n}"));
        assert_eq!(seen, *answer);
    }
    drop(home);

    for number in 1..4 {
        assert_eq!(place.disk.get(segment::path(number)), None);
        let archive = place.disk.get(archive_path(number)).unwrap();
        assert_eq!(
            unpack(&archive).unwrap(),
            plain[&segment::path(number)],
            "segment {number}"
        );
    }
    assert!(
        plain[&segment::path(3)].len() > frames::FRAME_BYTES,
        "several frames"
    );
    for threads in [1, 4] {
        let after = check(place.disk.as_ref(), threads);
        assert!(after.ok, "{:?}", after.problems);
        assert_eq!(
            (after.segments, after.torn, after.archived, after.pruned),
            (4, 1, 3, 0)
        );
        assert!(after.lines > before.lines);
    }

    // A state made from archives is the same as one made from plain files.
    let home = place.open().unwrap();
    let state = home.state().clone();
    drop(home);
    place.forget_state();
    let mut home = place.open().unwrap();
    assert_eq!(*home.state(), state);
    ask(&place, &bot, "later");
    assert_eq!(drain(&mut home).unwrap().len(), 1);
    drop(home);
    assert_eq!(
        archive_all(place.disk.as_ref(), 0).unwrap(),
        0,
        "there is nothing left to do"
    );
    assert!(check(place.disk.as_ref(), 2).ok);
}

/// Sends `id` once more, exactly as before, and returns its answer.
fn drain_again(
    place: &Place,
    home: &mut spoolgate_home::Home,
    bot: &spoolgate_wire::signing::SignKey,
    id: &str,
) -> Vec<u8> {
    ask(place, bot, id);
    let outcomes = drain(home).unwrap();
    assert!(
        outcomes[0].decision.metadata.replay_of.is_some(),
        "{:?}",
        outcomes[0].decision.metadata
    );
    place.disk.get(format!("spool/out/{id}.json")).unwrap()
}

#[test]
fn keep_spares_the_newest_and_the_last_is_never_archived() {
    let (place, _) = four_segments(2);
    assert_eq!(archive_all(place.disk.as_ref(), 2).unwrap(), 1);
    assert!(
        place.disk.get(archive_path(1)).is_some() && place.disk.get(segment::path(2)).is_some()
    );
    assert!(archive::archive(place.disk.as_ref(), audit(), 4, &mut |_| {}).is_err());
    assert!(
        place.disk.get(segment::path(4)).is_some() && place.disk.get(archive_path(4)).is_none()
    );
    let sums = String::from_utf8(place.disk.get("audit/SEGMENTS").unwrap()).unwrap();
    assert_eq!(
        sums.lines().count(),
        3,
        "one line a closed segment:\n{sums}"
    );
    // If the last segment were gone, the archive before it must not count as the end.
    let files = Files::of(&place);
    let cut = files
        .with(&segment::path(4), None)
        .with(&segment::path(3), None)
        .with(&segment::path(2), None);
    assert!(cut.verify(false).is_err());
    assert!(matches!(cut.open(), Opened::Corrupt(_)), "{:?}", cut.open());
}

#[test]
fn archiving_that_is_stopped_anywhere_loses_nothing() {
    let (place, _) = four_segments(3);
    let plain = ledger_of(&place.disk);
    let whole = Arc::new(place.disk.copy());
    archive_all(whole.as_ref(), 0).unwrap();
    let done = ledger_of(&whole);
    let mut steps = 0;
    loop {
        let disk = Arc::new(place.disk.copy());
        let ended = archive_all(&dying(&disk, steps), 0);
        let left = Files {
            files: disk.files_below("audit"),
            keys: place.log_keys(),
        };
        assert!(
            left.verifies(),
            "stopped at step {steps}: {:?}",
            left.verify(false).map(|r| r.problems)
        );
        assert!(
            matches!(left.open(), Opened::Clean(_)),
            "stopped at step {steps}"
        );
        for number in 1..4 {
            let read = segment::open(disk.as_ref(), audit(), number).unwrap();
            assert_eq!(
                bytes_of(read.as_ref()).unwrap(),
                plain[&segment::path(number)]
            );
        }
        archive_all(disk.as_ref(), 0).unwrap();
        let mut again = ledger_of(&disk);
        again.retain(|path, _| !path.to_string_lossy().ends_with(".tmp"));
        assert_eq!(again, done, "stopped at step {steps}, and done again");
        if ended.is_ok() {
            break;
        }
        steps += 1;
    }
    println!("stopped at each of {steps} steps");
    assert!(steps > 15);
}

#[test]
fn a_damaged_segment_is_not_archived() {
    let (place, _) = four_segments(4);
    for (number, at) in [(1, 40), (1, 900), (2, 700), (3, 200_000)] {
        let disk = place.disk.copy();
        let path = segment::path(number);
        let mut bytes = disk.get(&path).unwrap();
        bytes[at] ^= 4;
        disk.put(&path, &bytes);
        assert!(
            archive::archive(&disk, audit(), number, &mut |_| {}).is_err(),
            "{number} at {at}"
        );
        assert_eq!(disk.get(&path).unwrap(), bytes);
        assert_eq!(disk.get(archive_path(number)), None);
    }
}

#[test]
fn damage_to_an_archive_is_found_or_harmless() {
    let (place, _) = four_segments(5);
    archive_all(place.disk.as_ref(), 0).unwrap();
    let files = Files::of(&place);
    assert!(files.verifies());
    let (mut tried, mut harmless) = (0, 0);
    for number in 1..4 {
        let path = archive_path(number);
        let archive = place.disk.get(&path).unwrap();
        let plain = unpack(&archive).unwrap();
        // Changes every byte of small archives and of the seek table, and a sample of the other
        // bytes.
        let step = if archive.len() > 20_000 { 23 } else { 1 };
        let places = (0..archive.len()).filter(|at| at % step == 0 || at + 80 > archive.len());
        for at in places {
            let mut changed = archive.clone();
            changed[at] ^= 1 << (at % 8);
            tried += 1;
            match unpack(&changed) {
                Ok(bytes) if bytes == plain => harmless += 1,
                Ok(_) => panic!(
                    "byte {at} of archive {number} changes what it holds, past all checksums"
                ),
                Err(_) if step == 1 && at % 5 == 0 => {
                    let report = files.with(&path, Some(changed)).verify(false);
                    assert!(
                        !report.is_ok_and(|report| report.ok),
                        "byte {at} of archive {number}"
                    );
                }
                Err(_) => {}
            }
        }
        for length in (0..archive.len()).step_by(archive.len() / 50 + 1) {
            assert!(unpack(&archive[..length]).is_err(), "cut to {length}");
        }
        let mut longer = archive.clone();
        longer.push(0);
        assert!(unpack(&longer).is_err());
    }
    println!("{tried} bytes changed, {harmless} of them without effect");
    assert!(harmless * 100 <= tried, "{harmless} of {tried}");
    // Opening for writing reports damage, not a full disk.
    let mut changed = place.disk.get(archive_path(2)).unwrap();
    changed[60] ^= 1;
    let damaged = files.with(&archive_path(2), Some(changed));
    assert!(
        matches!(damaged.open(), Opened::Corrupt(_)),
        "{:?}",
        damaged.open()
    );
}

/// Puts the frames of `parts` under a seek table with the sizes `told`.
fn forged(parts: &[Vec<u8>], told: &[(u32, u32)], count: u32) -> Vec<u8> {
    let mut bytes: Vec<u8> = parts.concat();
    let mut table = Vec::new();
    for (packed, plain) in told {
        table.extend(packed.to_le_bytes());
        table.extend(plain.to_le_bytes());
    }
    table.extend(count.to_le_bytes());
    table.push(0);
    table.extend(0x8F92_EAB1_u32.to_le_bytes());
    bytes.extend(0x184D_2A5E_u32.to_le_bytes());
    bytes.extend(u32::try_from(table.len()).unwrap().to_le_bytes());
    bytes.extend(table);
    bytes
}

fn size(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap()
}

/// Compresses a frame as an archive has it, at zstd's highest level.
fn frame(plain: &[u8]) -> Vec<u8> {
    let mut compressor = zstd::bulk::Compressor::new(19).unwrap();
    compressor
        .set_parameter(zstd::zstd_safe::CParameter::ChecksumFlag(true))
        .unwrap();
    compressor.compress(plain).unwrap()
}

#[test]
fn hostile_archives_end_in_errors() {
    let text = b"{\"prev\":\"x\"}\n".repeat(1000);
    let good = frame(&text);
    let (packed, plain) = (size(&good), size(&text));
    // An archive of one frame that claims these sizes.
    let one =
        |frame: &Vec<u8>, packed, plain| forged(std::slice::from_ref(frame), &[(packed, plain)], 1);
    assert_eq!(
        unpack(&one(&good, packed, plain)).unwrap(),
        text,
        "the forger can do it right"
    );

    let zeros = vec![0; 256 * 1024 * 1024];
    let bomb = frame(&zeros);
    let unchecked = zstd::bulk::compress(&text, 3).unwrap();
    let two = [good.clone(), good.clone()].concat();
    let mut skippable = vec![0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4];
    skippable.extend(&good);
    let twice = [(packed, plain), (packed, plain)];
    let frames = std::slice::from_ref(&good);
    let mib = 1024 * 1024;
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("a bomb that says so", one(&bomb, size(&bomb), size(&zeros))),
        ("a bomb that lies", one(&bomb, size(&bomb), mib)),
        ("a longer frame than told", one(&good, packed, plain - 1)),
        ("a shorter frame than told", one(&good, packed, plain + 1)),
        ("an empty frame", one(&good, packed, 0)),
        ("no checksum", one(&unchecked, size(&unchecked), plain)),
        ("two frames for one", one(&two, size(&two), plain)),
        (
            "a frame behind a skippable one",
            one(&skippable, size(&skippable), plain),
        ),
        ("entries too many", forged(frames, &twice, 2)),
        (
            "a count without entries",
            forged(frames, &twice[..1], u32::MAX),
        ),
        ("a count of nothing", forged(&[], &[], 0)),
        ("frames that end elsewhere", one(&good, packed - 1, plain)),
        (
            "a packed size beyond all bounds",
            one(&good, u32::MAX, plain),
        ),
        (
            "a million times 1 MiB",
            forged(&[], &vec![(0, mib); 1_000_000], 1_000_000),
        ),
        (
            "16 GiB in small frames",
            forged(&vec![vec![0; 40]; 16_384], &vec![(40, mib); 16_384], 16_384),
        ),
        (
            "zstd without a seek table",
            zstd::bulk::compress(&text, 3).unwrap(),
        ),
        ("nothing", Vec::new()),
        ("other bytes", b"log".repeat(100)),
    ];
    for (what, bytes) in cases {
        let error = unpack(&bytes).map(|bytes| bytes.len()).expect_err(what);
        assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{what}: {error}");
    }
}

#[test]
fn an_archive_is_read_anywhere_and_never_written() {
    let (place, _) = four_segments(6);
    let plain = place.disk.get(segment::path(3)).unwrap();
    archive_all(place.disk.as_ref(), 0).unwrap();
    let file = segment::open(place.disk.as_ref(), audit(), 3).unwrap();
    for from in (0..plain.len())
        .step_by(9_973)
        .chain([0, frames::FRAME_BYTES - 1, plain.len() - 1])
    {
        for length in [1, 700, 70_000, plain.len()] {
            let length = length.min(plain.len() - from);
            let read =
                spoolgate_ledger::disk::read_exact_at(file.as_ref(), from as u64, length).unwrap();
            assert!(
                read == plain[from..from + length],
                "{length} bytes at {from}"
            );
        }
    }
    let mut buffer = [0; 8];
    assert_eq!(file.read_at(plain.len() as u64, &mut buffer).unwrap(), 0);
    assert_eq!(file.read_at(u64::MAX, &mut buffer).unwrap(), 0);
    file.append(b"x").unwrap_err();
}

#[test]
fn the_forms_and_segments_must_agree() {
    let (place, _) = four_segments(7);
    let plain = Files::of(&place);
    archive_all(place.disk.as_ref(), 0).unwrap();
    let files = Files::of(&place);
    let problems = |files: &Files| files.verify_on_threads(false, 2).unwrap().problems;

    let both = files.with_segment(2, plain.segment(2).to_vec());
    assert_eq!(problems(&both), []);
    let other = packed(plain.segment(1));
    let differing = both.with(&archive_path(2), Some(other));
    assert_eq!(problems(&differing)[0].file, "log-00000002.jsonl.zst");
    // The plain file is used, and its bytes are right.
    assert!(matches!(differing.open(), Opened::Clean(_)));

    let path = audit().join("SEGMENTS");
    let sums = String::from_utf8(place.disk.get(&path).unwrap()).unwrap();
    let lines: Vec<&str> = sums.lines().collect();
    let swapped = |a: usize, b: usize| {
        let mut lines = lines.clone();
        lines.swap(a, b);
        lines.join("\n") + "\n"
    };
    let first_digit = |digit: &str| format!("{digit}{}", &sums[1..]);
    let wrong = if sums.starts_with('0') {
        first_digit("1")
    } else {
        first_digit("0")
    };
    for (what, text) in [
        ("a wrong digest", wrong),
        (
            "names of others",
            sums.replace("log-00000001.jsonl", "log-00000009.jsonl"),
        ),
        (
            "the last segment",
            format!("{sums}{}  log-00000004.jsonl\n", &sums[..64]),
        ),
        ("another order", swapped(0, 1)),
        ("upper case", sums.to_uppercase()),
        ("no last LF", sums.trim_end().to_owned()),
        ("one space", sums.replace("  ", " ")),
        ("not text", String::from("\u{fffd}")),
    ] {
        let found = problems(&files.with(&path, Some(text.into_bytes())));
        assert!(
            found.iter().any(|problem| problem.file == "SEGMENTS"),
            "{what}: {found:?}"
        );
    }
    assert_eq!(
        problems(&files.with(&path, None)),
        [],
        "it is derived: without it nothing is wrong"
    );
}

/// Whether a program is installed; prints a message if not.
fn has(program: &str) -> bool {
    let there = Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok();
    if !there {
        println!("skipped: there is no {program}");
    }
    there
}

#[test]
fn zstd_and_sha256sum_agree() {
    if !has("zstd") || !has("sha256sum") {
        return;
    }
    let (place, _) = four_segments(8);
    let plain = ledger_of(&place.disk);
    archive_all(place.disk.as_ref(), 1).unwrap();
    let folder = crate::kit::folder();
    for (path, bytes) in ledger_of(&place.disk) {
        fs::write(folder.path().join(path.file_name().unwrap()), bytes).unwrap();
    }
    for number in 1..3 {
        let path = folder.path().join(segment::archive_name(number));
        let unpacked = Command::new("zstd")
            .arg("-dcq")
            .arg(&path)
            .output()
            .unwrap();
        assert!(unpacked.status.success());
        assert!(
            unpacked.stdout == plain[&segment::path(number)],
            "segment {number}"
        );
        assert!(
            Command::new("zstd")
                .arg("-tq")
                .arg(&path)
                .status()
                .unwrap()
                .success()
        );
        fs::write(
            folder.path().join(segment::file_name(number)),
            unpacked.stdout,
        )
        .unwrap();
    }
    let summed = Command::new("sha256sum")
        .args(["-c", "--strict", "SEGMENTS"])
        .current_dir(folder.path())
        .output();
    let said = String::from_utf8(summed.unwrap().stdout).unwrap();
    assert_eq!(said.matches(": OK").count(), 3, "{said}");
}
