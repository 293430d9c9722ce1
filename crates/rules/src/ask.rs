//! Asks what the rules do to requests of which only some facts are given.
//!
//! Conditions on given facts are decided by the code that decides requests. What remains of each
//! rule goes to the prover, which finds what the other facts can change.

pub mod nearest;

use std::collections::BTreeMap;

use crate::proof::{STEPS_MAX, Witness};
use crate::rule::{
    Around, Condition, Fact, Guard, Program, Ranges, RuleStatus, Test, Then, Truth, Value,
};
use crate::search::{Found, Search, with};
use spoolgate_wire::ids::RuleId;

/// What is given about a fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Given {
    /// The fact.
    Exactly(Fact<'static>),
    /// Some elements of an array; it may have more.
    AtLeast(Vec<Value<'static>>),
}

/// What the rules do to all requests with the given facts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The softest effect on any such request; [`Then::Warn`] if it may be accepted.
    pub softest: Then,
    /// The hardest effect on any such request.
    pub hardest: Then,
    /// The rules that act on every such request.
    pub acting: Vec<(RuleId, Then)>,
    /// The rules that act on some such requests, and are harder than those that act on all.
    pub open: Vec<Open>,
    /// Facts of a request that has the softest effect, in the order of the readings, if the effect
    /// is not always the same.
    pub example: Option<Vec<Fact<'static>>>,
    /// False if the budget did not suffice, so that the effects may differ less than said.
    pub is_proved: bool,
}

/// A rule that acts on some of the requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    /// The rule.
    pub rule: RuleId,
    /// What it does.
    pub then: Then,
    /// Positions of its conditions that the given facts do not decide, in [`Guard::conditions`].
    pub conditions: Vec<usize>,
}

/// Returns what the active rules of a program do, given facts by their position in
/// [`Program::readings`]. Returns `None` if no request has the given facts together.
pub fn ask(
    program: &Program,
    action: &str,
    given: &BTreeMap<usize, Given>,
    around: &Around,
) -> Option<Asked> {
    let mut asked = Asked {
        softest: Then::Warn,
        hardest: Then::Warn,
        acting: Vec::new(),
        open: Vec::new(),
        example: None,
        is_proved: true,
    };
    let mut left: Vec<(&Guard, Vec<usize>)> = Vec::new();
    let active = |guard: &&Guard| guard.status == RuleStatus::Active;
    for guard in program.guards.iter().filter(active) {
        match undecided(guard, given, around) {
            None => {}
            Some(open) if open.is_empty() => asked.acting.push((guard.id.clone(), guard.then)),
            Some(open) => left.push((guard, open)),
        }
    }
    let always = asked.acting.iter().map(|(_, then)| *then).max();
    let always = always.unwrap_or(Then::Warn);
    (asked.softest, asked.hardest) = (always, always);
    left.retain(|(guard, _)| guard.then > always);
    let Some((first, _)) = left.first() else {
        return Some(asked);
    };
    let search = Search {
        program,
        action,
        budget: STEPS_MAX,
    };
    let pinned = pinned(given);
    let any = with(first, Then::Reject, &pinned, around);
    if search.harder(vec![any], Vec::new()) == Found::None {
        return None;
    }
    let kept = |guard: &'_ Guard, open: &[usize]| -> Vec<Condition> {
        let kept = open.iter().filter_map(|at| guard.conditions.get(*at));
        kept.cloned().collect()
    };
    for (guard, open) in &left {
        let conditions = kept(guard, open);
        let alone = with(
            guard,
            Then::Reject,
            conditions.iter().chain(&pinned),
            around,
        );
        let found = search.harder(vec![alone], Vec::new());
        if found == Found::None {
            continue;
        }
        asked.is_proved &= found != Found::NotProved;
        asked.hardest = asked.hardest.max(guard.then);
        asked.open.push(Open {
            rule: guard.id.clone(),
            then: guard.then,
            conditions: open.clone(),
        });
    }
    let soft = left.iter();
    let soft = soft.map(|(guard, open)| with(guard, guard.then, &kept(guard, open), around));
    let soft: Vec<Guard> = soft.collect();
    for level in [Then::Hold, Then::Reject] {
        if level <= always || level > asked.hardest {
            continue;
        }
        let every = with(first, level, &pinned, around);
        match search.harder(vec![every], soft.clone()) {
            Found::None => asked.softest = level,
            Found::Some(witness) => {
                asked.example = example(program, &witness, given, asked.softest, around);
                break;
            }
            Found::NotProved => {
                asked.is_proved = false;
                break;
            }
        }
    }
    Some(asked)
}

/// Returns the conditions of a rule that the given facts do not decide, or `None` if they keep the
/// rule from acting.
fn undecided(guard: &Guard, given: &BTreeMap<usize, Given>, around: &Around) -> Option<Vec<usize>> {
    let mut open = Vec::new();
    for (at, condition) in guard.conditions.iter().enumerate() {
        let truth = match given.get(&condition.slot) {
            None => None,
            Some(Given::Exactly(fact)) => Some(condition.test.of(fact, around)),
            // Further elements can only make a condition truer, except that the array is empty.
            Some(Given::AtLeast(values)) => {
                let truth = condition.test.of(&Fact::Many(values.clone()), around);
                let is_settled = truth == Truth::True || condition.test == Test::Absent;
                is_settled.then_some(truth)
            }
        };
        match truth {
            None => open.push(at),
            Some(Truth::False) => return None,
            Some(Truth::Unknown | Truth::True) => {}
        }
    }
    Some(open)
}

/// Returns conditions that hold the given numbers fast, for facts that are related to them.
fn pinned(given: &BTreeMap<usize, Given>) -> Vec<Condition> {
    let numbers = given.iter().filter_map(|(slot, given)| match given {
        Given::Exactly(Fact::Known(Value::Number(number))) => Some(Condition {
            slot: *slot,
            test: Test::Number(Ranges::only(*number)),
            threshold: None,
        }),
        Given::Exactly(_) | Given::AtLeast(_) => None,
    });
    numbers.collect()
}

/// Returns the facts of a witness with the given ones in their places, if the rules have this
/// effect on them.
fn example(
    program: &Program,
    witness: &Witness,
    given: &BTreeMap<usize, Given>,
    effect: Then,
    around: &Around,
) -> Option<Vec<Fact<'static>>> {
    let mut facts: Vec<Fact<'static>> = witness.facts.iter().map(|(_, it)| it.clone()).collect();
    for (slot, given) in given {
        let fact = facts.get_mut(*slot)?;
        match given {
            Given::Exactly(exactly) => *fact = exactly.clone(),
            Given::AtLeast(values) => match fact {
                Fact::Many(found) => found.extend(values.iter().cloned()),
                Fact::Known(_) | Fact::Absent | Fact::Unknown(_) => {
                    *fact = Fact::Many(values.clone())
                }
            },
        }
    }
    let does = program.act(&facts, around).unwrap_or(Then::Warn);
    (does == effect).then_some(facts)
}
