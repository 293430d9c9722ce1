//! The whole gate on a simulated disk.

pub mod agents;
mod cases;
pub mod check;
pub mod clock;
pub mod device;
#[path = "../common/dice.rs"]
pub mod dice;
pub mod disk;
pub mod ledger;
pub mod life;
mod outside;
pub mod promises;
pub mod stories;
mod tasks;
