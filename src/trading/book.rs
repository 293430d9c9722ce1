//! The book: everything about money that decisions read. A fold of changes, nothing else; how a change
//! folds in is in `fold.rs`, what the book is worth in `valuation.rs`.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::conduct::Conduct;
use super::order::{Order, Position};
use crate::wire::amount::Amount;
use crate::wire::ids::{OrderId, Principal, Regime, StrategyName, Symbol, ThesisSlug};
use crate::wire::orders::{OrderType, Side};
use crate::wire::time::Time;

/// Cash, profit and the marks that halts are measured from.
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
    /// The UTC day that the daily loss is counted in, and where it began. None before the first event.
    pub day: Option<Baseline>,
    /// The week, from Monday UTC, that the weekly loss is counted in. None before the first event.
    pub week: Option<Baseline>,
    /// Highest equity net of later deposits and withdrawals. None until equity was first known.
    pub peak_equity: Option<Amount>,
    /// Since when entries are stopped by the drawdown; only a person clears it.
    pub drawdown_since: Option<Time>,
}

/// Where a day or a week began: what its loss is counted from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Baseline {
    /// UTC midnight.
    pub start: Time,
    /// Equity when it began.
    pub equity: Amount,
    /// `net_deposits` when it began.
    pub net_deposits: Amount,
}

/// What is known of one market.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Market {
    /// The last trade: close of the newest bar.
    pub last: Option<Last>,
    /// The newest quote.
    pub quote: Option<Quote>,
    /// The newest bars, oldest first, that of `last` included: at most [`WINDOW`] and one.
    pub bars: VecDeque<Traded>,
    /// The newest funding rates, oldest first: at most [`WINDOW`] and one.
    pub rates: VecDeque<Amount>,
    /// When the newest of them was due.
    pub funded: Option<Time>,
    /// What a feed says of it.
    pub regime: Option<Given>,
    /// Where the newest row that orders could use began; kept only where the venue asks which orders are new to it.
    pub reached: Option<Time>,
}

/// Bars, and funding rates, that the newest one is compared with.
pub const WINDOW: usize = 20;

/// What is kept of a bar that is not the newest one: close and volume. As a pair in JSON, because ledger lines hold
/// many.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traded(
    /// Close.
    pub Amount,
    /// Volume, if the data have any.
    pub Option<Amount>,
);

/// A regime and since when it is given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Given {
    /// Its name.
    pub regime: Regime,
    /// When it was given, on the gate's clock.
    pub at: Time,
}

/// A last trade.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Last {
    /// Close.
    pub price: Amount,
    /// Volume of the bar, if the data have any.
    pub volume: Option<Amount>,
    /// When the bar closed.
    pub time: Time,
}

/// A two-sided quote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quote {
    /// Highest price somebody pays.
    pub bid: Amount,
    /// Lowest price somebody takes.
    pub ask: Amount,
    /// When.
    pub time: Time,
}

/// An open too far from the previous close to be believed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gap {
    /// The close before; of quotes the side that jumped.
    pub previous: Amount,
    /// The open that was found.
    pub open: Amount,
    /// When the row was known.
    pub time: Time,
}

/// When the market refuted a thesis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refuted {
    /// When the row was known that did.
    pub at: Time,
    /// The price that it reached.
    pub price: Amount,
}

/// Why book and venue may differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Doubt {
    /// The order that it is about, known or not.
    pub order_id: OrderId,
    /// Why, in words.
    pub what: String,
    /// When, on the gate's clock.
    pub at: Time,
}

/// An accepted entry, remembered for duplicates and rates.
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
    /// Symbols that take no entries since an implausible gap, until a person clears them.
    pub halted_symbols: BTreeMap<Symbol, Gap>,
    /// Symbols that take no entries because book and venue may differ, until a person clears them.
    pub doubted_symbols: BTreeMap<Symbol, Doubt>,
    /// Entries accepted within the longest duplicate window, oldest first.
    pub recent_entries: VecDeque<RecentEntry>,
    /// Theses that the market has refuted, for good: at most as many as people have written.
    pub refuted: BTreeMap<ThesisSlug, Refuted>,
    /// How strategies have been doing, by name: those that ever filled.
    pub conduct: BTreeMap<StrategyName, Conduct>,
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
        }
    }
}

/// JSON has no tuple keys: positions name their own key.
mod positions_as_list {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serializer};

    use super::{Position, StrategyName, Symbol};

    type Positions = BTreeMap<(Symbol, StrategyName), Position>;

    pub fn serialize<S: Serializer>(positions: &Positions, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(positions.values())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Positions, D::Error> {
        let list = Vec::<Position>::deserialize(deserializer)?;
        Ok(list.into_iter().map(|p| ((p.symbol.clone(), p.strategy.clone()), p)).collect())
    }
}
