//! A program that rule files name: what answers for a council role, or delivers a policy or lineage from elsewhere.

use serde::{Deserialize, Serialize};

/// Longest time a program may take.
const TIME_S_MAX: u32 = 3600;
/// Most a program may print.
const OUTPUT_BYTES_MAX: u32 = 1024 * 1024;

/// A program, started without a shell: what it is asked stands on its standard input, what it writes to its standard
/// output is its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandRule {
    /// Path of the program.
    #[schemars(length(min = 1))]
    pub program: String,
    /// Its arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// How long it may take, seconds.
    #[schemars(schema_with = "crate::wire::schema::whole::<1, TIME_S_MAX>")]
    pub time_limit_s: u32,
    /// How much it may print, bytes.
    #[schemars(schema_with = "crate::wire::schema::whole::<1, { 8 * OUTPUT_BYTES_MAX }>")]
    pub output_bytes_max: u32,
}

impl CommandRule {
    /// Whether it can be started and has bounds.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> Result<(), String> {
        self.check_within(TIME_S_MAX, OUTPUT_BYTES_MAX)
    }

    /// The same with bounds (seconds, bytes) of its own.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check_within(&self, time_s_max: u32, output_bytes_max: u32) -> Result<(), String> {
        let whole = |text: &String| !text.contains('\0');
        if self.program.is_empty() || !whole(&self.program) || !self.args.iter().all(whole) {
            return Err("`program` is empty, or it or its arguments hold a NUL".to_owned());
        }
        if !(1..=time_s_max).contains(&self.time_limit_s) {
            return Err(format!("`time_limit_s` is {}; it must be 1 to {time_s_max}", self.time_limit_s));
        }
        if !(1..=output_bytes_max).contains(&self.output_bytes_max) {
            let bytes = self.output_bytes_max;
            return Err(format!("`output_bytes_max` is {bytes}; it must be 1 to {output_bytes_max}"));
        }
        Ok(())
    }
}
