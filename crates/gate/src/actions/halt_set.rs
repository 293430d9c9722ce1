//! `halt.set`.

use super::prelude::*;
use crate::state::Halt;
use spoolgate_wire::admin::SetHalt;
use spoolgate_wire::ids::Principal;

/// Halts entries.
pub struct HaltSet;

/// The answer.
#[derive(Serialize, JsonSchema)]
pub enum Answer<'a> {
    /// The answer to `halt.set`.
    HaltSet {
        /// The principal; null for all.
        principal: Option<&'a Principal>,
    },
}

impl Action for HaltSet {
    type Payload = SetHalt;
    type Answer = Answer<'static>;
    const ABOUT: &'static str = "Stops entries.";
    const CONDITIONS: &'static [Condition] = &[BYTES];
    const ROW: Row = Row::new(
        ActionName::HaltSet,
        "SetHalt",
        "principal?, reason",
        SPEAKERS,
    )
    .lane(Lane::Control)
    .rate(Rate::Free);

    fn check(set: &SetHalt) -> Result<(), PayloadError> {
        check_reason(&set.reason)
    }

    fn execute(turn: &Turn<'_>, sender: &Authentic, set: &SetHalt) -> Result<Outcome, Refusal> {
        let source = &sender.envelope.source;
        let is_human = turn.rules.role(source) == Some(Role::Human);
        let principal = match (&set.principal, is_human) {
            (None, true) => None,
            (None, false) => Some(source.clone()),
            (Some(named), true) => Some(named.clone()),
            (Some(named), false) if named == source => Some(named.clone()),
            (Some(named), false) => {
                let what = format!("an agent may halt only itself: `{named}` is not `{source}`");
                return Err(Refusal::new(Code::NotPermitted, what));
            }
        };
        if let Some(missing) = principal
            .as_ref()
            .filter(|name| !turn.rules.principals.contains_key(name))
        {
            return Err(Refusal::new(
                Code::NotFound,
                format!("`{missing}` is not in rules/principals.yaml"),
            ));
        }
        let data = data(&Answer::HaltSet {
            principal: principal.as_ref(),
        })?;
        let halt = Halt {
            by: source.clone(),
            at: turn.now,
            reason: set.reason.clone(),
        };
        Ok(Outcome {
            data,
            changes: vec![Change::HaltSet { principal, halt }],
            ..Outcome::default()
        })
    }
}
