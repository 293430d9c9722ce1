//! Tests what a proof claims with random rulebooks, changes and facts. If a change is proved to
//! tighten, no fact vector may be treated more leniently afterwards; if not, the witness must show
//! why; and on small finite worlds the prover agrees with the enumeration of everything, in both
//! directions.

mod asked;
mod books;
mod brute;
mod facts;
mod fields;

use std::collections::BTreeMap;
use std::fmt;

use crate::kit::dice::Dice;
use crate::kit::{campaign, setting};
use books::{Book, CHANGES};
use facts::World;
use spoolgate_rules::proof::{Comparison, Direction, STEPS_MAX, Witness, compare};
use spoolgate_rules::rule::entries::Entry;
use spoolgate_rules::rule::{Around, Entries, Fact, Reading, RuleSet, Then};
use spoolgate_wire::ids::Principal;

/// The results of many comparisons.
#[derive(Default)]
struct Tally {
    pairs: u64,
    directions: BTreeMap<&'static str, u64>,
    tightening_by_change: BTreeMap<&'static str, (u64, u64)>,
    vectors: u64,
    vectors_refused: u64,
    witnesses: u64,
    feasible: u64,
    steps_most: u64,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} pairs: {:?}", self.pairs, self.directions)?;
        writeln!(
            f,
            "{} fact vectors, {} held or refused before",
            self.vectors, self.vectors_refused
        )?;
        writeln!(
            f,
            "{} witnesses, {} of them feasible; most steps {}",
            self.witnesses, self.feasible, self.steps_most
        )?;
        for (name, (proved, made)) in &self.tightening_by_change {
            writeln!(f, "  {name}: {proved} of {made} proved")?;
        }
        Ok(())
    }
}

/// The name of a direction in tallies.
pub(crate) fn name(direction: Direction) -> &'static str {
    match direction {
        Direction::Same => "same",
        Direction::Tightening => "tightening",
        Direction::Loosening => "loosening",
        Direction::Incomparable => "incomparable",
        Direction::Unproved => "unproved",
    }
}

/// Returns what a rulebook does with facts of these readings.
pub(crate) fn act(
    book: &RuleSet,
    readings: &[Reading],
    facts: &[Fact<'static>],
    around: &Around,
) -> Then {
    let Some(program) = book.programs.get("order.submit") else {
        return Then::Warn;
    };
    let own: Vec<Fact> = program
        .readings
        .iter()
        .map(|reading| facts[readings.iter().position(|other| other == reading).unwrap()].clone())
        .collect();
    program.act(&own, around).unwrap_or(Then::Warn)
}

/// Checks a witness without the prover.
fn check_witness(witness: &Witness, before: &RuleSet, after: &RuleSet, loosens: bool) {
    let (readings, facts): (Vec<Reading>, Vec<Fact>) = witness.facts.iter().cloned().unzip();
    assert!(fields::is_possible(&readings, &facts), "{witness:?}");
    let mut entries = Entries::default();
    for (set, value) in &witness.approved {
        let entry = Entry {
            by: Principal::parse("a").unwrap(),
            until: None,
            task: None,
        };
        entries.insert(set.clone(), value.clone(), entry, witness.now);
    }
    let around = Around {
        now: witness.now,
        entries: &entries,
        task: None,
    };
    let (was, is) = (
        act(before, &readings, &facts, &around),
        act(after, &readings, &facts, &around),
    );
    assert_eq!(
        (was, is),
        (
            witness.before.unwrap_or(Then::Warn),
            witness.after.unwrap_or(Then::Warn)
        )
    );
    assert_eq!(
        witness.feasible,
        if loosens { was > is } else { was < is },
        "{witness:?}"
    );
}

fn check_form(found: &Comparison) {
    let (loosens, tightens) = (found.loosens.is_some(), found.tightens.is_some());
    match found.direction {
        Direction::Same => assert!(!loosens && !tightens),
        // If the budget is used up, the proof does not say what is newly refused.
        Direction::Tightening => assert!(!loosens && (tightens || found.steps > STEPS_MAX)),
        Direction::Loosening => assert!(loosens && !tightens),
        Direction::Incomparable => assert!(loosens && tightens),
        Direction::Unproved => {}
    }
    assert_eq!(
        found.may_apply_itself(),
        matches!(found.direction, Direction::Same | Direction::Tightening)
    );
}

fn story(seed: u64, tally: &mut Tally, vectors: u64) {
    let dice = &mut Dice::apart(seed);
    let all = fields::readings();
    // Few readings per story, so that rules overlap.
    let readings: Vec<Reading> = (0..2 + dice.below(4))
        .map(|_| books::pick(dice, &all))
        .collect();
    let readings: Vec<Reading> = readings
        .iter()
        .enumerate()
        .filter(|(at, one)| !readings[..*at].contains(one))
        .map(|(_, one)| *one)
        .collect();
    let old = books::book(dice, &readings, 6);
    let mut new = old.clone();
    let mut made = Vec::new();
    if dice.one_in(12) {
        new = Book {
            sets: old.sets.clone(),
            ..books::book(dice, &readings, 4)
        };
    } else {
        for fresh in 0..1 + dice.below(3) {
            let which = usize::try_from(dice.below(CHANGES.len() as u64)).unwrap();
            if books::change(
                dice,
                &mut new,
                &readings,
                which,
                usize::try_from(fresh).unwrap(),
            ) {
                made.push(CHANGES[which]);
            }
        }
    }
    let (before, after) = (old.compiled(), new.compiled());
    let found = compare(&before, &after, STEPS_MAX);
    check_form(&found);
    tally.pairs += 1;
    *tally.directions.entry(name(found.direction)).or_default() += 1;
    tally.steps_most = tally.steps_most.max(found.steps);
    if let [only] = made[..] {
        let (proved, of) = tally.tightening_by_change.entry(only).or_default();
        *of += 1;
        *proved += u64::from(found.may_apply_itself());
    }
    for (witness, loosens) in [(&found.loosens, true), (&found.tightens, false)] {
        if let Some(witness) = witness {
            check_witness(witness, &before, &after, loosens);
            tally.witnesses += 1;
            tally.feasible += u64::from(witness.feasible);
        }
    }
    for _ in 0..vectors {
        let world = World::throw(dice, &[&old, &new]);
        let facts = facts::facts(dice, &[&old, &new], &readings, &world);
        let around = world.around();
        let (was, is) = (
            act(&before, &readings, &facts, &around),
            act(&after, &readings, &facts, &around),
        );
        tally.vectors += 1;
        tally.vectors_refused += u64::from(was > Then::Warn);
        let context = || format!("seed {seed}\n{facts:?}\n{world:?}\n{old:#?}\n{new:#?}");
        match found.direction {
            Direction::Same => assert_eq!(was, is, "proved the same, but: {}", context()),
            Direction::Tightening => assert!(is >= was, "proved a tightening, but: {}", context()),
            Direction::Loosening => assert!(is <= was, "proved a loosening, but: {}", context()),
            Direction::Incomparable | Direction::Unproved => {}
        }
    }
}

#[test]
fn proofs_hold() {
    let mut tally = Tally::default();
    (0..6_000).for_each(|seed| story(seed, &mut tally, 30));
    println!("{tally}");
    // A prover that never proves anything would pass all other checks.
    let share = |name: &str| tally.directions.get(name).copied().unwrap_or(0) * 100 / tally.pairs;
    for (name, least) in [
        ("same", 5),
        ("tightening", 10),
        ("loosening", 10),
        ("incomparable", 4),
    ] {
        assert!(share(name) >= least, "{name}: {}%", share(name));
    }
    assert_eq!(share("unproved"), 0);
    assert!(tally.feasible * 100 >= tally.witnesses * 85, "{tally}");
}

/// `SPOOLGATE_PROOFS=2000000 cargo test --release --test it rules_theorem:: -- --ignored
/// --nocapture`
#[test]
#[ignore = "long: SPOOLGATE_PROOFS says how many pairs"]
fn proofs_hold_at_length() {
    let pairs = setting("SPOOLGATE_PROOFS", 100_000);
    let mut tally = Tally::default();
    (1_000_000..1_000_000 + pairs).for_each(|seed| story(seed, &mut tally, 40));
    println!("{tally}");
    brute::compared(2_000_000..2_000_000 + pairs / 40, 500);
}

/// Judges 1,500 pairs, 200,000 with `SPOOLGATE_WHOLE=1`.
#[test]
fn small_worlds_are_decided_as_their_enumeration_says() {
    brute::compared(0..campaign(1_500, 200_000), 250);
}

#[test]
fn a_proof_stands_even_if_the_budget_ends_before_a_difference_is_found() {
    let rule = |id: &str, when: &str| {
        let text = format!(
            "id: {id}\nstatus: active\napplies_to: {{action: order.submit}}\nwhen: [{when}]\nthen: \
                reject\nmessage: no\n"
        );
        (format!("rules/active/{id}.yaml"), text)
    };
    let compiled = |rules: &[(String, String)]| {
        RuleSet::compile(
            rules
                .iter()
                .map(|(path, text)| (path.as_str(), text.as_str())),
            [],
        )
        .unwrap()
    };
    let range = |n: usize| {
        format!(
            "{{field: order.size, op: gt, value: {n}}}, {{field: market.price, op: lt, value: {n}}}"
        )
    };
    let mut rules: Vec<(String, String)> = (0..20)
        .map(|n| rule(&format!("r{n:02}"), &range(n)))
        .collect();
    let before = compiled(&rules);
    rules.push(rule("x", "{field: order.planned_stop, op: gt, value: 1}"));
    let after = compiled(&rules);
    let full = compare(&before, &after, STEPS_MAX);
    assert_eq!(
        (full.direction, full.tightens.is_some()),
        (Direction::Tightening, true)
    );
    let short = compare(&before, &after, full.steps - 1);
    assert_eq!(
        (short.direction, short.loosens, short.tightens),
        (Direction::Tightening, None, None)
    );
    let none = compare(&before, &after, 1);
    assert_eq!(
        (none.direction, none.may_apply_itself()),
        (Direction::Unproved, false)
    );
    // In the other direction, the budget is not enough for the proof.
    let back = compare(&after, &before, STEPS_MAX);
    assert_eq!(
        (back.direction, back.loosens.is_some()),
        (Direction::Loosening, true)
    );
    let short = (1..back.steps).map(|budget| compare(&after, &before, budget));
    for found in short {
        assert_eq!(
            (found.direction, found.may_apply_itself()),
            (Direction::Unproved, false)
        );
    }
}
