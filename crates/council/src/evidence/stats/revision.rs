//! Inference on Sharpe ratios in the form of 2025: Lopez de Prado, Lipton and Zoonekynd,
//! SSRN 5520741. The variance is taken at the null hypothesis, with divisor n and AR(1) returns. It
//! is more lenient for negative skew and is used for reference only: the checks use the form of
//! 2012.

use libm::sqrt;

use super::special::{finite, normal_cdf, normal_sf, normal_upper_quantile};

/// The moments of the returns, per period.
#[derive(Clone, Copy, Debug)]
pub struct Returns {
    /// Observations.
    pub n: f64,
    /// Skew.
    pub skew: f64,
    /// Non-excess kurtosis.
    pub kurtosis: f64,
    /// First autocorrelation, between -1 and 1.
    pub rho: f64,
}

/// The inference for one observed ratio.
#[derive(Clone, Copy, Debug)]
pub struct Inference {
    /// Standard error at the observed ratio; the tests below use the standard error at the null.
    pub sd: f64,
    /// Probability that a ratio at the null shows less than the observed one.
    pub psr: f64,
    /// Observations from which the observed ratio is significant; infinite if it does not exceed
    /// the null.
    pub min_track_record: f64,
    /// Smallest significant ratio.
    pub critical: f64,
    /// Probability of significance under the alternative.
    pub power: f64,
    /// `1 - power`.
    pub beta: f64,
    /// Probability of the null given significance.
    pub planned_fdr: f64,
    /// Probability of the null given a ratio beyond the observed one.
    pub observed_fdr: f64,
}

/// Computes the variance of the observed ratio if `sr` is true: `[a - b g3 sr + c (g4-1)/4 sr^2]/n`
/// with `a = (1+r)/(1-r)`, `b = 1 + r/(1-r) + r^2/(1-r^2)`, `c = (1+r^2)/(1-r^2)`. `None` unless
/// n > 0, -1 < r < 1 and the variance is above 0.
pub fn variance(sr: f64, returns: Returns) -> Option<f64> {
    let Returns {
        n,
        skew,
        kurtosis,
        rho,
    } = returns;
    if !(n > 0.0 && rho > -1.0 && rho < 1.0) {
        return None;
    }
    let (ratio, square) = (rho / (1.0 - rho), rho * rho / (1.0 - rho * rho));
    let (a, b, c) = (1.0 + 2.0 * ratio, 1.0 + ratio + square, 1.0 + 2.0 * square);
    let value = (a - b * skew * sr + c * 0.25 * (kurtosis - 1.0) * sr * sr) / n;
    finite(value).filter(|value| *value > 0.0)
}

/// Computes the inference for an observed ratio against the null, with an alternative, the level of
/// the test and the prior probability of the alternative. `None` unless 0 < level < 1, 0 <=
/// prior <= 1 and the variances exist.
pub fn inference(
    sr: f64,
    null: f64,
    alternative: f64,
    returns: Returns,
    level: f64,
    prior: f64,
) -> Option<Inference> {
    if !(0.0..=1.0).contains(&prior) {
        return None;
    }
    let z = normal_upper_quantile(level)?;
    let sd_observed = sqrt(variance(sr, returns)?);
    let sd = sqrt(variance(null, returns)?);
    let sd_alternative = sqrt(variance(alternative, returns)?);
    let critical = null + z * sd;
    let beta = normal_cdf((critical - alternative) / sd_alternative);
    let power = normal_sf((critical - alternative) / sd_alternative);
    let ratio = z / (sr - null);
    let p_null = normal_sf((sr - null) / sd);
    let p_alternative = normal_sf((sr - alternative) / sd_alternative);
    let planned_fdr = finite(1.0 / (1.0 + power * prior / level / (1.0 - prior)))?;
    let weight = p_null * (1.0 - prior) + p_alternative * prior;
    Some(Inference {
        sd: sd_observed,
        psr: normal_cdf((sr - null) / sd),
        min_track_record: if sr > null {
            sd * sd * returns.n * ratio * ratio
        } else {
            f64::INFINITY
        },
        critical,
        power,
        beta,
        planned_fdr,
        observed_fdr: finite(p_null * (1.0 - prior) / weight)?,
    })
}
