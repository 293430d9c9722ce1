//! The lines of a segment for `audit verify`, looked at piece by piece on several threads. Each line is looked at
//! alone, which works because `prev` is stored; the pieces are handed on in the order of the file, so that
//! the outcome is that of one thread. No more than a few pieces are in memory.

use std::io;
use std::sync::mpsc;
use std::thread;

use super::heads::{self, Head};
use super::line::{self, LINE_BYTES_MAX, LineError};
use super::rotation::LogIdentity;
use super::seal::Seal;
use super::segment::Segment;
use super::tree::{Hash, leaf_hash};
use super::verify::Options;
use crate::gate::record::Record;
use crate::host::disk::{self, LogFile};

/// Bytes of a file that a thread looks at in one go: no fewer than a line, and no more than stay in its core's
/// cache.
const PIECE_BYTES_MIN: u64 = LINE_BYTES_MAX as u64 + 1;
const PIECE_BYTES_MAX: u64 = 1024 * 1024;

/// Pieces that a thread may be ahead of what was joined.
const PIECES_AHEAD: usize = 2;

/// Most threads; more would wait for the one that joins.
const THREADS_MAX: usize = 64;

/// One line as it was found.
pub struct Seen {
    /// Offset in the segment's file.
    pub offset: u64,
    /// Bytes without the LF.
    pub length: u64,
    /// Its leaf hash.
    pub leaf: Hash,
    /// The leaf hash that it names.
    pub prev: Hash,
    /// Its number.
    pub seq: u64,
    /// Its batch's number.
    pub batch: u64,
    /// Where this kind of line may stand only.
    pub place: Place,
    /// What it says if it is a seal.
    pub seal: Option<SeenSeal>,
    /// Heads of this log that it gives up.
    pub given_up: Vec<Head>,
}

/// A seal as it was found.
pub struct SeenSeal {
    /// How many lines it says stand before it.
    pub size: u64,
    /// Their root, as it says.
    pub root: Hash,
    /// Whether its signature holds for what it says.
    pub verifies: bool,
}

/// Where a line may stand.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// First of the log: the genesis line.
    First,
    /// First of every later file: the segment line.
    FirstOfFile,
    /// Second of a file that begins with other keys: the rotate line, with only a seal behind it in its batch.
    Second,
    /// Anywhere else.
    Inside,
}

/// The lines that begin in a part of a segment, up to the first that is none.
#[derive(Default)]
pub struct Piece {
    /// The lines.
    pub lines: Vec<Seen>,
    /// Offset of what is no line, and what is wrong with it.
    pub bad: Option<(u64, String)>,
}

/// Looks at the lines of the first `length` bytes of a file and hands them to `join` in their order.
///
/// # Errors
/// The first that `join` returns; nothing is handed on behind it.
pub fn look_at_all<E: From<io::Error>>(
    file: &dyn LogFile,
    length: u64,
    keys: &LogIdentity,
    options: &Options,
    join: &mut dyn FnMut(io::Result<Piece>) -> Result<(), E>,
) -> Result<(), E> {
    let threads = options.threads.clamp(1, THREADS_MAX);
    let bytes = (length / (8 * threads as u64)).clamp(PIECE_BYTES_MIN, PIECE_BYTES_MAX);
    let pieces = length.div_ceil(bytes);
    let looker = || Looker { file, length, keys, strict: options.strict, bytes, buffer: Vec::new() };
    if threads == 1 || pieces <= 1 {
        let mut looker = looker();
        return (0..pieces).try_for_each(|number| join(looker.look_at(number)));
    }
    thread::scope(|scope| {
        let (lanes, running): (Vec<_>, Vec<_>) = (0..threads as u64)
            .map(|first| {
                let (found, arriving) = mpsc::sync_channel(PIECES_AHEAD);
                let mut looker = looker();
                let run = move || {
                    let mut mine = (first..pieces).step_by(threads);
                    // Nobody listens any more once something bad was found.
                    while mine.next().is_some_and(|number| found.send(looker.look_at(number)).is_ok()) {}
                };
                (arriving, scope.spawn(run))
            })
            .unzip();
        let ended_early = || io::Error::other("a verifying thread ended early");
        let joined = lanes
            .iter()
            .cycle()
            .zip(0..pieces)
            .try_for_each(|(lane, _)| join(lane.recv().unwrap_or_else(|_| Err(ended_early()))));
        drop(lanes);
        for thread in running {
            // One that ended early was told of above.
            let _ = thread.join();
        }
        joined
    })
}

/// What one thread looks with.
struct Looker<'a> {
    file: &'a dyn LogFile,
    length: u64,
    keys: &'a LogIdentity,
    strict: bool,
    bytes: u64,
    buffer: Vec<u8>,
}

impl Looker<'_> {
    /// Looks at the lines that begin in piece `number`.
    fn look_at(&mut self, number: u64) -> io::Result<Piece> {
        let begin = number.saturating_mul(self.bytes);
        let end = begin.saturating_add(self.bytes).min(self.length);
        // From the byte before, whose being an LF makes a line begin with the piece, to where the last line
        // that begins in it ends.
        let from = begin.saturating_sub(1);
        let to = end.saturating_add(LINE_BYTES_MAX as u64).saturating_add(1).min(self.length);
        self.buffer.resize(usize::try_from(to.saturating_sub(from)).map_err(io::Error::other)?, 0);
        disk::fill_at(self.file, from, &mut self.buffer)?;
        let mut rest = self.buffer.as_slice();
        let mut at = from;
        if number > 0 {
            match cut_line(rest) {
                Some((line, behind)) => {
                    at = from.saturating_add(line.len() as u64).saturating_add(1);
                    rest = behind;
                }
                // All of it is inside a line that an earlier piece speaks of.
                None => return Ok(Piece::default()),
            }
        }
        let mut piece = Piece::default();
        while at < end {
            let Some((line, behind)) = cut_line(rest) else {
                let what = match length_of_line(self.file, at, self.length)? {
                    Some(length) => too_long(length).unwrap_or_default(),
                    None => "the file ends inside a line".to_owned(),
                };
                piece.bad = Some((at, what));
                break;
            };
            match look(at, line, self.keys, self.strict) {
                Ok(seen) => piece.lines.push(seen),
                Err(what) => {
                    piece.bad = Some((at, what));
                    break;
                }
            }
            at = at.saturating_add(line.len() as u64).saturating_add(1);
            rest = behind;
        }
        Ok(piece)
    }
}

/// The bytes up to the first LF, and those behind it.
fn cut_line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (line, behind) = bytes.split_at_checked(memchr::memchr(b'\n', bytes)?)?;
    Some((line, behind.get(1..).unwrap_or_default()))
}

/// Bytes of the line that begins at `from`, without its LF; none if there is no LF before `end`.
///
/// # Errors
/// What the file says.
pub fn length_of_line(file: &dyn LogFile, from: u64, end: u64) -> io::Result<Option<u64>> {
    let mut at = from;
    while at < end {
        let length =
            usize::try_from(end.saturating_sub(at).min(PIECE_BYTES_MAX)).map_err(io::Error::other)?;
        let bytes = disk::read_exact_at(file, at, length)?;
        if let Some(found) = memchr::memchr(b'\n', &bytes) {
            return Ok(Some(at.saturating_add(found as u64).saturating_sub(from)));
        }
        at = at.saturating_add(length as u64);
    }
    Ok(None)
}

/// What is wrong with a line of this length, if that is.
pub fn too_long(length: u64) -> Option<String> {
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    (length > LINE_BYTES_MAX).then(|| LineError::TooLong(length).to_string())
}

fn look(offset: u64, bytes: &[u8], keys: &LogIdentity, strict: bool) -> Result<Seen, String> {
    let line = line::parse(bytes).map_err(|error| error.to_string())?;
    let mut seal = None;
    if line.kind == "seal" {
        let body = line.body();
        let parsed: Seal =
            serde_json::from_str(&body).map_err(|error| format!("seal at line {}: {error}", line.seq))?;
        if parsed.body() != body {
            return Err(format!("the seal at line {} is not written as seals are", line.seq));
        }
        let root = Hash::from_hex(&parsed.root).ok_or("a seal's root is not a hash")?;
        let verifies = parsed.verifies(&keys.seal_key, &keys.origin, &root, &line.prev);
        seal = Some(SeenSeal { size: parsed.size, root, verifies });
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
            "rotate" => Place::Second,
            _ => Place::Inside,
        },
        seal,
        given_up: if line.kind == "admin" { heads::given_up(&line.body()) } else { Vec::new() },
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
