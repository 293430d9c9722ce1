//! What an import found and did, so that nothing is dropped or changed silently.

use serde::Serialize;

/// Number of problems that a report spells out; the rest are only counted.
pub const PROBLEMS_MAX: usize = 20;

/// The format a file was read as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// A Lean trade file: time, open, high, low, close, volume.
    LeanTrade,
    /// A Lean quote file: time, then open, high, low, close and size of the bid and of the ask.
    LeanQuote,
    /// Binance klines without a header, 12 columns.
    BinanceKlines,
    /// A CSV file with a header of bars.
    BarTable,
    /// A CSV file with a header of quotes.
    QuoteTable,
    /// A CSV file with a header of bars of the bid and of the ask.
    QuoteBarTable,
}

impl Format {
    /// Returns the format's name for messages.
    pub fn name(self) -> &'static str {
        match self {
            Format::LeanTrade => "lean trade",
            Format::LeanQuote => "lean quote",
            Format::BinanceKlines => "binance klines",
            Format::BarTable => "bar csv",
            Format::QuoteTable => "quote csv",
            Format::QuoteBarTable => "quote bar csv",
        }
    }
}

/// What an import found. Every row in is a row out or counted under exactly one of `duplicates`,
/// `crossed_quotes`, `bad_prices` and `unreadable`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The file's name as given.
    pub file: String,
    /// The format it was read as.
    pub format: Format,
    /// How long a bar lasts, in milliseconds; for quotes the expected step, or none if nothing
    /// states it.
    pub interval_ms: Option<i64>,
    /// Data rows of the file, without header, blank lines and rows of other symbols.
    pub rows_in: u64,
    /// Rows imported.
    pub rows_out: u64,
    /// Rows of symbols that were not requested.
    pub other_symbols: u64,
    /// When the first imported row is known, in milliseconds since the epoch.
    pub first_ms: i64,
    /// When the last imported row is known, in milliseconds since the epoch.
    pub last_ms: i64,
    /// Rows dropped because an earlier line of the file has the same time.
    pub duplicates: u64,
    /// Valid rows that came after a later one; if there are any, the rows were sorted by time.
    pub out_of_order: u64,
    /// Steps between imported rows longer than the interval; 0 if no interval is known.
    pub gaps: u64,
    /// The longest such step, from the time of one row to the next, in milliseconds; 0 without
    /// gaps.
    pub longest_gap_ms: i64,
    /// Steps between imported bars shorter than the interval, so that these bars overlap.
    pub overlaps: u64,
    /// Quotes dropped because the ask was below the bid.
    pub crossed_quotes: u64,
    /// Rows dropped because a price was zero or below, the low or high was impossible, one side of
    /// a quote was missing, or a size was below zero.
    pub bad_prices: u64,
    /// Rows dropped because a field could not be read.
    pub unreadable: u64,
    /// Values of imported rows that had more than 10 decimals and were rounded, half to even.
    pub rounded: u64,
    /// The first 20 dropped or moved rows, as `line N: what is wrong`.
    pub problems: Vec<String>,
}

impl Report {
    /// Creates an empty report.
    pub(super) fn new(file: &str, format: Format) -> Report {
        Report {
            file: file.to_owned(),
            format,
            interval_ms: None,
            rows_in: 0,
            rows_out: 0,
            other_symbols: 0,
            first_ms: 0,
            last_ms: 0,
            duplicates: 0,
            out_of_order: 0,
            gaps: 0,
            longest_gap_ms: 0,
            overlaps: 0,
            crossed_quotes: 0,
            bad_prices: 0,
            unreadable: 0,
            rounded: 0,
            problems: Vec::new(),
        }
    }

    /// Records the problem of one line, as long as there is room.
    pub(super) fn note(&mut self, line: u64, what: &str) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(format!("line {line}: {what}"));
        }
    }
}
