//! Estimates the effect of a rule change: decides the last requests before it again, once without
//! it and once with it.

use std::path::Path;

use serde::Serialize;

use crate::backtest::{Flip, compare};
use crate::history::each_decision;
use spoolgate_gate::actions::{self, Rules};
use spoolgate_home::error::HomeError;
use spoolgate_home::open::Seams;
use spoolgate_rules::Rulebook;

/// How many lines before a proposal are examined.
pub const LINES: u64 = 1000;

/// Result of a rehearsal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Rehearsal {
    /// Requests among the lines to which rules apply.
    pub requests: u64,
    /// Requests that could be decided again under both rulebooks.
    pub again: u64,
    /// Refused only with the change.
    pub newly_refused: u64,
    /// Held with the change and not without it.
    pub newly_held: u64,
    /// Accepted only with the change.
    pub newly_accepted: u64,
    /// Refused or held in both cases, for different reasons.
    pub reason_changed: u64,
}

impl Rehearsal {
    /// Returns the number of requests whose outcome changes.
    pub fn flipped(&self) -> u64 {
        self.newly_refused
            .saturating_add(self.newly_held)
            .saturating_add(self.newly_accepted)
    }

    /// Formats the result as one line.
    pub fn in_words(&self) -> String {
        let Rehearsal {
            requests,
            again,
            newly_refused,
            newly_held,
            newly_accepted,
            reason_changed,
        } = self;
        let untold = match requests.saturating_sub(*again) {
            0 => String::new(),
            count => format!("; {count} more cannot be decided again"),
        };
        format!(
            "{} of {again} decisions would flip ({newly_refused} newly refused, {newly_held} \
                newly held, {newly_accepted} newly accepted), {reason_changed} have another \
                reason{untold}",
            self.flipped()
        )
    }
}

/// Decides the requests among the `lines` ledger lines before line `until` again, under `before`
/// and under `after`, each on the state of its time. The result is a function of the ledger and the
/// two rulebooks. `progress` receives the number of bytes of lines read.
pub fn rehearse(
    root: &Path,
    seams: &Seams,
    (before, after): (&Rulebook, &Rulebook),
    (until, lines): (u64, u64),
    progress: &mut dyn FnMut(u64),
) -> Result<Rehearsal, HomeError> {
    let among = until.saturating_sub(lines)..until;
    let mut rehearsal = Rehearsal::default();
    each_decision(root, seams, progress, &mut |past, line| {
        // Rules do not affect other actions, except proposals, which are about the rulebook itself.
        let action = line.decision.action.as_deref().and_then(actions::find);
        if !among.contains(&line.seq) || action.is_none_or(|action| action.rules_apply == Rules::No)
        {
            return Ok(());
        }
        rehearsal.requests = rehearsal.requests.saturating_add(1);
        let Ok(request) = &line.request else {
            return Ok(());
        };
        let was = past.decide_under(before, line, request)?.decision;
        let is = past.decide_under(after, line, request)?.decision;
        rehearsal.again = rehearsal.again.saturating_add(1);
        let counter = match compare(&was, &is) {
            None => return Ok(()),
            Some(Flip::NewlyRefused) => &mut rehearsal.newly_refused,
            Some(Flip::NewlyHeld) => &mut rehearsal.newly_held,
            Some(Flip::NewlyAccepted) => &mut rehearsal.newly_accepted,
            Some(Flip::ReasonChanged) => &mut rehearsal.reason_changed,
        };
        *counter = counter.saturating_add(1);
        Ok(())
    })?;
    Ok(rehearsal)
}
