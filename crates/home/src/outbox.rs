//! Instructions for bridges: one file each below `spool/outbox/<bridge>`, named by order and
//! version.
//!
//! Delivery is at least once: a file that a bridge took away may come again after a crash.

use std::path::Path;

use serde::Serialize;

use super::batch::Pending;
use super::derived::{File, Line, Obstacle, Projection, Source, Want};
use super::error::HomeError;
use super::open::Home;
use spoolgate_gate::record::{Event, EventKind, Record};
use spoolgate_gate::{Change, events, outbox};
use spoolgate_trading::order::{Instruction, Verb};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{OrderId, Symbol};
use spoolgate_wire::orders::{OrderType, Side, TimeInForce};
use spoolgate_wire::time::Time;

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
    /// The ledger line that gives the instruction.
    line: String,
}

/// Projection row of instructions. A blocked file is tried again, because an order that its bridge
/// never receives would stay in the book.
pub(super) struct Instructions;

impl Projection for Instructions {
    fn name(&self) -> &'static str {
        "instructions"
    }

    fn folders(&self) -> &'static [&'static str] {
        &[OUTBOX_DIR]
    }

    fn files(&self, _: &Source<'_>, (seq, record): Line<'_>) -> Result<Vec<File>, HomeError> {
        outbox::instructions(record.changes())
            .map(|instruction| file(seq, instruction))
            .collect()
    }

    fn obstacle(&self) -> Obstacle {
        Obstacle::Retry(|File { path, .. }, error| {
            format!(
                "the instruction `{}` cannot be written ({error}); repair its folder, and the gate \
                    writes it then",
                path.display()
            )
        })
    }
}

impl Home {
    /// Writes lines for what earlier lines owe to bridges, until they owe nothing.
    ///
    /// # Errors
    /// Returns [`HomeError`] if a line cannot be folded.
    pub(super) fn push_owed(&mut self, pending: &mut Pending, now: Time) -> Result<(), HomeError> {
        loop {
            let changes: Vec<Change> = outbox::owed(&self.core.state.book, now);
            if changes.is_empty() {
                return Ok(());
            }
            let note = events::OWED.to_owned();
            self.push_event(
                pending,
                Record::Event(
                    EventKind::Tick,
                    Event {
                        timestamp: now,
                        note,
                        changes,
                        cage: None,
                    },
                ),
            )?;
        }
    }
}

fn file(line: u64, told: &Instruction) -> Result<File, HomeError> {
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
        line: line.to_string(),
    };
    let mut bytes =
        serde_json::to_vec(&body).map_err(|error| HomeError::Record(error.to_string()))?;
    bytes.push(b'\n');
    let name = format!("{}.{}.json", told.order_id, told.version);
    let path = Path::new(OUTBOX_DIR).join(told.bridge.as_str()).join(name);
    Ok(File {
        path,
        line,
        want: Want::Bytes(bytes),
    })
}
