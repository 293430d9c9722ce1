//! Rules and approvals: tests that need no process of their own to be alone in, in one program, which is built and linked once.

#[path = "../common/mod.rs"]
mod common;

mod approvals;
mod backtest;
mod commands;
mod diff;
mod efficacy;
mod gate;
