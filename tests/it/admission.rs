//! Admission of tasks.

mod batch;
mod cases;
mod order;
mod step;
mod tokens;
