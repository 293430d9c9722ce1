//! What a sender decided before under the same decision_id, read back from its line.

use super::batch::Pending;
use super::cases;
use super::open::{Home, HomeError};
use crate::control::Earlier;
use crate::gate::record::Record;
use crate::host::disk::Disk;
use crate::state::decisions::UsedId;
use crate::wire::ids::{ControlId, Principal};

impl Home {
    /// The earlier decision, whose line may still be on its way into the ledger.
    ///
    /// # Errors
    /// [`HomeError`].
    pub(super) fn decided_before(
        &self,
        pending: &Pending,
        source: &Principal,
        decision_id: &ControlId,
    ) -> Result<Option<Earlier>, HomeError> {
        let Some(used) = self.store.used_id(source, decision_id)? else { return Ok(None) };
        let ahead = used.seq.checked_sub(self.ledger.position().seq);
        let sealed;
        let record = match ahead.and_then(|index| usize::try_from(index).ok()) {
            Some(index) => pending.records.get(index),
            None => {
                sealed = self.record(used.seq)?.1;
                Some(&sealed)
            }
        };
        earlier(self.seams.disk.as_ref(), used, record).map(Some)
    }
}

/// What an id was used for, from the line that used it.
///
/// # Errors
/// [`HomeError`].
pub(super) fn earlier(disk: &dyn Disk, used: UsedId, record: Option<&Record>) -> Result<Earlier, HomeError> {
    let mut earlier = Earlier {
        seq: used.seq,
        payload_hash: used.payload_hash,
        status: used.status,
        payload: None,
        data: None,
        message: None,
    };
    if let Some(Record::Decision(decision)) = record {
        earlier.payload = cases::text(disk, decision.payload.as_deref(), decision.payload_blob.as_deref())?;
        let data = decision.data.as_ref().map(|raw| raw.get());
        earlier.data = cases::text(disk, data, decision.data_blob.as_deref())?;
        earlier.message = decision.metadata.message.clone();
    }
    Ok(earlier)
}
