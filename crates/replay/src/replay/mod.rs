//! `audit replay`: recomputes every line of a ledger from the audit folder alone, and compares it
//! byte for byte.
//!
//! Each line is recomputed on the state folded from the recorded lines before it. If every line
//! follows from its predecessors and its recorded inputs, then by induction the recorded history is
//! the computed one.

mod answers;
mod decisions;
mod difference;
mod folder;
mod inputs;
mod recompute;
mod scout;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;

use serde::Serialize;

pub use self::answers::{AnswerFiles, AnswersReport};
pub use self::difference::Difference;
use self::folder::AuditFolder;
pub(crate) use self::recompute::OTHER_SEMANTICS;
use self::recompute::{RangeReport, recompute};
use self::scout::{Parsed, Range, Scout};
use spoolgate_home::error::HomeError;
use spoolgate_home::open::read_genesis;
use spoolgate_home::read::{each_sealed_line, identity_of};
use spoolgate_ledger::disk::Disk;
use spoolgate_ledger::log::Position;
use spoolgate_ledger::recover::segments;
use spoolgate_ledger::rotation::LogIdentity;
use spoolgate_ledger::scan::{RestKind, SealedLine, SegmentEnd, examine_rest};
use spoolgate_ledger::segment;

/// The reader hands over a chunk once it has this many lines or bytes.
const LINES_AT_ONCE: usize = 64;
const BYTES_AT_ONCE: u64 = 1024 * 1024;
/// How many chunks may wait. With the largest possible lines and their texts, this takes 3 x 65
/// MiB.
const WAITING_MAX: usize = 2;
/// Maximum number of names in a list of what is missing.
const MISSING_MAX: usize = 20;

/// Options of a replay.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Number of threads: one reads, folds and recomputes in turn; with two, one reads ahead; each
    /// further thread recomputes. The report does not depend on it.
    pub threads: usize,
    /// Files to compare with the answers in the ledger.
    pub answers: Option<AnswerFiles>,
}

/// Result for one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Recomputed with the same bytes.
    Recomputed,
    /// Records something outside, and has the bytes that such a record must have.
    Record,
    /// Cannot be recomputed, but is a possible line of its kind.
    NotAgain,
    /// Differs from what it should be.
    Differs,
    /// Comes after a line that does not fit the lines before it.
    Unreached,
}

/// Number of lines by result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts(BTreeMap<(Class, Cow<'static, str>), u64>);

impl Counts {
    fn add(&mut self, class: Class, what: impl Into<Cow<'static, str>>) {
        let count = self.0.entry((class, what.into())).or_default();
        *count = count.saturating_add(1);
    }

    fn merge(&mut self, other: Counts) {
        for (key, more) in other.0 {
            let count = self.0.entry(key).or_default();
            *count = count.saturating_add(more);
        }
    }
}

/// A row of the table; every line of the ledger is counted in exactly one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The result for these lines.
    pub class: Class,
    /// What the lines are, or why they cannot be recomputed.
    pub what: String,
    /// Number of lines.
    pub lines: u64,
}

/// A version of the program and the first line that it wrote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Written {
    /// The line.
    pub from: u64,
    /// The version.
    pub program: String,
}

/// Result of a replay.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The log's name.
    pub origin: String,
    /// Number of lines.
    pub lines: u64,
    /// Number of decision lines.
    pub decisions: u64,
    /// Number of decisions whose answers were restored.
    pub answers: u64,
    /// The results for the lines. Their numbers add up to `lines`.
    pub rows: Vec<Row>,
    /// Number of lines that were not recomputed because a version of the program with other
    /// semantics decided them.
    pub of_other_semantics: u64,
    /// Number of lines that differ.
    pub differences: u64,
    /// The first line that differs.
    pub first: Option<Difference>,
    /// Where and why following the lines ended early.
    pub broken: Option<String>,
    /// Number of blobs and rulebooks that are missing or damaged.
    pub missing: u64,
    /// The first of these files.
    pub missing_files: Vec<String>,
    /// Lines whose answer cannot be restored although nothing is missing.
    pub unanswered: Vec<u64>,
    /// The program versions that wrote the lines.
    pub written_by: Vec<Written>,
    /// The version of this program.
    pub recomputed_by: String,
    /// Result of comparing files with the answers of lines.
    pub files: Option<AnswersReport>,
}

impl Report {
    /// Returns whether nothing differs, nothing is missing, and no answer was changed.
    pub fn is_same(&self) -> bool {
        self.differences == 0
            && self.broken.is_none()
            && self.missing == 0
            && self.unanswered.is_empty()
            && self
                .files
                .as_ref()
                .is_none_or(|files| files.changed == 0 && files.unknown == 0)
    }
}

/// Recomputes the ledger whose audit folder is `dir` on `disk`; nothing else is read. `progress`
/// receives the number of bytes of lines done.
///
/// # Errors
/// Returns [`HomeError`] if the ledger does not verify or the disk fails. Lines that differ are not
/// an error.
pub fn replay(
    disk: Arc<dyn Disk>,
    dir: &Path,
    options: &Options,
    progress: &mut dyn FnMut(u64),
) -> Result<Report, HomeError> {
    let disk: Arc<dyn Disk> = Arc::new(AuditFolder::new(disk, dir));
    let genesis = read_genesis(dir, disk.as_ref())?;
    let origin = genesis.origin.clone();
    let identity = identity_of(&genesis)?;
    let mut total = Total::default();
    if options.threads <= 1 {
        in_turn(&disk, &identity, options, &mut total, progress)?;
    } else {
        at_once(&disk, &identity, options, &mut total, progress)?;
    }
    Ok(total.report(origin, options.answers.as_ref()))
}

/// Passes all lines on. After the last seal, only a torn batch may follow.
fn read_all(
    disk: &dyn Disk,
    identity: &LogIdentity,
    visit: &mut dyn FnMut(&SealedLine) -> Result<(), HomeError>,
) -> Result<(), HomeError> {
    let position = each_sealed_line(disk, Position::start(identity.clone()), visit)?;
    let dir = Path::new(segment::AUDIT_DIR);
    let last = segments(disk, dir)?.last().copied().unwrap_or(1);
    // A running gate may have begun another segment meanwhile.
    if position.segment != last {
        return Ok(());
    }
    let path = segment::path(last);
    let fail = |source| HomeError::disk(&path, source);
    let file = segment::open(disk, dir, last).map_err(fail)?;
    let file_bytes = file.len().map_err(fail)?;
    let seq = position.seq;
    let end = SegmentEnd {
        position,
        file_bytes,
        bad: None,
    };
    match examine_rest(file.as_ref(), &end).map_err(fail)? {
        RestKind::Corrupt(bad) => Err(HomeError::Record(format!(
            "`{}`: the bytes after line {seq}, from byte {} on, are not a torn batch{}; run \
                `spoolgate audit verify`",
            path.display(),
            bad.offset,
            bad.why
        ))),
        RestKind::Nothing | RestKind::Torn(_) => Ok(()),
    }
}

fn in_turn(
    disk: &Arc<dyn Disk>,
    identity: &LogIdentity,
    options: &Options,
    total: &mut Total,
    progress: &mut dyn FnMut(u64),
) -> Result<(), HomeError> {
    let mut scout = Scout::new(Arc::clone(disk))?;
    let answers = options.answers.as_ref();
    read_all(disk.as_ref(), identity, &mut |line| {
        if total.follows(&scout, &line.kind)
            && let Some(range) = scout.line(Parsed::new(disk.as_ref(), line)?)?
        {
            total.add(recompute(&range, disk.as_ref(), answers)?, progress);
        }
        Ok(())
    })?;
    if let Some(range) = scout.rest() {
        total.add(recompute(&range, disk.as_ref(), answers)?, progress);
    }
    total.broken = scout.broken().map(str::to_owned);
    Ok(())
}

fn at_once(
    disk: &Arc<dyn Disk>,
    identity: &LogIdentity,
    options: &Options,
    total: &mut Total,
    progress: &mut dyn FnMut(u64),
) -> Result<(), HomeError> {
    let workers = options.threads.saturating_sub(2);
    let (sender, receiver) = sync_channel::<Vec<Parsed>>(WAITING_MAX);
    // At most this many ranges wait: one per worker.
    let (ranges, queue) = sync_channel::<Range>(workers.max(1));
    let (results, done) = channel::<Result<RangeReport, HomeError>>();
    let queue = Mutex::new(queue);
    thread::scope(|scope| {
        let fail = |source| HomeError::disk(Path::new(segment::AUDIT_DIR), source);
        let reader = thread::Builder::new().spawn_scoped(scope, || {
            let mut reading = Reading {
                disk: disk.as_ref(),
                sender,
                parsed: Vec::new(),
                bytes: 0,
            };
            let read = read_all(disk.as_ref(), identity, &mut |line| reading.line(line));
            reading.hand_over().and(read)
        });
        let reader = reader.map_err(fail)?;
        for _ in 0..workers {
            let (queue, results) = (&queue, results.clone());
            let work = move || work(queue, &results, disk.as_ref(), options.answers.as_ref());
            thread::Builder::new()
                .spawn_scoped(scope, work)
                .map_err(fail)?;
        }
        drop(results);
        let mut ahead = Ahead {
            disk,
            options,
            ranges,
            done: &done,
            workers,
            waiting: 0,
        };
        let folded = ahead.fold(receiver, total, progress);
        drop(ahead);
        // An error of folding is about an earlier line than an error of the reader.
        let read = reader
            .join()
            .unwrap_or_else(|_| Err(HomeError::Record("the reader ended".to_owned())));
        match (folded, read) {
            (Err(error), _) => Err(error),
            (Ok(()), read) => read,
        }
    })
}

/// Recomputes ranges until there are no more.
fn work(
    queue: &Mutex<Receiver<Range>>,
    results: &Sender<Result<RangeReport, HomeError>>,
    disk: &dyn Disk,
    answers: Option<&AnswerFiles>,
) {
    loop {
        let Ok(Ok(range)) = queue.lock().map(|queue| queue.recv()) else {
            return;
        };
        if results.send(recompute(&range, disk, answers)).is_err() {
            return;
        }
    }
}

/// The thread that folds ahead. It recomputes a range itself if the workers are busy.
struct Ahead<'a> {
    disk: &'a Arc<dyn Disk>,
    options: &'a Options,
    ranges: SyncSender<Range>,
    done: &'a Receiver<Result<RangeReport, HomeError>>,
    workers: usize,
    /// Ranges that were handed over and are not done.
    waiting: usize,
}

impl Ahead<'_> {
    fn fold(
        &mut self,
        lines: Receiver<Vec<Parsed>>,
        total: &mut Total,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), HomeError> {
        let mut scout = Scout::new(Arc::clone(self.disk))?;
        for parsed in lines.into_iter().flatten() {
            if total.follows(&scout, &parsed.kind)
                && let Some(range) = scout.line(parsed)?
            {
                self.hand_out(range, total, progress)?;
            }
        }
        if let Some(range) = scout.rest() {
            self.hand_out(range, total, progress)?;
        }
        total.broken = scout.broken().map(str::to_owned);
        while self.waiting > 0 {
            self.waiting = self.waiting.saturating_sub(1);
            let report = self.done.recv();
            total.add(
                report.unwrap_or_else(|_| Err(HomeError::Record("a worker ended".to_owned())))?,
                progress,
            );
        }
        Ok(())
    }

    fn hand_out(
        &mut self,
        range: Range,
        total: &mut Total,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), HomeError> {
        for report in self.done.try_iter() {
            self.waiting = self.waiting.saturating_sub(1);
            total.add(report?, progress);
        }
        let own = if self.workers == 0 {
            Err(TrySendError::Full(range))
        } else {
            self.ranges.try_send(range)
        };
        match own {
            Ok(()) => self.waiting = self.waiting.saturating_add(1),
            Err(TrySendError::Full(range) | TrySendError::Disconnected(range)) => {
                let answers = self.options.answers.as_ref();
                total.add(recompute(&range, self.disk.as_ref(), answers)?, progress);
            }
        }
        Ok(())
    }
}

/// The state of the reading thread.
struct Reading<'a> {
    disk: &'a dyn Disk,
    sender: SyncSender<Vec<Parsed>>,
    parsed: Vec<Parsed>,
    bytes: u64,
}

impl Reading<'_> {
    fn line(&mut self, line: &SealedLine) -> Result<(), HomeError> {
        let parsed = Parsed::new(self.disk, line)?;
        let text = parsed.payload.as_ref().map_or(0, String::len);
        let text = u64::try_from(text).unwrap_or(u64::MAX);
        self.bytes = self.bytes.saturating_add(line.length).saturating_add(text);
        self.parsed.push(parsed);
        if self.parsed.len() >= LINES_AT_ONCE || self.bytes >= BYTES_AT_ONCE {
            return self.hand_over();
        }
        Ok(())
    }

    fn hand_over(&mut self) -> Result<(), HomeError> {
        self.bytes = 0;
        let sent = self.sender.send(std::mem::take(&mut self.parsed));
        sent.map_err(|_| HomeError::Record("reading was given up".to_owned()))
    }
}

/// Sum over the ranges so far; it does not depend on their order.
#[derive(Debug, Default)]
struct Total {
    sum: RangeReport,
    broken: Option<String>,
    lines: u64,
}

impl Total {
    /// Counts a line and returns whether it can be followed. If not, counts it as unreached.
    fn follows(&mut self, scout: &Scout, kind: &str) -> bool {
        self.lines = self.lines.saturating_add(1);
        let follows = scout.broken().is_none();
        if !follows {
            self.sum.counts.add(Class::Unreached, kind.to_owned());
        }
        follows
    }

    fn add(&mut self, report: RangeReport, progress: &mut dyn FnMut(u64)) {
        let sum = &mut self.sum;
        sum.counts.merge(report.counts);
        sum.first = match (sum.first.take(), report.first) {
            (Some(a), Some(b)) => Some(if a.line <= b.line { a } else { b }),
            (a, b) => a.or(b),
        };
        sum.decisions = sum.decisions.saturating_add(report.decisions);
        sum.answers = sum.answers.saturating_add(report.answers);
        sum.answered.merge(report.answered);
        sum.missing.extend(report.missing);
        sum.unanswered.extend(report.unanswered);
        sum.of_other_semantics = sum
            .of_other_semantics
            .saturating_add(report.of_other_semantics);
        sum.programs.extend(report.programs);
        sum.bytes = sum.bytes.saturating_add(report.bytes);
        progress(sum.bytes);
    }

    fn report(self, origin: String, files: Option<&AnswerFiles>) -> Report {
        let RangeReport {
            counts,
            first,
            decisions,
            answers,
            answered,
            missing,
            unanswered,
            of_other_semantics,
            programs,
            ..
        } = self.sum;
        let rows: Vec<Row> = counts
            .0
            .into_iter()
            .map(|((class, what), lines)| Row {
                class,
                what: what.into_owned(),
                lines,
            })
            .collect();
        let differing = rows.iter().filter(|row| row.class == Class::Differs);
        let differences = differing.fold(0_u64, |sum, row| sum.saturating_add(row.lines));
        let written_by = programs
            .into_iter()
            .map(|(from, program)| Written { from, program });
        Report {
            origin,
            lines: self.lines,
            decisions,
            answers,
            rows,
            of_other_semantics,
            differences,
            first,
            broken: self.broken,
            missing: u64::try_from(missing.len()).unwrap_or(u64::MAX),
            missing_files: missing.into_iter().take(MISSING_MAX).collect(),
            unanswered: first_few(unanswered),
            written_by: written_by.collect(),
            recomputed_by: spoolgate_wire::VERSION.to_owned(),
            files: files.map(|files| files.report(&answered)),
        }
    }
}

fn first_few(lines: BTreeSet<u64>) -> Vec<u64> {
    lines.into_iter().take(MISSING_MAX).collect()
}
