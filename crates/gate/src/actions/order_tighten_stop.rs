//! `order.tighten_stop`.

use super::prelude::*;
use crate::record::OrderAnswer;
use spoolgate_trading as trading;
use spoolgate_wire::orders::TightenStop;

/// Moves a protective stop closer to the market.
pub struct OrderTightenStop;

impl Action for OrderTightenStop {
    type Payload = TightenStop;
    type Answer = OrderAnswer<'static>;
    const ABOUT: &'static str =
        "Moves a protective stop closer to the market; it can never be loosened.";
    const CONDITIONS: &'static [Condition] = &[DIGITS, LINE];
    const ROW: Row = Row::new(
        ActionName::OrderTightenStop,
        "TightenStop",
        "order_id, new_stop",
        SPEAKERS,
    )
    .lane(Lane::Protected)
    .rate(Rate::Protected)
    .freshness(Freshness::Exit)
    .tool(
        "tighten_stop",
        "Tighten a stop",
        "Move a protective stop closer to the market. There is no way to loosen one.",
    );

    fn check(tighten: &TightenStop) -> Result<(), PayloadError> {
        if !tighten.new_stop.is_positive() {
            return Err(PayloadError::Range {
                field: "new_stop",
                found: tighten.new_stop,
                rule: "it must be above 0",
            });
        }
        Ok(())
    }

    fn needs(_: &Rulebook, _: &Authentic, tighten: &TightenStop, needs: &mut Needs) {
        needs.closed_order = Some(tighten.order_id);
    }

    fn execute(
        turn: &Turn<'_>,
        sender: &Authentic,
        tighten: &TightenStop,
    ) -> Result<Outcome, Refusal> {
        let book = &turn.state.book;
        Ok(turn.order(
            sender,
            |context| trading::tighten(book, turn.rules, tighten, context),
            None,
            Some(tighten.order_id),
        ))
    }
}
