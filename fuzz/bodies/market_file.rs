//! Any bytes as a market file, bare or zipped, and as a stored blob of rows. Nothing is lost
//! without being counted, rows have one spelling, and what comes out of a zip is bounded.

use std::io::{Cursor, Write};

use spoolgate_market::{
    BLOB_ROWS_MAX, Edge, FILE_ROWS_MAX, Import, Options, PROBLEMS_MAX, Row, import, import_rates,
    parse_blob, write_blob,
};
use spoolgate_wire::amount::Amount;
use zip::write::SimpleFileOptions;

use super::input::Choices;

/// Names that state a date, an interval, columns, or nothing.
pub(crate) const NAMES: [&str; 6] = [
    "20180404_x_minute_trade.csv",
    "20180404_x_minute_quote.csv",
    "lean-x-daily-y_trade.zip",
    "x-daily.csv",
    "q.csv",
    "B-1m.csv",
];

/// A byte for the name, one for options and wrapping, then the file.
pub fn body(data: &[u8]) {
    let mut choices = Choices::of(data);
    let name = choices.pick(&NAMES);
    let how = choices.byte();
    let options = Options {
        interval_ms: (how & 1 == 1).then_some(60_000),
        at_end_of: (how & 2 == 2).then_some(if how & 4 == 4 {
            Edge::Close
        } else {
            Edge::Open
        }),
        symbol_in_file: (how & 8 == 8).then(|| "A".to_owned()),
    };
    let bytes = choices.rest();
    if how & 16 == 16 {
        check(name, &zipped(name, bytes, how & 32 == 32), &options);
    } else {
        check(name, bytes, &options);
        check_rates(name, bytes, options.symbol_in_file.as_deref());
        check_blob(bytes);
    }
}

/// The bytes in a zip; with `twice` beside another file, which is refused.
pub(crate) fn zipped(name: &str, bytes: &[u8], twice: bool) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let names = if twice {
        vec![name, "other.csv"]
    } else {
        vec![name]
    };
    for name in names {
        zip.start_file(name, SimpleFileOptions::default()).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn check(name: &str, bytes: &[u8], options: &Options) {
    match import(name, bytes, options) {
        Ok(got) => check_import(&got),
        Err(error) => {
            let shown = error.to_string();
            assert!(
                !shown.contains(char::is_control),
                "steers a terminal: {shown:?}"
            );
            assert!(shown.len() < 4000, "{} bytes of message", shown.len());
        }
    }
}

/// A file of funding rates, which any file may be.
fn check_rates(name: &str, bytes: &[u8], symbol: Option<&str>) {
    match import_rates(name, bytes, symbol) {
        Ok((rates, report)) => {
            let dropped =
                report.duplicates + report.off_time + report.bad_rates + report.unreadable;
            assert_eq!(
                report.rows_in,
                report.rows_out + dropped,
                "rows that are nowhere: {report:?}"
            );
            assert_eq!(report.rows_out, rates.len() as u64);
            assert!(
                rates.windows(2).all(|pair| pair[0].time < pair[1].time),
                "out of order"
            );
            assert!(
                rates
                    .iter()
                    .all(|rate| rate.rate.abs() < Amount::ONE && rate.time.ms() % 28_800_000 == 0)
            );
            assert!(
                report
                    .problems
                    .iter()
                    .all(|problem| !problem.contains(char::is_control))
            );
        }
        Err(error) => assert!(!error.to_string().contains(char::is_control), "{error:?}"),
    }
}

fn check_import(got: &Import) {
    let report = &got.report;
    let dropped = report.duplicates + report.crossed_quotes + report.bad_prices + report.unreadable;
    assert_eq!(
        report.rows_in,
        report.rows_out + dropped,
        "rows that are nowhere: {report:?}"
    );
    assert_eq!(report.rows_out, got.rows.len() as u64);
    assert!(!got.rows.is_empty() && got.rows.len() <= FILE_ROWS_MAX);
    assert!(report.problems.len() <= PROBLEMS_MAX);
    assert!(
        report
            .problems
            .iter()
            .all(|problem| !problem.contains(char::is_control))
    );
    assert!(
        got.rows
            .windows(2)
            .all(|pair| pair[0].known_ms() < pair[1].known_ms()),
        "out of order"
    );
    assert!(
        got.rows
            .windows(2)
            .all(|pair| pair[0].kind() == pair[1].kind()),
        "of two kinds"
    );
    assert_eq!(
        (report.first_ms, report.last_ms),
        (
            got.rows[0].known_ms(),
            got.rows[got.rows.len() - 1].known_ms()
        )
    );
    for chunk in got.rows.chunks(BLOB_ROWS_MAX) {
        let blob = write_blob(chunk);
        assert_eq!(
            parse_blob(blob.as_bytes()).as_deref(),
            Ok(chunk),
            "other rows when read back"
        );
    }
}

fn check_blob(bytes: &[u8]) {
    if let Ok(rows) = parse_blob(bytes) {
        assert_eq!(
            write_blob(&rows).as_bytes(),
            bytes,
            "a blob with two spellings"
        );
    }
    for line in bytes.split(|byte| *byte == b'\n').take(20) {
        let Ok(text) = std::str::from_utf8(line) else {
            continue;
        };
        match Row::parse_line(text) {
            Ok(row) => {
                let mut again = String::new();
                row.write_line(&mut again);
                assert_eq!(again, text);
                row.check().expect("read and not sound");
            }
            Err(error) => assert!(!error.to_string().contains(char::is_control), "{error:?}"),
        }
    }
}
