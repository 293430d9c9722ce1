//! An open home: the lock, the ledger, the state, the rulebook and the loop that takes requests through
//! them. This is the only room that joins the others; it makes no decisions.

mod absence;
mod actions;
pub mod approvals;
mod approved;
mod asking;
pub mod backtest;
pub mod batch;
mod blobs;
pub mod cases;
pub mod closed;
mod decided;
mod derived;
pub mod doctor;
pub mod dry_run;
pub mod efficacy;
mod elsewhere;
pub mod filter;
pub mod follow;
pub mod forward;
pub mod history;
pub mod layout;
mod notify;
pub mod open;
pub mod outbox;
pub mod past;
mod program;
mod proposals;
pub mod pruning;
pub mod query;
pub mod read;
pub mod redact;
pub mod rehearsal;
pub mod replay;
pub mod report;
pub mod rollback;
pub mod rotation;
pub mod rulebook;
pub mod run;
pub mod sandbox;
pub mod sealed;
mod services;
mod socket;
mod sweep;

pub use open::{Home, HomeError, Seams};
