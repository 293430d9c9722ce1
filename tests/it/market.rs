//! Market data.

mod days;
mod funding;
mod gaps;
mod held;
mod import;
mod rows;
mod update;
