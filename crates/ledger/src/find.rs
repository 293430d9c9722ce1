//! Finds lines by their number without reading the lines before them. Nothing is verified here:
//! callers compare a line or a leaf hash with a signed root.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use super::LedgerError;
use super::line;
use super::prune::Missing;
use super::recover::segments;
use super::scan::{LineReader, NextLine};
use super::segment;
use super::stub::Stub;
use super::tree::{Hash, leaf_hash};
use crate::disk::{Disk, LogFile};

/// Once the search is down to this many bytes, which hold a few lines, it reads them all instead of
/// halving again.
const STRETCH_BYTES: u64 = 16 * 1024;

/// The number of a line is always within this many bytes of its start.
const PREFIX_BYTES: usize = 192;

/// The lines of a ledger folder.
///
/// ```
/// use std::path::Path;
///
/// use spoolgate_ledger::{find::Finder, folder::Folder, line};
///
/// let folder = Folder::open("testdata/log")?;
/// let finder = Finder::open(&folder, Path::new(""))?;
/// let bytes = finder.line(7)?.ok_or("there is no line 7")?;
/// assert_eq!(line::parse(&bytes)?.kind, "stop");
/// assert!(finder.line(11)?.is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Finder<'a> {
    disk: &'a dyn Disk,
    dir: &'a Path,
    numbers: Vec<u32>,
    /// Number of the first line of each segment that was looked up.
    firsts: RefCell<BTreeMap<u32, u64>>,
}

impl<'a> Finder<'a> {
    /// Lists the segments.
    ///
    /// # Errors
    /// Returns [`LedgerError`]; a gap between segments is [`LedgerError::Corrupt`].
    pub fn open(disk: &'a dyn Disk, dir: &'a Path) -> Result<Finder<'a>, LedgerError> {
        Ok(Finder {
            disk,
            dir,
            numbers: segments(disk, dir)?,
            firsts: RefCell::default(),
        })
    }

    /// The disk and the folder.
    pub fn place(&self) -> (&'a dyn Disk, &'a Path) {
        (self.disk, self.dir)
    }

    /// Opens a segment. `None` if its content was pruned.
    fn open_segment(&self, number: u32) -> Result<Option<Box<dyn LogFile>>, LedgerError> {
        match segment::open(self.disk, self.dir, number) {
            Err(error) if segment::is_pruned(&error) => Ok(None),
            opened => opened.map(Some).map_err(|source| self.fail(number, source)),
        }
    }

    /// Opens a segment to read its first batch.
    fn open_head(&self, number: u32) -> Result<Box<dyn LogFile>, LedgerError> {
        segment::open_head(self.disk, self.dir, number).map_err(|source| self.fail(number, source))
    }

    fn pruned(&self, numbers: &[u32]) -> LedgerError {
        LedgerError::Pruned(Missing::of(self.disk, self.dir, numbers))
    }

    fn fail(&self, number: u32, source: io::Error) -> LedgerError {
        LedgerError::Disk {
            path: self.dir.join(segment::file_name(number)),
            source,
        }
    }

    /// Number of the first line of a segment.
    fn first_of(&self, number: u32) -> Result<u64, LedgerError> {
        if let Some(first) = self.firsts.borrow().get(&number) {
            return Ok(*first);
        }
        let file = self.open_head(number)?;
        let line = LineReader::new(file.as_ref(), 0)
            .next_line()
            .map_err(|error| self.fail(number, error))?;
        let seq = match &line {
            NextLine::Line(_, bytes) => seq_of(bytes),
            NextLine::End(_) | NextLine::TooLong(_) => None,
        };
        let seq = seq.ok_or_else(|| {
            self.fail(
                number,
                io::Error::other("it does not begin with a ledger line"),
            )
        })?;
        self.firsts.borrow_mut().insert(number, seq);
        Ok(seq)
    }

    /// Returns the last segment that begins at or before line `seq`, and the first line number of
    /// the next segment.
    fn segment_of(&self, seq: u64) -> Result<(u32, Option<u64>), LedgerError> {
        let (mut from, mut to) = (0, self.numbers.len());
        while to.saturating_sub(from) > 1 {
            let middle = from.midpoint(to);
            let Some(number) = self.numbers.get(middle) else {
                break;
            };
            if self.first_of(*number)? <= seq {
                from = middle;
            } else {
                to = middle;
            }
        }
        let number = self.numbers.get(from).copied().unwrap_or(1);
        let next = self
            .numbers
            .get(from.saturating_add(1))
            .map(|next| self.first_of(*next))
            .transpose()?;
        Ok((number, next))
    }

    /// Returns the bytes of a line without its LF. `None` if the log has no such line. The line may
    /// be unsealed.
    ///
    /// # Errors
    /// Returns [`LedgerError::Disk`], or [`LedgerError::Pruned`] if the line was pruned.
    pub fn line(&self, seq: u64) -> Result<Option<Vec<u8>>, LedgerError> {
        let (number, _) = self.segment_of(seq)?;
        let whole = self.open_segment(number)?;
        let is_pruned = whole.is_none();
        let file = whole.map_or_else(|| self.open_head(number), Ok)?;
        let mut found = None;
        self.visit_from(number, file.as_ref(), seq, &mut |bytes| {
            found = Some(bytes.to_vec());
            false
        })?;
        if found.is_none() && is_pruned {
            Err(self.pruned(&[number]))
        } else {
            Ok(found)
        }
    }

    /// Passes the leaf hashes of the lines in `from..to` to `visit`, as far as there are lines. For
    /// pruned lines the hashes come from the stub.
    ///
    /// # Errors
    /// Returns [`LedgerError::Disk`].
    pub fn each_leaf(
        &self,
        from: u64,
        to: u64,
        visit: &mut dyn FnMut(Hash),
    ) -> Result<(), LedgerError> {
        self.each_stretch(
            from,
            to,
            &mut |number, at, end| match self.open_segment(number)? {
                Some(file) => self.each_of(number, file.as_ref(), at, end, &mut |_, bytes| {
                    visit(leaf_hash(bytes))
                }),
                None => {
                    let stub = Stub::read(self.disk, self.dir, number)
                        .map_err(|source| self.fail(number, source))?;
                    let index =
                        |seq: u64| usize::try_from(seq.saturating_sub(stub.header.first_line)).ok();
                    let last = end.min(stub.header.first_line.saturating_add(stub.header.lines));
                    let leaves = index(at)
                        .zip(index(last))
                        .and_then(|(from, to)| stub.leaves.get(from..to));
                    let leaves = leaves.unwrap_or_default();
                    leaves.iter().for_each(|leaf| visit(*leaf));
                    Ok(at.saturating_add(leaves.len() as u64))
                }
            },
        )
    }

    /// As [`Finder::each_leaf`], but passes the number and the bytes of each line.
    ///
    /// # Errors
    /// Returns [`LedgerError::Disk`], or, after all other lines were visited,
    /// [`LedgerError::Pruned`] if some lines were pruned.
    pub fn each_line(
        &self,
        from: u64,
        to: u64,
        visit: &mut dyn FnMut(u64, &[u8]),
    ) -> Result<(), LedgerError> {
        let mut pruned = Vec::new();
        self.each_stretch(
            from,
            to,
            &mut |number, at, end| match self.open_segment(number)? {
                Some(file) => self.each_of(number, file.as_ref(), at, end, visit),
                None => {
                    pruned.push(number);
                    Ok(end)
                }
            },
        )?;
        if pruned.is_empty() {
            Ok(())
        } else {
            Err(self.pruned(&pruned))
        }
    }

    /// Splits a range of lines at segment boundaries. `take` returns how far it got in each part.
    fn each_stretch(
        &self,
        from: u64,
        to: u64,
        take: &mut dyn FnMut(u32, u64, u64) -> Result<u64, LedgerError>,
    ) -> Result<(), LedgerError> {
        let mut at = from;
        while at < to {
            let (number, next) = self.segment_of(at)?;
            let end = next.map_or(to, |next| next.min(to));
            at = take(number, at, end)?;
            if at < end && next.is_some() {
                return Err(self.fail(
                    number,
                    io::Error::other("it has fewer lines than the next segment states"),
                ));
            }
            if at < end {
                break;
            }
        }
        Ok(())
    }

    /// Passes lines of a segment to `visit` and returns the number of the line after the last one.
    /// In a closed segment, anything after its last numbered line was never sealed.
    fn each_of(
        &self,
        number: u32,
        file: &dyn LogFile,
        from: u64,
        end: u64,
        visit: &mut dyn FnMut(u64, &[u8]),
    ) -> Result<u64, LedgerError> {
        let mut at = from;
        self.visit_from(number, file, from, &mut |bytes| {
            visit(at, bytes);
            at = at.saturating_add(1);
            at < end
        })?;
        Ok(at)
    }

    /// Passes the lines of a segment from line `seq` on to `visit`, until `visit` returns false.
    fn visit_from(
        &self,
        number: u32,
        file: &dyn LogFile,
        seq: u64,
        visit: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(), LedgerError> {
        let fail = |error| self.fail(number, error);
        let (mut from, mut to) = (0, file.len().map_err(fail)?);
        while to.saturating_sub(from) > STRETCH_BYTES {
            let middle = from.midpoint(to);
            match next_start(file, middle).map_err(fail)? {
                Some((start, found)) if found <= seq => from = start,
                _ => to = middle,
            }
        }
        let mut reader = LineReader::new(file, from);
        let mut reached = false;
        while let NextLine::Line(_, bytes) = reader.next_line().map_err(fail)? {
            if !reached {
                match seq_of(&bytes) {
                    Some(found) if found < seq => continue,
                    Some(found) if found == seq => reached = true,
                    _ => break,
                }
            }
            if !visit(&bytes) {
                break;
            }
        }
        Ok(())
    }
}

/// Returns offset and number of the first line that begins after `offset`.
fn next_start(file: &dyn LogFile, offset: u64) -> io::Result<Option<(u64, u64)>> {
    let mut reader = LineReader::new(file, offset);
    // The offset is probably inside this line; a whole line is skipped as well.
    if !matches!(reader.next_line()?, NextLine::Line(..)) {
        return Ok(None);
    }
    Ok(match reader.next_line()? {
        NextLine::Line(start, bytes) => seq_of(&bytes).map(|seq| (start, seq)),
        NextLine::End(_) | NextLine::TooLong(_) => None,
    })
}

/// The number that a line states.
fn seq_of(bytes: &[u8]) -> Option<u64> {
    // The start of a line is plain ASCII, however long the line is.
    let prefix: String = bytes
        .iter()
        .take(PREFIX_BYTES)
        .map(|byte| char::from(*byte))
        .collect();
    line::parse_prefix(&prefix).map(|line| line.seq)
}
