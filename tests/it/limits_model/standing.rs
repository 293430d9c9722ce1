//! Random runs on paper in which doors close, limits change, theses are refuted and prices jump.
//! After every event the entries that are no longer allowed were pulled, those and no others:
//! nothing inadmissible goes on working, no entry fills that a row's open or anything before it
//! made inadmissible, and exits within the capacity pass whatever is wrong.
//!
//! What is admissible is computed once more by [`asked`]. Not judged: what happens inside a row
//! after its open, such as a strategy that has executed too often by an earlier fill of the same
//! row; and, where two rows are used at once because the first was held, what each of them pulls.

mod asked;

use std::collections::{BTreeMap, BTreeSet};

use spoolgate_rules::Rulebook;
use spoolgate_rules::instruments::MarketSource;
use spoolgate_trading as trading;
use spoolgate_trading::book::{Last, Quote};
use spoolgate_trading::guard::{self, Impose, Imposed};
use spoolgate_trading::market_row::Row;
use spoolgate_trading::order::{Order, OrderEnd, OrderRole, Why};
use spoolgate_trading::requests::{Context, Messages, Verdict};
use spoolgate_trading::venue::{end_day, on_rows, open_periods};
use spoolgate_trading::{Book, Change};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{Leg, OrderId, Principal, StrategyName, Symbol, ThesisSlug};
use spoolgate_wire::orders::{CancelOrder, OrderType, Side, SubmitOrder, TightenStop, TimeInForce};
use spoolgate_wire::time::Time;

use crate::kit::{campaign, setting};
use crate::limits_model::home::{Files, LISTED, Listed, STRATEGIES, THESES, thesis};
use crate::limits_model::oracle::symbol;
use crate::paper_model::sides::{Random, a, steps};
use asked::{Asked, Gone, REDUCED};

/// Events of a run.
const EVENTS: usize = 200;

/// Rulebooks that runs are drawn from.
const RULEBOOKS: u64 = 128;

/// Shortly before the windows of the rulebooks; one thesis of each kind expires within the run.
const START: &str = "2018-04-06T20:45:00Z";
const EXPIRES: &str = "2018-04-06T21:05:00Z";

/// The checks that pull.
const PULLING: [&str; 30] = [
    "clock",
    "rulebook",
    "instrument_allowed",
    "strategy_active",
    "thesis_valid",
    "max_single_trade_risk",
    "max_single_position",
    "max_total_exposure",
    "same_direction_exposure",
    "correlated_group",
    "strategy_allocation",
    "max_portfolio_risk",
    "loss_budget",
    "gap_budget",
    "daily_turnover",
    "daily_loss_halt",
    "weekly_loss_halt",
    "drawdown_halt",
    "manual_halt",
    "dead_man",
    "max_open_positions",
    "max_open_orders",
    "buying_power",
    "time_window",
    "repeated_execution",
    "loss_streak",
    "reject_streak",
    "cooldown",
    "order_age",
    "symbol_halt",
];

/// What happened, by its name.
type Seen = BTreeMap<String, u64>;

/// What is closed besides the book and the rules.
#[derive(Clone, Debug, Default)]
struct Closed {
    clock: bool,
    rulebook: bool,
    halted: BTreeSet<&'static str>,
    unheard: BTreeSet<&'static str>,
    paused: BTreeSet<&'static str>,
    reduced: BTreeSet<&'static str>,
    revoked: BTreeSet<&'static str>,
}

impl Impose for Closed {
    fn clock_fault(&self) -> Option<String> {
        self.clock.then(|| "clock".to_owned())
    }

    fn rulebook_fault(&self) -> Option<String> {
        self.rulebook.then(|| "rules".to_owned())
    }

    fn on(&self, order: &Order) -> Imposed {
        let (source, strategy) = (order.source.as_str(), order.strategy.as_str());
        let key = order.key_id.as_deref();
        let told = |is_closed: bool| is_closed.then(|| "closed".to_owned());
        Imposed {
            halted: told(self.halted.contains(source)),
            unheard: told(self.unheard.contains(source)),
            paused: told(self.paused.contains(strategy)),
            limit_factor: self.reduced.contains(strategy).then(|| a(REDUCED)),
            key_fault: told(key.is_some_and(|key| self.revoked.contains(key))),
        }
    }
}

struct Run<'a> {
    seed: u64,
    random: Random,
    book: Book,
    rules: Rulebook,
    /// The rules as they were at the beginning, and all that there are.
    kept: &'a Rulebook,
    rulebooks: &'a [Rulebook],
    closed: Closed,
    now: Time,
    seq: u64,
    event: usize,
    near: BTreeMap<&'static str, i64>,
    seen: Seen,
}

fn is_pull(change: &Change) -> bool {
    matches!(
        change,
        Change::OrderClosed {
            end: OrderEnd::Pulled,
            ..
        }
    )
}

/// Why a change pulls an entry.
fn why(change: &Change) -> Option<&Why> {
    match change {
        Change::OrderClosed { why, .. } => why.as_ref(),
        _ => None,
    }
}

/// The entries that these changes pull, by id.
fn pulled(changes: &[Change]) -> BTreeSet<OrderId> {
    let ids = changes.iter().filter_map(|change| match change {
        Change::OrderClosed {
            order_id,
            end: OrderEnd::Pulled,
            ..
        } => Some(*order_id),
        _ => None,
    });
    ids.filter(|id| id.leg == Leg::Order).collect()
}

/// The number of fills of entries.
fn filled(changes: &[Change]) -> usize {
    let roles = changes.iter().filter_map(|change| match change {
        Change::OrderFilled(fill) => Some(fill.role),
        _ => None,
    });
    roles.filter(|role| *role == OrderRole::Entry).count()
}

fn ids(gone: &[Gone]) -> BTreeSet<OrderId> {
    gone.iter().map(|(id, _)| *id).collect()
}

fn after(book: &Book, changes: &[Change]) -> Book {
    let mut book = book.clone();
    changes
        .iter()
        .for_each(|change| book.apply(change).unwrap());
    book
}

impl<'a> Run<'a> {
    fn new(seed: u64, rulebooks: &'a [Rulebook]) -> Run<'a> {
        let mut random = Random::of(seed);
        // The first numbers of neighbouring seeds are similar, so skip them.
        (0..20).for_each(|_| _ = random.one_in(2));
        let kept = random.pick(rulebooks);
        let mut run = Run {
            seed,
            random,
            book: Book::default(),
            rules: kept.clone(),
            kept,
            rulebooks,
            closed: Closed::default(),
            now: Time::parse(START).unwrap(),
            seq: 0,
            event: 0,
            near: LISTED
                .iter()
                .map(|listed| (listed.symbol, listed.price))
                .collect(),
            seen: Seen::new(),
        };
        run.apply(&[Change::AccountAdjusted { amount: a("5000") }]);
        for listed in &LISTED {
            run.row(listed, true);
            run.row(listed, false);
        }
        run
    }

    fn context(&self) -> String {
        format!("seed {} event {} at {}", self.seed, self.event, self.now)
    }

    fn count(&mut self, what: &str) {
        *self.seen.entry(what.to_owned()).or_default() += 1;
    }

    fn apply(&mut self, changes: &[Change]) {
        changes
            .iter()
            .for_each(|change| self.book.apply(change).unwrap());
    }

    fn asked(&self) -> Asked<'_> {
        let (book, rules, closed, now) = (&self.book, &self.rules, &self.closed, self.now);
        Asked {
            book,
            rules,
            closed,
            now,
        }
    }

    fn ask<T>(&mut self, strategy: &str, run: impl FnOnce(&Run, &Context) -> T) -> T {
        self.seq += 1;
        let (_, agent) = STRATEGIES
            .iter()
            .find(|(name, _)| *name == strategy)
            .unwrap();
        let source = Principal::parse(agent).unwrap();
        let closed = &self.closed;
        let key = ["k1", "k2"][usize::try_from(self.seq % 2).unwrap()];
        let context = Context {
            now: self.now,
            requested_at: self.now,
            source: &source,
            order_id: OrderId::of_line(self.seq),
            halted: closed.halted.contains(agent).then_some("halted"),
            unheard: closed.unheard.contains(agent).then_some("unheard"),
            messages: Messages::default(),
            clock_fault: closed.clock.then_some("clock"),
            rulebook_fault: closed.rulebook.then_some("rules"),
            closed_order: None,
            key_id: Some(key),
            key_fault: closed.revoked.contains(key).then_some("revoked"),
            paused: closed.paused.contains(strategy).then_some("paused"),
            limit_factor: closed.reduced.contains(strategy).then(|| a(REDUCED)),
        };
        run(self, &context)
    }

    fn submit(&mut self, order: &SubmitOrder) -> Verdict {
        let strategy = order.strategy.to_string();
        let verdict = self.ask(&strategy, |run, ctx| {
            trading::submit(&run.book, &run.rules, order, ctx)
        });
        self.apply(&verdict.changes);
        verdict
    }

    fn entry(&mut self) {
        let listed = self.random.pick(&LISTED);
        let strategy = self.random.pick(&STRATEGIES).0;
        let buys = self.random.one_in(2);
        let near = self.near[listed.symbol];
        let reach = *self.random.pick(&[near / 150, near / 50]);
        let away = self.random.within(-reach, reach);
        let order_type = *self.random.pick(&[
            OrderType::Limit,
            OrderType::Limit,
            OrderType::Stop,
            OrderType::Market,
        ]);
        let own = if order_type == OrderType::Market {
            near
        } else {
            near + away
        };
        let by = self.random.within(near / 400, near / 80);
        let stop = steps(
            if buys {
                own.min(near) - by
            } else {
                own.max(near) + by
            },
            listed.price_step,
        );
        let own = steps(own, listed.price_step);
        let mut size = steps(self.random.within(5, 70), listed.size_step);
        // Often both sides of a symbol become equal, so that no entry alone lowers the worst case.
        if self.random.one_in(3) {
            let less = self.asked().missing(&symbol(listed.symbol), buys);
            size = less.unwrap_or(size);
        }
        let number = self.random.within(0, THESES - 1);
        let slug = thesis(strategy, listed.symbol, buys, number);
        let lasts = *self
            .random
            .pick(&[TimeInForce::Gtc, TimeInForce::Gtc, TimeInForce::Day]);
        let order = SubmitOrder {
            strategy: StrategyName::parse(strategy).unwrap(),
            symbol: symbol(listed.symbol),
            side: if buys { Side::Buy } else { Side::Sell },
            size,
            order_type,
            price: Some(own).filter(|_| order_type == OrderType::Limit),
            stop_price: Some(if order_type == OrderType::Stop {
                own
            } else {
                stop
            }),
            thesis_slug: ThesisSlug::parse(&slug).unwrap(),
            planned_entry: own,
            planned_stop: stop,
            target_price: None,
            time_in_force: lasts,
        };
        let verdict = self.submit(&order);
        if let Some(row) = verdict.checks.iter().find(|row| !row.passed) {
            self.count(&format!("refused: {}", row.name));
        }
        let placed = verdict.changes.into_iter().find_map(|change| match change {
            Change::OrderPlaced(order) if order.role == OrderRole::Entry => Some(order),
            _ => None,
        });
        if let Some(order) = placed {
            self.count("entries");
            let doors = self.asked().doors(&order);
            assert!(doors.is_empty(), "{}: {doors:?} {order:?}", self.context());
            // What was allowed just now still is.
            let pulls = self.pulls(*self.rules.safety.pull_margin);
            assert!(
                !pulls.contains_key(&order.order_id),
                "{}: {order:?}",
                self.context()
            );
        }
    }

    /// Exits of any position within its capacity, at the market.
    fn exit(&mut self, is_for_good: bool) {
        let held: Vec<_> = self.book.positions.values().cloned().collect();
        for held in held {
            let exits = self.book.orders.values().filter(|order| {
                order.role == OrderRole::Exit && order.is_of(&held.strategy, &held.symbol)
            });
            let (count, taken) = exits.fold((0, Amount::ZERO), |(count, sum), order| {
                let left = order.size.checked_sub(order.filled).unwrap();
                (count + 1, sum.checked_add(left).unwrap())
            });
            let left = held.size.abs().checked_sub(taken).unwrap();
            if !left.is_positive() || count >= 8 {
                continue;
            }
            let part = left
                .checked_mul(a("0.5"))
                .and_then(|half| half.round_down_to(*self.rules.instruments[&held.symbol].lot));
            let least = *self.rules.instruments[&held.symbol].min_size;
            let part =
                part.filter(|part| *part >= least && part.is_positive() && self.random.one_in(2));
            let exit = SubmitOrder {
                strategy: held.strategy.clone(),
                symbol: held.symbol.clone(),
                side: held.closing_side(),
                size: part.unwrap_or(left),
                order_type: OrderType::Market,
                price: None,
                stop_price: None,
                thesis_slug: held.theses.first().unwrap().clone(),
                planned_entry: Amount::ONE,
                planned_stop: Amount::ONE,
                target_price: None,
                time_in_force: TimeInForce::Gtc,
            };
            let strategy = held.strategy.to_string();
            let verdict = self.ask(&strategy, |run, ctx| {
                trading::submit(&run.book, &run.rules, &exit, ctx)
            });
            assert!(
                verdict.accepted,
                "{}: {exit:?} {:#?}",
                self.context(),
                verdict.checks
            );
            self.count("exits passed");
            if is_for_good && self.random.one_in(2) {
                self.apply(&verdict.changes);
            }
        }
    }

    fn cancel_or_tighten(&mut self) {
        let orders: Vec<Order> = self.book.orders.values().cloned().collect();
        if orders.is_empty() {
            return;
        }
        let order = self.random.pick(&orders).clone();
        let strategy = order.strategy.to_string();
        let verdict = if let (OrderRole::Protective, Some(trigger)) = (order.role, order.trigger) {
            let step = self.rules.instruments[&order.symbol]
                .tick
                .checked_mul(a("3"))
                .unwrap();
            let new_stop = if order.side == Side::Sell {
                trigger.checked_add(step)
            } else {
                trigger.checked_sub(step)
            };
            let request = TightenStop {
                order_id: order.order_id,
                new_stop: new_stop.unwrap(),
            };
            self.ask(&strategy, |run, ctx| {
                trading::tighten(&run.book, &run.rules, &request, ctx)
            })
        } else {
            let request = CancelOrder {
                reason: None,
                order_id: order.order_id,
            };
            self.ask(&strategy, |run, ctx| {
                trading::cancel(&run.book, &run.rules, &request, ctx)
            })
        };
        self.apply(&verdict.changes);
    }

    /// A door opens or closes, or a limit changes. Returns the margin of the pulls after it.
    fn change(&mut self) -> Amount {
        fn flip<T: Ord + Copy>(set: &mut BTreeSet<T>, what: T) {
            if !set.remove(&what) {
                set.insert(what);
            }
        }
        let agent = *self.random.pick(&["alice", "bob"]);
        let strategy = self.random.pick(&STRATEGIES).0;
        match self.random.within(0, 24) {
            0 => self.closed.clock = !self.closed.clock,
            1 => self.closed.rulebook = !self.closed.rulebook,
            2 => flip(&mut self.closed.halted, agent),
            3 => flip(&mut self.closed.unheard, agent),
            4 => flip(&mut self.closed.paused, strategy),
            5 => flip(&mut self.closed.reduced, strategy),
            6 => flip(&mut self.closed.revoked, *self.random.pick(&["k1", "k2"])),
            7 => {
                let name = symbol(self.random.pick(&LISTED).symbol);
                self.rules.safety.restricted_instruments = vec![name];
            }
            8 => {
                let slugs: Vec<ThesisSlug> = self.rules.theses.keys().cloned().collect();
                let number = self.random.within(0, 3);
                let is_of = |slug: &&ThesisSlug| slug.as_str().ends_with(&format!("-{number}"));
                for slug in slugs.iter().filter(is_of) {
                    self.rules.theses.remove(slug);
                }
            }
            9 | 10 => self.rules = self.random.pick(self.rulebooks).clone(),
            // A deposit, or nearly all of the cash is taken.
            11 => {
                let most = self.book.account.cash.checked_mul(a("0.9")).unwrap();
                let amount = if self.random.one_in(2) {
                    a("700")
                } else {
                    -most
                };
                self.apply(&[Change::AccountAdjusted { amount }]);
            }
            12 | 13 => self.refuse_exits(),
            // Everything is as it was, and a person has looked at all of it.
            _ => self.calm(),
        }
        Amount::ZERO
    }

    /// Venues refuse the exits that work.
    fn refuse_exits(&mut self) {
        let exits = self.book.orders.values();
        let exits = exits.filter(|order| order.role == OrderRole::Exit);
        let refused = exits.map(|order| Change::OrderRefused {
            order_id: order.order_id,
            reason: "no".to_owned(),
            at: self.now,
        });
        let refused: Vec<Change> = refused.collect();
        self.apply(&refused);
    }

    fn calm(&mut self) {
        (self.rules, self.closed) = (self.kept.clone(), Closed::default());
        let symbols = LISTED.iter().map(|listed| symbol(listed.symbol));
        let mut clear: Vec<Change> = symbols
            .map(|symbol| Change::SymbolCleared { symbol })
            .collect();
        clear.extend(STRATEGIES.iter().map(|(name, _)| Change::StrategyCleared {
            strategy: StrategyName::parse(name).unwrap(),
        }));
        let equity = self.book.equity_last_known(&self.rules);
        clear.extend(equity.map(|peak| Change::DrawdownCleared { peak }));
        self.apply(&clear);
    }

    /// Draws a row that begins when the last one ended, now and then far from it.
    fn drawn(&mut self, listed: &Listed, is_bar: bool) -> Row {
        let near = self.near.get_mut(listed.symbol).unwrap();
        let small = listed.price / 300;
        let jump = match self.random.within(0, 24) {
            0 => self.random.within(-listed.price / 20, listed.price / 20),
            _ => self.random.within(-small, small),
        };
        let from = (*near + jump).max(listed.price / 3);
        let to = from + self.random.within(-small, small);
        let (low, high) = (
            from.min(to) - self.random.within(0, small),
            from.max(to) + self.random.within(0, small),
        );
        *near = to;
        let at = |price: i64| steps(price, listed.price_step);
        if !is_bar {
            return Row::Quote {
                time_ms: self.now.ms(),
                bid: at(to),
                ask: at(to + 1),
                bid_size: None,
                ask_size: None,
            };
        }
        let open_ms = self.now.ms();
        self.now = self.now.plus_ms(60_000);
        Row::Bar {
            open_ms,
            interval_ms: 60_000,
            open: at(from),
            high: at(high),
            low: at(low),
            close: at(to),
            volume: Some(steps(self.random.within(20, 4000), listed.size_step)),
        }
    }

    /// Feeds a row and judges what it pulls and which entries it fills.
    fn row(&mut self, listed: &Listed, is_bar: bool) {
        let row = self.drawn(listed, is_bar);
        let name = symbol(listed.symbol);
        let (imposed, now) = (&self.closed, self.now);
        let steps = on_rows(
            &self.book,
            &self.rules,
            &name,
            &[row],
            Some(imposed),
            now,
            0,
        )
        .unwrap();
        let changes: Vec<Change> = steps.into_iter().flat_map(|step| step.changes).collect();
        let is_held = |book: &Book| book.markets.get(&name).is_some_and(|it| it.held.is_some());
        if changes.is_empty() {
            // A row of the same instant is not new.
            self.count("rows not used");
            return;
        }
        let done = after(&self.book, &changes);
        if is_held(&self.book) {
            self.judge_two(&changes);
        } else if !is_held(&done) {
            self.judge_one(&changes, &name, &row);
        } else {
            assert_eq!(
                filled(&changes),
                0,
                "{}: a row that is held",
                self.context()
            );
        }
        if !is_held(&done) {
            assert_eq!(self.gone_of(&done), [], "{}: after the row", self.context());
        }
        for why in changes.iter().filter_map(why) {
            self.count("pulled by a row");
            self.count(&format!("pulled: {}", why.check));
        }
        self.book = done;
        self.count("rows");
    }

    /// The entries of this book that may not stay.
    fn gone_of(&self, book: &Book) -> Vec<Gone> {
        let margin = *self.rules.safety.pull_margin;
        let asked = Asked {
            book,
            ..self.asked()
        };
        asked.gone(margin)
    }

    /// A row pulls what may not stay at its open, before anything fills, and then what may not stay
    /// when it is over; and nothing else.
    fn judge_one(&mut self, changes: &[Change], name: &Symbol, row: &Row) {
        let is_of_fill = |change: &Change| {
            let is_hit = matches!(change, Change::OrderTriggered { .. });
            is_hit || matches!(change, Change::OrderFilled(_))
        };
        let fills = changes.iter().position(is_of_fill);
        let (before, _) = changes.split_at(fills.unwrap_or(changes.len()));
        let at_open = self.at_open(before, name, row);
        let open = at_open.map_or_else(BTreeSet::new, |book| ids(&self.gone_of(&book)));
        // As it is when the row is over, before the pulls that follow from it.
        let (mut over, mut gone) = (self.book.clone(), None);
        for change in changes {
            match change {
                Change::OrderClosed { order_id, end, .. } if *end == OrderEnd::Pulled => {
                    gone = Some(*order_id).filter(|id| !open.contains(id));
                }
                // The idle stop of an entry goes along.
                Change::OrderClosed { order_id, end, .. } if *end == OrderEnd::Retired => {
                    gone = gone.filter(|id| id.seq == order_id.seq);
                }
                _ => gone = None,
            }
            if gone.is_none() {
                over.apply(change).unwrap();
            }
        }
        let last = ids(&self.gone_of(&over));
        let (seed, all) = (self.context(), open.union(&last).copied().collect());
        assert_eq!(pulled(changes), all, "{seed}: {open:?} {changes:#?}");
        if fills.is_some() {
            assert_eq!(pulled(before), open, "{seed} at the open: {changes:#?}");
        }
        for (what, count) in [
            ("entries filled", filled(changes)),
            ("pulled at the open", open.len()),
            ("pulled when a row was over", last.len()),
        ] {
            *self.seen.entry(what.to_owned()).or_default() += count as u64;
        }
    }

    /// Returns the book at the open of a row that fills orders.
    fn at_open(&self, changes: &[Change], name: &Symbol, row: &Row) -> Option<Book> {
        let moves = |change: &Change| {
            let is_moved = matches!(change, Change::MarketMoved { .. });
            is_moved || matches!(change, Change::ThesisRefuted { .. }) || is_pull(change)
        };
        let first = changes.iter().position(moves).unwrap_or(changes.len());
        let mut book = after(&self.book, &changes[..first]);
        let market = book.markets.entry(name.clone()).or_default();
        let time = Time::from_ms(row.known_ms()).unwrap();
        let source = match *row {
            Row::Bar { open: price, .. } => {
                let volume = None;
                market.last = Some(Last {
                    price,
                    volume,
                    time,
                });
                MarketSource::Bars
            }
            Row::Quote { bid, ask, .. } => {
                market.quote = Some(Quote { bid, ask, time });
                MarketSource::Quotes
            }
        };
        (self.rules.instruments[name].fills_from == source).then_some(book)
    }

    /// The row and one that was held before it are both used: what was closed before either of them
    /// does not fill.
    fn judge_two(&mut self, changes: &[Change]) {
        for change in changes {
            if let Change::OrderFilled(fill) = change
                && fill.role == OrderRole::Entry
            {
                let doors = self.asked().doors(&self.book.orders[&fill.order_id]);
                assert!(doors.is_empty(), "{}: {doors:?} {fill:?}", self.context());
                self.count("entries filled by two rows");
            }
        }
    }

    /// The entries that the gate would pull now, with the checks that it names.
    fn pulls(&self, margin: Amount) -> BTreeMap<OrderId, String> {
        let pulls = guard::pulls(&self.book, &self.rules, &self.closed, self.now, margin);
        let pulls = pulls.into_iter();
        pulls
            .map(|pull| (pull.order.order_id, pull.why.check))
            .collect()
    }

    /// Pulls what is no longer allowed, as the gate does after each line.
    fn settle(&mut self, margin: Amount) {
        let pulls = self.pulls(margin);
        let gone = self.asked().gone(margin);
        let expected: BTreeSet<&OrderId> = gone.iter().map(|(id, _)| id).collect();
        let context = format!("{}: {pulls:?} {gone:?}", self.context());
        assert_eq!(pulls.keys().collect::<BTreeSet<_>>(), expected, "{context}");
        for (id, checks) in &gone {
            assert!(checks.contains(&pulls[id].as_str()), "{context}");
        }
        let changes: Vec<Change> = {
            let pulls = guard::pulls(&self.book, &self.rules, &self.closed, self.now, margin);
            let changes = pulls.iter().map(|pull| pull.changes(&self.book, self.now));
            changes.flatten().collect()
        };
        assert_eq!(
            pulled(&changes),
            pulls.keys().copied().collect(),
            "{context}"
        );
        self.apply(&changes);
        for check in pulls.values() {
            self.count(&format!("pulled: {check}"));
        }
        // Whatever works on would be allowed again.
        assert_eq!(self.asked().gone(margin), [], "{context}");
        let stayed = self.asked().entries().len() as u64;
        *self
            .seen
            .entry("entries that stayed".to_owned())
            .or_default() += stayed;
    }

    fn step(&mut self) {
        self.apply(&end_day(&self.book, self.now));
        self.apply(&open_periods(&self.book, &self.rules, self.now));
        let mut margin = *self.rules.safety.pull_margin;
        match self.random.within(-3, 15) {
            ..=6 => self.entry(),
            7 => self.exit(true),
            8 => self.cancel_or_tighten(),
            9 => margin = self.change(),
            10 => self.now = self.now.plus_ms(self.random.within(1, 90_000)),
            _ => {
                let listed = self.random.pick(&LISTED);
                let is_bar = listed.symbol == "ALPHA" || self.random.one_in(2);
                self.row(listed, is_bar);
            }
        }
        self.settle(margin);
        if self.random.one_in(4) {
            self.exit(false);
        }
    }
}

fn rulebook(nth: u64) -> Rulebook {
    let mut files = Files::draw(nth, &mut Random::of(nth));
    match nth % 8 {
        1 => files.set("restricted", "[{from: \"21:00\", to: \"21:20\"}]"),
        // What a jump may lose, and what is left of it.
        3 => {
            files.set("stress_gap", "0.01");
            files.set("max_weekly_loss", "9");
        }
        _ => {}
    }
    files.compile(EXPIRES)
}

fn runs(seed: u64, count: u64) -> Seen {
    let rulebooks: Vec<Rulebook> = (0..RULEBOOKS).map(rulebook).collect();
    let mut seen = Seen::new();
    for nth in seed..seed + count {
        let mut run = Run::new(nth, &rulebooks);
        for event in 0..EVENTS {
            run.event = event;
            run.step();
        }
        for (what, count) in run.seen {
            *seen.entry(what).or_default() += count;
        }
    }
    for what in [
        "entries",
        "entries filled",
        "entries that stayed",
        "exits passed",
        "pulled at the open",
        "pulled when a row was over",
    ] {
        assert!(seen.contains_key(what), "{what}: {seen:#?}");
    }
    let is_idle = |check: &&&str| !seen.contains_key(&format!("pulled: {check}"));
    let idle: Vec<_> = PULLING.iter().filter(is_idle).collect();
    let most = if count < 1000 { 7 } else { 0 };
    assert!(idle.len() <= most, "{idle:?} pulled nothing: {seen:#?}");
    seen
}

#[test]
fn what_is_no_longer_allowed_is_pulled_and_nothing_else() {
    runs(1, campaign(150, 1000));
}

/// `SPOOLGATE_SEED` is the first run, `SPOOLGATE_RUNS` their number.
#[test]
#[ignore = "minutes"]
fn many_runs() {
    let (seed, count) = (
        setting("SPOOLGATE_SEED", 1),
        setting("SPOOLGATE_RUNS", 20_000),
    );
    let seen = runs(seed, count);
    println!("{count} runs of {EVENTS} events from seed {seed}: {seen:#?}");
}
