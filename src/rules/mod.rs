//! The rulebook: every file that people write and agents cannot, read all or nothing and known by one
//! hash. Pure but for `load`, which reads the folder.

pub mod admission;
pub mod bundle;
pub mod command;
pub mod evidence;
pub mod gateway;
pub mod golden;
pub mod hours;
pub mod instruments;
pub mod lint;
pub mod load;
pub mod notify;
pub mod principals;
pub mod proof;
pub mod rates;
pub mod roles;
pub mod rule;
pub mod rulebook;
pub mod safety;
pub mod services;
pub mod strategies;
pub mod theses;
pub mod yaml;

pub use bundle::Bundle;
pub use rulebook::{Rulebook, RulebookError};
