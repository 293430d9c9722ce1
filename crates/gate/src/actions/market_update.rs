//! `market.update`.

use super::prelude::*;
use crate::market::{RowSource, Run, rows};
use spoolgate_trading as trading;
use spoolgate_trading::book::Given;
use spoolgate_trading::venue::{self, LeftOpen};
use spoolgate_wire::ids::{Regime, Symbol};
use spoolgate_wire::market::UpdateMarket;

/// Takes in the market rows of the request.
pub struct MarketUpdate;

/// The answer.
#[derive(Serialize, JsonSchema)]
pub enum Answer<'a> {
    /// The answer to `market.update`.
    MarketUpdated {
        /// The instrument.
        symbol: &'a Symbol,
        /// Number of rows.
        rows: usize,
        /// Number of rows that were newer than the known ones; the others were skipped.
        taken: usize,
        /// Number of `market` lines before the decision's own line.
        lines: usize,
        /// Number of executions.
        fills: usize,
        /// Orders that the market reached and the venue could not fill.
        left_open: Vec<LeftOpen>,
        /// The market regime; null if the request did not state it.
        regime: Option<&'a Regime>,
    },
}

impl Action for MarketUpdate {
    type Payload = UpdateMarket;
    type Answer = Answer<'static>;
    const ABOUT: &'static str = "Records a few market rows of one symbol.";
    const CONDITIONS: &'static [Condition] = &[ROWS, DIGITS, WHOLE, CALENDAR];
    const ROW: Row = Row::new(
        ActionName::MarketUpdate,
        "UpdateMarket",
        "symbol, bars?, quotes?, regime?",
        FEEDS,
    )
    .lane(Lane::Feed);

    fn check(update: &UpdateMarket) -> Result<(), PayloadError> {
        update.validate()
    }

    /// The effects of the rows are in the decision's own line. Only what does not fit there gets
    /// lines of its own, as with an import.
    fn execute(turn: &Turn<'_>, _: &Authentic, update: &UpdateMarket) -> Result<Outcome, Refusal> {
        let UpdateMarket { symbol, regime, .. } = update;
        let given =
            rows(update).map_err(|error| Refusal::new(Code::MarketRefused, error.to_string()))?;
        let Run {
            mut steps,
            fills,
            left_open,
        } = turn.run(symbol, &given)?;
        let taken = venue::count_new(&turn.state.book, turn.rules, symbol, &given, turn.now);
        let mut changes = Vec::new();
        if let [step] = steps.as_mut_slice() {
            changes.extend(
                std::mem::take(&mut step.changes)
                    .into_iter()
                    .map(Change::Book),
            );
            steps.clear();
        }
        let market = turn.market_lines(symbol, &RowSource::Payload, steps);
        changes.extend(regime.clone().map(|regime| {
            let given = Given {
                regime,
                at: turn.now,
            };
            Change::Book(trading::Change::RegimeGiven {
                symbol: symbol.clone(),
                given,
            })
        }));
        let (rows, lines, regime) = (given.len(), market.len(), regime.as_ref());
        let body = Answer::MarketUpdated {
            symbol,
            rows,
            taken,
            lines,
            fills,
            left_open,
            regime,
        };
        Ok(Outcome {
            data: data(&body)?,
            market,
            changes,
            ..Outcome::default()
        })
    }
}
