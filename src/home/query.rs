//! Looking lines up in a ledger: by what they say, the newest first or all of them, in bounded memory whatever is found.
//!
//! The ledger is what is read. The index of a home only says where to look, and every line that it names must be what it
//! was when it was indexed; where it cannot be used, or the ledger goes on behind it, the lines themselves are read. What
//! is found is the same with and without it. Nothing is proved: that is verifying.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::open::{HomeError, Seams, read_genesis};
use super::read::size_of_checkpoint;
use crate::host::disk::{self, Disk, LogFile};
use crate::ledger::LedgerError;
use crate::ledger::batches::{Batches, Ending, Line, Mark};
use crate::ledger::line;
use crate::ledger::log::{Location, Position};
use crate::ledger::recover::kept;
use crate::ledger::scan::{LineReader, NextLine, RestKind, rest_behind};
use crate::ledger::segment::{self, Segment};
use crate::ledger::tree::leaf_hash;
use crate::state::lines::Order;
use crate::state::{Store, StoreError};

pub use super::filter::{Entry, Filter, Outcome};

/// The ledger of a home, or an audit folder that lies somewhere by itself.
pub struct Books {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    index: Option<Index>,
}

/// An index that speaks of this ledger.
struct Index {
    store: Store,
    /// Up to where it goes.
    tip: Position,
}

/// A segment that is held open from one line to the next.
#[derive(Default)]
struct Shelf(Option<(u32, Box<dyn LogFile>)>);

/// How a look into the index ended.
enum Looked {
    /// Everything up to its tip was seen.
    Complete,
    /// It was of no more use from this line on.
    Failed(u64),
}

impl Books {
    /// Those of a home; its index is used where it can be.
    ///
    /// # Errors
    /// [`HomeError`] if it is none.
    pub fn of_home(root: &Path, seams: &Seams) -> Result<Books, HomeError> {
        // Says whether there is a ledger at all.
        read_genesis(root, seams.disk.as_ref())?;
        let mut books =
            Books { disk: Arc::clone(&seams.disk), dir: PathBuf::from(segment::AUDIT_DIR), index: None };
        books.index = Store::open_read_only(root).ok().and_then(|store| {
            let tip = Position::from_stored(&store.tip().ok()??)?;
            let index = Index { store, tip };
            books.is_on_log(&index.tip).then_some(index)
        });
        Ok(books)
    }

    /// Those in an audit folder, read from the lines alone. `dir` is below what `disk` sees.
    pub fn of_folder(disk: Arc<dyn Disk>, dir: &Path) -> Books {
        Books { disk, dir: dir.to_owned(), index: None }
    }

    /// The same without the index.
    #[must_use]
    pub fn without_index(self) -> Books {
        Books { index: None, ..self }
    }

    /// Whether an index is used.
    pub fn has_index(&self) -> bool {
        self.index.is_some()
    }

    /// Whether the line that a place stands behind is there.
    fn is_on_log(&self, place: &Position) -> bool {
        let whole = place.last_length.saturating_add(1);
        place.offset.checked_sub(whole).is_some_and(|offset| {
            let (segment, length, leaf) = (place.segment, place.last_length, place.head);
            self.bytes_at(&mut Shelf::default(), Location { segment, offset, length, leaf }).is_ok()
        })
    }

    pub(super) fn open(&self, number: u32) -> Result<Box<dyn LogFile>, HomeError> {
        segment::open(self.disk.as_ref(), &self.dir, number)
            .map_err(|source| HomeError::disk(&self.dir.join(segment::file_name(number)), source))
    }

    fn is_pruned(&self, number: u32) -> bool {
        let opened = segment::open(self.disk.as_ref(), &self.dir, number);
        opened.is_err_and(|error| segment::is_pruned(&error))
    }

    fn fail(&self, number: u32, source: std::io::Error) -> HomeError {
        HomeError::disk(&self.dir.join(segment::file_name(number)), source)
    }

    /// The bytes of a line that must be the one that was indexed.
    fn bytes_at(&self, shelf: &mut Shelf, at: Location) -> Result<Vec<u8>, HomeError> {
        if shelf.0.as_ref().is_none_or(|(number, _)| *number != at.segment) {
            shelf.0 = Some((at.segment, self.open(at.segment)?));
        }
        let Some((_, file)) = &shelf.0 else { return Err(LedgerError::NotOnLog.into()) };
        let length = usize::try_from(at.length).unwrap_or(usize::MAX).min(line::LINE_BYTES_MAX);
        let bytes = disk::read_exact_at(file.as_ref(), at.offset, length)
            .map_err(|source| self.fail(at.segment, source))?;
        if leaf_hash(&bytes) == at.leaf { Ok(bytes) } else { Err(LedgerError::NotOnLog.into()) }
    }

    fn line_at(&self, shelf: &mut Shelf, at: Location) -> Result<Line, HomeError> {
        Line::parse(self.bytes_at(shelf, at)?, at).map_err(HomeError::Record)
    }

    /// Numbers of the segments whose content is here.
    fn segments(&self) -> Result<Vec<u32>, HomeError> {
        let kept = kept(self.disk.as_ref(), &self.dir)?;
        Ok(kept.into_iter().filter(|(_, kept)| !kept.is_pruned()).map(|(number, _)| number).collect())
    }

    /// Names of the segments whose content was pruned: no line of theirs is found.
    ///
    /// # Errors
    /// [`HomeError`].
    pub fn pruned(&self) -> Result<Vec<String>, HomeError> {
        let kept = kept(self.disk.as_ref(), &self.dir)?;
        let pruned = kept.into_iter().filter(|(_, kept)| kept.is_pruned());
        Ok(pruned.map(|(number, _)| segment::file_name(number)).collect())
    }

    /// How many lines the checkpoint knows and how many are here, where those are fewer: the end was cut off.
    ///
    /// # Errors
    /// [`HomeError`] of a ledger that cannot be read.
    pub fn cut(&self) -> Result<Option<(u64, u64)>, HomeError> {
        // Read before the log: beside a running gate the log may grow meanwhile, and must hold this head.
        let known = size_of_checkpoint(self.disk.as_ref(), &self.dir.join("checkpoint"));
        let here = self.end()?.next.map_or(0, |next| next.seq);
        Ok(known.filter(|known| here < *known).map(|known| (known, here)))
    }

    pub(super) fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Hands the lines that fulfil `filter` to `visit`, oldest first; with `newest`, only so many of the newest.
    ///
    /// # Errors
    /// [`HomeError`] of a ledger that cannot be read, behind what was found before; what `visit` says.
    pub fn find<E: From<HomeError>>(
        &self,
        filter: &Filter,
        newest: Option<usize>,
        visit: &mut dyn FnMut(&Line) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(most) = newest else { return self.all(filter, visit) };
        let mut shelf = Shelf::default();
        for location in self.newest(filter, most)? {
            visit(&self.line_at(&mut shelf, location)?)?;
        }
        Ok(())
    }

    fn all<E: From<HomeError>>(
        &self,
        filter: &Filter,
        visit: &mut dyn FnMut(&Line) -> Result<(), E>,
    ) -> Result<(), E> {
        if let Some(index) = self.index.as_ref().filter(|_| filter.is_told_by_index()) {
            return match self.indexed(index, filter, visit)? {
                Looked::Complete => self.scan(filter, Mark::from(&index.tip), visit),
                Looked::Failed(from) => {
                    let mut rest = filter.clone();
                    rest.lines.start = from;
                    self.scan(&rest, self.mark_before(from)?, visit)
                }
            };
        }
        self.scan(filter, self.mark_before(filter.lines.start)?, visit)
    }

    /// What the index leads to, up to its tip.
    fn indexed<E: From<HomeError>>(
        &self,
        index: &Index,
        filter: &Filter,
        visit: &mut dyn FnMut(&Line) -> Result<(), E>,
    ) -> Result<Looked, E> {
        let conditions = filter.conditions();
        let mut shelf = Shelf::default();
        let (mut from, to) = (filter.lines.start, filter.lines.end.min(index.tip.seq));
        while from < to {
            let Ok(page) = index.store.lines_where(&conditions, (from, to), Order::Oldest) else {
                return Ok(Looked::Failed(from));
            };
            if page.is_empty() {
                // A rebuild empties it first: then nothing found says nothing.
                return Ok(if index.is_whole() { Looked::Complete } else { Looked::Failed(from) });
            }
            for (seq, location) in page {
                let Ok(line) = self.line_at(&mut shelf, location) else {
                    if !self.is_pruned(location.segment) {
                        return Ok(Looked::Failed(from));
                    }
                    from = seq.saturating_add(1);
                    continue;
                };
                from = seq.saturating_add(1);
                if line.seq == seq && filter.matches(&line)? {
                    visit(&line)?;
                }
            }
        }
        Ok(Looked::Complete)
    }

    /// Places of the newest lines that fulfil `filter`, oldest first.
    fn newest(&self, filter: &Filter, most: usize) -> Result<VecDeque<Location>, HomeError> {
        let indexed = self.index.as_ref().filter(|_| !filter.wants_own_kinds());
        match indexed.map(|index| self.newest_indexed(index, filter, most)) {
            Some(Ok(found)) => Ok(found),
            _ => self.newest_scanned(filter, most),
        }
    }

    fn newest_indexed(
        &self,
        index: &Index,
        filter: &Filter,
        most: usize,
    ) -> Result<VecDeque<Location>, HomeError> {
        let mut found = VecDeque::new();
        self.scan(filter, Mark::from(&index.tip), &mut |line| -> Result<(), HomeError> {
            found.push_back(line.location);
            if found.len() > most {
                found.pop_front();
            }
            Ok(())
        })?;
        let conditions = filter.conditions();
        let mut shelf = Shelf::default();
        let (from, mut to) = (filter.lines.start, filter.lines.end.min(index.tip.seq));
        while found.len() < most && from < to {
            let page = index.store.lines_where(&conditions, (from, to), Order::Newest)?;
            if page.is_empty() {
                break;
            }
            for (seq, location) in page {
                to = seq;
                if found.len() == most {
                    break;
                }
                match self.line_at(&mut shelf, location) {
                    Ok(line) if filter.matches(&line)? => found.push_front(location),
                    Err(error) if !self.is_pruned(location.segment) => return Err(error),
                    _ => {}
                }
            }
        }
        if found.len() < most && !index.is_whole() {
            return Err(StoreError::Damaged("it is being made again".to_owned()).into());
        }
        Ok(found)
    }

    fn newest_scanned(&self, filter: &Filter, most: usize) -> Result<VecDeque<Location>, HomeError> {
        let mut found: VecDeque<Location> = VecDeque::new();
        let numbers = self.segments()?;
        for number in numbers.iter().rev() {
            let room = most.saturating_sub(found.len());
            if room == 0 || self.first_seq(*number)?.is_some_and(|first| first >= filter.lines.end) {
                continue;
            }
            let mut here: VecDeque<Location> = VecDeque::new();
            let (start, next) = (Mark::start_of(*number), behind(&numbers, *number));
            self.scan_segment(filter, start, next, &mut |line| -> Result<(), HomeError> {
                here.push_back(line.location);
                if here.len() > room {
                    here.pop_front();
                }
                Ok(())
            })?;
            here.append(&mut found);
            found = here;
            if self.first_seq(*number)?.is_some_and(|first| first <= filter.lines.start) {
                break;
            }
        }
        Ok(found)
    }

    /// Number of the first line of a segment; none: it cannot be read.
    fn first_seq(&self, number: u32) -> Result<Option<u64>, HomeError> {
        let file = self.open(number)?;
        let mut start = [0; 192];
        let read = file.read_at(0, &mut start).map_err(|source| self.fail(number, source))?;
        // The start of a line is plain ASCII.
        let text: String = start.iter().take(read).map(|byte| char::from(*byte)).collect();
        Ok(line::parse_prefix(&text).map(|line| line.seq))
    }

    /// The start of the segment that a line is in.
    fn mark_before(&self, seq: u64) -> Result<Mark, HomeError> {
        let numbers = self.segments()?;
        let (mut low, mut high) = (0, numbers.len());
        // The first segment of which it is not sure that it begins behind the line.
        while high.saturating_sub(low) > 1 {
            let middle = usize::midpoint(low, high);
            let begins_behind = match numbers.get(middle) {
                Some(number) => self.first_seq(*number)?.is_none_or(|first| first > seq),
                None => true,
            };
            if begins_behind { high = middle } else { low = middle }
        }
        Ok(Mark::start_of(numbers.get(low).copied().unwrap_or(1)))
    }

    /// Reads lines from a mark on.
    fn scan<E: From<HomeError>>(
        &self,
        filter: &Filter,
        mark: Mark,
        visit: &mut dyn FnMut(&Line) -> Result<(), E>,
    ) -> Result<(), E> {
        let numbers = self.segments()?;
        for number in numbers.iter().filter(|number| **number >= mark.segment) {
            let from = if *number == mark.segment { mark.clone() } else { Mark::start_of(*number) };
            if !self.scan_segment(filter, from, behind(&numbers, *number), visit)? {
                break;
            }
        }
        Ok(())
    }

    /// Reads lines of a segment from a mark on; says whether there may be more in the next.
    fn scan_segment<E: From<HomeError>>(
        &self,
        filter: &Filter,
        mark: Mark,
        next: Option<u32>,
        visit: &mut dyn FnMut(&Line) -> Result<(), E>,
    ) -> Result<bool, E> {
        let number = mark.segment;
        let file = self.open(number)?;
        let mut batches = Batches::new(file.as_ref(), mark);
        let sieve = filter.sieve();
        while let Some(batch) = batches.next_batch().map_err(|source| self.fail(number, source))? {
            for line in batch {
                if line.seq >= filter.lines.end {
                    return Ok(false);
                }
                if sieve.may_match(&line) && filter.matches(&line)? {
                    visit(&line)?;
                }
            }
        }
        self.check_end(&batches, file.as_ref(), next)?;
        Ok(true)
    }

    /// Whether a segment may end where reading it ended: what is cut off, or cannot be read, is not passed over.
    fn check_end(
        &self,
        batches: &Batches<'_>,
        file: &dyn LogFile,
        next: Option<u32>,
    ) -> Result<(), HomeError> {
        let (mark, ending) = (batches.mark(), batches.ending());
        let why = match (next, ending) {
            (Some(next), _) => match self.length_before(next)? {
                Some(length) if length == mark.offset => return Ok(()),
                Some(length) => format!("its valid length is {length} bytes by the segment behind it"),
                None => format!("`{}` does not begin as segments do", segment::file_name(next)),
            },
            // A batch that is being written, or was torn.
            (None, Ending::Sealed | Ending::Unsealed) if mark.next.is_some() => return Ok(()),
            (None, Ending::Sealed | Ending::Unsealed) => "it has no sealed batch".to_owned(),
            (None, Ending::Bad(bad)) => match &mark.next {
                None => bad.why.clone(),
                Some(next) => {
                    let fail = |source| self.fail(mark.segment, source);
                    let file_bytes = file.len().map_err(fail)?;
                    match rest_behind(file, (mark.offset, next.batch), file_bytes, Some(bad)).map_err(fail)? {
                        RestKind::Corrupt(bad) => bad.why,
                        RestKind::Nothing | RestKind::Torn(_) => return Ok(()),
                    }
                }
            },
        };
        Err(HomeError::Record(format!(
            "`{}` cannot be read from offset {} on: {why}; run `spoolgate audit verify`",
            segment::file_name(mark.segment),
            mark.offset
        )))
    }

    /// The valid length of the segment before, as the first line of this one has it.
    pub(super) fn length_before(&self, number: u32) -> Result<Option<u64>, HomeError> {
        let file = segment::open_head(self.disk.as_ref(), &self.dir, number)
            .map_err(|source| self.fail(number, source))?;
        let mut reader = LineReader::new(file.as_ref(), 0);
        let first = reader.next_line().map_err(|source| self.fail(number, source))?;
        let NextLine::Line(_, bytes) = first else { return Ok(None) };
        let Ok(line) = line::parse(&bytes) else { return Ok(None) };
        let segment: Option<Segment> =
            (line.kind == "segment").then(|| serde_json::from_str(&line.body()).ok()).flatten();
        Ok(segment.map(|segment| segment.previous.length))
    }

    /// Behind the last sealed batch.
    ///
    /// # Errors
    /// [`HomeError`].
    pub fn end(&self) -> Result<Mark, HomeError> {
        let last = self.segments()?.last().copied().unwrap_or(1);
        let start = match &self.index {
            Some(index) if index.tip.segment == last => Mark::from(&index.tip),
            _ => Mark::start_of(last),
        };
        let file = self.open(last)?;
        let mut batches = Batches::new(file.as_ref(), start);
        while batches.next_batch().map_err(|source| self.fail(last, source))?.is_some() {}
        Ok(batches.mark().clone())
    }
}

/// The segment behind this one, if there is one: the last is never pruned.
fn behind(numbers: &[u32], number: u32) -> Option<u32> {
    let is_last = numbers.last().is_none_or(|last| *last <= number);
    (!is_last).then(|| number.saturating_add(1))
}

impl Index {
    /// Whether it still goes up to where it did.
    fn is_whole(&self) -> bool {
        let tip = self.store.tip().ok().flatten();
        tip.and_then(|tip| Position::from_stored(&tip)).is_some_and(|tip| tip.seq >= self.tip.seq)
    }
}
