//! Policies and lineage from commands: whatever a command does, requests that need it are denied or
//! wait, everything else is answered meanwhile, and each request is decided once.

mod desk;
mod lineage;
mod policies;
mod waiting;
