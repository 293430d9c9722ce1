//! The spool: finding files, claiming them, publishing answers. Files in it are hostile.

mod allowance;
pub mod claim;
pub mod name;
pub mod peek;
pub mod publish;
pub mod quota;
pub mod retire;
pub mod scan;
mod source;
mod stuck;
pub mod watch;
