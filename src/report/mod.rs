//! The report: one page for people, without network and without script, from the figures of a home. Pure: figures in, HTML
//! out. What agents wrote goes through `text.rs` alone.

mod account;
mod chart;
mod council;
mod ledger;
mod page;
mod radar;
mod requests;
mod table;
mod text;
mod waiting;

pub use page::{MARK, page};
