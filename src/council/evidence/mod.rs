//! Computed evidence: what the Realism Checker and the Quant Researcher find in a request's own figures.
//!
//! Pure and bounded: no figure, however large, nested or malformed, makes a role fail or work without end; it makes a row
//! that says so. Comparisons are of rounded decimals, the ones that the answers show.

mod artifacts;
mod cross_check;
mod inputs;
mod metrics;
mod quant;
mod realism;
mod row;
pub mod stats;
mod tables;

pub use quant::quant_researcher;
pub use realism::realism_checker;
