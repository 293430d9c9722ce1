//! Contract 3: one explicit decision of a controller about one concern, validated, applied if it is safe, answered in
//! full. Pure, and knows nothing of trading: what it needs of the book comes in as [`Facts`] and a function.

pub mod checks;
pub mod outcome;
pub mod registry;

pub use outcome::{Outcome, decide};
pub use registry::{Change, ConcernState, ControlState, Standing, standing};

use crate::rules::Rulebook;
use crate::rules::principals::{PrincipalRule, Role};
use crate::wire::control::{ControlStatus, PositionKept};
use crate::wire::ids::{ConcernId, OrderId, Principal};
use crate::wire::time::Time;

/// An earlier decision of the same sender under the same decision_id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Earlier {
    /// The line that decided it.
    pub seq: u64,
    /// SHA-256 of its payload, hex.
    pub payload_hash: String,
    /// What came of it.
    pub status: ControlStatus,
    /// Its payload; none if that cannot be read any more.
    pub payload: Option<String>,
    /// Its response; none if that cannot be read any more.
    pub data: Option<String>,
    /// What its answer said, if it was refused.
    pub message: Option<String>,
}

/// What a decision reads besides itself.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The rulebook in force, or the last good one.
    pub rules: &'a Rulebook,
    /// What was decided before.
    pub state: &'a ControlState,
    /// Who decides.
    pub source: &'a Principal,
    /// The sender's rule.
    pub rule: &'a PrincipalRule,
    /// SHA-256 of the payload, hex.
    pub payload_hash: &'a str,
    /// The decision that used the decision_id before.
    pub earlier: Option<&'a Earlier>,
    /// The gate's clock.
    pub now: Time,
    /// Why entries are halted; none: they are not.
    pub halted: Option<&'a str>,
    /// Why the gate's clock cannot be trusted; none: it can.
    pub clock_fault: Option<&'a str>,
    /// Why the rule files cannot be used; none: they can.
    pub rulebook_fault: Option<&'a str>,
}

/// What reconciling strategies comes to; `C` is what it does to the book.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reconciled<C> {
    /// Entries that are cancelled.
    pub cancelled_orders: Vec<OrderId>,
    /// Positions that stay.
    pub positions_kept: Vec<PositionKept>,
    /// The changes.
    pub changes: Vec<C>,
}

/// Whether a sender may decide on a concern. Making safer needs less: a person may on any, an agent where the current
/// strategy is its own.
pub fn may_decide(facts: &Facts<'_>, concern: &ConcernId, makes_safer: bool) -> bool {
    let granted = facts.rule.control.concerns.contains(concern);
    let own = || {
        let current = registry::current(facts.rules, facts.state, concern);
        facts.rule.role == Role::Human
            || current.is_some_and(|strategy| facts.rule.strategies.contains(&strategy.name))
    };
    granted || (makes_safer && own())
}
