//! Questions about requests of which only some facts are given: no request with these facts is
//! treated more softly or harder than the answer says, and with all facts the answer is exact.

use std::collections::BTreeMap;

use spoolgate_rules::ask::{Given, ask};
use spoolgate_rules::rule::{Fact, Program, Then};

use super::books::{self, pick};
use super::facts::{self, World};
use super::fields;
use crate::kit::dice::Dice;

#[test]
fn answers_hold_for_every_request_with_the_given_facts() {
    let (mut settled, mut open, mut shown) = (0, 0, 0);
    for seed in 0..1_500 {
        let dice = &mut Dice::apart(seed);
        let all = fields::readings();
        let mut readings = Vec::new();
        for _ in 0..2 + dice.below(4) {
            let reading = pick(dice, &all);
            if !readings.contains(&reading) {
                readings.push(reading);
            }
        }
        let book = books::book(dice, &readings, 6);
        let world = World::throw(dice, &[&book]);
        let around = world.around();
        let compiled = book.compiled();
        let none = Program::default();
        let program = compiled.programs.get("order.submit").unwrap_or(&none);
        for _ in 0..6 {
            let mut values = facts::facts(dice, &[&book], &readings, &world);
            fields::relate(&readings, &mut values);
            let own = program.readings.iter().map(|reading| {
                values[readings.iter().position(|it| it == reading).unwrap()].clone()
            });
            let own: Vec<Fact> = own.collect();
            let exactly = own.iter().cloned().map(Given::Exactly);
            let full: BTreeMap<usize, Given> = exactly.enumerate().collect();
            let mut part = full.clone();
            part.retain(|_, _| dice.one_in(2));
            for given in part.values_mut() {
                if let Given::Exactly(Fact::Many(elements)) = given
                    && dice.one_in(2)
                {
                    elements.truncate(1);
                    *given = Given::AtLeast(elements.clone());
                }
            }
            let does = program.act(&own, &around).unwrap_or(Then::Warn);
            let context = || format!("seed {seed}: {own:?}\n{part:?}\n{book:#?}");
            let exact = ask(program, "order.submit", &full, &around).unwrap();
            assert_eq!(
                (exact.softest, exact.hardest),
                (does, does),
                "{}",
                context()
            );
            let asked = ask(program, "order.submit", &part, &around);
            let asked = asked.unwrap_or_else(|| panic!("said to be impossible: {}", context()));
            assert!(asked.is_proved, "{}", context());
            assert!(
                asked.softest <= does && does <= asked.hardest,
                "{asked:?} {}",
                context()
            );
            let acting = |id: &str| {
                let guard = program
                    .guards
                    .iter()
                    .find(|it| it.id.as_str() == id)
                    .unwrap();
                guard.truth(&own, &around) != spoolgate_rules::rule::Truth::False
            };
            assert!(
                asked.acting.iter().all(|(rule, _)| acting(rule.as_str())),
                "{}",
                context()
            );
            match asked.softest == asked.hardest {
                true => settled += 1,
                false => open += 1,
            }
            shown += usize::from(asked.example.is_some());
        }
    }
    println!("{settled} settled, {open} open, {shown} with an example");
    // An answer that never says anything would pass all other checks.
    assert!(
        settled * 4 > open && shown * 10 > open * 7,
        "{settled} {open} {shown}"
    );
}
