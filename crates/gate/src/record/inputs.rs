//! Lines of kind `input`: the answers of commands to the council or to admission.

use serde::{Deserialize, Serialize};

use super::cage::Cage;
use crate::state::Change;
use spoolgate_wire::ids::{Principal, RequestId};
use spoolgate_wire::time::Time;

/// The answer of a role's command in a council case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The gate's clock.
    pub timestamp: Time,
    /// The case.
    pub request_id: RequestId,
    /// The role whose command it was.
    pub role: String,
    /// How the command ended, and why its output was not accepted.
    pub note: String,
    /// The RoleVerdict it wrote, as text; absent if the seat stays empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<String>,
    /// The digest of its blob instead, if it is larger than 8 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_blob: Option<String>,
    /// What the cage of the program enforced; absent if none ran, or without a cage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cage: Option<Cage>,
    /// Hash of the rulebook that named the command.
    pub rulebook: String,
    /// The changes to the state.
    pub changes: Vec<Change>,
}

/// The subject of a question of admission to a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum AskedFor {
    /// The policy of a domain.
    Policy {
        /// The domain, as `tenant/surface/profile`.
        domain: String,
        /// SHA-256 of the policy file that named the command, hex.
        policy: String,
    },
    /// The lineage of the task of one request. The next decision on the same request and file uses
    /// it.
    Lineage {
        /// The domain, as `tenant/surface/profile`.
        domain: String,
        /// The sender.
        source: Principal,
        /// Id of the request.
        request_id: RequestId,
        /// SHA-256 of its file's bytes, hex.
        file_sha256: String,
    },
}

/// The answer of a command to admission. Like the answer of a role it is a line of kind `input`;
/// `about` distinguishes them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdmissionInput {
    /// The gate's clock.
    pub timestamp: Time,
    /// The subject of the question.
    pub about: AskedFor,
    /// How the command ended, and why its output was not accepted.
    pub note: String,
    /// Its output, as text; absent if it could not be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<String>,
    /// The digest of its blob instead, if it is larger than 8 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_blob: Option<String>,
    /// What the cage of the program enforced; absent if none ran, or without a cage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cage: Option<Cage>,
    /// Hash of the rulebook in force.
    pub rulebook: String,
    /// The changes to the state: a policy is kept, a lineage changes nothing.
    pub changes: Vec<Change>,
}
