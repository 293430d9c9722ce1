//! Deciding with rules: three-valued, so that what is not known never passes for harmless.

use super::entries::Entries;
use super::fact::{Fact, Value};
use super::file::{RuleStatus, Then};
use super::ruleset::{Guard, Program};
use crate::wire::amount::Amount;
use crate::wire::ids::TaskName;
use crate::wire::time::Time;

/// True, false, or unknown (Kleene). In order: an array is as true as its truest element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Truth {
    /// It does not hold.
    False,
    /// Nobody can say.
    Unknown,
    /// It holds.
    True,
}

impl Truth {
    /// True or false.
    pub fn of(holds: bool) -> Truth {
        if holds { Truth::True } else { Truth::False }
    }
}

/// What conditions read besides facts.
#[derive(Clone, Copy, Debug)]
pub struct Around<'a> {
    /// The instant of the decision: entries of sets expire.
    pub now: Time,
    /// Entries that came into sets while the gate ran.
    pub entries: &'a Entries,
    /// The tree of tasks of the request, if it has one.
    pub task: Option<&'a TaskName>,
}

/// What a rule comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding<'p> {
    /// The rule.
    pub guard: &'p Guard,
    /// False: it does not fire. Unknown: it cannot be told, which counts as if it did. True: it fires.
    pub truth: Truth,
    /// Value of its first ordered condition.
    pub value: Option<Amount>,
}

impl Finding<'_> {
    /// What it does to the request: nothing if it does not fire, or is not in force.
    pub fn act(&self) -> Option<Then> {
        (self.truth != Truth::False && self.guard.status == RuleStatus::Active).then_some(self.guard.then)
    }
}

impl Guard {
    /// Whether its conditions hold: false if any is false, else unknown if any is, else true.
    pub fn truth(&self, facts: &[Fact], around: &Around) -> Truth {
        let mut least = Truth::True;
        for condition in &self.conditions {
            let truth =
                facts.get(condition.slot).map_or(Truth::Unknown, |fact| condition.test.of(fact, around));
            if truth == Truth::False {
                return Truth::False;
            }
            least = least.min(truth);
        }
        least
    }
}

impl Program {
    /// What every rule of this action comes to; `facts` are those that it reads, in its order.
    pub fn findings<'p>(&'p self, facts: &[Fact], around: &Around) -> Vec<Finding<'p>> {
        let found = self.guards.iter().map(|guard| {
            let ordered = guard.conditions.iter().find(|condition| condition.threshold.is_some());
            let value = ordered.and_then(|condition| match facts.get(condition.slot) {
                Some(Fact::Known(Value::Number(number))) => Some(*number),
                _ => None,
            });
            Finding { guard, truth: guard.truth(facts, around), value }
        });
        found.collect()
    }

    /// The hardest thing that any rule in force does to the request; none: nothing.
    pub fn act(&self, facts: &[Fact], around: &Around) -> Option<Then> {
        let acting = self
            .guards
            .iter()
            .filter(|guard| guard.status == RuleStatus::Active && guard.truth(facts, around) != Truth::False);
        acting.map(|guard| guard.then).max()
    }
}
