//! The whole gate on a simulated disk.

pub mod agents;
pub mod clock;
pub mod dice;
pub mod disk;
pub mod ledger;
pub mod life;
