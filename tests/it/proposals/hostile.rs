//! Hostile proposals: each is refused with its code, in the ledger, and changes nothing.

use std::fs;

use serde_json::{Value, json};
use spoolgate_gate::proposals::{Change as Step, Found, Note};
use spoolgate_wire::code::Code;

use super::gate::{Gate, acknowledged, activate, code, message, modify, own_rule, step, suspend};

/// Proposes over a home with the rule `cap`. Returns the code of the refusal and its reason.
fn refused(proposal: &Value) -> (Option<Code>, String) {
    let gate = Gate::new();
    let mut home = gate.open();
    assert!(acknowledged(&gate.propose(&mut home, &activate(own_rule("cap", "5")))).1);
    let before = home.rulebook().hash.clone();
    let outcome = gate.propose(&mut home, proposal);
    assert!(outcome.decision.changes.is_empty(), "{outcome:?}");
    assert_eq!(home.rulebook().hash, before);
    home.finish("done").unwrap();
    let decided = crate::kit::decisions(gate.root.path()).unwrap();
    let line = &decided[&outcome.seq];
    assert_eq!(line.metadata.code, code(&outcome), "not in the ledger");
    (code(&outcome), message(&outcome).to_owned())
}

fn with(key: &str, value: Value) -> Value {
    let mut rule = own_rule("new", "5");
    rule[key] = value;
    activate(rule)
}

#[test]
fn a_false_claim_is_logged_and_applies_nothing() {
    let gate = Gate::new();
    let mut home = gate.open();
    acknowledged(&gate.propose(&mut home, &activate(own_rule("cap", "5"))));
    let before = home.rulebook().hash.clone();
    let outcome = gate.propose(&mut home, &modify("cap", "5", "6", true));
    let (id, auto) = acknowledged(&outcome);
    assert!(!auto);
    let Step::Pended { proposed, .. } = step(&outcome) else {
        panic!()
    };
    assert_eq!(
        (proposed.direction, proposed.notes),
        (Found::Loosening, vec![Note::ClaimFalse])
    );
    assert!(
        gate.read(&format!("proposals/pending/{id}.yaml"))
            .contains("- CLAIM_FALSE")
    );
    assert_eq!(home.rulebook().hash, before);
    let log = crate::kit::log_bytes(gate.root.path()).concat();
    assert!(String::from_utf8_lossy(&log).contains("CLAIM_FALSE"));
}

#[test]
fn a_stale_old_value() {
    assert_eq!(
        refused(&modify("cap", "6", "4", true)).0,
        Some(Code::StaleValue)
    );
}

#[test]
fn an_id_that_is_a_path() {
    for id in [
        "../safety",
        "..",
        "a/b",
        "a\\b",
        "/etc/passwd",
        "a\u{0}b",
        "",
    ] {
        assert_eq!(
            refused(&with("id", json!(id))).0,
            Some(Code::RuleIdInvalid),
            "{id:?}"
        );
        assert_eq!(refused(&suspend(id)).0, Some(Code::RuleIdInvalid), "{id:?}");
        assert_eq!(
            refused(&modify(id, "5", "4", true)).0,
            Some(Code::RuleIdInvalid),
            "{id:?}"
        );
    }
}

#[test]
fn an_id_of_look_alike_letters() {
    for id in [
        "c\u{430}p",
        "\u{441}ap",
        "ca\u{200b}p",
        "CAP",
        "cap\u{301}",
        "\u{ff43}ap",
    ] {
        assert_eq!(
            refused(&with("id", json!(id))).0,
            Some(Code::RuleIdInvalid),
            "{id:?}"
        );
        assert_eq!(refused(&suspend(id)).0, Some(Code::RuleIdInvalid), "{id:?}");
    }
}

#[test]
fn a_regex_bomb() {
    for bomb in [
        "((((a{100}){100}){100}){100})",
        "a{4294967296}",
        "(a",
        &"a".repeat(501),
        &"(".repeat(40),
    ] {
        let when = json!([{"field": "order.symbol", "op": "matches", "value": bomb}]);
        assert_eq!(
            refused(&with("when", when)).0,
            Some(Code::RulePatternRefused),
            "{bomb:.40}"
        );
    }
}

#[test]
fn a_bomb_of_yaml_aliases() {
    // As text in place of the rule, and in place of one of its texts.
    let bomb = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c \
        [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n";
    assert_eq!(refused(&activate(json!(bomb))).0, Some(Code::RuleMalformed));
    assert_eq!(
        refused(&with("applies_to", json!(bomb))).0,
        Some(Code::RuleMalformed)
    );
    assert_eq!(
        refused(&with("when", json!("*a"))).0,
        Some(Code::RuleMalformed)
    );
    // YAML itself is not a request.
    let gate = Gate::new();
    let mut home = gate.open();
    let text = activate(own_rule("a", "1"))
        .to_string()
        .replace("\"too large\"", "&a \"too large\"");
    gate.drop_in(&gate.bot, "trend-bot", "rule.propose", &text);
    let mut outcomes = crate::kit::place::drain(&mut home).unwrap();
    // A file that does not parse is given time to become complete.
    while outcomes.is_empty() {
        gate.pass_s(3);
        outcomes = crate::kit::place::drain(&mut home).unwrap();
    }
    assert_eq!(code(&outcomes[0]), Some(Code::MalformedJson));
}

/// An agent's own rules are evaluated with each of its requests, while exits of others wait in the
/// same batch: approvers must allow what costs time.
#[test]
fn rules_that_make_every_decision_slow() {
    let gate = Gate::new();
    let mut home = gate.open();
    let slow = |id: &str, count: usize| {
        let mut rule = own_rule(id, "5");
        let look_back =
            |n| json!({"field": "history.count", "window_s": 60 + n, "op": "gt", "value": 5});
        rule["when"] = (0..count).map(look_back).collect();
        activate(rule)
    };
    assert!(acknowledged(&gate.propose(&mut home, &slow("a", 10))).1);
    assert!(
        !acknowledged(&gate.propose(&mut home, &slow("b", 7))).1,
        "17 of them"
    );
    assert!(acknowledged(&gate.propose(&mut home, &slow("c", 6))).1);
    assert!(
        acknowledged(&gate.propose(&mut home, &activate(own_rule("d", "5")))).1,
        "without any"
    );
}

#[test]
fn ten_thousand_rules() {
    // At once.
    let many: Vec<Value> = (0..10_000).map(|n| json!(format!("r{n}"))).collect();
    assert_eq!(refused(&activate(json!(many))).0, Some(Code::TooLarge));
    // In addition to as many as there may be.
    let gate = Gate::under(|root| {
        for n in 0..2000 {
            let mut rule = own_rule(&format!("r{n}"), "5");
            rule["applies_to"] = json!({"action": "order.submit"});
            fs::write(
                root.join(format!("rules/active/r{n}.yaml")),
                rule.to_string(),
            )
            .unwrap();
        }
    });
    let mut home = gate.open();
    let outcome = gate.propose(&mut home, &activate(own_rule("one-more", "5")));
    assert_eq!(code(&outcome), Some(Code::RulesFull));
}

#[test]
fn a_rule_on_limits_of_safety_yaml() {
    for field in [
        "safety.max_single_position",
        "rules/safety.yaml",
        "limits.daily_loss",
        "principals.owner.role",
    ] {
        let when = json!([{"field": field, "op": "gt", "value": "1"}]);
        let (code, message) = refused(&with("when", when));
        assert_eq!(code, Some(Code::RuleFieldUnknown), "{field}");
        assert!(message.contains(field));
    }
    let mut proposal = modify("safety", "5", "4", true);
    proposal["ModifyParameter"]["parameter"] = json!("max_single_position");
    assert_eq!(refused(&proposal).0, Some(Code::NotFound));
}

#[test]
fn ambiguous_or_out_of_bounds_changes_are_refused() {
    let gate = Gate::under(|root| {
        let mut two = own_rule("two", "5");
        two["when"] = json!([
            {"field": "order.size", "op": "gt", "value": "5", "min": "4", "max": "6"},
            {"field": "order.notional", "op": "gt", "value": "5"},
            {"field": "order.notional", "op": "lt", "value": "50"},
        ]);
        fs::write(root.join("rules/active/two.yaml"), two.to_string()).unwrap();
        fs::write(
            root.join("rules/core/core.yaml"),
            own_rule("core", "5").to_string(),
        )
        .unwrap();
        let mut old = own_rule("old", "5");
        old["status"] = json!("retired");
        old["lesson"] = json!("it blocked more winners than losers");
        fs::write(root.join("rules/active/old.yaml"), old.to_string()).unwrap();
    });
    let mut home = gate.open();
    let parameter = |name: &str, new: &str| {
        let mut proposal = modify("two", "5", new, true);
        proposal["ModifyParameter"]["parameter"] = json!(name);
        proposal
    };
    for (proposal, expect) in [
        (parameter("order.notional", "4"), Code::ParameterAmbiguous),
        (parameter("order.price", "4"), Code::ParameterAmbiguous),
        (parameter("order.size", "3"), Code::ValueOutOfBounds),
        (parameter("order.size", "7"), Code::ValueOutOfBounds),
        (parameter("order.size", "5"), Code::StateConflict),
        (activate(own_rule("core", "1")), Code::RuleIdTaken),
        (suspend("core"), Code::RuleIdTaken),
        (modify("core", "5", "4", true), Code::RuleIdTaken),
        (activate(own_rule("old", "1")), Code::RuleRetired),
        (suspend("old"), Code::RuleRetired),
        (suspend("none"), Code::NotFound),
        (with("then", json!("allow")), Code::RuleMalformed),
        (with("unknown", json!(1)), Code::RuleMalformed),
        (with("when", json!(null)), Code::RuleMalformed),
        (with("message", json!("a\u{85}b")), Code::RuleMalformed),
        (
            with(
                "when",
                json!([{"field": "order.symbol", "op": "eq", "value": "btc-usd"}]),
            ),
            Code::RuleMalformed,
        ),
        (
            with(
                "when",
                json!([{"field": "history.sum", "of": "order.price", "window_s": 60, "op": "gt",
                    "value": "1"}]),
            ),
            Code::RuleMalformed,
        ),
        (
            with("message", json!("x".repeat(9000))),
            Code::RuleMalformed,
        ),
    ] {
        let outcome = gate.propose(&mut home, &proposal);
        assert_eq!(code(&outcome), Some(expect), "{proposal}");
        if expect == Code::RuleRetired {
            assert!(message(&outcome).contains("more winners than losers"));
        }
    }
    // Only operators set bounds: a rule with other bounds waits.
    let mut rule = own_rule("two", "5");
    rule["when"] = json!([{"field": "order.size", "op": "gt", "value": "5"}]);
    let outcome = gate.propose(&mut home, &activate(rule));
    assert!(!acknowledged(&outcome).1);
}

#[test]
fn a_citation_that_is_false() {
    let mut proposal = suspend("cap");
    proposal["Suspend"]["evidence"]["council_request_id"] = json!("req-1");
    let (code, message) = refused(&proposal);
    assert_eq!(code, Some(Code::CitationFalse));
    assert!(message.contains("req-1"));
}

/// A rule that refuses everything, which approvers will revert, must not hide the loosening of
/// another rule; nor must a trial.
#[test]
fn under_cover_of_another_rule_nothing_is_loosened() {
    let gate = Gate::new();
    let mut home = gate.open();
    assert!(acknowledged(&gate.propose(&mut home, &activate(own_rule("cap", "5")))).1);
    assert!(acknowledged(&gate.propose(&mut home, &activate(own_rule("all", "0")))).1);
    let mut held = own_rule("cap", "5");
    held["then"] = json!("hold");
    for proposal in [
        activate(own_rule("cap", "1000")),
        activate(held),
        modify("cap", "5", "6", false),
    ] {
        let outcome = gate.propose(&mut home, &proposal);
        assert!(!acknowledged(&outcome).1, "{proposal}");
        let Step::Pended { proposed, .. } = step(&outcome) else {
            panic!()
        };
        assert_eq!(proposed.direction, Found::Same);
    }
    let mut trial = own_rule("trial", "5");
    trial["status"] = json!("shadow");
    assert!(acknowledged(&gate.propose(&mut home, &activate(trial.clone()))).1);
    trial["status"] = json!("active");
    trial["then"] = json!("warn");
    assert!(!acknowledged(&gate.propose(&mut home, &activate(trial.clone()))).1);
    trial["then"] = json!("reject");
    assert!(acknowledged(&gate.propose(&mut home, &activate(trial))).1);
}
