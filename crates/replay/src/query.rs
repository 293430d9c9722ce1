//! Finds ledger lines by their content, either the newest ones or all, in memory bounded however
//! many match.
//!
//! The ledger itself is read. The index of a home only says where to look, and each line it names
//! must be unchanged since it was indexed. Where the index cannot be used, or the ledger continues
//! beyond it, the lines are scanned instead. The result is the same with and without the index.
//! Nothing is proved here; verification does that.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use spoolgate_home::error::HomeError;
use spoolgate_home::index::lines::Order;
use spoolgate_home::index::{Store, StoreError};
use spoolgate_home::open::{Seams, read_genesis};
use spoolgate_home::read::size_of_checkpoint;
use spoolgate_ledger::LedgerError;
use spoolgate_ledger::batches::{Batches, Ending, Line, Mark};
use spoolgate_ledger::disk::{self, Disk, LogFile};
use spoolgate_ledger::line;
use spoolgate_ledger::log::{Location, Position};
use spoolgate_ledger::recover::kept;
use spoolgate_ledger::scan::{LineReader, NextLine, RestKind, rest_behind};
use spoolgate_ledger::segment::{self, Segment};
use spoolgate_ledger::tree::leaf_hash;

pub use crate::filter::{Entry, Filter, Outcome};

/// The ledger of a home, or an audit folder on its own.
pub struct Books {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    index: Option<Index>,
}

/// An index that belongs to this ledger.
struct Index {
    store: Store,
    /// The place up to which it covers the ledger.
    tip: Position,
}

/// A segment that is kept open between reads.
#[derive(Default)]
struct Shelf(Option<(u32, Box<dyn LogFile>)>);

/// How a look-up through the index ended.
enum Looked {
    /// Every line up to its tip was visited.
    Complete,
    /// The index could not be used from this line on.
    Failed(u64),
}

impl Books {
    /// Opens the ledger of a home, and uses its index if it can.
    ///
    /// # Errors
    /// Returns [`HomeError`] if `root` is not a home.
    pub fn of_home(root: &Path, seams: &Seams) -> Result<Books, HomeError> {
        // Fails if there is no ledger at all.
        read_genesis(root, seams.disk.as_ref())?;
        let mut books = Books {
            disk: Arc::clone(&seams.disk),
            dir: PathBuf::from(segment::AUDIT_DIR),
            index: None,
        };
        books.index = Store::open_read_only(root).ok().and_then(|store| {
            let tip = Position::from_stored(&store.tip().ok()??)?;
            let index = Index { store, tip };
            books.is_on_log(&index.tip).then_some(index)
        });
        Ok(books)
    }

    /// Opens an audit folder without an index. `dir` is relative to `disk`.
    pub fn of_folder(disk: Arc<dyn Disk>, dir: &Path) -> Books {
        Books {
            disk,
            dir: dir.to_owned(),
            index: None,
        }
    }

    /// Returns the same ledger without its index.
    #[must_use]
    pub fn without_index(self) -> Books {
        Books {
            index: None,
            ..self
        }
    }

    /// Returns whether an index is used.
    pub fn has_index(&self) -> bool {
        self.index.is_some()
    }

    /// Returns whether the line that ends at a place is in the ledger.
    fn is_on_log(&self, place: &Position) -> bool {
        let whole = place.last_length.saturating_add(1);
        place.offset.checked_sub(whole).is_some_and(|offset| {
            let (segment, length, leaf) = (place.segment, place.last_length, place.head);
            self.bytes_at(
                &mut Shelf::default(),
                Location {
                    segment,
                    offset,
                    length,
                    leaf,
                },
            )
            .is_ok()
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

    /// Reads a line, which must hash to what was indexed.
    fn bytes_at(&self, shelf: &mut Shelf, at: Location) -> Result<Vec<u8>, HomeError> {
        if shelf
            .0
            .as_ref()
            .is_none_or(|(number, _)| *number != at.segment)
        {
            shelf.0 = Some((at.segment, self.open(at.segment)?));
        }
        let Some((_, file)) = &shelf.0 else {
            return Err(LedgerError::NotOnLog.into());
        };
        let length = usize::try_from(at.length)
            .unwrap_or(usize::MAX)
            .min(line::LINE_BYTES_MAX);
        let bytes = disk::read_exact_at(file.as_ref(), at.offset, length)
            .map_err(|source| self.fail(at.segment, source))?;
        if leaf_hash(&bytes) == at.leaf {
            Ok(bytes)
        } else {
            Err(LedgerError::NotOnLog.into())
        }
    }

    fn line_at(&self, shelf: &mut Shelf, at: Location) -> Result<Line, HomeError> {
        Line::parse(self.bytes_at(shelf, at)?, at)
            .map_err(|error| HomeError::Record(error.to_string()))
    }

    /// Returns the numbers of the segments whose content was not pruned.
    fn segments(&self) -> Result<Vec<u32>, HomeError> {
        let kept = kept(self.disk.as_ref(), &self.dir)?;
        Ok(kept
            .into_iter()
            .filter(|(_, kept)| !kept.is_pruned())
            .map(|(number, _)| number)
            .collect())
    }

    /// Returns the names of the pruned segments; none of their lines can be found.
    pub fn pruned(&self) -> Result<Vec<String>, HomeError> {
        let kept = kept(self.disk.as_ref(), &self.dir)?;
        let pruned = kept.into_iter().filter(|(_, kept)| kept.is_pruned());
        Ok(pruned
            .map(|(number, _)| segment::file_name(number))
            .collect())
    }

    /// Returns how many lines the checkpoint counts and how many the ledger has; `None` if the
    /// ledger has at least as many. Fewer means that its end was cut off.
    ///
    /// # Errors
    /// Returns [`HomeError`] if the ledger cannot be read.
    pub fn cut(&self) -> Result<Option<(u64, u64)>, HomeError> {
        // Read before the log: a running gate may extend the log meanwhile, and the log must
        // include this head.
        let known = size_of_checkpoint(self.disk.as_ref(), &self.dir.join("checkpoint"));
        let here = self.end()?.next.map_or(0, |next| next.seq);
        Ok(known
            .filter(|known| here < *known)
            .map(|known| (known, here)))
    }

    pub(super) fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Passes the lines that match `filter` to `visit`, oldest first. If `newest` is set, passes
    /// only that many of the newest.
    ///
    /// # Errors
    /// Returns [`HomeError`] if the ledger cannot be read, after visiting what was found before; or
    /// the error of `visit`.
    pub fn find<E: From<HomeError>>(
        &self,
        filter: &Filter,
        newest: Option<usize>,
        visit: &mut dyn FnMut(&Line) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(most) = newest else {
            return self.all(filter, visit);
        };
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

    /// Visits the matching lines that the index names, up to its tip.
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
            let Ok(page) = index
                .store
                .lines_where(&conditions, (from, to), Order::Oldest)
            else {
                return Ok(Looked::Failed(from));
            };
            if page.is_empty() {
                // A rebuild empties the index first, so an empty page proves nothing unless the
                // index is whole.
                return Ok(if index.is_whole() {
                    Looked::Complete
                } else {
                    Looked::Failed(from)
                });
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

    /// Returns the places of the newest lines that match `filter`, oldest first.
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
        self.scan(filter, Mark::from(&index.tip), &mut |line| -> Result<
            (),
            HomeError,
        > {
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
            let page = index
                .store
                .lines_where(&conditions, (from, to), Order::Newest)?;
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

    fn newest_scanned(
        &self,
        filter: &Filter,
        most: usize,
    ) -> Result<VecDeque<Location>, HomeError> {
        let mut found: VecDeque<Location> = VecDeque::new();
        let numbers = self.segments()?;
        for number in numbers.iter().rev() {
            let room = most.saturating_sub(found.len());
            if room == 0
                || self
                    .first_seq(*number)?
                    .is_some_and(|first| first >= filter.lines.end)
            {
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
            if self
                .first_seq(*number)?
                .is_some_and(|first| first <= filter.lines.start)
            {
                break;
            }
        }
        Ok(found)
    }

    /// Returns the number of the first line of a segment; `None` if it cannot be parsed.
    fn first_seq(&self, number: u32) -> Result<Option<u64>, HomeError> {
        let file = self.open(number)?;
        let mut start = [0; 192];
        let read = file
            .read_at(0, &mut start)
            .map_err(|source| self.fail(number, source))?;
        // The start of a line is plain ASCII.
        let text: String = start
            .iter()
            .take(read)
            .map(|byte| char::from(*byte))
            .collect();
        Ok(line::parse_prefix(&text).map(|line| line.seq))
    }

    /// Returns the start of the segment that contains a line.
    fn mark_before(&self, seq: u64) -> Result<Mark, HomeError> {
        let numbers = self.segments()?;
        let (mut low, mut high) = (0, numbers.len());
        // Finds the last segment known to begin at or before the line.
        while high.saturating_sub(low) > 1 {
            let middle = usize::midpoint(low, high);
            let begins_behind = match numbers.get(middle) {
                Some(number) => self.first_seq(*number)?.is_none_or(|first| first > seq),
                None => true,
            };
            if begins_behind {
                high = middle
            } else {
                low = middle
            }
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
            let from = if *number == mark.segment {
                mark.clone()
            } else {
                Mark::start_of(*number)
            };
            if !self.scan_segment(filter, from, behind(&numbers, *number), visit)? {
                break;
            }
        }
        Ok(())
    }

    /// Reads the lines of a segment from a mark on, and returns whether the next segment may have
    /// more.
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
        while let Some(batch) = batches
            .next_batch()
            .map_err(|source| self.fail(number, source))?
        {
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

    /// Checks that a segment may end where reading ended, so that no cut-off or unreadable line is
    /// skipped.
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
                Some(length) => {
                    format!("its valid length is {length} bytes according to the next segment")
                }
                None => format!(
                    "`{}` does not begin like a segment",
                    segment::file_name(next)
                ),
            },
            // The last batch is being written, or was torn.
            (None, Ending::Sealed | Ending::Unsealed) if mark.next.is_some() => return Ok(()),
            (None, Ending::Sealed | Ending::Unsealed) => "it has no sealed batch".to_owned(),
            (None, Ending::Bad(bad)) => match &mark.next {
                None => bad.why.clone(),
                Some(next) => {
                    let fail = |source| self.fail(mark.segment, source);
                    let file_bytes = file.len().map_err(fail)?;
                    match rest_behind(file, (mark.offset, next.batch), file_bytes, Some(bad))
                        .map_err(fail)?
                    {
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

    /// Returns the valid length of the previous segment, as the first line of this one records it.
    pub(super) fn length_before(&self, number: u32) -> Result<Option<u64>, HomeError> {
        let file = segment::open_head(self.disk.as_ref(), &self.dir, number)
            .map_err(|source| self.fail(number, source))?;
        let mut reader = LineReader::new(file.as_ref(), 0);
        let first = reader
            .next_line()
            .map_err(|source| self.fail(number, source))?;
        let NextLine::Line(_, bytes) = first else {
            return Ok(None);
        };
        let Ok(line) = line::parse(&bytes) else {
            return Ok(None);
        };
        let segment: Option<Segment> = (line.kind == "segment")
            .then(|| serde_json::from_str(&line.body()).ok())
            .flatten();
        Ok(segment.map(|segment| segment.previous.length))
    }

    /// Returns the place after the last sealed batch.
    pub fn end(&self) -> Result<Mark, HomeError> {
        let last = self.segments()?.last().copied().unwrap_or(1);
        let start = match &self.index {
            Some(index) if index.tip.segment == last => Mark::from(&index.tip),
            _ => Mark::start_of(last),
        };
        let file = self.open(last)?;
        let mut batches = Batches::new(file.as_ref(), start);
        while batches
            .next_batch()
            .map_err(|source| self.fail(last, source))?
            .is_some()
        {}
        Ok(batches.mark().clone())
    }
}

/// Returns the next segment; `None` for the last, which is never pruned.
fn behind(numbers: &[u32], number: u32) -> Option<u32> {
    let is_last = numbers.last().is_none_or(|last| *last <= number);
    (!is_last).then(|| number.saturating_add(1))
}

impl Index {
    /// Returns whether the index still reaches as far as when it was opened.
    fn is_whole(&self) -> bool {
        let tip = self.store.tip().ok().flatten();
        tip.and_then(|tip| Position::from_stored(&tip))
            .is_some_and(|tip| tip.seq >= self.tip.seq)
    }
}
