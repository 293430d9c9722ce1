//! Instructions for bridges: one file each below `spool/outbox/<bridge>`, named by order and
//! version.
//!
//! Delivery is at least once: a file that a bridge took away may come again after a crash.

use std::path::Path;

use serde::Serialize;

use super::batch::Pending;
use super::core::Core;
use super::derived::{File, Line, Obstacle, Projection, Source, Want, is_in_the_way};
use super::error::HomeError;
use super::open::Home;
use spoolgate_gate::record::{Event, EventKind, Record};
use spoolgate_gate::{Change, events, outbox};
use spoolgate_ledger::disk::Kind;
use spoolgate_rules::instruments::is_imitated;
use spoolgate_trading::order::{Instruction, Verb};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{OrderId, Symbol};
use spoolgate_wire::orders::{OrderType, Side, TimeInForce};
use spoolgate_wire::signing::sha256_hex;
use spoolgate_wire::time::Time;

/// Folder of instructions, below the home.
pub const OUTBOX_DIR: &str = "spool/outbox";

/// The number that a bridge compares with the highest that it has seen, so that a second gate can
/// take over. This gate is the first.
pub const EPOCH: u32 = 1;

/// An instruction as a bridge reads it.
#[derive(Serialize)]
struct Instructed<'a> {
    order_id: OrderId,
    version: u32,
    client_order_id: String,
    instruction: Verb,
    symbol: &'a Symbol,
    side: Side,
    order_type: OrderType,
    size: Amount,
    price: Option<Amount>,
    trigger: Option<Amount>,
    time_in_force: TimeInForce,
    reduce_only: bool,
    valid_until: Option<Time>,
    epoch: u32,
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

    fn files(&self, source: &Source<'_>, (seq, record): Line<'_>) -> Result<Vec<File>, HomeError> {
        let Source { core, again, .. } = *source;
        let origin = &core.ledger.signer().origin;
        let mut files = Vec::new();
        let told = outbox::instructions(record.changes());
        for instruction in told.filter(|told| !is_imitated(&told.bridge)) {
            let file = file(seq, origin, instruction)?;
            if again {
                files.extend(core.told_again(instruction, file)?);
            } else {
                files.push(file);
            }
        }
        Ok(files)
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
            let changes: Vec<Change> =
                outbox::owed(&self.core.state.book, &self.core.rulebook, now);
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

impl Core {
    /// The file of an instruction that a start writes again; `None` if it is not wanted any more. Its
    /// bridge may have taken the first one, so it has another name, and nothing follows from taking
    /// it back.
    fn told_again(&self, told: &Instruction, file: File) -> Result<Option<File>, HomeError> {
        let order = self.state.book.orders.get(&told.order_id);
        let venue = order.and_then(|order| order.at_venue.as_ref());
        if venue.is_none_or(|venue| venue.version != told.version || venue.gone) {
            return Ok(None);
        }
        let path = match self.seams.disk.stat(&file.path) {
            Ok(Some(stat)) if stat.kind == Kind::File => file.path,
            Ok(_) => file.path.with_extension("again.json"),
            Err(error) if is_in_the_way(&error) => file.path.with_extension("again.json"),
            Err(source) => return Err(HomeError::disk(&file.path, source)),
        };
        Ok(Some(File { path, ..file }))
    }
}

/// The client order id of a version of an order at an exchange, the same for ever: `s` and 17
/// characters of base32 (RFC 4648, in lower case) of the SHA-256 of `origin|order id|version`. Kraken
/// takes 18 characters.
fn client_order_id(origin: &str, order_id: OrderId, version: u32) -> String {
    const DIGITS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let digest = sha256_hex(format!("{origin}|{order_id}|{version}").as_bytes());
    let bits = digest
        .get(..32)
        .and_then(|hex| u128::from_str_radix(hex, 16).ok());
    let bits = bits.unwrap_or_default();
    let digits = (1..=17_u32).map(|place| {
        let digit = usize::try_from((bits >> (128 - 5 * place)) & 31).unwrap_or(0);
        DIGITS.get(digit).map_or('a', |digit| char::from(*digit))
    });
    std::iter::once('s').chain(digits).collect()
}

fn file(line: u64, origin: &str, told: &Instruction) -> Result<File, HomeError> {
    let body = Instructed {
        order_id: told.order_id,
        version: told.version,
        client_order_id: client_order_id(origin, told.order_id, told.version),
        instruction: told.instruction,
        symbol: &told.symbol,
        side: told.side,
        order_type: told.order_type,
        size: told.size,
        price: told.price,
        trigger: told.trigger,
        time_in_force: told.time_in_force,
        reduce_only: told.reduce_only,
        valid_until: told.valid_until,
        epoch: EPOCH,
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
