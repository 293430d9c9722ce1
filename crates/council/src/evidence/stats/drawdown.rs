//! The law of the largest drawdown of a Brownian motion with drift: Magdon-Ismail, Atiya, Pratap
//! and Abu-Mostafa 2004. Their printed table of Q_p is off by 0.1 to 0.4 %, so this module computes
//! the series.

use std::f64::consts::{FRAC_PI_2, PI};

use libm::{atan2, cos, exp, fabs, hypot, sin, sqrt, tanh};

use super::special::finite;

/// `-zeta(1/2)/sqrt(2 pi)`, rounded as Broadie, Glasserman and Kou 1997 print it: the number of
/// standard deviations of a period by which each extreme of a path is missed if only the end of the
/// period is observed.
const MISSED_EXTREME: f64 = 0.5826;

/// Terms of the series; more would be needed only for a horizon far below one standard deviation.
const TERMS_MAX: u32 = 4_000;

/// Points of the integral for the expected drawdown.
const POINTS_MAX: u32 = 3_000;

/// Maximum cancellation in the series before the transform is used instead.
const LOST_MAX: f64 = 1e-10;

/// If `a` is nearer to 1 than this, it counts as 1, where the first term is 0/0.
const NEAR_ONE: f64 = 1e-8;

/// Corrects a drawdown in log terms that is observed once per period for what this hides: `h + 2
/// (.5826) s sqrt(1/q)`, for the annual volatility s and q periods per year. `None` unless h >= 0,
/// s > 0 and q > 0.
pub fn monitored_continuously(h: f64, volatility: f64, periods: f64) -> Option<f64> {
    (h >= 0.0 && volatility > 0.0 && periods > 0.0)
        .then(|| h + 2.0 * MISSED_EXTREME * volatility / sqrt(periods))
        .and_then(finite)
}

/// Computes the probability that the largest drawdown within `years` is at most `h`, for a motion
/// with annual drift and volatility; all in log terms. Relative accuracy about 1e-12 where the
/// series converges without cancellation, absolute accuracy 1e-9 elsewhere (negative drift and a
/// wide barrier). `None` unless volatility, years and h are above 0.
pub fn probability_at_most(h: f64, drift: f64, volatility: f64, years: f64) -> Option<f64> {
    let positive = |value: f64| value > 0.0 && value.is_finite();
    if !(positive(h) && positive(volatility) && positive(years) && drift.is_finite()) {
        return None;
    }
    // In units of the barrier the law depends on just two numbers.
    let a = drift / volatility * (h / volatility);
    let v = years * (volatility / h) * (volatility / h);
    unit_probability(a, v)
}

fn unit_probability(a: f64, v: f64) -> Option<f64> {
    if !(a.is_finite() && v.is_finite()) {
        return None;
    }
    // Beyond forty standard deviations of the path plus its whole drift, no drawdown reaches the
    // barrier.
    if 40.0 * sqrt(v) + (-a * v).max(0.0) < 1.0 {
        return Some(1.0);
    }
    let value = match series(a, v) {
        Some((sum, lost)) if lost < LOST_MAX => sum,
        _ => 1.0 - passage(a, v)?,
    };
    finite(value).map(|value| value.clamp(0.0, 1.0))
}

/// Computes the series in the roots of `tan x = x/a`, and an estimate of what cancellation lost.
/// `None` if it does not converge.
fn series(a: f64, v: f64) -> Option<(f64, f64)> {
    let base = -a - 0.5 * a * a * v;
    let (mut sum, mut largest) = (0.0, 0.0_f64);
    let is_one = fabs(a - 1.0) < NEAR_ONE;
    if is_one {
        sum = 3.0 * exp(base);
    } else if a > 1.0 {
        sum = hyperbolic_term(a, v)?;
    }
    let first = u32::from(is_one || a > 1.0);
    for k in first..TERMS_MAX {
        let root = root(a, k);
        let decay = 0.5 * root * root * v;
        let weight = 2.0 * root / (root * root + a * a - a);
        let size = exp(base - decay) * fabs(weight);
        sum += exp(base - decay) * weight * sin(root);
        largest = largest.max(size);
        if decay > 1.0 && (size < 1e-17 * fabs(sum) || size < 1e-300) {
            return Some((sum, largest * 4e-16));
        }
    }
    None
}

/// Computes the term of the root of `tanh x = x/a` for a > 1: `2 x sinh x/(x^2 - a^2 + a) exp(-a -
/// d + x^2 v/2)`, with combined exponents and with a - x = 2a/(e^{2x} + 1) computed without
/// cancellation.
fn hyperbolic_term(a: f64, v: f64) -> Option<f64> {
    let mut x = a;
    for _ in 0..60 {
        let t = tanh(x);
        let slope = 1.0 - a * (1.0 - t * t);
        let next = x - (x - a * t) / slope;
        if !next.is_finite() || next >= x {
            break;
        }
        x = next;
    }
    let short = 2.0 * a / (exp(2.0 * x) + 1.0);
    let between = short * (a + x);
    finite(x * (1.0 - exp(-2.0 * x)) / (a - between) * exp(-short - 0.5 * between * v))
}

/// Computes root `k` of `tan x = x/a` in `(k pi, (k+1) pi)` as the root of `x - k pi - atan2(x,
/// a)`. That function is convex for a > 0 and concave for a < 0, so Newton's steps from the middle
/// go in one direction.
fn root(a: f64, k: u32) -> f64 {
    let turn = f64::from(k) * PI;
    let mut x = turn + FRAC_PI_2;
    for _ in 0..100 {
        let away = x - turn - atan2(x, a);
        let slope = 1.0 - a / (x * x + a * a);
        let step = away / slope;
        x -= step;
        if fabs(step) < 1e-15 * x {
            break;
        }
    }
    x
}

/// Computes `P(passage time of drawdown 1 <= v)` by inverting its Laplace transform `2 d
/// e^{-a-d}/((d - a) + (d + a) e^{-2d})`, `d = sqrt(a^2 + 2 s)` (Taylor 1975), with the
/// Fourier-series method of Abate and Whitt 1995. Absolute accuracy about 1e-10 for smooth cases.
fn passage(a: f64, v: f64) -> Option<f64> {
    const DAMPING: f64 = 22.0;
    const PLAIN_TERMS: u32 = 600;
    const AVERAGED: u32 = 14;
    let at = |k: u32| {
        let s = Complex {
            re: DAMPING / (2.0 * v),
            im: f64::from(k) * PI / v,
        };
        let d = Complex {
            re: a * a + 2.0 * s.re,
            im: 2.0 * s.im,
        }
        .sqrt();
        let decay = Complex {
            re: -2.0 * d.re,
            im: -2.0 * d.im,
        }
        .exp();
        let top = Complex {
            re: -a - d.re,
            im: -d.im,
        }
        .exp()
        .times(d);
        let bottom = Complex {
            re: d.re - a,
            im: d.im,
        }
        .plus(
            Complex {
                re: d.re + a,
                im: d.im,
            }
            .times(decay),
        );
        2.0 * top.over(bottom.times(s)).re
    };
    let mut sum = 0.5 * at(0);
    let mut sign = -1.0;
    for k in 1..=PLAIN_TERMS {
        sum += sign * at(k);
        sign = -sign;
    }
    // Euler's binomial average of the next partial sums.
    let (mut average, mut coefficient, mut total) = (0.0, 1.0, 0.0);
    for j in 0..=AVERAGED {
        average += coefficient * sum;
        total += coefficient;
        coefficient *= f64::from(AVERAGED - j) / f64::from(j + 1);
        sum += sign * at(PLAIN_TERMS + 1 + j);
        sign = -sign;
    }
    finite(exp(0.5 * DAMPING) / v * average / total)
}

/// Computes the expected largest drawdown within `years`: the integral of `1 - P` over all h. The
/// integrand is flat at both ends, so the trapezoid rule converges quickly. Same domain as
/// [`probability_at_most`]; also `None` if 3,000 points are not enough.
pub fn expected(drift: f64, volatility: f64, years: f64) -> Option<f64> {
    let positive = |value: f64| value > 0.0 && value.is_finite();
    if !(positive(volatility) && positive(years) && drift.is_finite()) {
        return None;
    }
    let spread = volatility * sqrt(years);
    let scale = if drift * years > spread {
        volatility * volatility / drift
    } else {
        spread
    };
    let step = scale / 12.0;
    let mut sum = 0.5;
    for point in 1..=POINTS_MAX {
        let beyond = 1.0 - probability_at_most(f64::from(point) * step, drift, volatility, years)?;
        sum += beyond;
        if beyond < 1e-9 {
            return finite(sum * step);
        }
    }
    None
}

/// Computes the volatility that a Sharpe ratio and a log growth imply: the smallest positive root s
/// of `s^2/2 - S s + g = 0`, annual. `None` if the growth is beyond [`growth_bound`] or no root is
/// positive.
pub fn implied_volatility(sharpe: f64, growth: f64) -> Option<f64> {
    let inner = sharpe * sharpe - 2.0 * growth;
    if inner.is_nan() || inner < 0.0 {
        return None;
    }
    let root = sqrt(inner);
    // The product of the roots is 2g, so compute the small one from the large one without
    // cancellation.
    let roots = if sharpe > 0.0 {
        let large = sharpe + root;
        [2.0 * growth / large, large]
    } else {
        let large = sharpe - root;
        [large, 2.0 * growth / large]
    };
    roots
        .into_iter()
        .filter(|s| *s > 0.0 && s.is_finite())
        .min_by(f64::total_cmp)
}

/// Returns the largest log growth per year that an annual Sharpe ratio permits: `S^2/2`, because
/// `m - s^2/2 <= (m/s)^2/2`.
pub fn growth_bound(sharpe: f64) -> f64 {
    0.5 * sharpe * sharpe
}

/// A complex number with the operations that [`passage`] needs.
#[derive(Clone, Copy)]
struct Complex {
    re: f64,
    im: f64,
}

impl Complex {
    fn plus(self, other: Complex) -> Complex {
        Complex {
            re: self.re + other.re,
            im: self.im + other.im,
        }
    }

    fn times(self, other: Complex) -> Complex {
        Complex {
            re: self.re * other.re - self.im * other.im,
            im: self.re * other.im + self.im * other.re,
        }
    }

    fn over(self, other: Complex) -> Complex {
        let square = other.re * other.re + other.im * other.im;
        Complex {
            re: (self.re * other.re + self.im * other.im) / square,
            im: (self.im * other.re - self.re * other.im) / square,
        }
    }

    fn exp(self) -> Complex {
        let size = exp(self.re);
        Complex {
            re: size * cos(self.im),
            im: size * sin(self.im),
        }
    }

    /// Returns the root whose real part is not negative.
    fn sqrt(self) -> Complex {
        let size = hypot(self.re, self.im);
        let re = sqrt(0.5 * (size + self.re.max(0.0)).max(0.0) + 0.5 * self.re.min(0.0));
        Complex {
            re,
            im: if re > 0.0 {
                0.5 * self.im / re
            } else {
                sqrt(size)
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two independent methods: the series in the roots, and the inversion of the transform.
    #[test]
    fn series_and_transform_agree() {
        for a in [
            -6.0, -2.0, -1.0, -0.3, 0.0, 0.3, 0.9, 1.0, 1.1, 2.0, 5.0, 20.0,
        ] {
            for v in [0.05, 0.2, 0.7, 1.5, 4.0, 12.0] {
                let (value, lost) = series(a, v).unwrap();
                let other = 1.0 - passage(a, v).unwrap();
                assert!(
                    fabs(value - other) < 1e-8 + lost,
                    "a = {a}, v = {v}: {value} and {other}"
                );
            }
        }
    }

    #[test]
    fn the_law_passes_smoothly_through_its_removable_point() {
        for v in [0.3, 1.0, 3.0] {
            let at = unit_probability(1.0, v).unwrap();
            for away in [1e-9, 1.1e-8, 1e-7, 1e-6] {
                for a in [1.0 - away, 1.0 + away] {
                    let near = unit_probability(a, v).unwrap();
                    assert!(
                        fabs(near - at) < 1e-6 * at + 3.0 * away,
                        "a = {a}, v = {v}: {near} and {at}"
                    );
                }
            }
        }
    }

    #[test]
    fn wider_barriers_and_shorter_spans_are_more_likely_kept() {
        for drift in [-3.0, -0.4, 0.0, 0.1, 1.0, 8.0] {
            let mut last = 0.0;
            for step in 1..400 {
                let h = f64::from(step) * 0.02;
                let p = probability_at_most(h, drift, 0.3, 2.0).unwrap();
                assert!(p >= last - 2e-9, "drift {drift}, h {h}: {p} after {last}");
                assert!(
                    p <= probability_at_most(h, drift, 0.3, 1.0).unwrap() + 2e-9,
                    "drift {drift}, h {h}"
                );
                last = p;
            }
            assert!(last > 0.999, "drift {drift}: {last}");
        }
    }
}
