//! Instructions for bridges: one file each below `spool/outbox/<bridge>`, named by order and version. At least once: a
//! file that a bridge took away may come again after a crash.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::open::{Home, HomeError};
use crate::gate::record::{Event, Record};
use crate::gate::{Change, events, outbox};
use crate::spool::publish::Published as Put;
use crate::trading::order::{Instruction, Verb};
use crate::wire::amount::Amount;
use crate::wire::ids::{OrderId, Symbol};
use crate::wire::orders::{OrderType, Side, TimeInForce};
use crate::wire::time::Time;

use super::batch::Pending;

/// Folder of instructions, below the home.
pub const OUTBOX_DIR: &str = "spool/outbox";

/// An instruction as a bridge reads it.
#[derive(Serialize)]
struct Instructed<'a> {
    order_id: OrderId,
    version: u32,
    instruction: Verb,
    symbol: &'a Symbol,
    side: Side,
    order_type: OrderType,
    size: Amount,
    price: Option<Amount>,
    trigger: Option<Amount>,
    time_in_force: TimeInForce,
    reduce_only: bool,
    /// The ledger line that gives it.
    line: String,
}

impl Home {
    /// Writes lines for what earlier lines owe to bridges, until nothing is owed.
    ///
    /// # Errors
    /// [`HomeError`].
    pub(super) fn push_owed(&mut self, pending: &mut Pending, now: Time) -> Result<(), HomeError> {
        loop {
            let changes: Vec<Change> = outbox::owed(&self.state.book, now);
            if changes.is_empty() {
                return Ok(());
            }
            let note = events::OWED.to_owned();
            self.push_event(pending, Record::Tick(Event { timestamp: now, note, changes }))?;
        }
    }

    /// Puts the instructions of line `seq` where their bridges look for them.
    ///
    /// # Errors
    /// [`HomeError`].
    pub(super) fn publish_instructions(
        &mut self,
        seq: u64,
        record: &[Change],
        again: bool,
    ) -> Result<(), HomeError> {
        for (path, bytes) in files(seq, record)? {
            self.instructions_outstanding = true;
            let put = self.try_derived(&path, &bytes, again)?;
            if let Put::Blocked(error) = put {
                self.tell(format!(
                    "the instruction `{}` cannot be put there ({error}); mend its folder, and it is written then",
                    path.display()
                ));
                self.instructions_blocked.insert(path, bytes);
            } else {
                self.tell_put(&path, &put);
            }
        }
        Ok(())
    }

    /// Tries again to write what something stood in the way of.
    ///
    /// # Errors
    /// [`HomeError`].
    pub(super) fn retry_instructions(&mut self) -> Result<(), HomeError> {
        for (path, bytes) in std::mem::take(&mut self.instructions_blocked) {
            if let Put::Blocked(_) = self.try_derived(&path, &bytes, true)? {
                self.instructions_blocked.insert(path, bytes);
            }
        }
        Ok(())
    }

    /// Makes instructions durable, if any were written.
    ///
    /// # Errors
    /// [`HomeError`].
    pub(super) fn sync_instructions(&mut self) -> Result<(), HomeError> {
        if std::mem::take(&mut self.instructions_outstanding) {
            self.sync_derived(Path::new(OUTBOX_DIR))?;
        }
        Ok(())
    }
}

/// The files of a line's instructions.
fn files(seq: u64, changes: &[Change]) -> Result<Vec<(PathBuf, Vec<u8>)>, HomeError> {
    outbox::instructions(changes).map(|instruction| file(seq, instruction)).collect()
}

fn file(seq: u64, told: &Instruction) -> Result<(PathBuf, Vec<u8>), HomeError> {
    let body = Instructed {
        order_id: told.order_id,
        version: told.version,
        instruction: told.instruction,
        symbol: &told.symbol,
        side: told.side,
        order_type: told.order_type,
        size: told.size,
        price: told.price,
        trigger: told.trigger,
        time_in_force: told.time_in_force,
        reduce_only: told.reduce_only,
        line: seq.to_string(),
    };
    let mut bytes = serde_json::to_vec(&body).map_err(|error| HomeError::Record(error.to_string()))?;
    bytes.push(b'\n');
    let name = format!("{}.{}.json", told.order_id, told.version);
    Ok((Path::new(OUTBOX_DIR).join(told.bridge.as_str()).join(name), bytes))
}
