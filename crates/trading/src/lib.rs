//! Orders, positions, checks, stops, the paper venue and market data. The crate is pure: each
//! result is a function of the book, the rulebook, the request and the given time. It generates no
//! signals and judges no trades.

#[cfg(not(feature = "schema"))]
extern crate spoolgate_no_schema as schemars;

pub mod absent;
pub mod book;
pub mod cancel;
pub mod change;
pub mod checks;
pub mod class;
pub mod conduct;
pub mod counterfactual;
pub mod exits;
pub mod facts;
pub mod fold;
mod fold_venue;
pub mod guard;
pub mod headroom;
pub mod imitated;
mod lack;
pub mod market_row;
pub mod order;
pub mod pricing;
pub mod reach;
pub mod requests;
pub mod risk;
pub mod smallest;
pub mod submit;
pub mod sums;
pub mod tighten;
pub mod units;
pub mod usage;
pub mod valuation;
pub mod venue;
pub mod views;

pub use book::Book;
pub use cancel::cancel;
pub use change::Change;
pub use submit::submit;
pub use tighten::tighten;

#[cfg(test)]
mod naive;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_bounds;
#[cfg(test)]
mod tests_conduct;
#[cfg(test)]
mod tests_control;
#[cfg(test)]
mod tests_controls;
#[cfg(test)]
mod tests_exits;
#[cfg(test)]
mod tests_guard;
#[cfg(test)]
mod tests_limits;
#[cfg(test)]
mod tests_risk;
#[cfg(test)]
mod tests_standing;
#[cfg(test)]
mod tests_tighter;
#[cfg(test)]
mod tests_usage;
