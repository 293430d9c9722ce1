//! One row of market data and its canonical text, which is stored under its hash and read back by
//! the gate.

use std::fmt::Write as _;

use spoolgate_wire::amount::Amount;
use spoolgate_wire::text::{QUOTED_CHARS_MAX, quoted};

/// The largest number of rows in one stored blob.
pub const BLOB_ROWS_MAX: usize = 8192;

/// 1900-01-01, the first time accepted for market data.
const RANGE_FIRST_MS: i64 = -2_208_988_800_000;
/// 2200-01-01, the first time no longer accepted for market data.
const RANGE_END_MS: i64 = 7_258_118_400_000;

/// Whether a time lies in the years 1900 to 2199. Outside that range its unit was misread or the
/// row is junk.
pub fn in_range(time_ms: i64) -> bool {
    (RANGE_FIRST_MS..RANGE_END_MS).contains(&time_ms)
}

/// One row of market data, normalised. Times are milliseconds since the Unix epoch, UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Row {
    /// A trade bar; known when it closes at `open_ms + interval_ms`.
    Bar {
        /// When the bar opens.
        open_ms: i64,
        /// How long the bar lasts, above zero.
        interval_ms: i64,
        /// The first price.
        open: Amount,
        /// The highest price.
        high: Amount,
        /// The lowest price.
        low: Amount,
        /// The last price.
        close: Amount,
        /// Traded volume, in units of the instrument; `None` if the file has no such column.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        volume: Option<Amount>,
    },
    /// A two-sided quote, known at `time_ms`.
    Quote {
        /// When the quote was valid and known.
        time_ms: i64,
        /// The highest price that a buyer bids.
        bid: Amount,
        /// The lowest price that a seller asks; never below the bid.
        ask: Amount,
        /// Units wanted at the bid, if the file states them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bid_size: Option<Amount>,
        /// Units offered at the ask, if the file states them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ask_size: Option<Amount>,
    },
}

/// Whether a row is a bar or a quote; blobs are ordered within each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RowKind {
    /// A trade bar.
    Bar,
    /// A two-sided quote.
    Quote,
}

/// Why the numbers of a row cannot be market data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RowFlaw {
    /// A price is zero or below.
    #[error("a price is zero or below")]
    NotPositive,
    /// The low is above the open or the close, or the high below one of them.
    #[error("the low is above, or the high below, the open or the close")]
    Range,
    /// A volume or size is below zero.
    #[error("a volume or size is below zero")]
    NegativeSize,
    /// The ask is below the bid.
    #[error("the ask is below the bid")]
    Crossed,
    /// The interval is zero or below.
    #[error("the interval is zero or below")]
    Interval,
    /// A time lies outside the years 1900 to 2199.
    #[error("the time is outside the years 1900 to 2199")]
    Time,
}

/// Why one line is not the canonical text of a row.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RowLineError {
    /// The line starts with neither `bar` nor `quote`.
    #[error("a row starts with `bar` or `quote`, not {kind}; import the file again")]
    Kind {
        /// What it starts with, shortened and escaped.
        kind: String,
    },
    /// The line has too few or too many fields.
    #[error("the row has {found} fields, expected {expected}; import the file again")]
    Fields {
        /// Number of fields in the line.
        found: usize,
        /// Number of fields that such a row has.
        expected: usize,
    },
    /// A field is not the number it should be.
    #[error("field {field} is {text}, not a canonical number; import the file again")]
    Number {
        /// The field, counted from 1.
        field: usize,
        /// What it holds, shortened and escaped.
        text: String,
    },
    /// The numbers cannot be market data.
    #[error("{flaw}; import the file again")]
    Flaw {
        /// What is wrong.
        #[source]
        flaw: RowFlaw,
    },
    /// The line is a valid row in another spelling than the canonical one.
    #[error("the row is not in its canonical form; import the file again")]
    NotCanonical,
}

/// Why bytes are not a stored blob of rows. Lines count from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BlobError {
    /// There is no row at all.
    #[error("the market blob has no row; import the file again")]
    Empty,
    /// There are more rows than a blob may hold.
    #[error("the market blob has more than {BLOB_ROWS_MAX} rows; import the file again")]
    TooManyRows,
    /// The last line does not end with a line feed.
    #[error(
        "the market blob does not end with a line feed: it was cut short; import the file again"
    )]
    Unterminated,
    /// A line is not UTF-8.
    #[error("line {line} of the market blob is not UTF-8; import the file again")]
    NotText {
        /// The line.
        line: usize,
    },
    /// A line is not a row.
    #[error("line {line} of the market blob: {source}")]
    Line {
        /// The line.
        line: usize,
        /// What is wrong with it.
        source: RowLineError,
    },
    /// A row is not later than the row of its kind before it.
    #[error(
        "line {line} of the market blob is not later than the row before it; import the file again"
    )]
    Order {
        /// The line.
        line: usize,
    },
}

impl Row {
    /// Returns when the row is known, in milliseconds since the epoch: the close of a bar, the time
    /// of a quote.
    pub fn known_ms(&self) -> i64 {
        match *self {
            // Checked rows stay far inside the range; an unchecked one saturates to "never known".
            Row::Bar {
                open_ms,
                interval_ms,
                ..
            } => open_ms.saturating_add(interval_ms),
            Row::Quote { time_ms, .. } => time_ms,
        }
    }

    /// Returns whether this is a bar or a quote.
    pub fn kind(&self) -> RowKind {
        match self {
            Row::Bar { .. } => RowKind::Bar,
            Row::Quote { .. } => RowKind::Quote,
        }
    }

    /// Checks that the numbers can be market data: prices above zero, `low <= open, close <= high`,
    /// ask not below bid, sizes not below zero, a positive interval, times within 1900 to 2199.
    ///
    /// # Errors
    /// Returns the first flaw found.
    pub fn check(&self) -> Result<(), RowFlaw> {
        let size_ok = |size: Option<Amount>| !size.is_some_and(Amount::is_negative);
        match *self {
            Row::Bar {
                open_ms,
                interval_ms,
                open,
                high,
                low,
                close,
                volume,
            } => {
                if interval_ms <= 0 {
                    return Err(RowFlaw::Interval);
                }
                if !in_range(open_ms) || !in_range(self.known_ms()) {
                    return Err(RowFlaw::Time);
                }
                if ![open, high, low, close]
                    .into_iter()
                    .all(Amount::is_positive)
                {
                    return Err(RowFlaw::NotPositive);
                }
                if low > open || low > close || high < open || high < close {
                    return Err(RowFlaw::Range);
                }
                if size_ok(volume) {
                    Ok(())
                } else {
                    Err(RowFlaw::NegativeSize)
                }
            }
            Row::Quote {
                time_ms,
                bid,
                ask,
                bid_size,
                ask_size,
            } => {
                if !in_range(time_ms) {
                    return Err(RowFlaw::Time);
                }
                if !bid.is_positive() || !ask.is_positive() {
                    return Err(RowFlaw::NotPositive);
                }
                if ask < bid {
                    return Err(RowFlaw::Crossed);
                }
                if size_ok(bid_size) && size_ok(ask_size) {
                    Ok(())
                } else {
                    Err(RowFlaw::NegativeSize)
                }
            }
        }
    }

    /// Appends the canonical text, without a line end:
    /// `bar,<open_ms>,<interval_ms>,<open>,<high>,<low>, <close>,<volume or empty>` or
    /// `quote,<time_ms>,<bid>,<ask>,<bid_size or empty>,<ask_size or empty>`.
    pub fn write_line(&self, out: &mut String) {
        let optional =
            |size: Option<Amount>| size.map(|value| value.to_string()).unwrap_or_default();
        // Writing to a `String` cannot fail, so ignore the result.
        let _ = match *self {
            Row::Bar {
                open_ms,
                interval_ms,
                open,
                high,
                low,
                close,
                volume,
            } => {
                let volume = optional(volume);
                write!(
                    out,
                    "bar,{open_ms},{interval_ms},{open},{high},{low},{close},{volume}"
                )
            }
            Row::Quote {
                time_ms,
                bid,
                ask,
                bid_size,
                ask_size,
            } => {
                let (bid_size, ask_size) = (optional(bid_size), optional(ask_size));
                write!(out, "quote,{time_ms},{bid},{ask},{bid_size},{ask_size}")
            }
        };
    }

    /// Parses one canonical line, without its line end. An accepted line is written back byte for
    /// byte.
    ///
    /// # Errors
    /// Returns [`RowLineError`] for a wrong number of fields, a number outside the grammar, numbers
    /// that fail [`Row::check`], or a spelling other than the one of [`Row::write_line`].
    pub fn parse_line(line: &str) -> Result<Row, RowLineError> {
        let fields: Vec<&str> = line.split(',').collect();
        let row = match *fields.as_slice() {
            ["bar", open_ms, interval_ms, open, high, low, close, volume] => Row::Bar {
                open_ms: time_field(2, open_ms)?,
                interval_ms: time_field(3, interval_ms)?,
                open: amount_field(4, open)?,
                high: amount_field(5, high)?,
                low: amount_field(6, low)?,
                close: amount_field(7, close)?,
                volume: optional_field(8, volume)?,
            },
            ["quote", time_ms, bid, ask, bid_size, ask_size] => Row::Quote {
                time_ms: time_field(2, time_ms)?,
                bid: amount_field(3, bid)?,
                ask: amount_field(4, ask)?,
                bid_size: optional_field(5, bid_size)?,
                ask_size: optional_field(6, ask_size)?,
            },
            ["bar", ..] => {
                return Err(RowLineError::Fields {
                    found: fields.len(),
                    expected: 8,
                });
            }
            ["quote", ..] => {
                return Err(RowLineError::Fields {
                    found: fields.len(),
                    expected: 6,
                });
            }
            [kind, ..] => {
                return Err(RowLineError::Kind {
                    kind: quoted(kind, QUOTED_CHARS_MAX),
                });
            }
            [] => {
                return Err(RowLineError::Kind {
                    kind: quoted("", QUOTED_CHARS_MAX),
                });
            }
        };
        row.check().map_err(|flaw| RowLineError::Flaw { flaw })?;
        // INVARIANT: blobs are addressed by their hash, so one row must have exactly one spelling.
        let mut again = String::with_capacity(line.len());
        row.write_line(&mut again);
        if again == line {
            Ok(row)
        } else {
            Err(RowLineError::NotCanonical)
        }
    }
}

/// Parses a whole number; other spellings (`+1`, `01`) are caught when the row is written back.
fn time_field(field: usize, text: &str) -> Result<i64, RowLineError> {
    text.parse().map_err(|_| RowLineError::Number {
        field,
        text: quoted(text, QUOTED_CHARS_MAX),
    })
}

/// Parses one decimal of the wire grammar.
fn amount_field(field: usize, text: &str) -> Result<Amount, RowLineError> {
    Amount::parse_wire(text).map_err(|_| RowLineError::Number {
        field,
        text: quoted(text, QUOTED_CHARS_MAX),
    })
}

/// Parses a size that may be absent. A leading minus sign is refused in the text, because the
/// decimal type decides whether `-0` keeps its sign.
fn optional_field(field: usize, text: &str) -> Result<Option<Amount>, RowLineError> {
    match text {
        "" => Ok(None),
        _ if text.starts_with('-') => Err(RowLineError::Flaw {
            flaw: RowFlaw::NegativeSize,
        }),
        _ => amount_field(field, text).map(Some),
    }
}

/// Writes the rows as one blob; each line ends with a line feed. The caller must keep to
/// [`BLOB_ROWS_MAX`] rows.
pub fn write_blob(rows: &[Row]) -> String {
    let mut out = String::new();
    for row in rows {
        row.write_line(&mut out);
        out.push('\n');
    }
    out
}

/// Parses a stored blob: 1 to 8192 lines, each ended by a line feed, strictly later within each
/// kind of row.
///
/// # Errors
/// Returns [`BlobError`] for the first line that [`write_blob`] would not write this way.
pub fn parse_blob(bytes: &[u8]) -> Result<Vec<Row>, BlobError> {
    if bytes.is_empty() {
        return Err(BlobError::Empty);
    }
    let body = bytes.strip_suffix(b"\n").ok_or(BlobError::Unterminated)?;
    let mut rows = Vec::new();
    let (mut last_bar_ms, mut last_quote_ms) = (None, None);
    for (index, line) in body.split(|byte| *byte == b'\n').enumerate() {
        let number = index.saturating_add(1);
        if number > BLOB_ROWS_MAX {
            return Err(BlobError::TooManyRows);
        }
        let text = std::str::from_utf8(line).map_err(|_| BlobError::NotText { line: number })?;
        let row = Row::parse_line(text).map_err(|source| BlobError::Line {
            line: number,
            source,
        })?;
        let last_ms = match row.kind() {
            RowKind::Bar => &mut last_bar_ms,
            RowKind::Quote => &mut last_quote_ms,
        };
        if last_ms.is_some_and(|last: i64| row.known_ms() <= last) {
            return Err(BlobError::Order { line: number });
        }
        *last_ms = Some(row.known_ms());
        rows.push(row);
    }
    Ok(rows)
}
