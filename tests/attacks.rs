//! The rows of the attack table that `tests/hostile.rs`, `tests/crash.rs` and `tests/cli.rs` do not cover:
//! a less trusted process against the spool. docs/testing.md points every row to its test.
//!
//! The heavy ones: `cargo test --release --test attacks -- --ignored --nocapture`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "what was skipped, and figures")]

mod common;

#[path = "attacks/answers.rs"]
mod answers;
#[path = "attacks/contents.rs"]
mod contents;
#[path = "attacks/events.rs"]
mod events;
#[path = "attacks/files.rs"]
mod files;
#[path = "attacks/floods.rs"]
mod floods;
#[path = "attacks/folders.rs"]
mod folders;
#[path = "attacks/names.rs"]
mod names;
#[path = "attacks/races.rs"]
mod races;
#[path = "attacks/siege.rs"]
mod siege;
#[path = "hostile/world.rs"]
#[allow(dead_code, reason = "made for all of tests/hostile.rs")]
mod world;
