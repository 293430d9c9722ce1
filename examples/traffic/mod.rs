//! A policy made from an environment, recorded calls through the gate under it, and what came of
//! them.

pub(super) mod calls;
pub(super) mod establish;
pub(super) mod gate;
pub(super) mod policy;
pub(super) mod report;
