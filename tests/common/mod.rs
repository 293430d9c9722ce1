//! What several test files share: a disk in memory that fails when told to, and a home on it.

#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

pub mod ledger_files;
pub mod memory_disk;
pub mod place;
