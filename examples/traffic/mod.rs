//! A policy made from an environment, recorded calls through the gate under it, and what came of
//! them.

pub mod calls;
pub mod establish;
pub mod gate;
pub mod policy;
pub mod report;
