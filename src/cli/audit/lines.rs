//! The lines of a home's ledger, as commands read them.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, bail};
use spoolgate::gate::Record;
use spoolgate::home::HomeError;
use spoolgate::home::open::read_genesis;
use spoolgate::home::read::real_seams;
use spoolgate::host::disk::Disk;
use spoolgate::ledger::scan::{LineReader, NextLine};
use spoolgate::ledger::{line, recover, segment};

/// A line as it is shown.
pub struct Shown {
    /// Its number.
    pub seq: u64,
    /// What it is.
    pub kind: String,
    /// As it stands.
    pub text: String,
    /// What it says; none: a line of the ledger itself.
    pub record: Option<Record>,
}

/// The segments of a home's ledger.
pub fn segments_of(home: &Path) -> Result<(Arc<dyn Disk>, Vec<u32>)> {
    let disk = real_seams(home)?.disk;
    // Says whether there is a ledger at all.
    read_genesis(home, disk.as_ref())?;
    let numbers =
        recover::segments(disk.as_ref(), Path::new(segment::AUDIT_DIR)).map_err(HomeError::Ledger)?;
    Ok((disk, numbers))
}

/// Hands the lines of the segments from `first` on to `visit`, as they stand, sealed or not. Names the segments that
/// it could not look into because their contents were pruned.
pub fn each_line(home: &Path, first: u32, visit: &mut dyn FnMut(Shown)) -> Result<Vec<String>> {
    let (disk, numbers) = segments_of(home)?;
    let mut pruned = Vec::new();
    for number in numbers.into_iter().filter(|number| *number >= first) {
        let file = match segment::open(disk.as_ref(), Path::new(segment::AUDIT_DIR), number) {
            Err(error) if segment::is_pruned(&error) => {
                pruned.push(segment::file_name(number));
                continue;
            }
            other => other?,
        };
        let mut reader = LineReader::new(file.as_ref(), 0);
        while let NextLine::Line(_, bytes) = reader.next_line()? {
            let line = line::parse(&bytes).map_err(|error| {
                HomeError::Record(format!(
                    "`{}`: {error}; run `spoolgate audit verify`",
                    segment::file_name(number)
                ))
            })?;
            let record = Record::parse(line.kind, &line.body()).ok().flatten();
            let text = String::from_utf8_lossy(&bytes).into_owned();
            visit(Shown { seq: line.seq, kind: line.kind.to_owned(), text, record });
        }
    }
    Ok(pruned)
}

/// Lines that a request of this id, or of this number, is in: read from the first line on.
pub fn records(home: &Path, id: &str) -> Result<Vec<(u64, Record)>> {
    let seq: Option<u64> = id.parse().ok();
    let mut found = Vec::new();
    let pruned = each_line(home, 1, &mut |shown| {
        let by_request = matches!(&shown.record, Some(Record::Decision(decision))
            if decision.request_id.as_deref() == Some(id));
        if by_request || seq == Some(shown.seq) {
            found.extend(shown.record.map(|record| (shown.seq, record)));
        }
    })?;
    if found.is_empty() && !pruned.is_empty() {
        bail!(
            "it is in no line that is here; the contents of these segments were pruned: {}",
            pruned.join(", ")
        );
    }
    Ok(found)
}
