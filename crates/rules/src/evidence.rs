//! `evidence:` in `council/roles.yaml`: every threshold of the computed evidence.
//! `docs/council-evidence.md` gives sources and reasons.

use serde::Deserialize;

use spoolgate_wire::amount::{self, Amount};
use spoolgate_wire::council::ChangeType;

/// Every threshold and assumption of the evidence roles. Levels and shares are fractions (0.05 is
/// 5%), Sharpe ratios are annual, and moments are of returns per period. Members that are left out
/// have the value of [`Default`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EvidencePolicy {
    /// Changes on which the evidence roles vote by computation. The other changes make no claims
    /// that could be computed.
    pub computed_for: Vec<ChangeType>,
    /// Inputs that may be missing without leaving a question open; names as in
    /// [`EvidencePolicy::INPUTS`].
    pub optional_inputs: Vec<String>,
    /// Years that a track record is assumed to span if the request states none; the answer says so.
    #[serde(deserialize_with = "amount::yaml::required")]
    #[schemars(schema_with = "spoolgate_wire::schema::amount")]
    pub assumed_years: Amount,
    /// Periods per year that are assumed if the request states none.
    #[serde(deserialize_with = "amount::yaml::required")]
    #[schemars(schema_with = "spoolgate_wire::schema::amount")]
    pub assumed_periods_per_year: Amount,
    /// Skew of the returns if the request has neither the skew nor the returns.
    #[serde(deserialize_with = "amount::yaml::required")]
    #[schemars(schema_with = "spoolgate_wire::schema::amount")]
    pub assumed_skew: Amount,
    /// Non-excess kurtosis of the returns if the request has neither the kurtosis nor the returns.
    #[serde(deserialize_with = "amount::yaml::required")]
    #[schemars(schema_with = "spoolgate_wire::schema::amount")]
    pub assumed_kurtosis: Amount,
    /// Prior mean of true annual Sharpe ratios.
    #[serde(deserialize_with = "amount::yaml::required")]
    #[schemars(schema_with = "spoolgate_wire::schema::amount")]
    pub sharpe_prior_mean: Amount,
    /// Prior standard deviation of true annual Sharpe ratios.
    #[serde(deserialize_with = "amount::yaml::required")]
    #[schemars(schema_with = "spoolgate_wire::schema::amount")]
    pub sharpe_prior_sd: Amount,
    /// RC-02: probability below which a Sharpe ratio is implausible (major).
    #[serde(deserialize_with = "amount::yaml::required")]
    #[schemars(schema_with = "spoolgate_wire::schema::amount")]
    pub implausible_p: Amount,
    /// RC-02: probability below which a Sharpe ratio is doubtful (minor).
    #[serde(deserialize_with = "amount::yaml::required")]
    #[schemars(schema_with = "spoolgate_wire::schema::amount")]
    pub doubtful_p: Amount,
    /// RC-03: relative difference that figures which follow from each other may have.
    #[serde(deserialize_with = "amount::yaml::required")]
    #[schemars(schema_with = "spoolgate_wire::schema::amount")]
    pub agreement_slack: Amount,
    /// RC-03: largest annual volatility whose drag may explain a loss despite a positive Sharpe
    /// ratio, as a fraction.
    #[serde(deserialize_with = "amount::yaml::required")]
    #[schemars(schema_with = "spoolgate_wire::schema::amount")]
    pub vol_drag_max: Amount,
    /// RC-04: share by which log growth may exceed half of the squared Sharpe ratio.
    #[serde(deserialize_with = "amount::yaml::required")]
    #[schemars(schema_with = "spoolgate_wire::schema::amount")]
    pub growth_slack: Amount,
    /// RC-04: probability below which a drawdown is too small for the other figures.
    #[serde(deserialize_with = "amount::yaml::required")]
    #[schemars(schema_with = "spoolgate_wire::schema::amount")]
    pub drawdown_p: Amount,
    /// RC-05: level of Wilson's two-sided interval.
    #[serde(deserialize_with = "amount::yaml::required")]
    #[schemars(schema_with = "spoolgate_wire::schema::amount")]
    pub interval_alpha: Amount,
    /// RC-05: break-even win rate that is assumed if no payoff ratio is stated, as a fraction.
    #[serde(deserialize_with = "amount::yaml::required")]
    #[schemars(schema_with = "spoolgate_wire::schema::amount")]
    pub break_even: Amount,
    /// RC-07: how many times the edge of a trade must exceed its cost.
    #[serde(deserialize_with = "amount::yaml::required")]
    #[schemars(schema_with = "spoolgate_wire::schema::amount")]
    pub cost_multiple: Amount,
    /// RC-08: smallest standard deviation of simulated Sharpe ratios, as a share of the
    /// sampling error.
    #[serde(deserialize_with = "amount::yaml::required")]
    #[schemars(schema_with = "spoolgate_wire::schema::amount")]
    pub monte_carlo_sd_share: Amount,
    /// RC-09: p-value below which autocorrelation counts, if the first one is positive.
    #[serde(deserialize_with = "amount::yaml::required")]
    #[schemars(schema_with = "spoolgate_wire::schema::amount")]
    pub smoothing_p: Amount,
    /// RC-09: smallest ratio of the adjusted to the plain Sharpe ratio.
    #[serde(deserialize_with = "amount::yaml::required")]
    #[schemars(schema_with = "spoolgate_wire::schema::amount")]
    pub smoothing_share: Amount,
    /// RC-10: share by which a recomputed figure may differ, beyond rounding.
    #[serde(deserialize_with = "amount::yaml::required")]
    #[schemars(schema_with = "spoolgate_wire::schema::amount")]
    pub recompute_slack: Amount,
    /// QR-01: t-statistic below which the check is a blocker.
    #[serde(deserialize_with = "amount::yaml::required")]
    #[schemars(schema_with = "spoolgate_wire::schema::amount")]
    pub t_reject: Amount,
    /// QR-01: t-statistic below which the check is a major weakness.
    #[serde(deserialize_with = "amount::yaml::required")]
    #[schemars(schema_with = "spoolgate_wire::schema::amount")]
    pub t_hurdle: Amount,
    /// QR-02: smallest probabilistic Sharpe ratio.
    #[serde(deserialize_with = "amount::yaml::required")]
    #[schemars(schema_with = "spoolgate_wire::schema::amount")]
    pub psr_min: Amount,
    /// QR-03: deflated Sharpe ratio below which the check is a blocker.
    #[serde(deserialize_with = "amount::yaml::required")]
    #[schemars(schema_with = "spoolgate_wire::schema::amount")]
    pub dsr_reject: Amount,
    /// QR-03: deflated Sharpe ratio below which the check is a major weakness.
    #[serde(deserialize_with = "amount::yaml::required")]
    #[schemars(schema_with = "spoolgate_wire::schema::amount")]
    pub dsr_min: Amount,
    /// QR-04: level of the minimum track record length.
    #[serde(deserialize_with = "amount::yaml::required")]
    #[schemars(schema_with = "spoolgate_wire::schema::amount")]
    pub track_record_alpha: Amount,
    /// QR-04: annual Sharpe ratio that the track record must exceed.
    #[serde(deserialize_with = "amount::yaml::required")]
    #[schemars(schema_with = "spoolgate_wire::schema::amount")]
    pub benchmark_sharpe: Amount,
    /// QR-06: smallest annual Sharpe ratio after the haircut.
    #[serde(deserialize_with = "amount::yaml::required")]
    #[schemars(schema_with = "spoolgate_wire::schema::amount")]
    pub haircut_min: Amount,
    /// QR-07: probability of overfitting from which on the check is a blocker.
    #[serde(deserialize_with = "amount::yaml::required")]
    #[schemars(schema_with = "spoolgate_wire::schema::amount")]
    pub pbo_reject: Amount,
    /// QR-07: probability of overfitting above which the check is a major weakness.
    #[serde(deserialize_with = "amount::yaml::required")]
    #[schemars(schema_with = "spoolgate_wire::schema::amount")]
    pub pbo_max: Amount,
    /// QR-08: probability below which the drop out of sample is a blocker.
    #[serde(deserialize_with = "amount::yaml::required")]
    #[schemars(schema_with = "spoolgate_wire::schema::amount")]
    pub drop_reject_p: Amount,
    /// QR-08: probability below which the drop out of sample is a major weakness.
    #[serde(deserialize_with = "amount::yaml::required")]
    #[schemars(schema_with = "spoolgate_wire::schema::amount")]
    pub drop_p: Amount,
    /// QR-10: quantile of the bootstrapped Sharpe ratios that must be above 0.
    #[serde(deserialize_with = "amount::yaml::required")]
    #[schemars(schema_with = "spoolgate_wire::schema::amount")]
    pub bootstrap_quantile: Amount,
    /// RC-09: number of lags of the Ljung-Box test.
    pub smoothing_lags: u32,
    /// QR-07: number of blocks of the cross-validation; even. Large matrices get fewer blocks.
    pub pbo_blocks: u32,
    /// QR-09: number of out-of-sample trades below which the check is a blocker.
    pub trades_reject: u32,
    /// QR-09: number of out-of-sample trades below which the check is a minor weakness.
    pub trades_min: u32,
    /// QR-10: number of samples.
    pub bootstrap_samples: u32,
    /// QR-10: seed of the random number generator.
    pub bootstrap_seed: u64,
}

impl Default for EvidencePolicy {
    fn default() -> EvidencePolicy {
        EvidencePolicy {
            computed_for: vec![ChangeType::DeclarePass],
            optional_inputs: Vec::new(),
            assumed_years: exact("1"),
            assumed_periods_per_year: exact("252"),
            assumed_skew: exact("-0.3"),
            assumed_kurtosis: exact("5"),
            sharpe_prior_mean: exact("0.5"),
            sharpe_prior_sd: exact("0.75"),
            implausible_p: exact("0.001"),
            doubtful_p: exact("0.01"),
            agreement_slack: exact("0.05"),
            vol_drag_max: exact("1"),
            growth_slack: exact("0.1"),
            drawdown_p: exact("0.001"),
            interval_alpha: exact("0.05"),
            break_even: exact("0.5"),
            cost_multiple: exact("2"),
            monte_carlo_sd_share: exact("0.5"),
            smoothing_p: exact("0.01"),
            smoothing_share: exact("0.9"),
            recompute_slack: exact("0.005"),
            t_reject: exact("2"),
            t_hurdle: exact("3"),
            psr_min: exact("0.95"),
            dsr_reject: exact("0.5"),
            dsr_min: exact("0.95"),
            track_record_alpha: exact("0.05"),
            benchmark_sharpe: exact("0"),
            haircut_min: exact("0.5"),
            pbo_reject: exact("0.5"),
            pbo_max: exact("0.1"),
            drop_reject_p: exact("0.001"),
            drop_p: exact("0.05"),
            bootstrap_quantile: exact("0.05"),
            smoothing_lags: 10,
            pbo_blocks: 16,
            trades_reject: 30,
            trades_min: 100,
            bootstrap_samples: 1000,
            bootstrap_seed: 20_251_209,
        }
    }
}

/// Parses a literal of this file; the tests of the default values detect an invalid one.
fn exact(text: &str) -> Amount {
    Amount::parse_exact(text).unwrap_or(Amount::ZERO)
}

impl EvidencePolicy {
    /// Names of the inputs that an evidence role may find missing.
    pub const INPUTS: [&'static str; 20] = [
        "total_return",
        "sharpe",
        "max_dd",
        "oos_win_rate",
        "years",
        "periods_per_year",
        "moments",
        "payoff_ratio",
        "oos_trades",
        "n_trials",
        "trial_sharpes",
        "cost_per_trade",
        "edge_per_trade",
        "in_sample",
        "in_sample_sharpe",
        "dates",
        "monte_carlo_stats",
        "validation_report",
        "returns",
        "trial_returns",
    ];

    /// Returns whether the evidence roles vote by computation on this change.
    pub fn computes(&self, change: ChangeType) -> bool {
        self.computed_for.contains(&change)
    }

    /// Returns whether this input may be missing.
    pub fn is_optional(&self, input: &str) -> bool {
        self.optional_inputs.iter().any(|name| name == input)
    }

    /// Checks ranges and order of the thresholds.
    ///
    /// # Errors
    /// Returns one line with the member, its value and what it may be.
    pub fn check(&self) -> Result<(), String> {
        if let Some(name) = self
            .optional_inputs
            .iter()
            .find(|name| !Self::INPUTS.contains(&name.as_str()))
        {
            return Err(format!(
                "optional_inputs: `{name}` is no input; they are {}",
                Self::INPUTS.join(", ")
            ));
        }
        for (name, value, least, most) in self.decimals() {
            if value < exact(least) || value > exact(most) {
                return Err(format!("{name}: {value} is not within {least} and {most}"));
            }
        }
        for (name, value, least, most) in self.counts() {
            if !(least..=most).contains(&value) {
                return Err(format!("{name}: {value} is not within {least} and {most}"));
            }
        }
        if !self.pbo_blocks.is_multiple_of(2) {
            return Err(format!(
                "pbo_blocks: {} is odd; the blocks are halved",
                self.pbo_blocks
            ));
        }
        let ordered = [
            (
                "implausible_p",
                self.implausible_p,
                "doubtful_p",
                self.doubtful_p,
            ),
            ("t_reject", self.t_reject, "t_hurdle", self.t_hurdle),
            ("dsr_reject", self.dsr_reject, "dsr_min", self.dsr_min),
            ("pbo_max", self.pbo_max, "pbo_reject", self.pbo_reject),
            ("drop_reject_p", self.drop_reject_p, "drop_p", self.drop_p),
        ];
        if let Some((small, a, large, b)) = ordered.into_iter().find(|(_, a, _, b)| a > b) {
            return Err(format!("{small}: {a} is above {large}, which is {b}"));
        }
        if self.trades_reject > self.trades_min {
            return Err(format!(
                "trades_reject: {} is above trades_min, which is {}",
                self.trades_reject, self.trades_min
            ));
        }
        let square = self
            .assumed_skew
            .checked_mul(self.assumed_skew)
            .and_then(|square| square.checked_add(Amount::ONE));
        if square.is_none_or(|least| self.assumed_kurtosis < least) {
            return Err("assumed_kurtosis: no returns have a kurtosis below 1 + skew^2".to_owned());
        }
        Ok(())
    }

    fn decimals(&self) -> [(&'static str, Amount, &'static str, &'static str); 32] {
        [
            ("assumed_years", self.assumed_years, "0.01", "100"),
            (
                "assumed_periods_per_year",
                self.assumed_periods_per_year,
                "1",
                "1000000",
            ),
            ("assumed_skew", self.assumed_skew, "-50", "50"),
            ("assumed_kurtosis", self.assumed_kurtosis, "1", "5000"),
            ("sharpe_prior_mean", self.sharpe_prior_mean, "-2", "5"),
            ("sharpe_prior_sd", self.sharpe_prior_sd, "0.01", "10"),
            ("implausible_p", self.implausible_p, "0", "1"),
            ("doubtful_p", self.doubtful_p, "0", "1"),
            ("agreement_slack", self.agreement_slack, "0", "1"),
            ("vol_drag_max", self.vol_drag_max, "0", "100"),
            ("growth_slack", self.growth_slack, "0", "10"),
            ("drawdown_p", self.drawdown_p, "0", "1"),
            ("interval_alpha", self.interval_alpha, "0.000001", "0.5"),
            ("break_even", self.break_even, "0.01", "0.99"),
            ("cost_multiple", self.cost_multiple, "0", "1000"),
            ("monte_carlo_sd_share", self.monte_carlo_sd_share, "0", "10"),
            ("smoothing_p", self.smoothing_p, "0", "1"),
            ("smoothing_share", self.smoothing_share, "0", "1"),
            ("recompute_slack", self.recompute_slack, "0", "1"),
            ("t_reject", self.t_reject, "0", "100"),
            ("t_hurdle", self.t_hurdle, "0", "100"),
            ("psr_min", self.psr_min, "0", "1"),
            ("dsr_reject", self.dsr_reject, "0", "1"),
            ("dsr_min", self.dsr_min, "0", "1"),
            (
                "track_record_alpha",
                self.track_record_alpha,
                "0.000001",
                "0.5",
            ),
            ("benchmark_sharpe", self.benchmark_sharpe, "-10", "10"),
            ("haircut_min", self.haircut_min, "-10", "10"),
            ("pbo_reject", self.pbo_reject, "0", "1"),
            ("pbo_max", self.pbo_max, "0", "1"),
            ("drop_reject_p", self.drop_reject_p, "0", "1"),
            ("drop_p", self.drop_p, "0", "1"),
            (
                "bootstrap_quantile",
                self.bootstrap_quantile,
                "0.001",
                "0.5",
            ),
        ]
    }

    fn counts(&self) -> [(&'static str, u32, u32, u32); 5] {
        [
            ("smoothing_lags", self.smoothing_lags, 1, 100),
            ("pbo_blocks", self.pbo_blocks, 2, 16),
            ("trades_reject", self.trades_reject, 0, 1000000),
            ("trades_min", self.trades_min, 0, 1000000),
            ("bootstrap_samples", self.bootstrap_samples, 100, 2000),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml;

    fn read(text: &str) -> Result<EvidencePolicy, String> {
        let policy: EvidencePolicy =
            yaml::read("council/roles.yaml", text).map_err(|error| error.to_string())?;
        policy.check().map(|()| policy)
    }

    #[test]
    fn nothing_written_is_the_default_and_the_default_is_in_order() {
        assert_eq!(read("{}").unwrap(), EvidencePolicy::default());
        let policy = EvidencePolicy::default();
        assert_eq!(policy.assumed_skew.to_string(), "-0.3");
        assert_eq!(policy.implausible_p.to_string(), "0.001");
        assert_eq!(policy.assumed_years, Amount::ONE);
    }

    #[test]
    fn what_is_out_of_range_or_unknown_is_refused_by_name() {
        let refused = [
            ("t_hurdel: 3", "t_hurdel"),
            ("t_hurdle: 1", "t_reject: 2 is above t_hurdle, which is 1"),
            ("psr_min: 1.01", "psr_min: 1.01 is not within 0 and 1"),
            ("psr_min: .nan", "not an amount"),
            ("psr_min: 1e-1", "not an amount"),
            ("psr_min: null", "not an amount"),
            (
                "bootstrap_samples: 99",
                "bootstrap_samples: 99 is not within 100 and 2000",
            ),
            ("bootstrap_samples: 2001", "bootstrap_samples: 2001"),
            ("pbo_blocks: 15", "odd"),
            ("trades_reject: 101", "trades_reject"),
            ("assumed_kurtosis: 1.08", "kurtosis"),
            ("optional_inputs: [luck]", "luck"),
            ("computed_for: [MERGE]", "MERGE"),
        ];
        for (text, told) in refused {
            let error = read(text).unwrap_err();
            assert!(error.contains(told), "{text}: {error}");
        }
        let kept =
            read("pbo_max: 0.05\noptional_inputs: [returns]\nassumed_kurtosis: 1.09").unwrap();
        assert_eq!(kept.pbo_max.to_string(), "0.05");
        assert!(kept.is_optional("returns") && !kept.is_optional("years"));
        assert!(kept.computes(ChangeType::DeclarePass) && !kept.computes(ChangeType::FreezeSpec));
    }
}
