//! The ledger as evidence: tests that need no process of their own to be alone in, in one program, which is built and linked once.

#[path = "../common/mod.rs"]
mod common;

mod archive;
mod attacks;
mod failures;
mod faults;
mod forger;
mod note;
mod prune;
mod receipts;
mod redaction;
mod rfc6962;
mod rollback;
mod rotation;
mod threads;
