//! Heads of the log and the hand-over of its keys, as in ledger lines.

use serde::{Deserialize, Serialize};

use super::ids::Principal;
use super::time::Time;

/// A head of the log: a number of lines, and their root.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// Number of lines.
    pub size: u64,
    /// Root of the tree over them, hex.
    pub root: String,
}

impl std::fmt::Display for Head {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} lines with root {}", self.size, self.root)
    }
}

/// The heads that a person gave up by accepting a rollback.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GivenUp {
    /// The remembered heads that are not on the log any more, smallest first.
    pub heads: Vec<Head>,
    /// The last seal of the log that is continued.
    pub resumed_from: Head,
}

/// Body of a `rotate` line: the second line of a file, before the seal of the new key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rotation {
    /// Time of the gate's clock.
    pub timestamp: Time,
    /// The person who rotated the keys.
    pub by: Principal,
    /// The reason.
    pub reason: String,
    /// Key that verifies checkpoints from here on, C2SP signed-note form.
    pub log_key: String,
    /// Key that verifies seals from here on, hex.
    pub seal_key: String,
    /// Ed25519 signature of the old log key, base64.
    pub old_log_sig: String,
    /// Ed25519 signature of the old seal key, base64.
    pub old_seal_sig: String,
    /// Ed25519 signature of the new log key, base64, which proves that somebody has the key. The
    /// seal proves it for the new seal key.
    pub new_log_sig: String,
}
