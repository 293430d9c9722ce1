//! The price that an order pays, and the size that fills.

use super::*;

impl Model {
    pub(super) fn price(&self, order: &Working, print: &Print, spec: &Spec) -> Option<(Rat, bool)> {
        // Everything is computed as a purchase; for sales, prices are mirrored at 0.
        let sign = |price: &Rat| mirrored(price, order.buys);
        let slip = |price: &Rat, by: &Rat| price.plus(&price.abs().times(by));
        let step = if spec.tick.is_zero() {
            Rat::of("0.00000001")
        } else {
            spec.tick.clone()
        };
        let taker = |price: Rat| Some((sign(&price.ceil_to(&step)), false));
        // The first, the highest and the lowest price of the row.
        let (first, dearest, cheapest) = match (print, order.buys) {
            (
                Print::Bar {
                    open, high, low, ..
                },
                true,
            ) => (sign(open), sign(high), sign(low)),
            (
                Print::Bar {
                    open, high, low, ..
                },
                false,
            ) => (sign(open), sign(low), sign(high)),
            (Print::Quote { ask, .. }, true) => (sign(ask), sign(ask), sign(ask)),
            (Print::Quote { bid, .. }, false) => (sign(bid), sign(bid), sign(bid)),
        };
        let is_bar = matches!(print, Print::Bar { .. });
        match order.kind {
            Kind::Stop if !order.hit => {
                let trigger = sign(order.trigger.as_ref().unwrap());
                // What the row itself opened was opened at its fill price, not at the open before.
                let fresh = self
                    .fresh
                    .iter()
                    .filter(|f| order.role == Role::Stop && f.entry == order.id.0);
                let first = fresh.fold(first, |first, fresh| {
                    first.max(mirrored(&fresh.price, order.buys))
                });
                if first >= trigger {
                    let near = if is_bar {
                        slip(&first, &spec.half_spread)
                    } else {
                        first
                    };
                    taker(slip(&near, &spec.slippage))
                } else if dearest >= trigger {
                    taker(slip(&trigger, &spec.slippage))
                } else {
                    None
                }
            }
            Kind::Market | Kind::Stop => {
                let near = if is_bar {
                    slip(&first, &spec.half_spread)
                } else {
                    first
                };
                taker(slip(&near, &spec.slippage))
            }
            Kind::Limit => {
                let limit = sign(order.price.as_ref().unwrap());
                let rested = self
                    .quote
                    .get(&order.owner.0)
                    .is_some_and(|(ms, _, _)| *ms > order.at_ms);
                if first <= limit && !is_bar && rested {
                    Some((sign(&limit), true))
                } else if first <= limit {
                    let near = if is_bar {
                        slip(&first, &spec.half_spread)
                    } else {
                        first
                    };
                    let near = if is_bar {
                        slip(&near, &spec.slippage)
                    } else {
                        near
                    };
                    Some((sign(&near.ceil_to(&step).min(limit)), false))
                } else if is_bar && cheapest < limit {
                    Some((sign(&limit), true))
                } else {
                    None
                }
            }
        }
    }

    pub(super) fn fillable(&self, order: &Working, spec: &Spec) -> Rat {
        let size = self.position(&order.owner);
        let closes = !size.is_zero() && size.is_negative() == order.buys;
        let mut want = match (closes, order.role) {
            (true, Role::Exit) => {
                // What the row itself opened was not there yet for an exit to reduce.
                let fresh = self.fresh.iter().filter(|fresh| fresh.owner == order.owner);
                let old = fresh.fold(size.abs(), |old, fresh| old.minus(&fresh.size));
                order.leaves().min(old)
            }
            (true, Role::Target) => {
                let fresh = |own: bool| {
                    self.fresh
                        .iter()
                        .filter(move |f| f.owner == order.owner && (!own || f.entry == order.id.0))
                };
                let old = fresh(false).fold(size.abs(), |old, fresh| old.minus(&fresh.size));
                fresh(true)
                    .fold(order.leaves(), |left, fresh| left.minus(&fresh.size))
                    .min(old)
            }
            (true, _) => order.leaves().min(size.abs()),
            (false, Role::Entry) => order.leaves(),
            (false, _) => Rat::zero(),
        };
        if let Some(budget) = &self.budget[usize::from(!order.buys)]
            && *budget < want
        {
            want = if spec.lot.is_zero() {
                budget.clone()
            } else {
                budget.floor_to(&spec.lot)
            };
        }
        want
    }

    /// Subtracts the size from what the venue still fills on this side.
    pub(super) fn use_budget(&mut self, buys: bool, size: &Rat) {
        let is_bar = self.is_bar;
        for (side, budget) in self.budget.iter_mut().enumerate() {
            let is_on_side = is_bar || side == usize::from(!buys);
            if let Some(budget) = budget.as_mut().filter(|_| is_on_side) {
                *budget = budget.minus(size);
            }
        }
    }
}
