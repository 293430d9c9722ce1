//! What rules did to requests, read from the rows of decision lines.

use std::collections::BTreeMap;

use serde::Serialize;

use super::record::{Decision, Status};
use spoolgate_wire::checks::CheckRow;
use spoolgate_wire::ids::RuleId;

/// What a rule did to a request that it fired on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fired {
    /// The rule refused or held it.
    Acted,
    /// The rule would have, but is in shadow.
    Shadow,
    /// The rule warned.
    Warned,
}

/// Whether a row comes from a rule: its source is the rule's file.
pub fn is_of_rule(row: &CheckRow) -> bool {
    let file = row
        .source
        .strip_prefix("rules/")
        .and_then(|file| file.strip_suffix(".yaml"));
    file.is_some_and(|file| file == row.name)
}

/// Returns what the rule of this row did; `None` if the row is not a rule's or the rule did not
/// fire.
pub fn fired(row: &CheckRow) -> Option<Fired> {
    if !is_of_rule(row) {
        return None;
    }
    let reason = row.reason.as_deref().unwrap_or_default();
    match (row.passed, reason) {
        (false, _) => Some(Fired::Acted),
        // A shadowed rule that only warns would not have blocked anything.
        (true, reason) if reason.starts_with("shadow: would warn") => Some(Fired::Warned),
        (true, reason) if reason.starts_with("shadow:") => Some(Fired::Shadow),
        (true, reason) if reason.starts_with("warn:") => Some(Fired::Warned),
        (true, _) => None,
    }
}

spoolgate_wire::named! {
    /// The fate of a request.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
    pub enum Fate {
        /// It was carried out.
        Accepted = "accepted",
        /// It waits for an approver.
        Held = "held",
        /// It was refused.
        Refused = "refused",
    }
}

impl Fate {
    /// The fate that a decision gave its request.
    pub fn of(decision: &Decision) -> Fate {
        Fate::of_status(decision.status)
    }

    /// The fate under a decision with this status.
    pub fn of_status(status: Status) -> Fate {
        match status {
            Status::Success | Status::Pending | Status::Error => Fate::Accepted,
            Status::Held => Fate::Held,
            Status::Rejected | Status::RateLimited => Fate::Refused,
        }
    }
}

/// How often a rule did what. Also used for rules in shadow, for backtests and for efficacy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Requests that it fired on, in any status.
    pub fired: u64,
    /// Requests that only this rule refused or held.
    pub sole: u64,
    /// Requests that it refused or held together with something else.
    pub joint: u64,
    /// Requests that only this rule would have refused or held, in shadow.
    pub shadow_sole: u64,
    /// Requests that it would have refused or held in shadow, while something else did.
    pub shadow_joint: u64,
    /// Requests that it warned about.
    pub warned: u64,
}

/// What all rules did to requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Effects {
    /// Requests accepted.
    pub accepted: u64,
    /// Requests held.
    pub held: u64,
    /// Requests refused.
    pub refused: u64,
    /// Rules that fired, by id.
    pub rules: BTreeMap<RuleId, Tally>,
}

impl Tally {
    /// Counts one request that the rule fired on. `alone`: nothing else refused or held the
    /// request.
    pub fn count(&mut self, what: Fired, alone: bool) {
        let counter = match (what, alone) {
            (Fired::Acted, true) => &mut self.sole,
            (Fired::Acted, false) => &mut self.joint,
            (Fired::Shadow, true) => &mut self.shadow_sole,
            (Fired::Shadow, false) => &mut self.shadow_joint,
            (Fired::Warned, _) => &mut self.warned,
        };
        *counter = counter.saturating_add(1);
        self.fired = self.fired.saturating_add(1);
    }
}

impl Tally {
    /// Adds up both.
    pub fn with(&self, other: &Tally) -> Tally {
        Tally {
            fired: self.fired.saturating_add(other.fired),
            sole: self.sole.saturating_add(other.sole),
            joint: self.joint.saturating_add(other.joint),
            shadow_sole: self.shadow_sole.saturating_add(other.shadow_sole),
            shadow_joint: self.shadow_joint.saturating_add(other.shadow_joint),
            warned: self.warned.saturating_add(other.warned),
        }
    }
}

/// The rules that fired on a request, what each did, and whether no other row failed.
pub fn of_rows(rows: &[CheckRow]) -> impl Iterator<Item = (RuleId, Fired, bool)> + '_ {
    let failed = rows.iter().filter(|row| !row.passed).count();
    rows.iter().filter_map(move |row| {
        let what = fired(row)?;
        Some((
            RuleId::parse(&row.name).ok()?,
            what,
            failed == usize::from(!row.passed),
        ))
    })
}

impl Effects {
    /// Counts one decision.
    pub fn count(&mut self, decision: &Decision) {
        let counter = match Fate::of(decision) {
            Fate::Accepted => &mut self.accepted,
            Fate::Held => &mut self.held,
            Fate::Refused => &mut self.refused,
        };
        *counter = counter.saturating_add(1);
        for (rule, what, alone) in of_rows(&decision.checks) {
            self.rules.entry(rule).or_default().count(what, alone);
        }
    }
}
