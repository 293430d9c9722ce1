//! The stationary bootstrap of a Sharpe ratio, from a fixed seed.

use libm::{floor, sqrt};

use super::draws::SplitMix64;
use super::series::{self, PERIODS_MAX};
use super::special::{finite, length};

/// Maximum number of samples.
pub const SAMPLES_MAX: u32 = 20_000;

/// Returns the sorted Sharpe ratios per period of `samples` stationary bootstrap samples of the
/// returns (Politis and Romano 1994): blocks start anywhere, continue at the beginning after the
/// end, and end after each return with probability `1/block`. Samples without deviation are left
/// out. The same arguments give the same bits. `None` unless the returns have [`series::Moments`],
/// block >= 1 and 1 <= samples <= [`SAMPLES_MAX`].
pub fn stationary_sharpes(
    returns: &[f64],
    block: f64,
    samples: u32,
    seed: u64,
) -> Option<Vec<f64>> {
    if !(block >= 1.0 && block.is_finite()) || samples == 0 || samples > SAMPLES_MAX {
        return None;
    }
    if returns.len() > PERIODS_MAX {
        return None;
    }
    let moments = series::Moments::of(returns)?;
    let away: Vec<f64> = returns.iter().map(|value| value - moments.mean).collect();
    let n = moments.n;
    let ends_below = threshold(1.0 / block);
    let mut dice = SplitMix64::seeded(seed);
    let mut sharpes = Vec::with_capacity(usize::try_from(samples).ok()?);
    for _ in 0..samples {
        let (mut sum, mut squares) = (0.0, 0.0);
        let mut rest = away.iter();
        let mut is_first = true;
        for _ in 0..away.len() {
            if is_first || dice.draw() < ends_below {
                let start = dice.below(away.len());
                rest = away.get(start..)?.iter();
                is_first = false;
            }
            let value = match rest.next() {
                Some(value) => *value,
                None => {
                    rest = away.iter();
                    *rest.next()?
                }
            };
            sum += value;
            squares += value * value;
        }
        let spread = (squares - sum * sum / n) / (n - 1.0);
        let sharpe = (moments.mean + sum / n) / sqrt(spread);
        if spread > 0.0 && sharpe.is_finite() {
            sharpes.push(sharpe);
        }
    }
    sharpes.sort_by(f64::total_cmp);
    (!sharpes.is_empty()).then_some(sharpes)
}

/// Returns the number below which a share `p` of all 64-bit numbers lies.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "0 < p <= 1; the cast saturates at 1"
)]
fn threshold(p: f64) -> u64 {
    (p * 18_446_744_073_709_551_616.0) as u64
}

/// Returns the `p` quantile of sorted values, interpolated linearly between two of them (numpy's
/// default). `None` for an empty slice, and unless 0 <= p <= 1.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "at most the length of the slice"
)]
pub fn quantile(sorted: &[f64], p: f64) -> Option<f64> {
    if !(0.0..=1.0).contains(&p) || sorted.is_empty() {
        return None;
    }
    let place = p * (length(sorted.len()) - 1.0);
    let below = floor(place);
    let low = *sorted.get(below as usize)?;
    let high = sorted.get(below as usize + 1).copied().unwrap_or(low);
    finite(low + (high - low) * (place - below))
}
