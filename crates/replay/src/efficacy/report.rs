//! The report on rules: figures, what follows from them, and verdicts.

use std::collections::BTreeMap;

use serde::Serialize;

use super::events::Figures;
use spoolgate_gate::efficacy::effect::{SAMPLE_MIN, Verdict};
use spoolgate_gate::efficacy::{Against, TooLarge, metric};
use spoolgate_rules::rule::file::{Hypothesis, RuleStatus};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::RuleId;

/// A hypothesis and its test result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tested {
    /// The hypothesis as the rule states it.
    #[serde(flatten)]
    pub hypothesis: Hypothesis,
    /// The metric over trades that the rule let through.
    pub value: Option<Amount>,
    /// Number of these trades.
    pub sample: u64,
    /// Interval of the metric.
    pub interval: Option<(f64, f64)>,
    /// How the metric compares with the baseline.
    pub against: Against,
}

/// Report on one rule.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RuleReport {
    /// The rule.
    pub rule: RuleId,
    /// Status in the last rulebook that had the rule; `None` if no rulebook had it.
    pub status: Option<RuleStatus>,
    /// The verdict.
    pub verdict: Verdict,
    /// Number of closed events that a verdict needs.
    pub sample_min: u64,
    /// Figures over all regimes.
    #[serde(flatten)]
    pub all: Derived,
    /// Figures by regime when the event opened or the entry was let through; `-` if no feed had
    /// given one.
    pub regimes: BTreeMap<String, Derived>,
    /// Its hypothesis.
    pub hypothesis: Option<Tested>,
}

/// Figures and what follows from them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Derived {
    /// What was counted.
    #[serde(flatten)]
    pub figures: Figures,
    /// UTC days on which closed events opened.
    pub day_count: u64,
    /// Total effect of the closed events, R: results of what came instead less results of what was
    /// blocked, each event within 10 R.
    pub effect: Option<Amount>,
    /// Interval of the total effect at 95%, R, by resampling the days.
    pub effect_interval: Option<(Amount, Amount)>,
    /// The same in account currency, without bounds: losses avoided less profits missed, and the
    /// results of what came instead.
    pub savings: Option<Amount>,
    /// Mean result of a trade without the rule: over trades that opened events and trades that it
    /// let through.
    pub expectancy_before: Option<Amount>,
    /// Mean result of a trade with the rule: over the trades that it let through.
    pub expectancy_after: Option<Amount>,
    /// Share of winners among the trades that opened events.
    pub blocked_winners: Option<Amount>,
    /// Wilson interval of this share at 95%.
    pub interval: Option<(f64, f64)>,
    /// Share of winners at which these trades would have broken even.
    pub break_even: Option<Amount>,
}

/// Result of a study.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Maximum holding time of a trade, minutes.
    pub time_stop_minutes: u32,
    /// Every rule that fired or had entries in its scope, by id.
    pub rules: Vec<RuleReport>,
    /// Entries that a rule blocked, or would have blocked in shadow, and whose request cannot be
    /// rebuilt, so that their outcome is unknown.
    pub lost_entries: u64,
    /// Deliveries of market rows whose blob or rulebook is lost, so that trades could not follow
    /// them.
    pub lost_rows: u64,
    /// Entries that were not replayed because too many replays were open.
    pub not_followed: u64,
}

impl RuleReport {
    /// Computes the report on a rule from its figures by regime.
    ///
    /// # Errors
    /// Returns [`TooLarge`] if a sum cannot be held exactly.
    pub(super) fn of(
        rule: RuleId,
        status: Option<RuleStatus>,
        hypothesis: Option<Hypothesis>,
        by_regime: BTreeMap<String, Figures>,
    ) -> Result<RuleReport, TooLarge> {
        let mut all = Figures::default();
        let mut regimes = BTreeMap::new();
        for (regime, figures) in by_regime {
            all = all.with(&figures)?;
            regimes.insert(regime, Derived::of(figures, &rule)?);
        }
        let wanted = hypothesis.as_ref().map(|it| u64::from(it.review_after_n));
        let sample_min = wanted.unwrap_or(SAMPLE_MIN).max(1);
        let hypothesis = hypothesis.map(|hypothesis| Tested::of(hypothesis, &all));
        let verdict = all.days.verdict(&rule, sample_min);
        let all = Derived::of(all, &rule)?;
        Ok(RuleReport {
            rule,
            status,
            verdict,
            sample_min,
            all,
            regimes,
            hypothesis,
        })
    }
}

impl Tested {
    fn of(hypothesis: Hypothesis, figures: &Figures) -> Tested {
        let trades = &figures.let_through;
        let (value, interval, against) =
            metric(&hypothesis.metric, trades, *hypothesis.baseline_value);
        Tested {
            hypothesis,
            value,
            sample: trades.closed,
            interval,
            against,
        }
    }
}

impl Derived {
    fn of(figures: Figures, rule: &RuleId) -> Result<Derived, TooLarge> {
        let Figures {
            blocked,
            let_through,
            days,
            ..
        } = &figures;
        Ok(Derived {
            day_count: days.count(),
            effect: days.effect(),
            effect_interval: days.interval(rule),
            savings: figures.savings(),
            expectancy_before: blocked.with(let_through)?.expectancy(),
            expectancy_after: let_through.expectancy(),
            blocked_winners: blocked.share(),
            interval: blocked.interval(),
            break_even: blocked.break_even(),
            figures,
        })
    }
}
