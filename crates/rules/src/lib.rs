//! The rulebook: every file that an operator writes and no agent can change. The files are
//! compiled all or nothing and identified by one hash. This crate is pure: `host` reads the folder
//! into a [`Bundle`].

#[cfg(not(feature = "schema"))]
extern crate spoolgate_no_schema as schemars;

pub mod admission;
pub mod admit;
pub mod approval;
pub mod ask;
pub mod bounds;
pub mod bundle;
pub mod cases;
pub mod command;
pub mod evidence;
pub mod gateway;
pub mod golden;
pub mod hours;
pub mod instruments;
pub mod lint;
pub mod mutants;
pub mod nearest;
pub mod notify;
pub mod overrides;
pub mod principals;
pub mod proof;
pub mod rates;
pub mod retention;
pub mod review;
pub mod roles;
pub mod rule;
pub mod rulebook;
pub mod safety;
mod search;
pub mod services;
pub mod strategies;
pub mod theses;
pub mod yaml;

pub use bundle::Bundle;
pub use rulebook::{Rulebook, RulebookError};
