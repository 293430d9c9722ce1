//! The market file reader with real files, every format and malformed input.
//!
//! The expectations for real files were computed by a separate Python script from the same files.

mod lean;

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

/// Minutes of a currency broker: bars of both sides, some of them crossed.
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
    // If the time is the end of the bar, the bar is known at that time.
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
        "give the interval",
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
        ("2018-04-05,1,1,1,1,1\n", "it is not a header"),
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
        "give the interval",
    );
}

#[test]
fn the_interval_is_named_given_or_inferred() {
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
        ("x.csv", vec![60_000, 60_000], &none, "give the interval"),
        ("x.csv", vec![], &none, "give the interval"),
        ("x.csv", vec![1, 1, 1], &none, "give the interval"),
        (
            "x.csv",
            vec![60_000, 30_000, 60_000, 60_000],
            &none,
            "give the interval",
        ),
        (
            "x-daily.csv",
            vec![86_400_000],
            &minute(),
            "states bars of 1d, but --interval states 1m",
        ),
        (
            "x-daily.csv",
            vec![60_000, 60_000],
            &none,
            "has bars 1m apart that should last 1d",
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
    // A stray quote only invalidates its own row.
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
