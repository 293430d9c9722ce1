//! Actions that leave the machine: tests that need no process of their own to be alone in, in one program, which is built and linked once.

#[path = "../common/mod.rs"]
mod common;

mod allowlist;
mod anomalies;
mod blobs;
mod check;
mod document;
mod payloads;
mod rates;
mod refusals;
mod rules;
mod schema;
mod sealed;
