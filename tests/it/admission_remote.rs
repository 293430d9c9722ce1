//! Policies and lineage from commands: whatever a command does, what needs it is denied or waits,
//! everything else is answered meanwhile, and each request is decided once.

mod desk;
mod lineage;
mod policies;
mod waiting;
