//! Turns and quotas between spools, requests that no quota holds back, and requests that crash the
//! gate.

mod exits;
mod owners;
mod poison;
mod quotas;
mod tree;
mod turns;
