//! Probability of backtest overfitting by combinatorially symmetric cross-validation: Bailey,
//! Borwein, Lopez de Prado and Zhu 2017.

use libm::{log, sqrt};

use super::bootstrap::quantile;
use super::series;
use super::special::{finite, length};

/// Maximum number of blocks: C(16, 8) = 12,870 choices.
pub const BLOCKS_MAX: usize = 16;

/// Maximum number of additions of block sums in one computation.
const WORK_MAX: u64 = 50_000_000;

/// The result over all choices.
#[derive(Clone, Copy, Debug)]
pub struct Overfitting {
    /// Share of choices in which the configuration that is best in sample ranks below the median
    /// out of sample.
    pub below_median: f64,
    /// The same, also counting ranks at the median; differs if the number of configurations is odd.
    pub at_or_below_median: f64,
    /// Number of choices.
    pub choices: usize,
    /// Slope of the out-of-sample on the in-sample Sharpe ratio of the best configuration; `None`
    /// if all in-sample ratios are equal.
    pub slope: Option<f64>,
    /// Mean of the logits.
    pub logit_mean: f64,
    /// Median of the logits.
    pub logit_median: f64,
    /// Share of choices in which the best in sample loses out of sample.
    pub losing: f64,
}

/// Sums over one block of one configuration, around the configuration's mean.
#[derive(Clone, Copy, Debug, Default)]
struct Block {
    n: f64,
    sum: f64,
    squares: f64,
    /// Smallest and largest return, to distinguish a constant slice from rounding.
    range: Option<(f64, f64)>,
}

impl Block {
    fn with(self, other: Block) -> Block {
        let range = match (self.range, other.range) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (one, none) => one.or(none),
        };
        Block {
            n: self.n + other.n,
            sum: self.sum + other.sum,
            squares: self.squares + other.squares,
            range,
        }
    }

    /// Returns mean over deviation with divisor n - 1; 0 for a slice without deviation, so that it
    /// never wins.
    fn sharpe(self, mean: f64) -> f64 {
        let spread = (self.squares - self.sum * self.sum / self.n) / (self.n - 1.0);
        let varies = self.range.is_some_and(|(low, high)| low < high);
        if !varies || spread.is_nan() || spread <= 0.0 {
            return 0.0;
        }
        (mean + self.sum / self.n) / sqrt(spread)
    }
}

/// Returns the number of blocks for this many configurations and periods: the largest even number
/// up to `wanted` that leaves two returns in each half and bounds the work. `None` below four
/// periods or two configurations.
pub fn blocks_for(configurations: usize, periods: usize, wanted: usize) -> Option<usize> {
    if configurations < 2 {
        return None;
    }
    let configurations = u64::try_from(configurations).ok()?;
    (1..=wanted.min(BLOCKS_MAX) / 2)
        .rev()
        .map(|half| half * 2)
        .find(|blocks| {
            let choices = choices(*blocks);
            let work = choices
                .saturating_mul(configurations)
                .saturating_mul(u64::try_from(*blocks).unwrap_or(u64::MAX));
            periods >= (*blocks).max(4) && work <= WORK_MAX
        })
}

/// Computes C(n, n/2).
fn choices(n: usize) -> u64 {
    (1..=n / 2).fold(1_u64, |product, k| {
        let (top, k) = (
            u64::try_from(n / 2 + k).unwrap_or(0),
            u64::try_from(k).unwrap_or(1),
        );
        product.saturating_mul(top) / k
    })
}

/// Computes the probability of overfitting over configurations with equally many returns, cut into
/// `blocks` runs (the first ones one longer if the division has a remainder). For every choice of
/// half of the blocks, the best configuration in sample is ranked out of sample (ties share their
/// ranks): `w = rank/(N+1)`, logit `ln(w/(1-w))`. `None` for an odd number of blocks or one that
/// [`blocks_for`] would not return, and for returns that are not finite or not equally many.
pub fn probability(configurations: &[Vec<f64>], blocks: usize) -> Option<Overfitting> {
    let periods = configurations.first()?.len();
    if blocks < 2 || blocks_for(configurations.len(), periods, blocks) != Some(blocks) {
        return None;
    }
    let well_formed =
        |returns: &Vec<f64>| returns.len() == periods && returns.iter().all(|r| r.is_finite());
    if !configurations.iter().all(well_formed) {
        return None;
    }
    let prepared: Vec<(f64, Vec<Block>)> = configurations
        .iter()
        .map(|returns| cut(returns, blocks))
        .collect::<Option<_>>()?;
    let ranks = length(configurations.len()) + 1.0;
    let half = u32::try_from(blocks / 2).ok()?;
    let (mut logits, mut best_pairs) = (Vec::new(), Vec::new());
    for chosen in (0_u32..1 << blocks).filter(|chosen| chosen.count_ones() == half) {
        let scores: Vec<(f64, f64)> = prepared
            .iter()
            .map(|(mean, blocks)| halves(*mean, blocks, chosen))
            .collect();
        let mut best = *scores.first()?;
        for score in &scores {
            if score.0 > best.0 {
                best = *score;
            }
        }
        let below = scores.iter().filter(|score| score.1 < best.1).count();
        let equal = scores
            .iter()
            .filter(|score| score.1.total_cmp(&best.1).is_eq())
            .count();
        let rank = length(below) + 0.5 * (length(equal) + 1.0);
        let w = rank / ranks;
        logits.push(finite(log(w / (1.0 - w)))?);
        best_pairs.push(best);
    }
    summary(logits, &best_pairs)
}

/// Returns the mean of a configuration, and its blocks around the mean.
fn cut(returns: &[f64], blocks: usize) -> Option<(f64, Vec<Block>)> {
    let mean = series::mean(returns)?;
    let (size, longer) = (returns.len() / blocks, returns.len() % blocks);
    let mut rest = returns;
    let mut sums = Vec::with_capacity(blocks);
    for place in 0..blocks {
        let (block, after) = rest.split_at_checked(size + usize::from(place < longer))?;
        rest = after;
        sums.push(block.iter().fold(Block::default(), |sum, value| {
            let away = value - mean;
            sum.with(Block {
                n: 1.0,
                sum: away,
                squares: away * away,
                range: Some((*value, *value)),
            })
        }));
    }
    Some((mean, sums))
}

/// Returns the Sharpe ratios in the chosen blocks and in the others.
fn halves(mean: f64, blocks: &[Block], chosen: u32) -> (f64, f64) {
    let (mut inside, mut outside) = (Block::default(), Block::default());
    for (place, block) in blocks.iter().enumerate() {
        if chosen >> place & 1 == 1 {
            inside = inside.with(*block);
        } else {
            outside = outside.with(*block);
        }
    }
    (inside.sharpe(mean), outside.sharpe(mean))
}

fn summary(mut logits: Vec<f64>, best: &[(f64, f64)]) -> Option<Overfitting> {
    let n = length(logits.len());
    let share = |count: usize| length(count) / n;
    let inside: Vec<f64> = best.iter().map(|pair| pair.0).collect();
    let outside: Vec<f64> = best.iter().map(|pair| pair.1).collect();
    let (mean_in, mean_out) = (series::mean(&inside)?, series::mean(&outside)?);
    let (mut both, mut own) = (0.0, 0.0);
    for (a, b) in best {
        both += (a - mean_in) * (b - mean_out);
        own += (a - mean_in) * (a - mean_in);
    }
    logits.sort_by(f64::total_cmp);
    // The logit of an exactly median rank is ln(1), which is exactly 0.
    Some(Overfitting {
        below_median: share(logits.iter().filter(|logit| **logit < 0.0).count()),
        at_or_below_median: share(logits.iter().filter(|logit| **logit <= 0.0).count()),
        choices: logits.len(),
        slope: finite(both / own),
        logit_mean: series::mean(&logits)?,
        logit_median: quantile(&logits, 0.5)?,
        losing: share(outside.iter().filter(|sharpe| **sharpe < 0.0).count()),
    })
}
