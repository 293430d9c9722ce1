//! The audit ledger: writing, reading, proving and verifying it.
//!
#![doc = include_str!("../README.md")]

pub mod archive;
pub mod batches;
mod closed;
pub mod disk;
mod fault;
pub mod find;
pub mod folder;
pub mod frames;
pub mod heads;
mod lanes;
pub mod leaves;
pub mod line;
pub mod log;
pub mod memory;
pub mod note;
mod pieces;
pub mod proof;
pub mod prove;
pub mod prune;
pub mod recover;
pub mod redacted;
mod reserve;
pub mod rotation;
pub mod scan;
pub mod seal;
pub mod segment;
pub mod stub;
mod sums;
pub mod token;
pub mod tree;
mod verdict;
pub mod verify;

pub use log::{Ledger, LedgerError, Position};
