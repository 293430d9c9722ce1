//! Where the values are in a line of a known format, and how one line becomes one raw row.

use std::borrow::Cow;

use super::error::FieldError;
use super::number::{self, Number};
use super::report::Format;
use super::time::{DAY_MS, stamp};
use spoolgate_wire::amount::Amount;

/// How the time column counts.
#[derive(Debug, Clone, Copy)]
pub(super) enum Clock {
    /// Milliseconds since the given midnight, below one day.
    SinceMidnight {
        /// The midnight, in milliseconds since the epoch.
        day_ms: i64,
    },
    /// An epoch or an ISO time.
    Stamp,
}

/// The columns of the values, counted from 0.
#[derive(Debug, Clone, Copy)]
pub(super) enum Columns {
    /// Open, high, low, close, and the volume if there is one.
    Bar {
        open: usize,
        high: usize,
        low: usize,
        close: usize,
        volume: Option<usize>,
    },
    /// Bid, ask, and their sizes if there are any.
    Quote {
        bid: usize,
        ask: usize,
        bid_size: Option<usize>,
        ask_size: Option<usize>,
    },
}

/// How to read the lines of one file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    /// The format, for the report.
    pub(super) format: Format,
    /// How many fields a line has.
    pub(super) width: usize,
    /// Whether the first line is a header.
    pub(super) has_header: bool,
    /// The column of the time.
    pub(super) time: usize,
    /// How the time column counts.
    pub(super) clock: Clock,
    /// The column of the symbol.
    pub(super) symbol: Option<usize>,
    /// The other columns.
    pub(super) columns: Columns,
}

/// The values of a row before its interval is known.
#[derive(Debug, Clone, Copy)]
pub(super) enum Values {
    /// The values of a bar.
    Bar {
        open: Amount,
        high: Amount,
        low: Amount,
        close: Amount,
        volume: Option<Amount>,
    },
    /// The values of a quote.
    Quote {
        bid: Amount,
        ask: Amount,
        bid_size: Option<Amount>,
        ask_size: Option<Amount>,
    },
}

/// One parsed line, before its interval and the meaning of its time are applied.
#[derive(Debug, Clone, Copy)]
pub(super) struct RawRow {
    /// The line in the file.
    pub(super) line: u64,
    /// The value of the time column, in milliseconds since the epoch.
    pub(super) time_ms: i64,
    /// The values.
    pub(super) values: Values,
    /// How many of the values were rounded.
    pub(super) rounded: u64,
}

/// Why a line does not give a row.
#[derive(Debug)]
pub(super) enum LineFlaw {
    /// A field cannot be read.
    Unreadable(FieldError),
    /// A side of the quote is missing.
    OneSided,
}

impl From<FieldError> for LineFlaw {
    fn from(reason: FieldError) -> LineFlaw {
        LineFlaw::Unreadable(reason)
    }
}

/// The fields of one line, and how many of its values were rounded so far.
struct Cells<'a> {
    fields: &'a [Cow<'a, str>],
    rounded: u64,
}

impl Cells<'_> {
    /// Returns the text of a column.
    fn text(&self, column: usize) -> Result<&str, FieldError> {
        self.fields
            .get(column)
            .map(AsRef::as_ref)
            .ok_or(FieldError::Missing(column))
    }

    /// Counts the rounding of a number and returns its value.
    fn count(&mut self, number: Number) -> Amount {
        self.rounded = self.rounded.saturating_add(u64::from(number.rounded));
        number.amount
    }

    /// Parses a price.
    fn price(&mut self, column: usize) -> Result<Amount, FieldError> {
        let number = number::price(self.text(column)?)?;
        Ok(self.count(number))
    }

    /// Parses a size; `None` if the file has no such column or the field is empty.
    fn size(&mut self, column: Option<usize>) -> Result<Option<Amount>, FieldError> {
        let Some(column) = column else {
            return Ok(None);
        };
        let text = self.text(column)?;
        if text.is_empty() {
            return Ok(None);
        }
        let number = number::size(text)?;
        Ok(Some(self.count(number)))
    }
}

impl Layout {
    /// Parses the values of one line. `Row::check` decides later whether they can be market data.
    pub(super) fn read(&self, line: u64, fields: &[Cow<'_, str>]) -> Result<RawRow, LineFlaw> {
        if fields.len() != self.width {
            let (fields, expected) = (fields.len(), self.width);
            return Err(FieldError::Width { fields, expected }.into());
        }
        let mut cells = Cells { fields, rounded: 0 };
        let time_ms = self.clock.read(cells.text(self.time)?)?;
        let values = match self.columns {
            Columns::Bar {
                open,
                high,
                low,
                close,
                volume,
            } => Values::Bar {
                open: cells.price(open)?,
                high: cells.price(high)?,
                low: cells.price(low)?,
                close: cells.price(close)?,
                volume: cells.size(volume)?,
            },
            Columns::Quote {
                bid,
                ask,
                bid_size,
                ask_size,
            } => {
                // Exporters write an empty side for "no bid" or "no ask": a readable row that is
                // not a quote.
                if cells.text(bid)?.is_empty() || cells.text(ask)?.is_empty() {
                    return Err(LineFlaw::OneSided);
                }
                Values::Quote {
                    bid: cells.price(bid)?,
                    ask: cells.price(ask)?,
                    bid_size: cells.size(bid_size)?,
                    ask_size: cells.size(ask_size)?,
                }
            }
        };
        Ok(RawRow {
            line,
            time_ms,
            values,
            rounded: cells.rounded,
        })
    }
}

impl Clock {
    /// Parses a time as milliseconds since the epoch.
    fn read(self, text: &str) -> Result<i64, FieldError> {
        let Clock::SinceMidnight { day_ms } = self else {
            return stamp(text);
        };
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let since_ms: Option<i64> = if digits { text.parse().ok() } else { None };
        since_ms
            .filter(|since_ms| *since_ms < DAY_MS)
            .and_then(|since_ms| day_ms.checked_add(since_ms))
            .ok_or_else(|| FieldError::SinceMidnight(super::text::shown(text)))
    }
}
