//! A small world for tests: a rulebook from YAML texts, a book with 5000 in cash, BTC-USD at 6800.

use super::book::Book;
use super::change::Change;
use super::guard::{self, Impose, Imposed};
use super::order::Order;
use super::requests::{ClosedOrder, Context, Messages, Verdict};
use super::venue::{self, Step};
use super::{cancel, submit, tighten};
use crate::market_row::Row;
use spoolgate_rules::{Bundle, Rulebook};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::checks::CheckRow;
use spoolgate_wire::ids::{OrderId, Principal, StrategyName, Symbol};
use spoolgate_wire::orders::{CancelOrder, SubmitOrder, TightenStop};
use spoolgate_wire::time::Time;

pub(super) const SAFETY: &str = "
max_total_capital: 5000
max_single_position: 0.2
max_single_trade_risk: 0.02
max_total_exposure: 0.5
max_daily_loss: 250
max_drawdown: 0.15
max_weekly_loss: 500
max_portfolio_risk: 1
slippage_to_plan: 1
max_open_positions: 1000
max_open_orders: 1000
max_entries_per_minute: 1000
max_entries_per_minute_all: 1000
max_executions: 1000
max_losing_trades: 1000
cooldown_s: 0
max_order_value: 1000
price_collar: 0.02
price_collar_passive: 0.1
max_spread: 0.005
max_mid_deviation: 0.01
quote_age_floor_s: 120
entry_slippage: 0.001
stop_slippage: 0.001
duplicate_window_s: 30
request_age_max_s: 60
request_ahead_max_s: 5
exit_age_max_s: 86400
clock_gap_max_s: 604800
";

const PRINCIPALS: &str = "
principals:
  - {name: alice, role: agent, strategies: [trend, mean]}
  - {name: bob, role: agent, strategies: [other], request_age_max_s: 10}
";

const INSTRUMENTS: &str = "
instruments:
  - {symbol: BTC-USD, multiplier: 1, tick: 0.1, lot: 0.001, min_size: 0.002, max_size: 10, \
      min_notional: 5,
     min_stop_ticks: 5, quotes_from: bars, fills_from: bars, half_spread: 0.0005, slippage: 0.001,
     maker_fee: 0.0002, taker_fee: 0.001, volume_share: 0.1, bar_s: 60}
  - {symbol: ETH-USD, multiplier: 1, tick: 0.01, lot: 0.01, min_size: 0.01, max_size: 100, \
      min_notional: 5,
     min_stop_ticks: 5, quotes_from: quotes, fills_from: quotes, half_spread: 0, slippage: 0.001,
     maker_fee: 0.0002, taker_fee: 0.001, volume_share: 1, bar_s: 60}
";

/// The checks that [`World::shut`] closes.
pub(super) const SHUT: [&str; 22] = [
    "slippage_to_plan",
    "same_direction_exposure",
    "correlated_group",
    "strategy_allocation",
    "max_portfolio_risk",
    "loss_budget",
    "gap_budget",
    "daily_turnover",
    "weekly_loss_halt",
    "instrument_allowed",
    "dead_man",
    "max_open_positions",
    "max_open_orders",
    "buying_power",
    "liquidity_participation",
    "time_window",
    "order_rate",
    "message_rate",
    "repeated_execution",
    "loss_streak",
    "reject_streak",
    "cooldown",
];

/// Saturday noon; the books of the tests begin here.
pub(super) const NOON: &str = "2026-02-21T12:00:00Z";

pub(super) fn a(text: &str) -> Amount {
    Amount::parse_exact(text).unwrap()
}

pub(super) fn btc() -> Symbol {
    Symbol::parse("BTC-USD").unwrap()
}

pub(super) fn eth() -> Symbol {
    Symbol::parse("ETH-USD").unwrap()
}

pub(super) fn trend() -> StrategyName {
    StrategyName::parse("trend").unwrap()
}

pub(super) fn rules() -> Rulebook {
    let mut bundle = Bundle::default();
    let mut file = |path: String, text: String| bundle.files.insert(path, text);
    file("rules/safety.yaml".into(), SAFETY.into());
    file("rules/principals.yaml".into(), PRINCIPALS.into());
    file("rules/instruments.yaml".into(), INSTRUMENTS.into());
    for name in ["trend", "mean", "other"] {
        let text = format!(
            "name: {name}\nstatus: active\ninstruments: [BTC-USD, ETH-USD]\ndirections: [long, \
                short]\n\
                stop_distance: {{min: 0.001, max: 0.1}}\n"
        );
        file(format!("rules/strategies/{name}.yaml"), text);
        for (symbol, short) in [("BTC-USD", "btc"), ("ETH-USD", "eth")] {
            for direction in ["long", "short"] {
                for number in 0..4 {
                    let slug = format!("{name}-{short}-{direction}-{number}");
                    let text = format!(
                        "---\nslug: {slug}\nstrategy: {name}\nsymbol: {symbol}\ndirection: \
                            {direction}\n\
                            expires: 2027-01-01T00:00:00Z\ninvalid_below: 100\ninvalid_above: \
                            90000\n---\nWhy.\n"
                    );
                    file(format!("proposals/theses/{slug}.md"), text);
                }
            }
        }
    }
    Rulebook::compile(&bundle).unwrap()
}

/// A buy or sell of 0.01 BTC at the market by `trend`, with a stop about 1.5% away.
pub(super) fn order(json: &str) -> SubmitOrder {
    let order: SubmitOrder = serde_json::from_str(json).unwrap();
    order.validate().unwrap();
    order
}

pub(super) fn buy(size: &str) -> SubmitOrder {
    market_order("trend", "BTC-USD", "buy", size, "6700", 0)
}

pub(super) fn sell(size: &str) -> SubmitOrder {
    market_order("trend", "BTC-USD", "sell", size, "6900", 0)
}

pub(super) fn market_order(
    strategy: &str,
    symbol: &str,
    side: &str,
    size: &str,
    stop: &str,
    thesis: u8,
) -> SubmitOrder {
    let short = if symbol == "BTC-USD" { "btc" } else { "eth" };
    let direction = if side == "buy" { "long" } else { "short" };
    let planned = if symbol == "BTC-USD" { "6800" } else { "200" };
    order(&format!(
        r#"{{"strategy":"{strategy}","symbol":"{symbol}","side":"{side}","size":"{size}","order_type":"market",
           "stop_price":"{stop}","thesis_slug":"{strategy}-{short}-{direction}-{thesis}","planned_entry":"{planned}",
           "planned_stop":"{stop}"}}"#
    ))
}

/// `order` as a limit order.
pub(super) fn limit(mut order: SubmitOrder, price: &str) -> SubmitOrder {
    order.order_type = spoolgate_wire::orders::OrderType::Limit;
    order.price = Some(a(price));
    order.planned_entry = a(price);
    order
}

/// `order` as a stop order.
pub(super) fn stop(mut order: SubmitOrder, trigger: &str) -> SubmitOrder {
    order.order_type = spoolgate_wire::orders::OrderType::Stop;
    order.stop_price = Some(a(trigger));
    order.planned_entry = a(trigger);
    order
}

pub(super) struct World {
    pub book: Book,
    pub rules: Rulebook,
    pub now: Time,
    pub requested_at: Option<Time>,
    pub source: Principal,
    pub seq: u64,
    pub halted: Option<&'static str>,
    pub unheard: Option<&'static str>,
    pub messages: Messages,
    pub clock_fault: Option<&'static str>,
    pub rulebook_fault: Option<&'static str>,
    pub closed: Option<ClosedOrder>,
    pub paused: Option<&'static str>,
    pub limit_factor: Option<Amount>,
    pub key_fault: Option<&'static str>,
    /// Whether every bridge is alive and reconciled.
    pub(crate) is_heard: bool,
}

/// The doors that a world closes, to every entry alike.
impl Impose for World {
    fn clock_fault(&self) -> Option<String> {
        self.clock_fault.map(str::to_owned)
    }

    fn rulebook_fault(&self) -> Option<String> {
        self.rulebook_fault.map(str::to_owned)
    }

    fn on(&self, _: &Order) -> Imposed {
        let told = |why: Option<&'static str>| why.map(str::to_owned);
        Imposed {
            halted: told(self.halted),
            unheard: told(self.unheard),
            paused: told(self.paused),
            limit_factor: self.limit_factor,
            key_fault: told(self.key_fault),
        }
    }
}

impl World {
    pub(crate) fn new() -> World {
        let mut world = World {
            book: Book::default(),
            rules: rules(),
            now: Time::parse(NOON).unwrap(),
            requested_at: None,
            source: Principal::parse("alice").unwrap(),
            seq: 0,
            halted: None,
            unheard: None,
            messages: Messages::default(),
            clock_fault: None,
            rulebook_fault: None,
            closed: None,
            paused: None,
            limit_factor: None,
            key_fault: None,
            is_heard: true,
        };
        world.apply(&[Change::AccountAdjusted { amount: a("5000") }]);
        world.bar("6800", "6800", "6800", "6800");
        world.quote("200", "200.2");
        world
    }

    /// Returns the entries that are no longer allowed, each with the check.
    pub(crate) fn pulls(&self, margin: &str) -> Vec<(OrderId, String)> {
        let book = self.heard();
        let pulls = guard::pulls(&book, &self.rules, self, self.now, a(margin));
        let told = pulls.into_iter();
        told.map(|pull| (pull.order.order_id, pull.why.check))
            .collect()
    }

    /// Returns the book with a sign of life and a snapshot of every bridge of the rules.
    fn heard(&self) -> Book {
        let mut book = self.book.clone();
        if self.is_heard {
            for name in self
                .rules
                .instruments
                .values()
                .filter_map(|it| it.bridge.as_ref())
            {
                let bridge = book.bridges.entry(name.clone()).or_default();
                (bridge.silent, bridge.reconciled_at) = (None, Some(self.now));
            }
        }
        book
    }

    /// Pulls what is no longer allowed, until everything is.
    pub(crate) fn settle(&mut self, margin: &str) {
        self.book = self.heard();
        let pulls = guard::pulls(&self.book, &self.rules, self, self.now, a(margin));
        let changes: Vec<Change> = pulls
            .iter()
            .flat_map(|pull| pull.changes(&self.book, self.now))
            .collect();
        self.apply(&changes);
        assert_eq!(self.pulls(margin), [], "nothing is left to pull");
    }

    pub(crate) fn apply(&mut self, changes: &[Change]) {
        for change in changes {
            let json = serde_json::to_string(change).unwrap();
            assert_eq!(
                &serde_json::from_str::<Change>(&json).unwrap(),
                change,
                "{json}"
            );
            self.book.apply(change).unwrap();
        }
    }

    fn with_context<T>(&mut self, run: impl FnOnce(&World, &Context) -> T) -> T {
        self.seq += 1;
        self.book = self.heard();
        let ctx = Context {
            now: self.now,
            requested_at: self.requested_at.unwrap_or(self.now),
            source: &self.source,
            order_id: OrderId::of_line(self.seq),
            halted: self.halted,
            unheard: self.unheard,
            messages: self.messages,
            clock_fault: self.clock_fault,
            rulebook_fault: self.rulebook_fault,
            closed_order: self.closed.as_ref(),
            key_id: None,
            key_fault: None,
            paused: self.paused,
            limit_factor: self.limit_factor,
        };
        run(self, &ctx)
    }

    /// Decides without applying.
    pub(crate) fn decide(&mut self, order: &SubmitOrder) -> Verdict {
        self.with_context(|world, ctx| submit(&world.book, &world.rules, order, ctx))
    }

    /// Decides without applying, and asserts that headroom equals the result of trying every size.
    pub(crate) fn ask(&mut self, order: &SubmitOrder) -> Verdict {
        self.with_context(|world, ctx| {
            let verdict = submit(&world.book, &world.rules, order, ctx);
            let naive = || super::naive::headroom(&world.book, &world.rules, order, ctx);
            assert_eq!(
                verdict.headroom,
                (!verdict.accepted).then(naive),
                "{order:?}"
            );
            verdict
        })
    }

    pub(crate) fn submit(&mut self, order: &SubmitOrder) -> Verdict {
        let verdict = self.ask(order);
        assert_eq!(verdict.accepted, !verdict.changes.is_empty());
        self.apply(&verdict.changes);
        verdict
    }

    /// Submits and returns the id; panics if the order is rejected.
    pub(crate) fn accepted(&mut self, order: &SubmitOrder) -> OrderId {
        let verdict = self.submit(order);
        assert!(verdict.accepted, "{:#?}", failed(&verdict));
        OrderId::of_line(self.seq)
    }

    /// Returns the names of the failed checks.
    pub(crate) fn refused(&mut self, order: &SubmitOrder) -> Vec<String> {
        let verdict = self.ask(order);
        assert!(!verdict.accepted);
        assert!(verdict.headroom.is_some());
        failed(&verdict)
            .into_iter()
            .map(|row| row.name.into_owned())
            .collect()
    }

    pub(crate) fn row_of(&mut self, order: &SubmitOrder, name: &str) -> CheckRow {
        row(&self.ask(order), name)
    }

    pub(crate) fn cancel(&mut self, order_id: OrderId) -> Verdict {
        let request = CancelOrder {
            order_id,
            reason: None,
        };
        let verdict =
            self.with_context(|world, ctx| cancel(&world.book, &world.rules, &request, ctx));
        self.apply(&verdict.changes);
        verdict
    }

    pub(crate) fn tighten(&mut self, order_id: OrderId, new_stop: &str) -> Verdict {
        let request = TightenStop {
            order_id,
            new_stop: a(new_stop),
        };
        let verdict =
            self.with_context(|world, ctx| tighten(&world.book, &world.rules, &request, ctx));
        self.apply(&verdict.changes);
        verdict
    }

    /// Sets the `max_gap` of a symbol.
    pub(crate) fn gap_of(&mut self, symbol: &Symbol, max: &str) {
        let instrument = self.rules.instruments.get_mut(symbol).unwrap();
        instrument.max_gap = Some(a(max).try_into().unwrap());
    }

    pub(crate) fn wait(&mut self, ms: i64) {
        self.now = self.now.plus_ms(ms);
    }

    pub(crate) fn rows(&mut self, symbol: &Symbol, rows: &[Row]) -> Vec<Step> {
        let steps = venue::on_rows(&self.book, &self.rules, symbol, rows, None, self.now, 0);
        let steps = steps.unwrap();
        for step in &steps {
            assert!(serde_json::to_vec(&step.changes).unwrap().len() <= 40_000);
            self.apply(&step.changes);
        }
        steps
    }

    /// Adds a minute bar of BTC that opens now; the clock moves on to its close.
    pub(crate) fn bar(&mut self, open: &str, high: &str, low: &str, close: &str) -> Vec<Change> {
        self.bar_of(open, high, low, close, None)
    }

    pub(crate) fn bar_of(
        &mut self,
        open: &str,
        high: &str,
        low: &str,
        close: &str,
        volume: Option<&str>,
    ) -> Vec<Change> {
        let row = Row::Bar {
            open_ms: self.now.ms(),
            interval_ms: 60_000,
            open: a(open),
            high: a(high),
            low: a(low),
            close: a(close),
            volume: volume.map(a),
        };
        self.wait(60_000);
        self.rows(&btc(), &[row])
            .into_iter()
            .flat_map(|step| step.changes)
            .collect()
    }

    /// Adds a bar with one price.
    pub(crate) fn flat(&mut self, price: &str) -> Vec<Change> {
        self.bar(price, price, price, price)
    }

    /// Adds a quote of ETH now.
    pub(crate) fn quote(&mut self, bid: &str, ask: &str) -> Vec<Change> {
        let row = Row::Quote {
            time_ms: self.now.ms(),
            bid: a(bid),
            ask: a(ask),
            bid_size: None,
            ask_size: None,
        };
        self.rows(&eth(), &[row])
            .into_iter()
            .flat_map(|step| step.changes)
            .collect()
    }

    /// Sets every limit on the risk of the book, on repetition, time and cash so that it refuses
    /// every entry: [`SHUT`].
    pub(crate) fn shut(&mut self) {
        let nothing = a("0.0000000001");
        let safety = &mut self.rules.safety;
        safety.slippage_to_plan = nothing.try_into().unwrap();
        safety.max_same_direction_exposure = Some(nothing.try_into().unwrap());
        safety.max_correlated_group = Some(nothing.try_into().unwrap());
        safety.max_portfolio_risk = nothing.try_into().unwrap();
        safety.max_weekly_loss = nothing.try_into().unwrap();
        safety.max_volume_share = Some(nothing.try_into().unwrap());
        safety.restricted_instruments = self.rules.instruments.keys().cloned().collect();
        safety.max_messages_per_minute = 1.try_into().unwrap();
        safety.max_protected_per_minute = 1;
        self.messages = Messages {
            own: 2,
            all: 2,
            protected: 2,
        };
        self.unheard = Some("not heard of");
        (safety.max_open_positions, safety.max_open_orders) = (0, 0);
        (
            safety.max_entries_per_minute,
            safety.max_entries_per_minute_all,
        ) = (0, 0);
        safety.max_executions = 1.try_into().unwrap();
        safety.max_losing_trades = 1.try_into().unwrap();
        safety.cooldown_s = 604_800.try_into().unwrap();
        let all_day = "[{from: 00:00, to: 12:00}, {from: 12:00, to: 00:00}]";
        safety.restricted = serde_yaml::from_str(all_day).unwrap();
        for instrument in self.rules.instruments.values_mut() {
            instrument.group = Some("all".to_owned());
        }
        for (name, strategy) in &mut self.rules.strategies {
            strategy.allocation = Some(nothing.try_into().unwrap());
            strategy.restricted = self.rules.safety.restricted.clone();
            let conduct = self.book.conduct.entry(name.clone()).or_default();
            (conduct.losing, conduct.stopped_out_at) = (9, Some(self.now));
            (conduct.disabled_since, conduct.rejects) = (Some(self.now), 9);
        }
        if let Some(week) = &mut self.book.account.week {
            week.equity = a("1000000000");
        }
        self.book.account.cash = a("-1000000");
    }

    pub(crate) fn position(&self) -> Amount {
        let key = (btc(), trend());
        self.book
            .positions
            .get(&key)
            .map_or(Amount::ZERO, |position| position.size)
    }

    /// Creates a world where `trend` holds this much BTC with its stop, bought or sold at 6800.
    pub(crate) fn holding(size: &str) -> World {
        let mut world = World::new();
        world.accepted(&size.strip_prefix('-').map_or_else(|| buy(size), sell));
        world.flat("6800");
        assert_eq!(world.position(), a(size));
        world
    }
}

pub(super) fn failed(verdict: &Verdict) -> Vec<CheckRow> {
    verdict
        .checks
        .iter()
        .filter(|row| !row.passed)
        .cloned()
        .collect()
}

pub(super) fn row(verdict: &Verdict, name: &str) -> CheckRow {
    verdict
        .checks
        .iter()
        .find(|row| row.name == name)
        .unwrap_or_else(|| panic!("no row {name}"))
        .clone()
}

/// The fills, as `id side size@price fee`.
pub(super) fn fills(changes: &[Change]) -> Vec<String> {
    let told = |change: &Change| match change {
        Change::OrderFilled(fill) => Some(format!(
            "{} {} {}@{} {}",
            fill.order_id,
            fill.side.as_str(),
            fill.size.normalized(),
            fill.price.normalized(),
            fill.fee.normalized()
        )),
        _ => None,
    };
    changes.iter().filter_map(told).collect()
}
