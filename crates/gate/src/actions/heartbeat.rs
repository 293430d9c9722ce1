//! `heartbeat`.

use super::prelude::*;
use crate::dead_man;
use spoolgate_wire::admin;
use spoolgate_wire::ids::Principal;

/// Shows that an agent is alive.
pub struct Heartbeat;

/// The answer.
#[derive(Serialize, JsonSchema)]
pub enum Answer<'a> {
    /// The answer to `heartbeat`.
    Heartbeat {
        /// The agent.
        principal: &'a Principal,
        /// Whether its entries were closed until now.
        armed_again: bool,
    },
}

impl Action for Heartbeat {
    type Payload = admin::Heartbeat;
    type Answer = Answer<'static>;
    const ABOUT: &'static str = "Reports that an agent is alive.";
    const CONDITIONS: &'static [Condition] = &[PERSON];
    const ROW: Row = Row::new(ActionName::Heartbeat, "Heartbeat", "principal?", SPEAKERS)
        .lane(Lane::Control)
        .rate(Rate::Free)
        .tool(
            "heartbeat",
            "Heartbeat",
            "Report that you are alive. It opens your entries again after the dead man's switch \
                has closed them.",
        );

    fn execute(
        turn: &Turn<'_>,
        sender: &Authentic,
        beat: &admin::Heartbeat,
    ) -> Result<Outcome, Refusal> {
        let source = &sender.envelope.source;
        let is_human = turn.rules.role(source) == Some(Role::Human);
        let principal = match (&beat.principal, is_human) {
            (None, false) => source,
            (Some(named), true) => named,
            (Some(named), false) if named == source => named,
            (Some(named), false) => {
                let what = format!(
                    "an agent may send only its own heartbeat: `{named}` is not \
                    `{source}`"
                );
                return Err(Refusal::new(Code::NotPermitted, what));
            }
            (None, true) => {
                let what = "a person sends a heartbeat for an agent; name the agent as `principal`";
                return Err(Refusal::new(Code::MalformedPayload, what));
            }
        };
        if turn.rules.role(principal) != Some(Role::Agent) {
            let what = format!("`{principal}` is not an agent in rules/principals.yaml");
            return Err(Refusal::new(Code::NotFound, what));
        }
        let armed_again = turn.state.dead_man.tripped.contains_key(principal);
        let data = data(&Answer::Heartbeat {
            principal,
            armed_again,
        })?;
        let beat = dead_man::Change::Beat {
            principal: principal.clone(),
        };
        Ok(Outcome {
            data,
            changes: vec![Change::DeadMan(beat)],
            ..Outcome::default()
        })
    }
}
