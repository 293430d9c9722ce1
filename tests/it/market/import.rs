//! The market file reader against real files, every format and malformed input.
//!
//! The expectations for real files were computed by a separate Python script from the same files.

use std::fs;
use std::io::Write as _;

use spoolgate_market::{Edge, Format, Import, ImportError, Options, Row, RowKind, import};

fn fixture(name: &str) -> Vec<u8> {
    fs::read(format!(
        "{}/tests/fixtures/market/{name}",
        env!("CARGO_MANIFEST_DIR")
    ))
    .unwrap()
}

fn zip_of(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, bytes) in members {
        writer
            .start_file(*name, zip::write::SimpleFileOptions::default())
            .unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

fn line(row: &Row) -> String {
    let mut out = String::new();
    row.write_line(&mut out);
    out
}

fn lines(import: &Import) -> Vec<String> {
    import.rows.iter().map(line).collect()
}

fn minute() -> Options {
    Options {
        interval_ms: Some(60_000),
        ..Options::default()
    }
}

fn symbol(name: &str) -> Options {
    Options {
        symbol_in_file: Some(name.to_owned()),
        ..Options::default()
    }
}

/// Imports text as `x.csv` with an interval of a minute.
fn text(body: &str) -> Result<Import, ImportError> {
    import("x.csv", body.as_bytes(), &minute())
}

/// What a file should give: rows, first and last line, gaps, longest gap, rounded values.
struct Expect {
    rows: u64,
    first: &'static str,
    last: &'static str,
    gaps: u64,
    longest_gap_ms: i64,
    rounded: u64,
}

#[track_caller]
fn check_clean(name: &str, got: &Import, expect: &Expect) {
    let report = &got.report;
    assert_eq!(
        (report.rows_in, report.rows_out, got.rows.len() as u64),
        (expect.rows, expect.rows, expect.rows)
    );
    assert_eq!(line(&got.rows[0]), expect.first, "{name}");
    assert_eq!(line(got.rows.last().unwrap()), expect.last, "{name}");
    assert_eq!(
        (report.gaps, report.longest_gap_ms),
        (expect.gaps, expect.longest_gap_ms),
        "{name}"
    );
    assert_eq!(report.rounded, expect.rounded, "{name}");
    assert_eq!(
        (report.first_ms, report.last_ms),
        (got.rows[0].known_ms(), got.rows.last().unwrap().known_ms())
    );
    let dropped = [
        report.duplicates,
        report.crossed_quotes,
        report.bad_prices,
        report.unreadable,
    ];
    assert_eq!(
        (dropped, report.out_of_order, report.overlaps),
        ([0; 4], 0, 0),
        "{name}"
    );
    assert!(report.problems.is_empty(), "{name}: {:?}", report.problems);
}

/// File, expected format, expected outcome.
const LEAN: [(&str, Format, Expect); 9] = [
    (
        "lean-coinbase-minute-btcusd_20180404_trade.zip",
        Format::LeanTrade,
        Expect {
            rows: 1007,
            first: "bar,1522800000000,60000,7424.91,7424.91,7422,7422,7.14319709",
            last: "bar,1522860420000,60000,6894.01,6894.01,6894.01,6894.01,0.0373333",
            gaps: 1,
            longest_gap_ms: 120_000,
            rounded: 0,
        },
    ),
    (
        "lean-coinbase-minute-btcusd_20180404_quote.zip",
        Format::LeanQuote,
        Expect {
            rows: 1437,
            first: "quote,1522800060000,7424.9,7424.91,1.88483821,33.35399601",
            last: "quote,1522886340000,6791.67,6791.68,1.76705729,27.03989903",
            gaps: 1,
            longest_gap_ms: 180_000,
            rounded: 1342,
        },
    ),
    (
        "lean-coinbase-minute-btcusd_20180405_trade.zip",
        Format::LeanTrade,
        Expect {
            rows: 1440,
            first: "bar,1522886400000,60000,6791.68,6791.68,6778.01,6778.01,26.84379253",
            last: "bar,1522972740000,60000,6782.6,6785.86,6782.6,6785.85,127.9523733",
            gaps: 0,
            longest_gap_ms: 0,
            rounded: 0,
        },
    ),
    (
        "lean-coinbase-minute-btcusd_20180405_quote.zip",
        Format::LeanQuote,
        Expect {
            rows: 1436,
            first: "quote,1522886460000,6778,6778.01,0.00211,24.42695767",
            last: "quote,1522972740000,6782.6,6782.61,2.26165307,70.15211337",
            gaps: 3,
            longest_gap_ms: 120_000,
            rounded: 1179,
        },
    ),
    (
        "lean-coinbase-daily-btcusd_trade.zip",
        Format::LeanTrade,
        Expect {
            rows: 1318,
            first: "bar,1417392000000,86400000,300,370,300,370,0.05655554",
            last: "bar,1534118400000,86400000,6316,6544.99,6139.57,6253.67,10178.43146644",
            gaps: 8,
            longest_gap_ms: 1_814_400_000,
            rounded: 0,
        },
    ),
    (
        "lean-coinbase-minute-btcusd_20171217_trade.zip",
        Format::LeanTrade,
        Expect {
            rows: 1440,
            first: "bar,1513468800000,60000,19650.02,19650.02,19505,19516.96,61.34020731",
            last: "bar,1513555140000,60000,19378.88,19378.99,19378.87,19378.99,12.78018758",
            gaps: 0,
            longest_gap_ms: 0,
            rounded: 0,
        },
    ),
    (
        "lean-coinbase-minute-btcusd_20171217_quote.zip",
        Format::LeanQuote,
        Expect {
            rows: 1439,
            first: "quote,1513468860000,19650,19650.01,0.029768,14.50453612",
            last: "quote,1513555140000,19378.87,19378.88,18.2438417,4.94489036",
            gaps: 0,
            longest_gap_ms: 0,
            rounded: 1533,
        },
    ),
    (
        "lean-coinbase-minute-ethusd_20180404_trade.zip",
        Format::LeanTrade,
        Expect {
            rows: 1009,
            first: "bar,1522800000000,60000,416.29,416.29,416.15,416.15,46.33579289",
            last: "bar,1522860720000,60000,380.06,380.07,380.06,380.07,21.54904656",
            gaps: 1,
            longest_gap_ms: 300_000,
            rounded: 0,
        },
    ),
    (
        "lean-coinbase-minute-ethusd_20180404_quote.zip",
        Format::LeanQuote,
        Expect {
            rows: 1438,
            first: "quote,1522800060000,416.15,416.16,0.34307689,47.8553",
            last: "quote,1522886340000,379.05,379.06,4.35127106,107.65847075",
            gaps: 1,
            longest_gap_ms: 120_000,
            rounded: 975,
        },
    ),
];

#[track_caller]
fn check_lean(name: &str, bytes: &[u8], format: Format, expect: &Expect) {
    let got = import(name, bytes, &Options::default()).unwrap();
    assert_eq!(got.report.format, format, "{name}");
    check_clean(name, &got, expect);
}

#[test]
fn real_lean_files_give_every_row() {
    for (name, format, expect) in &LEAN {
        check_lean(name, &fixture(name), *format, expect);
    }
}

#[test]
fn every_symbol_of_the_real_stocks_gives_every_row() {
    let name = "us-stocks-daily-2000-2013.zip";
    let stocks = fixture(name);
    check_error(
        import(name, &stocks, &Options::default()),
        "holds several symbols",
    );
    let day = "86400000";
    for (ticker, rows, first, last, gaps, longest_gap_ms) in [
        (
            "AAPL",
            3270,
            "118.56,132.06,118.5,130.31,9616100",
            "438.0,438.1799,429.98,430.47,19730300",
            709,
            7,
        ),
        (
            "FB",
            196,
            "42.05,45.0,38.0,38.2318,573576400",
            "27.05,28.1164,26.81,27.78,54064800",
            45,
            5,
        ),
        (
            "GOOG",
            2148,
            "100.01,104.06,95.96,100.335,44659000",
            "797.8,807.14,796.15,806.19,4346400",
            463,
            5,
        ),
        (
            "IBM",
            3270,
            "102.0,105.5,100.06,100.25,10807800",
            "200.65,202.94,199.36,202.91,3308300",
            709,
            7,
        ),
        (
            "MSFT",
            3270,
            "89.62,94.09,88.94,90.81,53444900",
            "27.72,27.98,27.52,27.95,34849700",
            709,
            7,
        ),
    ] {
        let got = import(name, &stocks, &symbol(ticker)).unwrap();
        let opened_ms = match ticker {
            "FB" => 1_337_299_200_000_i64,
            "GOOG" => 1_092_873_600_000,
            _ => 951_868_800_000,
        };
        assert_eq!(line(&got.rows[0]), format!("bar,{opened_ms},{day},{first}"));
        assert_eq!(
            line(got.rows.last().unwrap()),
            format!("bar,1362096000000,{day},{last}")
        );
        let report = &got.report;
        assert_eq!(
            (report.rows_in, report.rows_out, report.other_symbols),
            (rows, rows, 12_154 - rows)
        );
        assert_eq!(
            (report.gaps, report.longest_gap_ms),
            (gaps, longest_gap_ms * 86_400_000)
        );
        assert!(report.problems.is_empty() && report.rounded == 0);
    }
}

#[test]
fn a_symbol_is_taken_out_of_a_file_of_many() {
    let csv = fixture("us-stocks-daily-excerpt.csv");
    for (ticker, rows, first, last, gaps, longest_gap_ms) in EXCERPT {
        let got = import("us-stocks-daily-excerpt.csv", &csv, &symbol(ticker)).unwrap();
        assert_eq!(
            (line(&got.rows[0]), line(got.rows.last().unwrap())),
            (first.to_owned(), last.to_owned())
        );
        assert_eq!(
            (got.report.rows_out, got.report.other_symbols),
            (rows, 40 - rows)
        );
        assert_eq!(
            (got.report.gaps, got.report.longest_gap_ms),
            (gaps, longest_gap_ms)
        );
        assert_eq!(got.report.interval_ms, Some(86_400_000));
        assert_eq!(got.report.format, Format::BarTable);
    }
    check_error(
        import("us-stocks-daily.csv", &csv, &Options::default()),
        "holds several symbols (`AAPL`, `FB`, `MSFT`)",
    );
    check_error(
        import("us-stocks-daily.csv", &csv, &symbol("aapl")),
        "no row of `aapl`, only of `AAPL`",
    );
    check_error(
        import("x.csv", b"time,bid,ask\n2020-01-01,1,2\n", &symbol("A")),
        "no ticker or symbol column to look for `A`",
    );
    let one = import(
        "x-1d.csv",
        b"Symbol,Date,Open,High,Low,Close\nA,2020-01-01,1,2,1,2\n",
        &Options::default(),
    );
    assert_eq!(
        lines(&one.unwrap()),
        ["bar,1577836800000,86400000,1,2,1,2,"]
    );
}

/// Ticker, rows, first, last, gaps, longest gap of the excerpt.
const EXCERPT: [(&str, u64, &str, &str, u64, i64); 3] = [
    (
        "AAPL",
        20,
        "bar,951868800000,86400000,118.56,132.06,118.5,130.31,9616100",
        "bar,962064000000,86400000,53.78,55.5,51.63,51.75,3633400",
        5,
        7_948_800_000,
    ),
    (
        "FB",
        10,
        "bar,1337299200000,86400000,42.05,45.0,38.0,38.2318,573576400",
        "bar,1338508800000,86400000,28.892,29.15,27.39,27.72,41855500",
        2,
        345_600_000,
    ),
    (
        "MSFT",
        10,
        "bar,1360886400000,86400000,28.04,28.16,27.875,28.01,49650900",
        "bar,1362096000000,86400000,27.72,27.98,27.52,27.95,34849700",
        2,
        345_600_000,
    ),
];

#[test]
fn funding_rates_are_refused() {
    let csv = fixture("lean-binance-funding-btcusd.csv");
    for name in ["lean-binance-funding-btcusd.csv", "btcusd.csv"] {
        check_error(
            import(name, &csv, &Options::default()),
            "holds funding rates, which are no rows; charge what is due with `spoolgate market \
                funding`",
        );
    }
    check_error(
        text("calc_time,funding_interval_hours,last_funding_rate\n1,8,0.1\n"),
        "holds funding rates",
    );
}

#[track_caller]
fn check_error(got: Result<Import, ImportError>, expect: &str) {
    let message = got.expect_err("the file should be refused").to_string();
    assert!(
        message.contains(expect),
        "`{message}` does not say `{expect}`"
    );
    assert!(
        !message.ends_with('.') && !message.contains('\n') && message.len() < 1000,
        "{message}"
    );
}

#[test]
fn unpacked_lean_files_are_read_by_their_names() {
    let (day, rows) = (
        "20180404_btcusd_minute_trade.csv",
        b"0,1,2,1,2,5\n60000,2,3,1.5,2.5,6\n",
    );
    let expect = [
        "bar,1522800000000,60000,1,2,1,2,5",
        "bar,1522800060000,60000,2,3,1.5,2.5,6",
    ];
    assert_eq!(
        lines(&import(day, rows, &Options::default()).unwrap()),
        expect
    );
    assert_eq!(
        lines(&import(&format!("/a/b/{day}"), rows, &Options::default()).unwrap()),
        expect
    );
    // Lean names its zips by the day alone; the inner name says the rest.
    assert_eq!(
        lines(
            &import(
                "20180404_trade.zip",
                &zip_of(&[(day, rows)]),
                &Options::default()
            )
            .unwrap()
        ),
        expect
    );
    // And the outer name says what the inner does not.
    assert_eq!(
        lines(&import(day, &zip_of(&[("a.csv", rows)]), &Options::default()).unwrap()),
        expect
    );
    check_error(
        import("btcusd_minute_trade.csv", rows, &Options::default()),
        "its name holds no date",
    );
    check_error(
        import(
            "20180404_btcusd_minute_quote.csv",
            rows,
            &Options::default(),
        ),
        "its name is not Lean's",
    );
    check_error(
        import(
            "20180404_btcusd_minute.csv",
            b"20180404,1,2,1,2,5\n",
            &minute(),
        ),
        "is not Lean's",
    );
    check_error(
        import("20180404_x_trade.csv", rows, &Options::default()),
        "say it with --interval",
    );
    assert_eq!(
        lines(&import("20180404_x_trade.csv", rows, &minute()).unwrap()),
        expect
    );
    let close = Options {
        at_end_of: Some(Edge::Close),
        ..minute()
    };
    check_error(
        import(day, rows, &close),
        "a lean trade file, whose times are always when a bar opens",
    );
    let late = format!("{}86400000,1,2,1,2,5\n", "0,1,2,1,2,5\n".repeat(100));
    let got = import(day, late.as_bytes(), &Options::default()).unwrap();
    assert_eq!(
        (
            got.report.unreadable,
            got.report.duplicates,
            got.report.rows_out
        ),
        (1, 99, 1)
    );
    assert_eq!(
        got.report.problems[0],
        "line 101: `86400000` is not a time in milliseconds since midnight"
    );
    let hours = b"20141201 00:00,300,370,300,370,0.05\n20141201 01:00,300,370,300,370,0.05\n";
    let got = import("x_hour_trade.csv", hours, &Options::default()).unwrap();
    assert_eq!(got.rows[1].known_ms() - got.rows[0].known_ms(), 3_600_000);
}

#[test]
fn lean_quotes_are_known_when_their_bar_closes() {
    let rows = "0,9,9,9,10,1,12,12,12,11,2\n60000,9,9,9,10,1,12,12,12,9.5,2\n120000,,,,,,12,12,12,11,2\n\
                180000,9,9,9,10,5e-08,11,11,11,10,0.0\n";
    let got = import(
        "20180404_x_minute_quote.csv",
        rows.as_bytes(),
        &Options::default(),
    )
    .unwrap();
    assert_eq!(
        lines(&got),
        [
            "quote,1522800060000,10,11,1,2",
            "quote,1522800240000,10,10,0.00000005,0.0"
        ]
    );
    let report = &got.report;
    assert_eq!(
        (
            report.crossed_quotes,
            report.bad_prices,
            report.gaps,
            report.rounded
        ),
        (1, 1, 1, 0)
    );
    assert_eq!(
        report.problems,
        [
            "line 3: a side of the quote is empty",
            "line 2: the ask is below the bid"
        ]
    );
}

#[test]
fn headers_are_read_in_any_common_spelling() {
    let expect = ["bar,1522886400000,60000,1,3,0.5,2,10"];
    for (header, row) in [
        ("time,open,high,low,close,volume", "1522886400,1,3,0.5,2,10"),
        (
            "Timestamp,Open,High,Low,Close,Volume",
            "1522886400000,1,3,0.5,2,10",
        ),
        ("DATE,OPEN,HIGH,LOW,CLOSE,VOL", "2018-04-05,1,3,0.5,2,10"),
        (
            "datetime,close,low,high,open,vol",
            "2018-04-05 00:00:00+00:00,2,0.5,3,1,10",
        ),
        (
            "Open Time,open,high,low,close,volume,close_time",
            "1522886400000000,1,3,0.5,2,10,x",
        ),
        (
            "ts,open,high,low,close,volume,Adj Close",
            "1522886400000000000,1,3,0.5,2,10,",
        ),
        (
            "\"time\",\"open\",\"high\",\"low\",\"close\",\"volume\"",
            "\"2018-04-05T00:00:00Z\",1,\"3\",0.5,2,10",
        ),
        (
            " time , open , high , low , close , volume ",
            " 2018-04-05 00:00:00 , 1 , 3 , 0.5 , 2 , 10 ",
        ),
        (
            "symbol,date,open,high,low,close,volume",
            "\"A,B\",20180405,1,3,0.5,2,10",
        ),
    ] {
        for body in [
            format!("{header}\n{row}\n"),
            format!("{header}\n{row}"),
            format!("\u{feff}{header}\r\n{row}\r\n"),
            format!("\n\n{header}\n\n{row}\n\n"),
        ] {
            assert_eq!(lines(&text(&body).unwrap()), expect, "{body}");
        }
    }
    let got = text("time,bid,ask\n2018-04-05,1,1.5\n2018-04-06,1,2\n").unwrap();
    assert_eq!(
        lines(&got),
        ["quote,1522886400000,1,1.5,,", "quote,1522972800000,1,2,,"]
    );
    let got = import(
        "q.csv",
        b"ts,ask,bid,ask_size,bid_size\n1522886400,2,1,,7e1\n",
        &Options::default(),
    )
    .unwrap();
    assert_eq!(lines(&got), ["quote,1522886400000,1,2,70,"]);
    assert_eq!(
        (got.report.interval_ms, got.report.format),
        (None, Format::QuoteTable)
    );
    assert_eq!(got.rows[0].kind(), RowKind::Quote);
}

/// Minutes of a currency broker: bars of both sides, of which some are crossed.
#[test]
fn bars_of_bid_and_ask_are_quotes_of_their_close() {
    let body = "DateTime,BidOpen,BidHigh,BidLow,BidClose,AskOpen,AskHigh,AskLow,AskClose\n\
        2018-04-05 00:00:00,1,1,1,1.10,2,2,2,1.11\n2018-04-05 00:01:00,1,1,1,1.12,2,2,2,1.11\n\
        2018-04-05 00:02:00,1,1,1,1.12,2,2,2,\n2018-04-05 00:03:00,1,1,1,1.12,2,2,2,1.12\n";
    let got = text(body).unwrap();
    assert_eq!(
        lines(&got),
        [
            "quote,1522886460000,1.10,1.11,,",
            "quote,1522886640000,1.12,1.12,,"
        ]
    );
    let report = &got.report;
    assert_eq!(
        (report.format, report.crossed_quotes, report.bad_prices),
        (Format::QuoteBarTable, 1, 1)
    );
    assert_eq!((report.gaps, report.longest_gap_ms), (1, 180_000));
    // Stamped at their end, they are known then.
    let close = Options {
        at_end_of: Some(Edge::Close),
        ..minute()
    };
    let got = import("x.csv", body.as_bytes(), &close).unwrap();
    assert_eq!(lines(&got)[0], "quote,1522886400000,1.10,1.11,,");
    let named = "time,bid_close,ask_close,bid_size,ask_size\n2018-04-05,1,2,3,4\n";
    assert_eq!(
        lines(&text(named).unwrap()),
        ["quote,1522886460000,1,2,3,4"]
    );
    check_error(
        import("x.csv", named.as_bytes(), &Options::default()),
        "say it with --interval",
    );
}

#[test]
fn headers_that_leave_a_guess_are_refused() {
    for (body, expect) in [
        (
            "date,time,open,high,low,close\n",
            "has both `date` and `time`; keep the one to read",
        ),
        ("time,open,high,close\n1,1,1,1\n", "has no column `low`"),
        ("time,bid\n1,1\n", "has no column `ask`"),
        (
            "time,bid_close,ask\n1,1,1\n",
            "has bars and quotes; split them",
        ),
        (
            "time,BidOpen,BidClose\n1,1,1\n",
            "has no column `ask_close`",
        ),
        (
            "time,price\n1,1\n",
            "has neither `open,high,low,close` nor `bid,ask`",
        ),
        (
            "time,open,high,low,close,bid,ask\n",
            "has bars and quotes; split them",
        ),
        (
            "time,open,high,low,close,volume,vol\n",
            "has both `volume` and `vol`",
        ),
        (
            "when,open,high,low,close\n2018-04-05,1,1,1,1\n",
            "it names no time column",
        ),
        ("2018-04-05,1,1,1\n", "this has 4"),
        ("2018-04-05,1,1,1,1,1\n", "it is no header"),
    ] {
        check_error(text(body), expect);
    }
}

#[test]
fn binance_klines_are_read_in_every_packing() {
    let rows = "1499040000000,0.01634790,0.80000000,0.01575800,0.01577100,148976.11427815,1499644799999,\
                2434.19055334,308,1756.87402397,28.46694368,0\n";
    let expect =
        ["bar,1499040000000,60000,0.01634790,0.80000000,0.01575800,0.01577100,148976.11427815"];
    let micro = rows.replace("1499040000000,", "1499040000000000,");
    for body in [rows, micro.as_str()] {
        let name = "BTCUSDT-1m-2025-01";
        let got = import(&format!("{name}.csv"), body.as_bytes(), &Options::default()).unwrap();
        assert_eq!(got.report.format, Format::BinanceKlines);
        assert_eq!(lines(&got), expect);
        let zipped = zip_of(&[(&format!("{name}.csv"), body.as_bytes())]);
        assert_eq!(
            lines(&import("a.zip", &zipped, &Options::default()).unwrap()),
            expect
        );
    }
    check_error(
        import("BTCUSDT-1M-2025.csv", rows.as_bytes(), &Options::default()),
        "say it with --interval",
    );
}

#[test]
fn the_interval_is_named_asked_or_agreed() {
    let rows = |steps_ms: &[i64]| {
        let mut time_ms = 1_522_886_400_000;
        let mut body = format!("time,open,high,low,close\n{time_ms},1,1,1,1\n");
        for step_ms in steps_ms {
            time_ms += step_ms;
            body.push_str(&format!("{time_ms},1,1,1,1\n"));
        }
        body.into_bytes()
    };
    let none = Options::default();
    let interval = |name: &str, steps_ms: &[i64], options: &Options| {
        import(name, &rows(steps_ms), options).map(|got| got.report.interval_ms.unwrap())
    };
    assert_eq!(
        interval("x.csv", &[60_000, 60_000, 60_000], &none).unwrap(),
        60_000
    );
    assert_eq!(
        interval("x.csv", &[60_000, 60_000, 180_000, 60_000], &none).unwrap(),
        60_000
    );
    assert_eq!(interval("btc-5m.csv", &[300_000], &none).unwrap(), 300_000);
    assert_eq!(
        interval("BTC_Daily.csv", &[86_400_000], &none).unwrap(),
        86_400_000
    );
    assert_eq!(
        interval("minute-1d.csv", &[60_000], &minute()).unwrap(),
        60_000
    );
    assert_eq!(interval("x-1m.csv", &[60_000], &minute()).unwrap(), 60_000);
    for (name, steps_ms, options, expect) in [
        (
            "x.csv",
            vec![60_000, 60_000],
            &none,
            "say it with --interval",
        ),
        ("x.csv", vec![], &none, "say it with --interval"),
        ("x.csv", vec![1, 1, 1], &none, "say it with --interval"),
        (
            "x.csv",
            vec![60_000, 30_000, 60_000, 60_000],
            &none,
            "say it with --interval",
        ),
        (
            "x-daily.csv",
            vec![86_400_000],
            &minute(),
            "is named as 1d bars and --interval says 1m",
        ),
        (
            "x-daily.csv",
            vec![60_000, 60_000],
            &none,
            "has bars 1m apart where they should last 1d",
        ),
    ] {
        check_error(import(name, &rows(&steps_ms), options), expect);
    }
    let zero = Options {
        interval_ms: Some(0),
        ..Options::default()
    };
    check_error(import("x.csv", &rows(&[]), &zero), "an interval of 0 ms");
    let got = import("x.csv", &rows(&[60_000, 60_000, 30_000, 90_000]), &minute()).unwrap();
    assert_eq!((got.report.overlaps, got.report.gaps), (1, 1));
}

#[test]
fn times_at_the_close_are_moved_to_the_open() {
    let options = Options {
        at_end_of: Some(Edge::Close),
        ..minute()
    };
    let got = import(
        "x.csv",
        b"time,open,high,low,close\n1522886460,1,1,1,1\n",
        &options,
    )
    .unwrap();
    assert_eq!(lines(&got), ["bar,1522886400000,60000,1,1,1,1,"]);
    assert_eq!(
        (got.report.first_ms, got.report.last_ms),
        (1_522_886_460_000, 1_522_886_460_000)
    );
}

#[test]
fn order_duplicates_and_impossible_bars_are_counted() {
    let body = "time,open,high,low,close,volume\n\
        2018-04-05 00:02,3,3,3,3,1\n\
        2018-04-05 00:00,1,1,1,1,1\n\
        2018-04-05 00:01,2,2,2,2,0.12345678901\n\
        2018-04-05 00:01,9,9,9,9,0.12345678901\n\
        2018-04-05 00:03,0,1,0,1,1\n\
        2018-04-05 00:04,1,2,1.5,2,1\n\
        2018-04-05 00:05,1,1.5,1,2,1\n\
        2018-04-05 00:06,1,2,1,2,-1\n\
        2018-04-05 00:07,1,2,1,2,\n\
        2018-04-05 00:08,1.00000000001,2,1,2,-0.0\n";
    let got = text(body).unwrap();
    assert_eq!(
        lines(&got),
        [
            "bar,1522886400000,60000,1,1,1,1,1",
            "bar,1522886460000,60000,2,2,2,2,0.123456789",
            "bar,1522886520000,60000,3,3,3,3,1",
            "bar,1522886820000,60000,1,2,1,2,",
            "bar,1522886880000,60000,1,2,1,2,0.0",
        ]
    );
    let report = &got.report;
    assert_eq!(
        (report.rows_in, report.rows_out, report.unreadable),
        (10, 5, 0)
    );
    assert_eq!(
        (
            report.duplicates,
            report.out_of_order,
            report.bad_prices,
            report.rounded
        ),
        (1, 3, 4, 2)
    );
    assert_eq!((report.gaps, report.longest_gap_ms), (1, 300_000));
    assert_eq!(report.problems.len(), 8);
    assert_eq!(report.problems[0], "line 6: a price is zero or below");
    assert_eq!(
        report.problems[7],
        "line 5: an earlier line has the same time; the earlier one was kept"
    );
    let json = serde_json::to_string(report).unwrap();
    assert!(
        json.starts_with(
            r#"{"file":"x.csv","format":"bar_table","interval_ms":60000,"rows_in":10,"#
        ),
        "{json}"
    );
    check_error(
        text("time,bid,ask\n2018-04-05,2,1\n"),
        "no usable row among 1; the first was refused at line 2: the ask",
    );
}

#[test]
fn one_unreadable_row_in_a_hundred_is_dropped_and_more_refuse_the_file() {
    let good = |count: i64| -> String {
        (0..count)
            .map(|n| format!("{},1,1,1,1\n", 1_522_886_400 + 60 * n))
            .collect()
    };
    let header = "time,open,high,low,close\n";
    let got = text(&format!("{header}{}junk\n", good(99))).unwrap();
    assert_eq!((got.report.unreadable, got.report.rows_out), (1, 99));
    assert_eq!(
        got.report.problems,
        ["line 101: the row has 1 fields, expected 5"]
    );
    check_error(
        text(&format!("{header}junk\n{}", good(98))),
        "line 2: the row has 1 fields, expected 5; 1 of 99 rows",
    );
    for (row, expect) in [
        ("04/05/2018,1,1,1,1", "`04/05/2018` is not a time"),
        ("1522886400,nan,1,1,1", "`nan` is not a price"),
        ("1522886400,1e2,1,1,1", "`1e2` is not a price"),
        (
            "1522886400,1,1,1,1000000000000",
            "`1000000000000` is not a price",
        ),
        ("1522886400,1,1,1,\"1", "a quote is not closed on the line"),
        ("1522886400,\"1\"00,100,1,1", "or is inside a field"),
        (
            "1522886400,\u{1b}[31m,1,1,1",
            "`\\u{1b}[31m` is not a price",
        ),
    ] {
        check_error(text(&format!("{header}{row}\n{}", good(5))), expect);
    }
    let mut binary = format!("{header}{}", good(99)).into_bytes();
    binary.extend(b"1522886400,\xff,1,1,1\n");
    assert_eq!(
        import("x.csv", &binary, &minute())
            .unwrap()
            .report
            .unreadable,
        1
    );
    // A stray quote spoils its own row and swallows nothing.
    let body = format!(
        "{header}{}\"1522880000,1,1,1,1\n{}",
        good(50),
        good(150).replace("15228", "15238")
    );
    let got = text(&body).unwrap();
    assert_eq!(
        (
            got.report.rows_in,
            got.report.rows_out,
            got.report.unreadable
        ),
        (201, 200, 1)
    );
}

#[test]
fn malformed_files_are_refused_with_their_name() {
    let trade = fixture("lean-coinbase-minute-btcusd_20180404_trade.zip");
    let text_row: &[u8] = b"time,bid,ask\n2018-04-05,1,2\n";
    let long = "9".repeat(1 << 20);
    let bomb = zip_of(&[("a.csv", &vec![b'0'; (64 << 20) + 1])]);
    assert!(bomb.len() < 1 << 20);
    for (bytes, expect) in [
        (Vec::new(), "`x.csv` is empty"),
        (b"\xef\xbb\xbf\r\n\n".to_vec(), "is empty"),
        (
            b"time,open,high,low,close\n".to_vec(),
            "has a header line and no row",
        ),
        (trade[..trade.len() / 2].to_vec(), "cannot unpack `x.csv`"),
        (trade[..trade.len() - 1].to_vec(), "cannot unpack"),
        (b"PK\x03\x04".to_vec(), "cannot unpack"),
        (zip_of(&[]), "holds 0 files, expected one"),
        (
            zip_of(&[("a.csv", text_row), ("b.csv", text_row)]),
            "holds 2 files, expected one",
        ),
        (zip_of(&[("a.csv", b"")]), "is empty"),
        (
            zip_of(&[("a.zip", &zip_of(&[("a.csv", text_row)]))]),
            "packed twice",
        ),
        (bomb, "holds more than 67108864 bytes"),
        (vec![b'1'; (64 << 20) + 1], "holds more than 67108864 bytes"),
        (vec![0x1f, 0x8b, 8, 0], "gunzip"),
        (vec![0, 1, 2, 3, 0xff], "is not UTF-8 text at line 1"),
        (
            "time,bid,ask\n"
                .encode_utf16()
                .flat_map(u16::to_le_bytes)
                .collect(),
            "is not UTF-8 text",
        ),
        (b"\x89PNG\r\n\x1a\n".to_vec(), "is not UTF-8 text"),
        (long.clone().into_bytes(), "the line is 1048576 bytes long"),
        (
            format!("time,bid,ask\n{long},1,2\n").into_bytes(),
            "line 2: the line is 1048580 bytes long",
        ),
        (
            b"<html><body>429</body></html>\n".to_vec(),
            "it names no time column",
        ),
    ] {
        check_error(import("x.csv", &bytes, &minute()), expect);
    }
    check_error(
        import("a\u{1b}[2J\n.csv", b"", &minute()),
        "`a\\u{1b}[2J\\n.csv` is empty",
    );
}

#[test]
fn a_damaged_zip_never_passes_for_a_whole_one() {
    let name = "lean-coinbase-minute-btcusd_20180404_trade.zip";
    let whole = fixture(name);
    let rows = import(name, &whole, &Options::default()).unwrap().rows;
    for at in (0..whole.len()).step_by(97) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        if let Ok(got) = import(name, &bytes, &Options::default()) {
            assert!(got.rows == rows, "byte {at} changed the rows");
        }
    }
}
