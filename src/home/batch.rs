//! One batch through the gate: prepare, order by lane, decide, append, publish, retire.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::blobs::Unsynced;
use super::cases::CASES_PER_BATCH;
use super::open::{Home, HomeError};
use super::sealed;
use super::socket::{Due, is_through_socket};
use crate::admission::lineage::{self, Reported};
use crate::gate::actions::Lane;
use crate::gate::decide::{FILLS_MAX, Lookups, needs};
use crate::gate::gateway::Begins;
use crate::gate::prepare::{Keyring, Origin, Prepared, Refusal};
use crate::gate::record::{Decision, Event, Published, Record, Response, Status};
use crate::gate::{Change, Decided, council, decide, elsewhere, events, outbox, prepare};
use crate::host::disk::{self, Mode};
use crate::ledger::line::LINE_BYTES_MAX;
use crate::ledger::log::Location;
use crate::ledger::{LedgerError, line, log};
use crate::spool::claim::{self, Claimed};
use crate::spool::name::ClaimName;
use crate::spool::publish::{self, Published as Put};
use crate::spool::retire::{self, Done, Keep};
use crate::state::fold::fold;
use crate::state::{Snapshot, StoreError};
use crate::wire::answer::Answer;
use crate::wire::code::Code;
use crate::wire::signing::sha256_hex;
use crate::wire::time::Time;

/// Folder of contents kept by digest, below the home.
pub const BLOBS_DIR: &str = "audit/blobs";
/// Largest blob that is read back.
pub(super) const BLOB_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Answers are made durable, and the state is snapshotted, every so many lines.
pub const LINES_PER_SNAPSHOT: u64 = 1024;
/// Answers that recovery may have to compare, at most.
const OUTSTANDING_MAX: usize = 1024;
/// And after a one-shot command: a claim that one left behind is compared with as many at the next start.
const OUTSTANDING_ONE_SHOT: usize = 256;
/// Most bytes of lines that one decision may write; market rows that fill more orders come in parts.
const DECISION_BYTES_MAX: usize = 8 * 1024 * 1024;
/// A batch is closed when its lines have this many bytes.
const BATCH_LINE_BYTES: usize = 1024 * 1024;

/// What became of one delivery, for whoever runs the gate.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Its line.
    pub seq: u64,
    /// Its decision.
    pub decision: Decision,
    /// Its answer.
    pub answer: Answer,
}

/// A claim that is being decided.
pub(super) struct Begun {
    pub(super) claim: ClaimName,
    /// What was read of it, for keeping if it is refused.
    pub(super) bytes: Option<Vec<u8>>,
    pub(super) told: Told,
}

/// What a request has waited for.
#[derive(Clone, Debug, Default)]
pub(super) struct Told {
    /// How often it waited.
    pub(super) waits: u32,
    /// What a lineage command said of its task, or why it said nothing; none: none was asked.
    pub(super) reported: Option<Result<Reported, String>>,
}

/// Lines on their way into the ledger.
#[derive(Default)]
pub(super) struct Pending {
    pub(super) records: Vec<Record>,
    bodies: Vec<(&'static str, String)>,
    bytes: usize,
    /// What is to be done outside once the lines are durable.
    begins: Vec<Begins>,
    /// Contents that the lines name.
    pub(super) blobs: Unsynced,
}

impl Home {
    pub(super) fn next_seq(&self, pending: &Pending) -> u64 {
        self.ledger.position().seq.saturating_add(u64::try_from(pending.records.len()).unwrap_or(u64::MAX))
    }

    /// Puts a line into the batch and folds it: the next decision of the batch sees it. If the batch then
    /// fails to become durable, the process ends and this state with it.
    fn push(&mut self, pending: &mut Pending, record: Record, body: String) -> Result<(), HomeError> {
        let seq = self.next_seq(pending);
        fold(&mut self.state, &self.store, &mut self.outstanding, seq, &record)?;
        self.note_signs_of_life(&record);
        self.cases_decided += usize::from(matches!(record, Record::Council(_)));
        if record.changes().iter().any(is_forgetting) {
            self.watched.want();
        }
        pending.bytes = pending.bytes.saturating_add(body.len());
        pending.bodies.push((record.kind(), body));
        pending.records.push(record);
        Ok(())
    }

    pub(super) fn push_event(&mut self, pending: &mut Pending, record: Record) -> Result<(), HomeError> {
        let body = record.body().map_err(HomeError::Record)?;
        self.push(pending, record, body)
    }

    /// Lines that a batch begins with: what was noticed since the last one.
    fn push_news(&mut self, pending: &mut Pending, now: Time) -> Result<(), HomeError> {
        for event in std::mem::take(&mut self.events) {
            self.push_event(pending, event)?;
        }
        let step = self.clock_step(false);
        let halt = self.look_for_halt_file(now);
        let rules = self.look_at_rules(now, false)?;
        for event in step.into_iter().chain(halt).chain(rules) {
            self.push_event(pending, event)?;
        }
        self.push_responses(pending, now)?;
        self.push_expiries(pending, now)?;
        self.push_approved(pending, now)?;
        for part in events::new_day(&self.state, &self.rulebook, now) {
            let changes = outbox::of_line(&self.state.book, part, now);
            // An order at a venue that is ending already ends no second time.
            if !changes.is_empty() {
                let note = events::NEW_DAY.to_owned();
                self.push_event(pending, Record::Tick(Event { timestamp: now, note, changes }))?;
            }
        }
        Ok(())
    }

    /// Takes claimed files through the gate in as few batches as their size allows.
    ///
    /// # Errors
    /// [`HomeError`]; nothing of an unfinished batch was released then.
    pub fn process(&mut self, claimed: Vec<Claimed>) -> Result<Vec<Outcome>, HomeError> {
        self.process_either(Some(claimed))
    }

    /// The same with requests that waited for a command, behind what the commands answered.
    pub(super) fn process_who_waited(&mut self) -> Result<Vec<Outcome>, HomeError> {
        self.process_either(None)
    }

    /// Takes these claims through the gate; none: those whose wait is over.
    fn process_either(&mut self, claimed: Option<Vec<Claimed>>) -> Result<Vec<Outcome>, HomeError> {
        let now = self.ledger_now();
        self.cases_decided = 0;
        self.look();
        self.retry_instructions()?;
        self.retry_rules()?;
        self.ledger.make_room()?;
        self.store.begin()?;
        let mut pending = Pending::default();
        self.push_news(&mut pending, now)?;
        let claimed = match claimed {
            Some(claimed) => claimed.into_iter().map(|claimed| (claimed, Told::default())).collect(),
            None => self.push_answers_from_elsewhere(&mut pending, now)?,
        };
        let mut waiting: Vec<(Begun, Prepared)> = claimed
            .into_iter()
            .map(|(Claimed { claim, delivery, .. }, told)| {
                let prepared = prepare(&delivery, &self.state, &self.keyring, now);
                (Begun { claim, bytes: delivery.content.ok(), told }, prepared)
            })
            .collect();
        let asks_elsewhere = elsewhere::is_used(&self.rulebook);
        self.keyring.check()?;
        waiting.sort_by(|(Begun { claim: a, .. }, _), (Begun { claim: b, .. }, _)| {
            (&a.origin, &a.file, a.attempt).cmp(&(&b.origin, &b.file, b.attempt))
        });
        let mut outcomes = Vec::new();
        let mut claims = Vec::new();
        for lane in [Lane::Feed, Lane::Control, Lane::Protected, Lane::Ordinary] {
            // The class of an order is computed when its turn comes; in the last lane everything left has it.
            let mut later = Vec::new();
            for (mut begun, request) in waiting {
                if lane != Lane::Ordinary && request.lane(&self.state) != lane {
                    later.push((begun, request));
                    continue;
                }
                // What admission can refuse is in the last lane.
                if asks_elsewhere
                    && lane == Lane::Ordinary
                    && let Some(ask) = self.must_wait(&request, &begun.told, now)?
                {
                    match self.set_aside(begun, &request, ask)? {
                        None => continue,
                        Some(without_room) => begun = without_room,
                    }
                }
                begun.claim = self.before_deciding(begun.claim)?;
                let reported = begun.told.reported.take();
                let seq = self.decide_one(&mut pending, &request, begun.bytes.as_deref(), reported, now)?;
                claims.push((begun, seq));
                if pending.bytes >= BATCH_LINE_BYTES {
                    outcomes.extend(self.commit(std::mem::take(&mut pending), std::mem::take(&mut claims))?);
                    self.ledger.make_room()?;
                    self.store.begin()?;
                }
            }
            waiting = later;
            // What may take long must not keep the answers of exits.
            if lane == Lane::Protected && !claims.is_empty() && waiting.iter().any(|(_, r)| r.is_on_a_case())
            {
                outcomes.extend(self.commit(std::mem::take(&mut pending), std::mem::take(&mut claims))?);
                self.ledger.make_room()?;
                self.store.begin()?;
            }
        }
        self.go_on_notifying(false);
        self.push_absences(&mut pending, now)?;
        self.push_owed(&mut pending, now)?;
        outcomes.extend(self.commit(pending, claims)?);
        if self.has_case_work() {
            self.ledger.make_room()?;
            self.store.begin()?;
            let mut pending = Pending::default();
            self.push_case_work(&mut pending, now)?;
            self.commit(pending, Vec::new())?;
        }
        // A rule's file that a start would make again could by then be one that a person has changed.
        let wrote_rules = std::mem::take(&mut self.rules_written);
        if wrote_rules
            || self.lines_since_snapshot >= LINES_PER_SNAPSHOT
            || self.outstanding.len() >= OUTSTANDING_MAX
        {
            self.mark_published()?;
        }
        Ok(outcomes)
    }

    /// Decides one request and returns the number of its decision line.
    fn decide_one(
        &mut self,
        pending: &mut Pending,
        request: &Prepared,
        bytes: Option<&[u8]>,
        reported: Option<Result<Reported, String>>,
        now: Time,
    ) -> Result<u64, HomeError> {
        let sealing = self.seal(request, bytes)?;
        let mut lookups = Lookups { reported, sealing, ..self.look_up(pending, request, now)? };
        if lookups.sealing.is_some() {
            self.recognise_seen(pending, request, &mut lookups)?;
        }
        let seq = self.next_seq(pending);
        let decided = decide(&self.state, &self.rulebook, request, &lookups, now, seq);
        let (decided, bodies) = match render(&decided) {
            Ok(bodies) => (decided, bodies),
            Err(why) => {
                let refused = refuse_instead(request, why);
                let decided = decide(&self.state, &self.rulebook, &refused, &lookups, now, seq);
                let bodies = render(&decided).map_err(HomeError::Record)?;
                (decided, bodies)
            }
        };
        let is_carried_out = decided.decision.status == Status::Success;
        if decided.decision.status == Status::Held
            && let (Some(digest), Some(bytes)) = (&decided.decision.file_sha256, bytes)
        {
            self.put_blob(pending, digest, bytes)?;
        }
        let resolves = decided.resolves.clone();
        let market = u64::try_from(decided.market.len()).unwrap_or(u64::MAX);
        self.push_decided(pending, decided, bodies)?;
        if is_carried_out {
            self.forget_running(request);
        }
        if let Some(resolution) = resolves {
            self.resolve(pending, &resolution, now)?;
        }
        let decision_seq = seq.saturating_add(market);
        self.put_applied_in_force(pending, decision_seq, now)?;
        self.put_services_in_force(pending, decision_seq, now)?;
        Ok(decision_seq)
    }

    /// Puts the lines of a decision into the batch, with these bodies.
    pub(super) fn push_decided(
        &mut self,
        pending: &mut Pending,
        decided: Decided,
        bodies: Vec<String>,
    ) -> Result<(), HomeError> {
        pending.begins.extend(decided.begins.map(|begins| *begins));
        for (digest, bytes) in &decided.blobs {
            self.put_blob(pending, digest, bytes)?;
        }
        let records = decided.market.into_iter().map(Record::Market);
        let council = decided.council.map(|line| Record::Council(Box::new(line)));
        let records = records.chain([Record::Decision(Box::new(decided.decision))]).chain(council);
        for (record, body) in records.zip(bodies) {
            self.push(pending, record, body)?;
        }
        Ok(())
    }

    pub(super) fn look_up(
        &self,
        pending: &Pending,
        request: &Prepared,
        now: Time,
    ) -> Result<Lookups, HomeError> {
        let mut lookups = Lookups::default();
        match self.fill_in(&mut lookups, pending, request, now) {
            // Nothing is decided on half of what there is to know.
            Err(HomeError::Ledger(LedgerError::Pruned(missing))) => lookups.pruned = Some(missing.files()),
            other => other?,
        }
        Ok(lookups)
    }

    fn fill_in(
        &self,
        lookups: &mut Lookups,
        pending: &Pending,
        request: &Prepared,
        now: Time,
    ) -> Result<(), HomeError> {
        let Ok(authentic) = &request.request else { return Ok(()) };
        let id = authentic.envelope.id.as_str();
        lookups.seen = self.store.seen(authentic.envelope.source.as_str(), id)?;
        if request.origin != Origin::Local {
            lookups.seen_in_spool = self.store.seen_in_spool(&request.origin.label(), id)?;
        }
        if let Some(seen) = lookups.seen.as_ref().filter(|seen| seen.seq < self.ledger.position().seq) {
            lookups.answer_is_lost = match self.answer_if_any(seen.seq) {
                Err(HomeError::AnswerLost(_)) => true,
                Err(error @ HomeError::Ledger(LedgerError::Pruned(_))) => return Err(error),
                _ => false,
            };
        }
        let needs = needs(request, &self.rulebook);
        if let Some(order_id) = needs.closed_order {
            lookups.closed_order = self.store.closed_order(order_id)?;
        }
        if let Some(since) = needs.fills_since {
            lookups.fills = self.store.fills_since(since, FILLS_MAX + 1)?;
        }
        if let Some(digest) = &needs.rows {
            lookups.rows = self.blob(digest)?;
        }
        if let Some(key_id) = &needs.key {
            lookups.key_is_held = self.keyring.verify_key(key_id).is_some();
            self.keyring.check()?;
        }
        if let Some((service, id)) = &needs.credential {
            lookups.key_is_held = self.keyring.inner().credential(service, id)?.is_some();
        }
        if let Some(query) = &needs.lineage {
            lookups.lineage = self.store.lineage(query)?;
        }
        if let Some(query) = &needs.history {
            lookups.history = Some(self.store.history(query, now)?);
        }
        if let Some((bridge, exec_id)) = &needs.report {
            lookups.booked_in = self.store.booked_in(bridge, exec_id)?;
        }
        self.look_up_proposal(pending, &needs, lookups)?;
        if let Some((source, id)) = &needs.control {
            lookups.decided = self.decided_before(pending, source, id)?;
        }
        if let Some((id, role)) = needs.case {
            lookups.docket = self.store.docket(&id)?;
            lookups.no_more_cases = self.cases_decided >= CASES_PER_BATCH;
            if let Some(docket) = &lookups.docket {
                let request = self.record_with(pending, docket.request)?;
                lookups.signed_case = sealed::signed_hash(self.seams.disk.as_ref(), request.as_deref())?;
            }
            if let (Some(docket), Some(role)) = (&lookups.docket, role) {
                let others =
                    council::waits_for(&self.rulebook, docket).into_iter().any(|other| other != role);
                if docket.closed.is_none() && !others && !lookups.no_more_cases {
                    lookups.said = Some(self.said(pending, docket)?);
                }
            }
        }
        Ok(())
    }

    /// Seals a batch, then releases what hangs on it.
    pub(super) fn commit(
        &mut self,
        pending: Pending,
        claims: Vec<(Begun, u64)>,
    ) -> Result<Vec<Outcome>, HomeError> {
        if pending.bodies.is_empty() {
            self.store.commit()?;
            return Ok(Vec::new());
        }
        let first = self.ledger.position().seq;
        let lines = pending.records.len();
        pending.blobs.sync(self.seams.disk.as_ref())?;
        let sealed = self.ledger.append(&pending.bodies)?;
        let mut by_seq: BTreeMap<u64, (Decision, Location)> = BTreeMap::new();
        let mut others: Vec<(u64, Record, Location)> = Vec::new();
        for (seq, (record, location)) in (first..).zip(pending.records.into_iter().zip(sealed.locations)) {
            match record {
                Record::Decision(decision) => {
                    by_seq.insert(seq, (*decision, location));
                }
                record => others.push((seq, record, location)),
            }
        }
        let mut answers = Vec::with_capacity(by_seq.len());
        let mut told_puts = Vec::new();
        let (mut due, mut late) = (Vec::new(), Vec::new());
        let responses: BTreeMap<u64, &Response> = others
            .iter()
            .filter_map(|(_, record, _)| match record {
                Record::Response(line) => Some((line.request_line, line.as_ref())),
                _ => None,
            })
            .collect();
        // Whoever is told that a rule is in force, or that a request is held, finds its file.
        for (seq, (decision, _)) in &by_seq {
            self.publish_holds(decision, false)?;
            self.publish_proposals(*seq, &decision.changes)?;
            self.publish_services(*seq, &decision.changes)?;
        }
        let mut ended: Vec<(u64, u64, Answer)> = Vec::new();
        for (seq, record, _) in &others {
            let Record::Response(line) = record else { continue };
            let answer = self.answer_of_response(line)?;
            for place in line.answers() {
                if is_through_socket(place) {
                    late.push((place.to_owned(), answer.clone()));
                    continue;
                }
                let path = publish::path_of(place);
                let put = publish::publish(self.seams.disk.as_ref(), &path, &answer.to_bytes())
                    .map_err(|source| HomeError::disk(&path, source))?;
                told_puts.push((path, put));
            }
            ended.push((*seq, line.request_line, answer));
        }
        for (seq, (decision, _)) in &by_seq {
            let original = decision.metadata.replay_of.unwrap_or(*seq);
            let answer = match (by_seq.get(&original), responses.get(&original)) {
                (_, Some(line)) => Some(self.answer_of_response(line)?),
                (Some((decision, _)), None) if decision.status == Status::Pending => None,
                (Some((decision, _)), None) => Some(self.answer_of(decision)?),
                (None, None) => self.answer_if_any(original)?,
            };
            let through_socket = Due::of(*seq, decision, answer.as_ref());
            let is_due = through_socket.is_some();
            due.extend(through_socket);
            let Some(answer) = answer else {
                // It comes with the response.
                answers.push(None);
                continue;
            };
            if is_due {
                answers.push(Some(answer));
                continue;
            }
            let path = publish::path_of(&decision.answer);
            let put = publish::publish(self.seams.disk.as_ref(), &path, &answer.to_bytes())
                .map_err(|source| HomeError::disk(&path, source))?;
            told_puts.push((path, put));
            answers.push(Some(answer));
        }
        self.answer_frames(&claims, due, &late);
        let (claims, over) = self.keep_unanswered(claims, &by_seq, &answers, &responses);
        told_puts.iter().for_each(|(path, put)| self.tell_put(path, put));
        pending.begins.into_iter().for_each(|begins| self.begin_action(begins));
        self.start_actions();
        // Whoever waits for an answer has it; the rest is for the next start and for auditors.
        self.ledger.publish_head()?;
        let told = others.iter().filter_map(|(_, record, _)| told_event(record));
        told.for_each(|event| self.on_event.iter_mut().for_each(|hear| hear(event)));
        for (seq, record, location) in others.iter().filter(|(_, record, _)| record.is_indexed()) {
            self.store.insert_line(*seq, *location, record)?;
            if matches!(record, Record::Proposal(_)) {
                self.publish_proposals(*seq, record.changes())?;
            }
        }
        for (seq, (decision, location)) in &by_seq {
            self.store.insert_decision_line(*seq, *location, decision)?;
            self.publish_case_files_of(*seq, decision)?;
            self.publish_instructions(*seq, &decision.changes, false)?;
            self.publish_forwarded(decision, false)?;
        }
        for (seq, record, _) in &others {
            if record.instructs() {
                self.publish_instructions(*seq, record.changes(), false)?;
            }
        }
        for (seq, record, _) in &others {
            if matches!(record, Record::Council(_) | Record::Input(_) | Record::Redact(_)) {
                self.publish_case_record(*seq, record)?;
            }
        }
        // Of bytes that may hold sealed members the line does not tell the hash.
        let untold = |(begun, seq): &(Begun, u64)| {
            let (decision, _) = by_seq.get(seq)?;
            let is_untold = decision.kept.is_some() && decision.file_sha256.is_none();
            begun.bytes.as_ref().filter(|_| is_untold).map(|bytes| sha256_hex(bytes))
        };
        let untold: Vec<Option<String>> = claims.iter().map(untold).collect();
        let done: Vec<Done<'_>> = claims
            .iter()
            .zip(&untold)
            .map(|((Begun { claim, bytes, .. }, seq), untold)| {
                let keep = by_seq.get(seq).and_then(|(decision, _)| {
                    let sha256 = decision.file_sha256.as_deref().or(untold.as_deref());
                    Some(Keep { place: decision.kept.as_deref()?, sha256, bytes: bytes.as_deref() })
                });
                Done { claim, keep }
            })
            .chain(over.iter().map(|claim| Done { claim, keep: None }))
            .collect();
        retire::retire(self.seams.disk.as_ref(), &done)
            .map_err(|source| HomeError::disk(Path::new(claim::WORK_DIR), source))?;
        self.store.save_tip(&self.ledger.position().to_stored())?;
        self.store.commit()?;
        self.lines_since_snapshot =
            self.lines_since_snapshot.saturating_add(u64::try_from(lines).unwrap_or(0)).saturating_add(1);
        let decided = by_seq.into_iter().zip(answers);
        let decided = decided
            .filter_map(|((seq, (decision, _)), answer)| Some(Outcome { seq, decision, answer: answer? }));
        let mut outcomes: Vec<Outcome> = decided.collect();
        for (seq, request_line, answer) in ended {
            match self.decision(request_line) {
                Ok((_, decision)) => outcomes.push(Outcome { seq, decision, answer }),
                // Who runs the gate is told less then.
                Err(HomeError::Ledger(LedgerError::Pruned(_))) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(outcomes)
    }

    /// Splits claims into those that are over and those of commands whose answer comes later: these stay until then, so
    /// that a start after a crash knows that somebody may wait. The latter are kept here; those that a response of this
    /// batch ends are given back.
    fn keep_unanswered(
        &mut self,
        claims: Vec<(Begun, u64)>,
        decisions: &BTreeMap<u64, (Decision, Location)>,
        answers: &[Option<Answer>],
        responses: &BTreeMap<u64, &Response>,
    ) -> (Vec<(Begun, u64)>, Vec<ClaimName>) {
        let over = responses.keys().filter_map(|line| self.unanswered.remove(line)).flatten().collect();
        let open: BTreeMap<u64, u64> = decisions
            .iter()
            .zip(answers)
            .filter(|(_, answer)| answer.is_none())
            .map(|((seq, (decision, _)), _)| (*seq, decision.metadata.replay_of.unwrap_or(*seq)))
            .collect();
        let mut done = Vec::new();
        for (begun, seq) in claims {
            match open.get(&seq).filter(|_| begun.claim.origin == Origin::Local) {
                Some(line) => self.unanswered.entry(*line).or_default().push(begun.claim),
                None => done.push((begun, seq)),
            }
        }
        (done, over)
    }

    /// Tells whoever runs the gate of an answer that met something in its place.
    pub(super) fn tell_put(&mut self, path: &Path, put: &Put) {
        let note = match put {
            Put::Done => return,
            Put::MovedAside(aside) => {
                format!(
                    "a directory stood in the way of `{}`; it is `{}` now",
                    path.display(),
                    aside.display()
                )
            }
            Put::Blocked(error) => format!(
                "the answer `{}` cannot be put there ({error}); mend its folder, then have the request sent again",
                path.display()
            ),
        };
        self.tell(note);
    }

    /// Tells whoever runs the gate.
    pub(super) fn tell(&mut self, note: String) {
        let event = Event { timestamp: self.ledger_now(), note, changes: Vec::new() };
        match &mut self.on_event {
            Some(hear) => hear(&event),
            None => self.untold.push(event),
        }
    }

    /// Writes lines that belong to no request, if there are any to write.
    ///
    /// # Errors
    /// [`HomeError`].
    pub fn write_news(&mut self) -> Result<(), HomeError> {
        self.process(Vec::new()).map(|_| ())
    }

    /// Queues an event line for the next batch.
    pub fn note(&mut self, make: fn(Event) -> Record, note: &str) {
        let timestamp = self.ledger_now();
        self.events.push(make(Event { timestamp, note: note.to_owned(), changes: Vec::new() }));
    }

    /// Makes all answers durable, says so in the ledger and snapshots the state, so that the next start has
    /// nothing to compare and little to fold. Not while an instruction for a bridge cannot be written: what is marked is
    /// never written again.
    ///
    /// # Errors
    /// [`HomeError`].
    pub fn mark_published(&mut self) -> Result<(), HomeError> {
        self.retry_instructions()?;
        self.retry_rules()?;
        let outstanding = self.outstanding.last_key_value().map(|(seq, _)| *seq);
        if let Some(up_to) =
            outstanding.filter(|_| self.instructions_blocked.is_empty() && self.rules_blocked.is_empty())
        {
            let out = Path::new("spool/out");
            self.seams.disk.sync_fs(out).map_err(|source| HomeError::disk(out, source))?;
            self.sync_case_files()?;
            self.sync_forwarded()?;
            self.sync_holds()?;
            self.sync_instructions()?;
            self.sync_proposals()?;
            self.ledger.make_room()?;
            self.store.begin()?;
            let mut pending = Pending::default();
            let timestamp = self.ledger_now();
            self.push_event(&mut pending, Record::Published(Published { timestamp, up_to }))?;
            self.commit(pending, Vec::new())?;
        }
        self.save_snapshot()
    }

    /// Ends a one-shot command: a snapshot, and now and then durable answers.
    ///
    /// # Errors
    /// [`HomeError`].
    pub fn settle(&mut self) -> Result<(), HomeError> {
        self.go_on_notifying(true);
        if self.outstanding.len() >= OUTSTANDING_ONE_SHOT {
            self.mark_published()?;
        } else {
            self.save_snapshot()?;
        }
        Ok(self.store.rest()?)
    }

    /// Whether answers are not known to be durable.
    pub fn has_outstanding(&self) -> bool {
        !self.outstanding.is_empty()
    }

    /// Snapshots the state: a cache, so that the next start reads little of the ledger.
    ///
    /// # Errors
    /// [`HomeError`].
    pub fn save_snapshot(&mut self) -> Result<(), HomeError> {
        if self.lines_since_snapshot == 0 {
            return Ok(());
        }
        let snapshot = Snapshot {
            position: self.ledger.position().to_stored(),
            state: self.state.clone(),
            outstanding: self.outstanding.clone(),
        };
        self.store.save_snapshot(&snapshot)?;
        self.lines_since_snapshot = 0;
        Ok(())
    }

    /// Batch number and record of a line that the index knows: decisions, of the council too, and inputs.
    ///
    /// # Errors
    /// [`HomeError`] if there is none.
    pub fn record(&self, seq: u64) -> Result<(u64, Record), HomeError> {
        let missing = || StoreError::Damaged(format!("line {seq} is not where the index has it"));
        let location = self.store.line(seq)?.ok_or_else(missing)?;
        let bytes = match log::read_line(self.seams.disk.as_ref(), location) {
            Err(LedgerError::NotOnLog) => return Err(missing().into()),
            other => other?,
        };
        let line = line::parse(&bytes).map_err(|error| HomeError::Record(format!("line {seq}: {error}")))?;
        match Record::parse(line.kind, &line.body()) {
            Ok(Some(record)) if line.seq == seq => Ok((line.batch, record)),
            Ok(_) => Err(missing().into()),
            Err(error) => Err(HomeError::Record(format!("line {seq}: {error}"))),
        }
    }

    /// Batch number and decision of a line.
    ///
    /// # Errors
    /// [`HomeError`] if there is none.
    pub fn decision(&self, seq: u64) -> Result<(u64, Decision), HomeError> {
        match self.record(seq)? {
            (batch, Record::Decision(decision)) => Ok((batch, *decision)),
            _ => {
                let what = format!("line {seq} is not a decision where the index has one");
                Err(StoreError::Damaged(what).into())
            }
        }
    }

    fn answer_of(&self, decision: &Decision) -> Result<Answer, HomeError> {
        let blob = match &decision.data_blob {
            Some(digest) => self.blob(digest)?,
            None => None,
        };
        decision.answer(blob.as_deref()).map_err(HomeError::AnswerLost)
    }

    /// The answer of line `seq`, made again from the ledger.
    ///
    /// # Errors
    /// [`HomeError`].
    pub fn answer(&self, seq: u64) -> Result<Answer, HomeError> {
        let none = || HomeError::AnswerLost(format!("line {seq}: what came of it is not known yet"));
        self.answer_if_any(seq)?.ok_or_else(none)
    }

    /// The same; none of an outgoing action that is open.
    ///
    /// # Errors
    /// [`HomeError`].
    pub(super) fn answer_if_any(&self, seq: u64) -> Result<Option<Answer>, HomeError> {
        match self.record(seq)?.1 {
            Record::Response(line) => self.answer_of_response(&line).map(Some),
            Record::Decision(decision) => match decision.metadata.replay_of {
                Some(original) if original < seq => self.answer_if_any(original),
                _ if decision.status == Status::Pending => match self.store.response_to(seq)? {
                    Some(response) => self.answer_if_any(response),
                    None => Ok(None),
                },
                _ => self.answer_of(&decision).map(Some),
            },
            _ => {
                let what = format!("line {seq} is not a decision where the index has one");
                Err(StoreError::Damaged(what).into())
            }
        }
    }

    fn answer_of_response(&self, line: &Response) -> Result<Answer, HomeError> {
        let blob = match &line.data_blob {
            Some(digest) => self.blob(digest)?,
            None => None,
        };
        line.answer(blob.as_deref()).map_err(HomeError::AnswerLost)
    }

    pub(super) fn answer_bytes(&self, seq: u64) -> Result<Vec<u8>, HomeError> {
        Ok(self.answer(seq)?.to_bytes())
    }

    /// Keeps a content under its digest, durably.
    ///
    /// # Errors
    /// What the disk says.
    pub fn keep_blob(&self, digest: &str, bytes: &[u8]) -> Result<(), HomeError> {
        keep_blob(self.seams.disk.as_ref(), digest, bytes)
    }

    fn blob(&self, digest: &str) -> Result<Option<Vec<u8>>, HomeError> {
        blob(self.seams.disk.as_ref(), digest)
    }
}

/// What whoever runs the gate is told of a line besides its answer.
fn told_event(record: &Record) -> Option<&Event> {
    match record {
        Record::Proposal(event)
        | Record::Rulebook(event)
        | Record::Halt(event)
        | Record::ClockStep(event)
        | Record::DeadMan(event)
        | Record::Quota(event) => Some(event),
        _ => None,
    }
}

/// Whether somebody wants policies read anew.
fn is_forgetting(change: &Change) -> bool {
    matches!(change, Change::Admission(lineage::Change::PoliciesForgotten { .. }))
}

/// The content of this digest; none if it is missing or does not hash to its name.
pub(super) fn blob(disk: &dyn disk::Disk, digest: &str) -> Result<Option<Vec<u8>>, HomeError> {
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

/// Keeps a content under its digest, durably: file and folder.
///
/// # Errors
/// What the disk says.
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
        // A command writes without the lock, so a gate that ended just now took it for a leftover.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            disk::replace(disk, &path, bytes, Mode::Private, true).map_err(fail)
        }
        other => other.map_err(fail),
    }
}

/// The bodies of a decision's lines, or why they cannot stand in the ledger.
pub(super) fn render(decided: &Decided) -> Result<Vec<String>, String> {
    let mut bodies = Vec::new();
    let mut bytes = 0;
    // Room for prev, seq, batch and kind.
    let body_max = LINE_BYTES_MAX - 200;
    for rows in &decided.market {
        bodies.push(Record::Market(rows.clone()).body()?);
    }
    bodies.push(decided.decision.body()?);
    if let Some(line) = &decided.council {
        bodies.push(serde_json::to_string(line).map_err(|error| error.to_string())?);
    }
    for body in &bodies {
        if body.len() > body_max {
            return Err(format!(
                "a ledger line of {} bytes would be needed, at most {body_max} fit",
                body.len()
            ));
        }
        bytes += body.len();
    }
    if bytes > DECISION_BYTES_MAX {
        return Err(format!(
            "ledger lines of {bytes} bytes would be needed, at most {DECISION_BYTES_MAX} fit"
        ));
    }
    Ok(bodies)
}

/// The same request, refused for what its lines would be.
pub(super) fn refuse_instead(request: &Prepared, why: String) -> Prepared {
    let refusal =
        Refusal::new(Code::Internal, format!("file `{}`: {why}; ask for less at a time", request.file));
    let mut refused = request.clone();
    match &mut refused.request {
        Ok(authentic) => authentic.body = Err(refusal),
        Err(unverified) => unverified.refusal = refusal,
    }
    refused
}
