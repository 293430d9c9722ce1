//! The machine: file system, clock, lock, keyring, randomness. Everything the rest of the gate wants of
//! the outside comes through here, so that it can be simulated.

pub mod adapters;
pub mod clock;
pub mod command;
pub mod disk;
pub mod doctor;
pub mod entropy;
pub mod keyring;
pub mod lock;
pub mod orphans;
pub mod real_disk;
pub mod sandbox;
pub mod socket;

pub use clock::Clock;
pub use disk::Disk;
pub use entropy::Entropy;
