//! Opening a ledger after anything happened to its files. A log of known batches is damaged as the
//! input says; then whatever opens must be a beginning of that log, whole batches only, no shorter
//! than a checkpoint on disk says, the same when it is opened again, and fit to be appended to; and
//! `audit verify` must say the same.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use ed25519_dalek::SigningKey;
use spoolgate_gate::Change;
use spoolgate_gate::record::{Event, EventKind, Genesis, Published, Record};
use spoolgate_ledger::log::{CHECKPOINT_FILE, LogSigner, Position};
use spoolgate_ledger::note::{self, SignerKey};
use spoolgate_ledger::recover::{self, Found};
use spoolgate_ledger::seal::Seal;
use spoolgate_ledger::tree::{Frontier, Hash, leaf_hash};
use spoolgate_ledger::verify::{self, Options, Report};
use spoolgate_ledger::{Ledger, LedgerError, line, segment};
use spoolgate_wire::signing::hex;
use spoolgate_wire::time::Time;

use super::input::Choices;
use super::memory_disk::MemoryDisk;

const ORIGIN: &str = "spoolgate.invalid/fuzz";
const STEPS_MAX: usize = 12;
const FILE_BYTES_MAX: usize = 64 * 1024;

type Files = BTreeMap<PathBuf, Vec<u8>>;

/// The files right after a batch, and the place behind it.
struct Moment {
    files: Files,
    position: Position,
}

/// A log as it was written: what may be found again.
struct History {
    /// Leaf and kind of every line.
    lines: Vec<(Hash, String)>,
    /// The bytes of every line with the number of its batch.
    texts: Vec<(u64, Vec<u8>)>,
    /// After each batch.
    moments: Vec<Moment>,
}

fn signer() -> LogSigner {
    let log = SignerKey::from_seed(ORIGIN, &[1; 32]).unwrap();
    LogSigner {
        origin: ORIGIN.to_owned(),
        log,
        seal: SigningKey::from_bytes(&[2; 32]),
    }
}

fn time(n: u64) -> Time {
    Time::from_ms(1_772_452_800_000 + i64::try_from(n).unwrap() * 1000).unwrap()
}

fn line_of(record: &Record) -> (&'static str, String) {
    (record.kind(), record.body().unwrap())
}

fn genesis() -> (&'static str, String) {
    line_of(&Record::Genesis(Genesis {
        timestamp: time(0),
        format: 1,
        origin: ORIGIN.to_owned(),
        log_key: signer().verifier().to_string(),
        seal_key: hex(signer().seal.verifying_key().as_bytes()),
        nonce: "7".repeat(64),
        rulebook: "0".repeat(64),
        program: "0.1.0".to_owned(),
        semantics: 1,
        changes: vec![Change::RulebookLoaded {
            hash: "0".repeat(64),
            approved: None,
        }],
    }))
}

/// Text that would begin a line of a later batch, were it not inside a JSON string.
fn event(n: u64) -> (&'static str, String) {
    let note = "\"}\n{\"prev\":\"0000\",\"seq\":99,\"batch\":99,\"kind\":\"seal\",".to_owned();
    let changes = vec![Change::HaltFile {
        present: n.is_multiple_of(2),
        flatten: false,
    }];
    line_of(&Record::Event(
        EventKind::Halt,
        Event {
            cage: None,
            timestamp: time(n),
            note,
            changes,
        },
    ))
}

fn published(n: u64) -> (&'static str, String) {
    line_of(&Record::Published(Published {
        timestamp: time(n),
        up_to: n,
    }))
}

/// Five batches, in one segment, or in three of which the first ends in a torn rest.
fn write_history(in_segments: bool) -> History {
    let disk = Arc::new(MemoryDisk::default());
    let mut ledger = Ledger::create(disk.clone(), signer(), &[genesis()]).unwrap();
    let mut moments = Vec::new();
    let mut note = |ledger: &Ledger| {
        let files = disk.files_below("audit").into_iter().collect();
        moments.push(Moment {
            files,
            position: ledger.position().clone(),
        });
    };
    note(&ledger);
    for n in 1..5 {
        if in_segments && n == 2 {
            disk.faults.lock().unwrap().append_room = Some(700);
            ledger.append(&[event(n), event(n)]).unwrap_err();
            let opened = recover::open(disk.clone(), signer(), None, &mut |_| Ok(())).unwrap();
            assert!(matches!(opened.1, Found::Torn(_)));
            ledger = opened.0;
            note(&ledger);
        }
        if in_segments && n == 3 {
            ledger.cut(None).unwrap();
            note(&ledger);
        }
        let bodies = if n % 2 == 1 {
            vec![event(n)]
        } else {
            vec![published(n), event(n)]
        };
        ledger.append(&bodies).unwrap();
        note(&ledger);
    }
    let mut lines = Vec::new();
    recover::open(disk, signer(), None, &mut |line| {
        lines.push((line.leaf, line.kind.clone()));
        Ok(())
    })
    .unwrap();
    let logs = moments
        .last()
        .into_iter()
        .flat_map(|moment: &Moment| moment.files.values());
    let texts = logs.flat_map(|bytes| split(bytes)).filter_map(|text| {
        let batch = line::parse(text.strip_suffix(b"\n")?).ok()?.batch;
        Some((batch, text))
    });
    History {
        lines,
        texts: texts.collect(),
        moments,
    }
}

fn history(in_segments: bool) -> &'static History {
    static ONE: OnceLock<History> = OnceLock::new();
    static THREE: OnceLock<History> = OnceLock::new();
    if in_segments {
        THREE.get_or_init(|| write_history(true))
    } else {
        ONE.get_or_init(|| write_history(false))
    }
}

/// Every line of both histories, without LF.
pub fn lines() -> Vec<Vec<u8>> {
    let moments = [false, true].map(|in_segments| history(in_segments).moments.last());
    let files = moments
        .into_iter()
        .flatten()
        .flat_map(|moment| &moment.files);
    let logs = files.filter(|(path, _)| path.extension().is_some_and(|ending| ending == "jsonl"));
    logs.flat_map(|(_, bytes)| {
        bytes
            .split(|byte| *byte == b'\n')
            .map(<[u8]>::to_vec)
            .collect::<Vec<_>>()
    })
    .collect()
}

/// Runs one script of damage.
pub fn body(data: &[u8]) {
    let mut choices = Choices::of(data);
    let history = history(choices.byte() & 1 == 1);
    let begin = choices.below(history.moments.len());
    let mut files = history.moments[begin].files.clone();
    let anchor = match choices.byte() {
        0..=127 => None,
        n => Some(
            history.moments[usize::from(n) % history.moments.len()]
                .position
                .clone(),
        ),
    };
    for _ in 0..STEPS_MAX {
        if choices.is_empty() {
            break;
        }
        damage(&mut files, history, &mut choices);
        files
            .values_mut()
            .for_each(|bytes| bytes.truncate(FILE_BYTES_MAX));
    }
    check(&files, history);
    check_from(&files, history, anchor);
}

/// One step of damage.
fn damage(files: &mut Files, history: &History, choices: &mut Choices<'_>) {
    let names: Vec<PathBuf> = files.keys().cloned().collect();
    let kind = choices.below(16);
    if names.is_empty() || kind == 0 {
        // Whole files of another moment: an older backup, a checkpoint that came too late, a lost
        // segment.
        let moment = &history.moments[choices.below(history.moments.len())];
        let there: Vec<&PathBuf> = moment.files.keys().collect();
        let name = there[choices.below(there.len())];
        files.insert(name.clone(), moment.files[name].clone());
        return;
    }
    let name = &names[choices.below(names.len())];
    let other = names[choices.below(names.len())].clone();
    let source = files[&other].clone();
    let bytes = files.get_mut(name).unwrap();
    let at = choices.below(bytes.len() + 1);
    match kind {
        1 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << choices.below(8);
            }
        }
        2 => bytes.truncate(at),
        3 => {
            // What a cut power or a reader beside the gate sees: the end of the next batch is
            // missing.
            let from = bytes.len();
            let mut whole = history
                .moments
                .iter()
                .filter_map(|moment| moment.files.get(name));
            if let Some(longer) = whole.find(|whole| whole.len() > from && whole.starts_with(bytes))
            {
                let end = from + choices.below(longer.len() - from + 1);
                bytes.extend_from_slice(&longer[from..end]);
            }
        }
        4 => {
            let junk = choices.bytes(usize::from(at as u8 % 32)).to_vec();
            bytes.extend_from_slice(&junk);
        }
        5 => {
            let from = choices.below(source.len() + 1);
            let length = choices.below(source.len() - from + 1);
            let end = (at + choices.below(length + 1)).min(bytes.len());
            bytes.splice(at..end, source[from..from + length].iter().copied());
        }
        6 => {
            let length = choices.below(64);
            let end = (at + length).min(bytes.len());
            bytes.drain(at..end);
        }
        7 => {
            let new = choices.bytes(usize::from(at as u8 % 16)).to_vec();
            bytes.splice(at..at, new);
        }
        8 => {
            files.remove(name);
        }
        9 => {
            let number = u32::try_from(1 + choices.below(5)).unwrap();
            let moved = files.remove(name).unwrap();
            files.insert(segment::path(number), moved);
        }
        10 => {
            let zeros = choices.below(600);
            bytes.resize(bytes.len() + zeros, 0);
        }
        11..=14 => *bytes = edit_lines(bytes, kind, choices),
        _ => *bytes = rewrite(bytes, choices),
    }
}

fn split(bytes: &[u8]) -> Vec<Vec<u8>> {
    bytes
        .split_inclusive(|byte| *byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect()
}

/// Lines twice, swapped, gone, or of another batch number.
fn edit_lines(bytes: &[u8], kind: usize, choices: &mut Choices<'_>) -> Vec<u8> {
    let mut lines = split(bytes);
    if lines.is_empty() {
        return bytes.to_vec();
    }
    let (a, b) = (choices.below(lines.len()), choices.below(lines.len()));
    match kind {
        11 => lines.insert(b, lines[a].clone()),
        12 => lines.swap(a, b),
        13 => {
            lines.remove(a);
        }
        _ => {
            let digit = choices.below(10);
            let text = String::from_utf8_lossy(&lines[a]).into_owned();
            if let Some((before, after)) = text.split_once("\"batch\":") {
                lines[a] = format!("{before}\"batch\":{digit}{after}").into_bytes();
            }
        }
    }
    lines.concat()
}

/// What somebody without the keys can do: edit a line and write every later hash, number and root
/// again.
fn rewrite(bytes: &[u8], choices: &mut Choices<'_>) -> Vec<u8> {
    let mut lines = split(bytes);
    if lines.is_empty() {
        return bytes.to_vec();
    }
    let victim = choices.below(lines.len());
    match choices.below(4) {
        0 => {
            lines.remove(victim);
        }
        1 => lines.insert(victim, lines[victim].clone()),
        2 => {
            let digit = char::from(b'0' + u8::try_from(choices.below(10)).unwrap());
            let text =
                String::from_utf8_lossy(&lines[victim]).replace("2026-", &format!("202{digit}-"));
            lines[victim] = text.into_bytes();
        }
        _ => {}
    }
    let (mut out, mut head, mut frontier, mut batch) = (Vec::new(), Hash::ZERO, Frontier::new(), 0);
    for line in lines {
        let text = String::from_utf8_lossy(&line).into_owned();
        let Some((_, kind)) = text.trim_end_matches('\n').split_once(",\"kind\":") else {
            out.extend_from_slice(&line);
            continue;
        };
        let mut text = format!(
            "{{\"prev\":\"{head}\",\"seq\":{},\"batch\":{batch},\"kind\":{kind}",
            frontier.size()
        );
        if let Some((start, seal)) = text.split_once("\"size\":")
            && let Ok(seal) = serde_json::from_str::<Seal>(&format!("{{\"size\":{seal}"))
        {
            let seal = Seal {
                size: frontier.size(),
                root: frontier.root().to_string(),
                ..seal
            };
            text = format!("{start}{}", &seal.body()[1..]);
            batch += 1;
        }
        head = leaf_hash(text.as_bytes());
        frontier.push(head);
        out.extend_from_slice(text.as_bytes());
        out.push(b'\n');
    }
    out
}

/// What opening came to.
struct Opened {
    ledger: Ledger,
    found: Found,
    leaves: Vec<Hash>,
}

/// Opens; none if the log is refused. Any other error is a finding.
fn open(disk: &Arc<MemoryDisk>, anchor: Option<Position>) -> Option<Opened> {
    let mut leaves = Vec::new();
    let is_anchored = anchor.is_some();
    let opened = recover::open(disk.clone(), signer(), anchor, &mut |line| {
        leaves.push(line.leaf);
        Ok(())
    });
    match opened {
        Ok((ledger, found)) => Some(Opened {
            ledger,
            found,
            leaves,
        }),
        Err(LedgerError::Corrupt(corruption)) => {
            assert!(!corruption.to_string().is_empty());
            None
        }
        Err(LedgerError::NotOnLog) if is_anchored => None,
        Err(other) => panic!("neither clean, torn nor corrupt: {other:?}"),
    }
}

fn verified(disk: &MemoryDisk, strict: bool) -> Option<Report> {
    let options = Options {
        strict: strict.then_some(spoolgate_gate::record::canonical),
        threads: 1,
        ..Options::default()
    };
    verify::verify(disk, Path::new("audit"), &options, &|_| {}).ok()
}

fn disk_of(files: &Files) -> Arc<MemoryDisk> {
    let files: Vec<_> = files
        .iter()
        .map(|(path, bytes)| (path.clone(), bytes.clone()))
        .collect();
    Arc::new(MemoryDisk::with(&files))
}

/// Lines that a checkpoint on disk vouches for.
fn known_lines(files: &Files) -> u64 {
    let Some(bytes) = files.get(Path::new(CHECKPOINT_FILE)) else {
        return 0;
    };
    let text = String::from_utf8_lossy(bytes);
    note::open_checkpoint(&text, signer().verifier(), ORIGIN).map_or(0, |head| head.size + 1)
}

/// Only lines that were written, up to a seal.
fn check_beginning(leaves: &[Hash], history: &History) {
    assert!(
        leaves.len() <= history.lines.len(),
        "more lines than were ever written"
    );
    for (leaf, (written, _)) in leaves.iter().zip(&history.lines) {
        assert_eq!(leaf, written, "a line that was never written");
    }
    let last = leaves
        .len()
        .checked_sub(1)
        .map(|last| history.lines[last].1.as_str());
    assert_eq!(last, Some("seal"), "opens inside a batch");
}

fn check(files: &Files, history: &History) {
    let disk = disk_of(files);
    let before = verified(&disk, false);
    let verifies = before.as_ref().is_some_and(|report| report.ok);
    let Some(Opened {
        ledger,
        found,
        leaves,
    }) = open(&disk, None)
    else {
        assert!(!verifies, "refused, and yet it verifies");
        assert_eq!(
            disk.files_below(""),
            disk_of(files).files_below(""),
            "a corrupt ledger was written to"
        );
        return;
    };
    check_beginning(&leaves, history);
    assert!(
        leaves.len() as u64 >= known_lines(files),
        "shorter than its checkpoint"
    );
    // The checkpoint is renewed: a power cut can leave an old or empty one.
    for (path, bytes) in files
        .iter()
        .filter(|(path, _)| *path != Path::new(CHECKPOINT_FILE))
    {
        assert_eq!(
            disk.get(path).as_ref(),
            Some(bytes),
            "{} was edited",
            path.display()
        );
    }
    if let Found::Torn(rest) = &found {
        check_rest(
            &last_segment(files)[rest.offset as usize..],
            &ledger,
            history,
        );
    }
    let is_clean = found == Found::Clean;
    match (is_clean, &before) {
        (true, Some(report)) => {
            assert_eq!(
                report.lines,
                leaves.len() as u64,
                "verify counts other lines"
            );
            // A checkpoint that is none, or an old one of another file, is for `verify` to name.
            assert!(
                report
                    .problems
                    .iter()
                    .all(|problem| problem.file == "checkpoint"),
                "{report:?}"
            );
        }
        (true, None) => panic!("opens clean, and verify cannot read it"),
        (false, _) => assert!(!verifies, "torn, and yet it verifies"),
    }
    let position = ledger.position().clone();
    drop(ledger);
    let again = open(&disk, None).expect("does not open again");
    assert_eq!(again.found, Found::Clean, "torn twice");
    assert_eq!(
        again.ledger.position(),
        &position,
        "another place when opened again"
    );
    assert_eq!(
        again.leaves[..leaves.len()],
        leaves,
        "other lines when opened again"
    );
    assert_eq!(
        again.leaves.len(),
        leaves.len() + if is_clean { 0 } else { 2 }
    );
    let mut ledger = again.ledger;
    ledger.make_room(4 << 20).unwrap();
    ledger.append(&[event(77)]).expect("cannot be appended to");
    let after = open(&disk, None).expect("does not open after appending");
    assert_eq!(after.found, Found::Clean);
    assert_eq!(after.ledger.position(), ledger.position());
    assert_eq!(after.leaves.len(), again.leaves.len() + 2);
    let report = verified(&disk, true).expect("cannot be verified after appending");
    assert!(report.ok, "does not verify after appending: {report:?}");
}

/// The last segment's bytes.
fn last_segment(files: &Files) -> &[u8] {
    let mut logs = files
        .iter()
        .filter(|(path, _)| path.extension().is_some_and(|ending| ending == "jsonl"));
    logs.next_back().map_or(&[], |(_, bytes)| bytes.as_slice())
}

/// A later batch is only written after the earlier one was synced: where one of its lines stands
/// whole, what was acknowledged before it must not be taken for torn.
fn check_rest(rest: &[u8], ledger: &Ledger, history: &History) {
    // The new segment's own batch took the number of the torn one.
    let torn = ledger.position().batch - 1;
    for line in split(rest) {
        let later = history
            .texts
            .iter()
            .find(|(batch, text)| *batch > torn && *text == line);
        assert!(
            later.is_none(),
            "an acknowledged batch is taken for a torn one: {}",
            String::from_utf8_lossy(&line)
        );
    }
}

/// From a remembered place on: the lines behind it and no others, however damaged what is before
/// it.
fn check_from(files: &Files, history: &History, anchor: Option<Position>) {
    let Some(anchor) = anchor else { return };
    let from = usize::try_from(anchor.seq).unwrap();
    let Some(opened) = open(&disk_of(files), Some(anchor)) else {
        return;
    };
    let mut leaves: Vec<Hash> = history.lines[..from]
        .iter()
        .map(|(leaf, _)| *leaf)
        .collect();
    leaves.extend(opened.leaves);
    check_beginning(&leaves, history);
    assert!(
        leaves.len() as u64 >= known_lines(files),
        "shorter than its checkpoint"
    );
}
