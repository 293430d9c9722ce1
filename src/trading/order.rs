//! A working order, a position and a fill: the nouns of the book.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::wire::amount::Amount;
use crate::wire::ids::{OrderId, Principal, StrategyName, Symbol, ThesisSlug};
use crate::wire::orders::{OrderType, Side, TimeInForce};
use crate::wire::time::Time;

/// Why an order exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OrderRole {
    /// Opens or adds to a position.
    Entry,
    /// Reduces a position, sent by the agent. Reduce-only: clamped to the live position at fill.
    Exit,
    /// The stop that the gate placed with an entry. Its size follows the fills and the position.
    Protective,
    /// The limit exit that the gate placed with an entry. Its size is what the entry's stop protects.
    Target,
}

/// How an order ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OrderEnd {
    /// Filled completely.
    Filled,
    /// Cancelled by its owner.
    Cancelled,
    /// Cancelled by the gate because nothing was left to reduce or protect.
    Retired,
    /// Refused by the venue.
    Refused,
    /// Its time in force ended.
    Expired,
}

/// An open order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// Its id.
    pub order_id: OrderId,
    /// Who sent it.
    pub source: Principal,
    /// Who owns it.
    pub strategy: StrategyName,
    /// Instrument.
    pub symbol: Symbol,
    /// Buy or sell.
    pub side: Side,
    /// Entry, exit or protective.
    pub role: OrderRole,
    /// Limit, market or stop.
    pub order_type: OrderType,
    /// Ordered size; for protective stops what they protect now.
    pub size: Amount,
    /// Filled so far.
    pub filled: Amount,
    /// Limit price of limit orders.
    pub price: Option<Amount>,
    /// Trigger of stop orders, protective ones included.
    pub trigger: Option<Amount>,
    /// Whether the market has reached the trigger; what is left then fills like a market order.
    pub triggered: bool,
    /// Thesis of an entry.
    pub thesis_slug: Option<ThesisSlug>,
    /// When the gate accepted it.
    pub accepted_at: Time,
    /// How long it stays open.
    #[serde(default, skip_serializing_if = "TimeInForce::is_gtc")]
    pub time_in_force: TimeInForce,
}

impl Order {
    /// What is still to fill (FIX LeavesQty).
    pub fn leaves(&self) -> Amount {
        self.size.checked_sub(self.filled).filter(|left| left.is_positive()).unwrap_or(Amount::ZERO)
    }

    /// Whether it belongs to this strategy's position in this symbol.
    pub fn is_of(&self, strategy: &StrategyName, symbol: &Symbol) -> bool {
        self.strategy == *strategy && self.symbol == *symbol
    }
}

/// A strategy's net position in one symbol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Position {
    /// Owner.
    pub strategy: StrategyName,
    /// Instrument.
    pub symbol: Symbol,
    /// Signed size: above 0 long, below 0 short. Never 0: flat positions are removed.
    pub size: Amount,
    /// Signed cost of the open size without fees: sum of price x size x multiplier of what opened it,
    /// reduced in proportion, rounded to 8 decimals. Kept instead of an average price, which would need
    /// a division that does not end.
    pub cost: Amount,
    /// Profit and loss realised since it was opened, less all fees since then.
    pub result: Amount,
    /// When it last grew, on the gate's clock.
    pub increased_at: Time,
    /// The theses whose entries opened or added to it: none of them carries another entry while it is open.
    pub theses: BTreeSet<ThesisSlug>,
}

impl Position {
    /// The side of an order that reduces it.
    pub fn closing_side(&self) -> Side {
        if self.size.is_positive() { Side::Sell } else { Side::Buy }
    }
}

/// Whether a fill took or made liquidity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Liquidity {
    /// Rested first.
    Maker,
    /// Met what rested.
    Taker,
}

/// One execution (FIX ExecutionReport).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fill {
    /// The order that filled.
    pub order_id: OrderId,
    /// Owner.
    pub strategy: StrategyName,
    /// Instrument.
    pub symbol: Symbol,
    /// Buy or sell.
    pub side: Side,
    /// Role of the order.
    pub role: OrderRole,
    /// Price.
    pub price: Amount,
    /// Size, positive.
    pub size: Amount,
    /// The instrument's multiplier when it filled, so that the fold needs no rules.
    pub multiplier: Amount,
    /// Fee, account currency, not negative.
    pub fee: Amount,
    /// Maker or taker.
    pub liquidity: Liquidity,
    /// Profit or loss realised against the position's cost, before fees; 0 for what opens.
    pub realised: Amount,
    /// When the market did it.
    pub market_time: Time,
    /// When the gate recorded it.
    pub recorded_at: Time,
}
