//! When control decisions that make things riskier are too old, out of order, or too many.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Facts;
use spoolgate_rules::principals::Role;
use spoolgate_wire::control::ControlFault;
use spoolgate_wire::ids::Principal;
use spoolgate_wire::time::Time;

const HOUR_MS: i64 = 3_600_000;

/// The memory of the decisions that were applied to a concern. The rule files bound both
/// members.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recent {
    /// When decisions of agents that made things riskier were applied within the last hour, oldest
    /// first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub riskier: Vec<Time>,
    /// The newest `requested_at` of each sender.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub requested: BTreeMap<Principal, Time>,
}

impl Recent {
    /// Returns whether nothing is remembered.
    pub fn is_empty(&self) -> bool {
        *self == Recent::default()
    }

    /// Returns the memory after a decision of the sender is applied. `requested_at` is `None`
    /// if it is absent or wrong: a time that lies ahead must not make later decisions out of order.
    pub(super) fn with(
        &self,
        facts: &Facts<'_>,
        requested_at: Option<Time>,
        is_safer: bool,
    ) -> Recent {
        let mut recent = Recent {
            riskier: self.within_the_hour(facts).collect(),
            requested: self.requested.clone(),
        };
        if !is_safer && facts.rule.role != Role::Human {
            recent.riskier.push(facts.now);
        }
        recent
            .requested
            .retain(|sender, _| facts.rules.principals.contains_key(sender));
        if let Some(time) = requested_at {
            recent.requested.insert(facts.source.clone(), time);
        }
        recent
    }

    /// Returns the riskier changes within the last hour. A time that lies ahead was recorded by a
    /// clock that was set back since, and does not count.
    fn within_the_hour(&self, facts: &Facts<'_>) -> impl Iterator<Item = Time> {
        let now = facts.now;
        let is_recent = move |at: &Time| (0..HOUR_MS).contains(&now.since_ms(*at));
        self.riskier.iter().copied().filter(is_recent)
    }
}

/// Returns what is wrong with a decision's `requested_at`.
pub(super) fn requested_at(
    facts: &Facts<'_>,
    recent: &Recent,
    requested_at: Time,
) -> Option<(ControlFault, String)> {
    let safety = &facts.rules.safety;
    let ms = |seconds: u32| i64::from(seconds).saturating_mul(1000);
    let (ahead_max_s, age_max_s) = (safety.request_ahead_max_s, *safety.control_age_max_s);
    let age_ms = facts.received_at.since_ms(requested_at);
    if age_ms < -ms(ahead_max_s) {
        let why = format!(
            "`requested_at` is {requested_at}; at most {ahead_max_s} s ahead of the gate's clock \
                are permitted"
        );
        return Some((ControlFault::RequestedAtFuture, why));
    }
    if age_ms > ms(age_max_s) {
        let why =
            format!("`requested_at` is {requested_at}; at most {age_max_s} s of age are permitted");
        return Some((ControlFault::RequestedAtStale, why));
    }
    // A time further ahead was recorded by a clock that was set back since.
    let last = recent.requested.get(facts.source).filter(|last| {
        requested_at < **last && last.since_ms(facts.received_at) <= ms(ahead_max_s)
    })?;
    let why = format!(
        "`requested_at` is {requested_at}, but a decision of the sender of {last} is applied"
    );
    Some((ControlFault::OutOfOrder, why))
}

/// Returns why an agent's riskier decision has to wait, and how long, in milliseconds.
pub(super) fn too_soon(facts: &Facts<'_>, recent: &Recent) -> Option<(u64, String)> {
    if facts.rule.role == Role::Human {
        return None;
    }
    let safety = &facts.rules.safety;
    let (most, dwell_s) = (*safety.control_changes_per_hour, *safety.control_dwell_s);
    let changes: Vec<Time> = recent.within_the_hour(facts).collect();
    let over = usize::try_from(most)
        .ok()
        .and_then(|most| changes.len().checked_sub(most));
    let hourly = over.and_then(|over| changes.get(over)).map(|at| {
        let why = format!(
            "agents changed the concern {} times within an hour",
            changes.len()
        );
        (at.plus_ms(HOUR_MS), format!("{why}, and may {most} times"))
    });
    let dwell = changes.last().map(|at| {
        let why = format!("an agent changed the concern at {at}, and it stays so for {dwell_s} s");
        (at.plus_ms(i64::from(dwell_s).saturating_mul(1000)), why)
    });
    let (until, why) = hourly
        .into_iter()
        .chain(dwell)
        .max_by_key(|(until, _)| *until)?;
    let wait_ms = u64::try_from(until.since_ms(facts.now)).ok()?;
    (wait_ms > 0).then_some((wait_ms, why))
}
