//! An open home: tests that need no process of their own to be alone in, in one program, which is built and linked once.

#[path = "../common/mod.rs"]
mod common;

mod dead_man;
mod hints;
mod looking;
mod outbox;
mod outbox_lines;
mod peers;
mod query;
mod rates;
mod room;
