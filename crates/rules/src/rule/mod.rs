//! One rule language for all contracts: rules refuse, hold or warn, and read facts from a fixed
//! list. Rules are data, not code. Decisions and proofs use the same compiled form.

pub mod entries;
pub mod error;
pub mod evaluate;
pub mod fact;
pub mod field;
pub mod file;
pub mod historic;
pub mod links;
pub mod listed;
pub mod ranges;
pub mod registry;
pub mod ruleset;
pub mod set;
pub mod table;
pub mod test;

#[cfg(test)]
mod tests_host;
#[cfg(test)]
mod tests_hostile;
#[cfg(test)]
mod tests_meaning;

pub use entries::Entries;
pub use evaluate::{Around, Finding, Truth};
pub use fact::{Fact, Value};
pub use field::{Field, Reading};
pub use file::{RuleFile, RuleStatus, Then};
pub use ranges::Ranges;
pub use ruleset::{Condition, Guard, Program, RuleSet};
pub use set::NamedSet;
pub use spoolgate_wire::host;
pub use test::{Members, Test};
