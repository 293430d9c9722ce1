//! `audit verify`: everything a ledger folder says of itself, checked from the first byte, in parallel.
//! Needs no keyring and no state: an auditor holds the folder, and at best a head or key noted earlier.

use std::path::Path;
use std::thread;

use ed25519_dalek::VerifyingKey;

use super::LedgerError;
use super::line::{self, LINE_BYTES_MAX};
use super::note::{self, Checkpoint, VerifierKey};
use super::recover::segments;
use super::scan::{BATCH_BYTES_MAX, LineReader, NextLine};
use super::seal::Seal;
use super::segment::{self, Segment};
use super::tree::{Frontier, Hash, leaf_hash};
use crate::gate::record::{Genesis, Record};
use crate::host::disk::{self, Access, Disk, ReadFile};
use crate::wire::signing::{sha256_hex, unhex};

/// What to check beyond the log itself.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Parse every line, write it again and demand the same bytes.
    pub strict: bool,
    /// The verifier key the log must have, noted earlier.
    pub key: Option<VerifierKey>,
    /// Checkpoints noted earlier: text and where it came from.
    pub heads: Vec<(String, String)>,
    /// How many threads.
    pub threads: usize,
}

/// What kind of proof was reached, in the words of the table in the README.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reached {
    /// Every line names the one before it.
    Chain,
    /// And every batch is sealed under the log's key.
    Seals,
    /// And a head remembered outside the log lies on it.
    RememberedHead,
}

/// The outcome.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Report {
    /// Whether nothing is wrong.
    pub ok: bool,
    /// What was proved.
    pub reached: Reached,
    /// The log's name.
    pub origin: String,
    /// The log's verifier key.
    pub log_key: String,
    /// Segments.
    pub segments: u32,
    /// Lines that verify.
    pub lines: u64,
    /// Sealed batches.
    pub batches: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Root in the last seal, hex.
    pub root: String,
    /// Leaf hash of the last line, hex.
    pub head: String,
    /// Torn batches that were frozen and are accounted for.
    pub torn: u64,
    /// Heads noted elsewhere that lie on the log.
    pub heads: Vec<String>,
    /// The checkpoint beside the log, if it lies on it. It proves nothing of the tail: whoever cuts that can
    /// put an older one there.
    pub checkpoint: Option<String>,
    /// What is wrong, first first.
    pub problems: Vec<Problem>,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Problem {
    /// The file.
    pub file: String,
    /// Where in it, bytes.
    pub offset: u64,
    /// What.
    pub what: String,
}

/// Name of the newest checkpoint in the log's folder.
const CHECKPOINT_NAME: &str = "checkpoint";

/// One line as a chunk found it.
struct Seen {
    offset: u64,
    length: u64,
    leaf: Hash,
    prev: Hash,
    seq: u64,
    batch: u64,
    /// Where this kind of line may stand only.
    place: Place,
    seal: Option<Seal>,
    seal_verifies: bool,
}

/// Where a line may stand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// First of the log: the genesis line.
    First,
    /// First of every later file: the segment line.
    FirstOfFile,
    /// Anywhere else.
    Inside,
}

/// Lines of a part of a segment, up to the first that is none.
struct Chunk {
    lines: Vec<Seen>,
    bad: Option<(u64, String)>,
}

struct Keys {
    origin: String,
    seal: VerifyingKey,
    log: VerifierKey,
}

/// Verifies the log in `dir`. `progress` hears how many bytes are done.
///
/// # Errors
/// A message where the log cannot be read at all; everything else is in the report.
pub fn verify(
    disk: &dyn Disk,
    dir: &Path,
    options: &Options,
    progress: &dyn Fn(u64),
) -> Result<Report, String> {
    // Read before the log: beside a running gate the log may grow meanwhile, and must hold this head.
    let newest = disk.read(&dir.join(CHECKPOINT_NAME), note::NOTE_BYTES_MAX);
    let numbers = segments(disk, dir).map_err(|error| match error {
        LedgerError::Corrupt(corruption) => format!("`{}`: {}", corruption.file, corruption.why),
        other => other.to_string(),
    })?;
    let mut walk = Walk::new(options);
    for (index, number) in numbers.iter().enumerate() {
        let bytes = read_segment(disk, dir, *number)?;
        let header = match numbers.get(index + 1) {
            Some(next) => match read_header(disk, dir, *next) {
                Ok(header) => Some(header),
                Err(what) => {
                    walk.problem(*next, 0, what);
                    return Ok(walk.finish(newest));
                }
            },
            None => None,
        };
        if !walk.segment(*number, &bytes, header.as_ref()) {
            break;
        }
        progress(walk.bytes);
    }
    Ok(walk.finish(newest))
}

fn read_segment(disk: &dyn Disk, dir: &Path, number: u32) -> Result<Vec<u8>, String> {
    let path = dir.join(segment::file_name(number));
    let fail = |error: std::io::Error| format!("`{}`: {error}", path.display());
    let file = disk.open_log(&path, Access::Read).map_err(fail)?;
    let length = usize::try_from(file.len().map_err(fail)?).map_err(|error| error.to_string())?;
    disk::read_exact_at(file.as_ref(), 0, length).map_err(fail)
}

fn read_header(disk: &dyn Disk, dir: &Path, number: u32) -> Result<Segment, String> {
    let path = dir.join(segment::file_name(number));
    let fail = |error: std::io::Error| format!("`{}`: {error}", path.display());
    let file = disk.open_log(&path, Access::Read).map_err(fail)?;
    let bytes = match LineReader::new(file.as_ref(), 0).next_line().map_err(fail)? {
        NextLine::Line(_, bytes) => bytes,
        NextLine::End(_) | NextLine::TooLong(_) => return Err("the first line is not whole".to_owned()),
    };
    let line = line::parse(&bytes).map_err(|error| error.to_string())?;
    if line.kind != "segment" {
        return Err("the file does not begin with a segment line".to_owned());
    }
    serde_json::from_str(&line.body()).map_err(|error| format!("segment line: {error}"))
}

struct Walk<'a> {
    options: &'a Options,
    keys: Option<Keys>,
    frontier: Frontier,
    head: Hash,
    root: Hash,
    seq: u64,
    batch: u64,
    bytes: u64,
    segments: u32,
    torn: u64,
    /// Size and root of every seal: what checkpoints can name.
    seals: Vec<(u64, Hash)>,
    problems: Vec<Problem>,
}

impl<'a> Walk<'a> {
    fn new(options: &'a Options) -> Walk<'a> {
        Walk {
            options,
            keys: None,
            frontier: Frontier::default(),
            head: Hash::ZERO,
            root: Hash::ZERO,
            seq: 0,
            batch: 0,
            bytes: 0,
            segments: 0,
            torn: 0,
            seals: Vec::new(),
            problems: Vec::new(),
        }
    }

    fn problem(&mut self, number: u32, offset: u64, what: String) {
        self.problems.push(Problem { file: segment::file_name(number), offset, what });
    }

    /// Verifies one segment; whether to go on.
    fn segment(&mut self, number: u32, bytes: &[u8], next: Option<&Segment>) -> bool {
        if self.keys.is_none() {
            match read_keys(bytes, self.options) {
                Ok(keys) => self.keys = Some(keys),
                Err(what) => {
                    self.problem(number, 0, what);
                    return false;
                }
            }
        }
        let file_bytes = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let valid_bytes = next.map_or(file_bytes, |next| next.previous.length.min(file_bytes));
        let cut = usize::try_from(valid_bytes).unwrap_or(usize::MAX);
        let (valid, rest) = bytes.split_at_checked(cut).unwrap_or((bytes, &[]));
        let Some(keys) = &self.keys else { return false };
        let chunks = scan_chunks(valid, keys, self.options);
        let lines_before = self.seq;
        let sealed_to = match self.join(number, chunks) {
            Ok(sealed_to) => sealed_to,
            Err((offset, what)) => {
                self.problem(number, offset, what);
                return false;
            }
        };
        self.segments += 1;
        self.bytes = self.bytes.saturating_add(sealed_to);
        match next {
            Some(next) => self.check_end(number, next, sealed_to, self.seq - lines_before, rest, file_bytes),
            None if sealed_to != file_bytes => {
                let what = format!(
                    "{} bytes stand behind the last valid seal",
                    file_bytes.saturating_sub(sealed_to)
                );
                self.problem(number, sealed_to, what);
                false
            }
            None => true,
        }
    }

    /// Joins what the chunks found; returns the offset behind the last seal.
    fn join(&mut self, number: u32, chunks: Vec<Chunk>) -> Result<u64, (u64, String)> {
        let mut sealed_to = 0;
        let mut batch_from = 0;
        let mut last_offset = 0;
        for chunk in chunks {
            for seen in chunk.lines {
                self.line(&seen).map_err(|what| (seen.offset, what))?;
                let end = seen.offset.saturating_add(seen.length).saturating_add(1);
                last_offset = seen.offset;
                if seen.seal.is_some() {
                    sealed_to = end;
                    batch_from = end;
                } else if end.saturating_sub(batch_from) > BATCH_BYTES_MAX {
                    return Err((batch_from, format!("a batch is longer than {BATCH_BYTES_MAX} bytes")));
                }
            }
            if let Some((offset, what)) = chunk.bad {
                return Err((offset, what));
            }
        }
        if sealed_to == 0 {
            return Err((0, format!("`{}` holds no sealed batch", segment::file_name(number))));
        }
        if batch_from <= last_offset {
            return Err((batch_from, "the lines from here on are not sealed".to_owned()));
        }
        Ok(sealed_to)
    }

    fn line(&mut self, seen: &Seen) -> Result<(), String> {
        if seen.seq != self.seq || seen.batch != self.batch {
            return Err(format!(
                "line {} of batch {} where line {} of batch {} should stand",
                seen.seq, seen.batch, self.seq, self.batch
            ));
        }
        if seen.prev != self.head {
            return Err(format!("line {} does not name the line before it", seen.seq));
        }
        let expected = match (seen.seq, seen.offset) {
            (0, _) => Place::First,
            (_, 0) => Place::FirstOfFile,
            _ => Place::Inside,
        };
        if seen.place != expected {
            return Err(format!("line {} is of a kind that does not stand there", seen.seq));
        }
        if let Some(seal) = &seen.seal {
            let root = self.frontier.root();
            if seal.size != seen.seq || seal.root != root.to_string() {
                return Err(format!(
                    "the seal at line {} has another size or root than the lines before it",
                    seen.seq
                ));
            }
            if !seen.seal_verifies {
                return Err(format!("the signature of the seal at line {} does not verify", seen.seq));
            }
            self.seals.push((seal.size, root));
            self.root = root;
            self.batch += 1;
        }
        self.frontier.push(seen.leaf);
        self.head = seen.leaf;
        self.seq += 1;
        Ok(())
    }

    /// A segment's end must be what the next one tells of it.
    fn check_end(
        &mut self,
        number: u32,
        next: &Segment,
        sealed_to: u64,
        lines: u64,
        rest: &[u8],
        file_bytes: u64,
    ) -> bool {
        let told = &next.previous;
        let rest_told = match &next.rest {
            None => rest.is_empty(),
            Some(torn) => {
                self.torn += 1;
                torn.offset == sealed_to
                    && torn.length == file_bytes.saturating_sub(sealed_to)
                    && torn.sha256 == sha256_hex(rest)
                    && torn.length <= BATCH_BYTES_MAX
            }
        };
        let agrees = told.file == segment::file_name(number)
            && told.length == sealed_to
            && told.lines == lines
            && told.head == self.head.to_string()
            && rest_told;
        if !agrees {
            self.problem(number, sealed_to, "its end is not what the next segment tells of it".to_owned());
        }
        agrees
    }

    fn finish(mut self, newest: std::io::Result<ReadFile>) -> Report {
        let mut reached = if self.seals.is_empty() { Reached::Chain } else { Reached::Seals };
        let mut heads = Vec::new();
        let mut checkpoint = None;
        if let Some(keys) = self.keys.take() {
            let shown = |head: &Checkpoint| format!("{} lines, root {}", head.size, head.root);
            for (from, text) in &self.options.heads {
                match self.head_on_log(&keys, text) {
                    Ok(head) => {
                        reached = reached.max(Reached::RememberedHead);
                        heads.push(format!("{from}: {}", shown(&head)));
                    }
                    Err(what) => self.note_head_problem(from, what),
                }
            }
            match newest.map(|file| self.head_on_log(&keys, &String::from_utf8_lossy(&file.bytes))) {
                Ok(Ok(head)) => checkpoint = Some(shown(&head)),
                Ok(Err(what)) => self.note_head_problem(CHECKPOINT_NAME, what),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => self.note_head_problem(CHECKPOINT_NAME, error.to_string()),
            }
            self.keys = Some(keys);
        }
        if self.seals.is_empty() {
            reached = Reached::Chain;
        }
        Report {
            ok: self.problems.is_empty(),
            reached,
            origin: self.keys.as_ref().map(|keys| keys.origin.clone()).unwrap_or_default(),
            log_key: self.keys.as_ref().map(|keys| keys.log.to_string()).unwrap_or_default(),
            segments: self.segments,
            lines: self.seq,
            batches: self.batch,
            bytes: self.bytes,
            root: self.root.to_string(),
            head: self.head.to_string(),
            torn: self.torn,
            heads,
            checkpoint,
            problems: self.problems,
        }
    }

    fn note_head_problem(&mut self, from: &str, what: String) {
        self.problems.push(Problem { file: from.to_owned(), offset: 0, what });
    }

    /// A remembered head is on the log if some seal has its size and root.
    fn head_on_log(&self, keys: &Keys, text: &str) -> Result<Checkpoint, String> {
        let head = note::open_checkpoint(text, &keys.log, &keys.origin)
            .map_err(|error| format!("does not verify under the log's key: {error}"))?;
        match self.seals.binary_search_by_key(&head.size, |(size, _)| *size) {
            Ok(index) if self.seals.get(index).is_some_and(|(_, root)| *root == head.root) => Ok(head),
            Ok(_) => Err(format!("{} lines had root {} then, and have another now", head.size, head.root)),
            Err(_) => Err(format!(
                "it knows {} lines with root {}; no seal of this log is over that many: cut or rewritten",
                head.size, head.root
            )),
        }
    }
}

fn read_keys(bytes: &[u8], options: &Options) -> Result<Keys, String> {
    let first = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = line::parse(first).map_err(|error| error.to_string())?;
    if line.kind != "genesis" {
        return Err("the first line is not a genesis line".to_owned());
    }
    let genesis: Genesis =
        serde_json::from_str(&line.body()).map_err(|error| format!("genesis line: {error}"))?;
    let seal = unhex(&genesis.seal_key)
        .and_then(|bytes| bytes.try_into().ok())
        .and_then(|bytes: [u8; 32]| VerifyingKey::from_bytes(&bytes).ok())
        .ok_or("the genesis line has no seal key")?;
    let log: VerifierKey = genesis.log_key.parse().map_err(|error| format!("genesis line: {error}"))?;
    if let Some(wanted) = options.key.as_ref().filter(|wanted| wanted.to_string() != log.to_string()) {
        return Err(format!("the log's key is {log}, not {wanted}"));
    }
    Ok(Keys { origin: genesis.origin, seal, log })
}

/// Cuts the lines into as many parts as there are threads; each checks its own lines alone, which works
/// because `prev` is stored.
fn scan_chunks(bytes: &[u8], keys: &Keys, options: &Options) -> Vec<Chunk> {
    let threads = options.threads.clamp(1, 64);
    let size = (bytes.len() / threads).max(LINE_BYTES_MAX);
    let mut parts: Vec<(usize, &[u8])> = Vec::new();
    let mut start = 0;
    while start < bytes.len() {
        let rest = bytes.get(start..).unwrap_or_default();
        let from = size.min(rest.len());
        let more = rest.get(from..).and_then(|tail| tail.iter().position(|byte| *byte == b'\n'));
        let length = more.map_or(rest.len(), |at| from + at + 1);
        parts.push((start, rest.get(..length).unwrap_or_default()));
        start += length;
    }
    thread::scope(|scope| {
        let running: Vec<_> = parts
            .into_iter()
            .map(|(offset, part)| scope.spawn(move || scan_chunk(offset, part, keys, options.strict)))
            .collect();
        running
            .into_iter()
            .map(|handle| {
                handle.join().unwrap_or_else(|_| Chunk {
                    lines: Vec::new(),
                    bad: Some((0, "a verifying thread ended early".to_owned())),
                })
            })
            .collect()
    })
}

fn scan_chunk(offset: usize, bytes: &[u8], keys: &Keys, strict: bool) -> Chunk {
    let mut chunk = Chunk { lines: Vec::new(), bad: None };
    let mut at = offset;
    let mut rest = bytes;
    while !rest.is_empty() {
        let here = u64::try_from(at).unwrap_or(u64::MAX);
        let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
            chunk.bad = Some((here, "the file ends inside a line".to_owned()));
            break;
        };
        let line = rest.get(..end).unwrap_or_default();
        match look(here, line, keys, strict) {
            Ok(seen) => chunk.lines.push(seen),
            Err(what) => {
                chunk.bad = Some((here, what));
                break;
            }
        }
        rest = rest.get(end + 1..).unwrap_or_default();
        at += end + 1;
    }
    chunk
}

fn look(offset: u64, bytes: &[u8], keys: &Keys, strict: bool) -> Result<Seen, String> {
    let line = line::parse(bytes).map_err(|error| error.to_string())?;
    let mut seal = None;
    let mut seal_verifies = false;
    if line.kind == "seal" {
        let body = line.body();
        let parsed: Seal =
            serde_json::from_str(&body).map_err(|error| format!("seal at line {}: {error}", line.seq))?;
        if parsed.body() != body {
            return Err(format!("the seal at line {} is not written as seals are", line.seq));
        }
        let root = Hash::from_hex(&parsed.root).ok_or("a seal's root is not a hash")?;
        seal_verifies = parsed.verifies(&keys.seal, &keys.origin, &root, &line.prev);
        seal = Some(parsed);
    } else if strict {
        check_strictly(&line)?;
    }
    Ok(Seen {
        offset,
        length: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
        leaf: leaf_hash(bytes),
        prev: line.prev,
        seq: line.seq,
        batch: line.batch,
        place: match line.kind {
            "genesis" => Place::First,
            "segment" => Place::FirstOfFile,
            _ => Place::Inside,
        },
        seal,
        seal_verifies,
    })
}

/// Parsed and written again, a line has the same bytes: nothing hides in another spelling.
fn check_strictly(line: &line::Line<'_>) -> Result<(), String> {
    let body = line.body();
    let again = match line.kind {
        "segment" => {
            serde_json::from_str::<Segment>(&body).and_then(|segment| serde_json::to_string(&segment))
        }
        kind => {
            let record = Record::parse(kind, &body).map_err(|error| format!("line {}: {error}", line.seq))?;
            Ok(record.map(|record| record.body()).transpose()?.unwrap_or_default())
        }
    };
    match again {
        Ok(again) if again == body => Ok(()),
        Ok(_) => Err(format!("line {} is not written as this kind of line is", line.seq)),
        Err(error) => Err(format!("line {}: {error}", line.seq)),
    }
}
