//! Reads the decisions of a ledger line by line from the first one, with the state of their time.
//!
//! A separate thread reads, checks and parses the lines.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use crate::replay_state::Past;
use spoolgate_gate::again::NotAgain;
use spoolgate_gate::record::Decision;
use spoolgate_gate::{Prepared, Record};
use spoolgate_home::error::HomeError;
use spoolgate_home::open::{Seams, read_genesis};
use spoolgate_home::read::{each_sealed_line, identity_of};
use spoolgate_home::sealed;
use spoolgate_ledger::disk::Disk;
use spoolgate_ledger::log::{Location, Position};
use spoolgate_ledger::scan::SealedLine;
use spoolgate_ledger::segment::AUDIT_DIR;

/// Maximum number of lines handed over at once.
const LINES_AT_ONCE: usize = 64;
/// Maximum number of waiting hand-overs. With the largest possible lines they hold 2 x 64 MiB.
const WAITING_MAX: usize = 2;
/// Maximum bytes of lines handed over at once.
const BYTES_AT_ONCE: u64 = 4 * 1024 * 1024;

/// A decision line and its request.
#[derive(Debug)]
pub struct Line {
    /// Its number.
    pub seq: u64,
    /// The decision.
    pub decision: Box<Decision>,
    /// Its request, or why it cannot be rebuilt.
    pub request: Result<Prepared, NotAgain>,
}

/// A step through a ledger, as a visitor sees it.
pub enum Step<'a> {
    /// A decision that is not folded yet.
    Before(&'a Line),
    /// A line that was just folded.
    After(u64, &'a Record),
}

/// A line on its way from the reader.
struct Parsed {
    seq: u64,
    location: Location,
    record: Record,
    request: Option<Result<Prepared, NotAgain>>,
}

/// Reads a ledger from its first line and passes each decision to `visit` before it is folded.
///
/// Calls `progress` with the number of bytes of lines read so far. Takes no lock and changes
/// nothing.
///
/// # Errors
/// Returns [`HomeError`] if the ledger cannot be read, or the error of `visit`.
pub fn each_decision(
    root: &Path,
    seams: &Seams,
    progress: &mut dyn FnMut(u64),
    visit: &mut dyn FnMut(&mut Past, &Line) -> Result<(), HomeError>,
) -> Result<(), HomeError> {
    each_step(root, seams, progress, &mut |past, step| match step {
        Step::Before(line) => visit(past, line),
        Step::After(..) => Ok(()),
    })
}

/// Like [`each_decision`], but also passes each line to `visit` after it is folded, with the state
/// after it.
///
/// # Errors
/// Returns [`HomeError`] if the ledger cannot be read, or the error of `visit`.
pub fn each_step(
    root: &Path,
    seams: &Seams,
    progress: &mut dyn FnMut(u64),
    visit: &mut dyn FnMut(&mut Past, Step<'_>) -> Result<(), HomeError>,
) -> Result<(), HomeError> {
    let disk = Arc::clone(&seams.disk);
    let identity = identity_of(&read_genesis(root, disk.as_ref())?)?;
    let (sender, receiver) = sync_channel::<Vec<Parsed>>(WAITING_MAX);
    thread::scope(|scope| {
        let reader = thread::Builder::new().spawn_scoped(scope, || {
            let sender = sender;
            let mut reading = Reading {
                disk: disk.as_ref(),
                sender,
                parsed: Vec::new(),
                bytes: 0,
            };
            let mut take = |line: &SealedLine| reading.line(line);
            let read = each_sealed_line(disk.as_ref(), Position::start(identity), &mut take);
            reading.hand_over().and(read.map(drop))
        });
        let reader = reader.map_err(|source| HomeError::disk(Path::new(AUDIT_DIR), source))?;
        let folded = fold_all(
            Past::new(Arc::clone(&disk), false)?,
            receiver.into_iter().flatten(),
            progress,
            visit,
        );
        // If folding fails, the reader fails too, because nobody takes its lines; report the cause.
        let read = reader
            .join()
            .unwrap_or_else(|_| Err(HomeError::Record("the reader ended".to_owned())));
        match (folded, read) {
            (Err(error), _) => Err(error),
            (Ok(()), read) => read,
        }
    })
}

fn fold_all(
    mut past: Past,
    lines: impl Iterator<Item = Parsed>,
    progress: &mut dyn FnMut(u64),
    visit: &mut dyn FnMut(&mut Past, Step<'_>) -> Result<(), HomeError>,
) -> Result<(), HomeError> {
    let mut bytes: u64 = 0;
    for Parsed {
        seq,
        location,
        record,
        request,
    } in lines
    {
        bytes = bytes.saturating_add(location.length).saturating_add(1);
        let record = match (record, request) {
            (record @ Record::Market(_), _) => {
                past.hold(seq, Arc::new(record));
                continue;
            }
            (Record::Decision(decision), Some(request)) => {
                let line = Line {
                    seq,
                    decision,
                    request,
                };
                visit(&mut past, Step::Before(&line))?;
                progress(bytes);
                Record::Decision(line.decision)
            }
            (record, _) => record,
        };
        while let Some((seq, held)) = past.fold_next_held()? {
            visit(&mut past, Step::After(seq, &held))?;
        }
        past.fold(seq, location, &record)?;
        visit(&mut past, Step::After(seq, &record))?;
    }
    Ok(())
}

/// State of the reading thread: parses lines and hands them over in parts.
struct Reading<'a> {
    disk: &'a dyn Disk,
    sender: SyncSender<Vec<Parsed>>,
    parsed: Vec<Parsed>,
    bytes: u64,
}

impl Reading<'_> {
    fn line(&mut self, line: &SealedLine) -> Result<(), HomeError> {
        let record = Record::parse(&line.kind, &line.body)
            .map_err(|error| HomeError::Record(format!("line {}: {error}", line.seq)))?;
        let Some(record) = record else { return Ok(()) };
        let request = match &record {
            Record::Decision(decision) => Some(sealed::request(self.disk, decision)?),
            _ => None,
        };
        self.bytes = self.bytes.saturating_add(line.length);
        self.parsed.push(Parsed {
            seq: line.seq,
            location: line.location(),
            record,
            request,
        });
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
