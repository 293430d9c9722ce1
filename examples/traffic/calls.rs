//! Recorded calls, and the environments in which they were made.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;

/// One call, as requests.jsonl has it. `kind` and `class` are for the report; no policy sees them.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Call {
    /// The suite that it belongs to.
    pub suite: String,
    /// Its task.
    pub task_id: String,
    /// `benign` or `attack`.
    pub kind: String,
    /// Its place in the task.
    pub i: usize,
    /// The tool that it represents.
    pub tool: String,
    /// `read` or `side`.
    pub class: String,
    /// The gateway's action.
    pub action: String,
    /// Its payload.
    pub payload: Value,
    /// The parts that the contract's schema cannot express.
    pub seed_misfit: Vec<String>,
}

impl Call {
    /// Returns whether it belongs to an attack.
    pub(crate) fn is_attack(&self) -> bool {
        self.kind == "attack"
    }

    /// Names suite, task and place in one line.
    pub(crate) fn name(&self) -> String {
        format!("{} {} #{} {}", self.suite, self.task_id, self.i, self.tool)
    }
}

/// What a user has, and the tools of the assistant.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Suite {
    /// Accounts, mail, files and so on.
    pub env: Value,
    /// Names of tools.
    pub tools: Vec<String>,
}

/// environment.json.
#[derive(Debug, Deserialize)]
struct Environments {
    suites: BTreeMap<String, Suite>,
}

/// Reads calls in the order of the file, and environments by suite.
///
/// # Errors
///
/// Returns an error if a file is missing or has another shape.
pub(crate) fn read(data: &Path) -> Result<(Vec<Call>, BTreeMap<String, Suite>)> {
    let text = |name: &str| {
        let path = data.join(name);
        fs::read_to_string(&path).with_context(|| format!("file `{}`", path.display()))
    };
    let requests = text("requests.jsonl")?;
    let lines = requests
        .lines()
        .filter(|line| !line.trim().is_empty())
        .enumerate();
    let calls: Result<Vec<Call>> = lines
        .map(|(nth, line)| {
            serde_json::from_str(line)
                .with_context(|| format!("requests.jsonl, line {}", nth.saturating_add(1)))
        })
        .collect();
    let environments: Environments =
        serde_json::from_str(&text("environment.json")?).context("environment.json")?;
    Ok((calls?, environments.suites))
}
