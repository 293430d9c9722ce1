//! Whatever proposals an agent has applied by proof alone: requests that make things safer are
//! decided as without them, and no entry is accepted that was refused or held before.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use spoolgate_gate::Decision;
use spoolgate_gate::fired::Fate;
use spoolgate_home::Home;
use spoolgate_home::dry_run::{Asked, Trial};
use spoolgate_host::clock::Clock;
use spoolgate_rules::Rulebook;
use spoolgate_rules::rule::{Around, Entries, Fact, Reading, RuleSet, Then};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::Leg;
use spoolgate_wire::time::Time;

use super::gate::{Gate, SPARE, acknowledged, activate, modify, suspend};
use crate::kit::desk::order;
use crate::kit::{Dice, unsigned};

const SIZES: [&str; 6] = ["0.001", "0.002", "0.003", "0.005", "0.02", "0.05"];

fn one(dice: &mut Dice, of: &[&'static str]) -> &'static str {
    of[usize::try_from(dice.below(of.len() as u64)).unwrap()]
}

fn condition(dice: &mut Dice) -> Value {
    let ordered = ["gt", "gte", "lt", "lte"];
    match dice.below(7) {
        0 | 1 => {
            json!({"field": "order.size", "op": one(dice, &ordered), "value": one(dice, &SIZES)})
        }
        2 => json!({"field": "order.side", "op": "eq", "value": one(dice, &["buy", "sell"])}),
        3 => {
            json!({"field": "order.order_type", "op": one(dice, &["in", "not_in"]),
                "value": ["limit", "stop"]})
        }
        4 => json!({"field": "order.price", "op": one(dice, &["absent", "present"])}),
        5 => {
            json!({"field": "order.price", "op": one(dice, &ordered), "value": one(dice,
                &["6600", "6700", "6800"])})
        }
        _ => {
            json!({"field": "market.spread", "op": one(dice, &ordered), "value": one(dice,
                &["0.0001", "0.1"])})
        }
    }
}

fn rule(dice: &mut Dice, id: &str) -> Value {
    let scope = match dice.below(8) {
        0 => json!({"action": "order.submit"}),
        1 => json!({"action": "order.submit", "principal": ["trend-bot", "research-bot"]}),
        2 => json!({"action": "order.submit", "strategy": ["trend"]}),
        _ => json!({"action": "order.submit", "principal": ["trend-bot"]}),
    };
    let when: Vec<Value> = (0..1 + dice.below(2)).map(|_| condition(dice)).collect();
    json!({
        "id": id, "status": one(dice, &["active", "active", "active", "shadow"]),
            "applies_to": scope,
        "when": when, "then": one(dice, &["reject", "reject", "hold", "warn"]), "message": "no",
    })
}

fn proposal(dice: &mut Dice) -> Value {
    let id = one(dice, &["a", "b", "c", "d", "e", "f", "g", "h"]);
    match dice.below(6) {
        0 => suspend(id),
        1 => modify(id, one(dice, &SIZES), one(dice, &SIZES), true),
        _ => activate(rule(dice, id)),
    }
}

/// Decides a request of `trend-bot` under a rulebook, on the current state.
fn tried(gate: &Gate, rules: &Rulebook, action: &str, payload: &str) -> Decision {
    let mut trial = Trial::of(gate.root.path(), &gate.seams()).unwrap();
    trial.under(rules.clone());
    let envelope = unsigned("trend-bot", "probe", action, payload, gate.clock.now());
    trial.decide(&Asked::Unsigned(envelope)).unwrap().decision
}

/// Returns exits, cancels and tightens.
fn safer(home: &Home) -> Vec<(&'static str, String)> {
    let orders = &home.state().book.orders;
    let stop = orders.keys().find(|id| id.leg == Leg::Stop).unwrap();
    let rest = orders
        .values()
        .find(|order| order.price.is_some())
        .unwrap()
        .order_id;
    let exit = |size: &str, price| order("trend", "sell", size, price, "btc-range-long");
    vec![
        ("order.submit", exit("0.02", None)),
        ("order.submit", exit("0.005", None)),
        ("order.submit", exit("0.02", Some("6900"))),
        ("order.cancel", json!({"order_id": rest}).to_string()),
        (
            "order.tighten_stop",
            json!({"order_id": stop, "new_stop": "6650"}).to_string(),
        ),
        // Refused, but not by a rule.
        (
            "order.tighten_stop",
            json!({"order_id": stop, "new_stop": "6500"}).to_string(),
        ),
        ("order.cancel", json!({"order_id": "o-1"}).to_string()),
    ]
}

fn entries() -> Vec<String> {
    let mut orders = Vec::new();
    for size in SIZES {
        for price in [None, Some("6700")] {
            orders.push(order("trend", "buy", size, price, SPARE[0]));
        }
    }
    orders.push(order("trend", "buy", "9", None, SPARE[0]));
    orders
}

fn hardness(fate: Fate) -> u8 {
    match fate {
        Fate::Accepted => 0,
        Fate::Held => 1,
        Fate::Refused => 2,
    }
}

fn act(book: &RuleSet, facts: &mut BTreeMap<String, Fact<'static>>, dice: &mut Dice) -> Then {
    let Some(program) = book.programs.get("order.submit") else {
        return Then::Warn;
    };
    let of = |reading: &Reading| {
        facts
            .entry(reading.to_string())
            .or_insert_with(|| fact(reading, dice))
            .clone()
    };
    let own: Vec<Fact<'_>> = program.readings.iter().map(of).collect();
    let (now, entries) = (
        Time::parse("2026-03-02T12:00:00Z").unwrap(),
        Entries::default(),
    );
    program
        .act(
            &own,
            &Around {
                now,
                entries: &entries,
                task: None,
            },
        )
        .unwrap_or(Then::Warn)
}

fn fact(reading: &Reading, dice: &mut Dice) -> Fact<'static> {
    let number = |text: &str| Fact::number(Amount::parse_exact(text).unwrap());
    let text = |text: &'static str| Fact::text(text);
    match (dice.below(5), reading.to_string().as_str()) {
        (0, _) => Fact::Unknown("not known".into()),
        (1, "order.price") => Fact::Absent,
        (_, "order.size") => number(one(
            dice,
            &[
                "0.0005", "0.001", "0.0015", "0.002", "0.003", "0.004", "0.02", "0.06",
            ],
        )),
        (_, "order.price") => number(one(dice, &["6500", "6600", "6650", "6700", "6800", "7000"])),
        (_, "market.spread") => number(one(dice, &["0", "0.0001", "0.05", "0.1", "0.2"])),
        (_, "order.side") => text(one(dice, &["buy", "sell"])),
        (_, "order.order_type") => text(one(dice, &["market", "limit", "stop"])),
        (_, "request.source") => text(one(dice, &["trend-bot", "research-bot", "hermes"])),
        (_, "strategy.name") => text(one(dice, &["trend", "range"])),
        (_, other) => panic!("no facts for `{other}`"),
    }
}

/// Removes the differences that come only from the rulebook's hash.
fn told(decision: &Decision) -> String {
    Decision {
        rulebook: String::new(),
        ..decision.clone()
    }
    .body()
    .unwrap()
}

#[test]
fn self_applied_proposals_spare_safer_requests_and_admit_no_entry() {
    let (mut applied, mut refused, mut pointwise) = (0, 0, 0);
    for seed in 0..6 {
        let mut dice = Dice::new(seed);
        let (gate, mut home) = Gate::holding();
        let first = home.rulebook().clone();
        let mut before = first.clone();
        for _ in 0..16 {
            let proposal = proposal(&mut dice);
            let outcome = gate.propose(&mut home, &proposal);
            if outcome.answer.error.is_some() || !acknowledged(&outcome).1 {
                assert_eq!(home.rulebook().hash, before.hash, "{proposal}");
                continue;
            }
            applied += 1;
            let after = home.rulebook().clone();
            assert_ne!(after.hash, before.hash);
            for _ in 0..300 {
                let mut facts = BTreeMap::new();
                let was = act(&before.ruleset, &mut facts, &mut dice);
                let is = act(&after.ruleset, &mut facts, &mut dice);
                assert!(
                    was <= is,
                    "seed {seed}: {proposal} on {facts:?}: {was:?}, then {is:?}"
                );
                pointwise += usize::from(is != was);
            }
            before = after;
        }
        let last = home.rulebook().clone();
        gate.bar(&mut home, "6800");
        for (action, payload) in safer(&home) {
            let (without, with) = (
                tried(&gate, &first, action, &payload),
                tried(&gate, &last, action, &payload),
            );
            assert_eq!(
                told(&with),
                told(&without),
                "seed {seed}: {action} {payload}"
            );
        }
        for payload in entries() {
            let without = tried(&gate, &first, "order.submit", &payload);
            let with = tried(&gate, &last, "order.submit", &payload);
            let (was, is) = (Fate::of(&without), Fate::of(&with));
            assert!(
                hardness(was) <= hardness(is),
                "seed {seed}: {payload}: {was:?}, then {is:?}"
            );
            refused += usize::from(was != is);
        }
    }
    // The run proves nothing if no proposal was applied or nothing changed.
    assert!(
        applied > 20 && refused > 5 && pointwise > 100,
        "{applied} {refused} {pointwise}"
    );
}
