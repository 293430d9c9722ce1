//! `market.get`.

use super::no_such;
use super::prelude::*;
use spoolgate_trading::views::{self, MarketState};
use spoolgate_wire::ids::Symbol;
use spoolgate_wire::orders::GetMarket;

/// Shows the market of one instrument.
pub struct MarketGet;

/// The answer.
#[derive(Serialize, JsonSchema)]
pub enum Answer {
    /// The answer to `market.get`.
    MarketData(MarketState),
}

impl Action for MarketGet {
    type Payload = GetMarket;
    type Answer = Answer;
    const ABOUT: &'static str = "Returns the last quote and bar of an instrument.";
    const ROW: Row = Row::new(ActionName::MarketGet, "GetMarketData", "symbol", ANYBODY).query(
        "market_data",
        "Market data",
        "The newest price, quote and bar of one symbol.",
    );

    fn execute(turn: &Turn<'_>, _: &Authentic, market: &GetMarket) -> Result<Outcome, Refusal> {
        let view = views::market(&turn.state.book, turn.rules, &market.symbol, turn.now);
        let view = view.ok_or_else(|| {
            let known = turn.rules.instruments.keys().map(Symbol::as_str);
            let lists = Some(ActionName::InstrumentsList);
            no_such("instrument", market.symbol.as_str(), known, lists)
        })?;
        answer(&Answer::MarketData(view))
    }
}
