//! Small worlds, in which every fact vector, every growth of sets and every instant can be tried.

use std::collections::BTreeMap;
use std::ops::Range;

use spoolgate_rules::proof::{Direction, STEPS_MAX, Witness, compare};
use spoolgate_rules::rule::entries::Entry;
use spoolgate_rules::rule::field::{Kind, Missing};
use spoolgate_rules::rule::ruleset::missing;
use spoolgate_rules::rule::set::Grows;
use spoolgate_rules::rule::{Around, Entries, Fact, Reading, Test, Value};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{Principal, SetName};
use spoolgate_wire::time::Time;

use super::{act, check_witness, fields, name};
use crate::kit::dice::Dice;
use crate::rules_theorem::books::{self, Book, CHANGES, ENDINGS, amount};

/// Returns every value that conditions of the generator can distinguish.
fn values(kind: Kind) -> Vec<Value<'static>> {
    let text = |text: &str| Value::Text(text.to_owned().into());
    let whole = |range: Range<i64>| {
        range
            .map(|n| Value::Number(Amount::from_i64(n)))
            .collect::<Vec<_>>()
    };
    match kind {
        Kind::Number(..) => [
            "-2", "-1", "-0.5", "0", "0.5", "1", "1.2", "1.5", "1.7", "2", "2.2", "2.5", "2.7",
            "3", "9", "1000", "1001",
        ]
        .map(amount)
        .into_iter()
        .filter(|number| kind.ends().holds(*number))
        .map(Value::Number)
        .collect(),
        Kind::Whole(_, 4) => whole(0..5),
        Kind::Whole(..) => whole(0..7),
        Kind::TimeOfDay => [0, 1, 2, 539, 540, 541, 1319, 1320, 1321, 1438, 1439]
            .map(|n| Value::Number(Amount::from_i64(n)))
            .to_vec(),
        Kind::Flag => vec![Value::Flag(false), Value::Flag(true)],
        Kind::Word(known) => known.iter().map(|word| text(word)).collect(),
        // `x` is on no list, but in sets.
        Kind::Name(_) => [
            "a",
            "b",
            "c",
            "x",
            "y",
            "buy",
            "mon",
            "a.example",
            "x@a.example",
            "z",
        ]
        .map(text)
        .to_vec(),
        Kind::Host => [
            "a.example",
            "b.example",
            "c.example",
            "a",
            "b",
            "x",
            "mon",
            "z.example",
            "no host",
        ]
        .map(text)
        .to_vec(),
        Kind::Address => [
            "x@a.example",
            "y@a.example",
            "x@b.example",
            "z@z.example",
            "no address",
        ]
        .map(text)
        .to_vec(),
        Kind::Text => [
            "",
            "a",
            "A",
            "b",
            "x",
            "xa",
            "invoice",
            "INVOICE",
            "hello",
            "Hello a.example",
            "see https://a.example/x",
            "x http://c.example",
        ]
        .map(text)
        .to_vec(),
    }
}

fn all_facts(reading: &Reading) -> Vec<Fact<'static>> {
    let values = values(reading.kind());
    let mut facts = vec![Fact::Unknown("not known".into())];
    if reading.is_many() {
        for bits in 0_u32..1 << values.len() {
            let elements = values
                .iter()
                .enumerate()
                .filter(|(at, _)| bits >> at & 1 == 1);
            facts.push(Fact::Many(
                elements.map(|(_, value)| value.clone()).collect(),
            ));
        }
        return facts;
    }
    if missing(reading) == Missing::Absent {
        facts.push(Fact::Absent);
    }
    facts.extend(values.into_iter().map(Fact::Known));
    facts
}

/// Returns the readings whose facts can all be listed.
fn listable() -> Vec<Reading> {
    let has_many_texts = |reading: &Reading| {
        reading.is_many() && matches!(reading.kind(), Kind::Text | Kind::Address)
    };
    fields::readings()
        .into_iter()
        .filter(|reading| !has_many_texts(reading))
        .collect()
}

/// Whether a book has conditions on something that is derived from a text. The worlds have few of
/// the texts that these can tell apart, so they do not show everything.
fn has_derived(book: &Book) -> bool {
    let is_derived = |test: &Test| {
        matches!(
            test,
            Test::Domain { .. } | Test::Matches { .. } | Test::LinksNotIn(_)
        )
    };
    book.rules
        .iter()
        .any(|rule| rule.when.iter().any(|(_, test)| is_derived(test)))
}

fn growing(books: [&Book; 2]) -> Vec<SetName> {
    let sets = books.into_iter().flat_map(|book| book.sets.values());
    let mut names: Vec<SetName> = sets
        .filter(|set| set.grows != Grows::Never)
        .map(|set| set.name.clone())
        .collect();
    names.sort();
    names.dedup();
    names
}

/// Returns every set of values that may have been approved: none, each alone, all.
fn grown(names: &[SetName], readings: &[Reading]) -> Vec<Entries> {
    let mut values: Vec<String> = Vec::new();
    for reading in readings {
        for value in self::values(reading.kind()) {
            if let Value::Text(text) = value
                && let Some(folded) = reading.kind().fold(&text)
            {
                values.push(folded.into_owned());
            }
        }
    }
    let entries = |chosen: &[String], names: &[SetName]| {
        let mut entries = Entries::default();
        for (name, value) in names
            .iter()
            .flat_map(|name| chosen.iter().map(move |value| (name, value)))
        {
            let entry = Entry {
                by: Principal::parse("a").unwrap(),
                until: None,
                task: None,
            };
            entries.insert(name.clone(), value.clone(), entry, Time::EPOCH);
        }
        entries
    };
    if names.is_empty() {
        return vec![Entries::default()];
    }
    let mut all = vec![Entries::default(), entries(&values, names)];
    for name in names {
        all.push(entries(&values, std::slice::from_ref(name)));
        all.extend(
            values
                .iter()
                .map(|value| entries(std::slice::from_ref(value), std::slice::from_ref(name))),
        );
    }
    all
}

fn enumerate(before: &Book, after: &Book, readings: &[Reading]) -> (bool, bool) {
    let (old, new) = (before.compiled(), after.compiled());
    let lists: Vec<Vec<Fact>> = readings.iter().map(all_facts).collect();
    let (mut loosens, mut tightens) = (false, false);
    for now in [ENDINGS[0] - 1, ENDINGS[0], ENDINGS[1], ENDINGS[2]] {
        for entries in grown(&growing([before, after]), readings) {
            let around = Around {
                now: Time::from_ms(now).unwrap(),
                entries: &entries,
                task: None,
            };
            let mut at = vec![0; lists.len()];
            loop {
                let facts: Vec<Fact> = at
                    .iter()
                    .zip(&lists)
                    .map(|(at, list)| list[*at].clone())
                    .collect();
                let (was, is) = (
                    act(&old, readings, &facts, &around),
                    act(&new, readings, &facts, &around),
                );
                if fields::is_possible(readings, &facts) {
                    loosens |= was > is;
                    tightens |= was < is;
                }
                if loosens && tightens {
                    return (true, true);
                }
                let Some(next) = (0..at.len()).find(|place| at[*place] + 1 < lists[*place].len())
                else {
                    break;
                };
                at[next] += 1;
                at[..next].fill(0);
            }
        }
    }
    (loosens, tightens)
}

/// What the comparisons have shown.
#[derive(Debug, Default)]
struct Tally {
    directions: BTreeMap<&'static str, u64>,
    pairs: u64,
    with_derived: u64,
    witnesses: u64,
    feasible: u64,
    tightenings: u64,
    tightenings_proved: u64,
}

/// Draws the readings of a world with at most this many fact vectors.
fn world(dice: &mut Dice, vectors_max: usize) -> Vec<Reading> {
    if dice.one_in(12) {
        let [to, cc, all] = fields::mail();
        return match dice.below(24) {
            0 => vec![to, cc, all],
            1..=12 => vec![to, all],
            _ => vec![cc, all],
        };
    }
    let all = listable();
    let mut readings: Vec<Reading> = Vec::new();
    for _ in 0..1 + dice.below(3) {
        let reading = books::pick(dice, &all);
        // A set that two fields use grows for both at once; the prover treats these as
        // independent.
        let is_number = reading.kind().is_number();
        let is_first_of_kind = !readings
            .iter()
            .any(|other| other == &reading || other.kind() == reading.kind() && !is_number);
        readings.push(reading);
        let vectors: usize = readings
            .iter()
            .map(|reading| all_facts(reading).len())
            .product();
        if !is_first_of_kind || vectors > vectors_max {
            readings.pop();
        }
    }
    readings
}

/// Compares prover and enumeration on a pair for every seed, in worlds with at most this many fact
/// vectors, and more for recipients of mails.
pub(super) fn compared(seeds: Range<u64>, vectors_max: usize) {
    let mut tally = Tally::default();
    for seed in seeds {
        let dice = &mut Dice::apart(seed ^ 0xb00);
        let readings = world(dice, vectors_max);
        if readings.is_empty() {
            continue;
        }
        let before = books::book(dice, &readings, 4);
        let mut after = before.clone();
        for fresh in 0..1 + dice.below(3) {
            let which = usize::try_from(dice.below(CHANGES.len() as u64)).unwrap();
            books::change(
                dice,
                &mut after,
                &readings,
                which,
                usize::try_from(fresh).unwrap(),
            );
        }
        let is_mail = readings.contains(&fields::mail()[2]);
        if is_mail && !growing([&before, &after]).is_empty() {
            continue;
        }
        judge(seed, &before, &after, &readings, &mut tally);
    }
    println!("small worlds: {tally:?}");
    assert!(
        tally.directions.len() == 4 && tally.directions.values().all(|count| *count > 20),
        "{tally:?}"
    );
    assert!(tally.feasible * 100 >= tally.witnesses * 98, "{tally:?}");
    assert!(
        tally.tightenings_proved * 100 >= tally.tightenings * 98,
        "{tally:?}"
    );
}

fn judge(seed: u64, before: &Book, after: &Book, readings: &[Reading], tally: &mut Tally) {
    let (old, new) = (before.compiled(), after.compiled());
    let found = compare(&old, &new, STEPS_MAX);
    let (loosens, tightens) = enumerate(before, after, readings);
    let context = || format!("seed {seed}\n{found:#?}\n{before:#?}\n{after:#?}");
    assert!(
        !loosens || found.loosens.is_some(),
        "unsound: {}",
        context()
    );
    assert!(
        !tightens || found.tightens.is_some(),
        "unsound: {}",
        context()
    );
    for (witness, is_loosening) in [(&found.loosens, true), (&found.tightens, false)] {
        if let Some(witness) = witness {
            check_witness(witness, &old, &new, is_loosening);
            tally.witnesses += 1;
            tally.feasible += u64::from(witness.feasible);
            if !witness.feasible {
                println!("seed {seed}: infeasible {witness:?}");
                let rules = |book: &Book| {
                    book.rules
                        .iter()
                        .map(|rule| format!("{:?} {:?}", rule.then, rule.when))
                        .collect::<Vec<_>>()
                };
                println!("{:#?} {:#?}", rules(before), rules(after));
            }
        }
    }
    // A witness that shows its difference is as good as one of the enumeration.
    let shown = |witness: &Option<Witness>| witness.as_ref().is_some_and(|it| it.feasible);
    let direction = match (
        loosens || shown(&found.loosens),
        tightens || shown(&found.tightens),
    ) {
        (false, false) => Direction::Same,
        (false, true) => Direction::Tightening,
        (true, false) => Direction::Loosening,
        (true, true) => Direction::Incomparable,
    };
    tally.pairs += 1;
    *tally.directions.entry(name(direction)).or_default() += 1;
    if direction == Direction::Tightening {
        tally.tightenings += 1;
        tally.tightenings_proved += u64::from(found.may_apply_itself());
    }
    if has_derived(before) || has_derived(after) {
        tally.with_derived += 1;
    } else {
        assert_eq!(found.direction, direction, "{}", context());
        let (by_loosens, by_tightens) = (found.loosens.is_some(), found.tightens.is_some());
        assert_eq!(
            (loosens, tightens),
            (by_loosens, by_tightens),
            "{}",
            context()
        );
    }
}
