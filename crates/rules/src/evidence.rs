//! `evidence:` in `council/roles.yaml`: every threshold of the computed evidence.
//! `docs/council-evidence.md` gives sources and reasons.

use serde::Deserialize;

use super::bounds::{Bounded, ONE, Share, Within};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::council::ChangeType;

/// Why the thresholds contradict each other.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EvidenceError {
    #[error(
        "optional_inputs: `{}` is no input; they are {}",
        .0,
        EvidencePolicy::INPUTS.join(", ")
    )]
    UnknownInput(String),
    #[error("pbo_blocks: {0} is odd; the blocks are halved")]
    OddBlocks(u32),
    /// The smaller of two thresholds is the larger one: its name and value, then the other's.
    #[error("{0}: {1} is above {2}, which is {3}")]
    Order(&'static str, Amount, &'static str, Amount),
    #[error("assumed_kurtosis: no returns have a kurtosis below 1 + skew^2")]
    Kurtosis,
}

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
    pub assumed_years: Within<{ ONE / 100 }, { 100 * ONE }>,
    /// Periods per year that are assumed if the request states none.
    pub assumed_periods_per_year: Within<ONE, { 1_000_000 * ONE }>,
    /// Skew of the returns if the request has neither the skew nor the returns.
    pub assumed_skew: Within<{ -50 * ONE }, { 50 * ONE }>,
    /// Non-excess kurtosis of the returns if the request has neither the kurtosis nor the returns.
    pub assumed_kurtosis: Within<ONE, { 5000 * ONE }>,
    /// Prior mean of true annual Sharpe ratios.
    pub sharpe_prior_mean: Within<{ -2 * ONE }, { 5 * ONE }>,
    /// Prior standard deviation of true annual Sharpe ratios.
    pub sharpe_prior_sd: Within<{ ONE / 100 }, { 10 * ONE }>,
    /// RC-02: probability below which a Sharpe ratio is implausible (major).
    pub implausible_p: Share,
    /// RC-02: probability below which a Sharpe ratio is doubtful (minor).
    pub doubtful_p: Share,
    /// RC-03: relative difference that figures which follow from each other may have.
    pub agreement_slack: Share,
    /// RC-03: largest annual volatility whose drag may explain a loss despite a positive Sharpe
    /// ratio, as a fraction.
    pub vol_drag_max: Within<0, { 100 * ONE }>,
    /// RC-04: share by which log growth may exceed half of the squared Sharpe ratio.
    pub growth_slack: Within<0, { 10 * ONE }>,
    /// RC-04: probability below which a drawdown is too small for the other figures.
    pub drawdown_p: Share,
    /// RC-05: level of Wilson's two-sided interval.
    pub interval_alpha: Within<{ ONE / 1_000_000 }, { ONE / 2 }>,
    /// RC-05: break-even win rate that is assumed if no payoff ratio is stated, as a fraction.
    pub break_even: Within<{ ONE / 100 }, { ONE / 100 * 99 }>,
    /// RC-07: how many times the edge of a trade must exceed its cost.
    pub cost_multiple: Within<0, { 1000 * ONE }>,
    /// RC-08: smallest standard deviation of simulated Sharpe ratios, as a share of the
    /// sampling error.
    pub monte_carlo_sd_share: Within<0, { 10 * ONE }>,
    /// RC-09: p-value below which autocorrelation counts, if the first one is positive.
    pub smoothing_p: Share,
    /// RC-09: smallest ratio of the adjusted to the plain Sharpe ratio.
    pub smoothing_share: Share,
    /// RC-10: share by which a recomputed figure may differ, beyond rounding.
    pub recompute_slack: Share,
    /// QR-01: t-statistic below which the check is a blocker.
    pub t_reject: Within<0, { 100 * ONE }>,
    /// QR-01: t-statistic below which the check is a major weakness.
    pub t_hurdle: Within<0, { 100 * ONE }>,
    /// QR-02: smallest probabilistic Sharpe ratio.
    pub psr_min: Share,
    /// QR-03: deflated Sharpe ratio below which the check is a blocker.
    pub dsr_reject: Share,
    /// QR-03: deflated Sharpe ratio below which the check is a major weakness.
    pub dsr_min: Share,
    /// QR-04: level of the minimum track record length.
    pub track_record_alpha: Within<{ ONE / 1_000_000 }, { ONE / 2 }>,
    /// QR-04: annual Sharpe ratio that the track record must exceed.
    pub benchmark_sharpe: Within<{ -10 * ONE }, { 10 * ONE }>,
    /// QR-06: smallest annual Sharpe ratio after the haircut.
    pub haircut_min: Within<{ -10 * ONE }, { 10 * ONE }>,
    /// QR-07: probability of overfitting from which on the check is a blocker.
    pub pbo_reject: Share,
    /// QR-07: probability of overfitting above which the check is a major weakness.
    pub pbo_max: Share,
    /// QR-08: probability below which the drop out of sample is a blocker.
    pub drop_reject_p: Share,
    /// QR-08: probability below which the drop out of sample is a major weakness.
    pub drop_p: Share,
    /// QR-10: quantile of the bootstrapped Sharpe ratios that must be above 0.
    pub bootstrap_quantile: Within<{ ONE / 1_000 }, { ONE / 2 }>,
    /// RC-09: number of lags of the Ljung-Box test.
    pub smoothing_lags: Bounded<1, 100>,
    /// QR-07: number of blocks of the cross-validation; even. Large matrices get fewer blocks.
    pub pbo_blocks: Bounded<2, 16>,
    /// QR-09: number of out-of-sample trades below which the check is a blocker.
    pub trades_reject: Bounded<0, 1_000_000>,
    /// QR-09: number of out-of-sample trades below which the check is a minor weakness.
    pub trades_min: Bounded<0, 1_000_000>,
    /// QR-10: number of samples.
    pub bootstrap_samples: Bounded<100, 2000>,
    /// QR-10: seed of the random number generator.
    pub bootstrap_seed: u64,
}

impl Default for EvidencePolicy {
    fn default() -> EvidencePolicy {
        EvidencePolicy {
            computed_for: vec![ChangeType::DeclarePass],
            optional_inputs: Vec::new(),
            assumed_years: Within::usual::<ONE>(),
            assumed_periods_per_year: Within::usual::<{ 252 * ONE }>(),
            assumed_skew: Within::usual::<{ -3 * ONE / 10 }>(),
            assumed_kurtosis: Within::usual::<{ 5 * ONE }>(),
            sharpe_prior_mean: Within::usual::<{ 5 * ONE / 10 }>(),
            sharpe_prior_sd: Within::usual::<{ 75 * ONE / 100 }>(),
            implausible_p: Within::usual::<{ ONE / 1_000 }>(),
            doubtful_p: Within::usual::<{ ONE / 100 }>(),
            agreement_slack: Within::usual::<{ 5 * ONE / 100 }>(),
            vol_drag_max: Within::usual::<ONE>(),
            growth_slack: Within::usual::<{ ONE / 10 }>(),
            drawdown_p: Within::usual::<{ ONE / 1_000 }>(),
            interval_alpha: Within::usual::<{ 5 * ONE / 100 }>(),
            break_even: Within::usual::<{ 5 * ONE / 10 }>(),
            cost_multiple: Within::usual::<{ 2 * ONE }>(),
            monte_carlo_sd_share: Within::usual::<{ 5 * ONE / 10 }>(),
            smoothing_p: Within::usual::<{ ONE / 100 }>(),
            smoothing_share: Within::usual::<{ 9 * ONE / 10 }>(),
            recompute_slack: Within::usual::<{ 5 * ONE / 1_000 }>(),
            t_reject: Within::usual::<{ 2 * ONE }>(),
            t_hurdle: Within::usual::<{ 3 * ONE }>(),
            psr_min: Within::usual::<{ 95 * ONE / 100 }>(),
            dsr_reject: Within::usual::<{ 5 * ONE / 10 }>(),
            dsr_min: Within::usual::<{ 95 * ONE / 100 }>(),
            track_record_alpha: Within::usual::<{ 5 * ONE / 100 }>(),
            benchmark_sharpe: Within::usual::<0>(),
            haircut_min: Within::usual::<{ 5 * ONE / 10 }>(),
            pbo_reject: Within::usual::<{ 5 * ONE / 10 }>(),
            pbo_max: Within::usual::<{ ONE / 10 }>(),
            drop_reject_p: Within::usual::<{ ONE / 1_000 }>(),
            drop_p: Within::usual::<{ 5 * ONE / 100 }>(),
            bootstrap_quantile: Within::usual::<{ 5 * ONE / 100 }>(),
            smoothing_lags: Bounded::usual::<10>(),
            pbo_blocks: Bounded::usual::<16>(),
            trades_reject: Bounded::usual::<30>(),
            trades_min: Bounded::usual::<100>(),
            bootstrap_samples: Bounded::usual::<1000>(),
            bootstrap_seed: 20_251_209,
        }
    }
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

    /// Checks what the types of the members leave open, such as the order of thresholds.
    ///
    /// # Errors
    /// Returns [`EvidenceError`] for the first members that do not fit together.
    pub(crate) fn check(&self) -> Result<(), EvidenceError> {
        if let Some(name) = self
            .optional_inputs
            .iter()
            .find(|name| !Self::INPUTS.contains(&name.as_str()))
        {
            return Err(EvidenceError::UnknownInput(name.clone()));
        }
        if !self.pbo_blocks.is_multiple_of(2) {
            return Err(EvidenceError::OddBlocks(self.pbo_blocks.get()));
        }
        let trades = |count: Bounded<0, 1_000_000>| Amount::from_i64(count.get().into());
        let ordered = [
            (
                "implausible_p",
                *self.implausible_p,
                "doubtful_p",
                *self.doubtful_p,
            ),
            ("t_reject", *self.t_reject, "t_hurdle", *self.t_hurdle),
            ("dsr_reject", *self.dsr_reject, "dsr_min", *self.dsr_min),
            ("pbo_max", *self.pbo_max, "pbo_reject", *self.pbo_reject),
            ("drop_reject_p", *self.drop_reject_p, "drop_p", *self.drop_p),
            (
                "trades_reject",
                trades(self.trades_reject),
                "trades_min",
                trades(self.trades_min),
            ),
        ];
        if let Some((small, a, large, b)) = ordered.into_iter().find(|(_, a, _, b)| a > b) {
            return Err(EvidenceError::Order(small, a, large, b));
        }
        let square = self
            .assumed_skew
            .checked_mul(*self.assumed_skew)
            .and_then(|square| square.checked_add(Amount::ONE));
        if square.is_none_or(|least| *self.assumed_kurtosis < least) {
            return Err(EvidenceError::Kurtosis);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml;

    fn read(text: &str) -> Result<EvidencePolicy, String> {
        let policy: EvidencePolicy =
            yaml::read("council/roles.yaml", text).map_err(|error| error.to_string())?;
        policy.check().map_err(|error| error.to_string())?;
        Ok(policy)
    }

    #[test]
    fn an_empty_file_is_the_default_and_the_default_is_valid() {
        assert_eq!(read("{}").unwrap(), EvidencePolicy::default());
        let policy = EvidencePolicy::default();
        assert_eq!(policy.assumed_skew.to_string(), "-0.3");
        assert_eq!(policy.implausible_p.to_string(), "0.001");
        assert_eq!(*policy.assumed_years, Amount::ONE);
    }

    #[test]
    fn values_out_of_range_and_unknown_names_are_refused() {
        let refused = [
            ("t_hurdel: 3", "t_hurdel"),
            ("t_hurdle: 1", "t_reject: 2 is above t_hurdle, which is 1"),
            (
                "psr_min: 1.01",
                "`psr_min` is `1.01`; use a fraction from 0 to 1",
            ),
            ("psr_min: .nan", "not an amount"),
            ("psr_min: 1e-1", "not an amount"),
            ("psr_min: null", "not an amount"),
            (
                "bootstrap_samples: 99",
                "`bootstrap_samples` is `99`; use a whole number from 100 to 2000",
            ),
            ("bootstrap_samples: 2001", "`bootstrap_samples` is `2001`"),
            ("pbo_blocks: 15", "odd"),
            ("trades_reject: 101", "trades_reject"),
            ("assumed_kurtosis: 1.08", "kurtosis"),
            ("optional_inputs: [luck]", "luck"),
            ("computed_for: [MERGE]", "MERGE"),
        ];
        for (text, expect) in refused {
            let error = read(text).unwrap_err();
            assert!(error.contains(expect), "{text}: {error}");
        }
        let kept =
            read("pbo_max: 0.05\noptional_inputs: [returns]\nassumed_kurtosis: 1.09").unwrap();
        assert_eq!(kept.pbo_max.to_string(), "0.05");
        assert!(kept.is_optional("returns") && !kept.is_optional("years"));
        assert!(kept.computes(ChangeType::DeclarePass) && !kept.computes(ChangeType::FreezeSpec));
    }
}
