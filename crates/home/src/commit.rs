//! The end of a batch: makes its lines durable, then releases everything that depends on them.
//!
//! A crash may interrupt these steps anywhere; their order allows for that.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::batch::{Begun, Outcome, Pending};
use super::core::Core;
use super::derived::{Line, Source};
use super::error::HomeError;
use super::open::Home;
use super::parts::Intake;
use super::socket::{clients_of, is_through_socket};
use spoolgate_council::case;
use spoolgate_gate::Change;
use spoolgate_gate::gateway::Begins;
use spoolgate_gate::prepare::Origin;
use spoolgate_gate::record::{Decision, Event, EventKind, Record, Response, Status};
use spoolgate_host::spool::claim;
use spoolgate_host::spool::name::ClaimName;
use spoolgate_host::spool::publish::{self, Published as Put};
use spoolgate_host::spool::retire::{self, Done, Keep};
use spoolgate_ledger::LedgerError;
use spoolgate_ledger::disk::Mode;
use spoolgate_ledger::log::Location;
use spoolgate_wire::answer::Answer;
use spoolgate_wire::signing::sha256_hex;

/// A durable line of the batch that is being released.
struct BatchLine {
    seq: u64,
    /// Number of the request that it was written for, counted from 1; 0 before the first request.
    /// Lines after the last request belong to it.
    turn: u32,
    record: Record,
    location: Location,
    /// Answer to its sender; `None` if it answers nobody, or if the answer comes with a later
    /// response.
    answer: Option<Answer>,
}

/// The lines of a batch while their answers are made.
struct Batch<'a> {
    lines: &'a [BatchLine],
    /// Responses, by the line of the request that they end.
    responses: BTreeMap<u64, &'a Response>,
    /// Clients of the socket, by the decision line of the frame that they sent.
    clients: BTreeMap<u64, u64>,
}

impl Batch<'_> {
    fn decision(&self, seq: u64) -> Option<&Decision> {
        decision_of(self.lines, seq)
    }
}

/// The decision on line `seq`, if it is one of these lines.
fn decision_of(lines: &[BatchLine], seq: u64) -> Option<&Decision> {
    let index = seq.checked_sub(lines.first()?.seq)?;
    match &lines.get(usize::try_from(index).ok()?)?.record {
        Record::Decision(decision) => Some(decision),
        _ => None,
    }
}

impl Home {
    /// Seals a batch, then releases what depends on it.
    ///
    /// # Errors
    /// Returns [`HomeError`] if the batch cannot be sealed or released. If its lines are durable by
    /// then, the next start releases the rest.
    pub(super) fn commit(
        &mut self,
        pending: Pending,
        claims: Vec<(Begun, u64)>,
    ) -> Result<Vec<Outcome>, HomeError> {
        if pending.is_empty() {
            self.core.commit_index()?;
            return Ok(Vec::new());
        }
        // Nothing leaves the gate before its line is durable: otherwise a crash could undo what
        // others have already seen.
        let (mut lines, begins) = self.core.seal_lines(pending)?;
        self.release(&mut lines, &claims)?;
        let (claims, over) = self.intake.keep_unanswered(claims, &lines);
        // Actions take time, and so does the checkpoint, which only the next start and auditors
        // need. All answers are published by now.
        begins
            .into_iter()
            .for_each(|begins| self.outside.begin_action(&self.core, begins));
        self.outside.start_actions(&self.core);
        if !self.core.ledger.publish_head()? {
            self.core.meet_full_disk()?;
        }
        self.tell_of(&lines);
        for line in lines.iter().filter(|line| line.record.is_indexed()) {
            self.core
                .store
                .insert_line(line.seq, line.location, &line.record)?;
        }
        // Retire a claim only after everything that a start would redo because of it. Commit the
        // index last: after a crash it may be behind the ledger, but never ahead of what was
        // released.
        let left = self.core.retire_claims(&claims, &over, &lines)?;
        if self.derived.owe_moves(left) {
            self.core.meet_full_disk()?;
        }
        self.core
            .store
            .save_tip(&self.core.ledger.position().to_stored())?;
        self.core.commit_index()?;
        let sealed = u64::try_from(lines.len())
            .unwrap_or(u64::MAX)
            .saturating_add(1);
        self.core.lines_since_snapshot = self.core.lines_since_snapshot.saturating_add(sealed);
        self.core.outcomes(lines)
    }

    /// Publishes derived files and answers, request by request. A client that sees an answer finds
    /// the files of its lines, and no exit waits for the files of later entries.
    fn release(
        &mut self,
        lines: &mut [BatchLine],
        claims: &[(Begun, u64)],
    ) -> Result<(), HomeError> {
        let responses = lines.iter().filter_map(|line| match &line.record {
            Record::Response(response) => Some((response.request_line, response.as_ref())),
            _ => None,
        });
        let batch = Batch {
            lines,
            responses: responses.collect(),
            clients: clients_of(claims),
        };
        let known: Vec<Line<'_>> = batch
            .lines
            .iter()
            .map(|line| (line.seq, &line.record))
            .collect();
        let mut answers = Vec::with_capacity(known.len());
        for turn in batch.lines.chunk_by(|one, other| one.turn == other.turn) {
            let files: Vec<Line<'_>> = turn.iter().map(|line| (line.seq, &line.record)).collect();
            let source = Source {
                core: &self.core,
                batch: &known,
                again: false,
            };
            self.derived
                .publish_files(&source, &mut self.news, &files)?;
            for line in turn {
                answers.push(self.publish_answer(line, &batch)?);
            }
        }
        lines
            .iter_mut()
            .zip(answers)
            .for_each(|(line, answer)| line.answer = answer);
        Ok(())
    }

    /// Publishes the answer that a line gives, and returns it.
    fn publish_answer(
        &mut self,
        line: &BatchLine,
        batch: &Batch<'_>,
    ) -> Result<Option<Answer>, HomeError> {
        match &line.record {
            Record::Response(response) => {
                let answer = self.core.answer_of_response(response)?;
                for place in response.answers() {
                    if is_through_socket(place) {
                        self.intake.answer_late_frame(place, &answer);
                    } else {
                        self.put_answer(place, &answer.to_bytes(), false)?;
                    }
                }
                Ok(Some(answer))
            }
            Record::Decision(decision) => {
                let answer = self.core.answer_in_batch(line.seq, decision, batch)?;
                if is_through_socket(&decision.answer) {
                    self.intake.answer_frame(
                        batch.clients.get(&line.seq).copied(),
                        decision,
                        answer.as_ref(),
                    );
                } else if let Some(answer) = &answer {
                    self.put_answer(&decision.answer, &answer.to_bytes(), false)?;
                }
                Ok(answer)
            }
            Record::Council(closing) => {
                if let Some(bytes) = self.core.case_decision(closing)? {
                    for place in closing.answers() {
                        self.put_answer(place, &bytes, false)?;
                    }
                }
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    /// Puts an answer in its place below the spool, and reports to the operator what was in the
    /// way. `again` is set when a start publishes the answer again.
    ///
    /// # Errors
    /// Returns the disk's error, unless somebody blocked that place.
    pub(super) fn put_answer(
        &mut self,
        place: &str,
        bytes: &[u8],
        again: bool,
    ) -> Result<(), HomeError> {
        let path = publish::path_of(place);
        let put = if again {
            publish::publish_again
        } else {
            publish::publish
        };
        let put = put(self.core.seams.disk.as_ref(), &path, bytes, Mode::Shared)
            .map_err(|source| HomeError::disk(&path, source))?;
        let has_room = !matches!(put, Put::NoRoom);
        self.derived.note_answer(&path, bytes, has_room);
        self.news.tell_put(&self.core, &path, &put);
        if has_room {
            Ok(())
        } else {
            self.core.meet_full_disk()
        }
    }

    /// Reports durable lines: events to the operator, opened cases to role commands, and notices to
    /// receivers.
    fn tell_of(&mut self, lines: &[BatchLine]) {
        for BatchLine { record, .. } in lines {
            if let (Some(event), Some(hear)) = (told_event(record), &mut self.news.on_event) {
                hear(event);
            }
            for change in record.changes() {
                if let (Change::Council(case::Change::CaseOpened(case)), Some(commands)) =
                    (change, &mut self.outside.role_commands)
                {
                    commands.about(case.id.clone());
                }
            }
        }
        let lines = lines.iter().map(|line| (line.seq, &line.record));
        self.outside.notify_of(&self.core, &mut self.news, lines);
    }
}

impl Core {
    /// Makes the lines durable. Syncs their blobs first, because a line must not name a blob that a
    /// power cut can take away.
    fn seal_lines(&mut self, pending: Pending) -> Result<(Vec<BatchLine>, Vec<Begins>), HomeError> {
        let first = self.ledger.position().seq;
        pending.blobs.sync(self.seams.disk.as_ref())?;
        let sealed = self.ledger.append(&pending.bodies)?;
        let records = pending
            .records
            .into_iter()
            .zip(pending.turns)
            .zip(sealed.locations);
        let lines = (first..)
            .zip(records)
            .map(|(seq, ((record, turn), location))| BatchLine {
                seq,
                turn,
                record,
                location,
                answer: None,
            });
        Ok((lines.collect(), pending.begins))
    }

    /// Returns the answer to a decision, which may be the answer to an earlier request; `None` if
    /// it comes with a later response.
    fn answer_in_batch(
        &self,
        seq: u64,
        decision: &Decision,
        batch: &Batch<'_>,
    ) -> Result<Option<Answer>, HomeError> {
        let original = decision.metadata.replay_of.unwrap_or(seq);
        if let Some(response) = batch.responses.get(&original) {
            return self.answer_of_response(response).map(Some);
        }
        match batch.decision(original) {
            Some(decision) if decision.status == Status::Pending => Ok(None),
            Some(decision) => self.answer_of(decision).map(Some),
            None => self.answer_if_any(original),
        }
    }

    /// Retires the claims of answered requests, and keeps the bytes of refused ones. Returns what
    /// [`retire::retire`] returns.
    fn retire_claims(
        &self,
        claims: &[(Begun, u64)],
        over: &[ClaimName],
        lines: &[BatchLine],
    ) -> Result<Vec<(PathBuf, PathBuf)>, HomeError> {
        // A line omits the hash of bytes that may contain sealed members, so compute it from the
        // bytes.
        let untold = |(begun, seq): &(Begun, u64)| {
            let decision = decision_of(lines, *seq)?;
            let is_untold = decision.kept.is_some() && decision.file_sha256.is_none();
            begun
                .bytes
                .as_ref()
                .filter(|_| is_untold)
                .map(|bytes| sha256_hex(bytes))
        };
        let untold: Vec<Option<String>> = claims.iter().map(untold).collect();
        let done: Vec<Done<'_>> = claims
            .iter()
            .zip(&untold)
            .map(|((Begun { claim, bytes, .. }, seq), untold)| {
                let keep = decision_of(lines, *seq).and_then(|decision| {
                    let sha256 = decision.file_sha256.as_deref().or(untold.as_deref());
                    Some(Keep {
                        place: decision.kept.as_deref()?,
                        sha256,
                        bytes: bytes.as_deref(),
                    })
                });
                Done { claim, keep }
            })
            .chain(over.iter().map(|claim| Done { claim, keep: None }))
            .collect();
        retire::retire(self.seams.disk.as_ref(), &done)
            .map_err(|source| HomeError::disk(Path::new(claim::WORK_DIR), source))
    }

    /// Returns the outcomes of the requests that this batch answered: its own, then those that its
    /// responses end.
    fn outcomes(&self, lines: Vec<BatchLine>) -> Result<Vec<Outcome>, HomeError> {
        let (mut outcomes, mut ended) = (Vec::new(), Vec::new());
        for BatchLine {
            seq,
            record,
            answer,
            ..
        } in lines
        {
            let Some(answer) = answer else { continue };
            match record {
                Record::Decision(decision) => outcomes.push(Outcome {
                    seq,
                    decision: *decision,
                    answer,
                }),
                Record::Response(response) => ended.push((seq, response.request_line, answer)),
                _ => {}
            }
        }
        for (seq, request_line, answer) in ended {
            match self.decision(request_line) {
                Ok((_, decision)) => outcomes.push(Outcome {
                    seq,
                    decision,
                    answer,
                }),
                // The operator sees fewer outcomes; nothing is lost.
                Err(HomeError::Ledger(LedgerError::Pruned(_))) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(outcomes)
    }
}

impl Intake {
    /// Keeps the claims of commands whose answer comes later, so that a start after a crash knows
    /// that a command may still wait. Returns all other claims, and the kept ones that a response
    /// of this batch ends.
    fn keep_unanswered(
        &mut self,
        claims: Vec<(Begun, u64)>,
        lines: &[BatchLine],
    ) -> (Vec<(Begun, u64)>, Vec<ClaimName>) {
        let mut over = Vec::new();
        let mut open: BTreeMap<u64, u64> = BTreeMap::new();
        for line in lines {
            match &line.record {
                Record::Response(response) => {
                    over.extend(
                        self.unanswered
                            .remove(&response.request_line)
                            .into_iter()
                            .flatten(),
                    );
                }
                Record::Decision(decision) if line.answer.is_none() => {
                    open.insert(line.seq, decision.metadata.replay_of.unwrap_or(line.seq));
                }
                _ => {}
            }
        }
        let mut done = Vec::new();
        for (begun, seq) in claims {
            match open
                .get(&seq)
                .filter(|_| begun.claim.origin == Origin::Local)
            {
                Some(line) => self.unanswered.entry(*line).or_default().push(begun.claim),
                None => done.push((begun, seq)),
            }
        }
        (done, over)
    }
}

/// Returns the event that a line reports to the operator besides its answer, if any.
fn told_event(record: &Record) -> Option<&Event> {
    match record {
        Record::Event(EventKind::Start | EventKind::Stop | EventKind::Tick, _) => None,
        Record::Event(_, event) => Some(event),
        _ => None,
    }
}
