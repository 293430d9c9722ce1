//! `rules/strategies/<name>.yaml`: what a strategy may trade and how far its stops may lie.

use serde::Deserialize;

use super::hours::Window;
use crate::wire::amount::{self, Amount};
use crate::wire::control::RiskMode;
use crate::wire::ids::{ConcernId, ConcernPart, ControlId, StrategyName, Symbol};
use crate::wire::orders::Side;

/// Whether a strategy may open positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StrategyStatus {
    /// It may, from the beginning.
    Active,
    /// It may once control has switched to it.
    Standby,
    /// It may only reduce, whatever control says.
    Paused,
}

impl StrategyStatus {
    /// `active`, `standby` or `paused`.
    pub fn as_str(self) -> &'static str {
        match self {
            StrategyStatus::Active => "active",
            StrategyStatus::Standby => "standby",
            StrategyStatus::Paused => "paused",
        }
    }
}

/// Direction of a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Gains when the price rises.
    Long,
    /// Gains when the price falls.
    Short,
}

impl Direction {
    /// The direction that an entry on this side opens.
    pub fn of_entry(side: Side) -> Direction {
        match side {
            Side::Buy => Direction::Long,
            Side::Sell => Direction::Short,
        }
    }

    /// `long` or `short`.
    pub fn as_str(self) -> &'static str {
        match self {
            Direction::Long => "long",
            Direction::Short => "short",
        }
    }
}

/// Bounds on the distance from worst entry to protective stop, fractions of the worst entry.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StopDistance {
    /// Smallest; above 0.
    #[serde(deserialize_with = "amount::yaml::required")]
    #[schemars(schema_with = "crate::wire::schema::amount_above_0_below_1")]
    pub min: Amount,
    /// Largest.
    #[serde(deserialize_with = "amount::yaml::required")]
    #[schemars(schema_with = "crate::wire::schema::amount_above_0_below_1")]
    pub max: Amount,
}

/// One strategy.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Strategy {
    /// Its name; equals the file name.
    pub name: StrategyName,
    /// What controllers call it; absent: its name.
    #[serde(default)]
    pub strategy_id: Option<ControlId>,
    /// Account of its concern; with `market` or not at all.
    #[serde(default)]
    pub account: Option<ConcernPart>,
    /// Market of its concern.
    #[serde(default)]
    pub market: Option<ConcernPart>,
    /// Whether it may open positions.
    pub status: StrategyStatus,
    /// The least strict mode that control may bring about.
    #[serde(default)]
    pub risk_mode: RiskMode,
    /// Why its execution is not to be trusted, as a person says; absent: nobody says so.
    #[serde(default)]
    #[schemars(schema_with = "crate::wire::schema::said_or_null")]
    pub degraded: Option<String>,
    /// Instruments it may enter.
    pub instruments: Vec<Symbol>,
    /// Directions it may take.
    pub directions: Vec<Direction>,
    /// How far its protective stops may lie.
    pub stop_distance: StopDistance,
    /// Worst-case notional of all it holds, fraction of the capital base; absent: no limit of its own.
    #[serde(default, deserialize_with = "amount::yaml::optional")]
    #[schemars(schema_with = "crate::wire::schema::amount_above_0")]
    pub allocation: Option<Amount>,
    /// Times of day at which it does not enter.
    #[serde(default)]
    pub restricted: Vec<Window>,
    /// `account:market`; none: only the file decides on it. Made of both when the rulebook is compiled.
    #[serde(skip)]
    pub concern: Option<ConcernId>,
}

impl Strategy {
    /// Whether controllers mean it by this id.
    pub fn has_id(&self, id: &ControlId) -> bool {
        self.id() == id.as_str()
    }

    /// What controllers call it.
    pub fn id(&self) -> &str {
        self.strategy_id.as_ref().map_or(self.name.as_str(), ControlId::as_str)
    }

    /// Why it cannot run, if it cannot. Instruments that are not configured refuse the rulebook already.
    pub fn not_runnable(&self) -> Option<String> {
        if self.status == StrategyStatus::Paused {
            return Some(format!("rules/strategies/{}.yaml pauses it; a person changes that", self.name));
        }
        self.instruments
            .is_empty()
            .then(|| format!("rules/strategies/{}.yaml lists no instrument", self.name))
    }
}
