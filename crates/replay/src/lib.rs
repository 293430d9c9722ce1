//! What a ledger shows: the state before every past decision, replay, backtests of rules, their
//! efficacy, queries, and the figures of the report. The crate reads a home and changes nothing.

pub mod backtest;
pub mod efficacy;
pub mod filter;
pub mod follow;
pub mod history;
pub mod query;
pub mod rehearsal;
pub mod replay;
pub mod replay_state;
pub mod report;
