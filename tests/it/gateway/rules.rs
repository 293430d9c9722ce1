//! Rules over outgoing actions through the whole gate: facts about the past count actions that
//! began, whatever their outcome.

use std::fs;

use crate::kit::gateway_home::{GatewayHome, SERVICES, code, exec, gateway, settle};
use serde_json::json;
use spoolgate_home::Home;
use spoolgate_rules::gateway::ACTIONS;

/// An adapter that fails each time and records its task.
const FAILS: &str = r#"t=$(cat); printf '%s\n' "$t" >>ran; echo '{"success":false,"error":{"code":"NO","message":"no"}}'"#;

/// Makes a home with these rules: id, action, conditions, effect.
fn home(rules: &[(&str, &str, &str, &str)]) -> GatewayHome {
    let home = GatewayHome::with(SERVICES, &gateway(&[exec(&ACTIONS, FAILS, 10)]));
    fs::create_dir_all(home.path("rules/core")).unwrap();
    for (id, action, when, then) in rules {
        let text = format!(
            "id: {id}\nstatus: active\napplies_to: {{action: {action}}}\nwhen: {when}\nthen: \
                {then}\nmessage: \"{id} says so\"\n"
        );
        fs::write(home.path(&format!("rules/core/{id}.yaml")), text).unwrap();
    }
    home
}

fn mail(home: &GatewayHome, opened: &mut Home, id: &str, to: &[&str]) -> String {
    let payload = json!({"to": to, "subject": "s", "body": "b"}).to_string();
    code(&home.one(opened, id, "email.send", &payload))
}

#[test]
fn actions_that_began_count_whatever_their_outcome_and_others_do_not() {
    let when = "[{field: history.count, window_s: 3600, op: gt, value: 1}]";
    let home = home(&[("often", "email.send", when, "reject")]);
    let mut opened = home.open();
    assert_eq!(
        code(&home.one(&mut opened, "m", "email.send", "{}")),
        "MALFORMED_PAYLOAD"
    );
    assert_eq!(
        mail(&home, &mut opened, "a", &["ann@example.com"]),
        "ADAPTER_FAILED"
    );
    assert_eq!(
        mail(&home, &mut opened, "b", &["ann@example.com"]),
        "ADAPTER_FAILED"
    );
    assert_eq!(
        mail(&home, &mut opened, "c", &["ann@example.com"]),
        "RULE_REFUSED"
    );
    drop(opened);
    home.place.forget_state();
    let mut opened = home.open();
    assert_eq!(
        mail(&home, &mut opened, "d", &["ann@example.com"]),
        "RULE_REFUSED"
    );
    home.place.pass_s(3600);
    assert_eq!(
        mail(&home, &mut opened, "e", &["ann@example.com"]),
        "ADAPTER_FAILED"
    );
    assert_eq!(home.ran().len(), 3);
}

#[test]
fn a_value_is_new_until_a_request_with_it_began() {
    let when = "[{field: 'payload.to[]', op: first_seen}]";
    let home = home(&[("stranger", "email.send", when, "hold")]);
    let mut opened = home.open();
    assert_eq!(mail(&home, &mut opened, "a", &["ann@example.com"]), "HELD");
    assert_eq!(
        mail(&home, &mut opened, "b", &["ann@example.com"]),
        "HELD",
        "held is not begun"
    );
    let hold = opened.state().approvals.iter().next().unwrap().clone();
    let grant = json!({"id": hold.id, "request_sha256": hold.request_sha256}).to_string();
    home.one_as_owner(&mut opened, "grant", "approval.grant", &grant);
    assert_eq!(code(&home.answer("a").unwrap()), "ADAPTER_FAILED");
    assert_eq!(
        mail(&home, &mut opened, "c", &["ann@example.com"]),
        "ADAPTER_FAILED"
    );
    assert_eq!(
        mail(
            &home,
            &mut opened,
            "d",
            &["ann@example.com", "eve@example.org"]
        ),
        "HELD"
    );
    assert_eq!(home.ran().len(), 2);
    drop(opened);
    let (_, same) = Home::rebuild(home.place.root.path(), home.place.seams()).unwrap();
    assert!(same);
}

#[test]
fn classes_of_calls_are_held() {
    let when = "[{field: payload.method, op: in, value: [POST, DELETE]}]";
    let home = home(&[("changes", "service.api_call", when, "hold")]);
    let mut opened = home.open();
    for (method, expect) in [
        ("GET", "ADAPTER_FAILED"),
        ("POST", "HELD"),
        ("PUT", "ADAPTER_FAILED"),
        ("DELETE", "HELD"),
        ("PATCH", "ADAPTER_FAILED"),
    ] {
        let call = json!({"service": "bank", "endpoint": "/", "method": method}).to_string();
        assert_eq!(
            code(&home.one(&mut opened, method, "service.api_call", &call)),
            expect,
            "{method}"
        );
    }
    assert_eq!(home.ran().len(), 3);
}

#[test]
fn rules_apply_to_each_of_the_nine() {
    let all = format!("[{}]", ACTIONS.join(", "));
    let home = home(&[("never", &all, "[]", "reject")]);
    let mut opened = home.open();
    for (action, payload) in crate::kit::gateway_home::GOOD {
        home.ask(action, action, payload);
        settle(&mut opened);
        assert_eq!(
            code(&home.answer(action).unwrap()),
            "RULE_REFUSED",
            "{action}"
        );
    }
    assert!(home.ran().is_empty());
}
