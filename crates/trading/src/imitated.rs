//! What the imitated exchange knows of an order besides what the gate knows of it. The rest of the
//! exchange follows from the book: `venue::imitated` has its rules.

use serde::{Deserialize, Serialize};

use super::order::{Instruction, Liquidity, Verb};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{Currency, ExecId};
use spoolgate_wire::time::Time;

/// Maximum number of unanswered instructions that are kept. One more replaces the newest, so that the
/// oldest is answered in its time.
const SENT_MAX: usize = 8;

/// Maximum number of trades of an order that a silence holds back. After them the order does not trade
/// until the silence is over.
pub const UNTOLD_MAX: usize = 16;

/// The state of an order at the imitated exchange.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Imitated {
    /// The instructions that it has not answered, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sent: Vec<Sent>,
    /// When the instruction was given with whose arrival the order began to work; absent while it does
    /// not work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// Trades that a silence holds back, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub untold: Vec<Untold>,
}

/// An instruction that the exchange has not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sent {
    /// The version.
    pub version: u32,
    /// What to do.
    pub instruction: Verb,
    /// The whole size that the order shall have.
    pub size: Amount,
    /// When it was given, on the gate's clock.
    pub at: Time,
    /// After this time the exchange does not carry it out; absent for a cancel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_until: Option<Time>,
}

/// A trade at the exchange.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Untold {
    /// The exchange's id of its report.
    pub exec_id: ExecId,
    /// When, by the market's clock.
    pub at: Time,
    /// What the order has filled with it in all.
    pub cum_qty: Amount,
    /// Its size, above 0.
    pub size: Amount,
    /// Its price.
    pub price: Amount,
    /// Its fee.
    pub fee: Amount,
    /// In what the fee was paid; absent if it was paid in account currency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fee_currency: Option<Currency>,
    /// Whether the order rested.
    pub liquidity: Liquidity,
}

impl Imitated {
    /// Records an instruction.
    pub(super) fn instruct(&mut self, instruction: &Instruction) {
        let Some(at) = instruction.at else {
            return;
        };
        if self.sent.len() >= SENT_MAX {
            self.sent.pop();
        }
        self.sent.push(Sent {
            version: instruction.version,
            instruction: instruction.instruction,
            size: instruction.size,
            at,
            valid_until: instruction.valid_until,
        });
    }

    /// Records what a report says: the version that works now, or that the order is gone.
    pub(super) fn answer(&mut self, working: Option<u32>, gone: bool) {
        if let Some(working) = working {
            let placed = self.sent.iter().find(|sent| sent.version == working);
            self.since = self.since.or(placed.map(|sent| sent.at));
            self.sent.retain(|sent| sent.version > working);
        }
        if gone {
            self.since = None;
            self.sent.clear();
        }
    }

    /// Records that no version up to this one works.
    pub(super) fn end_up_to(&mut self, ended: u32) {
        self.since = None;
        self.sent.retain(|sent| sent.version > ended);
    }

    /// Records that a version was not carried out.
    pub(super) fn take_back(&mut self, version: u32) {
        self.sent.retain(|sent| sent.version != version);
    }

    /// Records that a trade was told.
    pub(super) fn tell(&mut self, exec_id: &ExecId) {
        self.untold.retain(|traded| traded.exec_id != *exec_id);
    }

    /// Returns what the order has filled without the gate knowing. What cannot be held is not filled.
    pub fn untold_size(&self) -> Amount {
        let sizes = self.untold.iter().map(|traded| traded.size);
        sizes.fold(Amount::ZERO, |sum, size| {
            sum.checked_add(size).unwrap_or(sum)
        })
    }
}
