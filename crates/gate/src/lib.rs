//! The gate itself: who may send what, in which lane, and the pure function that decides it. No
//! clock, no file, no randomness, no environment: a decision's inputs are passed in and recorded in
//! its line.

#[cfg(not(feature = "schema"))]
extern crate spoolgate_no_schema as schemars;

pub mod actions;
pub mod admission;
pub mod again;
pub mod approvals;
pub mod bridges;
pub mod control;
pub mod council;
pub mod dead_man;
pub mod decide;
pub mod drill;
pub mod efficacy;
pub mod elsewhere;
pub mod enforced;
pub mod events;
pub mod exempt;
pub mod facts;
pub mod faults;
pub mod fired;
pub mod flatten;
pub mod gateway;
pub mod halts;
pub mod handle;
pub mod history;
pub mod market;
pub mod notice;
pub mod openings;
pub mod outbox;
pub mod portfolio;
pub mod prepare;
pub mod proposals;
pub mod pulls;
pub mod rates;
pub mod record;
pub mod rules;
pub mod safer;
pub mod schemas;
pub mod sealing;
pub mod services;
pub mod state;
pub mod storage;

pub use decide::{Decided, Lookups, Seen, decide};
pub use prepare::{Delivery, Prepared, prepare};
pub use record::{Decision, EventKind, Record};
pub use state::{Change, State};
