//! `rules/notify.yaml`: who is told that a proposal waits.

use serde::Deserialize;

use super::command::CommandRule;
use super::rulebook::RulebookError;
use super::yaml;

/// Its path below the home.
pub const PATH: &str = "rules/notify.yaml";

/// What runs when a proposal waits for people; the proposal stands on its standard input.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Notify {
    /// The program.
    pub command: CommandRule,
}

impl Notify {
    /// Reads the file.
    ///
    /// # Errors
    /// [`RulebookError`].
    pub fn read(path: &str, text: &str) -> Result<Notify, RulebookError> {
        let notify: Notify = yaml::read(path, text)?;
        let fail = |what| RulebookError::new(path, None, format!("`command`: {what}"));
        notify.command.check().map_err(fail)?;
        Ok(notify)
    }
}
