//! The mathematics of the evidence roles: pure functions of numbers, with elementary functions from `libm` alone, no fused
//! multiplication and a pinned random generator, so the same arguments give the same bits on every platform.
//!
//! Nothing here panics, works without bound or returns NaN: outside of its domain a function gives `None`.
#![allow(clippy::float_arithmetic, reason = "statistics, never money")]

pub mod bootstrap;
pub mod drawdown;
pub mod multiple;
pub mod overfitting;
pub mod plausibility;
pub mod proportions;
pub mod revision;
pub mod series;
pub mod sharpe;
pub mod special;
pub mod units;
