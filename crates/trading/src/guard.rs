//! Standing checks: after every event each working entry is asked again by the checks that accepted
//! it, and an entry that they no longer allow is pulled.
//!
//! First go the entries behind a closed door: a halt, a pause, a revoked key, a refuted thesis, a
//! time window, broken rule files. Then, for each sum above its limit, the newest entry whose removal
//! lowers it goes, until the sum holds. New orders are refused at the limit; working ones are pulled
//! at limit x (1 + margin), or an order of exactly the headroom would go with the next price. A sum
//! that cannot be computed for lack of a price pulls nothing on paper; at a venue, where entries can
//! fill unseen, it pulls after `blind_s`.
//!
//! An entry that the venue was asked to end does not count here: nothing more can be done about it.
//! Checks of new orders count it until the venue has said that it is gone.

use std::collections::BTreeSet;

use super::book::Book;
use super::cancel;
use super::change::Change;
use super::checks::{self, Seen, Standing, Subject, ThesisUse};
use super::order::{Order, Why};
use super::reach::entries;
use super::requests::{Context, Messages};
use super::sums::{Open, Sums};
use super::valuation::age_max_ms;
use spoolgate_rules::Rulebook;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::checks::CheckRow;
use spoolgate_wire::ids::{StrategyName, Symbol, ThesisSlug};
use spoolgate_wire::orders::{OrderType, Side, SubmitOrder};
use spoolgate_wire::time::Time;

/// What closes an entry besides the book and the rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imposed {
    /// Why a person, a file or the sender halted entries.
    pub halted: Option<String>,
    /// Why the dead man's switch closed the sender's entries.
    pub unheard: Option<String>,
    /// Why control closes the strategy to entries.
    pub paused: Option<String>,
    /// The factor for limits on size and risk in risk mode `reduced`.
    pub limit_factor: Option<Amount>,
    /// Why the key that signed the order no longer counts.
    pub key_fault: Option<String>,
}

/// What the gate's state imposes on working entries.
pub trait Impose {
    /// Returns why the gate's clock cannot be trusted for entries.
    fn clock_fault(&self) -> Option<String>;

    /// Returns why the rule files cannot be used.
    fn rulebook_fault(&self) -> Option<String>;

    /// Returns what closes an entry. Depends only on its sender, key, strategy, symbol and venue.
    fn on(&self, order: &Order) -> Imposed;
}

/// Imposes nothing.
#[derive(Clone, Copy, Debug)]
pub struct Nothing;

impl Impose for Nothing {
    fn clock_fault(&self) -> Option<String> {
        None
    }

    fn rulebook_fault(&self) -> Option<String> {
        None
    }

    fn on(&self, _: &Order) -> Imposed {
        Imposed::default()
    }
}

/// An entry that is to be pulled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pull<'a> {
    /// The entry.
    pub order: &'a Order,
    /// Which check no longer allows it.
    pub why: Why,
}

impl Pull<'_> {
    /// Returns the changes that withdraw the entry.
    pub fn changes(&self, book: &Book, at: Time) -> Vec<Change> {
        cancel::pull(book, self.order, self.why.clone(), at)
    }
}

/// Returns the working entries that are no longer allowed, in the order in which they are pulled.
/// `margin` is how far above its limit a sum may be, as a fraction of the limit.
pub fn pulls<'a>(
    book: &'a Book,
    rules: &'a Rulebook,
    imposed: &dyn Impose,
    now: Time,
    margin: Amount,
) -> Vec<Pull<'a>> {
    if entries(book).all(|order| order.ending().is_some()) {
        return Vec::new();
    }
    let mut guard = Guard::new(book, rules, now, margin);
    let (working, ending): (Vec<&Order>, Vec<&Order>) = guard
        .sums
        .entries()
        .iter()
        .map(|entry| entry.order)
        .partition(|order| order.ending().is_none());
    let doors = Doors::new(&guard.sums, imposed);
    for order in ending {
        guard.sums.leave_out(order.order_id, true);
    }
    let (mut legs, mut firsts): (Vec<Leg>, Vec<&Order>) = (Vec::new(), Vec::new());
    for order in &working {
        let nth = legs.iter().position(|leg| leg.is_of(order));
        let nth = nth.unwrap_or_else(|| {
            firsts.push(order);
            legs.push(doors.leg(order));
            legs.len().saturating_sub(1)
        });
        let Some(leg) = legs.get(nth) else { continue };
        let closed = leg.closed.clone();
        let closed = closed.or_else(|| doors.thesis(order, leg));
        let closed = closed.or_else(|| doors.age(order, leg));
        if let Some(row) = closed {
            guard.pull(order, why(&row));
        }
    }
    guard.pull_blind(&working);
    let factors: BTreeSet<_> = legs.iter().map(|leg| leg.imposed.limit_factor).collect();
    // A pull can lower the price of a symbol, and another entry, whose price is then the highest, now
    // lowers a sum that is still above its limit.
    loop {
        let count = guard.pulls.len();
        for factor in factors.iter().copied() {
            let is_of = |order: &Order| {
                let leg = legs.iter().find(|leg| leg.is_of(order));
                leg.is_some_and(|leg| leg.imposed.limit_factor == factor)
            };
            for check in checks::sums() {
                for measure in guard.measures(check, &firsts) {
                    guard.pull_while_above(&measure, factor, &is_of);
                }
            }
        }
        if guard.pulls.len() == count {
            return guard.pulls;
        }
    }
}

/// Returns the check and its figures, if it compares any.
fn why(row: &CheckRow) -> Why {
    let is_figure = row.unit != "bool";
    Why {
        check: row.name.clone().into_owned(),
        value: row.value.filter(|_| is_figure),
        limit: row.limit.filter(|_| is_figure),
    }
}

/// The checks that do not depend on sums.
struct Doors<'a, 'i> {
    sums: Sums<'a>,
    imposed: &'i dyn Impose,
    clock_fault: Option<String>,
    rulebook_fault: Option<String>,
}

/// Orders that the same doors close.
struct Leg<'a> {
    order: &'a Order,
    imposed: Imposed,
    closed: Option<CheckRow>,
    /// The prices of its symbol.
    seen: Option<Seen>,
}

impl Leg<'_> {
    fn is_of(&self, order: &Order) -> bool {
        let own = self.order;
        let bridge = |of: &Order, other: &Order| {
            let both = (of.at_venue.as_ref(), other.at_venue.as_ref());
            both.0.map(|at| &at.bridge) == both.1.map(|at| &at.bridge)
        };
        own.side == order.side
            && own.strategy == order.strategy
            && own.symbol == order.symbol
            && own.source == order.source
            && own.key_id == order.key_id
            && bridge(own, order)
    }
}

impl<'a, 'i> Doors<'a, 'i> {
    fn new(sums: &Sums<'a>, imposed: &'i dyn Impose) -> Doors<'a, 'i> {
        Doors {
            sums: sums.anew(),
            imposed,
            clock_fault: imposed.clock_fault(),
            rulebook_fault: imposed.rulebook_fault(),
        }
    }

    fn leg(&self, order: &'a Order) -> Leg<'a> {
        let imposed = self.imposed.on(order);
        let closed = self.ask(order, &imposed, &[Standing::Account, Standing::Leg]);
        let instrument = self.sums.rules.instruments.get(&order.symbol);
        Leg {
            order,
            imposed,
            closed,
            seen: instrument.and_then(|found| Seen::of(self.sums.book, found)),
        }
    }

    fn thesis(&self, order: &Order, leg: &Leg) -> Option<CheckRow> {
        let used = order.thesis_slug.as_ref().map(|slug| ThesisUse {
            slug,
            strategy: &order.strategy,
            symbol: &order.symbol,
            side: order.side,
        });
        // Almost always it still carries the entry, and nobody needs the row.
        let Sums {
            book, rules, now, ..
        } = self.sums;
        let fault = |used: ThesisUse| used.fault(book, rules, now, leg.seen);
        if used.is_some_and(|used| fault(used).is_none()) {
            return None;
        }
        self.ask(order, &leg.imposed, &[Standing::Thesis])
    }

    fn age(&self, order: &Order, leg: &Leg) -> Option<CheckRow> {
        // Almost always it is young, and nobody needs the row.
        let most_ms = i64::from(*self.sums.rules.safety.max_order_age_s).saturating_mul(1000);
        let age_ms = self.sums.now.since_ms(order.accepted_at).saturating_abs();
        if age_ms <= most_ms {
            return None;
        }
        self.ask(order, &leg.imposed, &[Standing::Order])
    }

    /// Returns the row of the first check that closes the entry.
    fn ask(&self, order: &Order, imposed: &Imposed, scopes: &[Standing]) -> Option<CheckRow> {
        let asked = SubmitOrder {
            strategy: order.strategy.clone(),
            symbol: order.symbol.clone(),
            side: order.side,
            size: order.size,
            order_type: OrderType::Market,
            price: None,
            stop_price: None,
            thesis_slug: order.thesis_slug.clone().or_else(no_thesis)?,
            planned_entry: Amount::ZERO,
            planned_stop: Amount::ZERO,
            target_price: None,
            time_in_force: order.time_in_force,
        };
        let context = Context {
            now: self.sums.now,
            requested_at: order.accepted_at,
            source: &order.source,
            order_id: order.order_id,
            halted: imposed.halted.as_deref(),
            unheard: imposed.unheard.as_deref(),
            messages: Messages::default(),
            clock_fault: self.clock_fault.as_deref(),
            rulebook_fault: self.rulebook_fault.as_deref(),
            closed_order: None,
            key_id: None,
            key_fault: imposed.key_fault.as_deref(),
            paused: imposed.paused.as_deref(),
            limit_factor: imposed.limit_factor,
        };
        let subject = Subject::of_entry(&asked, &context, self.sums.anew());
        scopes
            .iter()
            .find_map(|scope| checks::closed(&subject, *scope))
    }
}

/// The thesis of an entry that names none, which no entry that was accepted does: no such thesis
/// exists.
fn no_thesis() -> Option<ThesisSlug> {
    ThesisSlug::parse("none").ok()
}

/// A sum that a limit bounds.
enum Measure<'a> {
    /// The risk of a leg on one side.
    Trade(&'a Symbol, &'a StrategyName, Side),
    /// The worst case of a symbol.
    Position(&'a Symbol),
    /// The worst cases of all symbols.
    Total,
    /// What may come to be held in a direction.
    Direction(Side),
    /// The worst cases of a group of symbols.
    Group(&'a str),
    /// The worst cases of the legs of a strategy.
    Strategy(&'a StrategyName),
    /// The risk of everything open.
    Risk,
    /// The same, compared with what may be lost.
    Budget,
    /// What a jump of the prices loses.
    Gap,
    /// What entries turn over within the day.
    Turnover,
    /// Pairs of symbol and strategy.
    Pairs,
    /// Open orders.
    Orders,
    /// Cash that working entries take.
    Cash,
}

struct Guard<'a> {
    sums: Sums<'a>,
    margin: Amount,
    pulls: Vec<Pull<'a>>,
}

impl<'a> Guard<'a> {
    fn new(book: &'a Book, rules: &'a Rulebook, now: Time, margin: Amount) -> Guard<'a> {
        Guard {
            sums: Sums::new(book, rules, now),
            margin,
            pulls: Vec::new(),
        }
    }

    fn pull(&mut self, order: &'a Order, why: Why) {
        self.sums.leave_out(order.order_id, true);
        self.pulls.push(Pull { order, why });
    }

    /// Pulls what may fill at a venue while a price that a sum needs has been missing for too long.
    fn pull_blind(&mut self, working: &[&'a Order]) {
        let at_venue: Vec<&Order> = working
            .iter()
            .copied()
            .filter(|order| order.at_venue.is_some())
            .filter(|order| self.sums.counts(order.order_id))
            .collect();
        let is_blind = |open: &Open| open.market.is_err() && self.is_blind(open.symbol);
        if at_venue.is_empty() || !self.sums.symbols().iter().any(is_blind) {
            return;
        }
        for order in at_venue {
            let check = "max_total_exposure".to_owned();
            let (value, limit) = (None, None);
            let why = Why {
                check,
                value,
                limit,
            };
            self.pull(order, why);
        }
    }

    /// Whether the price of a symbol has been missing or stale for `blind_s`.
    fn is_blind(&self, symbol: &Symbol) -> bool {
        let (rules, now) = (self.sums.rules, self.sums.now);
        let Some(instrument) = rules.instruments.get(symbol) else {
            return true;
        };
        let blind_ms = i64::from(*rules.safety.blind_s).saturating_mul(1000);
        let most_ms = age_max_ms(instrument, &rules.safety).saturating_add(blind_ms);
        let seen = self.sums.book.two_sided(instrument);
        seen.is_none_or(|seen| now.since_ms(seen.time).saturating_abs() > most_ms)
    }

    /// Returns the sums that a check bounds, where there are entries like these.
    fn measures(&self, check: &str, firsts: &[&'a Order]) -> Vec<Measure<'a>> {
        let mut all: Vec<Measure<'a>> = Vec::new();
        let orders = || firsts.iter().copied();
        match check {
            "max_single_trade_risk" => {
                let mut legs: Vec<_> = orders()
                    .map(|order| (&order.symbol, &order.strategy, order.side == Side::Buy))
                    .collect();
                legs.sort_unstable();
                legs.dedup();
                let side = |buys| if buys { Side::Buy } else { Side::Sell };
                let legs = legs.into_iter();
                all.extend(
                    legs.map(|(symbol, strategy, buys)| {
                        Measure::Trade(symbol, strategy, side(buys))
                    }),
                );
            }
            "max_single_position" => {
                let symbols: BTreeSet<&Symbol> = orders().map(|order| &order.symbol).collect();
                all.extend(symbols.into_iter().map(Measure::Position));
            }
            "max_total_exposure" => all.push(Measure::Total),
            "same_direction_exposure" => {
                all.extend([Side::Buy, Side::Sell].map(Measure::Direction));
            }
            "correlated_group" => {
                let rules = self.sums.rules;
                let groups: BTreeSet<&str> = orders()
                    .filter_map(|order| rules.instruments.get(&order.symbol)?.group.as_deref())
                    .collect();
                all.extend(groups.into_iter().map(Measure::Group));
            }
            "strategy_allocation" => {
                let names: BTreeSet<&StrategyName> =
                    orders().map(|order| &order.strategy).collect();
                all.extend(names.into_iter().map(Measure::Strategy));
            }
            "max_portfolio_risk" => all.push(Measure::Risk),
            "loss_budget" => all.push(Measure::Budget),
            "gap_budget" => all.push(Measure::Gap),
            "daily_turnover" => all.push(Measure::Turnover),
            "max_open_positions" => all.push(Measure::Pairs),
            "max_open_orders" => all.push(Measure::Orders),
            "buying_power" => all.push(Measure::Cash),
            _ => {}
        }
        all
    }

    /// Pulls the newest entries that may be pulled, of those of which `is_of` holds, until the sum is
    /// within its limit and margin or none of them lowers it.
    fn pull_while_above(
        &mut self,
        measure: &Measure<'a>,
        factor: Option<Amount>,
        is_of: &dyn Fn(&Order) -> bool,
    ) {
        while let Some((value, limit)) = self.above(measure, factor) {
            let part: Vec<&'a Order> = self
                .sums
                .counted()
                .rev()
                .map(|entry| entry.order)
                .filter(|order| measure.counts(order, self.sums.rules) && is_of(order))
                .collect();
            let Some(order) = self.newest_that_lowers(measure, value, &part) else {
                return;
            };
            let why = Why {
                check: measure.check().to_owned(),
                value: Some(value),
                limit: Some(limit),
            };
            self.pull(order, why);
        }
    }

    /// Returns the newest entry without which the sum is lower; if it takes several of them, as where
    /// both sides of a symbol are equal, the newest.
    fn newest_that_lowers(
        &mut self,
        measure: &Measure<'a>,
        value: Amount,
        part: &[&'a Order],
    ) -> Option<&'a Order> {
        for order in part {
            if self.is_lower_without(measure, value, &[order]) {
                return Some(order);
            }
        }
        part.first()
            .filter(|_| self.is_lower_without(measure, value, part))
            .copied()
    }

    fn is_lower_without(&mut self, measure: &Measure<'a>, value: Amount, part: &[&Order]) -> bool {
        for order in part {
            self.sums.leave_out(order.order_id, true);
        }
        let without = self.value(measure);
        for order in part {
            self.sums.leave_out(order.order_id, false);
        }
        without.is_some_and(|without| without < value)
    }

    /// Returns value and limit of a sum that is above its limit and margin.
    fn above(&self, measure: &Measure<'a>, factor: Option<Amount>) -> Option<(Amount, Amount)> {
        // Often there is no limit, and nobody needs the sum.
        let limit = self.limit(measure, factor)?;
        let value = self.value(measure)?;
        // A limit below 0 has no margin.
        let more = limit.max(Amount::ZERO).checked_mul(self.margin)?;
        (value > limit.checked_add(more)?).then_some((value, limit))
    }

    /// Returns the sum. `None` if it cannot be computed.
    fn value(&self, measure: &Measure<'a>) -> Option<Amount> {
        let sums = &self.sums;
        match measure {
            Measure::Trade(symbol, strategy, side) => {
                let part = sums.counted().filter(|entry| {
                    entry.order.side == *side && entry.order.is_of(strategy, symbol)
                });
                let held = sums.position_risk(symbol, strategy, *side)?;
                add(held, part.map(|entry| entry.risk.clone().ok()))
            }
            Measure::Position(symbol) => {
                let mut open = sums.symbols().iter();
                match open.find(|open| open.symbol == *symbol) {
                    Some(open) => open.sides.as_ref().ok().map(|sides| sides.worst),
                    None => Some(Amount::ZERO),
                }
            }
            Measure::Total => Some(sums.sides(|_| true).ok()?.worst),
            Measure::Gap => {
                let all = sums.sides(|_| true).ok()?.worst;
                all.checked_mul(*sums.rules.safety.stress_gap)
            }
            Measure::Direction(side) => {
                let sides = sums.sides(|_| true).ok()?;
                Some(match side {
                    Side::Buy => sides.long,
                    Side::Sell => sides.short,
                })
            }
            Measure::Group(group) => {
                let is_in = |open: &Open| is_in(open.symbol, group, sums.rules);
                Some(sums.sides(is_in).ok()?.worst)
            }
            Measure::Strategy(name) => sums.of_strategy(name, |_| true).ok(),
            Measure::Risk | Measure::Budget => sums.open_risk().ok(),
            Measure::Turnover => sums.turnover().ok(),
            Measure::Pairs => whole(sums.open_legs()),
            Measure::Orders => whole(sums.open_orders()),
            Measure::Cash => sums.taken().ok(),
        }
    }

    /// Returns the limit of the sum, reduced by `factor` where a reduced strategy has less. `None` if
    /// there is none or it cannot be computed.
    fn limit(&self, measure: &Measure<'a>, factor: Option<Amount>) -> Option<Amount> {
        let (sums, safety) = (&self.sums, &self.sums.rules.safety);
        let of_base = |fraction: Amount| sums.capital_base()?.checked_mul(fraction);
        let limit = match measure {
            Measure::Trade(..) => of_base(*safety.max_single_trade_risk),
            Measure::Position(_) => of_base(*safety.max_single_position),
            Measure::Total => of_base(*safety.max_total_exposure),
            Measure::Direction(_) => of_base(safety.same_direction()),
            Measure::Group(_) => of_base(safety.correlated_group()),
            Measure::Strategy(name) => of_base(*sums.rules.strategies.get(*name)?.allocation?),
            Measure::Risk => of_base(*safety.max_portfolio_risk),
            Measure::Budget => checks::left_to_lose(sums).ok().map(|(left, _)| left),
            Measure::Gap => checks::week_left(sums).ok(),
            Measure::Turnover => return of_base(*safety.max_daily_turnover),
            Measure::Pairs => return Some(Amount::from(safety.max_open_positions)),
            Measure::Orders => return Some(Amount::from(safety.max_open_orders)),
            Measure::Cash => {
                return sums.free().ok()?.checked_add(sums.taken().ok()?);
            }
        }?;
        match factor {
            Some(factor) => limit.checked_mul(factor),
            None => Some(limit),
        }
    }
}

impl Measure<'_> {
    /// The check that bounds the sum.
    fn check(&self) -> &'static str {
        match self {
            Measure::Trade(..) => "max_single_trade_risk",
            Measure::Position(_) => "max_single_position",
            Measure::Total => "max_total_exposure",
            Measure::Direction(_) => "same_direction_exposure",
            Measure::Group(_) => "correlated_group",
            Measure::Strategy(_) => "strategy_allocation",
            Measure::Risk => "max_portfolio_risk",
            Measure::Budget => "loss_budget",
            Measure::Gap => "gap_budget",
            Measure::Turnover => "daily_turnover",
            Measure::Pairs => "max_open_positions",
            Measure::Orders => "max_open_orders",
            Measure::Cash => "buying_power",
        }
    }

    /// Whether an entry may be a part of the sum.
    fn counts(&self, order: &Order, rules: &Rulebook) -> bool {
        match self {
            Measure::Trade(symbol, strategy, side) => {
                order.side == *side && order.is_of(strategy, symbol)
            }
            Measure::Position(symbol) => order.symbol == **symbol,
            Measure::Direction(side) => order.side == *side,
            Measure::Group(group) => is_in(&order.symbol, group, rules),
            Measure::Strategy(name) => order.strategy == **name,
            Measure::Total
            | Measure::Risk
            | Measure::Budget
            | Measure::Gap
            | Measure::Turnover
            | Measure::Pairs
            | Measure::Orders
            | Measure::Cash => true,
        }
    }
}

fn is_in(symbol: &Symbol, group: &str, rules: &Rulebook) -> bool {
    let instrument = rules.instruments.get(symbol);
    instrument.is_some_and(|found| found.group.as_deref() == Some(group))
}

fn whole(count: usize) -> Option<Amount> {
    i64::try_from(count).ok().map(Amount::from_i64)
}

fn add(to: Amount, mut all: impl Iterator<Item = Option<Amount>>) -> Option<Amount> {
    all.try_fold(to, |sum, one| sum.checked_add(one?))
}
