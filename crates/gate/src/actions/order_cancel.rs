//! `order.cancel`.

use super::prelude::*;
use crate::record::OrderAnswer;
use spoolgate_trading as trading;
use spoolgate_wire::orders::CancelOrder;

/// Cancels a working order.
pub struct OrderCancel;

impl Action for OrderCancel {
    type Payload = CancelOrder;
    type Answer = OrderAnswer<'static>;
    const ABOUT: &'static str = "Cancels an open order.";
    const CONDITIONS: &'static [Condition] = &[LINE, BYTES];
    const ROW: Row = Row::new(
        ActionName::OrderCancel,
        "CancelOrder",
        "order_id, reason?",
        SPEAKERS,
    )
    .lane(Lane::Protected)
    .rate(Rate::Protected)
    .freshness(Freshness::Exit)
    .tool(
        "cancel_order",
        "Cancel an order",
        "Cancel a working order of your own. No halt or limit refuses it.",
    );

    fn check(cancel: &CancelOrder) -> Result<(), PayloadError> {
        cancel.reason.as_deref().map_or(Ok(()), check_reason)
    }

    fn needs(_: &Rulebook, _: &Authentic, cancel: &CancelOrder, needs: &mut Needs) {
        needs.closed_order = Some(cancel.order_id);
    }

    fn execute(
        turn: &Turn<'_>,
        sender: &Authentic,
        cancel: &CancelOrder,
    ) -> Result<Outcome, Refusal> {
        let book = &turn.state.book;
        Ok(turn.order(
            sender,
            |context| trading::cancel(book, turn.rules, cancel, context),
            None,
            Some(cancel.order_id),
        ))
    }
}
