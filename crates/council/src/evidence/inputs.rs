//! The figures of a request as the checks need them. Whatever a check has to assume is recorded in
//! its row as missing.

use super::artifacts::{self, MonteCarlo, Report};
use super::error::Unusable;
use super::metrics::Metrics;
use super::row::{Row, number};
use super::stats::series::{self, Moments};
use super::stats::units;
use super::tables;
use spoolgate_rules::evidence::EvidencePolicy;
use spoolgate_wire::council::CouncilRequest;

/// All figures that were sent, parsed once.
pub(super) struct Inputs<'a> {
    pub(super) policy: &'a EvidencePolicy,
    pub(super) metrics: Metrics,
    /// Returns of the strategy, or why they cannot be used.
    pub(super) returns: Option<Result<Vec<f64>, Unusable>>,
    /// Returns of all configurations, or why they cannot be used.
    pub(super) trial_returns: Option<Result<Vec<Vec<f64>>, Unusable>>,
    pub(super) monte_carlo: Option<Result<MonteCarlo, Unusable>>,
    pub(super) report: Option<Report>,
    /// Moments of the returns; `None` if the returns are constant.
    pub(super) moments: Option<Moments>,
}

impl<'a> Inputs<'a> {
    pub(super) fn read(request: &CouncilRequest, policy: &'a EvidencePolicy) -> Inputs<'a> {
        let returns = request.returns.as_ref().map(tables::returns);
        let moments = returns
            .as_ref()
            .and_then(|sent| Moments::of(sent.as_ref().ok()?));
        let text = |name: &str| {
            request
                .artifacts
                .get(name)
                .filter(|text| !text.trim().is_empty())
        };
        Inputs {
            policy,
            metrics: Metrics::read(&request.context.key_metrics),
            returns,
            trial_returns: request.trial_returns.as_ref().map(tables::trial_returns),
            monte_carlo: text("monte_carlo_stats").map(artifacts::monte_carlo),
            report: text("validation_report").map(artifacts::report),
            moments,
        }
    }

    /// Returns a figure, or records that it is missing.
    pub(super) fn figure(&self, row: &mut Row, name: &'static str) -> Option<f64> {
        let value = self.metrics.value(name);
        if value.is_none() {
            row.miss(name);
        }
        value
    }

    /// Returns the number of returns, as far as it is known without the span.
    pub(super) fn observations(&self) -> Option<f64> {
        let sent = self.returns.as_ref().and_then(|sent| sent.as_ref().ok());
        sent.map(|returns| units::length(returns.len()))
            .or_else(|| self.metrics.value("n_obs"))
    }

    /// Returns the years of the track record; never assumes a value.
    pub(super) fn years(&self, row: &mut Row) -> Option<f64> {
        let years = self.years_stated();
        if years.is_none() {
            row.miss("years");
        }
        years
    }

    fn years_stated(&self) -> Option<f64> {
        let by_count = || {
            units::ratio(
                self.observations()?,
                self.metrics.value("periods_per_year")?,
            )
        };
        self.metrics.value("years").or_else(by_count)
    }

    /// Returns the years, or records that they are assumed and returns the assumed value.
    pub(super) fn years_or_assumed(&self, row: &mut Row) -> f64 {
        self.years(row).unwrap_or_else(|| {
            row.say(format!(
                "No years are stated; {} is assumed.",
                self.policy.assumed_years
            ));
            number(*self.policy.assumed_years)
        })
    }

    /// Returns the periods per year, or the assumed value, recorded as missing.
    pub(super) fn periods(&self, row: &mut Row) -> f64 {
        let by_count = || units::ratio(self.observations()?, self.metrics.value("years")?);
        self.metrics
            .value("periods_per_year")
            .or_else(by_count)
            .unwrap_or_else(|| {
                row.miss("periods_per_year");
                number(*self.policy.assumed_periods_per_year)
            })
    }

    /// Returns the number of returns: counted if they were sent, otherwise as stated, otherwise
    /// computed from the span.
    pub(super) fn count(&self, years: f64, periods: f64) -> f64 {
        self.observations()
            .unwrap_or_else(|| units::product(years, periods))
    }

    /// Returns skew and kurtosis per period: from the returns, as stated, or assumed and recorded
    /// as missing.
    pub(super) fn shape(&self, row: &mut Row) -> (f64, f64) {
        if let Some(moments) = &self.moments {
            return (moments.skew, moments.kurtosis);
        }
        let stated = self
            .metrics
            .value("skew")
            .zip(self.metrics.value("kurtosis"));
        stated.unwrap_or_else(|| {
            let (skew, kurtosis) = (self.policy.assumed_skew, self.policy.assumed_kurtosis);
            row.miss("moments");
            row.say(format!("Skew {skew} and kurtosis {kurtosis} are assumed."));
            (number(*skew), number(*kurtosis))
        })
    }

    /// Returns the number of configurations that were tried: the largest of the stated number, the
    /// number sent, and the gate's own count.
    pub(super) fn trials(&self, row: &mut Row, at_least: u32) -> Option<f64> {
        let stated = self.metrics.value("n_trials");
        if stated.is_none() {
            row.miss("n_trials");
        }
        let sent = [self.metrics.trial_sharpes.len(), self.columns()];
        let sent = sent
            .into_iter()
            .max()
            .filter(|count| *count > 0)
            .map(units::length);
        let counted = Some(f64::from(at_least)).filter(|_| at_least > 0);
        let trials = [stated, sent, counted]
            .into_iter()
            .flatten()
            .max_by(f64::total_cmp);
        if let Some((trials, stated)) = trials
            .zip(stated)
            .filter(|(trials, stated)| trials > stated)
        {
            row.say(format!("{stated} trials are stated; {trials} are known."));
        }
        trials
    }

    fn columns(&self) -> usize {
        self.trial_returns
            .as_ref()
            .and_then(|sent| sent.as_ref().ok())
            .map_or(0, Vec::len)
    }

    /// Returns the variance of the trials' annual Sharpe ratios: the largest positive one from the
    /// data sent; otherwise the sampling variance of worthless trials, `1/y`, with a note.
    pub(super) fn trial_variance(&self, row: &mut Row, years: f64, periods: f64) -> Option<f64> {
        let matrix = self
            .trial_returns
            .as_ref()
            .and_then(|sent| sent.as_ref().ok());
        let of_matrix = matrix.and_then(|configurations| {
            let sharpes: Vec<f64> = configurations
                .iter()
                .filter_map(|c| Some(Moments::of(c)?.sharpe()))
                .collect();
            Some(units::product(series::variance(&sharpes)?, periods))
        });
        let filed = series::variance(&self.metrics.trial_sharpes);
        // Trials without any spread are one trial under many names; the best of them must not pass
        // for skill.
        let spread = [of_matrix, filed]
            .into_iter()
            .flatten()
            .filter(|variance| *variance > 0.0);
        spread.max_by(f64::total_cmp).or_else(|| {
            row.miss("trial_sharpes");
            row.say(
                "The trials' Sharpe ratios are taken to vary by 1/years, as those of worthless \
                    tries do.",
            );
            units::ratio(1.0, years)
        })
    }
}
