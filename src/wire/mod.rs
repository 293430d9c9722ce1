//! What crosses the boundary: strict JSON, the envelope, signatures, payload types, answers and their
//! codes. Pure.

pub mod admin;
pub mod admission;
pub mod amount;
pub mod answer;
pub mod approvals;
pub mod code;
pub mod control;
pub mod council;
pub mod envelope;
pub mod gateway;
pub mod heads;
pub mod host;
pub mod ids;
pub mod json;
pub mod market;
pub mod orders;
pub mod proposals;
pub mod requests;
pub(crate) mod schema;
pub mod sealed;
pub mod services;
pub mod shape;
pub mod signing;
pub mod sshsig;
pub mod text;
pub mod time;
pub mod venue;

/// An enum of plain words as a JSON string. Without this serde also reads `{"buy":null}` as `"buy"`.
fn word<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: serde::Deserialize<'de>,
{
    use serde::de::IntoDeserializer;
    let text = <String as serde::Deserialize>::deserialize(deserializer)?;
    T::deserialize(text.into_deserializer())
}
