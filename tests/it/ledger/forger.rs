//! A log that is sealed with its true keys and still wrong: the writer has a bug, or the holder of
//! the keys lies. Every signature holds over what its seal says, so only the checks themselves can
//! find it. `audit verify`, on any number of threads, strict or not, names the exact line; a gate
//! does not open such a log.

mod special;

use std::path::Path;

use crate::kit::ledger_files::{Files, Opened, lines_of, small};
use crate::kit::memory_disk::MemoryDisk;
use crate::kit::place::ORIGIN;
use spoolgate_home::layout;
use spoolgate_host::keyring::LogKeys;
use spoolgate_ledger::log::LogSigner;
use spoolgate_ledger::rotation::Order;
use spoolgate_ledger::scan::BATCH_BYTES_MAX;
use spoolgate_ledger::seal::Seal;
use spoolgate_ledger::segment;
use spoolgate_ledger::tree::{Frontier, Hash, leaf_hash};
use spoolgate_ledger::verify::{self, Options, Report};
use spoolgate_wire::ids::Principal;
use spoolgate_wire::time::Time;

/// Size in bytes of the pieces into which `audit verify` cuts small logs.
const PIECE_BYTES: usize = 65_536;

/// What a line says about itself; correct unless a test changes it.
#[derive(Clone, Copy)]
struct Says {
    prev: Hash,
    seq: u64,
    batch: u64,
    /// Only for seals.
    size: u64,
    root: Hash,
}

/// Writes lines, each with its correct content or with the given content.
struct Scribe {
    seal_key: ed25519_dalek::SigningKey,
    tree: Frontier,
    head: Hash,
    batch: u64,
    bytes: Vec<u8>,
    /// Offset of the last line that was written.
    at: usize,
}

impl Scribe {
    fn new(signer: &LogSigner) -> Scribe {
        let seal_key = signer.seal.clone();
        Scribe {
            seal_key,
            tree: Frontier::new(),
            head: Hash::ZERO,
            batch: 0,
            bytes: Vec::new(),
            at: 0,
        }
    }

    fn truth(&self) -> Says {
        let size = self.tree.size();
        Says {
            prev: self.head,
            seq: size,
            batch: self.batch,
            size,
            root: self.tree.root(),
        }
    }

    /// Writes a line unchanged and continues after it.
    fn raw(&mut self, text: &str) {
        self.at = self.bytes.len();
        self.head = leaf_hash(text.as_bytes());
        self.tree.push(self.head);
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.push(b'\n');
    }

    fn start(says: &Says, kind: &str) -> String {
        format!(
            "{{\"prev\":\"{}\",\"seq\":{},\"batch\":{},\"kind\":\"{kind}\",",
            says.prev, says.seq, says.batch
        )
    }

    /// Writes a line of a kind, with a body, that says this. The body of a seal is made and signed
    /// here.
    fn line(&mut self, kind: &str, body: &str, says: Says) {
        let text = if kind == "seal" {
            self.batch += 1;
            let seal = Seal::sign(&self.seal_key, ORIGIN, says.size, &says.root, &says.prev);
            format!("{}{}", Scribe::start(&says, kind), &seal.body()[1..])
        } else {
            format!("{}{}", Scribe::start(&says, kind), &body[1..])
        };
        self.raw(&text);
    }

    fn add(&mut self, kind: &str, body: &str) {
        self.line(kind, body, self.truth());
    }

    fn seal(&mut self) {
        self.add("seal", "{}");
    }

    /// Returns kind and body of a line.
    fn parts(line: &[u8]) -> (String, String) {
        let text = String::from_utf8(line.to_vec()).unwrap();
        let (kind, body) = text
            .split_once(",\"kind\":\"")
            .unwrap()
            .1
            .split_once("\",")
            .unwrap();
        (kind.to_owned(), format!("{{{body}"))
    }

    /// Writes the lines of a file, each changed by `lie`.
    fn copy(&mut self, lines: &[Vec<u8>], lie: &dyn Fn(usize, &mut Says)) {
        for (number, line) in lines.iter().enumerate() {
            let (kind, body) = Scribe::parts(line);
            let mut says = self.truth();
            lie(number, &mut says);
            self.line(&kind, &body, says);
        }
    }
}

fn stop(length: usize) -> String {
    let note = "n".repeat(length);
    format!("{{\"timestamp\":\"2026-03-02T12:00:00.000Z\",\"note\":\"{note}\",\"changes\":[]}}")
}

/// Makes a log of one file and several pieces, with seals here and there.
fn long() -> Files {
    let (_place, files, _) = small();
    let mut scribe = Scribe::new(&files.signer());
    scribe.copy(&lines_of(files.segment(1)), &|_, _| {});
    assert_eq!(scribe.bytes, files.segment(1), "the forger's own tools");
    for batch in 0..10 {
        for line in 0..3 {
            scribe.add("stop", &stop(3000 + 1400 * line + 100 * batch));
        }
        scribe.seal();
    }
    assert!(scribe.bytes.len() > 2 * PIECE_BYTES && scribe.bytes.len() < 8 * PIECE_BYTES);
    files.with_segment(1, scribe.bytes).without_checkpoint()
}

fn report(files: &Files, strict: bool, chain: bool, threads: usize) -> Report {
    let options = Options {
        strict: strict.then_some(spoolgate_gate::record::canonical),
        chain,
        threads,
        ..Options::default()
    };
    verify::verify(
        &MemoryDisk::with(&files.files),
        Path::new("audit"),
        &options,
        &|_| {},
    )
    .unwrap()
}

fn sound(files: &Files, what: &str) {
    for (strict, threads) in [(false, 1), (false, 3), (true, 2)] {
        let report = report(files, strict, false, threads);
        assert!(report.ok, "{what}: {:?}", report.problems);
    }
    assert!(
        matches!(files.open(), Opened::Clean(_)),
        "{what}: {:?}",
        files.open()
    );
}

/// Checks that every reader refuses the log and that verify names `at`: file and offset.
fn refused(files: &Files, at: (u32, usize), what: &str) {
    for (strict, threads) in [(false, 1), (false, 3), (true, 2)] {
        let report = report(files, strict, false, threads);
        assert!(
            !report.ok,
            "{what}: verifies, strict {strict}, {threads} threads"
        );
        let found = &report.problems[0];
        let found = (found.file.clone(), usize::try_from(found.offset).unwrap());
        assert_eq!(
            found,
            (segment::file_name(at.0), at.1),
            "{what}, {threads}: {:?}",
            report.problems
        );
    }
    not_opened(files, what);
}

fn not_opened(files: &Files, what: &str) {
    assert!(!matches!(files.open(), Opened::Clean(_)), "{what}: opens");
}

fn offset_of(bytes: &[u8], number: usize) -> usize {
    lines_of(bytes)
        .iter()
        .take(number)
        .map(|line| line.len() + 1)
        .sum()
}

/// Returns lines to damage: the first, those around the beginnings of pieces, a seal, and some near
/// the end.
fn places(bytes: &[u8]) -> Vec<usize> {
    let lines = lines_of(bytes);
    let mut places = vec![1, 2, lines.len() / 2, lines.len() - 2, lines.len() - 1];
    for piece in 1..bytes.len().div_ceil(PIECE_BYTES) {
        let first = (0..lines.len()).find(|n| offset_of(bytes, *n) >= piece * PIECE_BYTES);
        places.extend(
            first
                .into_iter()
                .flat_map(|first| [first - 1, first, first + 1]),
        );
    }
    places.retain(|n| *n < lines.len());
    places.sort_unstable();
    places.dedup();
    places
}

#[test]
fn a_line_that_states_another_place() {
    let files = long();
    sound(&files, "nothing wrong");
    let bytes = files.segment(1).to_vec();
    let lines = lines_of(&bytes);
    let places = places(&bytes);
    assert!(places.len() >= 10, "{places:?}");
    // From there on the lines are consistent with each other: only the first of them does not
    // continue the log.
    type Lie = (&'static str, bool, fn(&mut Says));
    let lies: [Lie; 9] = [
        ("a number too high", false, |says| says.seq += 1),
        ("a number too low", false, |says| says.seq -= 1),
        ("a number left out", true, |says| {
            (says.seq, says.size) = (says.seq + 1, says.size + 1)
        }),
        ("numbers doubled", true, |says| says.seq -= 1),
        ("a batch too high", false, |says| says.batch += 1),
        ("a batch too low", false, |says| {
            says.batch = says.batch.wrapping_sub(1)
        }),
        ("a batch left out", true, |says| says.batch += 1),
        ("another line before", false, |says| {
            says.prev = leaf_hash(b"another")
        }),
        ("no line before", false, |says| says.prev = Hash::ZERO),
    ];
    for place in places {
        for (what, goes_on, lie) in &lies {
            let mut scribe = Scribe::new(&files.signer());
            scribe.copy(&lines, &|number, says| {
                if number == place || (*goes_on && number > place) {
                    lie(says);
                }
            });
            let forged = files.with_segment(1, scribe.bytes);
            let what = format!("line {place}: {what}");
            let at = offset_of(forged.segment(1), place);
            refused(&forged, (1, at), &what);
            let by_links = report(&forged, false, true, 2);
            assert!(
                !by_links.ok && by_links.problems[0].offset == at as u64,
                "{what}: by links"
            );
            assert_eq!(by_links.lines, place as u64, "{what}");
        }
    }
}

#[test]
fn a_seal_over_other_lines_than_those_before_it() {
    let files = long();
    let lines = lines_of(files.segment(1));
    let seals: Vec<usize> = (0..lines.len())
        .filter(|n| Scribe::parts(&lines[*n]).0 == "seal")
        .collect();
    type Lie = (&'static str, fn(&mut Says));
    let lies: [Lie; 5] = [
        ("a size too high", |says| says.size += 1),
        ("a size too low", |says| says.size -= 1),
        ("no size", |says| says.size = 0),
        ("another root", |says| says.root = leaf_hash(b"another")),
        ("the root of no lines", |says| {
            says.root = Frontier::new().root()
        }),
    ];
    for place in [seals[0], seals[5], seals[9], seals[seals.len() - 1]] {
        for (what, lie) in &lies {
            let mut scribe = Scribe::new(&files.signer());
            scribe.copy(&lines, &|number, says| {
                if number == place {
                    lie(says);
                }
            });
            let forged = files.with_segment(1, scribe.bytes);
            let at = offset_of(forged.segment(1), place);
            refused(&forged, (1, at), &format!("seal {place}: {what}"));
        }
    }
}

#[test]
fn a_seal_that_is_spelt_otherwise() {
    let files = long();
    let lines = lines_of(files.segment(1));
    let (last, before) = lines.split_last().unwrap();
    type Spell = (&'static str, fn(&str) -> String);
    let spellings: [Spell; 9] = [
        ("white space", |text| {
            text.replace("\"size\":", "\"size\": ")
        }),
        ("white space within the end", |text| {
            text.replace("\"}", "\" }")
        }),
        ("a root in capitals", |text| {
            let (start, rest) = text.split_once("\"root\":\"").unwrap();
            let (root, rest) = rest.split_at(64);
            assert_ne!(root, root.to_uppercase());
            format!("{start}\"root\":\"{}{rest}", root.to_uppercase())
        }),
        ("an escape", |text| {
            text.replace("\"root\":", "\"r\\u006fot\":")
        }),
        ("a member more", |text| {
            text.replace("\"}", "\",\"also\":1}")
        }),
        ("a member twice", |text| {
            text.replace("\"root\":", "\"size\":1,\"root\":")
        }),
        ("another order", |text| {
            let (start, rest) = text.split_once("\"size\":").unwrap();
            let (size, rest) = rest.split_once(',').unwrap();
            format!(
                "{start}{},\"size\":{size}}}",
                rest.strip_suffix('}').unwrap()
            )
        }),
        ("a signature without its padding", |text| {
            text.replace("==\"}", "\"}")
        }),
        ("something behind it", |text| format!("{text}}}")),
    ];
    for (what, spell) in spellings {
        let mut scribe = Scribe::new(&files.signer());
        scribe.copy(before, &|_, _| {});
        let text = String::from_utf8(last.clone()).unwrap();
        let spelt = spell(&text);
        assert_ne!(spelt, text, "{what}");
        scribe.raw(&spelt);
        let at = scribe.at;
        // More lines follow, so that the batch cannot be taken for a torn one.
        scribe.batch += 1;
        scribe.add("stop", &stop(10));
        scribe.seal();
        let forged = files.with_segment(1, scribe.bytes);
        refused(&forged, (1, at), what);
        assert!(
            matches!(forged.open(), Opened::Corrupt(_)),
            "{what}: {:?}",
            forged.open()
        );
    }
}

/// The limit is the length of a batch with its seal, for every reader.
#[test]
fn a_batch_of_the_longest_length_and_one_byte_more() {
    let (_place, files, _) = small();
    let most = usize::try_from(BATCH_BYTES_MAX).unwrap();
    for over in [0, 1] {
        let mut scribe = Scribe::new(&files.signer());
        scribe.copy(&lines_of(files.segment(1)), &|_, _| {});
        let begin = scribe.bytes.len();
        while most - (scribe.bytes.len() - begin) > 120_000 {
            scribe.add("stop", &stop(60_000));
        }
        let seal_bytes = {
            let mut ahead = Scribe {
                bytes: Vec::new(),
                tree: scribe.tree.clone(),
                ..Scribe::new(&files.signer())
            };
            ahead.batch = scribe.batch;
            (0..2).for_each(|_| ahead.add("stop", &stop(1)));
            ahead.seal();
            ahead.bytes.len() - ahead.at
        };
        let left = most + over - (scribe.bytes.len() - begin) - seal_bytes;
        let empty = Scribe::start(&scribe.truth(), "stop").len() + stop(0).len();
        let (one, other) = (left / 2, left - left / 2);
        scribe.add("stop", &stop(one - empty));
        scribe.add("stop", &stop(other - empty));
        scribe.seal();
        assert_eq!(
            scribe.bytes.len() - begin,
            most + over,
            "the forger's own tools"
        );
        let forged = files.with_segment(1, scribe.bytes).without_checkpoint();
        let (report, opened) = (report(&forged, false, false, 3), forged.open());
        if over == 0 {
            assert!(report.ok, "{:?}", report.problems);
            assert!(matches!(opened, Opened::Clean(_)), "{opened:?}");
            continue;
        }
        assert!(
            !report.ok && report.problems[0].offset == begin as u64,
            "{over}: {:?}",
            report.problems
        );
        assert!(matches!(opened, Opened::Corrupt(_)), "{over}: {opened:?}");
    }
}

/// What every reader checks in every line, and what is not checked with `--fast`.
#[test]
fn lines_that_are_not_written_as_lines_are() {
    let (_place, files, _) = small();
    let log = |text: &dyn Fn(String) -> String| {
        let mut scribe = Scribe::new(&files.signer());
        scribe.copy(&lines_of(files.segment(1)), &|_, _| {});
        // The lines are long, so that pieces are longer than a line may be.
        (0..10).for_each(|_| scribe.add("stop", &stop(60_000)));
        scribe.seal();
        let line = format!(
            "{}{}",
            Scribe::start(&scribe.truth(), "stop"),
            &stop(10)[1..]
        );
        scribe.raw(&text(line));
        let at = scribe.at;
        scribe.seal();
        scribe.add("stop", &stop(10));
        scribe.seal();
        (files.with_segment(1, scribe.bytes).without_checkpoint(), at)
    };
    sound(&log(&|line| line).0, "as it should be");
    let wide = |length: usize| {
        move |line: String| line.replacen("nnnnnnnnnn", &"n".repeat(length - line.len() + 10), 1)
    };
    sound(&log(&wide(65_535)).0, "as long as can be");
    type Edit = (&'static str, fn(String) -> String);
    let edits: [Edit; 4] = [
        ("no end", |line| line.strip_suffix('}').unwrap().to_owned()),
        ("white space behind it", |line| format!("{line} ")),
        ("white space before it", |line| format!(" {line}")),
        ("no kind", |line| line.replacen("\"stop\"", "\"\"", 1)),
    ];
    for (what, edit) in edits {
        let (forged, at) = log(&edit);
        refused(&forged, (1, at), what);
    }
    let (forged, at) = log(&wide(65_536));
    refused(&forged, (1, at), "a byte too long");
    // Valid JSON in another spelling, and invalid JSON: only the holder of the seal key can have
    // such lines sealed.
    let edits: [Edit; 3] = [
        ("white space", |line| {
            line.replacen("\"note\":", "\"note\": ", 1)
        }),
        ("another member", |line| {
            line.replacen("\"note\":", "\"also\":1,\"note\":", 1)
        }),
        ("no JSON", |line| line.replacen("\"note\":", "\"note\"", 1)),
    ];
    for (what, edit) in edits {
        let (forged, at) = log(&edit);
        for threads in [1, 3] {
            assert!(report(&forged, false, false, threads).ok, "{what}");
            let strictly = report(&forged, true, false, threads);
            assert!(
                !strictly.ok && strictly.problems[0].offset == at as u64,
                "{what}: {:?}",
                strictly.problems
            );
        }
    }
}

fn rotation_order() -> Order {
    let timestamp = Time::parse("2026-03-02T12:00:00Z").unwrap();
    Order {
        timestamp,
        by: Principal::parse("owner").unwrap(),
        reason: "yearly".to_owned(),
    }
}

fn new_keys() -> LogKeys {
    LogKeys {
        log_seed: [21; 32],
        seal_seed: [22; 32],
    }
}

/// The first file of a log, and what is to be written after it.
struct Two {
    files: Files,
    new: LogSigner,
    scribe: Scribe,
}

impl Two {
    fn new() -> Two {
        let (_place, files, _) = small();
        let files = files.without_checkpoint();
        let new = layout::log_signer(ORIGIN, &new_keys()).unwrap();
        let mut scribe = Scribe::new(&files.signer());
        scribe.copy(&lines_of(files.segment(1)), &|_, _| {});
        scribe.bytes.clear();
        Two { files, new, scribe }
    }

    /// Returns the body of the second file's first line.
    fn told(&self) -> String {
        let first = self.files.segment(1);
        let (length, lines) = (first.len(), lines_of(first).len());
        let head = leaf_hash(lines_of(first).last().unwrap());
        format!(
            "{{\"previous\":{{\"file\":\"log-00000001.jsonl\",\"length\":{length},\"lines\":{lines},\"head\":\"{head}\"}},\"rest\":null}}"
        )
    }

    fn segment(mut self) -> Two {
        self.scribe.add("segment", &self.told());
        self
    }

    fn rotation(&self) -> String {
        let Says { seq, prev, .. } = self.scribe.truth();
        let rotation = spoolgate_ledger::rotation::sign(
            &rotation_order(),
            &self.files.signer(),
            &self.new,
            seq,
            &prev,
        );
        serde_json::to_string(&rotation).unwrap()
    }

    /// Adds a correct rotate line; what follows is sealed with the new key.
    fn rotate(mut self) -> Two {
        self.scribe.add("rotate", &self.rotation());
        self.scribe.seal_key = self.new.seal.clone();
        self
    }

    fn add(mut self, kind: &str, body: &str) -> Two {
        self.scribe.add(kind, body);
        self
    }

    fn seal(self) -> Two {
        self.add("seal", "{}")
    }

    fn end(self, keys: LogKeys) -> Files {
        Files {
            keys,
            ..self.files.with_segment(2, self.scribe.bytes)
        }
    }
}

#[test]
fn a_segment_end_that_is_stated_wrong() {
    let base = Two::new();
    let first = base.files.segment(1).to_vec();
    let ends = base.files.seal_ends(1);
    let (length, lines) = (first.len(), lines_of(&first).len());
    let earlier = ends[ends.len() - 2];
    let head = leaf_hash(lines_of(&first).last().unwrap()).to_string();
    let (number, size) = (format!("\"lines\":{lines}"), format!("\"length\":{length}"));
    let changes: Vec<(&str, String, String)> = vec![
        (
            "another file",
            "log-00000001".to_owned(),
            "log-00000002".to_owned(),
        ),
        (
            "a byte less",
            size.clone(),
            format!("\"length\":{}", length - 1),
        ),
        (
            "a byte more",
            size.clone(),
            format!("\"length\":{}", length + 1),
        ),
        (
            "the seal before the last",
            size,
            format!("\"length\":{earlier}"),
        ),
        (
            "a line less",
            number.clone(),
            format!("\"lines\":{}", lines - 1),
        ),
        ("a line more", number, format!("\"lines\":{}", lines + 1)),
        (
            "another head",
            head.clone(),
            leaf_hash(b"another").to_string(),
        ),
        ("a head in capitals", head.clone(), head.to_uppercase()),
        ("a rest that is not there", "\"rest\":null".to_owned(), {
            format!(
                "\"rest\":{{\"offset\":{length},\"length\":0,\"sha256\":\"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\"}}"
            )
        }),
    ];
    for (what, from, to) in changes {
        let mut two = Two::new();
        let told = two.told().replace(&from, &to);
        assert_ne!(told, two.told(), "{what}");
        two.scribe.add("segment", &told);
        let forged = two.seal().end(small().1.keys);
        for (strict, threads) in [(false, 1), (false, 3), (true, 1)] {
            let report = report(&forged, strict, false, threads);
            assert!(
                !report.ok && report.problems[0].file == segment::file_name(1),
                "{what}: {report:?}"
            );
        }
        not_opened(&forged, what);
    }
    // An unsealed batch before a segment that states no rest, or another one.
    let rest = b"{\"prev\":";
    let told = |offset: usize, length: usize, sha256: &str| {
        format!("\"rest\":{{\"offset\":{offset},\"length\":{length},\"sha256\":\"{sha256}\"}}")
    };
    let sum = spoolgate_wire::signing::sha256_hex(rest);
    for (what, rest_told, good) in [
        ("the rest", told(length, rest.len(), &sum), true),
        ("no rest", "\"rest\":null".to_owned(), false),
        ("from elsewhere", told(length - 1, rest.len(), &sum), false),
        ("longer", told(length, rest.len() + 1, &sum), false),
        ("shorter", told(length, rest.len() - 1, &sum), false),
        (
            "other bytes",
            told(length, rest.len(), &"0".repeat(64)),
            false,
        ),
    ] {
        let mut two = Two::new();
        let body = two.told().replace("\"rest\":null", &rest_told);
        two.scribe.add("segment", &body);
        let mut forged = two.seal().end(small().1.keys);
        forged = forged.with_segment(1, [first.as_slice(), rest].concat());
        if good {
            sound(&forged, what);
            continue;
        }
        for threads in [1, 3] {
            assert!(
                !report(&forged, false, false, threads).ok,
                "{what}: verifies"
            );
        }
        not_opened(&forged, what);
    }
}

/// A file in the middle, and one at the end, without any seal.
#[test]
fn a_file_that_nothing_is_sealed_in() {
    let forged = Two::new()
        .segment()
        .add("stop", &stop(1))
        .end(small().1.keys);
    let last = forged.segment(2).to_vec();
    for threads in [1, 3] {
        assert!(!report(&forged, false, false, threads).ok, "the last one");
        assert!(report(&forged, false, true, threads).ok, "its links hold");
        assert!(
            !report(&forged.with_segment(2, Vec::new()), false, false, threads).ok,
            "an empty one"
        );
    }
    assert!(!matches!(forged.open(), Opened::Clean(_)));
    let behind = Two::new().segment().end(small().1.keys).segment(2).to_vec();
    assert!(
        !report(
            &forged.with_segment(3, behind).with_segment(2, last),
            false,
            false,
            1
        )
        .ok,
        "in the middle"
    );
}
