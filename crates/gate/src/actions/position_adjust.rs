//! `position.adjust`.

use super::prelude::*;
use spoolgate_trading::venue::{AdjustError, Adjusting, on_adjust};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{OrderId, StrategyName, Symbol};
use spoolgate_wire::orders::AdjustPosition;

/// Books a difference between the book and a venue.
pub struct PositionAdjust;

/// The answer.
#[derive(Serialize, JsonSchema)]
pub enum Answer<'a> {
    /// The answer to `position.adjust`.
    PositionAdjusted {
        /// The order whose fill books it, over in the same line.
        order_id: OrderId,
        /// The strategy.
        strategy: &'a StrategyName,
        /// The symbol.
        symbol: &'a Symbol,
        /// The signed position now; 0 if it is flat.
        position: Amount,
    },
}

impl Action for PositionAdjust {
    type Payload = AdjustPosition;
    type Answer = Answer<'static>;
    const ABOUT: &'static str = "Books a difference between the book and a venue, behind a bridge or \
        imitated, as a fill of role `adjust`, without a fee. Stops and targets follow.";
    const CONDITIONS: &'static [Condition] = &[DIGITS, BYTES];
    const ROW: Row = Row::new(
        ActionName::PositionAdjust,
        "AdjustPosition",
        "strategy, symbol, size, price, reason",
        HUMAN,
    )
    .lane(Lane::Control);

    fn check(adjust: &AdjustPosition) -> Result<(), PayloadError> {
        let range = |field, found, rule| Err(PayloadError::Range { field, found, rule });
        if adjust.size.is_zero() {
            let rule = "it must not be 0: above 0 adds like a purchase, below 0 like a sale";
            return range("size", adjust.size, rule);
        }
        if !adjust.price.is_positive() {
            return range("price", adjust.price, "it must be above 0");
        }
        check_reason(&adjust.reason)
    }

    fn execute(
        turn: &Turn<'_>,
        sender: &Authentic,
        adjust: &AdjustPosition,
    ) -> Result<Outcome, Refusal> {
        let by = Adjusting {
            source: &sender.envelope.source,
            now: turn.now,
            seq: turn.seq,
        };
        let refuse = |error: AdjustError| {
            let code = match error {
                AdjustError::UnknownStrategy(_) | AdjustError::UnknownSymbol(_) => Code::NotFound,
                AdjustError::OnPaper { .. }
                | AdjustError::Elsewhere(_)
                | AdjustError::Nothing
                | AdjustError::Venue(_) => Code::StateConflict,
            };
            Refusal::new(code, error.to_string())
        };
        let changes = on_adjust(&turn.state.book, turn.rules, adjust, &by).map_err(refuse)?;
        let (strategy, symbol) = (&adjust.strategy, &adjust.symbol);
        let held = turn
            .state
            .book
            .positions
            .get(&(symbol.clone(), strategy.clone()));
        let position = held.map_or(Amount::ZERO, |held| held.size);
        let data = data(&Answer::PositionAdjusted {
            order_id: OrderId::of_line(turn.seq),
            strategy,
            symbol,
            position: position.checked_add(adjust.size).unwrap_or(position),
        })?;
        Ok(Outcome {
            data,
            changes: changes.into_iter().map(Change::Book).collect(),
            ..Outcome::default()
        })
    }
}
