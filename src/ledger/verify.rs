//! `audit verify`: everything a ledger folder says of itself, checked from the first byte, in parallel.
//! Needs no keyring and no state: an auditor holds the folder, and at best a head or key noted earlier.

use std::io;
use std::path::Path;

use ed25519_dalek::VerifyingKey;
use sha2::{Digest, Sha256};

use super::LedgerError;
use super::line;
use super::note::{self, Checkpoint, VerifierKey};
use super::pieces::{self, Keys, Piece, Place, Seen, SeenSealed};
use super::recover::segments;
use super::redacted::{Redactions, Sealed};
use super::scan::{BATCH_BYTES_MAX, LineReader, NextLine};
use super::segment::{self, Segment};
use super::tree::{Frontier, Hash};
use crate::gate::record::Genesis;
use crate::host::disk::{self, Disk, LogFile, ReadFile};
use crate::wire::signing::{hex, unhex};

/// What to check beyond the log itself.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Parse every line, write it again and demand the same bytes.
    pub strict: bool,
    /// The verifier key the log must have, noted earlier.
    pub key: Option<VerifierKey>,
    /// Checkpoints noted earlier: text and where it came from.
    pub heads: Vec<(String, String)>,
    /// How many threads look at lines; the outcome is the same with any number. None counts as one.
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
    /// Sealed fields and what is known of their disclosures.
    pub sealed: Sealed,
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
        let path = dir.join(segment::file_name(*number));
        let fail = |error: io::Error| format!("`{}`: {error}", path.display());
        let file = segment::open(disk, dir, *number).map_err(fail)?;
        let length = file.len().map_err(fail)?;
        let header = match numbers.get(index + 1) {
            Some(next) => match read_header(disk, dir, *next) {
                Ok(header) => Some(header),
                Err(what) => {
                    walk.problem(*next, 0, what);
                    return Ok(walk.finish(newest, disk, dir));
                }
            },
            None => None,
        };
        if !walk.segment(*number, file.as_ref(), length, header.as_ref()).map_err(fail)? {
            break;
        }
        progress(walk.bytes);
    }
    Ok(walk.finish(newest, disk, dir))
}

fn read_header(disk: &dyn Disk, dir: &Path, number: u32) -> Result<Segment, String> {
    let path = dir.join(segment::file_name(number));
    let fail = |error: std::io::Error| format!("`{}`: {error}", path.display());
    let file = segment::open(disk, dir, number).map_err(fail)?;
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
    redactions: Redactions,
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
            redactions: Redactions::default(),
            problems: Vec::new(),
        }
    }

    fn problem(&mut self, number: u32, offset: u64, what: String) {
        self.problems.push(Problem { file: segment::file_name(number), offset, what });
    }

    /// Verifies one segment of `file_bytes`; whether to go on.
    fn segment(
        &mut self,
        number: u32,
        file: &dyn LogFile,
        file_bytes: u64,
        next: Option<&Segment>,
    ) -> io::Result<bool> {
        let keys = match self.keys.take() {
            Some(keys) => keys,
            None => match read_keys(file, file_bytes, self.options)? {
                Ok(keys) => keys,
                Err(what) => {
                    self.problem(number, 0, what);
                    return Ok(false);
                }
            },
        };
        let valid_bytes = next.map_or(file_bytes, |next| next.previous.length.min(file_bytes));
        let lines_before = self.seq;
        let mut joined = Joined::default();
        let looked = pieces::look_at_all(file, valid_bytes, &keys, self.options, &mut |piece| {
            self.join(&mut joined, piece?)
        });
        self.keys = Some(keys);
        match looked.and_then(|()| joined.end(number)) {
            Ok(()) => {}
            Err(Stop::Bad(offset, what)) => {
                self.problem(number, offset, what);
                return Ok(false);
            }
            Err(Stop::Disk(error)) => return Err(error),
        }
        let sealed_to = joined.sealed_to;
        self.segments += 1;
        self.bytes = self.bytes.saturating_add(sealed_to);
        match next {
            Some(next) => {
                let rest = (valid_bytes, file_bytes.saturating_sub(valid_bytes));
                let lines = self.seq - lines_before;
                self.check_end(number, next, sealed_to, lines, file, rest)
            }
            None if sealed_to != file_bytes => {
                let what = format!(
                    "{} bytes stand behind the last valid seal",
                    file_bytes.saturating_sub(sealed_to)
                );
                self.problem(number, sealed_to, what);
                Ok(false)
            }
            None => Ok(true),
        }
    }

    /// Joins what was found in a piece to what stands before it.
    fn join(&mut self, joined: &mut Joined, piece: Piece) -> Result<(), Stop> {
        for seen in &piece.lines {
            self.line(seen).map_err(|what| Stop::Bad(seen.offset, what))?;
            let end = seen.offset.saturating_add(seen.length).saturating_add(1);
            joined.last_offset = seen.offset;
            if seen.seal.is_some() {
                joined.sealed_to = end;
            } else if end.saturating_sub(joined.sealed_to) > BATCH_BYTES_MAX {
                let what = format!("a batch is longer than {BATCH_BYTES_MAX} bytes");
                return Err(Stop::Bad(joined.sealed_to, what));
            }
        }
        match piece.bad {
            Some((offset, what)) => Err(Stop::Bad(offset, what)),
            None => Ok(()),
        }
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
            if seal.size != seen.seq || seal.root != root {
                return Err(format!(
                    "the seal at line {} has another size or root than the lines before it",
                    seen.seq
                ));
            }
            if !seal.verifies {
                return Err(format!("the signature of the seal at line {} does not verify", seen.seq));
            }
            self.seals.push((seal.size, root));
            self.root = root;
            self.batch += 1;
        }
        match seen.sealed.as_deref() {
            Some(SeenSealed::Committed(fields)) => self.redactions.commit(seen.seq, fields),
            Some(SeenSealed::Redacted(fields)) => self.redactions.redact(fields),
            None => {}
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
        file: &dyn LogFile,
        (rest_from, rest_bytes): (u64, u64),
    ) -> io::Result<bool> {
        let told = &next.previous;
        let rest_told = match &next.rest {
            None => rest_bytes == 0,
            Some(torn) => {
                self.torn += 1;
                torn.offset == sealed_to
                    && rest_from == sealed_to
                    && torn.length == rest_bytes
                    && torn.length <= BATCH_BYTES_MAX
                    && torn.sha256 == sha256_of(file, rest_from, rest_bytes)?
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
        Ok(agrees)
    }

    fn finish(mut self, newest: std::io::Result<ReadFile>, disk: &dyn Disk, dir: &Path) -> Report {
        let (sealed, missing) = self.redactions.check(disk, dir);
        self.problems.extend(missing);
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
            sealed,
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

/// How far a segment was joined.
#[derive(Default)]
struct Joined {
    /// Behind the last seal.
    sealed_to: u64,
    /// Where the last line begins.
    last_offset: u64,
}

impl Joined {
    /// Whether a segment may end there.
    fn end(&self, number: u32) -> Result<(), Stop> {
        if self.sealed_to == 0 {
            return Err(Stop::Bad(0, format!("`{}` holds no sealed batch", segment::file_name(number))));
        }
        if self.sealed_to <= self.last_offset {
            return Err(Stop::Bad(self.sealed_to, "the lines from here on are not sealed".to_owned()));
        }
        Ok(())
    }
}

/// Why joining ended early.
enum Stop {
    /// What stands at this offset.
    Bad(u64, String),
    /// The disk.
    Disk(io::Error),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Stop {
        Stop::Disk(error)
    }
}

/// SHA-256 of a part of a file, hex.
fn sha256_of(file: &dyn LogFile, from: u64, length: u64) -> io::Result<String> {
    let length = usize::try_from(length).map_err(io::Error::other)?;
    Ok(hex(&Sha256::digest(disk::read_exact_at(file, from, length)?)))
}

/// The first line names the keys; the error within is what is wrong with it.
fn read_keys(file: &dyn LogFile, file_bytes: u64, options: &Options) -> io::Result<Result<Keys, String>> {
    let length = pieces::length_of_line(file, 0, file_bytes)?.unwrap_or(file_bytes);
    if let Some(what) = pieces::too_long(length) {
        return Ok(Err(what));
    }
    let first = disk::read_exact_at(file, 0, usize::try_from(length).map_err(io::Error::other)?)?;
    Ok(keys_of(&first, options))
}

fn keys_of(first: &[u8], options: &Options) -> Result<Keys, String> {
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
