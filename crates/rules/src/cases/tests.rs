//! Tests of made cases: random rules, their limits, tables, and facts of the past.

use super::*;
use crate::golden::{self, Report};
use crate::mutants::Change;

/// A small generator of numbers, the same on every machine.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % n
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }
}

/// Returns a random condition on an order.
fn condition(dice: &mut Dice) -> String {
    let ordered = ["gt", "gte", "lt", "lte", "eq", "neq"];
    let number = |dice: &mut Dice, field: &str, values: &[&str]| {
        format!(
            "{{{field}, op: {}, value: {}}}",
            dice.pick(&ordered),
            dice.pick(values)
        )
    };
    match dice.below(12) {
        0 => number(dice, "field: order.size", &["0.005", "0.5", "2", "7"]),
        1 => number(dice, "field: order.price", &["100", "6760.25", "0.00001"]),
        2 => number(dice, "field: order.notional", &["1000", "2500.5"]),
        3 => number(dice, "field: strategy.loss_streak", &["0", "1", "3"]),
        4 => number(
            dice,
            "field: market.funding_rate",
            &["-0.01", "0", "0.0003"],
        ),
        5 => number(dice, "field: history.count, window_s: 3600", &["1", "20"]),
        6 => number(
            dice,
            "field: history.sum, of: order.size, window_s: 3600",
            &["1", "7.5"],
        ),
        7 => {
            let windows = [
                "22:00-06:00",
                "09:00-17:30",
                "12:00",
                "18:00-24:00",
                "00:00-00:01",
            ];
            let op = dice.pick(&["in", "not_in"]);
            let (one, two) = (dice.pick(&windows), dice.pick(&windows));
            format!("{{field: time.of_day, op: {op}, value: [\"{one}\", \"{two}\"]}}")
        }
        8 => format!(
            "{{field: order.side, op: {}, value: buy}}",
            dice.pick(&["eq", "neq"])
        ),
        9 => format!(
            "{{field: order.symbol, op: {}, value: majors}}",
            dice.pick(&["in", "not_in"])
        ),
        10 => format!(
            "{{field: order.target_price, op: {}}}",
            dice.pick(&["absent", "present"])
        ),
        _ => "{field: order.thesis, op: matches, value: \"^a-\"}".to_owned(),
    }
}

fn book(dice: &mut Dice) -> RuleSet {
    let set =
        "name: majors\nkind: word\nentries:\n  - {value: BTC-USD, provenance: user_established}\n";
    let rules: Vec<(String, String)> = (0..1 + dice.below(4))
        .map(|n| {
            let when: Vec<String> = (0..dice.below(4)).map(|_| condition(dice)).collect();
            let scope = dice.pick(&["", ", strategy: [trend, range]", ", principal: [bot]"]);
            let text = format!(
                "id: r{n}\nstatus: {}\napplies_to: {{action: order.submit{scope}}}\nwhen: [{}]\n\
                    then: {}\nmessage: no\n",
                dice.pick(&["active", "active", "shadow"]),
                when.join(", "),
                dice.pick(&["reject", "hold", "warn"]),
            );
            (format!("rules/core/r{n}.yaml"), text)
        })
        .collect();
    let rules = rules
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()));
    RuleSet::compile(rules, [("rules/sets/majors.yaml", set)]).unwrap()
}

/// Runs the cases of a file.
fn tried(rules: &RuleSet, text: &str) -> Report {
    let file = golden::read("rules/tests/made.yaml", text).unwrap();
    let mut report = Report {
        coverage: golden::nothing_seen(rules),
        ..Report::default()
    };
    let computed = |case: &Case, readings: &[Reading]| -> Result<_, std::fmt::Error> {
        assert!(case.request.is_none() && case.at.is_none());
        let is_action = |reading: &Reading| name_of(reading) == "request.action";
        let action = || Fact::text(case.action.clone());
        Ok(readings
            .iter()
            .map(|it| is_action(it).then(action))
            .collect())
    };
    golden::try_file(
        rules,
        ("rules/tests/made.yaml", text),
        &file,
        &computed,
        &mut report,
    );
    report
}

#[test]
fn made_cases_pass_and_notice_every_moved_threshold() {
    let (mut made, mut living, mut all) = (0, 0, 0);
    for seed in 0..600 {
        let rules = book(&mut Dice(seed));
        let found = cases(&rules, None);
        let text = file(&found.cases);
        assert_eq!(text, file(&cases(&rules, None).cases), "seed {seed}");
        let report = tried(&rules, &text);
        let faults = report.tried.iter().flat_map(|it| &it.faults);
        assert_eq!(
            faults.collect::<Vec<_>>(),
            Vec::<&String>::new(),
            "seed {seed}\n{text}"
        );
        made += found.cases.len();
        for rule in rules.rules.values() {
            for mutant in mutants::mutants(&rules, rule) {
                let is_noticed = mutant.is_noticed(&rules, &report.passed);
                let may_live = mutant.change != Change::Threshold;
                assert!(
                    is_noticed || may_live,
                    "seed {seed}: {mutant}\n{text}\n{rules:#?}"
                );
                all += 1;
                living += usize::from(!is_noticed);
            }
        }
    }
    assert!(made > 3_000 && living * 100 < all, "{made} {living} {all}");
}

#[test]
fn the_cases_of_a_limit_are_at_it_and_beside_it() {
    let text = "id: cap\nstatus: active\napplies_to: {action: order.submit}\nwhen:\n  - {field: \
        order.size, op: gt, value: 0.005}\n  - {field: order.notional, op: lt, value: 100}\nthen: \
        reject\nmessage: no\n";
    let rules = RuleSet::compile([("rules/core/cap.yaml", text)], []).unwrap();
    let found = cases(&rules, None);
    let said: Vec<(String, Expect)> = found
        .cases
        .iter()
        .map(|case| (case.name.clone(), case.expect))
        .collect();
    let of = |name: &str, expect| (format!("cap: {name}"), expect);
    assert_eq!(
        said,
        [
            of("order.size 0.0049", Expect::Accept),
            of("order.size 0.005", Expect::Accept),
            of("order.size 0.0051", Expect::Reject),
            of("order.notional 99.9", Expect::Reject),
            of("order.notional 100", Expect::Accept),
            of("order.notional 100.1", Expect::Accept),
            of("order.notional not known", Expect::Reject),
        ]
    );
    assert_eq!(found.unmade, Vec::<String>::new());
    // Texts of rules reach the file whole.
    let odd = "é \"\\\u{85}\u{1F600}";
    let value: serde_yaml::Value = serde_yaml::from_str(&quoted(odd)).unwrap();
    assert_eq!(value.as_str(), Some(odd));
}

#[test]
fn made_cases_stay_within_the_range_of_a_field() {
    for most in ["999999999999.9999999999", "0.0000000001"] {
        let text = format!(
            "id: cap\nstatus: active\napplies_to: {{action: order.submit}}\nwhen: [{{field: \
                order.size, op: gte, value: \"{most}\"}}]\nthen: reject\nmessage: no\n"
        );
        let rules = RuleSet::compile([("rules/core/cap.yaml", text.as_str())], []).unwrap();
        let found = cases(&rules, None);
        assert!(!found.cases.is_empty(), "{found:?}");
        let report = tried(&rules, &file(&found.cases));
        let faults: Vec<&String> = report.tried.iter().flat_map(|it| &it.faults).collect();
        assert_eq!(faults, Vec::<&String>::new(), "{most}");
    }
}

#[test]
fn facts_of_a_file_and_a_matrix_may_be_of_the_past() {
    let text = "id: many\nstatus: active\napplies_to: {action: order.submit}\nwhen:\n  - {field: \
        history.count, window_s: 60, op: gte, value: 3}\n  - {field: history.sum, of: order.size, \
        window_s: 60, op: gt, value: 5}\nthen: reject\nmessage: no\n";
    let rules = RuleSet::compile([("rules/core/many.yaml", text)], []).unwrap();
    let file = "facts: {\"history.sum(order.size, 60s)\": 6}\nmatrix:\n  action: order.submit\n  rows: \
        {\"history.count(60s)\": [2, 3]}\n  columns: {order.side: [buy]}\n  expect:\n    \"2\": \
        [accept]\n    \"3\": [reject]\n";
    let report = tried(&rules, file);
    assert_eq!(report.tried.len(), 2);
    let faults: Vec<&String> = report.tried.iter().flat_map(|it| &it.faults).collect();
    assert_eq!(faults, Vec::<&String>::new());
    for name in [
        "history.count(0s)",
        "history.count(060s)",
        "history.sum(order.sise, 60s)",
        "history.sum(order.notional_fraction, 60s)",
        "history.sum(order.size,60s)",
        "first_seen(order.size",
        "history.count",
    ] {
        let text = format!("facts: {{\"{name}\": 1}}\ncases: []\n");
        let faults = golden::read("m", &text).unwrap_err();
        assert!(faults[0].message.contains("no such"), "{name}: {faults:?}");
    }
}

#[test]
fn a_matrix_says_what_becomes_of_each_pair() {
    let rule = |id: &str, then: &str, when: &str| {
        let text = format!(
            "id: {id}\nstatus: active\napplies_to: {{action: email.send}}\nwhen: [{when}]\nthen: \
                {then}\nmessage: no\n"
        );
        (format!("rules/core/{id}.yaml"), text)
    };
    let rules = [
        rule(
            "strangers",
            "hold",
            "{field: \"payload.to[]\", op: not_in, value: [a@x.example]}",
        ),
        rule(
            "bot-only",
            "reject",
            "{field: request.source, op: neq, value: bot}",
        ),
    ];
    let rules = rules
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()));
    let rules = RuleSet::compile(rules, []).unwrap();
    let matrix = |expect: &str| {
        format!(
            "matrix:\n  action: email.send\n  rows: {{request.source: [bot, eve]}}\n  columns: \
                {{\"payload.to[]\": [[a@x.example], [a@x.example, b@y.example]]}}\n  expect:\n{expect}"
        )
    };
    let good = tried(
        &rules,
        &matrix("    bot: [accept, hold]\n    eve: [reject, reject]\n"),
    );
    assert_eq!(good.tried.len(), 4);
    assert!(
        good.tried.iter().all(|it| it.faults.is_empty()),
        "{:?}",
        good.tried
    );
    assert_eq!(good.tried[1].name, "bot, [a@x.example, b@y.example]");
    assert_eq!(good.tried[2].line, Some(7));
    assert!(
        good.coverage
            .values()
            .all(|it| it.acts > 0 && it.lets_pass > 0)
    );
    let bad = tried(
        &rules,
        &matrix("    bot: [accept, accept]\n    eve: [reject, reject]\n"),
    );
    let faults: Vec<&String> = bad.tried.iter().flat_map(|it| &it.faults).collect();
    assert_eq!(faults, ["expected accept, got hold"]);
    for (expect, said) in [
        (
            "    bot: [accept]\n    eve: [reject, reject]\n",
            "`bot` has 1 outcomes for 2 columns",
        ),
        (
            "    bot: [accept, hold]\n",
            "`expect` says nothing of `eve`",
        ),
        (
            "    bot: [accept, hold]\n    eve: [reject, reject]\n    boot: [hold, hold]\n",
            "there is no row `boot`; did you mean `bot`?",
        ),
    ] {
        let faults = golden::read("m", &matrix(expect)).unwrap_err();
        assert_eq!(faults[0].message, format!("matrix: {said}"));
        assert!(faults[0].line.is_some());
    }
    let other = matrix("    bot: [accept, hold]\n    eve: [reject, reject]\n");
    let faults = golden::read("m", &other.replace("request.source", "request.sorce")).unwrap_err();
    assert!(
        faults[0].message.contains("did you mean `request.source`?"),
        "{faults:?}"
    );
    assert!(
        golden::read("m", "facts: {}\n").is_err(),
        "neither cases nor a matrix"
    );
}
