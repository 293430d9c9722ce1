//! Forwarded tasks: one file per task below `spool/forward/<surface>`, with a token that proves
//! that this gate admitted it.
//!
//! Delivery is at least once: a file that was taken away may come again after a crash.

use super::cases;
use super::core::Core;
use super::derived::{File, Line, Projection, Source, Want};
use super::error::HomeError;
use spoolgate_admission::lineage;
use spoolgate_gate::Change;
use spoolgate_gate::record::{Decision, Record};
use spoolgate_host::spool::publish;
use spoolgate_ledger::note::NoteError;
use spoolgate_ledger::token;
use spoolgate_wire::admission::AdmissionAttempt;

/// Folder of forwarded tasks, below the home.
pub const FORWARD_DIR: &str = "spool/forward";

/// Projection row of forwarded tasks.
pub(super) struct Forwarded;

impl Projection for Forwarded {
    fn name(&self) -> &'static str {
        "forwarded tasks"
    }

    fn folders(&self) -> &'static [&'static str] {
        &[FORWARD_DIR]
    }

    fn files(&self, source: &Source<'_>, (line, record): Line<'_>) -> Result<Vec<File>, HomeError> {
        let Record::Decision(decision) = record else {
            return Ok(Vec::new());
        };
        let Some(path) = decision.forwarded_to().map(publish::path_of) else {
            return Ok(Vec::new());
        };
        let want = match source.core.forwarded(decision)? {
            Some(Ok(bytes)) => Want::Bytes(bytes),
            // A task that cannot be serialized must not end the gate, now or at every start.
            Some(Err(why)) => Want::Impossible(why.to_string()),
            None => return Ok(Vec::new()),
        };
        Ok(vec![File { path, line, want }])
    }
}

/// Why the file of an admitted task cannot be made.
#[derive(Debug, thiserror::Error)]
enum ForwardError {
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Note(#[from] NoteError),
}

impl Core {
    /// Returns the bytes of the file, or why it cannot be made; `None` if nothing was admitted or a
    /// blob is lost.
    fn forwarded(
        &self,
        line: &Decision,
    ) -> Result<Option<Result<Vec<u8>, ForwardError>>, HomeError> {
        let Some(receipt) = &line.receipt else {
            return Ok(None);
        };
        let disk = self.seams.disk.as_ref();
        let payload = cases::text(disk, line.payload.as_deref(), line.payload_blob.as_deref())?;
        let Some(Ok(body)) = payload.map(|text| AdmissionAttempt::read(&text).body) else {
            return Ok(None);
        };
        // Children are measured against the depth in the ledger; a lineage command may have
        // reported a greater one.
        let admitted = line.changes.iter().find_map(|change| match change {
            Change::Admission(lineage::Change::Admitted(task)) => Some(task),
            _ => None,
        });
        let depth = admitted.and_then(|task| i64::try_from(task.depth).ok());
        let envelope = body
            .envelope
            .forwarded(depth, admitted.and_then(|task| task.budget));
        let texts = envelope.and_then(|envelope| Ok((envelope, serde_json::to_string(receipt)?)));
        let signer = self.ledger.signer();
        let bytes = texts
            .map_err(ForwardError::from)
            .and_then(|(envelope, receipt_text)| {
                Ok(token::forwarded(
                    &receipt.receipt_id,
                    receipt.request_id.as_str(),
                    &receipt.request_hash,
                    &envelope,
                    &receipt_text,
                    &signer.log,
                    &signer.origin,
                )?)
            });
        Ok(Some(bytes))
    }
}
