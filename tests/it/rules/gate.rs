//! Rules at the gate: what they refuse, hold or only warn about, what they never affect, and what
//! an answer and a line contain.

use std::fs;

use crate::kit::Dice;
use crate::kit::desk::{Desk, failed, order};
use serde_json::{Value, json};
use spoolgate_gate::record::Status;
use spoolgate_home::Home;
use spoolgate_home::batch::Outcome;
use spoolgate_wire::checks::CheckRow;
use spoolgate_wire::code::Code;
use spoolgate_wire::ids::Leg;

/// Makes a desk with these rules instead of the rules of a new home: id, status, action,
/// conditions, effect.
fn desk(rules: &[(&str, &str, &str, &str, &str)]) -> Desk {
    let desk = Desk::with_limits("");
    for folder in ["rules/core", "rules/active"] {
        let folder = desk.place.root.path().join(folder);
        fs::remove_dir_all(&folder).unwrap();
        fs::create_dir(&folder).unwrap();
    }
    rules.iter().for_each(|rule| put(&desk, *rule));
    desk
}

fn put(desk: &Desk, (id, status, action, when, then): (&str, &str, &str, &str, &str)) {
    fs::create_dir_all(desk.place.root.path().join("rules/core")).unwrap();
    let lesson = if status == "retired" {
        "lesson: it was wrong\n"
    } else {
        ""
    };
    let text = format!(
        "id: {id}\nstatus: {status}\napplies_to: {{action: {action}}}\nwhen: {when}\nthen: \
            {then}\nmessage: \"{id} says {{order.size}} of {{order.symbol}}\"\n{lesson}"
    );
    let text = if action.starts_with("order") {
        text
    } else {
        text.replace(" {order.size} of {order.symbol}", "")
    };
    desk.edit(&format!("rules/core/{id}.yaml"), |_| text.clone());
}

fn code(outcome: &Outcome) -> Option<Code> {
    outcome.answer.error.as_ref().map(|error| error.code)
}

fn data(outcome: &Outcome) -> Value {
    serde_json::from_str(outcome.answer.data.as_ref().unwrap().get()).unwrap()
}

fn of_rules(outcome: &Outcome) -> Vec<&CheckRow> {
    outcome
        .decision
        .checks
        .iter()
        .filter(|row| row.source.starts_with("rules/") && row.name != "admission")
        .collect()
}

fn buy(desk: &Desk, home: &mut Home, id: &str, size: &str) -> Outcome {
    desk.one(
        home,
        "trend-bot",
        id,
        "order.submit",
        &order("trend", "buy", size, None, "btc-range-long"),
    )
}

fn more(desk: &Desk, home: &mut Home) -> Outcome {
    let order = order("trend", "buy", "0.003", Some("6750"), "btc-dip-long");
    desk.one(home, "trend-bot", "more", "order.submit", &order)
}

const EVERYTHING: &str = "[]";

#[test]
fn a_rule_refuses_after_the_contracts_own_checks_and_has_no_effect() {
    let big = "[{field: order.size, op: gt, value: 0.01}, {field: order.side, op: eq, value: buy}]";
    let desk = desk(&[("too-big", "active", "order.submit", big, "reject")]);
    let mut home = desk.open();
    let before = home.state().book.clone();
    let refused = buy(&desk, &mut home, "a", "0.02");
    assert_eq!(
        (code(&refused), failed(&refused)),
        (Some(Code::RuleRefused), vec!["too-big".to_owned()])
    );
    assert!(
        refused
            .answer
            .error
            .as_ref()
            .unwrap()
            .message
            .contains("too-big says 0.02 of BTC-USD")
    );
    let row = refused.decision.checks.last().unwrap();
    assert_eq!((&*row.source, &*row.unit), ("rules/too-big.yaml", "units"));
    assert_eq!(
        (
            row.value.unwrap().to_string(),
            row.limit.unwrap().to_string()
        ),
        ("0.02".into(), "0.01".into())
    );
    assert_eq!(
        data(&refused)["Rejected"]["checks_failed"][0]["check_name"],
        "too-big"
    );
    assert!(refused.decision.changes.is_empty() && refused.decision.order_id.is_none());
    assert_eq!(home.state().book.orders, before.orders);
    // The line contains what its rules read, directly before the rulebook.
    let body = refused.decision.body().unwrap();
    assert!(
        body.contains(r#""facts":{"order.side":"buy","order.size":"0.02"},"rulebook":"#),
        "{body}"
    );
    // The size that the answer offers is accepted.
    let headroom = refused.decision.headroom.clone().unwrap();
    assert_eq!(
        (headroom.max_size.to_string(), &*headroom.binding_check),
        ("0.01000000".into(), "too-big")
    );
    let taken = buy(&desk, &mut home, "b", "0.01");
    assert_eq!((code(&taken), failed(&taken)), (None, vec![]));
    assert!(of_rules(&taken)[0].passed && of_rules(&taken)[0].reason.is_none());
    // A check that fails comes first and names the code; the rule's row follows.
    let both = buy(&desk, &mut home, "c", "9");
    assert_eq!(code(&both), Some(Code::ChecksFailed));
    assert_eq!(failed(&both).last().unwrap(), "too-big");
}

#[test]
fn warnings_and_shadows_block_nothing_and_say_so_and_what_is_not_in_force_says_nothing() {
    let desk = desk(&[
        ("a-warning", "active", "order.submit", EVERYTHING, "warn"),
        ("b-shadow", "shadow", "order.submit", EVERYTHING, "reject"),
        (
            "c-suspended",
            "suspended",
            "order.submit",
            EVERYTHING,
            "reject",
        ),
        ("d-retired", "retired", "order.submit", EVERYTHING, "reject"),
    ]);
    let mut home = desk.open();
    let taken = buy(&desk, &mut home, "a", "0.01");
    assert_eq!(code(&taken), None);
    let rows: Vec<(&str, &str)> = of_rules(&taken)
        .into_iter()
        .map(|row| (&*row.name, row.reason.as_deref().unwrap()))
        .collect();
    assert_eq!(
        rows,
        [
            ("a-warning", "warn: a-warning says 0.01 of BTC-USD"),
            (
                "b-shadow",
                "shadow: would reject: b-shadow says 0.01 of BTC-USD"
            ),
        ]
    );
}

#[test]
fn an_unknown_fact_refuses_and_the_reason_says_what_is_missing() {
    let funding = "[{field: market.funding_rate, op: gt, value: 0.001}]";
    let desk = desk(&[("funding", "active", "order.submit", funding, "reject")]);
    let mut home = desk.open();
    let refused = buy(&desk, &mut home, "a", "0.01");
    assert_eq!(code(&refused), Some(Code::RuleRefused));
    let row = of_rules(&refused)[0];
    assert_eq!(
        (row.value, row.limit.unwrap().to_string()),
        (None, "0.001".to_owned())
    );
    let reason = row.reason.as_deref().unwrap();
    assert!(
        reason.starts_with("cannot be evaluated: market.funding_rate is unknown: "),
        "{reason}"
    );
    assert!(
        refused
            .decision
            .facts
            .as_ref()
            .unwrap()
            .get()
            .contains(r#"{"unknown":"#)
    );
    let headroom = refused.decision.headroom.as_ref().unwrap();
    assert_eq!(
        (headroom.max_size.is_zero(), &*headroom.binding_check),
        (true, "funding")
    );
}

/// Adds this number of rules that refuse every action to which rules apply.
fn refuse_everything(desk: &Desk, count: usize) {
    let actions =
        "[order.submit, council.request, control.apply, admission.evaluate, admission.admit]";
    fs::create_dir_all(desk.place.root.path().join("rules/core")).unwrap();
    for n in 0..count {
        let text = format!(
            "id: never-{n}\nstatus: active\napplies_to: {{action: {actions}}}\nwhen: []\nthen: \
                reject\nmessage: never\n"
        );
        desk.edit(&format!("rules/core/never-{n}.yaml"), |_| text.clone());
    }
}

/// Checks that no rule refuses the requests that no rule may refuse.
fn leaves(desk: &Desk, home: &mut Home, stem: &str) {
    let passes = |outcome: &Outcome| {
        assert_eq!((code(outcome), failed(outcome)), (None, vec![]), "{stem}");
        assert!(outcome.decision.facts.is_none() && of_rules(outcome).is_empty());
    };
    let stop = home
        .state()
        .book
        .orders
        .keys()
        .find(|id| id.leg == Leg::Stop)
        .copied()
        .unwrap();
    let tighten = json!({"order_id": stop, "new_stop": "6650"}).to_string();
    passes(&desk.one(
        home,
        "trend-bot",
        &format!("{stem}-tight"),
        "order.tighten_stop",
        &tighten,
    ));
    let rest = home
        .state()
        .book
        .orders
        .values()
        .find(|order| order.price.is_some())
        .unwrap()
        .order_id;
    let cancel = json!({"order_id": rest}).to_string();
    passes(&desk.one(
        home,
        "trend-bot",
        &format!("{stem}-cancel"),
        "order.cancel",
        &cancel,
    ));
    let pause = json!({
        "decision_id": format!("{stem}-p"), "concern_id": "paper:btc-usd", "account_id": "paper",
        "market_symbol": "btc-usd", "action": "pause", "reason": "r", "confidence": 0.9,
    });
    let paused = desk.one(
        home,
        "hermes",
        &format!("{stem}-pause"),
        "control.apply",
        &pause.to_string(),
    );
    assert!(of_rules(&paused).is_empty(), "{paused:?}");
    for (action, payload) in [
        ("portfolio.get", "{}"),
        ("heartbeat", "{}"),
        ("halt.set", r#"{"reason":"r","principal":"trend-bot"}"#),
    ] {
        passes(&desk.one(
            home,
            "trend-bot",
            &format!("{stem}-{action}"),
            action,
            payload,
        ));
    }
    let exit = order("trend", "sell", "0.02", None, "btc-range-long");
    passes(&desk.one(
        home,
        "trend-bot",
        &format!("{stem}-exit"),
        "order.submit",
        &exit,
    ));
}

/// `trend-bot` holds 0.02 BTC and has a resting entry.
fn holding(desk: &Desk, home: &mut Home) {
    assert_eq!(failed(&buy(desk, home, "hold", "0.02")), [""; 0]);
    desk.bar(home, "6800", "6800");
    let rest = order("trend", "buy", "0.002", Some("6700"), "btc-dip-long");
    assert_eq!(
        failed(&desk.one(home, "trend-bot", "rest", "order.submit", &rest)),
        [""; 0]
    );
}

#[test]
fn no_rulebook_refuses_requests_that_make_things_safer() {
    for count in [1, 2000] {
        let desk = desk(&[]);
        let mut home = desk.open();
        holding(&desk, &mut home);
        drop(home);
        refuse_everything(&desk, count);
        let mut home = desk.open();
        desk.bar(&mut home, "6800", "6800");
        let refused = more(&desk, &mut home);
        assert!(
            failed(&refused).contains(&"never-0".to_owned()),
            "{:?}",
            failed(&refused)
        );
        assert!(refused.decision.body().unwrap().len() < 60_000);
        if count > 1 {
            let last = refused.decision.checks.last().unwrap();
            assert_eq!((&*last.name, last.passed), ("rules", false));
        }
        leaves(&desk, &mut home, "under");
    }
    // The same if the rule files cannot be read.
    let desk = desk(&[]);
    let mut home = desk.open();
    holding(&desk, &mut home);
    drop(home);
    put(
        &desk,
        (
            "bad",
            "active",
            "order.submit",
            "[{field: order.colour, op: eq, value: red}]",
            "reject",
        ),
    );
    let mut home = desk.place.open().unwrap();
    assert!(
        home.rules_fault()
            .unwrap()
            .contains("rules/core/bad.yaml:4"),
        "{:?}",
        home.rules_fault()
    );
    desk.bar(&mut home, "6800", "6800");
    let refused = more(&desk, &mut home);
    assert_eq!(code(&refused), Some(Code::RulebookInvalid));
    assert!(
        refused
            .answer
            .error
            .as_ref()
            .unwrap()
            .message
            .contains("rules/core/bad.yaml:4")
    );
    // The resting entry was pulled with the fault; an exit rests instead.
    let out = order("trend", "sell", "0.001", Some("7000"), "btc-range-long");
    let out = desk.one(&mut home, "trend-bot", "rests", "order.submit", &out);
    assert_eq!(code(&out), None, "{out:?}");
    leaves(&desk, &mut home, "faulted");
}

#[test]
fn a_rule_about_what_does_not_exist_closes_entries_until_it_is_mended() {
    let desk = desk(&[]);
    let mut home = desk.open();
    holding(&desk, &mut home);
    drop(home);
    let rule = |symbol: &str| {
        put(
            &desk,
            (
                "coin",
                "active",
                "order.submit",
                &format!("[{{field: order.symbol, op: eq, value: {symbol}}}]"),
                "warn",
            ),
        );
    };
    rule("btc-usd");
    let mut home = desk.place.open().unwrap();
    desk.bar(&mut home, "6800", "6800");
    let refused = more(&desk, &mut home);
    assert_eq!(code(&refused), Some(Code::RulebookInvalid));
    let message = refused.answer.error.as_ref().unwrap().message.clone();
    assert!(
        message.contains(
            "rules/core/coin.yaml:4: condition on `order.symbol`: there is no instrument \
                `btc-usd`; did you mean `BTC-USD`?"
        ),
        "{message}"
    );
    drop(home);
    rule("BTC-USD");
    let mut home = desk.place.open().unwrap();
    assert_eq!(home.rules_fault(), None);
    desk.bar(&mut home, "6800", "6800");
    let again = order("trend", "buy", "0.003", Some("6750"), "btc-dip-long");
    let accepted = desk.one(&mut home, "trend-bot", "again", "order.submit", &again);
    assert_eq!(code(&accepted), None, "{accepted:?}");
}

#[test]
fn an_order_sent_again_with_the_size_offered_is_accepted() {
    let mut dice = Dice::new(7);
    let mut offered = 0;
    for round in 0..12 {
        let desk = desk(&[]);
        for n in 0..3 {
            let condition = match dice.below(4) {
                0 => format!(
                    "[{{field: order.size, op: gt, value: 0.0{:02}}}]",
                    1 + dice.below(59)
                ),
                1 => format!(
                    "[{{field: order.size, op: lt, value: 0.00{}}}]",
                    1 + dice.below(8)
                ),
                2 => format!(
                    "[{{field: order.size, op: eq, value: 0.0{:02}}}]",
                    1 + dice.below(59)
                ),
                _ => format!(
                    "[{{field: order.notional, op: gt, value: {}}}]",
                    50 + dice.below(400)
                ),
            };
            let then = if dice.below(2) == 0 { "reject" } else { "hold" };
            put(
                &desk,
                (
                    &format!("r-{n}"),
                    "active",
                    "order.submit",
                    &condition,
                    then,
                ),
            );
        }
        let mut home = desk.open();
        let first = buy(&desk, &mut home, "first", "0.06");
        let Some(headroom) = first.decision.headroom.clone() else {
            continue;
        };
        if headroom.max_size.is_zero() {
            continue;
        }
        offered += 1;
        let again = buy(&desk, &mut home, "again", &headroom.max_size.to_string());
        assert_eq!(
            (code(&again), failed(&again)),
            (None, vec![]),
            "round {round}: {headroom:?}"
        );
    }
    assert!(offered >= 4, "{offered}");
}

#[test]
fn requests_of_other_contracts_that_a_rule_refuses_are_not_done() {
    let mut rules = Vec::new();
    for (id, action) in [("c", "council.request"), ("s", "control.apply")] {
        rules.push((id, "active", action, EVERYTHING, "reject"));
    }
    let desk = desk(&rules);
    let mut home = desk.open();
    let resume = json!({
        "decision_id": "d-1", "concern_id": "paper:btc-usd", "account_id": "paper",
            "market_symbol": "btc-usd",
        "action": "resume", "reason": "r", "confidence": 0.9,
    });
    let before = home.state().control.clone();
    let refused = desk.one(
        &mut home,
        "hermes",
        "d-1",
        "control.apply",
        &resume.to_string(),
    );
    assert_eq!(refused.decision.status, Status::Rejected);
    assert_eq!(home.state().control, before);
    assert_eq!(of_rules(&refused).len(), 1);
    assert!(
        refused.decision.changes.is_empty() || code(&refused) == Some(Code::ControlRejected),
        "{refused:?}"
    );
}

#[test]
fn no_rule_file_leads_outside_of_its_folder() {
    for id in ["../evil", "a/b", "..", ".hidden", "UPPER", "a.b", "-a", ""] {
        let desk = desk(&[]);
        let text = format!(
            "id: \"{id}\"\nstatus: active\napplies_to: {{action: order.submit}}\nwhen: []\nthen: \
                reject\nmessage: m\n"
        );
        fs::create_dir_all(desk.place.root.path().join("rules/core")).unwrap();
        desk.edit("rules/core/x.yaml", |_| text.clone());
        let home = desk.place.open().unwrap();
        assert!(
            home.rules_fault()
                .is_some_and(|fault| fault.starts_with("rules/core/x.yaml")),
            "{id}"
        );
    }
}

/// Returns a fact of a line, by name.
fn fact(outcome: &Outcome, name: &str) -> Value {
    let facts: Value =
        serde_json::from_str(outcome.decision.facts.as_ref().unwrap().get()).unwrap();
    facts[name].clone()
}

/// Cancels the resting entry.
fn cancel_resting(desk: &Desk, home: &mut Home, id: &str) {
    let orders = home.state().book.orders.values();
    let rest = orders
        .clone()
        .find(|order| order.price.is_some())
        .unwrap()
        .order_id;
    let payload = json!({"order_id": rest}).to_string();
    desk.one(home, "trend-bot", id, "order.cancel", &payload);
}

#[test]
fn a_rule_counts_earlier_requests_even_after_a_rebuild() {
    let desk = Desk::with_limits("cooldown_s: 0\nduplicate_window_s: 1");
    let mut home = desk.open();
    let send = |desk: &Desk, home: &mut Home, id: &str, size: &str| {
        desk.one(
            home,
            "trend-bot",
            id,
            "order.submit",
            &order("trend", "buy", size, Some("6700"), "btc-dip-long"),
        )
    };
    assert_eq!(failed(&send(&desk, &mut home, "a", "0.002")), [""; 0]);
    let first = home.state().clock.last.unwrap();
    // Refused and cancelled orders are not accepted orders.
    assert_eq!(
        code(&send(&desk, &mut home, "refused", "50")),
        Some(Code::ChecksFailed)
    );
    cancel_resting(&desk, &mut home, "cancel");
    drop(home);
    for (id, when) in [
        (
            "a-count",
            "[{field: history.count, window_s: 600, op: gte, value: 100}]",
        ),
        (
            "b-sum",
            "[{field: history.sum, of: order.size, window_s: 600, op: gt, value: 0.008}]",
        ),
        (
            "c-symbols",
            "[{field: history.distinct, of: order.symbol, window_s: 600, op: gt, value: 5}]",
        ),
        ("d-thesis", "[{field: order.thesis, op: first_seen}]"),
    ] {
        let then = if id == "d-thesis" { "warn" } else { "reject" };
        put(&desk, (id, "active", "order.submit", when, then));
    }
    let mut home = desk.open();
    desk.bar(&mut home, "6800", "6800");
    let second = send(&desk, &mut home, "b", "0.003");
    assert_eq!((code(&second), failed(&second)), (None, vec![]));
    let expect = [
        ("history.count(600s)", json!("1")),
        ("history.sum(order.size, 600s)", json!("0.005")),
        ("history.distinct(order.symbol, 600s)", json!("1")),
        ("first_seen(order.thesis)", json!(false)),
    ];
    for (name, value) in &expect {
        assert_eq!(fact(&second, name), *value, "{name}");
    }
    cancel_resting(&desk, &mut home, "cancel-2");
    // The headroom includes the offered size in the sum.
    desk.bar(&mut home, "6800", "6800");
    let third = send(&desk, &mut home, "c", "0.004");
    assert_eq!(
        (code(&third), failed(&third)),
        (Some(Code::RuleRefused), vec!["b-sum".to_owned()])
    );
    let headroom = third.decision.headroom.clone().unwrap();
    assert_eq!(
        (headroom.max_size.to_string(), &*headroom.binding_check),
        ("0.00300000".into(), "b-sum")
    );
    let mut rows = third.decision.checks.iter();
    let sum = rows.find(|row| row.name == "b-sum").unwrap();
    assert_eq!(sum.value.unwrap().to_string(), "0.009");
    // The same after a restart and a rebuild.
    drop(home);
    let (home, same) = Home::rebuild(desk.place.root.path(), desk.place.seams()).unwrap();
    assert!(same);
    drop(home);
    desk.place.forget_state();
    let mut home = desk.open();
    // The last millisecond of the window, and the one after it.
    for (ms, sum) in [(599_999, "0.009"), (600_000, "0.007")] {
        desk.place.clock.set(first.plus_ms(ms));
        let asked = send(&desk, &mut home, &format!("late-{ms}"), "0.004");
        assert_eq!(
            fact(&asked, "history.sum(order.size, 600s)"),
            json!(sum),
            "{ms}"
        );
    }
    // A value that was never accepted counts as seen for the first time.
    let other = order("trend", "buy", "0.002", Some("6700"), "btc-range-long");
    let other = desk.one(&mut home, "trend-bot", "other", "order.submit", &other);
    assert_eq!(fact(&other, "first_seen(order.thesis)"), json!(true));
}

#[test]
fn requests_of_the_same_batch_count() {
    let desk = Desk::with_limits("");
    put(
        &desk,
        (
            "once",
            "active",
            "control.apply",
            "[{field: history.count, window_s: 60, op: gte, value: 1}]",
            "reject",
        ),
    );
    let mut home = desk.open();
    for n in 0..3 {
        let resume = json!({
            "decision_id": format!("d-{n}"), "concern_id": "paper:btc-usd", "account_id": "paper",
            "market_symbol": "btc-usd", "action": "switch", "target_strategy_id": "range",
                "reason": "r",
            "confidence": 0.9, "dry_run": true,
        });
        desk.ask(
            "hermes",
            &format!("d-{n}"),
            "control.apply",
            &resume.to_string(),
        );
    }
    let outcomes = crate::kit::place::drain(&mut home).unwrap();
    let counts: Vec<Value> = outcomes
        .iter()
        .map(|outcome| fact(outcome, "history.count(60s)"))
        .collect();
    assert_eq!(counts, [json!("0"), json!("1"), json!("1")]);
}

/// No rule refuses a pause, and a dry run changes nothing: neither makes a value known that a rule
/// wants checked.
#[test]
fn requests_outside_of_rules_make_no_value_known() {
    let desk = Desk::with_limits("");
    put(
        &desk,
        (
            "new",
            "active",
            "control.apply",
            "[{field: control.concern, op: first_seen}]",
            "warn",
        ),
    );
    let mut home = desk.open();
    let mut n = 0;
    let mut send = |home: &mut Home, action: &str, mode: Option<&str>, is_dry: bool| {
        n += 1;
        let mut payload = json!({
            "decision_id": format!("d-{n}"), "concern_id": "paper:btc-usd", "account_id": "paper",
            "market_symbol": "btc-usd", "action": action, "reason": "r", "confidence": 0.9,
                "dry_run": is_dry,
        });
        if let Some(mode) = mode {
            payload["risk_mode"] = json!(mode);
        }
        desk.one(
            home,
            "hermes",
            &format!("d-{n}"),
            "control.apply",
            &payload.to_string(),
        )
    };
    for (action, mode, is_dry) in [
        ("resume", None, true),
        ("pause", None, false),
        ("set_risk_mode", Some("reduced"), false),
    ] {
        let done = send(&mut home, action, mode, is_dry);
        assert_eq!(done.decision.status, Status::Success, "{action}: {done:?}");
    }
    let first = send(&mut home, "resume", None, false);
    assert_eq!(first.decision.status, Status::Success, "{first:?}");
    assert_eq!(fact(&first, "first_seen(control.concern)"), json!(true));
    let second = send(&mut home, "resume", None, false);
    assert_eq!(fact(&second, "first_seen(control.concern)"), json!(false));
}

#[test]
fn rules_without_an_open_instrument_are_refused_until_it_is_closed() {
    type Edit<'a> = &'a dyn Fn(&str) -> String;
    let files: [(&str, Edit<'_>, &str); 2] = [
        (
            "rules/principals.yaml",
            &|text| text.replace("strategies: [trend, range]", "strategies: [range]"),
            "no principal has strategy `trend`",
        ),
        (
            "rules/principals.yaml",
            &|text| {
                text.replace(
                    "  - name: trend-bot\n    role: agent\n    strategies: [trend, range]\n",
                    "",
                )
            },
            "no principal has strategy `trend`",
        ),
    ];
    for (path, change, expect) in files {
        let desk = Desk::with_limits("");
        let mut home = desk.open();
        let hash = home.rulebook().hash.clone();
        assert_eq!(failed(&buy(&desk, &mut home, "hold", "0.02")), [""; 0]);
        desk.bar(&mut home, "6800", "6800");
        drop(home);
        desk.edit(path, change);
        let mut home = desk.place.open().unwrap();
        let fault = home.rules_fault().unwrap().to_owned();
        assert!(
            fault.starts_with(path) && fault.contains(expect) && fault.contains("BTC-USD"),
            "{fault}"
        );
        assert_eq!(home.rulebook().hash, hash, "the last good one");
        desk.bar(&mut home, "6800", "6800");
        let refused = more(&desk, &mut home);
        assert_eq!(code(&refused), Some(Code::RulebookInvalid));
        let exit = order("trend", "sell", "0.02", None, "btc-range-long");
        assert_eq!(
            code(&desk.one(&mut home, "trend-bot", "exit", "order.submit", &exit)),
            None
        );
        desk.bar(&mut home, "6800", "6800");
        assert!(home.state().book.positions.is_empty());
        drop(home);
        let home = desk.place.open().unwrap();
        assert_eq!(
            (home.rules_fault(), home.rulebook().hash != hash),
            (None, true)
        );
    }
}
