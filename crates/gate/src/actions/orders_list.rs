//! `orders.list`.

use super::prelude::*;
use spoolgate_trading::views::{self, OrderView};

/// Lists the open orders.
pub struct OrdersList;

/// The answer.
#[derive(Serialize, JsonSchema)]
pub enum Answer {
    /// The answer to `orders.list`.
    Orders(Vec<OrderView>),
}

impl Action for OrdersList {
    type Payload = Empty;
    type Answer = Answer;
    const ABOUT: &'static str = "Lists the open orders.";
    const ROW: Row = Row::new(ActionName::OrdersList, "GetOpenOrders", "(none)", ANYBODY).query(
        "orders",
        "Open orders",
        "Open orders, protective stops among them.",
    );

    fn execute(turn: &Turn<'_>, _: &Authentic, _: &Empty) -> Result<Outcome, Refusal> {
        answer(&Answer::Orders(views::orders(&turn.state.book, |_| true)))
    }
}
