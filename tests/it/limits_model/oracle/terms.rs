//! The checks of an order's own terms: size, price, stop and target.

use super::*;

impl<'a> Judge<'a> {
    pub(super) fn price_tick(&self) -> Said {
        let entry = self.class() == Class::Entry;
        let Some(rule) = self.sums.rule(self.symbol()) else {
            return plain(!entry);
        };
        let trigger = self
            .order
            .stop_price
            .filter(|_| self.order.order_type == OrderType::Stop);
        let stop = Some(self.order.planned_stop).filter(|_| entry);
        let mut prices = [self.order.price, trigger, stop].into_iter().flatten();
        plain(prices.all(|price| is_on(&r(price), &r(*rule.tick))))
    }

    /// Closing all that is left is exempt from lot and minimum.
    pub(super) fn size_lot(&self) -> Said {
        let class = self.class();
        let capacity =
            self.sums
                .memory
                .paper
                .capacity(&owner_of(self.order), self.buys(), self.terms().kind);
        let Some(rule) = self.sums.rule(self.symbol()) else {
            return plain(class != Class::Entry);
        };
        let all_of_it = class == Class::Exit && self.size == capacity;
        plain(all_of_it || (is_on(&self.size, &r(*rule.lot)) && self.size >= r(*rule.min_size)))
    }

    pub(super) fn min_notional(&self) -> Option<Said> {
        Some(plain(
            self.notional()? >= r(*self.sums.rule(self.symbol())?.min_notional),
        ))
    }

    pub(super) fn max_order_value(&self) -> Option<Said> {
        Some(plain(
            self.notional()?
                <= r(*self.sums.rules.safety.max_order_value).times(&self.around.factor),
        ))
    }

    pub(super) fn max_order_size(&self) -> Option<Said> {
        Some(plain(
            self.size <= r(*self.sums.rule(self.symbol())?.max_size).times(&self.around.factor),
        ))
    }

    /// Returns how far the stop is on the losing side of the price; below 0 it is on the other
    /// side.
    pub(super) fn loses(&self, price: &Rat) -> Rat {
        if self.buys() {
            price.minus(&self.stop())
        } else {
            self.stop().minus(price)
        }
    }

    pub(super) fn stop_required(&self) -> Option<Said> {
        let is_told = match self.order.order_type {
            OrderType::Stop => true,
            _ => self.order.stop_price == Some(self.order.planned_stop),
        };
        if !is_told || !self.stop().is_positive() {
            return Some(plain(false));
        }
        // The bid triggers the stop of a long position, the ask that of a short one.
        let seen = self.seen()?;
        let market = if self.buys() { seen.bid } else { seen.ask };
        let least = smaller(&self.loses(&market), &self.loses(&self.worst()?));
        Some(above(&least, &Rat::zero(), &self.step()))
    }

    pub(super) fn stop_hostable(&self) -> Option<Said> {
        let rule = self.sums.rule(self.symbol())?;
        let distance = self.worst()?.minus(&self.stop()).abs();
        let least = self.least_distance(&r(*rule.tick), rule.min_stop_ticks);
        let is_valid = is_on(&self.stop(), &r(*rule.tick))
            && self.size >= r(*rule.min_size)
            && self.notional_at(&self.stop())? >= r(*rule.min_notional);
        Some(both_of(
            plain(is_valid),
            at_most(&least, &distance, &self.step()),
        ))
    }

    pub(super) fn least_distance(&self, tick: &Rat, ticks: u32) -> Rat {
        tick.times(&whole(i64::from(ticks)))
    }

    pub(super) fn stop_distance(&self) -> Option<Said> {
        let (bounds, worst) = (&self.strategy()?.stop_distance, self.worst()?);
        let distance = worst.minus(&self.stop()).abs();
        let least = at_most(&worst.times(&r(*bounds.min)), &distance, &self.step());
        let most = at_most(&distance, &worst.times(&r(*bounds.max)), &self.step());
        Some(both_of(plain(!distance.is_zero()), both_of(least, most)))
    }

    pub(super) fn target_valid(&self, target: &Rat) -> Option<Said> {
        let (rule, seen, worst) = (self.sums.rule(self.symbol())?, self.seen()?, self.worst()?);
        let won = if self.buys() {
            above(target, &larger(&worst, &seen.ask), &self.step())
        } else {
            above(&smaller(&worst, &seen.bid), target, &self.step())
        };
        Some(both_of(plain(is_on(target, &r(*rule.tick))), won))
    }

    /// A price is aggressive if it pays more than the market; a market order has no price.
    pub(super) fn price_collar(&self) -> Option<Said> {
        let (safety, seen, terms) = (&self.sums.rules.safety, self.seen()?, self.terms());
        let Some(own) = terms.own else {
            return Some(plain(true));
        };
        let reference = if terms.buys { seen.ask } else { seen.bid };
        let is_aggressive = if terms.buys {
            own > reference
        } else {
            own < reference
        };
        let collar = if is_aggressive {
            safety.price_collar
        } else {
            safety.price_collar_passive
        };
        Some(at_most(
            &own.minus(&reference).abs(),
            &reference.times(&r(*collar)),
            &self.step(),
        ))
    }

    pub(super) fn slippage_to_plan(&self) -> Option<Said> {
        let planned = r(self.order.planned_entry);
        let most = planned.times(&r(*self.sums.rules.safety.slippage_to_plan));
        Some(at_most(
            &self.worst()?.minus(&planned).abs(),
            &most,
            &self.step(),
        ))
    }
}
