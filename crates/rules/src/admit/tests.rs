//! Tests of what keeps a rulebook from coming into force: each fault, and what is no fault.

use super::*;

/// Returns the rule with these conditions, in a file whose conditions begin at line 5.
fn rule(scope: &str, when: &str) -> String {
    format!(
        "id: cap\nstatus: active\napplies_to: {{{scope}}}\nwhen:\n{when}then: reject\nmessage: no\n"
    )
}

/// Compiles a home's rulebook with one rule more.
fn book(rule: &str) -> Rulebook {
    book_without(rule, "")
}

fn book_without(rule: &str, left_out: &str) -> Rulebook {
    let files = [
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
            "rules/services.yaml",
            "services:\n- {service: bank, host: bank.example, protocol: https, methods: [GET], added_at: \n   2026-01-01T00:00:00Z, added_by: owner, is_active: true}\n",
        ),
        (
            "rules/strategies/trend.yaml",
            include_str!("../../../../rules/strategies/trend.yaml"),
        ),
        (
            "rules/strategies/range.yaml",
            include_str!("../../../../rules/strategies/range.yaml"),
        ),
        (
            "rules/sets/coins.yaml",
            "name: coins\nkind: word\nentries:\n- {value: BTC-USD, provenance: user_established}\n\
                - {value: btc-usd, provenance: user_established}\n",
        ),
        ("rules/core/cap.yaml", rule),
    ];
    let files = files
        .into_iter()
        .filter(|(path, _)| *path != left_out)
        .map(|(path, text)| (path.to_owned(), text.to_owned()));
    Rulebook::compile(&Bundle {
        files: files.collect(),
    })
    .unwrap()
}

fn faults(rule: &str) -> Vec<String> {
    let faults = book(rule).admit().into_iter().map(RulebookError::from);
    faults.map(|fault| fault.to_string()).collect()
}

fn of_orders(when: &str) -> Vec<String> {
    faults(&rule("action: order.submit", when))
}

#[test]
fn names_that_no_file_has_are_faults_with_the_nearest_one() {
    for (when, fault) in [
        (
            "  - {field: order.symbol, op: eq, value: btc-usd}\n",
            "rules/core/cap.yaml:5: condition on `order.symbol`: there is no instrument `btc-usd`; \
                did you mean `BTC-USD`?",
        ),
        (
            "  - {field: order.side, op: eq, value: buy}\n  - {field: strategy.name, op: neq, \
                value: trendd}\n",
            "rules/core/cap.yaml:6: condition on `strategy.name`: there is no strategy `trendd`; \
                did you mean `trend`?",
        ),
        (
            "  - {field: request.source, op: in, value: [trend-bot, nobody]}\n",
            "rules/core/cap.yaml:5: condition on `request.source`: there is no principal `nobody`; \
                rules/principals.yaml has no such name",
        ),
    ] {
        assert_eq!(of_orders(when), [fault], "{when}");
    }
    let scoped = |key: &str| rule(&format!("action: order.submit, {key}: [nope]"), "  []\n");
    assert_eq!(
        faults(&scoped("strategy")),
        [
            "rules/core/cap.yaml:3: `applies_to.strategy`: there is no strategy `nope`; \
            rules/strategies has no such name"
        ]
    );
    assert_eq!(
        faults(&scoped("principal")),
        [
            "rules/core/cap.yaml:3: `applies_to.principal`: there is no principal `nope`; \
            rules/principals.yaml has no such name"
        ]
    );
    let call = rule(
        "action: service.api_call",
        "  - {field: payload.service, op: eq, value: nowhere}\n",
    );
    assert!(
        faults(&call)[0].contains("there is no service `nowhere`"),
        "{:?}",
        faults(&call)
    );
    let control = rule(
        "action: control.apply",
        "  - {field: control.target, op: eq, value: nothing}\n",
    );
    assert!(faults(&control)[0].contains("strategy with the id `nothing`"));
    let known = "  - {field: order.symbol, op: eq, value: BTC-USD}\n";
    assert_eq!(of_orders(known), [""; 0]);
}

#[test]
fn open_vocabularies_and_homes_without_a_registry_only_warn() {
    let doubts = |book: &Rulebook| -> Vec<String> {
        let doubts = book.doubts().into_iter();
        doubts.map(|warning| warning.at.to_string()).collect()
    };
    let symbol = rule(
        "action: order.submit",
        "  - {field: order.symbol, op: eq, value: btc-usd}\n",
    );
    let regime = rule(
        "action: order.submit",
        "  - {field: market.regime, op: eq, value: calm}\n",
    );
    let account = rule(
        "action: control.apply",
        "  - {field: control.account, op: eq, value: other}\n",
    );
    let members = rule(
        "action: order.submit",
        "  - {field: order.symbol, op: in, value: coins}\n",
    );
    let theirs = book(&symbol);
    assert_eq!((theirs.admit().len(), doubts(&theirs).len()), (1, 0));
    for (book, doubted) in [
        (book(&regime), None),
        (book(&account), Some("there is no account `other`")),
        (
            book(&members),
            Some("rules/sets/coins.yaml:5: there is no instrument `btc-usd`"),
        ),
    ] {
        assert_eq!(book.admit(), []);
        let found = doubts(&book);
        assert_eq!(found.len(), usize::from(doubted.is_some()), "{found:?}");
        assert!(doubted.is_none_or(|it| found[0].contains(it)), "{found:?}");
    }
    let call = rule(
        "action: service.api_call",
        "  - {field: payload.service, op: eq, value: banks}\n",
    );
    let bare = book_without(&call, "rules/services.yaml");
    assert_eq!((bare.admit(), doubts(&bare).len()), (vec![], 1));
}

#[test]
fn rules_out_of_force_may_name_what_is_gone() {
    let gone = rule(
        "action: order.submit, strategy: [gone]",
        "  - {field: history.sum, of: order.price, window_s: 60, op: gt, value: 1}\n",
    );
    assert_eq!(faults(&gone).len(), 2);
    assert_eq!(faults(&gone.replace("active", "shadow")).len(), 2);
    assert_eq!(faults(&gone.replace("active", "suspended")), [""; 0]);
    let retired = gone.replace("active", "retired") + "lesson: it was too much\n";
    assert_eq!(faults(&retired), [""; 0]);
}

#[test]
fn fields_without_history_are_faults() {
    for (when, fault) in [
        (
            "  - {field: history.sum, of: order.price, window_s: 60, op: gt, value: 1}\n",
            "no history is kept of `order.price` in requests of `order.submit`; it is kept of \
                order.symbol, order.side, order.size, order.thesis, strategy.name",
        ),
        (
            "  - {field: history.distinct, of: order.notional, window_s: 60, op: gt, value: 1}\n",
            "no history is kept of `order.notional`",
        ),
        (
            "  - {field: market.regime, op: first_seen}\n",
            "no history is kept of `market.regime`",
        ),
    ] {
        let found = of_orders(when);
        assert!(found.len() == 1 && found[0].contains(fault), "{found:?}");
    }
    for when in [
        "  - {field: history.sum, of: order.size, window_s: 60, op: gt, value: 1}\n",
        "  - {field: history.count, window_s: 60, op: gt, value: 1}\n",
        "  - {field: order.symbol, op: first_seen}\n",
    ] {
        assert_eq!(of_orders(when), [""; 0], "{when}");
    }
    let fetch = rule(
        "action: email.fetch",
        "  - {field: history.count, window_s: 60, op: gt, value: 1}\n",
    );
    assert_eq!(
        faults(&fetch),
        [
            "rules/core/cap.yaml:5: condition on `history.count`: no history is kept of requests of \
            `email.fetch`; this action has no history"
        ]
    );
}

#[test]
fn texts_that_mean_something_else_than_they_seem_to_are_faults() {
    let always = "id: cap\nstatus: active\napplies_to: {action: order.submit}\nwhen: []\nthen: \
        reject\nmessage: no\n";
    let null = always.replace("when: []", "when:");
    assert_eq!(
        faults(&null),
        ["rules/core/cap.yaml:4: `when` has no value; a rule that always acts has `when: []`"]
    );
    let tilde = always.replace("when: []", "when: ~");
    let refused = RuleFile::read("rules/core/cap.yaml", &tilde).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "rules/core/cap.yaml:4: `when` has no value; an empty list is `[]`"
    );
    assert_eq!(faults(always), [""; 0]);
    for number in [
        "0x10", "0b11", "0o17", "1e3", "1.5E2", ".5", "+5", "-.5", "+.5",
    ] {
        let when = format!("  - {{field: order.notional, op: gt, value: {number}}}\n");
        let found = of_orders(&when);
        let fault = format!("rules/core/cap.yaml:5: `{number}` is not a number to every reader");
        assert!(
            found.len() == 1 && found[0].starts_with(&fault),
            "{number}: {found:?}"
        );
        let listed = format!("  - field: order.notional\n    op: in\n    value: [1, {number}]\n");
        assert_eq!(of_orders(&listed).len(), 1, "{number}");
        let said = always.replace("message: no", &format!("message: over {number}, no"));
        let said = said + &format!("# {number}\n");
        assert_eq!(faults(&said), [""; 0], "{number} in a text");
        let quoted = said.replace("message: over", &format!("message: \"value: {number} "));
        let quoted = quoted.replace(", no", "\"");
        assert_eq!(faults(&quoted), [""; 0], "{number} in quotes");
    }
    for number in ["1", "0.5", "-5", "\"0.5\"", "1000000"] {
        let when = format!("  - {{field: order.notional, op: gt, value: {number}}}\n");
        assert_eq!(of_orders(&when), [""; 0], "{number}");
    }
    let said = always.replace("message: no", "message: \"n\u{85}o\"");
    assert_eq!(
        faults(&said),
        ["rules/core/cap.yaml:6: U+0085 ends a line in YAML and is not seen; remove it"]
    );
}

#[test]
fn the_old_name_of_a_field_compiles_and_is_not_admitted() {
    let found = of_orders("  - {field: market.spread_pct, op: gt, value: 0.01}\n");
    assert_eq!(
        found,
        ["rules/core/cap.yaml:5: `market.spread_pct` was renamed; write `market.spread`"]
    );
    assert_eq!(
        of_orders("  - {field: market.spread, op: gt, value: 0.01}\n"),
        [""; 0]
    );
}
