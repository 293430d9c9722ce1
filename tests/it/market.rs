//! Market data.

mod days;
mod funding;
mod gaps;
mod import;
mod rows;
mod update;
