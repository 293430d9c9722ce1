//! An external program that a rule file names. It answers for a council role, performs an outgoing
//! action, notifies the operator of a proposal, or delivers a policy or a lineage.

use serde::{Deserialize, Serialize};

/// Longest time that a program may run, seconds.
const TIME_S_MAX: u32 = 3600;
/// Largest output of a program, bytes.
const OUTPUT_BYTES_MAX: u32 = 1024 * 1024;

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
    #[schemars(schema_with = "spoolgate_wire::schema::whole::<1, TIME_S_MAX>")]
    pub time_limit_s: u32,
    /// How much it may write to its standard output, bytes.
    #[schemars(schema_with = "spoolgate_wire::schema::whole::<1, { 8 * OUTPUT_BYTES_MAX }>")]
    pub output_bytes_max: u32,
}

impl CommandRule {
    /// Checks that the program can be started and that its limits are in range.
    ///
    /// # Errors
    /// Returns a message that names the wrong member.
    pub fn check(&self) -> Result<(), String> {
        self.check_within(TIME_S_MAX, OUTPUT_BYTES_MAX)
    }

    /// Like [`CommandRule::check`], with other upper bounds (seconds, bytes).
    ///
    /// # Errors
    /// Returns a message that names the wrong member.
    pub fn check_within(&self, time_s_max: u32, output_bytes_max: u32) -> Result<(), String> {
        let whole = |text: &String| !text.contains('\0');
        if self.program.is_empty() || !whole(&self.program) || !self.args.iter().all(whole) {
            return Err("`program` is empty, or it or its arguments hold a NUL".to_owned());
        }
        if !(1..=time_s_max).contains(&self.time_limit_s) {
            return Err(format!(
                "`time_limit_s` is {}; it must be 1 to {time_s_max}",
                self.time_limit_s
            ));
        }
        if !(1..=output_bytes_max).contains(&self.output_bytes_max) {
            let bytes = self.output_bytes_max;
            return Err(format!(
                "`output_bytes_max` is {bytes}; it must be 1 to {output_bytes_max}"
            ));
        }
        Ok(())
    }
}
