//! The canonical text of market rows, and properties of the importer: no panic, nothing lost,
//! byte-exact text.

use std::fs;

use proptest::prelude::*;
use spoolgate_market::{BLOB_ROWS_MAX, Import, Options, Row, import, parse_blob, write_blob};
use spoolgate_wire::amount::Amount;

fn line(row: &Row) -> String {
    let mut out = String::new();
    row.write_line(&mut out);
    out
}

#[test]
fn canonical_lines_are_read_back_byte_for_byte() {
    for text in [
        "bar,1522886400000,60000,1,3,0.50,2.0,10.100",
        "bar,-2208988800000,1,1,1,1,1,",
        "bar,0,86400000,0.0000000001,999999999999.9999999999,0.0000000001,1,0",
        "quote,1522886400000,1,1.0,,",
        "quote,1522886400000,1.00,2,0.0,7",
    ] {
        assert_eq!(
            Row::parse_line(text).map(|row| line(&row)),
            Ok(text.to_owned())
        );
    }
}

#[test]
fn other_lines_are_refused() {
    for (text, expect) in [
        ("", "a row starts with `bar` or `quote`, not ``"),
        ("trade,1,2", "not `trade`"),
        ("Bar,0,1,1,1,1,1,", "not `Bar`"),
        ("bar,0,60000,1,1,1,1", "the row has 7 fields, expected 8"),
        ("quote,0,1,1,,,", "the row has 7 fields, expected 6"),
        (
            "bar,x,60000,1,1,1,1,",
            "field 2 is `x`, not a canonical number",
        ),
        ("bar,0,60000,1,1,1,1e3,", "field 7 is `1e3`"),
        ("bar,0,60000,1,1,1,01,", "field 7 is `01`"),
        ("bar,0,60000,1,1,1,1,1.00000000001", "field 8 is"),
        ("quote,0,1,,,", "field 4 is ``"),
        ("quote,0,1, 1,,", "field 4 is ` 1`"),
        ("quote,+1,1,1,,", "not in its canonical form"),
        ("quote,01,1,1,,", "not in its canonical form"),
        ("quote,-0,1,1,,", "not in its canonical form"),
        ("quote,0,1,1,,\r", "field 6 is `\\r`"),
        ("bar,0,0,1,1,1,1,", "the interval is zero or below"),
        ("bar,9223372036854775807,1,1,1,1,1,", "outside the years"),
        ("quote,9223372036854775808,1,1,,", "field 2"),
        ("quote,7258118400000,1,1,,", "outside the years"),
        ("bar,0,60000,0,1,0,1,", "a price is zero or below"),
        ("bar,0,60000,1,1,-1,1,", "a price is zero or below"),
        (
            "bar,0,60000,1,2,1.5,2,",
            "the low is above, or the high below",
        ),
        (
            "bar,0,60000,1,2,1,3,",
            "the low is above, or the high below",
        ),
        ("bar,0,60000,1,1,1,1,-1", "a volume or size is below zero"),
        ("bar,0,60000,1,1,1,1,-0", "a volume or size is below zero"),
        ("quote,0,1,1,-0.0,", "a volume or size is below zero"),
        ("quote,0,2,1,,", "the ask is below the bid"),
    ] {
        let message = Row::parse_line(text).expect_err(text).to_string();
        assert!(message.contains(expect), "`{text}`: {message}");
    }
}

#[test]
fn blobs_are_read_strictly() {
    let ok = "quote,1,1,1,,\nbar,0,2,1,1,1,1,\nquote,2,1,1,,\nbar,1,2,1,1,1,1,\n";
    let rows = parse_blob(ok.as_bytes()).unwrap();
    assert_eq!((rows.len(), write_blob(&rows)), (4, ok.to_owned()));
    for (bytes, expect) in [
        (&b""[..], "has no row"),
        (b"\n", "line 1 of the market blob: a row starts with"),
        (b"quote,1,1,1,,", "does not end with a line feed"),
        (b"quote,1,1,1,,\n\n", "line 2 of the market blob"),
        (b"quote,1,1,1,,\r\n", "line 1 of the market blob: field 6"),
        (
            b"quote,1,1,1,,\nquote,1,1,1,,\n",
            "line 2 of the market blob is not later",
        ),
        (
            b"quote,2,1,1,,\nbar,0,1,1,1,1,1,\nquote,1,1,1,,\n",
            "line 3 of the market blob is not later",
        ),
        // The bars open in order and close in disorder: the time at which they are known counts.
        (
            b"bar,0,9,1,1,1,1,\nbar,1,2,1,1,1,1,\n",
            "line 2 of the market blob is not later",
        ),
        (
            b"quote,1,\xff,1,,\n",
            "line 1 of the market blob is not UTF-8",
        ),
    ] {
        let message = parse_blob(bytes).expect_err(expect).to_string();
        assert!(message.contains(expect), "{message}");
    }
    let many = |count: usize| {
        (0..count)
            .map(|n| format!("quote,{n},1,1,,\n"))
            .collect::<String>()
    };
    assert_eq!(
        parse_blob(many(BLOB_ROWS_MAX).as_bytes()).unwrap().len(),
        BLOB_ROWS_MAX
    );
    assert!(
        parse_blob(many(BLOB_ROWS_MAX + 1).as_bytes())
            .unwrap_err()
            .to_string()
            .contains("more than 8192")
    );
}

/// Checks what holds for every import that succeeds.
#[track_caller]
fn check_invariants(got: &Import) {
    let report = &got.report;
    let dropped = report.duplicates + report.crossed_quotes + report.bad_prices + report.unreadable;
    assert_eq!(report.rows_in, report.rows_out + dropped);
    assert_eq!(report.rows_out, got.rows.len() as u64);
    assert!(report.problems.len() <= 20);
    for chunk in got.rows.chunks(BLOB_ROWS_MAX) {
        let blob = write_blob(chunk);
        assert_eq!(parse_blob(blob.as_bytes()).as_deref(), Ok(chunk));
        assert_eq!(write_blob(&parse_blob(blob.as_bytes()).unwrap()), blob);
    }
}

#[test]
fn every_fixture_survives_its_canonical_text() {
    let folder = format!("{}/tests/fixtures/market", env!("CARGO_MANIFEST_DIR"));
    let mut imported = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let options = Options {
            symbol_in_file: path
                .to_str()
                .unwrap()
                .contains("us-stocks")
                .then(|| "AAPL".to_owned()),
            ..Options::default()
        };
        if let Ok(got) = import(path.to_str().unwrap(), &fs::read(&path).unwrap(), &options) {
            check_invariants(&got);
            imported += 1;
        }
    }
    assert_eq!(imported, 11);
}

const SEEDS: [(&str, &str); 5] = [
    (
        "20180404_x_minute_trade.csv",
        "0,1,2,1,2,5\n60000,2,3,1.5,2.5,6e-08\n120000,2,3,1.5,2.5,0.029768000000000003\n",
    ),
    (
        "20180404_x_minute_quote.csv",
        "0,9,9,9,10,1,12,12,12,11,2\n60000,9,9,9,10,1,12,12,12,11,2\n",
    ),
    (
        "x-daily.csv",
        "Date,Open,High,Low,Close,Volume\n2018-04-05,1,2,1,2,3\n2018-04-06T00:00:00Z,1,2,1,2,\"3\"\n",
    ),
    (
        "q.csv",
        "ts,bid,ask,bid_size,ask_size\n1522886400,1,2,3,4\n1522886400000,1,2,,\n1522886500000000,1,2,1,1\n",
    ),
    (
        "B-1m.csv",
        "1499040000000,0.0163,0.8,0.0157,0.0158,148976.1,1499644799999,2434.1,308,1756.8,28.4,0\n",
    ),
];

fn amount(digits: std::ops::Range<u64>) -> impl Strategy<Value = Amount> {
    (digits, 0usize..=10).prop_map(|(value, scale)| {
        let text = format!("{value:0>width$}", width = scale + 1);
        let (whole, fraction) = text.split_at(text.len() - scale);
        let text = if scale == 0 {
            whole.to_owned()
        } else {
            format!("{whole}.{fraction}")
        };
        Amount::parse_wire(&text).unwrap()
    })
}

fn row() -> impl Strategy<Value = Row> {
    let size = || proptest::option::of(amount(0..1_000_000_000_000));
    let prices = || proptest::collection::vec(amount(1..1_000_000_000_000), 4);
    let times = (-2_208_988_800_000i64..7_000_000_000_000, 1i64..100_000_000);
    (any::<bool>(), times, prices(), size(), size()).prop_map(
        |(bar, (time_ms, interval_ms), mut prices, a, b)| {
            prices.sort();
            if bar {
                let (low, open, close, high) = (prices[0], prices[1], prices[2], prices[3]);
                Row::Bar {
                    open_ms: time_ms,
                    interval_ms,
                    open,
                    high,
                    low,
                    close,
                    volume: a,
                }
            } else {
                Row::Quote {
                    time_ms,
                    bid: prices[0],
                    ask: prices[3],
                    bid_size: a,
                    ask_size: b,
                }
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None,
        ..ProptestConfig::default() })]

    #[test]
    fn rows_round_trip(row in row()) {
        let text = line(&row);
        let again = Row::parse_line(&text);
        prop_assert_eq!(&again, &Ok(row));
        prop_assert_eq!(again.map(|row| line(&row)), Ok(text));
    }

    #[test]
    fn random_lines_are_refused_or_round_trip(text in "(bar|quote)(,-?[0-9.]{0,6}){5,7}") {
        if let Ok(row) = Row::parse_line(&text) {
            prop_assert_eq!(line(&row), text);
        }
    }

    #[test]
    fn random_bytes_do_not_panic(
        name in "[a-z0-9_./-]{0,20}",
        magic in prop::sample::select(vec![&b""[..], b"PK\x03\x04", b"PK\x05\x06", b"\x1f\x8b",
            b"time,bid,ask\n"]),
        tail in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let bytes = [magic, &tail].concat();
        let _ = import(&name, &bytes, &Options::default());
        let _ = parse_blob(&bytes);
    }

    #[test]
    fn mutated_files_do_not_panic_and_lose_nothing(
        seed in 0..SEEDS.len(),
        repeat in prop::sample::select(vec![1usize, 1, 120]),
        edits in proptest::collection::vec((any::<prop::sample::Index>(), 0u8..4, any::<u8>()),
            0..6),
    ) {
        let (name, text) = SEEDS[seed];
        let mut bytes = text.repeat(repeat).into_bytes();
        for (at, edit, byte) in edits {
            if bytes.is_empty() { break; }
            let at = at.index(bytes.len());
            match edit {
                0 => bytes[at] = byte,
                1 => bytes[at] = b"0123456789,.-\n\"eE"[usize::from(byte) % 17],
                2 => { bytes.remove(at); }
                _ => bytes.truncate(at),
            }
        }
        if let Ok(got) = import(name, &bytes, &Options::default()) {
            check_invariants(&got);
        }
    }

    #[test]
    fn mutated_zips_do_not_panic(
        edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
        is_cut in any::<bool>(),
    ) {
        let name = "lean-coinbase-minute-btcusd_20180404_trade.zip";
        let path = format!("{}/tests/fixtures/market/{name}", env!("CARGO_MANIFEST_DIR"));
        let mut bytes = fs::read(path).unwrap();
        for (at, byte) in edits {
            // Readers trust the directory at the end, although they should not.
            let at = if byte % 2 == 0 { at.index(bytes.len()) }
                else { bytes.len() - 1 - at.index(150) };
            bytes[at] = byte;
        }
        if is_cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Ok(got) = import(name, &bytes, &Options::default()) {
            check_invariants(&got);
        }
    }
}
