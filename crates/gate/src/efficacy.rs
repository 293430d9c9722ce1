//! The worth of rules: sums over the trades that they blocked and let through. Money is exact; shares
//! of winners and their intervals are not. [`effect`] has the effects in R and the verdict.

pub mod effect;

use rust_decimal::{Decimal, RoundingStrategy};
use serde::Serialize;

use spoolgate_council::evidence::stats::proportions::wilson;
use spoolgate_trading::counterfactual::{Progress, Trade};
use spoolgate_wire::amount::Amount;

/// Intervals of shares are two-sided at 1 - this.
pub const ALPHA: f64 = 0.05;
/// Decimals of means, rounded half to even.
const MEAN_PLACES: u32 = 8;

/// Trades of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Trades {
    /// Filled and closed.
    pub closed: u64,
    /// Closed trades with a profit after fees.
    pub winners: u64,
    /// Closed trades with a loss.
    pub losers: u64,
    /// Sum of the profits, account currency.
    pub won: Amount,
    /// Sum of the losses, as a positive number.
    pub lost: Amount,
    /// Waiting or held when the rows ended.
    pub open: u64,
    /// Ended without filling.
    pub never_filled: u64,
}

impl Default for Trades {
    fn default() -> Trades {
        let (won, lost) = (Amount::ZERO, Amount::ZERO);
        Trades {
            closed: 0,
            winners: 0,
            losers: 0,
            won,
            lost,
            open: 0,
            never_filled: 0,
        }
    }
}

/// A sum cannot be held exactly as a decimal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the sum of the trades' results is too large to be exact; take a shorter time with --from and \
        --to"
)]
pub struct TooLarge;

impl Trades {
    /// Counts one trade.
    ///
    /// # Errors
    /// Returns [`TooLarge`] if a sum cannot be held exactly.
    pub fn count(&mut self, progress: Progress) -> Result<(), TooLarge> {
        let add = |n: &mut u64| *n = n.saturating_add(1);
        add(match progress {
            Progress::Open => &mut self.open,
            Progress::NeverFilled => &mut self.never_filled,
            Progress::Closed(_) => &mut self.closed,
        });
        let Progress::Closed(Trade { net, .. }) = progress else {
            return Ok(());
        };
        if net.is_positive() {
            add(&mut self.winners);
            self.won = self.won.checked_add(net).ok_or(TooLarge)?;
        } else if net.is_negative() {
            add(&mut self.losers);
            self.lost = self.lost.checked_sub(net).ok_or(TooLarge)?;
        }
        Ok(())
    }

    /// Adds up both.
    ///
    /// # Errors
    /// Returns [`TooLarge`] if a sum cannot be held exactly.
    pub fn with(&self, other: &Trades) -> Result<Trades, TooLarge> {
        Ok(Trades {
            closed: self.closed.saturating_add(other.closed),
            winners: self.winners.saturating_add(other.winners),
            losers: self.losers.saturating_add(other.losers),
            won: self.won.checked_add(other.won).ok_or(TooLarge)?,
            lost: self.lost.checked_add(other.lost).ok_or(TooLarge)?,
            open: self.open.saturating_add(other.open),
            never_filled: self.never_filled.saturating_add(other.never_filled),
        })
    }

    /// Losses minus profits: what is saved by not having these trades.
    pub fn savings(&self) -> Option<Amount> {
        self.lost.checked_sub(self.won)
    }

    /// Mean result per trade.
    pub fn expectancy(&self) -> Option<Amount> {
        mean(self.won.checked_sub(self.lost)?.decimal(), self.closed)
    }

    /// Share of winners among closed trades.
    pub fn share(&self) -> Option<Amount> {
        mean(Decimal::from(self.winners), self.closed)
    }

    /// Wilson's interval for the share of winners.
    pub fn interval(&self) -> Option<(f64, f64)> {
        let n = Decimal::from(self.closed);
        let p = Decimal::from(self.winners).checked_div(n)?;
        wilson(decimal_f64(p)?, decimal_f64(n)?, ALPHA)
    }

    /// The share of winners at which trades with these mean profits and losses break even: mean
    /// loss over the sum of mean loss and mean profit. 1 without winners, 0 without losers, `None`
    /// without either.
    pub fn break_even(&self) -> Option<Amount> {
        match (self.winners, self.losers) {
            (0, 0) => None,
            (0, _) => Some(Amount::ONE),
            (_, 0) => Some(Amount::ZERO),
            (winners, losers) => {
                let loss = self.lost.decimal().checked_div(Decimal::from(losers))?;
                let profit = self.won.decimal().checked_div(Decimal::from(winners))?;
                rounded(loss.checked_div(loss.checked_add(profit)?)?)
            }
        }
    }
}

fn rounded(number: Decimal) -> Option<Amount> {
    let number = number
        .round_dp_with_strategy(MEAN_PLACES, RoundingStrategy::MidpointNearestEven)
        .normalize();
    // An amount has no negative zero.
    if number.is_zero() {
        Some(Amount::ZERO)
    } else {
        Amount::parse_exact(&number.to_string()).ok()
    }
}

fn mean(sum: Decimal, count: u64) -> Option<Amount> {
    sum.checked_div(Decimal::from(count)).and_then(rounded)
}

/// The nearest double, if there is one.
pub fn decimal_f64(number: Decimal) -> Option<f64> {
    number.to_string().parse().ok()
}

/// How a hypothesis' metric compares with its baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Against {
    /// The whole interval is above the baseline.
    Above,
    /// The whole interval is below it.
    Below,
    /// The baseline is within the interval, or there is none.
    Unclear,
    /// The metric is not one that is computed; only `win_rate` and `expectancy` are.
    NotComputed,
}

/// A hypothesis' metric over the trades that the rule let through: its value, its interval if it
/// has one, and how it compares with the baseline.
pub fn metric(
    name: &str,
    trades: &Trades,
    baseline: Amount,
) -> (Option<Amount>, Option<(f64, f64)>, Against) {
    match name {
        "win_rate" => {
            let interval = trades.interval();
            let against = match (interval, decimal_f64(baseline.decimal())) {
                (Some((low, _)), Some(baseline)) if low > baseline => Against::Above,
                (Some((_, high)), Some(baseline)) if high < baseline => Against::Below,
                _ => Against::Unclear,
            };
            (trades.share(), interval, against)
        }
        "expectancy" => (trades.expectancy(), None, Against::Unclear),
        _ => (None, None, Against::NotComputed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spoolgate_trading::counterfactual::Way;

    /// Trades of which `winners` won `won` each and `losers` lost `lost` each.
    fn trades(winners: u64, won: i64, losers: u64, lost: i64) -> Trades {
        let mut trades = Trades::default();
        let closed = |net: i64| {
            Progress::Closed(Trade {
                net: Amount::from_i64(net),
                way: Way::Stop,
            })
        };
        (0..winners).for_each(|_| trades.count(closed(won)).unwrap());
        (0..losers).for_each(|_| trades.count(closed(-lost)).unwrap());
        trades
    }

    #[test]
    fn trades_that_stay_open_are_counted_separately() {
        let mut some = trades(1, 3, 2, 1);
        some.count(Progress::Open).unwrap();
        some.count(Progress::NeverFilled).unwrap();
        some.count(Progress::Closed(Trade {
            net: Amount::ZERO,
            way: Way::TimeStop,
        }))
        .unwrap();
        assert_eq!(
            (
                some.closed,
                some.winners,
                some.losers,
                some.open,
                some.never_filled
            ),
            (4, 1, 2, 1, 1)
        );
        assert_eq!(
            (some.savings(), some.expectancy()),
            (Some(Amount::from_i64(-1)), Amount::parse_exact("0.25").ok())
        );
        // 1 / (1 + 3).
        assert_eq!(some.break_even(), Amount::parse_exact("0.25").ok());
        assert_eq!(Trades::default().expectancy(), None);
    }
}
