//! Sums over everything open, computed naively: worst cases, risk down to stops, free cash. Without
//! a fresh price a sum is unknown.

use spoolgate_rules::Rulebook;
use spoolgate_rules::instruments::MarketSource;
use spoolgate_wire::ids::Symbol;

use crate::limits_model::memory::Memory;
use crate::paper_model::model::{Kind, Owner, Role, STOP, Working};
use crate::paper_model::rational::Rat;
use crate::paper_model::sides::r;

/// Bid and ask, and their times.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub bid: Rat,
    pub ask: Rat,
    pub ms: i64,
}

/// Everything that the sums are taken over.
#[derive(Clone, Copy)]
pub(super) struct Sums<'a> {
    pub memory: &'a Memory,
    pub rules: &'a Rulebook,
    pub now_ms: i64,
}

/// The parts of an order that affect prices.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    pub buys: bool,
    pub kind: Kind,
    pub own: Option<Rat>,
}

pub(super) fn larger(a: &Rat, b: &Rat) -> Rat {
    a.clone().max(b.clone())
}

pub(super) fn smaller(a: &Rat, b: &Rat) -> Rat {
    a.clone().min(b.clone())
}

/// Returns `price` made worse by this fraction for the buyer or seller.
pub(super) fn worse(price: &Rat, buys: bool, by: &Rat) -> Rat {
    let factor = if buys {
        Rat::one().plus(by)
    } else {
        Rat::one().minus(by)
    };
    price.times(&factor)
}

impl Terms {
    pub(super) fn of(order: &Working) -> Terms {
        let kind = if order.hit { Kind::Market } else { order.kind };
        Terms {
            buys: order.buys,
            kind,
            own: order.price.clone().or_else(|| order.trigger.clone()),
        }
    }

    fn near(&self, seen: &Seen) -> Rat {
        if self.buys {
            seen.ask.clone()
        } else {
            seen.bid.clone()
        }
    }

    /// Buys: max(ask, limit or trigger); sells: max(bid, limit or trigger).
    pub(super) fn notional_price(&self, seen: &Seen) -> Rat {
        let near = self.near(seen);
        self.own
            .as_ref()
            .map_or(near.clone(), |own| larger(own, &near))
    }

    /// A market buy: the ask plus slippage; a limit buy: its price or that, whichever is lower; a
    /// stop: from its trigger.
    pub(super) fn worst_entry(&self, seen: &Seen, slip: &Rat) -> Rat {
        let near = self.near(seen);
        match (self.kind, &self.own) {
            (Kind::Limit, Some(limit)) => {
                let market = worse(&near, self.buys, slip);
                if self.buys {
                    smaller(limit, &market)
                } else {
                    larger(limit, &market)
                }
            }
            (Kind::Stop, Some(trigger)) => {
                let start = if self.buys {
                    larger(trigger, &near)
                } else {
                    smaller(trigger, &near)
                };
                worse(&start, self.buys, slip)
            }
            _ => worse(&near, self.buys, slip),
        }
    }

    /// A buy counts at its worst entry, a sale at max(bid, its own price).
    pub(super) fn cash_price(&self, seen: &Seen, slip: &Rat) -> Rat {
        if self.buys {
            self.worst_entry(seen, slip)
        } else {
            self.notional_price(seen)
        }
    }
}

/// What the legs of a symbol may come to hold: long positions + open buys, and short positions + open
/// sells. Each leg can leave alone, so nothing is netted.
#[derive(Clone, Debug)]
pub(super) struct Both {
    pub long: Rat,
    pub short: Rat,
}

impl Both {
    pub(super) fn worst(&self) -> Rat {
        larger(&self.long, &self.short)
    }

    pub(super) fn and(&self, buys: bool, size: &Rat) -> Both {
        let mut both = self.clone();
        if buys {
            both.long = both.long.plus(size);
        } else {
            both.short = both.short.plus(size);
        }
        both
    }

    /// Returns what could be held on this side.
    pub(super) fn held(&self, long: bool) -> Rat {
        if long {
            self.long.clone()
        } else {
            self.short.clone()
        }
    }
}

impl<'a> Sums<'a> {
    pub(super) fn multiplier(&self, symbol: &str) -> Option<Rat> {
        Some(r(*self.rule(symbol)?.multiplier))
    }

    pub(super) fn rule(
        &self,
        symbol: &str,
    ) -> Option<&'a spoolgate_rules::instruments::Instrument> {
        self.rules.instruments.get(&Symbol::parse(symbol).unwrap())
    }

    /// Returns bid and ask, however old.
    pub(super) fn quoted(&self, symbol: &str) -> Option<Seen> {
        let rule = self.rule(symbol)?;
        if rule.quotes_from == MarketSource::Bars {
            let last = self.memory.last.get(symbol)?;
            let half = last.price.times(&r(*rule.half_spread));
            return Some(Seen {
                bid: last.price.minus(&half),
                ask: last.price.plus(&half),
                ms: last.ms,
            });
        }
        let (ms, bid, ask) = self.memory.paper.quote.get(symbol)?;
        Some(Seen {
            bid: bid.clone(),
            ask: ask.clone(),
            ms: *ms,
        })
    }

    /// Whether checks use quotes and bars fill: then both must be fresh.
    pub(super) fn fills_apart(&self, symbol: &str) -> bool {
        self.rule(symbol).is_some_and(|rule| {
            (rule.quotes_from, rule.fills_from) == (MarketSource::Quotes, MarketSource::Bars)
        })
    }

    /// Two bars, but at least the floor.
    pub(super) fn age_max_ms(&self, symbol: &str) -> Option<i64> {
        let bars = i64::from(*self.rule(symbol)?.bar_s) * 2;
        Some(bars.max(i64::from(self.rules.safety.quote_age_floor_s)) * 1000)
    }

    pub(super) fn fresh(&self, symbol: &str) -> Option<Seen> {
        let seen = self.quoted(symbol)?;
        (self.now_ms - seen.ms <= self.age_max_ms(symbol)?).then_some(seen)
    }

    pub(super) fn mark(&self, symbol: &str, is_long: bool) -> Option<Rat> {
        self.fresh(symbol)?;
        self.memory.paper.mark(symbol, is_long)
    }

    pub(super) fn equity(&self) -> Option<Rat> {
        self.memory.paper.held.iter().try_fold(
            self.memory.paper.cash(),
            |sum, (owner, (size, _))| {
                let mark = self.mark(&owner.0, size.is_positive())?;
                Some(sum.plus(&size.times(&mark).times(&self.multiplier(&owner.0)?)))
            },
        )
    }

    pub(super) fn base(&self) -> Option<Rat> {
        let equity = larger(&self.equity()?, &Rat::zero());
        Some(smaller(&equity, &r(*self.rules.safety.max_total_capital)))
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &'a Working> {
        self.memory
            .paper
            .orders
            .iter()
            .filter(|order| order.role == Role::Entry)
    }

    /// Returns both sums of one symbol, over all strategies or for one.
    pub(super) fn both(&self, symbol: &str, strategy: Option<&str>) -> Both {
        let is_of =
            |owner: &Owner| owner.0 == symbol && strategy.is_none_or(|name| owner.1 == name);
        let held = self
            .memory
            .paper
            .held
            .iter()
            .filter(|(owner, _)| is_of(owner));
        let none = Both {
            long: Rat::zero(),
            short: Rat::zero(),
        };
        let held = held.fold(none, |both, (_, (size, _))| {
            both.and(size.is_positive(), &size.abs())
        });
        let open = self.entries().filter(|order| is_of(&order.owner));
        open.fold(held, |both, order| both.and(order.buys, &order.leaves()))
    }

    /// Returns the price at which units of a symbol count if no new order is involved: the ask, or
    /// the highest price among its pending entries.
    pub(super) fn price_of(&self, symbol: &str, at_least: &Rat) -> Rat {
        let open = self.entries().filter(|order| order.owner.0 == symbol);
        open.filter_map(|order| Terms::of(order).own)
            .fold(at_least.clone(), |price, own| larger(&price, &own))
    }

    /// Returns the symbols with anything open, of one strategy or of all.
    pub(super) fn open_symbols(&self, strategy: Option<&str>) -> Vec<String> {
        let held = self.memory.paper.held.keys();
        let owners = held.chain(self.entries().map(|order| &order.owner));
        let names = owners.filter(|owner| strategy.is_none_or(|name| owner.1 == name));
        let names: std::collections::BTreeSet<String> =
            names.map(|owner| owner.0.clone()).collect();
        names.into_iter().collect()
    }

    /// Returns the loss from the mark to the stops, including slippage and the fee of closing;
    /// without a stop, the whole notional.
    pub(super) fn risk_of_position(&self, owner: &Owner, mark: &Rat) -> Option<Rat> {
        let size = self.memory.paper.position(owner);
        let (is_long, mut bare) = (size.is_positive(), size.abs());
        let costs = r(*self.rules.safety.stop_slippage).plus(&r(*self.rule(&owner.0)?.taker_fee));
        let mut risk = Rat::zero();
        let stops = self.memory.paper.orders.iter().filter(|order| {
            order.role == Role::Stop && order.owner == *owner && order.buys != is_long
        });
        for stop in stops {
            let trigger = stop.trigger.as_ref()?;
            // A stop that the market has passed is hit at the market.
            let out = if is_long {
                smaller(trigger, mark)
            } else {
                larger(trigger, mark)
            };
            let each = mark.minus(&out).abs().plus(&out.times(&costs));
            let covered = smaller(&stop.leaves(), &bare);
            bare = bare.minus(&covered);
            risk = risk.plus(&each.times(&covered));
        }
        Some(
            risk.plus(&bare.times(mark))
                .times(&self.multiplier(&owner.0)?),
        )
    }

    /// Returns the loss of entering there and closing at the stop, including the stop's slippage
    /// and both fees.
    pub(super) fn risk_of_entry(
        &self,
        symbol: &str,
        worst: &Rat,
        stop: &Rat,
        size: &Rat,
    ) -> Option<Rat> {
        let fees = worst.plus(stop).times(&r(*self.rule(symbol)?.taker_fee));
        let slip = stop.times(&r(*self.rules.safety.stop_slippage));
        let each = worst.minus(stop).abs().plus(&fees).plus(&slip);
        Some(each.times(size).times(&self.multiplier(symbol)?))
    }

    pub(super) fn risk_of_pending(&self, order: &Working) -> Option<Rat> {
        let seen = self.fresh(&order.owner.0)?;
        let worst = Terms::of(order).worst_entry(&seen, &r(*self.rules.safety.entry_slippage));
        let stop = self
            .memory
            .paper
            .find((order.id.0, STOP))?
            .trigger
            .clone()?;
        self.risk_of_entry(&order.owner.0, &worst, &stop, &order.leaves())
    }

    pub(super) fn open_risk(&self) -> Option<Rat> {
        let held =
            self.memory
                .paper
                .held
                .iter()
                .try_fold(Rat::zero(), |sum, (owner, (size, _))| {
                    let mark = self.mark(&owner.0, size.is_positive())?;
                    Some(sum.plus(&self.risk_of_position(owner, &mark)?))
                });
        self.entries().try_fold(held?, |sum, order| {
            Some(sum.plus(&self.risk_of_pending(order)?))
        })
    }

    /// Returns the cash that an order, or its remaining size, needs.
    pub(super) fn takes(&self, symbol: &str, terms: &Terms, size: &Rat) -> Option<Rat> {
        let fee = Rat::one().plus(&r(*self.rule(symbol)?.taker_fee));
        Some(self.worth(symbol, terms, size)?.times(&fee))
    }

    /// Returns that without the fee.
    pub(super) fn worth(&self, symbol: &str, terms: &Terms, size: &Rat) -> Option<Rat> {
        let price = terms.cash_price(&self.fresh(symbol)?, &r(*self.rules.safety.entry_slippage));
        Some(size.times(&price).times(&self.multiplier(symbol)?))
    }

    /// Returns what entries have filled since the day began, and what the working ones may still fill.
    pub(super) fn turnover(&self) -> Option<Rat> {
        let filled = self.memory.turned_over.clone().unwrap_or_else(Rat::zero);
        self.entries().try_fold(filled, |sum, order| {
            let worth = self.worth(&order.owner.0, &Terms::of(order), &order.leaves())?;
            Some(sum.plus(&worth))
        })
    }

    pub(super) fn free_cash(&self) -> Option<Rat> {
        let shorts = self
            .memory
            .paper
            .held
            .iter()
            .filter(|(_, (size, _))| size.is_negative());
        let cash =
            shorts
                .into_iter()
                .try_fold(self.memory.paper.cash(), |cash, (owner, (size, _))| {
                    let back = self
                        .mark(&owner.0, false)?
                        .times(&size.abs())
                        .times(&self.multiplier(&owner.0)?);
                    Some(cash.minus(&back).minus(&back))
                })?;
        self.entries().try_fold(cash, |cash, order| {
            Some(cash.minus(&self.takes(&order.owner.0, &Terms::of(order), &order.leaves())?))
        })
    }
}
