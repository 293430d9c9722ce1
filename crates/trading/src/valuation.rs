//! What the book is worth: marks, equity, capital base. If a mark is missing or stale, equity is
//! unknown; an old number is never used as if it were new.

use super::book::{Baseline, Book};
use spoolgate_rules::Rulebook;
use spoolgate_rules::instruments::{Instrument, MarketSource};
use spoolgate_rules::safety::Safety;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::time::Time;

/// Bid and ask as the checks see them, and their time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TwoSided {
    /// Highest price a buyer bids; from bars: last close x (1 - half_spread).
    pub bid: Amount,
    /// Lowest price a seller asks; from bars: last close x (1 + half_spread).
    pub ask: Amount,
    /// Time of the quote, or of the close.
    pub time: Time,
}

/// Which marks count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Marks {
    /// Only marks that are fresh at this instant.
    FreshAt(Time),
    /// The last ones known, whatever their age.
    LastKnown,
}

/// Returns the maximum age of market data in milliseconds: two bars, and never less than
/// `quote_age_floor_s`.
pub fn age_max_ms(instrument: &Instrument, safety: &Safety) -> i64 {
    let two_bars_s = i64::from(*instrument.bar_s).saturating_mul(2);
    two_bars_s
        .max(i64::from(safety.quote_age_floor_s))
        .saturating_mul(1000)
}

/// Whether data of `time` count as current at `now`. Data that lie further ahead than the maximum
/// age are as wrong as old data.
pub fn is_fresh(time: Time, now: Time, instrument: &Instrument, safety: &Safety) -> bool {
    now.since_ms(time).saturating_abs() <= age_max_ms(instrument, safety)
}

impl Book {
    /// Returns the last known bid and ask of this instrument, from quotes or bars as configured.
    pub fn two_sided(&self, instrument: &Instrument) -> Option<TwoSided> {
        let market = self.markets.get(&instrument.symbol)?;
        match instrument.quotes_from {
            MarketSource::Quotes => {
                let quote = market.quote.as_ref()?;
                Some(TwoSided {
                    bid: quote.bid,
                    ask: quote.ask,
                    time: quote.time,
                })
            }
            MarketSource::Bars => {
                let last = market.last.as_ref()?;
                let half = last.price.checked_mul(*instrument.half_spread)?;
                let (bid, ask) = (last.price.checked_sub(half)?, last.price.checked_add(half)?);
                Some(TwoSided {
                    bid,
                    ask,
                    time: last.time,
                })
            }
        }
    }

    /// Returns the price at which a position is valued, and its time: the last close, or the side
    /// of the quote that would close the position (bid for a long, ask for a short).
    pub fn mark(&self, instrument: &Instrument, is_long: bool) -> Option<(Amount, Time)> {
        let market = self.markets.get(&instrument.symbol)?;
        match instrument.quotes_from {
            MarketSource::Quotes => {
                let quote = market.quote.as_ref()?;
                Some((if is_long { quote.bid } else { quote.ask }, quote.time))
            }
            MarketSource::Bars => market.last.as_ref().map(|last| (last.price, last.time)),
        }
    }

    /// Returns the mark, if it is fresh.
    pub fn fresh_mark(
        &self,
        instrument: &Instrument,
        is_long: bool,
        rules: &Rulebook,
        now: Time,
    ) -> Option<Amount> {
        let (mark, time) = self.mark(instrument, is_long)?;
        is_fresh(time, now, instrument, &rules.safety).then_some(mark)
    }

    /// Computes equity = cash + sum of (size x mark x multiplier), account currency. `None` if a
    /// mark of any open position is missing or stale, or the sum is not exact.
    pub fn equity(&self, rules: &Rulebook, now: Time) -> Option<Amount> {
        self.equity_by(rules, Marks::FreshAt(now))
    }

    /// Computes equity by the last known marks, whatever their age: for the day's baseline, the
    /// peak and the drawdown.
    pub fn equity_last_known(&self, rules: &Rulebook) -> Option<Amount> {
        self.equity_by(rules, Marks::LastKnown)
    }

    /// Computes the profit and loss since a baseline: equity - then.equity - (net_deposits -
    /// then.net_deposits). `None` if it is not exact.
    pub fn profit_since(&self, then: &Baseline, equity: Amount) -> Option<Amount> {
        let moved = self.account.net_deposits.checked_sub(then.net_deposits)?;
        equity.checked_sub(then.equity)?.checked_sub(moved)
    }

    fn equity_by(&self, rules: &Rulebook, marks: Marks) -> Option<Amount> {
        self.positions
            .values()
            .try_fold(self.account.cash, |sum, position| {
                let instrument = rules.instruments.get(&position.symbol)?;
                let (mark, time) = self.mark(instrument, position.size.is_positive())?;
                if let Marks::FreshAt(now) = marks
                    && !is_fresh(time, now, instrument, &rules.safety)
                {
                    return None;
                }
                let value = position
                    .size
                    .checked_mul(mark)?
                    .checked_mul(*instrument.multiplier)?;
                sum.checked_add(value)
            })
    }
}

/// Returns the amount that fractional limits refer to: min(max_total_capital, max(equity, 0)),
/// account currency.
pub fn capital_base(equity: Amount, safety: &Safety) -> Amount {
    equity.max(Amount::ZERO).min(*safety.max_total_capital)
}
