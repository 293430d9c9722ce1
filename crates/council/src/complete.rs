//! What a request needs and lacks.

use serde::{Deserialize, Serialize};

use spoolgate_rules::roles::Roles;
use spoolgate_wire::council::CouncilRequest;

/// What is missing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Missing {
    /// Required roles that did not answer.
    pub roles: Vec<String>,
    /// Required artifacts that are absent, empty or a placeholder.
    pub artifacts: Vec<String>,
    /// Required figures that are absent, empty or a placeholder.
    pub metrics: Vec<String>,
}

impl Missing {
    /// Whether nothing is missing.
    pub fn is_empty(&self) -> bool {
        self.roles.is_empty() && self.artifacts.is_empty() && self.metrics.is_empty()
    }
}

/// Returns what a request lacks, including these empty seats.
pub(super) fn missing(request: &CouncilRequest, empty_seats: &[String], roles: &Roles) -> Missing {
    let change = roles.change(request.change_type);
    let nothing = |text: &str| roles.placeholders.stand_for_nothing(text);
    let artifacts = change
        .required_artifacts
        .iter()
        .filter(|name| request.artifacts.get(name).is_none_or(nothing))
        .cloned()
        .collect();
    let has_figure = |name: &String| match request.context.key_metrics.get(name) {
        Some(value) => is_figure(value.as_str(), &nothing),
        None => false,
    };
    let metrics = change
        .required_metrics
        .iter()
        .filter(|name| !has_figure(name))
        .cloned()
        .collect();
    Missing {
        roles: empty_seats.to_vec(),
        artifacts,
        metrics,
    }
}

/// Whether the value is a number, or a text that is not a placeholder; the evidence roles judge its
/// content.
fn is_figure(json: &str, nothing: &impl Fn(&str) -> bool) -> bool {
    if json.starts_with('"') {
        return serde_json::from_str::<String>(json).is_ok_and(|text| !nothing(&text));
    }
    json.starts_with(|c: char| c == '-' || c.is_ascii_digit())
}
