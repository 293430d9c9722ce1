//! Follows a ledger that another process writes: batch by batch as they are sealed, across
//! segments.
//!
//! The followed file stays open, so it may be archived meanwhile. A batch that a killed gate left
//! unsealed is never passed on: the next gate begins a new segment after it.

use crate::query::Books;
use spoolgate_home::error::HomeError;
use spoolgate_ledger::batches::{Batches, Ending, Line, Mark};
use spoolgate_ledger::disk::{FileId, LogFile};
use spoolgate_ledger::segment;

/// How far a ledger was followed.
pub struct Follower {
    books: Books,
    file: Box<dyn LogFile>,
    id: Option<FileId>,
    mark: Mark,
    /// Length of the file when it was last read, bytes.
    read_bytes: u64,
    /// Whether unreadable content was already reported.
    told_bad: bool,
}

impl Follower {
    /// Starts to follow at a mark.
    ///
    /// # Errors
    /// Returns [`HomeError`] if the segment cannot be opened.
    pub fn new(books: Books, mark: Mark) -> Result<Follower, HomeError> {
        let file = books.open(mark.segment)?;
        let mut follower = Follower {
            books,
            file,
            id: None,
            mark,
            read_bytes: 0,
            told_bad: false,
        };
        follower.id = follower.id_now()?;
        Ok(follower)
    }

    /// Returns the id of the file that is now at the followed path; `None` if the segment was
    /// archived.
    fn id_now(&self) -> Result<Option<FileId>, HomeError> {
        let path = self.books.dir().join(segment::file_name(self.mark.segment));
        let stat = self
            .books
            .disk()
            .stat(&path)
            .map_err(|source| HomeError::disk(&path, source))?;
        Ok(stat.map(|stat| stat.id))
    }

    /// Passes the lines sealed since the last call to `visit`, and returns remarks on what cannot
    /// be read.
    ///
    /// # Errors
    /// Returns [`HomeError`] if reading fails or another ledger is there now, or the error of
    /// `visit`.
    pub fn poll<E: From<HomeError>>(
        &mut self,
        visit: &mut dyn FnMut(&Line) -> Result<(), E>,
    ) -> Result<Vec<String>, E> {
        let mut remarks = Vec::new();
        loop {
            let path = self.books.dir().join(segment::file_name(self.mark.segment));
            let bytes = self
                .file
                .len()
                .map_err(|source| HomeError::disk(&path, source))?;
            if bytes != self.read_bytes {
                self.read_on(visit, &mut remarks)?;
                self.read_bytes = bytes;
            }
            let id = self.id_now()?;
            if bytes < self.mark.offset || (id.is_some() && self.id.is_some() && id != self.id) {
                return Err(HomeError::Record(format!(
                    "`{}` is no longer the followed file; run `spoolgate audit verify`, then \
                        follow it again",
                    path.display()
                ))
                .into());
            }
            let next = self.mark.segment.saturating_add(1);
            let Ok(file) = self.books.open(next) else {
                return Ok(remarks);
            };
            // First read what was written before the segment ended.
            if self
                .file
                .len()
                .map_err(|source| HomeError::disk(&path, source))?
                != self.read_bytes
            {
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
        while let Some(batch) = batches
            .next_batch()
            .map_err(|source| HomeError::disk(name.as_ref(), source))?
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
            remarks.push(format!(
                "`{name}` cannot be read at offset {}: {}",
                bad.offset, bad.why
            ));
        }
        Ok(())
    }
}
