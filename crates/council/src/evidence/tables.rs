//! `returns` and `trial_returns` as numbers: JSON arrays, or CSV text in a JSON string.

use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, SeqAccess, Visitor};

use super::error::{SeriesFault, Unusable};
use super::stats::series::PERIODS_MAX;
use spoolgate_wire::council::JsonText;
use spoolgate_wire::json;

/// Maximum number of configurations in a matrix.
pub(super) const CONFIGURATIONS_MAX: usize = 1_000;

/// Maximum number of values in a matrix.
pub(super) const CELLS_MAX: usize = 2_000_000;

/// Largest return per period: 1,000 %.
pub(super) const RETURN_MAX: f64 = 10.0;

/// Reads one series.
///
/// # Errors
/// Returns [`Unusable`] if it is malformed.
pub(super) fn returns(sent: &JsonText) -> Result<Vec<f64>, Unusable> {
    let rows = rows(sent, "returns", true)?;
    Ok(rows.into_iter().flatten().collect())
}

/// Reads configurations, each as a series.
///
/// # Errors
/// Returns [`Unusable`] if it is malformed.
pub(super) fn trial_returns(sent: &JsonText) -> Result<Vec<Vec<f64>>, Unusable> {
    let rows = rows(sent, "trial_returns", false)?;
    let columns = rows.first().map_or(0, Vec::len);
    if columns == 0 || rows.iter().any(|row| row.len() != columns) {
        return Err(Unusable::Ragged);
    }
    let mut configurations = vec![Vec::with_capacity(rows.len()); columns];
    for row in rows {
        for (configuration, value) in configurations.iter_mut().zip(row) {
            configuration.push(value);
        }
    }
    Ok(configurations)
}

/// Reads one row per period; for a single series one number per row.
fn rows(sent: &JsonText, name: &'static str, single: bool) -> Result<Vec<Vec<f64>>, Unusable> {
    let unusable = |fault| Unusable::Series { name, fault };
    let text = sent.as_str();
    let rows = if text.starts_with('"') {
        let csv: String = serde_json::from_str(text).map_err(|_| Unusable::NotText(name))?;
        from_csv(&csv, single)
    } else {
        from_json(text, single)
    };
    let rows = rows.map_err(unusable)?;
    let bad = |value: &f64| !(-1.0..=RETURN_MAX).contains(value);
    if let Some(place) = rows.iter().position(|row| row.iter().any(bad)) {
        let row = place.saturating_add(1);
        return Err(unusable(SeriesFault::OutOfRange(row)));
    }
    if rows.is_empty() {
        return Err(unusable(SeriesFault::Empty));
    }
    Ok(rows)
}

fn from_json(text: &str, single: bool) -> Result<Vec<Vec<f64>>, SeriesFault> {
    json::check_value(text.as_bytes())?;
    let mut reader = serde_json::Deserializer::from_str(text);
    let told = |error: serde_json::Error| {
        let told = error.to_string();
        let what = told.split(" at line ").next().unwrap_or_default();
        SeriesFault::Shape(what.to_owned())
    };
    let mut cells = 0;
    if single {
        let one = Numbers {
            most: PERIODS_MAX,
            cells: &mut cells,
        }
        .deserialize(&mut reader)
        .map_err(told)?;
        Ok(one.into_iter().map(|value| vec![value]).collect())
    } else {
        Lines { cells: &mut cells }
            .deserialize(&mut reader)
            .map_err(told)
    }
}

/// An array of numbers, read only up to its cap.
struct Numbers<'a> {
    most: usize,
    cells: &'a mut usize,
}

impl<'de> DeserializeSeed<'de> for Numbers<'_> {
    type Value = Vec<f64>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<f64>, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Numbers<'_> {
    type Value = Vec<f64>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of numbers")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<f64>, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = seq.next_element()? {
            *self.cells += 1;
            if values.len() == self.most || *self.cells > CELLS_MAX {
                return Err(de::Error::custom(SeriesFault::TooMany { row: self.most }));
            }
            values.push(value);
        }
        Ok(values)
    }
}

/// An array of arrays of numbers.
struct Lines<'a> {
    cells: &'a mut usize,
}

impl<'de> DeserializeSeed<'de> for Lines<'_> {
    type Value = Vec<Vec<f64>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Lines<'_> {
    type Value = Vec<Vec<f64>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of arrays of numbers")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut rows = Vec::new();
        while let Some(row) = seq.next_element_seed(Numbers {
            most: CONFIGURATIONS_MAX,
            cells: &mut *self.cells,
        })? {
            if rows.len() == PERIODS_MAX {
                return Err(de::Error::custom(SeriesFault::TooMany { row: PERIODS_MAX }));
            }
            rows.push(row);
        }
        Ok(rows)
    }
}

/// Reads lines of numbers separated by commas, semicolons or tabs. The first line is a header if
/// its last cell is not a number. The first column holds dates if its name is about time or its
/// first cell is not a number. A single series is the column named as returns, otherwise the last
/// column.
fn from_csv(text: &str, single: bool) -> Result<Vec<Vec<f64>>, SeriesFault> {
    let mut lines = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .peekable();
    let split = |line: &str| -> Vec<String> {
        line.split([',', ';', '\t'])
            .map(|cell| cell.trim().trim_matches('"').to_ascii_lowercase())
            .collect()
    };
    let first = lines
        .peek()
        .map(|(_, line)| split(line))
        .ok_or(SeriesFault::Empty)?;
    let header = first
        .last()
        .is_some_and(|cell| cell.parse::<f64>().is_err());
    if header {
        lines.next();
    }
    let sample = lines
        .peek()
        .map(|(_, line)| split(line))
        .unwrap_or_default();
    let names_time = |cell: &String| {
        ["date", "time", "timestamp", "period", "day", "month"].contains(&cell.as_str())
    };
    let dated = first.first().is_some_and(|cell| header && names_time(cell))
        || sample
            .first()
            .is_some_and(|cell| cell.parse::<f64>().is_err());
    let skipped = usize::from(dated && sample.len() > 1);
    let named = |cell: &String| ["return", "returns", "ret"].contains(&cell.as_str());
    let column = first
        .iter()
        .position(|cell| header && named(cell))
        .unwrap_or(sample.len().saturating_sub(1));
    let (mut rows, mut cells) = (Vec::new(), 0_usize);
    for (place, line) in lines {
        let line_number = place.saturating_add(1);
        let texts: Vec<&str> = line
            .split([',', ';', '\t'])
            .map(|cell| cell.trim().trim_matches('"'))
            .collect();
        let wanted = if single {
            texts.get(column..=column)
        } else {
            texts.get(skipped..)
        };
        let row: Vec<f64> = wanted
            .ok_or(SeriesFault::Short(line_number))?
            .iter()
            .map(|cell| cell.parse().ok().filter(|value: &f64| value.is_finite()))
            .collect::<Option<_>>()
            .ok_or(SeriesFault::NotNumbers(line_number))?;
        cells = cells.saturating_add(row.len());
        if rows.len() == PERIODS_MAX || row.len() > CONFIGURATIONS_MAX || cells > CELLS_MAX {
            return Err(SeriesFault::TooMany {
                row: CONFIGURATIONS_MAX,
            });
        }
        rows.push(row);
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> JsonText {
        serde_json::from_str(text).unwrap()
    }

    fn csv(text: &str) -> JsonText {
        json(&serde_json::to_string(text).unwrap())
    }

    #[test]
    fn one_series_in_every_form() {
        let same = [
            json("[0.01, -0.02, 0.03]"),
            csv("0.01\n-0.02\n0.03\n"),
            csv("return\r\n0.01\r\n-0.02\r\n0.03"),
            csv("date,return\n2025-01-01,0.01\n2025-01-02,-0.02\n2025-01-03,0.03"),
            csv("date;Returns;equity\n2025-01-01;0.01;1\n2025-01-02;-0.02;1\n2025-01-03;0.03;1"),
            csv("2025-01-01\t0.01\n2025-01-02\t-0.02\n2025-01-03\t0.03"),
        ];
        for sent in same {
            assert_eq!(returns(&sent).unwrap(), [0.01, -0.02, 0.03], "{sent:?}");
        }
    }

    #[test]
    fn a_matrix_in_every_form() {
        let same = [
            json("[[0.01, 0.1], [-0.02, 0.2]]"),
            csv("0.01,0.1\n-0.02,0.2"),
            csv("a,b\n0.01,0.1\n-0.02,0.2"),
            csv("date,a,b\n2025-01-01,0.01,0.1\n2025-01-02,-0.02,0.2"),
            csv("period,a,b\n1,0.01,0.1\n2,-0.02,0.2"),
        ];
        for sent in same {
            assert_eq!(
                trial_returns(&sent).unwrap(),
                [[0.01, -0.02], [0.1, 0.2]],
                "{sent:?}"
            );
        }
    }

    #[test]
    fn unusable_tables_are_reported() {
        let bad = [
            "[]",
            "{}",
            "7",
            "null",
            "[1,null]",
            "[\"1\"]",
            "[[1]]",
            "[1e999]",
            "[-1.5]",
            "[10.1]",
            "\"\"",
            "\"a,b\"",
            "\"0.1\\nNaN\"",
            "\"0.1\\ninf\"",
        ];
        for text in bad {
            assert!(
                returns(&json(text))
                    .unwrap_err()
                    .to_string()
                    .starts_with("`returns` "),
                "{text}"
            );
        }
        for text in [
            "[]",
            "[[]]",
            "[[],[]]",
            "[[1],[1,1]]",
            "[1]",
            "\"0.1,0.2\\n0.1\"",
            "[[[1]]]",
        ] {
            assert!(
                trial_returns(&json(text))
                    .unwrap_err()
                    .to_string()
                    .starts_with("`trial_returns` "),
                "{text}"
            );
        }
    }

    #[test]
    fn the_caps_hold_at_the_limit_and_not_one_beyond() {
        let series = |n: usize| json(&format!("[{}0]", "0,".repeat(n - 1)));
        assert_eq!(returns(&series(PERIODS_MAX)).unwrap().len(), PERIODS_MAX);
        assert!(
            returns(&series(PERIODS_MAX + 1))
                .unwrap_err()
                .to_string()
                .contains("use longer periods")
        );
        let row = |n: usize| json(&format!("[[{}0]]", "0,".repeat(n - 1)));
        assert_eq!(
            trial_returns(&row(CONFIGURATIONS_MAX)).unwrap().len(),
            CONFIGURATIONS_MAX
        );
        assert!(
            trial_returns(&row(CONFIGURATIONS_MAX + 1))
                .unwrap_err()
                .to_string()
                .contains("use longer periods")
        );
        let lines = |n: usize| csv(&"0\n".repeat(n));
        assert_eq!(returns(&lines(PERIODS_MAX)).unwrap().len(), PERIODS_MAX);
        assert!(
            returns(&lines(PERIODS_MAX + 1))
                .unwrap_err()
                .to_string()
                .contains("use longer periods")
        );
    }
}
