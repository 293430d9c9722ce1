//! The prices with which checks value an order. `planned_entry` is the agent's claim and is not one
//! of them.

use super::order::Order;
use super::valuation::TwoSided;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::orders::{OrderType, Side, SubmitOrder};

/// The terms of an order that determine its price.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Buy or sell.
    pub side: Side,
    /// Limit, market or stop.
    pub order_type: OrderType,
    /// Limit price or trigger; `None` for market orders.
    pub own_price: Option<Amount>,
}

impl Terms {
    /// Returns the terms of an open order. A stop order that has triggered counts as a market
    /// order.
    pub fn of_open(order: &Order) -> Terms {
        let order_type = if order.triggered {
            OrderType::Market
        } else {
            order.order_type
        };
        Terms {
            side: order.side,
            order_type,
            own_price: order.price.or(order.trigger),
        }
    }

    /// Returns the terms of a requested order, with limit price or trigger as its own price. In
    /// limit and market orders, `stop_price` is the protective stop and not a price of the order
    /// itself.
    pub fn asked(order: &SubmitOrder) -> Terms {
        let own_price = match order.order_type {
            OrderType::Limit => order.price,
            OrderType::Market => None,
            OrderType::Stop => order.stop_price,
        };
        Terms {
            side: order.side,
            order_type: order.order_type,
            own_price,
        }
    }
}

/// Returns the price used for the notional: buys max(ask, limit or trigger), sells max(bid, limit
/// or trigger). Both take the larger price, because a sale at a higher price is a larger short.
pub fn notional_price(terms: &Terms, market: &TwoSided) -> Amount {
    let near = match terms.side {
        Side::Buy => market.ask,
        Side::Sell => market.bid,
    };
    terms.own_price.map_or(near, |own| own.max(near))
}

/// Computes the worst price the entry may get; `slip` is the assumed slippage as a fraction.
///
/// Buys: market ask x (1 + slip); limit min(limit, ask x (1 + slip)) if marketable, otherwise the
/// limit; stop max(trigger, ask) x (1 + slip). Sells are mirrored. `None` if the price is not
/// exact.
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
            Some(match terms.side {
                Side::Buy if limit >= near => limit.min(slipped(near)?),
                Side::Sell if limit <= near => limit.max(slipped(near)?),
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

/// Returns the price used for the cash that an entry needs: the worst entry for buys; the notional
/// price for sells, because a short must be bought back.
pub fn cost_price(terms: &Terms, market: &TwoSided, worst_entry: Option<Amount>) -> Option<Amount> {
    match terms.side {
        Side::Buy => worst_entry,
        Side::Sell => Some(notional_price(terms, market)),
    }
}

/// Moves `price` against the order by the fraction `slip`: up for buys, down for sells.
pub fn slipped(price: Amount, side: Side, slip: Amount) -> Option<Amount> {
    let move_by = price.checked_mul(slip)?;
    match side {
        Side::Buy => price.checked_add(move_by),
        Side::Sell => price.checked_sub(move_by),
    }
}
