//! Council cases of a home: reading back what was said, deciding what is due, and the files of a case. Everything below
//! `council/cases` is derived from ledger lines and made again after a crash.

use std::path::{Path, PathBuf};

use super::batch::{Pending, blob};
use super::open::{Home, HomeError};
use super::sealed;
use crate::council::brief;
use crate::council::case::{self, Docket};
use crate::gate::council::{self, Closing, Heard, Said};
use crate::gate::record::{CaseDecision, ClosedBy, Decision, Input};
use crate::gate::{Change, Record};
use crate::host::disk::Disk;
use crate::rules::Rulebook;
use crate::spool::publish;
use crate::wire::council::{CouncilRequest, RoleVerdict, SubmitVerdict};
use crate::wire::ids::RequestId;
use crate::wire::time::Time;

/// Folder of the cases, below the home.
pub const CASES_DIR: &str = "council/cases";
/// Cases that are decided in one batch. Each is read back from the ledger, and computing its evidence can take as long
/// as thousands of orders: exits must not wait for all that somebody had become due at once.
pub(super) const CASES_PER_BATCH: usize = 8;

/// The folder of a case, below the home.
pub fn case_dir(id: &RequestId) -> PathBuf {
    Path::new(CASES_DIR).join(id.as_str())
}

/// A role's name as a file name: letters and digits in lower case, `-` for everything else.
pub fn file_name_of(role: &str) -> String {
    let mut name = String::new();
    for c in role.chars().take(64) {
        let c = if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        if c != '-' || !(name.is_empty() || name.ends_with('-')) {
            name.push(c);
        }
    }
    let name = name.trim_matches('-');
    if name.is_empty() { "role".to_owned() } else { name.to_owned() }
}

/// A file of a case: its path below the case's folder, and its bytes.
type CaseFile = (PathBuf, Vec<u8>);

/// A text with an end of line.
fn lines(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.push(b'\n');
    bytes
}

/// A text of a line, from its member or its blob; none if the blob is missing or damaged.
pub(super) fn text(
    disk: &dyn Disk,
    member: Option<&str>,
    digest: Option<&str>,
) -> Result<Option<String>, HomeError> {
    match (member, digest) {
        (Some(text), _) => Ok(Some(text.to_owned())),
        (None, Some(digest)) => Ok(blob(disk, digest)?.and_then(|bytes| String::from_utf8(bytes).ok())),
        (None, None) => Ok(None),
    }
}

/// What was sent with a line: a request's payload, or what a role's command wrote.
pub(super) fn payload(disk: &dyn Disk, record: &Record) -> Result<Option<String>, HomeError> {
    match record {
        Record::Decision(line) => sealed::payload(disk, line),
        Record::Input(line) => text(disk, line.payload.as_deref(), line.payload_blob.as_deref()),
        _ => Ok(None),
    }
}

/// What was said in a case so far, by the payloads of its lines.
pub(super) fn said(
    docket: &Docket,
    payload_of: impl Fn(u64) -> Result<Option<String>, HomeError>,
) -> Result<Said, HomeError> {
    let request = payload_of(docket.request)?;
    let mut verdicts = Vec::new();
    for (seq, vote) in &docket.votes {
        let text = payload_of(*seq)?;
        verdicts
            .extend(text.and_then(|text| read_verdict(&text, vote.by.is_some())).map(|read| (*seq, read)));
    }
    Ok(Said { request: request.and_then(|text| serde_json::from_str(&text).ok()), verdicts })
}

impl Home {
    /// A text of a line, from its member or its blob; none if the blob is missing or damaged.
    fn text(&self, member: Option<&str>, digest: Option<&str>) -> Result<Option<String>, HomeError> {
        text(self.seams.disk.as_ref(), member, digest)
    }

    /// What was said in a case so far; its newest lines may still be on their way into the ledger.
    ///
    /// # Errors
    /// [`HomeError`].
    pub(super) fn said(&self, pending: &Pending, docket: &Docket) -> Result<Said, HomeError> {
        said(docket, |seq| {
            let ahead = seq.checked_sub(self.ledger.position().seq);
            match ahead.and_then(|index| usize::try_from(index).ok()) {
                Some(index) => match pending.records.get(index) {
                    Some(record) => payload(self.seams.disk.as_ref(), record),
                    None => Ok(None),
                },
                None => payload(self.seams.disk.as_ref(), &self.record(seq)?.1),
            }
        })
    }

    /// Decides cases that nobody is waited for any more, and those whose deadline has passed.
    fn close_due_cases(&mut self, pending: &mut Pending, now: Time) -> Result<(), HomeError> {
        self.more_cases_due = false;
        // While the clock is not believed, no deadline has passed.
        if self.state.council.open == 0 || self.state.clock.fault.is_some() {
            return Ok(());
        }
        let room = CASES_PER_BATCH.saturating_sub(self.cases_decided);
        let due = self.store.due_cases(now, room.saturating_add(1))?;
        self.more_cases_due = due.len() > room;
        for id in due.into_iter().take(room) {
            let Some(docket) = self.store.docket(&id)? else { continue };
            let said = self.said(pending, &docket)?;
            let is_full = council::waits_for(&self.rulebook, &docket).is_empty();
            let closed_by =
                if is_full && now < docket.case.deadline { ClosedBy::Seats } else { ClosedBy::Deadline };
            self.push_closing(pending, council::close(&self.rulebook, &docket, &said, now, closed_by))?;
        }
        Ok(())
    }

    fn push_closing(
        &mut self,
        pending: &mut Pending,
        closing: Result<Closing, crate::gate::prepare::Refusal>,
    ) -> Result<(), HomeError> {
        let Closing { line, blobs, .. } = closing.map_err(|refusal| HomeError::Record(refusal.message))?;
        for (digest, bytes) in &blobs {
            self.put_blob(pending, digest, bytes)?;
        }
        self.push_event(pending, Record::Council(Box::new(line)))
    }

    /// What cases need in a batch of their own, behind the answers of the last: role commands that ended, and cases that
    /// are due.
    pub(super) fn push_case_work(&mut self, pending: &mut Pending, now: Time) -> Result<(), HomeError> {
        self.push_role_answers(pending, now)?;
        self.close_due_cases(pending, now)
    }

    /// Whether there may be any.
    pub(super) fn has_case_work(&self) -> bool {
        self.state.council.open > 0 || !self.role_answers.is_empty()
    }

    /// Takes down what roles' commands answered, and decides the cases that waited for it.
    fn push_role_answers(&mut self, pending: &mut Pending, now: Time) -> Result<(), HomeError> {
        for answer in std::mem::take(&mut self.role_answers) {
            let Some(docket) = self.store.docket(&answer.case)? else { continue };
            let seq = self.next_seq(pending);
            let Heard { mut input, blobs, verdict } = council::hear(&self.rulebook, &docket, &answer, now);
            for (digest, bytes) in &blobs {
                self.put_blob(pending, digest, bytes)?;
            }
            let counts = !input.changes.is_empty();
            let steps = input.changes.iter().filter_map(|change| match change {
                Change::Council(step) => Some(step),
                _ => None,
            });
            let after = docket.clone().after(seq, steps);
            let is_full = counts && council::waits_for(&self.rulebook, &after).is_empty();
            let has_room = self.cases_decided < CASES_PER_BATCH;
            if is_full && !has_room {
                input.changes.push(Change::Council(case::Change::CaseFull { case: answer.case.clone() }));
            }
            let said = if is_full && has_room { Some(self.said(pending, &docket)?) } else { None };
            self.push_event(pending, Record::Input(input))?;
            if let Some(mut said) = said {
                said.verdicts.extend(verdict.map(|verdict| (seq, verdict)));
                let closing = council::close(&self.rulebook, &after, &said, now, ClosedBy::Seats);
                self.push_closing(pending, closing)?;
            }
        }
        Ok(())
    }

    /// The files of an opened case: its request and a brief for each required role.
    fn opening_files(
        &self,
        rules: &Rulebook,
        request: &str,
        sha256: &str,
    ) -> Option<(RequestId, Vec<CaseFile>)> {
        let parsed: CouncilRequest = serde_json::from_str(request).ok()?;
        let mut files = vec![(PathBuf::from("request.json"), lines(request))];
        for role in rules.roles.required(parsed.change_type) {
            let name = format!("{}.md", file_name_of(&role.name));
            let text = brief::brief(&parsed, sha256, role, &rules.roles);
            files.push((Path::new("briefs").join(name), text.into_bytes()));
        }
        Some((parsed.request_id, files))
    }

    /// The files that a decision line makes in a case's folder.
    fn files_of(
        &self,
        rules: &Rulebook,
        seq: u64,
        decision: &Decision,
    ) -> Result<Option<(RequestId, Vec<CaseFile>)>, HomeError> {
        let left = sealed::payload_left(self.seams.disk.as_ref(), decision)?;
        let Some((text, is_whole)) = left else { return Ok(None) };
        if decision.opens_a_case() {
            if !is_whole {
                return if self.is_redacted(seq)? {
                    Ok(redacted_files(rules, decision, &text))
                } else {
                    Ok(None)
                };
            }
            let sha256 = decision.payload_hash.clone().unwrap_or_default();
            return Ok(self.opening_files(rules, &text, &sha256));
        }
        let Ok(submit) = serde_json::from_str::<SubmitVerdict>(&text) else { return Ok(None) };
        let role = file_name_of(&council::name_of(rules, &submit.verdict.role));
        let path = Path::new("verdicts").join(format!("{seq}-{role}.json"));
        Ok(Some((submit.request_id, vec![(path, lines(&text))])))
    }

    /// Puts the files of a decision on a case where readers look for them.
    pub(super) fn publish_case_files_of(&mut self, seq: u64, decision: &Decision) -> Result<(), HomeError> {
        if !decision.is_on_a_case() {
            return Ok(());
        }
        match self.files_of(&self.rulebook, seq, decision)? {
            Some((id, files)) => {
                self.put_case_files(&id, &files, false)?;
                if let Some(asking) = self.asking.as_mut().filter(|_| decision.opens_a_case()) {
                    asking.about(id);
                }
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// The same for the council's own decision, and for what a role's command answered.
    pub(super) fn publish_case_record(&mut self, seq: u64, record: &Record) -> Result<(), HomeError> {
        match record {
            Record::Council(line) => self.publish_case_decision(line, false),
            Record::Input(input) => self.publish_input(seq, input, false),
            Record::Redact(line) => self.carry_out_redaction(line),
            _ => Ok(()),
        }
    }

    fn publish_input(&mut self, seq: u64, input: &Input, again: bool) -> Result<(), HomeError> {
        let Some(text) = self.text(input.payload.as_deref(), input.payload_blob.as_deref())? else {
            return Ok(());
        };
        let path = Path::new("verdicts").join(format!("{seq}-{}.json", file_name_of(&input.role)));
        self.put_case_files(&input.request_id, &[(path, lines(&text))], again)
    }

    /// The decision on a case, and what it rests on.
    fn publish_case_decision(&mut self, line: &CaseDecision, again: bool) -> Result<(), HomeError> {
        let decision = line.decision.as_ref().map(|raw| raw.get());
        let record = line.record.as_ref().map(|raw| raw.get());
        let Some(decision) = self.text(decision, line.decision_blob.as_deref())? else { return Ok(()) };
        let mut files = vec![(PathBuf::from("decision.json"), lines(&decision))];
        if let Some(record) = self.text(record, line.record_blob.as_deref())? {
            files.push((PathBuf::from("record.json"), lines(&record)));
        }
        let path = publish::path_of(&line.answer);
        let put = if again { publish::publish_again } else { publish::publish };
        let put = put(self.seams.disk.as_ref(), &path, &lines(&decision))
            .map_err(|source| HomeError::disk(&path, source))?;
        self.tell_put(&path, &put);
        self.put_case_files(&line.request_id, &files, again)
    }

    /// Makes the files of a line again after a crash, where they are not there as they should be.
    pub(super) fn redo_case_files(&mut self, seq: u64, record: &Record) -> Result<(), HomeError> {
        match record {
            Record::Council(line) => self.publish_case_decision(line, true),
            Record::Input(input) => self.publish_input(seq, input, true),
            Record::Redact(line) => self.carry_out_redaction(line),
            Record::Decision(decision) if decision.is_on_a_case() => {
                // The briefs say what the rulebook asked when the case was opened.
                let kept = super::rulebook::kept(self.seams.disk.as_ref(), &decision.rulebook);
                let rules = kept.as_ref().unwrap_or(&self.rulebook);
                match self.files_of(rules, seq, decision)? {
                    Some((id, files)) => self.put_case_files(&id, &files, true),
                    None => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    fn put_case_files(&mut self, id: &RequestId, files: &[CaseFile], again: bool) -> Result<(), HomeError> {
        self.case_files_outstanding = true;
        let dir = case_dir(id);
        files.iter().try_for_each(|(below, bytes)| self.put_derived(&dir.join(below), bytes, again))
    }

    /// Makes the files of cases durable, if any were written.
    pub(super) fn sync_case_files(&mut self) -> Result<(), HomeError> {
        if std::mem::take(&mut self.case_files_outstanding) {
            self.sync_derived(Path::new(CASES_DIR))?;
        }
        Ok(())
    }
}

/// The files of a case whose request was redacted: what is left of it, and where briefs were no brief any more.
fn redacted_files(rules: &Rulebook, decision: &Decision, left: &str) -> Option<(RequestId, Vec<CaseFile>)> {
    let case = decision.changes.iter().find_map(|change| match change {
        Change::Council(case::Change::CaseOpened(case)) => Some(case),
        _ => None,
    })?;
    let mut files = vec![(PathBuf::from("request.json"), lines(left))];
    for role in rules.roles.required(case.change_type) {
        let name = format!("{}.md", file_name_of(&role.name));
        let text =
            format!("A part of the request of case `{}` was redacted, and this brief with it.", case.id);
        files.push((Path::new("briefs").join(name), lines(&text)));
    }
    Some((case.id.clone(), files))
}

/// A verdict as it stands in a line: signed ones name their request, a command's is bare.
fn read_verdict(text: &str, is_signed: bool) -> Option<RoleVerdict> {
    if is_signed {
        serde_json::from_str::<SubmitVerdict>(text).ok().map(|submit| submit.verdict)
    } else {
        serde_json::from_str(text).ok()
    }
}
