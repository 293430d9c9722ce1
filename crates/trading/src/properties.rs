//! Properties that hold after any sequence of requests and rows.

use proptest::prelude::*;

use super::book::Book;
use super::change::Change;
use super::order::{OrderRole, Position};
use super::risk::stops_of;
use super::testing::*;
use super::venue;
use crate::market_row::Row;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{Leg, OrderId, Symbol};
use spoolgate_wire::orders::{Side, SubmitOrder, TimeInForce};

/// A random order: prices relative to the market, in ticks.
#[derive(Clone, Debug)]
pub(super) struct Draw {
    strategy: &'static str,
    symbol: &'static str,
    side: &'static str,
    lots: i64,
    kind: u8,
    offset: i64,
    stop: i64,
    thesis: u8,
    target: Option<i64>,
    lasts: TimeInForce,
}

#[derive(Clone, Debug)]
pub(super) enum Op {
    Submit(Draw),
    Cancel { nth: usize },
    Tighten { nth: usize, by: i64 },
    Bars(Vec<(i64, i64, i64, i64, Option<i64>)>),
    Quotes(Vec<(i64, i64)>),
    Wait { ms: i64 },
    Deposit { whole: i64 },
    Halt(bool),
}

fn bar() -> impl Strategy<Value = (i64, i64, i64, i64, Option<i64>)> {
    (
        -2000..2000i64,
        0..1500i64,
        0..1500i64,
        -1500..1500i64,
        prop::option::of(0..1000i64),
    )
}

fn draw() -> impl Strategy<Value = Draw> {
    let names = (
        prop::sample::select(vec!["trend", "mean"]),
        prop::sample::select(vec!["BTC-USD", "ETH-USD"]),
    );
    let side = prop::sample::select(vec!["buy", "sell"]);
    let lasts = prop::sample::select(vec![TimeInForce::Gtc, TimeInForce::Ioc, TimeInForce::Day]);
    let more = (prop::option::of(50..1500i64), lasts);
    (
        names,
        side,
        1..60i64,
        0..3u8,
        -1500..1500i64,
        50..3000i64,
        0..4u8,
        more,
    )
        .prop_map(
            |((strategy, symbol), side, lots, kind, offset, stop, thesis, (target, lasts))| Draw {
                strategy,
                symbol,
                side,
                lots,
                kind,
                offset,
                stop,
                thesis,
                target,
                lasts,
            },
        )
}

pub(super) fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        10 => draw().prop_map(Op::Submit),
        1 => (0..8usize).prop_map(|nth| Op::Cancel { nth }),
        1 => (0..8usize, -300..900i64).prop_map(|(nth, by)| Op::Tighten { nth, by }),
        6 => prop::collection::vec(bar(), 1..4).prop_map(Op::Bars),
        6 => prop::collection::vec((-500..500i64, 0..150i64), 1..4).prop_map(Op::Quotes),
        1 => (1..100_000i64).prop_map(|ms| Op::Wait { ms }),
        1 => (-100..100i64).prop_map(|whole| Op::Deposit { whole }),
        1 => prop::bool::weighted(0.3).prop_map(Op::Halt),
    ]
}

/// Formats a price given in tenths.
fn tenths(number: i64) -> String {
    format!("{}.{}", number / 10, number % 10)
}

/// Formats a price given in hundredths.
fn hundredths(number: i64) -> String {
    format!("{}.{:02}", number / 100, number % 100)
}

pub(super) struct Walk {
    pub(super) world: World,
    /// The last close of BTC, in ticks of 0.1.
    last: i64,
    /// The last bid of ETH, in ticks of 0.01.
    bid: i64,
}

impl Walk {
    pub(super) fn new() -> Walk {
        Walk {
            world: World::new(),
            last: 68_000,
            bid: 20_000,
        }
    }

    /// Returns the order that this step would send.
    pub(super) fn would_send(&self, op: &Op) -> Option<SubmitOrder> {
        match op {
            Op::Submit(draw) => Some(self.order(draw)),
            _ => None,
        }
    }

    pub(super) fn step(&mut self, op: Op) {
        match op {
            Op::Submit(draw) => self.submit(&draw),
            Op::Cancel { nth } => {
                if let Some(id) = self.world.book.orders.keys().nth(nth).copied() {
                    self.world.cancel(id);
                }
            }
            Op::Tighten { nth, by } => {
                if let Some(id) = self.world.book.orders.keys().nth(nth).copied() {
                    self.tighten(id, by);
                }
            }
            Op::Bars(bars) => self.bars(&bars),
            Op::Quotes(quotes) => self.quotes(&quotes),
            Op::Wait { ms } => self.world.wait(ms),
            Op::Deposit { whole } => {
                self.world.apply(&[Change::AccountAdjusted {
                    amount: Amount::from_i64(whole),
                }]);
            }
            Op::Halt(on) => self.world.halted = on.then_some("halted"),
        }
        self.world.settle("0.1");
        self.check();
    }

    fn order(&self, draw: &Draw) -> SubmitOrder {
        let is_btc = draw.symbol == "BTC-USD";
        let told = if is_btc { tenths } else { hundredths };
        let scale = if is_btc { 1 } else { 3 };
        let near = if is_btc { self.last } else { self.bid };
        let own = near + draw.offset / scale;
        let base = if draw.kind == 0 { near } else { own };
        let stop_by = draw.stop / scale;
        let stop_at = told(if draw.side == "buy" {
            base - stop_by
        } else {
            base + stop_by
        });
        let lot = if is_btc { "0.001" } else { "0.01" };
        let size = Amount::from_i64(draw.lots)
            .checked_mul(a(lot))
            .unwrap()
            .to_string();
        let mut order = market_order(
            draw.strategy,
            draw.symbol,
            draw.side,
            &size,
            &stop_at,
            draw.thesis,
        );
        order.planned_entry = a(&told(base));
        order.time_in_force = draw.lasts;
        order.target_price = draw.target.map(|by| {
            let by = by / scale;
            a(&told(if draw.side == "buy" {
                base + by
            } else {
                base - by
            }))
        });
        match draw.kind {
            0 => order,
            1 => limit(order, &told(own)),
            _ => stop(order, &told(own)),
        }
    }

    fn submit(&mut self, draw: &Draw) {
        let order = self.order(draw);
        let verdict = self.world.submit(&order);
        let places = |role| {
            let of = |change: &Change| {
                matches!(change,
                Change::OrderPlaced(order) if order.role == role)
            };
            verdict.changes.iter().any(of)
        };
        if places(OrderRole::Entry) {
            let placed = OrderId::of_line(self.world.seq);
            let pulls = self.world.pulls("0.1");
            assert!(
                !pulls.iter().any(|(id, _)| *id == placed),
                "what was just accepted is allowed: {pulls:?}"
            );
            for name in [
                "max_single_trade_risk",
                "max_single_position",
                "max_total_exposure",
                "same_direction_exposure",
                "max_portfolio_risk",
                "loss_budget",
                "gap_budget",
            ] {
                let row = row(&verdict, name);
                // If prices pushed the book over its limit, orders that do not add to the worst
                // case still pass.
                let adds_risk =
                    ["max_single_trade_risk", "max_portfolio_risk", "loss_budget"].contains(&name);
                let harmless = !adds_risk && self.worst_units_unchanged(&order);
                assert!(
                    row.value.unwrap() <= row.limit.unwrap() || harmless,
                    "{row:?}"
                );
            }
        } else if !verdict.accepted {
            let headroom = verdict.headroom.unwrap();
            if headroom.max_size.is_positive() {
                let mut fitting = order.clone();
                fitting.size = headroom.max_size;
                let again = self.world.ask(&fitting);
                assert!(again.accepted, "{headroom:?} {:?}", failed(&again));
            }
        }
    }

    /// Whether the newest entry leaves the worse side of its symbol unchanged: the sum over its legs
    /// of what each may come to hold.
    fn worst_units_unchanged(&self, newest: &SubmitOrder) -> bool {
        let book = &self.world.book;
        let (mut long, mut short) = (Amount::ZERO, Amount::ZERO);
        let held = book.positions.values();
        for position in held.filter(|held| held.symbol == newest.symbol) {
            let size = position.size.abs();
            let side = if position.size.is_positive() {
                &mut long
            } else {
                &mut short
            };
            *side = side.checked_add(size).unwrap();
        }
        let of_symbol = book
            .orders
            .values()
            .filter(|order| order.symbol == newest.symbol);
        for order in of_symbol.filter(|order| order.role == OrderRole::Entry) {
            let side = match order.side {
                Side::Buy => &mut long,
                Side::Sell => &mut short,
            };
            *side = side.checked_add(order.leaves()).unwrap();
        }
        match newest.side {
            Side::Buy => long <= short,
            Side::Sell => short <= long,
        }
    }

    fn tighten(&mut self, id: OrderId, by: i64) {
        let stop_id = id.stop();
        let Some(old) = self
            .world
            .book
            .orders
            .get(&stop_id)
            .and_then(|stop| stop.trigger)
        else {
            return;
        };
        let new = old
            .checked_add(Amount::from_i64(by).checked_mul(a("0.1")).unwrap())
            .unwrap();
        let verdict = self.world.tighten(id, &new.to_string());
        let stop = &self.world.book.orders[&stop_id];
        let kept = if verdict.accepted { new } else { old };
        assert_eq!(stop.trigger, Some(kept));
        match stop.side {
            Side::Sell => assert!(kept >= old),
            Side::Buy => assert!(kept <= old),
        }
    }

    fn bars(&mut self, bars: &[(i64, i64, i64, i64, Option<i64>)]) {
        let mut rows = Vec::new();
        for (gap, up, down, body, volume) in bars {
            let open = (self.last + gap).clamp(20_000, 200_000);
            let close = (open + body).clamp(20_000, 200_000);
            let price = |number: i64| a(&tenths(number));
            rows.push(Row::Bar {
                open_ms: self.world.now.ms(),
                interval_ms: 60_000,
                open: price(open),
                high: price(open.max(close) + up),
                low: price(open.min(close) - down),
                close: price(close),
                volume: volume
                    .map(|volume| Amount::from_i64(volume).checked_mul(a("0.001")).unwrap()),
            });
            self.world.wait(60_000);
            self.last = close;
        }
        self.run(&btc(), &rows);
    }

    fn quotes(&mut self, quotes: &[(i64, i64)]) {
        let mut rows = Vec::new();
        for (moved, spread) in quotes {
            self.bid = (self.bid + moved).clamp(5_000, 50_000);
            self.world.wait(1000);
            rows.push(Row::Quote {
                time_ms: self.world.now.ms(),
                bid: a(&hundredths(self.bid)),
                ask: a(&hundredths(self.bid + spread)),
                bid_size: None,
                ask_size: None,
            });
        }
        self.run(&eth(), &rows);
    }

    fn run(&mut self, symbol: &Symbol, rows: &[Row]) {
        let before = self.world.book.clone();
        let steps = self.world.rows(symbol, rows);
        for step in &steps {
            assert!(step.left_open.is_empty(), "{step:?}");
        }
        check_reductions(before.clone(), &steps);
        // Row by row the venue arrives at the same book as with all rows at once.
        let mut one_by_one = before;
        for row in rows {
            let row = std::slice::from_ref(row);
            for step in venue::on_rows(
                &one_by_one,
                &self.world.rules,
                symbol,
                row,
                None,
                self.world.now,
                0,
            )
            .unwrap()
            {
                step.changes
                    .iter()
                    .for_each(|change| one_by_one.apply(change).unwrap());
            }
        }
        assert_eq!(one_by_one, self.world.book);
    }

    fn check(&mut self) {
        let book = &self.world.book;
        let json = serde_json::to_string(book).unwrap();
        assert_eq!(&serde_json::from_str::<Book>(&json).unwrap(), book);
        let account = &book.account;
        let cost = book
            .positions
            .values()
            .try_fold(Amount::ZERO, |sum, held| sum.checked_add(held.cost))
            .unwrap();
        let left = account.cash.checked_add(cost).unwrap();
        let right = account
            .net_deposits
            .checked_add(account.realised)
            .unwrap()
            .checked_sub(account.fees)
            .unwrap();
        let right = right.checked_sub(account.funding).unwrap();
        assert_eq!(
            left, right,
            "cash + cost = deposits + realised - fees - funding"
        );
        let view =
            super::views::portfolio(book, &self.world.rules, self.world.now, &Default::default());
        if let (Some(equity), Some(unrealised)) = (view.equity, view.unrealised) {
            assert_eq!(equity, right.checked_add(unrealised).unwrap());
        }
        for held in book.positions.values() {
            let stops = stops_of(book, held).map(|stop| stop.leaves());
            let protected =
                stops.fold(Amount::ZERO, |sum, leaves| sum.checked_add(leaves).unwrap());
            assert_eq!(
                protected,
                held.size.abs(),
                "every entry was protected, so every position is"
            );
        }
        for order in book
            .orders
            .values()
            .filter(|order| order.role == OrderRole::Protective)
        {
            let entry = OrderId::of_line(order.order_id.seq);
            assert!(
                order.leaves().is_positive() || book.orders.contains_key(&entry),
                "idle stop"
            );
            let key = (order.symbol.clone(), order.strategy.clone());
            assert!(
                order.leaves().is_zero() || book.positions.contains_key(&key),
                "a stop without a position"
            );
        }
        for target in book
            .orders
            .values()
            .filter(|order| order.role == OrderRole::Target)
        {
            let stop = &book.orders[&target.order_id.stop()];
            assert_eq!(
                target.leaves(),
                stop.leaves(),
                "a target is for what its stop protects"
            );
        }
        let held: Vec<Position> = book.positions.values().cloned().collect();
        for position in held {
            self.exits_always_pass(&position);
        }
    }

    fn exits_always_pass(&mut self, position: &Position) {
        let side = position.closing_side();
        let capacity = super::class::capacity(
            &self.world.book,
            &position.strategy,
            &position.symbol,
            side,
            spoolgate_wire::orders::OrderType::Market,
        )
        .unwrap_or(Amount::ZERO);
        if !capacity.is_positive() {
            return;
        }
        let (strategy, symbol) = (position.strategy.as_str(), position.symbol.as_str());
        let order = market_order(
            strategy,
            symbol,
            side.as_str(),
            &capacity.to_string(),
            "1",
            0,
        );
        let saved = (
            self.world.halted,
            self.world.book.clone(),
            self.world.rules.clone(),
        );
        self.world.shut();
        self.world.halted = Some("halted");
        self.world.clock_fault = Some("clock");
        self.world.rulebook_fault = Some("rules");
        self.world.book.markets.clear();
        let verdict = self.world.ask(&order);
        assert!(verdict.accepted, "{:?}", failed(&verdict));
        let open: Vec<OrderId> = self.world.book.orders.keys().copied().collect();
        for id in open.into_iter().filter(|id| id.leg == Leg::Order) {
            assert!(self.world.cancel(id).accepted);
        }
        (self.world.halted, self.world.book, self.world.rules) = saved;
        (self.world.clock_fault, self.world.rulebook_fault) = (None, None);
    }
}

/// Fills of exits and stops only ever reduce, and never past flat.
fn check_reductions(mut book: Book, steps: &[venue::Step]) {
    for change in steps.iter().flat_map(|step| &step.changes) {
        let size_of = |book: &Book| match change {
            Change::OrderFilled(fill) if fill.role != OrderRole::Entry => {
                let key = (fill.symbol.clone(), fill.strategy.clone());
                Some(
                    book.positions
                        .get(&key)
                        .map_or(Amount::ZERO, |held| held.size),
                )
            }
            _ => None,
        };
        if let Change::OrderFilled(fill) = change {
            assert!(fill.size.is_positive() && fill.price.is_positive() && !fill.fee.is_negative());
        }
        let before = size_of(&book);
        book.apply(change).unwrap();
        if let (Some(before), Some(after)) = (before, size_of(&book)) {
            assert!(after.abs() < before.abs(), "{before} {after}");
            assert!(
                after.is_zero() || after.is_positive() == before.is_positive(),
                "{before} {after}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_book_stays_whole(ops in prop::collection::vec(op(), 1..60)) {
        let mut walk = Walk::new();
        for op in ops {
            walk.step(op);
        }
    }
}
