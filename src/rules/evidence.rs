//! The `evidence:` part of `council/roles.yaml`.

use serde::Deserialize;

/// Thresholds of the computed checks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvidencePolicy {}
