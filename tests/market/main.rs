//! Market data: tests that need no process of their own to be alone in, in one program, which is built and linked once.

#[path = "../common/mod.rs"]
mod common;

mod days;
mod funding;
mod gaps;
mod import;
mod rows;
mod update;
