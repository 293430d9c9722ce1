//! The file formats of QuantConnect's Lean: minutes of one day per file, or hours and days with
//! their date.
//!
//! Files are read as crypto and currency files: UTC, unscaled prices. Lean's US equity files use
//! New York time and 1/10000 dollars, and neither the file nor its own name shows that.

use super::ImportError;
use super::detect::Names;
use super::layout::{Clock, Columns, Layout};
use super::report::Format;
use super::time::{DAY_MS, date};

/// Returns the layout of a Lean file of 6 (trade) or 11 (quote) columns, based on its first time.
/// `None` if the time is neither `YYYYMMDD HH:MM` nor milliseconds since midnight in a file whose
/// name (`trade` or `quote`) fits its number of columns.
pub(super) fn layout(
    file: &str,
    names: Names<'_>,
    time: &str,
    width: usize,
) -> Result<Option<Layout>, ImportError> {
    let clock = if is_day_minute(time) {
        Clock::Stamp
    } else if names.ask(named_width) == Some(width) && is_since_midnight(time) {
        let day_ms = names.ask(|words| words.iter().find_map(|word| date(word)));
        Clock::SinceMidnight {
            day_ms: day_ms.ok_or_else(|| ImportError::LeanDate {
                file: file.to_owned(),
            })?,
        }
    } else {
        return Ok(None);
    };
    let (format, columns) = if width == 6 {
        (
            Format::LeanTrade,
            Columns::Bar {
                open: 1,
                high: 2,
                low: 3,
                close: 4,
                volume: Some(5),
            },
        )
    } else {
        // Columns 1 to 4 and 6 to 9 are open, high, low, close of each side; the close is the last
        // known value.
        (
            Format::LeanQuote,
            Columns::Quote {
                bid: 4,
                ask: 9,
                bid_size: Some(5),
                ask_size: Some(10),
            },
        )
    };
    Ok(Some(Layout {
        format,
        width,
        has_header: false,
        time: 0,
        clock,
        symbol: None,
        columns,
    }))
}

/// Returns the number of columns that the name implies. Without this, a headerless `20180405,...`
/// would be read as milliseconds.
fn named_width(words: &[&str]) -> Option<usize> {
    words
        .iter()
        .find_map(|word| match word.to_ascii_lowercase().as_str() {
            "trade" => Some(6),
            "quote" => Some(11),
            _ => None,
        })
}

/// Whether a time can be milliseconds since midnight.
fn is_since_midnight(time: &str) -> bool {
    time.parse::<i64>()
        .is_ok_and(|since_ms| (0..DAY_MS).contains(&since_ms))
}

/// Whether a time is written `YYYYMMDD HH:MM`, as in Lean's hour and daily files.
fn is_day_minute(time: &str) -> bool {
    time.len() == 14
        && time
            .split_once(' ')
            .is_some_and(|(day, _)| date(day).is_some())
}
