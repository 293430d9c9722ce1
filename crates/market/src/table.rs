//! CSV files with a header line, and Binance klines without one.

use std::borrow::Cow;

use super::ImportError;
use super::layout::{Clock, Columns, Layout};
use super::report::Format;
use super::text::shown;

/// Names of the time column, as [`plain`] writes them.
pub(super) const TIME: &[&str] = &[
    "time",
    "timestamp",
    "date",
    "datetime",
    "open_time",
    "opentime",
    "ts",
];
/// Names of the symbol column.
pub(super) const SYMBOL: &[&str] = &["ticker", "symbol"];
/// Names of the volume column.
const VOLUME: &[&str] = &["volume", "vol"];
/// Names of the column with the closing bid of a quote bar.
const BID_CLOSE: &[&str] = &["bid_close", "bidclose"];
/// Names of the column with the closing ask of a quote bar.
const ASK_CLOSE: &[&str] = &["ask_close", "askclose"];
/// Names of the column with the size at the bid.
const BID_SIZE: &[&str] = &["bid_size", "bidsize"];
/// Names of the column with the size at the ask.
const ASK_SIZE: &[&str] = &["ask_size", "asksize"];
/// Names that only files of funding rates have.
const FUNDING: &[&str] = &[
    "funding_rate",
    "fundingrate",
    "last_funding_rate",
    "funding_time",
    "fundingtime",
];

/// Converts a column name to lower case, with underscores for blanks and hyphens.
pub(super) fn plain(name: &str) -> String {
    name.chars()
        .map(|c| {
            if c == ' ' || c == '-' {
                '_'
            } else {
                c.to_ascii_lowercase()
            }
        })
        .collect()
}

/// The names in a header, and its location for messages.
struct Header<'a> {
    file: &'a str,
    line: u64,
    names: Vec<String>,
}

impl Header<'_> {
    /// Returns the column with one of these names.
    fn find(&self, wanted: &[&str]) -> Result<Option<usize>, ImportError> {
        let mut found = self
            .names
            .iter()
            .enumerate()
            .filter(|(_, name)| wanted.contains(&name.as_str()));
        let Some((column, name)) = found.next() else {
            return Ok(None);
        };
        match found.next() {
            // Choosing one of the two would be a guess.
            Some((_, other)) => Err(self.wrong(&format!(
                "has both {} and {}; keep the one to read",
                shown(name),
                shown(other)
            ))),
            None => Ok(Some(column)),
        }
    }

    /// Returns the column with this name, which must exist.
    fn need(&self, name: &str) -> Result<usize, ImportError> {
        self.find(&[name])?
            .ok_or_else(|| self.wrong(&format!("has no column `{name}`; add or rename one")))
    }

    /// Creates an error at this header.
    fn wrong(&self, reason: &str) -> ImportError {
        ImportError::Header {
            file: self.file.to_owned(),
            line: self.line,
            reason: reason.to_owned(),
        }
    }
}

/// Returns the layout that a header line describes; `None` if the line is not a header, because it
/// names no time column.
pub(super) fn header(
    file: &str,
    line: u64,
    cells: &[Cow<'_, str>],
) -> Result<Option<Layout>, ImportError> {
    let header = Header {
        file,
        line,
        names: cells.iter().map(|cell| plain(cell)).collect(),
    };
    if header
        .names
        .iter()
        .any(|name| FUNDING.contains(&name.as_str()))
    {
        return Err(ImportError::Funding {
            file: file.to_owned(),
        });
    }
    let Some(time) = header.find(TIME)? else {
        return Ok(None);
    };
    let has = |wanted: &[&str]| {
        header
            .names
            .iter()
            .any(|name| wanted.contains(&name.as_str()))
    };
    let has_bar = has(&["open", "high", "low", "close"]);
    let has_quote = has(&["bid", "ask"]);
    let has_quote_bar = has(BID_CLOSE) || has(ASK_CLOSE);
    let need_one = |wanted: &[&str]| {
        let name = wanted.first().copied().unwrap_or_default();
        let missing = || header.wrong(&format!("has no column `{name}`; add or rename one"));
        header.find(wanted)?.ok_or_else(missing)
    };
    let (format, columns) = match (has_bar, has_quote, has_quote_bar) {
        (true, false, false) => {
            let columns = Columns::Bar {
                open: header.need("open")?,
                high: header.need("high")?,
                low: header.need("low")?,
                close: header.need("close")?,
                volume: header.find(VOLUME)?,
            };
            (Format::BarTable, columns)
        }
        // The close of each side is the last known value.
        (false, false, true) => {
            let columns = Columns::Quote {
                bid: need_one(BID_CLOSE)?,
                ask: need_one(ASK_CLOSE)?,
                bid_size: header.find(BID_SIZE)?,
                ask_size: header.find(ASK_SIZE)?,
            };
            (Format::QuoteBarTable, columns)
        }
        (false, true, false) => {
            let columns = Columns::Quote {
                bid: header.need("bid")?,
                ask: header.need("ask")?,
                bid_size: header.find(BID_SIZE)?,
                ask_size: header.find(ASK_SIZE)?,
            };
            (Format::QuoteTable, columns)
        }
        // A bar is known when it closes, a quote at its time; one time column cannot mean both.
        (true, _, _) | (_, true, true) => {
            return Err(header.wrong("has bars and quotes; split them into two files"));
        }
        (false, false, false) => {
            return Err(header
                .wrong("has neither `open,high,low,close` nor `bid,ask`; add or rename columns"));
        }
    };
    let symbol = header.find(SYMBOL)?;
    let width = cells.len();
    Ok(Some(Layout {
        format,
        width,
        has_header: true,
        time,
        clock: Clock::Stamp,
        symbol,
        columns,
    }))
}

/// Returns the layout of Binance klines: open time, open, high, low, close, volume, and six unused
/// columns.
pub(super) fn klines() -> Layout {
    Layout {
        format: Format::BinanceKlines,
        width: 12,
        has_header: false,
        time: 0,
        clock: Clock::Stamp,
        symbol: None,
        columns: Columns::Bar {
            open: 1,
            high: 2,
            low: 3,
            close: 4,
            volume: Some(5),
        },
    }
}
