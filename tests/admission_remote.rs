//! Policies and lineage from commands: whatever a command does, what needs it is denied or waits, everything else is
//! answered meanwhile, and each request is decided once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![allow(clippy::print_stdout, reason = "why it is skipped")]

mod common;

#[path = "council_cases/chamber.rs"]
#[allow(dead_code, reason = "made for another test file, which uses all of it")]
mod chamber;
#[path = "council_cases/court.rs"]
#[allow(dead_code, reason = "made for another test file, which uses all of it")]
mod court;
#[path = "admission_remote/desk.rs"]
mod desk;
#[path = "admission_remote/lineage.rs"]
mod lineage;
#[path = "admission_remote/policies.rs"]
mod policies;
#[path = "admission_remote/waiting.rs"]
mod waiting;
