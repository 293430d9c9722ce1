//! An agent's side: signing requests, handing them over and waiting for answers.
//!
#![doc = include_str!("../README.md")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "an agent reads its key file and the clock, and uses the spool and the socket"
)]

pub mod door;
pub mod key_file;
pub mod sign;
pub mod socket;
pub mod spool;

pub use door::{AskError, Door};
pub use key_file::{KeyFile, KeyFileError};
pub use sign::{SignError, random_name, sign};
