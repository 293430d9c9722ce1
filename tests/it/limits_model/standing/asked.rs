//! Which working entries may stay, computed once more from docs/trading.md and the book alone:
//! doors, and the sums of worst cases, risk and cash. Naive: every sum is taken anew over
//! everything open.

use std::collections::BTreeSet;

use rust_decimal::Decimal;
use spoolgate_rules::Rulebook;
use spoolgate_rules::instruments::{Instrument, MarketSource};
use spoolgate_rules::strategies::{Direction, StrategyStatus};
use spoolgate_trading::Book;
use spoolgate_trading::book::{Baseline, Last, Quote};
use spoolgate_trading::order::{Order, OrderRole, Position};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{OrderId, StrategyName, Symbol};
use spoolgate_wire::orders::{OrderType, Side};
use spoolgate_wire::time::Time;

use super::Closed;
use crate::limits_model::oracle::span;

/// What the limits of a strategy in risk mode `reduced` are multiplied by.
pub(super) const REDUCED: &str = "0.5";

/// Everything that decides which entries may stay.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub book: &'a Book,
    pub rules: &'a Rulebook,
    pub closed: &'a Closed,
    pub now: Time,
}

/// An entry that may not stay, with the checks that say so: all closed doors, or one sum.
pub(super) type Gone = (OrderId, Vec<&'static str>);

/// What a sum is taken over.
#[derive(Clone)]
enum Over<'a> {
    Leg(&'a Symbol, &'a StrategyName, Side),
    Symbol(&'a Symbol),
    Side(Side),
    Group(&'a str),
    Strategy(&'a StrategyName),
    All,
}

/// A sum that a check limits.
struct Sum<'a> {
    check: &'static str,
    over: Over<'a>,
}

/// Prices of a symbol.
#[derive(Clone, Copy)]
struct Seen {
    bid: Decimal,
    ask: Decimal,
    /// The marks of a long and of a short position.
    marks: [Decimal; 2],
}

fn d(amount: Amount) -> Decimal {
    amount.decimal()
}

fn left(order: &Order) -> Decimal {
    d(order.size) - d(order.filled)
}

/// Limit or trigger.
fn own(order: &Order) -> Option<Decimal> {
    order.price.or(order.trigger).map(d)
}

impl<'a> Asked<'a> {
    pub(super) fn entries(&self) -> Vec<&'a Order> {
        let orders = self.book.orders.values();
        orders
            .filter(|order| order.role == OrderRole::Entry)
            .collect()
    }

    /// Returns how much more of a symbol may come to be held on the other side than on this one.
    pub(super) fn missing(&self, name: &Symbol, buys: bool) -> Option<Amount> {
        let held = self.positions().filter(|held| held.symbol == *name);
        let held = held.map(|held| held.size);
        let entries = self.entries().into_iter();
        let open = entries.filter(|order| order.symbol == *name).map(|order| {
            let left = order.leaves();
            if order.side == Side::Buy { left } else { -left }
        });
        let more = held.chain(open).fold(Amount::ZERO, |sum, size| {
            sum.checked_add(if buys { -size } else { size }).unwrap()
        });
        Some(more).filter(|more| more.is_positive())
    }

    fn rule(&self, name: &Symbol) -> Option<&'a Instrument> {
        self.rules.instruments.get(name)
    }

    fn positions(&self) -> impl Iterator<Item = &'a Position> {
        self.book.positions.values()
    }

    /// Returns prices, however old, and when they were known.
    fn last_seen(&self, name: &Symbol) -> Option<(Seen, Time)> {
        let (rule, market) = (self.rule(name)?, self.book.markets.get(name)?);
        if rule.quotes_from == MarketSource::Quotes {
            let Quote { bid, ask, time } = *market.quote.as_ref()?;
            let (bid, ask) = (d(bid), d(ask));
            let marks = [bid, ask];
            return Some((Seen { bid, ask, marks }, time));
        }
        let Last { price, time, .. } = *market.last.as_ref()?;
        let price = d(price);
        let half = price * d(*rule.half_spread);
        let (bid, ask, marks) = (price - half, price + half, [price, price]);
        Some((Seen { bid, ask, marks }, time))
    }

    /// Returns prices that are not too old.
    fn seen(&self, name: &Symbol) -> Option<Seen> {
        let (seen, time) = self.last_seen(name)?;
        let floor_s = i64::from(self.rules.safety.quote_age_floor_s);
        let most_s = floor_s.max(i64::from(*self.rule(name)?.bar_s) * 2);
        (self.now.since_ms(time).abs() <= most_s * 1000).then_some(seen)
    }

    fn mark(&self, held: &Position) -> Option<Decimal> {
        Some(self.seen(&held.symbol)?.marks[usize::from(held.size.is_negative())])
    }

    fn multiplier(&self, name: &Symbol) -> Option<Decimal> {
        Some(d(*self.rule(name)?.multiplier))
    }

    fn equity(&self) -> Option<Decimal> {
        let cash = d(self.book.account.cash);
        self.positions().try_fold(cash, |sum, held| {
            let worth = d(held.size) * self.mark(held)?;
            Some(sum + worth * self.multiplier(&held.symbol)?)
        })
    }

    fn profit(&self, since: Option<&Baseline>, start: Time) -> Option<Decimal> {
        let began = since.filter(|began| began.start == start)?;
        let deposited = d(self.book.account.net_deposits) - d(began.net_deposits);
        Some(self.equity()? - d(began.equity) - deposited)
    }

    /// Returns what the day and the week may still lose.
    fn left_to_lose(&self) -> Option<[Decimal; 2]> {
        let (account, safety) = (&self.book.account, &self.rules.safety);
        let day = self.profit(account.day.as_ref(), self.now.day_start());
        let week = self.profit(account.week.as_ref(), self.now.week_start());
        Some([
            d(*safety.max_daily_loss) + day?,
            d(*safety.max_weekly_loss) + week?,
        ])
    }

    /// Returns every reason, by its check, why an entry may not stay, whatever its size.
    pub(super) fn doors(&self, order: &Order) -> Vec<&'static str> {
        let (source, name) = (order.source.as_str(), &order.strategy);
        let safety = &self.rules.safety;
        let (account, closed) = (&self.book.account, self.closed);
        let strategy = self.rules.strategies.get(name);
        let is_allowed = self.rule(&order.symbol).is_some()
            && !safety.restricted_instruments.contains(&order.symbol)
            && strategy.is_none_or(|strategy| {
                strategy.instruments.contains(&order.symbol)
                    && strategy
                        .directions
                        .contains(&Direction::of_entry(order.side))
            });
        let is_active = strategy.is_some_and(|it| it.status != StrategyStatus::Paused)
            && !closed.paused.contains(name.as_str())
            && order
                .key_id
                .as_deref()
                .is_none_or(|key| !closed.revoked.contains(key));
        let equity = self.equity();
        let lost = |left: Option<Decimal>| left.is_some_and(|left| left <= Decimal::ZERO);
        let day = self.profit(account.day.as_ref(), self.now.day_start());
        let week = self.profit(account.week.as_ref(), self.now.week_start());
        let down = equity.zip(account.peak_equity).map(|(equity, peak)| {
            let most = d(peak) * d(*safety.max_drawdown);
            account.drawdown_since.is_some() || d(peak) - equity >= most
        });
        let spans = safety.restricted.iter();
        let own = strategy.map(|strategy| &strategy.restricted);
        let mut spans = spans.chain(own.into_iter().flatten());
        let at = self.now.ms().rem_euclid(86_400_000);
        let is_restricted = spans.any(|window| {
            let (from, to) = span(&window.to_string());
            if from < to {
                (from..to).contains(&at)
            } else {
                at >= from || at < to
            }
        });
        let conduct = self.book.conduct.get(name);
        let since = |time: &Time| self.now.since_ms(*time).abs();
        let is_too_often = conduct.is_some_and(|it| {
            let window_ms = i64::from(*safety.executions_window_s) * 1000;
            let recent = it.executions.iter().filter(|time| since(time) < window_ms);
            it.disabled_since.is_some() || recent.count() >= *safety.max_executions as usize
        });
        let is_cooling = conduct.and_then(|it| it.stopped_out_at).is_some_and(|at| {
            let cooldown_ms = i64::from(*safety.cooldown_s) * 1000;
            since(&at) < cooldown_ms
        });
        let doors = [
            ("clock", closed.clock),
            ("rulebook", closed.rulebook),
            ("instrument_allowed", !is_allowed),
            ("strategy_active", !is_active),
            ("thesis_valid", !self.carries(order)),
            (
                "daily_loss_halt",
                lost(day.map(|day| day + d(*safety.max_daily_loss))),
            ),
            (
                "weekly_loss_halt",
                lost(week.map(|week| week + d(*safety.max_weekly_loss))),
            ),
            ("drawdown_halt", down == Some(true)),
            ("manual_halt", closed.halted.contains(source)),
            ("dead_man", closed.unheard.contains(source)),
            ("time_window", is_restricted),
            ("repeated_execution", is_too_often),
            (
                "loss_streak",
                conduct.is_some_and(|it| it.losing >= *safety.max_losing_trades),
            ),
            (
                "reject_streak",
                conduct.is_some_and(|it| it.rejects >= *safety.max_rejects),
            ),
            ("cooldown", is_cooling),
            (
                "order_age",
                since(&order.accepted_at) > i64::from(*safety.max_order_age_s) * 1000,
            ),
            (
                "symbol_halt",
                self.book.halted_symbols.contains_key(&order.symbol),
            ),
        ];
        let shut = doors.into_iter().filter(|(_, is_shut)| *is_shut);
        shut.map(|(name, _)| name).collect()
    }

    /// Whether the thesis of an entry still carries it.
    fn carries(&self, order: &Order) -> bool {
        let slug = order.thesis_slug.as_ref().unwrap();
        let Some(thesis) = self.rules.theses.get(slug) else {
            return false;
        };
        let market = self.book.markets.get(&order.symbol);
        let last = market
            .and_then(|it| it.last.as_ref())
            .map(|last| d(last.price));
        let middle = self.last_seen(&order.symbol);
        let middle = middle.map(|(seen, _)| (seen.bid + seen.ask) / Decimal::TWO);
        let reached = last.into_iter().chain(middle).any(|price| {
            let below = thesis.invalid_below.map(|level| d(*level));
            let above = thesis.invalid_above.map(|level| d(*level));
            below.is_some_and(|level| price <= level) || above.is_some_and(|level| price >= level)
        });
        self.now < thesis.expires && !self.book.refuted.contains_key(slug) && !reached
    }

    /// The factor of the limits of an entry, if they are reduced.
    fn is_reduced(&self, order: &Order) -> bool {
        self.closed.reduced.contains(order.strategy.as_str())
    }

    /// Returns the entries that may not stay, in the order in which they go: those behind a door,
    /// then, for each sum above limit and margin, the newest that lowers it; until none does.
    pub(super) fn gone(&self, margin: Amount) -> Vec<Gone> {
        let all = self.entries();
        let mut gone = Vec::new();
        let mut stay: Vec<&Order> = Vec::new();
        for order in &all {
            match self.doors(order) {
                doors if doors.is_empty() => stay.push(order),
                doors => gone.push((order.order_id, doors)),
            }
        }
        loop {
            let count = stay.len();
            for is_reduced in [false, true] {
                for sum in self.sums(&all) {
                    while let Some(order) = self.one_too_many(&sum, &stay, is_reduced, d(margin)) {
                        gone.push((order.order_id, vec![sum.check]));
                        stay.retain(|other| other.order_id != order.order_id);
                    }
                }
            }
            if stay.len() == count {
                return gone;
            }
        }
    }

    /// Returns the newest entry without which a sum above its limit is lower. If it takes several,
    /// as where both sides of a symbol are equal, the newest of them.
    fn one_too_many(
        &self,
        sum: &Sum,
        stay: &[&'a Order],
        is_reduced: bool,
        margin: Decimal,
    ) -> Option<&'a Order> {
        let (value, limit) = (self.value(sum, stay)?, self.limit(sum, stay, is_reduced)?);
        if value <= limit + limit.max(Decimal::ZERO) * margin {
            return None;
        }
        let counts =
            |order: &&Order| self.counts(sum, order) && self.is_reduced(order) == is_reduced;
        let part: Vec<&'a Order> = stay.iter().copied().filter(counts).rev().collect();
        let lowers = |out: &[&Order]| {
            let is_in = |order: &&&Order| !out.iter().any(|it| it.order_id == order.order_id);
            let rest: Vec<&Order> = stay.iter().filter(is_in).copied().collect();
            self.value(sum, &rest).is_some_and(|less| less < value)
        };
        let one = part.iter().find(|order| lowers(&[order]));
        one.or_else(|| part.first().filter(|_| lowers(&part)))
            .copied()
    }

    /// Returns the sums in the order of the table of checks.
    fn sums(&self, entries: &[&'a Order]) -> Vec<Sum<'a>> {
        let mut all = Vec::new();
        let legs: BTreeSet<_> = entries
            .iter()
            .map(|order| (&order.symbol, &order.strategy, order.side == Side::Buy))
            .collect();
        let symbols: BTreeSet<&Symbol> = legs.iter().map(|leg| leg.0).collect();
        let strategies: BTreeSet<&StrategyName> = legs.iter().map(|leg| leg.1).collect();
        let rules = symbols.iter().filter_map(|name| self.rule(name));
        let groups: BTreeSet<&str> = rules.filter_map(|rule| rule.group.as_deref()).collect();
        let mut add = |check, over: Vec<Over<'a>>| {
            all.extend(over.into_iter().map(|over| Sum { check, over }));
        };
        let leg = |(symbol, strategy, buys)| {
            let side = if buys { Side::Buy } else { Side::Sell };
            Over::Leg(symbol, strategy, side)
        };
        add("max_single_trade_risk", legs.into_iter().map(leg).collect());
        let symbols = symbols.into_iter().map(Over::Symbol).collect();
        add("max_single_position", symbols);
        add("max_total_exposure", vec![Over::All]);
        let sides = [Side::Buy, Side::Sell].map(Over::Side).to_vec();
        add("same_direction_exposure", sides);
        let groups = groups.into_iter().map(Over::Group).collect();
        add("correlated_group", groups);
        let strategies = strategies.into_iter().map(Over::Strategy).collect();
        add("strategy_allocation", strategies);
        for check in [
            "max_portfolio_risk",
            "loss_budget",
            "gap_budget",
            "daily_turnover",
            "max_open_positions",
            "max_open_orders",
            "buying_power",
        ] {
            add(check, vec![Over::All]);
        }
        all
    }

    /// Whether an entry may be a part of a sum.
    fn counts(&self, sum: &Sum, order: &Order) -> bool {
        match sum.over {
            Over::Leg(symbol, strategy, side) => {
                order.is_of(strategy, symbol) && order.side == side
            }
            Over::Symbol(symbol) => order.symbol == *symbol,
            Over::Side(side) => order.side == side,
            Over::Group(group) => self.is_in(&order.symbol, group),
            Over::Strategy(strategy) => order.strategy == *strategy,
            Over::All => true,
        }
    }

    fn is_in(&self, name: &Symbol, group: &str) -> bool {
        let rule = self.rule(name);
        rule.is_some_and(|rule| rule.group.as_deref() == Some(group))
    }

    /// Returns a sum over the positions and these entries. `None` without a price.
    fn value(&self, sum: &Sum, entries: &[&Order]) -> Option<Decimal> {
        let all = |counts: &dyn Fn(&Symbol) -> bool| self.worst(entries, counts, None);
        match (sum.check, &sum.over) {
            ("max_open_positions", _) => {
                let pairs = entries
                    .iter()
                    .map(|order| (&order.symbol, &order.strategy))
                    .chain(self.positions().map(|held| (&held.symbol, &held.strategy)));
                Some(pairs.collect::<BTreeSet<_>>().len().into())
            }
            ("max_open_orders", _) => {
                let orders = self.book.orders.values();
                let others = orders
                    .filter(|order| matches!(order.role, OrderRole::Exit | OrderRole::Target));
                Some((others.count() + entries.len()).into())
            }
            ("buying_power", _) => self.taken(entries),
            ("daily_turnover", _) => {
                let filled = d(self.book.account.turnover);
                let worth = |sum, order: &&Order| Some(sum + self.worth(order)?);
                entries.iter().try_fold(filled, worth)
            }
            ("gap_budget", _) => {
                let [worst, _, _] = all(&|_| true)?;
                Some(worst * d(*self.rules.safety.stress_gap))
            }
            ("max_portfolio_risk" | "loss_budget", _) => {
                let held = self.positions().try_fold(Decimal::ZERO, |sum, held| {
                    Some(sum + self.held_risk(held, self.mark(held)?)?)
                });
                self.risk(held?, entries.iter().copied())
            }
            (_, Over::Leg(symbol, strategy, side)) => {
                let of_leg = self.positions().find(|held| {
                    (&held.symbol, &held.strategy) == (symbol, strategy)
                        && held.size.is_positive() == (*side == Side::Buy)
                });
                let held = of_leg.map_or(Some(Decimal::ZERO), |held| {
                    let (seen, _) = self.last_seen(symbol)?;
                    self.held_risk(held, seen.marks[usize::from(*side == Side::Sell)])
                });
                let of_leg = entries.iter().filter(|order| self.counts(sum, order));
                self.risk(held?, of_leg.copied())
            }
            (_, Over::Symbol(symbol)) => Some(all(&|name| name == *symbol)?[0]),
            (_, Over::Group(group)) => Some(all(&|name| self.is_in(name, group))?[0]),
            (_, Over::Side(Side::Buy)) => Some(all(&|_| true)?[1]),
            (_, Over::Side(Side::Sell)) => Some(all(&|_| true)?[2]),
            (_, Over::Strategy(strategy)) => {
                Some(self.worst(entries, &|_| true, Some(strategy))?[0])
            }
            (_, Over::All) => Some(all(&|_| true)?[0]),
        }
    }

    /// Returns the worst cases of these symbols, and what may come to be held long and short: of
    /// all strategies, or of the legs of one.
    fn worst(
        &self,
        entries: &[&Order],
        counts: &dyn Fn(&Symbol) -> bool,
        of: Option<&StrategyName>,
    ) -> Option<[Decimal; 3]> {
        let held = self.positions().map(|held| &held.symbol);
        let names = held.chain(entries.iter().map(|order| &order.symbol));
        let names: BTreeSet<&Symbol> = names.filter(|name| counts(name)).collect();
        let mut sums = [Decimal::ZERO; 3];
        for name in names {
            let (mut long, mut short) = (Decimal::ZERO, Decimal::ZERO);
            let is_of = |strategy: &StrategyName| of.is_none_or(|of| of == strategy);
            for held in self.positions().filter(|held| held.symbol == *name) {
                if is_of(&held.strategy) {
                    long += d(held.size).max(Decimal::ZERO);
                    short += (-d(held.size)).max(Decimal::ZERO);
                }
            }
            let of_symbol = || entries.iter().filter(|order| order.symbol == *name);
            for order in of_symbol().filter(|order| is_of(&order.strategy)) {
                match order.side {
                    Side::Buy => long += left(order),
                    Side::Sell => short += left(order),
                }
            }
            if long.is_zero() && short.is_zero() {
                continue;
            }
            let highest = of_symbol().filter_map(|order| own(order)).max();
            let ask = self.seen(name)?.ask;
            let each = highest.map_or(ask, |own| own.max(ask)) * self.multiplier(name)?;
            let units = [long.max(short), long, short];
            sums = std::array::from_fn(|nth| sums[nth] + units[nth] * each);
        }
        Some(sums)
    }

    /// The worst price that an entry may get.
    fn worst_entry(&self, order: &Order, seen: &Seen) -> Decimal {
        let slip = d(*self.rules.safety.entry_slippage);
        let (buys, limit) = (order.side == Side::Buy, own(order).unwrap_or_default());
        let near = if buys { seen.ask } else { seen.bid };
        let slipped = |price: Decimal| {
            if buys {
                price + price * slip
            } else {
                price - price * slip
            }
        };
        match order.order_type {
            OrderType::Limit if buys => limit.min(slipped(near)),
            OrderType::Limit => limit.max(slipped(near)),
            OrderType::Stop if !order.triggered && buys => slipped(limit.max(near)),
            OrderType::Stop if !order.triggered => slipped(limit.min(near)),
            OrderType::Stop | OrderType::Market => slipped(near),
        }
    }

    /// Adds the risk of entries, from their worst prices down to their stops.
    fn risk<'o>(
        &self,
        held: Decimal,
        mut entries: impl Iterator<Item = &'o Order>,
    ) -> Option<Decimal> {
        entries.try_fold(held, |sum, order| {
            let (rule, seen) = (self.rule(&order.symbol)?, self.seen(&order.symbol)?);
            let worst = self.worst_entry(order, &seen);
            let stop = d(self.book.orders[&order.order_id.stop()].trigger?);
            let each = (worst - stop).abs()
                + (worst + stop) * d(*rule.taker_fee)
                + stop * d(*self.rules.safety.stop_slippage);
            Some(sum + each * left(order) * d(*rule.multiplier))
        })
    }

    /// The risk of a position from its mark down to its stops.
    fn held_risk(&self, held: &Position, mark: Decimal) -> Option<Decimal> {
        let rule = self.rule(&held.symbol)?;
        let costs = d(*self.rules.safety.stop_slippage) + d(*rule.taker_fee);
        let is_long = held.size.is_positive();
        let (mut bare, mut sum) = (d(held.size).abs(), Decimal::ZERO);
        let stops = self.book.orders.values().filter(|order| {
            order.role == OrderRole::Protective
                && order.is_of(&held.strategy, &held.symbol)
                && (order.side == Side::Sell) == is_long
        });
        for stop in stops {
            let trigger = d(stop.trigger?);
            let out = if is_long {
                trigger.min(mark)
            } else {
                trigger.max(mark)
            };
            let covered = left(stop).min(bare);
            bare -= covered;
            sum += ((mark - out).abs() + out * costs) * covered;
        }
        Some((sum + bare * mark) * d(*rule.multiplier))
    }

    /// The cash that entries take.
    fn taken(&self, entries: &[&Order]) -> Option<Decimal> {
        entries.iter().try_fold(Decimal::ZERO, |sum, order| {
            let worth = self.worth(order)?;
            let fee = d(*self.rule(&order.symbol)?.taker_fee);
            Some(sum + worth + worth * fee)
        })
    }

    /// What an entry may still fill, at the price of its cash.
    fn worth(&self, order: &Order) -> Option<Decimal> {
        let (rule, seen) = (self.rule(&order.symbol)?, self.seen(&order.symbol)?);
        let price = match order.side {
            Side::Buy => self.worst_entry(order, &seen),
            Side::Sell => own(order).map_or(seen.bid, |own| own.max(seen.bid)),
        };
        Some(price * left(order) * d(*rule.multiplier))
    }

    /// Returns the limit of a sum. `None` if there is none or it cannot be computed.
    fn limit(&self, sum: &Sum, entries: &[&Order], is_reduced: bool) -> Option<Decimal> {
        let safety = &self.rules.safety;
        let factor = if is_reduced { REDUCED } else { "1" };
        let factor: Decimal = factor.parse().unwrap();
        let base = || {
            let base = self.equity()?.max(Decimal::ZERO);
            Some(base.min(d(*safety.max_total_capital)))
        };
        let of_base = |part: Amount| Some(base()? * d(part) * factor);
        let total = safety.max_total_exposure;
        match (sum.check, &sum.over) {
            ("max_single_trade_risk", _) => of_base(*safety.max_single_trade_risk),
            ("max_single_position", _) => of_base(*safety.max_single_position),
            ("max_total_exposure", _) => of_base(*total),
            ("same_direction_exposure", _) => {
                of_base(*safety.max_same_direction_exposure.unwrap_or(total))
            }
            ("correlated_group", _) => of_base(*safety.max_correlated_group.unwrap_or(total)),
            (_, Over::Strategy(strategy)) => {
                of_base(*self.rules.strategies.get(*strategy)?.allocation?)
            }
            ("max_portfolio_risk", _) => of_base(*safety.max_portfolio_risk),
            ("loss_budget", _) => {
                let [day, week] = self.left_to_lose()?;
                Some(day.min(week) * factor)
            }
            ("gap_budget", _) => Some(self.left_to_lose()?[1] * factor),
            ("daily_turnover", _) => Some(base()? * d(*safety.max_daily_turnover)),
            ("max_open_positions", _) => Some(safety.max_open_positions.into()),
            ("max_open_orders", _) => Some(safety.max_open_orders.into()),
            _ => {
                self.taken(entries)?;
                let mut shorts = self.positions().filter(|held| held.size.is_negative());
                let cash = d(self.book.account.cash);
                shorts.try_fold(cash, |cash, held| {
                    let back = -d(held.size) * self.mark(held)? * self.multiplier(&held.symbol)?;
                    Some(cash - back - back)
                })
            }
        }
    }
}
