//! What the judge of changed rulebooks calls tighter lets no order pass that was refused, pulls
//! every working entry that was pulled, and refuses no exit that passed. Random books decide it,
//! not the table of directions. Keys are counted under which the tighter rulebook did more: their
//! opposite direction would have failed.

use std::cell::RefCell;
use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::order::OrderRole;
use super::properties::{Walk, op};
use super::requests::Verdict;
use super::testing::*;
use crate::change::Change;
use spoolgate_rules::Rulebook;
use spoolgate_rules::proof::STEPS_MAX;
use spoolgate_rules::review::{self, Verdict as Judged};

/// Values that keys of numbers get, beside fractions and multiples of their own.
const NUMBERS: [&str; 12] = [
    "0", "0.0001", "0.01", "0.2", "0.9", "1", "2", "3", "20", "300", "4000", "100000",
];

/// Changes of other keys: file, what stands there, and what takes its place.
const OTHERS: [(&str, &str, &str); 10] = [
    (
        "rules/safety.yaml",
        "",
        "restricted_instruments: [ETH-USD]\n",
    ),
    (
        "rules/safety.yaml",
        "",
        "restricted: [{days: [saturday], from: \"12:00\", to: \"12:30\"}]\n",
    ),
    (
        "rules/strategies/trend.yaml",
        "[BTC-USD, ETH-USD]",
        "[BTC-USD]",
    ),
    ("rules/strategies/mean.yaml", "[long, short]", "[long]"),
    ("rules/strategies/trend.yaml", "min: 0.001", "min: 0.02"),
    ("rules/strategies/trend.yaml", "max: 0.1", "max: 0.01"),
    ("rules/strategies/trend.yaml", "", "allocation: 0.1\n"),
    (
        "rules/strategies/mean.yaml",
        "status: active",
        "status: paused",
    ),
    ("rules/strategies/mean.yaml", "", "risk_mode: reduced\n"),
    ("rules/strategies/mean.yaml", "", "risk_mode: exits-only\n"),
];

/// Keys of safety.yaml that have a value of their own without standing there.
const LEFT_OUT: [&str; 18] = [
    "max_same_direction_exposure",
    "max_correlated_group",
    "max_daily_turnover",
    "stress_gap",
    "pull_margin",
    "blind_s",
    "max_order_age_s",
    "warn_at",
    "max_volume_share",
    "max_messages_per_minute",
    "max_messages_per_minute_all",
    "executions_window_s",
    "max_rejects",
    "reduced_risk_factor",
    "control_confidence_min",
    "control_age_max_s",
    "control_dwell_s",
    "hold_expires_s",
];

/// Returns rulebooks that the judge calls tighter than that of the world, each with what differs.
fn tighter() -> Vec<(String, Rulebook)> {
    let before = rules();
    let mut found = Vec::new();
    let mut judge = |file: &str, text: String, what: String| {
        let mut bundle = (*before.files).clone();
        bundle.files.insert(file.to_owned(), text);
        let Ok(after) = Rulebook::compile(&bundle) else {
            return;
        };
        if review::judge(&before, &after, STEPS_MAX).verdict == Judged::Tightening {
            found.push((what, after));
        }
    };
    let safety = "rules/safety.yaml";
    for line in SAFETY.lines().filter(|line| !line.is_empty()) {
        let (key, old) = line.split_once(": ").unwrap();
        let scaled = ["0.1", "0.5", "0.9", "1.1", "2", "10"];
        let scaled = scaled.map(|by| a(old).checked_mul(a(by)).unwrap().normalized().to_string());
        let values = scaled.iter().map(String::as_str).chain(NUMBERS);
        for value in values {
            let text = SAFETY.replace(line, &format!("{key}: {value}"));
            judge(safety, text, format!("{key} {old} -> {value}"));
        }
    }
    for key in LEFT_OUT {
        for value in NUMBERS {
            let text = format!("{SAFETY}{key}: {value}\n");
            judge(safety, text, format!("{key} {value}"));
        }
    }
    for (file, from, to) in OTHERS {
        let text = &before.files.files[file];
        let text = match from {
            "" => format!("{text}{to}"),
            _ => text.replace(from, to),
        };
        assert_ne!(text, before.files.files[file]);
        judge(file, text, format!("{file}: {from} {to}"));
    }
    found
}

fn is_entry(verdict: &Verdict) -> bool {
    verdict.changes.iter().any(
        |change| matches!(change, Change::OrderPlaced(order) if order.role == OrderRole::Entry),
    )
}

#[test]
fn what_the_judge_calls_tighter_lets_no_more_pass() {
    compared(200);
}

/// About 1.7 million orders.
#[test]
#[ignore = "takes 40 minutes"]
fn what_the_judge_calls_tighter_lets_no_more_pass_in_20_000_books() {
    compared(20_000);
}

/// Asks this many random books under the rulebook of the world and under tighter ones.
fn compared(cases: u32) {
    let tighter = tighter();
    let of = |key: &str| {
        tighter
            .iter()
            .filter(|(what, _)| what.starts_with(key))
            .count()
    };
    for key in [
        "max_drawdown",
        "stress_gap",
        "cooldown_s",
        "warn_at",
        "rules/strategies",
    ] {
        assert!(of(key) > 0, "{key}: nothing of it is called tighter");
    }
    for key in [
        "entry_slippage",
        "exit_age_max_s",
        "quote_age_floor_s",
        "pull_margin",
    ] {
        assert_eq!(of(key), 0, "{key}: exits depend on it");
    }
    let mut runner = TestRunner::new(Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    });
    let harder: RefCell<BTreeMap<&str, u64>> = RefCell::default();
    let ops = (prop::collection::vec(op(), 1..60), any::<u32>());
    let done = runner.run(&ops, |(ops, seed)| {
        let mut walk = Walk::new();
        let mut turn = seed as usize;
        for op in ops {
            if let Some(order) = walk.would_send(&op) {
                let base = walk.world.decide(&order);
                let pulled = walk.world.pulls("0.1");
                for _ in 0..8 {
                    turn = turn.wrapping_add(1);
                    let (what, rules) = &tighter[turn % tighter.len()];
                    let kept = std::mem::replace(&mut walk.world.rules, rules.clone());
                    let verdict = walk.world.decide(&order);
                    let pulls = walk.world.pulls("0.1");
                    walk.world.rules = kept;
                    prop_assert!(
                        base.accepted || !verdict.accepted,
                        "{what} lets pass: {order:?}\n{:?}",
                        failed(&base)
                    );
                    prop_assert!(
                        verdict.accepted || !base.accepted || is_entry(&base),
                        "{what} refuses an exit: {order:?}\n{:?}",
                        failed(&verdict)
                    );
                    let is_kept = |(id, _): &&(_, _)| !pulls.iter().any(|(other, _)| other == id);
                    prop_assert_eq!(pulled.iter().find(is_kept), None, "{} keeps", what);
                    if base.accepted && !verdict.accepted || pulls.len() > pulled.len() {
                        let key = what.split(' ').next().unwrap();
                        *harder.borrow_mut().entry(key).or_default() += 1;
                    }
                }
            }
            walk.step(op);
        }
        Ok(())
    });
    done.unwrap();
    assert!(harder.borrow().len() > 20, "{:?}", harder.borrow());
}
