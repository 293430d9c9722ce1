//! Counts what histories saw, so that no test passes by doing nothing.

use std::collections::BTreeMap;

/// What was seen of one check.
#[derive(Clone, Copy, Default)]
pub(super) struct Seen {
    pub passed: u64,
    pub failed: u64,
    /// Times that it named the refusal.
    pub decided: u64,
    /// Times that it passed with no more than a unit to spare.
    pub near: u64,
}

#[derive(Clone, Default)]
pub(super) struct Tally {
    pub checks: BTreeMap<String, Seen>,
    pub events: BTreeMap<String, u64>,
}

impl Tally {
    pub(super) fn count(&mut self, what: impl Into<String>) {
        *self.events.entry(what.into()).or_default() += 1;
    }

    pub(super) fn of(&self, what: &str) -> u64 {
        self.events.get(what).copied().unwrap_or(0)
    }

    pub(super) fn check(&mut self, name: &str) -> &mut Seen {
        self.checks.entry(name.to_owned()).or_default()
    }

    pub(super) fn gather(&mut self, other: &Tally) {
        for (name, seen) in &other.checks {
            let all = self.check(name);
            all.passed += seen.passed;
            all.failed += seen.failed;
            all.decided += seen.decided;
            all.near += seen.near;
        }
        for (what, count) in &other.events {
            *self.events.entry(what.clone()).or_default() += count;
        }
    }

    /// Renders a table.
    pub(super) fn shown(&self) -> String {
        let mut text = format!(
            "{:<26}{:>10}{:>10}{:>10}{:>10}\n",
            "check", "passed", "failed", "decided", "near"
        );
        for (name, seen) in &self.checks {
            let Seen {
                passed,
                failed,
                decided,
                near,
            } = seen;
            text.push_str(&format!(
                "{name:<26}{passed:>10}{failed:>10}{decided:>10}{near:>10}\n"
            ));
        }
        for (what, count) in &self.events {
            text.push_str(&format!("{what}: {count}\n"));
        }
        text
    }
}
