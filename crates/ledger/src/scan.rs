//! Reads a segment from a known place on, line by line and batch by batch, in bounded memory. The
//! log ends at the last valid seal; [`examine_rest`] classifies what follows it.

use std::io;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::fault::Fault;
use super::line::{self, LINE_BYTES_MAX, Line};
use super::log::{Location, Position};
use super::rotation;
use super::seal::Seal;
use super::segment::Rest;
use super::tree::{Hash, leaf_hash};
use crate::disk::LogFile;
use spoolgate_wire::signing;

/// Longest batch in bytes, including its seal. The writer never exceeds it, so a longer rest cannot
/// be one torn batch.
pub const BATCH_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Size of the first read of a file, and the maximum size of a read. The size grows, so that
/// reading one line or a small log does not need a large buffer.
const CHUNK_BYTES_MIN: usize = 4 * 1024;
const CHUNK_BYTES_MAX: usize = 1024 * 1024;

/// A sealed line and its location.
#[derive(Clone, Debug)]
pub struct SealedLine {
    /// Segment number.
    pub segment: u32,
    /// Offset in the segment's file.
    pub offset: u64,
    /// Number of the line.
    pub seq: u64,
    /// Its kind.
    pub kind: String,
    /// Its body as a JSON object.
    pub body: String,
    /// Its length without the LF.
    pub length: u64,
    /// Its leaf hash.
    pub leaf: Hash,
}

impl SealedLine {
    /// Its location.
    pub fn location(&self) -> Location {
        Location {
            segment: self.segment,
            offset: self.offset,
            length: self.length,
            leaf: self.leaf,
        }
    }
}

/// A line that does not continue the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// Offset in the segment's file.
    pub offset: u64,
    /// What is wrong with it.
    pub why: String,
}

/// Where the valid part of a segment ends.
#[derive(Clone, Debug)]
pub struct SegmentEnd {
    /// The place after the last valid seal.
    pub position: Position,
    /// Size of the file in bytes.
    pub file_bytes: u64,
    /// The first line after that seal that does not continue the log, if there is anything.
    pub bad: Option<BadLine>,
}

/// Reads the lines of a file from an offset on, in chunks.
pub struct LineReader<'a> {
    file: &'a dyn LogFile,
    offset: u64,
    buffer: Vec<u8>,
    start: usize,
    chunk: usize,
}

/// A line, or why there is none.
pub enum NextLine {
    /// Offset and bytes without LF.
    Line(u64, Vec<u8>),
    /// The file ends here, after this number of bytes without an LF.
    End(usize),
    /// More than [`LINE_BYTES_MAX`] bytes without an LF, from this offset.
    TooLong(u64),
}

impl<'a> LineReader<'a> {
    /// Starts reading at `offset`.
    pub fn new(file: &'a dyn LogFile, offset: u64) -> LineReader<'a> {
        LineReader {
            file,
            offset,
            buffer: Vec::new(),
            start: 0,
            chunk: CHUNK_BYTES_MIN,
        }
    }

    fn pending(&self) -> &[u8] {
        self.buffer.get(self.start..).unwrap_or_default()
    }

    /// Returns the next line.
    ///
    /// # Errors
    /// Returns an error if reading fails.
    pub fn next_line(&mut self) -> io::Result<NextLine> {
        let mut searched = 0;
        loop {
            let pending = self.pending();
            let found = pending
                .get(searched..)
                .unwrap_or_default()
                .iter()
                .position(|b| *b == b'\n');
            if let Some(at) = found.map(|at| at + searched) {
                let line = pending.get(..at).unwrap_or_default().to_vec();
                let offset = self.offset;
                self.start += at + 1;
                self.offset += u64::try_from(at + 1).unwrap_or(u64::MAX);
                return Ok(NextLine::Line(offset, line));
            }
            searched = pending.len();
            if searched > LINE_BYTES_MAX {
                return Ok(NextLine::TooLong(self.offset));
            }
            if self.fill()? == 0 {
                return Ok(NextLine::End(searched));
            }
        }
    }

    fn fill(&mut self) -> io::Result<usize> {
        self.buffer.drain(..self.start);
        self.start = 0;
        let held = self.buffer.len();
        let at = self
            .offset
            .saturating_add(u64::try_from(held).unwrap_or(u64::MAX));
        self.buffer.resize(held + self.chunk, 0);
        self.chunk = self.chunk.saturating_mul(2).min(CHUNK_BYTES_MAX);
        let read = loop {
            match self
                .file
                .read_at(at, self.buffer.get_mut(held..).unwrap_or_default())
            {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        self.buffer
            .truncate(held + read.as_ref().copied().unwrap_or(0));
        read
    }
}

/// Scans a segment from `start` to its last valid seal and passes every line of a sealed batch to
/// `visit`. Seals are checked with the keys of `start`, or with the keys that the file's second
/// line hands over to.
///
/// ```
/// use std::path::Path;
///
/// use spoolgate_ledger::rotation::LogIdentity;
/// use spoolgate_ledger::scan::{LineReader, NextLine, scan_segment};
/// use spoolgate_ledger::{Position, folder::Folder, segment};
///
/// let file = segment::open(&Folder::open("testdata/log")?, Path::new(""), 1)?;
/// let NextLine::Line(_, genesis) = LineReader::new(&*file, 0).next_line()? else {
///     return Err("the log is empty".into());
/// };
/// let start = Position::start(LogIdentity::of_first_line(&genesis)?);
/// let mut lines = 0;
/// let end = scan_segment(&*file, &start, &mut |_| { lines += 1; Ok(()) })?;
/// assert_eq!((lines, end.position.batch, end.bad), (11, 5, None));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns an error if reading or `visit` fails.
pub fn scan_segment(
    file: &dyn LogFile,
    start: &Position,
    visit: &mut dyn FnMut(&SealedLine) -> io::Result<()>,
) -> io::Result<SegmentEnd> {
    let mut reader = LineReader::new(file, start.offset);
    let mut sealed = start.clone();
    let mut at = start.clone();
    let mut batch: Vec<SealedLine> = Vec::new();
    let mut rotated = false;
    let bad = loop {
        let (offset, bytes) = match reader.next_line()? {
            NextLine::Line(offset, bytes) => (offset, bytes),
            NextLine::End(0) => {
                break (at.seq != sealed.seq).then(|| BadLine {
                    offset: at.offset,
                    why: "the file ends before the batch is sealed".to_owned(),
                });
            }
            NextLine::End(_) => {
                break Some(BadLine {
                    offset: at.offset,
                    why: Fault::Unfinished.to_string(),
                });
            }
            NextLine::TooLong(offset) => {
                break Some(BadLine {
                    offset,
                    why: format!("a line is longer than {LINE_BYTES_MAX} bytes"),
                });
            }
        };
        let (line, is_seal) = match continue_log(&mut at, offset, &bytes) {
            Ok(continued) => continued,
            Err(fault) => {
                let why = fault.to_string();
                break Some(BadLine { offset, why });
            }
        };
        if std::mem::replace(&mut rotated, line.kind == "rotate") && !is_seal {
            break Some(BadLine {
                offset,
                why: Fault::AfterRotation(line.seq).to_string(),
            });
        }
        batch.push(line);
        if at.offset.saturating_sub(sealed.offset) > BATCH_BYTES_MAX {
            break Some(BadLine {
                offset,
                why: Fault::BatchLength.to_string(),
            });
        }
        if is_seal {
            for line in batch.drain(..) {
                visit(&line)?;
            }
            at.batch += 1;
            sealed = at.clone();
        }
    };
    Ok(SegmentEnd {
        position: sealed,
        file_bytes: file.len()?,
        bad,
    })
}

/// Checks that a line continues the log at `at`, and moves `at` past it.
fn continue_log(at: &mut Position, offset: u64, bytes: &[u8]) -> Result<(SealedLine, bool), Fault> {
    let line = line::parse(bytes)?;
    if line.seq != at.seq || line.batch != at.batch {
        return Err(Fault::Number {
            seq: line.seq,
            batch: line.batch,
            wanted_seq: at.seq,
            wanted_batch: at.batch,
        });
    }
    if line.prev != at.head {
        return Err(Fault::Chain(line.seq));
    }
    let is_seal = line.kind == "seal";
    if is_seal {
        (at.root, at.seal_sig) = check_seal(at, &line)?;
        at.before_seal = line.prev;
    } else if line.kind == "rotate" {
        if at.segment <= 1 || at.lines != 1 {
            return Err(Fault::RotationPlace(line.seq));
        }
        at.keys = Arc::new(rotation::check_line(&line, &at.keys)?);
    }
    let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    let sealed = SealedLine {
        segment: at.segment,
        offset,
        seq: line.seq,
        kind: line.kind.to_owned(),
        body: line.body(),
        length,
        leaf: leaf_hash(bytes),
    };
    at.head = sealed.leaf;
    at.frontier.push(at.head);
    at.seq += 1;
    at.lines += 1;
    at.offset = offset.saturating_add(length).saturating_add(1);
    at.last_length = length;
    Ok((sealed, is_seal))
}

fn check_seal(at: &Position, line: &Line<'_>) -> Result<(Hash, String), Fault> {
    let (body, seq) = (line.body(), line.seq);
    let seal: Seal = serde_json::from_str(&body).map_err(|source| Fault::Seal { seq, source })?;
    let root = at.frontier.root();
    if seal.body() != body {
        return Err(Fault::SealSpelling(seq));
    }
    if seal.size != seq || seal.root != root.to_string() {
        return Err(Fault::SealRoot(seq));
    }
    if !seal.verifies(&at.keys.seal_key, &at.keys.origin, &root, &line.prev) {
        return Err(Fault::SealSignature(seq));
    }
    Ok((root, seal.sig))
}

/// What follows the last valid seal of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestKind {
    /// Nothing.
    Nothing,
    /// One batch that was never sealed durably and never answered.
    Torn(Rest),
    /// Bytes that cannot be a torn batch.
    Corrupt(BadLine),
}

/// Distinguishes a torn batch from damage. A later batch is written only after the earlier one was
/// synced. So a line of a later batch in the rest, or more bytes than a batch can have, means
/// damage.
///
/// # Errors
/// Returns an error if reading fails.
pub fn examine_rest(file: &dyn LogFile, end: &SegmentEnd) -> io::Result<RestKind> {
    let (offset, batch) = (end.position.offset, end.position.batch);
    rest_behind(file, (offset, batch), end.file_bytes, end.bad.as_ref())
}

/// As [`examine_rest`], for the bytes between `offset`, where batch `batch` should begin, and
/// `file_bytes`.
///
/// # Errors
/// Returns an error if reading fails.
pub fn rest_behind(
    file: &dyn LogFile,
    (offset, batch): (u64, u64),
    file_bytes: u64,
    bad: Option<&BadLine>,
) -> io::Result<RestKind> {
    let length = file_bytes.saturating_sub(offset);
    if length == 0 {
        return Ok(RestKind::Nothing);
    }
    let damaged = |why: String| {
        let first = bad.cloned().unwrap_or(BadLine {
            offset,
            why: String::new(),
        });
        RestKind::Corrupt(BadLine {
            offset: first.offset,
            why: format!("{}; {why}", first.why),
        })
    };
    if length > BATCH_BYTES_MAX {
        return Ok(damaged(format!(
            "{length} bytes follow the last valid seal, more than a batch has"
        )));
    }
    let bytes =
        crate::disk::read_exact_at(file, offset, usize::try_from(length).unwrap_or(usize::MAX))?;
    for start in bytes.split(|byte| *byte == b'\n') {
        // Only the start of a line counts, which is plain ASCII; the rest may be cut or damaged.
        let prefix: String = start
            .iter()
            .take(192)
            .map(|byte| char::from(*byte))
            .collect();
        if let Some(line) = line::parse_prefix(&prefix).filter(|line| line.batch > batch) {
            let why = format!("line {} of batch {} follows it", line.seq, line.batch);
            return Ok(damaged(why));
        }
    }
    Ok(RestKind::Torn(Rest {
        offset,
        length,
        sha256: signing::hex(&Sha256::digest(&bytes)),
    }))
}
