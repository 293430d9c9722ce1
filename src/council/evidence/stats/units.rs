//! Sums that the checks do with figures, so that all arithmetic on floats stands in this folder.

use libm::sqrt;

use super::special::{self, finite};

/// A length as a number.
pub fn length(n: usize) -> f64 {
    special::length(n)
}

/// `a / b`; `None` unless that is a number.
pub fn ratio(a: f64, b: f64) -> Option<f64> {
    finite(a / b)
}

/// `a b`.
pub fn product(a: f64, b: f64) -> f64 {
    a * b
}

/// Per cent as a fraction.
pub fn fraction(pct: f64) -> f64 {
    pct / 100.0
}

/// A fraction as per cent.
pub fn percent(fraction: f64) -> f64 {
    100.0 * fraction
}

/// An annual Sharpe ratio per period. `None` unless q > 0.
pub fn per_period(annual: f64, periods: f64) -> Option<f64> {
    finite(annual / sqrt(periods))
}

/// A per-period Sharpe ratio a year, for independent returns.
pub fn annual(sr: f64, periods: f64) -> f64 {
    sr * sqrt(periods)
}

/// A figure's size and what rounding to this decimal may have taken from it.
pub fn rounded_from(value: f64, decimals: u32) -> f64 {
    value.abs() + 0.5 * libm::exp10(-f64::from(decimals.min(300)))
}

/// `1/sqrt(y)`, the sampling error of an annual Sharpe ratio. `None` unless years > 0.
pub fn sampling_error(years: f64) -> Option<f64> {
    finite(1.0 / sqrt(years))
}

/// Years after which the t-statistic of this ratio reaches the hurdle: `(t/S)^2`. `None` unless S > 0.
pub fn years_to_reach(hurdle: f64, annual: f64) -> Option<f64> {
    (annual > 0.0).then(|| hurdle / annual * (hurdle / annual)).and_then(finite)
}

/// The value `1 + share` times as large.
pub fn with_slack(value: f64, share: f64) -> f64 {
    value * (1.0 + share)
}
