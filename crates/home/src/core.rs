//! The core of an open home: the ledger, the state folded from it, and the seams to the outside.
//!
//! Deciding a request, or rebuilding anything from lines, needs this part and no other.

use std::path::PathBuf;
use std::sync::Arc;

use super::batch::{Pending, blob};
use super::error::HomeError;
use super::open::Seams;
use super::sealed;
use super::storage::StorageWatch;
use crate::index::fold::Outstanding;
use crate::index::{Snapshot, Store, StoreError};
use spoolgate_gate::record::{Decision, EventKind, Record, Response, Status};
use spoolgate_gate::{State, events};
use spoolgate_host::keyring::CachedKeyring;
use spoolgate_host::rule_folder::RuleSource;
use spoolgate_ledger::{Ledger, LedgerError, line, log};
use spoolgate_rules::Rulebook;
use spoolgate_wire::answer::Answer;
use spoolgate_wire::time::Time;

/// Everything that a home needs in order to decide.
pub(super) struct Core {
    pub(super) root: PathBuf,
    pub(super) seams: Seams,
    pub(super) keyring: CachedKeyring,
    pub(super) ledger: Ledger,
    pub(super) store: Store,
    pub(super) state: State,
    /// The rulebook in force, or the last good one.
    pub(super) rulebook: Rulebook,
    /// Source of the rule files.
    pub(super) rules: Arc<dyn RuleSource>,
    /// Lines whose answers and derived files are not known to be durable.
    pub(super) outstanding: Outstanding,
    /// Room on the disk of the ledger.
    pub(super) storage: StorageWatch,
    /// Lines since the last snapshot.
    pub(super) lines_since_snapshot: u64,
}

impl Core {
    /// Returns the gate's time: never before the last line, unless a person has just accepted an
    /// earlier clock.
    pub(super) fn ledger_now(&self) -> Time {
        let now = self.seams.clock.now();
        if self.state.clock.accepted {
            return now;
        }
        self.state.clock.last.map_or(now, |last| last.max(now))
    }

    /// Returns the line for a clock step: a step back of more than 2 s or, at the start, a gap
    /// forward beyond the bound. It closes entries until a person has looked at the clock, because
    /// time windows, freshness and staleness depend on it.
    pub(super) fn clock_step(&self, at_start: bool) -> Option<Record> {
        let last = self.state.clock.last?;
        let machine = self.seams.clock.now();
        let step_ms = machine.since_ms(last);
        let gap_max_ms = i64::from(self.rulebook.safety.clock_gap_max_s).saturating_mul(1000);
        let stepped = step_ms < -2000 || (at_start && step_ms > gap_max_ms);
        if !stepped || self.state.clock.fault.is_some() || self.state.clock.accepted {
            return None;
        }
        Some(Record::Event(
            EventKind::ClockStep,
            events::clock_step(last, machine),
        ))
    }

    pub(super) fn next_seq(&self, pending: &Pending) -> u64 {
        self.ledger
            .position()
            .seq
            .saturating_add(u64::try_from(pending.records.len()).unwrap_or(u64::MAX))
    }

    /// Reports whether there are answers that are not known to be durable.
    pub(super) fn has_outstanding(&self) -> bool {
        !self.outstanding.is_empty()
    }

    /// Saves a snapshot of the state, so that the next start reads little of the ledger.
    ///
    /// # Errors
    /// Returns [`HomeError`] if the index cannot be written.
    pub(super) fn save_snapshot(&mut self) -> Result<(), HomeError> {
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

    /// Returns the batch number and record of a line that the index knows: a decision, also of the
    /// council, or an input.
    ///
    /// # Errors
    /// Returns [`HomeError`] if there is no such line, or it cannot be read.
    pub(super) fn record(&self, seq: u64) -> Result<(u64, Record), HomeError> {
        let missing =
            || StoreError::Damaged(format!("line {seq} is not at its place in the index"));
        let location = self.store.line(seq)?.ok_or_else(missing)?;
        let bytes = match log::read_line(self.seams.disk.as_ref(), location) {
            Err(LedgerError::NotOnLog) => return Err(missing().into()),
            other => other?,
        };
        let line = line::parse(&bytes)
            .map_err(|error| HomeError::Record(format!("line {seq}: {error}")))?;
        match Record::parse(line.kind, &line.body()) {
            Ok(Some(record)) if line.seq == seq => Ok((line.batch, record)),
            Ok(_) => Err(missing().into()),
            Err(error) => Err(HomeError::Record(format!("line {seq}: {error}"))),
        }
    }

    /// Returns the batch number and decision of a line.
    ///
    /// # Errors
    /// Returns [`HomeError`] if there is no such decision, or it cannot be read.
    pub(super) fn decision(&self, seq: u64) -> Result<(u64, Decision), HomeError> {
        match self.record(seq)? {
            (batch, Record::Decision(decision)) => Ok((batch, *decision)),
            _ => {
                let what = format!("line {seq} is not a decision where the index has one");
                Err(StoreError::Damaged(what).into())
            }
        }
    }

    pub(super) fn answer_of(&self, decision: &Decision) -> Result<Answer, HomeError> {
        let blob = match &decision.data_blob {
            Some(digest) => self.blob(digest)?,
            None => None,
        };
        decision
            .answer(blob.as_deref())
            .map_err(|error| HomeError::AnswerLost(error.to_string()))
    }

    /// Rebuilds the answer of line `seq` from the ledger.
    ///
    /// # Errors
    /// Returns [`HomeError`] if the answer is lost, or its outgoing action is still open.
    pub(super) fn answer(&self, seq: u64) -> Result<Answer, HomeError> {
        let none = || HomeError::AnswerLost(format!("line {seq}: its outcome is not known yet"));
        self.answer_if_any(seq)?.ok_or_else(none)
    }

    /// Like [`Core::answer`], but returns `None` for an outgoing action that is open.
    ///
    /// # Errors
    /// Returns [`HomeError`] if the answer is lost.
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

    pub(super) fn answer_of_response(&self, line: &Response) -> Result<Answer, HomeError> {
        let blob = match &line.data_blob {
            Some(digest) => self.blob(digest)?,
            None => None,
        };
        let revealed = sealed::response(self.seams.disk.as_ref(), line)?;
        let seq = line.id.parse().unwrap_or(u64::MAX);
        if !revealed.is_whole && !self.is_redacted(seq)? {
            return Err(HomeError::AnswerLost(format!(
                "line {seq}: a disclosure of its result is missing or damaged"
            )));
        }
        let answer = revealed.line.answer(blob.as_deref());
        let mut answer = answer.map_err(|error| HomeError::AnswerLost(error.to_string()))?;
        answer.redacted = !revealed.is_whole;
        Ok(answer)
    }

    /// Returns the bytes that line `seq` answers with, also for council decisions. `None` if its
    /// outgoing action is open, or if the blob of a council decision is lost.
    ///
    /// # Errors
    /// Returns [`HomeError`] if the answer is lost.
    pub(super) fn answer_bytes(&self, seq: u64) -> Result<Option<Vec<u8>>, HomeError> {
        match self.record(seq)?.1 {
            Record::Council(line) => self.case_decision(&line),
            _ => Ok(self.answer_if_any(seq)?.map(|answer| answer.to_bytes())),
        }
    }

    fn blob(&self, digest: &str) -> Result<Option<Vec<u8>>, HomeError> {
        blob(self.seams.disk.as_ref(), digest)
    }
}
