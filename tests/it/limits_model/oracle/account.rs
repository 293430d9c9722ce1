//! The checks of what the account can lose and hold.

use super::*;

impl<'a> Judge<'a> {
    /// Returns the risk of this order alone at its worst entry.
    pub(super) fn own_risk(&self) -> Option<Rat> {
        self.sums
            .risk_of_entry(self.symbol(), &self.worst()?, &self.stop(), &self.size)
    }

    pub(super) fn all_risk(&self) -> Option<Rat> {
        Some(self.sums.open_risk()?.plus(&self.own_risk()?))
    }

    pub(super) fn trade_risk(&self) -> Option<Rat> {
        let (owner, memory) = (owner_of(self.order), self.sums.memory);
        let mut risk = self.own_risk()?;
        if memory.paper.held.contains_key(&owner) {
            let mark = self.sums.mark(&owner.0, self.buys())?;
            risk = risk.plus(&self.sums.risk_of_position(&owner, &mark)?);
        }
        for order in self
            .sums
            .entries()
            .filter(|order| order.owner == owner && order.buys == self.buys())
        {
            risk = risk.plus(&self.sums.risk_of_pending(order)?);
        }
        Some(risk)
    }

    pub(super) fn max_single_trade_risk(&self) -> Option<Said> {
        Some(plain(
            self.trade_risk()? <= self.of_base(*self.sums.rules.safety.max_single_trade_risk)?,
        ))
    }

    /// Returns the money of the units in the order's symbol, with the order, and whether it is more
    /// than without it.
    pub(super) fn own_money(
        &self,
        strategy: Option<&str>,
        units: impl Fn(&Both) -> Rat,
    ) -> Option<(Rat, bool)> {
        let before = self.sums.both(self.symbol(), strategy);
        let after = before.and(self.buys(), &self.size);
        let ask = self.seen()?.ask;
        let own = self
            .terms()
            .own
            .map_or(ask.clone(), |own| larger(&own, &ask));
        let money = |both: &Both, at_least: &Rat| {
            let price = self.sums.price_of(self.symbol(), at_least);
            let each = price.times(&self.sums.multiplier(self.symbol())?);
            Some(units(both).times(&each))
        };
        let (before, after) = (money(&before, &ask)?, money(&after, &own)?);
        let is_worse = after > before;
        Some((after, is_worse))
    }

    /// Returns the sum over all other symbols.
    pub(super) fn others(
        &self,
        strategy: Option<&str>,
        counts: impl Fn(&str) -> bool,
        units: impl Fn(&Both) -> Rat,
    ) -> Option<Rat> {
        let symbols = self.sums.open_symbols(strategy).into_iter();
        let others = symbols.filter(|symbol| symbol != self.symbol() && counts(symbol));
        others.into_iter().try_fold(Rat::zero(), |sum, symbol| {
            let price = self.sums.price_of(&symbol, &self.sums.fresh(&symbol)?.ask);
            let each = price.times(&self.sums.multiplier(&symbol)?);
            Some(sum.plus(&units(&self.sums.both(&symbol, strategy)).times(&each)))
        })
    }

    pub(super) fn max_single_position(&self) -> Option<Said> {
        let (value, is_worse) = self.own_money(None, Both::worst)?;
        let limit = self.of_base(*self.sums.rules.safety.max_single_position)?;
        Some(plain(limit.is_positive() && (!is_worse || value <= limit)))
    }

    pub(super) fn exposure(
        &self,
        strategy: Option<&str>,
        counts: impl Fn(&str) -> bool,
        units: impl Fn(&Both) -> Rat,
        limit: spoolgate_wire::amount::Amount,
    ) -> Option<Said> {
        let (own, is_worse) = self.own_money(strategy, &units)?;
        // A sum that cannot be computed fails, even if nothing gets worse.
        let sum = self.others(strategy, counts, &units)?.plus(&own);
        let limit = self.of_base(limit)?;
        // With a base of 0, every order fails.
        Some(plain(limit.is_positive() && (!is_worse || sum <= limit)))
    }

    pub(super) fn max_total_exposure(&self) -> Option<Said> {
        self.exposure(
            None,
            |_| true,
            Both::worst,
            *self.sums.rules.safety.max_total_exposure,
        )
    }

    pub(super) fn same_direction_exposure(&self) -> Option<Said> {
        let buys = self.buys();
        let safety = &self.sums.rules.safety;
        let limit = safety
            .max_same_direction_exposure
            .unwrap_or(safety.max_total_exposure);
        self.exposure(None, |_| true, |both| both.held(buys), *limit)
    }

    pub(super) fn group(&self) -> Option<String> {
        self.sums.rule(self.symbol())?.group.clone()
    }

    pub(super) fn correlated_group(&self, group: &str) -> Option<Said> {
        let safety = &self.sums.rules.safety;
        let limit = safety
            .max_correlated_group
            .unwrap_or(safety.max_total_exposure);
        let is_of = |symbol: &str| {
            self.sums
                .rule(symbol)
                .is_some_and(|rule| rule.group.as_deref() == Some(group))
        };
        self.exposure(None, is_of, Both::worst, *limit)
    }

    pub(super) fn allocation(&self, allocation: spoolgate_wire::amount::Amount) -> Option<Said> {
        self.exposure(
            Some(self.order.strategy.as_str()),
            |_| true,
            Both::worst,
            allocation,
        )
    }

    pub(super) fn max_portfolio_risk(&self) -> Option<Said> {
        let risk = self.all_risk()?;
        Some(plain(
            risk <= self.of_base(*self.sums.rules.safety.max_portfolio_risk)?,
        ))
    }

    pub(super) fn day_profit(&self) -> Option<Rat> {
        let began = self.sums.memory.day.as_ref()?;
        let is_today = began.start_ms == periods(self.around.now_ms).0;
        is_today.then_some(self.sums.memory.profit(began, &self.sums.equity()?))
    }

    pub(super) fn week_profit(&self) -> Option<Rat> {
        let began = self.sums.memory.week.as_ref()?;
        let is_this = began.start_ms == periods(self.around.now_ms).1;
        is_this.then_some(self.sums.memory.profit(began, &self.sums.equity()?))
    }

    pub(super) fn loss_budget(&self) -> Option<Said> {
        Some(plain(self.all_risk()? <= self.left_to_lose()?))
    }

    /// A jump past every stop loses this fraction of the worst cases of all symbols.
    pub(super) fn gap_budget(&self) -> Option<Said> {
        let (own, is_worse) = self.own_money(None, Both::worst)?;
        let sum = self.others(None, |_| true, Both::worst)?.plus(&own);
        let loss = sum.times(&r(*self.sums.rules.safety.stress_gap));
        let limit = self.week_left()?;
        Some(plain(limit.is_positive() && (!is_worse || loss <= limit)))
    }

    /// The same in every risk mode.
    pub(super) fn daily_turnover(&self) -> Option<Said> {
        let own = self.sums.worth(self.symbol(), &self.terms(), &self.size)?;
        let sum = self.sums.turnover()?.plus(&own);
        let limit = self
            .sums
            .base()?
            .times(&r(*self.sums.rules.safety.max_daily_turnover));
        Some(plain(limit.is_positive() && sum <= limit))
    }

    pub(super) fn daily_loss_halt(&self) -> Option<Said> {
        let limit = r(*self.sums.rules.safety.max_daily_loss).negated();
        Some(above(&self.day_profit()?, &limit, &Rat::of("0.01")))
    }

    pub(super) fn weekly_loss_halt(&self) -> Option<Said> {
        let limit = r(*self.sums.rules.safety.max_weekly_loss).negated();
        Some(above(&self.week_profit()?, &limit, &Rat::of("0.01")))
    }

    pub(super) fn drawdown_halt(&self) -> Option<Said> {
        let memory = self.sums.memory;
        let peak = memory.peak.as_ref()?;
        let lost = peak.minus(&self.sums.equity()?);
        let most = peak.times(&r(*self.sums.rules.safety.max_drawdown));
        Some(both_of(
            plain(!memory.is_drawn_down),
            above(&most, &lost, &Rat::of("0.01")),
        ))
    }

    /// An order that adds to a pair that is open already opens nothing.
    pub(super) fn max_open_positions(&self) -> Said {
        let mut pairs: std::collections::BTreeSet<Owner> =
            self.sums.memory.paper.held.keys().cloned().collect();
        pairs.extend(self.sums.entries().map(|order| order.owner.clone()));
        if !pairs.insert(owner_of(self.order)) {
            return plain(true);
        }
        counted(pairs.len(), self.sums.rules.safety.max_open_positions)
    }

    pub(super) fn max_open_orders(&self) -> Said {
        let open = self
            .sums
            .memory
            .paper
            .orders
            .iter()
            .filter(|order| order.role != Role::Stop)
            .count();
        counted(open + 1, self.sums.rules.safety.max_open_orders)
    }

    pub(super) fn buying_power(&self) -> Option<Said> {
        let takes = self.sums.takes(self.symbol(), &self.terms(), &self.size)?;
        Some(plain(takes <= self.sums.free_cash()?))
    }

    pub(super) fn participation(&self, share: &Rat) -> Option<Said> {
        let last = self.sums.memory.last.get(self.symbol())?;
        let is_fresh = self.around.now_ms - last.ms <= self.sums.age_max_ms(self.symbol())?;
        let volume = last.volume.clone().filter(|_| is_fresh)?;
        Some(plain(
            self.size <= volume.times(share).times(&self.around.factor),
        ))
    }
}
