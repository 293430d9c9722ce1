//! Checks the lines of a segment for `audit verify` piece by piece on several threads. A piece can
//! be checked on its own because `prev` and `seq` are stored: every line but the first is checked
//! against the line before it, and the numbers say which subtrees the lines form. Pieces are passed
//! on in file order, so the outcome is the same as with one thread. Only a few pieces are in memory
//! at a time.

use std::io;
use std::ops::Range;
use std::sync::mpsc;
use std::thread;

use super::fault::Fault;
use super::heads::{self, Head};
use super::lanes;
use super::line::{self, LINE_BYTES_MAX, LineError};
use super::rotation::LogIdentity;
use super::seal::Seal;
use super::segment::Segment;
use super::tree::Hash;
use super::verify::{Canonical, Options};
use crate::disk::{self, LogFile};
use spoolgate_wire::sealed::Field;

/// Number of bytes that a thread checks at a time: at least one line with its LF, and at most what
/// stays in the core's cache while it is read, hashed and checked.
const PIECE_BYTES_MIN: usize = LINE_BYTES_MAX + 1;
const PIECE_BYTES_MAX: u64 = 512 * 1024;

/// Bytes after a piece that are read first to find the end of its last line, before the maximum
/// length of a line is read.
const READ_ON_BYTES: usize = 4096;

/// Maximum number of pieces that a thread may be ahead of the joining thread.
const PIECES_AHEAD: usize = 8;

/// Maximum number of threads; more would only wait for the joining thread.
const THREADS_MAX: usize = 64;

/// What a line states about its place in the log.
pub(crate) struct Standing {
    /// Offset in the segment's file, where it was found.
    pub offset: u64,
    /// The leaf hash in its `prev`.
    pub prev: Hash,
    /// Its number.
    pub seq: u64,
    /// The number of its batch.
    pub batch: u64,
    /// The places that are allowed for this kind of line.
    pub place: Place,
}

impl Standing {
    /// Checks that the line may follow `behind`, in a file whose first line has the number
    /// `first_seq`.
    ///
    /// # Errors
    /// Returns what is wrong.
    pub(crate) fn check(&self, behind: &Behind, first_seq: u64) -> Result<(), Fault> {
        let Behind {
            head,
            seq,
            batch,
            rotated,
        } = behind;
        if self.seq != *seq || self.batch != *batch {
            return Err(Fault::Number {
                seq: self.seq,
                batch: self.batch,
                wanted_seq: *seq,
                wanted_batch: *batch,
            });
        }
        if self.prev != *head {
            return Err(Fault::Chain(*seq));
        }
        let stands = match (self.place, seq.saturating_sub(first_seq)) {
            (Place::First, _) => *seq == 0,
            (Place::FirstOfFile, at) => at == 0 && *seq > 0,
            (Place::Second, at) => at == 1 && first_seq > 0,
            (Place::Inside | Place::Admin, at) => at > 0 && !rotated,
            (Place::Seal, at) => at > 0,
        };
        if !stands {
            return Err(Fault::Place(*seq));
        }
        Ok(())
    }
}

/// The end of the log so far, which the next line must continue.
pub(crate) struct Behind {
    /// Leaf hash of the last line.
    pub head: Hash,
    /// Number of lines so far.
    pub seq: u64,
    /// Number of sealed batches so far.
    pub batch: u64,
    /// Whether the last line is a rotate line.
    pub rotated: bool,
}

/// Consecutive lines, up to a seal or the end of the piece.
pub(crate) struct Stretch {
    /// Number of lines, not counting the seal.
    pub lines: u64,
    /// Offset after them.
    pub end: u64,
    /// Number of the piece's subtrees that belong to these lines.
    pub subtrees: usize,
    /// The line that seals them.
    pub seal: Option<SeenSeal>,
    /// Leaf hash of the last line, seal included.
    pub head: Hash,
    /// Whether the last line is a rotate line.
    pub rotated: bool,
}

/// A seal that was found.
pub(crate) struct SeenSeal {
    /// Offset in the segment's file.
    pub offset: u64,
    /// Offset after it.
    pub end: u64,
    /// The leaf hash in its `prev`.
    pub prev: Hash,
    /// What it states. `None` if only links are checked.
    pub says: Option<Says>,
}

/// What a seal states.
pub(crate) struct Says {
    /// Number of lines before it.
    pub size: u64,
    /// Their root.
    pub root: Hash,
    /// Whether its signature verifies.
    pub verifies: bool,
}

/// What a line states about sealed fields.
pub(crate) enum SeenSealed {
    /// A decision, or the start of an outgoing action, commits to them.
    Committed(Vec<Field>),
    /// A redaction deletes their disclosures.
    Redacted(Vec<Field>),
}

/// The places that are allowed for a kind of line.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// First line of the log: the genesis line.
    First,
    /// First line of every later file: the segment line.
    FirstOfFile,
    /// Second line of a file that begins with new keys: the rotate line, which only a seal follows
    /// in its batch.
    Second,
    /// After any line: a seal.
    Seal,
    /// Anywhere else; such a line may give up heads of the log.
    Admin,
    /// Anywhere else.
    Inside,
}

impl Place {
    fn of(kind: &[u8]) -> Place {
        match kind {
            b"genesis" => Place::First,
            b"segment" => Place::FirstOfFile,
            b"rotate" => Place::Second,
            b"seal" => Place::Seal,
            b"admin" => Place::Admin,
            _ => Place::Inside,
        }
    }
}

/// The lines that begin in a part of a segment, up to the first one that is invalid or does not
/// follow the line before it.
#[derive(Default)]
pub(crate) struct Piece {
    /// What the first line states, if a line begins in the piece. Only the lines before the piece
    /// can confirm it.
    pub first: Option<Standing>,
    /// All lines of the piece.
    pub stretches: Vec<Stretch>,
    /// Level and root of the perfect subtrees that the lines form if `first` states the right
    /// number; seals are not included. Empty if only links are checked.
    pub subtrees: Vec<(u32, Hash)>,
    /// Heads of this log that lines give up, with the number of each line.
    pub given_up: Vec<(Head, u64)>,
    /// What lines state about sealed fields, with the number of each line.
    pub sealed: Vec<(u64, SeenSealed)>,
    /// Where the lines end early: the offset, and what is wrong there.
    pub bad: Option<(u64, Fault)>,
}

/// Only lines with sealed fields contain this text: inside a JSON string the quotes would be
/// escaped.
const SEALED_MARK: &[u8] = b",\"sealed\":[{\"field\":\"";

/// The fields that a `decision`, `request` or `response` line commits to, or that a `redact` line deletes. The
/// gate reads all other members.
#[derive(serde::Deserialize)]
struct SealedMembers {
    #[serde(default)]
    fields: Vec<Field>,
    #[serde(default)]
    sealed: Vec<Field>,
}

fn sealed_of(bytes: &[u8]) -> Option<SeenSealed> {
    let kind = line::start(bytes)?.kind;
    let is_marked = || memchr::memmem::find(bytes, SEALED_MARK).is_some();
    if !(kind == b"redact"
        || (matches!(kind, b"decision" | b"request" | b"response") && is_marked()))
    {
        return None;
    }
    let line = line::parse(bytes).ok()?;
    let read: SealedMembers = serde_json::from_str(&line.body()).ok()?;
    Some(match line.kind {
        "redact" => SeenSealed::Redacted(read.fields),
        _ => SeenSealed::Committed(read.sealed),
    })
}

/// What is known about a file before its lines are checked.
#[derive(Clone, Copy)]
pub(crate) struct FileFrom<'a> {
    /// The keys that it is sealed with.
    pub keys: &'a LogIdentity,
    /// Number of its first line.
    pub first_seq: u64,
}

/// Checks the lines in the first `length` bytes of a file and passes them to `join` in order.
///
/// # Errors
/// Returns the first error that `join` returns and passes nothing on after it.
pub(crate) fn look_at_all<E: From<io::Error>>(
    file: &dyn LogFile,
    length: u64,
    from: FileFrom<'_>,
    options: &Options,
    join: &mut dyn FnMut(io::Result<Piece>) -> Result<(), E>,
) -> Result<(), E> {
    let threads = options.threads.clamp(1, THREADS_MAX);
    let bytes = (length / (8 * threads as u64)).clamp(PIECE_BYTES_MIN as u64, PIECE_BYTES_MAX);
    let pieces = length.div_ceil(bytes);
    let looker = || Looker {
        file,
        length,
        from,
        options,
        bytes,
        work: Work::default(),
    };
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
                    // The receiver is dropped once a bad line was found.
                    while mine
                        .next()
                        .is_some_and(|number| found.send(looker.look_at(number)).is_ok())
                    {
                    }
                };
                let running = thread::Builder::new().spawn_scoped(scope, run)?;
                Ok((arriving, running))
            })
            .collect::<io::Result<Vec<_>>>()?
            .into_iter()
            .unzip();
        let ended_early = || io::Error::other("a verifying thread ended early");
        let joined = lanes
            .iter()
            .cycle()
            .zip(0..pieces)
            .try_for_each(|(lane, _)| join(lane.recv().unwrap_or_else(|_| Err(ended_early()))));
        drop(lanes);
        for thread in running {
            // A thread that ended early was reported above.
            let _ = thread.join();
        }
        joined
    })
}

/// What one thread checks lines with.
struct Looker<'a> {
    file: &'a dyn LogFile,
    length: u64,
    from: FileFrom<'a>,
    options: &'a Options,
    bytes: u64,
    work: Work,
}

/// Buffers that are reused from piece to piece.
#[derive(Default)]
struct Work {
    /// The byte before the piece, the piece, and the rest of its last line.
    buffer: Vec<u8>,
    /// Where the lines are in `buffer`, without LF.
    lines: Vec<Range<usize>>,
    /// Their leaf hashes.
    leaves: Vec<Hash>,
    /// A level of a tree, and the nodes that are left over on its right.
    level: Vec<Hash>,
    right: Vec<(u32, Hash)>,
}

impl Looker<'_> {
    /// Checks the lines that begin in piece `number`.
    fn look_at(&mut self, number: u64) -> io::Result<Piece> {
        let begin = number.saturating_mul(self.bytes);
        let mut work = std::mem::take(&mut self.work);
        let bad = self.read(begin, &mut work)?;
        // The byte before each line is an LF or a placeholder for one. Set to zero, it turns the
        // line into the message of its leaf hash.
        for line in &work.lines {
            if let Some(byte) = line
                .start
                .checked_sub(1)
                .and_then(|at| work.buffer.get_mut(at))
            {
                *byte = 0;
            }
        }
        let message = |line: &Range<usize>| {
            work.buffer
                .get(line.start.saturating_sub(1)..line.end)
                .unwrap_or_default()
        };
        lanes::hash_all(work.lines.iter().map(message), &mut work.leaves);
        let piece = self.follow(begin, bad, &mut work);
        self.work = work;
        Ok(piece)
    }

    /// Reads a piece and finds its lines. If the last one has no valid end, returns its offset and
    /// what is wrong with it.
    fn read(&self, begin: u64, work: &mut Work) -> io::Result<Option<(u64, Fault)>> {
        let Work { buffer, lines, .. } = work;
        lines.clear();
        let end = begin.saturating_add(self.bytes).min(self.length);
        let in_file = |at: usize| begin.saturating_add(at as u64).saturating_sub(1);
        let piece_bytes = usize::try_from(end.saturating_sub(begin)).map_err(io::Error::other)?;
        buffer.resize(piece_bytes.saturating_add(1), 0);
        // A line begins at the start of the piece if the byte before it is an LF. Before the first
        // byte of the file there is none, so one is put there.
        match begin.checked_sub(1) {
            Some(before) => disk::fill_at(self.file, before, buffer)?,
            None => {
                if let Some((before, piece)) = buffer.split_first_mut() {
                    *before = b'\n';
                    disk::fill_at(self.file, begin, piece)?;
                }
            }
        }
        let mut ends = memchr::memchr_iter(b'\n', buffer);
        let Some(before) = ends.next() else {
            return Ok(None);
        };
        let mut start = before + 1;
        for end in ends {
            lines.push(start..end);
            start = end + 1;
        }
        if start >= buffer.len() {
            return Ok(None);
        }
        // The last line ends after the piece, usually not far.
        for to in [
            buffer.len().saturating_add(READ_ON_BYTES),
            start.saturating_add(PIECE_BYTES_MIN),
        ] {
            let known = buffer.len();
            let left =
                usize::try_from(self.length.saturating_sub(in_file(known))).unwrap_or(usize::MAX);
            buffer.resize(known.saturating_add(to.saturating_sub(known).min(left)), 0);
            let behind = buffer.get_mut(known..).unwrap_or_default();
            disk::fill_at(self.file, in_file(known), behind)?;
            if let Some(found) = memchr::memchr(b'\n', behind) {
                lines.push(start..known.saturating_add(found));
                return Ok(None);
            }
        }
        let offset = in_file(start);
        let what = match length_of_line(self.file, offset, self.length)? {
            Some(length) => {
                LineError::TooLong(usize::try_from(length).unwrap_or(usize::MAX)).into()
            }
            None => Fault::Unfinished,
        };
        Ok(Some((offset, what)))
    }

    /// Goes from line to line as long as each follows the one before it.
    fn follow(&self, begin: u64, end: Option<(u64, Fault)>, work: &mut Work) -> Piece {
        let Work {
            buffer,
            lines,
            leaves,
            level,
            right,
        } = work;
        let in_file = |at: usize| begin.saturating_add(at as u64).saturating_sub(1);
        let mut piece = Piece::default();
        let mut put =
            |piece: &mut Piece, lines: Range<usize>, end: u64, seal: Option<SeenSeal>, rotated| {
                let known = piece.subtrees.len();
                if let Some(first) = piece.first.as_ref().filter(|_| !self.options.chain) {
                    let start = first.seq.wrapping_add(lines.start as u64);
                    let leaves = leaves.get(lines.clone()).unwrap_or_default();
                    cover(start, leaves, level, right, &mut piece.subtrees);
                }
                let last = if seal.is_some() {
                    lines.end
                } else {
                    lines.end.saturating_sub(1)
                };
                piece.stretches.push(Stretch {
                    lines: lines.len() as u64,
                    end,
                    subtrees: piece.subtrees.len().saturating_sub(known),
                    seal,
                    head: leaves.get(last).copied().unwrap_or(Hash::ZERO),
                    rotated,
                });
            };
        let mut behind: Option<Behind> = None;
        // The lines in `from..to` follow each other and are not in a stretch yet.
        let (mut from, mut to) = (0, 0);
        for (line, leaf) in lines.iter().zip(leaves.iter()) {
            let offset = in_file(line.start);
            let bytes = buffer.get(line.clone()).unwrap_or_default();
            let (standing, seal) = match self.look(offset, bytes, behind.as_ref()) {
                Ok(seen) => seen,
                Err(what) => {
                    piece.bad = Some((offset, what));
                    break;
                }
            };
            let Standing {
                prev,
                seq,
                batch,
                place,
                ..
            } = standing;
            let rotated = place == Place::Second;
            if place == Place::Admin
                && let Ok(line) = line::parse(bytes)
            {
                piece.given_up.extend(
                    heads::given_up(&line.body())
                        .into_iter()
                        .map(|head| (head, seq)),
                );
            }
            if !self.options.chain {
                piece
                    .sealed
                    .extend(sealed_of(bytes).map(|sealed| (seq, sealed)));
            }
            behind = Some(Behind {
                head: *leaf,
                seq: seq.wrapping_add(1),
                batch: batch.wrapping_add(u64::from(seal.is_some())),
                rotated,
            });
            piece.first.get_or_insert(standing);
            if let Some(says) = seal {
                let seal = SeenSeal {
                    offset,
                    end: in_file(line.end.saturating_add(1)),
                    prev,
                    says,
                };
                put(&mut piece, from..to, offset, Some(seal), false);
                from = to + 1;
            }
            to += 1;
        }
        if from < to {
            let last = lines.get(to - 1).map_or(0, |line| line.end);
            let rotated = behind.is_some_and(|behind| behind.rotated);
            put(
                &mut piece,
                from..to,
                in_file(last.saturating_add(1)),
                None,
                rotated,
            );
        }
        piece.bad = piece.bad.take().or(end);
        piece
    }

    /// Checks one line, and its place if the lines before it are known. The second value is `Some`
    /// for a seal.
    fn look(
        &self,
        offset: u64,
        bytes: &[u8],
        behind: Option<&Behind>,
    ) -> Result<(Standing, Option<Option<Says>>), Fault> {
        check_length(bytes.len() as u64)?;
        let parsed = || line::parse(bytes);
        if let Some(canonical) = self.options.strict {
            check_strictly(&parsed()?, canonical)?;
        }
        let no_start = || LineError::Prefix;
        let line::Start {
            prev,
            seq,
            batch,
            kind,
            tail,
        } = line::start(bytes)
            .filter(|_| bytes.ends_with(b"}"))
            .ok_or_else(no_start)?;
        let place = Place::of(kind);
        if matches!(place, Place::First | Place::FirstOfFile | Place::Second) {
            // Other functions read these lines strictly, so check them just as strictly.
            parsed()?;
        }
        let prev = match behind {
            Some(behind) if behind.head.hex_bytes() == *prev => behind.head,
            _ => std::str::from_utf8(prev)
                .ok()
                .and_then(Hash::from_hex)
                .ok_or_else(no_start)?,
        };
        let seal = match kind {
            b"seal" if self.options.chain => Some(None),
            b"seal" => Some(Some(self.look_at_seal(seq, &prev, tail)?)),
            _ => None,
        };
        let standing = Standing {
            offset,
            prev,
            seq,
            batch,
            place,
        };
        if let Some(behind) = behind {
            standing.check(behind, self.from.first_seq)?;
        }
        Ok((standing, seal))
    }

    fn look_at_seal(&self, seq: u64, prev: &Hash, tail: &[u8]) -> Result<Says, Fault> {
        let body = [b"{", tail].concat();
        let parsed: Seal =
            serde_json::from_slice(&body).map_err(|source| Fault::Seal { seq, source })?;
        if parsed.body().as_bytes() != body {
            return Err(Fault::SealSpelling(seq));
        }
        let root = Hash::from_hex(&parsed.root).ok_or(Fault::SealHash(seq))?;
        let verifies = parsed.verifies(
            &self.from.keys.seal_key,
            &self.from.keys.origin,
            &root,
            prev,
        );
        Ok(Says {
            size: parsed.size,
            root,
            verifies,
        })
    }
}

/// Computes the perfect subtrees that `leaves` form if the first of them has the number `start`,
/// from left to right.
fn cover(
    start: u64,
    leaves: &[Hash],
    level: &mut Vec<Hash>,
    right: &mut Vec<(u32, Hash)>,
    subtrees: &mut Vec<(u32, Hash)>,
) {
    level.clear();
    level.extend_from_slice(leaves);
    let (mut start, mut height) = (start, 0);
    while !level.is_empty() {
        // A node that is a right child has its sibling to the left of `leaves`, so it cannot be
        // merged here.
        if start & 1 == 1 {
            subtrees.extend(level.drain(..1).map(|node| (height, node)));
            start = start.wrapping_add(1);
        }
        if level.len() & 1 == 1 {
            right.extend(level.pop().map(|node| (height, node)));
        }
        lanes::to_parents(level);
        start >>= 1;
        height += 1;
    }
    subtrees.extend(right.drain(..).rev());
}

/// Length in bytes of the line that begins at `from`, without its LF. `None` if there is no LF
/// before `end`.
///
/// # Errors
/// Returns an error if reading fails.
pub(crate) fn length_of_line(file: &dyn LogFile, from: u64, end: u64) -> io::Result<Option<u64>> {
    let mut at = from;
    while at < end {
        let length = usize::try_from(end.saturating_sub(at).min(PIECE_BYTES_MAX))
            .map_err(io::Error::other)?;
        let bytes = disk::read_exact_at(file, at, length)?;
        if let Some(found) = memchr::memchr(b'\n', &bytes) {
            return Ok(Some(at.saturating_add(found as u64).saturating_sub(from)));
        }
        at = at.saturating_add(length as u64);
    }
    Ok(None)
}

/// Checks that a line of this length is not too long.
pub(crate) fn check_length(length: u64) -> Result<(), LineError> {
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    match length > LINE_BYTES_MAX {
        true => Err(LineError::TooLong(length)),
        false => Ok(()),
    }
}

/// Checks that a line, parsed and written again, has the same bytes, so that no alternative
/// spelling hides anything.
fn check_strictly(line: &line::Line<'_>, canonical: Canonical) -> Result<(), Fault> {
    let body = line.body();
    let again = match line.kind {
        // The spelling of seals is always checked.
        "seal" => return Ok(()),
        "segment" => serde_json::from_str::<Segment>(&body)
            .and_then(|segment| serde_json::to_string(&segment))
            .map_err(Into::into),
        kind => canonical(kind, &body),
    };
    match again {
        Ok(again) if again == body => Ok(()),
        Ok(_) => Err(Fault::Spelling(line.seq)),
        Err(source) => Err(Fault::Body {
            seq: line.seq,
            source,
        }),
    }
}
