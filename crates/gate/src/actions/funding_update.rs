//! `funding.update`.

use super::prelude::*;
use spoolgate_trading as trading;
use spoolgate_trading::venue;
use spoolgate_wire::admin::UpdateFunding;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::Symbol;
use spoolgate_wire::time::Time;

/// Charges a funding rate to open positions.
pub struct FundingUpdate;

/// The answer.
#[derive(Serialize, JsonSchema)]
pub enum Answer<'a> {
    /// The answer to `funding.update`.
    FundingCharged {
        /// The instrument.
        symbol: &'a Symbol,
        /// When it was due.
        time: Time,
        /// What all positions pay together; negative if they are paid.
        charged: Amount,
        /// How many positions pay or are paid.
        positions: usize,
    },
}

impl Action for FundingUpdate {
    type Payload = UpdateFunding;
    type Answer = Answer<'static>;
    const ABOUT: &'static str = "Records a funding rate.";
    const CONDITIONS: &'static [Condition] = &[DIGITS, CALENDAR];
    const ROW: Row = Row::new(
        ActionName::FundingUpdate,
        "UpdateFunding",
        "symbol, rate, time",
        FEEDS,
    )
    .lane(Lane::Feed);

    fn check(update: &UpdateFunding) -> Result<(), PayloadError> {
        if update.rate.abs() >= Amount::ONE {
            return Err(PayloadError::Range {
                field: "rate",
                found: update.rate,
                rule: "it must be between -1 and 1, as 0.0001",
            });
        }
        Ok(())
    }

    fn execute(turn: &Turn<'_>, _: &Authentic, update: &UpdateFunding) -> Result<Outcome, Refusal> {
        let UpdateFunding { symbol, rate, time } = update;
        let book = &turn.state.book;
        let changes = venue::on_funding(book, turn.rules, symbol, *rate, *time, turn.now)
            .map_err(|error| Refusal::new(Code::MarketRefused, error.to_string()))?;
        let charges = changes.iter().filter_map(|change| match change {
            trading::Change::FundingCharged { charges, .. } => Some(charges),
            _ => None,
        });
        let amounts: Vec<_> = charges.flatten().map(|charge| charge.amount).collect();
        // The sum cannot overflow: the fold has added the same amounts.
        let charged = amounts
            .iter()
            .try_fold(Amount::ZERO, |sum, amount| sum.checked_add(*amount));
        let charged = charged.unwrap_or(Amount::ZERO);
        let (time, positions) = (*time, amounts.len());
        let data = data(&Answer::FundingCharged {
            symbol,
            time,
            charged,
            positions,
        })?;
        let changes = changes.into_iter().map(Change::Book).collect();
        Ok(Outcome {
            data,
            changes,
            ..Outcome::default()
        })
    }
}
