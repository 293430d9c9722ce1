//! Outgoing actions.

mod allowlist;
mod anomalies;
mod blobs;
mod check;
mod document;
mod payloads;
mod rates;
mod redaction;
mod refusals;
mod retention;
mod rules;
mod schema;
mod sealed;
