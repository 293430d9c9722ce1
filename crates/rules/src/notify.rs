//! `rules/notify.yaml`: the program that notifies the operator when a proposal waits.

use serde::Deserialize;

use super::command::CommandRule;
use super::rulebook::RulebookError;
use super::yaml;

/// Path below the home.
pub const PATH: &str = "rules/notify.yaml";

/// The program that runs when a proposal waits for an approver. It reads the proposal from its
/// standard input.
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
    /// Returns [`RulebookError`] if the YAML or the command is not valid.
    pub fn read(path: &str, text: &str) -> Result<Notify, RulebookError> {
        let notify: Notify = yaml::read(path, text)?;
        let fail = |what| RulebookError::new(path, None, format!("`command`: {what}"));
        notify.command.check().map_err(fail)?;
        Ok(notify)
    }
}
