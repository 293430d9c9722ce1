//! Hostile and hasty senders against a whole home: what they can break, starve, learn or take over.
//!
//! Everything runs in process on a real disk under a clock that only the tests move, so that two
//! seconds of patience cost nothing. What takes the program itself is in `tests/it/attacks.rs` and
//! `tests/it/bounds.rs`.

mod backlog;
mod clock;
mod files;
mod lanes;
mod rulebook;
mod scanning;
