//! The self-test must report a check that is wired to nothing, whether the check or its limit is
//! broken.

use std::collections::BTreeMap;

use super::bench::Scratch;
use super::*;
use spoolgate_rules::Bundle;

const SAFETY: &str = include_str!("../../../rules/safety.yaml");
const INSTRUMENTS: &str = include_str!("../../../rules/instruments.yaml");
const PRINCIPALS: &str = include_str!("../../../rules/principals.yaml");
const TREND: &str = include_str!("../../../rules/strategies/trend.yaml");
const RANGE: &str = include_str!("../../../rules/strategies/range.yaml");

/// The shipped rules, with texts replaced by others.
fn rules(edits: &[(&str, &str)]) -> Rulebook {
    let files = [
        ("rules/safety.yaml", SAFETY),
        ("rules/instruments.yaml", INSTRUMENTS),
        ("rules/principals.yaml", PRINCIPALS),
        ("rules/strategies/trend.yaml", TREND),
        ("rules/strategies/range.yaml", RANGE),
    ];
    let mut found = vec![false; edits.len()];
    let files = files.map(|(path, text)| {
        let mut text = text.to_owned();
        for ((from, to), found) in edits.iter().zip(&mut found) {
            *found |= text.contains(from);
            text = text.replace(from, to);
        }
        (path.to_owned(), text)
    });
    assert!(found.iter().all(|found| *found), "{edits:?} {found:?}");
    Rulebook::compile(&Bundle {
        files: files.into(),
    })
    .unwrap()
}

/// Sets every limit that may be left out.
const ALL_SET: [(&str, &str); 6] = [
    ("# max_volume_share: 0.10", "max_volume_share: 0.10"),
    (
        "restricted: []",
        "restricted: [{from: \"11:55\", to: \"12:05\"}]",
    ),
    (
        "    bar_s: 60",
        "    bar_s: 60\n    group: coins\n    venue: outbox\n    bridge: exchange",
    ),
    (
        "principals:\n",
        "principals:\n  - {name: exchange, role: bridge}\n",
    ),
    ("name: trend\n", "name: trend\nallocation: 0.04\n"),
    (
        "name: range\n",
        "name: range\nallocation: 0.04\nrestricted: [{from: \"23:00\", to: \"01:00\"}]\n",
    ),
];

fn of<'a>(report: &'a Report, check: &str) -> Vec<&'a Tried> {
    report
        .checks
        .iter()
        .filter(|tried| tried.check == check)
        .collect()
}

#[test]
fn every_check_of_the_table_has_a_scenario_in_its_order() {
    let scenarios: Vec<&str> = scenarios::SCENARIOS.iter().map(|(name, _)| *name).collect();
    let names: Vec<&str> = checks::names().collect();
    assert_eq!(
        scenarios, names,
        "a check needs a scenario in crates/selftest/src/scenarios.rs"
    );
}

#[test]
fn the_shipped_rules_trip_every_check_that_is_set() {
    let report = run(&rules(&[]), &BTreeMap::new());
    assert!(
        report.ok,
        "{:#?}",
        report
            .checks
            .iter()
            .filter(|t| t.outcome != Outcome::Tripped)
            .collect::<Vec<_>>()
    );
    let mut not_set: Vec<&str> = report
        .checks
        .iter()
        .filter(|t| t.outcome == Outcome::NotSet)
        .map(|t| t.check)
        .collect();
    not_set.dedup();
    assert_eq!(
        not_set,
        [
            "correlated_group",
            "strategy_allocation",
            "venue_alive",
            "liquidity_participation",
            "time_window"
        ]
    );
    // Both strategies, both sides.
    assert_eq!(of(&report, "max_single_position").len(), 4);
    assert_eq!((report.untested.len(), report.skipped.len()), (0, 0));
}

#[test]
fn with_every_limit_set_every_check_trips() {
    for quotes in ["quotes_from: quotes", "quotes_from: bars"] {
        let mut edits = ALL_SET.to_vec();
        edits.push(("quotes_from: quotes", quotes));
        let report = run(&rules(&edits), &BTreeMap::new());
        for tried in &report.checks {
            assert_eq!(tried.outcome, Outcome::Tripped, "{quotes}: {tried:#?}");
        }
        assert!(report.ok);
    }
}

#[test]
fn live_prices_and_instruments_of_other_kinds_are_tried_as_they_are() {
    let symbol = Symbol::parse("BTC-USD").unwrap();
    let price = |text: &str| [(symbol.clone(), Amount::parse_exact(text).unwrap())].into();
    let report = run(&rules(&[]), &price("6760.37"));
    assert!(report.ok);
    // Whole shares, a coarse tick, no filters at all.
    let stock = rules(&[
        ("lot: 0.00000001", "lot: 1"),
        ("min_size: 0.001", "min_size: 1"),
        ("max_size: 10", "max_size: 10000"),
    ]);
    assert!(run(&stock, &BTreeMap::new()).ok);
    assert!(run(&stock, &price("23.17")).ok);
    let bare = rules(&[
        ("tick: 0.01", "tick: 0"),
        ("lot: 0.00000001", "lot: 0"),
        ("min_size: 0.001", "min_size: 0"),
        ("min_notional: 10", "min_notional: 0"),
        ("min_stop_ticks: 5", "min_stop_ticks: 0"),
    ]);
    let report = run(&bare, &price("6760"));
    assert!(
        report.ok,
        "{:#?}",
        report
            .checks
            .iter()
            .filter(|t| t.why.is_some())
            .collect::<Vec<_>>()
    );
    for check in ["price_tick", "size_lot", "min_notional", "stop_hostable"] {
        assert!(
            of(&report, check)
                .iter()
                .all(|tried| tried.outcome == Outcome::NotSet),
            "{check}"
        );
    }
    // One share is worth more than an order may be: nothing passes, and the report shows that.
    let report = run(&stock, &price("6760"));
    assert!(!report.ok);
    assert_eq!(
        of(&report, "max_single_position")[0].outcome,
        Outcome::RefusesAll
    );
    assert!(
        report
            .never_binds
            .iter()
            .any(|found| found.nothing_passes && found.limit == "BTC-USD: min_size")
    );
}

/// Checks whose function always passes or never passes, or that are missing from the table.
#[test]
fn a_check_that_is_wired_to_nothing_is_found() {
    let mut edits = ALL_SET.to_vec();
    edits.extend([
        ("status: standby", "status: paused"),
        ("directions: [long, short]", "directions: [short]"),
    ]);
    let rules = rules(&edits);
    for check in checks::names() {
        let passes = |scratch: &Scratch| {
            let mut verdict = scratch.decide()?;
            verdict
                .checks
                .iter_mut()
                .filter(|row| row.name == check)
                .for_each(|row| row.passed = true);
            Some(verdict)
        };
        let refuses = |scratch: &Scratch| {
            let mut verdict = scratch.decide()?;
            verdict
                .checks
                .iter_mut()
                .filter(|row| row.name == check)
                .for_each(|row| row.passed = false);
            Some(verdict)
        };
        let gone = |scratch: &Scratch| {
            let mut verdict = scratch.decide()?;
            verdict.checks.retain(|row| row.name != check);
            Some(verdict)
        };
        let broken: [(Decide<'_>, Outcome); 3] = [
            (&passes, Outcome::CannotTrip),
            (&refuses, Outcome::RefusesAll),
            (&gone, Outcome::CannotTrip),
        ];
        for (decide, expect) in broken {
            let report = run_with(&rules, &BTreeMap::new(), decide);
            assert!(!report.ok, "{check}");
            for tried in &report.checks {
                let expect = if tried.check == check {
                    expect
                } else {
                    Outcome::Tripped
                };
                assert_eq!(tried.outcome, expect, "{check} broken: {tried:?}");
            }
        }
    }
}

/// Halts, limits, prices and faults that would lock an agent into a position.
#[test]
fn a_breaker_that_blocks_exits_is_found() {
    let mut edits = ALL_SET.to_vec();
    edits.extend([
        ("status: standby", "status: paused"),
        ("directions: [long, short]", "directions: [long]"),
    ]);
    let rules = rules(&edits);
    for check in [
        "manual_halt",
        "market_data",
        "daily_loss_halt",
        "max_order_value",
        "cooldown",
        "clock",
    ] {
        let blocks = |scratch: &Scratch| {
            let mut verdict = scratch.decide()?;
            for row in verdict.checks.iter_mut().filter(|row| row.name == check) {
                // As if its row of the table blocked exits too.
                row.passed &= !row
                    .reason
                    .as_ref()
                    .is_some_and(|why| why.starts_with("exempt"));
            }
            Some(verdict)
        };
        let report = run_with(&rules, &BTreeMap::new(), &blocks);
        let is_shown_to_exits = ["manual_halt", "market_data", "daily_loss_halt"].contains(&check);
        let expect = if is_shown_to_exits {
            Outcome::BlocksExits
        } else {
            Outcome::Tripped
        };
        assert!(
            of(&report, check)
                .iter()
                .all(|tried| tried.outcome == expect),
            "{check}: {:#?}",
            of(&report, check)
        );
        assert_eq!(report.ok, !is_shown_to_exits);
    }
}

/// A limit that the program moves by one unit or reads from the wrong place changes what passes or
/// trips.
#[test]
fn each_check_trips_one_unit_past_its_limit() {
    let report = run(&rules(&ALL_SET), &BTreeMap::new());
    for (check, value, limit) in [
        ("request_freshness", "300001", "300000"),
        ("daily_loss_halt", "-250", "-250"),
        ("weekly_loss_halt", "-500", "-500"),
        ("drawdown_halt", "750", "750"),
        ("max_open_positions", "11", "10"),
        ("max_open_orders", "51", "50"),
        ("order_rate", "11", "10"),
        ("repeated_execution", "50", "50"),
        ("loss_streak", "3", "3"),
        ("cooldown", "299999", "300000"),
        ("market_data", "120001", "120000"),
    ] {
        for tried in of(&report, check) {
            let amount = |text: &str| Some(Amount::parse_exact(text).unwrap());
            assert_eq!(
                (tried.value, tried.limit),
                (amount(value), amount(limit)),
                "{check}"
            );
        }
    }
    for check in [
        "max_single_position",
        "max_order_size",
        "buying_power",
        "loss_budget",
    ] {
        for tried in of(&report, check) {
            let (value, limit) = (tried.value.unwrap(), tried.limit.unwrap());
            let over = value.checked_sub(limit).unwrap();
            assert!(
                over.is_positive() && over < Amount::parse_exact("0.001").unwrap(),
                "{tried:?}"
            );
        }
    }
}

/// A row that is wired to the function of its neighbour trips at the neighbour's limit.
#[test]
fn a_check_that_is_wired_to_another_limit_is_found() {
    let rules = rules(&ALL_SET);
    for (check, other) in [
        ("max_total_exposure", "same_direction_exposure"),
        ("correlated_group", "max_single_position"),
        ("max_single_trade_risk", "max_portfolio_risk"),
        ("weekly_loss_halt", "daily_loss_halt"),
        ("max_open_orders", "max_open_positions"),
    ] {
        let swapped = |scratch: &Scratch| {
            let mut verdict = scratch.decide()?;
            let found = verdict.checks.iter().find(|row| row.name == other).cloned();
            for row in verdict.checks.iter_mut().filter(|row| row.name == check) {
                *row = CheckRow {
                    name: check.into(),
                    ..found.clone()?
                };
            }
            Some(verdict)
        };
        let report = run_with(&rules, &BTreeMap::new(), &swapped);
        assert!(!report.ok, "{check}");
        assert!(
            of(&report, check)
                .iter()
                .all(|tried| tried.outcome == Outcome::CannotTrip),
            "{check}"
        );
    }
    let reduced = super::tests::rules(&[("name: trend\n", "name: trend\nrisk_mode: reduced\n")]);
    let report = run(&reduced, &BTreeMap::new());
    assert!(
        report.ok,
        "{:#?}",
        report
            .checks
            .iter()
            .filter(|t| t.why.is_some())
            .collect::<Vec<_>>()
    );
}

#[test]
fn halts_that_come_after_everything_is_lost_cannot_trip() {
    for (from, to, check, limit) in [
        (
            "max_weekly_loss: 500",
            "max_weekly_loss: 5000",
            "weekly_loss_halt",
            "max_weekly_loss",
        ),
        (
            "max_daily_loss: 250",
            "max_daily_loss: 6000",
            "daily_loss_halt",
            "max_daily_loss",
        ),
        (
            "max_drawdown: 0.15",
            "max_drawdown: 1",
            "drawdown_halt",
            "max_drawdown",
        ),
    ] {
        let report = run(&rules(&[(from, to)]), &BTreeMap::new());
        assert!(!report.ok);
        let tried = of(&report, check);
        assert!(
            tried
                .iter()
                .all(|tried| tried.outcome == Outcome::CannotTrip),
            "{tried:#?}"
        );
        assert!(
            report.never_binds.iter().any(|found| found.limit == limit),
            "{:#?}",
            report.never_binds
        );
    }
    let report = run(
        &rules(&[("max_weekly_loss: 500", "max_weekly_loss: 4999.99")]),
        &BTreeMap::new(),
    );
    assert!(report.ok);
    let remembered = (
        "max_entries_per_minute: 10 ",
        "max_entries_per_minute: 5000 ",
    );
    let all = (
        "max_entries_per_minute_all: 30",
        "max_entries_per_minute_all: 5000",
    );
    let report = run(&rules(&[remembered, all]), &BTreeMap::new());
    assert_eq!(of(&report, "order_rate")[0].outcome, Outcome::CannotTrip);
}

#[test]
fn a_strategy_that_nobody_may_trade_is_reported() {
    let report = run(
        &rules(&[("strategies: [trend, range]", "strategies: [trend]")]),
        &BTreeMap::new(),
    );
    assert!(
        report.ok && report.skipped[0].contains("`range`: no principal owns it"),
        "{:?}",
        report.skipped
    );
    let report = run(
        &rules(&[
            ("status: active ", "status: paused "),
            ("status: standby", "status: paused"),
        ]),
        &BTreeMap::new(),
    );
    assert!(
        !report.ok
            && report
                .skipped
                .last()
                .unwrap()
                .contains("no strategy can enter a position")
    );
    let all_day =
        "restricted: [{from: \"00:00\", to: \"12:00\"}, {from: \"12:00\", to: \"00:00\"}]";
    let report = run(&rules(&[("restricted: []", all_day)]), &BTreeMap::new());
    assert!(!report.ok);
    assert!(
        of(&report, "time_window")
            .iter()
            .all(|tried| tried.outcome == Outcome::RefusesAll)
    );
}

/// The limits that never bind under edited rules, whether nothing passes them, and the reason
/// given.
fn named(edits: &[(&str, &str)]) -> Vec<(String, bool, String)> {
    let price = [(Symbol::parse("BTC-USD").unwrap(), Amount::from_i64(10_000))].into();
    let found = never::find(&rules(edits), &price);
    found
        .into_iter()
        .map(|found| (found.limit, found.nothing_passes, found.because))
        .collect()
}

/// Makes one edit at a time.
#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn limits_that_can_never_bind_are_named() {
    let shipped = named(&[]);
    // Edits of the shipped rules that add a limit to the list, with its name and part of the
    // reason.
    let brings: [(&str, &str, &str, bool, &str); 19] = [
        (
            "max_weekly_loss: 500",
            "max_weekly_loss: 5000",
            "max_weekly_loss",
            false,
            "max_total_capital is 5000",
        ),
        (
            "max_weekly_loss: 500",
            "max_weekly_loss: 1751",
            "max_weekly_loss",
            false,
            "come to 1750",
        ),
        (
            "max_daily_loss: 250",
            "max_daily_loss: 5000",
            "max_daily_loss",
            false,
            "max_total_capital is 5000",
        ),
        (
            "max_drawdown: 0.15",
            "max_drawdown: 1",
            "max_drawdown",
            false,
            "the whole peak",
        ),
        (
            "max_single_position: 0.05",
            "max_single_position: 0.51",
            "max_single_position",
            false,
            "max_total_exposure is 0.50",
        ),
        (
            "max_portfolio_risk: 0.06",
            "max_portfolio_risk: 0.01",
            "max_single_trade_risk",
            false,
            "max_portfolio_risk is 0.01",
        ),
        (
            "max_daily_loss: 250",
            "max_daily_loss: 99",
            "max_single_trade_risk",
            false,
            "max_daily_loss of 99",
        ),
        (
            "max_messages_per_minute: 600",
            "max_messages_per_minute: 3001",
            "max_messages_per_minute",
            false,
            "max_messages_per_minute_all is 3000",
        ),
        (
            "max_messages_per_minute: 600",
            "max_messages_per_minute: 9",
            "max_entries_per_minute",
            false,
            "max_messages_per_minute is 9",
        ),
        (
            "max_entries_per_minute: 10",
            "max_entries_per_minute: 31",
            "max_entries_per_minute",
            false,
            "max_entries_per_minute_all is 30",
        ),
        (
            "max_executions: 50",
            "max_executions: 611",
            "max_executions",
            false,
            "come to 610",
        ),
        (
            "quote_age_floor_s: 120",
            "quote_age_floor_s: 119",
            "quote_age_floor_s",
            false,
            "at least 120 s",
        ),
        (
            "min_notional: 10",
            "min_notional: 251",
            "BTC-USD: min_notional",
            true,
            "at most 250",
        ),
        (
            "min_size: 0.001",
            "min_size: 11",
            "BTC-USD: min_size",
            true,
            "max_size is 10",
        ),
        (
            "min_size: 0.001",
            "min_size: 0.03",
            "BTC-USD: min_size",
            true,
            "the 250 that an order may be",
        ),
        (
            "min_size: 0.001",
            "min_size: 0.0011",
            "BTC-USD: min_notional",
            false,
            "the smallest size of 0.0011",
        ),
        (
            "max_open_positions: 10",
            "max_open_positions: 0",
            "max_open_positions",
            true,
            "no entry is within it",
        ),
        (
            "min_stop_ticks: 5",
            "min_stop_ticks: 1001",
            "trend: stop_distance min",
            false,
            "1001 ticks is 10.01",
        ),
        (
            "min_stop_ticks: 5",
            "min_stop_ticks: 100001",
            "trend: stop_distance max",
            true,
            "at most 1000",
        ),
    ];
    for (from, to, limit, nothing, because) in brings {
        let is_it = |found: &(String, bool, String)| {
            found.0 == limit && found.1 == nothing && found.2.contains(because)
        };
        assert!(
            !shipped.iter().any(is_it),
            "{limit}: the shipped rules have it"
        );
        let found = named(&[(from, to)]);
        assert!(found.iter().any(is_it), "{to}: {found:#?}");
    }
}

#[test]
fn limits_that_bind_after_an_edit_are_not_named() {
    let shipped = named(&[]);
    let group = ("    bar_s: 60", "    bar_s: 60\n    group: coins");
    let takes: [(&[(&str, &str)], &str); 7] = [
        (
            &[("max_order_value: 1000", "max_order_value: 250")],
            "max_order_value",
        ),
        (
            &[("max_open_positions: 10", "max_open_positions: 1")],
            "max_open_positions",
        ),
        (
            &[("max_total_exposure: 0.50", "max_total_exposure: 0.05")],
            "max_total_exposure",
        ),
        (
            &[(
                "max_entries_per_minute_all: 30",
                "max_entries_per_minute_all: 9",
            )],
            "max_entries_per_minute_all",
        ),
        (&[("max_size: 10", "max_size: 0.025")], "BTC-USD: max_size"),
        (
            &[(
                "max_single_trade_risk: 0.02",
                "max_single_trade_risk: 0.005",
            )],
            "trend: max_single_trade_risk",
        ),
        (
            &[
                group,
                ("max_correlated_group: 0.20", "max_correlated_group: 0.05"),
            ],
            "max_correlated_group",
        ),
    ];
    for (edits, limit) in takes {
        assert!(
            shipped.iter().any(|found| found.0 == limit),
            "{limit} of the shipped rules: {shipped:#?}"
        );
        let found = named(edits);
        assert!(
            !found.iter().any(|found| found.0 == limit),
            "{edits:?}: {found:#?}"
        );
    }
    let allotted = |share: &str| {
        let line = format!("name: trend\nallocation: {share}\n");
        named(&[("name: trend\n", &line)])
            .iter()
            .any(|found| found.0 == "trend: allocation")
    };
    assert_eq!(
        [allotted("0.05"), allotted("0.051"), allotted("0.6")],
        [false, true, true]
    );
}
