//! How long the gate has watched without hearing of an agent, and what the dead man's switch makes of it. Only time in
//! which a gate ran and looked counts: neither the time between processes nor that in which this one was stopped.

use std::collections::BTreeMap;

use super::batch::Pending;
use super::open::{Home, HomeError};
use crate::gate::record::{Event, Record};
use crate::gate::{Change, dead_man, events, outbox};
use crate::wire::ids::Principal;
use crate::wire::time::Time;

/// Between two looks at most this much counts, milliseconds: a watcher looks every second, so what lies in between was
/// spent stopped or in one long piece of work, and requests may be waiting that long.
const LOOK_MS_MAX: u64 = 10_000;

/// What this process has seen.
#[derive(Debug, Default)]
pub(super) struct Absence {
    /// When it last looked, on the monotonic clock; none: it does not watch.
    looked_ms: Option<u64>,
    /// How long it has watched, milliseconds.
    watched_ms: u64,
    /// How long it had watched when it last heard of a principal.
    heard_ms: BTreeMap<String, u64>,
}

impl Absence {
    fn look(&mut self, monotonic_ms: u64) {
        let Some(looked_ms) = self.looked_ms else { return };
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

    /// How long it has not heard of `principal`, with the time of earlier processes if it never did.
    fn unheard_ms(&self, principal: &Principal, earlier_ms: Option<u64>) -> u64 {
        let heard_ms = self.heard_ms.get(principal.as_str()).copied().unwrap_or(0);
        self.watched_ms.saturating_sub(heard_ms).saturating_add(earlier_ms.unwrap_or(0))
    }
}

impl Home {
    /// From now on time counts against agents that are not heard of, until [`Home::finish`].
    pub fn begin_watching(&mut self) {
        self.absence.looked_ms.get_or_insert(self.seams.clock.monotonic_ms());
    }

    /// Counts the time since it last looked.
    pub(super) fn look(&mut self) {
        self.absence.look(self.seams.clock.monotonic_ms());
    }

    /// Notes whom a line tells of.
    pub(super) fn note_signs_of_life(&mut self, record: &Record) {
        if let Record::Decision(decision) = record
            && let Some(source) = decision.is_sign_of_life_of()
        {
            self.absence.hear(source);
        }
        for change in record.changes() {
            if let Change::DeadMan(dead_man::Change::Beat { principal }) = change {
                self.absence.hear(principal.as_str());
            }
        }
    }

    fn unheard(&self) -> Vec<(Principal, u64)> {
        let earlier = &self.state.dead_man.unheard_ms;
        let awaited = dead_man::awaited(&self.state, &self.rulebook);
        awaited
            .map(|agent| (agent.clone(), self.absence.unheard_ms(agent, earlier.get(agent).copied())))
            .collect()
    }

    /// Lines of agents that the switch trips for, and of positions that it closes. Behind the requests of the batch, so
    /// that what came in at the last moment still counts.
    pub(super) fn push_absences(&mut self, pending: &mut Pending, now: Time) -> Result<(), HomeError> {
        self.look();
        if self.absence.looked_ms.is_some() && self.rulebook.safety.dead_man.is_some() {
            for (agent, unheard_ms) in self.unheard() {
                let (note, parts) = events::trip(&self.state, &self.rulebook, &agent, unheard_ms, now);
                for part in parts {
                    let changes = outbox::of_line(&self.state.book, part, now);
                    let event = Event { timestamp: now, note: note.clone(), changes };
                    self.push_event(pending, Record::DeadMan(event))?;
                }
            }
        }
        // Each order covers its position, so there are no more of them than positions.
        for _ in 0..self.state.book.positions.len() {
            let seq = self.next_seq(pending);
            let Some(changes) = dead_man::liquidate(&self.state, &self.rulebook, seq, now) else { break };
            let changes = outbox::of_line(&self.state.book, changes, now);
            let note = events::LIQUIDATED.to_owned();
            self.push_event(pending, Record::DeadMan(Event { timestamp: now, note, changes }))?;
        }
        Ok(())
    }

    /// Ends the watch: how long whom has not been heard of, for the next process.
    pub(super) fn end_watching(&mut self) -> Vec<Change> {
        self.look();
        let unheard = if self.absence.looked_ms.is_some() { self.unheard() } else { Vec::new() };
        self.absence = Absence::default();
        let earlier = &self.state.dead_man.unheard_ms;
        let is_news = |(agent, ms): &(Principal, u64)| earlier.get(agent).copied().unwrap_or(0) != *ms;
        let news = unheard.into_iter().filter(is_news);
        news.map(|(principal, ms)| Change::DeadMan(dead_man::Change::Unheard { principal, ms })).collect()
    }
}
