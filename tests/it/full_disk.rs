//! What the gate serves when its disk has little room, or none.

mod brief;
mod frames;
mod low;
mod reserve;
mod waits;
mod whole;
