//! The agent's side: a request is signed with the agent's own key, handed to the spool or the socket, and its answer waited
//! for. Nothing here reads or writes the ledger, the rules or the state, and nothing is printed.

pub mod door;
pub mod key_file;
pub mod sign;
pub mod socket;
pub mod spool;

pub use door::{AskError, Door};
pub use key_file::{KeyFile, KeyFileError};
pub use sign::{SignError, random_name, sign};
