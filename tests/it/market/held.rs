//! Implausible rows through a whole home, restarted after every request, under the shipped rules.

use std::path::Path;
use std::sync::Arc;

use super::days::{failed, rules};
use crate::kit::memory_disk::MemoryDisk;
use crate::kit::place::{Keys, Place, one};
use crate::kit::prices::{amount, kept};
use serde_json::{Value, json};
use spoolgate_home::Home;
use spoolgate_home::batch::Outcome;
use spoolgate_home::closed::why_closed;
use spoolgate_host::clock::Clock;
use spoolgate_market::Row;
use spoolgate_replay::replay::{Options, replay};
use spoolgate_trading::Book;
use spoolgate_trading::book::Market;
use spoolgate_wire::ids::Symbol;
use spoolgate_wire::time::Time;

/// How rows come into the home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Import,
    Update,
}

/// A home with positions in BTC-USD and ETH-USD, both bought at about 10000.
struct Desk {
    place: Place,
    keys: Keys,
    home: Option<Home>,
    way: Way,
    requests: u64,
}

fn bar(end: Time, price: &str) -> Row {
    let price = amount(price);
    Row::Bar {
        open_ms: end.ms() - 60_000,
        interval_ms: 60_000,
        open: price,
        high: price,
        low: price,
        close: price,
        volume: None,
    }
}

fn quote(time: Time, bid: &str, ask: &str) -> Row {
    Row::Quote {
        time_ms: time.ms(),
        bid: amount(bid),
        ask: amount(ask),
        bid_size: None,
        ask_size: None,
    }
}

impl Desk {
    fn new(way: Way) -> Desk {
        let place = Place::at(808, "2026-02-21T12:00:00Z", rules);
        let keys = place.ask_for_keys(["prices", "trend-bot"]);
        place.ask_for_funds();
        let home = Some(place.settled());
        let mut desk = Desk {
            place,
            keys,
            home,
            way,
            requests: 0,
        };
        desk.minute();
        for (symbol, thesis) in [("BTC-USD", "btc-long-0"), ("ETH-USD", "eth-long-0")] {
            assert_eq!(failed(&desk.buy(symbol, thesis)), Vec::<&str>::new());
        }
        desk.minute();
        assert_eq!(desk.book().positions.len(), 2);
        desk
    }

    /// A minute in which nothing moves.
    fn minute(&mut self) {
        self.place.pass_s(60);
        for symbol in ["BTC-USD", "ETH-USD"] {
            let rows = [bar(self.now(), "10000"), self.sane(0)];
            self.rows(symbol, &rows);
        }
    }

    fn now(&self) -> Time {
        self.place.clock.now()
    }

    /// A quote at the usual price, some milliseconds before now.
    fn sane(&self, ago_ms: i64) -> Row {
        quote(self.now().plus_ms(-ago_ms), "10000", "10000.01")
    }

    fn book(&self) -> Book {
        self.home.as_ref().unwrap().state().book.clone()
    }

    /// Decides one request and restarts the home, whose state must be the same.
    fn ask(&mut self, who: &str, action: &str, payload: &str) -> Outcome {
        self.requests += 1;
        let id = format!("r{}", self.requests);
        self.place.ask(&self.keys[who], who, &id, action, payload);
        let outcome = one(self.home.as_mut().unwrap());
        let before = self.book();
        self.home = None;
        self.home = Some(self.place.open().unwrap());
        assert_eq!(self.book(), before, "{payload}");
        outcome
    }

    fn rows(&mut self, symbol: &str, rows: &[Row]) {
        let (action, payload) = match self.way {
            Way::Import => {
                let home = self.home.as_ref().unwrap();
                ("market.import", kept(home, symbol, rows))
            }
            Way::Update => {
                let mut update = json!({"symbol": symbol, "bars": [], "quotes": []});
                for row in rows {
                    let (list, object) = of_request(row);
                    update[list].as_array_mut().unwrap().push(object);
                }
                ("market.update", update.to_string())
            }
        };
        let outcome = self.ask("prices", action, &payload);
        assert!(outcome.answer.error.is_none(), "{:?}", outcome.answer.error);
    }

    fn order(&mut self, symbol: &str, side: &str, thesis: &str, price: Option<&str>) -> Outcome {
        let mut order = json!({
            "strategy": "trend", "symbol": symbol, "side": side, "size": "0.005",
            "order_type": "market", "stop_price": "9800", "thesis_slug": thesis,
            "planned_entry": "10000", "planned_stop": "9800",
        });
        if let Some(price) = price {
            (order["order_type"], order["price"]) = (json!("limit"), json!(price));
        }
        self.ask("trend-bot", "order.submit", &order.to_string())
    }

    fn buy(&mut self, symbol: &str, thesis: &str) -> Outcome {
        self.order(symbol, "buy", thesis, None)
    }

    fn market(&self, symbol: &str) -> Market {
        self.book().markets[&Symbol::parse(symbol).unwrap()].clone()
    }

    /// Everything that a wild row must not change.
    fn rest(&self) -> Book {
        let mut book = self.book();
        book.markets.clear();
        book
    }
}

fn of_request(row: &Row) -> (&'static str, Value) {
    let time = |ms| Time::from_ms(ms).unwrap();
    match *row {
        Row::Bar {
            open_ms,
            interval_ms,
            open,
            high,
            low,
            close,
            ..
        } => (
            "bars",
            json!({"open_time": time(open_ms), "interval_s": interval_ms / 1000, "open": open,
                "high": high, "low": low, "close": close}),
        ),
        Row::Quote {
            time_ms, bid, ask, ..
        } => (
            "quotes",
            json!({"time": time(time_ms), "bid": bid, "ask": ask}),
        ),
    }
}

/// One quote 999999/1000000, one of 1, bars of both, first, last, twice with another between:
/// positions, orders, theses, peak and drawdown stay, entries of the symbol are refused while the
/// row is held, and exits pass. Two that agree are believed, and the symbol is halted. All of it
/// replays.
#[test]
fn one_wild_row_changes_nothing_and_two_that_agree_are_believed() {
    for (way, bid, ask) in [
        (Way::Import, "999999", "1000000"),
        (Way::Import, "1", "1.01"),
        (Way::Update, "999999", "1000000"),
        (Way::Update, "1", "1.01"),
    ] {
        let context = format!("{way:?} {bid}");
        let mut desk = Desk::new(way);
        let before = desk.rest();
        let wild = |desk: &Desk, ago_ms: i64| quote(desk.now().plus_ms(-ago_ms), bid, ask);
        // First, and twice with another between; the last of them stays held in one symbol.
        desk.place.pass_s(10);
        let rows = [
            wild(&desk, 4),
            desk.sane(3),
            wild(&desk, 2),
            desk.sane(1),
            wild(&desk, 0),
        ];
        desk.rows("BTC-USD", &rows);
        desk.rows("ETH-USD", &[rows[0], rows[1]]);
        assert_eq!(desk.rest(), before, "{context}");
        assert!(desk.market("BTC-USD").held.is_some(), "{context}");
        assert!(desk.market("ETH-USD").held.is_none(), "{context}");
        let refused = desk.buy("BTC-USD", "btc-long-1");
        assert_eq!(failed(&refused), ["market_data"], "{context}");
        assert_eq!(
            why_closed(desk.home.as_ref().unwrap().state()),
            [format!(
                "`BTC-USD`: the newest quote is {bid} to {ask}, implausibly far from 10000: entries \
                    are refused until its next row"
            )]
        );
        let other = desk.buy("ETH-USD", "eth-long-1");
        assert_eq!(failed(&other), Vec::<&str>::new(), "{context}");
        let exit = desk.order("BTC-USD", "sell", "btc-long-0", Some("10500"));
        assert!(exit.decision.order_id.is_some(), "{:?}", exit.answer.error);
        // A wild bar drops the quote and is dropped by a sane one.
        let before = desk.rest();
        desk.place.pass_s(50);
        let end = desk.now();
        desk.rows("BTC-USD", &[bar(end, "5000")]);
        assert_eq!(desk.market("BTC-USD").held.unwrap().row, bar(end, "5000"));
        desk.place.pass_s(60);
        let end = desk.now();
        desk.rows("BTC-USD", &[bar(end, "10000"), desk.sane(0)]);
        assert_eq!(desk.rest(), before, "{context}");
        let accepted = desk.buy("BTC-USD", "btc-long-1");
        assert_eq!(failed(&accepted), Vec::<&str>::new(), "{context}");
        // Two that agree.
        desk.place.pass_s(1);
        let rows = [wild(&desk, 0)];
        desk.rows("BTC-USD", &rows);
        desk.place.pass_s(1);
        let rows = [wild(&desk, 0)];
        desk.rows("BTC-USD", &rows);
        let book = desk.book();
        let halted: Vec<_> = book.halted_symbols.keys().map(Symbol::as_str).collect();
        assert_eq!(halted, ["BTC-USD"], "{context}");
        assert!(
            book.refuted
                .keys()
                .any(|slug| slug.as_str() == "btc-long-0")
        );
        assert_eq!(
            book.account.peak_equity, before.account.peak_equity,
            "{context}: a gap raises no peak"
        );
        let refused = desk.buy("BTC-USD", "btc-long-2");
        assert!(failed(&refused).contains(&"symbol_halt"), "{context}");
        replays(&mut desk);
    }
}

#[track_caller]
fn replays(desk: &mut Desk) {
    let home = desk.home.as_mut().unwrap();
    home.finish("done").unwrap();
    let disk = Arc::new(MemoryDisk::with(&desk.place.disk.files_below("audit")));
    let options = Options {
        threads: 1,
        answers: None,
    };
    let report = replay(disk, Path::new("audit"), &options, &mut |_| {}).unwrap();
    assert!(report.is_same(), "{report:#?}");
}
