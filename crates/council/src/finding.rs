//! The results of the evidence roles: checklist rows with value, threshold and source.

use serde::{Deserialize, Serialize};

use spoolgate_wire::council::{Axis, Severity, Stance};

/// One computed row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// The id of its check, such as `RC-02`.
    pub check_id: String,
    /// The question.
    pub question: String,
    /// The answer; says what to supply if `pass` is null for a missing input.
    pub answer: String,
    /// Whether the check passed; null if it was not computed.
    pub pass: Option<bool>,
    /// The severity of a failure.
    pub severity: Severity,
    /// The axis on which a failure counts.
    pub axis: Axis,
    /// Whether its message may head the decision's text.
    pub headline: bool,
    /// One sentence for the decision's text, if the check failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The computed value, rounded as it was compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The threshold it was compared with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<String>,
    /// Source of formula and inputs.
    pub source: String,
}

/// The vote of an evidence role.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// The role as `council/roles.yaml` names it.
    pub role: String,
    /// The verdict that follows from the rows.
    pub verdict: Stance,
    /// All rows, in order.
    pub findings: Vec<Finding>,
    /// The actions it requires.
    pub required_actions: Vec<String>,
}
