//! Entries that are added to named sets while the gate runs: approved together with a hold, or
//! granted for one task. They belong to the state, not to the rulebook. Only sets that declare
//! `grows` accept them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use spoolgate_wire::ids::{Principal, SetName, TaskName};
use spoolgate_wire::time::Time;

/// Entries by set and value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Entries(BTreeMap<SetName, BTreeMap<String, Vec<Entry>>>);

/// Why a value is in a set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Who added it.
    pub by: Principal,
    /// Until when it counts; `None` if it counts until it is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
    /// The tree of tasks that it counts for; `None` if it counts for every request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskName>,
}

impl Entries {
    /// Returns whether `set` has the normalised `value` at `now` for a request of `task`.
    pub fn holds(&self, set: &SetName, value: &str, now: Time, task: Option<&TaskName>) -> bool {
        let entries = self.0.get(set).and_then(|values| values.get(value));
        entries.into_iter().flatten().any(|entry| {
            entry.until.is_none_or(|until| now < until)
                && entry.task.as_ref().is_none_or(|of| task == Some(of))
        })
    }

    /// Adds an entry, and drops all entries that have expired.
    pub fn insert(&mut self, set: SetName, value: String, entry: Entry, now: Time) {
        for values in self.0.values_mut() {
            for entries in values.values_mut() {
                entries.retain(|entry| entry.until.is_none_or(|until| now < until));
            }
            values.retain(|_, entries| !entries.is_empty());
        }
        self.0.retain(|_, values| !values.is_empty());
        self.0
            .entry(set)
            .or_default()
            .entry(value)
            .or_default()
            .push(entry);
    }

    /// Removes the entries that were added for this task, or those for every request if
    /// `task` is `None`.
    pub fn remove(&mut self, set: &SetName, value: &str, task: Option<&TaskName>) {
        let Some(values) = self.0.get_mut(set) else {
            return;
        };
        if let Some(entries) = values.get_mut(value) {
            entries.retain(|entry| entry.task.as_ref() != task);
        }
        values.retain(|_, entries| !entries.is_empty());
        self.0.retain(|_, values| !values.is_empty());
    }

    /// Returns all entries.
    pub fn iter(&self) -> impl Iterator<Item = (&SetName, &str, &Entry)> {
        self.0.iter().flat_map(|(set, values)| {
            values.iter().flat_map(move |(value, entries)| {
                entries
                    .iter()
                    .map(move |entry| (set, value.as_str(), entry))
            })
        })
    }
}
