//! Admission of tasks.

mod batch;
mod cases;
mod order;
mod spending;
mod step;
mod tokens;
