//! Computed evidence: the findings of the Realism Checker and the Quant Researcher about a
//! request's own figures.
//!
//! Pure and bounded: no figure, however large, nested or malformed, makes a role fail or run
//! without end; it only leads to a row that reports the problem. Values are compared as rounded
//! decimals, the same ones that the answers show.

mod artifacts;
mod cross_check;
mod error;
mod inputs;
mod metrics;
mod quant;
mod realism;
mod row;
pub mod stats;
mod tables;

pub use quant::quant_researcher;
pub use realism::realism_checker;
