//! Whether an annual Sharpe ratio is too good, and conversion of figures in percent into the
//! quantities of the formulas.

use libm::{exp, log1p, sqrt};

use super::special::{finite, normal_sf};

/// An observed ratio in the light of a prior belief; all values are annual.
#[derive(Clone, Copy, Debug)]
pub struct Plausibility {
    /// Standard deviations above the prior's prediction.
    pub z: f64,
    /// Prior-predictive probability of at least this ratio, Box 1980.
    pub p: f64,
    /// The ratio shrunk towards the prior.
    pub posterior_mean: f64,
    /// Standard deviation of the posterior.
    pub posterior_sd: f64,
}

/// Computes the plausibility of an observed annual ratio over `years` with `periods` per year, if
/// true ratios are normal around `prior_mean` with `prior_sd`: `z = (S - m0)/sqrt(t0^2 + (1 +
/// m0^2/2q)/y)`, `p = 1 - Phi(z)`; the sampling variance is taken at the prior mean. `None` unless
/// years, periods and prior_sd are above 0.
pub fn sharpe_plausibility(
    annual: f64,
    years: f64,
    periods: f64,
    prior_mean: f64,
    prior_sd: f64,
) -> Option<Plausibility> {
    if !(years > 0.0 && periods > 0.0 && prior_sd > 0.0) {
        return None;
    }
    let sampling = (1.0 + prior_mean * prior_mean / (2.0 * periods)) / years;
    let prior = prior_sd * prior_sd;
    let z = finite((annual - prior_mean) / sqrt(prior + sampling))?;
    let weight = prior / (prior + sampling);
    Some(Plausibility {
        z,
        p: normal_sf(z),
        posterior_mean: finite(prior_mean + weight * (annual - prior_mean))?,
        posterior_sd: finite(sqrt(weight * sampling))?,
    })
}

/// Computes z and the one-sided p-value of an in-sample over an out-of-sample annual ratio:
/// `(S_is - S_oos)/sqrt(1/y_is + 1/y_oos)`. `None` unless both spans are above 0.
pub fn sharpe_drop(
    inside: f64,
    years_inside: f64,
    outside: f64,
    years_outside: f64,
) -> Option<(f64, f64)> {
    if !(years_inside > 0.0 && years_outside > 0.0) {
        return None;
    }
    let z = finite((inside - outside) / sqrt(1.0 / years_inside + 1.0 / years_outside))?;
    Some((z, normal_sf(z)))
}

/// Computes the log growth per year of a total return in percent: `ln(1 + R)/y`. `None` unless R >
/// -100 and years > 0.
pub fn log_growth(total_return_pct: f64, years: f64) -> Option<f64> {
    (total_return_pct > -100.0 && years > 0.0)
        .then(|| log1p(total_return_pct / 100.0) / years)
        .and_then(finite)
}

/// Computes the compound annual growth in percent: `100 ((1 + R)^(1/y) - 1)`. Same domain as
/// [`log_growth`].
pub fn cagr_pct(total_return_pct: f64, years: f64) -> Option<f64> {
    finite(100.0 * (exp(log_growth(total_return_pct, years)?) - 1.0))
}

/// Computes the Calmar ratio: compound annual growth over the size of the largest drawdown, both in
/// percent. `None` without a drawdown.
pub fn calmar(cagr_pct: f64, max_drawdown_pct: f64) -> Option<f64> {
    (max_drawdown_pct.abs() > 0.0)
        .then(|| cagr_pct / max_drawdown_pct.abs())
        .and_then(finite)
}

/// Converts a drawdown in percent, of either sign, to log terms: `-ln(1 - |DD|)`. `None` at 100 %
/// and beyond.
pub fn log_drawdown(max_drawdown_pct: f64) -> Option<f64> {
    let size = max_drawdown_pct.abs();
    (size < 100.0)
        .then(|| -log1p(-size / 100.0))
        .and_then(finite)
}
