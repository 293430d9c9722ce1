//! What a decision or a market row does to the book, one step at a time. Changes are stored in
//! ledger lines, and folding them from genesis gives the book, so applying one must never depend on
//! rules or time.

use serde::{Deserialize, Serialize};

use super::book::{Baseline, Doubt, Gap, Given, Last, Quote, Traded};
use super::imitated::Untold;
use super::market_row::Row;
use super::order::{Fill, Instruction, Merged, Order, OrderEnd, Why};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{ExecId, OrderId, Principal, StrategyName, Symbol, ThesisSlug};
use spoolgate_wire::time::Time;

/// The funding that one position pays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FundingCharge {
    /// Strategy that owns the position.
    pub strategy: StrategyName,
    /// Signed size of the position.
    pub size: Amount,
    /// The price the position was valued at.
    pub mark: Amount,
    /// Amount paid, account currency; below 0 the position receives it.
    pub amount: Amount,
}

/// One step of the book.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Change {
    /// An order was accepted and is open.
    OrderPlaced(Box<Order>),
    /// An execution. The order's filled size, the position, cash, realised profit and fees follow
    /// from it.
    OrderFilled(Fill),
    /// A stop's trigger was reached.
    OrderTriggered {
        /// The order.
        order_id: OrderId,
    },
    /// A protective stop now protects this size, or a target now closes this size.
    StopResized {
        /// The stop or target.
        order_id: OrderId,
        /// The new size, including the part that has filled.
        size: Amount,
    },
    /// An exit or target that rested at the gate goes to its venue, because the market is there.
    OrderReleased {
        /// The order.
        order_id: OrderId,
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
        /// Of an entry that was pulled: which check no longer allowed it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<Why>,
    },
    /// The venue refused an order because of its own filters; the order is no longer open.
    OrderRefused {
        /// The order.
        order_id: OrderId,
        /// Which filter refused it, in words.
        reason: String,
        /// When, on the gate's clock.
        at: Time,
    },
    /// The gate wants to end an order that a venue may be working. The order stays in the book,
    /// reserved, until the venue reports that it is gone.
    OrderEnding {
        /// The order.
        order_id: OrderId,
        /// The end that the gate wants.
        end: OrderEnd,
        /// When, on the gate's clock.
        at: Time,
        /// Of an entry that was pulled: which check no longer allowed it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<Why>,
    },
    /// A new instruction tells a bridge what an order shall be.
    Instructed(Instruction),
    /// A bridge has reported on an order. What it filled is in an `OrderFilled` change next to this
    /// one.
    VenueReported {
        /// The order.
        order_id: OrderId,
        /// The bridge that reported.
        bridge: Principal,
        /// The venue's id of the report; the gate books only one report of this bridge under it.
        exec_id: ExecId,
        /// The version that the venue works, if the report states it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        working: Option<u32>,
        /// The version up to which the venue works none, if the report states the end of one from before
        /// the order was placed again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ended: Option<u32>,
        /// Whether the order is gone at the venue.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        gone: bool,
        /// When, on the gate's clock; absent in old lines.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<Time>,
    },
    /// A version of an order reached nobody: the gate took its file back, or its bridge reports that
    /// its time had passed.
    TakenBack {
        /// The order.
        order_id: OrderId,
        /// The version.
        version: u32,
    },
    /// An order traded at the imitated exchange during a silence. It is reported afterwards.
    TradedUntold {
        /// The order.
        order_id: OrderId,
        /// The trade.
        traded: Box<Untold>,
    },
    /// A bridge has not answered the newest instruction about an order for too long.
    Unanswered {
        /// The order.
        order_id: OrderId,
        /// When that was told, on the gate's clock.
        at: Time,
    },
    /// A bridge gives no sign of life, or has lost its venue.
    BridgeSilent {
        /// The bridge.
        bridge: Principal,
        /// Since when, on the gate's clock.
        since: Time,
        /// The reason, in words.
        why: String,
    },
    /// A bridge that was silent gives signs of life, or a new run of it does.
    BridgeHeard {
        /// The bridge.
        bridge: Principal,
        /// The id of its run.
        run: String,
        /// When, on the gate's clock.
        at: Time,
    },
    /// A bridge stated what its venue holds and works, and it was compared with the book.
    Reconciled {
        /// The bridge.
        bridge: Principal,
        /// When, on the gate's clock.
        at: Time,
        /// The id of the bridge's run.
        run: String,
        /// How many differences there were.
        differences: u64,
    },
    /// A bridge has answered the ping of a drill.
    PingAnswered {
        /// The bridge.
        bridge: Principal,
        /// The ledger line of the drill.
        line: u64,
        /// When, on the gate's clock.
        at: Time,
    },
    /// Book and venue may differ: the symbol takes no entries until a person clears it.
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
        /// Bars before the newest one that the same rows brought, oldest first, as far as the
        /// book's window still holds them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        earlier: Vec<Traded>,
        /// The newest trade, if it changed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        last: Option<Last>,
        /// The newest quote, if it changed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        quote: Option<Quote>,
        /// Start of the newest row that orders could use, if the instrument has a `percent_price`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reached: Option<Time>,
    },
    /// A row opened too far from the last price to be believed alone: nothing uses it until the
    /// symbol's next row agrees with it.
    RowHeld {
        /// Instrument.
        symbol: Symbol,
        /// The row.
        row: Row,
        /// The price that it is too far from.
        previous: Amount,
    },
    /// The next row did not agree with the held one, which is as if it had never come.
    RowDropped {
        /// Instrument.
        symbol: Symbol,
    },
    /// A feed reported the regime of a market.
    RegimeGiven {
        /// Instrument.
        symbol: Symbol,
        /// The regime, and since when it applies.
        given: Given,
    },
    /// An implausible gap: the symbol takes no entries until a person clears it.
    SymbolHalted {
        /// Instrument.
        symbol: Symbol,
        /// The gap.
        gap: Gap,
    },
    /// A person has looked at the gap, or at the venue; entries are possible again.
    SymbolCleared {
        /// Instrument.
        symbol: Symbol,
    },
    /// The market crossed a level that refutes a thesis.
    ThesisRefuted {
        /// The thesis.
        slug: ThesisSlug,
        /// When the refuting row became known.
        at: Time,
        /// The price that the row reached.
        price: Amount,
    },
    /// Funding in one symbol, due at one time.
    FundingCharged {
        /// Instrument.
        symbol: Symbol,
        /// Fraction of the value of the positions; above 0 longs pay.
        rate: Amount,
        /// When it was due.
        time: Time,
        /// The amount for each position.
        charges: Vec<FundingCharge>,
    },
    /// A person moved money in (above 0) or out (below 0). Cash, net deposits and peak equity
    /// change by the same amount.
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
    /// The drawdown limit was reached; entries are closed until a person clears it.
    DrawdownLatched {
        /// When the limit was reached.
        at: Time,
        /// Equity at that moment.
        equity: Amount,
    },
    /// A strategy has executed as often as it may; it is closed to entries until a person clears
    /// it.
    StrategyDisabled {
        /// The strategy.
        strategy: StrategyName,
        /// When it last executed, by the market's clock.
        at: Time,
    },
    /// A person lets a strategy enter again: its losses and refusals in a row and its executions count
    /// from 0 again.
    StrategyCleared {
        /// The strategy.
        strategy: StrategyName,
    },
    /// A person cleared the drawdown; the peak restarts at this equity.
    DrawdownCleared {
        /// The new peak.
        peak: Amount,
    },
    /// A further market exit of a leg joined the one that waits.
    ExitMerged(Merged),
}

impl Change {
    /// Returns the order that this change removes from the book, and how the order ended.
    pub fn ended(&self) -> Option<(OrderId, OrderEnd)> {
        match self {
            Change::OrderClosed { order_id, end, .. } => Some((*order_id, *end)),
            Change::OrderRefused { order_id, .. } => Some((*order_id, OrderEnd::Refused)),
            _ => None,
        }
    }

    /// Returns which check ended an order, if this pulls one.
    pub fn why(&self) -> Option<&Why> {
        match self {
            Change::OrderClosed { why, .. } | Change::OrderEnding { why, .. } => why.as_ref(),
            _ => None,
        }
    }
}
