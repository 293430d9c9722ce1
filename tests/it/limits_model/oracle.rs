//! Every check of docs/trading.md a second time, naively and in exact rationals: its result for a
//! request.

mod account;
mod conduct;
mod terms;

use std::collections::BTreeMap;

use spoolgate_rules::Rulebook;
use spoolgate_rules::strategies::{Direction, Strategy, StrategyStatus};
use spoolgate_wire::ids::{Principal, StrategyName, Symbol, ThesisSlug};
use spoolgate_wire::orders::{OrderType, Side, SubmitOrder};

use crate::limits_model::memory::{Memory, periods};
use crate::limits_model::sums::{Both, Seen, Sums, Terms, larger, smaller};
use crate::paper_model::model::{FLATTEN, Id, Kind, ORDER, Owner, Role, STOP, Working};
use crate::paper_model::rational::Rat;
use crate::paper_model::sides::r;

/// The circumstances of a request.
#[derive(Clone, Debug)]
pub(super) struct Around {
    pub now_ms: i64,
    pub asked_ms: i64,
    pub source: String,
    pub is_halted: bool,
    pub is_clock_wrong: bool,
    pub is_rulebook_wrong: bool,
    /// Control does not let the strategy enter.
    pub is_paused: bool,
    /// The factor for limits on size and risk.
    pub factor: Rat,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub passed: bool,
    /// Whether it passed with no more than a unit to spare.
    pub is_near: bool,
    /// Whether the row only informs.
    pub is_told: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Entry,
    Exit,
    Flip,
}

pub(super) type Rows = Vec<(&'static str, Said)>;

fn plain(passed: bool) -> Said {
    Said {
        passed,
        is_near: false,
        is_told: false,
    }
}

fn at_most(value: &Rat, limit: &Rat, unit: &Rat) -> Said {
    let passed = value <= limit;
    Said {
        passed,
        is_near: passed && limit.minus(value) <= *unit,
        is_told: false,
    }
}

/// Whether less than the unit is left; the unit must not be 0.
fn above(value: &Rat, limit: &Rat, unit: &Rat) -> Said {
    let passed = value > limit;
    Said {
        passed,
        is_near: passed && value.minus(limit) <= *unit,
        is_told: false,
    }
}

fn both_of(one: Said, other: Said) -> Said {
    let passed = one.passed && other.passed;
    Said {
        passed,
        is_near: passed && (one.is_near || other.is_near),
        is_told: false,
    }
}

fn whole(count: i64) -> Rat {
    Rat::of(&count.to_string())
}

fn counted(count: usize, limit: u32) -> Said {
    at_most(
        &whole(i64::try_from(count).unwrap()),
        &whole(i64::from(limit)),
        &Rat::zero(),
    )
}

fn known(said: Option<Said>) -> Said {
    said.unwrap_or(plain(false))
}

pub(super) fn is_on(value: &Rat, step: &Rat) -> bool {
    step.is_zero() || value.floor_to(step) == *value
}

/// A unit of prices.
pub(super) fn price_step(tick: &Rat) -> Rat {
    if tick.is_zero() {
        Rat::of("0.01")
    } else {
        tick.clone()
    }
}

fn middle(seen: &Seen) -> Rat {
    seen.bid.plus(&seen.ask).over(&Rat::of("2"))
}

/// An order that the oracle judges.
pub(super) struct Judge<'a> {
    pub sums: Sums<'a>,
    pub around: &'a Around,
    pub order: &'a SubmitOrder,
    pub size: Rat,
}

pub(super) fn owner_of(order: &SubmitOrder) -> Owner {
    (order.symbol.to_string(), order.strategy.to_string())
}

pub(super) fn terms_of(order: &SubmitOrder) -> Terms {
    let (kind, own) = match order.order_type {
        OrderType::Market => (Kind::Market, None),
        OrderType::Limit => (Kind::Limit, order.price.map(r)),
        OrderType::Stop => (Kind::Stop, order.stop_price.map(r)),
    };
    Terms {
        buys: order.side == Side::Buy,
        kind,
        own,
    }
}

fn is_ours(rules: &Rulebook, source: &str, strategy: &StrategyName) -> bool {
    let rule = rules.principals.get(&Principal::parse(source).unwrap());
    rule.is_some_and(|rule| rule.strategies.contains(strategy))
}

/// Whether the request was signed at most this long ago and at most this far ahead.
fn freshness(around: &Around, age_max_s: i64, ahead_max_s: i64) -> Said {
    let (age, unit) = (around.now_ms - around.asked_ms, Rat::one());
    let oldest = at_most(&whole(age), &whole(age_max_s * 1000), &unit);
    both_of(
        oldest,
        at_most(&whole(-age), &whole(ahead_max_s * 1000), &unit),
    )
}

/// Exits, cancels and tightens may be off by `exit_age_max_s` in either direction.
fn late_freshness(rules: &Rulebook, around: &Around) -> Said {
    let most = i64::from(*rules.safety.exit_age_max_s);
    freshness(around, most.max(usual_age_s(rules, &around.source)), most)
}

fn usual_age_s(rules: &Rulebook, source: &str) -> i64 {
    let rule = rules.principals.get(&Principal::parse(source).unwrap());
    let own = rule.and_then(|rule| rule.request_age_max_s);
    i64::from(own.map_or(rules.safety.request_age_max_s, |own| own.get()))
}

impl<'a> Judge<'a> {
    pub(super) fn of(
        memory: &'a Memory,
        rules: &'a Rulebook,
        around: &'a Around,
        order: &'a SubmitOrder,
    ) -> Judge<'a> {
        let sums = Sums {
            memory,
            rules,
            now_ms: around.now_ms,
        };
        Judge {
            sums,
            around,
            order,
            size: r(order.size),
        }
    }

    pub(super) fn sized(&self, size: Rat) -> Judge<'a> {
        Judge {
            size,
            sums: self.sums,
            ..*self
        }
    }

    fn symbol(&self) -> &'a str {
        self.order.symbol.as_str()
    }

    fn strategy(&self) -> Option<&'a Strategy> {
        self.sums.rules.strategies.get(&self.order.strategy)
    }

    pub(super) fn buys(&self) -> bool {
        self.order.side == Side::Buy
    }

    pub(super) fn class(&self) -> Class {
        let (paper, owner) = (&self.sums.memory.paper, owner_of(self.order));
        if !paper.holds_against(&owner, self.buys()) {
            return Class::Entry;
        }
        if self.size <= paper.capacity(&owner, self.buys(), self.terms().kind) {
            Class::Exit
        } else {
            Class::Flip
        }
    }

    fn seen(&self) -> Option<Seen> {
        self.sums.fresh(self.symbol())
    }

    fn terms(&self) -> Terms {
        terms_of(self.order)
    }

    pub(super) fn worst(&self) -> Option<Rat> {
        Some(
            self.terms()
                .worst_entry(&self.seen()?, &r(*self.sums.rules.safety.entry_slippage)),
        )
    }

    fn stop(&self) -> Rat {
        r(self.order.planned_stop)
    }

    fn step(&self) -> Rat {
        self.sums
            .rule(self.symbol())
            .map_or_else(Rat::one, |rule| price_step(&r(*rule.tick)))
    }

    /// Returns a fraction of the capital base in the current risk mode, in money.
    fn of_base(&self, fraction: spoolgate_wire::amount::Amount) -> Option<Rat> {
        Some(
            self.sums
                .base()?
                .times(&r(fraction))
                .times(&self.around.factor),
        )
    }

    fn notional_at(&self, price: &Rat) -> Option<Rat> {
        Some(
            price
                .times(&self.size)
                .times(&self.sums.multiplier(self.symbol())?),
        )
    }

    /// Returns the minimum price at which units of the order's symbol count.
    pub(super) fn floor(&self) -> Option<(String, Rat)> {
        Some((
            self.symbol().to_owned(),
            self.terms().notional_price(&self.seen()?),
        ))
    }

    fn notional(&self) -> Option<Rat> {
        self.notional_at(&self.terms().notional_price(&self.seen()?))
    }

    /// Returns all rows in their order.
    pub(super) fn rows(&self) -> Rows {
        match self.class() {
            Class::Entry => self.entry_rows(),
            _ => self.exit_rows(),
        }
    }

    fn exit_rows(&self) -> Rows {
        let told = |said: Said| Said {
            passed: true,
            is_near: false,
            is_told: !said.passed,
        };
        let told_if = |said: Option<Said>| said.map(told);
        let rows = [
            ("request_freshness", Some(self.exit_freshness())),
            ("instrument_allowed", Some(told(self.instrument_allowed()))),
            ("strategy_active", Some(self.strategy_active())),
            (
                "arithmetic_range",
                Some(told(known(self.arithmetic_range()))),
            ),
            ("price_tick", Some(self.price_tick())),
            ("size_lot", Some(self.size_lot())),
            (
                "target_valid",
                self.order.target_price.map(|_| told(plain(false))),
            ),
            ("price_collar", Some(told(known(self.price_collar())))),
            ("market_data", Some(told(known(self.market_data())))),
            (
                "daily_loss_halt",
                told_if(Some(known(self.daily_loss_halt()))),
            ),
            (
                "weekly_loss_halt",
                told_if(Some(known(self.weekly_loss_halt()))),
            ),
            ("drawdown_halt", told_if(Some(known(self.drawdown_halt())))),
            ("manual_halt", Some(told(plain(!self.around.is_halted)))),
            ("self_cross", Some(told(self.self_cross()))),
            ("symbol_halt", Some(told(self.symbol_halt()))),
            ("reduce_only", Some(self.reduce_only())),
        ];
        rows.into_iter()
            .filter_map(|(name, said)| Some((name, said?)))
            .collect()
    }

    fn entry_rows(&self) -> Rows {
        let rows = [
            ("request_freshness", Some(self.entry_freshness())),
            ("clock", Some(plain(!self.around.is_clock_wrong))),
            ("rulebook", Some(plain(!self.around.is_rulebook_wrong))),
            ("duplicate_order", Some(self.duplicate_order())),
            ("instrument_allowed", Some(self.instrument_allowed())),
            ("strategy_active", Some(self.strategy_active())),
            ("thesis_valid", Some(known(self.thesis_valid()))),
            ("arithmetic_range", Some(known(self.arithmetic_range()))),
            ("price_tick", Some(self.price_tick())),
            ("size_lot", Some(self.size_lot())),
            ("min_notional", Some(known(self.min_notional()))),
            ("max_order_value", Some(known(self.max_order_value()))),
            ("max_order_size", Some(known(self.max_order_size()))),
            ("stop_required", Some(known(self.stop_required()))),
            ("stop_hostable", Some(known(self.stop_hostable()))),
            ("stop_distance", Some(known(self.stop_distance()))),
            (
                "target_valid",
                self.order
                    .target_price
                    .map(|target| known(self.target_valid(&r(target)))),
            ),
            ("price_collar", Some(known(self.price_collar()))),
            ("slippage_to_plan", Some(known(self.slippage_to_plan()))),
            ("market_data", Some(known(self.market_data()))),
            (
                "max_single_trade_risk",
                Some(known(self.max_single_trade_risk())),
            ),
            (
                "max_single_position",
                Some(known(self.max_single_position())),
            ),
            ("max_total_exposure", Some(known(self.max_total_exposure()))),
            (
                "same_direction_exposure",
                Some(known(self.same_direction_exposure())),
            ),
            (
                "correlated_group",
                self.group()
                    .map(|group| known(self.correlated_group(&group))),
            ),
            (
                "strategy_allocation",
                self.strategy()
                    .and_then(|it| it.allocation)
                    .map(|of| known(self.allocation(*of))),
            ),
            ("max_portfolio_risk", Some(known(self.max_portfolio_risk()))),
            ("loss_budget", Some(known(self.loss_budget()))),
            ("gap_budget", Some(known(self.gap_budget()))),
            ("daily_turnover", Some(known(self.daily_turnover()))),
            ("daily_loss_halt", Some(known(self.daily_loss_halt()))),
            ("weekly_loss_halt", Some(known(self.weekly_loss_halt()))),
            ("drawdown_halt", Some(known(self.drawdown_halt()))),
            ("manual_halt", Some(plain(!self.around.is_halted))),
            ("max_open_positions", Some(self.max_open_positions())),
            ("max_open_orders", Some(self.max_open_orders())),
            ("buying_power", Some(known(self.buying_power()))),
            (
                "liquidity_participation",
                self.sums
                    .rules
                    .safety
                    .max_volume_share
                    .map(|share| known(self.participation(&r(*share)))),
            ),
            ("time_window", Some(self.time_window())),
            ("order_rate", Some(self.order_rate())),
            ("repeated_execution", Some(self.repeated_execution())),
            ("loss_streak", Some(self.loss_streak())),
            // No venue of the model refuses an order.
            ("reject_streak", Some(plain(true))),
            ("cooldown", Some(self.cooldown())),
            ("self_cross", Some(self.self_cross())),
            ("symbol_halt", Some(self.symbol_halt())),
        ];
        rows.into_iter()
            .filter_map(|(name, said)| Some((name, said?)))
            .collect()
    }

    fn entry_freshness(&self) -> Said {
        let rules = self.sums.rules;
        let ahead_max_s = i64::from(rules.safety.request_ahead_max_s);
        freshness(
            self.around,
            usual_age_s(rules, &self.around.source),
            ahead_max_s,
        )
    }

    /// An exit beyond the usual age passes only if the position has not grown since it was signed.
    fn exit_freshness(&self) -> Said {
        let story = self.sums.memory.stories.get(&owner_of(self.order));
        let has_grown = story.is_none_or(|story| story.grown_ms >= self.around.asked_ms);
        let age_ms = self.around.now_ms - self.around.asked_ms;
        let is_usual = age_ms <= usual_age_s(self.sums.rules, &self.around.source) * 1000;
        both_of(
            plain(is_usual || !has_grown),
            late_freshness(self.sums.rules, self.around),
        )
    }

    fn duplicate_order(&self) -> Said {
        let terms = self.terms();
        let same = self.sums.memory.accepted.iter().filter(|other| {
            other.owner == owner_of(self.order)
                && (other.buys, other.kind, &other.own) == (terms.buys, terms.kind, &terms.own)
                && other.size == self.size
        });
        let window_ms = i64::from(*self.sums.rules.safety.duplicate_window_s) * 1000;
        let ages: Vec<i64> = same.map(|other| self.around.now_ms - other.at_ms).collect();
        let passed = ages.iter().all(|age| *age > window_ms);
        let is_near = passed && ages.iter().any(|age| *age <= window_ms + 1);
        Said {
            is_near,
            ..plain(passed)
        }
    }

    fn instrument_allowed(&self) -> Said {
        let is_listed = self.strategy().is_some_and(|it| {
            it.instruments.contains(&self.order.symbol) && it.directions.contains(&self.direction())
        });
        let is_asked = self.class() == Class::Entry;
        plain((is_listed || !is_asked) && self.sums.rule(self.symbol()).is_some())
    }

    fn strategy_active(&self) -> Said {
        let is_ours = is_ours(self.sums.rules, &self.around.source, &self.order.strategy);
        let may_enter = !self.around.is_paused
            && self
                .strategy()
                .is_some_and(|strategy| strategy.status != StrategyStatus::Paused);
        plain(is_ours && (self.class() != Class::Entry || may_enter))
    }

    fn thesis_valid(&self) -> Option<Said> {
        let slug = self.order.thesis_slug.as_str();
        let thesis = self
            .sums
            .rules
            .theses
            .get(&ThesisSlug::parse(slug).unwrap())?;
        let direction = self.direction();
        let matches = thesis.strategy == self.order.strategy
            && thesis.symbol == self.order.symbol
            && thesis.direction == direction;
        let until = above(
            &whole(thesis.expires.ms()),
            &whole(self.around.now_ms),
            &Rat::one(),
        );
        let unit = self.step();
        let mut said = both_of(plain(matches && !self.sums.memory.is_in_use(slug)), until);
        said = both_of(said, plain(!self.sums.memory.refuted.contains(slug)));
        let mid = self.sums.quoted(self.symbol()).map(|seen| middle(&seen));
        let prices: Vec<Rat> = self.last_price().into_iter().chain(mid).collect();
        // Without any price, the result is unknown.
        said = both_of(said, plain(!prices.is_empty()));
        for price in &prices {
            if let Some(level) = thesis.invalid_below {
                said = both_of(said, above(price, &r(*level), &unit));
            }
            if let Some(level) = thesis.invalid_above {
                said = both_of(said, above(&price.negated(), &r(*level).negated(), &unit));
            }
        }
        Some(said)
    }

    fn direction(&self) -> Direction {
        if self.buys() {
            Direction::Long
        } else {
            Direction::Short
        }
    }

    fn last_price(&self) -> Option<Rat> {
        self.sums
            .memory
            .last
            .get(self.symbol())
            .map(|last| last.price.clone())
    }

    /// At the last known price, however old.
    fn arithmetic_range(&self) -> Option<Said> {
        let seen = self
            .sums
            .quoted(self.symbol())
            .map(|seen| self.terms().notional_price(&seen));
        let value = seen.or(self.terms().own)?.times(&self.size);
        let all = value.times(&self.sums.multiplier(self.symbol())?);
        Some(plain(value.is_held() && all.is_held()))
    }

    /// Whether everything computed from the order is short enough to be held exactly.
    pub(super) fn is_short(&self) -> bool {
        let digits = |amount: String| amount.bytes().filter(u8::is_ascii_digit).count();
        let prices = [
            self.order.price,
            self.order.stop_price,
            Some(self.order.planned_stop),
        ];
        digits(self.order.size.to_string()) <= 14
            && prices
                .into_iter()
                .flatten()
                .all(|price| digits(price.to_string()) <= 9)
    }

    fn market_data(&self) -> Option<Said> {
        let (safety, seen) = (&self.sums.rules.safety, self.sums.quoted(self.symbol())?);
        let (age, age_max) = (
            self.around.now_ms - seen.ms,
            self.sums.age_max_ms(self.symbol())?,
        );
        let fresh = at_most(&whole(age), &whole(age_max), &Rat::one());
        let mid = middle(&seen);
        let spread = at_most(
            &seen.ask.minus(&seen.bid),
            &mid.times(&r(*safety.max_spread)),
            &self.step(),
        );
        let sound = plain(seen.bid.is_positive() && seen.ask >= seen.bid);
        // A stale trade says nothing about the quote; if checks use quotes and bars fill, it must
        // not be stale.
        let last = self.sums.memory.last.get(self.symbol());
        let last = last.filter(|last| {
            self.sums
                .age_max_ms(self.symbol())
                .is_some_and(|most| self.around.now_ms - last.ms <= most)
        });
        let near = match last.map(|last| &last.price) {
            Some(last) => {
                let most = last.times(&r(*safety.max_mid_deviation));
                at_most(&mid.minus(last).abs(), &most, &self.step())
            }
            None => plain(!self.sums.fills_apart(self.symbol())),
        };
        let believed = plain(!self.sums.memory.paper.waiting.contains_key(self.symbol()));
        let sound = both_of(sound, believed);
        Some(both_of(both_of(fresh, spread), both_of(sound, near)))
    }

    /// Returns value and limit, in money, of the rows about risk and cash.
    pub(super) fn figures(&self) -> [(&'static str, Option<Rat>, Option<Rat>); 4] {
        let safety = &self.sums.rules.safety;
        let takes = self.sums.takes(self.symbol(), &self.terms(), &self.size);
        [
            (
                "max_single_trade_risk",
                self.trade_risk(),
                self.of_base(*safety.max_single_trade_risk),
            ),
            (
                "max_portfolio_risk",
                self.all_risk(),
                self.of_base(*safety.max_portfolio_risk),
            ),
            ("loss_budget", self.all_risk(), self.left_to_lose()),
            ("buying_power", takes, self.sums.free_cash()),
        ]
    }

    /// Returns what may still be lost today or this week, whichever is less.
    pub(super) fn left_to_lose(&self) -> Option<Rat> {
        let safety = &self.sums.rules.safety;
        let day = r(*safety.max_daily_loss).plus(&self.day_profit()?);
        Some(smaller(&day.times(&self.around.factor), &self.week_left()?))
    }

    /// Returns what may still be lost this week.
    pub(super) fn week_left(&self) -> Option<Rat> {
        let week = r(*self.sums.rules.safety.max_weekly_loss).plus(&self.week_profit()?);
        Some(week.times(&self.around.factor))
    }

    /// Returns the resting limit orders of the same signer that the order would trade with.
    pub(super) fn crossed(&self) -> Vec<Working> {
        self.crossed_at(self.terms().own)
    }

    /// A limit order reaches up to its own price, a market order up to its worst entry, a stop
    /// order from its trigger up to its worst entry; if the market is unknown, every order on the
    /// other side counts.
    fn crossed_at(&self, own: Option<Rat>) -> Vec<Working> {
        let (memory, buys, worst) = (self.sums.memory, self.buys(), self.worst());
        let (from, to) = match self.order.order_type {
            OrderType::Limit => (None, own),
            OrderType::Market => (None, worst),
            OrderType::Stop => (own, worst),
        };
        let is_met = |price: &Rat| {
            // Sales are mirrored.
            let up = |price: &Rat| if buys { price.clone() } else { price.negated() };
            from.as_ref().is_none_or(|from| up(price) >= up(from))
                && to.as_ref().is_none_or(|to| up(price) <= up(to))
        };
        let others = memory.paper.orders.iter().filter(|other| {
            other.owner.0 == self.symbol()
                && other.buys != buys
                && other.kind == Kind::Limit
                && memory.sent[&other.id.0].0 == self.around.source
        });
        others
            .filter(|other| other.price.as_ref().is_some_and(is_met))
            .cloned()
            .collect()
    }

    fn self_cross(&self) -> Said {
        let passed = self.crossed().is_empty();
        let step = if self.buys() {
            self.step()
        } else {
            self.step().negated()
        };
        let further = self.terms().own.map(|own| own.plus(&step));
        let is_limit = self.order.order_type == OrderType::Limit;
        Said {
            is_near: passed && is_limit && !self.crossed_at(further).is_empty(),
            ..plain(passed)
        }
    }

    fn symbol_halt(&self) -> Said {
        plain(!self.sums.memory.paper.halted.contains(self.symbol()))
    }

    fn reduce_only(&self) -> Said {
        let capacity =
            self.sums
                .memory
                .paper
                .capacity(&owner_of(self.order), self.buys(), self.terms().kind);
        at_most(&self.size, &capacity, &Rat::zero())
    }
}

/// Returns begin and end of a window that is shown as `HH:MM to HH:MM UTC`, in time since midnight.
pub(super) fn span(shown: &str) -> (i64, i64) {
    let ms = |text: &str| {
        let (hours, minutes) = text.split_once(':').unwrap();
        (hours.parse::<i64>().unwrap() * 60 + minutes.parse::<i64>().unwrap()) * 60_000
    };
    let (from, to) = shown.trim_end_matches(" UTC").split_once(" to ").unwrap();
    (ms(from), ms(to))
}

/// A cancel: the order is open and belongs to the strategy, and it is neither a stop nor the
/// replacement of a refused stop; cancelling an ended order is a no-op. `ended` names its owner.
pub(super) fn cancel_rows(
    memory: &Memory,
    rules: &Rulebook,
    around: &Around,
    id: Id,
    ended: &BTreeMap<Id, String>,
) -> Rows {
    let order = memory.paper.find(id);
    let strategy = order
        .map(|order| order.owner.1.clone())
        .or_else(|| ended.get(&id).cloned());
    let may = match order {
        Some(order) => order.role != Role::Stop && order.id.1 != FLATTEN,
        None => ended.contains_key(&id),
    };
    about_order(rules, around, strategy, [("cancel_ok", plain(may))])
}

/// A tighten of an open stop, which may be named by its entry.
pub(super) fn tighten_rows(
    memory: &Memory,
    rules: &Rulebook,
    around: &Around,
    id: Id,
    new: &Rat,
) -> Rows {
    let sums = Sums {
        memory,
        rules,
        now_ms: around.now_ms,
    };
    let id = if id.1 == ORDER { (id.0, STOP) } else { id };
    let stop = memory
        .paper
        .find(id)
        .filter(|order| order.role == Role::Stop);
    let strategy = memory.paper.find(id).map(|order| order.owner.1.clone());
    let rule = memory
        .paper
        .find(id)
        .and_then(|stop| sums.rule(&stop.owner.0));
    let tick = rule.map_or_else(Rat::zero, |rule| r(*rule.tick));
    let said = stop.map_or(plain(false), |stop| {
        let old = stop.trigger.as_ref().unwrap();
        let step = price_step(&tick);
        // Upwards for a long position, downwards for a short one.
        let up = |price: &Rat| {
            if stop.buys {
                price.negated()
            } else {
                price.clone()
            }
        };
        let tighter = above(&up(new), &up(old), &step);
        let clear = sums
            .mark(&stop.owner.0, !stop.buys)
            .map_or(plain(true), |mark| above(&up(&mark), &up(new), &step));
        let same = Said {
            is_near: true,
            ..plain(*new == *old)
        };
        let moved = both_of(plain(new.is_positive()), both_of(tighter, clear));
        if stop.hit {
            plain(false)
        } else if same.passed {
            same
        } else {
            moved
        }
    });
    let on_tick = plain(is_on(new, &tick));
    about_order(
        rules,
        around,
        strategy,
        [("price_tick", on_tick), ("tighten_ok", said)],
    )
}

fn about_order<const N: usize>(
    rules: &Rulebook,
    around: &Around,
    strategy: Option<String>,
    more: [(&'static str, Said); N],
) -> Rows {
    let is_ours = strategy
        .is_some_and(|name| is_ours(rules, &around.source, &StrategyName::parse(&name).unwrap()));
    let late = late_freshness(rules, around);
    let mut rows = vec![
        ("request_freshness", late),
        ("strategy_active", plain(is_ours)),
    ];
    rows.extend(more);
    rows
}

/// Parses a symbol.
pub(super) fn symbol(name: &str) -> Symbol {
    Symbol::parse(name).unwrap()
}
