//! Opens a ledger after a shutdown or a crash and decides whether it is clean, torn or corrupt.
//! Nothing is written before that is decided; a corrupt ledger is never repaired.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::heads::{Beside, Head, Heads, Remembered};
use super::line;
use super::log::{CHECKPOINT_FILE, Ledger, LedgerError, LogSigner, Position};
use super::note;
use super::prune::Missing;
use super::rotation::{self, LogIdentity, Timeline};
use super::scan::{self, LineReader, NextLine, RestKind, SealedLine, SegmentEnd};
use super::segment::{self, AUDIT_DIR, Kept, Rest, Segment};
use super::tree::{Hash, leaf_hash};
use crate::disk::{self, Access, Disk, Kind, LogFile};

/// Why a ledger was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corruption {
    /// The file.
    pub file: String,
    /// Offset of the first bad line.
    pub offset: u64,
    /// What is wrong.
    pub why: String,
    /// Number of lines that verify.
    pub valid_lines: u64,
    /// The last valid seal: size and root.
    pub last_seal: (u64, Hash),
}

impl fmt::Display for Corruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "ledger `{}` is corrupt at byte {}: {}; {} lines verify, the last valid seal has size \
                {} and root {}. Nothing was changed: keep a copy, then compare with a copy or \
                head you trust",
            self.file, self.offset, self.why, self.valid_lines, self.last_seal.0, self.last_seal.1
        )
    }
}

/// What recovery found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// The log ends at a seal.
    Clean,
    /// A batch was never sealed durably; its bytes stay frozen in the old segment, and a new
    /// segment was begun.
    Torn(Rest),
}

/// Numbers of all segments in the log's folder, in whichever form; they must be consecutive from 1.
///
/// # Errors
/// Returns the disk's error, or [`LedgerError::Corrupt`] for a gap.
pub fn segments(disk: &dyn Disk, dir: &Path) -> Result<Vec<u32>, LedgerError> {
    Ok(kept(disk, dir)?
        .into_iter()
        .map(|(number, _)| number)
        .collect())
}

/// As [`segments`], with the forms in which each segment is kept.
///
/// # Errors
/// As [`segments`].
pub fn kept(disk: &dyn Disk, dir: &Path) -> Result<Vec<(u32, Kept)>, LedgerError> {
    let fail = |source| LedgerError::Disk {
        path: dir.to_owned(),
        source,
    };
    let mut found: BTreeMap<u32, Kept> = BTreeMap::new();
    for entry in disk.read_dir(dir).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        if let Some((number, form)) = entry.name.to_str().and_then(segment::form_of) {
            let kept = found.entry(number).or_default();
            *kept = kept.and(form);
        }
    }
    for (expected, number) in (1..).zip(found.keys()) {
        if expected != *number {
            return Err(nothing_valid(
                expected,
                "this segment is missing".to_owned(),
            ));
        }
    }
    match found.last_key_value() {
        None => Err(nothing_valid(1, "the log does not exist".to_owned())),
        // Only closed segments are archived.
        Some((last, kept)) if !kept.plain => {
            let why = "this segment is missing, because only closed segments are archived and the \
                    segment before it is";
            Err(nothing_valid(last.saturating_add(1), why.to_owned()))
        }
        Some(_) => Ok(found.into_iter().collect()),
    }
}

/// Checks that the content of segment `first` and all later ones is present.
///
/// # Errors
/// Returns [`LedgerError::Pruned`] with all segments that were pruned.
pub fn demand_contents(
    disk: &dyn Disk,
    dir: &Path,
    kept: &[(u32, Kept)],
    first: u32,
) -> Result<(), LedgerError> {
    let pruned = kept
        .iter()
        .filter(|(number, kept)| *number >= first && kept.is_pruned());
    let pruned: Vec<u32> = pruned.map(|(number, _)| *number).collect();
    if pruned.is_empty() {
        Ok(())
    } else {
        Err(LedgerError::Pruned(Missing::of(disk, dir, &pruned)))
    }
}

fn corrupt(at: &Position, segment: u32, offset: u64, why: String) -> LedgerError {
    LedgerError::Corrupt(Box::new(Corruption {
        file: segment::file_name(segment),
        offset,
        why,
        valid_lines: at.seq,
        last_seal: (at.seq.saturating_sub(1), at.root),
    }))
}

fn nothing_valid(segment: u32, why: String) -> LedgerError {
    let file = segment::file_name(segment);
    LedgerError::Corrupt(Box::new(Corruption {
        file,
        offset: 0,
        why,
        valid_lines: 0,
        last_seal: (0, Hash::ZERO),
    }))
}

/// The keys in the first line of the log.
///
/// # Errors
/// Returns [`LedgerError::Corrupt`] if that is not a genesis line with keys, or the disk's error.
pub fn first_keys(disk: &dyn Disk) -> Result<LogIdentity, LedgerError> {
    let fail = |source| LedgerError::Disk {
        path: segment::path(1),
        source,
    };
    let file = segment::open_head(disk, Path::new(AUDIT_DIR), 1).map_err(fail)?;
    let keys = match LineReader::new(file.as_ref(), 0)
        .next_line()
        .map_err(fail)?
    {
        NextLine::Line(_, bytes) => {
            LogIdentity::of_first_line(&bytes).map_err(|error| error.to_string())
        }
        NextLine::End(_) | NextLine::TooLong(_) => Err("the first line is incomplete".to_owned()),
    };
    keys.map_err(|why| nothing_valid(1, why))
}

/// The keys of the log in `dir`, read from the first lines of every file. Checks hand-overs, but
/// not seals.
///
/// # Errors
/// Returns [`LedgerError::Corrupt`] if a file begins with the wrong lines, or the disk's error.
pub fn keys_over_time(disk: &dyn Disk, dir: &Path) -> Result<Timeline, LedgerError> {
    let mut keys = Timeline::default();
    for number in segments(disk, dir)? {
        let path = dir.join(segment::file_name(number));
        let fail = |source| LedgerError::Disk {
            path: path.clone(),
            source,
        };
        let file = segment::open_head(disk, dir, number).map_err(fail)?;
        let mut reader = LineReader::new(file.as_ref(), 0);
        let mut next = || -> Result<Vec<u8>, LedgerError> {
            match reader.next_line().map_err(fail)? {
                NextLine::Line(_, bytes) => Ok(bytes),
                _ => Err(nothing_valid(
                    number,
                    "its first two lines are incomplete".to_owned(),
                )),
            }
        };
        let bad = |why: &dyn fmt::Display| nothing_valid(number, why.to_string());
        let (first, second) = (next()?, next()?);
        let Some(before) = keys.last().cloned() else {
            keys = Timeline::from(
                0,
                LogIdentity::of_first_line(&first).map_err(|error| bad(&error))?,
            );
            continue;
        };
        let first = line::parse(&first).map_err(|error| bad(&error))?;
        let second = line::parse(&second).map_err(|error| bad(&error))?;
        if second.kind == "rotate" {
            keys.extend(
                first.seq,
                &rotation::check_line(&second, &before).map_err(|error| bad(&error))?,
            );
        }
    }
    Ok(keys)
}

/// What is known about a log from outside of it.
///
/// ```
/// # use std::{path::Path, sync::Arc};
/// # use spoolgate_ledger::{LedgerError, disk::Disk as _, memory::Memory, note};
/// use spoolgate_ledger::heads::{Heads, Remembered};
/// use spoolgate_ledger::recover::{self, Known};
/// # mod setup { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/setup.rs")); }
/// # let disk = Arc::new(Memory::default());
/// # let mut ledger = setup::create(&disk);
/// # let copy = Arc::new(Memory::clone(&disk));
/// # ledger.append(&[("note", r#"{"text":"later"}"#.to_owned())])?;
/// # ledger.publish_head()?;
/// # let signer = setup::signer(1);
/// # let checkpoint = disk.read(Path::new("audit/checkpoint"), note::NOTE_BYTES_MAX)?.bytes;
/// # let checkpoint = String::from_utf8(checkpoint)?;
///
/// // An older copy of the ledger is in place, but a later checkpoint was noted elsewhere.
/// let remembered = Vec::from_iter(Remembered::of_file("my note", &checkpoint));
/// let known = Known {
///     heads: Heads { remembered, ..Heads::default() },
///     ..Known::from(signer)
/// };
/// let opened = recover::open(copy, known, None, &mut |_| Ok(()));
/// assert!(matches!(opened, Err(LedgerError::Corrupt(found)) if found.why.contains("my note")));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Known {
    /// The keys in force, according to the keyring.
    pub current: LogSigner,
    /// The keys that an unfinished rotation was about to bring into force.
    pub pending: Option<LogSigner>,
    /// Remembered heads, besides the newest checkpoint.
    pub heads: Heads,
}

impl From<LogSigner> for Known {
    fn from(current: LogSigner) -> Known {
        Known {
            current,
            pending: None,
            heads: Heads::default(),
        }
    }
}

impl Known {
    /// Picks the pair of keys that is in force at the log's end.
    fn signer_for(self, end: &Position) -> Result<LogSigner, LedgerError> {
        let Known {
            current, pending, ..
        } = self;
        let held = current.verifier().to_string();
        let mut pairs = std::iter::once(current).chain(pending);
        pairs.find(|pair| pair.identity() == *end.keys).ok_or_else(|| {
            let why = format!(
                "its last keys are those of {}, but the keyring has those of {held}: one of the \
                    two is older than a rotation or belongs to another log; restore copies of \
                    both from the same moment",
                end.keys.log_key
            );
            corrupt(end, end.segment, end.offset, why)
        })
    }
}

/// Opens the ledger for writing. With `anchor`, a position from state.db, only the lines after it
/// are read and passed to `visit`; without it, all lines.
///
/// ```
/// # use std::sync::Arc;
/// # use spoolgate_ledger::disk::{Access, Disk as _};
/// # use spoolgate_ledger::memory::Memory;
/// use spoolgate_ledger::{recover, segment};
/// # mod setup { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/setup.rs")); }
/// # let disk = Arc::new(Memory::default());
/// # drop(setup::create(&disk));
/// # let signer = setup::signer(1);
///
/// // The machine stopped while a batch was written.
/// disk.open_log(&segment::path(1), Access::Append)?.append(b"{\"prev\":\"")?;
/// let mut kinds = Vec::new();
/// let (mut ledger, found) = recover::open(disk.clone(), signer, None, &mut |line| {
///     kinds.push(line.kind.clone());
///     Ok(())
/// })?;
/// assert_eq!(kinds, ["genesis", "seal"]);
/// assert!(matches!(found, recover::Found::Torn(rest) if rest.length == 9));
/// // The lines go on in a new segment, whose first line names the torn bytes.
/// ledger.append(&[("note", r#"{"text":"again"}"#.to_owned())])?;
/// assert_eq!((ledger.position().segment, ledger.position().seq), (2, 6));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns [`LedgerError::Corrupt`], which is never repaired; [`LedgerError::NotOnLog`] if the
/// anchor is not on this log; [`LedgerError::Pruned`] if the content of a segment that must be read
/// was pruned; or the disk's error.
pub fn open(
    disk: Arc<dyn Disk>,
    known: impl Into<Known>,
    anchor: Option<Position>,
    visit: &mut dyn FnMut(&SealedLine) -> io::Result<()>,
) -> Result<(Ledger, Found), LedgerError> {
    let mut opened = open_beside(disk, known.into(), anchor, None, visit)?;
    // The checkpoint is published without a sync, so a power cut leaves an empty or old one, and a
    // killed process leaves the previous one.
    opened.ledger.renew_checkpoint(&opened.published)?;
    Ok((opened.ledger, opened.found))
}

/// A ledger open for writing, with its checkpoint not renewed yet.
pub struct OpenedBeside {
    /// The ledger.
    pub ledger: Ledger,
    /// What recovery found.
    pub found: Found,
    /// The remembered heads, up to the one that was given up, that are not on the log; smallest
    /// first.
    pub missing: Vec<Remembered>,
    published: String,
}

/// As [`open`], but accepts that remembered heads up to `give_up` are missing, and returns them.
///
/// # Errors
/// As [`open`].
pub fn open_beside(
    disk: Arc<dyn Disk>,
    known: Known,
    anchor: Option<Position>,
    give_up: Option<&Head>,
    visit: &mut dyn FnMut(&SealedLine) -> io::Result<()>,
) -> Result<OpenedBeside, LedgerError> {
    let Looked {
        end,
        last,
        file,
        signer,
        missing,
        published,
    } = look(disk.as_ref(), known, anchor, give_up, Access::Append, visit)?;
    let position = end.position.clone();
    let rest = scan::examine_rest(file.as_ref(), &end).map_err(|source| LedgerError::Disk {
        path: segment::path(last),
        source,
    })?;
    if let RestKind::Torn(rest) = &rest {
        keep(disk.as_ref(), last, file.as_ref(), rest)?;
    }
    let mut ledger = Ledger::at(disk, signer, file, position.clone());
    let published = match published {
        Some(published) => published,
        None => ledger.move_checkpoint_aside().map(|()| String::new())?,
    };
    let found = match rest {
        RestKind::Nothing => Found::Clean,
        RestKind::Torn(rest) => {
            ledger.cut(Some(rest.clone()))?;
            Found::Torn(rest)
        }
        RestKind::Corrupt(bad) => return Err(corrupt(&position, last, bad.offset, bad.why)),
    };
    Ok(OpenedBeside {
        ledger,
        found,
        missing,
        published,
    })
}

/// Checks what [`open`] checks, and passes the same lines to `visit`, but changes nothing.
/// Unlike [`open`], it may run beside a gate, which may be writing a batch: with `is_written`, what
/// follows the last seal is not judged. Returns the end of the log.
///
/// # Errors
/// As [`open`].
pub fn inspect(
    disk: &dyn Disk,
    known: impl Into<Known>,
    anchor: Option<Position>,
    is_written: bool,
    visit: &mut dyn FnMut(&SealedLine) -> io::Result<()>,
) -> Result<Position, LedgerError> {
    let Looked {
        end, last, file, ..
    } = look(disk, known.into(), anchor, None, Access::Read, visit)?;
    if !is_written {
        let rest = scan::examine_rest(file.as_ref(), &end).map_err(|source| LedgerError::Disk {
            path: segment::path(last),
            source,
        })?;
        if let RestKind::Corrupt(bad) = rest {
            return Err(corrupt(&end.position, last, bad.offset, bad.why));
        }
    }
    Ok(end.position)
}

/// A log that was read up to its last seal and is not refused by any head.
struct Looked {
    end: SegmentEnd,
    /// Number of the last segment.
    last: u32,
    file: Box<dyn LogFile>,
    signer: LogSigner,
    missing: Vec<Remembered>,
    published: Option<String>,
}

fn look(
    disk: &dyn Disk,
    mut known: Known,
    anchor: Option<Position>,
    give_up: Option<&Head>,
    access: Access,
    visit: &mut dyn FnMut(&SealedLine) -> io::Result<()>,
) -> Result<Looked, LedgerError> {
    // Read before the log: beside a running gate, the log must include this head.
    let published = read_checkpoint(disk)?;
    let kept = kept(disk, Path::new(AUDIT_DIR))?;
    let last = kept.last().map_or(1, |(number, _)| *number);
    let first = anchor.as_ref().map_or(1, |anchor| anchor.segment);
    demand_contents(disk, Path::new(AUDIT_DIR), &kept, first)?;
    if access == Access::Append {
        settle(disk, last, anchor.as_ref())?;
    }
    let start = match anchor {
        Some(anchor) => {
            check_anchor(disk, &anchor)?;
            anchor
        }
        None => Position::start(first_keys(disk)?),
    };
    let mut heads = std::mem::take(&mut known.heads);
    heads.remembered.extend(
        published
            .as_deref()
            .and_then(|text| Remembered::of_file("the checkpoint", text)),
    );
    let mut heads = Beside::new(heads, &start);
    let mut keys = Timeline::from(start.seq, start.keys.as_ref().clone());
    let (end, file) = scan_from(disk, start, (last, access), &mut keys, &mut |line| {
        heads.see(line);
        visit(line)
    })?;
    let signer = known.signer_for(&end.position)?;
    let missing = heads.missing(&keys, &end.position);
    judge(&missing, give_up, &end.position)?;
    let missing = missing
        .into_iter()
        .map(|(remembered, _)| remembered)
        .collect();
    Ok(Looked {
        end,
        last,
        file,
        signer,
        missing,
        published,
    })
}

/// Refuses the log if a remembered head larger than `give_up` is not on it.
fn judge(
    missing: &[(Remembered, Option<String>)],
    give_up: Option<&Head>,
    end: &Position,
) -> Result<(), LedgerError> {
    // The largest head gives the best description of what is missing.
    let Some((remembered, there)) = missing.last() else {
        return Ok(());
    };
    if give_up.is_some_and(|head| remembered.head <= *head) {
        return Ok(());
    }
    let (from, Head { size, root }) = (&remembered.from, &remembered.head);
    let what = match there {
        _ if remembered.released_line().is_some() => format!(
            "{from} was released for line {}, but the log ends before line {}: its end was cut or \
                damaged, or it was replaced by an older copy",
            size.saturating_sub(1),
            end.seq
        ),
        Some(there) => format!("{from} of size {size} has root {root}, the log has {there}"),
        None => format!(
            "{from} covers {size} lines with root {root}, but the log's last seal covers {} with \
                root {}: its end was cut or damaged, or it was replaced by an older copy",
            end.seq.saturating_sub(1),
            end.root
        ),
    };
    let why = format!(
        "{what} (if you restored an older copy, continue with `spoolgate audit accept-rollback`)"
    );
    Err(corrupt(end, end.segment, end.offset, why))
}

/// Makes the log durable before it is read: a seal that is only in the page cache could otherwise
/// be published and then be lost in a power cut. An anchor reduces the work, because a position is
/// stored only after everything before it was made durable (the segment and its name in the
/// folder), or after a run of this function without that anchor. So if the anchor is in the last
/// segment, the folder is durable; if it is at the very end of that segment, the segment is durable
/// too. Nothing before the anchor's own line is read again.
fn settle(disk: &dyn Disk, last: u32, anchor: Option<&Position>) -> Result<(), LedgerError> {
    let path = segment::path(last);
    let fail = |source| LedgerError::Disk {
        path: path.clone(),
        source,
    };
    let file = disk.open_log(&path, Access::Append).map_err(fail)?;
    let anchor = anchor.filter(|anchor| anchor.segment == last);
    let length = file.len().map_err(fail)?;
    if anchor.is_none_or(|anchor| anchor.offset != length) {
        file.sync_data().map_err(fail)?;
    }
    if anchor.is_none() {
        disk.sync_dir(Path::new(AUDIT_DIR)).map_err(fail)?;
    }
    let line_of_anchor = |at: &Position| at.offset.saturating_sub(at.last_length.saturating_add(1));
    file.drop_cache(anchor.map_or(0, line_of_anchor))
        .map_err(fail)
}

/// Makes a torn rest durable. If the sync of its batch failed, its bytes and its length may be in
/// memory only. The next power cut would then remove them, and the file would not end as the next
/// segment states.
fn keep(disk: &dyn Disk, number: u32, file: &dyn LogFile, rest: &Rest) -> Result<(), LedgerError> {
    let path = segment::path(number);
    let fail = |source| LedgerError::Disk {
        path: path.clone(),
        source,
    };
    let length = usize::try_from(rest.length).unwrap_or(usize::MAX);
    let bytes = disk::read_exact_at(file, rest.offset, length).map_err(fail)?;
    disk.write_again(&path, rest.offset, &bytes).map_err(fail)
}

/// Scans all segments from `start` on and records which keys were in force from which line on.
fn scan_from(
    disk: &dyn Disk,
    mut start: Position,
    (last, access): (u32, Access),
    keys: &mut Timeline,
    visit: &mut dyn FnMut(&SealedLine) -> io::Result<()>,
) -> Result<(SegmentEnd, Box<dyn LogFile>), LedgerError> {
    let mut before: Option<SegmentEnd> = None;
    loop {
        let number = start.segment;
        let at = start.clone();
        let fail = |source: io::Error| match source.kind() {
            // The archive does not unpack to what was written.
            io::ErrorKind::InvalidData => corrupt(&at, number, 0, source.to_string()),
            _ => LedgerError::Disk {
                path: segment::path(number),
                source,
            },
        };
        // Only the last segment is written to.
        let file = if number == last {
            disk.open_log(&segment::path(number), access)
        } else {
            segment::open(disk, Path::new(AUDIT_DIR), number)
        };
        let file = file.map_err(fail)?;
        let mut header = None;
        let begins = start.offset == 0;
        let mut first = true;
        let end = scan::scan_segment(file.as_ref(), &start, &mut |line| {
            if first && begins && line.kind == "segment" {
                header = Some(line.body.clone());
            }
            first = false;
            visit(line)
        })
        .map_err(fail)?;
        if end.position.seq == start.seq && begins {
            // If the file before ended early, the damage is there.
            if let Some(bad) = before.and_then(|before| before.bad) {
                let why = format!("{}; the next segment does not continue from there", bad.why);
                return Err(corrupt(&start, number.saturating_sub(1), bad.offset, why));
            }
            let why = end
                .bad
                .map_or_else(|| "the file is empty".to_owned(), |bad| bad.why);
            return Err(corrupt(&start, number, 0, why));
        }
        if begins && number > 1 {
            check_header(
                disk,
                &start,
                before.as_ref().map(|before| &before.position),
                header.as_deref(),
            )?;
        }
        keys.extend(start.seq, &end.position.keys);
        if number == last {
            return Ok((end, file));
        }
        start = end.position.clone();
        before = Some(end);
        start.segment = start.segment.saturating_add(1);
        start.offset = 0;
        start.lines = 0;
    }
}

/// Checks that a remembered position is a sealed place of this log: the line before it has the hash
/// `head` and is a seal over the position's size and root, signed by the position's key. The caller
/// compares the keys in force at the end of the log with the keys it knows.
///
/// # Errors
/// Returns [`LedgerError::NotOnLog`] if it is not, or the disk's error.
pub fn check_anchor(disk: &dyn Disk, anchor: &Position) -> Result<(), LedgerError> {
    let path = segment::path(anchor.segment);
    let fail = |source| LedgerError::Disk {
        path: path.clone(),
        source,
    };
    let file = match segment::open(disk, Path::new(AUDIT_DIR), anchor.segment) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(LedgerError::NotOnLog),
        other => other.map_err(fail)?,
    };
    let whole = anchor.last_length.saturating_add(1);
    let Some(offset) = anchor
        .offset
        .checked_sub(whole)
        .filter(|_| file.len().is_ok_and(|n| n >= anchor.offset))
    else {
        return Err(LedgerError::NotOnLog);
    };
    let length = usize::try_from(whole)
        .unwrap_or(usize::MAX)
        .min(line::LINE_BYTES_MAX + 1);
    let bytes = disk::read_exact_at(file.as_ref(), offset, length).map_err(fail)?;
    match bytes.split_last() {
        Some((b'\n', line)) if leaf_hash(line) == anchor.head && seals(line, anchor) => Ok(()),
        _ => Err(LedgerError::NotOnLog),
    }
}

/// Whether a line is the seal just before a position.
fn seals(bytes: &[u8], place: &Position) -> bool {
    let Ok(line) = line::parse(bytes) else {
        return false;
    };
    let Ok(seal) = serde_json::from_str::<super::seal::Seal>(&line.body()) else {
        return false;
    };
    line.kind == "seal"
        && line.seq.checked_add(1) == Some(place.seq)
        && line.batch.checked_add(1) == Some(place.batch)
        && seal.size == line.seq
        && seal.verifies(
            &place.keys.seal_key,
            &place.keys.origin,
            &place.root,
            &line.prev,
        )
}

/// Checks that a segment's first line states exactly how the file before it ends.
fn check_header(
    disk: &dyn Disk,
    start: &Position,
    end: Option<&Position>,
    header: Option<&str>,
) -> Result<(), LedgerError> {
    let number = start.segment;
    let before = number.saturating_sub(1);
    let bad = |why: &str| Err(corrupt(start, number, 0, why.to_owned()));
    let Some(header) = header else {
        return bad("it does not begin with a segment line");
    };
    let Ok(header) = serde_json::from_str::<Segment>(header) else {
        return bad("its segment line cannot be read");
    };
    let told = &header.previous;
    let names_end = told.head == start.head.to_string()
        && told.file == segment::file_name(before)
        && end.is_some_and(|end| told.length == end.offset && told.lines == end.lines);
    if !names_end {
        return bad("its segment line states another end of the previous file");
    }
    let path = segment::path(before);
    let fail = |source| LedgerError::Disk {
        path: path.clone(),
        source,
    };
    let file = segment::open(disk, Path::new(AUDIT_DIR), before).map_err(fail)?;
    let file_bytes = file.len().map_err(fail)?;
    let length = header.previous.length;
    let end = SegmentEnd {
        position: Position {
            offset: length,
            ..start.clone()
        },
        file_bytes,
        bad: None,
    };
    let agrees = match (
        scan::examine_rest(file.as_ref(), &end).map_err(fail)?,
        &header.rest,
    ) {
        (RestKind::Nothing, None) => file_bytes == length,
        (RestKind::Torn(found), Some(told)) => found == *told,
        _ => false,
    };
    if !agrees {
        return Err(corrupt(
            start,
            before,
            length,
            "its end differs from what the next segment states".to_owned(),
        ));
    }
    Ok(())
}

/// Reads the newest checkpoint. Empty if there is no such file, and `None` if something is there
/// that is not a file or may not be read: who can put it there can also remove the checkpoint.
fn read_checkpoint(disk: &dyn Disk) -> Result<Option<String>, LedgerError> {
    let path = PathBuf::from(CHECKPOINT_FILE);
    let is_link = || {
        let found = disk.stat(&path).ok().flatten();
        found.is_some_and(|found| found.kind == Kind::Link)
    };
    match disk.read(&path, note::NOTE_BYTES_MAX) {
        Ok(file) if file.stat.kind == Kind::File => {
            Ok(Some(String::from_utf8_lossy(&file.bytes).into_owned()))
        }
        Ok(_) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Some(String::new())),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied || is_link() => Ok(None),
        Err(source) => Err(LedgerError::Disk { path, source }),
    }
}
