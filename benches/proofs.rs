//! `cargo bench --bench proofs`: what it costs to prove that a change of rules tightens, to find a witness that it does
//! not, and to give up on a proposal that was written to take long.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a program that measures and prints; it decides nothing"
)]

use std::fmt::Write;
use std::time::{Duration, Instant};

use spoolgate::rules::proof::{Comparison, Direction, STEPS_MAX, compare};
use spoolgate::rules::rule::RuleSet;

/// Median time of a comparison, with what came of it.
fn measure(name: &str, before: &RuleSet, after: &RuleSet, direction: Direction, rounds: usize) {
    let mut times: Vec<Duration> = Vec::with_capacity(rounds);
    let mut last: Option<Comparison> = None;
    for _ in 0..rounds {
        let begun = Instant::now();
        let found = compare(std::hint::black_box(before), std::hint::black_box(after), STEPS_MAX);
        times.push(begun.elapsed());
        last = Some(found);
    }
    times.sort_unstable();
    let found = last.unwrap();
    assert_eq!(found.direction, direction, "{name}");
    let (least, median) = (times[0], times[times.len() / 2]);
    println!("{name:<58} {median:>12.1?} (least {least:.1?}), {} steps, {:?}", found.steps, found.direction);
}

fn rule(id: &str, then: &str, when: &str) -> (String, String) {
    let text = format!(
        "id: {id}\nstatus: active\napplies_to: {{action: order.submit}}\nwhen: [{when}]\nthen: {then}\nmessage: \"no\"\n"
    );
    (format!("rules/active/{id}.yaml"), text)
}

fn book(rules: &[(String, String)]) -> RuleSet {
    let rules = rules.iter().map(|(path, text)| (path.as_str(), text.as_str()));
    RuleSet::compile(rules, []).unwrap()
}

fn range(field: &str, from: usize, to: usize) -> String {
    format!("{{field: {field}, op: gte, value: {from}}}, {{field: {field}, op: lt, value: {to}}}")
}

/// Rules as they are written: a range of a number, a list, a day.
fn usual(count: usize) -> Vec<(String, String)> {
    let fields = ["order.notional", "market.price", "market.funding_rate_zscore", "order.size"];
    let days = ["mon", "tue", "wed", "thu", "fri"];
    let rules = (0..count).map(|n| {
        let (field, day) = (fields[n % fields.len()], days[n % days.len()]);
        let when = format!(
            "{}, {{field: order.symbol, op: in, value: [S{n}, T{}]}}, {{field: time.weekday, op: eq, value: {day}}}",
            range(field, n, n + 7),
            n % 17,
        );
        rule(&format!("r{n:04}"), if n % 3 == 0 { "hold" } else { "reject" }, &when)
    });
    rules.collect()
}

/// Rules that each cover half of everything, on other fields each: what is left doubles with every one.
fn hostile(count: usize) -> Vec<(String, String)> {
    let fields = [
        "order.size",
        "order.notional",
        "order.planned_entry",
        "order.planned_stop",
        "market.price",
        "market.spread_pct",
        "market.volume_ratio",
        "market.volatility",
        "market.funding_rate",
        "market.funding_rate_zscore",
        "portfolio.equity",
        "market.minutes_since_open",
        "portfolio.open_positions",
    ];
    let mut state = 1_usize;
    let mut roll = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let rules = (0..count).map(|n| {
        let mut when = String::new();
        for _ in 0..3 {
            let (op, field) = (["gt", "lte"][roll(2)], fields[roll(fields.len())]);
            write!(when, "{{field: {field}, op: {op}, value: {}}}, ", 1 + roll(3)).unwrap();
        }
        rule(&format!("h{n:04}"), "reject", when.trim_end_matches(", "))
    });
    rules.collect()
}

/// The same as `r`, split in two.
fn split(rules: &[(String, String)], at: usize) -> Vec<(String, String)> {
    let mut split = rules.to_vec();
    let half = |id: &str, op: &str| {
        let condition = format!(", {{field: order.planned_entry, op: {op}, value: 100}}]\nthen");
        let (old, text) = &rules[at];
        let name = old.trim_start_matches("rules/active/").trim_end_matches(".yaml");
        let text = text.replace("]\nthen", &condition).replace(name, id);
        (format!("rules/active/{id}.yaml"), text)
    };
    split[at] = half("half-one", "gt");
    split.push(half("half-two", "lte"));
    split
}

fn main() {
    for count in [20, 1000] {
        let rules = usual(count);
        let before = book(&rules);
        let mut wider = rules.clone();
        wider[count / 2].1 = rules[count / 2].1.replace(", {field: time.weekday", " ] #");
        let added = [rules.clone(), vec![rule("x", "reject", &range("order.size", 1, 2))]].concat();
        let rounds = if count > 100 { 51 } else { 501 };
        measure(&format!("{count} rules, unchanged"), &before, &before, Direction::Same, rounds);
        measure(&format!("{count} rules, one added"), &before, &book(&added), Direction::Tightening, rounds);
        measure(
            &format!("{count} rules, a condition removed"),
            &before,
            &book(&wider),
            Direction::Tightening,
            rounds,
        );
        measure(
            &format!("{count} rules, one split in two"),
            &before,
            &book(&split(&rules, 3)),
            Direction::Same,
            rounds,
        );
        measure(
            &format!("{count} rules, a condition added, with witness"),
            &book(&wider),
            &before,
            Direction::Loosening,
            rounds,
        );
    }
    for count in [30, 100, 300, 1000, 2000] {
        let rules = hostile(count);
        let (all, before) = (rule("all", "reject", ""), book(&rules));
        let begun = Instant::now();
        let found = compare(&book(std::slice::from_ref(&all)), &before, STEPS_MAX);
        let took = begun.elapsed();
        println!(
            "hostile: do {count} rules cover everything: {took:.1?}, {} steps, {:?}",
            found.steps, found.direction
        );
    }
}
