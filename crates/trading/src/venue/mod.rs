//! The venues at which orders fill. The paper venue is deterministic: the same book, rules and rows
//! give the same changes.

pub mod imitated;
pub mod outbox;
pub mod paper;
pub mod report;
pub mod snapshot;

mod adjusting;
mod filters;
mod funding;
mod levels;
mod quoting;
mod room;
mod settling;
mod steps;
mod watching;

pub use adjusting::{AdjustError, Adjusting, on_adjust};
pub(crate) use filters::too_far;
pub use funding::{FUNDING_PERIOD_MS, FundingError, on_funding};
pub use paper::{count_new, end_day, on_rows, open_periods};
pub use steps::{LeftOpen, Step};

use super::fold::ApplyError;
use spoolgate_wire::ids::Symbol;

/// What the venue could not do. An order that cannot fill is not an error: it stays open.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VenueError {
    /// The instrument is not configured.
    #[error("instrument `{symbol}` is not in instruments.yaml, so its rows cannot be used")]
    UnknownInstrument {
        /// The instrument.
        symbol: Symbol,
    },
    /// A row is not market data.
    #[error("row {row} is not market data: {what}")]
    Row {
        /// Its index, from 0.
        row: usize,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The book refuses a change that follows from it, so the book contradicts itself.
    #[error("the book refuses a change that follows from it: {0}")]
    Book(#[from] ApplyError),
}

#[cfg(test)]
mod model_outbox;
#[cfg(test)]
mod properties_outbox;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_held;
#[cfg(test)]
mod tests_imitated;
#[cfg(test)]
mod tests_orders;
#[cfg(test)]
mod tests_outbox;
#[cfg(test)]
mod tests_percent;
