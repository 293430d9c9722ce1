//! An open home.

mod assumed;
mod bridge_folder;
mod bridges;
mod dead_man;
mod exits;
mod fees;
mod flatten;
pub(crate) mod halts;
mod hands;
mod hints;
mod imitated;
mod looking;
mod outbox;
mod outbox_lines;
mod overrides;
mod peers;
mod pulls;
mod query;
mod rates;
mod room;
