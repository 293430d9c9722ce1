//! Outgoing actions: allowed destinations, rates, anomalies and open actions. This crate is pure;
//! the adapters run elsewhere.

#[cfg(not(feature = "schema"))]
extern crate spoolgate_no_schema as schemars;

pub mod allowlist;
pub mod anomaly;
pub mod open;
pub mod windows;

pub use open::{ActionsState, Change, OpenAction, OpenError};
