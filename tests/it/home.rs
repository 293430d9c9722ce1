//! An open home.

mod assumed;
mod dead_man;
mod exits;
mod flatten;
mod halts;
mod hands;
mod hints;
mod looking;
mod outbox;
mod outbox_lines;
mod peers;
mod pulls;
mod query;
mod rates;
mod room;
