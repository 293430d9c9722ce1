//! Council cases of a home: reads back what was said, decides due cases, and lists the files of a
//! case.

use std::path::{Path, PathBuf};

use super::batch::{Pending, blob};
use super::core::Core;
use super::derived::{File, Line, Projection, Source, Want};
use super::error::HomeError;
use super::open::Home;
use super::rulebook;
use super::sealed;
use spoolgate_council::brief;
use spoolgate_council::case::{self, Case, Docket};
use spoolgate_gate::council::{self, Closing, Heard, Said};
use spoolgate_gate::record::{CaseDecision, Decision};
use spoolgate_gate::{Change, Record};
use spoolgate_ledger::disk::Disk;
use spoolgate_wire::council::{CouncilRequest, RoleVerdict, SubmitVerdict};
use spoolgate_wire::ids::RequestId;
use spoolgate_wire::time::Time;

/// Folder of the cases, below the home.
pub const CASES_DIR: &str = "council/cases";
/// Maximum number of cases decided in one batch. Each is read back from the ledger, and computing
/// its evidence can take as long as thousands of orders. Exits must not wait for all the cases that
/// a sender made due at once.
pub const CASES_PER_BATCH: usize = 8;

/// The folder of a case, below the home, by the name that its judges see.
pub fn case_dir(shown: &RequestId) -> PathBuf {
    Path::new(CASES_DIR).join(shown.file_stem().as_ref())
}

/// A role's name as a file name: letters and digits in lower case, `-` for everything else.
pub fn file_name_of(role: &str) -> String {
    let mut name = String::new();
    for c in role.chars().take(64) {
        let c = if c.is_ascii_alphanumeric() {
            c.to_ascii_lowercase()
        } else {
            '-'
        };
        if c != '-' || !(name.is_empty() || name.ends_with('-')) {
            name.push(c);
        }
    }
    let name = name.trim_matches('-');
    if name.is_empty() {
        "role".to_owned()
    } else {
        name.to_owned()
    }
}

/// A file of a case: its path below the case's folder, and its bytes.
type CaseFile = (PathBuf, Vec<u8>);

/// Returns the bytes of a text with a line feed at its end.
fn lines(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.push(b'\n');
    bytes
}

/// Returns a text that a line has as a member or names as a blob; `None` if it has neither, or the
/// blob is missing or damaged.
///
/// # Errors
/// Returns the disk's error.
pub fn text(
    disk: &dyn Disk,
    member: Option<&str>,
    digest: Option<&str>,
) -> Result<Option<String>, HomeError> {
    match (member, digest) {
        (Some(text), _) => Ok(Some(text.to_owned())),
        (None, Some(digest)) => {
            Ok(blob(disk, digest)?.and_then(|bytes| String::from_utf8(bytes).ok()))
        }
        (None, None) => Ok(None),
    }
}

/// Returns what was sent with a line: the payload of a request, or the output of a role's command.
pub(super) fn payload(disk: &dyn Disk, record: &Record) -> Result<Option<String>, HomeError> {
    match record {
        Record::Decision(line) => sealed::payload(disk, line),
        Record::Input(line) => text(disk, line.payload.as_deref(), line.payload_blob.as_deref()),
        _ => Ok(None),
    }
}

/// Reads what was said in a case so far from the payloads of its lines.
///
/// # Errors
/// Returns the error of `payload_of`.
pub fn said(
    docket: &Docket,
    payload_of: impl Fn(u64) -> Result<Option<String>, HomeError>,
) -> Result<Said, HomeError> {
    let request = payload_of(docket.request)?;
    let mut verdicts = Vec::new();
    for (seq, vote) in &docket.votes {
        let text = payload_of(*seq)?;
        verdicts.extend(
            text.and_then(|text| read_verdict(&text, vote.by.is_some()))
                .map(|read| (*seq, read)),
        );
    }
    Ok(Said {
        request: request.and_then(|text| serde_json::from_str(&text).ok()),
        verdicts,
    })
}

impl Core {
    /// Reads what was said in a case so far; its newest lines may still be in `pending`.
    ///
    /// # Errors
    /// Returns [`HomeError`] if the ledger or a blob cannot be read.
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

    /// Returns the decision on a case as its line holds it; `None` if its blob is lost.
    ///
    /// # Errors
    /// Returns the disk's error.
    pub(super) fn case_decision(&self, line: &CaseDecision) -> Result<Option<Vec<u8>>, HomeError> {
        let decision = line.decision.as_ref().map(|raw| raw.get());
        let text = text(
            self.seams.disk.as_ref(),
            decision,
            line.decision_blob.as_deref(),
        )?;
        Ok(text.map(|text| lines(&text)))
    }
}

impl Home {
    /// Decides the cases that wait for no further verdict, and the cases whose deadline has passed.
    fn close_due_cases(&mut self, pending: &mut Pending, now: Time) -> Result<(), HomeError> {
        self.intake.more_cases_due = false;
        // No deadline passes while the clock is in doubt.
        if self.core.state.council.open == 0 || self.core.state.clock.fault.is_some() {
            return Ok(());
        }
        let due = self
            .core
            .store
            .due_cases(now, CASES_PER_BATCH.saturating_add(1))?;
        self.intake.more_cases_due = due.len() > CASES_PER_BATCH;
        for id in due.into_iter().take(CASES_PER_BATCH) {
            let Some(docket) = self.core.store.docket(&id)? else {
                continue;
            };
            let said = self.core.said(pending, &docket)?;
            let Closing { line, blobs } = council::close(&self.core.rulebook, &docket, &said, now)
                .map_err(|refusal| HomeError::Record(refusal.message))?;
            // A case that cannot be closed now stays due.
            if self.core.put_blobs_if_room(pending, &blobs)? {
                self.push_event(pending, Record::Council(Box::new(line)))?;
            }
        }
        Ok(())
    }

    /// Writes the lines of cases in a batch of their own, after the answers of the last batch: for
    /// role commands that have ended, and for due cases.
    pub(super) fn push_case_work(
        &mut self,
        pending: &mut Pending,
        now: Time,
    ) -> Result<(), HomeError> {
        self.push_role_answers(pending, now)?;
        self.close_due_cases(pending, now)
    }

    /// Reports whether there may be such lines to write.
    pub(super) fn has_case_work(&self) -> bool {
        self.core.state.council.open > 0 || self.outside.has_role_answers()
    }

    /// Records the answers of role commands.
    fn push_role_answers(&mut self, pending: &mut Pending, now: Time) -> Result<(), HomeError> {
        let mut answers = self.outside.take_role_answers().into_iter();
        while let Some(answer) = answers.next() {
            let Some(docket) = self.core.store.docket(&answer.case)? else {
                continue;
            };
            let seq = self.core.next_seq(pending);
            let Heard { mut input, blobs } =
                council::hear(&self.core.rulebook, &docket, &answer, now);
            if !self.core.put_blobs_if_room(pending, &blobs)? {
                // It is recorded once the disk has room.
                self.outside
                    .give_back_role_answers([answer].into_iter().chain(answers));
                return Ok(());
            }
            let full = council::fills(&self.core.rulebook, docket, seq, &input);
            input.changes.extend(full.map(Change::Council));
            self.push_event(pending, Record::Input(input))?;
        }
        Ok(())
    }
}

/// Projection row of council cases: all files below the folder of a case.
pub(super) struct Cases;

impl Projection for Cases {
    fn name(&self) -> &'static str {
        "council cases"
    }

    fn folders(&self) -> &'static [&'static str] {
        &[CASES_DIR]
    }

    fn files(&self, source: &Source<'_>, (seq, record): Line<'_>) -> Result<Vec<File>, HomeError> {
        let core = source.core;
        let found = match record {
            Record::Decision(decision) => briefs_of(core, seq, decision)?,
            Record::Council(line) => files_of_decision(source, line)?,
            Record::Redact(redaction) => match source.record(redaction.line)?.as_deref() {
                Some(Record::Decision(decision)) => {
                    let mut found = briefs_of(core, redaction.line, decision)?;
                    if let Some((_, files)) = &mut found {
                        files.extend(request_file(core, decision)?);
                    }
                    found
                }
                _ => None,
            },
            _ => None,
        };
        let Some((case, files)) = found else {
            return Ok(Vec::new());
        };
        let dir = case_dir(case.shown());
        let file = |(below, bytes): CaseFile| File {
            path: dir.join(below),
            line: seq,
            want: Want::Bytes(bytes),
        };
        Ok(files.into_iter().map(file).collect())
    }
}

fn verdict_path(seq: u64, role: &str) -> PathBuf {
    Path::new("verdicts").join(format!("{seq}-{}.json", file_name_of(role)))
}

/// Returns the case that a decision line opened and its briefs, which are all that there is to see of
/// the case until it is decided: who judges it could be influenced by votes, and so could who proposed
/// it. If a part of the request was redacted, a notice is in place of each brief.
fn briefs_of(
    core: &Core,
    seq: u64,
    decision: &Decision,
) -> Result<Option<(Case, Vec<CaseFile>)>, HomeError> {
    let opened = decision.changes.iter().find_map(|change| match change {
        Change::Council(case::Change::CaseOpened(case)) => Some(case),
        _ => None,
    });
    let Some(case) = opened else {
        return Ok(None);
    };
    let disk = core.seams.disk.as_ref();
    let Some((text, is_whole)) = sealed::payload_left(disk, decision)? else {
        return Ok(None);
    };
    let request: Option<CouncilRequest> = match is_whole {
        true => serde_json::from_str(&text).ok(),
        false if core.is_redacted(seq)? => None,
        false => return Ok(None),
    };
    // A brief states what the rulebook required when the case was opened.
    let kept;
    let rules = if decision.rulebook == core.rulebook.hash {
        &core.rulebook
    } else {
        kept = rulebook::kept(disk, &decision.rulebook);
        kept.as_ref().unwrap_or(&core.rulebook)
    };
    let briefs = rules.roles.required(case.change_type).map(|role| {
        let text = match &request {
            Some(request) => brief::brief(request, case, role, &rules.roles),
            None => format!(
                "A part of the request of case `{}` was redacted, and this brief with it.\n",
                case.shown()
            ),
        };
        let name = format!("{}.md", file_name_of(&role.name));
        (Path::new("briefs").join(name), text.into_bytes())
    });
    Ok(Some((case.clone(), briefs.collect())))
}

/// Returns the file of a request, with what is left of it.
fn request_file(core: &Core, decision: &Decision) -> Result<Option<CaseFile>, HomeError> {
    let left = sealed::payload_left(core.seams.disk.as_ref(), decision)?;
    Ok(left.map(|(text, _)| (PathBuf::from("request.json"), lines(&text))))
}

/// Returns the files of a council decision: the decision, the record that it rests on, the request and
/// the verdicts.
fn files_of_decision(
    source: &Source<'_>,
    line: &CaseDecision,
) -> Result<Option<(Case, Vec<CaseFile>)>, HomeError> {
    let core = source.core;
    let disk = core.seams.disk.as_ref();
    let (Some(decision), Some(docket)) = (
        core.case_decision(line)?,
        core.store.docket(&line.request_id)?,
    ) else {
        return Ok(None);
    };
    let mut files = vec![(PathBuf::from("decision.json"), decision)];
    let record = line.record.as_ref().map(|raw| raw.get());
    if let Some(record) = text(disk, record, line.record_blob.as_deref())? {
        files.push((PathBuf::from("record.json"), lines(&record)));
    }
    if let Some(Record::Decision(request)) = source.record(docket.request)?.as_deref() {
        files.extend(request_file(core, request)?);
    }
    for (seq, vote) in &docket.votes {
        if !line.verdict_lines.contains(seq) {
            continue;
        }
        let Some(record) = source.record(*seq)? else {
            continue;
        };
        if let Some(verdict) = payload(disk, &record)? {
            files.push((verdict_path(*seq, &vote.role), lines(&verdict)));
        }
    }
    Ok(Some((docket.case, files)))
}

/// Reads a verdict from a line: a signed one names its request, and a command's output is bare.
fn read_verdict(text: &str, is_signed: bool) -> Option<RoleVerdict> {
    if is_signed {
        serde_json::from_str::<SubmitVerdict>(text)
            .ok()
            .map(|submit| submit.verdict)
    } else {
        serde_json::from_str(text).ok()
    }
}
