//! Turns and quotas between spools, what no quota holds back, and requests that kill the gate.

mod exits;
mod poison;
mod quotas;
mod tree;
mod turns;
