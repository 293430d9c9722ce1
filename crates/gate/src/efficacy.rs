//! The worth of rules: sums over the trades that they blocked and let through, and a verdict per
//! rule. Money is exact; shares and their intervals are not.

use rust_decimal::{Decimal, RoundingStrategy};
use serde::Serialize;

use spoolgate_council::evidence::stats::proportions::wilson;
use spoolgate_trading::counterfactual::{Progress, Trade};
use spoolgate_wire::amount::Amount;

/// Minimum number of trades for a verdict, unless the rule's hypothesis sets another.
pub const SAMPLE_MIN: u64 = 30;
/// Intervals are two-sided at 1 - this.
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

    /// What blocking these trades does, regardless of their number.
    fn says(&self) -> Says {
        let told = self
            .interval()
            .zip(
                self.break_even()
                    .and_then(|even| decimal_f64(even.decimal())),
            )
            .zip(self.savings());
        match told {
            Some((((_, high), even), savings)) if high < even && savings.is_positive() => {
                Says::Saves
            }
            Some((((low, _), even), savings)) if low > even && savings.is_negative() => Says::Costs,
            _ => Says::Nothing,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Says {
    Saves,
    Costs,
    Nothing,
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

spoolgate_wire::named! {
    /// The verdict on a rule.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    pub enum Verdict {
        /// What it blocks loses money.
        Validated = "VALIDATED",
        /// Too few trades, or too close.
        Inconclusive = "INCONCLUSIVE",
        /// What it blocked lost money, and what it blocks now does not.
        Degrading = "DEGRADING",
        /// What it blocks makes money.
        Harmful = "HARMFUL",
    }
}

/// The verdict from the trades that only this rule blocked or would have blocked. `older` and
/// `newer` are their halves by time, and `sample_min` is the minimum number of all of them.
///
/// # Errors
/// Returns [`TooLarge`] if a sum cannot be held exactly.
pub fn verdict(older: &Trades, newer: &Trades, sample_min: u64) -> Result<Verdict, TooLarge> {
    let all = older.with(newer)?;
    let has_enough = all.closed >= sample_min.max(1);
    let has_turned = older.closed >= sample_min.max(1)
        && older.says() == Says::Saves
        && newer.savings().is_some_and(Amount::is_negative);
    Ok(match all.says() {
        _ if !has_enough => Verdict::Inconclusive,
        Says::Costs => Verdict::Harmful,
        _ if has_turned => Verdict::Degrading,
        Says::Saves => Verdict::Validated,
        Says::Nothing => Verdict::Inconclusive,
    })
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

    fn of(older: &Trades, newer: &Trades) -> Verdict {
        verdict(older, newer, 30).unwrap()
    }

    #[test]
    fn verdicts_by_hand() {
        // 10 of 40 won, profits as large as losses: share 0.25, Wilson 0.142 to 0.402, break-even
        // at 0.5.
        let saves = trades(5, 2, 15, 2);
        assert_eq!(of(&saves, &saves), Verdict::Validated);
        // With profits 5 times as large as losses, break-even is 1/6 = 0.1667, within the interval.
        let large = trades(5, 10, 15, 2);
        assert_eq!(of(&large, &large), Verdict::Inconclusive);
        // With profits 20 times as large, break-even is 1/21 = 0.048, below the interval.
        let huge = trades(5, 40, 15, 2);
        assert_eq!(of(&huge, &huge), Verdict::Harmful);
        // 15 of 40: share 0.375, interval 0.242 to 0.530; break-even at 0.5 is within.
        let close = trades(7, 2, 13, 2);
        assert_eq!(of(&close, &trades(8, 2, 12, 2)), Verdict::Inconclusive);
        // 29 are too few, 30 are enough.
        assert_eq!(
            of(&trades(0, 0, 14, 1), &trades(0, 0, 15, 1)),
            Verdict::Inconclusive
        );
        assert_eq!(
            of(&trades(0, 0, 15, 1), &trades(0, 0, 15, 1)),
            Verdict::Validated
        );
        assert_eq!(
            of(&trades(15, 1, 0, 0), &trades(15, 1, 0, 0)),
            Verdict::Harmful
        );
        // The rule saved in the older half and costs in the newer: needs 30 trades in the older
        // half, not 29.
        assert_eq!(
            of(&trades(3, 2, 27, 2), &trades(17, 2, 13, 2)),
            Verdict::Degrading
        );
        assert_eq!(
            of(&trades(3, 2, 26, 2), &trades(17, 2, 13, 2)),
            Verdict::Validated
        );
        assert_eq!(
            of(&Trades::default(), &Trades::default()),
            Verdict::Inconclusive
        );
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
