//! Rules and approvals.

mod approvals;
mod backtest;
mod commands;
mod diff;
mod efficacy;
mod gate;
