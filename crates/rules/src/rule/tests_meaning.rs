//! Tests of what rules mean: every operator over known, absent, unknown and array facts, and a
//! second implementation of rule evaluation, written from docs/rules.md alone, which must agree.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::evaluate::Truth::{self, False, True, Unknown};
use super::file::{RuleStatus, Then};
use super::{Around, Entries, Fact, RuleSet, Value};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{Principal, SetName, TaskName};
use spoolgate_wire::time::Time;

const EXPIRES: &str = "2026-03-01T00:00:00Z";
const SETS: [(&str, &str); 2] = [
    (
        "rules/sets/names.yaml",
        "name: names\nkind: word\ngrows: on_approval\nentries:\n  - {value: A, provenance: \
            user_established}\n  - {value: B, provenance: approved, expires: \
            2026-03-01T00:00:00Z}\n  - {value: C, provenance: seen}\n",
    ),
    (
        "rules/sets/none.yaml",
        "name: none\nkind: host\nentries: []\n",
    ),
];

fn rule(action: &str, when: &str, then: &str, status: &str) -> String {
    format!(
        "id: r\nstatus: {status}\napplies_to: {{action: {action}}}\nwhen: [{when}]\nthen: \
            {then}\nmessage: no\n"
    )
}

fn compiled(action: &str, when: &str) -> RuleSet {
    let text = rule(action, when, "reject", "active");
    RuleSet::compile([("rules/core/r.yaml", text.as_str())], SETS)
        .unwrap_or_else(|error| panic!("{when}: {error}"))
}

/// Returns the truth of a condition for a fact.
fn truth(action: &str, condition: &str, fact: &Fact, now: &str, entries: &Entries) -> Truth {
    let set = compiled(action, &format!("{{{condition}}}"));
    let task = TaskName::parse("a/task").unwrap();
    let around = Around {
        now: Time::parse(now).unwrap(),
        entries,
        task: Some(&task),
    };
    set.programs[action].guards[0].truth(std::slice::from_ref(fact), &around)
}

fn n(text: &str) -> Fact<'static> {
    Fact::number(Amount::parse_exact(text).unwrap())
}

fn many(texts: &[&'static str]) -> Fact<'static> {
    Fact::Many(
        texts
            .iter()
            .map(|text| Value::Text((*text).into()))
            .collect(),
    )
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn every_operator_by_hand() {
    let none = || Fact::Unknown("x".into());
    let t = |text: &'static str| Fact::text(text);
    let (order, mail) = ("order.submit", "email.send");
    let size = |op: &str| format!("field: order.size, op: {op}, value: 5");
    for (op, below, at, above) in [
        ("eq", False, True, False),
        ("neq", True, False, True),
        ("gt", False, False, True),
        ("gte", False, True, True),
        ("lt", True, False, False),
        ("lte", True, True, False),
    ] {
        for (fact, expect) in [
            (n("4"), below),
            (n("4.9999999999"), below),
            (n("5"), at),
            (n("5.000"), at),
            (n("5.0000000001"), above),
            (n("6"), above),
            (none(), Unknown),
            (Fact::Absent, False),
            (t("5"), Unknown),
        ] {
            assert_eq!(
                truth(order, &size(op), &fact, EXPIRES, &Entries::default()),
                expect,
                "{op} {fact:?}"
            );
        }
    }
    for (action, condition, fact, expect) in [
        (
            order,
            "field: order.size, op: in, value: [1, 3]",
            n("3"),
            True,
        ),
        (
            order,
            "field: order.size, op: in, value: [1, 3]",
            n("2"),
            False,
        ),
        (
            order,
            "field: order.size, op: not_in, value: [1, 3]",
            n("2"),
            True,
        ),
        (
            order,
            "field: order.size, op: not_in, value: [1, 3]",
            n("1.0"),
            False,
        ),
        (
            order,
            "field: time.of_day, op: in, value: ['22:00-06:00']",
            n("1319"),
            False,
        ),
        (
            order,
            "field: time.of_day, op: in, value: ['22:00-06:00']",
            n("1320"),
            True,
        ),
        (
            order,
            "field: time.of_day, op: in, value: ['22:00-06:00']",
            n("0"),
            True,
        ),
        (
            order,
            "field: time.of_day, op: in, value: ['22:00-06:00']",
            n("359"),
            True,
        ),
        (
            order,
            "field: time.of_day, op: in, value: ['22:00-06:00']",
            n("360"),
            False,
        ),
        (
            order,
            "field: time.of_day, op: not_in, value: ['22:00-06:00']",
            n("360"),
            True,
        ),
        (
            order,
            "field: time.of_day, op: gte, value: '06:00'",
            n("360"),
            True,
        ),
        (
            order,
            "field: time.of_day, op: gte, value: '06:00'",
            n("359"),
            False,
        ),
        (order, "field: order.price, op: absent", Fact::Absent, True),
        (order, "field: order.price, op: absent", n("1"), False),
        (order, "field: order.price, op: absent", none(), Unknown),
        (
            order,
            "field: order.price, op: present",
            Fact::Absent,
            False,
        ),
        (order, "field: order.price, op: present", n("1"), True),
        (order, "field: order.price, op: present", none(), Unknown),
        (
            order,
            "field: order.side, op: eq, value: buy",
            t("buy"),
            True,
        ),
        (
            order,
            "field: order.side, op: neq, value: buy",
            t("buy"),
            False,
        ),
        (
            order,
            "field: order.side, op: neq, value: buy",
            t("sell"),
            True,
        ),
        (
            order,
            "field: order.symbol, op: eq, value: BTC",
            t("btc"),
            False,
        ),
        (
            order,
            "field: order.symbol, op: matches, value: '^B'",
            t("aB"),
            False,
        ),
        (
            order,
            "field: order.symbol, op: matches, value: 'B'",
            t("aB"),
            True,
        ),
        (
            order,
            "field: order.symbol, op: not_matches, value: 'B'",
            t("aB"),
            False,
        ),
        (
            order,
            "field: order.symbol, op: not_matches, value: 'B'",
            none(),
            Unknown,
        ),
        (
            order,
            "field: order.symbol, op: first_seen",
            Fact::flag(true),
            True,
        ),
        (
            order,
            "field: order.symbol, op: first_seen",
            Fact::flag(false),
            False,
        ),
        (
            order,
            "field: request.has_causality, op: eq, value: true",
            Fact::flag(false),
            False,
        ),
        (
            order,
            "field: request.has_causality, op: neq, value: true",
            Fact::flag(false),
            True,
        ),
        (
            mail,
            "field: payload.subject, op: eq, value: 'Straße X'",
            t("STRASSE x"),
            False,
        ),
        (
            mail,
            "field: payload.subject, op: eq, value: 'Pay NOW'",
            t("pay now"),
            True,
        ),
        (
            mail,
            "field: 'payload.to[]', op: eq, value: a@b.com",
            many(&["x@y.com", "A@B.com"]),
            True,
        ),
        (
            mail,
            "field: 'payload.to[]', op: eq, value: a@b.com",
            many(&["x@y.com"]),
            False,
        ),
        (
            mail,
            "field: 'payload.to[]', op: eq, value: a@b.com",
            many(&["x@y.com", "A <a@b.com>"]),
            Unknown,
        ),
        (
            mail,
            "field: 'payload.to[]', op: neq, value: a@b.com",
            many(&["a@b.com", "A <a@b.com>"]),
            Unknown,
        ),
        (
            mail,
            "field: 'payload.to[]', op: neq, value: a@b.com",
            many(&["a@b.com", "x@y.com"]),
            True,
        ),
        (
            mail,
            "field: 'payload.to[]', op: neq, value: a@b.com",
            many(&[]),
            False,
        ),
        (mail, "field: 'payload.to[]', op: absent", many(&[]), True),
        (mail, "field: 'payload.to[]', op: present", many(&[]), False),
        (
            mail,
            "field: 'payload.to[]', op: present",
            many(&["a"]),
            True,
        ),
        (
            mail,
            "field: 'payload.to[]', op: domain_in, value: [b.com]",
            many(&["x@sub.b.com"]),
            False,
        ),
        (
            mail,
            "field: 'payload.to[]', op: domain_in, value: [b.com]",
            many(&["x@notb.com", "x@B.com"]),
            True,
        ),
        (
            mail,
            "field: 'payload.to[]', op: domain_not_in, value: [b.com]",
            many(&["x@b.com"]),
            False,
        ),
        (
            mail,
            "field: 'payload.to[]', op: domain_not_in, value: [b.com]",
            many(&["x@b.com.evil.com"]),
            True,
        ),
        (
            mail,
            "field: 'payload.to[]', op: domain_not_in, value: [b.com]",
            many(&["x@bаnk.com"]),
            Unknown,
        ),
        (
            mail,
            "field: 'payload.to[]', op: domain_not_in, value: none",
            many(&["x@b.com"]),
            True,
        ),
        (
            mail,
            "field: payload.body, op: links_not_in, value: [b.com]",
            t("see https://b.com and b.com/x"),
            False,
        ),
        (
            mail,
            "field: payload.body, op: links_not_in, value: [b.com]",
            t("www.b.com"),
            True,
        ),
        (
            mail,
            "field: payload.body, op: links_not_in, value: [b.com]",
            t("none at all"),
            False,
        ),
        (
            mail,
            "field: payload.body, op: links_not_in, value: [b.com]",
            t("https://b.com\\@c.com"),
            Unknown,
        ),
        (
            mail,
            "field: payload.body, op: links_not_in, value: none",
            t("https://b.com"),
            True,
        ),
    ] {
        assert_eq!(
            truth(action, condition, &fact, EXPIRES, &Entries::default()),
            expect,
            "{condition} of {fact:?}"
        );
    }
}

#[test]
fn entries_of_sets_count_by_provenance_and_until_they_expire() {
    let before = "2026-02-28T23:59:59.999Z";
    for (value, now, seen, expect) in [
        ("A", EXPIRES, false, True),
        ("B", before, false, True),
        ("B", EXPIRES, false, False),
        ("C", before, false, False),
        ("C", before, true, True),
        ("D", before, true, False),
        ("a", before, true, False),
    ] {
        let provenance = if seen { ", provenance: seen" } else { "" };
        let condition = format!("field: order.symbol, op: not_in, value: names{provenance}");
        let outside = truth(
            "order.submit",
            &condition,
            &Fact::text(value),
            now,
            &Entries::default(),
        );
        assert_eq!(outside, Truth::of(expect == False), "{value} at {now}");
    }
    let (name, at) = (SetName::parse("names").unwrap(), |text: &str| {
        Time::parse(text).unwrap()
    });
    let mut entries = Entries::default();
    for (value, until, task) in [
        ("T", Some(EXPIRES), Some("a/task")),
        ("O", None, Some("b/task")),
        ("E", None, None),
    ] {
        let by = Principal::parse("ann").unwrap();
        let task = task.map(|task| TaskName::parse(task).unwrap());
        let entry = super::entries::Entry {
            by,
            until: until.map(at),
            task,
        };
        entries.insert(name.clone(), value.to_owned(), entry, at(before));
    }
    let outside = |value: &'static str, now: &str| {
        truth(
            "order.submit",
            "field: order.symbol, op: not_in, value: names",
            &Fact::text(value),
            now,
            &entries,
        )
    };
    assert_eq!((outside("T", before), outside("T", EXPIRES)), (False, True));
    assert_eq!((outside("O", before), outside("E", EXPIRES)), (True, False));
}

#[test]
fn the_status_decides_whether_a_rule_acts() {
    let entries = Entries::default();
    let around = Around {
        now: Time::EPOCH,
        entries: &entries,
        task: None,
    };
    for (status, then, expect) in [
        ("active", "reject", Some(Then::Reject)),
        ("active", "hold", Some(Then::Hold)),
        ("active", "warn", Some(Then::Warn)),
        ("shadow", "reject", None),
        ("suspended", "reject", None),
        ("retired\nlesson: x", "reject", None),
    ] {
        let text = rule(
            "order.submit",
            "{field: order.size, op: gt, value: 1}",
            then,
            status,
        );
        let set = RuleSet::compile([("rules/core/r.yaml", text.as_str())], []).unwrap();
        let program = &set.programs["order.submit"];
        for fact in [n("2"), Fact::Unknown("x".into())] {
            let facts = vec![fact; program.readings.len()];
            assert_eq!(program.act(&facts, &around), expect, "{status} {then}");
            let found = program.findings(&facts, &around);
            assert_eq!(found.iter().filter_map(super::Finding::act).max(), expect);
            assert_eq!(found.is_empty(), !matches!(status, "active" | "shadow"));
        }
        assert_eq!(
            program.act(&vec![n("1"); program.readings.len()], &around),
            None
        );
    }
    let none = compiled("order.submit", "");
    assert_eq!(
        none.programs["order.submit"].act(&[], &around),
        Some(Then::Reject),
        "no condition is always true"
    );
}

/// A fact of the second implementation, which was written from docs/rules.md.
#[derive(Clone, Debug)]
enum Seen {
    Known(i64),
    Left,
    Unknown,
}

#[derive(Clone, Debug)]
enum Ask {
    Compare(&'static str, i64),
    Among(bool, BTreeSet<i64>),
    Left(bool),
}

impl Ask {
    fn yaml(&self) -> String {
        match self {
            Ask::Compare(op, value) => format!("op: {op}, value: {value}"),
            Ask::Among(is_in, values) => {
                format!(
                    "op: {}, value: {values:?}",
                    if *is_in { "in" } else { "not_in" }
                )
                .replace(['{', '}'], "")
                .replacen("value: ", "value: [", 1)
                    + "]"
            }
            Ask::Left(true) => "op: absent".to_owned(),
            Ask::Left(false) => "op: present".to_owned(),
        }
    }

    /// Returns 0 for false, 1 for unknown, 2 for true.
    fn says(&self, seen: &Seen) -> u8 {
        let yes = |holds: bool| if holds { 2 } else { 0 };
        match (seen, self) {
            (Seen::Unknown, _) => 1,
            (Seen::Left, Ask::Left(wanted)) => yes(*wanted),
            (Seen::Left, _) => 0,
            (Seen::Known(_), Ask::Left(wanted)) => yes(!wanted),
            (Seen::Known(x), Ask::Among(is_in, values)) => yes(values.contains(x) == *is_in),
            (Seen::Known(x), Ask::Compare(op, value)) => yes(match *op {
                "eq" => x == value,
                "neq" => x != value,
                "gt" => x > value,
                "gte" => x >= value,
                "lt" => x < value,
                _ => x <= value,
            }),
        }
    }
}

const FIELDS: [&str; 4] = [
    "order.size",
    "order.price",
    "order.planned_entry",
    "order.planned_stop",
];

fn seen() -> impl Strategy<Value = Seen> {
    let known = (-3_i64..4).prop_map(Seen::Known);
    prop_oneof![4 => known, 1 => Just(Seen::Left), 1 => Just(Seen::Unknown)]
}

fn ask() -> impl Strategy<Value = Ask> {
    let op = prop::sample::select(vec!["eq", "neq", "gt", "gte", "lt", "lte"]);
    prop_oneof![
        4 => (op, -3_i64..4).prop_map(|(op, value)| Ask::Compare(op, value)),
        2 => (any::<bool>(), prop::collection::btree_set(-3_i64..4, 1..4))
            .prop_map(|(is_in, values)| Ask::Among(is_in, values)),
        1 => any::<bool>().prop_map(Ask::Left),
    ]
}

fn written() -> impl Strategy<Value = (Vec<(usize, Ask)>, usize)> {
    (
        prop::collection::vec((0..FIELDS.len(), ask()), 0..5),
        0_usize..3,
    )
}

proptest! {
    #[test]
    fn a_second_evaluation_agrees(
        rules in prop::collection::vec(written(), 1..5),
        facts in prop::collection::vec(seen(), FIELDS.len()),
    ) {
        const THEN: [(&str, Then); 3] =
            [("warn", Then::Warn), ("hold", Then::Hold), ("reject", Then::Reject)];
        let texts: Vec<(String, String)> = rules.iter().enumerate().map(|(nth, (when, then))| {
            let when: Vec<String> = when
                .iter()
                .map(|(field, ask)| format!("{{field: {}, {}}}", FIELDS[*field], ask.yaml()))
                .collect();
            let text = rule("order.submit", &when.join(", "), THEN[*then].0, "active");
            (format!("rules/core/r{nth}.yaml"), text.replace("id: r", &format!("id: r{nth}")))
        }).collect();
        let files = texts.iter().map(|(path, text)| (path.as_str(), text.as_str()));
        let set = RuleSet::compile(files, []).unwrap();
        let program = &set.programs["order.submit"];
        let place = |name: &str| FIELDS.iter().position(|field| *field == name).unwrap();
        let of = |name: &str| match &facts[place(name)] {
            Seen::Known(x) => Fact::number(Amount::from_i64(*x)),
            Seen::Left => Fact::Absent,
            Seen::Unknown => Fact::Unknown("a reason".into()),
        };
        let vector: Vec<Fact> =
            program.readings.iter().map(|reading| of(&reading.to_string())).collect();
        let entries = Entries::default();
        let around = Around { now: Time::EPOCH, entries: &entries, task: None };
        let second: Vec<u8> = rules.iter().map(|(when, _)| {
            when.iter().map(|(field, ask)| ask.says(&facts[*field])).min().unwrap_or(2)
        }).collect();
        let acting = rules.iter().zip(&second).filter(|(_, says)| **says > 0);
        let acts = acting.map(|((_, then), _)| THEN[*then].1).max();
        prop_assert_eq!(program.act(&vector, &around), acts);
        for (finding, says) in program.findings(&vector, &around).iter().zip(&second) {
            let expect = [False, Unknown, True][usize::from(*says)];
            prop_assert_eq!(finding.truth, expect);
            prop_assert_eq!(finding.guard.status, RuleStatus::Active);
        }
    }
}

/// If the history is unknown, it is unknown whether a value is new.
#[test]
fn whether_something_is_seen_for_the_first_time_may_be_unknown() {
    use super::field::{FIELDS, Missing, Reading};
    for field in FIELDS {
        let expect = if field.missing == Missing::Absent {
            Missing::Absent
        } else {
            Missing::Unknown
        };
        assert_eq!(
            super::ruleset::missing(&Reading::FirstSeen(field)),
            expect,
            "{}",
            field.name
        );
    }
}
