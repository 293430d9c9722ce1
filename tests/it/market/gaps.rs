//! Thirteen years of real daily bars through the venue's own fills: how many stops gap through,
//! which of stop and target fills if a bar touches both; and crossed quotes, which are not a valid
//! market.

use std::fs;
use std::path::Path;

use crate::kit::{Scratch, succeed};
use serde_json::{Value, json};
use spoolgate_host::rule_folder;
use spoolgate_market::{Import, Options, Row, import};
use spoolgate_rules::Rulebook;
use spoolgate_rules::bounds::{NotNegative, Slippage};
use spoolgate_trading::order::Fill;
use spoolgate_trading::venue::on_rows;
use spoolgate_trading::{Book, Change};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::Symbol;
use spoolgate_wire::time::Time;

const TICKERS: [&str; 5] = ["AAPL", "FB", "GOOG", "IBM", "MSFT"];

fn a(text: &str) -> Amount {
    Amount::parse_exact(text).unwrap()
}

fn fixture(name: &str) -> Vec<u8> {
    fs::read(format!(
        "{}/tests/fixtures/market/{name}",
        env!("CARGO_MANIFEST_DIR")
    ))
    .unwrap()
}

fn stocks(ticker: &str) -> Vec<Row> {
    let options = Options {
        symbol_in_file: Some(ticker.to_owned()),
        ..Options::default()
    };
    let name = "us-stocks-daily-2000-2013.zip";
    import(name, &fixture(name), &options).unwrap().rows
}

/// Returns the project's own rules with one more instrument, which costs nothing to trade and
/// allows any price and size.
fn rules(symbol: &Symbol) -> Rulebook {
    let mut rules =
        Rulebook::compile(&rule_folder::load(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap())
            .unwrap();
    let mut instrument = rules.instruments.values().next().unwrap().clone();
    instrument.symbol = symbol.clone();
    let nothing = NotNegative::least();
    (instrument.tick, instrument.lot, instrument.min_size) = (nothing, nothing, nothing);
    (instrument.half_spread, instrument.slippage) = (Slippage::least(), Slippage::least());
    instrument.min_notional = nothing;
    (instrument.maker_fee, instrument.taker_fee) = (nothing, nothing);
    instrument.bar_s = 86_400.try_into().unwrap();
    rules.instruments.insert(symbol.clone(), instrument);
    rules
}

/// Holds one share bought at `price` before the bar, with a stop and a target.
fn holding(symbol: &Symbol, price: Amount, stop: Amount, target: Amount) -> Book {
    let mut book = Book::default();
    let order = |id: &str, side: &str, role: &str, kind: &str, size: &str| {
        json!({"order_id": id, "source": "trend-bot", "strategy": "trend", "symbol": symbol,
            "side": side, "role": role,
               "order_type": kind, "size": size, "filled": "0", "price": null, "trigger": null,
                   "triggered": false,
               "thesis_slug": null, "accepted_at": "1999-12-31T00:00:00Z"})
    };
    let mut protective = order("o-1-stop", "sell", "protective", "stop", "0");
    protective["trigger"] = json!(stop);
    let mut aim = order("o-1-target", "sell", "target", "limit", "0");
    aim["price"] = json!(target);
    let at = "1999-12-31T00:00:00Z";
    let changes = json!([
        {"AccountAdjusted": {"amount": "100000"}},
        {"OrderPlaced": order("o-1", "buy", "entry", "market", "1")},
        {"OrderPlaced": protective},
        {"OrderPlaced": aim},
        {"OrderFilled": {"order_id": "o-1", "strategy": "trend", "symbol": symbol, "side": "buy",
            "role": "entry",
                         "price": price, "size": "1", "multiplier": "1", "fee": "0",
                             "liquidity": "taker", "realised": "0",
                         "market_time": at, "recorded_at": at}},
        {"StopResized": {"order_id": "o-1-stop", "size": "1"}},
        {"StopResized": {"order_id": "o-1-target", "size": "1"}},
        {"OrderClosed": {"order_id": "o-1", "end": "filled", "at": at}},
    ]);
    for change in serde_json::from_value::<Vec<Change>>(changes).unwrap() {
        book.apply(&change).unwrap();
    }
    book
}

/// Returns what a bar fills of it.
fn fill(book: &Book, rules: &Rulebook, symbol: &Symbol, row: Row) -> Option<Fill> {
    let now = Time::from_ms(row.known_ms()).unwrap();
    let steps = on_rows(book, rules, symbol, &[row], None, now, 0).unwrap();
    let changes = steps.into_iter().flat_map(|step| step.changes);
    let mut fills = changes.filter_map(|change| match change {
        Change::OrderFilled(fill) => Some(fill),
        _ => None,
    });
    let fill = fills.next();
    assert!(fills.next().is_none(), "one share is sold once");
    fill
}

/// If a stop is 2% below yesterday's close, one hit in seven or eight is a bar that opens beyond
/// it.
#[test]
fn stops_that_gap_through_fill_at_the_open_and_worse_than_the_stop() {
    let (mut hits, mut gaps, mut worse) = (0, 0, 0);
    for ticker in TICKERS {
        let symbol = Symbol::parse(ticker).unwrap();
        let rules = rules(&symbol);
        for pair in stocks(ticker).windows(2) {
            let [Row::Bar { close: before, .. }, Row::Bar { open, low, .. }] = pair else {
                panic!("{pair:?}")
            };
            let stop = before.checked_mul(a("0.98")).unwrap();
            let book = holding(&symbol, *before, stop, a("1000000"));
            let Some(fill) = fill(&book, &rules, &symbol, pair[1]) else {
                assert!(*low > stop, "{ticker}: not filled by {:?}", pair[1]);
                continue;
            };
            hits += 1;
            assert_eq!(fill.order_id.to_string(), "o-1-stop");
            if *open <= stop {
                gaps += 1;
                worse += u32::from(fill.price < stop);
                // Prices of these files have at most four decimals, and the venue rounds to eight.
                assert_eq!(fill.price, *open, "{ticker}: {:?}", pair[1]);
            } else {
                assert_eq!(
                    fill.price,
                    stop.round_down_to(a("0.00000001")).unwrap(),
                    "{ticker}: {:?}",
                    pair[1]
                );
            }
        }
    }
    println!("{gaps} of {hits} stop hits gapped through");
    assert_eq!((hits, gaps, worse), (2790, 375, 375));
}

#[test]
fn a_bar_that_touches_stop_and_target_is_stopped_out() {
    let (mut bars, mut both, mut targets) = (0, 0, 0);
    for ticker in TICKERS {
        let symbol = Symbol::parse(ticker).unwrap();
        let rules = rules(&symbol);
        for row in stocks(ticker) {
            let Row::Bar {
                open, high, low, ..
            } = row
            else {
                panic!("{row:?}")
            };
            bars += 1;
            let (stop, target) = (
                open.checked_mul(a("0.99")).unwrap(),
                open.checked_mul(a("1.01")).unwrap(),
            );
            let (is_stop, is_target) = (low <= stop, high >= target);
            let filled = fill(&holding(&symbol, open, stop, target), &rules, &symbol, row);
            let leg = filled.map(|fill| fill.order_id.to_string());
            both += u32::from(is_stop && is_target);
            match (is_stop, is_target) {
                (true, _) => assert_eq!(leg.as_deref(), Some("o-1-stop"), "{ticker}: {row:?}"),
                // A resting limit fills if the bar goes beyond it, not if it only touches it.
                (false, true) if high > target => {
                    assert_eq!(leg.as_deref(), Some("o-1-target"), "{ticker}: {row:?}");
                    targets += 1;
                }
                (false, _) => assert_eq!(leg, None, "{ticker}: {row:?}"),
            }
        }
    }
    println!(
        "{both} of {bars} bars touch both 1% above and 1% below their open; {targets} only the \
            upper one"
    );
    assert_eq!((bars, both), (12_154, 1742));
    assert!(targets > 1000);
}

/// Returns the real quotes of 2018-04-04 as a CSV, with one in 42 crossed (in a month of real FXCM
/// minutes it was 683 of 28,761).
fn crossed() -> (String, u64) {
    let name = "lean-coinbase-minute-btcusd_20180404_quote.zip";
    let Import { rows, .. } = import(name, &fixture(name), &Options::default()).unwrap();
    let mut text = "time,bid,ask\n".to_owned();
    let mut crossed = 0;
    for (n, row) in rows.iter().enumerate() {
        let Row::Quote {
            time_ms, bid, ask, ..
        } = row
        else {
            panic!("{row:?}")
        };
        let is_crossed = n % 42 == 0;
        crossed += u64::from(is_crossed && bid != ask);
        let (bid, ask) = if is_crossed { (ask, bid) } else { (bid, ask) };
        text.push_str(&format!("{time_ms},{bid},{ask}\n"));
    }
    (text, crossed)
}

#[test]
fn crossed_quotes_are_counted_and_never_a_market() {
    let (text, crossed) = crossed();
    let got = import("q.csv", text.as_bytes(), &Options::default()).unwrap();
    assert_eq!(
        (got.report.rows_in, got.report.crossed_quotes, crossed),
        (1437, crossed, 35)
    );
    assert_eq!(got.report.rows_out, 1437 - crossed);
    assert_eq!(got.report.problems[0], "line 2: the ask is below the bid");
    assert!(
        got.rows
            .iter()
            .all(|row| matches!(row, Row::Quote { bid, ask, .. } if bid <= ask))
    );
    // The venue refuses what a reader does not notice.
    let symbol = Symbol::parse("BTC-USD").unwrap();
    let time_ms = Time::parse("2018-04-04T12:00:00Z").unwrap().ms();
    let row = Row::Quote {
        time_ms,
        bid: a("6801"),
        ask: a("6800"),
        bid_size: None,
        ask_size: None,
    };
    let now = Time::from_ms(time_ms).unwrap();
    let refused = on_rows(
        &Book::default(),
        &rules(&symbol),
        &symbol,
        &[row],
        None,
        now,
        0,
    )
    .unwrap_err();
    assert_eq!(
        refused.to_string(),
        "row 0 is not market data: it does not hold 0 < bid <= ask"
    );
}

/// The report of a file needs no home, and has the same content as JSON.
#[test]
fn a_file_is_checked_without_a_home() {
    let folder = crate::kit::folder();
    let file = folder.path().join("q.csv");
    fs::write(&file, crossed().0).unwrap();
    let nowhere = folder.path().join("nowhere");
    let args = [
        "market",
        "import",
        file.to_str().unwrap(),
        "--symbol",
        "BTC-USD",
        "--dry-run",
    ];
    let report: Value = serde_json::from_str(&succeed(
        &nowhere,
        &[["--format", "json"].as_slice(), &args].concat(),
    ))
    .unwrap();
    assert_eq!(
        (&report["format"], &report["crossed_quotes"]),
        (&json!("quote_table"), &json!(35))
    );
    assert_eq!(
        (&report["rows_in"], &report["rows_out"]),
        (&json!(1437), &json!(1402))
    );
    assert_eq!(
        (
            &report["duplicates"],
            &report["gaps"],
            &report["bad_prices"]
        ),
        (&json!(0), &json!(0), &json!(0))
    );
    assert!(succeed(&nowhere, &args).contains("crossed quotes dropped"));
    assert!(!nowhere.exists());
    // In a home they are not added to the book.
    let scratch = Scratch::new();
    fs::write(
        &file,
        "time,bid,ask\n1522843200,6800,6801\n1522843260,6803,6802\n",
    )
    .unwrap();
    succeed(&scratch.home(), &args[..5]);
    let shown = succeed(
        &scratch.home(),
        &["--format", "json", "market", "show", "BTC-USD"],
    );
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(
        (&shown["bid"], &shown["ask"], &shown["stale"]),
        (&json!("6800"), &json!("6801"), &json!(true))
    );
}
