//! Admission of tasks: tests that need no process of their own to be alone in, in one program, which is built and linked once.

#[path = "../common/mod.rs"]
mod common;

mod batch;
mod cases;
mod order;
mod step;
mod tokens;
