//! The council: role verdicts in, one decision out, computed evidence beside opinion. Pure.

pub mod evidence;
pub mod finding;
