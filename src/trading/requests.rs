//! What the gate passes in with each trading action (`submit`, `cancel`, `tighten`), and what comes back.

use serde::{Deserialize, Serialize};

use super::change::Change;
use super::order::OrderEnd;
use crate::wire::amount::Amount;
use crate::wire::ids::{OrderId, Principal, StrategyName};
use crate::wire::orders::{CheckResult, Headroom};
use crate::wire::time::Time;

/// What a decision reads besides the book, the rulebook and the payload.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The gate's clock, one instant a batch.
    pub now: Time,
    /// The signed timestamp of the request: serves freshness only.
    pub requested_at: Time,
    /// Who signed.
    pub source: &'a Principal,
    /// The id an accepted order gets.
    pub order_id: OrderId,
    /// Why entries are halted by a person, a file or the agent itself; none: they are not.
    pub halted: Option<&'a str>,
    /// Why the sender's entries are closed by the dead man's switch; none: they are not.
    pub unheard: Option<&'a str>,
    /// What the sender and all agents have sent within a minute.
    pub messages: Messages,
    /// Why the gate's clock cannot be trusted for entries; none: it can.
    pub clock_fault: Option<&'a str>,
    /// Why the rule files cannot be used (file and line); the rulebook given is then the last good one.
    pub rulebook_fault: Option<&'a str>,
    /// The order that a cancel names, if it is not open any more; the host looks it up.
    pub closed_order: Option<&'a ClosedOrder>,
    /// Why control lets the strategy enter nothing: it is paused, stands by, or may only exit; none: it does.
    pub paused: Option<&'a str>,
    /// What limits on size and risk are multiplied by, in risk mode `reduced`; none: they stand as they are.
    pub limit_factor: Option<Amount>,
}

/// Messages of agents within a minute, the present one included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Messages {
    /// Of the sender, but for exits, cancels, tightens and what is always heard.
    pub own: u32,
    /// The same of all agents.
    pub all: u32,
    /// Exits, cancels and tightens of the sender.
    pub protected: u32,
}

/// An order that is no longer open, as far as a cancel needs it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClosedOrder {
    /// Its id.
    pub order_id: OrderId,
    /// Who owned it.
    pub strategy: StrategyName,
    /// How it ended.
    pub end: OrderEnd,
}

/// The outcome of a trading request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The full check vector, in the order of the table of checks.
    pub checks: Vec<CheckResult>,
    /// Whether every blocking check passed.
    pub accepted: bool,
    /// For rejected orders: the largest size that would pass and what binds.
    pub headroom: Option<Headroom>,
    /// What it does to the book; empty if rejected.
    pub changes: Vec<Change>,
}
