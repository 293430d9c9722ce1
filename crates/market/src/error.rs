//! Why a market file was refused as a whole. Every message names the file and what to do.

use super::time::write_interval;
use spoolgate_wire::time::TimeError;

/// Why a line of a file, or a field of it, cannot be read. Foreign text in it is shortened and
/// escaped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum FieldError {
    #[error("{0} is not a price")]
    Price(String),
    #[error("{0} is not a volume or size")]
    Size(String),
    #[error("{0} is not a rate")]
    Rate(String),
    #[error("{0} is not a time; use `2018-04-05`, `2018-04-05T00:00:00Z` or an epoch")]
    Time(String),
    #[error("{0} is not a time in milliseconds since midnight")]
    SinceMidnight(String),
    #[error("column {0} is missing")]
    Missing(usize),
    #[error("the row has {fields} fields, expected {expected}")]
    Width { fields: usize, expected: usize },
    #[error("the line is {0} bytes long, the limit is {limit}",
        limit = super::text::LINE_BYTES_MAX)]
    LineLength(usize),
    #[error("the line is not UTF-8 text")]
    NotUtf8,
    #[error(transparent)]
    OutOfRange(#[from] TimeError),
    #[error("a quote is not closed on the line, or is inside a field")]
    Quotes,
}

/// Why a file could not be imported. Foreign text in the fields is already shortened and escaped;
/// lines are counted from 1.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The file, or what it unpacks to, is too large.
    #[error("{file} holds more than {limit_bytes} bytes; split it into smaller files")]
    TooLarge {
        /// The file.
        file: String,
        /// The limit.
        limit_bytes: u64,
    },
    /// The file has too many rows.
    #[error("{file} has more than {limit_rows} rows; split it into smaller files")]
    TooManyRows {
        /// The file.
        file: String,
        /// The limit.
        limit_rows: usize,
    },
    /// The file is empty.
    #[error("{file} is empty; check that it was copied whole")]
    Empty {
        /// The file.
        file: String,
    },
    /// The file has a header and no row.
    #[error("{file} has a header line and no row; check that it was copied whole")]
    HeaderOnly {
        /// The file.
        file: String,
    },
    /// The zip cannot be read.
    #[error("cannot unpack {file}: {reason}; copy it again")]
    Zip {
        /// The file.
        file: String,
        /// What the unpacker found.
        reason: String,
    },
    /// The zip does not hold exactly one file.
    #[error("{file} holds {members} files, expected one; unpack it and import each file by itself")]
    ZipMembers {
        /// The file.
        file: String,
        /// The number of files it holds.
        members: usize,
    },
    /// The file is packed in a way that is not supported.
    #[error("{file} is packed with gzip, or packed twice; unpack it first, as in `gunzip FILE`")]
    Packed {
        /// The file.
        file: String,
    },
    /// The file is not text.
    #[error("{file} is not UTF-8 text at line {line}; save it as a UTF-8 CSV file")]
    NotText {
        /// The file.
        file: String,
        /// The first line that is not UTF-8.
        line: u64,
    },
    /// The format is not known.
    #[error(
        "{file} line {line}: {found} is not the start of a known format ({reason}); give the file \
            a header line such as `time,open,high,low,close,volume` or `time,bid,ask`"
    )]
    UnknownFormat {
        /// The file.
        file: String,
        /// The first line that is not blank.
        line: u64,
        /// Its text.
        found: String,
        /// What does not fit.
        reason: String,
    },
    /// A header names too little, too much, or the same thing twice.
    #[error("{file} line {line}: the header {reason}")]
    Header {
        /// The file.
        file: String,
        /// The header's line.
        line: u64,
        /// What is wrong and what to do.
        reason: String,
    },
    /// The file holds funding rates.
    #[error(
        "{file} holds funding rates, which are not prices; charge the rate that is due with \
            `spoolgate market funding`"
    )]
    Funding {
        /// The file.
        file: String,
    },
    /// A file of funding rates has no rate column.
    #[error(
        "{file} line {line}: {found} is not the start of a file of funding rates ({reason}); give \
            it a header line such as `time,funding_rate`"
    )]
    NoRates {
        /// The file.
        file: String,
        /// The first line that is not blank.
        line: u64,
        /// Its text.
        found: String,
        /// What does not fit.
        reason: String,
    },
    /// A Lean file counts from midnight and no name states the day.
    #[error(
        "{file} counts milliseconds from midnight, and its name contains no date; name it as Lean \
            does, `20180404_btcusd_minute_trade.csv`"
    )]
    LeanDate {
        /// The file.
        file: String,
    },
    /// The times of this format always mean the open of a bar.
    #[error(
        "{file} is a {format} file, whose times are always those when a bar opens; leave out \
            --at-end-of close"
    )]
    Edge {
        /// The file.
        file: String,
        /// Its format.
        format: &'static str,
    },
    /// The interval of the bars is unknown.
    #[error(
        "{file} does not show how long its bars last; give the interval, as in `--interval 1m`"
    )]
    NeedInterval {
        /// The file.
        file: String,
    },
    /// The caller's interval is out of range.
    #[error(
        "an interval of {interval_ms} ms is not between 1 ms and 31 days; give one as in \
            `--interval 1m`"
    )]
    IntervalRange {
        /// The interval that was requested.
        interval_ms: i64,
    },
    /// The name of the file and the caller state different intervals.
    #[error(
        "the name of {file} states bars of {}, but --interval states {}; correct the wrong one",
        write_interval(*named_ms), write_interval(*asked_ms)
    )]
    IntervalConflict {
        /// The file.
        file: String,
        /// The interval in the name, in milliseconds.
        named_ms: i64,
        /// The caller's interval, in milliseconds.
        asked_ms: i64,
    },
    /// Most rows follow each other faster than the interval.
    #[error(
        "{file} has bars {} apart that should last {}; correct --interval",
        write_interval(*step_ms), write_interval(*interval_ms)
    )]
    IntervalTooLong {
        /// The file.
        file: String,
        /// The smallest step between two bars, in milliseconds.
        step_ms: i64,
        /// The interval in use, in milliseconds.
        interval_ms: i64,
    },
    /// A symbol was requested and the file has no symbol column.
    #[error(
        "{file} has no ticker or symbol column to find {symbol} in; leave out --symbol-in-file"
    )]
    NoSymbolColumn {
        /// The file.
        file: String,
        /// The symbol that was requested.
        symbol: String,
    },
    /// The file holds several symbols and none was chosen.
    #[error("{file} holds several symbols ({found}); choose one with --symbol-in-file")]
    SymbolNeeded {
        /// The file.
        file: String,
        /// The first few symbols.
        found: String,
    },
    /// The file does not hold the requested symbol.
    #[error(
        "{file} has no row for {symbol}, only for {found}; check --symbol-in-file, which is \
        case-sensitive"
    )]
    SymbolMissing {
        /// The file.
        file: String,
        /// The symbol that was requested.
        symbol: String,
        /// The first few symbols in the file.
        found: String,
    },
    /// More than one row in a hundred cannot be read.
    #[error(
        "{file} line {line}: {reason}; {unreadable} of {rows_in} rows cannot be read, more than \
            1%: correct the file or its header"
    )]
    Unreadable {
        /// The file.
        file: String,
        /// The first unreadable line.
        line: u64,
        /// What is wrong with it.
        reason: String,
        /// The number of unreadable rows.
        unreadable: u64,
        /// Number of rows in the file.
        rows_in: u64,
    },
    /// No row was left after the checks.
    #[error("{file} has no usable row among {rows_in}; the first was refused at {problem}")]
    NoRows {
        /// The file.
        file: String,
        /// Number of rows in the file.
        rows_in: u64,
        /// The first problem, with its line.
        problem: String,
    },
}
