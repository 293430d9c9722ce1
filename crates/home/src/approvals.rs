//! Held requests of a home: decides them again when they are granted, ends them, and lists their
//! files.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use super::batch::{Pending, refuse_instead, render};
use super::derived::{File, Line, Projection, Source, Want};
use super::error::HomeError;
use super::open::Home;
use super::sealed;
use spoolgate_gate::approvals::{self, Change, End, Granted, Hold, Resolution, Verdict};
use spoolgate_gate::decide::{Decided, MEMBER_BYTES_MAX, decide_granted};
use spoolgate_gate::prepare::{Origin, Refusal};
use spoolgate_gate::{Decision, Delivery, Lookups, Record, prepare};
use spoolgate_ledger::disk::Mode;
use spoolgate_wire::approvals::HoldId;
use spoolgate_wire::time::Time;

/// Folder of held requests and pending proposals, below the home.
pub const PENDING_DIR: &str = "proposals/pending";

/// The file of a held request, below the home.
pub fn file_of(id: HoldId) -> PathBuf {
    Path::new(PENDING_DIR).join(format!("{id}.yaml"))
}

/// Projection row of held requests: a file while an approver may decide, no file afterwards.
pub(super) struct Holds;

impl Projection for Holds {
    fn name(&self) -> &'static str {
        "held requests"
    }

    fn folders(&self) -> &'static [&'static str] {
        &[PENDING_DIR]
    }

    /// Members that the ledger holds sealed are in these files in clear. The folder must stay open
    /// for those who review proposals of rules.
    fn mode(&self) -> Mode {
        Mode::Private
    }

    fn files(&self, source: &Source<'_>, (line, record): Line<'_>) -> Result<Vec<File>, HomeError> {
        let Record::Decision(decision) = record else {
            return Ok(Vec::new());
        };
        let mut files = Vec::new();
        for change in decision.of_approvals() {
            let (id, want) = match change {
                Change::Held(hold) => {
                    let payload = sealed::payload(source.core.seams.disk.as_ref(), decision)?;
                    let text = text_of(hold, decision, payload.as_deref());
                    (hold.id, Want::Bytes(text.into_bytes()))
                }
                Change::Ended { id, .. } => (*id, Want::Nothing),
                Change::EntryAdded { .. } | Change::EntryEnded { .. } => continue,
            };
            files.push(File {
                path: file_of(id),
                line,
                want,
            });
        }
        Ok(files)
    }
}

impl Home {
    /// Ends the holds that have expired. Runs before the requests of a batch, because a hold is
    /// over at its last instant.
    ///
    /// # Errors
    /// Returns [`HomeError`] if a line does not fit into the ledger or cannot be folded.
    pub(super) fn push_expiries(
        &mut self,
        pending: &mut Pending,
        now: Time,
    ) -> Result<(), HomeError> {
        for hold in approvals::expired(&self.core.state, now) {
            self.push_end(
                pending,
                &hold,
                End::Expired,
                None,
                approvals::expiry(&hold),
                now,
            )?;
        }
        Ok(())
    }

    /// Carries out a resolution of this batch: denies a held request, or decides it again as
    /// granted.
    ///
    /// # Errors
    /// Returns [`HomeError`] if the bytes, the keyring or the index cannot be read, or a line
    /// cannot be written.
    pub(super) fn resolve(
        &mut self,
        pending: &mut Pending,
        resolution: &Resolution,
        now: Time,
    ) -> Result<(), HomeError> {
        let Resolution { hold, by, verdict } = resolution;
        let Some(hold) = self.core.state.approvals.get(*hold).cloned() else {
            return Ok(());
        };
        let remember = match verdict {
            Verdict::Denied { reason } => {
                let refusal = approvals::denial(by, reason.as_deref());
                return self.push_end(pending, &hold, End::Denied, Some(by), refusal, now);
            }
            Verdict::Granted { remember } => *remember,
        };
        let bytes = sealed::held_bytes(self.core.seams.disk.as_ref(), &hold.file_sha256)?;
        let origin = Origin::from_label(&hold.spool);
        let (Some(bytes), Some(origin)) = (bytes, origin) else {
            let refusal = approvals::bytes_lost(&hold);
            return self.push_end(pending, &hold, End::Granted, Some(by), refusal, now);
        };
        let name = hold.id.to_string();
        let delivery = Delivery {
            origin,
            file: name.clone(),
            shown: name,
            content: Ok(bytes),
        };
        let request = prepare(&delivery, &self.core.state, &self.core.keyring, now);
        self.core.keyring.check()?;
        // The held request itself used up its id, so finding that id does not make this a replay.
        let found = self.look_up(pending, &request, now)?;
        // Reuse the salts of the held request, because this is still the same request.
        let sealing = self.core.sealing_again(
            pending,
            hold.id.0,
            &request,
            delivery.content.as_deref().ok(),
        )?;
        let lookups = Lookups {
            seen: None,
            seen_in_spool: None,
            answer_is_lost: false,
            sealing,
            ..found
        };
        let seq = self.core.next_seq(pending);
        let granted = Granted {
            hold: &hold,
            by,
            remember,
        };
        let again = |request| {
            decide_granted(
                &self.core.state,
                &self.core.rulebook,
                request,
                &lookups,
                granted,
                now,
                seq,
            )
        };
        let decided = again(&request);
        let (decided, bodies) = match render(&decided) {
            Ok(bodies) => (decided, bodies),
            Err(why) => {
                let decided = again(&refuse_instead(&request, &why));
                let bodies = render(&decided)?;
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
        by: Option<&spoolgate_wire::ids::Principal>,
        refusal: Refusal,
        now: Time,
    ) -> Result<(), HomeError> {
        let seq = self.core.next_seq(pending);
        let decided: Decided =
            approvals::ended(hold, end, by, refusal, &self.core.rulebook.hash, now, seq);
        let bodies = render(&decided)?;
        self.push_decided(pending, decided, bodies)
    }
}

/// Renders a held request for approvers: YAML whose values are JSON, so that nothing an agent wrote
/// can pass for a key.
fn text_of(hold: &Hold, line: &Decision, payload: Option<&str>) -> String {
    let by = if hold.rules.is_empty() {
        "as out of the ordinary"
    } else {
        "by a rule"
    };
    let mut text = format!(
        "# Held {by}. `spoolgate approvals show {}`, then grant or deny.\n",
        hold.id
    );
    let json = |value: &dyn Fn() -> serde_json::Result<String>| {
        value().unwrap_or_else(|_| "null".to_owned())
    };
    let mut put = |key: &str, value: String| {
        // Writing into a string does not fail.
        let _ = writeln!(text, "{key}: {value}");
    };
    put("id", json(&|| serde_json::to_string(&hold.id)));
    put("source", json(&|| serde_json::to_string(&hold.source)));
    put(
        "request_id",
        json(&|| serde_json::to_string(&hold.request_id)),
    );
    put("action", json(&|| serde_json::to_string(&hold.action)));
    match payload.filter(|payload| payload.len() > MEMBER_BYTES_MAX) {
        None => put("payload", json(&|| serde_json::to_string(&payload))),
        // `approvals show` reads it from the blob that the line names.
        Some(large) => {
            put("payload", "null".to_owned());
            put("payload_bytes", large.len().to_string());
            put(
                "payload_blob",
                json(&|| serde_json::to_string(&line.payload_blob)),
            );
        }
    }
    put(
        "request_sha256",
        json(&|| serde_json::to_string(&hold.request_sha256)),
    );
    put("ledger_line", hold.id.0.to_string());
    put("held_at", json(&|| serde_json::to_string(&hold.held_at)));
    put(
        "expires_at",
        json(&|| serde_json::to_string(&hold.expires_at)),
    );
    put("rules", json(&|| serde_json::to_string(&hold.rules)));
    if !hold.anomalies.is_empty() {
        let told: BTreeMap<&str, &str> = approvals::told_anomalies(hold, &line.checks).collect();
        put("anomalies", json(&|| serde_json::to_string(&told)));
    }
    put("rulebook", json(&|| serde_json::to_string(&line.rulebook)));
    put(
        "facts",
        line.facts
            .as_ref()
            .map_or_else(|| "null".to_owned(), |facts| facts.get().to_owned()),
    );
    put(
        "checks",
        if line.checks.is_empty() {
            "[]".to_owned()
        } else {
            String::new()
        },
    );
    for row in &line.checks {
        let _ = writeln!(text, "  - {}", json(&|| serde_json::to_string(row)));
    }
    text
}
