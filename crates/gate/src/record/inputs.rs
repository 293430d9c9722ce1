//! Lines of kind `input`: what a command outside answered to the council or to admission.

use serde::{Deserialize, Serialize};

use crate::state::Change;
use spoolgate_wire::ids::{Principal, RequestId};
use spoolgate_wire::time::Time;

/// What came back from outside about a council case: the answer of a role's command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The gate's clock.
    pub timestamp: Time,
    /// The case.
    pub request_id: RequestId,
    /// The role whose command it was.
    pub role: String,
    /// How the command ended, and what is wrong with its output.
    pub note: String,
    /// The RoleVerdict it wrote, as text; absent if the seat stays empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<String>,
    /// Its digest instead, where it is larger than 8 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_blob: Option<String>,
    /// Hash of the rulebook that named the command.
    pub rulebook: String,
    /// What it does to the state.
    pub changes: Vec<Change>,
}

/// What admission asked a command about.
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
    /// The lineage of the task that one request asks for. The next decision over the same request and file rests on it.
    Lineage {
        /// The domain, as `tenant/surface/profile`.
        domain: String,
        /// Who signed.
        source: Principal,
        /// Id of the request.
        request_id: RequestId,
        /// SHA-256 of its file's bytes, hex.
        file_sha256: String,
    },
}

/// An answer from outside for admission. Like the answer of a role it is a line of kind `input`;
/// `about` distinguishes them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdmissionInput {
    /// The gate's clock.
    pub timestamp: Time,
    /// What was asked.
    pub about: AskedFor,
    /// How the command ended, and what is wrong with its output.
    pub note: String,
    /// What it wrote, as text; absent if it was of no use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<String>,
    /// Its digest instead, where it is larger than 8 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_blob: Option<String>,
    /// Hash of the rulebook in force.
    pub rulebook: String,
    /// What it does to the state: a policy is kept, lineage does nothing.
    pub changes: Vec<Change>,
}
