//! `audit verify` beside a verifier that reads a file line by line and has no pieces, threads or
//! subtrees: both must find the same fault at the same place, with any number of threads.

use std::collections::BTreeSet;

use crate::kit::ledger_files::{Files, Forger, forge, lines_of, small};
use crate::kit::{Dice, campaign};
use spoolgate_ledger::rotation::LogIdentity;
use spoolgate_ledger::seal::Seal;
use spoolgate_ledger::tree::{Frontier, Hash, leaf_hash};

/// Makes a log of several hundred thousand bytes, so that several threads have several pieces each.
/// It is sealed as the gate seals. The notes in its lines are only there to be long: most are
/// short, some as long as a line may be.
fn long_log(dice: &mut Dice) -> Files {
    let (_, files, _) = small();
    let mut lines = lines_of(files.segment(1));
    let seal = lines.last().unwrap().clone();
    let note = |length: usize| {
        format!(",\"kind\":\"stop\",\"note\":\"{}\"}}", "x".repeat(length)).into_bytes()
    };
    for batch in 0..150 {
        for _ in 0..=dice.below(8) {
            lines.push(note(dice.up_to(if batch % 50 == 0 {
                65_300
            } else {
                1500
            })));
        }
        lines.push(seal.clone());
    }
    files
        .with_segment(1, forge(&lines, &files.keys, Forger::HoldsSealKey))
        .without_checkpoint()
}

/// Damages a log in up to three of many ways.
fn harm(log: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut log = log.to_vec();
    for _ in 0..=dice.below(3) {
        let at = dice.up_to(log.len() - 1);
        let end = (at + 1 + dice.up_to(2999)).min(log.len());
        match dice.below(8) {
            0 => log[at] ^= 1 << dice.below(8),
            1 => log.truncate(at + 1),
            2 => drop(log.drain(at..end)),
            3 => log.insert(at, b'\n'),
            4 => {
                // Two lines become one, or a line loses its end.
                let end = log[at..]
                    .iter()
                    .position(|byte| *byte == b'\n')
                    .map_or(at, |found| at + found);
                log[end] = b' ';
            }
            5 => {
                let length = 65_000 + dice.up_to(200_000);
                log.splice(at..at, std::iter::repeat_n(b'y', length));
            }
            6 => {
                let again = log[at..end].to_vec();
                log.splice(at..at, again);
            }
            _ => log[at..end].fill(0),
        }
    }
    log
}

/// What a verifier found.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    lines: u64,
    batches: u64,
    head: Hash,
    root: Hash,
    /// The offset of the first fault.
    bad: Option<u64>,
}

/// Verifies one line after the other, as the documentation describes.
fn plainly(log: &[u8]) -> Found {
    let mut found = Found {
        lines: 0,
        batches: 0,
        head: Hash::ZERO,
        root: Hash::ZERO,
        bad: Some(0),
    };
    let first = &log[..log
        .iter()
        .position(|byte| *byte == b'\n')
        .unwrap_or(log.len())];
    let Ok(keys) = LogIdentity::of_first_line(first) else {
        return found;
    };
    let mut tree = Frontier::new();
    let (mut at, mut sealed_to) = (0, 0);
    while at < log.len() {
        found.bad = Some(at as u64);
        let Some(length) = log[at..].iter().position(|byte| *byte == b'\n') else {
            return found;
        };
        let line = &log[at..at + length];
        let Found {
            lines,
            batches,
            head,
            ..
        } = &found;
        let start =
            format!("{{\"prev\":\"{head}\",\"seq\":{lines},\"batch\":{batches},\"kind\":\"");
        let Some(rest) = line
            .strip_prefix(start.as_bytes())
            .filter(|_| length <= 65_535)
        else {
            return found;
        };
        let kind = &rest[..rest.iter().position(|byte| *byte == b'"').unwrap_or(0)];
        let named = kind
            .iter()
            .all(|byte| byte.is_ascii_lowercase() || *byte == b'_')
            && !kind.is_empty();
        let stands =
            (kind == b"genesis") == (*lines == 0) && kind != b"segment" && kind != b"rotate";
        if !named || !stands || !rest[kind.len()..].starts_with(b"\",") || !rest.ends_with(b"}") {
            return found;
        }
        if kind == b"seal" {
            let body = [b"{", &rest[kind.len() + 2..]].concat();
            let Ok(seal) = serde_json::from_slice::<Seal>(&body) else {
                return found;
            };
            let root = tree.root();
            let holds = seal.verifies(&keys.seal_key, &keys.origin, &root, head);
            if seal.body().as_bytes() != body || seal.size != *lines || !holds {
                return found;
            }
            (found.root, found.batches, sealed_to) = (root, found.batches + 1, at + length + 1);
        }
        found.head = leaf_hash(line);
        tree.push(found.head);
        found.lines += 1;
        at += length + 1;
    }
    found.bad = (sealed_to < log.len() || sealed_to == 0).then_some(sealed_to as u64);
    found
}

fn check(files: &Files) -> (bool, String) {
    let report = files.verify_on_threads(false, 1).unwrap();
    let found = Found {
        lines: report.lines,
        batches: report.batches,
        head: Hash::from_hex(&report.head).unwrap(),
        root: Hash::from_hex(&report.root).unwrap(),
        bad: report.problems.first().map(|problem| problem.offset),
    };
    assert_eq!(found, plainly(files.segment(1)), "{:?}", report.problems);
    let alone = serde_json::to_string(&report).unwrap();
    for threads in [2, 3, 8] {
        let side_by_side = files.verify_on_threads(false, threads).unwrap();
        assert_eq!(
            serde_json::to_string(&side_by_side).unwrap(),
            alone,
            "{threads} threads"
        );
    }
    (report.ok, alone)
}

#[test]
fn threads_find_what_one_finds() {
    let mut dice = Dice::new(0x7ead);
    let files = long_log(&mut dice);
    let log = files.segment(1).to_vec();
    assert!(log.len() > 6 * 65_536, "{}", log.len());
    assert!(check(&files).0);
    let count = campaign(80, 250);
    let cases: Vec<Files> = (0..count)
        .map(|_| files.with_segment(1, harm(&log, &mut dice)))
        .collect();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let told: Vec<String> = std::thread::scope(|scope| {
        let share = |cases: &[Files]| cases.iter().map(|files| check(files).1).collect::<Vec<_>>();
        let running: Vec<_> = cases
            .chunks(count / cores + 1)
            .map(|cases| scope.spawn(move || share(cases)))
            .collect();
        running
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    });
    // Different kinds of damage were found, at different places.
    assert!(told.iter().collect::<BTreeSet<_>>().len() > count * 4 / 5);
}

/// With pieces of different lengths, another line could be the first that is too many.
#[test]
fn a_batch_that_is_too_long_is_so_on_any_number_of_threads() {
    let (_, files, _) = small();
    let mut lines = lines_of(files.segment(1));
    let seal = lines.last().unwrap().clone();
    let note = "x".repeat(60_000);
    lines
        .extend((0..290).map(|_| format!(",\"kind\":\"stop\",\"note\":\"{note}\"}}").into_bytes()));
    lines.push(seal);
    let long = files
        .with_segment(1, forge(&lines, &files.keys, Forger::HoldsSealKey))
        .without_checkpoint();
    let reports: BTreeSet<String> = [1, 2, 3, 8]
        .map(|threads| long.verify_on_threads(false, threads).unwrap())
        .map(|report| {
            assert!(
                report.problems[0]
                    .what
                    .contains("longer than 16777216 bytes"),
                "{report:?}"
            );
            serde_json::to_string(&report).unwrap()
        })
        .into();
    assert_eq!(reports.len(), 1, "{reports:?}");
}
