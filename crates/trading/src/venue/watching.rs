//! What a row changes besides fills: the market, gaps, the peak and the drawdown; and which rows
//! are held because they are not plausible.

use super::VenueError;
use super::paper::{Read, Run};
use crate::book::{Gap, Held, Last, Quote};
use crate::change::Change;
use crate::market_row::{Row, RowKind};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::time::Time;

/// Bars of this length and more are never held, because stops would wait for as long.
const HOUR_MS: i64 = 3_600_000;

/// Whether a row may be held: a bar of less than an hour, or a quote.
pub(super) fn is_short(row: &Row) -> bool {
    match row {
        Row::Bar { interval_ms, .. } => *interval_ms < HOUR_MS,
        Row::Quote { .. } => true,
    }
}

impl Run<'_> {
    /// Returns the row of the symbol that is held, if one is.
    pub(super) fn held(&self) -> Option<Held> {
        let market = self.book.markets.get(&self.instrument.symbol)?;
        market.held.clone()
    }

    /// Holds a row that is too far from this price.
    pub(super) fn hold(&mut self, row: Row, previous: Amount) -> Result<(), VenueError> {
        let change = Change::RowHeld {
            symbol: self.instrument.symbol.clone(),
            row,
            previous,
        };
        self.book.apply(&change)?;
        self.steps.push_in_order(change);
        Ok(())
    }

    /// Whether a row opens within `max_gap` of where the held row began and ended, or of both sides
    /// of a held quote, and further from the price before: a row that is plausible after that price
    /// says nothing for another.
    pub(super) fn agrees(&self, row: &Row, held: &Held) -> bool {
        let opens = match *row {
            Row::Bar { open, .. } => [open, open],
            Row::Quote { bid, ask, .. } => [bid, ask],
        };
        let seen = match held.row {
            Row::Bar { open, close, .. } => [open, close],
            Row::Quote { bid, ask, .. } => [bid, ask],
        };
        let is_near = |previous: Amount, open: Amount| self.is_near(previous, open);
        let is_of_one_kind = row.kind() == RowKind::Quote && held.row.kind() == RowKind::Quote;
        let agrees = if is_of_one_kind {
            seen.into_iter()
                .zip(opens)
                .all(|(seen, open)| is_near(seen, open))
        } else {
            let mut seen = seen.into_iter();
            seen.all(|seen| opens.into_iter().all(|open| is_near(seen, open)))
        };
        agrees && !opens.into_iter().all(|open| is_near(held.previous, open))
    }

    /// Halts the symbol because of a gap. The first one is kept.
    pub(super) fn halt(&mut self, gap: Gap) -> Result<(), VenueError> {
        let symbol = self.instrument.symbol.clone();
        if self.book.halted_symbols.contains_key(&symbol) {
            return Ok(());
        }
        self.emit(Change::SymbolHalted { symbol, gap })
    }

    /// Returns how far the row opens from the last price of its kind, if that is further than
    /// `max_gap`; for quotes, of the first side that is.
    pub(super) fn gap(&self, read: &Read<'_>) -> Option<Gap> {
        let market = self.book.markets.get(&self.instrument.symbol)?;
        let is_far = |(previous, open): &(Amount, Amount)| !self.is_near(*previous, *open);
        let far = match (read.row, &market.last, &market.quote) {
            (Row::Bar { open, .. }, Some(last), _) => Some((last.price, *open)).filter(is_far),
            (Row::Quote { bid, ask, .. }, _, Some(quote)) => {
                let sides = [(quote.bid, *bid), (quote.ask, *ask)];
                sides.into_iter().find(is_far)
            }
            _ => None,
        };
        far.map(|(previous, open)| Gap {
            previous,
            open,
            time: read.time,
        })
    }

    /// Whether a price is at most `max_gap` from the previous one. Prices that cannot be compared
    /// exactly are not.
    fn is_near(&self, previous: Amount, price: Amount) -> bool {
        let moved = price.checked_sub(previous).map(Amount::abs);
        moved
            .zip(previous.checked_mul(*self.instrument.gap_max()))
            .is_some_and(|(moved, most)| moved <= most)
    }

    pub(super) fn market_moved(&mut self, row: &Row, time: Time) -> Result<(), VenueError> {
        let (last, quote) = match *row {
            Row::Bar { close, volume, .. } => (
                Some(Last {
                    price: close,
                    volume,
                    time,
                }),
                None,
            ),
            Row::Quote { bid, ask, .. } => (None, Some(Quote { bid, ask, time })),
        };
        let symbol = self.instrument.symbol.clone();
        let (earlier, reached) = (Vec::new(), self.reached.take());
        let (now_last, now_quote) = (last.clone(), quote.clone());
        self.book.apply(&Change::MarketMoved {
            symbol,
            earlier,
            last: now_last,
            quote: now_quote,
            reached,
        })?;
        self.steps.market(last, quote, reached);
        Ok(())
    }

    /// Whether a position is held in a symbol that a gap has halted.
    fn gapped(&self) -> bool {
        let halted = &self.book.halted_symbols;
        !halted.is_empty()
            && self
                .book
                .positions
                .keys()
                .any(|(symbol, _)| halted.contains_key(symbol))
    }

    /// Raises the peak and latches the drawdown after every row, so that no dip inside a step is
    /// missed. The limit is reached if peak - equity >= max_drawdown x peak. A gap that nobody has
    /// looked at raises no peak.
    pub(super) fn watch_equity(&mut self) -> Result<(), VenueError> {
        let Some(equity) = self.book.equity_last_known(self.rules) else {
            return Ok(());
        };
        let peak = match self.book.account.peak_equity {
            Some(peak) if peak >= equity || self.gapped() => peak,
            _ => {
                self.book.apply(&Change::PeakRaised { equity })?;
                self.steps.peak(equity);
                equity
            }
        };
        let is_latched = self.book.account.drawdown_since.is_some();
        // A peak that is not above 0 allows no drawdown.
        if is_latched || !peak.is_positive() {
            return Ok(());
        }
        let limit = peak.checked_mul(*self.rules.safety.max_drawdown);
        let drawdown = peak.checked_sub(equity);
        // Values that cannot be compared count as reaching the limit.
        let is_within = limit
            .zip(drawdown)
            .is_some_and(|(limit, drawdown)| drawdown < limit);
        if !is_within {
            let change = Change::DrawdownLatched {
                at: self.now,
                equity,
            };
            self.book.apply(&change)?;
            self.steps.latched(change);
        }
        Ok(())
    }
}
