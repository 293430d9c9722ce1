//! Reads a file of funding rates: CSV of times and rates, with or without a header. Rates are not
//! rows: each is charged when it is due or not at all, so a file is read whole and the caller takes
//! the rates that are due.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;

use super::error::FieldError;
use super::report::PROBLEMS_MAX;
use super::text::{fields, lines, shown, shown_bytes, shown_name};
use super::time::stamp;
use super::{FILE_ROWS_MAX, ImportError, detect, number, table, unpack};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::time::Time;

/// How long after 00, 08 and 16 UTC the time of a rate may be and still count as that time:
/// exchanges write theirs a few milliseconds late.
const LATE_MS_MAX: i64 = 999;

/// Names of the rate column, as [`table::plain`] writes them.
const RATE: &[&str] = &["funding_rate", "fundingrate", "last_funding_rate", "rate"];
/// Names of the time column, in addition to those of market files.
const TIME: &[&str] = &["funding_time", "fundingtime", "calc_time"];

/// One rate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rate {
    /// Line in the file.
    pub line: u64,
    /// When it is due.
    pub time: Time,
    /// Fraction of the value of positions; above 0 longs pay.
    pub rate: Amount,
}

/// The content of a file of rates. Every row in is a rate out or counted under exactly one of
/// `duplicates`, `off_time`, `bad_rates` and `unreadable`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RateReport {
    /// The file's name as given.
    pub file: String,
    /// Data rows of the file, without header, blank lines and rows of other symbols.
    pub rows_in: u64,
    /// Rates taken.
    pub rows_out: u64,
    /// Rows of symbols that were not requested.
    pub other_symbols: u64,
    /// Rows dropped because an earlier line has the same time.
    pub duplicates: u64,
    /// Rows dropped because funding is not due at their time.
    pub off_time: u64,
    /// Rows dropped because the rate is not between -1 and 1.
    pub bad_rates: u64,
    /// Rows dropped because a field could not be read.
    pub unreadable: u64,
    /// Rates that had more than 10 decimals and were rounded, half to even.
    pub rounded: u64,
    /// The first 20 dropped rows, as `line N: what is wrong`.
    pub problems: Vec<String>,
}

/// The columns of a file.
struct Columns {
    width: usize,
    time: usize,
    rate: usize,
    symbol: Option<usize>,
    has_header: bool,
}

/// Why a row gives no rate.
enum Flaw {
    Unreadable(FieldError),
    OffTime(String),
    BadRate(String),
}

/// Reads a file of funding rates, packed or not, and returns the rates ordered by time.
///
/// # Errors
/// Returns [`ImportError`] for a file that is too large, damaged, of unknown format, without a
/// rate, with several symbols and none chosen, or with more than 1% unreadable rows.
pub fn import_rates(
    file_name: &str,
    bytes: &[u8],
    symbol_in_file: Option<&str>,
) -> Result<(Vec<Rate>, RateReport), ImportError> {
    let file = shown_name(file_name);
    let member = unpack::unpack(&file, bytes)?;
    let body = member
        .as_ref()
        .map_or(bytes, |member| member.bytes.as_slice());
    let columns = columns(&file, body)?;
    if let Some(symbol) = symbol_in_file.filter(|_| columns.symbol.is_none()) {
        return Err(ImportError::NoSymbolColumn {
            file,
            symbol: shown(symbol),
        });
    }
    let mut report = RateReport {
        file: file_name.to_owned(),
        ..RateReport::default()
    };
    let mut by_time: BTreeMap<Time, Rate> = BTreeMap::new();
    let mut symbols: Vec<String> = Vec::new();
    let mut first_unreadable = None;
    for line in lines(body).skip(usize::from(columns.has_header)) {
        let cells = fields(line);
        if let Some(symbol) = columns
            .symbol
            .and_then(|column| cells.as_ref().ok().and_then(|cells| cells.get(column)))
        {
            if symbols.len() <= 5 && !symbols.iter().any(|seen| seen == symbol.as_ref()) {
                symbols.push(symbol.clone().into_owned());
            }
            if symbol_in_file.is_some_and(|wanted| wanted != symbol.as_ref()) {
                report.other_symbols += 1;
                continue;
            }
        }
        report.rows_in += 1;
        if report.rows_in > FILE_ROWS_MAX as u64 {
            return Err(ImportError::TooManyRows {
                file,
                limit_rows: FILE_ROWS_MAX,
            });
        }
        match cells
            .map_err(Flaw::Unreadable)
            .and_then(|cells| columns.read(line.number, &cells))
        {
            Ok((rate, rounded)) => match by_time.get(&rate.time) {
                Some(known) => {
                    report.duplicates += 1;
                    report.note(
                        line.number,
                        &format!("line {} has the same time; it was kept", known.line),
                    );
                }
                None => {
                    report.rounded += u64::from(rounded);
                    by_time.insert(rate.time, rate);
                }
            },
            Err(Flaw::Unreadable(reason)) => {
                report.unreadable += 1;
                let reason = reason.to_string();
                report.note(line.number, &reason);
                first_unreadable.get_or_insert((line.number, reason));
            }
            Err(Flaw::OffTime(reason)) => {
                report.off_time += 1;
                report.note(line.number, &reason);
            }
            Err(Flaw::BadRate(reason)) => {
                report.bad_rates += 1;
                report.note(line.number, &reason);
            }
        }
    }
    if symbol_in_file.is_none() && symbols.len() > 1 {
        return Err(ImportError::SymbolNeeded {
            file,
            found: detect::shown_symbols(&symbols),
        });
    }
    finish(file, by_time, report, first_unreadable)
}

fn finish(
    file: String,
    by_time: BTreeMap<Time, Rate>,
    mut report: RateReport,
    first_unreadable: Option<(u64, String)>,
) -> Result<(Vec<Rate>, RateReport), ImportError> {
    let rows_in = report.rows_in;
    if let Some((line, reason)) = first_unreadable
        && report.unreadable.saturating_mul(100) > rows_in
    {
        return Err(ImportError::Unreadable {
            file,
            line,
            reason,
            unreadable: report.unreadable,
            rows_in,
        });
    }
    if rows_in == 0 {
        return Err(ImportError::HeaderOnly { file });
    }
    if by_time.is_empty() {
        let problem = report.problems.first().cloned().unwrap_or_default();
        return Err(ImportError::NoRows {
            file,
            rows_in,
            problem,
        });
    }
    report.rows_out = by_time.len() as u64;
    Ok((by_time.into_values().collect(), report))
}

/// Determines the columns from the first line.
fn columns(file: &str, body: &[u8]) -> Result<Columns, ImportError> {
    let first = lines(body).next().ok_or_else(|| ImportError::Empty {
        file: file.to_owned(),
    })?;
    let unknown = |reason: &str| ImportError::NoRates {
        file: file.to_owned(),
        line: first.number,
        found: shown_bytes(first.bytes),
        reason: reason.to_owned(),
    };
    let cells = fields(first).map_err(|error| unknown(&error.to_string()))?;
    let names: Vec<String> = cells.iter().map(|cell| table::plain(cell)).collect();
    let find = |wanted: &[&str]| {
        names
            .iter()
            .position(|name| wanted.contains(&name.as_str()))
    };
    let width = cells.len();
    if let Some(rate) = find(RATE) {
        // Prefer a time column that is specific to funding over a general one.
        let time = find(TIME).or_else(|| find(table::TIME));
        let time = time.ok_or_else(|| unknown("the header names no time column"))?;
        return Ok(Columns {
            width,
            time,
            rate,
            symbol: find(table::SYMBOL),
            has_header: true,
        });
    }
    match cells.as_slice() {
        [time, rate] if stamp(time).is_ok() && number::size(rate).is_ok() => Ok(Columns {
            width,
            time: 0,
            rate: 1,
            symbol: None,
            has_header: false,
        }),
        _ => Err(unknown(
            "it is neither a header with a rate nor a time and a rate",
        )),
    }
}

impl Columns {
    fn read(&self, line: u64, cells: &[Cow<'_, str>]) -> Result<(Rate, bool), Flaw> {
        if cells.len() != self.width {
            return Err(Flaw::Unreadable(FieldError::Width {
                fields: cells.len(),
                expected: self.width,
            }));
        }
        let cell = |column: usize| cells.get(column).map(AsRef::as_ref).unwrap_or_default();
        let stamped_ms = stamp(cell(self.time)).map_err(Flaw::Unreadable)?;
        let number = number::size(cell(self.rate))
            .map_err(|_| Flaw::Unreadable(FieldError::Rate(shown(cell(self.rate)))))?;
        let time_ms = last_due_ms(stamped_ms);
        if stamped_ms.saturating_sub(time_ms) > LATE_MS_MAX {
            let told = shown(cell(self.time));
            return Err(Flaw::OffTime(format!(
                "funding is due at 00:00, 08:00 and 16:00 UTC, not at {told}"
            )));
        }
        if number.amount.abs() >= Amount::ONE {
            return Err(Flaw::BadRate(format!(
                "a rate of {} is not between -1 and 1",
                number.amount
            )));
        }
        let time = Time::from_ms(time_ms).map_err(|error| Flaw::Unreadable(error.into()))?;
        Ok((
            Rate {
                line,
                time,
                rate: number.amount,
            },
            number.rounded,
        ))
    }
}

/// Returns the last time at or before this one at which funding was due: 00:00, 08:00 or 16:00 UTC.
fn last_due_ms(time_ms: i64) -> i64 {
    let period_ms = spoolgate_trading::venue::FUNDING_PERIOD_MS;
    time_ms.saturating_sub(time_ms.rem_euclid(period_ms))
}

/// Returns the last time at or before `now` at which funding was due.
pub fn last_due(now: Time) -> Time {
    now.plus_ms(last_due_ms(now.ms()).saturating_sub(now.ms()))
}

impl RateReport {
    fn note(&mut self, line: u64, what: &str) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(format!("line {line}: {what}"));
        }
    }
}
