//! Fills of the book, checked against the market data.

use super::*;

impl World {
    /// Checks what must hold for every single fill; the book is as it was just before.
    pub(super) fn look_at(&mut self, fill: &Fill, row: &Row, taken: &mut [Rat; 2]) {
        let context = format!("seed {}: {fill:?} of {row:?}", self.seed);
        let order = self.book.orders[&fill.order_id].clone();
        let rule = self.rules.instruments[&fill.symbol].clone();
        let key = (fill.symbol.clone(), fill.strategy.clone());
        let before = self
            .book
            .positions
            .get(&key)
            .map_or(Amount::ZERO, |held| held.size);
        let delta = if fill.side == Side::Buy {
            fill.size
        } else {
            -fill.size
        };
        let after = before.checked_add(delta).unwrap();
        assert!(
            before.is_zero() || after.is_zero() || before.is_negative() == after.is_negative(),
            "{context}"
        );
        if fill.role != OrderRole::Entry {
            assert!(after.abs() < before.abs(), "{context}");
        }
        let (start_ms, low, high) = match row {
            Row::Bar {
                open_ms, low, high, ..
            } => (*open_ms, r(*low), r(*high)),
            Row::Quote {
                time_ms, bid, ask, ..
            } => (*time_ms, r(*bid), r(*ask)),
        };
        assert!(order.accepted_at.ms() <= start_ms, "{context}");
        let price = r(fill.price);
        let step = if rule.tick.is_zero() {
            Rat::of("0.00000001")
        } else {
            r(*rule.tick)
        };
        let spread = if matches!(row, Row::Bar { .. }) {
            r(*rule.half_spread)
        } else {
            Rat::zero()
        };
        let (one, slip) = (Rat::one(), r(*rule.slippage));
        let dearest = high
            .times(&one.plus(&spread))
            .times(&one.plus(&slip))
            .plus(&step);
        let cheapest = low
            .times(&one.minus(&spread))
            .times(&one.minus(&slip))
            .minus(&step);
        // A limit that rested while quotes moved past it fills at its own price.
        let has_rested = fill.liquidity == Liquidity::Maker && matches!(row, Row::Quote { .. });
        assert!(
            has_rested || (cheapest <= price && price <= dearest),
            "{context}"
        );
        if let Some(limit) = order.price {
            let is_kept = if fill.side == Side::Buy {
                fill.price <= limit
            } else {
                fill.price >= limit
            };
            assert!(is_kept, "{context}");
        }
        if fill.liquidity == Liquidity::Maker {
            assert_eq!(order.order_type, OrderType::Limit, "{context}");
        }
        if let (OrderType::Stop, Some(trigger)) = (order.order_type, order.trigger) {
            self.count(format!("fill at a trigger {}", fill.side.as_str()));
            if let Row::Bar { open, .. } = row {
                let is_worse = |than: Amount| {
                    if fill.side == Side::Buy {
                        fill.price >= than
                    } else {
                        fill.price <= than
                    }
                };
                assert!(is_worse(trigger) || is_worse(*open), "{context}");
            }
        }
        let (side, cap) = match row {
            Row::Bar { volume, .. } => (
                0,
                volume.map(|volume| r(volume).times(&r(*rule.volume_share))),
            ),
            Row::Quote { ask_size, .. } if fill.side == Side::Buy => (0, ask_size.map(r)),
            Row::Quote { bid_size, .. } => (1, bid_size.map(r)),
        };
        if let Some(cap) = cap {
            taken[side] = taken[side].plus(&r(fill.size));
            assert!(taken[side] <= cap, "{context}");
        }
        self.count(format!("fill {:?} {:?}", fill.role, fill.liquidity));
    }
}
