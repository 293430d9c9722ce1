//! What a line records about the cage of a program.

use serde::{Deserialize, Serialize};

/// What the cage of a program enforced. The kernel decides that, so replay takes it as recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cage {
    /// Version of Landlock; 0 without it.
    pub landlock: i32,
    /// Whether every right over files was restricted.
    pub files: bool,
    /// The ports that it could connect to; absent if they were not restricted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<Vec<u16>>,
    /// Whether it could signal no process outside the cage.
    pub signals: bool,
    /// Whether system calls were filtered.
    pub calls: bool,
}
