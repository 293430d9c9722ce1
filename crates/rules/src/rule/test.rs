//! The test of a condition. Decisions and proofs use the same form.

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

/// Normalised texts that a rule lists itself.
// INVARIANT: sorted, without duplicates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed(Box<[String]>);

/// Up to this length, a linear search is faster than a binary one: most texts differ in length, and
/// comparing lengths is cheap.
const FEW: usize = 8;

impl Listed {
    /// Returns whether the text is listed.
    pub fn holds(&self, text: &str) -> bool {
        match self.0.len() {
            0..=FEW => self.0.iter().any(|listed| listed == text),
            _ => self
                .0
                .binary_search_by(|listed| listed.as_str().cmp(text))
                .is_ok(),
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
    /// Texts listed in the rule itself, normalised.
    Listed(Listed),
    /// A named set.
    Named {
        /// The set.
        set: Arc<NamedSet>,
        /// Whether entries that were only seen count.
        seen_too: bool,
    },
}

/// A regular expression. Two patterns are equal if their texts are.
#[derive(Clone, Debug)]
pub struct Pattern(pub Regex);

impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl Eq for Pattern {}

/// What a condition tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Test {
    /// The number is in these ranges.
    Number(Ranges),
    /// The flag has this value.
    Flag(bool),
    /// The folded text is among these, or, if `is_in` is false, is not.
    Member {
        /// How the text is folded.
        kind: Kind,
        /// The texts to compare with.
        of: Members,
        /// Whether the text must be among them.
        is_in: bool,
    },
    /// The domain of the text is among these hosts, or, if `is_in` is false, is not.
    Domain {
        /// The hosts to compare with.
        of: Members,
        /// Whether the domain must be among them.
        is_in: bool,
    },
    /// The text has a link whose host is not among these.
    LinksNotIn(Members),
    /// The expression matches somewhere in the text, or, if `wanted` is false, nowhere.
    Matches {
        /// The expression.
        pattern: Pattern,
        /// Whether it must match.
        wanted: bool,
    },
    /// The request leaves the field out.
    Absent,
    /// The request has the field.
    Present,
}

impl Members {
    /// Returns whether the folded text is among them.
    pub fn holds(&self, text: &str, around: &Around) -> bool {
        match self {
            Members::Listed(listed) => listed.holds(text),
            Members::Named { set, seen_too } => {
                set.holds(text, around.now, *seen_too)
                    || (set.grows != Grows::Never
                        && around
                            .entries
                            .holds(&set.name, text, around.now, around.task))
            }
        }
    }
}

impl Test {
    /// Applies the test to a fact. An array is as true as its truest element, and false
    /// if it is empty.
    pub fn of(&self, fact: &Fact, around: &Around) -> Truth {
        match (self, fact) {
            (Test::Absent, Fact::Absent) | (Test::Present, Fact::Known(_)) => Truth::True,
            (Test::Absent, Fact::Many(values)) => Truth::of(values.is_empty()),
            (Test::Present, Fact::Many(values)) => Truth::of(!values.is_empty()),
            (_, Fact::Unknown(_)) => Truth::Unknown,
            (_, Fact::Absent) => Truth::False,
            (_, Fact::Known(value)) => self.of_value(value, around),
            (_, Fact::Many(values)) => values
                .iter()
                .map(|value| self.of_value(value, around))
                .max()
                .unwrap_or(Truth::False),
        }
    }

    /// Applies the test to one value.
    pub fn of_value(&self, value: &Value, around: &Around) -> Truth {
        let among = |text: Option<Cow<'_, str>>, of: &Members, is_in: bool| {
            text.map_or(Truth::Unknown, |text| {
                Truth::of(of.holds(&text, around) == is_in)
            })
        };
        match (self, value) {
            (Test::Number(ranges), Value::Number(number)) => Truth::of(ranges.holds(*number)),
            (Test::Flag(wanted), Value::Flag(flag)) => Truth::of(wanted == flag),
            (Test::Member { kind, of, is_in }, Value::Text(text)) => {
                among(kind.fold(text), of, *is_in)
            }
            (Test::Domain { of, is_in }, Value::Text(text)) => {
                among(host::domain_of(text), of, *is_in)
            }
            (Test::LinksNotIn(of), Value::Text(text)) => {
                let outside = links_of(text)
                    .into_iter()
                    .map(|host| among(host, of, false));
                outside.max().unwrap_or(Truth::False)
            }
            (Test::Matches { pattern, wanted }, Value::Text(text)) => {
                Truth::of(pattern.0.is_match(text) == *wanted)
            }
            (Test::Absent, _) => Truth::False,
            (Test::Present, _) => Truth::True,
            // A value of another kind than its field's cannot be tested. Unknown makes the
            // rule act, which is the safe side: exits never get here, because rules do not
            // apply to them.
            _ => Truth::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::entries::{Entries, Entry};
    use super::*;
    use spoolgate_wire::ids::Principal;
    use spoolgate_wire::time::Time;

    #[test]
    fn entries_count_only_in_sets_that_grow() {
        for (grows, expect) in [("never", false), ("on_approval", true)] {
            let text = format!(
                "name: names\nkind: word\ngrows: {grows}\nentries:\n  - {{value: A, provenance: \
                    user_established}}\n"
            );
            let set = Arc::new(NamedSet::compile("rules/sets/names.yaml", &text).unwrap());
            let mut entries = Entries::default();
            let entry = Entry {
                by: Principal::parse("ann").unwrap(),
                until: None,
                task: None,
            };
            entries.insert(set.name.clone(), "E".to_owned(), entry, Time::EPOCH);
            let around = Around {
                now: Time::EPOCH,
                entries: &entries,
                task: None,
            };
            let members = Members::Named {
                set,
                seen_too: false,
            };
            assert_eq!(
                (members.holds("A", &around), members.holds("E", &around)),
                (true, expect),
                "{grows}: an entry that came in while the gate ran"
            );
        }
    }
}
