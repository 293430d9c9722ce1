//! A working order, a position and a fill: the nouns of the book.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::rules::instruments::Instrument;
use crate::wire::amount::Amount;
use crate::wire::ids::{OrderId, Principal, StrategyName, Symbol, ThesisSlug};
use crate::wire::orders::{OrderType, Side, TimeInForce};
use crate::wire::time::Time;

/// Why an order exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
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
    /// Where it stands at a venue behind a bridge; none: market rows fill it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_venue: Option<AtVenue>,
}

impl Order {
    /// What is still to fill (FIX LeavesQty).
    pub fn leaves(&self) -> Amount {
        self.size.checked_sub(self.filled).filter(|left| left.is_positive()).unwrap_or(Amount::ZERO)
    }

    /// How it shall end, if its venue was asked to end it and has not said yet that it has: it may still fill.
    pub fn ending(&self) -> Option<OrderEnd> {
        self.at_venue.as_ref()?.ending
    }

    /// A market order, where this one stands, that has `size` of what it made leave at once. Nobody was told of it yet.
    pub(super) fn leaving(&self, order_id: OrderId, side: Side, size: Amount, accepted_at: Time) -> Order {
        Order {
            order_id,
            side,
            role: OrderRole::Exit,
            order_type: OrderType::Market,
            size,
            filled: Amount::ZERO,
            price: None,
            trigger: None,
            triggered: false,
            thesis_slug: None,
            accepted_at,
            time_in_force: TimeInForce::Gtc,
            at_venue: self
                .at_venue
                .as_ref()
                .map(|venue| AtVenue::new(venue.bridge.clone(), venue.multiplier)),
            ..self.clone()
        }
    }

    /// Whether it belongs to this strategy's position in this symbol.
    pub fn is_of(&self, strategy: &StrategyName, symbol: &Symbol) -> bool {
        self.strategy == *strategy && self.symbol == *symbol
    }
}

/// Where an order stands at a venue behind a bridge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AtVenue {
    /// Who carries it out, and alone may report on it.
    pub bridge: Principal,
    /// The instrument's multiplier when it was accepted: what fills is booked even if the instrument is gone.
    pub multiplier: Amount,
    /// The last instruction's version; 0: there was none.
    pub version: u32,
    /// What the last instruction said; none: nothing, or to cancel.
    pub told: Option<Told>,
    /// Sizes that the venue may be working, by the version that said so: from the last one that it works for certain
    /// on, without those that a later version exceeds. So the first is the largest.
    pub sizes: Vec<(u32, Amount)>,
    /// How it shall end, since the gate wants it gone.
    pub ending: Option<OrderEnd>,
    /// Whether the venue has said that it is gone.
    pub gone: bool,
}

/// What an instruction said of an order, as far as it can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Told {
    /// The whole size.
    pub size: Amount,
    /// Trigger of a stop.
    pub trigger: Option<Amount>,
}

impl AtVenue {
    /// Of an order that no instruction was given for yet.
    pub fn new(bridge: Principal, multiplier: Amount) -> AtVenue {
        let (told, ending) = (None, None);
        AtVenue { bridge, multiplier, version: 0, told, sizes: Vec::new(), ending, gone: false }
    }

    /// Whether the venue may be working it.
    pub fn is_out(&self) -> bool {
        self.version > 0 && !self.gone
    }

    /// The largest size that the venue may be working.
    pub fn most(&self) -> Amount {
        self.sizes.first().map_or(Amount::ZERO, |(_, size)| *size)
    }

    /// Notes an instruction.
    pub(super) fn instruct(&mut self, instruction: &Instruction) {
        self.version = instruction.version;
        let Instruction { size, trigger, .. } = *instruction;
        self.told = (instruction.instruction != Verb::Cancel).then_some(Told { size, trigger });
        if instruction.instruction != Verb::Cancel {
            while self.sizes.last().is_some_and(|(_, earlier)| *earlier <= size) {
                self.sizes.pop();
            }
            self.sizes.push((instruction.version, size));
        }
    }

    /// Notes a report.
    pub(super) fn report(&mut self, working: Option<u32>, gone: bool) {
        if let Some(working) = working {
            self.sizes.retain(|(version, _)| *version >= working);
        }
        self.gone = self.gone || gone;
    }
}

/// What a bridge is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// Place the order.
    Place,
    /// Have it be as stated.
    Replace,
    /// Take it out of the market.
    Cancel,
}

/// What an order at a venue shall be: all of it, so that whoever knows the highest version needs no other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Instruction {
    /// The order.
    pub order_id: OrderId,
    /// Counts from 1 with every instruction for this order.
    pub version: u32,
    /// What to do.
    pub instruction: Verb,
    /// Who does it.
    pub bridge: Principal,
    /// Instrument.
    pub symbol: Symbol,
    /// Buy or sell.
    pub side: Side,
    /// Limit, market or stop.
    pub order_type: OrderType,
    /// The whole size, what has been filled included (FIX OrderQty).
    pub size: Amount,
    /// Limit price of limit orders.
    pub price: Option<Amount>,
    /// Trigger of stop orders.
    pub trigger: Option<Amount>,
    /// How long it stays open.
    pub time_in_force: TimeInForce,
    /// Whether it may only reduce what is held.
    pub reduce_only: bool,
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
    /// Where it is held, if at a venue behind a bridge. What reduces it goes there, whatever the rules say of the
    /// instrument by now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_at: Option<HeldAt>,
}

/// A venue behind a bridge, as far as orders at it need to know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeldAt {
    /// Who carries orders out there.
    pub bridge: Principal,
    /// The instrument's multiplier when the position was opened.
    pub multiplier: Amount,
}

impl Position {
    /// Where an order that reduces it stands before anybody was told of it; none on paper.
    pub fn exit_at_venue(&self) -> Option<AtVenue> {
        let HeldAt { bridge, multiplier } = self.held_at.as_ref()?;
        Some(AtVenue::new(bridge.clone(), *multiplier))
    }

    /// Whether it is held where orders of this instrument go.
    pub fn is_held_at_venue_of(&self, instrument: &Instrument) -> bool {
        self.held_at.as_ref().map(|held_at| &held_at.bridge) == instrument.bridge.as_ref()
    }

    /// The side of an order that reduces it.
    pub fn closing_side(&self) -> Side {
        if self.size.is_positive() { Side::Sell } else { Side::Buy }
    }
}

/// Whether a fill took or made liquidity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Liquidity {
    /// Rested first.
    Maker,
    /// Met what rested.
    Taker,
}

/// One execution (FIX ExecutionReport).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
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
    /// Fee, account currency; below 0 a venue paid it.
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
