//! The gate's values in the model's terms, and where the two must be equal.

use std::collections::BTreeMap;

use spoolgate_rules::Rulebook;
use spoolgate_trading::Book;
use spoolgate_trading::market_row::Row;
use spoolgate_trading::order::{Order, OrderRole};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{Leg, OrderId, Symbol};
use spoolgate_wire::orders::{OrderType, Side, TimeInForce};

use crate::paper_model::model::{
    Id, Kind, Lasts, Model, Owner, Print, Role, Spec, Waiting, Working,
};
use crate::paper_model::rational::Rat;

/// A small generator (xorshift), so that a seed determines everything.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn of(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 11
    }

    /// Returns a number from `low` to `high`, both included.
    pub(crate) fn within(&mut self, low: i64, high: i64) -> i64 {
        let span = u64::try_from(high - low + 1).unwrap();
        low + i64::try_from(self.next() % span).unwrap()
    }

    pub(crate) fn one_in(&mut self, count: i64) -> bool {
        self.within(1, count) == 1
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        let last = i64::try_from(from.len()).unwrap() - 1;
        &from[usize::try_from(self.within(0, last)).unwrap()]
    }
}

pub(crate) fn a(text: &str) -> Amount {
    Amount::parse_exact(text).unwrap()
}

pub(crate) fn r(amount: Amount) -> Rat {
    Rat::of(&amount.to_string())
}

pub(crate) fn steps(count: i64, step: &str) -> Amount {
    Amount::from_i64(count).checked_mul(a(step)).unwrap()
}

pub(crate) fn spec(rules: &Rulebook, symbol: &str) -> Spec {
    let rule = &rules.instruments[&Symbol::parse(symbol).unwrap()];
    let is_bars = |source| source == spoolgate_rules::instruments::MarketSource::Bars;
    Spec {
        multiplier: r(*rule.multiplier),
        tick: r(*rule.tick),
        lot: r(*rule.lot),
        half_spread: r(*rule.half_spread),
        slippage: r(*rule.slippage),
        maker: r(*rule.maker_fee),
        taker: r(*rule.taker_fee),
        share: r(*rule.volume_share),
        min_size: r(*rule.min_size),
        min_notional: r(*rule.min_notional),
        max_gap: r(*rule.gap_max()),
        fills_from_bars: is_bars(rule.fills_from),
        quotes_from_bars: is_bars(rule.quotes_from),
    }
}

pub(crate) fn order_id(id: Id) -> OrderId {
    let leg = [Leg::Order, Leg::Stop, Leg::Target, Leg::Flatten][usize::from(id.1)];
    OrderId { seq: id.0, leg }
}

pub(crate) fn working(order: &Order) -> Working {
    Working {
        id: (order.order_id.seq, order.order_id.leg as u8),
        owner: (order.symbol.to_string(), order.strategy.to_string()),
        buys: order.side == Side::Buy,
        role: match order.role {
            OrderRole::Entry => Role::Entry,
            OrderRole::Exit => Role::Exit,
            OrderRole::Protective => Role::Stop,
            OrderRole::Target => Role::Target,
            OrderRole::Adjust => panic!("nothing is adjusted on paper"),
        },
        kind: match order.order_type {
            OrderType::Market => Kind::Market,
            OrderType::Limit => Kind::Limit,
            OrderType::Stop => Kind::Stop,
        },
        size: r(order.size),
        filled: r(order.filled),
        price: order.price.map(r),
        trigger: order.trigger.map(r),
        hit: order.triggered,
        at_ms: order.accepted_at.ms(),
        lasts: lasts(order.time_in_force),
    }
}

pub(crate) fn lasts(time_in_force: TimeInForce) -> Lasts {
    match time_in_force {
        TimeInForce::Gtc => Lasts::Forever,
        TimeInForce::Ioc => Lasts::OneRow,
        TimeInForce::Day => Lasts::OneDay,
    }
}

pub(crate) fn print(row: &Row) -> Print {
    match *row {
        Row::Bar {
            open_ms,
            interval_ms,
            open,
            high,
            low,
            close,
            volume,
        } => Print::Bar {
            open_ms,
            length_ms: interval_ms,
            open: r(open),
            high: r(high),
            low: r(low),
            close: r(close),
            volume: volume.map(r),
        },
        Row::Quote {
            time_ms,
            bid,
            ask,
            bid_size,
            ask_size,
        } => Print::Quote {
            ms: time_ms,
            bid: r(bid),
            ask: r(ask),
            bid_size: bid_size.map(r),
            ask_size: ask_size.map(r),
        },
    }
}

/// Compares everything that the book and the model both have, and checks what must hold for both.
pub(crate) fn compare(book: &Book, model: &Model, rules: &Rulebook, context: &str) {
    let account = &book.account;
    let positions: BTreeMap<Owner, (Rat, Rat)> = book
        .positions
        .values()
        .map(|p| {
            (
                (p.symbol.to_string(), p.strategy.to_string()),
                (r(p.size), r(p.cost)),
            )
        })
        .collect();
    assert_eq!(positions, model.held, "{context}");
    let orders: Vec<Working> = book.orders.values().map(working).collect();
    assert_eq!(orders, model.orders, "{context}");
    let waiting: BTreeMap<String, Waiting> = book
        .markets
        .iter()
        .filter_map(|(symbol, market)| {
            let held = market.held.as_ref()?;
            let (print, before) = (print(&held.row), r(held.previous));
            Some((symbol.to_string(), Waiting { print, before }))
        })
        .collect();
    assert_eq!(waiting, model.waiting, "{context}");
    let halted: Vec<String> = book.halted_symbols.keys().map(Symbol::to_string).collect();
    assert_eq!(
        halted,
        model.halted.iter().cloned().collect::<Vec<_>>(),
        "{context}"
    );
    assert_eq!(r(account.cash), model.cash(), "{context}: cash");
    let or_zero = |value: &Option<Rat>| value.clone().unwrap_or_else(Rat::zero);
    assert_eq!(
        r(account.net_deposits),
        or_zero(&model.deposits),
        "{context}: deposits"
    );
    assert_eq!(
        r(account.realised),
        or_zero(&model.realised),
        "{context}: realised"
    );
    assert_eq!(r(account.fees), or_zero(&model.fees), "{context}: fees");
    assert_eq!(
        r(account.funding),
        or_zero(&model.funding),
        "{context}: funding"
    );
    assert_eq!(
        book.equity_last_known(rules).map(r),
        model.equity(),
        "{context}"
    );
    if let (Some(equity), Some(unrealised)) = (model.equity(), model.unrealised()) {
        let sum = r(account.net_deposits)
            .plus(&r(account.realised))
            .plus(&unrealised);
        let sum = sum.minus(&r(account.fees)).minus(&r(account.funding));
        assert_eq!(equity, sum, "{context}: equity is not its parts");
    }
    for held in book.positions.values() {
        let stops = book.orders.values().filter(|order| {
            order.role == OrderRole::Protective
                && order.is_of(&held.strategy, &held.symbol)
                && order.side == held.closing_side()
        });
        let sum = stops.fold(Rat::zero(), |sum, stop| sum.plus(&r(stop.leaves())));
        let leaving = book.orders.values().filter(|order| {
            order.order_id.leg == Leg::Flatten && order.is_of(&held.strategy, &held.symbol)
        });
        let bare = leaving.fold(Rat::zero(), |sum, order| sum.plus(&r(order.leaves())));
        let size = r(held.size.abs());
        assert!(
            sum <= size && size <= sum.plus(&bare),
            "{context}: {held:?}: stops protect {sum:?}"
        );
    }
    for order in book
        .orders
        .values()
        .filter(|order| order.leaves().is_zero())
    {
        let entry = OrderId::of_line(order.order_id.seq);
        let is_along = matches!(order.order_id.leg, Leg::Stop | Leg::Target);
        let waits = is_along && book.orders.contains_key(&entry) && !order.triggered;
        assert!(waits, "{context}: nothing is left of {order:?}");
    }
}
