//! What the evidence roles compute: checklist rows with value, threshold and source.

use serde::{Deserialize, Serialize};

use crate::wire::council::{Axis, Severity, Stance};

/// One computed row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// Its check, such as `RC-02`.
    pub check_id: String,
    /// The question.
    pub question: String,
    /// The answer; what to supply, where `pass` is null for a missing input.
    pub answer: String,
    /// Whether it is good; null: not computed.
    pub pass: Option<bool>,
    /// How bad a failure is.
    pub severity: Severity,
    /// The axis a failure counts on.
    pub axis: Axis,
    /// Whether its message may head the decision's text.
    pub headline: bool,
    /// One sentence for the decision's text, where it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The computed value, rounded as it was compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// What it was compared with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<String>,
    /// Where formula and inputs come from.
    pub source: String,
}

/// The vote of an evidence role.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// The role as `council/roles.yaml` names it.
    pub role: String,
    /// What follows from the rows.
    pub verdict: Stance,
    /// All rows, in order.
    pub findings: Vec<Finding>,
    /// What it wants done about them.
    pub required_actions: Vec<String>,
}
