//! What admission forwards: one file a task below `spool/forward/<surface>`, with a token that proves that this gate
//! admitted it. At least once: a file that was taken away may come again after a crash.

use std::io;
use std::path::Path;

use super::cases;
use super::open::{Home, HomeError};
use crate::admission::lineage;
use crate::gate::Change;
use crate::gate::record::{Decision, Record};
use crate::ledger::token;
use crate::spool::publish::{self, Published as Put};
use crate::wire::admission::AdmissionAttempt;

/// Folder of forwarded tasks, below the home.
pub const FORWARD_DIR: &str = "spool/forward";

impl Home {
    /// Puts the task of a decision line where its surface's consumer looks for it, if it was forwarded.
    ///
    /// # Errors
    /// [`HomeError`].
    pub(super) fn publish_forwarded(&mut self, line: &Decision, again: bool) -> Result<(), HomeError> {
        let Some(path) = line.forwarded_to().map(publish::path_of) else { return Ok(()) };
        match self.forwarded(line)? {
            Some(Ok(bytes)) => {
                self.forwarded_outstanding = true;
                self.put_derived(&path, &bytes, again)
            }
            // One task that cannot be written down must not end the gate, now or at every start.
            Some(Err(why)) => {
                self.tell_put(&path, &Put::Blocked(io::Error::other(why)));
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// The file, from its line, or why there can be none; nothing where a blob of it is lost.
    fn forwarded(&self, line: &Decision) -> Result<Option<Result<Vec<u8>, String>>, HomeError> {
        let Some(receipt) = &line.receipt else { return Ok(None) };
        let disk = self.seams.disk.as_ref();
        let payload = cases::text(disk, line.payload.as_deref(), line.payload_blob.as_deref())?;
        let Some(Ok(body)) = payload.map(|text| AdmissionAttempt::read(&text).body) else { return Ok(None) };
        // The ledger's own depth, which children are measured by: a lineage command may have told of a greater one.
        let admitted = line.changes.iter().find_map(|change| match change {
            Change::Admission(lineage::Change::Admitted(task)) => Some(task),
            _ => None,
        });
        let depth = admitted.and_then(|task| i64::try_from(task.depth).ok());
        let envelope = body.envelope.forwarded(depth, admitted.and_then(|task| task.budget));
        let texts = envelope.and_then(|envelope| Ok((envelope, serde_json::to_string(receipt)?)));
        let signer = self.ledger.signer();
        let bytes = texts.map_err(|error| error.to_string()).and_then(|(envelope, receipt_text)| {
            token::forwarded(
                &receipt.receipt_id,
                receipt.request_id.as_str(),
                &receipt.request_hash,
                &envelope,
                &receipt_text,
                &signer.log,
                &signer.origin,
            )
            .map_err(|error| error.to_string())
        });
        Ok(Some(bytes))
    }

    /// Makes a forwarded task again after a crash, where it is not there as it should be.
    ///
    /// # Errors
    /// [`HomeError`].
    pub(super) fn redo_forwarded(&mut self, record: &Record) -> Result<(), HomeError> {
        match record {
            Record::Decision(line) => self.publish_forwarded(line, true),
            _ => Ok(()),
        }
    }

    /// Makes forwarded tasks durable, if any were written.
    ///
    /// # Errors
    /// [`HomeError`].
    pub(super) fn sync_forwarded(&mut self) -> Result<(), HomeError> {
        if std::mem::take(&mut self.forwarded_outstanding) {
            self.sync_derived(Path::new(FORWARD_DIR))?;
        }
        Ok(())
    }
}
