//! Heads of the log and the hand-over of its keys, as ledger lines tell of them.

use serde::{Deserialize, Serialize};

use super::ids::Principal;
use super::time::Time;

/// A head: so many lines, and their root.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// How many lines.
    pub size: u64,
    /// Root of the tree over them, hex.
    pub root: String,
}

impl std::fmt::Display for Head {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} lines with root {}", self.size, self.root)
    }
}

/// What a person gave up by accepting a rollback.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GivenUp {
    /// The heads that were remembered and not on the log any more, the smallest first.
    pub heads: Vec<Head>,
    /// The last seal of the log that was gone on with.
    pub resumed_from: Head,
}

/// Body of a `rotate` line: the second of a file, before the seal of the new key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rotation {
    /// The gate's clock.
    pub timestamp: Time,
    /// The person who rotated.
    pub by: Principal,
    /// Why.
    pub reason: String,
    /// What verifies checkpoints from here on, C2SP signed-note form.
    pub log_key: String,
    /// What verifies seals from here on, hex.
    pub seal_key: String,
    /// Ed25519 signature of the old log key, base64.
    pub old_log_sig: String,
    /// Of the old seal key.
    pub old_seal_sig: String,
    /// Of the new log key, which shows that somebody has it. The new seal key shows that by the seal.
    pub new_log_sig: String,
}
