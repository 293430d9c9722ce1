//! `key_metrics` as numbers: known names, their units, and values that cannot be right.

use std::collections::BTreeMap;

use jiff::civil::Date;
use serde::Deserialize;

use super::error::MetricFault;
use spoolgate_wire::council::JsonText;
use spoolgate_wire::json;

/// Maximum length of a figure's text.
pub(super) const FIGURE_CHARS_MAX: usize = 40;

/// Maximum number of trial Sharpe ratios in `trial_sharpes`.
const TRIALS_MAX: usize = 10_000;

/// Maximum number of faults and of unknown names that are reported.
const TOLD_MAX: usize = 5;

/// A figure as sent.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Figure {
    /// The nearest number.
    pub(super) value: f64,
    /// Its text.
    pub(super) text: String,
    /// Digits after the point; `None` for a number with an exponent.
    pub(super) decimals: Option<u32>,
}

impl Figure {
    /// Parses a decimal number, with or without a percent sign after it.
    ///
    /// # Errors
    /// Returns [`MetricFault`] if the text is not a finite number of this form.
    pub(super) fn parse(text: &str) -> Result<Figure, MetricFault> {
        let text = text.trim().trim_end_matches('%').trim_end();
        if text.is_empty() || text.len() > FIGURE_CHARS_MAX {
            return Err(MetricFault::Length);
        }
        // Rust's own parser also accepts `inf`, `nan` and `+1`.
        let plain = text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
        let value: f64 = text
            .parse()
            .ok()
            .filter(|_| plain)
            .ok_or(MetricFault::NotNumber)?;
        if !value.is_finite() {
            return Err(MetricFault::NotFinite);
        }
        let has_exponent = text.contains(['e', 'E']);
        let fraction = text
            .split_once('.')
            .map_or(0, |(_, fraction)| fraction.len());
        let decimals = u32::try_from(fraction).ok().filter(|_| !has_exponent);
        Ok(Figure {
            value,
            text: text.to_owned(),
            decimals,
        })
    }

    /// Returns the digits after the point; 0 if unknown, because that rounds most generously.
    pub(super) fn places(&self) -> u32 {
        self.decimals.unwrap_or(0)
    }

    /// Returns the magnitude as an integer in units of its last decimal: `-39.0` is 390 with one
    /// decimal.
    pub(super) fn units(&self) -> Option<(u64, u32)> {
        let decimals = self.decimals?;
        let digits: String = self.text.chars().filter(char::is_ascii_digit).collect();
        digits.parse().ok().map(|units| (units, decimals))
    }
}

/// A known metric.
struct Known {
    name: &'static str,
    aliases: &'static [&'static str],
    least: f64,
    most: f64,
    whole: bool,
}

const fn known(
    name: &'static str,
    aliases: &'static [&'static str],
    least: f64,
    most: f64,
) -> Known {
    Known {
        name,
        aliases,
        least,
        most,
        whole: false,
    }
}

const fn whole(
    name: &'static str,
    aliases: &'static [&'static str],
    least: f64,
    most: f64,
) -> Known {
    Known {
        whole: true,
        ..known(name, aliases, least, most)
    }
}

/// Every known figure: its name, its other spellings and its range.
const KNOWN: [Known; 27] = [
    known("total_return", &["total_return_pct", "return"], -100.0, 1e6),
    known("sharpe", &["sharpe_ratio"], -100.0, 100.0),
    known(
        "max_dd",
        &["max_drawdown", "max_dd_pct", "mdd"],
        -100.0,
        100.0,
    ),
    known(
        "oos_win_rate",
        &["oos_win_rate_pct", "oos_hit_rate"],
        0.0,
        100.0,
    ),
    known("years", &["n_years"], 0.001, 500.0),
    whole("n_obs", &["n_observations", "observations"], 2.0, 1e9),
    known("periods_per_year", &["q"], 0.5, 1e7),
    whole("oos_trades", &["n_oos_trades", "oos_n_trades"], 0.0, 1e6),
    known(
        "is_win_rate",
        &["is_win_rate_pct", "is_hit_rate"],
        0.0,
        100.0,
    ),
    whole("is_trades", &["n_is_trades", "is_n_trades"], 0.0, 1e6),
    known("payoff_ratio", &["payoff"], 0.001, 1e4),
    whole("n_trials", &["trials"], 1.0, 1e12),
    known("skew", &["skewness"], -1e3, 1e3),
    known("kurtosis", &["kurt"], 1.0, 1e6),
    known("cagr", &["cagr_pct", "annual_return"], -100.0, 1e6),
    known("calmar", &["calmar_ratio"], -1e6, 1e6),
    known(
        "cost_per_trade",
        &["cost_per_trade_pct", "costs_per_trade"],
        0.0,
        100.0,
    ),
    known(
        "edge_per_trade",
        &["edge_per_trade_pct", "avg_trade"],
        -100.0,
        1e4,
    ),
    known("oos_sharpe", &["oos_sharpe_ratio"], -100.0, 100.0),
    known("is_sharpe", &["is_sharpe_ratio"], -100.0, 100.0),
    known("oos_years", &[], 0.001, 500.0),
    known("is_years", &[], 0.001, 500.0),
    known("embargo", &["embargo_days"], 0.0, 36_500.0),
    known("oos_total_return", &["oos_return"], -100.0, 1e6),
    known("is_total_return", &["is_return"], -100.0, 1e6),
    known("oos_max_dd", &["oos_max_drawdown"], -100.0, 100.0),
    known("is_max_dd", &["is_max_drawdown"], -100.0, 100.0),
];

/// Names of dates.
const DATES: [&str; 4] = ["train_start", "train_end", "test_start", "test_end"];

/// Returns the known name of a metric in any spelling: lower case, words joined by `_`.
pub(super) fn canonical(name: &str) -> Option<&'static str> {
    KNOWN
        .iter()
        .find(|known| known.name == name || known.aliases.contains(&name))
        .map(|known| known.name)
}

/// The readable part of `key_metrics`.
#[derive(Debug, Default)]
pub(super) struct Metrics {
    figures: BTreeMap<&'static str, Figure>,
    dates: BTreeMap<&'static str, Date>,
    /// Annual Sharpe ratios of the trials.
    pub(super) trial_sharpes: Vec<f64>,
    /// What is wrong, one sentence each.
    pub(super) faults: Vec<String>,
    /// Unknown names.
    pub(super) unknown: Vec<String>,
}

impl Metrics {
    /// Reads all metrics; a malformed one is reported in `faults` and counts as absent.
    pub(super) fn read(sent: &BTreeMap<String, JsonText>) -> Metrics {
        let mut metrics = Metrics::default();
        for (name, text) in sent {
            metrics.take(name, text.as_str());
        }
        metrics.check_moments();
        metrics
    }

    fn take(&mut self, name: &str, json_text: &str) {
        if let Some(known) = KNOWN
            .iter()
            .find(|known| known.name == name || known.aliases.contains(&name))
        {
            match scalar(json_text)
                .and_then(|text| Figure::parse(&text))
                .and_then(|it| in_range(it, known))
            {
                Ok(figure) => {
                    let before = self.figures.insert(known.name, figure.clone());
                    if before.is_some_and(|before| before.value.to_bits() != figure.value.to_bits())
                    {
                        self.fault(format!(
                            "`{}` is given twice, with different values.",
                            known.name
                        ));
                    }
                }
                Err(what) => self.fault(format!("`{}` {what}.", known.name)),
            }
        } else if let Some(date) = DATES.iter().find(|date| **date == name) {
            match scalar(json_text)
                .ok()
                .and_then(|text| text.get(..10)?.parse().ok())
            {
                Some(day) => {
                    self.dates.insert(date, day);
                }
                None => self.fault(format!("`{date}` is not a date such as 2025-12-09.")),
            }
        } else if name == "trial_sharpes" {
            match ratios(json_text) {
                Some(ratios) => self.trial_sharpes = ratios,
                None => self.fault(format!(
                    "`trial_sharpes` is not a list of 1 to {TRIALS_MAX} annual Sharpe ratios \
                        within -100 and 100."
                )),
            }
        } else if self.unknown.len() < TOLD_MAX {
            let shown: String = name
                .chars()
                .filter(|c| !c.is_control())
                .take(FIGURE_CHARS_MAX)
                .collect();
            self.unknown.push(shown);
        }
    }

    fn check_moments(&mut self) {
        let Some((skew, kurtosis)) = self.get("skew").zip(self.get("kurtosis")) else {
            return;
        };
        if !super::stats::series::moments_possible(skew.value, kurtosis.value) {
            self.figures.remove("kurtosis");
            self.fault(
                "`kurtosis` is below 1 + skew^2, which no returns have; it is the non-excess one."
                    .to_owned(),
            );
        }
    }

    fn fault(&mut self, sentence: String) {
        if self.faults.len() < TOLD_MAX {
            self.faults.push(sentence);
        }
    }

    /// Returns the figure with this name.
    pub(super) fn get(&self, name: &str) -> Option<&Figure> {
        self.figures.get(name)
    }

    /// Returns the number of a figure.
    pub(super) fn value(&self, name: &str) -> Option<f64> {
        self.get(name).map(|figure| figure.value)
    }

    /// Returns the number of a figure as a count.
    pub(super) fn count(&self, name: &str) -> Option<u64> {
        self.get(name)?
            .text
            .parse()
            .ok()
            .or_else(|| format!("{:.0}", self.value(name)?).parse().ok())
    }

    /// Returns the date with this name.
    pub(super) fn date(&self, name: &str) -> Option<Date> {
        self.dates.get(name).copied()
    }
}

/// Returns the text of a JSON number or string.
fn scalar(json_text: &str) -> Result<String, MetricFault> {
    if json_text.starts_with('"') {
        return serde_json::from_str(json_text).map_err(|_| MetricFault::NotNumber);
    }
    let is_number = json_text.starts_with(|c: char| c == '-' || c.is_ascii_digit());
    if is_number {
        Ok(json_text.to_owned())
    } else {
        Err(MetricFault::NotNumber)
    }
}

fn in_range(figure: Figure, known: &Known) -> Result<Figure, MetricFault> {
    let Known {
        name,
        least,
        most,
        whole,
        ..
    } = known;
    if figure.value < *least || figure.value > *most {
        return Err(MetricFault::OutOfRange {
            least: *least,
            most: *most,
        });
    }
    if *whole && figure.value.fract().abs() > 0.0 {
        return Err(MetricFault::NotWhole);
    }
    let is_rate = name.ends_with("win_rate");
    if is_rate && figure.value > 0.0 && figure.value < 1.0 {
        return Err(MetricFault::Fraction);
    }
    Ok(figure)
}

fn ratios(json_text: &str) -> Option<Vec<f64>> {
    json::check_value(json_text.as_bytes()).ok()?;
    let ratios =
        Vec::<f64>::deserialize(&mut serde_json::Deserializer::from_str(json_text)).ok()?;
    let sound = ratios.iter().all(|ratio| (-100.0..=100.0).contains(ratio));
    (sound && (1..=TRIALS_MAX).contains(&ratios.len())).then_some(ratios)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Metrics {
        Metrics::read(&serde_json::from_str(text).unwrap())
    }

    #[test]
    fn figures_keep_their_decimals() {
        let metrics = read(
            r#"{"oos_win_rate":39.0,"sharpe":"1.20","max_drawdown":-4.50,"total_return":"15.4%"}"#,
        );
        assert_eq!(metrics.faults, Vec::<String>::new());
        assert_eq!(metrics.get("oos_win_rate").unwrap().units(), Some((390, 1)));
        assert_eq!(metrics.get("max_dd").unwrap().units(), Some((450, 2)));
        assert_eq!(metrics.get("sharpe").unwrap().decimals, Some(2));
        assert_eq!(
            metrics.get("total_return").unwrap().value.to_bits(),
            15.4_f64.to_bits()
        );
    }

    #[test]
    fn unusable_metrics_are_reported_and_ignored() {
        let cases = [
            (r#"{"sharpe":"NaN"}"#, "`sharpe` is not a number."),
            (r#"{"sharpe":"inf"}"#, "`sharpe` is not a number."),
            (r#"{"sharpe":1e999}"#, "`sharpe` is not finite."),
            (r#"{"sharpe":null}"#, "`sharpe` is not a number."),
            (r#"{"sharpe":[1.2]}"#, "`sharpe` is not a number."),
            (r#"{"sharpe":{"a":1}}"#, "`sharpe` is not a number."),
            (
                r#"{"sharpe":100.1}"#,
                "`sharpe` is not within -100 and 100.",
            ),
            (
                r#"{"oos_win_rate":0.55}"#,
                "`oos_win_rate` looks like a fraction",
            ),
            (
                r#"{"oos_win_rate":100.1}"#,
                "`oos_win_rate` is not within 0 and 100.",
            ),
            (
                r#"{"oos_trades":41.5}"#,
                "`oos_trades` is not a whole number.",
            ),
            (
                r#"{"sharpe":1.2,"sharpe_ratio":1.3}"#,
                "`sharpe` is given twice",
            ),
            (
                r#"{"skew":-2.448,"kurtosis":6.9}"#,
                "`kurtosis` is below 1 + skew^2",
            ),
            (r#"{"train_end":"soon"}"#, "`train_end` is not a date"),
            (r#"{"train_end":"éééééé"}"#, "`train_end` is not a date"),
            (
                r#"{"trial_sharpes":[1,"2"]}"#,
                "`trial_sharpes` is not a list",
            ),
            (
                r#"{"trial_sharpes":[1e999]}"#,
                "`trial_sharpes` is not a list",
            ),
            (r#"{"trial_sharpes":[]}"#, "`trial_sharpes` is not a list"),
            (
                r#"{"sharpe":"12345678901234567890123456789012345678901"}"#,
                "longer than 40",
            ),
        ];
        for (text, told) in cases {
            let metrics = read(text);
            assert!(
                metrics.faults.iter().any(|fault| fault.contains(told)),
                "{text}: {:?}",
                metrics.faults
            );
        }
        assert_eq!(read(r#"{"luck":7}"#).unknown, ["luck"]);
    }
}
