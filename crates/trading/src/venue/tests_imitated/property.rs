//! Random runs on paper and at the imitated exchange, in which doors close and limits change. After
//! every event no inadmissible entry works that nobody asked the venue to end; no entry fills after a
//! row that made it inadmissible, apart from what the exchange fills before the cancel reaches it; and
//! exits within the capacity pass whatever is wrong. The exchange never refuses an exit or a stop for
//! locked coins, and in the end it works what it was told.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::class::capacity;
use crate::guard;
use crate::order::{Order, OrderRole, Position, Verb};
use spoolgate_wire::ids::{OrderId, StrategyName};
use spoolgate_wire::orders::{OrderType, Side};

const STRATEGIES: [&str; 2] = ["trend", "mean"];

/// What differs between runs.
#[derive(Clone, Debug)]
struct Setting {
    is_paper: bool,
    reduce_only: bool,
    reserves: bool,
    base_fee: bool,
    latency_s: u64,
    reject_every: u32,
    /// Begin and length of silences, seconds.
    silent: Vec<(i64, i64)>,
}

fn setting() -> impl Strategy<Value = Setting> {
    let flags = any::<(bool, bool, bool)>();
    let silent = prop::collection::vec((5..100_i64, 1..40_i64), 0..3);
    (prop::bool::weighted(0.3), flags, 0..4_u64, 0..5_u32, silent).prop_map(
        |(is_paper, (reduce_only, reserves, base_fee), latency_s, reject_every, silent)| Setting {
            is_paper,
            reduce_only,
            reserves,
            base_fee,
            latency_s,
            reject_every,
            silent,
        },
    )
}

/// A desk, and what the test itself knows of it.
struct Walk {
    desk: Desk,
    setting: Setting,
    imitate: Imitate,
    /// The bid, in tenths.
    bid: i64,
    /// When each entry was ended; at the exchange, when its cancel was given.
    ended: BTreeMap<OrderId, Time>,
    /// When each order was first told to the exchange.
    told: BTreeMap<OrderId, Time>,
}

impl Walk {
    fn new(setting: Setting) -> Walk {
        let silent = setting.silent.iter();
        let silent = silent.flat_map(|(from_s, for_s)| {
            super::silent(begins(), from_s * 1000, (from_s + for_s) * 1000)
        });
        let mut imitate = Imitate::default();
        let mut desk = Desk::with(|it| {
            it.latency_s = setting.latency_s.try_into().unwrap();
            (it.reserves, it.base_fee) = (setting.reserves, setting.base_fee);
            (it.reject_every, it.silent) = (setting.reject_every, silent.collect());
            imitate = it.clone();
        });
        let instrument = desk.instrument();
        instrument.base = Some(Currency::parse("BTC").unwrap());
        instrument.lot = a("0.00001").try_into().unwrap();
        instrument.reduce_only = setting.reduce_only;
        if setting.is_paper {
            (instrument.venue, instrument.bridge) = (Venue::Paper, None);
            instrument.imitate = None;
        }
        Walk {
            desk,
            setting,
            imitate,
            bid: 68_000,
            ended: BTreeMap::new(),
            told: BTreeMap::new(),
        }
    }

    /// Applies the changes of a line, and judges every fill in it.
    fn line(&mut self, changes: Vec<Change>) {
        let limits = self.desk.world.rules.safety.bridges.clone();
        let now = self.desk.world.now;
        let changes = hand_over(&self.desk.world.book, &limits, changes, now);
        for change in &changes {
            match change {
                Change::Instructed(told) => {
                    self.told.entry(told.order_id).or_insert(now);
                    if told.instruction == Verb::Cancel && told.order_id.entry() == told.order_id {
                        self.ended.entry(told.order_id).or_insert(now);
                    }
                }
                Change::OrderClosed { order_id, .. } => {
                    self.ended.entry(*order_id).or_insert(now);
                }
                Change::OrderRefused {
                    order_id, reason, ..
                } if reason.contains("insufficient") => {
                    let order = &self.desk.world.book.orders[order_id];
                    assert_eq!(order.role, OrderRole::Entry, "{reason}: {order:?}");
                }
                Change::OrderFilled(fill) if !self.setting.is_paper => {
                    let told = self.told[&fill.order_id];
                    assert!(self.imitate.arrives(told) <= fill.market_time, "{fill:?}");
                    let ended = self.ended.get(&fill.order_id);
                    let ended = ended.filter(|_| fill.role == OrderRole::Entry);
                    let is_in_time = |ended: &Time| fill.market_time < self.imitate.arrives(*ended);
                    assert!(ended.is_none_or(is_in_time), "{ended:?} {fill:?}");
                }
                Change::OrderFilled(fill) if fill.role == OrderRole::Entry => {
                    assert!(!self.ended.contains_key(&fill.order_id), "{fill:?}");
                }
                _ => {}
            }
            self.desk.world.apply(std::slice::from_ref(change));
        }
    }

    fn tick(&mut self) {
        loop {
            let World {
                book, rules, now, ..
            } = &self.desk.world;
            let changes = answers(book, rules, *now, self.desk.line).unwrap();
            if changes.is_empty() {
                return;
            }
            self.desk.line += 1;
            self.line(changes);
        }
    }

    /// The gate's own part after an event.
    fn settle(&mut self) {
        for _ in 0..20 {
            let World {
                book, rules, now, ..
            } = &self.desk.world;
            let limits = &rules.safety.bridges;
            let pulls = guard::pulls(book, rules, &self.desk.world, *now, a("0"));
            let pulls = pulls.iter().flat_map(|pull| pull.changes(book, *now));
            let mut changes: Vec<Change> = pulls.collect();
            if changes.is_empty() {
                changes = owed(book, limits, *now);
            }
            if changes.is_empty() {
                break;
            }
            self.line(changes);
        }
        self.check();
    }

    fn row(&mut self, moved: i64, spread: i64, size: Option<i64>, late_ms: i64) {
        self.bid = (self.bid + moved).clamp(64_000, 72_000);
        let at = |tenths: i64| a(&format!("{}.{}", tenths / 10, tenths % 10));
        let time = self.desk.world.now.plus_ms(-late_ms);
        let size = size.map(|lots| Amount::from_i64(lots).checked_mul(a("0.001")).unwrap());
        let row = Row::Quote {
            time_ms: time.ms(),
            bid: at(self.bid),
            ask: at(self.bid + spread),
            bid_size: size,
            ask_size: size,
        };
        let World {
            book, rules, now, ..
        } = &self.desk.world;
        let doors = Some(&self.desk.world as &dyn guard::Impose);
        let steps = on_rows(book, rules, &btc(), &[row], doors, *now, self.desk.line).unwrap();
        for step in steps {
            assert_eq!(step.left_open, []);
            assert!(serde_json::to_vec(&step.changes).unwrap().len() <= 40_000);
            self.desk.line += 1;
            self.line(step.changes);
        }
    }

    fn submit(&mut self, strategy: &str, side: &str, (kind, lots, by): (u8, i64, i64), nth: u8) {
        let is_buy = side == "buy";
        // Where coins are locked, a short entry takes those of other legs: spot is long only.
        let is_spot = self.setting.reserves && !self.setting.reduce_only;
        if is_spot && !is_buy && !self.setting.is_paper {
            return;
        }
        let price = |by: i64| {
            let tenths = if is_buy { self.bid - by } else { self.bid + by };
            format!("{}.{}", tenths / 10, tenths % 10)
        };
        let size = Amount::from_i64(lots).checked_mul(a("0.001")).unwrap();
        let stop_at = price(700 + by);
        let mut order = market_order(
            strategy,
            "BTC-USD",
            side,
            &size.to_string(),
            &stop_at,
            nth % 4,
        );
        order.planned_entry = a(&price(0));
        if nth.is_multiple_of(3) {
            order.target_price = Some(a(&price(-(by + 300))));
        }
        if nth.is_multiple_of(5) {
            order.time_in_force = TimeInForce::Ioc;
        }
        if kind % 2 == 1 {
            order = limit(order, &price(by));
        }
        let verdict = self.desk.world.ask(&order);
        if verdict.accepted {
            self.line(verdict.changes);
        }
    }

    /// An exit of a random part of what is held.
    fn exit(&mut self, nth: u8, by: i64) {
        let held = self.desk.world.book.positions.values();
        let held: Vec<Position> = held.cloned().collect();
        let Some(position) = held.get(usize::from(nth) % held.len().max(1)) else {
            return;
        };
        let size = position.whole();
        if !size.is_positive() {
            return;
        }
        let size = if by % 2 == 0 {
            size
        } else {
            size.min(a("0.003"))
        };
        let side = position.closing_side().as_str();
        let mut order = exit_of(position, size);
        if by % 3 == 0 {
            let tenths = if side == "sell" {
                self.bid + by
            } else {
                self.bid - by
            };
            order = limit(order, &format!("{}.{}", tenths / 10, tenths % 10));
        }
        let verdict = self.desk.world.ask(&order);
        if verdict.accepted {
            self.line(verdict.changes);
        }
    }

    fn of_order(&mut self, nth: u8, stop: Option<i64>) {
        let orders = &self.desk.world.book.orders;
        let nth = usize::from(nth) % orders.len().max(1);
        let Some(order) = orders.values().nth(nth).cloned() else {
            return;
        };
        let before = self.desk.world.book.clone();
        let verdict = match (stop, order.trigger) {
            (None, _) => self.desk.world.cancel(order.order_id),
            (Some(by), Some(old)) => {
                let by = a(&by.to_string());
                let new = match order.side {
                    Side::Sell => old.checked_add(by),
                    Side::Buy => old.checked_sub(by),
                };
                let new = new.unwrap().to_string();
                self.desk.world.tighten(order.order_id.entry(), &new)
            }
            (Some(_), None) => return,
        };
        self.desk.world.book = before;
        if verdict.accepted {
            self.line(verdict.changes);
        }
    }

    fn step(&mut self, (kind, nth, lots, by): (u8, u8, i64, i64)) {
        let strategy = STRATEGIES[usize::from(nth % 2)];
        self.desk.world.wait(200 + by);
        self.tick();
        match kind % 16 {
            0..=2 => self.submit(strategy, "buy", (kind / 16, lots, by), nth),
            3 => self.submit(strategy, "sell", (kind / 16, lots, by), nth),
            4 => self.exit(nth, by),
            5 => self.of_order(nth, None),
            6 => self.of_order(nth, Some(by / 50)),
            7 => self.desk.world.halted = (nth.is_multiple_of(3)).then_some("halted"),
            8 => {
                let limit = if nth.is_multiple_of(2) { "0.01" } else { "0.2" };
                self.desk.world.rules.safety.max_single_position = a(limit).try_into().unwrap();
            }
            9 => self.desk.world.wait(by * 40),
            _ => {
                let size = (nth.is_multiple_of(2)).then_some(lots);
                let moved = (by - 250) * if nth.is_multiple_of(7) { 3 } else { 1 };
                self.row(moved, 1 + by % 5, size, i64::from(nth % 3) * 100);
            }
        }
        self.settle();
    }

    fn check(&mut self) {
        let World {
            book, rules, now, ..
        } = &self.desk.world;
        let pulls = guard::pulls(book, rules, &self.desk.world, *now, a("0"));
        assert!(pulls.is_empty(), "something inadmissible works on");
        let json = serde_json::to_string(book).unwrap();
        assert_eq!(&serde_json::from_str::<Book>(&json).unwrap(), book);
        let account = &book.account;
        let mut costs = book.positions.values().map(|held| held.cost);
        let costs = costs.try_fold(Amount::ZERO, Amount::checked_add).unwrap();
        let assets = account.cash.checked_add(costs).unwrap();
        let profit = account.realised.checked_sub(account.fees).unwrap();
        assert_eq!(assets, account.net_deposits.checked_add(profit).unwrap());
        assert!(
            book.doubted_symbols.is_empty(),
            "{:?}",
            book.doubted_symbols
        );
        let held: Vec<Position> = book.positions.values().cloned().collect();
        for position in held {
            self.exits_pass(&position);
        }
    }

    /// An exit of all that is free passes, whatever is closed.
    fn exits_pass(&mut self, position: &Position) {
        let (strategy, symbol) = (&position.strategy, &position.symbol);
        let side = position.closing_side();
        let book = &self.desk.world.book;
        let free = capacity(book, strategy, symbol, side, OrderType::Market);
        let free = free.unwrap_or(Amount::ZERO).min(position.whole());
        if free < a("0.00001") || position.is_dust() {
            return;
        }
        let world = &mut self.desk.world;
        let saved = (world.halted, world.book.clone(), world.rules.clone());
        world.shut();
        (world.halted, world.clock_fault) = (Some("halted"), Some("clock"));
        world.rulebook_fault = Some("rules");
        world.book.markets.clear();
        let verdict = world.ask(&exit_of(position, free));
        assert!(verdict.accepted, "{:?}", failed(&verdict));
        (world.halted, world.book, world.rules) = saved;
        (world.clock_fault, world.rulebook_fault, world.unheard) = (None, None, None);
        world.messages = Default::default();
    }

    /// After every silence, when nothing more happens, the exchange has told everything and works what it
    /// was told.
    fn end(&mut self) {
        self.desk.world.halted = Some("over");
        self.settle();
        self.desk.world.wait(200_000);
        for _ in 0..40 {
            self.tick();
            self.desk.world.wait(4_000);
            self.tick();
            self.row(0, 1, None, 0);
            self.settle();
        }
        let orders: Vec<&Order> = self.desk.world.book.orders.values().collect();
        for order in &orders {
            let Some(venue) = &order.at_venue else {
                continue;
            };
            assert!(venue.ending.is_none(), "{order:?}");
            let state = venue.imitated.clone().unwrap_or_default();
            assert_eq!((state.sent, state.untold), (vec![], vec![]));
            let works = venue.works.map(|works| works.size);
            assert_eq!(
                works,
                venue.told.map(|told| told.size).filter(|_| !venue.gone)
            );
        }
        for position in self.desk.world.book.positions.values() {
            let stops = orders.iter().filter(|order| {
                let is_of = order.is_of(&position.strategy, &position.symbol);
                is_of && order.role == OrderRole::Protective
            });
            let stops = stops.fold(Amount::ZERO, |sum, stop| {
                let works = stop
                    .at_venue
                    .as_ref()
                    .map(|venue| venue.works.unwrap().size);
                let left = works.unwrap_or(stop.size).checked_sub(stop.filled).unwrap();
                sum.checked_add(left).unwrap()
            });
            let is_covered = position.is_dust() || stops == position.whole();
            assert!(is_covered, "{stops}: {position:?} {orders:#?}");
        }
    }
}

fn exit_of(position: &Position, size: Amount) -> SubmitOrder {
    let strategy: &StrategyName = &position.strategy;
    let side = position.closing_side().as_str();
    market_order(
        strategy.as_str(),
        "BTC-USD",
        side,
        &size.to_string(),
        "1",
        0,
    )
}

fn run(setting: Setting, ops: Vec<(u8, u8, i64, i64)>) {
    let mut walk = Walk::new(setting);
    for op in ops {
        walk.step(op);
    }
    walk.end();
}

fn many(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn ops(most: usize) -> impl Strategy<Value = Vec<(u8, u8, i64, i64)>> {
    prop::collection::vec((any::<u8>(), any::<u8>(), 2..20_i64, 0..500_i64), 1..most)
}

proptest! {
    #![proptest_config(many(150))]

    #[test]
    fn what_is_no_longer_allowed_does_not_fill(setting in setting(), ops in ops(120)) {
        run(setting, ops);
    }
}

proptest! {
    #![proptest_config(many(20_000))]

    #[test]
    #[ignore = "takes many minutes"]
    fn what_is_no_longer_allowed_does_not_fill_in_20_000_runs(
        setting in setting(),
        ops in ops(201),
    ) {
        run(setting, ops);
    }
}

/// A stop that made room for an exit and shrank below its fills is placed again before the exchange has
/// heard of the smaller size. The end of the smaller version is not that of the stop then.
#[test]
fn a_stop_that_shrank_below_its_fills_is_placed_again_on_the_way() {
    let setting = Setting {
        is_paper: false,
        reduce_only: false,
        reserves: false,
        base_fee: false,
        latency_s: 2,
        reject_every: 2,
        silent: Vec::new(),
    };
    run(
        setting,
        vec![
            (80, 31, 18, 69),
            (176, 0, 2, 69),
            (163, 47, 17, 0),
            (105, 0, 2, 9),
            (36, 0, 2, 206),
            (36, 0, 2, 88),
            (42, 0, 18, 0),
            (42, 13, 2, 437),
            (112, 54, 2, 0),
            (16, 157, 12, 0),
            (0, 0, 2, 87),
            (170, 15, 2, 431),
            (80, 0, 2, 467),
            (10, 1, 2, 94),
            (10, 163, 2, 21),
            (19, 157, 2, 1),
            (163, 35, 2, 0),
            (138, 0, 2, 237),
            (58, 0, 2, 264),
            (0, 0, 2, 0),
            (10, 35, 2, 75),
            (0, 0, 2, 306),
            (58, 13, 2, 29),
            (0, 0, 2, 91),
            (58, 0, 2, 0),
        ],
    );
}
