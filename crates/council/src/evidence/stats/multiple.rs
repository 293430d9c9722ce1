//! Multiple tests: the haircut of a Sharpe ratio, and p-values adjusted for the number of tests.

use std::cmp::Ordering;

use libm::{expm1, log1p, sqrt};

use super::special::{
    finite, length, normal_sf, normal_upper_quantile, student_sf, student_upper_quantile,
};

/// A Sharpe ratio adjusted for the number of tests, Harvey and Liu 2015.
#[derive(Clone, Copy, Debug)]
pub struct Haircut {
    /// `t = S sqrt(n/q)`.
    pub t: f64,
    /// Two-sided p-value of one test.
    pub p_single: f64,
    /// `min(1, M p)`.
    pub p_bonferroni: f64,
    /// The annual ratio that has `p_bonferroni` as its two-sided p-value.
    pub sharpe_bonferroni: f64,
    /// `1 - (1-p)^M`.
    pub p_independent: f64,
    /// The annual ratio that has `p_independent` as its two-sided p-value.
    pub sharpe_independent: f64,
}

/// Computes the haircut by the normal distribution of an annual ratio over `years` among `tests`
/// tests: `p = 2(1 - Phi(|t|))`, adjusted, and converted back through `z_{1-p/2}/sqrt(y)`, with the
/// sign of the ratio. `None` unless years > 0 and tests >= 1.
pub fn haircut(annual: f64, years: f64, tests: f64) -> Option<Haircut> {
    if !(years > 0.0 && (1.0..=1e15).contains(&tests)) {
        return None;
    }
    let t = finite(annual * sqrt(years))?;
    let p_single = 2.0 * normal_sf(t.abs());
    let p_bonferroni = (tests * p_single).min(1.0);
    // 1 - (1-p)^M keeps its digits even if p is far below the spacing of numbers near 1.
    let p_independent = (-expm1(tests * log1p(-p_single))).clamp(0.0, 1.0);
    let back = |p: f64| back_by_normal(p).map(|z| (z / sqrt(years)).copysign(annual));
    Some(Haircut {
        t,
        p_single,
        p_bonferroni,
        sharpe_bonferroni: back(p_bonferroni)?,
        p_independent,
        sharpe_independent: back(p_independent)?,
    })
}

/// Computes `z_{1-p/2}`: 0 at p = 1; at p = 0, where the p-value underflows, the largest `z` that
/// has a p-value.
fn back_by_normal(p: f64) -> Option<f64> {
    if p >= 1.0 {
        return Some(0.0);
    }
    normal_upper_quantile(0.5 * p.max(f64::MIN_POSITIVE))
}

/// Computes the two-sided p-value of a ratio over `n` returns by Student's t with n - 1 degrees of
/// freedom. `None` unless n > 1.
pub fn p_by_student(t: f64, n: f64) -> Option<f64> {
    (n > 1.0)
        .then(|| student_sf(t.abs(), n - 1.0))
        .flatten()
        .map(|tail| 2.0 * tail)
}

/// Computes the haircut ratio by Student's t and Bonferroni from the annual ratio, observations,
/// periods per year and tests. `None` unless n > 1, q > 0 and tests >= 1.
pub fn haircut_by_student(annual: f64, n: f64, periods: f64, tests: f64) -> Option<f64> {
    if !(periods > 0.0 && tests >= 1.0) {
        return None;
    }
    let root_years = sqrt(n / periods);
    let p = (tests * p_by_student(annual * root_years, n)?).min(1.0);
    if p >= 1.0 {
        return Some(0.0);
    }
    let t = student_upper_quantile(0.5 * p.max(f64::MIN_POSITIVE), n - 1.0)?;
    finite((t / root_years).copysign(annual))
}

/// How to adjust p-values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adjustment {
    /// `min(1, m p)`.
    Bonferroni,
    /// Holm 1979, step-down: the running maximum of `(m-i) p_(i)`.
    Holm,
    /// `1 - (1-p)^m`, for independent tests.
    Sidak,
    /// Benjamini and Hochberg 1995, step-up: the running minimum from the top of `m p_(i)/i`.
    BenjaminiHochberg,
    /// Benjamini and Yekutieli 2001: Benjamini and Hochberg's value times `sum 1/k`.
    BenjaminiYekutieli,
    /// As Harvey and Liu 2015 write it: the largest p-value stays unchanged.
    HarveyLiu,
}

/// Returns the adjusted p-values, in the order of the input. `None` if one is outside 0 to 1, or
/// the slice is empty.
pub fn adjust(p_values: &[f64], how: Adjustment) -> Option<Vec<f64>> {
    if p_values.is_empty() || p_values.iter().any(|p| !(0.0..=1.0).contains(p)) {
        return None;
    }
    let m = length(p_values.len());
    let single =
        |f: &dyn Fn(f64) -> f64| Some(p_values.iter().map(|p| f(*p).clamp(0.0, 1.0)).collect());
    match how {
        Adjustment::Bonferroni => return single(&|p| m * p),
        Adjustment::Sidak => return single(&|p| -expm1(m * log1p(-p))),
        _ => {}
    }
    let mut ranked: Vec<(usize, f64)> = p_values.iter().copied().enumerate().collect();
    ranked.sort_by(|a, b| {
        a.1.partial_cmp(&b.1)
            .unwrap_or(Ordering::Equal)
            .then(a.0.cmp(&b.0))
    });
    let mut adjusted: Vec<(usize, f64)> = Vec::with_capacity(ranked.len());
    if how == Adjustment::Holm {
        let mut running = 0.0_f64;
        for (rank, (place, p)) in ranked.iter().enumerate() {
            running = running.max((m - length(rank)) * p).min(1.0);
            adjusted.push((*place, running));
        }
    } else {
        let harmonic: f64 = (1..=p_values.len()).map(|k| 1.0 / length(k)).sum();
        let factor = if how == Adjustment::BenjaminiHochberg {
            m
        } else {
            m * harmonic
        };
        let mut running = 1.0_f64;
        for (rank, (place, p)) in ranked.iter().enumerate().rev() {
            let is_top = rank + 1 == ranked.len();
            let own = if is_top && how == Adjustment::HarveyLiu {
                *p
            } else {
                factor * p / length(rank + 1)
            };
            running = running.min(own);
            adjusted.push((*place, running));
        }
    }
    adjusted.sort_by_key(|(place, _)| *place);
    Some(adjusted.into_iter().map(|(_, p)| p).collect())
}
