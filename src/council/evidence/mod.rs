//! Computed evidence: what the Realism Checker and the Quant Researcher find in a request's own figures.

mod artifacts;
mod metrics;
mod row;
pub mod stats;
mod tables;
