//! A working order, a position and a fill: the nouns of the book.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use spoolgate_rules::instruments::Instrument;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{OrderId, Principal, StrategyName, Symbol, ThesisSlug};
use spoolgate_wire::orders::{OrderType, Side, TimeInForce};
use spoolgate_wire::time::Time;

/// The purpose of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OrderRole {
    /// Opens or adds to a position.
    Entry,
    /// Reduces a position; sent by the agent. Reduce-only: clamped to the live position when it
    /// fills.
    Exit,
    /// The stop that the gate placed with an entry. Its size follows the fills and the position.
    Protective,
    /// The limit exit that the gate placed with an entry. Its size is the size that the entry's
    /// stop protects.
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
    /// An entry that a check no longer allowed was withdrawn by the gate.
    Pulled,
}

/// Which check no longer allowed an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Why {
    /// The check.
    pub check: String,
    /// The value that it compared; absent for a check that only says yes or no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Amount>,
    /// The limit of that value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Amount>,
}

/// An open order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// The order id.
    pub order_id: OrderId,
    /// The principal that sent the order.
    pub source: Principal,
    /// The strategy that owns the order.
    pub strategy: StrategyName,
    /// Instrument.
    pub symbol: Symbol,
    /// Buy or sell.
    pub side: Side,
    /// Entry, exit, protective stop or target.
    pub role: OrderRole,
    /// Limit, market or stop.
    pub order_type: OrderType,
    /// Ordered size; for protective stops the size they protect now.
    pub size: Amount,
    /// Filled so far.
    pub filled: Amount,
    /// Limit price of limit orders.
    pub price: Option<Amount>,
    /// Trigger of stop orders, protective ones included.
    pub trigger: Option<Amount>,
    /// Whether the market has reached the trigger; the rest then fills like a market order.
    pub triggered: bool,
    /// Thesis of an entry.
    pub thesis_slug: Option<ThesisSlug>,
    /// When the gate accepted it.
    pub accepted_at: Time,
    /// How long it stays open.
    #[serde(default, skip_serializing_if = "TimeInForce::is_gtc")]
    pub time_in_force: TimeInForce,
    /// State at the venue behind a bridge; `None` if market rows fill the order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_venue: Option<AtVenue>,
    /// The key that signed an entry; absent for other orders and for lines of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_id: Option<String>,
}

impl Order {
    /// Returns the size still to fill (FIX LeavesQty).
    pub fn leaves(&self) -> Amount {
        self.size
            .checked_sub(self.filled)
            .filter(|left| left.is_positive())
            .unwrap_or(Amount::ZERO)
    }

    /// Returns what may still fill: the size still to fill, and at a venue the rest of the largest
    /// size that the venue may be working, until it has reported that the order is gone. An order
    /// that the gate wants to end may fill until then.
    pub fn open(&self) -> Amount {
        let most = match &self.at_venue {
            Some(venue) if venue.gone && venue.ending.is_some() => return Amount::ZERO,
            Some(venue) => self.size.max(venue.most()),
            None => self.size,
        };
        most.checked_sub(self.filled)
            .filter(|left| left.is_positive())
            .unwrap_or(Amount::ZERO)
    }

    /// Returns how the order shall end, if the venue was asked to end it and has not confirmed that
    /// yet; until then it may still fill.
    pub fn ending(&self) -> Option<OrderEnd> {
        self.at_venue.as_ref()?.ending
    }

    /// Whether it is for a venue that does not work it: no bridge was instructed about it yet, or it
    /// is back at the gate.
    pub fn is_untold(&self) -> bool {
        self.at_venue.as_ref().is_some_and(|venue| !venue.is_out())
    }

    /// Whether it reduces, and waits for a price. Where the venue does not keep orders that reduce
    /// within the position, it waits at the gate until the market is there.
    pub fn rests(&self) -> bool {
        matches!(self.role, OrderRole::Exit | OrderRole::Target)
            && self.order_type != OrderType::Market
            && self.time_in_force != TimeInForce::Ioc
    }

    /// Whether it reduces a position whose venue does not keep it from reducing more.
    pub fn is_bounded(&self) -> bool {
        let is_free = |venue: &AtVenue| !venue.reduce_only;
        self.role != OrderRole::Entry && self.at_venue.as_ref().is_some_and(is_free)
    }

    /// Whether the gate holds it until the market is there.
    pub fn is_held(&self) -> bool {
        let is_kept = |venue: &AtVenue| !venue.released;
        self.is_bounded() && self.rests() && self.at_venue.as_ref().is_some_and(is_kept)
    }

    /// Whether stops make room for it at its venue: it is an exit or target that the gate does not hold.
    pub fn takes_room(&self) -> bool {
        self.is_bounded() && self.role != OrderRole::Protective && !self.is_held()
    }

    /// Creates a market order, at the same venue as this order, that closes `size` of what this
    /// order opened. No bridge was instructed about it yet.
    pub(super) fn leaving(
        &self,
        order_id: OrderId,
        side: Side,
        size: Amount,
        accepted_at: Time,
    ) -> Order {
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
            key_id: None,
            at_venue: self.at_venue.as_ref().map(AtVenue::anew),
            ..self.clone()
        }
    }

    /// Adds another market exit to it.
    pub(super) fn merge(&mut self, merged: &Merged) {
        (self.size, self.time_in_force) = (merged.size, merged.time_in_force);
        self.accepted_at = merged.at;
    }

    /// Whether it belongs to this strategy's position in this symbol.
    pub fn is_of(&self, strategy: &StrategyName, symbol: &Symbol) -> bool {
        self.strategy == *strategy && self.symbol == *symbol
    }
}

/// What a waiting market exit is after a further one was added to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Merged {
    /// The exit that waits.
    pub order_id: OrderId,
    /// Its new size, including the part that has filled.
    pub size: Amount,
    /// How long it stays open now.
    #[serde(default, skip_serializing_if = "TimeInForce::is_gtc")]
    pub time_in_force: TimeInForce,
    /// When, on the gate's clock. It fills as if it had been accepted then, so that no part of it
    /// uses a row from before it was sent.
    pub at: Time,
}

/// State of an order at a venue behind a bridge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AtVenue {
    /// The bridge that carries the order out; only this bridge may report on it.
    pub bridge: Principal,
    /// The instrument's multiplier when the order was accepted, so that fills can be booked even if
    /// the instrument is gone.
    pub multiplier: Amount,
    /// The version of the last instruction; 0 if there was none.
    pub version: u32,
    /// What the last instruction stated; `None` if there was none, or if it was a cancel.
    pub told: Option<Told>,
    /// Sizes that the venue may be working, each with the version that stated it: from the last
    /// version that the venue certainly works, without sizes that a later version reaches or
    /// exceeds. So the first is the largest.
    pub sizes: Vec<(u32, Amount)>,
    /// How the order shall end, once the gate wants to end it.
    pub ending: Option<OrderEnd>,
    /// Which check ends it, if it is pulled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<Box<Why>>,
    /// Whether the venue reported that the order is gone.
    pub gone: bool,
    /// Whether the venue keeps orders that reduce within the position (`reduce_only` of the
    /// instrument). Orders of earlier versions were handled as if it did.
    #[serde(default = "enforced", skip_serializing_if = "is_enforced")]
    pub reduce_only: bool,
    /// Whether an order that [rests](Order::rests) at the gate was let go, because the market is there.
    #[serde(default, skip_serializing_if = "is_kept")]
    pub released: bool,
    /// The version of the last `place`, if there was one after the first. Ends that the bridge reported
    /// of earlier versions are no news then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again: Option<u32>,
}

const fn enforced() -> bool {
    true
}

#[allow(clippy::trivially_copy_pass_by_ref)]
const fn is_enforced(flag: &bool) -> bool {
    *flag
}

#[allow(clippy::trivially_copy_pass_by_ref)]
const fn is_kept(flag: &bool) -> bool {
    !*flag
}

/// The part of an instruction that can change between versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Told {
    /// The whole size.
    pub size: Amount,
    /// Trigger of a stop.
    pub trigger: Option<Amount>,
}

impl AtVenue {
    /// Creates the state of an order that no instruction was given for yet. `reduce_only` says whether
    /// the venue keeps orders that reduce within the position.
    pub fn new(bridge: Principal, multiplier: Amount, reduce_only: bool) -> AtVenue {
        let (told, ending) = (None, None);
        AtVenue {
            bridge,
            multiplier,
            version: 0,
            told,
            sizes: Vec::new(),
            ending,
            why: None,
            gone: false,
            reduce_only,
            released: false,
            again: None,
        }
    }

    /// The state of another order at the same venue.
    fn anew(&self) -> AtVenue {
        AtVenue::new(self.bridge.clone(), self.multiplier, self.reduce_only)
    }

    /// Whether the venue was asked to take the order out of the market for a while.
    pub fn is_parking(&self) -> bool {
        self.is_out() && self.told.is_none() && self.ending.is_none()
    }

    /// Whether the venue may be working the order.
    pub fn is_out(&self) -> bool {
        self.version > 0 && !self.gone
    }

    /// Returns what the venue may still fill of an order that has filled this much.
    pub fn may_fill(&self, filled: Amount) -> Amount {
        let left = self.most().checked_sub(filled).filter(|_| self.is_out());
        left.map_or(Amount::ZERO, |left| left.max(Amount::ZERO))
    }

    /// Returns the largest size that the venue may be working.
    pub fn most(&self) -> Amount {
        self.sizes.first().map_or(Amount::ZERO, |(_, size)| *size)
    }

    /// Records an instruction.
    pub(super) fn instruct(&mut self, instruction: &Instruction) {
        self.version = instruction.version;
        let Instruction { size, trigger, .. } = *instruction;
        self.told = (instruction.instruction != Verb::Cancel).then_some(Told { size, trigger });
        if instruction.instruction == Verb::Place && instruction.version > 1 {
            (self.gone, self.again) = (false, Some(instruction.version));
        }
        if instruction.instruction != Verb::Cancel {
            while self
                .sizes
                .last()
                .is_some_and(|(_, earlier)| *earlier <= size)
            {
                self.sizes.pop();
            }
            self.sizes.push((instruction.version, size));
        }
    }

    /// Records how the order shall end. The first reason is kept.
    pub(super) fn end(&mut self, end: OrderEnd, why: Option<&Why>) {
        if self.ending.is_none() {
            self.ending = Some(end);
            self.why = why.cloned().map(Box::new);
        }
    }

    /// Records a report.
    pub(super) fn report(&mut self, working: Option<u32>, gone: bool) {
        if let Some(working) = working {
            self.sizes.retain(|(version, _)| *version >= working);
        }
        if gone {
            (self.gone, self.released) = (true, false);
            self.sizes.clear();
        }
    }
}

/// What an instruction asks a bridge to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// Place the order; later, where the venue does not keep what reduces within the position, let it
    /// work as stated, whether it is still at the venue or not.
    Place,
    /// Change the order at the venue to what is stated.
    Replace,
    /// Cancel the order at the venue.
    Cancel,
}

/// The complete target state of an order at a venue, so that a bridge that knows the highest
/// version needs no other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Instruction {
    /// The order.
    pub order_id: OrderId,
    /// The version: 1 for the first instruction of this order, then one higher each time.
    pub version: u32,
    /// What to do.
    pub instruction: Verb,
    /// The bridge that carries it out.
    pub bridge: Principal,
    /// Instrument.
    pub symbol: Symbol,
    /// Buy or sell.
    pub side: Side,
    /// Limit, market or stop.
    pub order_type: OrderType,
    /// The whole size, including what has been filled (FIX OrderQty).
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
    /// The strategy that owns the position.
    pub strategy: StrategyName,
    /// Instrument.
    pub symbol: Symbol,
    /// Signed size: above 0 long, below 0 short. Never 0: flat positions are removed.
    pub size: Amount,
    /// Signed cost of the open size without fees: the sum of price x size x multiplier of what
    /// opened it, reduced in proportion, rounded to 8 decimals. Stored instead of an average price,
    /// which would need a division without an exact result.
    pub cost: Amount,
    /// Profit and loss realised since the position was opened, minus all fees since then.
    pub result: Amount,
    /// When it last grew, on the gate's clock.
    pub increased_at: Time,
    /// The theses whose entries opened or added to the position; none of them may carry another
    /// entry while it is open.
    pub theses: BTreeSet<ThesisSlug>,
    /// The venue behind a bridge at which the position is held, if any. Orders that reduce the
    /// position go there, whatever the rules now state for the instrument.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_at: Option<HeldAt>,
    /// The orders of the gate that were to close it and that its venue dropped, since it was opened, a
    /// person cleared its symbol, or it was demanded anew that it be flat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<Dropped>,
    /// When an exit with a price of its own, for which stops had made room, last ended unfilled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unfilled_at: Option<Time>,
}

/// Orders of the gate that were to close a position and that its venue dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dropped {
    /// The last one.
    pub order_id: OrderId,
    /// How many there were.
    pub times: u32,
    /// When the last one ended.
    pub at: Time,
}

/// A venue behind a bridge, as far as orders at it need it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeldAt {
    /// The bridge that carries out orders there.
    pub bridge: Principal,
    /// The instrument's multiplier when the position was opened.
    pub multiplier: Amount,
    /// Whether the venue keeps orders that reduce within the position.
    #[serde(default = "enforced", skip_serializing_if = "is_enforced")]
    pub reduce_only: bool,
}

impl Position {
    /// Returns the venue state of a new order that reduces the position, before any instruction;
    /// `None` on paper.
    pub fn exit_at_venue(&self) -> Option<AtVenue> {
        let held_at = self.held_at.as_ref()?;
        let HeldAt {
            bridge,
            multiplier,
            reduce_only,
        } = held_at;
        Some(AtVenue::new(bridge.clone(), *multiplier, *reduce_only))
    }

    /// Whether the position is held at the venue to which orders of this instrument go.
    pub fn is_held_at_venue_of(&self, instrument: &Instrument) -> bool {
        self.held_at.as_ref().map(|held_at| &held_at.bridge) == instrument.bridge.as_ref()
    }

    /// Returns the side of an order that reduces the position.
    pub fn closing_side(&self) -> Side {
        if self.size.is_positive() {
            Side::Sell
        } else {
            Side::Buy
        }
    }
}

/// Whether a fill took or made liquidity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Liquidity {
    /// The order rested in the book first.
    Maker,
    /// The order traded against a resting order.
    Taker,
}

/// One execution (FIX ExecutionReport).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fill {
    /// The order that filled.
    pub order_id: OrderId,
    /// The strategy that owns the order.
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
    /// The instrument's multiplier at the time of the fill, so that the fold needs no rules.
    pub multiplier: Amount,
    /// Fee, account currency; below 0 if the venue paid it.
    pub fee: Amount,
    /// Maker or taker.
    pub liquidity: Liquidity,
    /// Profit or loss realised against the position's cost, before fees; 0 for a fill that opens.
    pub realised: Amount,
    /// When the fill happened, by the market's clock.
    pub market_time: Time,
    /// When the gate recorded the fill.
    pub recorded_at: Time,
}
