//! Turns and quotas between spools, what no quota holds back, and requests that kill the gate.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

#[path = "fairness/exits.rs"]
mod exits;
#[path = "fairness/poison.rs"]
mod poison;
#[path = "fairness/quotas.rs"]
mod quotas;
#[path = "fairness/tree.rs"]
mod tree;
#[path = "fairness/turns.rs"]
mod turns;
#[path = "hostile/world.rs"]
#[allow(dead_code, reason = "made for another test file, which uses all of it")]
mod world;
