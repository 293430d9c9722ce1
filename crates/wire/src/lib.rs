//! Strict JSON, signed envelopes, exact amounts and the types of every request and answer.
//!
#![doc = include_str!("../README.md")]

#[cfg(not(feature = "schema"))]
extern crate spoolgate_no_schema as schemars;

pub mod action_name;
pub mod admin;
pub mod admission;
pub mod amount;
pub mod answer;
pub mod approvals;
pub mod checks;
pub mod code;
pub mod control;
pub mod council;
pub mod envelope;
pub mod faults;
pub mod frames;
pub mod gateway;
pub mod heads;
pub mod host;
pub mod ids;
pub mod json;
pub mod limits;
pub mod market;
mod named;
pub mod orders;
pub mod payload;
pub mod proposals;
pub mod repair;
pub mod requests;
pub mod schema;
pub mod sealed;
pub mod services;
pub mod shape;
pub mod signing;
pub mod sshsig;
pub mod text;
pub mod time;
pub mod venue;

/// Deserialises a unit-only enum from a JSON string. Derived readers would also accept
/// `{"buy":null}` for `"buy"`.
fn word<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: serde::Deserialize<'de>,
{
    use serde::de::IntoDeserializer;
    let text = <String as serde::Deserialize>::deserialize(deserializer)?;
    T::deserialize(text.into_deserializer())
}

/// Version of this program, as recorded in ledger lines.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
