//! Measures how long the gate has watched an agent without a sign of life, and trips the dead man's
//! switch.
//!
//! Only time in which a gate ran and looked counts: neither the time between processes nor the time
//! in which this one was stopped.

use std::collections::BTreeMap;

use super::batch::Pending;
use super::core::Core;
use super::error::HomeError;
use super::open::Home;
use super::parts::News;
use spoolgate_gate::record::{EventKind, Record};
use spoolgate_gate::{Change, dead_man, events};
use spoolgate_wire::ids::Principal;
use spoolgate_wire::time::Time;

/// Maximum time that counts between two looks, milliseconds. A watcher looks every second, so a
/// longer gap was spent stopped or in one long piece of work, and requests may have been waiting
/// since.
const LOOK_MS_MAX: u64 = 10_000;

/// What this process has observed.
#[derive(Debug, Default)]
pub(super) struct DeadManWatch {
    /// When it last looked, on the monotonic clock; `None` if it is not watching.
    looked_ms: Option<u64>,
    /// How long it has watched, milliseconds.
    watched_ms: u64,
    /// For each principal, how long it had watched at the last sign of life, milliseconds.
    heard_ms: BTreeMap<String, u64>,
}

impl DeadManWatch {
    fn look(&mut self, monotonic_ms: u64) {
        let Some(looked_ms) = self.looked_ms else {
            return;
        };
        let passed_ms = monotonic_ms.saturating_sub(looked_ms).min(LOOK_MS_MAX);
        self.watched_ms = self.watched_ms.saturating_add(passed_ms);
        self.looked_ms = Some(monotonic_ms);
    }

    fn hear(&mut self, principal: &str) {
        if self.looked_ms.is_none() {
            return;
        }
        match self.heard_ms.get_mut(principal) {
            Some(at) => *at = self.watched_ms,
            None => {
                self.heard_ms.insert(principal.to_owned(), self.watched_ms);
            }
        }
    }

    /// Returns how long `principal` has shown no sign of life. `earlier_ms` is the time that
    /// earlier processes watched since its last one.
    fn unheard_ms(&self, principal: &Principal, earlier_ms: Option<u64>) -> u64 {
        let heard_ms = self.heard_ms.get(principal.as_str()).copied().unwrap_or(0);
        self.watched_ms
            .saturating_sub(heard_ms)
            .saturating_add(earlier_ms.unwrap_or(0))
    }
}

impl Home {
    /// Counts time against agents that show no sign of life from now on, until [`Home::finish`].
    pub fn begin_watching(&mut self) {
        self.news
            .dead_man
            .looked_ms
            .get_or_insert(self.core.seams.clock.monotonic_ms());
    }

    /// Writes the lines of agents for which the switch trips. Runs
    /// after the requests of the batch, so that a request of the last moment still counts.
    pub(super) fn push_absences(
        &mut self,
        pending: &mut Pending,
        now: Time,
    ) -> Result<(), HomeError> {
        self.news.look(&self.core);
        if self.news.dead_man.looked_ms.is_some() && self.core.rulebook.safety.dead_man.is_some() {
            for (agent, unheard_ms) in self.news.unheard(&self.core) {
                let rules = &self.core.rulebook;
                if let Some(event) = events::trip(rules, &agent, unheard_ms, now) {
                    self.push_event(pending, Record::Event(EventKind::DeadMan, event))?;
                }
            }
        }
        Ok(())
    }
}

impl News {
    /// Counts the time since the last look.
    pub(super) fn look(&mut self, core: &Core) {
        self.dead_man.look(core.seams.clock.monotonic_ms());
    }

    /// Whether this process watches, until [`Home::finish`].
    pub(super) fn is_watching(&self) -> bool {
        self.dead_man.looked_ms.is_some()
    }

    /// Notes the principals for which a line is a sign of life.
    pub(super) fn note_signs_of_life(&mut self, record: &Record) {
        if let Record::Decision(decision) = record
            && let Some(source) = decision.is_sign_of_life_of()
        {
            self.dead_man.hear(source);
        }
        for change in record.changes() {
            if let Change::DeadMan(dead_man::Change::Beat { principal }) = change {
                self.dead_man.hear(principal.as_str());
            }
        }
    }

    fn unheard(&self, core: &Core) -> Vec<(Principal, u64)> {
        let earlier = &core.state.dead_man.unheard_ms;
        let awaited = dead_man::awaited(&core.state, &core.rulebook);
        awaited
            .map(|agent| {
                (
                    agent.clone(),
                    self.dead_man.unheard_ms(agent, earlier.get(agent).copied()),
                )
            })
            .collect()
    }

    /// Ends the watch. Returns how long each agent has shown no sign of life, for the next process.
    pub(super) fn end_watching(&mut self, core: &Core) -> Vec<Change> {
        self.look(core);
        let unheard = if self.dead_man.looked_ms.is_some() {
            self.unheard(core)
        } else {
            Vec::new()
        };
        self.dead_man = DeadManWatch::default();
        let earlier = &core.state.dead_man.unheard_ms;
        let is_news =
            |(agent, ms): &(Principal, u64)| earlier.get(agent).copied().unwrap_or(0) != *ms;
        let news = unheard.into_iter().filter(is_news);
        news.map(|(principal, ms)| Change::DeadMan(dead_man::Change::Unheard { principal, ms }))
            .collect()
    }
}
