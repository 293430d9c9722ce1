//! The mathematics of the evidence roles: pure functions of numbers. They use elementary functions
//! from `libm` only, no fused multiplication and a pinned random generator, so the same arguments
//! give the same bits on every platform.
//!
//! No function panics, runs without bound or returns NaN: outside its domain a function returns
//! `None`.
#![allow(clippy::float_arithmetic, reason = "statistics, never money")]

pub mod bootstrap;
pub mod drawdown;
pub mod draws;
pub mod multiple;
pub mod overfitting;
pub mod plausibility;
pub mod proportions;
pub mod revision;
pub mod series;
pub mod sharpe;
pub mod special;
pub mod units;
