//! The main loop: scan and process until nothing is left, then wait for a hint.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::batch::Outcome;
use super::core::Core;
use super::error::HomeError;
use super::open::Home;
use super::sandbox::programs;
use crate::index::Store;
use spoolgate_gate::Seen;
use spoolgate_gate::exempt::Standing;
use spoolgate_gate::prepare::{Authentic, Delivery, Prepared, prepare};
use spoolgate_gate::record::{Event, EventKind, Record};
use spoolgate_gate::safer::Waiting;
use spoolgate_gate::state::State;
use spoolgate_gate::storage::Level;
use spoolgate_host::command;
use spoolgate_host::keyring::CachedKeyring;
use spoolgate_host::spool::claim::{self, Claimed, Looked};
use spoolgate_host::spool::peek::Judge;
use spoolgate_host::spool::publish;
use spoolgate_host::spool::scan::PATIENCE_MS;
use spoolgate_host::spool::watch::{HEARTBEAT, Hints};
use spoolgate_ledger::disk::Disk;
use spoolgate_ledger::segment::AUDIT_DIR;
use spoolgate_rules::Rulebook;
use spoolgate_rules::safety::CageLevel;
use spoolgate_wire::answer::Answer;
use spoolgate_wire::time::Time;

/// Result of one round of the loop.
#[derive(Debug, Default)]
pub struct Round {
    /// What was decided.
    pub outcomes: Vec<Outcome>,
    /// Whether another round at once may find more.
    pub more: bool,
}

/// How long to wait before files that are unfinished or over a quota are looked at again.
const UNFINISHED_WAIT: Duration = Duration::from_millis(PATIENCE_MS / 10);

/// How long nothing must come in before answers are made durable: a client that sends meanwhile
/// would wait for the sync.
const QUIET: Duration = Duration::from_millis(50);

/// Upper bound of that delay, milliseconds, so that constant hints cannot postpone it for ever.
const PUBLISHED_WITHIN_MS: u64 = 1000;

/// Decides which requests pass a quota, by the state before the batch.
struct GateJudge<'a> {
    state: &'a State,
    rules: &'a Rulebook,
    keyring: &'a CachedKeyring,
    store: &'a Store,
    now: Time,
    level: Level,
}

impl Judge for GateJudge<'_> {
    fn judges_all(&self) -> bool {
        !self.level.is_normal()
    }

    fn standing(&self, delivery: Delivery) -> Standing {
        self.of(&prepare(delivery, self.state, self.keyring, self.now))
    }

    fn passes_now(&self, waiting: &Waiting) -> bool {
        waiting.passes(self.state, self.rules)
    }
}

impl GateJudge<'_> {
    fn of(&self, request: &Prepared) -> Standing {
        if let Ok(Authentic {
            envelope,
            request_hash,
            ..
        }) = &request.request
        {
            // A resent request only gets its answer again, which can wait; otherwise one good
            // request could be resent past the quota for ever. If the index cannot be read, the
            // batch reports it.
            let source = envelope.source.as_str();
            let seen = self.store.seen(source, envelope.id.as_str());
            let is_answered = |seen: Seen| !seen.is_open_to(source, request_hash);
            if seen.is_ok_and(|seen| seen.is_some_and(is_answered)) {
                return Standing::Waits(None);
            }
        }
        Standing::of(request, self.state, self.rules, self.level, self.now)
    }
}

impl Core {
    /// Whether a claimed request must wait until the disk has room again, as an earlier one of its
    /// batch may have made it.
    pub(super) fn waits_for_room(&self, request: &Prepared) -> bool {
        !self.storage.level().is_normal() && self.judge().of(request) != Standing::Passes
    }

    fn judge(&self) -> GateJudge<'_> {
        GateJudge {
            state: &self.state,
            rules: &self.rulebook,
            keyring: &self.keyring,
            store: &self.store,
            now: self.ledger_now(),
            level: self.storage.level(),
        }
    }

    /// Returns the answer that this very request got before, if it came through a door of its
    /// sender's. An answer that cannot be read now is none.
    fn stored_answer(&self, delivery: &Delivery, now: Time) -> Option<Answer> {
        let request = prepare(delivery.clone(), &self.state, &self.keyring, now);
        let authentic = request.request.as_ref().ok()?;
        let (source, id) = (&authentic.envelope.source, &authentic.envelope.id);
        let rule = self.rulebook.principals.get(source)?;
        let (spool, user) = (rule.spool.as_ref(), rule.unix_user.as_ref());
        let seen = self.store.seen(source.as_str(), id.as_str()).ok()??;
        let is_it = seen.request_hash == authentic.request_hash;
        if !is_it || !request.origin.is_for(spool, user) {
            return None;
        }
        self.answer_if_any(seen.seq).ok()?
    }
}

impl Home {
    /// Returns the frames that the gate decides now. With little room on its disk, or none, it refuses
    /// the others at once, without a line: a frame has no file that could wait. A request that has its answer already
    /// gets it again.
    fn served_frames(&mut self, mut frames: Vec<Claimed>) -> Vec<Claimed> {
        let Home { core, intake, .. } = self;
        let judge = core.judge();
        if judge.judges_all() {
            frames.retain(|frame| {
                let passes = judge.standing(frame.delivery.clone()) == Standing::Passes;
                if !passes {
                    let stored = core.stored_answer(&frame.delivery, judge.now);
                    let content = frame.delivery.content.as_deref().ok();
                    intake.answer_without_line(&frame.claim, content, stored, judge.now);
                }
                passes
            });
        }
        frames
    }

    /// Whether a write has found no room, so that only what cannot wait is served.
    pub fn is_disk_full(&self) -> bool {
        self.core.storage.is_full()
    }

    /// Limits batches to this many requests from now on, at least 1.
    pub fn limit_batches(&mut self, entries: usize) {
        self.intake.scanner.set_batch_max(entries);
    }

    /// Number of entries per spool that are left in the spool because the gate cannot move them.
    pub fn left(&self) -> BTreeMap<String, usize> {
        self.intake.scanner.left()
    }

    /// Runs one round: processes a left-behind claim alone or up to a batch of new files, then the
    /// requests whose command has ended. With `only_local`, takes only what commands handed over.
    pub fn round(&mut self, only_local: bool) -> Result<Round, HomeError> {
        let mut round = self.round_of_files(only_local)?;
        if let Some(outcomes) = self.hear_commands()? {
            round.outcomes.extend(outcomes);
            round.more = true;
        }
        if !only_local {
            self.remove_old_answers()?;
        }
        Ok(round)
    }

    fn round_of_files(&mut self, only_local: bool) -> Result<Round, HomeError> {
        if self.core.storage.level().is_normal() {
            let waited = std::mem::take(&mut self.intake.without_room);
            self.intake.left_behind.extend(waited);
        }
        if let Some(claim) = self.intake.left_behind.pop_front() {
            // Alone in its batch: if it kills the gate again, no other request is affected.
            let work = Path::new(claim::WORK_DIR);
            let again = claim::begin_again(
                self.core.seams.disk.as_ref(),
                claim.clone(),
                self.core.ledger.position().batch,
                &mut |claim| self.outside.try_suspect(claim),
            )
            .map_err(|source| HomeError::disk(work, source))?;
            let claimed: Vec<Claimed> = match again {
                Looked::Claimed(claimed) => vec![*claimed],
                _ => Vec::new(),
            };
            let begun = claimed.first().map(|begun| begun.claim.clone());
            let processed = self.process(claimed);
            if let (Err(_), Some(begun)) = (&processed, begun) {
                // The disk failed, not the request, so this must not count as an attempt. If the
                // disk refuses the renaming too, it counts.
                let _ = claim::give_back(self.core.seams.disk.as_ref(), &begun, &claim);
            }
            return Ok(Round {
                outcomes: processed?,
                more: true,
            });
        }
        let batch = self.core.ledger.position().batch;
        let judge = self.core.judge();
        let found = self
            .intake
            .scanner
            .round(
                self.core.seams.disk.as_ref(),
                &judge,
                self.core.seams.clock.monotonic_ms(),
                batch,
                only_local,
            )
            .map_err(|source| HomeError::disk(Path::new("spool/in"), source))?;
        found
            .news
            .iter()
            .for_each(|news| self.note(EventKind::Quota, news));
        self.intake.failure = found.failure.or(self.intake.failure.take());
        let mut claimed = found.claimed;
        if !only_local {
            let frames = self.take_frames(self.intake.scanner.batch_max());
            claimed.extend(self.served_frames(frames));
        }
        let more = found.more || !claimed.is_empty() || self.intake.has_frames();
        let outcomes = self.process(claimed)?;
        Ok(Round {
            outcomes,
            more: more || self.intake.more_cases_due,
        })
    }

    /// Runs rounds until the spool is empty and no half-written file is awaited; files over a quota
    /// and entries that cannot be moved stay. `report` receives the outcomes of each round.
    ///
    /// # Errors
    /// Returns why an entry of the spool could not be read, after everything else was decided; or
    /// that the disk is full, after what is served then.
    pub fn until_idle(
        &mut self,
        only_local: bool,
        stop: &AtomicBool,
        report: &mut dyn FnMut(&[Outcome]),
    ) -> Result<(), HomeError> {
        // A command decides one request and ends, so its time must not count against silent agents.
        if !only_local {
            self.begin_watching();
        }
        while !stop.load(Ordering::SeqCst) {
            let round = self.round(only_local)?;
            report(&round.outcomes);
            // Ask after every round, or a gate under constant load would never ask.
            let heard = self.outside.ask_roles(&self.core)?;
            if round.more || heard {
                continue;
            }
            if self.is_disk_full() {
                break;
            }
            if self.outside.waits_for_commands() {
                self.outside.wait_for_commands(UNFINISHED_WAIT);
                continue;
            }
            if self.outside.has_actions() {
                self.outside.wait_for_actions(UNFINISHED_WAIT);
                continue;
            }
            if only_local || !(self.intake.scanner.has_unfinished() || self.outside.is_asking()) {
                break;
            }
            self.core.seams.clock.sleep(UNFINISHED_WAIT);
        }
        // A watcher looks again later. A command that ends must not report success.
        match self.intake.failure.take() {
            Some(source) => Err(HomeError::disk(Path::new("spool/in"), source)),
            // A command that handed a request over looks for its answer instead.
            None if self.is_disk_full() && !only_local => {
                let full = std::io::ErrorKind::StorageFull.into();
                Err(HomeError::disk(Path::new(AUDIT_DIR), full))
            }
            None => Ok(()),
        }
    }

    /// Runs until `stop`: rounds while there is work, then a wait for a hint or the heartbeat.
    pub fn watch(
        &mut self,
        hints: &mut Hints,
        stop: &AtomicBool,
        report: &mut dyn FnMut(&[Outcome]),
    ) -> Result<(), HomeError> {
        self.note_start();
        self.begin_watching();
        publish::fill_reserve(self.core.seams.disk.as_ref());
        self.outside.waker = Some(hints.waker());
        let mut publish_by = None;
        let (since, mut shown) = (self.core.ledger_now(), None);
        while !stop.load(Ordering::SeqCst) {
            let disk = std::sync::Arc::clone(&self.core.seams.disk);
            // Arm before the scan, so that no change in between is missed; arm again if that
            // changed anything, so that a folder replaced meanwhile is watched before the wait.
            for _ in 0..2 {
                let disk: &dyn Disk = disk.as_ref();
                if !hints.arm(
                    &self.core.root,
                    disk,
                    self.intake.scanner.folders().into_iter(),
                ) {
                    break;
                }
            }
            let round = self.round(false)?;
            report(&round.outcomes);
            self.show_watcher(since, &mut shown);
            // Ask after every round, or a gate under constant load would never ask.
            let heard = self.outside.ask_roles(&self.core)?;
            if round.more || heard || self.outside.has_notices_behind() {
                continue;
            }
            if self.core.has_outstanding() {
                let now_ms = self.core.seams.clock.monotonic_ms();
                let until_ms =
                    *publish_by.get_or_insert(now_ms.saturating_add(PUBLISHED_WITHIN_MS));
                if now_ms < until_ms && hints.wait(QUIET) {
                    continue;
                }
                self.mark_published()?;
            }
            publish_by = None;
            let looks_again = self.intake.scanner.has_unfinished()
                || self.intake.scanner.has_waiting()
                || self.outside.is_asking();
            let wait = if looks_again {
                UNFINISHED_WAIT
            } else {
                HEARTBEAT
            };
            hints.wait(wait);
        }
        self.finish_within("the watcher stopped in order", stop)
    }

    /// Notes that a watcher started, and what cages enforce here if the rules name a program.
    fn note_start(&mut self) {
        let level = self.core.rulebook.safety.cage;
        let has_cage = level != CageLevel::Off && !programs(&self.core.rulebook).is_empty();
        let cage = has_cage.then(|| command::probe_cage(level));
        let cage = match cage {
            Some(Err(error)) => {
                let text = format!("programs of the rules cannot be started: {error}");
                self.news.tell(&self.core, text);
                None
            }
            other => other.and_then(Result::ok),
        };
        let started = Event {
            timestamp: self.core.ledger_now(),
            note: "the watcher started".to_owned(),
            changes: Vec::new(),
            cage,
        };
        self.news
            .events
            .push(Record::Event(EventKind::Start, started));
    }

    /// Ends a run in order: finishes outgoing actions, writes the stop line, makes answers durable
    /// and saves a snapshot.
    pub fn finish(&mut self, note: &str) -> Result<(), HomeError> {
        self.finish_within(note, &AtomicBool::new(false))
    }

    /// As [`Home::finish`]. Clears `hurry` once it waits for actions; setting it again ends them at
    /// once.
    pub fn finish_within(&mut self, note: &str, hurry: &AtomicBool) -> Result<(), HomeError> {
        self.end_actions(hurry)?;
        let changes = self.news.end_watching(&self.core);
        let (timestamp, note) = (self.core.ledger_now(), note.to_owned());
        self.news.events.push(Record::Event(
            EventKind::Stop,
            Event {
                timestamp,
                note,
                changes,
                cage: None,
            },
        ));
        self.write_news()?;
        self.mark_published()?;
        // Receivers are also told that the run ended.
        self.outside.end_notifying(&self.core, &mut self.news);
        self.outside.give_back_waiting(&self.core);
        self.intake.close_socket();
        self.core.sweep()
    }
}
