//! Win rates: intervals, tails, comparison of two samples, and whether a percentage is possible
//! with a number of trades.

use libm::{ceil, fabs, floor, sqrt};

use super::special::{beta_quantile, count, finite, normal_sf, normal_upper_quantile};

/// Maximum number of trades that are counted one by one.
pub const TRADES_MAX: u64 = 1_000_000;

/// An interval of a proportion.
pub type Interval = (f64, f64);

fn proportion(wins: u64, n: u64) -> Option<f64> {
    (n > 0 && wins <= n && n <= TRADES_MAX).then(|| count(wins) / count(n))
}

/// Computes Wilson's interval, two-sided at `1 - alpha`, Newcombe 1998: `(p + z^2/2n -+ z
/// sqrt(p(1-p)/n + z^2/4n^2))/(1 + z^2/n)`. `p` may be any proportion, because a reported rate need
/// not be an exact ratio. `None` unless n > 0, 0 <= p <= 1 and 0 < alpha < 1.
pub fn wilson(p: f64, n: f64, alpha: f64) -> Option<Interval> {
    if !(n > 0.0 && (0.0..=1.0).contains(&p)) {
        return None;
    }
    let z = normal_upper_quantile(0.5 * alpha)?;
    let square = z * z / n;
    let middle = p + 0.5 * square;
    let half = z * sqrt(p * (1.0 - p) / n + 0.25 * square / n);
    let low = if p <= 0.0 {
        0.0
    } else {
        (middle - half) / (1.0 + square)
    };
    let high = if p >= 1.0 {
        1.0
    } else {
        (middle + half) / (1.0 + square)
    };
    Some((finite(low)?.clamp(0.0, 1.0), finite(high)?.clamp(0.0, 1.0)))
}

/// Computes Clopper and Pearson's exact interval. `None` unless 0 <= wins <= n, 0 < n <= 1,000,000
/// and 0 < alpha < 1.
pub fn clopper_pearson(wins: u64, n: u64, alpha: f64) -> Option<Interval> {
    proportion(wins, n)?;
    let (k, n_value) = (count(wins), count(n));
    let low = if wins == 0 {
        0.0
    } else {
        beta_quantile(k, n_value - k + 1.0, 0.5 * alpha)?
    };
    let high = if wins == n {
        1.0
    } else {
        beta_quantile(k + 1.0, n_value - k, 1.0 - 0.5 * alpha)?
    };
    Some((low, high))
}

/// Computes Jeffreys' interval: quantiles of Beta(k + 1/2, n - k + 1/2). Same domain as
/// [`clopper_pearson`].
pub fn jeffreys(wins: u64, n: u64, alpha: f64) -> Option<Interval> {
    proportion(wins, n)?;
    let (a, b) = (count(wins) + 0.5, count(n - wins) + 0.5);
    Some((
        beta_quantile(a, b, 0.5 * alpha)?,
        beta_quantile(a, b, 1.0 - 0.5 * alpha)?,
    ))
}

/// Computes `P(K >= wins)` and `P(K <= wins)` of the binomial distribution with `n` trials at `p0`.
/// Terms are summed as ratios to the largest one, so both tails keep their relative accuracy.
/// `None` unless 0 < p0 < 1; same domain of counts as [`clopper_pearson`].
pub fn binomial_tails(wins: u64, n: u64, p0: f64) -> Option<(f64, f64)> {
    proportion(wins, n)?;
    if !(p0 > 0.0 && p0 < 1.0) {
        return None;
    }
    let odds = p0 / (1.0 - p0);
    let up = |k: u64| count(n - k) / (count(k) + 1.0) * odds;
    tails(0, n, wins, mode(n, p0), &up)
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "0 <= value <= n by min and max"
)]
fn mode(n: u64, p0: f64) -> u64 {
    (floor((count(n) + 1.0) * p0).max(0.0) as u64).min(n)
}

/// Computes `P(K >= at)` and `P(K <= at)` over `low..=high`, where `up(k)` is `P(k+1)/P(k)` and the
/// largest term is near `top`.
fn tails(low: u64, high: u64, at: u64, top: u64, up: &dyn Fn(u64) -> f64) -> Option<(f64, f64)> {
    let (mut below, mut here, mut above) = (0.0, 0.0, 0.0);
    let mut add = |k: u64, term: f64| match k.cmp(&at) {
        std::cmp::Ordering::Less => below += term,
        std::cmp::Ordering::Equal => here += term,
        std::cmp::Ordering::Greater => above += term,
    };
    let mut term = 1.0;
    for k in top..=high {
        add(k, term);
        term *= up(k);
    }
    let mut term = 1.0;
    for k in (low..top).rev() {
        term /= up(k);
        add(k, term);
    }
    let all = below + here + above;
    Some((
        finite((above + here) / all)?.min(1.0),
        finite((below + here) / all)?.min(1.0),
    ))
}

/// Computes the pooled two-proportion z of the first rate over the second, `(p1 -
/// p2)/sqrt(p(1-p)(1/n1 + 1/n2))`, and its one-sided p-value. `None` unless both counts are within
/// their n, and the pooled rate is neither 0 nor 1.
pub fn two_proportions(wins_1: u64, n_1: u64, wins_2: u64, n_2: u64) -> Option<(f64, f64)> {
    let (p_1, p_2) = (proportion(wins_1, n_1)?, proportion(wins_2, n_2)?);
    let pooled = count(wins_1 + wins_2) / count(n_1 + n_2);
    let z = (p_1 - p_2) / sqrt(pooled * (1.0 - pooled) * (1.0 / count(n_1) + 1.0 / count(n_2)));
    finite(z).map(|z| (z, normal_sf(z)))
}

/// Computes Fisher's exact test, one-sided: the probability of at least `wins_1` wins in the first
/// sample if both rates are equal, by the hypergeometric distribution. Same domain as
/// [`two_proportions`], except that pooled rates of 0 and 1 give 1.
pub fn fisher(wins_1: u64, n_1: u64, wins_2: u64, n_2: u64) -> Option<f64> {
    proportion(wins_1, n_1)?;
    proportion(wins_2, n_2)?;
    let wins = wins_1 + wins_2;
    let (low, high) = (wins.saturating_sub(n_2), wins.min(n_1));
    let up = |k: u64| {
        count(wins - k) * count(n_1 - k)
            / ((count(k) + 1.0) * (count(n_2) - count(wins) + count(k) + 1.0))
    };
    let share = count(wins) * count(n_1) / count(n_1 + n_2);
    let top = nearest_count(share).clamp(low, high);
    tails(low, high, wins_1, top, &up).map(|(above, _)| above)
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "not negative, at most 1,000,000"
)]
fn nearest_count(value: f64) -> u64 {
    value.clamp(0.0, 1e6) as u64
}

/// Runs the GRIM test, Brown and Heathers 2017: returns the wins `k` of `n` trades whose percentage
/// `100k/n`, rounded to the reported decimals, is the reported one; `reported` is the percentage in
/// units of its last decimal (39.0 with one decimal is 390). Integer arithmetic; both roundings of
/// an exact half are accepted. `None` if there is no such integer, and unless 0 < n <= 1,000,000
/// and there are at most 9 decimals.
pub fn grim(reported: u64, decimals: u32, n: u64) -> Option<u64> {
    if n == 0 || n > TRADES_MAX || decimals > 9 {
        return None;
    }
    let scale = 100 * 10_u128.pow(decimals);
    let (reported, n) = (u128::from(reported), u128::from(n));
    if reported > scale {
        return None;
    }
    // 2|100 10^d k - reported n| <= n, for the k on either side of reported n / (100 10^d).
    let near = reported * n / scale;
    [near, near + 1]
        .into_iter()
        .filter(|k| *k <= n && 2 * (scale * k).abs_diff(reported * n) <= n)
        .min_by_key(|k| (scale * k).abs_diff(reported * n))
        .and_then(|k| u64::try_from(k).ok())
}

/// Returns how many trades a win rate of `p` needs until Wilson's lower limit clears `even`: the
/// smallest n, up to 1,000,000. `None` if no n does.
pub fn trades_to_clear(p: f64, even: f64, alpha: f64) -> Option<u64> {
    let clears = |n: u64| wilson(p, count(n), alpha).is_some_and(|(low, _)| low > even);
    if !clears(TRADES_MAX) {
        return None;
    }
    let (mut low, mut high) = (0, TRADES_MAX);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if clears(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    Some(high)
}

/// Returns the win rate at which a strategy breaks even, `1/(1 + payoff)`; the payoff is the
/// average win over the average loss. `None` unless payoff > 0.
pub fn break_even(payoff: f64) -> Option<f64> {
    (payoff > 0.0 && payoff.is_finite()).then(|| 1.0 / (1.0 + payoff))
}

/// Returns the integer nearest to `p n` wins; `None` unless 0 <= p <= 1 and 0 < n <= 1,000,000.
pub fn nearest_wins(p: f64, n: u64) -> Option<u64> {
    if !(0.0..=1.0).contains(&p) || n == 0 || n > TRADES_MAX {
        return None;
    }
    let exact = p * count(n);
    let (low, high) = (floor(exact), ceil(exact));
    Some(
        nearest_count(if fabs(exact - low) <= fabs(high - exact) {
            low
        } else {
            high
        })
        .min(n),
    )
}
