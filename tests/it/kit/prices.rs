//! Prices for the homes of tests.

use serde_json::json;
use spoolgate_home::Home;
use spoolgate_market::{Row, write_blob};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::signing::sha256_hex;

/// Parses an amount.
pub(crate) fn amount(text: &str) -> Amount {
    Amount::parse_exact(text).unwrap()
}

/// Returns a bar of the minute before `end_ms` that opens and closes at `price`, and a quote at its
/// end.
pub(crate) fn minute(end_ms: i64, price: &str, low: &str) -> [Row; 2] {
    let (price, low) = (amount(price), amount(low));
    let (open, high, close, ask) = (
        price,
        price,
        price,
        price.checked_add(amount("0.01")).unwrap(),
    );
    [
        Row::Bar {
            open_ms: end_ms - 60_000,
            interval_ms: 60_000,
            open,
            high,
            low,
            close,
            volume: None,
        },
        Row::Quote {
            time_ms: end_ms,
            bid: price,
            ask,
            bid_size: None,
            ask_size: None,
        },
    ]
}

/// Stores rows in a home. Returns the payload of the `market.import` that names them.
pub(crate) fn kept(home: &Home, symbol: &str, rows: &[Row]) -> String {
    let blob = write_blob(rows);
    let digest = sha256_hex(blob.as_bytes());
    home.keep_blob(&digest, blob.as_bytes()).unwrap();
    json!({
        "symbol": symbol, "rows_sha256": digest, "row_count": rows.len(), "file_sha256": digest,
            "file_name": "f",
    })
    .to_string()
}
