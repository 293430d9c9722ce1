//! Evaluates rules in three-valued logic, so that an unknown fact never passes as harmless.

use super::entries::Entries;
use super::fact::{Fact, Value};
use super::file::{RuleStatus, Then};
use super::ruleset::{Guard, Program};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::TaskName;
use spoolgate_wire::time::Time;

/// A truth value of Kleene's three-valued logic. An array is as true as its truest element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Truth {
    /// The condition does not hold.
    False,
    /// Whether the condition holds is not known.
    Unknown,
    /// The condition holds.
    True,
}

impl Truth {
    /// Converts a known truth value.
    pub fn of(holds: bool) -> Truth {
        if holds { Truth::True } else { Truth::False }
    }
}

/// What conditions read in addition to facts.
#[derive(Clone, Copy, Debug)]
pub struct Around<'a> {
    /// The instant of the decision; decides which entries of sets have expired.
    pub now: Time,
    /// Entries that were added to sets while the gate ran.
    pub entries: &'a Entries,
    /// The request's tree of tasks, if it has one.
    pub task: Option<&'a TaskName>,
}

/// The result of evaluating one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding<'p> {
    /// The rule.
    pub guard: &'p Guard,
    /// Whether the rule fires. A rule whose truth is unknown acts as if it fired.
    pub truth: Truth,
    /// Value of its first condition with an ordered operator.
    pub value: Option<Amount>,
}

impl Finding<'_> {
    /// Returns what it does to the request, or `None` if it does not fire or is not active.
    pub fn act(&self) -> Option<Then> {
        (self.truth != Truth::False && self.guard.status == RuleStatus::Active)
            .then_some(self.guard.then)
    }
}

impl Guard {
    /// Returns false if any condition is false, else unknown if any condition is
    /// unknown, else true.
    pub fn truth(&self, facts: &[Fact], around: &Around) -> Truth {
        let mut least = Truth::True;
        for condition in &self.conditions {
            let truth = facts
                .get(condition.slot)
                .map_or(Truth::Unknown, |fact| condition.test.of(fact, around));
            if truth == Truth::False {
                return Truth::False;
            }
            least = least.min(truth);
        }
        least
    }
}

impl Program {
    /// Evaluates every rule of this action. `facts` are in the order of [`Program::readings`].
    pub fn findings<'p>(&'p self, facts: &[Fact], around: &Around) -> Vec<Finding<'p>> {
        let found = self.guards.iter().map(|guard| {
            let ordered = guard
                .conditions
                .iter()
                .find(|condition| condition.threshold.is_some());
            let value = ordered.and_then(|condition| match facts.get(condition.slot) {
                Some(Fact::Known(Value::Number(number))) => Some(*number),
                _ => None,
            });
            Finding {
                guard,
                truth: guard.truth(facts, around),
                value,
            }
        });
        found.collect()
    }

    /// Returns the hardest effect of all active rules on the request, or `None` if no rule acts.
    pub fn act(&self, facts: &[Fact], around: &Around) -> Option<Then> {
        let acting = self.guards.iter().filter(|guard| {
            guard.status == RuleStatus::Active && guard.truth(facts, around) != Truth::False
        });
        acting.map(|guard| guard.then).max()
    }
}
