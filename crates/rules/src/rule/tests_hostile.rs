//! Rule files that are malicious or not what they seem. Each is refused quickly, with file,
//! line and advice.

use super::ruleset::{CONDITIONS_MAX, PATTERN_BYTES_MAX, RULES_MAX, RuleSet, WINDOW_S_MAX};

const SET: &str =
    "name: friends\nkind: address\nentries:\n  - {value: a@b.com, provenance: user_established}\n";

fn refusal_of(path: &str, text: &str) -> String {
    let compiled = RuleSet::compile([(path, text)], [("rules/sets/friends.yaml", SET)]);
    match compiled {
        Ok(_) => "taken".to_owned(),
        Err(error) => {
            let told = error.to_string();
            assert!(told.len() < 700, "{told}");
            told
        }
    }
}

/// Returns a rule with these conditions.
fn rule(when: &str) -> String {
    format!(
        "id: r\nstatus: active\napplies_to: {{action: order.submit}}\nwhen:\n{when}then: \
            reject\nmessage: no\n"
    )
}

fn outcome(text: &str) -> String {
    refusal_of("rules/core/r.yaml", text)
}

const GOOD: &str = "  - {field: order.side, op: eq, value: buy}\n";

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn unknown_names_and_values_are_refused_with_their_line() {
    assert_eq!(outcome(&rule(GOOD)), "taken");
    for (when, expect) in [
        (
            "  - {field: order.sid, op: eq, value: buy}\n",
            "r.yaml:5: condition on `order.sid`: there is no such field; did you mean \
                `order.side`?",
        ),
        (
            "  - {field: order.side, op: eqq, value: buy}\n",
            "`links_not_in`, `matches`, `not_matches`, `first_seen`, `absent`, `present`; did you \
                mean `eq`?",
        ),
        (
            "  - {fiel: order.side, op: eq, value: buy}\n",
            "did you mean `field`?",
        ),
        (
            "  - {field: time.weekday, op: eq, value: Friday}\n",
            "`Friday` is none of mon, tue, wed, thu, fri, sat, sun; did you mean `fri`?",
        ),
        (
            "  - {field: order.symbol, op: in, value: friend}\n",
            "there is no rules/sets/friend.yaml; did you mean `friends`?",
        ),
        (
            "  - {field: time.of_day, op: gt, value: \"9:00\"}\n",
            "condition on `time.of_day`: `9:00`: write `09:00`",
        ),
        (
            "  - {field: time.of_day, op: in, value: [\"9:00-17:00\"]}\n",
            "`9:00`: write `09:00`",
        ),
        (
            "  - {field: time.of_day, op: in, value: [\"24:00-06:00\"]}\n",
            "a time of day is written as 21:55",
        ),
        (
            "  - {field: order.side, op: eq, value: buy, why: x}\n",
            "r.yaml:5: ",
        ),
        (
            "  - {field: order.side, op: eq, value: bye}\n",
            "`bye` is none of buy, sell",
        ),
        (
            "  - {field: 'order.side[]', op: eq, value: buy}\n",
            "it is no array: write `order.side`",
        ),
        (
            "  - {field: payload.to, op: present}\n",
            "it is an array: write `payload.to[]`",
        ),
        (
            "  - {field: 'payload.to[]', op: present}\n",
            "requests of `order.submit` have no `payload.to`",
        ),
        (
            "  - {field: max_single_position, op: gt, value: 1}\n",
            "there is no such field",
        ),
        (
            "  - {field: safety.max_drawdown, op: gt, value: 1}\n",
            "there is no such field",
        ),
        (
            "  - {field: order.size, op: gt, value: 3, min: 4}\n",
            "`value` is not between `min` and `max`",
        ),
        (
            "  - {field: order.size, op: gt, value: 3, max: 2}\n",
            "`value` is not between `min` and `max`",
        ),
        (
            "  - {field: order.size, op: eq, value: 3, max: 2}\n",
            "`min` and `max` belong to",
        ),
        (
            "  - {field: order.size, op: gt, value: 3, min: null}\n",
            "r.yaml:5: ",
        ),
        ("  - {field: order.size, op: gt}\n", "`value` is missing"),
        (
            "  - {field: order.size, op: gt, value: null}\n",
            "r.yaml:5: ",
        ),
        (
            "  - {field: order.size, op: absent, value: 1}\n",
            "takes no `value`",
        ),
        (
            "  - {field: order.size, op: first_seen}\n",
            "`first_seen` is for",
        ),
        (
            "  - {field: order.size, op: matches, value: x}\n",
            "only texts are matched",
        ),
        (
            "  - {field: order.side, op: gt, value: 1}\n",
            "the operator does not fit",
        ),
        (
            "  - {field: order.side, op: in, value: []}\n",
            "the list is empty",
        ),
        (
            "  - {field: order.side, op: in, value: [buy, buy]}\n",
            "`buy` appears twice",
        ),
        (
            "  - {field: order.symbol, op: in, value: nowhere}\n",
            "there is no rules/sets/nowhere.yaml",
        ),
        (
            "  - {field: order.symbol, op: in, value: friends}\n",
            "is of another kind than the field",
        ),
        (
            "  - {field: order.symbol, op: in, value: ../x}\n",
            "is not a set name",
        ),
        (
            "  - {field: order.symbol, op: links_not_in, value: [a.com]}\n",
            "links are looked for in texts only",
        ),
        (
            "  - {field: order.symbol, op: domain_in, value: [a.com]}\n",
            "this field has no domain",
        ),
        (
            "  - {field: order.size, op: gt, value: 1, provenance: seen}\n",
            "`provenance` belongs to",
        ),
        (
            "  - {field: order.size, op: gt, value: 1, window_s: 5}\n",
            "belong to history",
        ),
        (
            "  - {field: history.sum, of: order.side, window_s: 5, op: gt, value: 1}\n",
            "`of` is no single number",
        ),
        (
            "  - {field: history.sum, window_s: 5, op: gt, value: 1}\n",
            "`of` is missing",
        ),
        (
            "  - {field: history.count, op: gt, value: 1}\n",
            "`window_s` is missing",
        ),
        (
            "  - {field: history.count, window_s: 0, op: gt, value: 1}\n",
            "`window_s` is 1 to",
        ),
        (
            "  - {field: time.of_day, op: in, value: ['24:00-01:00']}\n",
            "21:55",
        ),
        (
            "  - {field: time.of_day, op: in, value: ['10:00-10:00']}\n",
            "nobody could say which",
        ),
        ("  - {field: time.of_day, op: gt, value: 60}\n", "21:55"),
        (
            "  - {field: portfolio.open_positions, op: gt, value: 1.5}\n",
            "whole number",
        ),
        (
            "  - {field: order.size, op: gt, value: {a: 1}}\n",
            "r.yaml:5: ",
        ),
        (
            "  - {field: order.size, op: gt, value: [1]}\n",
            "`value` is one number",
        ),
    ] {
        let refusal = outcome(&rule(when));
        assert!(
            refusal.starts_with("rules/core/r.yaml:") && refusal.contains(expect),
            "{when}{refusal}"
        );
    }
    // The error points at the second condition on the same field; comments and messages are
    // not conditions.
    for good in [
        GOOD,
        "  # {field: x}\n  - field: order.side # field: y\n    op: eq\n    value: buy\n",
    ] {
        let bad = rule(&format!(
            "{good}  - {{field: order.side, op: eq, value: bye}}\n"
        ));
        let line = bad.lines().position(|line| line.contains("bye")).unwrap() + 1;
        assert!(
            outcome(&bad).starts_with(&format!("rules/core/r.yaml:{line}: ")),
            "{}",
            outcome(&bad)
        );
    }
    let head = rule(GOOD);
    for (from, to, expect) in [
        ("then: reject", "then: allow", "r.yaml:6: "),
        ("status: active", "status: on", "r.yaml:2: "),
        (
            "status: active",
            "status: retired",
            "a retired rule, and no other, has a `lesson`",
        ),
        (
            "status: active",
            "status: active\nlesson: x",
            "a retired rule, and no other, has a `lesson`",
        ),
        (
            "order.submit",
            "order.cancel",
            "r.yaml:3: rules do not apply to `order.cancel`",
        ),
        (
            "order.submit",
            "order.tighten_stop",
            "rules do not apply to",
        ),
        ("order.submit", "halt.clear", "rules do not apply to"),
        ("order.submit", "[]", "names no action"),
        (
            "order.submit",
            "[order.submit, order.submit]",
            "names an action twice",
        ),
        (
            "order.submit",
            "order.submit, strategy: []",
            "an empty list",
        ),
        (
            "order.submit",
            "council.request, strategy: [trend]",
            "have no `strategy.name`",
        ),
        ("order.submit", "order.submit, tenant: x", "r.yaml:3: "),
        ("message: no", "message: ''", "`message` is 1 to 500 bytes"),
        ("message: no", "message: \"a\\u202eb\"", "printable"),
        ("message: no", "message: \"a\\0b\"", "printable"),
        ("message: no", "message: no\nmessage: yes", "duplicate"),
        (
            "message: no",
            "message: no\nunsafe: true",
            "unknown field `unsafe`",
        ),
        (
            "message: no",
            "message: no\nmax_drawdown: 1",
            "unknown field `max_drawdown`",
        ),
        (
            "message: no",
            "message: !!python/object:os.system no",
            "taken",
        ),
        (
            "id: r",
            "id: !!python/object/apply:os.system [rm]",
            "r.yaml:",
        ),
        ("id: r", "id: R", "is not a rule id"),
        ("id: r", "id: ../r", "is not a rule id"),
        ("id: r", "id: 'r\\0'", "is not a rule id"),
        ("id: r", "id: \u{433}", "is not a rule id"),
        ("id: r", "id: other", "file name and name must be the same"),
        ("id: r", "\tid: r", "r.yaml:"),
        ("id: r", "<<: {id: r}", "r.yaml:"),
        ("id: r", "id: r\0", "r.yaml:"),
        ("id: r", "---\nid: r\n---\nid: r", "r.yaml"),
        ("when:", "when: &a", "taken"),
        ("when:", "when: *a\nx:", "r.yaml"),
    ] {
        let refusal = outcome(&head.replacen(from, to, 1));
        assert!(refusal.contains(expect), "{to}: {refusal}");
    }
    assert!(outcome(&format!("\u{feff}{head}")).contains(
        "r.yaml:1: begins with a byte order \
        mark"
    ));
}

#[test]
fn numbers_keep_their_digits_or_are_refused() {
    for (written, value) in [
        ("0.1", Some("0.1")),
        ("3", Some("3")),
        ("-0", Some("0")),
        ("'0.1234567890'", Some("0.1234567890")),
        ("0.123456789012", None),
        ("123456789012.5", Some("123456789012.5")),
        ("'123456789012.1234567890'", Some("123456789012.1234567890")),
        ("123456789012.1234567890", None),
        ("1234567890123", None),
        ("1e400", None),
        ("1e-400", None),
        ("-2.5E-400", None),
        ("1e-5", Some("0.00001")),
        (".inf", None),
        ("-.inf", None),
        (".nan", None),
        ("1_000", None),
        ("007", None),
        ("''", None),
        ("' 1'", None),
        ("+1", Some("1")),
        ("0x10", Some("16")),
        ("١", None),
        ("true", None),
        ("99999999999999999999999", None),
    ] {
        let text = rule(&format!(
            "  - {{field: order.size, op: gt, value: {written}}}\n"
        ));
        let compiled = RuleSet::compile([("rules/core/r.yaml", text.as_str())], []);
        let threshold = compiled.ok().and_then(|set| {
            set.programs["order.submit"].guards[0].conditions[0]
                .threshold
                .map(|threshold| threshold.to_string())
        });
        assert_eq!(threshold.as_deref(), value, "{written}");
    }
}

#[test]
fn limits_at_the_limit_and_one_beyond() {
    let conditions = |count: usize| rule(&GOOD.repeat(count));
    assert_eq!(outcome(&conditions(CONDITIONS_MAX)), "taken");
    assert!(outcome(&conditions(CONDITIONS_MAX + 1)).contains("more than 32 conditions"));
    let message = |bytes: usize| {
        rule(GOOD).replace("message: no", &format!("message: {}", "x".repeat(bytes)))
    };
    assert_eq!(outcome(&message(500)), "taken");
    assert!(outcome(&message(501)).contains("`message` is 1 to 500 bytes"));
    let pattern = |pattern: &str| {
        rule(&format!(
            "  - {{field: order.symbol, op: matches, value: '{pattern}'}}\n"
        ))
    };
    assert_eq!(outcome(&pattern(&"x".repeat(PATTERN_BYTES_MAX))), "taken");
    assert!(
        outcome(&pattern(&"x".repeat(PATTERN_BYTES_MAX + 1))).contains(
            "longer than 500 \
        bytes"
        )
    );
    let window = |s: u32| {
        rule(&format!(
            "  - {{field: history.count, window_s: {s}, op: gt, value: 1}}\n"
        ))
    };
    assert_eq!(outcome(&window(WINDOW_S_MAX)), "taken");
    assert!(outcome(&window(WINDOW_S_MAX + 1)).contains("`window_s` is 1 to"));
    for (id, expect) in [
        ("a".repeat(64), "taken"),
        ("a".repeat(65), "is not a rule id"),
    ] {
        let refusal = refusal_of(
            &format!("rules/core/{id}.yaml"),
            &rule(GOOD).replace("id: r", &format!("id: {id}")),
        );
        assert!(refusal.contains(expect), "{refusal}");
    }
    let files = |count: usize| -> Vec<(String, String)> {
        let file = |n: usize| {
            (
                format!("rules/active/r{n}.yaml"),
                rule(GOOD).replace("id: r", &format!("id: r{n}")),
            )
        };
        (0..count).map(file).collect()
    };
    let compile = |files: &[(String, String)]| {
        RuleSet::compile(
            files
                .iter()
                .map(|(path, text)| (path.as_str(), text.as_str())),
            [],
        )
    };
    assert!(compile(&files(RULES_MAX)).is_ok());
    assert!(
        compile(&files(RULES_MAX + 1))
            .unwrap_err()
            .message
            .contains("more than 2000 rules")
    );
    assert!(compile(&files(10_000)).is_err());
    let twice = [
        ("rules/active/r.yaml", rule(GOOD)),
        ("rules/core/r.yaml", rule(GOOD)),
    ];
    let twice = RuleSet::compile(twice.iter().map(|(path, text)| (*path, text.as_str())), []);
    assert!(
        twice
            .unwrap_err()
            .message
            .contains("is in `rules/active/r.yaml` too")
    );
}

#[test]
fn bombs_are_refused_at_once() {
    let mut laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for n in 1..12 {
        laughs += &format!(
            "a{n}: &a{n} [{}]\n",
            vec![format!("*a{}", n - 1); 9].join(", ")
        );
    }
    let mut inside = "  - {field: order.symbol, op: in, value: &v0 [x0, x1, x2]}\n".to_owned();
    inside += "  - {field: order.symbol, op: in, value: [*v0, *v0]}\n";
    let regex = |pattern: &str| {
        rule(&format!(
            "  - {{field: order.symbol, op: matches, value: '{pattern}'}}\n"
        ))
    };
    for (text, expect) in [
        (laughs.clone(), "r.yaml:"),
        (rule(GOOD) + &laughs, "r.yaml:"),
        (rule(&inside), "r.yaml:"),
        (rule("  - &c {field: order.side, op: *c}\n"), "r.yaml:"),
        (rule("  &w\n  - *w\n"), "r.yaml:"),
        ("[".repeat(1_000_000), "brackets"),
        ("{a: ".repeat(900), "r.yaml:"),
        ("- ".repeat(300_000), "r.yaml"),
        ("? ".repeat(100_000), "r.yaml"),
        ("x".repeat(2_000_000), "larger than"),
        (
            regex("(a{1000}){1000}"),
            "r.yaml:5: the expression compiles to more than 256 KiB; make it shorter",
        ),
        (regex("((((a{100}){100}){100}){100})"), "r.yaml:5: "),
        (regex(&"(".repeat(400)), "r.yaml:5: "),
        (regex("(?:x"), "r.yaml:5: "),
        (regex("\\\\1"), "taken"),
        (regex("(a)\\1"), "r.yaml:5: "),
        (regex("(?=a)"), "r.yaml:5: "),
    ] {
        let refusal = outcome(&text);
        let head: String = text.chars().take(60).collect();
        assert!(refusal.contains(expect), "{head}: {refusal}");
    }
    assert_eq!(outcome(""), outcome(""));
    assert_ne!(outcome(""), "taken");
}

#[test]
fn patterns_take_time_that_is_linear_in_the_text() {
    use super::{Around, Entries, Fact};
    let text = rule("  - {field: order.symbol, op: matches, value: '(a+)+$|(a|a)*b|(.*a){10}c'}\n");
    let set = RuleSet::compile([("rules/core/r.yaml", text.as_str())], []).unwrap();
    let entries = Entries::default();
    let around = Around {
        now: spoolgate_wire::time::Time::EPOCH,
        entries: &entries,
        task: None,
    };
    let hard = "a".repeat(60_000) + "!";
    set.programs["order.submit"].act(&[Fact::text(hard.as_str())], &around);
}

#[test]
fn sets_are_checked_as_strictly_as_rules() {
    let set = |text: &str| {
        RuleSet::compile([], [("rules/sets/s.yaml", text)])
            .map_or_else(|error| error.to_string(), |_| "taken".to_owned())
    };
    let of = |kind: &str, entries: &str| format!("name: s\nkind: {kind}\nentries: {entries}\n");
    for (text, expect) in [
        (of("host", "[]"), "taken"),
        (
            of(
                "host",
                "[{value: a.com, provenance: user_established, expires: 2026-01-01T00:00:00Z}]",
            ),
            "taken",
        ),
        (
            of(
                "host",
                "[{value: A.com., provenance: seen}, {value: a.com, provenance: seen}]",
            ),
            "appears twice",
        ),
        (
            of("host", "[{value: 'https://a.com/x', provenance: seen}]"),
            "cannot be compared",
        ),
        (
            of("host", "[{value: '*.a.com', provenance: seen}]"),
            "s.yaml:3: `*.a.com` cannot be compared",
        ),
        (
            of("host", "[{value: 'аррӏе.com', provenance: seen}]"),
            "look-alike",
        ),
        (
            of("address", "[{value: 'A <a@b.com>', provenance: seen}]"),
            "cannot be compared",
        ),
        (of("host", "[{value: a.com}]"), "missing field `provenance`"),
        (
            of("host", "[{value: a.com, provenance: trusted}]"),
            "s.yaml:3: ",
        ),
        (
            of("host", "[{value: a.com, provenance: seen, expires: null}]"),
            "s.yaml:3: ",
        ),
        (
            of(
                "host",
                "[{value: a.com, provenance: seen, expires: tomorrow}]",
            ),
            "is not a time",
        ),
        (of("hosts", "[]"), "s.yaml:2: "),
        (of("host", "[]") + "grows: sometimes\n", "s.yaml:4: "),
        (of("host", "[]") + "owner: me\n", "unknown field `owner`"),
        (
            of("host", "[]").replace("name: s", "name: t"),
            "must be the same",
        ),
    ] {
        assert!(set(&text).contains(expect), "{text}{}", set(&text));
    }
    let grows = "name: s\nkind: word\ngrows: on_approval\nentries: []\n";
    for (op, expect) in [("not_in", "taken"), ("in", "grows on approval")] {
        let text = rule(&format!(
            "  - {{field: order.symbol, op: {op}, value: s}}\n"
        ));
        let compiled = RuleSet::compile(
            [("rules/core/r.yaml", text.as_str())],
            [("rules/sets/s.yaml", grows)],
        );
        let told = compiled.map_or_else(|error| error.message, |_| "taken".to_owned());
        assert!(told.contains(expect), "{op}: {told}");
    }
}

#[test]
fn expressions_that_are_too_large_are_told_what_would_fit() {
    use super::ruleset::{PATTERN_SIZE_MAX, PROPOSED_PATTERN_SIZE_MAX, compiled};
    let fault =
        |text: &str, bytes_max: usize| compiled(text, bytes_max).err().map(|it| it.to_string());
    let pan = r"\b\d{13,16}\b";
    assert_eq!(fault(pan, PATTERN_SIZE_MAX), None);
    assert_eq!(
        fault(pan, PROPOSED_PATTERN_SIZE_MAX).unwrap(),
        r"the expression compiles to more than 64 KiB: `\d` means the digits of all scripts; `[0-9]` would fit"
    );
    assert_eq!(
        fault("(a{1000}){1000}", PATTERN_SIZE_MAX).unwrap(),
        "the expression compiles to more than 256 KiB; make it shorter"
    );
}

#[test]
fn a_window_may_last_until_midnight_and_an_action_has_a_nearest_one() {
    let until = rule("  - {field: time.of_day, op: in, value: [\"18:00-24:00\"]}\n");
    assert_eq!(outcome(&until), "taken");
    let misspelt = rule(GOOD).replace("order.submit", "order.sumbit");
    let refused = outcome(&misspelt);
    assert!(
        refused.ends_with("; did you mean `order.submit`?"),
        "{refused}"
    );
}
