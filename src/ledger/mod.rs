//! The audit ledger: one plain-text file that is audit trail, write-ahead log, hash chain and RFC 6962
//! Merkle log at once. Bytes on disk are the truth; nothing is serialised again in order to hash it.

pub mod archive;
pub mod closed;
pub mod find;
pub mod frames;
pub mod heads;
pub mod leaves;
pub mod line;
pub mod log;
pub mod note;
pub mod pieces;
pub mod proof;
pub mod prove;
pub mod prune;
pub mod recover;
pub mod rotation;
pub mod scan;
pub mod seal;
pub mod segment;
pub mod stub;
pub mod sums;
pub mod token;
pub mod tree;
pub mod verify;

pub use log::{Ledger, LedgerError, Position};
