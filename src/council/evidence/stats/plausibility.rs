//! Whether an annual Sharpe ratio is too good, and how figures in percent turn into the quantities of the formulas.

use libm::{exp, log1p, sqrt};

use super::special::{finite, normal_sf};

/// What a prior belief makes of an observed ratio, all annual.
#[derive(Clone, Copy, Debug)]
pub struct Plausibility {
    /// Standard deviations above what the prior predicts.
    pub z: f64,
    /// Prior-predictive probability of at least this ratio, Box 1980.
    pub p: f64,
    /// The ratio shrunk towards the prior.
    pub posterior_mean: f64,
    /// What stays uncertain about it.
    pub posterior_sd: f64,
}

/// Of an observed annual ratio over `years` of `periods` a year, where true ratios are normal around `prior_mean` with
/// `prior_sd`: `z = (S - m0)/sqrt(t0^2 + (1 + m0^2/2q)/y)`, `p = 1 - Phi(z)`; the sampling variance is taken at the prior
/// mean. `None` unless years, periods and prior_sd are above 0.
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

/// z and one-sided p-value of an in-sample over an out-of-sample annual ratio: `(S_is - S_oos)/sqrt(1/y_is + 1/y_oos)`.
/// `None` unless both spans are above 0.
pub fn sharpe_drop(inside: f64, years_inside: f64, outside: f64, years_outside: f64) -> Option<(f64, f64)> {
    if !(years_inside > 0.0 && years_outside > 0.0) {
        return None;
    }
    let z = finite((inside - outside) / sqrt(1.0 / years_inside + 1.0 / years_outside))?;
    Some((z, normal_sf(z)))
}

/// Log growth a year of a total return in percent: `ln(1 + R)/y`. `None` unless R > -100 and years > 0.
pub fn log_growth(total_return_pct: f64, years: f64) -> Option<f64> {
    (total_return_pct > -100.0 && years > 0.0)
        .then(|| log1p(total_return_pct / 100.0) / years)
        .and_then(finite)
}

/// Compound annual growth in percent: `100 ((1 + R)^(1/y) - 1)`. Domain as [`log_growth`].
pub fn cagr_pct(total_return_pct: f64, years: f64) -> Option<f64> {
    finite(100.0 * (exp(log_growth(total_return_pct, years)?) - 1.0))
}

/// Calmar ratio: compound annual growth over the size of the largest drawdown, both in percent. `None` without a
/// drawdown.
pub fn calmar(cagr_pct: f64, max_drawdown_pct: f64) -> Option<f64> {
    (max_drawdown_pct.abs() > 0.0).then(|| cagr_pct / max_drawdown_pct.abs()).and_then(finite)
}

/// A drawdown in percent, of either sign, in log terms: `-ln(1 - |DD|)`. `None` at 100 % and beyond.
pub fn log_drawdown(max_drawdown_pct: f64) -> Option<f64> {
    let size = max_drawdown_pct.abs();
    (size < 100.0).then(|| -log1p(-size / 100.0)).and_then(finite)
}
