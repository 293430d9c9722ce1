//! Computed evidence: what the Realism Checker and the Quant Researcher find in a request's own figures.

pub mod stats;
