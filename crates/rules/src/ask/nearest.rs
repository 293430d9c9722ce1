//! The smallest change of a request that the rules let pass.

use std::collections::{BTreeMap, BTreeSet};

use super::{Asked, Given, Open};
use crate::mutants::beside;
use crate::rule::field::Kind;
use crate::rule::ranges::End;
use crate::rule::{Fact, Members, Program, Test, Then, Value};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::RuleId;

/// Most facts that are changed together.
const CHANGES_MAX: usize = 3;
/// Most changes that are tried.
const TRIES_MAX: usize = 4_000;
/// Most values of a list that are tried.
const LISTED_MAX: usize = 32;

/// A fact that is changed, by its position in [`Program::readings`].
pub type Changed = (usize, Fact<'static>);

/// How far a value is from the present one, in millionths of it; all names are as far as a number
/// that is doubled.
type Distance = u64;

/// The distance of names.
const OTHER: Distance = 1_000_000;

/// A change with which a request passes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passing {
    /// The facts that change.
    pub changed: Vec<Changed>,
    /// Rules that may still act: they depend on facts that are open.
    pub unless: Vec<Open>,
}

/// Returns the fewest facts to change so that every request passes, or at least so that no rule is sure
/// to act. Among equally many facts, a change with which every request passes comes first, then the
/// nearest one. `asked` is the answer without a change, `settable` are the facts that may change, and
/// `ask` gives the answer after a change. `None` if no such change is found among those that are tried.
pub fn nearest(
    program: &Program,
    asked: &Asked,
    given: &BTreeMap<usize, Given>,
    settable: &[usize],
    ask: &dyn Fn(&[Changed]) -> Option<Asked>,
) -> Option<Passing> {
    let softest = asked.softest;
    let sure: BTreeSet<&RuleId> = asked.acting.iter().map(|(rule, _)| rule).collect();
    let mut perhaps = None;
    let values = settable
        .iter()
        .map(|slot| candidates(program, *slot, given));
    let values: Vec<Vec<(Distance, Changed)>> = values.filter(|it| !it.is_empty()).collect();
    let mut tries = TRIES_MAX;
    for count in 1..=CHANGES_MAX.min(values.len()) {
        let mut combined = Vec::new();
        combine(&values, count, 0, &mut Vec::new(), &mut combined, tries);
        combined.sort_by_key(|(distance, _)| *distance);
        for (_, changes) in combined {
            let Some(left) = tries.checked_sub(1) else {
                return perhaps;
            };
            tries = left;
            let Some(asked) = ask(&changes).filter(|it| it.softest == Then::Warn && it.is_proved)
            else {
                continue;
            };
            let passing = Passing {
                changed: changes,
                unless: asked.open,
            };
            if asked.hardest == Then::Warn {
                return Some(passing);
            }
            let is_unsure = passing.unless.iter().all(|open| !sure.contains(&open.rule));
            if softest > Then::Warn && is_unsure {
                perhaps.get_or_insert(passing);
            }
        }
        if perhaps.is_some() {
            break;
        }
    }
    perhaps
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
                far.saturating_add(*distance),
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
        Value::Flag(flag) => vec![(OTHER, known(Value::Flag(!flag)))],
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
                .map(|text| (OTHER, known(Value::Text(text.to_owned().into()))))
                .collect()
        }
    }
}

/// Returns the distance of two numbers, relative to the first.
fn far(from: Amount, to: Amount) -> Distance {
    let base = if from.is_zero() {
        Amount::ONE
    } else {
        from.abs()
    };
    let apart = to.checked_sub(from).map(Amount::abs);
    let scaled = apart.and_then(|it| it.checked_mul(Amount::from_i64(1_000_000)));
    scaled
        .and_then(|scaled| scaled.div_floor_count(base))
        .unwrap_or(Distance::MAX)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::ask::ask;
    use crate::golden::name_of;
    use crate::rule::{Around, Entries, RuleSet};
    use spoolgate_wire::time::Time;

    #[test]
    fn fewer_changes_come_first_and_then_nearer_ones() {
        let rule = |id: &str, when: &str| {
            let text = format!(
                "id: {id}\nstatus: active\napplies_to: {{action: order.submit}}\nwhen: [{when}]\n\
                    then: reject\nmessage: no\n"
            );
            (format!("rules/core/{id}.yaml"), text)
        };
        let rules = [
            rule(
                "gap",
                "{field: order.size, op: gt, value: 2}, {field: order.size, op: lt, value: 9}",
            ),
            rule(
                "side",
                "{field: order.side, op: eq, value: sell}, {field: order.size, op: gte, value: 1}",
            ),
            rule("type", "{field: order.order_type, op: eq, value: stop}"),
        ];
        let rules = rules
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()));
        let rules = RuleSet::compile(rules, []).unwrap();
        let program = rules.programs.get("order.submit").unwrap();
        let entries = Entries::default();
        let around = Around {
            now: Time::EPOCH,
            entries: &entries,
            task: None,
        };
        let found = |size: &str, side: &str, kind: &str| {
            let given = program.readings.iter().enumerate().map(|(slot, reading)| {
                let fact = match name_of(reading).as_str() {
                    "order.size" => Fact::number(Amount::parse_wire(size).unwrap()),
                    "order.side" => Fact::text(side.to_owned()),
                    _ => Fact::text(kind.to_owned()),
                };
                (slot, Given::Exactly(fact))
            });
            let given: BTreeMap<usize, Given> = given.collect();
            let settable: Vec<usize> = given.keys().copied().collect();
            let again = |changed: &[Changed]| {
                let mut after = given.clone();
                let changed = changed.iter().cloned();
                after.extend(changed.map(|(slot, fact)| (slot, Given::Exactly(fact))));
                ask(program, "order.submit", &after, &around)
            };
            let asked = again(&[]).unwrap();
            let found = nearest(program, &asked, &given, &settable, &again).unwrap();
            let told = found.changed.into_iter().map(|(slot, fact)| {
                let reading = &program.readings[slot];
                format!(
                    "{} {}",
                    name_of(reading),
                    crate::golden::show(reading, &fact)
                )
            });
            told.collect::<Vec<_>>()
        };
        assert_eq!(found("3", "buy", "limit"), ["order.size 2"]);
        assert_eq!(found("8", "buy", "limit"), ["order.size 9"]);
        assert_eq!(found("9.1", "sell", "limit"), ["order.size 0.9"]);
        assert_eq!(found("1", "sell", "limit"), ["order.size 0.9"]);
        let two = found("3", "buy", "stop");
        assert_eq!((two.len(), two[0].as_str()), (2, "order.size 2"), "{two:?}");
    }
}
