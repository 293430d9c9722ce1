//! `order.submit`.

use super::prelude::*;
use crate::record::OrderAnswer;
use spoolgate_trading as trading;
use spoolgate_wire::orders::SubmitOrder;

/// Opens or reduces a position.
pub struct OrderSubmit;

impl Action for OrderSubmit {
    type Payload = SubmitOrder;
    type Answer = OrderAnswer<'static>;
    const ABOUT: &'static str = "Enters or leaves a position: an order within a strategy and a \
        thesis. It is checked against every limit before it goes anywhere.";
    const CONDITIONS: &'static [Condition] = &[PRICE, DIGITS];
    const ROW: Row = Row::new(
        ActionName::OrderSubmit,
        "SubmitOrder",
        "strategy, symbol, side, size, order_type, price?, stop_price?, thesis_slug, \
            planned_entry, planned_stop, target_price?, time_in_force?",
        AGENT,
    )
    .freshness(Freshness::ByClass)
    .rate(Rate::ByClass)
    .rules_apply(Rules::Entries)
    .admission(Admission::Entries)
    .tool(
        "submit_order",
        "Submit an order",
        "Open or reduce a position. The gate checks it against limits that you cannot change. A \
            refusal says which checks failed, with the measured value and the limit, and the \
            headroom: the largest size that would pass. No limit refuses an order that only \
            reduces a position. Numbers may be strings; they are exact decimals.",
    );

    fn check(order: &SubmitOrder) -> Result<(), PayloadError> {
        order.validate()
    }

    fn execute(
        turn: &Turn<'_>,
        sender: &Authentic,
        order: &SubmitOrder,
    ) -> Result<Outcome, Refusal> {
        let book = &turn.state.book;
        Ok(turn.order(
            sender,
            |context| trading::submit(book, turn.rules, order, context),
            Some(order),
            None,
        ))
    }
}
