//! Contract 4: decides whether a task may come into being. This crate is pure; lineage, policy and
//! clock are passed in.

#[cfg(not(feature = "schema"))]
extern crate spoolgate_no_schema as schemars;

pub mod evaluate;
pub mod lineage;
pub mod receipt;
pub mod settle;
pub mod spending;

pub use evaluate::{Evaluation, NoLimits, Question, evaluate};
pub use lineage::{Change, Lineage};
pub use receipt::Receipt;
