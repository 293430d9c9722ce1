//! The folded ledger: the bounded part as a snapshot, the unbounded part as an index in SQLite.
//! Both are caches; `spoolgate rebuild` makes them again from the ledger.

pub mod cases;
pub mod decisions;
pub mod fold;
pub mod history;
pub mod lineage;
pub mod lines;
pub mod proposals;
pub mod reports;
pub mod requests;
pub mod responses;
pub mod sealed;
pub mod store;

pub use fold::{Outstanding, fold, fold_known};
pub use store::{Snapshot, Store, StoreError};
