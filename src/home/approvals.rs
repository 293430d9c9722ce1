//! Held requests of a home: deciding them again when they are granted, ending them, and their files. Everything below
//! `proposals/pending` is derived from ledger lines and made again after a crash.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::batch::{Pending, refuse_instead, render};
use super::open::{Home, HomeError};
use super::sealed;
use crate::gate::approvals::{self, Change, End, Granted, Hold, Resolution, Verdict};
use crate::gate::decide::{Decided, MEMBER_BYTES_MAX, decide_granted};
use crate::gate::prepare::{Origin, Refusal};
use crate::gate::{Decision, Delivery, Lookups, Record, prepare};
use crate::wire::approvals::HoldId;
use crate::wire::time::Time;

/// Folder of what waits for people, below the home.
pub const PENDING_DIR: &str = "proposals/pending";

/// The file of a held request, below the home.
pub fn file_of(id: HoldId) -> PathBuf {
    Path::new(PENDING_DIR).join(format!("{id}.yaml"))
}

impl Home {
    /// Ends holds whose time has passed. In front of the requests of a batch: at its last instant a hold is over.
    ///
    /// # Errors
    /// [`HomeError`].
    pub(super) fn push_expiries(&mut self, pending: &mut Pending, now: Time) -> Result<(), HomeError> {
        for hold in approvals::expired(&self.state, now) {
            self.push_end(pending, &hold, End::Expired, None, approvals::expiry(&hold), now)?;
        }
        Ok(())
    }

    /// Does with a held request what a decision of this batch says.
    ///
    /// # Errors
    /// [`HomeError`].
    pub(super) fn resolve(
        &mut self,
        pending: &mut Pending,
        resolution: &Resolution,
        now: Time,
    ) -> Result<(), HomeError> {
        let Resolution { hold, by, verdict } = resolution;
        let Some(hold) = self.state.approvals.get(*hold).cloned() else { return Ok(()) };
        let remember = match verdict {
            Verdict::Denied { reason } => {
                let refusal = approvals::denial(by, reason.as_deref());
                return self.push_end(pending, &hold, End::Denied, Some(by), refusal, now);
            }
            Verdict::Granted { remember } => *remember,
        };
        let bytes = sealed::held_bytes(self.seams.disk.as_ref(), &hold.file_sha256)?;
        let origin = Origin::from_label(&hold.spool);
        let (Some(bytes), Some(origin)) = (bytes, origin) else {
            let refusal = approvals::bytes_lost(&hold);
            return self.push_end(pending, &hold, End::Granted, Some(by), refusal, now);
        };
        let name = hold.id.to_string();
        let delivery = Delivery { origin, file: name.clone(), shown: name, content: Ok(bytes) };
        let request = prepare(&delivery, &self.state, &self.keyring, now);
        self.keyring.check()?;
        // Its id is used up by itself.
        let found = self.look_up(pending, &request, now)?;
        // Under the salts that it was held with: it is the same request still.
        let sealing = self.sealing_again(pending, hold.id.0, &request, delivery.content.as_deref().ok())?;
        let lookups = Lookups { seen: None, seen_in_spool: None, answer_is_lost: false, sealing, ..found };
        let seq = self.next_seq(pending);
        let granted = Granted { hold: &hold, by, remember };
        let again =
            |request| decide_granted(&self.state, &self.rulebook, request, &lookups, granted, now, seq);
        let decided = again(&request);
        let (decided, bodies) = match render(&decided) {
            Ok(bodies) => (decided, bodies),
            Err(why) => {
                let decided = again(&refuse_instead(&request, why));
                let bodies = render(&decided).map_err(HomeError::Record)?;
                (decided, bodies)
            }
        };
        self.push_decided(pending, decided, bodies)
    }

    fn push_end(
        &mut self,
        pending: &mut Pending,
        hold: &Hold,
        end: End,
        by: Option<&crate::wire::ids::Principal>,
        refusal: Refusal,
        now: Time,
    ) -> Result<(), HomeError> {
        let seq = self.next_seq(pending);
        let decided: Decided = approvals::ended(hold, end, by, refusal, &self.rulebook.hash, now, seq);
        let bodies = render(&decided).map_err(HomeError::Record)?;
        self.push_decided(pending, decided, bodies)
    }

    /// Puts the file of a held request where people look for it, and takes it away again.
    ///
    /// # Errors
    /// [`HomeError`].
    pub(super) fn publish_holds(&mut self, line: &Decision, again: bool) -> Result<(), HomeError> {
        for change in line.of_approvals() {
            match change {
                Change::Held(hold) => {
                    self.hold_files_outstanding = true;
                    let disk = self.seams.disk.as_ref();
                    let payload = sealed::payload(disk, line)?;
                    let text = text_of(hold, line, payload.as_deref());
                    self.put_derived(&file_of(hold.id), text.as_bytes(), again)?;
                }
                Change::Ended { id, .. } => {
                    self.hold_files_outstanding = true;
                    let path = file_of(*id);
                    match self.seams.disk.remove(&path) {
                        Err(error) if error.kind() == ErrorKind::NotFound => {}
                        // Somebody put a folder there: the file is not in it.
                        Err(error)
                            if matches!(error.kind(), ErrorKind::IsADirectory | ErrorKind::NotADirectory) => {
                        }
                        other => other.map_err(|source| HomeError::disk(&path, source))?,
                    }
                }
                Change::EntryAdded { .. } | Change::EntryEnded { .. } => {}
            }
        }
        Ok(())
    }

    /// Makes the files of a line again after a crash, where they are not there as they should be.
    ///
    /// # Errors
    /// [`HomeError`].
    pub(super) fn redo_holds(&mut self, record: &Record) -> Result<(), HomeError> {
        match record {
            Record::Decision(line) => self.publish_holds(line, true),
            _ => Ok(()),
        }
    }

    /// Makes the files of held requests durable, if any were written.
    ///
    /// # Errors
    /// [`HomeError`].
    pub(super) fn sync_holds(&mut self) -> Result<(), HomeError> {
        if std::mem::take(&mut self.hold_files_outstanding) {
            self.sync_derived(Path::new(PENDING_DIR))?;
        }
        Ok(())
    }
}

/// A held request for people: YAML whose values are JSON, so that nothing that an agent wrote looks like a key.
fn text_of(hold: &Hold, line: &Decision, payload: Option<&str>) -> String {
    let by = if hold.rules.is_empty() { "as out of the ordinary" } else { "by a rule" };
    let mut text = format!("# Held {by}. `spoolgate approvals show {}`, then grant or deny.\n", hold.id);
    let json = |value: &dyn Fn() -> serde_json::Result<String>| value().unwrap_or_else(|_| "null".to_owned());
    let mut put = |key: &str, value: String| {
        // Writing into a string does not fail.
        let _ = writeln!(text, "{key}: {value}");
    };
    put("id", json(&|| serde_json::to_string(&hold.id)));
    put("source", json(&|| serde_json::to_string(&hold.source)));
    put("request_id", json(&|| serde_json::to_string(&hold.request_id)));
    put("action", json(&|| serde_json::to_string(&hold.action)));
    match payload.filter(|payload| payload.len() > MEMBER_BYTES_MAX) {
        None => put("payload", json(&|| serde_json::to_string(&payload))),
        // `approvals show` reads it from where the line has it.
        Some(large) => {
            put("payload", "null".to_owned());
            put("payload_bytes", large.len().to_string());
            put("payload_blob", json(&|| serde_json::to_string(&line.payload_blob)));
        }
    }
    put("request_sha256", json(&|| serde_json::to_string(&hold.request_sha256)));
    put("ledger_line", hold.id.0.to_string());
    put("held_at", json(&|| serde_json::to_string(&hold.held_at)));
    put("expires_at", json(&|| serde_json::to_string(&hold.expires_at)));
    put("rules", json(&|| serde_json::to_string(&hold.rules)));
    if !hold.anomalies.is_empty() {
        let told: BTreeMap<&str, &str> = approvals::told_anomalies(hold, &line.checks).collect();
        put("anomalies", json(&|| serde_json::to_string(&told)));
    }
    put("rulebook", json(&|| serde_json::to_string(&line.rulebook)));
    put("facts", line.facts.as_ref().map_or_else(|| "null".to_owned(), |facts| facts.get().to_owned()));
    put("checks", if line.checks.is_empty() { "[]".to_owned() } else { String::new() });
    for row in &line.checks {
        let _ = writeln!(text, "  - {}", json(&|| serde_json::to_string(row)));
    }
    text
}
