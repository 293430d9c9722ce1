//! `audit verify`: checks everything in a ledger folder from the first byte, in parallel. Needs no
//! keyring and no state: an auditor has only the folder, and at best a head or key noted earlier.

mod finish;

use std::collections::BTreeSet;
use std::error::Error;
use std::io;
use std::path::Path;
use std::thread;

use sha2::{Digest, Sha256};

use super::LedgerError;
use super::archive;
use super::closed;
use super::fault::Fault;
use super::heads::Head;
use super::line::{self, LineError};
use super::note::{self, VerifierKey};
use super::pieces::{self, Behind, Piece, SeenSeal, SeenSealed};
use super::recover;
use super::redacted::Redactions;
use super::rotation::{self, LogIdentity, Timeline};
use super::scan::{BATCH_BYTES_MAX, LineReader, NextLine};
use super::segment::{self, Segment};
use super::stub::{FirstBatch, Stub};
use super::sums::{self, SEGMENTS_NAME, Sums};
use super::tree::{Frontier, Hash};
pub use super::verdict::{KeyReport, Problem, Reached, Report, VerifyError};
use crate::disk::{self, Disk, LogFile, ReadFile};
use spoolgate_wire::signing::hex;

/// Reads the body of a line of this kind and writes it again; returns an empty text for an unknown
/// kind. The ledger itself knows only the lines that hold it together, so the gate passes this
/// function for all others.
///
/// # Errors
/// Returns an error if the body is invalid; the report contains its message.
pub type Canonical = fn(kind: &str, body: &str) -> Result<String, Box<dyn Error + Send + Sync>>;

/// What to check beyond the log itself.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Parse every line, write it again and demand the same bytes. `None` checks only the start of
    /// a line, its closing brace and its hash, unless the line is about keys, files or seals.
    /// Whatever else it contains may not even be JSON, but only if the holder of the seal key
    /// sealed it like that.
    pub strict: Option<Canonical>,
    /// Check only that each line names the line before it: no root, no seals, no checkpoint.
    pub chain: bool,
    /// A verifier key, noted earlier, that the log must have or have had.
    pub key: Option<VerifierKey>,
    /// Checkpoints and receipts noted earlier: their source and text.
    pub heads: Vec<(String, String)>,
    /// Number of threads that check lines; 0 counts as 1. The outcome is the same with any number.
    pub threads: usize,
}

/// Name of the newest checkpoint in the log's folder.
pub const CHECKPOINT_NAME: &str = "checkpoint";

/// Verifies the log in `dir`. After each piece of a segment it reports to `progress` how many bytes
/// are done.
///
/// ```
/// use std::path::Path;
///
/// use spoolgate_ledger::folder::Folder;
/// use spoolgate_ledger::verify::{Options, verify};
///
/// let folder = Folder::open("testdata/log")?;
/// let key = "example.org/log+d3e49c8a+AWksKng6bXZg10G5xS93kpMNoz9Hdu4hkpWOLKnrr1xf".parse()?;
/// let options = Options { key: Some(key), threads: 2, ..Options::default() };
/// let report = verify(&folder, Path::new(""), &options, &|bytes| eprintln!("{bytes} bytes"))?;
/// assert!(report.ok);
/// for what in &report.not_shown {
///     eprintln!("not shown: {what}");
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns [`VerifyError`] if the log, or a file of it, cannot be read: that says nothing about the
/// log. All other problems are in the report.
pub fn verify(
    disk: &dyn Disk,
    dir: &Path,
    options: &Options,
    progress: &dyn Fn(u64),
) -> Result<Report, VerifyError> {
    // Read this before the log: a running gate may extend the log meanwhile, and the log must still
    // contain this head.
    let newest = match options.chain {
        true => Err(io::ErrorKind::NotFound.into()),
        false => checkpoint(disk, dir)?,
    };
    let kept = recover::kept(disk, dir).map_err(|error| match error {
        LedgerError::Corrupt(corruption) => VerifyError::NoLog(corruption),
        other => VerifyError::Ledger(other),
    })?;
    let mut walk = Walk::new(options, progress);
    walk.remembered = options
        .heads
        .iter()
        .map(|(_, text)| text.as_str())
        .filter_map(size_told)
        .collect();
    walk.remembered.extend(
        newest
            .iter()
            .filter_map(|file| size_told(str::from_utf8(&file.bytes).ok()?)),
    );
    let sums = walk.sums(disk, dir, kept.len())?;
    for (index, (number, kept_as)) in kept.iter().enumerate() {
        let path = dir.join(segment::file_name(*number));
        let fail = |source: io::Error| VerifyError::Disk {
            path: path.clone(),
            source,
        };
        let header = match kept.get(index + 1) {
            Some((next, _)) => match read_header(disk, dir, *next) {
                Ok(header) => Some(header),
                Err(Fault::Disk { source, .. }) if !is_damage(&source) => {
                    let path = dir.join(segment::file_name(*next));
                    return Err(VerifyError::Disk { path, source });
                }
                Err(fault) => {
                    walk.problem(*next, 0, fault.to_string());
                    return walk.finish(newest, disk, dir);
                }
            },
            None => None,
        };
        let stub = match kept_as
            .stub
            .then(|| Stub::read(disk, dir, *number))
            .transpose()
        {
            Ok(stub) => stub,
            Err(source) if !is_damage(&source) => {
                let path = dir.join(segment::stub_name(*number));
                return Err(VerifyError::Disk { path, source });
            }
            Err(error) => {
                walk.problems.push(Problem {
                    file: segment::stub_name(*number),
                    offset: 0,
                    what: error.to_string(),
                });
                break;
            }
        };
        let sum = sums.0.get(number);
        let goes_on = match (kept_as.is_pruned(), stub, &header) {
            (true, Some(stub), Some(header)) => {
                walk.pruned(*number, stub, header, sum).map_err(fail)?
            }
            (true, ..) => {
                walk.problem(
                    *number,
                    0,
                    "the last segment is pruned, although the log is still written to it"
                        .to_owned(),
                );
                false
            }
            (false, stub, header) => {
                walk.archived += u32::from(!kept_as.plain);
                match walk.content(disk, dir, *number, (header.as_ref(), stub.as_ref(), sum)) {
                    Ok(goes_on) => goes_on,
                    // A damaged archive is a problem of the ledger, not of the disk.
                    Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                        walk.problem(*number, 0, error.to_string());
                        false
                    }
                    Err(error) => return Err(fail(error)),
                }
            }
        };
        if goes_on && kept_as.plain && kept_as.archived {
            walk.both_forms(disk, dir, *number).map_err(fail)?;
        }
        if !goes_on {
            break;
        }
        progress(walk.bytes);
    }
    walk.finish(newest, disk, dir)
}

/// Reads the newest checkpoint. The inner error is about the file: there is none, or it is no file.
fn checkpoint(disk: &dyn Disk, dir: &Path) -> Result<io::Result<ReadFile>, VerifyError> {
    let path = dir.join(CHECKPOINT_NAME);
    match disk.read(&path, note::NOTE_BYTES_MAX) {
        Err(source) if !is_damage(&source) => Err(VerifyError::Disk { path, source }),
        other => Ok(other),
    }
}

/// Whether an error says something about the bytes of the log, or only about reading them: a failing
/// disk, or too little memory or too few descriptors.
pub(crate) fn is_damage(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(
        error.kind(),
        Kind::InvalidData
            | Kind::UnexpectedEof
            | Kind::Unsupported
            | Kind::NotFound
            | Kind::IsADirectory
            | Kind::NotADirectory
            | Kind::InvalidInput
    ) || error.raw_os_error() == Some(ELOOP)
}

/// A link where a file should be. Its kind, `FilesystemLoop`, is not stable in the standard library.
const ELOOP: i32 = 40;

/// The size that a checkpoint's text states. No signature is checked.
fn size_told(text: &str) -> Option<u64> {
    text.lines().nth(1)?.parse().ok()
}

fn read_header(disk: &dyn Disk, dir: &Path, number: u32) -> Result<Segment, Fault> {
    let fail = |source: io::Error| Fault::Disk {
        path: dir.join(segment::file_name(number)).display().to_string(),
        source,
    };
    let file = segment::open_head(disk, dir, number).map_err(fail)?;
    let bytes = match LineReader::new(file.as_ref(), 0)
        .next_line()
        .map_err(fail)?
    {
        NextLine::Line(_, bytes) => bytes,
        NextLine::End(_) | NextLine::TooLong(_) => {
            return Err(Fault::FirstLine);
        }
    };
    let line = line::parse(&bytes)?;
    if line.kind != "segment" {
        return Err(Fault::NoSegmentLine);
    }
    serde_json::from_str(&line.body()).map_err(Fault::SegmentLine)
}

struct Walk<'a> {
    options: &'a Options,
    progress: &'a dyn Fn(u64),
    keys: Timeline,
    frontier: Frontier,
    head: Hash,
    root: Hash,
    seq: u64,
    batch: u64,
    bytes: u64,
    segments: u32,
    torn: u64,
    archived: u32,
    pruned: u32,
    unseen_lines: u64,
    /// Sizes of the remembered heads, because the lines of a pruned segment do not show which of
    /// them are seals.
    remembered: BTreeSet<u64>,
    /// Size and root of every seal, which is what checkpoints can name. In pruned segments, of
    /// every remembered size.
    seals: Vec<(u64, Hash)>,
    /// Heads that were given up, with the number of the line that says so.
    given_up: Vec<(Head, u64)>,
    redactions: Redactions,
    problems: Vec<Problem>,
}

impl<'a> Walk<'a> {
    fn new(options: &'a Options, progress: &'a dyn Fn(u64)) -> Walk<'a> {
        Walk {
            options,
            progress,
            keys: Timeline::default(),
            frontier: Frontier::default(),
            head: Hash::ZERO,
            root: Hash::ZERO,
            seq: 0,
            batch: 0,
            bytes: 0,
            segments: 0,
            torn: 0,
            archived: 0,
            pruned: 0,
            unseen_lines: 0,
            remembered: BTreeSet::new(),
            seals: Vec::new(),
            given_up: Vec::new(),
            redactions: Redactions::default(),
            problems: Vec::new(),
        }
    }

    fn problem(&mut self, number: u32, offset: u64, what: String) {
        self.problems.push(Problem {
            file: segment::file_name(number),
            offset,
            what,
        });
    }

    /// Reads `SEGMENTS`, which may name only closed segments.
    fn sums(&mut self, disk: &dyn Disk, dir: &Path, segments: usize) -> Result<Sums, VerifyError> {
        let told = match Sums::read(disk, dir) {
            Ok(sums) => sums,
            Err(source) if !is_damage(&source) => {
                let path = dir.join(SEGMENTS_NAME);
                return Err(VerifyError::Disk { path, source });
            }
            Err(error) => {
                self.note_head_problem(SEGMENTS_NAME, error.to_string());
                Sums::default()
            }
        };
        let closed = u32::try_from(segments.saturating_sub(1)).unwrap_or(u32::MAX);
        if let Some((number, _)) = told
            .0
            .last_key_value()
            .filter(|(number, _)| **number > closed)
        {
            let what = format!(
                "it names `{}`, which is not a closed segment",
                segment::file_name(*number)
            );
            self.note_head_problem(SEGMENTS_NAME, what);
        }
        Ok(told)
    }

    /// Verifies a segment whose content is present. Returns whether to continue.
    fn content(
        &mut self,
        disk: &dyn Disk,
        dir: &Path,
        number: u32,
        (next, stub, sum): (Option<&Segment>, Option<&Stub>, Option<&Hash>),
    ) -> io::Result<bool> {
        let file = segment::open(disk, dir, number)?;
        let length = file.len()?;
        let (goes_on, found) = thread::scope(|scope| {
            let file = file.as_ref();
            let beside = sum
                .filter(|_| self.options.threads > 1)
                .map(|_| thread::Builder::new().spawn_scoped(scope, || sums::sum_of(file)))
                .transpose()?;
            let goes_on = self.segment(number, file, length, next)?;
            let found = match beside {
                Some(beside) => Some(
                    beside
                        .join()
                        .unwrap_or_else(|_| Err(io::Error::other("hashing ended")))?,
                ),
                None => sum.map(|_| sums::sum_of(file)).transpose()?,
            };
            io::Result::Ok((goes_on, found))
        })?;
        if goes_on && found.as_ref() != sum {
            self.note_sum_problem(number);
            return Ok(false);
        }
        if let Some(stub) = stub.filter(|_| goes_on)
            && closed::look_at(disk, dir, number, file.as_ref())? != *stub
        {
            let what = "it is not the stub of this segment".to_owned();
            self.problems.push(Problem {
                file: segment::stub_name(number),
                offset: 0,
                what,
            });
            return Ok(false);
        }
        Ok(goes_on)
    }

    fn note_sum_problem(&mut self, number: u32) {
        let what = format!(
            "the bytes of `{}` have another SHA-256",
            segment::file_name(number)
        );
        self.note_head_problem(SEGMENTS_NAME, what);
    }

    /// Checks that a segment's plain file and archive hold the same bytes, if both are present.
    fn both_forms(&mut self, disk: &dyn Disk, dir: &Path, number: u32) -> io::Result<()> {
        let plain = segment::open(disk, dir, number)?;
        let same = segment::open_archive(disk, dir, number)
            .and_then(|archive| archive::are_same(plain.as_ref(), archive.as_ref()));
        let what = match same {
            Ok(true) => return Ok(()),
            Ok(false) => "its bytes differ from the plain file beside it".to_owned(),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => error.to_string(),
            // Archiving or pruning may be running at the same time.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        self.problems.push(Problem {
            file: segment::archive_name(number),
            offset: 0,
            what,
        });
        Ok(())
    }

    /// Takes over a pruned segment's lines by their hashes. Returns whether to continue. The first
    /// batch is verified like any other, and the first batch of the next segment has a seal over
    /// all of these lines.
    fn pruned(
        &mut self,
        number: u32,
        stub: Stub,
        next: &Segment,
        sum: Option<&Hash>,
    ) -> io::Result<bool> {
        let Stub {
            header,
            head,
            leaves,
        } = stub;
        let (first_line, first_batch) = (self.seq, self.batch);
        let head_bytes = u64::try_from(head.len()).map_err(io::Error::other)?;
        let head = FirstBatch::new(head);
        if self
            .lines_of(number, &head, head_bytes, head_bytes)?
            .is_none()
        {
            return Ok(false);
        }
        let seen = self.seq.saturating_sub(first_line);
        for leaf in leaves
            .iter()
            .skip(usize::try_from(seen).unwrap_or(usize::MAX))
        {
            if self.remembered.contains(&self.seq) {
                self.seals.push((self.seq, self.frontier.root()));
            }
            self.frontier.push(*leaf);
            self.head = *leaf;
            self.seq += 1;
            self.unseen_lines += 1;
        }
        self.batch = first_batch.saturating_add(header.batches);
        self.segments += 1;
        self.pruned += 1;
        self.torn += u64::from(header.rest.is_some());
        let told = &next.previous;
        let agrees = header.first_line == first_line
            && header.first_batch == first_batch
            && header.head_lines == seen
            && told.file == segment::file_name(number)
            && told.length == header.length
            && told.lines == header.lines
            && told.head == self.head.to_string()
            && next.rest == header.rest;
        if !agrees {
            let what = "it contradicts the lines around the segment".to_owned();
            self.problems.push(Problem {
                file: segment::stub_name(number),
                offset: 0,
                what,
            });
            return Ok(false);
        }
        match sum {
            Some(sum) if sum.to_string() == header.sha256 => Ok(true),
            Some(_) => {
                self.note_sum_problem(number);
                Ok(false)
            }
            None => {
                let what = format!(
                    "it does not name `{}`, whose content is pruned: restore a copy of this file",
                    segment::file_name(number)
                );
                self.note_head_problem(SEGMENTS_NAME, what);
                Ok(false)
            }
        }
    }

    /// Verifies one segment of `file_bytes` bytes. Returns whether to continue.
    fn segment(
        &mut self,
        number: u32,
        file: &dyn LogFile,
        file_bytes: u64,
        next: Option<&Segment>,
    ) -> io::Result<bool> {
        let valid_bytes = next.map_or(file_bytes, |next| next.previous.length.min(file_bytes));
        let lines_before = self.seq;
        let Some(sealed_to) = self.lines_of(number, file, file_bytes, valid_bytes)? else {
            return Ok(false);
        };
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
                    "{} bytes follow the last valid seal",
                    file_bytes.saturating_sub(sealed_to)
                );
                self.problem(number, sealed_to, what);
                Ok(false)
            }
            None => Ok(true),
        }
    }

    /// Verifies the lines in the first `valid_bytes` of a file. Returns the offset after the last
    /// seal among them, or `None` if something is wrong with them.
    fn lines_of(
        &mut self,
        number: u32,
        file: &dyn LogFile,
        file_bytes: u64,
        valid_bytes: u64,
    ) -> io::Result<Option<u64>> {
        let keys = match read_keys(file, file_bytes, self.keys.last())? {
            Ok(keys) => keys,
            Err((offset, fault)) => match self.keys.last().filter(|_| self.options.chain) {
                // With `chain`, only links count, whoever signed for new keys.
                Some(before) => before.clone(),
                None => {
                    self.problem(number, offset, fault.to_string());
                    return Ok(None);
                }
            },
        };
        self.keys.extend(self.seq, &keys);
        let mut joined = Joined {
            sealed_to: 0,
            sealed: (self.seq, self.head),
            lines_to: 0,
            first_seq: self.seq,
            rotated: false,
        };
        let from = pieces::FileFrom {
            keys: &keys,
            first_seq: self.seq,
        };
        let looked = pieces::look_at_all(file, valid_bytes, from, self.options, &mut |piece| {
            self.join(&mut joined, piece?)?;
            (self.progress)(self.bytes.saturating_add(joined.lines_to));
            Ok(())
        });
        if self.options.chain {
            // Only links were requested, and unsealed lines have them too.
            joined.sealed_to = joined.lines_to;
        }
        match looked.and_then(|()| joined.end(number)) {
            Ok(()) => {}
            Err(Stop::Bad(offset, fault)) => {
                self.problem(number, offset, fault.to_string());
                return Ok(None);
            }
            Err(Stop::Disk(error)) => return Err(error),
        }
        Ok(Some(joined.sealed_to))
    }

    /// Joins the findings in a piece to the lines before it.
    fn join(&mut self, joined: &mut Joined, piece: Piece) -> Result<(), Stop> {
        if let Some(first) = &piece.first {
            let behind = Behind {
                head: self.head,
                seq: self.seq,
                batch: self.batch,
                rotated: joined.rotated,
            };
            first
                .check(&behind, joined.first_seq)
                .map_err(|fault| Stop::Bad(first.offset, fault))?;
        }
        let mut subtrees = piece.subtrees.iter();
        for stretch in &piece.stretches {
            for (level, root) in subtrees.by_ref().take(stretch.subtrees) {
                if !self.frontier.push_subtree(*level, *root) {
                    return Err(Stop::Bad(stretch.end, Fault::TooManyLines));
                }
            }
            self.seq = self.seq.saturating_add(stretch.lines);
            let end = stretch.seal.as_ref().map_or(stretch.end, |seal| seal.end);
            if end.saturating_sub(joined.sealed_to) > BATCH_BYTES_MAX {
                // The exact line that exceeds the limit depends on where pieces end, so report the
                // start of the batch.
                (self.seq, self.head) = joined.sealed;
                return Err(Stop::Bad(joined.sealed_to, Fault::BatchLength));
            }
            joined.lines_to = stretch.end;
            if let Some(seal) = &stretch.seal {
                self.head = seal.prev;
                self.seal(seal, stretch.head)
                    .map_err(|fault| Stop::Bad(seal.offset, fault))?;
                joined.sealed_to = seal.end;
                joined.sealed = (self.seq, stretch.head);
                joined.lines_to = seal.end;
            }
            self.head = stretch.head;
            joined.rotated = stretch.rotated;
        }
        self.given_up.extend(piece.given_up);
        for (seq, sealed) in &piece.sealed {
            match sealed {
                SeenSealed::Committed(fields) => self.redactions.commit(*seq, fields),
                SeenSealed::Redacted(fields) => self.redactions.redact(fields),
            }
        }
        match piece.bad {
            Some((offset, fault)) => Err(Stop::Bad(offset, fault)),
            None => Ok(()),
        }
    }

    /// Checks that a seal covers exactly the lines before it.
    fn seal(&mut self, seal: &SeenSeal, leaf: Hash) -> Result<(), Fault> {
        let seq = self.seq;
        if let Some(says) = &seal.says {
            let root = self.frontier.root();
            if says.size != seq || says.root != root {
                return Err(Fault::SealRoot(seq));
            }
            if !says.verifies {
                return Err(Fault::SealSignature(seq));
            }
            self.seals.push((says.size, root));
            self.root = root;
            self.frontier.push(leaf);
        }
        self.batch += 1;
        self.seq += 1;
        Ok(())
    }

    /// Checks that a segment ends as the next one states.
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
                    && torn.length > 0
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
            self.problem(
                number,
                sealed_to,
                "its end differs from what the next segment states".to_owned(),
            );
        }
        Ok(agrees)
    }
}

/// How far a segment was joined.
struct Joined {
    /// Offset after the last seal.
    sealed_to: u64,
    /// Number of lines up to there and leaf hash of the last one; from the previous segment if
    /// there is no seal yet.
    sealed: (u64, Hash),
    /// Offset after the last line.
    lines_to: u64,
    /// Number of the segment's first line.
    first_seq: u64,
    /// Whether the last line was a rotation.
    rotated: bool,
}

impl Joined {
    /// Whether a segment may end there.
    fn end(&self, number: u32) -> Result<(), Stop> {
        if self.sealed_to == 0 {
            return Err(Stop::Bad(
                0,
                Fault::NothingSealed(segment::file_name(number)),
            ));
        }
        if self.sealed_to < self.lines_to {
            return Err(Stop::Bad(self.sealed_to, Fault::Unsealed));
        }
        Ok(())
    }
}

/// Why joining ended early.
enum Stop {
    /// An invalid line, or invalid bytes, at this offset.
    Bad(u64, Fault),
    /// An I/O error.
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
    Ok(hex(&Sha256::digest(disk::read_exact_at(
        file, from, length,
    )?)))
}

/// Returns the keys of a file: the keys in the log's first line, or the keys of the file before
/// unless this one begins with a rotation. The inner error is the offset and what is wrong with the
/// keys.
fn read_keys(
    file: &dyn LogFile,
    file_bytes: u64,
    before: Option<&LogIdentity>,
) -> io::Result<Result<LogIdentity, (u64, Fault)>> {
    let line_at = |offset: u64| -> io::Result<Result<Vec<u8>, LineError>> {
        let length = pieces::length_of_line(file, offset, file_bytes)?;
        let length = length.unwrap_or(file_bytes.saturating_sub(offset));
        if let Err(error) = pieces::check_length(length) {
            return Ok(Err(error));
        }
        let length = usize::try_from(length).map_err(io::Error::other)?;
        disk::read_exact_at(file, offset, length).map(Ok)
    };
    let first = match line_at(0)? {
        Ok(first) => first,
        Err(error) => return Ok(Err((0, error.into()))),
    };
    let Some(before) = before else {
        return Ok(LogIdentity::of_first_line(&first).map_err(|error| (0, error.into())));
    };
    let offset = u64::try_from(first.len())
        .unwrap_or(u64::MAX)
        .saturating_add(1)
        .min(file_bytes);
    // Any other problem of the line is reported when the line is checked.
    let Ok(second) = line_at(offset)? else {
        return Ok(Ok(before.clone()));
    };
    Ok(match line::parse(&second) {
        Ok(line) if line.kind == "rotate" => {
            rotation::check_line(&line, before).map_err(|error| (offset, error.into()))
        }
        _ => Ok(before.clone()),
    })
}
