//! `position.close`.

use super::prelude::*;
use spoolgate_trading::absent;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{OrderId, StrategyName, Symbol};
use spoolgate_wire::orders::{ClosePosition, Side};

/// Closes a position at the market.
pub struct PositionClose;

/// The answer.
#[derive(Serialize, JsonSchema)]
pub enum Answer<'a> {
    /// The answer to `position.close`.
    PositionClosing {
        /// The order that closes it.
        order_id: OrderId,
        /// The strategy.
        strategy: &'a StrategyName,
        /// The symbol.
        symbol: &'a Symbol,
        /// The side of the order.
        side: Side,
        /// Its size.
        size: Amount,
    },
}

impl Action for PositionClose {
    type Payload = ClosePosition;
    type Answer = Answer<'static>;
    const ABOUT: &'static str = "Closes a strategy's position in a symbol at the market, or a part \
        of it, and retires the exits that agents sent for it. No halt, limit, rule or age of a \
        price refuses it.";
    const CONDITIONS: &'static [Condition] = &[DIGITS, BYTES];
    const ROW: Row = Row::new(
        ActionName::PositionClose,
        "ClosePosition",
        "strategy, symbol, size?, reason",
        HUMAN,
    )
    .lane(Lane::Control);

    fn check(close: &ClosePosition) -> Result<(), PayloadError> {
        if let Some(found) = close.size.filter(|size| !size.is_positive()) {
            return Err(PayloadError::Range {
                field: "size",
                found,
                rule: "it must be above 0; without `size` the whole position is closed",
            });
        }
        check_reason(&close.reason)
    }

    fn execute(
        turn: &Turn<'_>,
        sender: &Authentic,
        close: &ClosePosition,
    ) -> Result<Outcome, Refusal> {
        let (book, strategy, symbol) = (&turn.state.book, &close.strategy, &close.symbol);
        let key = (symbol.clone(), strategy.clone());
        let Some(position) = book.positions.get(&key) else {
            let what = format!(
                "strategy `{strategy}` has no open position in `{symbol}`; `spoolgate portfolio` \
                    shows the open ones"
            );
            return Err(Refusal::new(Code::NotFound, what));
        };
        if position.is_dust() {
            let what = format!(
                "`{strategy}` holds {} of `{symbol}`, which is dust: less than the venue takes in one \
                    order, so it cannot be closed; if it is not there any more, `spoolgate position \
                    adjust` books it away",
                position.size
            );
            return Err(Refusal::new(Code::StateConflict, what));
        }
        let left = absent::left_to_close(book, position)
            .filter(|left| left.is_positive())
            .ok_or_else(|| {
                let what = format!(
                    "orders that no agent can cancel already close the whole position of `{strategy}` in \
                        `{symbol}`; `spoolgate orders` shows them"
                );
                Refusal::new(Code::StateConflict, what)
            })?;
        let size = close.size.unwrap_or(left);
        if size > left {
            let what = format!(
                "`size` is {size}, and {left} of `{symbol}` is left to close for `{strategy}`; \
                    name at most that, or no `size` to close it all"
            );
            return Err(Refusal::new(Code::StateConflict, what));
        }
        let lot = turn.rules.instruments.get(symbol).map(|of| *of.lot);
        let off_lot = lot.filter(|lot| !lot.is_zero() && size.is_multiple_of(*lot) != Some(true));
        if let Some(lot) = off_lot.filter(|_| size != left) {
            let what = format!(
                "`size` is {size}, which is not a multiple of the lot {lot} of `{symbol}`; name \
                    one, or no `size` to close it all"
            );
            return Err(Refusal::new(Code::MalformedPayload, what));
        }
        let source = &sender.envelope.source;
        let order = absent::market_exit(position, size, source, turn.seq, turn.now);
        let data = data(&Answer::PositionClosing {
            order_id: order.order_id,
            strategy,
            symbol,
            side: order.side,
            size,
        })?;
        let mut changes = absent::retire(absent::sent_exits(book, position), turn.now);
        changes.push(spoolgate_trading::Change::OrderPlaced(Box::new(order)));
        Ok(Outcome {
            data,
            changes: changes.into_iter().map(Change::Book).collect(),
            ..Outcome::default()
        })
    }
}
