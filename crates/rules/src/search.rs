//! Searches for facts that some rules act on and others do not, by the prover.

use std::collections::{BTreeMap, BTreeSet};

use crate::proof::{self, Comparison, Direction, Witness};
use crate::rule::{Around, Condition, Guard, Members, Program, RuleSet, RuleStatus, Test, Then};

/// The result of a search.
#[derive(PartialEq, Eq)]
pub(crate) enum Found {
    /// No facts are left.
    None,
    /// These facts.
    Some(Box<Witness>),
    /// The budget did not suffice.
    NotProved,
}

/// Searches among the facts of one action.
pub(crate) struct Search<'a> {
    /// The rules of the action; only the readings matter.
    pub program: &'a Program,
    /// The action.
    pub action: &'a str,
    /// Most steps of a search.
    pub budget: u64,
}

impl Search<'_> {
    /// Finds facts that the rules in `hard` treat harder than those in `soft`.
    pub(crate) fn harder(&self, hard: Vec<Guard>, soft: Vec<Guard>) -> Found {
        let compared = proof::compare(&self.book(hard), &self.book(soft), self.budget);
        match compared {
            Comparison {
                loosens: Some(witness),
                ..
            } => Found::Some(Box::new(witness)),
            Comparison {
                direction: Direction::Unproved,
                ..
            } => Found::NotProved,
            Comparison { .. } => Found::None,
        }
    }

    fn book(&self, guards: Vec<Guard>) -> RuleSet {
        let mut program = self.program.clone();
        program.guards = guards;
        RuleSet {
            programs: BTreeMap::from([(self.action.to_owned(), program)]),
            ..RuleSet::default()
        }
    }
}

/// Returns a rule like this one that is in force, does `then`, and has these conditions, with sets
/// as they are at this instant.
pub(crate) fn with<'c>(
    guard: &Guard,
    then: Then,
    conditions: impl IntoIterator<Item = &'c Condition>,
    around: &Around,
) -> Guard {
    let conditions = conditions.into_iter().map(|condition| Condition {
        test: settled(&condition.test, around),
        ..condition.clone()
    });
    Guard {
        id: guard.id.clone(),
        status: RuleStatus::Active,
        then,
        message: String::new(),
        conditions: conditions.collect(),
    }
}

/// Returns the test with its named sets replaced by their values at this instant.
fn settled(test: &Test, around: &Around) -> Test {
    let members = |of: &Members| match of {
        Members::Listed(_) => of.clone(),
        Members::Named { set, .. } => {
            let approved = around.entries.iter();
            let approved = approved.filter(|(of, _, _)| **of == set.name);
            let values = set.values.keys().map(String::as_str);
            let values = values.chain(approved.map(|(_, value, _)| value));
            let counting = values.filter(|value| of.holds(value, around));
            let counting: BTreeSet<String> = counting.map(str::to_owned).collect();
            Members::Listed(counting.into())
        }
    };
    match test {
        Test::Member { kind, of, is_in } => Test::Member {
            kind: *kind,
            of: members(of),
            is_in: *is_in,
        },
        Test::Domain { of, is_in } => Test::Domain {
            of: members(of),
            is_in: *is_in,
        },
        Test::LinksNotIn(of) => Test::LinksNotIn(members(of)),
        Test::Number(_) | Test::Flag(_) | Test::Matches { .. } | Test::Absent | Test::Present => {
            test.clone()
        }
    }
}
