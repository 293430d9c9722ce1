//! Hostile and hasty senders against a whole home: what they can break, starve, learn or take over.
//!
//! Everything runs in process on a real disk under a clock that only the tests move, so that two seconds
//! of patience cost nothing. What takes the program itself is in `tests/attacks.rs` and `tests/bounds.rs`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![allow(clippy::print_stdout, clippy::float_arithmetic, reason = "measurements and skips are shown")]

#[path = "hostile/backlog.rs"]
mod backlog;
#[path = "hostile/clock.rs"]
mod clock;
#[path = "hostile/files.rs"]
mod files;
#[path = "hostile/lanes.rs"]
mod lanes;
#[path = "hostile/rulebook.rs"]
mod rulebook;
#[path = "hostile/scanning.rs"]
mod scanning;
#[path = "common/unlimited.rs"]
mod unlimited;
#[path = "hostile/world.rs"]
mod world;
