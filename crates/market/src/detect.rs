//! Detects the format of a file from its first line and its names.

use std::borrow::Cow;

use super::ImportError;
use super::layout::Layout;
use super::text::{Line, fields, name_words, shown, shown_bytes};
use super::time::{DAY_MS, HOUR_MS, MINUTE_MS, parse_interval, stamp};
use super::{lean, table};

/// The names of a file. The name inside a zip takes precedence, because zips get renamed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Names<'a> {
    /// The name inside the zip.
    pub(super) inner: Option<&'a str>,
    /// The name under which the file was given.
    pub(super) outer: &'a str,
}

impl<'a> Names<'a> {
    /// Asks the inner name first, then the outer one, and returns the first answer.
    pub(super) fn ask<T>(self, question: impl Fn(&[&'a str]) -> Option<T>) -> Option<T> {
        self.inner
            .and_then(|name| question(&name_words(name)))
            .or_else(|| question(&name_words(self.outer)))
    }

    /// Returns the interval in a name (`minute`, `hour`, `daily`, `1m`), in milliseconds; `None` if
    /// it has two different ones.
    pub(super) fn interval_ms(self) -> Option<i64> {
        self.ask(|words| {
            let mut stated = words.iter().filter_map(|word| word_interval_ms(word));
            let first = stated.next()?;
            stated.all(|other| other == first).then_some(first)
        })
    }
}

/// Returns the interval that one word of a name states.
fn word_interval_ms(word: &str) -> Option<i64> {
    match word.to_ascii_lowercase().as_str() {
        "second" => Some(1000),
        "minute" => Some(MINUTE_MS),
        "hour" | "hourly" => Some(HOUR_MS),
        "daily" => Some(DAY_MS),
        // Not in lower case: `1M` is a month and not an interval here.
        _ => parse_interval(word).ok(),
    }
}

/// Detects the layout of the lines of a file.
pub(super) fn detect(file: &str, names: Names<'_>, first: Line<'_>) -> Result<Layout, ImportError> {
    let unknown = |reason: String| ImportError::UnknownFormat {
        file: file.to_owned(),
        line: first.number,
        found: shown_bytes(first.bytes),
        reason,
    };
    if std::str::from_utf8(first.bytes).is_err() || first.bytes.contains(&0) {
        return Err(ImportError::NotText {
            file: file.to_owned(),
            line: first.number,
        });
    }
    let cells = fields(first).map_err(|error| unknown(error.to_string()))?;
    if let Some(layout) = table::header(file, first.number, &cells)? {
        return Ok(layout);
    }
    let time = cells.first().map_or("", AsRef::as_ref);
    if is_funding(names, &cells) {
        return Err(ImportError::Funding {
            file: file.to_owned(),
        });
    }
    if !time.starts_with(|first: char| first.is_ascii_digit()) {
        return Err(unknown("it names no time column".to_owned()));
    }
    match cells.len() {
        6 | 11 => lean::layout(file, names, time, cells.len())?.ok_or_else(|| {
            unknown("its time or its name is not Lean's, and it is not a header".to_owned())
        }),
        12 => Ok(table::klines()),
        found => Err(unknown(format!(
            "without a header line, Lean files have 6 or 11 columns and klines 12, this has {found}"
        ))),
    }
}

/// Whether the file holds funding rates without a header: Lean writes just a time and a rate.
fn is_funding(names: Names<'_>, cells: &[Cow<'_, str>]) -> bool {
    if let [time, _] = cells
        && stamp(time).is_ok()
    {
        return true;
    }
    let named = names.ask(|words| {
        words
            .iter()
            .any(|word| word.eq_ignore_ascii_case("funding"))
            .then_some(())
    });
    named.is_some() && cells.len() <= 4
}

/// Lists the first few symbols of a file for a message.
pub(super) fn shown_symbols(symbols: &[String]) -> String {
    let mut list: Vec<String> = symbols.iter().take(5).map(|symbol| shown(symbol)).collect();
    if symbols.len() > list.len() {
        list.push("...".to_owned());
    }
    list.join(", ")
}
