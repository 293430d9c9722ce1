//! Reads a market file of any known format into clean, sorted rows and a report of everything that
//! was wrong.
//!
//! Pure: bytes and a name in, rows out. Rows are written with [`write_blob`], stored under their
//! hash, and read back with [`parse_blob`].

mod clean;
mod detect;
mod error;
mod funding;
mod layout;
mod lean;
mod number;
mod report;
mod table;
mod text;
mod time;
mod unpack;

pub use error::ImportError;
pub use funding::{Rate, RateReport, import_rates, last_due};
pub use report::{Format, PROBLEMS_MAX, Report};
pub use spoolgate_trading::market_row::{
    self as row, BLOB_ROWS_MAX, BlobError, Row, RowFlaw, RowKind, RowLineError, parse_blob,
    write_blob,
};
pub use time::{IntervalError, parse_interval};
pub use unpack::FILE_BYTES_MAX;

use detect::Names;
use layout::{Layout, LineFlaw, RawRow};
use text::{shown, shown_name};

/// Maximum number of rows in one file: a million, two years of minutes, about 400 MB while it is
/// cleaned.
pub const FILE_ROWS_MAX: usize = 1_000_000;

/// What the time column of a file of bars means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Edge {
    /// When the bar opens, as nearly every source writes it.
    #[default]
    Open,
    /// When the bar closes.
    Close,
}

/// What the caller knows about a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Options {
    /// How long a bar lasts, in milliseconds, from 1 ms to 31 days. Must agree with the file's name
    /// if that states an interval.
    pub interval_ms: Option<i64>,
    /// What the time column means for bars; `None` means the open. Quotes in a table are known at
    /// their time.
    pub at_end_of: Option<Edge>,
    /// For files with a ticker or symbol column: import only rows with exactly this symbol.
    pub symbol_in_file: Option<String>,
}

/// The outcome of an import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    /// At least one row, all of one kind, strictly increasing in `known_ms`, each passing
    /// [`Row::check`].
    pub rows: Vec<Row>,
    /// What was found, dropped and changed.
    pub report: Report,
}

/// Reads a market file: a Lean zip or CSV, a CSV with a header, or Binance klines, packed or not.
///
/// `file_name` is only used for the date, the interval and messages; nothing is opened. The
/// interval of bars comes from the name, otherwise from `options`, otherwise from the smallest step
/// of the rows if at least three steps have it.
///
/// # Errors
/// Returns [`ImportError`] for a file that is too large, damaged, of unknown format, without a
/// usable row, with more than 1% unreadable rows, or that needs an interval, date or symbol that
/// was not given.
pub fn import(file_name: &str, bytes: &[u8], options: &Options) -> Result<Import, ImportError> {
    let file = shown_name(file_name);
    let member = unpack::unpack(&file, bytes)?;
    let names = Names {
        inner: member.as_ref().map(|member| member.name.as_str()),
        outer: file_name,
    };
    let body = member
        .as_ref()
        .map_or(bytes, |member| member.bytes.as_slice());
    let first = text::lines(body)
        .next()
        .ok_or_else(|| ImportError::Empty { file: file.clone() })?;
    let layout = detect::detect(&file, names, first)?;
    check_options(&file, &layout, options)?;
    let mut report = Report::new(file_name, layout.format);
    let raw = read_lines(&file, body, &layout, options, &mut report)?;
    let rows = clean::clean(&file, names, options, raw, &mut report)?;
    Ok(Import { rows, report })
}

/// Refuses options that contradict the format.
fn check_options(file: &str, layout: &Layout, options: &Options) -> Result<(), ImportError> {
    if let Some(interval_ms) = options.interval_ms
        && !(1..=time::INTERVAL_MS_MAX).contains(&interval_ms)
    {
        return Err(ImportError::IntervalRange { interval_ms });
    }
    let fixed = !matches!(
        layout.format,
        Format::BarTable | Format::QuoteTable | Format::QuoteBarTable
    );
    if fixed && options.at_end_of == Some(Edge::Close) {
        return Err(ImportError::Edge {
            file: file.to_owned(),
            format: layout.format.name(),
        });
    }
    match &options.symbol_in_file {
        Some(symbol) if layout.symbol.is_none() => Err(ImportError::NoSymbolColumn {
            file: file.to_owned(),
            symbol: shown(symbol),
        }),
        _ => Ok(()),
    }
}

/// The first few distinct symbols in a file.
#[derive(Default)]
struct Symbols {
    seen: Vec<String>,
}

impl Symbols {
    /// Number of symbols remembered; files with more are treated the same.
    const SEEN_MAX: usize = 6;

    /// Remembers a symbol.
    fn see(&mut self, symbol: &str) {
        if self.seen.len() < Self::SEEN_MAX && !self.seen.iter().any(|seen| seen == symbol) {
            self.seen.push(symbol.to_owned());
        }
    }
}

/// Reads every line and counts those that cannot be used; refuses a file with more than 1%
/// unreadable rows.
fn read_lines(
    file: &str,
    body: &[u8],
    layout: &Layout,
    options: &Options,
    report: &mut Report,
) -> Result<Vec<RawRow>, ImportError> {
    let mut rows = Vec::new();
    let mut symbols = Symbols::default();
    let mut first_unreadable = None;
    for line in text::lines(body).skip(usize::from(layout.has_header)) {
        let read = text::fields(line)
            .map_err(LineFlaw::Unreadable)
            .and_then(|fields| {
                if let Some(symbol) = layout.symbol.and_then(|column| fields.get(column)) {
                    symbols.see(symbol);
                    if options
                        .symbol_in_file
                        .as_deref()
                        .is_some_and(|wanted| wanted != symbol)
                    {
                        return Ok(None);
                    }
                }
                layout.read(line.number, &fields).map(Some)
            });
        if let Ok(None) = read {
            report.other_symbols += 1;
            continue;
        }
        report.rows_in += 1;
        match read {
            Ok(row) => rows.extend(row),
            Err(LineFlaw::Unreadable(reason)) => {
                report.unreadable += 1;
                let reason = reason.to_string();
                report.note(line.number, &reason);
                first_unreadable.get_or_insert((line.number, reason));
            }
            Err(LineFlaw::OneSided) => {
                report.bad_prices += 1;
                report.note(line.number, "a side of the quote is empty");
            }
        }
        if rows.len() > FILE_ROWS_MAX {
            return Err(ImportError::TooManyRows {
                file: file.to_owned(),
                limit_rows: FILE_ROWS_MAX,
            });
        }
    }
    check_symbols(file, &symbols, options, report)?;
    if report.rows_in == 0 {
        return Err(ImportError::HeaderOnly {
            file: file.to_owned(),
        });
    }
    match first_unreadable {
        Some((line, reason)) if report.unreadable.saturating_mul(100) > report.rows_in => {
            Err(ImportError::Unreadable {
                file: file.to_owned(),
                line,
                reason,
                unreadable: report.unreadable,
                rows_in: report.rows_in,
            })
        }
        _ => Ok(rows),
    }
}

/// Refuses a file with several symbols if none was chosen, and a file without the chosen symbol.
fn check_symbols(
    file: &str,
    symbols: &Symbols,
    options: &Options,
    report: &Report,
) -> Result<(), ImportError> {
    let found = || detect::shown_symbols(&symbols.seen);
    match &options.symbol_in_file {
        None if symbols.seen.len() > 1 => Err(ImportError::SymbolNeeded {
            file: file.to_owned(),
            found: found(),
        }),
        Some(symbol) if report.rows_in == 0 && !symbols.seen.is_empty() => {
            Err(ImportError::SymbolMissing {
                file: file.to_owned(),
                symbol: shown(symbol),
                found: found(),
            })
        }
        _ => Ok(()),
    }
}
