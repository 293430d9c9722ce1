//! One series of returns per period, as fractions: moments, drawdown, dependence, block length.

use libm::{cbrt, ceil, fabs, log10, pow, sqrt};

use super::special::{chi_square_sf, finite, length};

/// Maximum length of a series.
pub const PERIODS_MAX: usize = 20_000;

/// Mean and moments of a sample; all per period.
#[derive(Clone, Copy, Debug)]
pub struct Moments {
    /// Observations.
    pub n: f64,
    /// Mean.
    pub mean: f64,
    /// Standard deviation with divisor n - 1, used in every Sharpe ratio here unless stated
    /// otherwise.
    pub sd: f64,
    /// Standard deviation with divisor n.
    pub sd_biased: f64,
    /// `m3 / m2^1.5`, with divisor n.
    pub skew: f64,
    /// `m4 / m2^2`, non-excess, with divisor n.
    pub kurtosis: f64,
}

impl Moments {
    /// Computes the moments of 2 to [`PERIODS_MAX`] finite returns that are not all equal; `None`
    /// otherwise.
    pub fn of(returns: &[f64]) -> Option<Moments> {
        if returns.len() < 2 || returns.len() > PERIODS_MAX || is_constant(returns) {
            return None;
        }
        let n = length(returns.len());
        let mean = mean(returns)?;
        let mut sums = [0.0_f64; 3];
        for value in returns {
            let away = value - mean;
            let square = away * away;
            let [second, third, fourth] = &mut sums;
            *second += square;
            *third += square * away;
            *fourth += square * square;
        }
        let [second, third, fourth] = sums;
        let (m2, m3, m4) = (second / n, third / n, fourth / n);
        let moments = Moments {
            n,
            mean,
            sd: finite(sqrt(second / (n - 1.0)))?,
            sd_biased: sqrt(m2),
            skew: finite(m3 / (m2 * sqrt(m2)))?,
            kurtosis: finite(m4 / (m2 * m2))?,
        };
        (moments.sd > 0.0).then_some(moments)
    }

    /// Returns the Sharpe ratio per period: mean over the standard deviation with divisor n - 1.
    pub fn sharpe(&self) -> f64 {
        self.mean / self.sd
    }

    /// Returns the bias-corrected skew, `sqrt(n(n-1))/(n-2) g1`; `None` below three observations.
    pub fn skew_corrected(&self) -> Option<f64> {
        let n = self.n;
        (n > 2.0).then(|| sqrt(n * (n - 1.0)) / (n - 2.0) * self.skew)
    }

    /// Returns the bias-corrected kurtosis, non-excess: `(n-1)/((n-2)(n-3)) ((n+1) g2 + 6) + 3`
    /// with the excess g2; `None` below four observations.
    pub fn kurtosis_corrected(&self) -> Option<f64> {
        let n = self.n;
        let excess = self.kurtosis - 3.0;
        (n > 3.0).then(|| (n - 1.0) / ((n - 2.0) * (n - 3.0)) * ((n + 1.0) * excess + 6.0) + 3.0)
    }
}

/// Computes the arithmetic mean; `None` for an empty slice.
pub fn mean(values: &[f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    finite(values.iter().sum::<f64>() / length(values.len()))
}

/// Computes the variance with divisor n - 1; `None` below two values.
pub fn variance(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let mean = mean(values)?;
    let sum: f64 = values
        .iter()
        .map(|value| (value - mean) * (value - mean))
        .sum();
    finite(sum / (length(values.len()) - 1.0))
}

/// Whether all values are equal, bit for bit; any deviation computed from them is rounding, not
/// risk.
pub fn is_constant(values: &[f64]) -> bool {
    values.first().is_none_or(|first| {
        values
            .iter()
            .all(|value| value.to_bits() == first.to_bits())
    })
}

/// Computes the compounded return `prod(1 + r) - 1`, and the largest drawdown of the compounded
/// equity from its peak (the start counts), as a fraction of the peak from -1 to 0. `None` for an
/// empty slice, for a return below -1, and if the equity overflows.
pub fn compound(returns: &[f64]) -> Option<(f64, f64)> {
    if returns.is_empty() || returns.iter().any(|value| value.is_nan() || *value < -1.0) {
        return None;
    }
    let (mut equity, mut peak, mut deepest) = (1.0_f64, 1.0_f64, 0.0_f64);
    for value in returns {
        equity *= 1.0 + value;
        peak = peak.max(equity);
        deepest = deepest.min(equity / peak - 1.0);
    }
    Some((finite(equity - 1.0)?, finite(deepest)?))
}

/// Computes the autocovariances `R_0 ... R_lags` with divisor n around the mean. `None` if the
/// series is not longer than `lags`.
pub fn autocovariances(returns: &[f64], lags: usize) -> Option<Vec<f64>> {
    if returns.len() <= lags {
        return None;
    }
    let n = length(returns.len());
    let mean = mean(returns)?;
    let away: Vec<f64> = returns.iter().map(|value| value - mean).collect();
    (0..=lags)
        .map(|lag| {
            finite(
                away.iter()
                    .skip(lag)
                    .zip(&away)
                    .map(|(a, b)| a * b)
                    .sum::<f64>()
                    / n,
            )
        })
        .collect()
}

/// Computes the autocorrelations `rho_1 ... rho_lags`. `None` as for [`autocovariances`], and for a
/// constant series.
pub fn autocorrelations(returns: &[f64], lags: usize) -> Option<Vec<f64>> {
    if is_constant(returns) {
        return None;
    }
    let covariances = autocovariances(returns, lags)?;
    let (first, rest) = covariances.split_first()?;
    (*first > 0.0).then(|| rest.iter().map(|value| value / first).collect())
}

/// Runs the test of Ljung and Box 1978: `Q = n(n+2) sum rho_k^2/(n-k)` over the lags, and its
/// p-value by chi-square with one degree of freedom per lag. `None` as for [`autocorrelations`].
pub fn ljung_box(returns: &[f64], lags: usize) -> Option<(f64, f64)> {
    if lags == 0 {
        return None;
    }
    let n = length(returns.len());
    let sum: f64 = autocorrelations(returns, lags)?
        .iter()
        .zip(1..)
        .map(|(rho, lag)| rho * rho / (n - length(lag)))
        .sum();
    let q = finite(n * (n + 2.0) * sum)?;
    Some((q, chi_square_sf(q, length(lags))?))
}

/// Computes the expected block lengths for the stationary and the circular bootstrap, Politis and
/// White 2004 as corrected by Patton, Politis and White 2009, with the constants of the `arch`
/// package. A result below 1 means 1. `None` below ten observations, above [`PERIODS_MAX`], and for
/// a constant series.
pub fn optimal_block(returns: &[f64]) -> Option<(f64, f64)> {
    if returns.len() < 10 || returns.len() > PERIODS_MAX || is_constant(returns) {
        return None;
    }
    let n = length(returns.len());
    let longest = ceil((3.0 * sqrt(n)).min(n / 3.0));
    // The integer part of log10(n) is below 5 for every permitted length.
    let run = 5;
    let lags = (ceil_root(returns.len()) + run).min(returns.len() - 2);
    let covariances = autocovariances(returns, lags)?;
    let mean = mean(returns)?;
    let significant = 2.0 * sqrt(log10(n) / n);
    let squares: Vec<f64> = returns
        .iter()
        .map(|value| (value - mean) * (value - mean))
        .collect();
    let all: f64 = squares.iter().sum();
    let (mut without_start, mut without_end) = (all, all);
    let (mut quiet, mut first_quiet) = (0, None);
    for (lag, covariance) in covariances.iter().enumerate() {
        if quiet >= run && first_quiet.is_none() {
            first_quiet = Some(lag - run);
        }
        without_start -= squares.get(lag).copied().unwrap_or(0.0);
        without_end -= squares.get(squares.len() - 1 - lag).copied().unwrap_or(0.0);
        let correlation = fabs(covariance * n) / sqrt(without_start * without_end);
        quiet = if correlation < significant {
            quiet + 1
        } else {
            0
        };
    }
    let m = first_quiet.map_or(lags, |lag| (2 * lag.max(1)).min(lags));
    let (mut g, mut long_run) = (0.0, covariances.first().copied()?);
    for (covariance, k) in covariances.iter().skip(1).take(m).zip(1..) {
        let place = length(k) / length(m);
        let weight = if place <= 0.5 {
            1.0
        } else {
            2.0 * (1.0 - place)
        };
        g += 2.0 * weight * length(k) * covariance;
        long_run += 2.0 * weight * covariance;
    }
    let block = |divisor: f64| {
        finite(cbrt(2.0 * g * g / (divisor * long_run * long_run)) * cbrt(n))
            .map(|block| block.min(longest))
    };
    Some((block(2.0)?, block(4.0 / 3.0)?))
}

fn ceil_root(n: usize) -> usize {
    let root = n.isqrt();
    if root * root == n { root } else { root + 1 }
}

/// Computes the variance of `sqrt(n)` times the mean of a stationary bootstrap sample, in closed
/// form, Politis and Romano 1994: `R_0 + 2 sum b_i R_i` with `b_i = (1 - i/n)(1-p)^i +
/// (i/n)(1-p)^{n-i}`; p is one over the expected block length. `None` unless 0 < p <= 1, and for
/// more than [`PERIODS_MAX`] returns.
pub fn stationary_variance(returns: &[f64], p: f64) -> Option<f64> {
    if !(p > 0.0 && p <= 1.0) || returns.is_empty() || returns.len() > PERIODS_MAX {
        return None;
    }
    let n = length(returns.len());
    let covariances = autocovariances(returns, returns.len() - 1)?;
    let (first, rest) = covariances.split_first()?;
    let stay = 1.0 - p;
    let sum: f64 = rest
        .iter()
        .zip(1..)
        .map(|(covariance, i)| {
            let i = length(i);
            ((1.0 - i / n) * pow(stay, i) + i / n * pow(stay, n - i)) * covariance
        })
        .sum();
    finite(first + 2.0 * sum)
}

/// Whether returns can have these moments: the non-excess kurtosis is at least `1 + skew^2`
/// (Pearson 1916).
pub fn moments_possible(skew: f64, kurtosis: f64) -> bool {
    kurtosis >= 1.0 + skew * skew
}

/// Whether two figures are equal up to half a unit of this decimal plus a share of the larger one.
pub fn same_within(a: f64, b: f64, decimals: u32, share: f64) -> bool {
    let half_unit = 0.5 * libm::exp10(-f64::from(decimals.min(300)));
    // The share also covers the distance of a decimal text from its nearest binary number.
    fabs(a - b) <= half_unit + (share + 1e-12) * fabs(a).max(fabs(b))
}
