//! What crosses the boundary: strict JSON, the envelope, signatures, payload types, answers and their
//! codes. Pure.

pub mod admin;
pub mod amount;
pub mod answer;
pub mod code;
pub mod envelope;
pub mod ids;
pub mod json;
pub mod orders;
pub mod signing;
pub mod time;
