//! What limits count around an order: everything else that is open. Each value is computed when a
//! check first needs it and is the same for every size.

use std::cell::OnceCell;

use super::halts::left_to_lose;
use super::{OrderFacts, Subject};
use crate::lack::Lack;
use crate::reach::Reach;
use crate::sums::{Sides, Sums, Unknown};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::limits::LimitName;

/// Values that do not depend on the size of the order, cached on first use.
#[derive(Clone, Debug)]
pub struct Around<'a> {
    /// The sums over everything open.
    pub sums: Sums<'a>,
    risks: OnceCell<Option<Vec<Amount>>>,
    own_of_strategy: OnceCell<Option<Reach>>,
    others: OnceCell<Others>,
    others_of_strategy: OnceCell<Result<Amount, Unknown>>,
    left_to_lose: OnceCell<Result<(Amount, LimitName), Lack>>,
}

/// Totals over all symbols except the order's own, account currency.
#[derive(Clone, Debug)]
pub(super) struct Others {
    /// Totals over all these symbols.
    pub all: Result<Sides, Unknown>,
    /// Sum of the worst cases of the symbols in the group of the order's instrument.
    pub group: Result<Amount, Unknown>,
}

impl<'a> Around<'a> {
    /// Nothing is computed yet.
    pub(super) fn new(sums: Sums<'a>) -> Around<'a> {
        Around {
            sums,
            risks: OnceCell::new(),
            own_of_strategy: OnceCell::new(),
            others: OnceCell::new(),
            others_of_strategy: OnceCell::new(),
            left_to_lose: OnceCell::new(),
        }
    }

    /// Returns the risk of the position and of each pending entry that the order adds to, one by
    /// one. Callers add them up in the same order for every size, so that exactness does not depend
    /// on the caller. `None` if one of them is not exact.
    pub(super) fn risks(&self, facts: &OrderFacts) -> Option<&[Amount]> {
        self.risks
            .get_or_init(|| self.other_risks(facts))
            .as_deref()
    }

    fn other_risks(&self, facts: &OrderFacts) -> Option<Vec<Amount>> {
        let order = facts.order;
        let held = self
            .sums
            .position_risk(&order.symbol, &order.strategy, order.side)?;
        let mut risks = vec![held];
        for entry in self.sums.counted() {
            let other = entry.order;
            if other.side == order.side && other.is_of(&order.strategy, &order.symbol) {
                risks.push(entry.risk.clone().ok()?);
            }
        }
        Some(risks)
    }

    /// Returns what may come to be held in the order's own symbol without it, over all strategies.
    pub(super) fn own(&self, facts: &OrderFacts) -> Option<Reach> {
        let mut open = self.sums.symbols().iter();
        match open.find(|open| open.symbol == facts.symbol()) {
            Some(open) => open.reach,
            None => Some(Reach::NOTHING),
        }
    }

    /// Returns what the order's own leg may come to hold without it.
    pub(super) fn own_of_strategy(&self, facts: &OrderFacts) -> Option<Reach> {
        let of = || self.sums.leg(facts.symbol(), &facts.order.strategy);
        *self.own_of_strategy.get_or_init(of)
    }

    /// Returns the totals of every other symbol, over all strategies.
    pub(super) fn others(&self, subject: &Subject, facts: &OrderFacts) -> &Others {
        self.others.get_or_init(|| {
            let group = subject.instrument.and_then(|found| found.group.as_ref());
            let others = self.sums.sides(|open| {
                let found = self.sums.rules.instruments.get(open.symbol);
                let own = found.and_then(|found| found.group.as_ref());
                open.symbol != facts.symbol() && group.is_some() && own == group
            });
            Others {
                all: self.sums.sides(|open| open.symbol != facts.symbol()),
                group: others.map(|others| others.worst),
            }
        })
    }

    /// Returns the sum of the worst cases of every other symbol for the order's strategy alone.
    pub(super) fn others_of_strategy(&self, facts: &OrderFacts) -> Result<Amount, Unknown> {
        let strategy = &facts.order.strategy;
        self.others_of_strategy
            .get_or_init(|| {
                self.sums
                    .of_strategy(strategy, |symbol| symbol != facts.symbol())
            })
            .clone()
    }

    /// Returns what may be lost before a halt, account currency, and which limit halts then, or why it
    /// is unknown.
    pub(super) fn left_to_lose(&self) -> Result<(Amount, LimitName), Lack> {
        *self.left_to_lose.get_or_init(|| left_to_lose(&self.sums))
    }
}
