//! `rules/strategies/<name>.yaml`: what a strategy may trade and how far its stops may lie.

use serde::Deserialize;

use crate::wire::amount::{self, Amount};
use crate::wire::ids::{StrategyName, Symbol};
use crate::wire::orders::Side;

/// Whether a strategy may open positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StrategyStatus {
    /// It may.
    Active,
    /// It may only reduce.
    Paused,
}

/// Direction of a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StopDistance {
    /// Smallest; above 0.
    #[serde(deserialize_with = "amount::yaml::required")]
    pub min: Amount,
    /// Largest.
    #[serde(deserialize_with = "amount::yaml::required")]
    pub max: Amount,
}

/// One strategy.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Strategy {
    /// Its name; equals the file name.
    pub name: StrategyName,
    /// Whether it may open positions.
    pub status: StrategyStatus,
    /// Instruments it may enter.
    pub instruments: Vec<Symbol>,
    /// Directions it may take.
    pub directions: Vec<Direction>,
    /// How far its protective stops may lie.
    pub stop_distance: StopDistance,
}
