//! The loop: scan, process, and again until nothing is left; then wait for a hint.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::batch::Outcome;
use super::open::{Home, HomeError};
use crate::gate::record::Record;
use crate::host::disk::Disk;
use crate::spool::claim::{self, Claimed, Looked};
use crate::spool::scan::PATIENCE_MS;
use crate::spool::watch::{HEARTBEAT, Hints};

/// What a round of the loop came to.
#[derive(Debug, Default)]
pub struct Round {
    /// What was decided.
    pub outcomes: Vec<Outcome>,
    /// Whether another round at once may find more.
    pub more: bool,
}

/// How long to wait before unfinished files are looked at again.
const UNFINISHED_WAIT: Duration = Duration::from_millis(PATIENCE_MS / 10);

impl Home {
    /// Takes at most so many requests into a batch from now on, at least 1.
    pub fn limit_batches(&mut self, entries: usize) {
        self.scanner.set_entries_max(entries);
    }

    /// One round: a left-behind claim alone, or up to a batch of new files. `only_local` takes just what
    /// commands handed over.
    ///
    /// # Errors
    /// [`HomeError`].
    pub fn round(&mut self, only_local: bool) -> Result<Round, HomeError> {
        if let Some(claim) = self.left_behind.pop_front() {
            // Alone in its batch: if it kills the gate again, nothing else goes with it.
            let work = Path::new(claim::WORK_DIR);
            let again = claim::begin_again(self.seams.disk.as_ref(), claim.clone())
                .map_err(|source| HomeError::disk(work, source))?;
            let claimed: Vec<Claimed> = match again {
                Looked::Claimed(claimed) => vec![*claimed],
                Looked::Unfinished | Looked::Skipped => Vec::new(),
            };
            let begun = claimed.first().map(|begun| begun.claim.clone());
            let processed = self.process(claimed);
            if let (Err(_), Some(begun)) = (&processed, begun) {
                // The disk failed, not the request: this is no attempt of its own. Should the disk refuse that
                // too, it counts as one.
                let _ = claim::give_back(self.seams.disk.as_ref(), &begun, &claim);
            }
            return Ok(Round { outcomes: processed?, more: true });
        }
        let batch = self.ledger.position().batch;
        let found = self
            .scanner
            .round(self.seams.disk.as_ref(), self.seams.clock.monotonic_ms(), batch, only_local)
            .map_err(|source| HomeError::disk(Path::new("spool/in"), source))?;
        let more = found.more || !found.claimed.is_empty();
        Ok(Round { outcomes: self.process(found.claimed)?, more })
    }

    /// Rounds until the spool is empty and no half-written file is waited for. `report` hears of every
    /// outcome.
    ///
    /// # Errors
    /// [`HomeError`].
    pub fn until_idle(
        &mut self,
        only_local: bool,
        stop: &AtomicBool,
        report: &mut dyn FnMut(&Outcome),
    ) -> Result<(), HomeError> {
        while !stop.load(Ordering::SeqCst) {
            let round = self.round(only_local)?;
            round.outcomes.iter().for_each(&mut *report);
            if round.more {
                continue;
            }
            if only_local || !self.scanner.has_unfinished() {
                break;
            }
            self.seams.clock.sleep(UNFINISHED_WAIT);
        }
        Ok(())
    }

    /// Runs until `stop`: rounds while there is work, then a wait for a hint or the heartbeat.
    ///
    /// # Errors
    /// [`HomeError`].
    pub fn watch(
        &mut self,
        hints: &mut Hints,
        stop: &AtomicBool,
        report: &mut dyn FnMut(&Outcome),
    ) -> Result<(), HomeError> {
        self.note(Record::Start, "the watcher started");
        while !stop.load(Ordering::SeqCst) {
            let disk = std::sync::Arc::clone(&self.seams.disk);
            let folders: Vec<_> = self.scanner.folders().collect();
            // Armed before the scan, so that nothing falls between the two.
            hints.arm(&self.root, disk.as_ref() as &dyn Disk, folders.into_iter());
            let round = self.round(false)?;
            round.outcomes.iter().for_each(&mut *report);
            if round.more {
                continue;
            }
            if self.has_outstanding() {
                self.mark_published()?;
            }
            let wait = if self.scanner.has_unfinished() { UNFINISHED_WAIT } else { HEARTBEAT };
            hints.wait(wait);
        }
        self.finish("the watcher stopped in order")
    }

    /// Ends a run in order: the stop line, durable answers, a snapshot.
    ///
    /// # Errors
    /// [`HomeError`].
    pub fn finish(&mut self, note: &str) -> Result<(), HomeError> {
        self.note(Record::Stop, note);
        self.write_news()?;
        self.mark_published()
    }
}
