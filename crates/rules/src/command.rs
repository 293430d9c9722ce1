//! An external program that a rule file names. It answers for a council role, performs an outgoing
//! action, notifies the operator of a proposal, or delivers a policy or a lineage.

use serde::{Deserialize, Serialize};

#[cfg(feature = "schema")]
use super::bounds::Bounded;
use super::bounds::{AtLeast, OutOfBounds};

/// Longest time that a program may run, seconds.
const TIME_S_MAX: u32 = 3600;
/// Largest output of a program, bytes.
const OUTPUT_BYTES_MAX: u32 = 1024 * 1024;

/// Why a program cannot be started as a rule file says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// The program has no path, or a NUL would end a text early.
    #[error("`program` is empty, or it or its arguments hold a NUL")]
    Program,
    /// A limit is larger than it may be here.
    #[error("`{0}` {1}")]
    Limit(&'static str, #[source] OutOfBounds),
}

/// A program that the gate starts without a shell. It reads the request from its standard input and
/// writes its answer to its standard output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandRule {
    /// Path of the program.
    #[schemars(length(min = 1))]
    pub program: String,
    /// Its arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// How long it may run, seconds.
    #[schemars(with = "Bounded<1, TIME_S_MAX>")]
    pub time_limit_s: AtLeast<1>,
    /// How much it may write to its standard output, bytes.
    #[schemars(with = "Bounded<1, { 8 * OUTPUT_BYTES_MAX }>")]
    pub output_bytes_max: AtLeast<1>,
}

impl CommandRule {
    /// Checks that the program can be started and that its limits are in range.
    ///
    /// # Errors
    /// Returns [`CommandError`] for the first wrong member.
    pub fn check(&self) -> Result<(), CommandError> {
        self.check_within(TIME_S_MAX, OUTPUT_BYTES_MAX)
    }

    /// Like [`CommandRule::check`], with other upper bounds (seconds, bytes).
    ///
    /// # Errors
    /// Returns [`CommandError`] for the first wrong member.
    pub fn check_within(&self, time_s_max: u32, output_bytes_max: u32) -> Result<(), CommandError> {
        let whole = |text: &String| !text.contains('\0');
        if self.program.is_empty() || !whole(&self.program) || !self.args.iter().all(whole) {
            return Err(CommandError::Program);
        }
        let limits = [
            ("time_limit_s", *self.time_limit_s, time_s_max),
            ("output_bytes_max", *self.output_bytes_max, output_bytes_max),
        ];
        match limits.into_iter().find(|(_, value, most)| value > most) {
            Some((key, value, most)) => {
                Err(CommandError::Limit(key, OutOfBounds::above(value, most)))
            }
            None => Ok(()),
        }
    }
}
