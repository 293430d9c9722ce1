//! An open home: the lock, the ledger, the state, the rulebook and the loop that takes requests
//! through them. This is the only crate that joins the others; it makes no decisions.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "commands read the files of a home without the `Disk` of the request path"
)]

mod actions;
pub mod admin;
pub mod approvals;
mod approved;
pub mod batch;
mod blobs;
mod bridges;
pub mod cases;
pub mod closed;
mod commit;
mod core;
mod dead_man;
mod derived;
pub mod doctor;
pub mod dry_run;
pub mod enforced;
pub mod error;
mod external_policy;
pub mod forward;
pub mod index;
pub mod layout;
pub mod lookup;
pub mod notify;
pub mod open;
pub mod openings;
pub mod outbox;
mod parts;
mod program;
mod proposals;
pub mod pruning;
pub mod read;
pub mod redact;
mod redo;
mod released;
mod retention;
mod role_commands;
pub mod rollback;
pub mod rotation;
mod rule_files;
pub mod rulebook;
pub mod run;
pub mod sandbox;
pub mod sealed;
mod services;
mod socket;
pub mod status;
mod storage;
pub mod suspect;
mod sweep;

pub use error::HomeError;
pub use open::{Home, Seams};
