//! Any sequence of signed requests and prices against a small account. Nothing panics or
//! contradicts itself, every line reads back, and no entry is accepted that breaks a limit,
//! computed here from the book alone.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use spoolgate_gate::decide::needs;
use spoolgate_gate::prepare::Origin;
use spoolgate_gate::record::{Decision, Record, Ruling};
use spoolgate_gate::{Change, Delivery, Lookups, State, decide, prepare};
use spoolgate_market::{Row, write_blob};
use spoolgate_rules::Rulebook;
use spoolgate_trading as trading;
use spoolgate_trading::book::{Book, RecentEntry};
use spoolgate_trading::order::{Order, OrderRole};
use spoolgate_trading::requests::ClosedOrder;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::code::Code;
use spoolgate_wire::envelope::Envelope;
use spoolgate_wire::ids::{OrderId, Principal, RequestId, Symbol};
use spoolgate_wire::orders::Side;
use spoolgate_wire::signing::sha256_hex;
use spoolgate_wire::time::Time;

use super::envelope::{Keys, check_message, keys, sign_key};
use super::input::Choices;
use super::rulebook;

const STEPS_MAX: usize = 40;
const TICK: &str = "0.01";

fn rules() -> &'static Rulebook {
    static RULES: OnceLock<Rulebook> = OnceLock::new();
    RULES.get_or_init(|| {
        // With the shipped fraction no order that a position may hold is too large for one order.
        let mut bundle = rulebook::bundle();
        let safety = bundle.files.get_mut("rules/safety.yaml").unwrap();
        *safety = safety.replace("max_single_position: 0.05", "max_single_position: 0.30");
        let rules = Rulebook::compile(&bundle).unwrap();
        assert_eq!(*rules.safety.max_single_position, amount("0.3"));
        rules
    })
}

fn amount(text: &str) -> Amount {
    Amount::parse_exact(text).unwrap()
}

fn ticks(count: i64) -> Amount {
    Amount::from_i64(count).checked_mul(amount(TICK)).unwrap()
}

fn symbol() -> Symbol {
    Symbol::parse("BTC-USD").unwrap()
}

struct World {
    state: State,
    keyring: Keys,
    now: Time,
    seq: u64,
    /// Middle of the market, in ticks.
    middle: i64,
    closed: BTreeMap<OrderId, ClosedOrder>,
    entries: Vec<RecentEntry>,
    lines: Vec<(&'static str, String)>,
}

/// A script of requests.
pub fn body(data: &[u8]) {
    play(data);
}

/// Plays a script and returns kind and body of every line.
pub(crate) fn play(data: &[u8]) -> Vec<(&'static str, String)> {
    let (state, keyring) = keys(&["owner", "trend-bot", "prices"]);
    let now = Time::parse("2018-04-05T00:10:00Z").unwrap();
    let (closed, entries, lines) = (BTreeMap::new(), Vec::new(), Vec::new());
    let mut world = World {
        state,
        keyring,
        now,
        seq: 1,
        middle: 680_000,
        closed,
        entries,
        lines,
    };
    world.ask(
        "owner",
        "account.adjust",
        r#"{"amount":"5000","reason":"r"}"#,
        &[],
    );
    world.rows(&mut Choices::of(&[]));
    let mut choices = Choices::of(data);
    for _ in 0..STEPS_MAX {
        if choices.is_empty() {
            break;
        }
        world.step(&mut choices);
        world.check();
    }
    let stored = serde_json::to_string(&world.state).unwrap();
    assert_eq!(
        serde_json::from_str::<State>(&stored).unwrap(),
        world.state,
        "a snapshot is another state"
    );
    world.lines
}

impl World {
    fn step(&mut self, choices: &mut Choices<'_>) {
        match choices.byte() % 16 {
            0..=5 => self.submit(choices),
            6 => {
                let order_id = self.any_order(choices);
                self.ask(
                    "trend-bot",
                    "order.cancel",
                    &format!(r#"{{"order_id":"{order_id}"}}"#),
                    &[],
                );
            }
            7 | 8 => {
                let order_id = self.any_order(choices);
                let stop = ticks(self.middle + i64::from(choices.short() as i16));
                let payload = format!(r#"{{"order_id":"{order_id}","new_stop":"{stop}"}}"#);
                self.ask("trend-bot", "order.tighten_stop", &payload, &[]);
            }
            9..=11 => self.rows(choices),
            12 => self.now = self.now.plus_ms(i64::from(choices.short()) * 10),
            13 => {
                let amount = i64::from(choices.byte() as i8) * 50;
                self.ask(
                    "owner",
                    "account.adjust",
                    &format!(r#"{{"amount":{amount},"reason":"r"}}"#),
                    &[],
                );
            }
            14 => {
                let (action, payload) = choices.pick(&[
                    ("halt.set", r#"{"reason":"r"}"#),
                    ("halt.clear", r#"{"scope":"all","reason":"r"}"#),
                    ("halt.clear", r#"{"scope":"drawdown","reason":"r"}"#),
                    ("halt.set", r#"{"principal":"trend-bot","reason":"r"}"#),
                    (
                        "halt.clear",
                        r#"{"scope":{"principal":"trend-bot"},"reason":"r"}"#,
                    ),
                ]);
                self.ask("owner", action, payload, &[]);
            }
            _ => {
                let (action, payload) = choices.pick(&[
                    ("portfolio.get", "{}"),
                    ("orders.list", "{}"),
                    ("fills.list", r#"{"since":"2018-04-05T00:00:00Z"}"#),
                    ("market.get", r#"{"symbol":"BTC-USD"}"#),
                    ("order.cancel", r#"{"order_id":"o-1"}"#),
                    (
                        "keys.revoke",
                        r#"{"key_id":"0000000000000001","reason":"r"}"#,
                    ),
                ]);
                self.ask("trend-bot", action, payload, &[]);
            }
        }
    }

    fn any_order(&self, choices: &mut Choices<'_>) -> OrderId {
        let open: Vec<OrderId> = self.state.book.orders.keys().copied().collect();
        if open.is_empty() {
            OrderId::of_line(u64::from(choices.byte()))
        } else {
            open[choices.below(open.len())]
        }
    }

    fn submit(&mut self, choices: &mut Choices<'_>) {
        let bits = choices.byte();
        let (side, slug) = if bits & 1 == 0 {
            ("buy", "btc-range-long")
        } else {
            ("sell", "btc-range-short")
        };
        let kind = ["limit", "market", "stop"][usize::from(bits >> 1) % 3];
        let size = Amount::from_i64(1 + i64::from(choices.short() % 600))
            .checked_mul(amount("0.0005"))
            .unwrap();
        let price = ticks(self.middle + i64::from(choices.short() as i16));
        let planned = ticks(self.middle + 2 * i64::from(choices.short() as i16));
        let prices = match kind {
            "limit" => format!(r#""price":"{price}","stop_price":"{planned}","#),
            "stop" => format!(r#""stop_price":"{price}","#),
            _ => format!(r#""stop_price":"{planned}","#),
        };
        let payload = format!(
            r#"{{"strategy":"trend","symbol":"BTC-USD","side":"{side}","size":"{size}","order_type":"{kind}",{prices}"thesis_slug":"{slug}","planned_entry":"{price}","planned_stop":"{planned}"}}"#
        );
        self.ask("trend-bot", "order.submit", &payload, &[]);
    }

    /// One to three minutes of market, then a quote.
    fn rows(&mut self, choices: &mut Choices<'_>) {
        let mut rows = Vec::new();
        for _ in 0..=choices.below(3) {
            let step = |choices: &mut Choices<'_>| i64::from(choices.byte() as i8) * 40;
            let (open, close) = (self.middle + step(choices), self.middle + step(choices));
            let (high, low) = (
                open.max(close) + step(choices).max(0),
                open.min(close) - step(choices).max(0),
            );
            let volume = match choices.byte() {
                0..=99 => None,
                n => Some(Amount::from_i64(i64::from(n) - 100)),
            };
            let (open_ms, interval_ms) = (self.now.ms(), 60_000);
            self.now = self.now.plus_ms(interval_ms);
            self.middle = close.clamp(100_000, 2_000_000);
            let (open, high, low, close) =
                (ticks(open), ticks(high), ticks(low.max(1)), ticks(close));
            rows.push(Row::Bar {
                open_ms,
                interval_ms,
                open,
                high,
                low,
                close,
                volume,
            });
        }
        let half = i64::from(choices.byte());
        let (bid, ask) = (ticks(self.middle - half), ticks(self.middle + half));
        rows.push(Row::Quote {
            time_ms: self.now.ms(),
            bid,
            ask,
            bid_size: None,
            ask_size: None,
        });
        rows.retain(|row| row.check().is_ok());
        let blob = write_blob(&rows);
        let digest = sha256_hex(blob.as_bytes());
        let payload = format!(
            r#"{{"symbol":"BTC-USD","rows_sha256":"{digest}","row_count":{},"file_sha256":"{digest}","file_name":"f"}}"#,
            rows.len()
        );
        self.ask("prices", "market.import", &payload, blob.as_bytes());
    }

    /// Signs, decides, applies.
    fn ask(&mut self, source: &str, action: &str, payload: &str, rows: &[u8]) {
        let mut envelope = Envelope {
            id: RequestId::parse(&format!("r{}", self.seq)).unwrap(),
            timestamp_text: self.now.to_string(),
            timestamp: self.now,
            action: action.to_owned(),
            payload: payload.to_owned(),
            source: Principal::parse(source).unwrap(),
            signature: String::new(),
            causality: None,
        };
        envelope.signature = sign_key(source).sign(&envelope.signing_string());
        let delivery = Delivery {
            origin: Origin::Flat,
            file: "r.json".to_owned(),
            shown: "r.json".to_owned(),
            content: Ok(envelope.to_json().into_bytes()),
        };
        let prepared = prepare(delivery, &self.state, &self.keyring, self.now);
        let asked = needs(&prepared, rules());
        let lookups = Lookups {
            closed_order: asked
                .closed_order
                .and_then(|id| self.closed.get(&id).cloned()),
            rows: asked.rows.map(|_| rows.to_vec()),
            key_is_held: true,
            ..Lookups::default()
        };
        let decided = decide(
            &self.state,
            rules(),
            &prepared,
            &lookups,
            self.now,
            self.seq,
        );
        if self.seq.is_multiple_of(8) {
            let again = decide(
                &self.state,
                rules(),
                &prepared,
                &lookups,
                self.now,
                self.seq,
            )
            .decision;
            let bodies = [again, decided.decision.clone()]
                .map(|one| Record::Decision(Box::new(one)).body().unwrap());
            assert_eq!(bodies[0], bodies[1], "decided otherwise the second time");
        }
        for rows in &decided.market {
            self.lines
                .push(("market", Record::Market(rows.clone()).body().unwrap()));
        }
        self.check_decision(&decided.decision);
        self.seq += decided.market.len() as u64 + 1;
        for change in decided
            .market
            .iter()
            .flat_map(|rows| &rows.changes)
            .chain(&decided.decision.changes)
        {
            self.apply(change);
        }
        self.state.tick(self.now);
    }

    fn apply(&mut self, change: &Change) {
        if let Change::Book(trading::Change::OrderClosed { order_id, end, .. }) = change
            && let Some(order) = self.state.book.orders.get(order_id)
        {
            let strategy = order.strategy.clone();
            self.closed.insert(
                *order_id,
                ClosedOrder {
                    order_id: *order_id,
                    strategy,
                    end: *end,
                    why: None,
                },
            );
        }
        self.state
            .apply(change)
            .expect("a change that does not fit the state it was made from");
    }

    fn check_decision(&mut self, decision: &Decision) {
        let body = Record::Decision(Box::new(decision.clone())).body().unwrap();
        let Ok(Some(Record::Decision(read))) = Record::parse("decision", &body) else {
            panic!("no line: {body}")
        };
        assert_eq!(Record::Decision(read).body().unwrap(), body);
        self.lines.push(("decision", body));
        if decision.data_blob.is_none() {
            decision.answer(None).expect("a decision without an answer");
        }
        if let Some(message) = &decision.metadata.message {
            check_message(message);
        }
        assert_ne!(decision.metadata.code, Some(Code::Internal), "{decision:?}");
        if decision.decision != Some(Ruling::Accepted) {
            assert!(
                decision.checks.is_empty() || decision.changes.is_empty(),
                "refused, and it changes something"
            );
            return;
        }
        let placed: Vec<&Order> = decision
            .changes
            .iter()
            .filter_map(|change| match change {
                Change::Book(trading::Change::OrderPlaced(order)) => Some(&**order),
                _ => None,
            })
            .collect();
        if let Some(entry) = placed.iter().find(|order| order.role == OrderRole::Entry) {
            let stop = placed
                .iter()
                .find(|order| order.role == OrderRole::Protective)
                .expect("an entry without a stop");
            self.check_entry(entry, stop);
        }
    }

    /// The limits of `rules/safety.yaml` on an accepted entry. Where the gate adds slippage and
    /// fees this leaves them out, so it allows a little more than the gate does and never less.
    fn check_entry(&mut self, entry: &Order, stop: &Order) {
        let book = &self.state.book;
        let safety = &rules().safety;
        let times = |a: Amount, b: Amount| a.checked_mul(b).unwrap();
        assert!(
            self.state.halted(&entry.source).is_none(),
            "accepted while halted"
        );
        assert!(
            book.account.drawdown_since.is_none(),
            "accepted in a drawdown"
        );
        let quote = book.markets[&symbol()]
            .quote
            .as_ref()
            .expect("accepted without a market");
        assert!(
            self.now.since_ms(quote.time) <= 120_000,
            "accepted on old prices"
        );
        let last = book.markets[&symbol()]
            .last
            .as_ref()
            .expect("accepted without a trade");
        assert!(
            self.now.since_ms(last.time) <= 120_000,
            "accepted on old trades"
        );
        let equity = equity(book);
        let base = equity.min(*safety.max_total_capital);
        assert!(base.is_positive(), "accepted without capital");
        let near = if entry.side == Side::Buy {
            quote.ask
        } else {
            quote.bid
        };
        // A sale at a higher price is a larger short.
        let dearest = entry
            .price
            .or(entry.trigger)
            .map_or(near, |own| own.max(near));
        assert!(
            times(entry.size, dearest) <= *safety.max_order_value,
            "too large an order: {entry:?}"
        );
        // A limit that the market has reached fills there, and so does a trigger that it has
        // passed.
        let price = match (entry.price, entry.trigger, entry.side) {
            (Some(limit), _, Side::Buy) => limit.min(near),
            (Some(limit), _, Side::Sell) => limit.max(near),
            (None, Some(trigger), Side::Buy) => trigger.max(near),
            (None, Some(trigger), Side::Sell) => trigger.min(near),
            (None, None, _) => near,
        };
        let trigger = stop.trigger.expect("a stop without a trigger");
        assert_eq!(
            (stop.side, stop.strategy.clone()),
            (entry.side.opposite(), entry.strategy.clone())
        );
        let distance = if entry.side == Side::Buy {
            price.checked_sub(trigger)
        } else {
            trigger.checked_sub(price)
        };
        let distance = distance.unwrap();
        assert!(
            distance.is_positive(),
            "a stop on the wrong side: {entry:?} {stop:?}"
        );
        let risk = times(entry.size, distance);
        assert!(
            risk <= times(base, *safety.max_single_trade_risk),
            "too much risk: {entry:?} {stop:?}"
        );
        self.check_exposure(entry, dearest, base);
        let day = book
            .account
            .day
            .as_ref()
            .expect("accepted before the day began");
        let moved = book
            .account
            .net_deposits
            .checked_sub(day.net_deposits)
            .unwrap();
        let profit = equity
            .checked_sub(day.equity)
            .and_then(|profit| profit.checked_sub(moved))
            .unwrap();
        assert!(
            profit > -*safety.max_daily_loss,
            "accepted after a loss of {profit}"
        );
        self.check_duplicate(entry);
    }

    /// Everything that could be held at worst stays below the limit, unless it grows no further.
    fn check_exposure(&self, entry: &Order, price: Amount, base: Amount) {
        let book = &self.state.book;
        let held = book.positions.values().fold(Amount::ZERO, |sum, held| {
            sum.checked_add(held.size).unwrap()
        });
        let open = |side: Side| {
            let orders = book
                .orders
                .values()
                .filter(|order| order.role == OrderRole::Entry && order.side == side);
            orders.fold(Amount::ZERO, |sum, order| {
                sum.checked_add(order.leaves()).unwrap()
            })
        };
        let worst = |buys: Amount, sells: Amount| {
            held.checked_add(buys)
                .unwrap()
                .abs()
                .max(held.checked_sub(sells).unwrap().abs())
        };
        let (buys, sells) = (open(Side::Buy), open(Side::Sell));
        let before = worst(buys, sells);
        let after = match entry.side {
            Side::Buy => worst(buys.checked_add(entry.size).unwrap(), sells),
            Side::Sell => worst(buys, sells.checked_add(entry.size).unwrap()),
        };
        let limit = base
            .checked_mul(*rules().safety.max_single_position)
            .unwrap();
        let notional = after.checked_mul(price).unwrap();
        assert!(
            after <= before || notional <= limit,
            "{notional} of {limit}: {entry:?}"
        );
    }

    fn check_duplicate(&mut self, entry: &Order) {
        let recent = RecentEntry {
            at: self.now,
            source: entry.source.clone(),
            strategy: entry.strategy.clone(),
            symbol: entry.symbol.clone(),
            side: entry.side,
            order_type: entry.order_type,
            size: entry.size,
            price: entry.price.or(entry.trigger),
        };
        let window_ms = i64::from(*rules().safety.duplicate_window_s) * 1000;
        let twice = self.entries.iter().any(|other| {
            self.now.since_ms(other.at) < window_ms
                && RecentEntry {
                    at: other.at,
                    ..recent.clone()
                } == *other
        });
        assert!(!twice, "accepted twice within the window: {entry:?}");
        self.entries.push(recent);
    }

    /// What holds of the book at any time.
    fn check(&self) {
        let book = &self.state.book;
        for held in book.positions.values() {
            assert!(!held.size.is_zero(), "a position of nothing");
            let stops = book.orders.values().filter(|order| {
                order.role == OrderRole::Protective
                    && order.is_of(&held.strategy, &held.symbol)
                    && order.side == held.closing_side()
            });
            let sum = stops.fold(Amount::ZERO, |sum, stop| {
                sum.checked_add(stop.leaves()).unwrap()
            });
            assert_eq!(
                sum,
                held.size.abs(),
                "{held:?} is not what its stops protect"
            );
        }
    }
}

fn equity(book: &Book) -> Amount {
    let quote = book.markets[&symbol()].quote.as_ref().unwrap();
    book.positions
        .values()
        .fold(book.account.cash, |sum, held| {
            let mark = if held.size.is_positive() {
                quote.bid
            } else {
                quote.ask
            };
            held.size
                .checked_mul(mark)
                .and_then(|value| sum.checked_add(value))
                .unwrap()
        })
}
