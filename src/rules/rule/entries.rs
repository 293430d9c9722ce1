//! Entries that come into sets while the gate runs: approved with a held request, or granted for one task. They are
//! part of the state, not of the rulebook; sets that take them say so.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::wire::ids::{Principal, SetName, TaskName};
use crate::wire::time::Time;

/// Entries by set and value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Entries(BTreeMap<SetName, BTreeMap<String, Vec<Entry>>>);

/// Why a value is in a set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Who brought it in.
    pub by: Principal,
    /// Until when it counts; none: until somebody takes it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
    /// The tree of tasks that it is for; none: for everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskName>,
}

impl Entries {
    /// Whether `set` holds `value`, normalised, at `now` for a request of `task`.
    pub fn holds(&self, set: &SetName, value: &str, now: Time, task: Option<&TaskName>) -> bool {
        let entries = self.0.get(set).and_then(|values| values.get(value));
        entries.into_iter().flatten().any(|entry| {
            entry.until.is_none_or(|until| now < until)
                && entry.task.as_ref().is_none_or(|of| task == Some(of))
        })
    }

    /// Puts an entry in. Those that have ended are forgotten.
    pub fn insert(&mut self, set: SetName, value: String, entry: Entry, now: Time) {
        for values in self.0.values_mut() {
            for entries in values.values_mut() {
                entries.retain(|entry| entry.until.is_none_or(|until| now < until));
            }
            values.retain(|_, entries| !entries.is_empty());
        }
        self.0.retain(|_, values| !values.is_empty());
        self.0.entry(set).or_default().entry(value).or_default().push(entry);
    }

    /// Takes out what came in for this task, or for everything.
    pub fn remove(&mut self, set: &SetName, value: &str, task: Option<&TaskName>) {
        let Some(values) = self.0.get_mut(set) else { return };
        if let Some(entries) = values.get_mut(value) {
            entries.retain(|entry| entry.task.as_ref() != task);
        }
        values.retain(|_, entries| !entries.is_empty());
        self.0.retain(|_, values| !values.is_empty());
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&SetName, &str, &Entry)> {
        self.0.iter().flat_map(|(set, values)| {
            values.iter().flat_map(move |(value, entries)| {
                entries.iter().map(move |entry| (set, value.as_str(), entry))
            })
        })
    }
}
