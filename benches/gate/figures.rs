//! Figures and how they are printed.

use std::fmt::Write as _;

use anyhow::Result;
use serde::Serialize;

use crate::conditions::Conditions;

/// Median, lowest and highest of some runs.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Spread {
    /// The middle one.
    pub median: f64,
    /// The lowest.
    pub low: f64,
    /// The highest.
    pub high: f64,
    /// How many there were.
    pub runs: usize,
}

impl Spread {
    /// Of these values, of which there is at least one.
    pub(crate) fn of(values: &[f64]) -> Spread {
        let sorted = sorted(values);
        let at = |share: f64| quantile(&sorted, share);
        Spread {
            median: at(0.5),
            low: at(0.0),
            high: at(1.0),
            runs: values.len(),
        }
    }

    /// Ours over the peer's, run by run.
    pub(crate) fn ratio(ours: &[f64], peer: &[f64]) -> Spread {
        let ratios: Vec<f64> = ours
            .iter()
            .zip(peer)
            .map(|(ours, peer)| ours / peer)
            .collect();
        Spread::of(&ratios)
    }
}

/// Ascending.
pub(crate) fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// The value that `share` of the sorted ones do not exceed; nearest rank.
pub(crate) fn quantile(sorted: &[f64], share: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted
        .get((last as f64 * share).round() as usize)
        .copied()
        .unwrap_or(f64::NAN)
}

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Unit {
    /// Requests a second.
    PerSecond,
    /// Nanoseconds.
    Nanoseconds,
    /// Microseconds.
    Microseconds,
    /// Milliseconds.
    Milliseconds,
    /// Millions of bytes a second.
    MegabytesPerSecond,
    /// MiB.
    Mebibytes,
    /// Just a number.
    Count,
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Unit::PerSecond => "/s",
            Unit::Nanoseconds => " ns",
            Unit::Microseconds => " µs",
            Unit::Milliseconds => " ms",
            Unit::MegabytesPerSecond => " MB/s",
            Unit::Mebibytes => " MiB",
            Unit::Count => "",
        }
    }
}

/// A goal for the ratio, or for our own value if there is no peer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Goal {
    /// No less.
    AtLeast(f64),
    /// No more.
    AtMost(f64),
}

/// One line of the report.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figure {
    what: String,
    unit: Unit,
    ours: Spread,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<Spread>,
    #[serde(skip_serializing_if = "Option::is_none")]
    beside: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio: Option<Spread>,
    #[serde(skip_serializing_if = "Option::is_none")]
    goal: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    goal_met: Option<bool>,
}

impl Figure {
    /// A value of the gate alone.
    pub(crate) fn alone(what: impl Into<String>, unit: Unit, ours: &[f64]) -> Figure {
        let ours = Spread::of(ours);
        let (peer, beside, ratio) = (None, None, None);
        Figure {
            what: what.into(),
            unit,
            ours,
            peer,
            beside,
            ratio,
            goal: None,
            goal_met: None,
        }
    }

    /// The same beside what a peer needed, run by run.
    pub(crate) fn beside(self, name: &str, ours: &[f64], peer: &[f64]) -> Figure {
        let ratio = Some(Spread::ratio(ours, peer));
        Figure {
            peer: Some(Spread::of(peer)),
            beside: Some(name.to_owned()),
            ratio,
            ..self
        }
    }

    /// Describes the goal: for the ratio, or for our own value if there is no peer.
    pub(crate) fn aim(self, goal: Goal) -> Figure {
        let value = self.ratio.unwrap_or(self.ours).median;
        let unit = if self.ratio.is_some() {
            ""
        } else {
            self.unit.name()
        };
        let (text, met) = match goal {
            Goal::AtLeast(least) => (format!(">= {}{unit}", number(least)), value >= least),
            Goal::AtMost(most) => (format!("<= {}{unit}", number(most)), value <= most),
        };
        Figure {
            goal: Some(text),
            goal_met: Some(met),
            ..self
        }
    }

    fn cells(&self) -> [String; 6] {
        let with_unit = |spread: &Spread| {
            let range = if spread.runs > 1 {
                format!(" ({}-{})", number(spread.low), number(spread.high))
            } else {
                String::new()
            };
            format!("{}{}{range}", number(spread.median), self.unit.name())
        };
        let ratio = self.ratio.map_or(String::new(), |ratio| {
            let range = if ratio.runs > 1 {
                format!(" ({}-{})", number(ratio.low), number(ratio.high))
            } else {
                String::new()
            };
            format!("{}{range}", number(ratio.median))
        });
        let goal = match (&self.goal, self.goal_met) {
            (Some(goal), Some(true)) => format!("{goal}, met"),
            (Some(goal), _) => format!("{goal}, missed"),
            (None, _) => String::new(),
        };
        let peer = self.peer.as_ref().map(with_unit).unwrap_or_default();
        let beside = self.beside.clone().unwrap_or_default();
        [
            self.what.clone(),
            with_unit(&self.ours),
            peer,
            beside,
            ratio,
            goal,
        ]
    }
}

const HEADS: [&str; 6] = ["what", "gate", "peer", "the peer is", "gate / peer", "goal"];

/// Three significant digits, thousands apart.
pub(crate) fn number(value: f64) -> String {
    let size = value.abs();
    if size >= 100.0 {
        let digits = format!("{value:.0}");
        let mut out = String::new();
        for (n, digit) in digits.chars().enumerate() {
            if n > 0 && (digits.len() - n).is_multiple_of(3) {
                out.push(',');
            }
            out.push(digit);
        }
        return out;
    }
    if size >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

/// Everything that was measured.
#[derive(Default)]
pub(crate) struct Report {
    sections: Vec<(String, Vec<Figure>)>,
    /// What was checked of the runs, and what could not be measured here.
    notes: Vec<String>,
}

impl Report {
    /// A part of the report.
    pub(crate) fn section(&mut self, title: &str, figures: Vec<Figure>) {
        self.sections.push((title.to_owned(), figures));
    }

    /// What was checked, or why something is missing.
    pub(crate) fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// For a terminal.
    pub(crate) fn table(&self, conditions: &Conditions) -> String {
        let mut out = String::new();
        for (name, value) in conditions.rows() {
            let _ = writeln!(out, "{name:<12} {value}");
        }
        for (title, figures) in &self.sections {
            let _ = writeln!(out, "\n{title}");
            let heads = HEADS.map(str::to_owned);
            let rows: Vec<[String; 6]> = std::iter::once(heads)
                .chain(figures.iter().map(Figure::cells))
                .collect();
            let mut widths = [0; 6];
            for row in &rows {
                for (width, cell) in widths.iter_mut().zip(row) {
                    *width = (*width).max(cell.chars().count());
                }
            }
            for row in &rows {
                let padded = row
                    .iter()
                    .zip(widths)
                    .map(|(cell, width)| format!("{cell:<width$}"));
                let _ = writeln!(out, "{}", padded.collect::<Vec<_>>().join("  ").trim_end());
            }
        }
        out.push('\n');
        for note in &self.notes {
            let _ = writeln!(out, "- {note}");
        }
        out
    }

    /// For docs/performance.md.
    pub(crate) fn markdown(&self, conditions: &Conditions) -> String {
        let mut out = String::from("| conditions | |\n|---|---|\n");
        for (name, value) in conditions.rows() {
            let _ = writeln!(out, "| {name} | {value} |");
        }
        for (title, figures) in &self.sections {
            let _ = write!(
                out,
                "\n### {title}\n\n| {} |\n|{}\n",
                HEADS.join(" | "),
                "---|".repeat(6)
            );
            for figure in figures {
                let _ = writeln!(out, "| {} |", figure.cells().join(" | "));
            }
        }
        out.push_str("\n### Checked\n\n");
        for note in &self.notes {
            let _ = writeln!(out, "- {note}");
        }
        out
    }

    /// For programs.
    pub(crate) fn json(&self, conditions: &Conditions) -> Result<String> {
        let conditions: serde_json::Map<String, serde_json::Value> = conditions
            .rows()
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.into()))
            .collect();
        let sections: Vec<_> = self
            .sections
            .iter()
            .map(|(title, figures)| serde_json::json!({"title": title, "figures": figures}))
            .collect();
        let report = serde_json::json!({"conditions": conditions, "sections": sections,
            "notes": self.notes});
        Ok(serde_json::to_string_pretty(&report)?)
    }
}
