//! The council: computes one decision from role verdicts and computed evidence. Pure.

pub mod aggregate;
mod axes;
pub mod brief;
pub mod case;
pub mod complete;
mod confidence;
pub mod evidence;
pub mod finding;
pub mod seats;
pub mod signers;
mod text;
