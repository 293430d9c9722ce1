//! Lines by their number, found without reading what stands before them. Nothing is verified here: whoever uses a
//! line or a leaf hash compares it with a root that somebody signed.

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
use crate::host::disk::{Disk, LogFile};

/// Stretch of a file that is read through rather than halved, in bytes: some lines.
const STRETCH_BYTES: u64 = 16 * 1024;

/// Characters of a line that its number stands within.
const PREFIX_BYTES: usize = 192;

/// The lines of a ledger folder.
pub struct Finder<'a> {
    disk: &'a dyn Disk,
    dir: &'a Path,
    numbers: Vec<u32>,
    /// Number of the first line of the segments that were asked for.
    firsts: RefCell<BTreeMap<u32, u64>>,
}

impl<'a> Finder<'a> {
    /// Looks at which segments there are.
    ///
    /// # Errors
    /// [`LedgerError`]; a gap between segments is [`LedgerError::Corrupt`].
    pub fn open(disk: &'a dyn Disk, dir: &'a Path) -> Result<Finder<'a>, LedgerError> {
        Ok(Finder { disk, dir, numbers: segments(disk, dir)?, firsts: RefCell::default() })
    }

    /// The disk and the folder.
    pub fn place(&self) -> (&'a dyn Disk, &'a Path) {
        (self.disk, self.dir)
    }

    /// Opens a segment; none if its content was pruned.
    fn open_segment(&self, number: u32) -> Result<Option<Box<dyn LogFile>>, LedgerError> {
        match segment::open(self.disk, self.dir, number) {
            Err(error) if segment::is_pruned(&error) => Ok(None),
            opened => opened.map(Some).map_err(|source| self.fail(number, source)),
        }
    }

    /// Opens a segment for its first batch.
    fn open_head(&self, number: u32) -> Result<Box<dyn LogFile>, LedgerError> {
        segment::open_head(self.disk, self.dir, number).map_err(|source| self.fail(number, source))
    }

    fn pruned(&self, numbers: &[u32]) -> LedgerError {
        LedgerError::Pruned(Missing::of(self.disk, self.dir, numbers))
    }

    fn fail(&self, number: u32, source: io::Error) -> LedgerError {
        LedgerError::Disk { path: self.dir.join(segment::file_name(number)), source }
    }

    /// Number of the first line of a segment.
    fn first_of(&self, number: u32) -> Result<u64, LedgerError> {
        if let Some(first) = self.firsts.borrow().get(&number) {
            return Ok(*first);
        }
        let file = self.open_head(number)?;
        let line = LineReader::new(file.as_ref(), 0).next_line().map_err(|error| self.fail(number, error))?;
        let seq = match &line {
            NextLine::Line(_, bytes) => seq_of(bytes),
            NextLine::End(_) | NextLine::TooLong(_) => None,
        };
        let seq =
            seq.ok_or_else(|| self.fail(number, io::Error::other("it does not begin with a ledger line")))?;
        self.firsts.borrow_mut().insert(number, seq);
        Ok(seq)
    }

    /// The last segment that begins at this line or before it, and the number that the next one begins with.
    fn segment_of(&self, seq: u64) -> Result<(u32, Option<u64>), LedgerError> {
        let (mut from, mut to) = (0, self.numbers.len());
        while to.saturating_sub(from) > 1 {
            let middle = from.midpoint(to);
            let Some(number) = self.numbers.get(middle) else { break };
            if self.first_of(*number)? <= seq {
                from = middle;
            } else {
                to = middle;
            }
        }
        let number = self.numbers.get(from).copied().unwrap_or(1);
        let next = self.numbers.get(from.saturating_add(1)).map(|next| self.first_of(*next)).transpose()?;
        Ok((number, next))
    }

    /// The bytes of a line without its LF; none if the log has no such line. It may not be sealed.
    ///
    /// # Errors
    /// [`LedgerError::Disk`]; [`LedgerError::Pruned`] if it is not here any more.
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
        if found.is_none() && is_pruned { Err(self.pruned(&[number])) } else { Ok(found) }
    }

    /// Hands the leaf hashes of the lines from `from` up to, not including, `to` to `visit`, as far as there are
    /// lines. Of lines that were pruned, those that are left.
    ///
    /// # Errors
    /// [`LedgerError::Disk`].
    pub fn each_leaf(&self, from: u64, to: u64, visit: &mut dyn FnMut(Hash)) -> Result<(), LedgerError> {
        self.each_stretch(from, to, &mut |number, at, end| match self.open_segment(number)? {
            Some(file) => {
                self.each_of(number, file.as_ref(), at, end, &mut |_, bytes| visit(leaf_hash(bytes)))
            }
            None => {
                let stub =
                    Stub::read(self.disk, self.dir, number).map_err(|source| self.fail(number, source))?;
                let index = |seq: u64| usize::try_from(seq.saturating_sub(stub.header.first_line)).ok();
                let last = end.min(stub.header.first_line.saturating_add(stub.header.lines));
                let leaves = index(at).zip(index(last)).and_then(|(from, to)| stub.leaves.get(from..to));
                let leaves = leaves.unwrap_or_default();
                leaves.iter().for_each(|leaf| visit(*leaf));
                Ok(at.saturating_add(leaves.len() as u64))
            }
        })
    }

    /// The same with number and bytes.
    ///
    /// # Errors
    /// [`LedgerError::Disk`]; [`LedgerError::Pruned`] in the end if there were lines that are not here any more.
    pub fn each_line(
        &self,
        from: u64,
        to: u64,
        visit: &mut dyn FnMut(u64, &[u8]),
    ) -> Result<(), LedgerError> {
        let mut pruned = Vec::new();
        self.each_stretch(from, to, &mut |number, at, end| match self.open_segment(number)? {
            Some(file) => self.each_of(number, file.as_ref(), at, end, visit),
            None => {
                pruned.push(number);
                Ok(end)
            }
        })?;
        if pruned.is_empty() { Ok(()) } else { Err(self.pruned(&pruned)) }
    }

    /// Cuts lines at where segments begin, and has `take` say how far it came in each.
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
                return Err(self.fail(number, io::Error::other("it has fewer lines than the next one says")));
            }
            if at < end {
                break;
            }
        }
        Ok(())
    }

    /// Hands lines of a segment to `visit`, and says which would be the next. What follows the last line of a segment
    /// that another follows was never sealed.
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

    /// Hands the lines of a segment from line `seq` on to `visit`, until it wants no more.
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

/// Where the first line behind `offset` begins, and its number.
fn next_start(file: &dyn LogFile, offset: u64) -> io::Result<Option<(u64, u64)>> {
    let mut reader = LineReader::new(file, offset);
    // Cut in two by the offset, most likely; whole, it is passed over all the same.
    if !matches!(reader.next_line()?, NextLine::Line(..)) {
        return Ok(None);
    }
    Ok(match reader.next_line()? {
        NextLine::Line(start, bytes) => seq_of(&bytes).map(|seq| (start, seq)),
        NextLine::End(_) | NextLine::TooLong(_) => None,
    })
}

/// The number that a line says it has.
fn seq_of(bytes: &[u8]) -> Option<u64> {
    // Its start is plain ASCII, however long the line is.
    let prefix: String = bytes.iter().take(PREFIX_BYTES).map(|byte| char::from(*byte)).collect();
    line::parse_prefix(&prefix).map(|line| line.seq)
}
