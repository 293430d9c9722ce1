//! Files of LEAN.

use super::*;

/// The expected result for a file: rows, first and last line, gaps, longest gap, rounded values.
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
        "no row for `aapl`, only for `AAPL`",
    );
    check_error(
        import("x.csv", b"time,bid,ask\n2020-01-01,1,2\n", &symbol("A")),
        "no ticker or symbol column to find `A`",
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
            "holds funding rates, which are not prices; charge the rate that is due with `spoolgate market funding`",
        );
    }
    check_error(
        text("calc_time,funding_interval_hours,last_funding_rate\n1,8,0.1\n"),
        "holds funding rates",
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
    // Lean names its zips only by the day; the inner name has the rest.
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
    // And the outer name has what the inner name lacks.
    assert_eq!(
        lines(&import(day, &zip_of(&[("a.csv", rows)]), &Options::default()).unwrap()),
        expect
    );
    check_error(
        import("btcusd_minute_trade.csv", rows, &Options::default()),
        "its name contains no date",
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
        "give the interval",
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
        "a lean trade file, whose times are always those when a bar opens",
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
