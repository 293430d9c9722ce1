//! Changes besides orders and rows: time, funding and filters.

use super::*;

impl World {
    /// Sometimes hours pass, the day ends, or a person clears gaps.
    pub(super) fn pass_time(&mut self) {
        if self.random.one_in(15) {
            self.now = self.now.plus_ms(self.random.within(1, 16) * 3_600_000);
        }
        if self.random.one_in(3) {
            let changes = venue::end_day(&self.book, self.now);
            self.apply(&changes);
            self.model.end_day(self.now.ms());
        }
        let listed = self.random.pick(&LISTED).symbol;
        self.fund(listed);
        if let Some(symbol) = self
            .model
            .halted
            .first()
            .cloned()
            .filter(|_| self.random.one_in(4))
        {
            self.count("gap");
            self.apply(&[Change::SymbolCleared {
                symbol: Symbol::parse(&symbol).unwrap(),
            }]);
            self.model.halted.remove(&symbol);
        }
        self.compare();
    }

    /// Charges the rate of the last time due, which may have been charged before.
    pub(super) fn fund(&mut self, listed: &'static str) {
        let time = Time::from_ms(self.now.ms().div_euclid(28_800_000) * 28_800_000).unwrap();
        let rate = steps(self.random.within(-75, 75), "0.0000137");
        let symbol = Symbol::parse(listed).unwrap();
        let is_first = self.funded.insert((listed, time.ms()));
        match venue::on_funding(&self.book, &self.rules, &symbol, rate, time, self.now) {
            Ok(changes) => {
                assert!(is_first, "seed {}: charged twice", self.seed);
                self.apply(&changes);
                if self.model.held.keys().any(|owner| owner.0 == listed) {
                    self.count("funding");
                }
                self.model.fund(listed, &r(rate));
            }
            Err(error) => {
                assert!(
                    !is_first && matches!(error, venue::FundingError::Charged { .. }),
                    "{error}"
                );
            }
        }
    }

    /// A person edits instruments.yaml under open orders.
    pub(super) fn change_filters(&mut self, symbol: &str) {
        let which = self.random.within(0, 2);
        let rule = self
            .rules
            .instruments
            .get_mut(&Symbol::parse(symbol).unwrap())
            .unwrap();
        match which {
            0 => {
                rule.tick = if rule.tick.is_zero() {
                    a("0.11").try_into().unwrap()
                } else {
                    steps(7, &rule.tick.to_string()).try_into().unwrap()
                }
            }
            1 => {
                rule.lot = if rule.lot.is_zero() {
                    a("0.002").try_into().unwrap()
                } else {
                    steps(3, &rule.lot.to_string()).try_into().unwrap()
                }
            }
            _ => rule.min_notional = a("60").try_into().unwrap(),
        }
        self.model
            .specs
            .insert(symbol.to_owned(), spec(&self.rules, symbol));
    }
}
