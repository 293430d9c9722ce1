//! The twenty rules as a function, written by hand over the files: what deciding costs without a
//! language. Numbers are whole ten-thousandths, which is all that these orders need.

use super::Engine;
use crate::Result;
use crate::order::Order;

/// Nothing to keep.
pub struct Floor;

const ONE: i64 = 10_000;

/// Which rules refuse the order.
pub fn acting(order: &Order) -> u32 {
    let (size, notional) = (order.size.ten_thousandths, order.notional.ten_thousandths);
    let price = order.price.map(|price| price.ten_thousandths);
    let zscore = order.funding_rate_zscore.ten_thousandths;
    let (is_buy, is_sell) = (order.side == "buy", order.side == "sell");
    let minute = order.of_day;
    let near = |hour: i64| (hour * 60 - 5..hour * 60 + 5).contains(&minute);
    let rules = [
        size > 500 * ONE,
        notional > 50_000 * ONE,
        notional < 25 * ONE,
        !matches!(
            order.symbol,
            "BTC-USD"
                | "ETH-USD"
                | "SOL-USD"
                | "XRP-USD"
                | "LTC-USD"
                | "DOGE-USD"
                | "ADA-USD"
                | "LINK-USD"
        ),
        is_sell && matches!(order.symbol, "DOGE-USD" | "ADA-USD" | "LINK-USD"),
        order.spread_pct.ten_thousandths >= 25,
        order.volatility.ten_thousandths > 400 && notional > 10_000 * ONE,
        zscore > 35_000 && is_buy,
        zscore < -35_000 && order.funding_rate.ten_thousandths < 0 && is_sell,
        matches!(order.regime, "crash" | "halted"),
        matches!(order.strategy, "momentum" | "breakout") && order.regime == "bear" && is_buy,
        matches!(order.weekday, "sat" | "sun") && notional > 5_000 * ONE,
        !(6 * 60..22 * 60).contains(&minute)
            && notional > 20_000 * ONE
            && order.open_positions != 0,
        (near(8) || near(16) || near(24) || near(0)) && order.order_type == "market",
        order.equity.ten_thousandths < 10_000 * ONE,
        order.open_positions >= 8,
        order.target_price.is_none() && order.strategy != "hedge",
        order.source == "scout" && order.order_type != "limit",
        order.volume_ratio.ten_thousandths <= 3_000 && order.order_type != "limit",
        price.is_some_and(|price| price < 500),
    ];
    rules
        .iter()
        .enumerate()
        .fold(0, |mask, (bit, acts)| mask | (u32::from(*acts) << bit))
}

impl Engine for Floor {
    type Request<'a> = &'a Order;

    fn request<'a>(&self, order: &'a Order) -> Result<&'a Order> {
        Ok(order)
    }

    fn is_refused(&mut self, order: &&Order) -> Result<bool> {
        Ok(acting(order) != 0)
    }

    fn acting(&mut self, order: &&Order) -> Result<u32> {
        Ok(acting(order))
    }
}
