//! The machine: file system, clock, lock, keyring, randomness. Everything that the rest of the gate
//! needs from outside goes through this crate, so that it can be simulated.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this crate is the gate's access to the machine"
)]

pub mod adapters;
pub mod cage;
pub mod clock;
pub mod command;
pub mod doctor;
pub mod entropy;
pub mod keyring;
pub mod lock;
pub mod orphans;
pub mod real_disk;
pub mod rule_folder;
pub mod sandbox;
pub mod socket;
pub mod spool;

pub use clock::Clock;
pub use entropy::Entropy;
