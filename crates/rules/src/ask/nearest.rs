//! The smallest change of a request that the rules let pass.

use std::collections::{BTreeMap, BTreeSet};

use super::{Asked, Given, ask};
use crate::mutants::beside;
use crate::rule::field::Kind;
use crate::rule::ranges::End;
use crate::rule::{Around, Fact, Members, Program, Test, Then, Value};
use spoolgate_wire::amount::Amount;

/// Most facts that are changed together.
const CHANGES_MAX: usize = 3;
/// Most changes that are tried.
const TRIES_MAX: usize = 4_000;
/// Most values of a list that are tried.
const LISTED_MAX: usize = 32;

/// A fact that is changed, by its position in [`Program::readings`].
pub type Changed = (usize, Fact<'static>);

/// How far a value is from the present one; names are all equally far.
type Distance = f64;

/// Returns the fewest facts to change, and of equally many the nearest, so that every request with
/// the given facts passes. `settable` are the facts that may change; `then` returns the facts that
/// are given after a change. `None` if no such change is found among those that are tried.
pub fn nearest(
    program: &Program,
    action: &str,
    given: &BTreeMap<usize, Given>,
    settable: &[usize],
    then: &dyn Fn(&[Changed]) -> BTreeMap<usize, Given>,
    around: &Around,
) -> Option<Vec<Changed>> {
    let values = settable
        .iter()
        .map(|slot| candidates(program, *slot, given));
    let values: Vec<Vec<(Distance, Changed)>> = values.filter(|it| !it.is_empty()).collect();
    let mut tries = TRIES_MAX;
    for count in 1..=CHANGES_MAX.min(values.len()) {
        let mut combined = Vec::new();
        combine(&values, count, 0.0, &mut Vec::new(), &mut combined, tries);
        combined.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        for (_, changes) in combined {
            tries = tries.checked_sub(1)?;
            let asked = ask(program, action, &then(&changes), around);
            let passes = |asked: Asked| asked.hardest == Then::Warn && asked.is_proved;
            if asked.is_some_and(passes) {
                return Some(changes);
            }
        }
    }
    None
}

/// Collects the ways to change `count` of the facts, at most `most`.
fn combine(
    values: &[Vec<(Distance, Changed)>],
    count: usize,
    far: Distance,
    chosen: &mut Vec<Changed>,
    combined: &mut Vec<(Distance, Vec<Changed>)>,
    most: usize,
) {
    if count == 0 {
        combined.push((far, chosen.clone()));
        return;
    }
    for (at, of_one) in values.iter().enumerate() {
        let rest = values.get(at.saturating_add(1)..).unwrap_or_default();
        for (distance, changed) in of_one {
            if combined.len() >= most {
                return;
            }
            chosen.push(changed.clone());
            combine(
                rest,
                count.saturating_sub(1),
                far + distance,
                chosen,
                combined,
                most,
            );
            chosen.pop();
        }
    }
}

/// Returns the values that conditions of the rules can tell from the present one.
fn candidates(
    program: &Program,
    slot: usize,
    given: &BTreeMap<usize, Given>,
) -> Vec<(Distance, Changed)> {
    let Some(Given::Exactly(Fact::Known(present))) = given.get(&slot) else {
        return Vec::new();
    };
    let Some(reading) = program.readings.get(slot) else {
        return Vec::new();
    };
    let kind = reading.kind();
    let guards = program.guards.iter().flat_map(|guard| &guard.conditions);
    let tests = guards.filter(|it| it.slot == slot).map(|it| &it.test);
    let known = |value: Value<'static>| (slot, Fact::Known(value));
    match present {
        Value::Number(present) => {
            let mut numbers = BTreeSet::new();
            for test in tests {
                let Test::Number(ranges) = test else { continue };
                for end in ranges.parts().iter().flat_map(|part| [part.low, part.high]) {
                    if let End::With(at) | End::Without(at) = end {
                        numbers.insert(at);
                        numbers.extend(beside(kind, at));
                    }
                }
            }
            let other = |number: &Amount| number != present && kind.ends().holds(*number);
            let numbers = numbers.into_iter().filter(other);
            numbers
                .map(|number| (far(*present, number), known(Value::Number(number))))
                .collect()
        }
        Value::Flag(flag) => vec![(1.0, known(Value::Flag(!flag)))],
        Value::Text(present) => {
            let mut texts: BTreeSet<&str> = BTreeSet::new();
            if let Kind::Word(words) = kind {
                texts.extend(words);
            }
            for test in tests {
                if let Test::Member { of, .. } = test {
                    let listed: Box<dyn Iterator<Item = &str>> = match of {
                        Members::Listed(listed) => Box::new(listed.iter().map(String::as_str)),
                        Members::Named { set, .. } => {
                            Box::new(set.values.keys().map(String::as_str))
                        }
                    };
                    texts.extend(listed.take(LISTED_MAX));
                }
            }
            let texts = texts.into_iter().filter(|text| *text != present.as_ref());
            texts
                .map(|text| (1.0, known(Value::Text(text.to_owned().into()))))
                .collect()
        }
    }
}

/// Returns the distance of two numbers, relative to the first.
fn far(from: Amount, to: Amount) -> Distance {
    let number = |amount: Amount| amount.to_string().parse::<f64>().unwrap_or(f64::MAX);
    let base = number(from).abs();
    (number(to) - number(from)).abs() / if base > 0.0 { base } else { 1.0 }
}
