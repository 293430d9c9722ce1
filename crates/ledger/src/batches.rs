//! Reads the sealed batches of a segment for look-ups. It checks only that each line names the line
//! before it and that each batch ends in a seal; it computes nothing that would prove either. A
//! batch that is still being written or was never sealed is not returned.

use std::io;

use super::fault::Fault;
use super::line::{self, LineError};
use super::log::{Location, Position};
use super::scan::{BATCH_BYTES_MAX, BadLine, LineReader, NextLine};
use super::seal::Seal;
use super::tree::{Hash, leaf_hash};
use crate::disk::LogFile;

/// A place after a seal, or the start of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The segment.
    pub segment: u32,
    /// Offset in its file.
    pub offset: u64,
    /// What must follow. `None` if any first line of the segment is accepted.
    pub next: Option<Follows>,
}

/// What the next line must state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Follows {
    /// Its number.
    pub seq: u64,
    /// Number of its batch.
    pub batch: u64,
    /// Leaf hash of the line before it.
    pub head: Hash,
}

impl Mark {
    /// The place before the first line of a segment.
    pub fn start_of(segment: u32) -> Mark {
        Mark {
            segment,
            offset: 0,
            next: None,
        }
    }
}

impl From<&Position> for Mark {
    fn from(position: &Position) -> Mark {
        let next = Follows {
            seq: position.seq,
            batch: position.batch,
            head: position.head,
        };
        Mark {
            segment: position.segment,
            offset: position.offset,
            next: Some(next),
        }
    }
}

/// A line of a sealed batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its number.
    pub seq: u64,
    /// Its kind.
    pub kind: String,
    /// Its location.
    pub location: Location,
    /// Its text, unchanged.
    pub text: String,
}

impl Line {
    /// Makes a line from bytes of the ledger.
    ///
    /// # Errors
    /// Returns [`LineError`] if the bytes are not a ledger line.
    pub fn parse(bytes: Vec<u8>, location: Location) -> Result<Line, LineError> {
        let line = line::parse(&bytes)?;
        let (seq, kind) = (line.seq, line.kind.to_owned());
        // A line that was parsed is UTF-8.
        let text = String::from_utf8(bytes).map_err(|_| LineError::Prefix)?;
        Ok(Line {
            seq,
            kind,
            location,
            text,
        })
    }

    /// Its body as a JSON object.
    pub fn body(&self) -> String {
        line::parse_prefix(&self.text)
            .map(|line| line.body())
            .unwrap_or_default()
    }
}

/// How a segment ends, as far as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// After a seal.
    Sealed,
    /// Inside a batch: the batch is still being written, or the gate was killed while writing it.
    Unsealed,
    /// With a complete line that does not continue the log.
    Bad(BadLine),
}

/// The batches of a segment from a mark on.
///
/// ```
/// use std::path::Path;
///
/// use spoolgate_ledger::batches::{Batches, Ending, Mark};
/// use spoolgate_ledger::{folder::Folder, segment};
///
/// let folder = Folder::open("testdata/log")?;
/// let file = segment::open(&folder, Path::new(""), 1)?;
/// let mut batches = Batches::new(&*file, Mark::start_of(1));
/// batches.next_batch()?;
/// let second = batches.next_batch()?.ok_or("the log has one batch only")?;
/// assert_eq!(Vec::from_iter(second.iter().map(|line| &*line.kind)), ["tick", "decision", "seal"]);
/// while batches.next_batch()?.is_some() {}
/// assert_eq!(*batches.ending(), Ending::Sealed);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Batches<'a> {
    reader: LineReader<'a>,
    mark: Mark,
    ending: Ending,
}

impl<'a> Batches<'a> {
    /// Reads from `mark` on.
    pub fn new(file: &'a dyn LogFile, mark: Mark) -> Batches<'a> {
        Batches {
            reader: LineReader::new(file, mark.offset),
            mark,
            ending: Ending::Sealed,
        }
    }

    /// The place after the last batch that was returned.
    pub fn mark(&self) -> &Mark {
        &self.mark
    }

    /// Why there was no further batch.
    pub fn ending(&self) -> &Ending {
        &self.ending
    }

    /// Returns the next batch. `None` if there is no further one; [`Batches::ending`] then says
    /// why.
    ///
    /// # Errors
    /// Returns an error if reading fails.
    pub fn next_batch(&mut self) -> io::Result<Option<Vec<Line>>> {
        let mut batch = Vec::new();
        let mut at = self.mark.clone();
        loop {
            let (offset, bytes) = match self.reader.next_line()? {
                NextLine::Line(offset, bytes) => (offset, bytes),
                NextLine::End(0) if batch.is_empty() => return self.end(Ending::Sealed),
                NextLine::End(_) => return self.end(Ending::Unsealed),
                NextLine::TooLong(offset) => {
                    let why = format!("a line is longer than {} bytes", line::LINE_BYTES_MAX);
                    return self.end(Ending::Bad(BadLine { offset, why }));
                }
            };
            match self.take(&mut at, offset, bytes) {
                Ok((line, is_seal)) => {
                    batch.push(line);
                    if is_seal {
                        self.mark = at;
                        return Ok(Some(batch));
                    }
                }
                Err(fault) => {
                    let why = fault.to_string();
                    return self.end(Ending::Bad(BadLine { offset, why }));
                }
            }
        }
    }

    fn end(&mut self, ending: Ending) -> io::Result<Option<Vec<Line>>> {
        self.ending = ending;
        Ok(None)
    }

    /// Takes a line if it follows `at`, and moves `at` past it.
    fn take(&self, at: &mut Mark, offset: u64, bytes: Vec<u8>) -> Result<(Line, bool), Fault> {
        let text = String::from_utf8(bytes)?;
        let line = line::parse_prefix(&text).ok_or(LineError::Prefix)?;
        let follows = at
            .next
            .get_or_insert(Follows {
                seq: line.seq,
                batch: line.batch,
                head: line.prev,
            })
            .clone();
        if (line.seq, line.batch, line.prev) != (follows.seq, follows.batch, follows.head) {
            return Err(Fault::Order(line.seq));
        }
        // A change to any byte before a seal breaks the chain up to the seal. Nothing protects the
        // seal itself here, so it is parsed in full.
        let is_seal = line.kind == "seal";
        if is_seal {
            let whole = line::parse(text.as_bytes())?;
            let seq = line.seq;
            serde_json::from_str::<Seal>(&whole.body())
                .map_err(|source| Fault::Seal { seq, source })?;
        }
        let length = u64::try_from(text.len()).unwrap_or(u64::MAX);
        let leaf = leaf_hash(text.as_bytes());
        let (seq, kind, batch) = (line.seq, line.kind.to_owned(), line.batch);
        at.next = Some(Follows {
            seq: seq.saturating_add(1),
            batch: batch.saturating_add(u64::from(is_seal)),
            head: leaf,
        });
        at.offset = offset.saturating_add(length).saturating_add(1);
        if at.offset.saturating_sub(self.mark.offset) > BATCH_BYTES_MAX {
            return Err(Fault::BatchLength);
        }
        let location = Location {
            segment: at.segment,
            offset,
            length,
            leaf,
        };
        Ok((
            Line {
                seq,
                kind,
                location,
                text,
            },
            is_seal,
        ))
    }
}
