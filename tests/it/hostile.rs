//! Hostile and impatient senders against a whole home: what they can break, starve, learn or take
//! over.
//!
//! Everything runs in this process on a real disk, with a clock that only the tests move, so that a
//! wait of two seconds costs nothing. Tests that need the program itself are in
//! `tests/it/attacks.rs` and `tests/it/bounds.rs`.

mod backlog;
mod clock;
mod files;
mod lanes;
mod rulebook;
mod scanning;
