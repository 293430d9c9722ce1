//! `cargo bench --bench proofs`: what it costs to prove that a change of rules tightens, to find a
//! witness that it does not, and to give up on a proposal that was written to take long.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a program that measures and prints; it decides nothing"
)]

use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::time::{ClockId, clock_gettime};
use spoolgate_rules::proof::{Comparison, Direction, STEPS_MAX, compare};
use spoolgate_rules::rule::RuleSet;
use spoolgate_rules::rule::ruleset::{PATTERN_SIZE_MAX, compiled};

/// Rule files: path and text.
type Files = Vec<(String, String)>;

/// Processor time of this program so far.
fn spent() -> Duration {
    Duration::from(clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).unwrap())
}

/// Median processor time of a comparison, with what came of it.
fn measure(name: &str, before: &RuleSet, after: &RuleSet, direction: Direction, rounds: usize) {
    let mut times: Vec<Duration> = Vec::with_capacity(rounds);
    let mut last: Option<Comparison> = None;
    for _ in 0..rounds {
        let begun = spent();
        let found = compare(
            std::hint::black_box(before),
            std::hint::black_box(after),
            STEPS_MAX,
        );
        times.push(spent().saturating_sub(begun));
        last = Some(found);
    }
    times.sort_unstable();
    let found = last.unwrap();
    assert_eq!(found.direction, direction, "{name}");
    let (least, median) = (times[0], times[times.len() / 2]);
    println!(
        "{name:<58} {median:>12.1?} (least {least:.1?}), {} steps, {:?}",
        found.steps, found.direction
    );
}

fn rule(id: &str, then: &str, when: &str) -> (String, String) {
    let text = format!(
        "id: {id}\nstatus: active\napplies_to: {{action: order.submit}}\nwhen: [{when}]\nthen: \
            {then}\nmessage: \"no\"\n"
    );
    (format!("rules/active/{id}.yaml"), text)
}

fn book(rules: &[(String, String)]) -> RuleSet {
    book_with(rules, &[])
}

fn book_with(rules: &[(String, String)], sets: &[(String, String)]) -> RuleSet {
    let rules = rules
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()));
    RuleSet::compile(
        rules,
        sets.iter()
            .map(|(path, text)| (path.as_str(), text.as_str())),
    )
    .unwrap()
}

/// Numbers that look random, the same in every run.
fn dice() -> impl FnMut(usize) -> usize {
    let mut state = 1_usize;
    move |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    }
}

fn range(field: &str, from: usize, to: usize) -> String {
    format!("{{field: {field}, op: gte, value: {from}}}, {{field: {field}, op: lt, value: {to}}}")
}

/// Rules as they are written: a range of a number, a list, a day.
fn usual(count: usize) -> Files {
    let fields = [
        "order.notional",
        "market.price",
        "market.funding_rate_zscore",
        "order.size",
    ];
    let days = ["mon", "tue", "wed", "thu", "fri"];
    let rules = (0..count).map(|n| {
        let (field, day) = (fields[n % fields.len()], days[n % days.len()]);
        let when = format!(
            "{}, {{field: order.symbol, op: in, value: [S{n}, T{}]}}, {{field: time.weekday, op: \
                eq, value: {day}}}",
            range(field, n, n + 7),
            n % 17,
        );
        rule(
            &format!("r{n:04}"),
            if n % 3 == 0 { "hold" } else { "reject" },
            &when,
        )
    });
    rules.collect()
}

/// Rules that each cover half of everything, on other fields each: what is left doubles with every
/// one.
fn hostile(count: usize) -> Files {
    let fields = [
        "order.size",
        "order.notional",
        "order.planned_entry",
        "order.planned_stop",
        "market.price",
        "market.spread",
        "market.volume_ratio",
        "market.volatility",
        "market.funding_rate",
        "market.funding_rate_zscore",
        "portfolio.equity",
        "market.minutes_since_open",
        "portfolio.open_positions",
    ];
    let mut roll = dice();
    let rules = (0..count).map(|n| {
        let mut when = String::new();
        for _ in 0..3 {
            let (op, field) = (["gt", "lte"][roll(2)], fields[roll(fields.len())]);
            write!(
                when,
                "{{field: {field}, op: {op}, value: {}}}, ",
                1 + roll(3)
            )
            .unwrap();
        }
        rule(&format!("h{n:04}"), "reject", when.trim_end_matches(", "))
    });
    rules.collect()
}

/// Three fields of texts, each in a list of about 40 out of 100 names or in none of them.
fn lists(count: usize) -> Files {
    let mut roll = dice();
    let rules = (0..count).map(|n| {
        let when: Vec<String> = ["order.symbol", "order.thesis", "strategy.name"]
            .iter()
            .map(|field| {
                let names: BTreeSet<String> = (0..50).map(|_| format!("N{}", roll(100))).collect();
                let names: Vec<String> = names.into_iter().collect();
                let op = ["in", "not_in"][roll(2)];
                format!(
                    "{{field: {field}, op: {op}, value: [{}]}}",
                    names.join(", ")
                )
            })
            .collect();
        rule(&format!("l{n:04}"), "reject", &when.join(", "))
    });
    rules.collect()
}

/// Windows of eight numbers that overlap.
fn windows(count: usize) -> Files {
    let fields = [
        "order.size",
        "order.notional",
        "order.planned_entry",
        "order.planned_stop",
        "market.price",
        "market.spread",
        "market.volume_ratio",
        "market.volatility",
    ];
    let mut roll = dice();
    let rules = (0..count).map(|n| {
        let when: Vec<String> = fields
            .iter()
            .map(|field| {
                let from = roll(500);
                range(field, from, from + 1 + roll(1000))
            })
            .collect();
        rule(&format!("w{n:04}"), "reject", &when.join(", "))
    });
    rules.collect()
}

/// Every second of 800 names in one list, in rules that a number tells apart.
fn long(count: usize) -> Files {
    let mut roll = dice();
    let rules = (0..count).map(|n| {
        let names: Vec<String> = (0..800)
            .filter(|_| roll(2) == 0)
            .map(|name| format!("N{name}"))
            .collect();
        let when = format!(
            "{{field: order.symbol, op: {}, value: [{}]}}, {}",
            ["in", "not_in"][roll(2)],
            names.join(", "),
            range("order.size", n, n + 50)
        );
        rule(&format!("n{n:04}"), "reject", &when)
    });
    rules.collect()
}

/// Each asks for two elements of an array, one on a list and one off it.
fn arrays(count: usize) -> Files {
    let mut roll = dice();
    let rules = (0..count).map(|n| {
        let mut list = || {
            (0..5)
                .map(|_| format!("f{}", roll(20)))
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect::<Vec<_>>()
                .join(", ")
        };
        let (one, two) = (list(), list());
        let when = format!(
            "{{field: 'council.files_changed[]', op: in, value: [{one}]}}, {{field: \
             'council.metrics[]', op: not_in, value: [{two}]}}"
        );
        let (path, text) = rule(&format!("a{n:04}"), "reject", &when);
        (path, text.replace("order.submit", "council.request"))
    });
    rules.collect()
}

/// Rules that ask for sets whose entries all end, one after the other.
fn expiring(count: usize, endings: usize) -> (Files, Files) {
    let sets = (0..4).map(|set| {
        let entries: String = (0..endings / 4)
            .map(|n| {
                let (day, hour, minute) = (1 + n / 1440, n / 60 % 24, n % 60);
                format!(
                    "  - {{value: N{n}, provenance: user_established, expires: \
                        2030-0{}-{day:02}T{hour:02}:{minute:02}:00Z}}\n",
                    set + 1
                )
            })
            .collect();
        (
            format!("rules/sets/s{set}.yaml"),
            format!("name: s{set}\nkind: word\nentries:\n{entries}"),
        )
    });
    let mut roll = dice();
    let rules = (0..count).map(|n| {
        let when = format!(
            "{{field: order.symbol, op: {}, value: s{}}}, {}",
            ["in", "not_in"][roll(2)],
            roll(4),
            range("order.size", n, n + 50)
        );
        rule(&format!("e{n:04}"), "reject", &when)
    });
    (rules.collect(), sets.collect())
}

/// Expressions of which some have large automata, some large products, and some none at all.
const NASTY: [&str; 20] = [
    "[ab]*a[ab]{15}",
    r"\w{50}",
    ".{200}x",
    r"(?i)\w+\w+\w+x",
    "[^a]*a.{12}b",
    "(a|b|ab)*c(a?){50}a{50}",
    "(?s).{0,60}x.{0,60}y",
    r"\d{13,16}",
    r"(\w+\.)*\w+@(\w+\.)+\w+",
    "x*y*z*(x|y|z){9}[xyz]{9}q",
    r"\bfoo\b",
    "(((a{0,9}){0,9}){0,9}){0,3}b",
    r"\w\s\d[^a]\W.{30}",
    "(.*a){12}",
    "(?i)(a?b?c?d?e?f?g?h?){14}z",
    "([a-z]+[0-9]+){9}[^a-z]",
    "^(([a-z])+.)+[A-Z]([a-z])+$",
    "(x+x+)+y",
    "(.{1,20}a){5}",
    "(?s)^.*b.{8}c.*d.{8}e",
];

/// Rules with `count` expressions on each of some texts, and one without a condition.
fn expressions(of: &[&str], count: usize) -> (RuleSet, RuleSet) {
    let fields = [
        "council.proposer",
        "council.summary",
        "council.diff",
        "'council.files_changed[]'",
        "'council.metrics[]'",
    ];
    let rules = of.chunks(count).enumerate().flat_map(|(nth, chunk)| {
        let field = fields[nth % fields.len()];
        let rule = move |at: usize, text: &str| {
            let when = format!("{{field: {field}, op: matches, value: '{text}'}}");
            let (path, text) = rule(&format!("x{nth:02}-{at:02}"), "reject", &when);
            (path, text.replace("order.submit", "council.request"))
        };
        chunk
            .iter()
            .enumerate()
            .map(move |(at, text)| rule(at, text))
    });
    let rules: Files = rules.collect();
    let (path, text) = rule("all", "reject", "");
    let all = (path, text.replace("order.submit", "council.request"));
    (book(&[vec![all], rules.clone()].concat()), book(&rules))
}

/// Is everything still covered without the one rule that covers everything?
fn hostile_pair(name: &str, before: &RuleSet, after: &RuleSet) -> Duration {
    let begun = spent();
    let found = compare(before, after, STEPS_MAX);
    let took = spent().saturating_sub(begun);
    let nanoseconds = took.as_nanos() / u128::from(found.steps.max(1));
    println!(
        "hostile: {name:<48} {took:>12.1?}, {} steps of {nanoseconds} ns, {:?}",
        found.steps, found.direction
    );
    took
}

/// The same as `r`, split in two.
fn split(rules: &[(String, String)], at: usize) -> Files {
    let mut split = rules.to_vec();
    let half = |id: &str, op: &str| {
        let condition = format!(", {{field: order.planned_entry, op: {op}, value: 100}}]\nthen");
        let (old, text) = &rules[at];
        let name = old
            .trim_start_matches("rules/active/")
            .trim_end_matches(".yaml");
        let text = text.replace("]\nthen", &condition).replace(name, id);
        (format!("rules/active/{id}.yaml"), text)
    };
    split[at] = half("half-one", "gt");
    split.push(half("half-two", "lte"));
    split
}

/// Expressions as they are written.
fn compare_expressions() {
    let one = |when: &str| book(&[rule("x", "reject", when)]);
    let subject = |op: &str, value: &str| {
        one(&format!(
            "{{field: order.thesis, op: {op}, value: '{value}'}}"
        ))
    };
    let before = subject("matches", "foo");
    for (name, other) in [("foo|bar", "foo|bar"), ("(?i)foo", "(?i)foo")] {
        let other = subject("matches", other);
        let name = format!("expression foo -> {name}");
        measure(&name, &before, &other, Direction::Tightening, 501);
    }
    measure(
        "eq foo -> ^foo",
        &subject("eq", "foo"),
        &subject("matches", "^foo"),
        Direction::Tightening,
        501,
    );
}

/// Returns the longest time that expressions take whose automata are large.
fn hostile_expressions() -> Duration {
    let mut worst = Duration::ZERO;
    for nasty in NASTY {
        let long = nasty.repeat(500 / nasty.len());
        // Not every expression may be that long.
        let fits = |text: &&str| compiled(text, PATTERN_SIZE_MAX).is_ok();
        for text in [nasty, long.as_str()].into_iter().filter(fits) {
            let (before, after) = expressions(&[text, "foo"], 2);
            let name = format!("expression {}", &text[..text.len().min(35)]);
            worst = worst.max(hostile_pair(&name, &before, &after));
        }
    }
    let nasty: Vec<&str> = NASTY
        .into_iter()
        .filter(|text| compiled(text, PATTERN_SIZE_MAX).is_ok())
        .collect();
    for count in [1, 4, 6] {
        let (before, after) = expressions(&nasty, count);
        let name = format!("{} expressions, {count} of a text", nasty.len());
        worst = worst.max(hostile_pair(&name, &before, &after));
    }
    worst
}

fn main() {
    for count in [20, 1000] {
        let rules = usual(count);
        let before = book(&rules);
        let mut wider = rules.clone();
        wider[count / 2].1 = rules[count / 2].1.replace(", {field: time.weekday", " ] #");
        let added = [
            rules.clone(),
            vec![rule("x", "reject", &range("order.size", 1, 2))],
        ]
        .concat();
        let rounds = if count > 100 { 51 } else { 501 };
        measure(
            &format!("{count} rules, unchanged"),
            &before,
            &before,
            Direction::Same,
            rounds,
        );
        measure(
            &format!("{count} rules, one added"),
            &before,
            &book(&added),
            Direction::Tightening,
            rounds,
        );
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
    compare_expressions();
    let all = rule("all", "reject", "");
    let mut worst = Duration::ZERO;
    // One less than the most that there may be.
    for count in [30, 100, 300, 1000, 1999] {
        let rules = [
            ("halves", hostile(count)),
            ("lists and their complements", lists(count)),
            ("windows of numbers", windows(count)),
            ("long lists in few fields", long(count)),
            ("arrays", arrays(count)),
        ];
        for (name, rules) in rules {
            let action = if name == "arrays" {
                "council.request"
            } else {
                "order.submit"
            };
            let all = (all.0.clone(), all.1.replace("order.submit", action));
            let before = book(&[vec![all], rules.clone()].concat());
            worst = worst.max(hostile_pair(
                &format!("{count} rules, {name}"),
                &before,
                &book(&rules),
            ));
        }
        for (endings, name) in [(200, "200 endings"), (5_000, "5000 endings")] {
            let (rules, sets) = expiring(count, endings);
            let before = book_with(&[vec![all.clone()], rules.clone()].concat(), &sets);
            worst = worst.max(hostile_pair(
                &format!("{count} rules, {name}"),
                &before,
                &book_with(&rules, &sets),
            ));
        }
    }
    worst = worst.max(hostile_expressions());
    let memory = getrusage(UsageWho::RUSAGE_SELF).unwrap().max_rss();
    println!("hostile, worst: {worst:.1?}; peak memory of this program {memory} KiB");
}
