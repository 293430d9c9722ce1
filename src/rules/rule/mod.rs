//! One language for every contract: rules that refuse, hold or warn, over facts of a fixed list. Data, not code, and
//! one compiled form for whoever decides and whoever proves.

pub mod entries;
pub mod evaluate;
pub mod fact;
pub mod field;
pub mod file;
pub mod links;
pub mod ranges;
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

pub use crate::wire::host;
pub use entries::Entries;
pub use evaluate::{Around, Finding, Truth};
pub use fact::{Fact, Value};
pub use field::{Field, Reading};
pub use file::{RuleFile, RuleStatus, Then};
pub use ranges::Ranges;
pub use ruleset::{Condition, Guard, Program, RuleSet};
pub use set::NamedSet;
pub use test::{Members, Test};
