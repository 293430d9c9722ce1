//! Takes one batch through the gate: prepares requests, orders them by lane and decides them.
//!
//! `commit.rs` seals the batch and releases what depends on it.

use std::path::{Path, PathBuf};

use super::blobs::Unsynced;
use super::core::Core;
use super::error::HomeError;
use super::open::Home;
use super::rule_files::RULES_DIR;
use crate::index::fold::fold;
use spoolgate_admission::lineage::{self, Reported};
use spoolgate_gate::actions::Lane;
use spoolgate_gate::decide::Lookups;
use spoolgate_gate::elsewhere::NoLineage;
use spoolgate_gate::gateway::Begins;
use spoolgate_gate::prepare::{Prepared, Refusal};
use spoolgate_gate::record::{Decision, Event, EventKind, Published, Record, RecordError, Status};
use spoolgate_gate::{Change, Decided, decide, elsewhere, events, flatten, outbox, prepare, pulls};
use spoolgate_host::spool::claim::{self, Claimed};
use spoolgate_host::spool::name::ClaimName;
use spoolgate_host::spool::publish;
use spoolgate_ledger::disk::{self, Mode};
use spoolgate_ledger::line::LINE_BYTES_MAX;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::answer::Answer;
use spoolgate_wire::code::Code;
use spoolgate_wire::signing::sha256_hex;
use spoolgate_wire::time::Time;

/// Folder of contents kept by digest, below the home.
pub const BLOBS_DIR: &str = "audit/blobs";
/// Largest blob that is read back, bytes.
pub(super) const BLOB_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Number of lines after which answers are made durable and the state is snapshotted.
pub const LINES_PER_SNAPSHOT: u64 = 1024;
/// Maximum number of answers that recovery may have to compare.
const OUTSTANDING_MAX: usize = 1024;
/// The lower bound after one-shot commands, which keeps the next start-up cheap.
const OUTSTANDING_ONE_SHOT: usize = 256;
/// Maximum bytes of lines that one decision may write. Market rows that fill more orders must be
/// sent in parts.
const DECISION_BYTES_MAX: usize = 8 * 1024 * 1024;
/// A batch is committed once its lines have this many bytes.
const BATCH_LINE_BYTES: usize = 1024 * 1024;

/// Result of one delivery, for the operator.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Number of its decision line.
    pub seq: u64,
    /// Its decision.
    pub decision: Decision,
    /// Its answer.
    pub answer: Answer,
}

/// A claim that is being decided.
pub(super) struct Begun {
    pub(super) claim: ClaimName,
    /// Bytes of its file, kept if it is refused.
    pub(super) bytes: Option<Vec<u8>>,
    pub(super) waited: Waited,
}

/// How a request has waited for commands.
#[derive(Clone, Debug, Default)]
pub(super) struct Waited {
    /// How often it waited.
    pub(super) waits: u32,
    /// What a lineage command reported about its task, or why it reported nothing; `None` if no
    /// command was asked.
    pub(super) reported: Option<Result<Reported, NoLineage>>,
}

/// Lines on their way into the ledger.
#[derive(Default)]
pub(super) struct Pending {
    pub(super) records: Vec<Record>,
    /// For each record, the number of the request that it was written for, counted from 1; 0 before
    /// the first request.
    pub(super) turns: Vec<u32>,
    /// Number of the request that is being decided, or of the last one.
    turn: u32,
    pub(super) bodies: Vec<(&'static str, String)>,
    bytes: usize,
    /// Outgoing actions to start once the lines are durable.
    pub(super) begins: Vec<Begins>,
    /// Blobs that the lines name.
    pub(super) blobs: Unsynced,
}

impl Pending {
    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }
}

impl Home {
    /// Puts a line into the batch and folds it, so that the next decision of the batch sees it. If
    /// the batch then cannot be made durable, the process ends and its state is lost with it.
    fn push(
        &mut self,
        pending: &mut Pending,
        record: Record,
        body: String,
    ) -> Result<(), HomeError> {
        let seq = self.core.next_seq(pending);
        fold(
            &mut self.core.state,
            &self.core.store,
            &mut self.core.outstanding,
            seq,
            &record,
        )?;
        // Decisions compare the two and derive the limits themselves where they differ.
        self.core.rulebook.put_under(&self.core.state.overrides);
        self.news.note_signs_of_life(&record);
        if record.changes().iter().any(is_forgetting) {
            self.news.watched.want();
        }
        pending.bytes = pending.bytes.saturating_add(body.len());
        pending.bodies.push((record.kind(), body));
        pending.records.push(record);
        pending.turns.push(pending.turn);
        Ok(())
    }

    /// Puts the line of an event into the batch, and the pulls that follow from it.
    pub(super) fn push_event(
        &mut self,
        pending: &mut Pending,
        record: Record,
    ) -> Result<(), HomeError> {
        let margin = pulls::margin(record.changes(), &self.core.rulebook);
        let now = record.timestamp();
        self.push_alone(pending, record)?;
        self.push_pulls(pending, margin, now)
    }

    fn push_alone(&mut self, pending: &mut Pending, record: Record) -> Result<(), HomeError> {
        let body = record
            .body()
            .map_err(|error| HomeError::Record(error.to_string()))?;
        self.push(pending, record, body)
    }

    /// Writes lines that withdraw the working entries that are no longer allowed, until every one
    /// is.
    fn push_pulls(
        &mut self,
        pending: &mut Pending,
        margin: Amount,
        now: Time,
    ) -> Result<(), HomeError> {
        while let Some(event) = pulls::next(&self.core.state, &self.core.rulebook, margin, now) {
            self.push_alone(pending, Record::Event(EventKind::Pull, event))?;
        }
        Ok(())
    }

    /// Writes lines that close the positions that shall be flat, until nothing more is to be done about
    /// them now.
    fn push_flattens(&mut self, pending: &mut Pending, now: Time) -> Result<(), HomeError> {
        loop {
            let seq = self.core.next_seq(pending);
            let Core {
                state, rulebook, ..
            } = &self.core;
            let Some((kind, event)) = flatten::next(state, rulebook, seq, now) else {
                return Ok(());
            };
            self.push_event(pending, Record::Event(kind, event))?;
        }
    }

    /// Writes the lines that a batch begins with, for what the gate noticed since the last batch.
    fn push_news(&mut self, pending: &mut Pending, now: Time) -> Result<(), HomeError> {
        for event in std::mem::take(&mut self.news.events) {
            self.push_event(pending, event)?;
        }
        let step = self.core.clock_step(false);
        let halt = self.core.look_for_halt_file(now);
        let rules = self.look_at_rules_if_room(now, false)?;
        for event in step.into_iter().chain(halt).chain(rules) {
            self.push_event(pending, event)?;
        }
        if !self.core.storage.is_full() {
            self.push_bridges(pending, now)?;
        }
        let over = events::overrides_end(&self.core.state, &self.core.rulebook, now);
        if let Some(event) = over {
            self.push_event(pending, Record::Event(EventKind::Tick, event))?;
        }
        let margin = *self.core.rulebook.safety.pull_margin;
        self.push_pulls(pending, margin, now)?;
        // What time alone brings about can wait until the disk has room again.
        if self.core.storage.is_full() {
            return Ok(());
        }
        self.push_responses(pending, now)?;
        self.push_expiries(pending, now)?;
        self.push_approved(pending, now)?;
        for part in events::new_day(&self.core.state, &self.core.rulebook, now) {
            let changes = outbox::of_line(&self.core.state.book, &self.core.rulebook, part, now);
            // If all orders of a part are already ending at their venue, no change is left to
            // record.
            if !changes.is_empty() {
                let note = events::NEW_DAY.to_owned();
                self.push_event(
                    pending,
                    Record::Event(
                        EventKind::Tick,
                        Event {
                            timestamp: now,
                            note,
                            changes,
                            cage: None,
                        },
                    ),
                )?;
            }
        }
        Ok(())
    }

    /// Takes claimed files through the gate in as few batches as their size allows.
    ///
    /// # Errors
    /// Returns [`HomeError`] if reading or writing fails; nothing of the unfinished batch was
    /// released then.
    pub fn process(&mut self, claimed: Vec<Claimed>) -> Result<Vec<Outcome>, HomeError> {
        self.process_either(Some(claimed))
    }

    /// Like [`Home::process`], for requests that waited for a command. Records the answers of the
    /// commands first.
    pub(super) fn process_who_waited(&mut self) -> Result<Vec<Outcome>, HomeError> {
        self.process_either(None)
    }

    /// Takes these claims through the gate; `None` for the claims whose wait is over.
    fn process_either(&mut self, claimed: Option<Vec<Claimed>>) -> Result<Vec<Outcome>, HomeError> {
        let now = self.core.ledger_now();
        self.news.look(&self.core);
        self.core.look_at_storage()?;
        if self.core.storage.must_refill() {
            publish::fill_reserve(self.core.seams.disk.as_ref());
        }
        self.derived.retry_files(&self.core, &mut self.news)?;
        self.show_gate(now)?;
        self.core.begin_batch()?;
        let mut pending = Pending::default();
        self.push_news(&mut pending, now)?;
        let claimed = match claimed {
            Some(claimed) => claimed
                .into_iter()
                .map(|claimed| (claimed, Waited::default()))
                .collect(),
            None => self.push_external_answers(&mut pending, now)?,
        };
        let mut waiting = self.prepared(claimed, now);
        // A run that decides nothing writes nothing about a disk that has room.
        let storage = !waiting.is_empty() || self.core.is_or_was_full();
        if let Some(event) = storage.then(|| self.core.storage_line(now)).flatten() {
            self.push_event(&mut pending, event)?;
        }
        let asks_outside = elsewhere::is_used(&self.core.rulebook);
        self.core.keyring.check()?;
        let mut outcomes = Vec::new();
        let mut claims = Vec::new();
        for lane in [Lane::Feed, Lane::Control, Lane::Protected, Lane::Ordinary] {
            // The lane of an order is computed when its turn comes; the last lane takes everything
            // left.
            let mut later = Vec::new();
            for (mut begun, request) in waiting {
                if lane != Lane::Ordinary && request.lane(&self.core.state) != lane {
                    later.push((begun, request));
                    continue;
                }
                // Requests that admission can refuse are always in the last lane.
                if asks_outside
                    && lane == Lane::Ordinary
                    && let Some(ask) = self.core.must_wait(&request, &begun.waited, now)?
                {
                    match self.outside.set_aside(&self.core, begun, &request, ask)? {
                        None => continue,
                        Some(without_room) => begun = without_room,
                    }
                }
                begun.claim = self.outside.before_deciding(&self.core, begun.claim)?;
                let Some(seq) = self.decide_if_room(&mut pending, &mut begun, &request, now)?
                else {
                    self.put_back(&begun, now)?;
                    continue;
                };
                claims.push((begun, seq));
                if pending.bytes >= BATCH_LINE_BYTES {
                    outcomes.extend(self.commit_part(&mut pending, &mut claims)?);
                }
            }
            waiting = later;
        }
        let can_wait = self.core.storage.is_full();
        if !can_wait {
            self.push_absences(&mut pending, now)?;
        }
        self.push_flattens(&mut pending, now)?;
        if !can_wait {
            self.push_owed(&mut pending, now)?;
        }
        let instructs = pending
            .records
            .iter()
            .any(|record| outbox::instructs(record.changes()));
        outcomes.extend(self.commit(pending, claims)?);
        if instructs && !can_wait {
            // What they replace and no bridge has taken is free at once.
            self.core.begin_batch()?;
            let mut pending = Pending::default();
            self.push_taken_back(&mut pending, now)?;
            self.commit(pending, Vec::new())?;
        }
        if !can_wait && self.has_case_work() {
            self.core.begin_batch()?;
            let mut pending = Pending::default();
            self.push_case_work(&mut pending, now)?;
            self.commit(pending, Vec::new())?;
        }
        self.outside.go_on_notifying(&self.core, &mut self.news);
        // Mark rule files as published now: a later start would write them again, and by then the
        // operator may have edited them.
        if !self.core.storage.is_full()
            && (self.derived.is_dirty(RULES_DIR)
                || self.core.lines_since_snapshot >= LINES_PER_SNAPSHOT
                || self.core.outstanding.len() >= OUTSTANDING_MAX)
        {
            self.mark_published()?;
        }
        Ok(outcomes)
    }

    /// Prepares the requests of claims, in the order of their spools and files.
    fn prepared(&self, claimed: Vec<(Claimed, Waited)>, now: Time) -> Vec<(Begun, Prepared)> {
        let prepared = |(claimed, waited): (Claimed, Waited)| {
            let request = prepare(&claimed.delivery, &self.core.state, &self.core.keyring, now);
            let begun = Begun {
                claim: claimed.claim,
                bytes: claimed.delivery.content.ok(),
                waited,
            };
            (begun, request)
        };
        let mut waiting: Vec<(Begun, Prepared)> = claimed.into_iter().map(prepared).collect();
        waiting.sort_by(|(Begun { claim: a, .. }, _), (Begun { claim: b, .. }, _)| {
            (&a.origin, &a.file, a.attempt).cmp(&(&b.origin, &b.file, b.attempt))
        });
        waiting
    }

    /// Commits what was decided so far, and begins the next batch.
    fn commit_part(
        &mut self,
        pending: &mut Pending,
        claims: &mut Vec<(Begun, u64)>,
    ) -> Result<Vec<Outcome>, HomeError> {
        let outcomes = self.commit(std::mem::take(pending), std::mem::take(claims))?;
        self.core.begin_batch()?;
        Ok(outcomes)
    }

    /// Decides one request and returns the number of its decision line. `None` if it must wait until
    /// the disk has room.
    fn decide_if_room(
        &mut self,
        pending: &mut Pending,
        begun: &mut Begun,
        request: &Prepared,
        now: Time,
    ) -> Result<Option<u64>, HomeError> {
        if self.core.waits_for_room(request) {
            return Ok(None);
        }
        let (bytes, reported) = (begun.bytes.as_deref(), begun.waited.reported.take());
        self.decide_one(pending, request, bytes, reported, now)
    }

    /// Puts a claim back into its spool, undecided, because the disk has no room for it. A frame is
    /// refused.
    fn put_back(&mut self, begun: &Begun, now: Time) -> Result<(), HomeError> {
        if begun.claim.origin.is_socket() {
            let content = begun.bytes.as_deref();
            self.intake
                .answer_without_line(&begun.claim, content, None, now);
            return Ok(());
        }
        let work = Path::new(claim::WORK_DIR);
        let put = claim::put_back(self.core.seams.disk.as_ref(), &begun.claim)
            .map_err(|source| HomeError::disk(work, source))?;
        if !put {
            self.intake.without_room.push(begun.claim.clone());
        }
        Ok(())
    }

    /// Decides one request and returns the number of its decision line. `None` if the disk has no
    /// room for what the line would name; the request is then undecided.
    fn decide_one(
        &mut self,
        pending: &mut Pending,
        request: &Prepared,
        bytes: Option<&[u8]>,
        reported: Option<Result<Reported, NoLineage>>,
        now: Time,
    ) -> Result<Option<u64>, HomeError> {
        let again = reported.clone();
        let sealing = self.core.seal(request, bytes)?;
        let mut lookups = Lookups {
            reported,
            sealing,
            scarce: self.core.storage.scarce(),
            ..self.look_up(pending, request, now)?
        };
        if lookups.sealing.is_some() {
            self.core.recognise_seen(pending, request, &mut lookups)?;
        }
        let seq = self.core.next_seq(pending);
        let decided = decide(
            &self.core.state,
            &self.core.rulebook,
            request,
            &lookups,
            now,
            seq,
        );
        let (decided, bodies) = match render(&decided) {
            Ok(bodies) => (decided, bodies),
            Err(why) => {
                let refused = refuse_instead(request, &why);
                let decided = decide(
                    &self.core.state,
                    &self.core.rulebook,
                    &refused,
                    &lookups,
                    now,
                    seq,
                );
                let bodies = render(&decided)?;
                (decided, bodies)
            }
        };
        // A blob that has no room makes the disk full, and the request is decided again as on one,
        // or waits.
        let blobs = self.put_blobs(pending, &decided, bytes);
        match blobs {
            Err(error) if error.is_full() => {
                self.core.meet_full_disk()?;
                return match lookups.scarce {
                    None => self.decide_one(pending, request, bytes, again, now),
                    Some(_) => Ok(None),
                };
            }
            other => other?,
        }
        pending.turn = pending.turn.saturating_add(1);
        let is_carried_out = decided.decision.status == Status::Success;
        let resolves = decided.resolves.clone();
        let market = u64::try_from(decided.market.len()).unwrap_or(u64::MAX);
        self.push_decided(pending, decided, bodies)?;
        if is_carried_out {
            self.outside.forget_running(&self.core, request);
        }
        if let Some(resolution) = resolves {
            self.resolve(pending, &resolution, now)?;
        }
        let decision_seq = seq.saturating_add(market);
        self.put_applied_in_force(pending, decision_seq, now)?;
        self.put_services_in_force(pending, decision_seq, now)?;
        Ok(Some(decision_seq))
    }

    /// Stores the blobs that the lines of a decision will name; of a held request also its bytes.
    pub(super) fn put_blobs(
        &self,
        pending: &mut Pending,
        decided: &Decided,
        bytes: Option<&[u8]>,
    ) -> Result<(), HomeError> {
        for (digest, blob) in &decided.blobs {
            self.core.put_blob(pending, digest, blob)?;
        }
        match (&decided.decision.file_sha256, bytes) {
            (Some(digest), Some(bytes)) if decided.decision.status == Status::Held => {
                self.core.put_blob(pending, digest, bytes)
            }
            _ => Ok(()),
        }
    }

    /// Puts the lines of a decision into the batch, with `bodies` as their text. Its blobs are
    /// stored already.
    pub(super) fn push_decided(
        &mut self,
        pending: &mut Pending,
        decided: Decided,
        bodies: Vec<String>,
    ) -> Result<(), HomeError> {
        let now = decided.decision.timestamp;
        pending.begins.extend(decided.begins.map(|begins| *begins));
        let records = decided.market.into_iter().map(Record::Market);
        let records = records.chain([Record::Decision(Box::new(decided.decision))]);
        let mut margin = *self.core.rulebook.safety.pull_margin;
        for (record, body) in records.zip(bodies) {
            margin = margin.min(pulls::margin(record.changes(), &self.core.rulebook));
            self.push(pending, record, body)?;
        }
        self.push_pulls(pending, margin, now)
    }

    /// Writes a batch of lines that belong to no request, if there are any.
    ///
    /// # Errors
    /// Returns [`HomeError`] if the batch cannot be written.
    pub fn write_news(&mut self) -> Result<(), HomeError> {
        self.process(Vec::new()).map(|_| ())
    }

    /// Queues an event line for the next batch.
    pub fn note(&mut self, kind: EventKind, note: &str) {
        let timestamp = self.core.ledger_now();
        self.news.events.push(Record::Event(
            kind,
            Event {
                timestamp,
                note: note.to_owned(),
                changes: Vec::new(),
                cage: None,
            },
        ));
    }

    /// Makes all answers durable, records that in the ledger and snapshots the state, so that the
    /// next start has nothing to compare and little to fold.
    ///
    /// Marks nothing while an instruction for a bridge or a rule file cannot be written, because
    /// the files of marked lines are never written again.
    ///
    /// # Errors
    /// Returns [`HomeError`] if the disk, the ledger or the index reports an error.
    pub fn mark_published(&mut self) -> Result<(), HomeError> {
        if self.core.storage.is_full() {
            return Ok(());
        }
        self.derived.retry_files(&self.core, &mut self.news)?;
        let outstanding = self.core.outstanding.last_key_value().map(|(seq, _)| *seq);
        if let Some(up_to) = outstanding.filter(|_| !self.derived.is_blocked()) {
            let out = Path::new("spool/out");
            self.core
                .seams
                .disk
                .sync_fs(out)
                .map_err(|source| HomeError::disk(out, source))?;
            self.derived.sync_files(&self.core)?;
            self.core.begin_batch()?;
            let mut pending = Pending::default();
            let timestamp = self.core.ledger_now();
            self.push_event(
                &mut pending,
                Record::Published(Published { timestamp, up_to }),
            )?;
            self.commit(pending, Vec::new())?;
        }
        self.core.save_snapshot()
    }

    /// Ends a one-shot command: saves a snapshot and, if many answers are outstanding, makes them
    /// durable.
    ///
    /// # Errors
    /// Returns [`HomeError`] if the disk, the ledger or the index reports an error.
    pub fn settle(&mut self) -> Result<(), HomeError> {
        if self.core.outstanding.len() >= OUTSTANDING_ONE_SHOT {
            self.mark_published()?;
        } else {
            self.core.save_snapshot()?;
        }
        self.outside.end_notifying(&self.core, &mut self.news);
        Ok(self.core.store.rest()?)
    }

    /// Stores content durably under its digest.
    ///
    /// # Errors
    /// Returns the disk's error.
    pub fn keep_blob(&self, digest: &str, bytes: &[u8]) -> Result<(), HomeError> {
        keep_blob(self.core.seams.disk.as_ref(), digest, bytes)
    }
}

/// Reports whether a change makes the gate read policies again.
fn is_forgetting(change: &Change) -> bool {
    matches!(
        change,
        Change::Admission(lineage::Change::PoliciesForgotten { .. })
    )
}

/// Returns the content with this digest; `None` if it is missing or has another hash.
///
/// # Errors
/// Returns the disk's error.
pub fn blob(disk: &dyn disk::Disk, digest: &str) -> Result<Option<Vec<u8>>, HomeError> {
    let path = blob_path(digest);
    match disk.read(&path, BLOB_BYTES_MAX) {
        Ok(file) => Ok(Some(file.bytes).filter(|bytes| sha256_hex(bytes) == digest)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(HomeError::disk(&path, source)),
    }
}

pub(super) fn blob_path(digest: &str) -> PathBuf {
    Path::new(BLOBS_DIR).join(digest)
}

/// Stores content under its digest and makes both file and folder durable.
///
/// # Errors
/// Returns the disk's error.
pub fn keep_blob(disk: &dyn disk::Disk, digest: &str, bytes: &[u8]) -> Result<(), HomeError> {
    let path = blob_path(digest);
    let fail = |source| HomeError::disk(&path, source);
    let there = match disk.read_from_medium(&path, BLOB_BYTES_MAX) {
        Ok(file) => file.bytes == bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
        Err(source) => return Err(fail(source)),
    };
    if there {
        // It may be in the page cache only, left by a process that was killed before it synced.
        return disk.sync_fs(Path::new(BLOBS_DIR)).map_err(fail);
    }
    match disk::replace(disk, &path, bytes, Mode::Private, true) {
        // A command writes without the lock, so a gate that just ended may have swept its temporary
        // file.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            disk::replace(disk, &path, bytes, Mode::Private, true).map_err(fail)
        }
        other => other.map_err(fail),
    }
}

/// Why the lines of a decision cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// A body is not JSON.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The council's line is not JSON.
    #[error(transparent)]
    Council(#[from] serde_json::Error),
    /// One line is too long.
    #[error("a ledger line of {bytes} bytes would be needed, at most {most} fit")]
    Line {
        /// Length of its body.
        bytes: usize,
        /// The limit.
        most: usize,
    },
    /// All lines together are too long.
    #[error("ledger lines of {0} bytes would be needed, at most {DECISION_BYTES_MAX} fit")]
    Lines(usize),
}

/// Renders the bodies of a decision's lines.
///
/// # Errors
/// Returns why the lines do not fit into the ledger.
pub fn render(decided: &Decided) -> Result<Vec<String>, RenderError> {
    let mut bodies = Vec::new();
    let mut bytes = 0;
    // Room for prev, seq, batch and kind.
    let body_max = LINE_BYTES_MAX - 200;
    for rows in &decided.market {
        bodies.push(Record::Market(rows.clone()).body()?);
    }
    bodies.push(decided.decision.body()?);
    for body in &bodies {
        if body.len() > body_max {
            return Err(RenderError::Line {
                bytes: body.len(),
                most: body_max,
            });
        }
        bytes += body.len();
    }
    if bytes > DECISION_BYTES_MAX {
        return Err(RenderError::Lines(bytes));
    }
    Ok(bodies)
}

/// Returns the same request, refused because its lines would not fit.
pub fn refuse_instead(request: &Prepared, why: &RenderError) -> Prepared {
    let refusal = Refusal::new(
        Code::Internal,
        format!("file `{}`: {why}; ask for less at a time", request.file),
    );
    let mut refused = request.clone();
    match &mut refused.request {
        Ok(authentic) => authentic.body = Err(refusal),
        Err(unverified) => unverified.refusal = refusal,
    }
    refused
}
