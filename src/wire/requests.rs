//! Questions about requests themselves.

use serde::Deserialize;
use serde_json::value::RawValue;

/// `request.check`: what would become of a request of this action with this payload.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckRequest {
    /// The action that is asked about.
    pub action: String,
    /// Its payload. One that is not of the action's shape is answered as the request would be.
    pub payload: Box<RawValue>,
}
