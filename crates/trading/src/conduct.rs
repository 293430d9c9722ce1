//! The recent record of a strategy: losses in a row, stop-outs, executed entries. Folded from fills
//! alone.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::book::Book;
use super::change::Change;
use super::order::{Fill, OrderRole};
use spoolgate_rules::Rulebook;
use spoolgate_rules::safety::{EXECUTIONS_MAX, EXECUTIONS_WINDOW_S_MAX};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::StrategyName;
use spoolgate_wire::time::Time;

/// What the limits on repetition read about one strategy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conduct {
    /// Closed trades in a row that lost, fees included. A trade goes from flat to flat in one
    /// symbol.
    pub losing: u32,
    /// When a protective stop last filled, by the market's clock, because rows may come late.
    pub stopped_out_at: Option<Time>,
    /// When the latest entries first filled, by the market's clock, in the order of the fills.
    /// Bounded in number and age by what a limit may count.
    pub executions: VecDeque<Time>,
    /// Refusals of its orders by their venues in a row. Only an entry that was accepted after the last
    /// of them ends the row, when its venue takes or fills it: once the row has closed the strategy,
    /// there is none.
    #[serde(default, skip_serializing_if = "is_none")]
    pub rejects: u32,
    /// When a venue last refused one of its orders, if it did since the row began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejected_at: Option<Time>,
    /// Since when it may not enter because it executed too often; only a person clears it.
    pub disabled_since: Option<Time>,
}

#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_none(count: &u32) -> bool {
    *count == 0
}

/// The text of a refusal by which a bridge says that it never sent the order.
const NEVER_SENT: &str = "expired";

impl Conduct {
    /// Counts a refusal of one of its orders by the order's venue.
    pub(super) fn refused(&mut self, reason: &str, at: Time) {
        if reason != NEVER_SENT {
            self.rejects = self.rejects.saturating_add(1);
            self.rejected_at = self.rejected_at.max(Some(at));
        }
    }

    /// Ends the row of refusals, because a venue has taken or filled an entry that was accepted at
    /// this time, if that was after the last refusal.
    pub(super) fn taken(&mut self, accepted_at: Time) {
        if self.rejected_at.is_none_or(|at| at < accepted_at) {
            (self.rejects, self.rejected_at) = (0, None);
        }
    }

    /// Folds a fill in. `is_first` states that no earlier fill of the order exists; `closed` is the
    /// result of the trade if this fill ended it.
    pub(super) fn fill(&mut self, fill: &Fill, is_first: bool, closed: Option<Amount>) {
        match closed {
            Some(result) if result.is_negative() => self.losing = self.losing.saturating_add(1),
            Some(_) => self.losing = 0,
            None => {}
        }
        match fill.role {
            OrderRole::Protective => self.stopped_out_at = Some(fill.market_time),
            OrderRole::Entry if is_first => self.execute(fill.market_time),
            OrderRole::Entry | OrderRole::Exit | OrderRole::Target | OrderRole::Adjust => {}
        }
    }

    fn execute(&mut self, at: Time) {
        self.executions.push_back(at);
        let window_ms = i64::from(EXECUTIONS_WINDOW_S_MAX).saturating_mul(1000);
        let most = usize::try_from(EXECUTIONS_MAX).unwrap_or(usize::MAX);
        while let Some(oldest) = self.executions.front() {
            if at.since_ms(*oldest).saturating_abs() < window_ms && self.executions.len() <= most {
                break;
            }
            self.executions.pop_front();
        }
    }

    /// Resets the losses and the refusals in a row, the executions and the latch, so that the strategy may enter
    /// again. The time of the last stop-out stays.
    pub(super) fn clear(&mut self) {
        *self = Conduct {
            stopped_out_at: self.stopped_out_at,
            ..Conduct::default()
        };
    }

    /// Counts the entries that first executed less than `window_s` seconds from `time`.
    pub fn executions_within(&self, window_s: u32, time: Time) -> usize {
        let window_ms = i64::from(window_s).saturating_mul(1000);
        let is_within = |at: &&Time| time.since_ms(**at).saturating_abs() < window_ms;
        self.executions.iter().filter(is_within).count()
    }
}

/// Returns the change that closes a strategy to entries if by `time` it has executed as often as it
/// may within the window.
pub(super) fn disabling(
    book: &Book,
    rules: &Rulebook,
    name: &StrategyName,
    time: Time,
) -> Option<Change> {
    let conduct = book
        .conduct
        .get(name)
        .filter(|conduct| conduct.disabled_since.is_none())?;
    let safety = &rules.safety;
    let count = conduct.executions_within(*safety.executions_window_s, time);
    let is_reached = u32::try_from(count).is_ok_and(|count| count >= *safety.max_executions);
    is_reached.then(|| Change::StrategyDisabled {
        strategy: name.clone(),
        at: time,
    })
}
