//! `grant.end`.

use super::prelude::*;
use crate::approvals;
use crate::prepare::escaped;
use spoolgate_wire::approvals::EndGrant;
use spoolgate_wire::ids::{SetName, TaskName};

/// Removes a value that a grant or an approval added to a set.
pub struct GrantEnd;

/// The answer.
#[derive(Serialize, JsonSchema)]
pub enum Answer<'a> {
    /// The answer to `grant.end`.
    GrantEnded {
        /// The set.
        set: &'a SetName,
        /// The value.
        value: &'a str,
        /// The task; null if the value was added for every task.
        task: Option<&'a TaskName>,
    },
}

impl Action for GrantEnd {
    type Payload = EndGrant;
    type Answer = Answer<'static>;
    const ABOUT: &'static str = "Ends that.";
    const ROW: Row =
        Row::new(ActionName::GrantEnd, "EndGrant", "set, value, task?", HUMAN).lane(Lane::Control);

    fn execute(turn: &Turn<'_>, _: &Authentic, end: &EndGrant) -> Result<Outcome, Refusal> {
        let EndGrant {
            set: name,
            value,
            task,
        } = end;
        let kind = turn.rules.ruleset.sets.get(name).map(|set| set.kind.kind());
        let folded = kind
            .and_then(|kind| kind.entry(value))
            .map_or_else(|| value.clone(), |value| value.into_owned());
        // The value may be in another form if the set had another kind when the value was added.
        let there = turn.state.entries.iter().find_map(|(set, other, entry)| {
            let is_it = set == name && (other == folded || other == value) && entry.task == *task;
            is_it.then(|| other.to_owned())
        });
        let Some(value) = there else {
            let what = format!(
                "`{}` was not added to set `{name}` for this task, or has ended",
                escaped(value)
            );
            return Err(Refusal::new(Code::NotFound, what));
        };
        let data = data(&Answer::GrantEnded {
            set: name,
            value: &value,
            task: task.as_ref(),
        })?;
        let ended = approvals::Change::EntryEnded {
            set: name.clone(),
            value,
            task: task.clone(),
        };
        Ok(Outcome {
            data,
            changes: vec![Change::Approvals(ended)],
            ..Outcome::default()
        })
    }
}
