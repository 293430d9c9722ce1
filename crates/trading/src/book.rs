//! The book: all facts about money that decisions read. It is a fold of changes and nothing else;
//! `fold.rs` defines how a change folds in, `valuation.rs` what the book is worth.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use serde::{Deserialize, Serialize};

use super::conduct::Conduct;
use super::market_row::Row;
use super::order::{Order, Position};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{ExecId, OrderId, Principal, Regime, StrategyName, Symbol, ThesisSlug};
use spoolgate_wire::orders::{OrderType, Side};
use spoolgate_wire::time::Time;

/// Cash, profit and the reference values that halts are measured from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Account {
    /// Money in the account, account currency. Buys lower it, sells raise it, fees lower it.
    pub cash: Amount,
    /// Deposits less withdrawals since the beginning: never profit or loss.
    pub net_deposits: Amount,
    /// Realised profit and loss before fees.
    pub realised: Amount,
    /// Fees paid.
    pub fees: Amount,
    /// Funding paid, less funding received.
    pub funding: Amount,
    /// The UTC day in which the daily loss is counted, with its starting values. `None` before the
    /// first event.
    pub day: Option<Baseline>,
    /// The week, from Monday UTC, in which the weekly loss is counted. `None` before the first
    /// event.
    pub week: Option<Baseline>,
    /// Highest equity, adjusted for later deposits and withdrawals. `None` until equity was first
    /// known.
    pub peak_equity: Option<Amount>,
    /// Notional of the entry fills since `day` began, account currency.
    #[serde(default = "nothing", skip_serializing_if = "is_nothing")]
    pub turnover: Amount,
    /// Since when the drawdown stops entries; only a person clears it.
    pub drawdown_since: Option<Time>,
}

fn nothing() -> Amount {
    Amount::ZERO
}

#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_nothing(amount: &Amount) -> bool {
    amount.is_zero()
}

/// The starting values of a day or a week, from which its loss is counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Baseline {
    /// UTC midnight.
    pub start: Time,
    /// Equity at the start.
    pub equity: Amount,
    /// `net_deposits` at the start.
    pub net_deposits: Amount,
    /// Whether turnover and refusals by venues are counted from here on; lines of earlier versions did
    /// not count them, and a state of them that is made again must be the same.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub counts: bool,
}

/// What is known about one market.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Market {
    /// The last trade: close of the newest bar.
    pub last: Option<Last>,
    /// The newest quote.
    pub quote: Option<Quote>,
    /// The newest bars, oldest first, including the bar of `last`: at most [`WINDOW`] + 1.
    pub bars: VecDeque<Traded>,
    /// The newest funding rates, oldest first: at most [`WINDOW`] + 1.
    pub rates: VecDeque<Amount>,
    /// When the newest of these rates was due.
    pub funded: Option<Time>,
    /// The regime that a feed reported.
    pub regime: Option<Given>,
    /// Start of the newest row that orders could use; kept only if the instrument has a
    /// `percent_price`, which needs to know which orders are new to the venue.
    pub reached: Option<Time>,
    /// A row that is not believed yet. Any row that moves the market settles it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<Held>,
}

/// A row that opens too far from the last price to be believed alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Held {
    /// The row.
    pub row: Row,
    /// The price that it is too far from.
    pub previous: Amount,
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.row {
            Row::Bar { open, .. } => write!(f, "the newest bar opens at {open}")?,
            Row::Quote { bid, ask, .. } => write!(f, "the newest quote is {bid} to {ask}")?,
        }
        write!(f, ", implausibly far from {}", self.previous)
    }
}

/// Number of earlier bars, or funding rates, that the newest one is compared with.
pub const WINDOW: usize = 20;

/// A bar other than the newest: close and volume. Serialised as a pair, because ledger lines hold
/// many.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traded(
    /// Close.
    pub Amount,
    /// Volume, if the data have it.
    pub Option<Amount>,
);

/// A regime and the time since which it applies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Given {
    /// Its name.
    pub regime: Regime,
    /// When the feed reported it, on the gate's clock.
    pub at: Time,
}

/// The last trade.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Last {
    /// Close.
    pub price: Amount,
    /// Volume of the bar, if the data have it.
    pub volume: Option<Amount>,
    /// When the bar closed.
    pub time: Time,
}

/// A two-sided quote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quote {
    /// Highest price a buyer bids.
    pub bid: Amount,
    /// Lowest price a seller asks.
    pub ask: Amount,
    /// When the quote was known.
    pub time: Time,
}

/// An open so far from the previous close that it is not plausible.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gap {
    /// The close before; for quotes, the previous value of the side that jumped.
    pub previous: Amount,
    /// The open that was seen.
    pub open: Amount,
    /// When the row became known.
    pub time: Time,
}

/// When and at which price the market refuted a thesis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refuted {
    /// When the refuting row became known.
    pub at: Time,
    /// The price that the row reached.
    pub price: Amount,
}

/// Why the book and the venue may differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Doubt {
    /// The order concerned, whether or not the book knows it; `None` if it concerns none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order_id: Option<OrderId>,
    /// The reason, in words.
    pub what: String,
    /// When the doubt arose, on the gate's clock.
    pub at: Time,
}

/// An accepted entry, remembered for the duplicate and rate checks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecentEntry {
    /// When it was accepted.
    pub at: Time,
    /// Who sent it.
    pub source: Principal,
    /// Its strategy.
    pub strategy: StrategyName,
    /// Its symbol.
    pub symbol: Symbol,
    /// Its side.
    pub side: Side,
    /// Its type.
    pub order_type: OrderType,
    /// Its size.
    pub size: Amount,
    /// Its limit price, or the trigger of a stop order.
    pub price: Option<Amount>,
}

/// The whole book.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Book {
    /// Money.
    pub account: Account,
    /// Positions by symbol, then strategy. As a list in JSON.
    #[serde(with = "positions_as_list")]
    pub positions: BTreeMap<(Symbol, StrategyName), Position>,
    /// Open orders by id.
    pub orders: BTreeMap<OrderId, Order>,
    /// Markets by symbol.
    pub markets: BTreeMap<Symbol, Market>,
    /// Symbols closed to entries since an implausible gap, until a person clears them.
    pub halted_symbols: BTreeMap<Symbol, Gap>,
    /// Symbols closed to entries because book and venue may differ, until a person clears them.
    pub doubted_symbols: BTreeMap<Symbol, Doubt>,
    /// Entries accepted within the longest duplicate window, oldest first.
    pub recent_entries: VecDeque<RecentEntry>,
    /// Theses that the market has refuted, for good. There are never more than theses were written.
    pub refuted: BTreeMap<ThesisSlug, Refuted>,
    /// The recent record of each strategy that ever filled, by name.
    pub conduct: BTreeMap<StrategyName, Conduct>,
    /// When each bridge last reported.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub heard: BTreeMap<Principal, Time>,
    /// Bridges that have ever given a sign of life.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub bridges: BTreeMap<Principal, Bridge>,
    /// How many new entries of each symbol have reached the imitated exchange.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub imitated_entries: BTreeMap<Symbol, u64>,
}

/// What is known of a bridge to a venue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bridge {
    /// Since when it is silent, and why; `None` while it is alive.
    pub silent: Option<Silence>,
    /// The id of its run.
    pub run: String,
    /// When book and venue were last compared in this run.
    pub reconciled_at: Option<Time>,
    /// The last drill whose ping it answered, by its ledger line.
    pub pinged: Option<u64>,
    /// Its newest report that was booked.
    pub booked: Option<ExecId>,
    /// When it was given the newest instructions that are paced, oldest first, at most [`PACED_MAX`].
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub paced: VecDeque<Time>,
}

/// Number of instructions that are remembered for the pace of a bridge: four seconds at the highest
/// rate.
pub const PACED_MAX: usize = 400;

/// Why nothing is to be expected of a bridge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Silence {
    /// Since when, on the gate's clock.
    pub since: Time,
    /// The reason, in words.
    pub why: String,
}

impl Default for Book {
    fn default() -> Book {
        let account = Account {
            cash: Amount::ZERO,
            net_deposits: Amount::ZERO,
            realised: Amount::ZERO,
            fees: Amount::ZERO,
            funding: Amount::ZERO,
            day: None,
            week: None,
            peak_equity: None,
            turnover: Amount::ZERO,
            drawdown_since: None,
        };
        Book {
            account,
            positions: BTreeMap::new(),
            orders: BTreeMap::new(),
            markets: BTreeMap::new(),
            halted_symbols: BTreeMap::new(),
            doubted_symbols: BTreeMap::new(),
            recent_entries: VecDeque::new(),
            refuted: BTreeMap::new(),
            conduct: BTreeMap::new(),
            heard: BTreeMap::new(),
            bridges: BTreeMap::new(),
            imitated_entries: BTreeMap::new(),
        }
    }
}

/// JSON has no tuple keys, so positions are stored as a list and each carries its own key.
mod positions_as_list {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serializer};

    use super::{Position, StrategyName, Symbol};

    type Positions = BTreeMap<(Symbol, StrategyName), Position>;

    pub(super) fn serialize<S: Serializer>(
        positions: &Positions,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(positions.values())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Positions, D::Error> {
        let list = Vec::<Position>::deserialize(deserializer)?;
        Ok(list
            .into_iter()
            .map(|p| ((p.symbol.clone(), p.strategy.clone()), p))
            .collect())
    }
}
