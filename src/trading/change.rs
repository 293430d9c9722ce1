//! What a decision or a market row does to the book, one step at a time. These stand in ledger lines;
//! folding them from genesis gives the book, so applying one must never depend on rules or time.

use serde::{Deserialize, Serialize};

use super::book::{Baseline, Doubt, Gap, Given, Last, Quote, Traded};
use super::order::{Fill, Instruction, Order, OrderEnd};
use crate::wire::amount::Amount;
use crate::wire::ids::{ExecId, OrderId, Principal, StrategyName, Symbol, ThesisSlug};
use crate::wire::time::Time;

/// What one position pays for funding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FundingCharge {
    /// Owner.
    pub strategy: StrategyName,
    /// Signed size that it held.
    pub size: Amount,
    /// The price it was valued at.
    pub mark: Amount,
    /// What it pays, account currency; below 0 it is paid.
    pub amount: Amount,
}

/// One step of the book.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Change {
    /// An order was accepted and is open.
    OrderPlaced(Order),
    /// An execution: the order's filled size, the position, cash, realised and fees follow from it.
    OrderFilled(Fill),
    /// A stop's trigger was reached.
    OrderTriggered {
        /// The order.
        order_id: OrderId,
    },
    /// A protective stop now protects this much, or a target now closes this much.
    StopResized {
        /// The stop or target.
        order_id: OrderId,
        /// What it protects, filled part included.
        size: Amount,
    },
    /// A protective stop was tightened.
    StopMoved {
        /// The stop.
        order_id: OrderId,
        /// The new trigger.
        trigger: Amount,
    },
    /// An order is no longer open.
    OrderClosed {
        /// The order.
        order_id: OrderId,
        /// How it ended.
        end: OrderEnd,
        /// When, on the gate's clock.
        at: Time,
    },
    /// The venue refused an order by its own filters: it is no longer open.
    OrderRefused {
        /// The order.
        order_id: OrderId,
        /// Which filter, in words.
        reason: String,
        /// When, on the gate's clock.
        at: Time,
    },
    /// The gate wants an order gone that a venue may be working: it stays, reserved, until the venue has said so.
    OrderEnding {
        /// The order.
        order_id: OrderId,
        /// How it shall end.
        end: OrderEnd,
        /// When, on the gate's clock.
        at: Time,
    },
    /// A bridge is told what an order shall be.
    Instructed(Instruction),
    /// A bridge has reported on an order; what it filled stands beside it.
    VenueReported {
        /// The order.
        order_id: OrderId,
        /// Who reported.
        bridge: Principal,
        /// The venue's id of the report: no other of this bridge is booked under it.
        exec_id: ExecId,
        /// The version that the venue works, if the report is about that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        working: Option<u32>,
        /// Whether the order is gone.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        gone: bool,
    },
    /// Book and venue may differ: no entries in the symbol until a person clears it.
    SymbolDoubted {
        /// Instrument.
        symbol: Symbol,
        /// What was found.
        doubt: Doubt,
    },
    /// New market data.
    MarketMoved {
        /// Instrument.
        symbol: Symbol,
        /// Bars before the newest one that the same rows brought, oldest first: those that the book's window still holds.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        earlier: Vec<Traded>,
        /// The newest trade, if it changed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        last: Option<Last>,
        /// The newest quote, if it changed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        quote: Option<Quote>,
        /// Where the newest row that orders could use began, where the instrument has a `percent_price`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reached: Option<Time>,
    },
    /// A feed says what the market is like.
    RegimeGiven {
        /// Instrument.
        symbol: Symbol,
        /// What it says, and since when.
        given: Given,
    },
    /// An implausible gap: no entries in the symbol until a person clears it.
    SymbolHalted {
        /// Instrument.
        symbol: Symbol,
        /// What was found.
        gap: Gap,
    },
    /// A person has looked at the gap, or at the venue; entries may go on.
    SymbolCleared {
        /// Instrument.
        symbol: Symbol,
    },
    /// The market crossed a level that refutes a thesis.
    ThesisRefuted {
        /// The thesis.
        slug: ThesisSlug,
        /// When the row was known that did.
        at: Time,
        /// The price that it reached.
        price: Amount,
    },
    /// Funding of one time in one symbol.
    FundingCharged {
        /// Instrument.
        symbol: Symbol,
        /// Fraction of the value of positions; above 0 longs pay.
        rate: Amount,
        /// When it was due.
        time: Time,
        /// What each position paid.
        charges: Vec<FundingCharge>,
    },
    /// A person moved money in (above 0) or out (below 0): cash, net deposits, and peak equity by the same amount.
    AccountAdjusted {
        /// Signed amount, account currency.
        amount: Amount,
    },
    /// A new UTC day began.
    DayOpened(Baseline),
    /// A new week began, on Monday UTC.
    WeekOpened(Baseline),
    /// Equity reached a new peak.
    PeakRaised {
        /// The new peak, account currency.
        equity: Amount,
    },
    /// The drawdown limit was reached; entries stop until a person clears it.
    DrawdownLatched {
        /// When.
        at: Time,
        /// Equity at that moment.
        equity: Amount,
    },
    /// A strategy executed as often as it may; it enters nothing until a person clears it.
    StrategyDisabled {
        /// The strategy.
        strategy: StrategyName,
        /// When it last executed, by the market's clock.
        at: Time,
    },
    /// A person lets a strategy enter again: its losses in a row and its executions count from nothing.
    StrategyCleared {
        /// The strategy.
        strategy: StrategyName,
    },
    /// A person cleared the drawdown; the peak starts again from this equity.
    DrawdownCleared {
        /// The new peak.
        peak: Amount,
    },
}

impl Change {
    /// The order that it takes out of the book, and how that one ended.
    pub fn ended(&self) -> Option<(OrderId, OrderEnd)> {
        match self {
            Change::OrderClosed { order_id, end, .. } => Some((*order_id, *end)),
            Change::OrderRefused { order_id, .. } => Some((*order_id, OrderEnd::Refused)),
            _ => None,
        }
    }
}
