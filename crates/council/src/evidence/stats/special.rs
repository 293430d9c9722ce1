//! Distribution functions: normal, Student t, chi-square, beta. Elementary functions come from
//! `libm`, so the same arguments give the same bits on every platform.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

use libm::{erf, erfc, exp, fabs, lgamma, log, log1p, sqrt};

/// Number of steps after which a continued fraction or series that has not converged counts as not
/// computable.
const STEPS_MAX: u32 = 20_000;

/// Smallest magnitude that a continued fraction may divide by (Lentz).
const TINY: f64 = 1e-300;

/// Relative change below which an iteration has converged.
const EPSILON: f64 = 1e-16;

/// Computes the density of the standard normal distribution at `z`.
pub fn normal_density(z: f64) -> f64 {
    exp(-0.5 * z * z) / sqrt(2.0 * PI)
}

/// Computes `Phi(z)`, the standard normal distribution function, as `erfc(-z / sqrt 2) / 2`, so
/// that the lower tail keeps its relative accuracy down to z = -38. NaN only for NaN.
pub fn normal_cdf(z: f64) -> f64 {
    0.5 * erfc(-z * FRAC_1_SQRT_2)
}

/// Computes `1 - Phi(z)` without cancellation in the upper tail.
pub fn normal_sf(z: f64) -> f64 {
    normal_cdf(-z)
}

/// Computes the `z` with `Phi(z) = p`, for 0 < p < 1; `None` elsewhere. Starts from Abramowitz and
/// Stegun 26.2.23 and takes Halley steps on `erfc` in the tails and on `erf` in the middle, so
/// small `z` and small `p` both keep their digits.
pub fn normal_quantile(p: f64) -> Option<f64> {
    if !(p > 0.0 && p < 1.0) {
        return None;
    }
    let centre = p - 0.5;
    let tail = if centre > 0.0 { 1.0 - p } else { p };
    let t = sqrt(-2.0 * log(tail));
    let top = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let bottom = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
    let mut z = t - top / bottom;
    for _ in 0..4 {
        let error = if tail > 0.25 {
            fabs(centre) - 0.5 * erf(z * FRAC_1_SQRT_2)
        } else {
            normal_sf(z) - tail
        };
        let density = normal_density(z);
        if density <= 0.0 {
            break;
        }
        let step = error / density;
        z += step / (1.0 - 0.5 * z * step);
    }
    Some(if centre < 0.0 { -z } else { z })
}

/// Computes the `z` with `1 - Phi(z) = p`, for 0 < p < 1; `None` elsewhere.
pub fn normal_upper_quantile(p: f64) -> Option<f64> {
    normal_quantile(p).map(|z| -z)
}

/// Computes the regularised incomplete beta function `I_x(a, b)`, the distribution function of the
/// beta distribution, for a, b > 0 and 0 <= x <= 1; `None` elsewhere, and if 20,000 steps are not
/// enough. Continued fraction DLMF 8.17.22, evaluated by Lentz's method.
pub fn beta_cdf(a: f64, b: f64, x: f64) -> Option<f64> {
    let in_domain = a > 0.0 && b > 0.0 && a < 1e9 && b < 1e9 && (0.0..=1.0).contains(&x);
    if !in_domain {
        return None;
    }
    if x <= 0.0 || x >= 1.0 {
        return Some(x);
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        return beta_fraction(b, a, 1.0 - x, log(x), log1p(-x)).map(|upper| 1.0 - upper);
    }
    beta_fraction(a, b, x, log1p(-x), log(x))
}

/// Computes `1 - I_x(a, b)` without cancellation, by the symmetry `I_{1-x}(b, a)`; `x_beside` is
/// 1 - x.
fn beta_sf_beside(a: f64, b: f64, x: f64, x_beside: f64) -> Option<f64> {
    if x_beside > (b + 1.0) / (a + b + 2.0) {
        return beta_fraction(a, b, x, log(x_beside), log(x)).map(|lower| 1.0 - lower);
    }
    beta_fraction(b, a, x_beside, log(x), log(x_beside))
}

/// Computes `I_x(a, b)` where the fraction converges fast, given the logarithms of 1 - x and x.
fn beta_fraction(a: f64, b: f64, x: f64, log_beside: f64, log_x: f64) -> Option<f64> {
    let front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log_x + b * log_beside) / a;
    let away = |value: f64| if fabs(value) < TINY { TINY } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / away(1.0 - (a + b) * x / (a + 1.0));
    let mut product = d;
    let mut m = 1.0;
    for _ in 0..STEPS_MAX {
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / away(1.0 + even * d);
        c = away(1.0 + even / c);
        product *= d * c;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / away(1.0 + odd * d);
        c = away(1.0 + odd / c);
        let factor = d * c;
        product *= factor;
        if fabs(factor - 1.0) < 4.0 * EPSILON {
            return finite(front * product);
        }
        m += 1.0;
    }
    None
}

/// Computes the `x` with `I_x(a, b) = p`, for a, b > 0 and 0 <= p <= 1; `None` elsewhere. Bisects
/// the interval, near 0 by the exponent, so that small quantiles keep their relative accuracy.
pub fn beta_quantile(a: f64, b: f64, p: f64) -> Option<f64> {
    if !(0.0..=1.0).contains(&p) || beta_cdf(a, b, 0.5).is_none() {
        return None;
    }
    if p <= 0.0 || p >= 1.0 {
        return Some(p);
    }
    let (mut low, mut high) = (0.0_f64, 1.0_f64);
    for _ in 0..400 {
        let geometric = low > 0.0 && high > 4.0 * low;
        let middle = if geometric {
            sqrt(low) * sqrt(high)
        } else if low <= 0.0 && high > 1e-290 {
            high * 1e-3
        } else {
            0.5 * (low + high)
        };
        if middle <= low || middle >= high {
            break;
        }
        if beta_cdf(a, b, middle)? < p {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some(0.5 * (low + high))
}

/// Computes the upper tail of Student's t with `df` degrees of freedom, `P(T > t)`, for df > 0 and
/// finite t; `None` elsewhere. For t > 0 it is half of `I_{df/(df + t^2)}(df/2, 1/2)`.
pub fn student_sf(t: f64, df: f64) -> Option<f64> {
    if !(t.is_finite() && df > 0.0 && df < 1e9) {
        return None;
    }
    let square = t * t;
    let x = df / (df + square);
    let beside = square / (df + square);
    let both = if square <= 0.0 {
        1.0
    } else {
        beta_sf_beside(0.5, 0.5 * df, beside, x)?
    };
    Some(if t > 0.0 {
        0.5 * both
    } else {
        1.0 - 0.5 * both
    })
}

/// Computes the `t` with `P(T > t) = p`, for 0 < p <= 0.5 and df > 0, by bisection; `None`
/// elsewhere.
pub fn student_upper_quantile(p: f64, df: f64) -> Option<f64> {
    if !(p > 0.0 && p <= 0.5) {
        return None;
    }
    let (mut low, mut high) = (0.0, 1.0);
    while student_sf(high, df)? > p {
        low = high;
        high *= 2.0;
        if high > 1e150 {
            return None;
        }
    }
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if student_sf(middle, df)? > p {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some(0.5 * (low + high))
}

/// Computes the upper tail of the chi-square distribution, `Q(df/2, x/2)`, for df > 0 and x >= 0;
/// `None` elsewhere, and if 20,000 steps are not enough. Series DLMF 8.7.1 below df/2 + 1,
/// continued fraction DLMF 8.9.2 above.
pub fn chi_square_sf(x: f64, df: f64) -> Option<f64> {
    if !(x >= 0.0 && x.is_finite() && df > 0.0 && df < 1e9) {
        return None;
    }
    let (a, y) = (0.5 * df, 0.5 * x);
    if y <= 0.0 {
        return Some(1.0);
    }
    let front = exp(a * log(y) - y - lgamma(a));
    if y < a + 1.0 {
        let (mut term, mut sum, mut k) = (1.0 / a, 1.0 / a, a);
        for _ in 0..STEPS_MAX {
            k += 1.0;
            term *= y / k;
            sum += term;
            if term < sum * EPSILON {
                return finite(1.0 - front * sum).map(|tail| tail.clamp(0.0, 1.0));
            }
        }
        return None;
    }
    let mut b = y + 1.0 - a;
    let mut c = 1.0 / TINY;
    let mut d = 1.0 / b;
    let mut product = d;
    let mut i = 1.0;
    for _ in 0..STEPS_MAX {
        let numerator = -i * (i - a);
        b += 2.0;
        d = numerator * d + b;
        d = 1.0 / if fabs(d) < TINY { TINY } else { d };
        c = b + numerator / c;
        c = if fabs(c) < TINY { TINY } else { c };
        let factor = d * c;
        product *= factor;
        if fabs(factor - 1.0) < 4.0 * EPSILON {
            return finite(front * product).map(|tail| tail.clamp(0.0, 1.0));
        }
        i += 1.0;
    }
    None
}

/// Returns the value if it is finite.
pub(super) fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

/// Converts a count to a float; exact below 2^53.
#[allow(
    clippy::cast_precision_loss,
    reason = "counts here are capped far below 2^53"
)]
pub(super) fn count(n: u64) -> f64 {
    n as f64
}

/// Converts a length to a float.
pub(super) fn length(n: usize) -> f64 {
    count(u64::try_from(n).unwrap_or(u64::MAX))
}
