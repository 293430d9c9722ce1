//! How much a Sharpe ratio is worth: its error, its annualisation, and the track record or number
//! of trials that it needs.
//!
//! Lower-case sr is per period; `annual` marks a value per year. Kurtosis is non-excess: normal
//! is 3. The formulas are those of 2012 and 2014, with the variance taken at the observed ratio and
//! n - 1; see `revision` for the form of 2025.

use libm::{pow, sqrt};

use super::special::{count, finite, normal_cdf, normal_quantile, normal_upper_quantile};

/// Euler's constant.
const EULER_GAMMA: f64 = 0.577_215_664_901_532_9;

/// Computes the t-statistic of a Sharpe ratio: `t = S sqrt(y)` for an annual ratio and years, which
/// equals `sr sqrt(n)`. Harvey, Liu and Zhu 2016 require more than 3. `None` unless years > 0.
pub fn t_statistic(annual: f64, years: f64) -> Option<f64> {
    (years > 0.0).then(|| annual * sqrt(years)).and_then(finite)
}

/// Computes the standard error of a per-period Sharpe ratio over `n` independent normal returns:
/// `sqrt((1 + sr^2/2)/n)`, Lo 2002. `None` unless n > 0.
pub fn lo_standard_error(sr: f64, n: f64) -> Option<f64> {
    (n > 0.0)
        .then(|| sqrt((1.0 + 0.5 * sr * sr) / n))
        .and_then(finite)
}

/// Computes Lo's factor from a per-period to a `q`-period Sharpe ratio of an AR(1) series, Lo 2002:
/// `sqrt(q) [1 + 2r/(1-r) (1 - (1-r^q)/(q(1-r)))]^-1/2`. `None` unless q >= 1, -1 < r < 1, and the
/// bracket is above 0.
pub fn lo_factor_ar1(q: f64, r: f64) -> Option<f64> {
    if !(q >= 1.0 && q.is_finite() && r > -1.0 && r < 1.0) {
        return None;
    }
    let bracket = 1.0 + 2.0 * r / (1.0 - r) * (1.0 - (1.0 - pow(r, q)) / (q * (1.0 - r)));
    (bracket > 0.0)
        .then(|| sqrt(q) / sqrt(bracket))
        .and_then(finite)
}

/// Computes Lo's factor from measured autocorrelations `rho_1, rho_2, ...`, Lo 2002: `q / sqrt(q +
/// 2 sum_{k<q} (q-k) rho_k)`; autocorrelations beyond the slice count as 0. `None` unless q >= 1
/// and the value under the root is above 0.
pub fn lo_factor(q: u32, autocorrelations: &[f64]) -> Option<f64> {
    let q_value = f64::from(q);
    let mut weight = q_value;
    let mut sum = 0.0;
    for rho in autocorrelations {
        weight -= 1.0;
        if weight <= 0.0 {
            break;
        }
        sum += weight * rho;
    }
    let variance = q_value + 2.0 * sum;
    (q >= 1 && variance > 0.0)
        .then(|| q_value / sqrt(variance))
        .and_then(finite)
}

/// Computes `1 - g3 sr + (g4-1)/4 sr^2` if it is above 0, as it is for the moments of every sample
/// (g4 >= 1 + g3^2).
fn moment_variance(sr: f64, skew: f64, kurtosis: f64) -> Option<f64> {
    let variance = 1.0 - skew * sr + 0.25 * (kurtosis - 1.0) * sr * sr;
    finite(variance).filter(|variance| *variance > 0.0)
}

/// Computes how many standard errors a ratio is above the benchmark: the argument of [`psr`].
pub fn psr_z(sr: f64, benchmark: f64, n: f64, skew: f64, kurtosis: f64) -> Option<f64> {
    if n.is_nan() || n <= 1.0 {
        return None;
    }
    finite((sr - benchmark) * sqrt(n - 1.0) / sqrt(moment_variance(sr, skew, kurtosis)?))
}

/// Computes the probabilistic Sharpe ratio, Bailey and Lopez de Prado 2012: `Phi((sr - sr*)
/// sqrt(n-1) / sqrt(1 - g3 sr + (g4-1)/4 sr^2))`, all per period. `None` unless n > 1 and the
/// variance is above 0.
pub fn psr(sr: f64, benchmark: f64, n: f64, skew: f64, kurtosis: f64) -> Option<f64> {
    psr_z(sr, benchmark, n, skew, kurtosis).map(normal_cdf)
}

/// Computes the expected largest of `trials` independent standard normal values, Bailey and Lopez
/// de Prado 2014: `(1-g) z_{1-1/N} + g z_{1-1/(Ne)}`; 0 for one trial. `None` below one and beyond
/// 1e15.
pub fn expected_max_z(trials: f64) -> Option<f64> {
    if !(1.0..=1e15).contains(&trials) {
        return None;
    }
    if trials <= 1.0 {
        return Some(0.0);
    }
    let first = normal_upper_quantile(1.0 / trials)?;
    let second = normal_upper_quantile(1.0 / (trials * std::f64::consts::E))?;
    finite((1.0 - EULER_GAMMA) * first + EULER_GAMMA * second)
}

/// Computes the expected largest Sharpe ratio of `trials` worthless trials whose ratios have this
/// variance: `sqrt(V)` times [`expected_max_z`], per period or annual like the variance. `None` for
/// a negative variance.
pub fn expected_max_sharpe(trials: f64, variance: f64) -> Option<f64> {
    if variance.is_nan() || variance < 0.0 {
        return None;
    }
    finite(expected_max_z(trials)? * sqrt(variance))
}

/// Computes the deflated Sharpe ratio, Bailey and Lopez de Prado 2014: [`psr`] against
/// [`expected_max_sharpe`], per period.
pub fn dsr(sr: f64, n: f64, skew: f64, kurtosis: f64, trials: f64, variance: f64) -> Option<f64> {
    psr(
        sr,
        expected_max_sharpe(trials, variance)?,
        n,
        skew,
        kurtosis,
    )
}

/// Computes the minimum track record length in observations, unrounded, Bailey and Lopez de Prado
/// 2012: `1 + (1 - g3 sr + (g4-1)/4 sr^2) (z_{1-alpha}/(sr - sr*))^2`, per period. `Some(infinity)`
/// if sr <= sr*: no record is long enough. `None` unless 0 < alpha < 1 and the variance is above 0.
pub fn min_track_record(
    sr: f64,
    benchmark: f64,
    skew: f64,
    kurtosis: f64,
    alpha: f64,
) -> Option<f64> {
    let z = normal_upper_quantile(alpha)?;
    let variance = moment_variance(sr, skew, kurtosis)?;
    if sr.is_nan() || benchmark.is_nan() {
        return None;
    }
    if sr <= benchmark {
        return Some(f64::INFINITY);
    }
    let ratio = z / (sr - benchmark);
    Some(1.0 + variance * ratio * ratio).filter(|n| !n.is_nan())
}

/// Computes the minimum backtest length in years, Bailey, Borwein, Lopez de Prado and Zhu 2014:
/// `(E[max z_N]/S*)^2`, the span over which the best of N worthless trials is expected to show the
/// annual ratio S*. `None` unless S* > 0.
pub fn min_backtest_years(trials: f64, target_annual: f64) -> Option<f64> {
    if target_annual.is_nan() || target_annual <= 0.0 {
        return None;
    }
    let ratio = expected_max_z(trials)? / target_annual;
    finite(ratio * ratio)
}

/// Computes how many worthless trials are expected to show the annual ratio over these years: the
/// largest N up to `most` with [`min_backtest_years`] `<= years`, by bisection. `None` as for
/// [`min_backtest_years`], and if not even one trial fits.
pub fn trials_expected_to_show(target_annual: f64, years: f64, most: u64) -> Option<u64> {
    let fits =
        |trials: u64| min_backtest_years(count(trials), target_annual).map(|least| least <= years);
    let (mut low, mut high) = (1, most.max(1));
    if !fits(low)? {
        return None;
    }
    if fits(high)? {
        return Some(high);
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if fits(middle)? {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some(low)
}

/// Computes `z_{1-alpha}`; `None` unless 0 < alpha < 1.
pub fn critical_z(alpha: f64) -> Option<f64> {
    normal_quantile(alpha).map(|z| -z)
}
