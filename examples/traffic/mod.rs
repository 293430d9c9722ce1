//! Makes a policy from an environment, sends recorded calls through the gate under it, and reports
//! their fate.

pub(super) mod calls;
pub(super) mod establish;
pub(super) mod gate;
pub(super) mod policy;
pub(super) mod report;
