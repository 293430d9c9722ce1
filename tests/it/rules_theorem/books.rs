//! Random rulebooks, and random changes of them. Uses the meaning of conditions, and nothing of the
//! prover.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use regex::Regex;
use spoolgate_rules::rule::field::Kind;
use spoolgate_rules::rule::ranges::{End, Range};
use spoolgate_rules::rule::set::{Grows, Provenance, SetKind};
use spoolgate_rules::rule::test::Pattern;
use spoolgate_rules::rule::{
    Condition, Guard, Members, NamedSet, Program, Ranges, Reading, RuleSet, RuleStatus, Test, Then,
};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{RuleId, SetName};
use spoolgate_wire::time::Time;

use crate::kit::dice::Dice;

/// Instants at which entries expire, and some beside them.
pub(super) const ENDINGS: [i64; 3] = [1_000_000, 2_000_000, 3_000_000];

pub(super) type Sets = BTreeMap<SetName, Arc<NamedSet>>;

/// A rule that is not compiled yet.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub id: String,
    pub status: RuleStatus,
    pub then: Then,
    pub when: Vec<(Reading, Test)>,
}

/// A rulebook that can be changed.
#[derive(Clone, Debug)]
pub(super) struct Book {
    pub rules: Vec<Rule>,
    pub sets: Sets,
}

pub(super) fn pick<T: Clone>(dice: &mut Dice, of: &[T]) -> T {
    of[usize::try_from(dice.below(of.len() as u64)).unwrap()].clone()
}

impl Book {
    /// Compiles the rulebook.
    pub(super) fn compiled(&self) -> RuleSet {
        let mut program = Program::default();
        for rule in &self.rules {
            let mut conditions = Vec::new();
            for (reading, test) in &rule.when {
                let slot = program
                    .readings
                    .iter()
                    .position(|known| known == reading)
                    .unwrap_or_else(|| {
                        program.readings.push(*reading);
                        program.readings.len() - 1
                    });
                conditions.push(Condition {
                    slot,
                    test: test.clone(),
                    threshold: None,
                });
            }
            if matches!(rule.status, RuleStatus::Active | RuleStatus::Shadow) {
                program.guards.push(Guard {
                    id: RuleId::parse(&rule.id).unwrap(),
                    status: rule.status,
                    then: rule.then,
                    message: "no".to_owned(),
                    conditions,
                });
            }
        }
        program.guards.sort_by(|a, b| a.id.cmp(&b.id));
        let programs = BTreeMap::from([("order.submit".to_owned(), program)]);
        RuleSet {
            programs,
            sets: self.sets.clone(),
            ..RuleSet::default()
        }
    }

    /// Replaces a set.
    fn use_set(&mut self, set: NamedSet) {
        let set = Arc::new(set);
        for rule in &mut self.rules {
            for (_, test) in &mut rule.when {
                let (Test::Member { of, .. } | Test::Domain { of, .. } | Test::LinksNotIn(of)) =
                    test
                else {
                    continue;
                };
                if let Members::Named { set: used, .. } = of
                    && used.name == set.name
                {
                    *used = Arc::clone(&set);
                }
            }
        }
        self.sets.insert(set.name.clone(), set);
    }
}

/// Returns texts of a kind, in the form in which they are compared.
pub(super) fn texts(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Word(known) => known,
        Kind::Host => &["a.example", "b.example", "c.example"],
        Kind::Address => &["x@a.example", "y@a.example", "x@b.example"],
        Kind::Text => &["invoice", "hello", "see https://a.example/x"],
        _ => &["a", "b", "c"],
    }
}

pub(super) fn amount(text: &str) -> Amount {
    Amount::parse_wire(text).unwrap()
}

pub(super) fn threshold(dice: &mut Dice, kind: Kind) -> Amount {
    match kind {
        Kind::Whole(..) => Amount::from_i64(i64::try_from(dice.below(6)).unwrap()),
        Kind::TimeOfDay => amount(pick(dice, &["0", "1", "540", "1320", "1439"])),
        _ => amount(pick(
            dice,
            &["-1", "0", "1", "1.5", "2", "2.5", "3", "1000"],
        )),
    }
}

pub(super) fn ranges(dice: &mut Dice, kind: Kind) -> Ranges {
    let at = threshold(dice, kind);
    let end = if dice.one_in(2) {
        End::With(at)
    } else {
        End::Without(at)
    };
    match dice.below(7) {
        0 | 1 => Ranges::between(end, End::Open),
        2 | 3 => Ranges::between(End::Open, end),
        4 => Ranges::only(at),
        5 => Ranges::only(at).complement(),
        _ => {
            let other = threshold(dice, kind);
            if at < other {
                Ranges::between(End::With(at), End::Without(other))
            } else {
                Ranges::of(vec![
                    Range {
                        low: End::With(at),
                        high: End::Open,
                    },
                    Range {
                        low: End::Open,
                        high: End::Without(other),
                    },
                ])
            }
        }
    }
}

fn set_kind(kind: Kind) -> SetKind {
    match kind {
        Kind::Host => SetKind::Host,
        Kind::Address => SetKind::Address,
        Kind::Text => SetKind::Text,
        _ => SetKind::Word,
    }
}

fn values(dice: &mut Dice, texts: &[&str]) -> BTreeMap<String, (Provenance, Option<Time>)> {
    let mut values = BTreeMap::new();
    for text in texts {
        if dice.one_in(2) {
            let provenance = pick(
                dice,
                &[
                    Provenance::UserEstablished,
                    Provenance::UserEstablished,
                    Provenance::Approved,
                    Provenance::Seen,
                ],
            );
            let until = dice
                .one_in(3)
                .then(|| Time::from_ms(pick(dice, &ENDINGS)).unwrap());
            values.insert((*text).to_owned(), (provenance, until));
        }
    }
    values
}

/// Makes two sets of a kind, one that never grows and one that does.
pub(super) fn set(dice: &mut Dice, sets: &mut Sets, kind: Kind, grows: Grows) -> Arc<NamedSet> {
    let kind = set_kind(kind);
    // Words of closed and of open lists share sets, as they do in files.
    let texts: &[&str] = match kind {
        SetKind::Word => &["a", "b", "x", "y", "buy", "mon"],
        other => texts(other.kind()),
    };
    let name = format!("{kind:?}-{grows:?}").to_lowercase();
    let name = SetName::parse(&name).unwrap();
    let new = || {
        Arc::new(NamedSet {
            name: name.clone(),
            kind,
            grows,
            values: values(dice, texts),
        })
    };
    Arc::clone(sets.entry(name.clone()).or_insert_with(new))
}

fn members(dice: &mut Dice, sets: &mut Sets, kind: Kind, is_in: bool) -> Members {
    if dice.one_in(3) {
        let grows = if !is_in && dice.one_in(2) {
            Grows::OnApproval
        } else {
            Grows::Never
        };
        return Members::Named {
            set: set(dice, sets, kind, grows),
            seen_too: dice.one_in(4),
        };
    }
    let mut listed: BTreeSet<String> = BTreeSet::new();
    while listed.is_empty() {
        listed = texts(kind)
            .iter()
            .filter(|_| dice.one_in(2))
            .map(|text| (*text).to_owned())
            .collect();
    }
    Members::Listed(listed.into())
}

/// Expressions of which some say the same, and some say more than others.
const EXPRESSIONS: [&str; 14] = [
    "a",
    "A|a",
    "(?i)a",
    "^a$",
    "(?i)^a$",
    "^x",
    "^[xy]",
    "b|x",
    "invoice",
    "invoice|hello",
    "(?i)^invoice$",
    "hel+o",
    "[^b]",
    r"\.example$",
];

pub(super) fn test(dice: &mut Dice, sets: &mut Sets, reading: &Reading) -> Test {
    let kind = reading.kind();
    if dice.one_in(8) {
        return if dice.one_in(2) {
            Test::Absent
        } else {
            Test::Present
        };
    }
    let is_in = dice.one_in(2);
    match kind {
        Kind::Flag => Test::Flag(is_in),
        kind if kind.is_number() => Test::Number(ranges(dice, kind)),
        Kind::Host | Kind::Address | Kind::Text if dice.one_in(3) => Test::Domain {
            of: members(dice, sets, Kind::Host, is_in),
            is_in,
        },
        Kind::Text if dice.one_in(2) => Test::LinksNotIn(members(dice, sets, Kind::Host, false)),
        Kind::Name(_) | Kind::Text | Kind::Address if dice.one_in(4) => {
            let pattern = Pattern(Regex::new(pick(dice, &EXPRESSIONS)).unwrap());
            Test::Matches {
                pattern,
                wanted: is_in,
            }
        }
        kind => Test::Member {
            kind,
            of: members(dice, sets, kind, is_in),
            is_in,
        },
    }
}

pub(super) fn rule(dice: &mut Dice, sets: &mut Sets, readings: &[Reading], id: String) -> Rule {
    let when = (0..dice.below(4)).map(|_| {
        let reading = pick(dice, readings);
        (reading, test(dice, sets, &reading))
    });
    let when = when.collect();
    let then = pick(
        dice,
        &[
            Then::Reject,
            Then::Reject,
            Then::Hold,
            Then::Hold,
            Then::Warn,
        ],
    );
    let status = if dice.one_in(10) {
        RuleStatus::Shadow
    } else {
        RuleStatus::Active
    };
    Rule {
        id,
        status,
        then,
        when,
    }
}

pub(super) fn book(dice: &mut Dice, readings: &[Reading], rules_max: u64) -> Book {
    let mut sets = Sets::new();
    let rules = (0..dice.below(rules_max + 1))
        .map(|n| rule(dice, &mut sets, readings, format!("r{n}")))
        .collect();
    Book { rules, sets }
}

/// Returns the negation of a condition, for facts that are known and can be compared.
fn contrary(test: &Test) -> Option<Test> {
    Some(match test {
        Test::Number(ranges) => Test::Number(ranges.complement()),
        Test::Flag(wanted) => Test::Flag(!wanted),
        Test::Member { kind, of, is_in } => Test::Member {
            kind: *kind,
            of: of.clone(),
            is_in: !is_in,
        },
        Test::Domain { of, is_in } => Test::Domain {
            of: of.clone(),
            is_in: !is_in,
        },
        Test::Matches { pattern, wanted } => Test::Matches {
            pattern: pattern.clone(),
            wanted: !wanted,
        },
        Test::Absent => Test::Present,
        Test::Present => Test::Absent,
        Test::LinksNotIn(_) => return None,
    })
}

fn grows(test: &Test) -> bool {
    let (Test::Member { of, .. } | Test::Domain { of, .. } | Test::LinksNotIn(of)) = test else {
        return false;
    };
    matches!(of, Members::Named { set, .. } if set.grows != Grows::Never)
}

/// The names of the changes that [`change`] makes.
pub(super) const CHANGES: [&str; 15] = [
    "add a rule",
    "remove a rule",
    "suspend a rule",
    "another test in a condition",
    "add a condition",
    "remove a condition",
    "move `then`",
    "split a rule in two",
    "merge two rules into a wider one",
    "negate a condition",
    "edit a set",
    "a named set in place of a list, or a list in place of a set",
    "copy a rule under another name, widen it and remove the first",
    "status",
    "whether a set grows",
];

/// Returns a set of this name with other values, fewer, or more.
fn other_values(dice: &mut Dice, set: &NamedSet) -> NamedSet {
    let mut set = set.clone();
    let texts: Vec<String> = set.values.keys().cloned().collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    match dice.below(3) {
        0 => {
            let texts = ["a", "b", "x", "a.example", "x@a.example", "mon"];
            // A set file with an entry of another kind is refused.
            let kind = set.kind.kind();
            let entries: Vec<&str> = texts
                .into_iter()
                .filter(|text| kind.entry(text).as_deref() == Some(text))
                .collect();
            set.values = values(dice, &entries);
        }
        1 => set.values.retain(|_, _| !dice.one_in(3)),
        _ => set.values.extend(values(dice, &texts)),
    }
    set
}

/// Turns a named set into a list with the same values, or a list into a named set.
fn other_form(list: &Members, fresh: usize) -> Members {
    match list {
        Members::Named { set, .. } => {
            let copied: BTreeSet<String> = set.values.keys().cloned().collect();
            Members::Listed(copied.into())
        }
        Members::Listed(listed) => {
            let values = listed
                .iter()
                .map(|text| (text.clone(), (Provenance::UserEstablished, None)));
            let set = NamedSet {
                name: SetName::parse(&format!("copy-{fresh}")).unwrap(),
                kind: SetKind::Word,
                grows: Grows::Never,
                values: values.collect(),
            };
            Members::Named {
                set: Arc::new(set),
                seen_too: false,
            }
        }
    }
}

/// Changes the book in one way. Returns whether there was anything to change.
#[expect(clippy::too_many_lines, reason = "one arm per kind of change")]
pub(super) fn change(
    dice: &mut Dice,
    book: &mut Book,
    readings: &[Reading],
    which: usize,
    fresh: usize,
) -> bool {
    if book.rules.is_empty() && which != 0 {
        return false;
    }
    let at = if book.rules.is_empty() {
        0
    } else {
        usize::try_from(dice.below(book.rules.len() as u64)).unwrap()
    };
    let conditions = book.rules.get(at).map_or(0, |rule| rule.when.len());
    let of = if conditions == 0 {
        0
    } else {
        usize::try_from(dice.below(conditions as u64)).unwrap()
    };
    let needs_condition = [3, 5, 7, 9, 11];
    if needs_condition.contains(&which) && conditions == 0 {
        return false;
    }
    match which {
        0 => {
            let new = rule(dice, &mut book.sets, readings, format!("n{fresh}"));
            book.rules.push(new);
        }
        1 => drop(book.rules.remove(at)),
        2 => book.rules[at].status = RuleStatus::Suspended,
        3 => {
            let reading = book.rules[at].when[of].0;
            book.rules[at].when[of].1 = test(dice, &mut book.sets, &reading);
        }
        4 => {
            let reading = pick(dice, readings);
            let new = test(dice, &mut book.sets, &reading);
            book.rules[at].when.push((reading, new));
        }
        5 => drop(book.rules[at].when.remove(of)),
        6 => book.rules[at].then = pick(dice, &[Then::Warn, Then::Hold, Then::Reject]),
        7 => {
            // Splits a rule into two, by a condition of one of them and its negation; or almost.
            let reading = pick(dice, readings);
            let one = test(dice, &mut book.sets, &reading);
            let Some(two) = contrary(&one).filter(|_| !grows(&one)) else {
                return false;
            };
            let mut second = book.rules[at].clone();
            second.id = format!("n{fresh}");
            second.when.push((reading, two));
            book.rules[at].when.push((reading, one));
            book.rules.push(second);
        }
        8 => {
            let other = usize::try_from(dice.below(book.rules.len() as u64)).unwrap();
            let second = book.rules[other].clone();
            let first = &mut book.rules[at];
            first
                .when
                .retain(|condition| second.when.contains(condition));
            first.then = first.then.max(second.then);
            if other != at {
                book.rules.remove(other);
            }
        }
        9 => {
            let Some(other) =
                contrary(&book.rules[at].when[of].1).filter(|_| !grows(&book.rules[at].when[of].1))
            else {
                return false;
            };
            book.rules[at].when[of].1 = other;
        }
        10 => {
            let Some(name) = book
                .sets
                .keys()
                .nth(usize::try_from(dice.below(4)).unwrap())
                .cloned()
            else {
                return false;
            };
            let set = other_values(dice, &book.sets[&name]);
            book.use_set(set);
        }
        11 => {
            let (Test::Member { of: list, .. }
            | Test::Domain { of: list, .. }
            | Test::LinksNotIn(list)) = &mut book.rules[at].when[of].1
            else {
                return false;
            };
            let new = other_form(list, fresh);
            *list = new;
        }
        12 => {
            let mut second = book.rules.remove(at);
            second.id = format!("n{fresh}");
            if !second.when.is_empty() && dice.one_in(2) {
                second.when.remove(0);
            }
            second.when.reverse();
            book.rules.push(second);
        }
        13 => book.rules[at].status = pick(dice, &[RuleStatus::Active, RuleStatus::Shadow]),
        _ => {
            let Some(set) = book
                .sets
                .values()
                .find(|set| set.grows == Grows::OnApproval)
                .cloned()
            else {
                return false;
            };
            book.use_set(NamedSet {
                grows: Grows::Never,
                ..NamedSet::clone(&set)
            });
        }
    }
    true
}
