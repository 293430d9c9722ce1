//! Damage to the ledger's files: bit flips, truncations, lost and swapped segments, forgeries. Such
//! damage broke other ledgers: immudb's chain beside its tree (CVE-2022-36111), journald's sealed
//! lines that a later key can seal again (CVE-2023-31439), one flipped bit that ended CT log Yeti
//! 2022, and recoveries that take a flipped bit in the middle for a torn tail and drop every answer
//! after it.
//!
//! The default run flips one bit of every seventh byte of a small log, and every fifth bit around
//! the ends of its last batch, with its checkpoint and without, and cuts it at every fifth byte and
//! beside the end of every line. `SPOOLGATE_WHOLE=1 cargo test --test it ledger_damage:: --
//! --include-ignored` flips every bit, also of three segments, and cuts at every byte.

mod forged;

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::kit::campaign;
use crate::kit::ledger_files::{
    Files, Forger, HOSTILE, Opened, forge, is_seal, lines_of, small, three_segments,
};
use crate::kit::memory_disk::MemoryDisk;
use crate::kit::place::{ORDER, ORIGIN, Place, drain};
use spoolgate_ledger::note::{self, Checkpoint, SignerKey};
use spoolgate_ledger::tree::leaf_hash;
use spoolgate_ledger::verify::{self, Options, Reached};
use spoolgate_ledger::{Ledger, LedgerError, line, recover, segment};
use spoolgate_wire::signing::SignKey;

/// Gives the same bits every time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % n as u64).unwrap()
    }
}

/// Runs `check` over all cases on all cores and returns how many there were.
fn for_all<T: Sync>(cases: &[T], check: impl Fn(&T) + Sync) -> usize {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    check(case);
                }
            });
        }
    });
    cases.len()
}

fn every_bit(range: std::ops::Range<usize>) -> Vec<(usize, u8)> {
    range
        .flat_map(|at| (0..8).map(move |bit| (at, bit)))
        .collect()
}

/// By default one bit in five, so that every position in a byte has its turn.
fn most_bits(range: std::ops::Range<usize>) -> Vec<(usize, u8)> {
    every_bit(range)
        .into_iter()
        .step_by(campaign(5, 1))
        .collect()
}

/// Returns the lengths to which a file is cut: beside the end of every line and, by default, every
/// fifth.
fn lengths_of(bytes: &[u8]) -> Vec<usize> {
    let step = campaign(5, 1);
    let is_end = |at: usize| bytes.get(at) == Some(&b'\n');
    (0..bytes.len())
        .filter(|at| at % step == 0 || (at.saturating_sub(2)..at + 2).any(is_end))
        .collect()
}

fn a_bit_here_and_there(range: std::ops::Range<usize>) -> Vec<(usize, u8)> {
    let mut dice = Dice(0x5eed);
    range
        .step_by(campaign(7, 3))
        .map(|at| (at, u8::try_from(dice.below(8)).unwrap()))
        .collect()
}

fn flipped(bytes: &[u8], at: usize, bit: u8) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at] ^= 1 << bit;
    bytes
}

/// Returns the lines of an undamaged ledger.
fn whole(files: &Files) -> Vec<String> {
    match files.open() {
        Opened::Clean(lines) => lines,
        other => panic!("the ledger is not sound to begin with: {other:?}"),
    }
}

/// Opening and verifying must both report a flip. After `known_end`, the last seal that a
/// checkpoint covers, opening may treat it as a torn batch, if nothing before it is lost.
fn check_flips(
    files: &Files,
    number: u32,
    known_end: usize,
    cases: &[(usize, u8)],
    verify: bool,
) -> usize {
    let lines = whole(files);
    let log = files.segment(number).to_vec();
    for_all(cases, |(at, bit)| {
        let damaged = files.with_segment(number, flipped(&log, *at, *bit));
        let place = format!("segment {number}, byte {at}, bit {bit}");
        match damaged.open() {
            Opened::Clean(_) => panic!("{place}: opens as if nothing were wrong"),
            Opened::Torn(kept) => {
                assert!(
                    *at >= known_end,
                    "{place}: an acknowledged batch is taken for a torn one"
                );
                assert!(lines.starts_with(&kept), "{place}: other lines than before");
                let known = log[..known_end]
                    .iter()
                    .filter(|byte| **byte == b'\n')
                    .count();
                assert!(
                    kept.len() >= known,
                    "{place}: {} lines kept of {known}",
                    kept.len()
                );
            }
            Opened::Corrupt(_) => {}
        }
        assert!(!verify || !damaged.verifies(), "{place}: verifies");
    })
}

#[test]
fn bits_of_a_log_with_its_checkpoint() {
    let (_place, files, _) = small();
    assert!(files.verifies());
    let length = files.segment(1).len();
    let checked = check_flips(&files, 1, length, &a_bit_here_and_there(0..length), true);
    assert!(checked > campaign(1_500, 3_500), "{checked}");
}

/// Without the newest checkpoint, only the seal protects the last batch: at best, `verify` can
/// distinguish damage there from a torn batch, as the table in the documentation says. Damage
/// before it is still corrupt.
fn check_without_newest_checkpoint(cases: impl Fn(&[usize], usize) -> Vec<(usize, u8)>) -> usize {
    let (_place, files, older) = small();
    let ends = files.seal_ends(1);
    let before_last = ends[ends.len() - 2];
    let cases = cases(&ends, files.segment(1).len());
    check_flips(&files.without_checkpoint(), 1, before_last, &cases, true)
        + check_flips(
            &files.with_checkpoint(&older),
            1,
            before_last,
            &cases,
            false,
        )
        + check_flips(
            &files.with_checkpoint(b""),
            1,
            before_last,
            &a_bit_here_and_there(0..before_last),
            false,
        )
}

#[test]
fn bits_of_a_log_without_its_newest_checkpoint() {
    let checked = check_without_newest_checkpoint(|ends, length| {
        // The last batch and the seal before it: the boundary between acknowledged and torn.
        let last = ends[ends.len() - 2];
        let mut cases = a_bit_here_and_there(0..last - 330);
        cases.extend(most_bits(last - 330..last + 100));
        cases.extend(a_bit_here_and_there(last + 100..length - 400));
        cases.extend(most_bits(length - 400..length));
        cases
    });
    assert!(checked > campaign(6_000, 20_000), "{checked}");
}

#[test]
#[ignore = "minutes; every bit with and without a checkpoint, and of three segments"]
fn every_bit_of_everything() {
    let (_place, files, _) = small();
    let length = files.segment(1).len();
    check_flips(&files, 1, length, &every_bit(0..length), true);
    check_without_newest_checkpoint(|_, length| every_bit(0..length));
    let files = three_segments();
    for number in 1..=3 {
        let length = files.segment(number).len();
        check_flips(&files, number, length, &every_bit(0..length), true);
    }
}

#[test]
fn every_length_of_a_log_with_its_checkpoint() {
    let (_place, files, _) = small();
    let log = files.segment(1).to_vec();
    let lengths = lengths_of(&log);
    for_all(&lengths, |length| {
        let cut = files.with_segment(1, log[..*length].to_vec());
        assert!(
            matches!(cut.open(), Opened::Corrupt(_)),
            "cut to {length} bytes"
        );
        assert!(!cut.verifies(), "cut to {length} bytes");
    });
}

/// A torn batch must never stop the gate, wherever the power was cut: what was acknowledged is
/// there, the rest is frozen, the next opening is clean and everything verifies. A torn last line
/// made other logs unreadable.
#[test]
fn every_length_of_a_batch_that_no_checkpoint_knows() {
    let (_place, files, older) = small();
    let lines = whole(&files);
    let log = files.segment(1).to_vec();
    let ends = files.seal_ends(1);
    let known = ends[ends.len() - 2];
    let sealed = log[..known].iter().filter(|byte| **byte == b'\n').count();
    let lengths = lengths_of(&log);
    for_all(&lengths, |length| {
        let cut = files
            .with_checkpoint(&older)
            .with_segment(1, log[..*length].to_vec());
        let disk = Arc::new(MemoryDisk::with(&cut.files));
        match cut.open_on(&disk) {
            Opened::Clean(kept) => assert!(*length == known && kept == lines[..sealed], "{length}"),
            Opened::Torn(kept) => {
                assert!(
                    *length > known && kept == lines[..sealed],
                    "cut to {length} bytes"
                );
                let after = Files {
                    files: disk.files_below(""),
                    keys: cut.keys.clone(),
                };
                assert_eq!(
                    after.segment(1),
                    &log[..*length],
                    "{length}: the torn file was edited"
                );
                assert_eq!(whole(&after).len(), sealed + 2, "{length}");
                let report = after.verify(true).unwrap();
                assert!(report.ok && report.torn == 1, "{length}: {report:?}");
            }
            Opened::Corrupt(why) => assert!(*length < known, "cut to {length} bytes: {why}"),
        }
    });
    // Without a checkpoint, a cut at a seal is the only damage that nobody can see here.
    for end in &ends {
        let cut = files
            .without_checkpoint()
            .with_segment(1, log[..*end].to_vec());
        assert!(
            matches!(cut.open(), Opened::Clean(_)) && cut.verifies(),
            "{end}"
        );
    }
}

#[test]
fn the_frozen_rest_and_the_segment_line_are_covered() {
    let files = three_segments();
    let report = files.verify(true).unwrap();
    assert!(
        report.ok && report.segments == 3 && report.torn == 2,
        "{report:?}"
    );
    for number in 1..=3 {
        let length = files.segment(number).len();
        let ends = files.seal_ends(number);
        let mut cases = a_bit_here_and_there(0..*ends.last().unwrap());
        if number > 1 {
            // The segment line itself, with its LF and the start of its seal.
            let header = files
                .segment(number)
                .iter()
                .position(|byte| *byte == b'\n')
                .unwrap();
            cases.extend(most_bits(0..header + 80));
        }
        cases.extend(a_bit_here_and_there(*ends.last().unwrap()..length));
        check_flips(&files, number, length, &cases, true);
        if number < 3 {
            // Even without any checkpoint, a rest must be the one that was frozen.
            let rest = a_bit_here_and_there(*ends.last().unwrap()..length);
            assert!(rest.len() >= campaign(95, 230));
            check_flips(&files.without_checkpoint(), number, length, &rest, true);
        }
    }
}

fn check_refused(files: &Files, what: &str) {
    let opened = files.open();
    assert!(matches!(opened, Opened::Corrupt(_)), "{what}: {opened:?}");
    assert!(!files.verifies(), "{what}: verifies");
}

/// Preallocated or lost tails read as NUL bytes.
#[test]
fn nul_tails_and_holes() {
    let (_place, files, _) = small();
    let log = files.segment(1).to_vec();
    let lines = whole(&files);
    for nuls in [1, 511, 4096, 65_535, 65_536, 70_000, 1024 * 1024] {
        let tail = files.with_segment(1, [log.clone(), vec![0; nuls]].concat());
        let disk = Arc::new(MemoryDisk::with(&tail.files));
        assert_eq!(tail.open_on(&disk), Opened::Torn(lines.clone()), "{nuls}");
        assert!(!tail.verifies());
        let after = Files {
            files: disk.files_below(""),
            keys: tail.keys.clone(),
        };
        assert_eq!(whole(&after).len(), lines.len() + 2);
        assert!(after.verifies(), "{nuls}");
    }
    let too_long = files.with_segment(1, [log.clone(), vec![0; 16 * 1024 * 1024 + 1]].concat());
    check_refused(&too_long, "more NUL bytes than a batch has");
    for start in (0..log.len() - 64).step_by(64) {
        let mut hole = log.clone();
        hole[start..start + 64].fill(0);
        check_refused(&files.with_segment(1, hole), &format!("a hole at {start}"));
    }
}

/// A writer that continues after a torn tail in the same file would lose every later answer at the
/// next start. This one begins a new file; a file written the other way is refused.
#[test]
fn nothing_is_appended_behind_a_torn_tail() {
    let (_place, files, _) = small();
    let log = files.segment(1).to_vec();
    let ends = files.seal_ends(1);
    for (batch, start) in ends[..ends.len() - 1].iter().enumerate() {
        let torn = [&log[..*start], &log[*start..*start + 500], &log[*start..]].concat();
        check_refused(
            &files.with_segment(1, torn.clone()),
            &format!("behind batch {batch}"),
        );
        let bare = files.without_checkpoint().with_segment(1, torn);
        assert!(!bare.verifies(), "behind batch {batch}");
        assert!(
            !matches!(bare.open(), Opened::Clean(_)),
            "behind batch {batch}"
        );
    }
}

fn long_line(files: &Files, length: usize) -> Vec<u8> {
    let mut lines = lines_of(files.segment(1));
    let seal = lines.last().unwrap().clone();
    let body = |note: &str| {
        format!(r#"{{"timestamp":"2026-03-02T12:00:00.000Z","note":"{note}","changes":[]}}"#)
    };
    let seq = lines.len() as u64;
    let line = |note: &str| line::render(&leaf_hash(b""), seq, 4, "start", &body(note)).unwrap();
    let short = line("");
    let note = "n".repeat(length - short.len());
    lines.push(
        short
            .replacen(r#""note":"""#, &format!(r#""note":"{note}""#), 1)
            .into_bytes(),
    );
    lines.push(seal);
    forge(&lines, &files.keys, Forger::HoldsSealKey)
}

#[test]
fn a_line_of_65535_bytes_and_one_more() {
    let (_place, files, _) = small();
    let fits = files.with_segment(1, long_line(&files, 65_535));
    assert_eq!(
        lines_of(fits.segment(1)).iter().map(Vec::len).max(),
        Some(65_535)
    );
    assert_eq!(whole(&fits).len(), whole(&files).len() + 2);
    assert!(fits.verify(true).unwrap().ok);
    for length in [65_536, 65_537, 200_000] {
        let over = files.with_segment(1, long_line(&files, length));
        assert!(!over.verifies(), "{length}");
        // Sealed or not, this is not a line: the log ends before it.
        assert_eq!(over.open(), Opened::Torn(whole(&files)), "{length}");
    }
    // The writer refuses it before it touches the disk, and can continue.
    let disk = Arc::new(MemoryDisk::with(&files.files));
    let (mut ledger, _): (Ledger, _) =
        recover::open(disk.clone(), files.signer(), None, &mut |_| Ok(())).unwrap();
    let body = |n: usize| {
        format!(
            r#"{{"timestamp":"2026-03-02T12:00:00.000Z","note":"{}","changes":[]}}"#,
            "n".repeat(n)
        )
    };
    let refused = ledger.append(&[("start", body(65_536))]);
    assert!(
        matches!(refused, Err(LedgerError::Line(_))),
        "{:?}",
        refused.err()
    );
    assert_eq!(
        disk.get("audit/log-00000001.jsonl").unwrap(),
        files.segment(1)
    );
    ledger.append(&[("start", body(60_000))]).unwrap();
    // Many long lines: more than one read of the file, and lines that cross reads.
    for _ in 0..4 {
        let bodies: Vec<(&str, String)> = (0..40).map(|n| ("start", body(60_000 + n))).collect();
        ledger.append(&bodies).unwrap();
    }
    let after = Files {
        files: disk.files_below(""),
        keys: files.keys.clone(),
    };
    assert!(after.verify(true).unwrap().ok);
    assert_eq!(whole(&after).len(), whole(&files).len() + 2 + 4 * 41);
}

/// Sends requests whose fields, and files whose names and bytes, look like ledger lines.
fn ask_with_hostile_text(place: &Place, bot: &SignKey) {
    let raw = HOSTILE.replace("\\\"", "\"");
    place.ask(
        bot,
        "trend-bot",
        "h1",
        "halt.set",
        &format!(r#"{{"reason":"{HOSTILE}"}}"#),
    );
    place.ask(
        bot,
        "trend-bot",
        "o1",
        "order.submit",
        &ORDER.replace(r#""trend""#, &format!(r#""{HOSTILE}""#)),
    );
    place.ask(
        bot,
        "trend-bot",
        "o2",
        "order.submit",
        &ORDER.replace("BTC-USD", HOSTILE),
    );
    place.ask(
        bot,
        "trend-bot",
        "o3",
        "order.submit",
        &raw[1..].replace("\"kind\":\"seal\",", "\"kind\":\"seal\"}"),
    );
    place.ask(
        bot,
        "trend-bot",
        "o4",
        "order.cancel",
        &format!(r#"{{"order_id":"{HOSTILE}"}}"#),
    );
    place
        .disk
        .put(format!("spool/in/{}.json", &raw[..90]), b"{}");
    place.disk.put(
        "spool/local/in/e1.json",
        format!(r#"{{"id":"{HOSTILE}","prev":"\n{HOSTILE}"}}"#).as_bytes(),
    );
    place.disk.put("spool/local/in/e2.json", raw.as_bytes());
    place.disk.put(
        "spool/local/in/e3.json",
        format!("\n{}", &raw[1..]).as_bytes(),
    );
    place.disk.put(
        "spool/in/e4.json",
        format!(r#"{{"id":"e4","timestamp":"2026-03-02T12:00:00Z","action":"{HOSTILE}","payload":{{}},"source":"{HOSTILE}","signature":"ab"}}"#).as_bytes(),
    );
}

/// Text of agents is only inside JSON strings: wherever a batch is torn, or a bit of the torn batch
/// is flipped into an LF, no text looks like a line of a later batch, which the gate would refuse
/// as corrupt.
#[test]
fn agents_cannot_write_the_start_of_a_line() {
    let place = Place::new(3);
    let bot = place.ask_for_agent_key("k1");
    let mut home = place.open().unwrap();
    drain(&mut home).unwrap();
    let known = place.disk.get("audit/log-00000001.jsonl").unwrap().len();
    let older = place.disk.get("audit/checkpoint").unwrap();
    ask_with_hostile_text(&place, &bot);
    let outcomes = drain(&mut home).unwrap();
    assert_eq!(outcomes.len(), 10);
    assert!(
        outcomes
            .iter()
            .any(|outcome| outcome.answer.error.is_none()),
        "the halt"
    );
    drop(home);
    let files = Files::of(&place);
    assert!(files.verify(true).unwrap().ok);
    let log = files.segment(1).to_vec();
    for line in lines_of(&log) {
        let text = String::from_utf8(line).unwrap();
        assert_eq!(text.matches("{\"prev\":\"").count(), 1, "{text}");
    }
    let lines = whole(&files);
    let sealed = log[..known].iter().filter(|byte| **byte == b'\n').count();
    let unknown = files.with_checkpoint(&older);
    let lengths: Vec<usize> = (known + 1..log.len()).step_by(3).collect();
    for_all(&lengths, |length| {
        let torn = unknown.with_segment(1, log[..*length].to_vec());
        assert_eq!(
            torn.open(),
            Opened::Torn(lines[..sealed].to_vec()),
            "cut to {length}"
        );
    });
    // Every byte that one flipped bit turns into an LF.
    let to_lf: Vec<(usize, u8)> = (known..log.len() - 1)
        .filter_map(|at| {
            let difference = log[at] ^ b'\n';
            difference
                .is_power_of_two()
                .then(|| (at, u8::try_from(difference.trailing_zeros()).unwrap()))
        })
        .collect();
    assert!(to_lf.len() >= 10, "{}", to_lf.len());
    for_all(&to_lf, |(at, bit)| {
        let damaged = unknown.with_segment(1, flipped(&log, *at, *bit));
        assert_eq!(
            damaged.open(),
            Opened::Torn(lines[..sealed].to_vec()),
            "byte {at}, bit {bit}"
        );
    });
}

/// Runs the Python verifier over audit folders, all in one process. `true` means ok.
fn python(folders: &[std::path::PathBuf]) -> Vec<bool> {
    const DRIVER: &str = "
import contextlib, io, runpy, sys
script = sys.argv[1]
for folder in sys.stdin.read().split('\\n'):
    sys.argv = [script, folder]
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said): runpy.run_path(script, run_name='__main__')
        code = 0
    except SystemExit as end: code = end.code
    print(code, said.getvalue().split(':')[0])
";
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/verify_ledger.py");
    let mut child = Command::new("python3")
        .args(["-c", DRIVER])
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this test needs python3");
    let list: Vec<&str> = folders
        .iter()
        .map(|folder| folder.to_str().unwrap())
        .collect();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), list.join("\n").as_bytes())
        .unwrap();
    let out = child.wait_with_output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    let verdict = |line: &str| match line {
        "0 ok" => true,
        "1 bad" => false,
        other => panic!("the Python verifier says `{other}`"),
    };
    text.lines().map(verdict).collect()
}

/// Two readers of one format. Python checks no signatures, so it may pass what the gate reports,
/// but never the other way round.
#[test]
fn the_python_verifier_agrees() {
    let (_place, one, older) = small();
    let three = three_segments();
    let fits = one
        .without_checkpoint()
        .with_segment(1, long_line(&one, 65_535));
    let mut copies: Vec<(String, Files)> = vec![
        ("sound".to_owned(), one.clone()),
        (
            "sound, older checkpoint".to_owned(),
            one.with_checkpoint(&older),
        ),
        ("sound, no checkpoint".to_owned(), one.without_checkpoint()),
        ("sound, three segments".to_owned(), three.clone()),
        ("sound, longest line".to_owned(), fits),
    ];
    let sound = copies.len();
    let mut dice = Dice(0xd1ce);
    while copies.len() < sound + 200 {
        let n = copies.len();
        let base = if n.is_multiple_of(2) {
            one.clone()
        } else {
            three.clone()
        };
        let base = if dice.below(3) == 0 {
            base.without_checkpoint()
        } else {
            base
        };
        let (path, bytes) = base.files[dice.below(base.files.len())].clone();
        let at = dice.below(bytes.len());
        let lines = lines_of(&bytes);
        let line = dice.below(lines.len());
        let is_log = path.extension().is_some();
        let (what, damaged) = match dice.below(8) {
            0 | 1 => (
                "flip",
                flipped(&bytes, at, u8::try_from(dice.below(8)).unwrap()),
            ),
            2 => ("cut", bytes[..at].to_vec()),
            3 => (
                "cut at a line",
                bytes[..=bytes[..at].iter().rposition(|b| *b == b'\n').unwrap_or(0)].to_vec(),
            ),
            4 => (
                "bytes inserted",
                [&bytes[..at], b"}\n", &bytes[at..]].concat(),
            ),
            5 => ("doubled", [bytes.clone(), bytes].concat()),
            6 if is_log && n.is_multiple_of(2) => {
                let mut edited = lines;
                edited[line] = String::from_utf8(edited[line].clone())
                    .unwrap()
                    .replace("2026-", "2025-")
                    .into_bytes();
                ("forged", forge(&edited, &base.keys, Forger::Keyless))
            }
            _ => {
                let mut fewer = lines;
                fewer.remove(line);
                ("line removed", [fewer.join(&b'\n'), vec![b'\n']].concat())
            }
        };
        let changed = base.with(&path, Some(damaged));
        copies.push((
            format!(
                "copy {n}: {what} of {}, byte {at}, line {line}",
                path.display()
            ),
            changed,
        ));
    }
    let root = crate::kit::folder();
    let mut folders = Vec::new();
    for (n, (_, files)) in copies.iter().enumerate() {
        let folder = root.path().join(n.to_string());
        std::fs::create_dir(&folder).unwrap();
        for (path, bytes) in &files.files {
            std::fs::write(folder.join(path.file_name().unwrap()), bytes).unwrap();
        }
        folders.push(folder);
    }
    let verdicts = python(&folders);
    assert_eq!(verdicts.len(), copies.len());
    let mut only_gate = 0;
    for (n, ((what, files), python)) in copies.iter().zip(verdicts).enumerate() {
        let gate = files.verifies();
        assert!(python || !gate, "{what}: the gate says ok, Python bad");
        assert!(
            n >= sound || (python && gate),
            "{what}: Python {python}, gate {gate}"
        );
        only_gate += usize::from(python && !gate);
    }
    assert!(
        only_gate < 40,
        "{only_gate} of 200 pass Python only: more than signatures explain"
    );
}
