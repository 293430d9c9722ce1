//! Contract 4, the decision: may this task come into being? Pure. Lineage, policy and clock are handed in.

pub mod evaluate;
pub mod lineage;
pub mod receipt;

pub use evaluate::{Evaluation, Question, evaluate};
pub use lineage::{Change, Lineage};
pub use receipt::Receipt;
