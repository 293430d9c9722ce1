//! The context that the gate passes in with each trading action (`submit`, `cancel`, `tighten`),
//! and the verdict it gets back.

use serde::{Deserialize, Serialize};

use super::change::Change;
use super::order::{OrderEnd, Why};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::checks::CheckRow;
use spoolgate_wire::ids::{OrderId, Principal, StrategyName};
use spoolgate_wire::orders::Headroom;
use spoolgate_wire::time::Time;

/// What a decision reads in addition to the book, the rulebook and the payload.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The gate's clock, one instant per batch.
    pub now: Time,
    /// The signed timestamp of the request; used only for freshness.
    pub requested_at: Time,
    /// The sender.
    pub source: &'a Principal,
    /// The id that an accepted order gets.
    pub order_id: OrderId,
    /// Why a person, a file or the agent itself halted entries; `None` if they are not halted.
    pub halted: Option<&'a str>,
    /// Why the dead man's switch closed the sender's entries; `None` if it did not.
    pub unheard: Option<&'a str>,
    /// The number of messages that the sender and all agents have sent within a minute.
    pub messages: Messages,
    /// Why the gate's clock cannot be trusted for entries; `None` if it can.
    pub clock_fault: Option<&'a str>,
    /// Why the rule files cannot be used (file and line); the given rulebook is then the last good
    /// one.
    pub rulebook_fault: Option<&'a str>,
    /// The order that a cancel names, if it is no longer open; looked up by the host.
    pub closed_order: Option<&'a ClosedOrder>,
    /// The key that signed the request; `None` for requests that nobody signs.
    pub key_id: Option<&'a str>,
    /// Why the key that signed the order no longer counts; `None` for an order that is submitted,
    /// whose signature was just checked.
    pub key_fault: Option<&'a str>,
    /// Why control closes the strategy to entries (paused, on standby, or exit only); `None` if it
    /// does not.
    pub paused: Option<&'a str>,
    /// The factor for limits on size and risk in risk mode `reduced`; `None` in any other mode.
    pub limit_factor: Option<Amount>,
}

/// Numbers of messages of agents within a minute, including the present one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Messages {
    /// Messages of the sender, without exits, cancels, tightens and messages that are never
    /// limited.
    pub own: u32,
    /// The same for all agents together.
    pub all: u32,
    /// Exits, cancels and tightens of the sender.
    pub protected: u32,
}

/// An order that is no longer open, as far as a cancel needs it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClosedOrder {
    /// The order id.
    pub order_id: OrderId,
    /// The strategy that owned it.
    pub strategy: StrategyName,
    /// How it ended.
    pub end: OrderEnd,
    /// Which check ended it, if it was pulled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<Why>,
}

/// The outcome of a trading request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The full check vector, in the order of the table of checks.
    pub checks: Vec<CheckRow>,
    /// Whether every blocking check passed.
    pub accepted: bool,
    /// For rejected orders: the largest size that would pass, and the check that limits it.
    pub headroom: Option<Headroom>,
    /// The changes to the book; empty if rejected.
    pub changes: Vec<Change>,
}
