//! Contract 3: a control decision of a controller about one concern. It is validated, applied if it
//! is safe, and answered in full. This crate is pure and does not know trading: facts about the
//! book come in as [`Facts`] and as functions.

pub mod authority;
pub mod checks;
pub mod outcome;
pub mod registry;
pub mod timing;

#[cfg(test)]
mod tests;

pub use outcome::{Outcome, decide};
pub use registry::{Change, ConcernState, ControlState, Standing, standing};

use spoolgate_rules::Rulebook;
use spoolgate_rules::principals::{PrincipalRule, Role};
use spoolgate_wire::control::{ControlStatus, PositionKept};
use spoolgate_wire::ids::{ConcernId, OrderId, Principal};
use spoolgate_wire::time::Time;

/// An earlier decision of the same sender under the same decision_id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Earlier {
    /// The ledger line that decided it.
    pub seq: u64,
    /// SHA-256 of its payload, hex.
    pub payload_hash: String,
    /// Its status.
    pub status: ControlStatus,
    /// Its payload; `None` if it cannot be read any more.
    pub payload: Option<String>,
    /// Its response; `None` if it cannot be read any more.
    pub data: Option<String>,
    /// The message of its answer, if it was refused.
    pub message: Option<String>,
}

/// What a decision depends on besides its own content.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The rulebook in force, or the last good one.
    pub rules: &'a Rulebook,
    /// What was decided before, on all concerns.
    pub state: &'a ControlState,
    /// The sender.
    pub source: &'a Principal,
    /// The sender's rule.
    pub rule: &'a PrincipalRule,
    /// SHA-256 of the payload, hex.
    pub payload_hash: &'a str,
    /// The earlier decision with the same decision_id.
    pub earlier: Option<&'a Earlier>,
    /// The ledger line that decides it.
    pub line: u64,
    /// The gate's clock.
    pub now: Time,
    /// When the gate saw the decision first: earlier than `now` if it was held for an approver.
    pub received_at: Time,
    /// Why entries are halted; `None` if they are not.
    pub halted: Option<&'a str>,
    /// Why the gate's clock cannot be trusted; `None` if it can.
    pub clock_fault: Option<&'a str>,
    /// Why the rule files cannot be used; `None` if they can.
    pub rulebook_fault: Option<&'a str>,
}

/// What becomes of orders and positions when strategies are closed to entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reconciled {
    /// Entries that are pulled.
    pub cancelled_orders: Vec<OrderId>,
    /// Positions that were kept.
    pub positions_kept: Vec<PositionKept>,
}

/// Returns whether the sender may decide on a concern. A decision that only makes things safer
/// needs less: a person may make it on any concern, an agent where the current strategy is its own.
pub fn may_decide(facts: &Facts<'_>, concern: &ConcernId, makes_safer: bool) -> bool {
    let granted = facts.rule.control.concerns.contains(concern);
    let own = || {
        let current = registry::current(facts.rules, facts.state, concern);
        facts.rule.role == Role::Human
            || current.is_some_and(|strategy| facts.rule.strategies.contains(&strategy.name))
    };
    granted || (makes_safer && own())
}
