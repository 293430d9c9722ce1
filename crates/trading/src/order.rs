//! A working order, a position and a fill: the nouns of the book.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::imitated::Imitated;
use super::units::Units;
use spoolgate_rules::instruments::{Instrument, is_imitated};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{Currency, OrderId, Principal, StrategyName, Symbol, ThesisSlug};
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
    /// A difference between the book and a venue that a person booked. It is over in the line that
    /// places it.
    Adjust,
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

    /// Returns the size that a protective stop covers, units, and its trigger: on paper all that is
    /// unfilled; at a venue the confirmed size, for `grace_ms` after a change all, and nothing once the
    /// market has been beyond the trigger for that time without a trade.
    pub fn cover(&self, now: Time, grace_ms: i64) -> (Amount, Option<Amount>) {
        let whole = (self.leaves(), self.trigger);
        let Some(venue) = &self.at_venue else {
            return whole;
        };
        // A time later than now dates from before the clock was set back.
        let is_fresh = |at: Option<Time>| at.is_some_and(|at| now.since_ms(at) < grace_ms);
        if venue.passed_at.is_some() && !is_fresh(venue.passed_at) {
            return (Amount::ZERO, self.trigger);
        }
        let confirmed_at = venue.works.map(|works| works.at);
        // Without `told_at` it is a line of an earlier version, which has no confirmed size.
        if venue.told_at.is_none() || is_fresh(venue.unconfirmed_since) || is_fresh(confirmed_at) {
            return whole;
        }
        self.worked(venue)
    }

    /// Returns the size that the venue has confirmed to work, units; on paper all that is unfilled.
    /// Unlike [`Order::cover`], this allows no time for the confirmation.
    pub fn confirmed(&self) -> Amount {
        match &self.at_venue {
            Some(venue) if venue.passed_at.is_some() => Amount::ZERO,
            Some(venue) if venue.told_at.is_some() => self.worked(venue).0,
            Some(_) | None => self.leaves(),
        }
    }

    /// Returns the size and the trigger that the venue works.
    fn worked(&self, venue: &AtVenue) -> (Amount, Option<Amount>) {
        let Some(works) = venue.works.filter(|_| venue.told.is_some()) else {
            return (Amount::ZERO, self.trigger);
        };
        let left = works.size.checked_sub(self.filled).unwrap_or(Amount::ZERO);
        (left.max(Amount::ZERO).min(self.leaves()), works.trigger)
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
    /// What the venue may be working, oldest first: from the last version that it certainly works, at
    /// most [`STATED_MAX`].
    pub sizes: Vec<Stated>,
    /// The highest version whose entry in `sizes` stands for earlier ones too.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub merged: u32,
    /// When the last instruction was given, on the gate's clock; absent in old lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told_at: Option<Time>,
    /// Whether the last instruction reached nobody or came too late, so that it must be given again.
    #[serde(default, skip_serializing_if = "is_kept")]
    pub lost: bool,
    /// What the venue has confirmed to work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub works: Option<Works>,
    /// Since when the venue has not confirmed what the order shall be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unconfirmed_since: Option<Time>,
    /// Of a stop: when the market passed its trigger and it did not trade.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed_at: Option<Time>,
    /// When a person was last told that its bridge does not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alarmed_at: Option<Time>,
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
    /// The version of the last `place`, if there was one after the first. The end of an earlier version
    /// is not the end of the order then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again: Option<u32>,
    /// In what the venue trades the instrument; absent for orders of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub units: Option<Box<Units>>,
    /// What the imitated exchange knows besides; only of orders that were sent there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub imitated: Option<Box<Imitated>>,
}

/// A version of an order that a venue may be working: the version, its whole size, and the trigger of
/// a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Stated(
    /// The version.
    pub u32,
    /// The whole size.
    pub Amount,
    /// The trigger; absent in old lines.
    #[serde(default)]
    pub Option<Amount>,
);

/// Maximum number of versions of one order that are kept apart; of more, the oldest two count as one
/// with the larger size.
pub const STATED_MAX: usize = 16;

/// How long an instruction that was not carried out rests before it is given again, milliseconds: a
/// bridge whose clock is ahead refuses each of them.
const AGAIN_AFTER_MS: i64 = 5_000;

/// A version of an order that its venue has confirmed to work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Works {
    /// The version.
    pub version: u32,
    /// The whole size.
    pub size: Amount,
    /// The trigger of a stop.
    pub trigger: Option<Amount>,
    /// When it was confirmed, on the gate's clock.
    pub at: Time,
}

#[allow(clippy::trivially_copy_pass_by_ref)]
const fn is_zero(version: &u32) -> bool {
    *version == 0
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
            merged: 0,
            told_at: None,
            lost: false,
            works: None,
            unconfirmed_since: None,
            passed_at: None,
            alarmed_at: None,
            ending,
            why: None,
            gone: false,
            reduce_only,
            released: false,
            again: None,
            units: None,
            imitated: None,
        }
    }

    /// Trades in these units.
    pub fn in_units(self, units: Option<Box<Units>>) -> AtVenue {
        AtVenue { units, ..self }
    }

    /// The state of another order at the same venue.
    fn anew(&self) -> AtVenue {
        AtVenue::new(self.bridge.clone(), self.multiplier, self.reduce_only)
            .in_units(self.units.clone())
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
        let sizes = self.sizes.iter().map(|Stated(_, size, _)| *size);
        sizes.max().unwrap_or(Amount::ZERO)
    }

    /// Whether the last instruction was not carried out, and it is too early to give it again.
    pub fn is_resting_after_loss(&self, now: Time) -> bool {
        // A time later than now dates from before the clock was set back.
        let is_early = |told_at: Time| (0..AGAIN_AFTER_MS).contains(&now.since_ms(told_at));
        self.lost && self.ending.is_none() && self.told_at.is_some_and(is_early)
    }

    /// Whether `version` may be taken for one that reached nobody.
    pub fn can_take_back(&self, version: u32) -> bool {
        let is_kept = |Stated(kept, ..): &Stated| *kept == version;
        self.is_out() && version > self.merged && self.sizes.iter().any(is_kept)
    }

    /// Since when the bridge has not answered the newest instruction.
    pub fn unanswered_since(&self) -> Option<Time> {
        let is_answered = self
            .works
            .is_some_and(|works| works.version == self.version);
        self.told_at.filter(|_| self.is_out() && !is_answered)
    }

    /// Records an instruction.
    pub(super) fn instruct(&mut self, instruction: &Instruction) {
        self.version = instruction.version;
        if is_imitated(&self.bridge) {
            self.imitated.get_or_insert_default().instruct(instruction);
        }
        let Instruction { size, trigger, .. } = *instruction;
        self.told = (instruction.instruction != Verb::Cancel).then_some(Told { size, trigger });
        if instruction.instruction == Verb::Place && instruction.version > 1 {
            (self.gone, self.again) = (false, Some(instruction.version));
        }
        (self.told_at, self.lost, self.alarmed_at) = (instruction.at.or(self.told_at), false, None);
        self.unconfirmed_since = self.unconfirmed_since.or(instruction.at);
        // Lines of earlier versions kept no sizes that a later one reaches.
        if instruction.instruction != Verb::Cancel && instruction.at.is_none() {
            while let Some(Stated(_, earlier, _)) = self.sizes.last()
                && *earlier <= size
            {
                self.sizes.pop();
            }
        }
        if instruction.instruction != Verb::Cancel {
            let trigger = trigger.filter(|_| instruction.at.is_some());
            self.sizes.push(Stated(instruction.version, size, trigger));
        }
        if self.sizes.len() > STATED_MAX {
            let Stated(_, oldest, _) = self.sizes.remove(0);
            if let Some(Stated(version, size, _)) = self.sizes.first_mut() {
                (*size, self.merged) = (oldest.max(*size), *version);
            }
        }
    }

    /// Records that a version reached nobody, or came too late.
    pub(super) fn take_back(&mut self, version: u32) {
        if !self.can_take_back(version) {
            return;
        }
        if let Some(imitated) = &mut self.imitated {
            imitated.take_back(version);
        }
        self.sizes.retain(|Stated(kept, ..)| *kept != version);
        self.lost |= version == self.version;
        if self.sizes.is_empty() {
            self.is_gone();
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
    pub(super) fn report(&mut self, working: Option<u32>, gone: bool, at: Option<Time>) {
        if let Some(working) = working {
            self.sizes.retain(|Stated(version, ..)| *version >= working);
            if working == self.version {
                (self.unconfirmed_since, self.passed_at) = (None, None);
            }
            let at = at.filter(|_| self.told_at.is_some());
            if let (Some(&Stated(version, size, trigger)), Some(at)) = (self.sizes.first(), at) {
                self.works = (version == working).then_some(Works {
                    version,
                    size,
                    trigger,
                    at,
                });
            }
        }
        if let Some(imitated) = &mut self.imitated {
            imitated.answer(working, gone);
        }
        if gone {
            self.is_gone();
        }
    }

    /// Records that the venue works no version up to this one.
    pub(super) fn end_up_to(&mut self, ended: Option<u32>) {
        let Some(ended) = ended.filter(|ended| self.knows_up_to(*ended)) else {
            return;
        };
        self.works = self.works.filter(|works| works.version > ended);
        self.sizes.retain(|Stated(version, ..)| *version > ended);
        if let Some(imitated) = &mut self.imitated {
            imitated.end_up_to(ended);
        }
        if self.sizes.is_empty() {
            self.is_gone();
        }
    }

    /// Whether the venue may be working this version or an earlier one.
    pub fn knows_up_to(&self, version: u32) -> bool {
        let mut sizes = self.sizes.iter();
        self.is_out() && sizes.any(|Stated(kept, ..)| *kept <= version)
    }

    fn is_gone(&mut self) {
        (self.gone, self.released, self.works) = (true, false, None);
        self.sizes.clear();
    }
}

/// What an instruction asks a bridge to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
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
    /// When it was given, on the gate's clock; absent in old lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
    /// After this time the bridge must not send it; `None` for a cancel, and in old lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_until: Option<Time>,
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
    /// In what the venue trades the instrument; absent for positions of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub units: Option<Box<Units>>,
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
            units,
        } = held_at;
        let at_venue = AtVenue::new(bridge.clone(), *multiplier, *reduce_only);
        Some(at_venue.in_units(units.clone()))
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
    /// In what the fee was paid; absent if it was paid in account currency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fee_paid: Option<Box<FeePaid>>,
    /// Maker or taker.
    pub liquidity: Liquidity,
    /// Profit or loss realised against the position's cost, before fees; 0 for a fill that opens.
    pub realised: Amount,
    /// When the fill happened, by the market's clock.
    pub market_time: Time,
    /// When the gate recorded the fill.
    pub recorded_at: Time,
}

/// A fee that was paid in another currency than the account's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FeePaid {
    /// The currency.
    pub currency: Currency,
    /// The fee in it; below 0 if the venue paid it.
    pub amount: Amount,
    /// Whether it was taken from what was bought, so that the position grew by that much less.
    #[serde(default, skip_serializing_if = "is_kept")]
    pub from_size: bool,
}

impl Fill {
    /// Returns by how much the position moves, units without a sign: the size, less a fee that was taken
    /// from it. `None` if it is not exact.
    pub fn moved(&self) -> Option<Amount> {
        let taken = self.fee_paid.as_ref().filter(|paid| paid.from_size);
        taken.map_or(Some(self.size), |paid| self.size.checked_sub(paid.amount))
    }

    /// Returns by how much the signed position changes. `None` if it is not exact.
    pub fn moves(&self) -> Option<Amount> {
        let moved = self.moved()?;
        Some(match self.side {
            Side::Buy => moved,
            Side::Sell => -moved,
        })
    }
}
