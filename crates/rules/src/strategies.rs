//! `rules/strategies/<name>.yaml`: what a strategy may trade and how far away its stops may be.

use serde::{Deserialize, Serialize};

use super::bounds::{Positive, ProperFraction};
use super::hours::Window;
use super::yaml;
use spoolgate_wire::control::RiskMode;
use spoolgate_wire::ids::{ConcernId, ConcernPart, ControlId, StrategyName, Symbol};
use spoolgate_wire::orders::Side;

spoolgate_wire::named! {
    /// Whether a strategy may open positions.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
    pub enum StrategyStatus {
        /// It may, from the start.
        Active = "active",
        /// It may after a control decision has switched to it.
        Standby = "standby",
        /// It may only reduce positions, whatever control decides.
        Paused = "paused",
    }
}

spoolgate_wire::named! {
    /// Direction of a position.
    #[derive(
        Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        schemars::JsonSchema,
    )]
    pub enum Direction {
        /// Gains when the price rises.
        Long = "long",
        /// Gains when the price falls.
        Short = "short",
    }
}

impl Direction {
    /// Returns the direction that an entry on this side opens.
    pub fn of_entry(side: Side) -> Direction {
        match side {
            Side::Buy => Direction::Long,
            Side::Sell => Direction::Short,
        }
    }

    /// Returns the side of an entry in this direction.
    pub fn entry_side(self) -> Side {
        match self {
            Direction::Long => Side::Buy,
            Direction::Short => Side::Sell,
        }
    }
}

/// Bounds on the distance from the worst entry price to the protective stop, fractions of the
/// worst entry price.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StopDistance {
    /// Smallest; above 0.
    pub min: ProperFraction,
    /// Largest.
    pub max: ProperFraction,
}

/// One strategy.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Strategy {
    /// Its name; equals the file name without its ending.
    pub name: StrategyName,
    /// The id that controllers use for it; if absent, its name.
    #[serde(default)]
    pub strategy_id: Option<ControlId>,
    /// Account of its concern; given together with `market` or not at all.
    #[serde(default)]
    pub account: Option<ConcernPart>,
    /// Market of its concern.
    #[serde(default)]
    pub market: Option<ConcernPart>,
    /// Whether it may open positions.
    pub status: StrategyStatus,
    /// The least strict mode that control may set.
    #[serde(default)]
    pub risk_mode: RiskMode,
    /// Why its execution cannot be trusted, as a person declares; absent if no person declares so.
    #[serde(default)]
    #[schemars(schema_with = "spoolgate_wire::schema::said_or_null")]
    pub degraded: Option<String>,
    /// Instruments it may enter.
    pub instruments: Vec<Symbol>,
    /// Directions it may take.
    pub directions: Vec<Direction>,
    /// Allowed distance of its protective stops.
    pub stop_distance: StopDistance,
    /// Worst-case notional of everything it holds, fraction of the capital base; if absent, it has
    /// no limit of its own.
    #[serde(default, deserialize_with = "yaml::present")]
    #[schemars(with = "Positive")]
    pub allocation: Option<Positive>,
    /// Times of day at which it does not enter.
    #[serde(default)]
    pub restricted: Vec<Window>,
    /// `account:market`, filled in when the rulebook is compiled. `None` if the strategy has no
    /// concern; then only its file decides on it.
    #[serde(skip)]
    pub concern: Option<ConcernId>,
}

impl Strategy {
    /// Returns whether this is its control id.
    pub fn has_id(&self, id: &ControlId) -> bool {
        self.id() == id.as_str()
    }

    /// Returns the id that controllers use for it.
    pub fn id(&self) -> &str {
        self.strategy_id
            .as_ref()
            .map_or(self.name.as_str(), ControlId::as_str)
    }

    /// Returns why it cannot run, if it cannot. Unknown instruments are rejected when the
    /// rulebook is compiled.
    pub fn not_runnable(&self) -> Option<String> {
        if self.status == StrategyStatus::Paused {
            return Some(format!(
                "rules/strategies/{}.yaml pauses it; a person changes that",
                self.name
            ));
        }
        self.instruments
            .is_empty()
            .then(|| format!("rules/strategies/{}.yaml lists no instrument", self.name))
    }
}
