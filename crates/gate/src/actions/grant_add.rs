//! `grant.add`.

use super::prelude::*;
use crate::approvals::{self, ENTRIES_MAX};
use crate::prepare::escaped;
use spoolgate_rules::rule::entries::Entry;
use spoolgate_rules::rule::set::Grows;
use spoolgate_wire::approvals::AddGrant;
use spoolgate_wire::ids::{SetName, TaskName};

/// Adds a value to a set for one task.
pub struct GrantAdd;

/// The answer.
#[derive(Serialize, JsonSchema)]
pub enum Answer<'a> {
    /// The answer to `grant.add`.
    GrantAdded {
        /// The set.
        set: &'a SetName,
        /// The value.
        value: &'a str,
        /// The task that the grant is for.
        task: &'a TaskName,
    },
}

impl Action for GrantAdd {
    type Payload = AddGrant;
    type Answer = Answer<'static>;
    const ABOUT: &'static str = "Adds a value to a set for one task.";
    const CONDITIONS: &'static [Condition] = &[CALENDAR];
    const ROW: Row = Row::new(
        ActionName::GrantAdd,
        "AddGrant",
        "set, value, task, expires_at",
        HUMAN,
    )
    .lane(Lane::Control);

    fn execute(turn: &Turn<'_>, sender: &Authentic, add: &AddGrant) -> Result<Outcome, Refusal> {
        let conflict = |what: String| Refusal::new(Code::StateConflict, what);
        let AddGrant {
            set: name,
            value,
            task,
            expires_at,
        } = add;
        let set = turn.rules.ruleset.sets.get(name);
        let set = set.ok_or_else(|| {
            Refusal::new(
                Code::NotFound,
                format!("`rules/sets/{name}.yaml` does not exist"),
            )
        })?;
        if set.grows != Grows::OnApproval {
            return Err(conflict(format!(
                "set `{name}` cannot grow: its file does not have `grows: on_approval`"
            )));
        }
        if *expires_at <= turn.now {
            return Err(conflict(format!("`expires_at` {expires_at} has passed")));
        }
        if turn.state.entries.iter().count() >= ENTRIES_MAX {
            return Err(conflict(format!(
                "sets already have {ENTRIES_MAX} added entries; end some first"
            )));
        }
        let folded = set.kind.kind().entry(value);
        let folded = folded.ok_or_else(|| {
            conflict(format!(
                "`{}` cannot be compared with the values of set `{name}`",
                escaped(value)
            ))
        })?;
        let by = sender.envelope.source.clone();
        let entry = Entry {
            by,
            until: Some(*expires_at),
            task: Some(task.clone()),
        };
        let value = folded.into_owned();
        let data = data(&Answer::GrantAdded {
            set: name,
            value: &value,
            task,
        })?;
        let added = approvals::Change::EntryAdded {
            set: name.clone(),
            value,
            entry,
            at: turn.now,
        };
        Ok(Outcome {
            data,
            changes: vec![Change::Approvals(added)],
            ..Outcome::default()
        })
    }
}
