//! Funding: what open positions pay or receive at 00, 08 and 16 UTC.

use super::VenueError;
use super::paper::Run;
use crate::book::Book;
use crate::change::{Change, FundingCharge};
use spoolgate_rules::Rulebook;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::Symbol;
use spoolgate_wire::time::Time;

/// Funding is due at multiples of this period, milliseconds of UTC.
pub const FUNDING_PERIOD_MS: i64 = 8 * 3_600_000;

/// Charges are rounded up to a multiple of this: payments up, receipts down.
const STEP: &str = "0.00000001";

/// Why a funding rate is not charged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FundingError {
    /// The time is not one at which funding is due.
    #[error("funding is due at 00:00, 08:00 and 16:00 UTC, not at {0}")]
    NotDue(Time),
    /// The time is in the future.
    #[error("funding of {0} is not due yet")]
    Ahead(Time),
    /// The time is before the last one due; what was held then is no longer known.
    #[error("funding of {0} is more than a period old; only the last one due is charged")]
    Late(Time),
    /// Funding of this time was charged before.
    #[error("funding of `{symbol}` was already charged for {time}")]
    Charged {
        /// Instrument.
        symbol: Symbol,
        /// The last time that was charged.
        time: Time,
    },
    /// A position is held and no price of it is known.
    #[error("`{0}` is held, but no price of it is known; import market rows first")]
    NoMark(Symbol),
    /// A charge needs more digits than an amount holds.
    #[error("the funding of `{0}` cannot be computed exactly; use fewer digits")]
    NotExact(Symbol),
    /// The paper venue failed.
    #[error(transparent)]
    Venue(#[from] VenueError),
}

/// Charges every position in the symbol, as the book holds it now, `size x mark x multiplier x
/// rate`: above 0 a long pays, below 0 it receives; shorts the other way. Each time is charged once
/// per symbol, and only the last time due. The time is recorded even if no position is held. Peak
/// and drawdown follow.
///
/// # Errors
/// Returns [`FundingError`] if the funding cannot be charged; nothing is charged then.
pub fn on_funding(
    book: &Book,
    rules: &Rulebook,
    symbol: &Symbol,
    rate: Amount,
    time: Time,
    now: Time,
) -> Result<Vec<Change>, FundingError> {
    let mut run = Run::new(book, rules, symbol, now)?;
    if time.ms().rem_euclid(FUNDING_PERIOD_MS) != 0 {
        return Err(FundingError::NotDue(time));
    }
    if time > now {
        return Err(FundingError::Ahead(time));
    }
    let funded = book.markets.get(symbol).and_then(|market| market.funded);
    if let Some(time) = funded.filter(|last| *last >= time) {
        return Err(FundingError::Charged {
            symbol: symbol.clone(),
            time,
        });
    }
    if now.since_ms(time) >= FUNDING_PERIOD_MS {
        return Err(FundingError::Late(time));
    }
    let step = Amount::parse_exact(STEP).map_err(|_| FundingError::NotExact(symbol.clone()))?;
    let mut charges = Vec::new();
    for held in book
        .positions
        .values()
        .filter(|held| held.symbol == *symbol)
    {
        let mark = book.mark(run.instrument, held.size.is_positive());
        let (mark, _) = mark.ok_or_else(|| FundingError::NoMark(symbol.clone()))?;
        let value = held
            .size
            .checked_mul(mark)
            .and_then(|v| v.checked_mul(*run.instrument.multiplier));
        let amount = value
            .and_then(|value| value.checked_mul(rate))
            .and_then(|paid| paid.round_up_to(step));
        let amount = amount.ok_or_else(|| FundingError::NotExact(symbol.clone()))?;
        charges.push(FundingCharge {
            strategy: held.strategy.clone(),
            size: held.size,
            mark,
            amount,
        });
    }
    run.emit(Change::FundingCharged {
        symbol: symbol.clone(),
        rate,
        time,
        charges,
    })?;
    run.watch_equity()?;
    Ok(run
        .steps
        .finish()
        .into_iter()
        .flat_map(|step| step.changes)
        .collect())
}
