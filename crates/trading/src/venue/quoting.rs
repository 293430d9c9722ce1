//! The price that a row gives an order. Every price is rounded to the tick against the order.

use crate::order::{Liquidity, Order};
use crate::pricing::slipped;
use spoolgate_rules::instruments::Instrument;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::orders::{OrderType, Side};

/// Fill prices of instruments without a tick are rounded to a multiple of this.
const STEP_WITHOUT_TICK: &str = "0.00000001";

/// A row in the form that orders use.
#[derive(Clone, Copy, Debug)]
pub(super) enum Tape {
    /// A bar.
    Bar {
        open: Amount,
        high: Amount,
        low: Amount,
    },
    /// A quote.
    Quote { bid: Amount, ask: Amount },
}

/// A price offered to an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Offer {
    pub(super) price: Amount,
    pub(super) liquidity: Liquidity,
}

/// The result of a row for an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The market has not reached the order.
    NotReached,
    /// The order fills at this offer.
    Fills(Offer),
    /// The price cannot be computed exactly, or is not above 0.
    NoPrice,
}

/// Returns the price for `order`. `rested` states whether an earlier quote had already passed the
/// order by.
pub(super) fn answer(order: &Order, tape: &Tape, rested: bool, instrument: &Instrument) -> Answer {
    match (order.order_type, order.triggered) {
        (OrderType::Market, _) | (OrderType::Stop, true) => {
            offer(at_market(order.side, tape, instrument), Liquidity::Taker)
        }
        (OrderType::Limit, _) => match order.price {
            Some(limit) => at_limit(order.side, limit, tape, rested, instrument),
            None => Answer::NoPrice,
        },
        (OrderType::Stop, false) => match order.trigger {
            Some(trigger) => at_stop(order.side, trigger, tape, instrument),
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
        (Tape::Bar { open, .. }, _) => slipped(*open, side, *instrument.half_spread)?,
        (Tape::Quote { ask, .. }, Side::Buy) => *ask,
        (Tape::Quote { bid, .. }, Side::Sell) => *bid,
    };
    worse(slipped(near, side, *instrument.slippage), side, instrument)
}

/// For bars: if the open is at the limit or better, the price of a market order at the open, but
/// never worse than the limit, as taker; otherwise the limit price as maker, if the bar went
/// through it. For quotes that reach the limit: the limit price as maker if the order rested,
/// otherwise the quote as taker.
fn at_limit(
    side: Side,
    limit: Amount,
    tape: &Tape,
    rested: bool,
    instrument: &Instrument,
) -> Answer {
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
        // Spread, slippage and rounding must not carry the price past its limit.
        return offer(
            cost.map(|price| if is_within(price) { price } else { limit }),
            Liquidity::Taker,
        );
    }
    if is_passed {
        offer(Some(limit), Liquidity::Maker)
    } else {
        Answer::NotReached
    }
}

/// The price of a market order if the row opens at the trigger or past it; otherwise the trigger
/// with slippage, if the bar touched it.
fn at_stop(side: Side, trigger: Amount, tape: &Tape, instrument: &Instrument) -> Answer {
    let (near, furthest) = match (tape, side) {
        (Tape::Bar { open, low, .. }, Side::Sell) => (*open, *low),
        (Tape::Bar { open, high, .. }, Side::Buy) => (*open, *high),
        (Tape::Quote { bid, .. }, Side::Sell) => (*bid, *bid),
        (Tape::Quote { ask, .. }, Side::Buy) => (*ask, *ask),
    };
    let is_past = |price: Amount| match side {
        Side::Sell => price <= trigger,
        Side::Buy => price >= trigger,
    };
    if is_past(near) {
        return offer(at_market(side, tape, instrument), Liquidity::Taker);
    }
    if is_past(furthest) {
        let price = slipped(trigger, side, *instrument.slippage);
        return offer(worse(price, side, instrument), Liquidity::Taker);
    }
    Answer::NotReached
}

/// Rounds to the tick against the order: up for buys, down for sells.
fn worse(price: Option<Amount>, side: Side, instrument: &Instrument) -> Option<Amount> {
    let tick = instrument.tick;
    let step = if tick.is_zero() {
        Amount::parse_exact(STEP_WITHOUT_TICK).ok()?
    } else {
        *tick
    };
    match side {
        Side::Buy => price?.round_up_to(step),
        Side::Sell => price?.round_down_to(step),
    }
}
