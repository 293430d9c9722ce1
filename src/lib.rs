//! `spoolgate`: a hard boundary between software agents and the things they may touch.
//!
//! Agents drop signed JSON files into `spool/in`; a deterministic gate checks each one against rules
//! that the agent cannot edit, answers in `spool/out`, and writes every decision to a hash-chained
//! ledger. Imports run one way: `wire` <- `rules` <- (`trading`, `council`, `control`, `admission`,
//! `actions`) <- `gate` <- (`ledger`, `state`, `spool`, `host`) <- `home` <- (`agent`,
//! `report`) <- (`cli`, `bin`); `tests/imports.rs` enforces it.

pub mod actions;
pub mod admission;
pub mod agent;
pub mod control;
pub mod council;
pub mod gate;
pub mod home;
pub mod host;
pub mod ledger;
pub mod report;
pub mod rules;
pub mod spool;
pub mod state;
pub mod trading;
pub mod wire;

/// Version of this program, as ledger lines name it.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
