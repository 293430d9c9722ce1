//! Following a ledger that somebody else writes: batches as they are sealed, over the cuts between segments.
//!
//! The file that is followed stays open, so it may be archived meanwhile. A batch that a killed gate left unsealed stays
//! where it is and is never given out: the next gate begins a new segment behind it.

use super::open::HomeError;
use super::query::Books;
use crate::host::disk::{FileId, LogFile};
use crate::ledger::batches::{Batches, Ending, Line, Mark};
use crate::ledger::segment;

/// How far a ledger was followed.
pub struct Follower {
    books: Books,
    file: Box<dyn LogFile>,
    id: Option<FileId>,
    mark: Mark,
    /// Bytes of the file when it was read last.
    read_bytes: u64,
    /// What cannot be read was told already.
    told_bad: bool,
}

impl Follower {
    /// Follows from a mark on.
    ///
    /// # Errors
    /// [`HomeError`].
    pub fn new(books: Books, mark: Mark) -> Result<Follower, HomeError> {
        let file = books.open(mark.segment)?;
        let mut follower = Follower { books, file, id: None, mark, read_bytes: 0, told_bad: false };
        follower.id = follower.id_now()?;
        Ok(follower)
    }

    /// Which file stands where the one that is followed was found; none: it was archived.
    fn id_now(&self) -> Result<Option<FileId>, HomeError> {
        let path = self.books.dir().join(segment::file_name(self.mark.segment));
        let stat = self.books.disk().stat(&path).map_err(|source| HomeError::disk(&path, source))?;
        Ok(stat.map(|stat| stat.id))
    }

    /// Hands what was sealed since the last time to `visit`; gives back remarks on what cannot be read.
    ///
    /// # Errors
    /// [`HomeError`], also where another ledger stands there now; what `visit` says.
    pub fn poll<E: From<HomeError>>(
        &mut self,
        visit: &mut dyn FnMut(&Line) -> Result<(), E>,
    ) -> Result<Vec<String>, E> {
        let mut remarks = Vec::new();
        loop {
            let path = self.books.dir().join(segment::file_name(self.mark.segment));
            let bytes = self.file.len().map_err(|source| HomeError::disk(&path, source))?;
            if bytes != self.read_bytes {
                self.read_on(visit, &mut remarks)?;
                self.read_bytes = bytes;
            }
            let id = self.id_now()?;
            if bytes < self.mark.offset || (id.is_some() && self.id.is_some() && id != self.id) {
                return Err(HomeError::Record(format!(
                    "`{}` is not the file any more that was followed; run `spoolgate audit verify`, then follow it anew",
                    path.display()
                ))
                .into());
            }
            let next = self.mark.segment.saturating_add(1);
            let Ok(file) = self.books.open(next) else { return Ok(remarks) };
            // What was written before the cut is read first.
            if self.file.len().map_err(|source| HomeError::disk(&path, source))? != self.read_bytes {
                continue;
            }
            if self.books.length_before(next)? != Some(self.mark.offset) {
                remarks.push(format!(
                    "`{}` cannot be read from offset {} on; run `spoolgate audit verify`",
                    path.display(),
                    self.mark.offset
                ));
            }
            (self.file, self.mark, self.read_bytes) = (file, Mark::start_of(next), 0);
            self.told_bad = false;
            self.id = self.id_now()?;
        }
    }

    fn read_on<E: From<HomeError>>(
        &mut self,
        visit: &mut dyn FnMut(&Line) -> Result<(), E>,
        remarks: &mut Vec<String>,
    ) -> Result<(), E> {
        let name = segment::file_name(self.mark.segment);
        let mut batches = Batches::new(self.file.as_ref(), self.mark.clone());
        while let Some(batch) =
            batches.next_batch().map_err(|source| HomeError::disk(name.as_ref(), source))?
        {
            self.mark = batches.mark().clone();
            for line in &batch {
                visit(line)?;
            }
        }
        if let Ending::Bad(bad) = batches.ending()
            && !self.told_bad
        {
            self.told_bad = true;
            remarks.push(format!("`{name}` cannot be read at offset {}: {}", bad.offset, bad.why));
        }
        Ok(())
    }
}
