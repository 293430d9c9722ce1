//! `portfolio.get`.

use super::prelude::*;
use crate::portfolio::portfolio;
use spoolgate_trading::views::PortfolioState;

/// Shows the account and its positions.
pub struct PortfolioGet;

/// The answer.
#[derive(Serialize, JsonSchema)]
pub enum Answer {
    /// The answer to `portfolio.get`.
    Portfolio(PortfolioState),
}

impl Action for PortfolioGet {
    type Payload = Empty;
    type Answer = Answer;
    const ABOUT: &'static str =
        "Returns cash, equity, positions and the room that each limit leaves.";
    const ROW: Row = Row::new(ActionName::PortfolioGet, "GetPortfolio", "(none)", ANYBODY).query(
        "portfolio",
        "Portfolio",
        "Cash, equity, positions, and the room that each limit leaves.",
    );

    fn execute(turn: &Turn<'_>, _: &Authentic, _: &Empty) -> Result<Outcome, Refusal> {
        answer(&Answer::Portfolio(portfolio(
            turn.state, turn.rules, turn.now,
        )))
    }
}
