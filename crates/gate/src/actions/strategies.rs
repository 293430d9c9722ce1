//! `strategies.list` and `strategies.get`.

use super::no_such;
use super::prelude::*;
use crate::control::{StrategyView, strategies};
use spoolgate_wire::control::GetStrategy;

/// Lists all strategies.
pub struct StrategiesList;

/// Shows one strategy.
pub struct StrategiesGet;

/// The answer of `strategies.list`.
#[derive(Serialize, JsonSchema)]
pub enum All<'a> {
    /// All strategies.
    Strategies(Vec<StrategyView<'a>>),
}

/// The answer of `strategies.get`.
#[derive(Serialize, JsonSchema)]
pub enum One<'a> {
    /// The strategy.
    Strategy(StrategyView<'a>),
}

impl Action for StrategiesList {
    type Payload = Empty;
    type Answer = All<'static>;
    const ABOUT: &'static str = "Lists all strategies and their states.";
    const ROW: Row = Row::new(
        ActionName::StrategiesList,
        "ListStrategies",
        "(none)",
        ANYBODY,
    )
    .query(
        "list_strategies",
        "Strategies",
        "All strategies and whether they run.",
    );

    fn execute(turn: &Turn<'_>, _: &Authentic, _: &Empty) -> Result<Outcome, Refusal> {
        answer(&All::Strategies(strategies(
            turn.state, turn.rules, turn.now,
        )))
    }
}

impl Action for StrategiesGet {
    type Payload = GetStrategy;
    type Answer = One<'static>;
    const ABOUT: &'static str = "Returns one strategy.";
    const ROW: Row = Row::new(
        ActionName::StrategiesGet,
        "GetStrategy",
        "strategy_id",
        ANYBODY,
    )
    .query(
        "get_strategy",
        "One strategy",
        "One strategy with its state.",
    );

    fn execute(turn: &Turn<'_>, _: &Authentic, get: &GetStrategy) -> Result<Outcome, Refusal> {
        let id = get.strategy_id.as_str();
        let all = strategies(turn.state, turn.rules, turn.now);
        let known = all.iter().map(|view| view.strategy_id);
        let none = no_such("strategy", id, known, Some(ActionName::StrategiesList));
        let found = all.into_iter().find(|view| view.strategy_id == id);
        let found = found.ok_or(none)?;
        answer(&One::Strategy(found))
    }
}
