//! Redaction: a line that says so, then the disclosures are deleted. Lines never change, so that every proof holds. What
//! a crash leaves between the two is finished at the next start.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::batch::{BLOBS_DIR, Pending};
use super::open::{Home, HomeError};
use super::sealed;
use crate::council::case::{self, Case};
use crate::gate::record::Redaction;
use crate::gate::sealing::{BLOB_PREFIX, DIGESTS, FILE};
use crate::gate::{Change, Decision, Record};
use crate::ledger::LedgerError;
use crate::wire::approvals::HoldId;
use crate::wire::council::SubmitVerdict;
use crate::wire::ids::{Principal, RequestId};
use crate::wire::sealed::{Field, is_digest};

/// Longest reason, bytes.
pub const REASON_BYTES_MAX: usize = 1000;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Lines of the request; the others that hold it too are found from them.
    pub lines: Vec<u64>,
    /// Pointers of the fields; none: all.
    pub fields: Vec<String>,
    /// Why.
    pub reason: String,
    /// Who asks, as the machine knows them.
    pub by: String,
}

/// Why nothing is redacted.
#[derive(Debug, thiserror::Error)]
pub enum RedactError {
    /// What was asked for cannot be done.
    #[error("{0}")]
    Refused(String),
    /// The home.
    #[error(transparent)]
    Home(#[from] HomeError),
}

/// What is to be redacted of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// By line: fields, and what goes with them because it would let somebody guess them.
    Delete(BTreeMap<u64, Vec<Field>>),
    /// It was done before, in this line.
    Done(u64),
}

fn case_of(change: &Change) -> Option<&Case> {
    match change {
        Change::Council(case::Change::CaseOpened(case)) => Some(case),
        _ => None,
    }
}

fn refused<T>(what: String) -> Result<T, RedactError> {
    Err(RedactError::Refused(what))
}

impl Home {
    /// The lines of the request that line `seq` is about: it was held, perhaps, and decided again.
    ///
    /// # Errors
    /// [`RedactError`]: there is no such line, or it is no decision.
    pub fn lines_of_request(&self, seq: u64) -> Result<Vec<u64>, RedactError> {
        let decision = match self.decision(seq) {
            Ok((_, decision)) => decision,
            // Bringing the segment back is what helps.
            Err(error @ HomeError::Ledger(LedgerError::Pruned(_))) => return Err(error.into()),
            Err(_) => return refused(format!("line {seq} is no decision; only requests have sealed fields")),
        };
        let mut lines = vec![seq];
        // A refused line may name somebody else's request.
        let is_of_it = !decision.sealed.is_empty() || decision.metadata.replay_of.is_some();
        if is_of_it
            && let (Some(source), Some(id)) = (&decision.source, &decision.request_id)
            && let Some(seen) = self.store.seen(source, id).map_err(HomeError::from)?
        {
            lines.push(seen.seq);
            lines.extend(self.decision(seen.seq)?.1.hold.map(|HoldId(held)| held));
        }
        lines.extend(decision.hold.map(|HoldId(held)| held));
        lines.sort_unstable();
        lines.dedup();
        Ok(lines)
    }

    /// The lines of requests of this id that have sealed fields.
    ///
    /// # Errors
    /// [`RedactError`]: there are none, or several senders used the id.
    pub fn lines_of_id(&self, id: &RequestId) -> Result<Vec<u64>, RedactError> {
        let lines = self.store.lines_of_id(id.as_str()).map_err(HomeError::from)?;
        let mut by_source: BTreeMap<Option<String>, u64> = BTreeMap::new();
        for seq in lines {
            by_source.insert(self.decision(seq)?.1.source, seq);
        }
        match by_source.values().copied().collect::<Vec<u64>>().as_slice() {
            [] => refused(format!("no request `{id}` was decided here")),
            [seq] => self.lines_of_request(*seq),
            several => {
                let lines: Vec<String> = several.iter().map(u64::to_string).collect();
                refused(format!("several senders used the id `{id}`: name a line, of {}", lines.join(", ")))
            }
        }
    }

    /// What redacting would come to.
    ///
    /// # Errors
    /// [`RedactError`]: something stands against it.
    pub fn plan_redaction(&self, asked: &Asked) -> Result<Plan, RedactError> {
        let reason = asked.reason.trim();
        if reason.is_empty() || asked.reason.len() > REASON_BYTES_MAX {
            return refused(format!("say why in 1 to {REASON_BYTES_MAX} bytes"));
        }
        let mut decisions: Vec<(u64, Decision)> = Vec::new();
        let mut lines = BTreeSet::new();
        for seq in &asked.lines {
            lines.extend(self.lines_of_request(*seq)?);
        }
        for seq in &lines {
            decisions.push((*seq, self.decision(*seq)?.1));
        }
        decisions.retain(|(_, decision)| !decision.sealed.is_empty());
        if decisions.is_empty() {
            return refused("nothing of this request is sealed: it was logged in clear, as facts".to_owned());
        }
        for (seq, decision) in &decisions {
            self.check_is_settled(*seq, decision)?;
        }
        for pointer in &asked.fields {
            self.check_is_sealed(pointer, &decisions)?;
        }
        let mut fields: BTreeMap<u64, Vec<Field>> = BTreeMap::new();
        let mut done = None;
        for (seq, decision) in &decisions {
            for field in &decision.sealed {
                let is_wanted = asked.fields.is_empty()
                    || asked.fields.contains(&field.field)
                    || field.field == DIGESTS
                    || field.field == FILE;
                match self.store.redacted_in(&field.sd).map_err(HomeError::from)? {
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

    /// Nobody may still need what is deleted.
    fn check_is_settled(&self, seq: u64, decision: &Decision) -> Result<(), RedactError> {
        if self.state.approvals.get(HoldId(seq)).is_some() {
            return refused(format!("the request is held as {}: grant or deny it first", HoldId(seq)));
        }
        for change in &decision.changes {
            let Some(case) = case_of(change) else { continue };
            let docket = self.store.docket(&case.id).map_err(HomeError::from)?;
            if docket.is_some_and(|docket| docket.request == seq && docket.closed.is_none()) {
                return refused(format!(
                    "council case `{}` is open until {}: its roles need what they judge",
                    case.id, case.deadline
                ));
            }
        }
        Ok(())
    }

    fn check_is_sealed(&self, pointer: &str, decisions: &[(u64, Decision)]) -> Result<(), RedactError> {
        let sealed = || decisions.iter().flat_map(|(_, decision)| &decision.sealed);
        if sealed().any(|field| sealed::is_of_payload(field) && field.field == pointer) {
            return Ok(());
        }
        let known: Vec<&str> =
            sealed().filter(|field| sealed::is_of_payload(field)).map(|field| field.field.as_str()).collect();
        for (_, decision) in decisions {
            let left = sealed::payload_left(self.seams.disk.as_ref(), decision)?;
            let value: Option<Value> = left.and_then(|(text, _)| serde_json::from_str(&text).ok());
            if value.is_some_and(|value| value.pointer(pointer).is_some()) {
                return refused(format!(
                    "`{pointer}` was logged in clear: it is a fact, and lines never change; sealed are {}",
                    known.join(", ")
                ));
            }
        }
        refused(format!("the request has no `{pointer}`; sealed are {}", known.join(", ")))
    }

    /// Redacts: durable lines first, then their disclosures are deleted.
    ///
    /// # Errors
    /// [`RedactError`]; a redaction that has its line is finished at the next start.
    pub fn redact(&mut self, asked: &Asked) -> Result<Plan, RedactError> {
        let plan = self.plan_redaction(asked)?;
        if let Plan::Delete(fields) = &plan {
            self.ledger.make_room().map_err(HomeError::from)?;
            self.store.begin().map_err(HomeError::from)?;
            let mut pending = Pending::default();
            let timestamp = self.ledger_now();
            for (line, fields) in fields {
                let (by, reason) = (asked.by.clone(), asked.reason.clone());
                let line = Redaction { timestamp, by, reason, line: *line, fields: fields.clone() };
                self.push_event(&mut pending, Record::Redact(line))?;
            }
            self.commit(pending, Vec::new())?;
        }
        Ok(plan)
    }

    /// Deletes what a line says is redacted, and takes it out of the files that are derived from it. Doing it once more
    /// changes nothing.
    pub(super) fn carry_out_redaction(&mut self, line: &Redaction) -> Result<(), HomeError> {
        for field in &line.fields {
            // No other file, whatever a line says.
            if is_digest(&field.sd) {
                self.remove_blob(&sealed::path_of(&field.sd))?;
            }
        }
        self.remove_uncommitted()?;
        let (_, decision) = self.decision(line.line)?;
        if decision.opens_a_case() {
            self.redo_case_files(line.line, &Record::Decision(Box::new(decision)))?;
            self.sync_case_files()?;
        }
        Ok(())
    }

    /// Lines of verdicts on the requests of these lines that name their hash as it was signed, which is not salted: they
    /// were not formed on a brief.
    ///
    /// # Errors
    /// [`HomeError`].
    pub fn verdicts_naming_the_hash(&self, lines: &[u64]) -> Result<Vec<u64>, HomeError> {
        let mut naming = Vec::new();
        for seq in lines {
            let (_, decision) = self.decision(*seq)?;
            let Some(case) = decision.changes.iter().find_map(case_of) else { continue };
            let Some(docket) = self.store.docket(&case.id)? else { continue };
            for (line, _) in docket.votes.iter().filter(|(_, vote)| vote.by.is_some()) {
                let payload = sealed::payload(self.seams.disk.as_ref(), &self.decision(*line)?.1)?;
                let named: Option<SubmitVerdict> = payload.and_then(|text| serde_json::from_str(&text).ok());
                if named.is_some_and(|named| named.request_sha256 != docket.case.request_sha256) {
                    naming.push(*line);
                }
            }
        }
        Ok(naming)
    }

    fn remove_blob(&self, path: &Path) -> Result<(), HomeError> {
        match self.seams.disk.remove(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(HomeError::disk(path, error)),
            _ => Ok(()),
        }
    }

    /// Whether something of this line was redacted.
    pub(super) fn is_redacted(&self, seq: u64) -> Result<bool, HomeError> {
        Ok(self.store.has_redacted(seq)?)
    }

    /// Removes disclosures that no line has committed to: a process that was killed wrote them, and the request was decided
    /// under other salts. They hold the same values.
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
        let Some(name) = name.to_str() else { return Ok(false) };
        // One that was being written has a hidden name.
        if let Some(hidden) = name.strip_prefix('.').and_then(|name| name.strip_suffix(".tmp")) {
            return Ok(hidden.starts_with(BLOB_PREFIX));
        }
        match name.strip_prefix(BLOB_PREFIX).filter(|digest| is_digest(digest)) {
            Some(digest) => Ok(!self.store.is_committed_to(digest)?),
            None => Ok(false),
        }
    }
}

/// Who a person at this machine is: the name of the operating system's user where it is a principal's form, else its
/// number.
pub fn user(name: Option<&str>, number: u32) -> String {
    match name.and_then(|name| Principal::parse(name).ok()) {
        Some(name) => format!("{name} (uid {number})"),
        None => format!("uid {number}"),
    }
}
