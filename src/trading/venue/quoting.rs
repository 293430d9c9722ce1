//! What price a row gives an order. Every price is rounded to the tick against the order.

use crate::rules::instruments::Instrument;
use crate::trading::order::{Liquidity, Order};
use crate::trading::pricing::slipped;
use crate::wire::amount::Amount;
use crate::wire::orders::{OrderType, Side};

/// Fill prices of instruments without a tick are rounded to this.
const STEP_WITHOUT_TICK: &str = "0.00000001";

/// A row as orders see it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Tape {
    /// A bar.
    Bar { open: Amount, high: Amount, low: Amount },
    /// A quote.
    Quote { bid: Amount, ask: Amount },
}

/// A price offered to an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Offer {
    pub(super) price: Amount,
    pub(super) liquidity: Liquidity,
}

/// What a row says to an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The market has not reached it.
    NotReached,
    /// It fills here.
    Fills(Offer),
    /// The price cannot be computed exactly, or is not above 0.
    NoPrice,
}

/// The price for `order`. `rested` says whether an earlier row already passed it by.
pub(super) fn answer(order: &Order, tape: &Tape, rested: bool, instrument: &Instrument) -> Answer {
    let taker = |price: Option<Amount>| offer(price, Liquidity::Taker);
    match (order.order_type, order.triggered) {
        (OrderType::Market, _) | (OrderType::Stop, true) => taker(at_market(order.side, tape, instrument)),
        (OrderType::Limit, _) => match order.price {
            Some(limit) => at_limit(order.side, limit, tape, rested, instrument),
            None => Answer::NoPrice,
        },
        (OrderType::Stop, false) => match order.trigger.map(|trigger| stop_base(order.side, trigger, tape)) {
            Some(Some(base)) => {
                taker(worse(slipped(base, order.side, instrument.slippage), order.side, instrument))
            }
            Some(None) => Answer::NotReached,
            None => Answer::NoPrice,
        },
    }
}

fn offer(price: Option<Amount>, liquidity: Liquidity) -> Answer {
    match price.filter(|price| price.is_positive()) {
        Some(price) => Answer::Fills(Offer { price, liquidity }),
        None => Answer::NoPrice,
    }
}

/// Bars: open x (1 +- half_spread) x (1 +- slippage). Quotes: ask or bid x (1 +- slippage).
fn at_market(side: Side, tape: &Tape, instrument: &Instrument) -> Option<Amount> {
    let near = match (tape, side) {
        (Tape::Bar { open, .. }, _) => slipped(*open, side, instrument.half_spread)?,
        (Tape::Quote { ask, .. }, Side::Buy) => *ask,
        (Tape::Quote { bid, .. }, Side::Sell) => *bid,
    };
    worse(slipped(near, side, instrument.slippage), side, instrument)
}

/// Bars: if the open is at the limit or better, what a market order would get there, but never worse than the
/// limit, as taker; else at the limit if the bar went through it, as maker. Quotes: at the limit as maker if
/// it rested, else at the quote as taker.
fn at_limit(side: Side, limit: Amount, tape: &Tape, rested: bool, instrument: &Instrument) -> Answer {
    let is_within = |price: Amount| match side {
        Side::Buy => price <= limit,
        Side::Sell => price >= limit,
    };
    let (near, is_passed) = match (tape, side) {
        (Tape::Bar { open, low, .. }, Side::Buy) => (*open, *low < limit),
        (Tape::Bar { open, high, .. }, Side::Sell) => (*open, *high > limit),
        (Tape::Quote { ask, .. }, Side::Buy) => (*ask, false),
        (Tape::Quote { bid, .. }, Side::Sell) => (*bid, false),
    };
    if is_within(near) {
        if rested && matches!(tape, Tape::Quote { .. }) {
            return offer(Some(limit), Liquidity::Maker);
        }
        let cost = match tape {
            Tape::Bar { .. } => at_market(side, tape, instrument),
            Tape::Quote { .. } => worse(Some(near), side, instrument),
        };
        // Neither spread, slippage nor rounding may carry the price past its limit.
        return offer(cost.map(|price| if is_within(price) { price } else { limit }), Liquidity::Taker);
    }
    if is_passed { offer(Some(limit), Liquidity::Maker) } else { Answer::NotReached }
}

/// Where a stop starts to fill: at the open or quote if the market has gone past its trigger, else at the
/// trigger if the bar touched it.
fn stop_base(side: Side, trigger: Amount, tape: &Tape) -> Option<Amount> {
    match (tape, side) {
        (Tape::Bar { open, .. }, Side::Sell) if *open <= trigger => Some(*open),
        (Tape::Bar { low, .. }, Side::Sell) => (*low <= trigger).then_some(trigger),
        (Tape::Bar { open, .. }, Side::Buy) if *open >= trigger => Some(*open),
        (Tape::Bar { high, .. }, Side::Buy) => (*high >= trigger).then_some(trigger),
        (Tape::Quote { bid, .. }, Side::Sell) => (*bid <= trigger).then_some(*bid),
        (Tape::Quote { ask, .. }, Side::Buy) => (*ask >= trigger).then_some(*ask),
    }
}

/// Rounded to the tick against the order: up for buys, down for sells.
fn worse(price: Option<Amount>, side: Side, instrument: &Instrument) -> Option<Amount> {
    let tick = instrument.tick;
    let step = if tick.is_zero() { Amount::parse_exact(STEP_WITHOUT_TICK).ok()? } else { tick };
    match side {
        Side::Buy => price?.round_up_to(step),
        Side::Sell => price?.round_down_to(step),
    }
}
