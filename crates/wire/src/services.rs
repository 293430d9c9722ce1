//! Payloads by which a person changes the allowlist and the credentials of its services.

use serde::{Deserialize, Deserializer};

use super::gateway::Method;
use super::ids::ServiceName;

/// `services.add`: adds a destination.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddService {
    /// Name of the service.
    pub service: ServiceName,
    /// Host of the service.
    #[schemars(schema_with = "crate::schema::host")]
    pub host: String,
    /// Port of the service; if absent, the default port of the protocol.
    #[serde(default, deserialize_with = "present")]
    #[schemars(schema_with = "crate::schema::whole::<1, 65535>")]
    pub port: Option<u16>,
    /// Protocol of the service, such as `https`.
    #[schemars(schema_with = "crate::schema::protocol")]
    pub protocol: String,
    /// Methods that calls may use.
    #[serde(default)]
    #[schemars(extend("uniqueItems" = true))]
    pub methods: Vec<Method>,
    /// Other actions than calls that may go there.
    #[serde(default)]
    pub actions: Vec<String>,
}

/// `services.remove`, `services.deactivate`, `services.activate`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NameService {
    /// Name of the service.
    pub service: ServiceName,
}

/// `services.credential`: the secret itself is in the keyring and never in a request.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetCredential {
    /// Name of the service.
    pub service: ServiceName,
    /// Name of the secret in the keyring, 32 lower-case hex digits; absent or null removes the
    /// credential.
    #[serde(default)]
    #[schemars(schema_with = "crate::schema::hex_or_null::<32>")]
    pub credential_id: Option<String>,
}

fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}
