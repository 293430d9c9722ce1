//! Redaction: writes a line that records it, then deletes the disclosures. Lines never change, so
//! every proof stays valid. If a crash happens in between, the next start finishes the deletion.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::batch::{BLOBS_DIR, Pending};
use super::core::Core;
use super::derived::is_in_the_way;
use super::error::HomeError;
use super::open::Home;
use super::sealed;
use super::socket::is_through_socket;
use crate::index::StoreError;
use crate::index::lines::{Column, Conditions, Order};
use spoolgate_council::case::{self, Case};
use spoolgate_gate::record::{Redaction, Status};
use spoolgate_gate::sealing::{DIGESTS, FILE};
use spoolgate_gate::{Change, Decision, Record};
use spoolgate_host::spool::publish;
use spoolgate_ledger::LedgerError;
use spoolgate_wire::approvals::HoldId;
use spoolgate_wire::council::SubmitVerdict;
use spoolgate_wire::gateway::ActionId;
use spoolgate_wire::ids::{Principal, RequestId};
use spoolgate_wire::sealed::BLOB_PREFIX;
use spoolgate_wire::sealed::{Field, is_digest};

/// Maximum length of a reason, bytes.
pub const REASON_BYTES_MAX: usize = 1000;

/// A redaction that an operator requests.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Lines of the request; the other lines that hold it are found from these.
    pub lines: Vec<u64>,
    /// JSON pointers of the fields; all fields if empty.
    pub fields: Vec<String>,
    /// The reason.
    pub reason: String,
    /// Who requests it, by the machine's user name.
    pub by: String,
}

/// Why nothing is redacted.
#[derive(Debug, thiserror::Error)]
pub enum RedactError {
    /// The redaction is refused.
    #[error("{0}")]
    Refused(String),
    /// The home failed.
    #[error(transparent)]
    Home(#[from] HomeError),
}

/// What a redaction would delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// The fields to delete, by line, including those from which their values could be guessed.
    Delete(BTreeMap<u64, Vec<Field>>),
    /// The redaction was already done, in this line.
    Done(u64),
}

/// Whether a field is one that people name: a member of a payload or of a result.
pub fn is_named(field: &Field) -> bool {
    field.field != DIGESTS && field.field != FILE
}

fn is_pointer(name: &str) -> bool {
    name.is_empty() || name.starts_with('/')
}

fn case_of(change: &Change) -> Option<&Case> {
    match change {
        Change::Council(case::Change::CaseOpened(case)) => Some(case),
        _ => None,
    }
}

/// Says that a ledger of so many lines does not have this one.
pub fn no_line(seq: u64, lines: u64) -> String {
    format!("the ledger has no line {seq}: it has {lines} lines, counted from 0")
}

fn unsettled<T>(what: String) -> Result<T, RedactError> {
    Err(HomeError::Unsettled(what).into())
}

fn refused<T>(what: String) -> Result<T, RedactError> {
    Err(RedactError::Refused(what))
}

impl Home {
    /// Returns the lines of the request that line `seq` is about: more than one if it was held and
    /// decided again, or repaired under its id.
    ///
    /// # Errors
    /// Returns [`RedactError`] if there is no such line or it is not a decision.
    pub fn lines_of_request(&self, seq: u64) -> Result<Vec<u64>, RedactError> {
        let lines = self.core.ledger.position().seq;
        if seq >= lines {
            return refused(no_line(seq, lines));
        }
        let (seq, decision) = match self.core.record(seq) {
            Ok((_, Record::Decision(decision))) => (seq, *decision),
            Ok((_, Record::Response(line))) => {
                let seq = line.request_line;
                (seq, self.core.decision(seq)?.1)
            }
            // A line that the ledger itself writes is not in the index.
            Ok(_) | Err(HomeError::Store(StoreError::Damaged(_))) => {
                return refused(format!(
                    "line {seq} is not a decision; only requests and results have sealed fields"
                ));
            }
            // The disk failed, or the operator has to bring a segment back.
            Err(error) => return Err(error.into()),
        };
        let mut lines = vec![seq];
        // A refused line may name a request of another sender.
        let is_of_it = !decision.sealed.is_empty()
            || decision.metadata.replay_of.is_some()
            || matches!(decision.status, Status::Pending | Status::Held);
        if is_of_it
            && let (Some(source), Some(id)) = (&decision.source, &decision.request_id)
            && let Some(seen) = self.core.store.seen(source, id).map_err(HomeError::from)?
        {
            lines.push(seen.seq);
            lines.extend(
                self.core
                    .decision(seen.seq)?
                    .1
                    .hold
                    .map(|HoldId(held)| held),
            );
            lines.extend(self.core.attempts(source, id)?);
        }
        lines.extend(decision.hold.map(|HoldId(held)| held));
        lines.sort_unstable();
        lines.dedup();
        Ok(lines)
    }

    /// Returns the lines of requests of this id that have sealed fields.
    ///
    /// # Errors
    /// Returns [`RedactError`] if there are none, or if several senders used the id.
    pub fn lines_of_id(&self, id: &RequestId) -> Result<Vec<u64>, RedactError> {
        let lines = self
            .core
            .store
            .lines_of_id(id.as_str())
            .map_err(HomeError::from)?;
        let mut by_source: BTreeMap<Option<String>, u64> = BTreeMap::new();
        for seq in lines {
            by_source.insert(self.core.decision(seq)?.1.source, seq);
        }
        match by_source.values().copied().collect::<Vec<u64>>().as_slice() {
            [] => refused(format!("this ledger has no decision on a request `{id}`")),
            [seq] => self.lines_of_request(*seq),
            several => {
                let lines: Vec<String> = several.iter().map(u64::to_string).collect();
                refused(format!(
                    "several senders used the id `{id}`: name one of the lines {}",
                    lines.join(", ")
                ))
            }
        }
    }

    /// Computes what a redaction would delete.
    ///
    /// # Errors
    /// Returns [`RedactError`] if the redaction is not possible.
    pub fn plan_redaction(&self, asked: &Asked) -> Result<Plan, RedactError> {
        let reason = asked.reason.trim();
        if reason.is_empty() || asked.reason.len() > REASON_BYTES_MAX {
            return refused(format!(
                "the reason must have 1 to {REASON_BYTES_MAX} bytes"
            ));
        }
        let mut decisions: Vec<(u64, Decision)> = Vec::new();
        let mut lines = BTreeSet::new();
        for seq in &asked.lines {
            lines.extend(self.lines_of_request(*seq)?);
        }
        for seq in &lines {
            decisions.push((*seq, self.core.decision(*seq)?.1));
        }
        let mut sealed: Vec<(u64, Vec<Field>)> = Vec::new();
        for (seq, decision) in &decisions {
            sealed.push((*seq, decision.sealed.clone()));
            let response = self.core.store.response_to(*seq).map_err(HomeError::from)?;
            if let Some(response) = response
                && let Record::Response(line) = self.core.record(response)?.1
            {
                sealed.push((response, line.sealed));
            }
        }
        sealed.retain(|(_, fields)| !fields.is_empty());
        for (seq, decision) in &decisions {
            self.core.check_is_settled(*seq, decision)?;
        }
        if sealed.is_empty() {
            return refused(
                "this request has no sealed fields: it was logged in clear, as facts".to_owned(),
            );
        }
        for pointer in &asked.fields {
            self.core.check_is_sealed(pointer, &sealed, &decisions)?;
        }
        // From these a member of the request could be guessed.
        let with_hashes =
            asked.fields.is_empty() || asked.fields.iter().any(|name| is_pointer(name));
        let mut fields: BTreeMap<u64, Vec<Field>> = BTreeMap::new();
        let mut done = None;
        for (seq, of_line) in &sealed {
            for field in of_line {
                let is_wanted = asked.fields.is_empty()
                    || asked.fields.contains(&field.field)
                    || (with_hashes && !is_named(field));
                match self
                    .core
                    .store
                    .redacted_in(&field.sd)
                    .map_err(HomeError::from)?
                {
                    _ if !is_wanted => {}
                    Some(line) => done = done.max(Some(line)),
                    None => fields.entry(*seq).or_default().push(field.clone()),
                }
            }
        }
        Ok(match done {
            Some(line) if fields.is_empty() => Plan::Done(line),
            _ => Plan::Delete(fields),
        })
    }

    /// Redacts: first makes the redaction lines durable, then deletes the disclosures.
    ///
    /// # Errors
    /// Returns [`RedactError`]. A redaction whose line is durable is finished at the next start.
    pub fn redact(&mut self, asked: &Asked) -> Result<Plan, RedactError> {
        let plan = self.plan_redaction(asked)?;
        if let Plan::Delete(fields) = &plan {
            self.core.begin_batch()?;
            let mut pending = Pending::default();
            let timestamp = self.core.ledger_now();
            for (line, fields) in fields {
                let (by, reason) = (asked.by.clone(), asked.reason.clone());
                let line = Redaction {
                    timestamp,
                    by,
                    reason,
                    line: *line,
                    fields: fields.clone(),
                };
                self.push_event(&mut pending, Record::Redact(line))?;
            }
            self.commit(pending, Vec::new())?;
        }
        // Sync, so that the deletion survives a power cut, even if a killed gate did it earlier.
        self.derived.sync_files(&self.core)?;
        Ok(plan)
    }

    /// Returns the lines of verdicts on these requests that contain the hash the sender signed.
    /// That hash is not salted; such verdicts were not made from a brief.
    pub fn verdicts_naming_the_hash(&self, lines: &[u64]) -> Result<Vec<u64>, HomeError> {
        let mut naming = Vec::new();
        for seq in lines {
            let Record::Decision(decision) = self.core.record(*seq)?.1 else {
                continue;
            };
            let Some(case) = decision.changes.iter().find_map(case_of) else {
                continue;
            };
            let Some(docket) = self.core.store.docket(&case.id)? else {
                continue;
            };
            for (line, _) in docket.votes.iter().filter(|(_, vote)| vote.by.is_some()) {
                let payload =
                    sealed::payload(self.core.seams.disk.as_ref(), &self.core.decision(*line)?.1)?;
                let named: Option<SubmitVerdict> =
                    payload.and_then(|text| serde_json::from_str(&text).ok());
                if named.is_some_and(|named| named.request_sha256 != docket.case.request_sha256) {
                    naming.push(*line);
                }
            }
        }
        Ok(naming)
    }
}

impl Core {
    /// Returns the lines with sealed fields of a sender's requests under one id: of those that were
    /// repaired too.
    fn attempts(&self, source: &str, id: &str) -> Result<Vec<u64>, HomeError> {
        let mut of_id = Conditions::default();
        of_id.one_of(Column::Source, &[source.to_owned()], &[]);
        of_id.one_of(Column::RequestId, &[id.to_owned()], &[]);
        let mut lines = Vec::new();
        let mut from = 0;
        loop {
            let page = self
                .store
                .lines_where(&of_id, (from, u64::MAX), Order::Oldest)?;
            let Some((last, _)) = page.last() else {
                return Ok(lines);
            };
            from = last.saturating_add(1);
            for (seq, _) in page {
                if let Record::Decision(decision) = self.record(seq)?.1
                    && decision.key_id.is_some()
                    && !decision.sealed.is_empty()
                {
                    lines.push(seq);
                }
            }
        }
    }

    /// Refuses while somebody may still need what would be deleted, or more of it may come.
    fn check_is_settled(&self, seq: u64, decision: &Decision) -> Result<(), RedactError> {
        let action = ActionId(seq);
        if self.state.actions.open.contains_key(&action) {
            return unsettled(format!(
                "{action} is open, and its result is not known yet; run the gate once"
            ));
        }
        if self.state.approvals.get(HoldId(seq)).is_some() {
            return unsettled(format!(
                "the request is held as {}; grant or deny it first",
                HoldId(seq)
            ));
        }
        for change in &decision.changes {
            let Some(case) = case_of(change) else {
                continue;
            };
            let docket = self.store.docket(&case.id).map_err(HomeError::from)?;
            if docket.is_some_and(|docket| docket.request == seq && docket.closed.is_none()) {
                return unsettled(format!(
                    "council case `{}` is open until {}, and its roles still need the request",
                    case.id, case.deadline
                ));
            }
        }
        Ok(())
    }

    fn check_is_sealed(
        &self,
        pointer: &str,
        sealed: &[(u64, Vec<Field>)],
        decisions: &[(u64, Decision)],
    ) -> Result<(), RedactError> {
        let known: Vec<&str> = sealed
            .iter()
            .flat_map(|(_, fields)| fields)
            .filter(|field| is_named(field))
            .map(|field| field.field.as_str())
            .collect();
        if known.contains(&pointer) {
            return Ok(());
        }
        for (_, decision) in decisions {
            let left = sealed::payload_left(self.seams.disk.as_ref(), decision)?;
            let value: Option<Value> = left.and_then(|(text, _)| serde_json::from_str(&text).ok());
            if value.is_some_and(|value| value.pointer(pointer).is_some()) {
                return refused(format!(
                    "`{pointer}` was logged in clear as a fact, and lines never change; the sealed \
                        fields are {}",
                    known.join(", ")
                ));
            }
        }
        refused(format!(
            "the request has no `{pointer}`; its sealed fields are {}",
            known.join(", ")
        ))
    }

    /// Deletes what a redaction line lists. Idempotent.
    pub(super) fn delete_redacted(&self, line: &Redaction) -> Result<(), HomeError> {
        for field in &line.fields {
            // A line must not be able to delete any other file.
            if is_digest(&field.sd) {
                self.remove_blob(&sealed::path_of(&field.sd))?;
            }
        }
        self.remove_answers(line.line)?;
        self.remove_uncommitted()
    }

    /// Removes the answers to an action, at every place that lines name, if line `seq` is its
    /// result.
    fn remove_answers(&self, seq: u64) -> Result<(), HomeError> {
        let response = match self.record(seq) {
            Ok((_, Record::Response(response))) => response,
            Ok(_) | Err(HomeError::Ledger(LedgerError::Pruned(_))) => return Ok(()),
            Err(error) => return Err(error),
        };
        let mut places: BTreeSet<String> = response.answers().map(str::to_owned).collect();
        let mut of_id = Conditions::default();
        let id = [response.request_id.clone()];
        of_id.one_of(Column::RequestId, &id, &[]);
        let mut from = 0;
        loop {
            let copies = self
                .store
                .lines_where(&of_id, (from, u64::MAX), Order::Oldest)?;
            let Some((last, _)) = copies.last() else {
                break;
            };
            from = last.saturating_add(1);
            for (copy, _) in copies {
                match self.record(copy) {
                    Ok((_, Record::Decision(copy)))
                        if copy.metadata.replay_of == Some(response.request_line) =>
                    {
                        places.insert(copy.answer);
                    }
                    Ok(_) | Err(HomeError::Ledger(LedgerError::Pruned(_))) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        for place in places.iter().filter(|place| !is_through_socket(place)) {
            let path = publish::path_of(place);
            self.remove_derived(&path)?;
            if let Some(folder) = path.parent() {
                match self.seams.disk.sync_dir(folder) {
                    Err(error) if !is_in_the_way(&error) => {
                        return Err(HomeError::disk(folder, error));
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn remove_blob(&self, path: &Path) -> Result<(), HomeError> {
        match self.seams.disk.remove(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(HomeError::disk(path, error)),
            _ => Ok(()),
        }
    }

    /// Returns whether anything of this line was redacted.
    pub(super) fn is_redacted(&self, seq: u64) -> Result<bool, HomeError> {
        Ok(self.store.has_redacted(seq)?)
    }

    /// Removes disclosures that no line has committed to. A killed process wrote them, and the
    /// request was later decided under other salts; they hold the same values.
    fn remove_uncommitted(&self) -> Result<(), HomeError> {
        let folder = Path::new(BLOBS_DIR);
        let fail = |source| HomeError::disk(folder, source);
        let mut litter: Vec<PathBuf> = Vec::new();
        for entry in self.seams.disk.read_dir(folder).map_err(fail)? {
            let name = entry.map_err(fail)?.name;
            if self.is_uncommitted(&name)? {
                litter.push(folder.join(name));
            }
        }
        litter.iter().try_for_each(|path| self.remove_blob(path))?;
        self.seams.disk.sync_dir(folder).map_err(fail)
    }

    fn is_uncommitted(&self, name: &OsStr) -> Result<bool, HomeError> {
        let Some(name) = name.to_str() else {
            return Ok(false);
        };
        // A blob that was being written has a hidden name.
        if let Some(hidden) = name
            .strip_prefix('.')
            .and_then(|name| name.strip_suffix(".tmp"))
        {
            return Ok(hidden.starts_with(BLOB_PREFIX));
        }
        match name
            .strip_prefix(BLOB_PREFIX)
            .filter(|digest| is_digest(digest))
        {
            Some(digest) => Ok(!self.store.is_committed_to(digest)?),
            None => Ok(false),
        }
    }
}

/// Names the user at this machine: by user name if it has the form of a principal, otherwise by
/// number.
pub fn user(name: Option<&str>, number: u32) -> String {
    match name.and_then(|name| Principal::parse(name).ok()) {
        Some(name) => format!("{name} (uid {number})"),
        None => format!("uid {number}"),
    }
}
