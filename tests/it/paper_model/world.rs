//! The gate's trading code and the model side by side, driven by one generator.

mod events;
mod fills;

use std::collections::BTreeMap;

use spoolgate_rules::{Bundle, Rulebook};
use spoolgate_trading::market_row::Row;
use spoolgate_trading::order::{Fill, Liquidity, OrderRole};
use spoolgate_trading::requests::{Context, Verdict};
use spoolgate_trading::{self as trading, Book, Change, venue, views};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{OrderId, Principal, StrategyName, Symbol};
use spoolgate_wire::orders::{CancelOrder, OrderType, Side, SubmitOrder, TightenStop};
use spoolgate_wire::time::Time;

use crate::paper_model::model::{FLATTEN, Id, Kind, Model, ORDER, Owner, Role, Working};
use crate::paper_model::rational::Rat;
use crate::paper_model::sides::{self, lasts, print, spec};
pub(super) use crate::paper_model::sides::{Random, a, order_id, r, steps};

/// The strategies of the one agent.
pub(super) const STRATEGIES: [&str; 2] = ["trend", "mean"];

/// Theses per strategy, symbol and direction.
const THESES: u64 = 12;

/// An instrument: its line in the rules, and the market that tests draw for it.
pub(super) struct Listed {
    pub symbol: &'static str,
    pub rule: &'static str,
    /// The step in which prices and sizes are drawn.
    pub price_step: &'static str,
    pub size_step: &'static str,
    /// Its first price, in steps.
    pub price: i64,
}

/// One has bars only; one has quotes only and a multiplier below 1; one has quotes for checks and
/// bars for fills, and neither tick nor lot.
pub(super) const LISTED: [Listed; 3] = [
    Listed {
        symbol: "BARS",
        rule: "{symbol: BARS, multiplier: 1, tick: 0.1, lot: 0.001, min_size: 0.002, max_size: \
            0.06, min_notional: 5,
          min_stop_ticks: 5, quotes_from: bars, fills_from: bars, half_spread: 0.0005, slippage: \
              0.001,
          maker_fee: 0.0002, taker_fee: 0.00123, volume_share: 0.1, bar_s: 60, max_gap: 0.015}",
        price_step: "0.1",
        size_step: "0.001",
        price: 68_000,
    },
    Listed {
        symbol: "QUOTES",
        rule: "{symbol: QUOTES, multiplier: 0.5, tick: 0.01, lot: 0.01, min_size: 0.02, max_size: \
            0.6, min_notional: 1,
          min_stop_ticks: 5, quotes_from: quotes, fills_from: quotes, half_spread: 0, slippage: \
              0.0007,
          maker_fee: 0.0003, taker_fee: 0.001, volume_share: 1, bar_s: 60, max_gap: 0.012}",
        price_step: "0.01",
        size_step: "0.01",
        price: 20_000,
    },
    Listed {
        symbol: "MIXED",
        rule: "{symbol: MIXED, multiplier: 10, tick: 0, lot: 0, min_size: 0.002, max_size: 0.06, \
            min_notional: 1,
          min_stop_ticks: 5, quotes_from: quotes, fills_from: bars, half_spread: 0.0003, slippage: \
              0.0005,
          maker_fee: 0, taker_fee: 0.0017, volume_share: 0.033, bar_s: 60, max_gap: 0.013}",
        price_step: "0.07",
        size_step: "0.001",
        price: 10_000,
    },
];

/// Wide limits, so that much is traded. Limits that the model does not count cannot bind here.
pub(super) const WIDE: &str = "
max_total_capital: 1000000
max_single_position: 1
max_single_trade_risk: 1
max_total_exposure: 5
max_daily_loss: 1000000
max_weekly_loss: 1000000
max_portfolio_risk: 1
slippage_to_plan: 1
max_open_positions: 1000000
max_open_orders: 1000000
max_entries_per_minute: 1000000
max_entries_per_minute_all: 1000000
max_executions: 1000
executions_window_s: 1
max_losing_trades: 1000000
cooldown_s: 0
max_drawdown: 1
max_order_value: 1000000
price_collar: 0.5
price_collar_passive: 0.5
max_spread: 0.5
max_mid_deviation: 0.5
quote_age_floor_s: 10000000
entry_slippage: 0.001
stop_slippage: 0.001
duplicate_window_s: 0
request_age_max_s: 60
request_ahead_max_s: 5
exit_age_max_s: 86400
clock_gap_max_s: 604800
";

/// Limits for an account of 5000, each of which binds sometimes.
pub(super) const TIGHT: &str = "
max_total_capital: 5000
max_single_position: 0.05
max_single_trade_risk: 0.0005
max_total_exposure: 0.08
max_daily_loss: 250
max_weekly_loss: 1000000
max_portfolio_risk: 1
slippage_to_plan: 1
max_open_positions: 1000000
max_open_orders: 1000000
max_entries_per_minute: 1000000
max_entries_per_minute_all: 1000000
max_executions: 1000
executions_window_s: 1
max_losing_trades: 1000000
cooldown_s: 0
max_drawdown: 0.15
max_order_value: 200
price_collar: 0.5
price_collar_passive: 0.5
max_spread: 0.05
max_mid_deviation: 0.05
quote_age_floor_s: 10000000
entry_slippage: 0.001
stop_slippage: 0.001
duplicate_window_s: 30
request_age_max_s: 60
request_ahead_max_s: 5
exit_age_max_s: 86400
clock_gap_max_s: 604800
";

pub(super) fn rules(safety: &str) -> Rulebook {
    let list: Vec<String> = LISTED
        .iter()
        .map(|listed| format!("  - {}\n", listed.rule))
        .collect();
    rules_of(safety, &list.concat())
}

fn rules_of(safety: &str, instruments: &str) -> Rulebook {
    let mut bundle = Bundle::default();
    let mut file = |path: String, text: String| bundle.files.insert(path, text);
    file("rules/safety.yaml".into(), safety.into());
    file(
        "rules/principals.yaml".into(),
        "principals:\n  - {name: alice, role: agent, strategies: [trend, mean]}\n".into(),
    );
    file(
        "rules/instruments.yaml".into(),
        format!("instruments:\n{instruments}"),
    );
    for name in STRATEGIES {
        let text = format!(
            "name: {name}\nstatus: active\ninstruments: [BARS, QUOTES, MIXED]\ndirections: [long, \
                short]\n\
                stop_distance: {{min: 0.0001, max: 0.5}}\n"
        );
        file(format!("rules/strategies/{name}.yaml"), text);
        for listed in &LISTED {
            for direction in ["long", "short"] {
                for number in 0..THESES {
                    let (symbol, slug) = (
                        listed.symbol,
                        thesis(name, listed.symbol, direction, number),
                    );
                    let text = format!(
                        "---\nslug: {slug}\nstrategy: {name}\nsymbol: {symbol}\ndirection: \
                            {direction}\n\
                            expires: 2100-01-01T00:00:00Z\ninvalid_below: 0.01\n---\nWhy.\n"
                    );
                    file(format!("proposals/theses/{slug}.md"), text);
                }
            }
        }
    }
    Rulebook::compile(&bundle).unwrap()
}

fn thesis(strategy: &str, symbol: &str, direction: &str, number: u64) -> String {
    format!("{strategy}-{}-{direction}-{number}", symbol.to_lowercase())
}

/// What can be wrong around a request.
#[derive(Clone, Copy, Default)]
pub(super) struct Faults {
    pub halted: bool,
    pub clock: bool,
    pub rulebook: bool,
}

pub(super) struct World {
    pub seed: u64,
    pub random: Random,
    pub rules: Rulebook,
    pub book: Book,
    pub model: Model,
    pub now: Time,
    pub seq: u64,
    pub faults: Faults,
    /// Symbols and times for which funding was charged.
    funded: std::collections::BTreeSet<(&'static str, i64)>,
    /// The middle price, in steps of each instrument.
    pub near: BTreeMap<&'static str, i64>,
    /// How often each thing happened, so that no test passes by doing nothing.
    pub seen: BTreeMap<String, u64>,
}

impl World {
    pub(super) fn new(seed: u64, safety: &str, deposit: &str) -> World {
        let rules = rules(safety);
        let mut model = Model::default();
        for listed in &LISTED {
            model
                .specs
                .insert(listed.symbol.to_owned(), spec(&rules, listed.symbol));
        }
        model.deposit(&Rat::of(deposit));
        let mut book = Book::default();
        book.apply(&Change::AccountAdjusted { amount: a(deposit) })
            .unwrap();
        World {
            seed,
            random: Random::of(seed),
            rules,
            book,
            model,
            now: Time::parse("2018-04-05T00:00:00Z").unwrap(),
            seq: 0,
            faults: Faults::default(),
            funded: std::collections::BTreeSet::new(),
            near: LISTED
                .iter()
                .map(|listed| (listed.symbol, listed.price))
                .collect(),
            seen: BTreeMap::new(),
        }
    }

    /// Replaces an instrument's rule.
    pub(super) fn relist(&mut self, symbol: &str, rule: &str) {
        let others = LISTED
            .iter()
            .filter(|listed| listed.symbol != symbol)
            .map(|listed| listed.rule);
        let list: Vec<String> = others
            .chain([rule])
            .map(|rule| format!("  - {rule}\n"))
            .collect();
        self.rules = rules_of(WIDE, &list.concat());
        self.model
            .specs
            .insert(symbol.to_owned(), spec(&self.rules, symbol));
    }

    pub(super) fn count(&mut self, what: impl Into<String>) {
        *self.seen.entry(what.into()).or_default() += 1;
    }

    fn with_context<T>(&mut self, run: impl FnOnce(&World, &Context) -> T) -> T {
        self.seq += 1;
        let source = Principal::parse("alice").unwrap();
        let ctx = Context {
            now: self.now,
            requested_at: self.now,
            source: &source,
            order_id: OrderId::of_line(self.seq),
            halted: self.faults.halted.then_some("halted"),
            unheard: self.faults.halted.then_some("unheard"),
            messages: spoolgate_trading::requests::Messages::default(),
            clock_fault: self.faults.clock.then_some("clock"),
            rulebook_fault: self.faults.rulebook.then_some("rules"),
            closed_order: None,
            key_id: None,
            key_fault: None,
            paused: None,
            limit_factor: None,
        };
        run(self, &ctx)
    }

    pub(super) fn ask(&mut self, order: &SubmitOrder) -> Verdict {
        self.with_context(|world, ctx| trading::submit(&world.book, &world.rules, order, ctx))
    }

    pub(super) fn ask_cancel(&mut self, order_id: OrderId) -> Verdict {
        let request = CancelOrder {
            order_id,
            reason: None,
        };
        self.with_context(|world, ctx| trading::cancel(&world.book, &world.rules, &request, ctx))
    }

    pub(super) fn ask_tighten(&mut self, order_id: OrderId, new_stop: Amount) -> Verdict {
        let request = TightenStop { order_id, new_stop };
        self.with_context(|world, ctx| trading::tighten(&world.book, &world.rules, &request, ctx))
    }

    fn apply(&mut self, changes: &[Change]) {
        changes
            .iter()
            .for_each(|change| self.book.apply(change).unwrap());
    }

    /// Draws an order near the market; `own` and `stop` are distances in steps.
    pub(super) fn draw(&mut self, listed: &Listed) -> SubmitOrder {
        let strategy = *self.random.pick(&STRATEGIES);
        let owner = (listed.symbol.to_owned(), strategy.to_owned());
        let held = self.model.position(&owner);
        // Often against the position, so that exits are as frequent as entries.
        let buys = match self.random.within(0, 2) {
            0 if !held.is_zero() => held.is_negative(),
            turn => turn == 1,
        };
        let kind = *self.random.pick(&["market", "limit", "stop"]);
        let near = self.near[listed.symbol];
        let reach = near / 120;
        let own = near + self.random.within(-reach, reach);
        let base = if kind == "market" { near } else { own };
        let by = self.random.within(2, reach * 2);
        let stop = if buys { base - by } else { base + by };
        let mut size = steps(self.random.within(1, 60), listed.size_step);
        let capacity = self.model.capacity(&owner, buys, Kind::Limit);
        if capacity.is_positive() && self.random.one_in(3) {
            size = self.all_of(&owner);
        }
        self.order(listed, strategy, buys, kind, own, stop, size)
    }

    /// Returns what is left of a position after the working exits have filled.
    fn all_of(&self, owner: &Owner) -> Amount {
        let key = (
            Symbol::parse(&owner.0).unwrap(),
            StrategyName::parse(&owner.1).unwrap(),
        );
        let held = &self.book.positions[&key];
        trading::class::capacity(
            &self.book,
            &key.1,
            &key.0,
            held.closing_side(),
            OrderType::Limit,
        )
        .unwrap_or(Amount::ZERO)
    }

    #[expect(clippy::too_many_arguments, reason = "an order has that many parts")]
    pub(super) fn order(
        &mut self,
        listed: &Listed,
        strategy: &str,
        buys: bool,
        kind: &str,
        own: i64,
        stop: i64,
        size: Amount,
    ) -> SubmitOrder {
        let (side, direction) = if buys {
            ("buy", "long")
        } else {
            ("sell", "short")
        };
        let number =
            u64::try_from(self.random.within(0, i64::try_from(THESES).unwrap() - 1)).unwrap();
        let slug = thesis(strategy, listed.symbol, direction, number);
        let own = steps(own, listed.price_step);
        let stop = steps(stop.max(1), listed.price_step);
        let prices = match kind {
            "limit" => format!(r#""price":"{own}","stop_price":"{stop}""#),
            "stop" => format!(r#""stop_price":"{own}""#),
            _ => format!(r#""stop_price":"{stop}""#),
        };
        let mut more = String::new();
        match self.random.within(0, 7) {
            0 => more.push_str(r#","time_in_force":"ioc""#),
            1 | 2 => more.push_str(r#","time_in_force":"day""#),
            3 => more.push_str(r#","time_in_force":"gtc""#),
            _ => {}
        }
        if self.random.one_in(3) {
            let by = self.random.within(1, self.near[listed.symbol] / 100);
            let at = self.near[listed.symbol].max(1) + if buys { by } else { -by };
            more.push_str(&format!(
                r#","target_price":"{}""#,
                steps(at.max(1), listed.price_step)
            ));
        }
        let json = format!(
            r#"{{"strategy":"{strategy}","symbol":"{}","side":"{side}","size":"{size}","order_type":"{kind}",{prices},
               "thesis_slug":"{slug}","planned_entry":"{own}","planned_stop":"{stop}"{more}}}"#,
            listed.symbol
        );
        let order: SubmitOrder = serde_json::from_str(&json).unwrap();
        order.validate().unwrap();
        order
    }

    /// Submits an order to both; the model says which class it must have.
    pub(super) fn submit(&mut self, order: &SubmitOrder) -> Verdict {
        let seed = self.seed;
        let owner = (order.symbol.to_string(), order.strategy.to_string());
        let buys = order.side == Side::Buy;
        let kind = match order.order_type {
            OrderType::Market => Kind::Market,
            OrderType::Limit => Kind::Limit,
            OrderType::Stop => Kind::Stop,
        };
        let capacity = self.model.capacity(&owner, buys, kind);
        let own = match kind {
            Kind::Market => None,
            Kind::Limit => order.price.map(r),
            Kind::Stop => order.stop_price.map(r),
        };
        let slip = r(*self.rules.safety.entry_slippage);
        let crossed = self
            .model
            .crossed(order.symbol.as_str(), buys, kind, own.as_ref(), &slip);
        let verdict = self.ask(order);
        let id = (self.seq, ORDER);
        if !self.model.holds_against(&owner, buys) {
            let row = verdict
                .checks
                .iter()
                .find(|row| row.name == "self_cross")
                .unwrap();
            assert_eq!(
                row.passed,
                crossed.is_empty(),
                "seed {seed}: {order:?} {crossed:?}"
            );
        }
        let size = r(order.size);
        if capacity.is_positive() && size > capacity {
            let row = verdict
                .checks
                .iter()
                .find(|row| row.name == "reduce_only")
                .unwrap();
            assert!(
                !row.passed && !verdict.accepted,
                "seed {seed}: a flip passed: {order:?}"
            );
            self.count("flip");
        }
        let is_exit = capacity.is_positive();
        if !verdict.accepted {
            self.count("refused");
            return verdict;
        }
        self.apply(&verdict.changes);
        let is_placed = |c: &&Change| matches!(c, Change::OrderPlaced(_) | Change::ExitMerged(_));
        let placed = verdict.changes.iter().filter(is_placed).count();
        let along = if is_exit {
            0
        } else {
            1 + usize::from(order.target_price.is_some())
        };
        assert_eq!(placed, 1 + along, "seed {seed}: {order:?}");
        for entry in crossed.iter().filter(|crossed| crossed.role == Role::Entry) {
            self.model.cancel(entry.id);
            self.count("crossed by an exit");
        }
        let is_halted = self.model.halted.contains(order.symbol.as_str());
        assert!(
            is_exit || !is_halted,
            "seed {seed}: an entry in a halted symbol: {order:?}"
        );
        let working = Working {
            id,
            owner,
            buys,
            role: if is_exit { Role::Exit } else { Role::Entry },
            kind,
            size,
            filled: Rat::zero(),
            price: order.price.map(r),
            trigger: order.stop_price.filter(|_| kind == Kind::Stop).map(r),
            hit: false,
            at_ms: self.now.ms(),
            lasts: lasts(order.time_in_force),
        };
        self.count(format!(
            "{:?} {kind:?} {}",
            working.role,
            order.side.as_str()
        ));
        let target = order.target_price.filter(|_| !is_exit).map(r);
        if target.is_some() {
            self.count("target");
        }
        self.model
            .place(working, (!is_exit).then(|| r(order.planned_stop)), target);
        verdict
    }

    /// Returns a random open order of either side.
    fn any_order(&mut self) -> Option<Working> {
        let orders = self.model.orders.clone();
        (!orders.is_empty()).then(|| self.random.pick(&orders).clone())
    }

    pub(super) fn cancel_any(&mut self) {
        let Some(order) = self.any_order() else {
            return;
        };
        let verdict = self.ask_cancel(order_id(order.id));
        let is_free = order.role != Role::Stop && order.id.1 != FLATTEN;
        assert_eq!(
            verdict.accepted, is_free,
            "seed {}: cancel of {order:?}",
            self.seed
        );
        self.apply(&verdict.changes);
        if verdict.accepted {
            self.model.cancel(order.id);
            self.count("cancel");
        }
    }

    pub(super) fn tighten_any(&mut self) {
        let Some(order) = self.any_order().filter(|order| order.role == Role::Stop) else {
            return;
        };
        let listed = LISTED
            .iter()
            .find(|listed| listed.symbol == order.owner.0)
            .unwrap();
        let old = a(&format_of(&self.book, order.id));
        let near = self.near[listed.symbol];
        let new = match self.random.within(0, 3) {
            // Close to the market, beyond any price at which its entry may still fill.
            0 => steps(near + self.random.within(-20, 20), listed.price_step),
            _ => old
                .checked_add(steps(self.random.within(-40, 200), listed.price_step))
                .unwrap(),
        };
        let new = if new.is_positive() { new } else { old };
        let (rat, trigger) = (r(new), order.trigger.clone().unwrap());
        let mark = self.model.mark(listed.symbol, !order.buys);
        let is_tighter = if order.buys {
            rat < trigger
        } else {
            rat > trigger
        };
        let is_clear = mark.is_none_or(|mark| if order.buys { rat > mark } else { rat < mark });
        let expected = !order.hit && (rat == trigger || (is_tighter && is_clear));
        let verdict = self.ask_tighten(order_id(order.id), new);
        assert_eq!(
            verdict.accepted, expected,
            "seed {}: {order:?} to {new}",
            self.seed
        );
        self.apply(&verdict.changes);
        if verdict.accepted && rat != trigger {
            self.model.tighten(order.id, rat);
            self.count("tighten");
        }
    }

    /// Applies one row of a symbol to both, at the current time.
    pub(super) fn row(&mut self, symbol: &str, row: &Row) {
        let name = Symbol::parse(symbol).unwrap();
        let used = self.model.believed(symbol, &print(row));
        let held = self.book.markets.get(&name).and_then(|m| m.held.clone());
        let by_bars = self.model.specs[symbol].fills_from_bars;
        let rows = [Some(*row), held.map(|held| held.row)];
        let of_fill = |time: Time| {
            rows.iter().flatten().find(|row| {
                row.known_ms() == time.ms() && matches!(row, Row::Bar { .. }) == by_bars
            })
        };
        let done = venue::on_rows(
            &self.book,
            &self.rules,
            &name,
            std::slice::from_ref(row),
            None,
            self.now,
            0,
        )
        .unwrap();
        for step in &done {
            assert!(step.left_open.is_empty(), "seed {}: {step:?}", self.seed);
            let (mut taken, mut of) = ([Rat::zero(), Rat::zero()], None);
            for change in &step.changes {
                if let Change::OrderFilled(fill) = change {
                    // Each row has its own size.
                    if of.replace(fill.market_time) != Some(fill.market_time) {
                        taken = [Rat::zero(), Rat::zero()];
                    }
                    self.look_at(fill, of_fill(fill.market_time).unwrap(), &mut taken);
                }
                self.book.apply(change).unwrap();
            }
        }
        for print in used {
            self.model.row(symbol, &print);
        }
        self.compare();
    }

    /// Compares everything, and checks what must hold for both.
    pub(super) fn compare(&mut self) {
        let (seed, model) = (self.seed, &self.model);
        let context = format!("seed {seed}");
        sides::compare(&self.book, model, &self.rules, &context);
        let view = views::portfolio(&self.book, &self.rules, self.now, &Default::default());
        assert_eq!(view.equity.map(r), model.equity(), "{context}: equity");
        assert_eq!(
            view.unrealised.map(r),
            model.unrealised(),
            "{context}: unrealised"
        );
    }

    /// Draws a row of a symbol and moves the clock accordingly.
    pub(super) fn random_rows(&mut self, listed: &Listed) {
        let near = self.near[listed.symbol];
        let reach = near / 150;
        let spec = self.model.specs[listed.symbol].clone();
        let is_wild = self.random.one_in(15);
        let gap = if is_wild { reach * 4 } else { reach / 3 };
        let price = |number: i64| steps(number, listed.price_step);
        let start = self.now;
        let open = (near + self.random.within(-gap, gap)).max(1000);
        let close = (open + self.random.within(-reach, reach)).max(1000);
        if spec.fills_from_bars {
            let high = open.max(close) + self.random.within(0, reach);
            let low = (open.min(close) - self.random.within(0, reach)).max(500);
            // Sometimes almost no volume, sometimes no volume is given.
            let volume = match self.random.within(0, 5) {
                0 | 1 => None,
                2 => Some(steps(self.random.within(0, 100), listed.size_step)),
                _ => Some(steps(self.random.within(0, 2000), listed.size_step)),
            };
            // Sometimes the bar was already open when the last orders came.
            let open_before_ms = if self.random.one_in(4) {
                self.random.within(1, 59_999)
            } else {
                0
            };
            self.now = start.plus_ms(60_000 - open_before_ms);
            let (open, high, low, close) = (price(open), price(high), price(low), price(close));
            let (open_ms, interval_ms) = (start.ms() - open_before_ms, 60_000);
            self.row(
                listed.symbol,
                &Row::Bar {
                    open_ms,
                    interval_ms,
                    open,
                    high,
                    low,
                    close,
                    volume,
                },
            );
        }
        if !spec.quotes_from_bars {
            // Sometimes the quote has exactly the time at which the last orders came.
            let is_newer = self
                .model
                .quote
                .get(listed.symbol)
                .is_none_or(|(ms, _, _)| *ms < self.now.ms())
                && !self.model.waiting.contains_key(listed.symbol);
            let at_once = is_newer && self.random.one_in(4);
            self.now = self.now.plus_ms(if at_once { 0 } else { 1000 });
            let half = self.random.within(0, reach / 10);
            let (bid, ask) = (price(close - half), price(close + half));
            let time_ms = self.now.ms();
            // Sometimes with sizes, which may be small, and sometimes without a size on one side.
            let mut size = || match self.random.within(0, 3) {
                0 => Some(steps(self.random.within(0, 40), listed.size_step)),
                _ => None,
            };
            let (bid_size, ask_size) = (size(), size());
            self.row(
                listed.symbol,
                &Row::Quote {
                    time_ms,
                    bid,
                    ask,
                    bid_size,
                    ask_size,
                },
            );
        }
        // Wild rows are often wrong, and the market then goes on where it was.
        if !is_wild || self.random.one_in(2) {
            self.near.insert(listed.symbol, close);
        }
    }

    /// One turn of a random walk: some requests, then the market.
    pub(super) fn turn(&mut self) {
        let listed = &LISTED[usize::try_from(self.random.within(0, 2)).unwrap()];
        self.requests(listed);
        self.pass_time();
        let is_changed = self.random.one_in(6);
        let kept = self.rules.clone();
        if is_changed {
            self.change_filters(listed.symbol);
        }
        self.random_rows(listed);
        if is_changed {
            self.rules = kept;
            self.model
                .specs
                .insert(listed.symbol.to_owned(), spec(&self.rules, listed.symbol));
        }
    }

    /// Sends many small exits of a position.
    fn many_exits(&mut self, listed: &Listed) {
        let mut positions = self.book.positions.values();
        let Some(held) = positions.find(|held| held.symbol.as_str() == listed.symbol) else {
            return;
        };
        let (strategy, buys) = (held.strategy.to_string(), held.size.is_negative());
        for _ in 0..self.random.within(3, 14) {
            let kind = *self.random.pick(&["market", "limit", "limit", "stop"]);
            let own = self.random.within(1, listed.price * 3);
            let size = steps(2, listed.size_step);
            let exit = self.order(listed, &strategy, buys, kind, own, 1, size);
            self.submit(&exit);
            self.now = self.now.plus_ms(self.random.within(0, 2));
            self.compare();
        }
    }

    /// Sends up to three requests, now and then many exits.
    pub(super) fn requests(&mut self, listed: &Listed) {
        if self.random.one_in(8) {
            self.many_exits(listed);
        }
        for _ in 0..self.random.within(0, 3) {
            match self.random.within(0, 7) {
                0 => self.cancel_any(),
                1 | 2 => self.tighten_any(),
                _ => {
                    let order = self.draw(listed);
                    self.submit(&order);
                }
            }
            if self.random.one_in(3) {
                self.now = self.now.plus_ms(self.random.within(1, 500));
            }
            self.compare();
        }
    }
}

fn format_of(book: &Book, id: Id) -> String {
    book.orders[&order_id(id)].trigger.unwrap().to_string()
}
