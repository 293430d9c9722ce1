//! The spool: finding files, claiming them, publishing answers. Files in it are hostile.

pub mod claim;
pub mod name;
pub mod publish;
pub mod retire;
pub mod scan;
pub mod watch;
