//! What a row changes besides fills: the market, gaps, the peak and the drawdown.

use super::VenueError;
use super::paper::Run;
use crate::book::{Gap, Last, Quote};
use crate::change::Change;
use crate::market_row::Row;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::time::Time;

impl Run<'_> {
    /// Halts the symbol if the row opens further than `max_gap` from the previous price. Exits and
    /// stops continue.
    pub(super) fn watch_gap(&mut self, row: &Row, time: Time) -> Result<(), VenueError> {
        let symbol = self.instrument.symbol.clone();
        let market = self.book.markets.get(&symbol);
        let (Some(max), Some(market)) = (self.instrument.max_gap, market) else {
            return Ok(());
        };
        if self.book.halted_symbols.contains_key(&symbol) {
            return Ok(());
        }
        let pairs = match (row, &market.last, &market.quote) {
            (Row::Bar { open, .. }, Some(last), _) => vec![(last.price, *open)],
            (Row::Quote { bid, ask, .. }, _, Some(quote)) => {
                vec![(quote.bid, *bid), (quote.ask, *ask)]
            }
            _ => Vec::new(),
        };
        // Prices that cannot be compared exactly count as a gap.
        let is_near = |(previous, open): &(Amount, Amount)| {
            let moved = open.checked_sub(*previous).map(Amount::abs);
            moved
                .zip(previous.checked_mul(*max))
                .is_some_and(|(moved, most)| moved <= most)
        };
        if let Some((previous, open)) = pairs.into_iter().find(|pair| !is_near(pair)) {
            self.emit(Change::SymbolHalted {
                symbol,
                gap: Gap {
                    previous,
                    open,
                    time,
                },
            })?;
        }
        Ok(())
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

    /// Raises the peak and latches the drawdown after every row, so that no dip inside a step is
    /// missed. The limit is reached if peak - equity >= max_drawdown x peak.
    pub(super) fn watch_equity(&mut self) -> Result<(), VenueError> {
        let Some(equity) = self.book.equity_last_known(self.rules) else {
            return Ok(());
        };
        let peak = match self.book.account.peak_equity {
            Some(peak) if peak >= equity => peak,
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
