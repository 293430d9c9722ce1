//! Reads figures from artifacts: Monte Carlo statistics from JSON, quoted metrics from the report's
//! Markdown tables.

use std::collections::BTreeMap;

use serde_json::Value;

use super::error::Unusable;
use super::metrics::{Figure, canonical};
use spoolgate_wire::json;

/// Maximum length of an artifact that is read.
pub(super) const ARTIFACT_BYTES_MAX: usize = 1_000_000;

/// Maximum number of figures taken from one artifact.
const FIGURES_MAX: usize = 10_000;

/// Statistics of one simulated quantity.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Simulated {
    pub(super) p5: Option<f64>,
    pub(super) p95: Option<f64>,
    pub(super) mean: Option<f64>,
    pub(super) sd: Option<f64>,
}

/// Simulated Sharpe ratio and total return in percent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct MonteCarlo {
    pub(super) sharpe: Simulated,
    pub(super) total_return: Simulated,
}

/// Reads Monte Carlo statistics from one JSON object. At any depth it holds the quantity (`sharpe`,
/// `total_return` or `return`) and the statistic (`p5`, `p95`, `mean`, `sd` and their usual
/// spellings), in one name or nested either way.
///
/// # Errors
/// Returns [`Unusable`] if nothing can be read.
pub(super) fn monte_carlo(text: &str) -> Result<MonteCarlo, Unusable> {
    if text.len() > ARTIFACT_BYTES_MAX {
        return Err(Unusable::TooLarge);
    }
    json::check_object(text.as_bytes()).map_err(Unusable::NotJson)?;
    let value: Value = serde_json::from_str(text).map_err(|_| Unusable::NumberOutOfRange)?;
    let mut found = MonteCarlo::default();
    let mut left = FIGURES_MAX;
    collect(&value, &mut Vec::new(), &mut found, &mut left);
    Ok(found)
}

/// Visits at most `left` values; the JSON check before it has bounded the depth.
fn collect(value: &Value, path: &mut Vec<String>, found: &mut MonteCarlo, left: &mut usize) {
    if *left == 0 {
        return;
    }
    *left -= 1;
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                path.push(words(name));
                collect(member, path, found, left);
                path.pop();
            }
        }
        Value::Number(number) => {
            if let Some(value) = number.as_f64() {
                place(&path.join("_"), value, found);
            }
        }
        _ => {}
    }
}

fn place(path: &str, value: f64, found: &mut MonteCarlo) {
    let parts: Vec<&str> = path.split('_').collect();
    let has = |names: &[&str]| parts.iter().any(|part| names.contains(part));
    let quantity = if has(&["sharpe"]) {
        &mut found.sharpe
    } else if has(&["return", "returns"]) {
        &mut found.total_return
    } else {
        return;
    };
    let statistic = if has(&["p5", "p05", "q5", "q05", "5", "05", "5th", "5pct", "pct5"]) {
        &mut quantity.p5
    } else if has(&["p95", "q95", "95", "95th", "95pct", "pct95"]) {
        &mut quantity.p95
    } else if has(&["sd", "std", "stdev", "stddev", "sigma"]) {
        &mut quantity.sd
    } else if has(&["mean", "avg", "average"]) {
        &mut quantity.mean
    } else {
        return;
    };
    // Keep the first value: later ones under other names are more specific.
    *statistic = statistic.or(Some(value));
}

/// All figures of a report, by metric.
pub(super) type Report = BTreeMap<&'static str, Vec<Figure>>;

/// Reads the Markdown tables of a report. It accepts two shapes: a metric's name in the first cell
/// and its values in the next ones, with a header that may state in sample or out of sample; or the
/// names in the header and the values below. Everything else is skipped. A report that is too long
/// gives nothing.
pub(super) fn report(text: &str) -> Report {
    let mut report = Report::new();
    if text.len() > ARTIFACT_BYTES_MAX {
        return report;
    }
    let mut header: Vec<String> = Vec::new();
    let mut in_table = false;
    let mut figures = 0;
    for line in text.lines() {
        let cells = cells(line);
        if cells.len() < 2 {
            (header, in_table) = (Vec::new(), false);
            continue;
        }
        if cells
            .iter()
            .all(|cell| !cell.is_empty() && cell.chars().all(|c| "-: ".contains(c)))
        {
            in_table = true;
            continue;
        }
        if !in_table {
            header = cells.iter().map(|cell| words(cell)).collect();
        }
        figures += cells.len();
        if figures > FIGURES_MAX {
            return report;
        }
        take_row(&cells, &header, in_table, &mut report);
    }
    report
}

fn cells(line: &str) -> Vec<&str> {
    let line = line.trim();
    if !line.contains('|') {
        return Vec::new();
    }
    let line = line.strip_prefix('|').unwrap_or(line);
    line.strip_suffix('|')
        .unwrap_or(line)
        .split('|')
        .map(|cell| cell.trim().trim_matches(['*', '`', ' ']))
        .collect()
}

fn take_row(cells: &[&str], header: &[String], in_table: bool, report: &mut Report) {
    let mut add = |metric: Option<&'static str>, cell: &str| {
        if let Some((metric, figure)) = metric.zip(Figure::parse(cell).ok()) {
            report.entry(metric).or_default().push(figure);
        }
    };
    let first = words(cells.first().copied().unwrap_or_default());
    if metric_of(&first, "").is_some() {
        for (place, cell) in cells.iter().enumerate().skip(1) {
            let column = header.get(place).map_or("", String::as_str);
            add(metric_of(&first, scope(column)), cell);
        }
    } else if in_table {
        for (cell, name) in cells.iter().zip(header) {
            add(metric_of(name, scope(&first)), cell);
        }
    }
}

/// Returns `is`, `oos` or an empty text for a header or the name of a row.
fn scope(name: &str) -> &'static str {
    match name {
        "is" | "in_sample" | "insample" | "train" | "training" => "is",
        "oos" | "out_of_sample" | "outofsample" | "test" | "testing" => "oos",
        _ => "",
    }
}

/// Returns the known metric for a name in a report.
fn metric_of(name: &str, scope: &str) -> Option<&'static str> {
    let name = name
        .replace("out_of_sample", "oos")
        .replace("in_sample", "is")
        .replace("maximum", "max");
    let name = name
        .replace("max_drawdown", "max_dd")
        .replace("hit_rate", "win_rate");
    let name = name.trim_end_matches("_pct").trim_end_matches("_ratio");
    let name = if name == "drawdown" { "max_dd" } else { name };
    if name == "win_rate" && scope.is_empty() {
        return Some("oos_win_rate");
    }
    let scoped = format!("{scope}_{name}");
    canonical(&scoped)
        .or_else(|| canonical(name))
        .or_else(|| canonical(&format!("{name}_ratio")))
}

/// Lower-case words joined by `_`: `Max DD (%)` is `max_dd`.
fn words(name: &str) -> String {
    let lower: String = name
        .chars()
        .take(80)
        .map(|c| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_lowercase()
            } else {
                ' '
            }
        })
        .collect();
    lower.split_whitespace().collect::<Vec<&str>>().join("_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn monte_carlo_in_the_usual_spellings() {
        let nested = r#"{"n":1000,"sharpe":{"p5":0.1,"p95":2.0,"mean":1.1,"sd":0.6}}"#;
        let want = Simulated {
            p5: Some(0.1),
            p95: Some(2.0),
            mean: Some(1.1),
            sd: Some(0.6),
        };
        let same = [
            nested,
            r#"{"sharpe_p5":0.1,"sharpe_p95":2.0,"sharpe_mean":1.1,"sharpe_std":0.6}"#,
            r#"{"p5":{"sharpe":0.1},"p95":{"sharpe":2.0},"avg":{"sharpe":1.1},"stddev":{"sharpe":0.6}}"#,
            r#"{"results":{"Sharpe Ratio":{"5%":0.1,"95%":2.0,"Mean":1.1,"Std":0.6}}}"#,
            r#"{"sharpe":{"percentiles":{"5th":0.1,"95th":2.0},"average":1.1,"sigma":0.6}}"#,
        ];
        for text in same {
            assert_eq!(monte_carlo(text).unwrap().sharpe, want, "{text}");
        }
        let returns = monte_carlo(r#"{"total_return":{"p05":-3,"p95":31.5}}"#)
            .unwrap()
            .total_return;
        assert_eq!((returns.p5, returns.p95), (Some(-3.0), Some(31.5)));
    }

    #[test]
    fn anything_but_an_object_of_numbers_is_reported() {
        let deep = format!("{}1{}", "{\"a\":".repeat(100), "}".repeat(100));
        for text in [
            "",
            "[]",
            "{",
            "{\"sharpe\":NaN}",
            "{\"sharpe\":{\"p5\":1e999}}",
            "{\"a\":1,\"a\":2}",
            &deep,
        ] {
            assert!(
                monte_carlo(text)
                    .unwrap_err()
                    .to_string()
                    .contains("`monte_carlo_stats` is not a JSON object"),
                "{text}"
            );
        }
        assert_eq!(
            monte_carlo(r#"{"p5":1,"luck":[1,[2]],"sharpe":null}"#).unwrap(),
            MonteCarlo::default()
        );
    }

    #[test]
    fn reports_in_both_shapes() {
        let text = "# Report\n\n| Metric | Value |\n|---|---:|\n| **Total Return (%)** | 15.4% \
            |\n| Sharpe Ratio | 1.2 |\n\
            | Max DD | -4.5 % |\n| OOS win rate | 55.0 |\n\nand\n\n| | IS | OOS |\n|--|--|--|\n| \
            Win rate | 75.2% | 39.0% |\n\n\
            | run | Sharpe | Max Drawdown |\n|---|---|---|\n| Test | 0.8 | -9.1% |\n";
        let report = report(text);
        let shown = |name: &str| {
            report
                .get(name)
                .map(|found| found.iter().map(|f| f.text.clone()).collect::<Vec<_>>())
                .unwrap_or_default()
        };
        assert_eq!(shown("total_return"), ["15.4"]);
        assert_eq!(shown("sharpe"), ["1.2"]);
        assert_eq!(shown("max_dd"), ["-4.5"]);
        assert_eq!(shown("oos_win_rate"), ["55.0", "39.0"]);
        assert_eq!(shown("is_win_rate"), ["75.2"]);
        assert_eq!(shown("oos_sharpe"), ["0.8"]);
        assert_eq!(shown("oos_max_dd"), ["-9.1"]);
        assert!(super::report("no | table\n|||||\n| a |\n|--|").is_empty());
    }
}
