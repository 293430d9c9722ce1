//! The prices that checks measure an order by. `planned_entry` is the agent's claim and is not among them.

use super::order::Order;
use super::valuation::TwoSided;
use crate::wire::amount::Amount;
use crate::wire::orders::{OrderType, Side, SubmitOrder};

/// An order as far as its price goes.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Buy or sell.
    pub side: Side,
    /// Limit, market or stop.
    pub order_type: OrderType,
    /// Limit price or trigger; none for market orders.
    pub own_price: Option<Amount>,
}

impl Terms {
    /// An open order's: a stop order that has triggered is a market order by now.
    pub fn of_open(order: &Order) -> Terms {
        let order_type = if order.triggered { OrderType::Market } else { order.order_type };
        Terms { side: order.side, order_type, own_price: order.price.or(order.trigger) }
    }

    /// A requested order's: limit price or trigger. For limit and market orders `stop_price` is the protective stop, no
    /// own price.
    pub fn asked(order: &SubmitOrder) -> Terms {
        let own_price = match order.order_type {
            OrderType::Limit => order.price,
            OrderType::Market => None,
            OrderType::Stop => order.stop_price,
        };
        Terms { side: order.side, order_type: order.order_type, own_price }
    }
}

/// The price that notionals count at: buys max(ask, limit or trigger), sells max(bid, limit or trigger).
/// Both take the larger, because a sale at a higher price is a larger short.
pub fn notional_price(terms: &Terms, market: &TwoSided) -> Amount {
    let near = match terms.side {
        Side::Buy => market.ask,
        Side::Sell => market.bid,
    };
    terms.own_price.map_or(near, |own| own.max(near))
}

/// The worst price the entry may get, with `slip` the assumed slippage as a fraction.
///
/// Buys: market ask x (1 + slip); limit min(limit, ask x (1 + slip)) if marketable, else the limit; stop
/// max(trigger, ask) x (1 + slip). Sells mirrored. None if not exact.
pub fn worst_entry(terms: &Terms, market: &TwoSided, slip: Amount) -> Option<Amount> {
    let slipped = |price: Amount| slipped(price, terms.side, slip);
    let near = match terms.side {
        Side::Buy => market.ask,
        Side::Sell => market.bid,
    };
    match (terms.order_type, terms.own_price) {
        (OrderType::Market, _) => slipped(near),
        (OrderType::Limit, own) => {
            let limit = own?;
            let worst = slipped(near)?;
            Some(match terms.side {
                Side::Buy if limit >= near => limit.min(worst),
                Side::Sell if limit <= near => limit.max(worst),
                _ => limit,
            })
        }
        (OrderType::Stop, own) => {
            let trigger = own?;
            slipped(match terms.side {
                Side::Buy => trigger.max(near),
                Side::Sell => trigger.min(near),
            })
        }
    }
}

/// The price that an entry takes cash at: buys their worst entry, sells their notional price, because what they
/// open is bought back.
pub fn cost_price(terms: &Terms, market: &TwoSided, worst_entry: Option<Amount>) -> Option<Amount> {
    match terms.side {
        Side::Buy => worst_entry,
        Side::Sell => Some(notional_price(terms, market)),
    }
}

/// `price` moved against the order by the fraction `slip`: up for buys, down for sells.
pub fn slipped(price: Amount, side: Side, slip: Amount) -> Option<Amount> {
    let move_by = price.checked_mul(slip)?;
    match side {
        Side::Buy => price.checked_add(move_by),
        Side::Sell => price.checked_sub(move_by),
    }
}
