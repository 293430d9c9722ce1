//! The report: one HTML page for people, without network access or scripts, made from the figures
//! of a home. The crate is pure: figures in, HTML out. Text written by agents is shown only through
//! `text.rs`.

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
