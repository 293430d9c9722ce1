//! Payloads of people about the allowlist and the credentials of its services.

use serde::{Deserialize, Deserializer};

use super::gateway::Method;
use super::ids::ServiceName;

/// `services.add`: one more destination.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddService {
    /// Its name.
    pub service: ServiceName,
    /// Its host.
    pub host: String,
    /// Its port; absent: that of the protocol.
    #[serde(default, deserialize_with = "present")]
    #[schemars(schema_with = "crate::wire::schema::whole::<1, 65535>")]
    pub port: Option<u16>,
    /// Its protocol, as `https`.
    #[schemars(schema_with = "crate::wire::schema::protocol")]
    pub protocol: String,
    /// Methods that calls may have.
    #[serde(default)]
    #[schemars(extend("uniqueItems" = true))]
    pub methods: Vec<Method>,
    /// Actions other than calls that go there.
    #[serde(default)]
    pub actions: Vec<String>,
}

/// `services.remove`, `services.deactivate`, `services.activate`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NameService {
    /// Which one.
    pub service: ServiceName,
}

/// `services.credential`: the secret itself is in the keyring and never in a request.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetCredential {
    /// Whose.
    pub service: ServiceName,
    /// Under which name the keyring has the secret, 32 lower-case hex digits; absent or null: it has none any more.
    #[serde(default)]
    #[schemars(schema_with = "crate::wire::schema::hex_or_null::<32>")]
    pub credential_id: Option<String>,
}

fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}
