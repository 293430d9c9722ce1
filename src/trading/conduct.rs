//! How a strategy has been doing: losses in a row, stop-outs, entries executed. Folded from fills alone.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::book::Book;
use super::change::Change;
use super::order::{Fill, OrderRole};
use crate::rules::Rulebook;
use crate::rules::rulebook::{EXECUTIONS_MAX, EXECUTIONS_WINDOW_S_MAX};
use crate::wire::amount::Amount;
use crate::wire::ids::StrategyName;
use crate::wire::time::Time;

/// What limits on repetition read of one strategy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conduct {
    /// Closed trades in a row that lost, fees included. A trade goes from flat to flat in one symbol.
    pub losing: u32,
    /// When a protective stop last filled, by the market's clock: rows may come late.
    pub stopped_out_at: Option<Time>,
    /// When the latest entries first filled, by the market's clock, in the order of the fills: at most as many, and as old, as a
    /// limit may count.
    pub executions: VecDeque<Time>,
    /// Since when it may not enter because it executed too often; only a person clears it.
    pub disabled_since: Option<Time>,
}

impl Conduct {
    /// Folds a fill in. `is_first` says that nothing of the order had filled before, `closed` what the trade came to
    /// that this fill ended.
    pub(super) fn fill(&mut self, fill: &Fill, is_first: bool, closed: Option<Amount>) {
        match closed {
            Some(result) if result.is_negative() => self.losing = self.losing.saturating_add(1),
            Some(_) => self.losing = 0,
            None => {}
        }
        match fill.role {
            OrderRole::Protective => self.stopped_out_at = Some(fill.market_time),
            OrderRole::Entry if is_first => self.execute(fill.market_time),
            OrderRole::Entry | OrderRole::Exit | OrderRole::Target => {}
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

    /// A person lets it enter again: streak, executions and their latch begin anew. A stop-out stays.
    pub(super) fn clear(&mut self) {
        *self = Conduct { stopped_out_at: self.stopped_out_at, ..Conduct::default() };
    }

    /// Entries first executed less than `window_s` seconds from `time`.
    pub fn executions_within(&self, window_s: u32, time: Time) -> usize {
        let window_ms = i64::from(window_s).saturating_mul(1000);
        let is_within = |at: &&Time| time.since_ms(**at).saturating_abs() < window_ms;
        self.executions.iter().filter(is_within).count()
    }
}

/// What closes a strategy to entries, if by `time` it has executed as often as it may within the window.
pub(super) fn disabling(book: &Book, rules: &Rulebook, name: &StrategyName, time: Time) -> Option<Change> {
    let conduct = book.conduct.get(name).filter(|conduct| conduct.disabled_since.is_none())?;
    let safety = &rules.safety;
    let count = conduct.executions_within(safety.executions_window_s, time);
    let is_reached = u32::try_from(count).is_ok_and(|count| count >= safety.max_executions);
    is_reached.then(|| Change::StrategyDisabled { strategy: name.clone(), at: time })
}
