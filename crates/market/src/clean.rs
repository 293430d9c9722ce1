//! Cleans raw rows: interval, meaning of the time, validity, order, duplicates, gaps.

use super::detect::Names;
use super::layout::{RawRow, Values};
use super::report::{Format, Report};
use super::time::INTERVAL_MS_MAX;
use super::{Edge, ImportError, Options};
use spoolgate_trading::market_row::{Row, RowFlaw};

/// Number of steps that must agree before the interval is derived from the rows.
const AGREEING_STEPS_MIN: usize = 3;
/// Shortest interval derived from the rows: steps below a second are ticks or misread times, not
/// bars.
const INTERVAL_MS_MIN: i64 = 1000;

/// A valid row with what the report still needs about its line.
struct Sound {
    row: Row,
    line: u64,
    rounded: u64,
}

/// Cleans the rows of a file and completes its report.
pub(super) fn clean(
    file: &str,
    names: Names<'_>,
    options: &Options,
    raw: Vec<RawRow>,
    report: &mut Report,
) -> Result<Vec<Row>, ImportError> {
    let steps = Steps::of(&raw);
    let interval_ms = interval_ms(file, names, options, report.format, &steps)?;
    report.interval_ms = interval_ms;
    let sound = check_rows(raw, interval_ms, options, report);
    let rows = order(sound, report);
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else {
        let problem = report.problems.first().cloned().unwrap_or_default();
        return Err(ImportError::NoRows {
            file: file.to_owned(),
            rows_in: report.rows_in,
            problem,
        });
    };
    (report.first_ms, report.last_ms) = (first.known_ms(), last.known_ms());
    report.rows_out = rows.len() as u64;
    count_gaps(&rows, report);
    Ok(rows)
}

/// The steps between distinct times of a file.
struct Steps {
    /// In milliseconds, each above zero, ordered by time.
    all_ms: Vec<i64>,
}

impl Steps {
    fn of(raw: &[RawRow]) -> Steps {
        let mut times_ms: Vec<i64> = raw.iter().map(|row| row.time_ms).collect();
        times_ms.sort_unstable();
        times_ms.dedup();
        let later = times_ms.iter().skip(1);
        Steps {
            all_ms: later
                .zip(&times_ms)
                .map(|(next, time)| next.saturating_sub(*time))
                .collect(),
        }
    }

    /// Returns the smallest step, if there is a step.
    fn smallest_ms(&self) -> Option<i64> {
        self.all_ms.iter().copied().min()
    }

    /// Returns the smallest step, if enough steps have this length.
    fn agreed_ms(&self) -> Option<i64> {
        let smallest_ms = self.smallest_ms()?;
        let agreeing = self
            .all_ms
            .iter()
            .filter(|step_ms| **step_ms == smallest_ms)
            .count();
        let plausible = (INTERVAL_MS_MIN..=INTERVAL_MS_MAX).contains(&smallest_ms);
        (plausible && agreeing >= AGREEING_STEPS_MIN).then_some(smallest_ms)
    }
}

/// Determines the interval of a file: from its name, otherwise from the caller, otherwise from its
/// rows. Tables of quotes may have none.
fn interval_ms(
    file: &str,
    names: Names<'_>,
    options: &Options,
    format: Format,
    steps: &Steps,
) -> Result<Option<i64>, ImportError> {
    let named_ms = names.interval_ms();
    if let (Some(named_ms), Some(asked_ms)) = (named_ms, options.interval_ms)
        && named_ms != asked_ms
    {
        // A wrong interval changes when each bar is known, so do not guess between the two.
        return Err(ImportError::IntervalConflict {
            file: file.to_owned(),
            named_ms,
            asked_ms,
        });
    }
    let stated_ms = named_ms.or(options.interval_ms);
    if format == Format::QuoteTable {
        // Ticks come at any time: their smallest step is not an interval.
        return Ok(stated_ms);
    }
    let interval_ms =
        stated_ms
            .or_else(|| steps.agreed_ms())
            .ok_or_else(|| ImportError::NeedInterval {
                file: file.to_owned(),
            })?;
    let too_short = steps
        .all_ms
        .iter()
        .filter(|step_ms| **step_ms < interval_ms)
        .count();
    match steps.smallest_ms() {
        // A few short steps are faults of the file and are counted; if most steps are short, the
        // interval is wrong.
        Some(step_ms) if too_short > steps.all_ms.len() / 2 => Err(ImportError::IntervalTooLong {
            file: file.to_owned(),
            step_ms,
            interval_ms,
        }),
        _ => Ok(Some(interval_ms)),
    }
}

/// Builds the rows; drops and counts rows that cannot be market data.
fn check_rows(
    raw: Vec<RawRow>,
    interval_ms: Option<i64>,
    options: &Options,
    report: &mut Report,
) -> Vec<Sound> {
    let at_close = options.at_end_of.unwrap_or_default() == Edge::Close;
    // A quote bar is known when it closes; a quote of a table is known at its own time.
    let is_quote_bar = matches!(report.format, Format::LeanQuote | Format::QuoteBarTable);
    let quote_delay_ms = if is_quote_bar && !at_close {
        interval_ms.unwrap_or(0)
    } else {
        0
    };
    let interval_ms = interval_ms.unwrap_or(0);
    let mut sound = Vec::with_capacity(raw.len());
    for RawRow {
        line,
        time_ms,
        values,
        rounded,
    } in raw
    {
        let row = match values {
            Values::Bar {
                open,
                high,
                low,
                close,
                volume,
            } => {
                let open_ms = if at_close {
                    time_ms.saturating_sub(interval_ms)
                } else {
                    time_ms
                };
                Row::Bar {
                    open_ms,
                    interval_ms,
                    open,
                    high,
                    low,
                    close,
                    volume,
                }
            }
            Values::Quote {
                bid,
                ask,
                bid_size,
                ask_size,
            } => Row::Quote {
                time_ms: time_ms.saturating_add(quote_delay_ms),
                bid,
                ask,
                bid_size,
                ask_size,
            },
        };
        match row.check() {
            Ok(()) => sound.push(Sound { row, line, rounded }),
            Err(flaw) => {
                let count = match flaw {
                    RowFlaw::Crossed => &mut report.crossed_quotes,
                    RowFlaw::NotPositive | RowFlaw::Range | RowFlaw::NegativeSize => {
                        &mut report.bad_prices
                    }
                    RowFlaw::Interval | RowFlaw::Time => &mut report.unreadable,
                };
                *count += 1;
                report.note(line, &flaw.to_string());
            }
        }
    }
    sound
}

/// Sorts the rows by time if necessary, and keeps the first line of each time.
fn order(mut sound: Vec<Sound>, report: &mut Report) -> Vec<Row> {
    let mut latest_ms = None;
    for Sound { row, line, .. } in &sound {
        let known_ms = row.known_ms();
        if latest_ms.is_some_and(|latest| known_ms < latest) {
            report.out_of_order += 1;
            report.note(
                *line,
                "the row is earlier than one before it; the rows were sorted by time",
            );
        } else {
            latest_ms = Some(known_ms);
        }
    }
    if report.out_of_order > 0 {
        // The sort is stable, so the first line of a time stays first.
        sound.sort_by_key(|sound| sound.row.known_ms());
    }
    let mut rows: Vec<Row> = Vec::with_capacity(sound.len());
    for Sound { row, line, rounded } in sound {
        if rows
            .last()
            .is_some_and(|last| last.known_ms() == row.known_ms())
        {
            report.duplicates += 1;
            report.note(
                line,
                "an earlier line has the same time; the earlier one was kept",
            );
        } else {
            report.rounded += rounded;
            rows.push(row);
        }
    }
    rows
}

/// Counts the steps that are longer and, for bars, shorter than the interval.
fn count_gaps(rows: &[Row], report: &mut Report) {
    let Some(interval_ms) = report.interval_ms else {
        return;
    };
    for (next, row) in rows.iter().skip(1).zip(rows) {
        let step_ms = next.known_ms().saturating_sub(row.known_ms());
        if step_ms > interval_ms {
            report.gaps += 1;
            report.longest_gap_ms = report.longest_gap_ms.max(step_ms);
        } else if step_ms < interval_ms && report.format != Format::QuoteTable {
            report.overlaps += 1;
        }
    }
}
