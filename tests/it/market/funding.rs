//! Files of funding rates: how they are read, and that only the rate that is due is charged, with a
//! remark on every other rate.

use crate::kit::{Scratch, spoolgate, succeed};
use serde_json::Value;
use spoolgate_host::clock::{Clock, SystemClock};
use spoolgate_market::{ImportError, Rate, RateReport, import_rates, last_due};
use spoolgate_wire::time::Time;

fn read(body: &str) -> Result<(Vec<Rate>, RateReport), ImportError> {
    import_rates("x.csv", body.as_bytes(), None)
}

fn told(rates: &[Rate]) -> Vec<String> {
    rates
        .iter()
        .map(|rate| format!("{} {} {}", rate.line, rate.time, rate.rate))
        .collect()
}

#[test]
fn a_real_file_gives_every_rate() {
    let bytes = include_bytes!("../../fixtures/market/lean-binance-funding-btcusd.csv");
    let (rates, report) = import_rates("lean-binance-funding-btcusd.csv", bytes, None).unwrap();
    assert_eq!((report.rows_in, report.rows_out, rates.len()), (12, 12, 12));
    assert!(report.problems.is_empty());
    let told = told(&rates);
    assert_eq!(told[0], "1 2020-12-29T00:00:00.000Z 0.00020030");
    assert_eq!(told[11], "12 2022-12-13T16:00:00.000Z -0.00002983");
}

#[test]
fn rates_are_read_in_every_common_form() {
    for body in [
        "time,funding_rate\n2026-01-05T08:00:00Z,-0.0001\n",
        "Funding Time,Funding Rate\n2026-01-05 08:00:00,-0.0001\n",
        "calc_time,funding_interval_hours,last_funding_rate\n1767600000004,8,-0.00010000\n",
        "symbol,fundingTime,fundingRate\nBTCUSDT,1767600000000,-1e-4\n",
        "timestamp,rate\n1767600000,\"-0.0001\"\n",
        "20260105 08:00:00,-0.0001\n",
        "\u{feff}1767600000999,-0.0001\r\n",
    ] {
        let (rates, _) = read(body).unwrap_or_else(|error| panic!("{body}: {error}"));
        assert_eq!(rates.len(), 1, "{body}");
        assert_eq!(
            rates[0].time.to_string(),
            "2026-01-05T08:00:00.000Z",
            "{body}"
        );
        assert_eq!(rates[0].rate.normalized().to_string(), "-0.0001", "{body}");
    }
}

#[test]
fn dropped_rows_are_counted() {
    let mut body = "time,rate\n2026-01-05T08:00:00Z,0.0001\n2026-01-05T08:00:00.5Z,0.0002\n2026-01-05T08:00:01Z,0.0002\n\
                    2026-01-05T09:00:00Z,0.0001\n2026-01-05T16:00:00Z,1\n2026-01-05T16:00:00Z,-1\nnever,0.1\n"
        .to_owned();
    for n in 0..100 {
        body.push_str(&format!(
            "{},0.00010000000001\n",
            1_700_000_000 - 1_700_000_000 % 28_800 + n * 28_800
        ));
    }
    let (rates, report) = read(&body).unwrap();
    let dropped = [
        report.duplicates,
        report.off_time,
        report.bad_rates,
        report.unreadable,
    ];
    assert_eq!((dropped, report.rounded), ([1, 2, 2, 1], 100));
    assert_eq!(
        report.rows_in,
        rates.len() as u64 + dropped.iter().sum::<u64>()
    );
    assert!(rates.windows(2).all(|pair| pair[0].time < pair[1].time));
    let last = rates.last().unwrap();
    assert_eq!(
        (last.line, last.rate.to_string().as_str()),
        (2, "0.0001"),
        "the earlier line of a time stands"
    );
    assert_eq!(
        report.problems[0],
        "line 3: line 2 has the same time; it was kept"
    );
    assert!(
        report.problems[1]
            .starts_with("line 4: funding is due at 00:00, 08:00 and 16:00 UTC, not at")
    );
}

#[test]
fn a_path_that_is_not_a_file_is_refused() {
    for (body, expect) in [
        ("", "is empty"),
        ("time,rate\n", "has a header line and no row"),
        (
            "time,open,high,low,close\n2026-01-05,1,1,1,1\n",
            "is not the start of a file of funding rates",
        ),
        ("rate,symbol\n0.1,A\n", "the header names no time column"),
        (
            "time,rate\n2026-01-05T09:00:00Z,0.1\n",
            "has no usable row among 1",
        ),
        ("time,rate\nx,0.1\n", "1 of 1 rows cannot be read"),
        (
            "symbol,time,rate\nA,2026-01-05,0.1\nB,2026-01-05,0.1\n",
            "holds several symbols (`A`, `B`)",
        ),
    ] {
        let message = read(body).unwrap_err().to_string();
        assert!(message.contains(expect), "{body}: {message}");
    }
    let several = b"symbol,time,rate\nA,2026-01-05,0.1\nB,2026-01-05,0.2\n";
    let (rates, report) = import_rates("x.csv", several, Some("B")).unwrap();
    assert_eq!(
        (told(&rates), report.other_symbols),
        (vec!["3 2026-01-05T00:00:00.000Z 0.2".to_owned()], 1)
    );
    let message = import_rates("x.csv", b"20260105,0.1\n", Some("B"))
        .unwrap_err()
        .to_string();
    assert!(message.contains("no ticker or symbol column"), "{message}");
}

#[test]
fn the_last_time_due_is_one_of_three_a_day() {
    for (now, due) in [
        ("2026-01-05T00:00:00Z", "2026-01-05T00:00:00Z"),
        ("2026-01-05T07:59:59.999Z", "2026-01-05T00:00:00Z"),
        ("2026-01-05T08:00:00Z", "2026-01-05T08:00:00Z"),
        ("2026-01-05T23:59:59Z", "2026-01-05T16:00:00Z"),
    ] {
        assert_eq!(
            last_due(Time::parse(now).unwrap()),
            Time::parse(due).unwrap()
        );
    }
}

/// A file of a year: one rate is charged, once, and the others are accounted for.
#[test]
fn only_the_rate_due_last_is_charged() {
    let scratch = Scratch::with_prices();
    let home = scratch.home();
    let due = last_due(SystemClock::default().now());
    let mut body = String::from("time,funding_rate\n");
    // The next rate covers the case that it becomes due while this test runs.
    for n in -1000..=2_i64 {
        body.push_str(&format!("{},0.0001\n", due.plus_ms(n * 28_800_000)));
    }
    let file = scratch.beside("rates.csv");
    std::fs::write(&file, &body).unwrap();
    let path = file.to_str().unwrap();
    let dry = [
        "--format",
        "json",
        "market",
        "funding",
        path,
        "--symbol",
        "BTC-USD",
        "--dry-run",
    ];
    let report: Value = serde_json::from_str(&succeed(&home, &dry)).unwrap();
    let rates = report["rates"].as_array().unwrap();
    let fates = |fate: &str| rates.iter().filter(|rate| rate["fate"] == fate).count();
    assert_eq!((rates.len(), fates("due")), (1003, 1));
    assert_eq!(fates("passed_over") + fates("ahead"), 1002);
    let args = ["market", "funding", path, "--symbol", "BTC-USD"];
    let text = succeed(&home, &args);
    assert!(
        text.contains("passed over, only the rate due last is charged"),
        "{text}"
    );
    assert!(text.contains("0 charged to 0 positions"), "{text}");
    let again = spoolgate(&home, &args);
    assert_eq!(again.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&again.stderr).contains("was already charged for"),
        "{}",
        crate::kit::show(&again)
    );
    let shown = succeed(&home, &["--format", "json", "market", "show", "BTC-USD"]);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["facts"]["funding_rate"], "0.0001");
    // A file that is out of date charges nothing and says so.
    std::fs::write(&file, "time,funding_rate\n2020-01-01,0.0001\n").unwrap();
    let late = spoolgate(&home, &args);
    assert_eq!(late.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&late.stderr).contains("the last funding time: nothing is charged")
    );
}

#[test]
fn one_rate_by_hand() {
    let scratch = Scratch::with_prices();
    let home = scratch.home();
    let told = succeed(
        &home,
        &["market", "rate", "-0.00004", "--symbol", "BTC-USD"],
    );
    assert!(told.starts_with("-0.00004 of BTC-USD at "), "{told}");
    for (args, code) in [
        (
            [
                "market",
                "rate",
                "0.0001",
                "--symbol",
                "BTC-USD",
                "--time",
                "2020-01-01T00:00:00Z",
            ]
            .as_slice(),
            1,
        ),
        (["market", "rate", "1", "--symbol", "BTC-USD"].as_slice(), 2),
        (
            ["market", "rate", "1e-4", "--symbol", "BTC-USD"].as_slice(),
            2,
        ),
        (
            ["market", "rate", "0.0001", "--symbol", "NONE"].as_slice(),
            1,
        ),
    ] {
        let done = spoolgate(&home, args);
        assert_eq!(
            done.status.code(),
            Some(code),
            "{args:?}: {}",
            crate::kit::show(&done)
        );
    }
    let all = succeed(&home, &["market", "show"]);
    assert!(
        all.contains("BTC-USD") && all.contains("funding_rate"),
        "{all}"
    );
}
