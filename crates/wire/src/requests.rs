//! Requests about requests.

use serde::Deserialize;
use serde_json::value::RawValue;

/// `request.check`: asks what would happen to a request of this action with this payload.
#[derive(Clone, Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CheckRequest {
    /// The action to check.
    pub action: String,
    /// The payload to check. If it does not have the shape of the action, the answer is the one
    /// such a request would get.
    #[schemars(schema_with = "crate::schema::object")]
    pub payload: Box<RawValue>,
}
