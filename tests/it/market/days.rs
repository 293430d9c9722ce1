//! Real days through a home: prices as they were, minute by minute, with orders among them. Real
//! data do what examples never do: trades stop while quotes continue, stops gap through, quotes
//! cross. tests/fixtures/market/README.md names the source of the files.

use std::fs;
use std::path::{Path, PathBuf};

use crate::kit::place::{Keys, Place, one};
use crate::kit::prices::kept;
use serde_json::json;
use spoolgate_home::Home;
use spoolgate_home::batch::Outcome;
use spoolgate_host::clock::Clock;
use spoolgate_market::{Options, Row, import};
use spoolgate_wire::code::Code;
use spoolgate_wire::time::Time;

fn fixture(name: &str) -> Vec<u8> {
    fs::read(format!(
        "{}/tests/fixtures/market/{name}",
        env!("CARGO_MANIFEST_DIR")
    ))
    .unwrap()
}

/// How rows come into the home.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Import,
    Update,
}

/// One real day of one symbol in a home, with a trader and a feed.
struct Day {
    place: Place,
    home: Option<Home>,
    keys: Keys,
    symbol: &'static str,
    way: Way,
    /// The trades, then the quotes, that are not delivered yet.
    rows: [Vec<Row>; 2],
    requests: u64,
}

/// Adds ETH-USD to the rules beside BTC-USD, and theses that no real price refutes.
pub(super) fn rules(root: &Path) {
    let path = root.join("rules/instruments.yaml");
    let text = fs::read_to_string(&path).unwrap();
    let (head, btc) = text.split_once("  - symbol: BTC-USD").unwrap();
    fs::write(
        &path,
        format!("{head}  - symbol: BTC-USD{btc}  - symbol: ETH-USD{btc}"),
    )
    .unwrap();
    let path = root.join("rules/strategies/trend.yaml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("[BTC-USD]", "[BTC-USD, ETH-USD]")).unwrap();
    for (short, symbol) in [("btc", "BTC-USD"), ("eth", "ETH-USD")] {
        for direction in ["long", "short"] {
            for n in 0..3 {
                let thesis = format!(
                    "---\nslug: {short}-{direction}-{n}\nstrategy: trend\nsymbol: \
                        {symbol}\ndirection: {direction}\n\
                        expires: 2030-01-01T00:00:00Z\ninvalid_below: 1\ninvalid_above: \
                        100000\n---\nA day.\n"
                );
                let file = root.join(format!("proposals/theses/{short}-{direction}-{n}.md"));
                fs::write(file, thesis).unwrap();
            }
        }
    }
}

impl Day {
    fn new(symbol: &'static str, file: &str, date: &str, way: Way) -> Day {
        let place = Place::at(404, &format!("{date}T00:00:00Z"), rules);
        let keys = place.ask_for_keys(["prices", "trend-bot"]);
        place.ask_for_funds();
        let home = place.settled();
        let rows = ["trade", "quote"].map(|kind| {
            let name = format!(
                "lean-coinbase-minute-{file}_{}_{kind}.zip",
                date.replace('-', "")
            );
            import(&name, &fixture(&name), &Options::default())
                .unwrap()
                .rows
        });
        Day {
            place,
            home: Some(home),
            keys,
            symbol,
            way,
            rows,
            requests: 0,
        }
    }

    fn home(&mut self) -> &mut Home {
        self.home.as_mut().unwrap()
    }

    fn ask(&mut self, who: &str, action: &str, payload: &impl ToString) -> Outcome {
        self.requests += 1;
        let id = format!("r{}", self.requests);
        self.place
            .ask(&self.keys[who], who, &id, action, &payload.to_string());
        one(self.home())
    }

    /// Delivers everything that is known by this minute of the day, and sets the clock.
    fn until(&mut self, minute: &str) {
        let date = self.place.clock.now().to_string()[..10].to_owned();
        let now = Time::parse(&format!("{date}T{minute}:00Z")).unwrap();
        self.place.clock.set(now);
        for kind in 0..2 {
            let known = self.rows[kind].partition_point(|row| row.known_ms() <= now.ms());
            let part: Vec<Row> = self.rows[kind].drain(..known).collect();
            for part in part.chunks(200) {
                let outcome = match self.way {
                    Way::Import => self.import(part),
                    Way::Update => self.update(part),
                };
                assert!(outcome.answer.error.is_none(), "{:?}", outcome.answer.error);
            }
        }
    }

    fn import(&mut self, part: &[Row]) -> Outcome {
        let payload = kept(self.home.as_ref().unwrap(), self.symbol, part);
        self.ask("prices", "market.import", &payload)
    }

    fn update(&mut self, part: &[Row]) -> Outcome {
        let time = |ms| Time::from_ms(ms).unwrap();
        let mut payload = json!({"symbol": self.symbol, "bars": [], "quotes": []});
        for row in part {
            let (list, mut object) = match *row {
                Row::Bar {
                    open_ms,
                    interval_ms,
                    open,
                    high,
                    low,
                    close,
                    volume,
                } => (
                    "bars",
                    json!({"open_time": time(open_ms), "interval_s": interval_ms / 1000,
                        "open": open, "high": high,
                           "low": low, "close": close, "volume": volume}),
                ),
                Row::Quote {
                    time_ms,
                    bid,
                    ask,
                    bid_size,
                    ask_size,
                } => (
                    "quotes",
                    json!({"time": time(time_ms), "bid": bid, "ask": ask, "bid_size": bid_size,
                        "ask_size": ask_size}),
                ),
            };
            object
                .as_object_mut()
                .unwrap()
                .retain(|_, value| !value.is_null());
            payload[list].as_array_mut().unwrap().push(object);
        }
        self.ask("prices", "market.update", &payload)
    }

    /// Sends an order at the market: the thesis names instrument, direction and number.
    fn order(&mut self, side: &str, size: &str, entry: &str, stop: &str, thesis: &str) -> Outcome {
        let order = json!({
            "strategy": "trend", "symbol": self.symbol, "side": side, "size": size,
                "order_type": "market",
            "stop_price": stop, "thesis_slug": thesis, "planned_entry": entry, "planned_stop": stop,
        });
        self.ask("trend-bot", "order.submit", &order)
    }

    /// Sends a resting exit.
    fn limit_exit(&mut self, size: &str, price: &str, thesis: &str) -> Outcome {
        let order = json!({
            "strategy": "trend", "symbol": self.symbol, "side": "sell", "size": size,
                "order_type": "limit",
            "price": price, "stop_price": "1", "thesis_slug": thesis, "planned_entry": price,
                "planned_stop": "1",
        });
        self.ask("trend-bot", "order.submit", &order)
    }

    fn fills(&mut self) -> Vec<String> {
        let fills = self.home().store().fills_since(Time::EPOCH, 1000).unwrap();
        let told = |fill: &spoolgate_trading::order::Fill| {
            let at = &fill.market_time.to_string()[11..16];
            format!(
                "{at} {} {}@{}",
                fill.side.as_str(),
                fill.size.normalized(),
                fill.price.normalized()
            )
        };
        fills.iter().map(told).collect()
    }

    /// Returns the bytes of the ledger and of everything beside it.
    fn ledger(&mut self) -> Vec<(PathBuf, Vec<u8>)> {
        self.home().finish("the day is over").unwrap();
        self.place.disk.files_below("audit")
    }
}

pub(super) fn failed(outcome: &Outcome) -> Vec<&str> {
    outcome
        .decision
        .checks
        .iter()
        .filter(|row| !row.passed)
        .map(|row| &*row.name)
        .collect()
}

fn reason<'a>(outcome: &'a Outcome, check: &str) -> &'a str {
    let row = outcome
        .decision
        .checks
        .iter()
        .find(|row| row.name == check)
        .unwrap();
    row.reason.as_deref().unwrap_or_default()
}

/// The trades of 2018-04-04 end with the bar of 16:47; quotes continue until midnight.
#[test]
fn when_trades_stop_and_quotes_run_on_entries_are_refused_and_exits_pass() {
    let mut day = Day::new("BTC-USD", "btcusd", "2018-04-04", Way::Import);
    day.until("16:40");
    let first = day.order("buy", "0.02", "6850", "6600", "btc-long-0");
    assert!(
        first.decision.order_id.is_some(),
        "{:?}",
        first.answer.error
    );
    // Two bars after the last bar closed, the trade still counts as fresh.
    day.until("16:50");
    assert_eq!(day.fills(), ["16:41 buy 0.02@6867.26"]);
    let second = day.order("buy", "0.005", "6890", "6600", "btc-long-1");
    assert_eq!(
        failed(&second),
        Vec::<&str>::new(),
        "{:?}",
        second.answer.error
    );
    for minute in ["16:51", "17:30", "20:00", "23:58"] {
        day.until(minute);
        let market = day
            .home()
            .state()
            .book
            .markets
            .values()
            .next()
            .unwrap()
            .clone();
        let (last, quote) = (market.last.unwrap(), market.quote.unwrap());
        assert_eq!(last.time, Time::parse("2018-04-04T16:48:00Z").unwrap());
        assert!(
            day.place.clock.now().since_ms(quote.time) <= 120_000,
            "quotes are fresh at {minute}"
        );
        let entry = day.order("buy", "0.005", &quote.ask.to_string(), "6600", "btc-long-2");
        assert_eq!(failed(&entry), ["market_data"], "{minute}");
        assert_eq!(
            reason(&entry, "market_data"),
            "the newest trade is from 2018-04-04T16:48:00.000Z; only quotes are newer"
        );
        assert_eq!(
            entry.answer.error.as_ref().unwrap().code,
            Code::ChecksFailed
        );
    }
    // Requests that make things safer are still accepted and reported.
    let exit = day.limit_exit("0.01", "7000", "btc-long-0");
    assert!(exit.decision.order_id.is_some(), "{:?}", exit.answer.error);
    let told = reason(&exit, "market_data");
    assert!(
        told.contains("the newest trade is from 2018-04-04T16:48"),
        "an exit is told: {told}"
    );
    let at_market = day.order("sell", "0.01", "6790", "6600", "btc-long-0");
    assert!(
        at_market.decision.order_id.is_some(),
        "{:?}",
        at_market.answer.error
    );
    let stop = format!("{}-stop", first.decision.order_id.unwrap());
    let tighter = day.ask(
        "trend-bot",
        "order.tighten_stop",
        &json!({"order_id": stop, "new_stop": "6610"}),
    );
    assert!(tighter.answer.error.is_none(), "{:?}", tighter.answer.error);
    let cancelled = json!({"order_id": exit.decision.order_id.unwrap()});
    assert!(
        day.ask("trend-bot", "order.cancel", &cancelled)
            .answer
            .error
            .is_none()
    );
    // Bars fill, and none came: the entry of 16:50 and the exit wait, and quotes filled nothing.
    assert_eq!(day.fills().len(), 1);
}

/// Returns the result of a day, for comparison: fills and the ledger.
fn replay(
    symbol: &'static str,
    file: &str,
    date: &str,
    way: Way,
    plan: &[Planned],
) -> (Vec<String>, Day) {
    let mut day = Day::new(symbol, file, date, way);
    for (minute, side, size, entry, stop, thesis) in plan {
        day.until(minute);
        let outcome = day.order(side, size, entry, stop, thesis);
        assert!(
            outcome.decision.order_id.is_some(),
            "{minute}: {:?}",
            outcome.answer.error
        );
    }
    day.until("23:59");
    (day.fills(), day)
}

/// Minute, side, size, planned entry, stop, thesis.
type Planned = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
);

/// A day with orders, whose fills a separate Python script computed from the file; twice by imports
/// and once by updates: the same fills, and the same bytes for the two imports.
#[track_caller]
fn check(symbol: &'static str, file: &str, date: &str, plan: &[Planned], expect: &[&str]) {
    let (fills, mut first) = replay(symbol, file, date, Way::Import, plan);
    assert_eq!(fills, expect, "{symbol} {date}");
    let (again, mut second) = replay(symbol, file, date, Way::Import, plan);
    assert_eq!(fills, again);
    assert_eq!(
        first.home().state().book.markets,
        second.home().state().book.markets
    );
    let (one, other) = (first.ledger(), second.ledger());
    assert!(one.iter().map(|(_, bytes)| bytes.len()).sum::<usize>() > 100_000);
    assert!(
        one == other,
        "{symbol} {date}: two runs of the same day wrote different ledgers"
    );
    let (updated, mut third) = replay(symbol, file, date, Way::Update, plan);
    assert_eq!(fills, updated, "updates fill as imports do");
    // Orders are numbered by lines, of which an update writes fewer: everything except the orders
    // is the same.
    let book = |day: &mut Day| {
        let book = &day.home().state().book;
        (
            book.account.clone(),
            book.markets.clone(),
            book.positions
                .values()
                .map(|held| held.size)
                .collect::<Vec<_>>(),
        )
    };
    assert_eq!(book(&mut first), book(&mut third));
    // And the state matches the ledger.
    let known = second.home().state().clone();
    second.home = None;
    second.place.forget_state();
    let again = second.place.open().unwrap();
    assert_eq!(again.state().book, known.book);
}

#[test]
fn the_fifth_of_april_2018() {
    let plan = [
        ("01:00", "buy", "0.02", "6700", "6610", "btc-long-0"),
        ("06:00", "buy", "0.02", "6843", "6780", "btc-long-1"),
        ("12:00", "sell", "0.02", "6791", "6850", "btc-short-0"),
    ];
    let fills = [
        "01:01 buy 0.02@6701.12",
        "01:28 sell 0.02@6606.69",
        "06:01 buy 0.02@6847.13",
        "06:49 sell 0.02@6776.61",
        "12:01 sell 0.02@6786.62",
        "13:46 buy 0.02@6853.43",
    ];
    check("BTC-USD", "btcusd", "2018-04-05", &plan, &fills);
}

#[test]
fn the_day_of_the_highest_price_of_2017() {
    let plan = [
        ("02:00", "buy", "0.01", "19286", "19000", "btc-long-0"),
        ("08:00", "buy", "0.002", "19735", "19500", "btc-long-1"),
        ("20:00", "sell", "0.01", "19300", "19700", "btc-short-0"),
    ];
    let fills = [
        "02:01 buy 0.01@19297.83",
        "08:01 buy 0.002@19746.85",
        "15:27 sell 0.002@19490.25",
        "20:01 sell 0.01@19288.42",
    ];
    check("BTC-USD", "btcusd", "2017-12-17", &plan, &fills);
}

#[test]
fn ether_on_the_day_its_trades_stopped() {
    let plan = [
        ("01:40", "buy", "0.5", "406", "401", "eth-long-0"),
        ("08:00", "sell", "0.5", "405", "412", "eth-short-0"),
        ("15:00", "buy", "0.3", "373", "365", "eth-long-1"),
    ];
    let fills = [
        "01:41 buy 0.5@406.64",
        "02:35 sell 0.5@400.79",
        "08:01 sell 0.5@404.35",
        "15:01 buy 0.3@373.83",
    ];
    check("ETH-USD", "ethusd", "2018-04-04", &plan, &fills);
}
