//! The loop: scan, process, and again until nothing is left; then wait for a hint.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::batch::Outcome;
use super::open::{Home, HomeError};
use crate::gate::exempt::{Standing, Waiting};
use crate::gate::prepare::{Authentic, Delivery, prepare};
use crate::gate::record::{Event, Record};
use crate::gate::state::State;
use crate::host::disk::Disk;
use crate::host::keyring::CachedKeyring;
use crate::rules::Rulebook;
use crate::spool::claim::{self, Claimed, Looked};
use crate::spool::peek::Judge;
use crate::spool::scan::PATIENCE_MS;
use crate::spool::watch::{HEARTBEAT, Hints};
use crate::state::Store;
use crate::wire::time::Time;

/// What a round of the loop came to.
#[derive(Debug, Default)]
pub struct Round {
    /// What was decided.
    pub outcomes: Vec<Outcome>,
    /// Whether another round at once may find more.
    pub more: bool,
}

/// How long to wait before files that are unfinished or over a quota are looked at again.
const UNFINISHED_WAIT: Duration = Duration::from_millis(PATIENCE_MS / 10);

/// How long nothing must come in before answers are made durable: whoever asks meanwhile would wait for that.
const QUIET: Duration = Duration::from_millis(50);

/// After this long they are made durable all the same, milliseconds: hints without end must not put it off.
const PUBLISHED_WITHIN_MS: u64 = 1000;

/// Says what passes a quota, as things are before the batch.
struct GateJudge<'a> {
    state: &'a State,
    rules: &'a Rulebook,
    keyring: &'a CachedKeyring,
    store: &'a Store,
    now: Time,
}

impl Judge for GateJudge<'_> {
    fn standing(&self, delivery: Delivery) -> Standing {
        let request = prepare(delivery, self.state, self.keyring, self.now);
        if let Ok(Authentic { envelope, .. }) = &request.request {
            // An answer is only given again, which can wait; else one good request would be a pass for ever. If
            // the index cannot be asked, the batch will say so.
            let seen = self.store.seen(envelope.source.as_str(), envelope.id.as_str());
            if seen.is_ok_and(|seen| seen.is_some()) {
                return Standing::Waits(None);
            }
        }
        Standing::of(&request, self.state, self.rules)
    }

    fn passes_now(&self, waiting: &Waiting) -> bool {
        waiting.passes(self.state, self.rules)
    }
}

impl Home {
    /// Takes at most so many requests into a batch from now on, at least 1.
    pub fn limit_batches(&mut self, entries: usize) {
        self.scanner.set_batch_max(entries);
    }

    /// One round: a left-behind claim alone, or up to a batch of new files; then what waited for a command that has
    /// ended. `only_local` takes just what commands handed over.
    ///
    /// # Errors
    /// [`HomeError`].
    pub fn round(&mut self, only_local: bool) -> Result<Round, HomeError> {
        let mut round = self.round_of_files(only_local)?;
        if let Some(outcomes) = self.hear_commands()? {
            round.outcomes.extend(outcomes);
            round.more = true;
        }
        Ok(round)
    }

    fn round_of_files(&mut self, only_local: bool) -> Result<Round, HomeError> {
        if let Some(claim) = self.left_behind.pop_front() {
            // Alone in its batch: if it kills the gate again, nothing else goes with it.
            let work = Path::new(claim::WORK_DIR);
            let again =
                claim::begin_again(self.seams.disk.as_ref(), claim.clone(), self.ledger.position().batch)
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
        let judge = GateJudge {
            state: &self.state,
            rules: &self.rulebook,
            keyring: &self.keyring,
            store: &self.store,
            now: self.ledger_now(),
        };
        let found = self
            .scanner
            .round(self.seams.disk.as_ref(), &judge, self.seams.clock.monotonic_ms(), batch, only_local)
            .map_err(|source| HomeError::disk(Path::new("spool/in"), source))?;
        found.news.iter().for_each(|news| self.note(Record::Quota, news));
        let mut claimed = found.claimed;
        if !only_local {
            claimed.extend(self.take_frames(self.scanner.batch_max()));
        }
        let more = found.more || !claimed.is_empty() || self.has_frames();
        let outcomes = self.process(claimed)?;
        Ok(Round { outcomes, more: more || self.more_cases_due })
    }

    /// Rounds until the spool is empty and no half-written file is waited for; files over a quota stay.
    /// `report` hears of the outcomes of each round.
    ///
    /// # Errors
    /// [`HomeError`].
    pub fn until_idle(
        &mut self,
        only_local: bool,
        stop: &AtomicBool,
        report: &mut dyn FnMut(&[Outcome]),
    ) -> Result<(), HomeError> {
        // A command decides one request and ends: that is no watch.
        if !only_local {
            self.begin_watching();
        }
        while !stop.load(Ordering::SeqCst) {
            let round = self.round(only_local)?;
            report(&round.outcomes);
            // Under any load, or a busy gate would never ask.
            let heard = self.ask_roles()?;
            if round.more || heard {
                continue;
            }
            if self.waits_for_commands() {
                self.wait_for_commands(UNFINISHED_WAIT);
                continue;
            }
            if self.has_actions() {
                self.wait_for_actions(UNFINISHED_WAIT);
                continue;
            }
            if only_local || !(self.scanner.has_unfinished() || self.is_asking()) {
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
        report: &mut dyn FnMut(&[Outcome]),
    ) -> Result<(), HomeError> {
        self.note(Record::Start, "the watcher started");
        self.begin_watching();
        self.waker = Some(hints.waker());
        let mut publish_by = None;
        while !stop.load(Ordering::SeqCst) {
            let disk = std::sync::Arc::clone(&self.seams.disk);
            // Armed before the scan, so that nothing falls between the two; and again if that changed anything,
            // so that a folder replaced meanwhile is watched before the wait.
            for _ in 0..2 {
                let disk: &dyn Disk = disk.as_ref();
                if !hints.arm(&self.root, disk, self.scanner.folders().into_iter()) {
                    break;
                }
            }
            let round = self.round(false)?;
            report(&round.outcomes);
            // Under any load, or a busy gate would never ask.
            let heard = self.ask_roles()?;
            if round.more || heard {
                continue;
            }
            if self.has_outstanding() {
                let now_ms = self.seams.clock.monotonic_ms();
                let until_ms = *publish_by.get_or_insert(now_ms.saturating_add(PUBLISHED_WITHIN_MS));
                if now_ms < until_ms && hints.wait(QUIET) {
                    continue;
                }
                self.mark_published()?;
            }
            publish_by = None;
            let looks_again = self.scanner.has_unfinished() || self.scanner.has_waiting() || self.is_asking();
            let wait = if looks_again { UNFINISHED_WAIT } else { HEARTBEAT };
            hints.wait(wait);
        }
        self.finish_within("the watcher stopped in order", stop)
    }

    /// Ends a run in order: outgoing actions, the stop line, durable answers, a snapshot.
    ///
    /// # Errors
    /// [`HomeError`].
    pub fn finish(&mut self, note: &str) -> Result<(), HomeError> {
        self.finish_within(note, &AtomicBool::new(false))
    }

    /// The same. Once it waits for actions it clears `hurry`; set again, that ends them at once.
    ///
    /// # Errors
    /// [`HomeError`].
    pub fn finish_within(&mut self, note: &str, hurry: &AtomicBool) -> Result<(), HomeError> {
        self.end_actions(hurry)?;
        self.go_on_notifying(true);
        let changes = self.end_watching();
        let (timestamp, note) = (self.ledger_now(), note.to_owned());
        self.events.push(Record::Stop(Event { timestamp, note, changes }));
        self.write_news()?;
        self.mark_published()?;
        self.give_back_waiting();
        self.close_socket();
        self.sweep()
    }
}
