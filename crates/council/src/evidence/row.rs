//! One row of computed evidence, and the vote that follows from all rows.

use std::collections::BTreeSet;

use crate::finding::{Evidence, Finding};
use spoolgate_rules::evidence::EvidencePolicy;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::council::{Axis, Severity, Stance};

/// The fixed part of a check.
#[derive(Debug)]
pub(super) struct Check {
    pub(super) id: &'static str,
    pub(super) question: &'static str,
    /// The worst severity it can have.
    pub(super) severity: Severity,
    pub(super) axis: Axis,
    pub(super) headline: bool,
    /// Formula and its source.
    pub(super) source: &'static str,
    /// The action that a failure requires.
    pub(super) action: &'static str,
    /// Whether the check overlaps with others: of all grouped checks, only the worst counts.
    pub(super) grouped: bool,
}

/// A row under computation. INVARIANT: `pass` is `Some` only if a value was computed or an input is
/// wrong.
#[derive(Debug)]
pub(super) struct Row {
    check: &'static Check,
    pass: Option<bool>,
    severity: Severity,
    answer: Vec<String>,
    message: Option<String>,
    value: Option<String>,
    threshold: Option<String>,
    missing: BTreeSet<&'static str>,
    /// An input was sent that cannot be used; the vote is then never an approval.
    unusable: bool,
}

impl Row {
    /// Creates a row that is not computed yet.
    pub(super) fn of(check: &'static Check) -> Row {
        Row {
            check,
            pass: None,
            severity: check.severity,
            answer: Vec::new(),
            message: None,
            value: None,
            threshold: None,
            missing: BTreeSet::new(),
            unusable: false,
        }
    }

    /// Marks the row as passed, unless it failed already.
    pub(super) fn pass(&mut self) {
        self.pass = self.pass.or(Some(true));
    }

    /// Marks the row as failed with this severity; the worst failure of a row counts, and its
    /// message is the row's.
    pub(super) fn fail(&mut self, severity: Severity, message: String) {
        let failed_before = self.pass == Some(false);
        if !failed_before || severity > self.severity {
            self.severity = severity;
            self.message = Some(message);
        }
        self.pass = Some(false);
    }

    /// Adds one sentence to the answer.
    pub(super) fn say(&mut self, sentence: impl Into<String>) {
        self.answer.push(sentence.into());
    }

    /// Records the value and the threshold it was compared with.
    pub(super) fn compared(&mut self, value: impl ToString, threshold: impl ToString) {
        self.value = Some(value.to_string());
        self.threshold = Some(threshold.to_string());
    }

    /// Records an input that was not sent, or was assumed; the answer names it once.
    pub(super) fn miss(&mut self, input: &'static str) {
        self.missing.insert(input);
    }

    /// Records an input that was sent and cannot be used.
    pub(super) fn cannot_use(&mut self, why: impl Into<String>) {
        self.unusable = true;
        self.answer.push(why.into());
    }

    /// Whether it failed.
    pub(super) fn failed(&self) -> bool {
        self.pass == Some(false)
    }

    fn finding(self) -> Finding {
        let mut answer = self.answer;
        if !self.missing.is_empty() {
            let wanted: Vec<&str> = self.missing.iter().map(|input| supply(input)).collect();
            let head = if self.pass.is_none() {
                "Not computed: supply"
            } else {
                "To complete it, supply"
            };
            answer.push(format!("{head} {}.", wanted.join("; ")));
        }
        Finding {
            check_id: self.check.id.to_owned(),
            question: self.check.question.to_owned(),
            answer: answer.join(" "),
            pass: self.pass,
            severity: self.severity,
            axis: self.check.axis,
            headline: self.check.headline,
            message: self.message.filter(|_| self.pass == Some(false)),
            value: self.value,
            threshold: self.threshold,
            source: self.check.source.to_owned(),
        }
    }
}

/// Returns how an input is supplied.
fn supply(input: &str) -> &'static str {
    match input {
        "total_return" => "`total_return` in percent",
        "sharpe" => "`sharpe`, annual",
        "max_dd" => "`max_dd` in percent, such as -4.5",
        "oos_win_rate" => "`oos_win_rate` in percent",
        "years" => "`years`, or `n_obs` with `periods_per_year`",
        "periods_per_year" => "`periods_per_year`, such as 252",
        "moments" => "`returns`, or `skew` and `kurtosis` (non-excess) of the returns per period",
        "payoff_ratio" => "`payoff_ratio`, the average win over the average loss",
        "oos_trades" => "`oos_trades`, the number of out-of-sample trades",
        "n_trials" => "`n_trials`, how many configurations were tried",
        "trial_sharpes" => {
            "`trial_sharpes`, the annual Sharpe ratios of all of them, or `trial_returns`"
        }
        "cost_per_trade" => "`cost_per_trade` in percent",
        "edge_per_trade" => "`edge_per_trade` in percent, before costs",
        "in_sample" => "`is_win_rate` in percent and `is_trades`",
        "in_sample_sharpe" => "`is_sharpe`, `oos_sharpe`, `is_years` and `oos_years`",
        "dates" => "`train_end`, `test_start` (YYYY-MM-DD) and `embargo` in days",
        "monte_carlo_stats" => {
            "`monte_carlo_stats`, a JSON object such as \
                {\"sharpe\":{\"p5\":0.1,\"p95\":2.1,\"sd\":0.6}}"
        }
        "validation_report" => "`validation_report` with a Markdown table of the quoted metrics",
        "returns" => "`returns`, the strategy's return per period as fractions",
        "trial_returns" => "`trial_returns`, a row a period and a column a configuration",
        _ => "the input",
    }
}

/// Computes the vote. A blocker, or two majors, reject. One major, a missing input that is not
/// optional, or an unusable one leave the question open. Grouped rows count once, by the worst of
/// them.
pub(super) fn vote(role: &str, rows: Vec<Row>, policy: &EvidencePolicy) -> Evidence {
    let failed = |grouped: bool| {
        rows.iter()
            .filter(move |row| row.failed() && row.check.grouped == grouped)
            .map(|row| row.severity)
    };
    let counted: Vec<Severity> = failed(false).chain(failed(true).max()).collect();
    let majors = counted
        .iter()
        .filter(|severity| **severity == Severity::Major)
        .count();
    let missing: BTreeSet<&'static str> = rows
        .iter()
        .flat_map(|row| row.missing.iter().copied())
        .filter(|input| !policy.is_optional(input))
        .collect();
    let nothing_computed = rows.iter().all(|row| row.pass.is_none());
    let open = majors == 1
        || !missing.is_empty()
        || nothing_computed
        || rows.iter().any(|row| row.unusable);
    let verdict = if counted.contains(&Severity::Blocker) || majors >= 2 {
        Stance::Reject
    } else if open {
        Stance::NeedsMoreInfo
    } else {
        Stance::Approve
    };
    let mut required_actions: Vec<String> = Vec::new();
    for row in rows.iter().filter(|row| row.failed()) {
        if !required_actions
            .iter()
            .any(|action| action == row.check.action)
        {
            required_actions.push(row.check.action.to_owned());
        }
    }
    // A rejected proposer has to come back anyway; a list of inputs would only hide the reason.
    if verdict == Stance::NeedsMoreInfo {
        required_actions.extend(
            missing
                .into_iter()
                .map(|input| format!("Supply {}.", supply(input))),
        );
    }
    let findings = rows.into_iter().map(Row::finding).collect();
    Evidence {
        role: role.to_owned(),
        verdict,
        findings,
        required_actions,
    }
}

/// Values beyond this are shown and compared as this; no threshold is near.
const SHOWN_MAX: f64 = 1e12;
const SHOWN_MIN: f64 = -1e12;

/// Rounds a value to this many places, half to even on its exact binary value. The result is both
/// compared and shown.
pub(super) fn rounded(value: f64, places: usize) -> Amount {
    let value = if value.is_nan() {
        0.0
    } else {
        value.clamp(SHOWN_MIN, SHOWN_MAX)
    };
    Amount::parse_exact(&format!("{value:.places$}")).unwrap_or(Amount::ZERO)
}

/// Returns the number nearest to an amount.
pub(super) fn number(amount: Amount) -> f64 {
    amount.to_string().parse().unwrap_or(0.0)
}
