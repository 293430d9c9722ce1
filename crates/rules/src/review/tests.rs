//! Tests of the judge: the direction of every kind of key, and of changes that reach further than
//! their key.

use super::*;
use crate::approval;

const FILES: &[(&str, &str)] = &[
    (
        "rules/safety.yaml",
        include_str!("../../../../rules/safety.yaml"),
    ),
    (
        "rules/principals.yaml",
        include_str!("../../../../rules/principals.yaml"),
    ),
    (
        "rules/instruments.yaml",
        include_str!("../../../../rules/instruments.yaml"),
    ),
    (
        "rules/gateway.yaml",
        include_str!("../../../../rules/gateway.yaml"),
    ),
    ("rules/services.yaml", SERVICES),
    ("rules/rates.yaml", RATES),
    (
        "rules/strategies/trend.yaml",
        include_str!("../../../../rules/strategies/trend.yaml"),
    ),
    (
        "rules/strategies/range.yaml",
        include_str!("../../../../rules/strategies/range.yaml"),
    ),
    (
        "rules/admission/research/agents/default.yaml",
        include_str!("../../../../rules/admission/research/agents/default.yaml"),
    ),
    (
        "proposals/theses/btc-dip-long.md",
        include_str!("../../../../proposals/theses/btc-dip-long.md"),
    ),
    ("rules/core/cap.yaml", CAP),
];
const SERVICES: &str = "services:
  - {service: bank, host: bank.example, protocol: https, methods: [GET, POST], added_at: \
2026-01-01T00:00:00Z, added_by: owner, is_active: true}
";
const RATES: &str = "spool: {requests_per_minute: 60, bytes_per_minute: 100000}\n";
const CAP: &str = "id: cap
status: active
applies_to: {action: [order.submit]}
when:
  - {field: order.size, op: gt, value: 5}
then: reject
message: too large
";

fn bundle() -> Bundle {
    let own = FILES
        .iter()
        .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
    Bundle {
        files: own.collect(),
    }
}

fn compiled(bundle: &Bundle) -> Rulebook {
    Rulebook::compile(bundle).unwrap_or_else(|fault| panic!("{fault}"))
}

/// Returns the rulebook in which a text of a file, which occurs in it, is replaced.
fn edited(file: &str, from: &str, to: &str) -> Rulebook {
    let mut bundle = bundle();
    let text = bundle.files.get_mut(file).unwrap();
    assert!(text.contains(from), "{file} has no {from:?}");
    *text = text.replacen(from, to, 1);
    compiled(&bundle)
}

fn judged(old: &Rulebook, new: &Rulebook) -> Judgement {
    judge(old, new, proof::STEPS_MAX)
}

/// Changes that tighten; the reverse of each loosens.
const TIGHTER: &[(&str, &str, &str)] = &[
    (
        "rules/safety.yaml",
        "max_single_position: 0.05",
        "max_single_position: 0.04",
    ),
    (
        "rules/safety.yaml",
        "max_total_capital: 5000 ",
        "max_total_capital: 4999 ",
    ),
    (
        "rules/safety.yaml",
        "# max_volume_share: 0.10",
        "max_volume_share: 0.10",
    ),
    (
        "rules/safety.yaml",
        "max_correlated_group: 0.20",
        "max_correlated_group: 0.19",
    ),
    (
        "rules/safety.yaml",
        "\nmax_correlated_group: 0.2",
        "\nmax_correlated_group: 0.1",
    ),
    ("rules/safety.yaml", "cooldown_s: 300", "cooldown_s: 301"),
    (
        "rules/safety.yaml",
        "executions_window_s: 3600",
        "executions_window_s: 3601",
    ),
    (
        "rules/safety.yaml",
        "restricted: []",
        "restricted: [{from: \"21:55\", to: \"22:05\"}]",
    ),
    (
        "rules/safety.yaml",
        "restricted_instruments: []",
        "restricted_instruments: [BTC-USD]",
    ),
    (
        "rules/safety.yaml",
        "max_spread: 0.005",
        "max_spread: 0.004",
    ),
    ("rules/safety.yaml", "stress_gap: 0.10", "stress_gap: 0.11"),
    (
        "rules/safety.yaml",
        "duplicate_window_s: 30",
        "duplicate_window_s: 31",
    ),
    (
        "rules/principals.yaml",
        "concerns: [\"paper:btc-usd\"], override: false",
        "concerns: []",
    ),
    ("rules/gateway.yaml", "email.send: 20", "email.send: 19"),
    (
        "rules/gateway.yaml",
        "    email.send: 20\n",
        "    email.send: 20\n    email.draft: 59\n",
    ),
    (
        "rules/gateway.yaml",
        "all_per_hour: 500",
        "all_per_hour: 499",
    ),
    (
        "rules/gateway.yaml",
        "burst_window_s: 5",
        "burst_window_s: 6",
    ),
    ("rules/gateway.yaml", "open_max: 256", "open_max: 255"),
    (
        "rules/services.yaml",
        "methods: [GET, POST]",
        "methods: [GET]",
    ),
    ("rules/services.yaml", "is_active: true", "is_active: false"),
    (
        "rules/strategies/trend.yaml",
        "status: active ",
        "status: paused ",
    ),
    (
        "rules/strategies/trend.yaml",
        "directions: [long, short]",
        "directions: [long]",
    ),
    ("rules/strategies/trend.yaml", "min: 0.001", "min: 0.002"),
    ("rules/strategies/trend.yaml", "max: 0.10", "max: 0.09"),
    (
        "rules/strategies/trend.yaml",
        "status: active ",
        "degraded: it lags\nstatus: active ",
    ),
    (
        "rules/strategies/trend.yaml",
        "status: active ",
        "risk_mode: reduced\nstatus: active ",
    ),
    (
        "rules/strategies/trend.yaml",
        "status: active ",
        "allocation: 0.1\nstatus: active ",
    ),
    ("rules/core/cap.yaml", "value: 5", "value: 4"),
    ("rules/core/cap.yaml", "when:", "# so\nwhen:"),
];

#[test]
fn each_key_has_its_direction() {
    let book = compiled(&bundle());
    assert_eq!(judged(&book, &book).verdict, Verdict::Same);
    for (file, from, to) in TIGHTER {
        let after = edited(file, from, to);
        let one = judged(&book, &after);
        let other = judged(&after, &book);
        if to.contains("# so") {
            assert_eq!((one.verdict, other.verdict), (Verdict::Same, Verdict::Same));
            continue;
        }
        assert_eq!(one.verdict, Verdict::Tightening, "{file}: {to}: {one:?}");
        assert!(one.open_files().is_empty(), "{file}: {to}");
        assert_eq!(
            other.verdict,
            Verdict::Loosening,
            "{file}: {from}: {other:?}"
        );
        assert_eq!(other.open_files(), BTreeSet::from([*file]), "{from}");
    }
}

/// Changes of which nothing is proved in either direction.
const OPEN: &[(&str, &str, &str)] = &[
    ("rules/safety.yaml", "currency: USD", "currency: EUR"),
    (
        "rules/safety.yaml",
        "exit_age_max_s: 86400",
        "exit_age_max_s: 86399",
    ),
    (
        "rules/safety.yaml",
        "stop_slippage: 0.002",
        "stop_slippage: 0.003",
    ),
    (
        "rules/safety.yaml",
        "max_protected_per_minute: 600",
        "max_protected_per_minute: 599",
    ),
    (
        "rules/safety.yaml",
        "# bridges: {timeout_s: 15",
        "bridges: {timeout_s: 14",
    ),
    (
        "rules/principals.yaml",
        "strategies: [trend, range]",
        "strategies: [trend]",
    ),
    (
        "rules/principals.yaml",
        "council_roles: [Risk Officer]",
        "council_roles: []",
    ),
    (
        "rules/rates.yaml",
        "requests_per_minute: 60",
        "requests_per_minute: 59",
    ),
    (
        "rules/strategies/trend.yaml",
        "status: active ",
        "status: standby ",
    ),
    ("rules/gateway.yaml", "workers: 8", "workers: 7"),
];

#[test]
fn what_exits_depend_on_is_for_people() {
    let book = compiled(&bundle());
    for (file, from, to) in OPEN {
        if *file == "rules/safety.yaml" && *from == "currency: USD" {
            // The instruments are in the currency, too.
            let mut bundle = bundle();
            for text in bundle.files.values_mut() {
                *text = text
                    .replace("currency: USD", "currency: EUR")
                    .replace("quote: USD", "quote: EUR");
            }
            assert_eq!(judged(&book, &compiled(&bundle)).verdict, Verdict::Unproved);
            continue;
        }
        let after = edited(file, from, to);
        for judgement in [judged(&book, &after), judged(&after, &book)] {
            assert_eq!(
                judgement.verdict,
                Verdict::Unproved,
                "{file}: {to}: {judgement:?}"
            );
            assert_eq!(judgement.open_files(), BTreeSet::from([*file]), "{to}");
        }
    }
}

#[test]
fn files_that_come_and_go() {
    let book = compiled(&bundle());
    for (file, lost, won) in [
        (
            "rules/core/cap.yaml",
            Verdict::Loosening,
            Verdict::Tightening,
        ),
        (
            "proposals/theses/btc-dip-long.md",
            Verdict::Tightening,
            Verdict::Loosening,
        ),
        (
            "rules/strategies/range.yaml",
            Verdict::Unproved,
            Verdict::Loosening,
        ),
        (
            "rules/services.yaml",
            Verdict::Tightening,
            Verdict::Loosening,
        ),
        ("rules/rates.yaml", Verdict::Unproved, Verdict::Unproved),
        ("rules/gateway.yaml", Verdict::Same, Verdict::Same),
    ] {
        let mut without = bundle();
        without.files.remove(file).unwrap();
        if file.ends_with("range.yaml") {
            let principals = without.files.get_mut("rules/principals.yaml").unwrap();
            *principals = principals.replace("[trend, range]", "[trend]");
        }
        let without = compiled(&without);
        let (one, other) = (judged(&book, &without), judged(&without, &book));
        assert_eq!(
            (one.verdict, other.verdict),
            (lost, won),
            "{file}: {one:?} {other:?}"
        );
    }
}

#[test]
fn a_parameter_that_feeds_a_fact_is_for_people_while_a_rule_reads_it() {
    let reads = |field: &str| {
        let rule = CAP.replace("id: cap", "id: fed").replace(
            "order.size, op: gt, value: 5",
            &format!("{field}, op: lt, value: 1"),
        );
        let mut bundle = bundle();
        bundle.files.insert("rules/core/fed.yaml".to_owned(), rule);
        bundle
    };
    for (field, from, to) in [
        (
            "order.notional_fraction",
            "max_total_capital: 5000",
            "max_total_capital: 4000",
        ),
        (
            "strategy.executions",
            "executions_window_s: 3600",
            "executions_window_s: 3700",
        ),
    ] {
        let old = reads(field);
        let mut new = old.clone();
        let safety = new.files.get_mut("rules/safety.yaml").unwrap();
        *safety = safety.replacen(from, to, 1);
        let judgement = judged(&compiled(&old), &compiled(&new));
        assert_eq!(judgement.verdict, Verdict::Unproved, "{field}");
        // The rule that comes or goes with the change reads it, too.
        let plain = compiled(&bundle());
        assert_eq!(
            judged(&plain, &compiled(&new)).verdict,
            Verdict::Unproved,
            "{field}"
        );
    }
}

#[test]
fn one_looser_part_outweighs_what_is_tighter() {
    let book = compiled(&bundle());
    let mut both = bundle();
    for (file, from, to) in [
        (
            "rules/safety.yaml",
            "max_drawdown: 0.15",
            "max_drawdown: 0.5",
        ),
        ("rules/core/cap.yaml", "value: 5", "value: 4"),
    ] {
        let text = both.files.get_mut(file).unwrap();
        *text = text.replacen(from, to, 1);
    }
    let judgement = judged(&book, &compiled(&both));
    assert_eq!(judgement.verdict, Verdict::Loosening);
    assert_eq!(
        judgement.open_files(),
        BTreeSet::from(["rules/safety.yaml"])
    );
    let what: Vec<&str> = judgement.moves.iter().map(|it| it.what.as_str()).collect();
    assert_eq!(what, ["max_drawdown 0.15 -> 0.5"]);
    assert_eq!(judgement.rule_files, ["rules/core/cap.yaml"]);
}

/// What one area no longer refuses must not depend on the rules of another, whose approvers are
/// fewer.
#[test]
fn no_area_covers_for_another() {
    let base = |places: &[&str]| {
        let mut bundle = bundle();
        bundle.files.remove("rules/core/cap.yaml");
        for place in places {
            let id = place.rsplit('/').next().unwrap();
            let text = CAP.replace("id: cap", &format!("id: {id}"));
            bundle.files.insert(format!("{place}.yaml"), text);
        }
        let areas = "areas:\n  - {name: core, files: [rules/core], approvers: [ann@x, ben@x], need: \
            2}\n  - {name: rest, files: [\"\"], approvers: [ann@x], need: 1}\n";
        bundle
            .files
            .insert(approval::PATH.to_owned(), areas.to_owned());
        let line =
            |who: &str, key: &str| format!("{who} ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{key}\n");
        let lines = line("ann@x", "Cyg3PYERNsWi/Gt8LS5dZTCrLn7cm55zAqgt/KY6HCM")
            + &line("ben@x", "NdamAGCsQq31Uv+08lkBzoO4XLz2qYjJa8CGmj3B1Ea");
        bundle
            .files
            .insert(approval::APPROVERS_PATH.to_owned(), lines);
        compiled(&bundle)
    };
    let open = |old: &Rulebook, new: &Rulebook| -> Vec<String> {
        let judged = judge(old, new, proof::STEPS_MAX);
        judged.open_files().into_iter().map(str::to_owned).collect()
    };
    let (core, active) = ("rules/core/cap", "rules/active/cap");
    let (only_core, moved) = (base(&[core]), base(&[active]));
    assert_eq!(
        open(&only_core, &moved),
        ["rules/core/cap.yaml"],
        "moved out of its area"
    );
    assert_eq!(open(&moved, &only_core), ["rules/active/cap.yaml"]);
    let both = base(&[core, "rules/active/cap-2"]);
    assert_eq!(open(&only_core, &both), Vec::<String>::new());
    let masked = base(&["rules/active/cap-2"]);
    assert_eq!(
        open(&both, &masked),
        ["rules/core/cap.yaml"],
        "another area covers for it"
    );
    let twice = base(&[core, "rules/core/cap-2"]);
    assert_eq!(
        open(&twice, &only_core),
        Vec::<String>::new(),
        "its own area covers for it"
    );
}

/// A call that names a host of two services is refused; with one of them gone it is not, and rules
/// know the other by its name only.
#[test]
fn fewer_services_of_one_host_are_for_people() {
    let with = |is_active: bool| {
        let mut bundle = bundle();
        let second = format!(
            "  - {{service: bank2, host: bank.example, port: 8443, protocol: https, methods: [GET], \
                added_at: 2026-01-01T00:00:00Z, added_by: owner, is_active: {is_active}}}\n"
        );
        bundle.files.insert(
            "rules/services.yaml".to_owned(),
            format!("{SERVICES}{second}"),
        );
        compiled(&bundle)
    };
    let (two, one) = (with(true), with(false));
    assert!(!judged(&two, &one).may_apply_itself());
    assert!(!judged(&one, &two).may_apply_itself());
    assert!(
        judged(
            &one,
            &compiled(&{
                let mut bundle = bundle();
                bundle.files.remove("rules/services.yaml");
                bundle
            })
        )
        .may_apply_itself()
    );
}
