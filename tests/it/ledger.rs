//! The ledger as evidence.

mod archive;
mod attacks;
mod failures;
mod faults;
mod forger;
mod note;
mod prune;
mod receipts;
mod redaction;
mod released;
mod rfc6962;
mod rollback;
mod rotation;
mod threads;
mod unreadable;
