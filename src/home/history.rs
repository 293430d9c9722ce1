//! What was decided, with what was known then: the ledger read line by line, from the first on.
//! Lines are read, checked and parsed on a thread of their own.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

use super::open::{HomeError, Seams, read_genesis};
use super::past::Past;
use super::read::{each_sealed_line, identity_of};
use super::sealed;
use crate::gate::again::NotAgain;
use crate::gate::record::Decision;
use crate::gate::{Prepared, Record};
use crate::host::disk::Disk;
use crate::ledger::log::{Location, Position};
use crate::ledger::scan::SealedLine;

/// Lines that are handed over at once.
const LINES_AT_ONCE: usize = 64;
/// Hand-overs that may wait. With the largest lines there are, 2 x 64 MiB.
const WAITING_MAX: usize = 2;
/// Most bytes of lines that are handed over at once.
const BYTES_AT_ONCE: u64 = 4 * 1024 * 1024;

/// A decision line, and the request that it is on.
#[derive(Debug)]
pub struct Line {
    /// Its number.
    pub seq: u64,
    /// What it says.
    pub decision: Box<Decision>,
    /// Its request; or why that cannot be made again.
    pub request: Result<Prepared, NotAgain>,
}

/// What a visitor of a ledger is shown.
pub enum Step<'a> {
    /// A decision that is not folded yet.
    Before(&'a Line),
    /// A line that was folded just now.
    After(u64, &'a Record),
}

/// A line on its way from the reader.
struct Parsed {
    seq: u64,
    location: Location,
    record: Record,
    request: Option<Result<Prepared, NotAgain>>,
}

/// Reads a ledger from its first line on and shows `visit` each decision before it is folded. `progress` hears how many
/// bytes of lines were read. Takes no lock and changes nothing.
///
/// # Errors
/// [`HomeError`]: of the ledger, or what `visit` says.
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

/// The same, and `visit` sees each line behind its fold as well: what the state was after it.
///
/// # Errors
/// [`HomeError`]: of the ledger, or what `visit` says.
pub fn each_step(
    root: &Path,
    seams: &Seams,
    progress: &mut dyn FnMut(u64),
    visit: &mut dyn FnMut(&mut Past, Step<'_>) -> Result<(), HomeError>,
) -> Result<(), HomeError> {
    let disk = Arc::clone(&seams.disk);
    let identity = identity_of(&read_genesis(root, disk.as_ref())?)?;
    let (sender, receiver) = sync_channel::<Vec<Parsed>>(WAITING_MAX);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let sender = sender;
            let mut reading = Reading { disk: disk.as_ref(), sender, parsed: Vec::new(), bytes: 0 };
            let mut take = |line: &SealedLine| reading.line(line);
            let read = each_sealed_line(disk.as_ref(), Position::start(identity), &mut take);
            reading.hand_over().and(read.map(drop))
        });
        let folded =
            fold_all(Past::new(Arc::clone(&disk), false)?, receiver.into_iter().flatten(), progress, visit);
        // What the reader met comes first: the lines before it were good.
        let read = reader.join().unwrap_or_else(|_| Err(HomeError::Record("the reader ended".to_owned())));
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
    for Parsed { seq, location, record, request } in lines {
        bytes = bytes.saturating_add(location.length).saturating_add(1);
        let record = match (record, request) {
            (record @ Record::Market(_), _) => {
                past.hold(seq, Arc::new(record));
                continue;
            }
            (Record::Decision(decision), Some(request)) => {
                let line = Line { seq, decision, request };
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

/// The reader's end.
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
        self.parsed.push(Parsed { seq: line.seq, location: line.location(), record, request });
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
