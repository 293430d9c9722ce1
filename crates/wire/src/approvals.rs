//! Payloads by which a person decides held requests and task grants, and the id of a hold.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

#[cfg(feature = "schema")]
use super::admin::REASON_BYTES_MAX;
use super::ids::{SetName, TaskName};
use super::time::Time;

/// Name of a held request: `h-<seq of the line that holds it>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HoldId(pub u64);

impl HoldId {
    /// Reads `h-<seq>`. `None` for anything else, including leading zeros.
    pub fn parse(text: &str) -> Option<HoldId> {
        let digits = text.strip_prefix("h-")?;
        let is_plain = digits == "0" || !digits.starts_with('0');
        let are_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        digits
            .parse()
            .ok()
            .filter(|_| is_plain && are_digits)
            .map(HoldId)
    }
}

crate::text_schema!(HoldId, super::schema::numbered("h"));

impl fmt::Display for HoldId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "h-{}", self.0)
    }
}

impl Serialize for HoldId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for HoldId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<HoldId, D::Error> {
        let text = String::deserialize(deserializer)?;
        HoldId::parse(&text).ok_or_else(|| {
            de::Error::custom(
                "the name of a held request has the \
            form `h-12`",
            )
        })
    }
}

/// `approval.grant`: decides a held request again, with the rules that held it satisfied.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GrantApproval {
    /// Id of the hold.
    pub id: HoldId,
    /// SHA-256 of the request's signing string, hex: the approval is for exactly this request.
    #[schemars(schema_with = "crate::schema::hex::<64>")]
    pub request_sha256: String,
    /// The reason.
    #[serde(default, deserialize_with = "present")]
    #[schemars(schema_with = "crate::schema::said::<REASON_BYTES_MAX>")]
    pub reason: Option<String>,
    /// Whether to add the values that the holding rules did not find in their sets to those sets
    /// that grow on approval.
    #[serde(default)]
    pub remember: bool,
}

/// `approval.deny`: refuses a held request.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DenyApproval {
    /// Id of the hold.
    pub id: HoldId,
    /// SHA-256 of the request's signing string, hex.
    #[schemars(schema_with = "crate::schema::hex::<64>")]
    pub request_sha256: String,
    /// The reason.
    #[serde(default, deserialize_with = "present")]
    #[schemars(schema_with = "crate::schema::said::<REASON_BYTES_MAX>")]
    pub reason: Option<String>,
}

/// `grant.add`: puts a value into a set for one task.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddGrant {
    /// The set, which must be one that grows on approval.
    pub set: SetName,
    /// The value.
    pub value: String,
    /// The tree of tasks.
    pub task: TaskName,
    /// When the grant ends.
    pub expires_at: Time,
}

/// `grant.end`: ends a grant.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EndGrant {
    /// The set.
    pub set: SetName,
    /// The value.
    pub value: String,
    /// The task; if absent, the approval for all tasks.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "TaskName")]
    pub task: Option<TaskName>,
}

fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}
