//! Small calculations that the checks do with figures, so that all float arithmetic is in this
//! directory.

use libm::sqrt;

use super::special::{self, finite};

/// Converts a length to a float.
pub fn length(n: usize) -> f64 {
    special::length(n)
}

/// Computes `a / b`; `None` unless the result is finite.
pub fn ratio(a: f64, b: f64) -> Option<f64> {
    finite(a / b)
}

/// Computes `a b`.
pub fn product(a: f64, b: f64) -> f64 {
    a * b
}

/// Converts percent to a fraction.
pub fn fraction(pct: f64) -> f64 {
    pct / 100.0
}

/// Converts a fraction to percent.
pub fn percent(fraction: f64) -> f64 {
    100.0 * fraction
}

/// Converts an annual Sharpe ratio to one per period. `None` unless q > 0.
pub fn per_period(annual: f64, periods: f64) -> Option<f64> {
    finite(annual / sqrt(periods))
}

/// Converts a per-period Sharpe ratio to an annual one, for independent returns.
pub fn annual(sr: f64, periods: f64) -> f64 {
    sr * sqrt(periods)
}

/// Returns the magnitude of a figure plus the most that rounding to this decimal may have removed.
pub fn rounded_from(value: f64, decimals: u32) -> f64 {
    value.abs() + 0.5 * libm::exp10(-f64::from(decimals.min(300)))
}

/// Computes `1/sqrt(y)`, the sampling error of an annual Sharpe ratio. `None` unless years > 0.
pub fn sampling_error(years: f64) -> Option<f64> {
    finite(1.0 / sqrt(years))
}

/// Computes the years after which the t-statistic of this ratio reaches the hurdle: `(t/S)^2`.
/// `None` unless S > 0.
pub fn years_to_reach(hurdle: f64, annual: f64) -> Option<f64> {
    (annual > 0.0)
        .then(|| hurdle / annual * (hurdle / annual))
        .and_then(finite)
}

/// Multiplies a value by `1 + share`.
pub fn with_slack(value: f64, share: f64) -> f64 {
    value * (1.0 + share)
}
