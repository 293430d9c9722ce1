//! Rules and approvals.

mod approvals;
mod backtest;
mod commands;
mod efficacy;
mod enforced;
mod gate;
mod review;
mod reviewed;
