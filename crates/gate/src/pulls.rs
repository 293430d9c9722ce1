//! Pulls: lines that withdraw the working entries that the state no longer allows.
//!
//! They follow from the state alone, after every line that changes it and whenever time passes, so
//! halts, pauses, revoked keys and changed rules need no code of their own that cancels, and what is
//! left of a thousand orders after a crash follows again at the next start.

use std::collections::BTreeMap;

use super::control;
use super::halts::Covered;
use super::outbox;
use super::record::Event;
use super::state::{Change, State};
use spoolgate_rules::Rulebook;
use spoolgate_trading::guard::{self, Impose, Imposed, Pull};
use spoolgate_trading::order::Order;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::time::Time;

/// Maximum number of entries that one line withdraws, so that the line fits.
pub const PULLS_PER_LINE: usize = 100;

/// What the gate's state imposes on working entries.
#[derive(Clone, Copy, Debug)]
pub struct Doors<'a> {
    /// The state.
    pub state: &'a State,
    /// The rulebook in force, or the last good one.
    pub rules: &'a Rulebook,
}

impl Impose for Doors<'_> {
    fn clock_fault(&self) -> Option<String> {
        self.state.clock_fault()
    }

    fn rulebook_fault(&self) -> Option<String> {
        self.state.rulebook.fault.clone()
    }

    fn on(&self, order: &Order) -> Imposed {
        let (paused, limit_factor) = control::of_entries(self.state, self.rules, &order.strategy);
        let key = order.key_id.as_ref();
        let entry = Covered {
            source: &order.source,
            strategy: &order.strategy,
            symbol: &order.symbol,
            bridge: order.at_venue.as_ref().map(|at| &at.bridge),
        };
        let revoked = key.and_then(|key| self.state.keys.get(key)?.revoked_at);
        Imposed {
            halted: self.state.halts.covers(&entry, true),
            unheard: self.state.dead_man.closes(&order.source),
            paused,
            limit_factor,
            key_fault: revoked
                .map(|at| format!("the key that signed the order was revoked at {at}")),
        }
    }
}

/// Returns the entries that are no longer allowed, in the order in which they are pulled. `rules` has
/// the limits in force ([`State::in_force`]).
pub fn due<'a>(state: &'a State, rules: &'a Rulebook, margin: Amount, now: Time) -> Vec<Pull<'a>> {
    guard::pulls(&state.book, rules, &Doors { state, rules }, now, margin)
}

/// Returns how far above its limit a sum may be after a line with these changes, as a fraction of
/// the limit: nothing where rules, overrides or control changed, because then the limit itself moved.
pub fn margin(changes: &[Change], rules: &Rulebook) -> Amount {
    let moves_a_limit = |change: &Change| {
        matches!(
            change,
            Change::RulebookLoaded { .. }
                | Change::RulebookRefused(_)
                | Change::RulebookFaulted { .. }
                | Change::Proposal(_)
                | Change::Control(_)
                | Change::LimitOverridden { .. }
                | Change::OverrideEnded { .. }
        )
    };
    if changes.iter().any(moves_a_limit) {
        Amount::ZERO
    } else {
        *rules.safety.pull_margin
    }
}

/// Returns the next `pull` line, or `None` if every working entry is allowed. After it, ask again.
pub fn next(state: &State, rules: &Rulebook, margin: Amount, now: Time) -> Option<Event> {
    let rules = state.in_force(rules);
    let due = due(state, &rules, margin, now);
    let line = due.get(..PULLS_PER_LINE).unwrap_or(&due);
    let mut changes = Vec::new();
    let mut by_check: BTreeMap<&str, usize> = BTreeMap::new();
    for pull in line {
        changes.extend(pull.changes(&state.book, now).into_iter().map(Change::Book));
        let count = by_check.entry(pull.why.check.as_str()).or_default();
        *count = count.saturating_add(1);
    }
    let changes = outbox::of_line(&state.book, &rules, changes, now);
    if changes.is_empty() {
        return None;
    }
    let checks = by_check.iter();
    let checks: Vec<String> = checks
        .map(|(check, count)| format!("{count} by `{check}`"))
        .collect();
    Some(Event {
        timestamp: now,
        note: format!("entries are pulled: {}", checks.join(", ")),
        changes,
        cage: None,
    })
}
