//! What a condition asks of a fact. The same form decides requests and is calculated with in proofs.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;

use regex::Regex;

use super::evaluate::{Around, Truth};
use super::fact::{Fact, Value};
use super::field::Kind;
use super::host;
use super::links::links_of;
use super::ranges::Ranges;
use super::set::{Grows, NamedSet};

/// Texts that are listed in a rule.
// INVARIANT: in rising order, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed(Box<[String]>);

/// Up to so many texts are gone through one by one: most differ in length, which costs less than to compare them.
const FEW: usize = 8;

impl Listed {
    /// Whether the text is among them.
    pub fn holds(&self, text: &str) -> bool {
        match self.0.len() {
            0..=FEW => self.0.iter().any(|listed| listed == text),
            _ => self.0.binary_search_by(|listed| listed.as_str().cmp(text)).is_ok(),
        }
    }
}

impl From<BTreeSet<String>> for Listed {
    fn from(texts: BTreeSet<String>) -> Listed {
        Listed(texts.into_iter().collect())
    }
}

impl Deref for Listed {
    type Target = [String];

    fn deref(&self) -> &[String] {
        &self.0
    }
}

/// A list of texts, or a named set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Members {
    /// Listed in the rule itself, normalised.
    Listed(Listed),
    /// A named set.
    Named {
        /// The set.
        set: Arc<NamedSet>,
        /// Whether entries count that were only seen.
        seen_too: bool,
    },
}

/// A regular expression; two are the same if their texts are.
#[derive(Clone, Debug)]
pub struct Pattern(pub Regex);

impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl Eq for Pattern {}

/// What a condition asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Test {
    /// The number is in these ranges.
    Number(Ranges),
    /// It is yes, or no.
    Flag(bool),
    /// The text, folded by its kind, is among these (or, if not `is_in`, is not).
    Member {
        /// How the text is folded.
        kind: Kind,
        /// Among which.
        of: Members,
        /// Whether it is to be among them.
        is_in: bool,
    },
    /// The domain of the text is among these hosts (or is not).
    Domain {
        /// Among which.
        of: Members,
        /// Whether it is to be among them.
        is_in: bool,
    },
    /// The text has a link whose host is not among these.
    LinksNotIn(Members),
    /// The expression matches somewhere in the text (or, if not `wanted`, nowhere).
    Matches {
        /// The expression.
        pattern: Pattern,
        /// Whether it is to match.
        wanted: bool,
    },
    /// The request leaves the field out.
    Absent,
    /// The request has the field.
    Present,
}

impl Members {
    /// Whether the folded text is among them.
    pub fn holds(&self, text: &str, around: &Around) -> bool {
        match self {
            Members::Listed(listed) => listed.holds(text),
            Members::Named { set, seen_too } => {
                set.holds(text, around.now, *seen_too)
                    || (set.grows != Grows::Never
                        && around.entries.holds(&set.name, text, around.now, around.task))
            }
        }
    }
}

impl Test {
    /// What it says of a fact. An array asks every element: true if it is of any, else unknown if it is of any.
    pub fn of(&self, fact: &Fact, around: &Around) -> Truth {
        match (self, fact) {
            (Test::Absent, Fact::Absent) | (Test::Present, Fact::Known(_)) => Truth::True,
            (Test::Absent, Fact::Many(values)) => Truth::of(values.is_empty()),
            (Test::Present, Fact::Many(values)) => Truth::of(!values.is_empty()),
            (_, Fact::Unknown(_)) => Truth::Unknown,
            (_, Fact::Absent) => Truth::False,
            (_, Fact::Known(value)) => self.of_value(value, around),
            (_, Fact::Many(values)) => {
                values.iter().map(|value| self.of_value(value, around)).max().unwrap_or(Truth::False)
            }
        }
    }

    /// What it says of one value.
    pub fn of_value(&self, value: &Value, around: &Around) -> Truth {
        let among = |text: Option<Cow<'_, str>>, of: &Members, is_in: bool| {
            text.map_or(Truth::Unknown, |text| Truth::of(of.holds(&text, around) == is_in))
        };
        match (self, value) {
            (Test::Number(ranges), Value::Number(number)) => Truth::of(ranges.holds(*number)),
            (Test::Flag(wanted), Value::Flag(flag)) => Truth::of(wanted == flag),
            (Test::Member { kind, of, is_in }, Value::Text(text)) => among(kind.fold(text), of, *is_in),
            (Test::Domain { of, is_in }, Value::Text(text)) => among(host::domain_of(text), of, *is_in),
            (Test::LinksNotIn(of), Value::Text(text)) => {
                let outside = links_of(text).into_iter().map(|host| among(host, of, false));
                outside.max().unwrap_or(Truth::False)
            }
            (Test::Matches { pattern, wanted }, Value::Text(text)) => {
                Truth::of(pattern.0.is_match(text) == *wanted)
            }
            (Test::Absent, _) => Truth::False,
            (Test::Present, _) => Truth::True,
            // A fact of another kind than its field's says nothing; what says nothing holds nothing up but exits.
            _ => Truth::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::entries::{Entries, Entry};
    use super::*;
    use crate::wire::ids::Principal;
    use crate::wire::time::Time;

    #[test]
    fn entries_count_only_in_sets_that_grow() {
        for (grows, expect) in [("never", false), ("on_approval", true)] {
            let text = format!(
                "name: names\nkind: word\ngrows: {grows}\nentries:\n  - {{value: A, provenance: user_established}}\n"
            );
            let set = Arc::new(NamedSet::compile("rules/sets/names.yaml", &text).unwrap());
            let mut entries = Entries::default();
            let entry = Entry { by: Principal::parse("ann").unwrap(), until: None, task: None };
            entries.insert(set.name.clone(), "E".to_owned(), entry, Time::EPOCH);
            let around = Around { now: Time::EPOCH, entries: &entries, task: None };
            let members = Members::Named { set, seen_too: false };
            assert_eq!(
                (members.holds("A", &around), members.holds("E", &around)),
                (true, expect),
                "{grows}: an entry that came in while the gate ran"
            );
        }
    }
}
