//! JSON Schemas against what really reads: a judge of another make, over every kept payload, over mutations of them, over
//! the demo's answers and over the rule files. What a schema refuses, the reader refuses; what the reader refuses besides is
//! on the short list of the schema's own description.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use jsonschema::Validator;
use serde_json::{Map, Value, json};
use spoolgate::gate::actions::ACTIONS;
use spoolgate::gate::prepare::{Authentic, Payload};
use spoolgate::gate::schemas;
use spoolgate::wire::envelope::Envelope;

fn root(below: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(below)
}

fn judge(name: &str) -> Validator {
    let schema = schemas::schema(name).unwrap_or_else(|| panic!("no schema `{name}`"));
    jsonschema::validator_for(&schema).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Whether all that is wrong is that a list stands where an object belongs. Some readers take the values of an object's members
/// in their order for the object; nobody is told to write that.
fn is_list_for_object(judge: &Validator, value: &Value) -> bool {
    judge
        .iter_errors(value)
        .all(|error| error.instance().is_array() && error.to_string().ends_with("is not of type \"object\""))
}

/// What the gate makes of a payload.
fn reader(action: &str, payload: &str) -> Result<(), String> {
    let file = format!(
        r#"{{"id":"r","timestamp":"2018-04-05T12:00:00Z","action":"{action}","payload":{payload},"source":"s","signature":"0"}}"#
    );
    let envelope = Envelope::parse(file.as_bytes()).map_err(|error| error.to_string())?;
    match Authentic::unsigned(envelope).body.map_err(|refusal| refusal.message)?.payload {
        Payload::Control(attempt) => attempt.decision.map(drop).map_err(|(_, why)| why),
        Payload::Admission(_, attempt) => attempt.body.map(drop),
        _ => Ok(()),
    }
}

/// Payloads that were kept because they were found to matter: the fuzzer's, and those that it started from.
fn kept() -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root("fuzz/corpus/payload")).unwrap() {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        let Some((action, payload)) = bytes.split_first() else { continue };
        let Ok(payload) = std::str::from_utf8(payload) else { continue };
        found.push((ACTIONS[usize::from(*action) % ACTIONS.len()].name, payload.to_owned()));
    }
    assert!(found.len() > 400, "only {} payloads are kept", found.len());
    found
}

/// Payloads besides, so that every action has one.
const MORE: &[(&str, &str)] = &[
    (
        "order.submit",
        r#"{"strategy":"t","symbol":"S","side":"buy","size":1,"order_type":"market","thesis_slug":"t","planned_entry":2,"planned_stop":"1","target_price":"3.5","time_in_force":"day"}"#,
    ),
    (
        "control.apply",
        r#"{"decision_id":"d","concern_id":"a:m","account_id":"a","market_symbol":"m","action":"switch","target_strategy_id":"s","expected_active_strategy_id":null,"risk_mode":"reduced","reason":"r","confidence":0.5,"dry_run":true,"override":false,"requested_at":"2018-04-05T12:00:00Z"}"#,
    ),
    (
        "control.apply",
        r#"{"decision_id":"d","concern_id":"a:m","account_id":"a","market_symbol":"m","action":"pause","reason":"r","confidence":1e-3}"#,
    ),
    (
        "venue.report",
        r#"{"order_id":"o-1","exec_type":"trade","exec_id":"e","transact_time":"2018-04-05T12:00:00Z","cum_qty":"1","last_qty":1,"last_px":"2.5","fee":"-0.1","liquidity":"maker"}"#,
    ),
    (
        "venue.report",
        r#"{"order_id":"o-1","exec_type":"new","exec_id":"e","transact_time":"2018-04-05T12:00:00Z","cum_qty":0,"version":1}"#,
    ),
    (
        "venue.report",
        r#"{"order_id":"o-1","exec_type":"rejected","exec_id":"e","transact_time":"2018-04-05T12:00:00Z","cum_qty":0,"text":"no"}"#,
    ),
    (
        "venue.report",
        r#"{"order_id":"o-1","exec_type":"expired","exec_id":"e","transact_time":"2018-04-05T12:00:00Z","cum_qty":"-0"}"#,
    ),
    (
        "email.send",
        r#"{"to":["ann@example.com"],"cc":["bob@example.org"],"subject":"s","body":"b","replyToMessageId":"m"}"#,
    ),
    (
        "calendar.create",
        r#"{"calendarId":"c","title":"t","startTime":"2018-04-05T00:00:00Z","endTime":"2018-04-06T00:00:00Z","description":"d","attendees":["ann@example.com"]}"#,
    ),
    (
        "calendar.update",
        r#"{"calendarId":"c","title":"t","startTime":"2018-04-05T00:00:00Z","endTime":"2018-04-06T00:00:00Z","description":"d","attendees":["ann@example.com"]}"#,
    ),
    (
        "service.api_call",
        r#"{"service":"bank","endpoint":"/v1/x?y=1","method":"POST","headers":{"accept":"a b"},"body":{"n":[1]}}"#,
    ),
    (
        "council.request",
        r#"{"request_id":"c","timestamp":"2018-04-05T12:00:00Z","proposer":"p","change_type":"UPDATE_CONFIG","context":{"summary":"s","files_changed":["f"],"key_metrics":{"sharpe":1.5}},"artifacts":{"spec_content":"s"},"returns":[0.1],"trial_returns":"a,b"}"#,
    ),
    (
        "council.verdict",
        r#"{"request_id":"c","request_sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","verdict":{"role":"Risk Officer","verdict":"APPROVE","confidence_score":0.5,"checklist_results":[{"check_id":"a","question":"q","answer":"a","pass":null}],"concerns":["c"],"required_actions":[]}}"#,
    ),
    (
        "rule.propose",
        r#"{"ModifyParameter":{"rule_id":"r","parameter":"p","old_value":1,"new_value":"2.5","evidence":{"summary":"s","sample_size":3,"ledger_seqs":[1,2],"council_request_id":"c"},"is_tightening":true}}"#,
    ),
    (
        "rule.propose",
        r#"{"Suspend":{"rule_id":"r","reason":"w","evidence":{"summary":"s","sample_size":3,"ledger_seqs":[]}}}"#,
    ),
    (
        "rule.propose",
        r#"{"Activate":{"rule":{"id":"r"},"evidence":{"summary":"s","sample_size":3,"ledger_seqs":[1]}}}"#,
    ),
    (
        "services.add",
        r#"{"service":"mail","host":"smtp.example.com","port":465,"protocol":"smtp","methods":["GET"],"actions":["email.send"]}"#,
    ),
    ("services.remove", r#"{"service":"mail"}"#),
    ("services.deactivate", r#"{"service":"mail"}"#),
    ("services.activate", r#"{"service":"mail"}"#),
    ("services.credential", r#"{"service":"mail","credential_id":"0123456789abcdef0123456789abcdef"}"#),
    (
        "approval.grant",
        r#"{"id":"h-1","request_sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","reason":"r","remember":true}"#,
    ),
    (
        "approval.deny",
        r#"{"id":"h-1","request_sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","reason":"r"}"#,
    ),
    ("grant.add", r#"{"set":"s","value":"v","task":"research/t-1","expires_at":"2018-04-05T12:00:00Z"}"#),
    ("grant.end", r#"{"set":"s","value":"v","task":"research/t-1"}"#),
    ("keys.add", r#"{"principal":"bot","key_id":"0123456789abcdef","algorithm":"ed25519"}"#),
    (
        "keys.rotate",
        r#"{"principal":"bot","key_id":"0123456789abcdef","algorithm":"hmac-sha256","others_end":"2018-04-05T12:00:00Z"}"#,
    ),
    ("heartbeat", r#"{"principal":"bot"}"#),
    ("halt.clear", r#"{"scope":{"symbol":"S"},"reason":"r"}"#),
    (
        "proposal.approve",
        r#"{"id":"p-1","sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}"#,
    ),
    ("admission.cache_invalidate", r#"{"policy_profile_id":"p"}"#),
    ("strategies.get", r#"{"strategy_id":"s"}"#),
];

/// Payloads that their readers take, each once, by action.
fn taken() -> BTreeMap<&'static str, Vec<Value>> {
    let mut taken: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    let more = MORE.iter().map(|(action, payload)| (*action, (*payload).to_owned()));
    for (action, payload) in kept().into_iter().chain(more) {
        if reader(action, &payload).is_ok()
            && let Ok(value) = serde_json::from_str::<Value>(&payload)
        {
            let of = taken.entry(action).or_default();
            if !of.contains(&value) {
                of.push(value);
            }
        }
    }
    taken
}

#[test]
fn what_is_taken_is_valid() {
    let taken = taken();
    for rule in ACTIONS {
        let judge = judge(rule.name);
        let payloads =
            taken.get(rule.name).unwrap_or_else(|| panic!("no payload of `{}` is taken", rule.name));
        for payload in payloads {
            let faults: Vec<String> = judge.iter_errors(payload).map(|error| error.to_string()).collect();
            assert!(faults.is_empty(), "{}: {payload}: {faults:?}", rule.name);
        }
    }
}

/// What every place of a payload is replaced by.
fn others() -> Vec<Value> {
    let texts = [
        "",
        " ",
        "x",
        "x y",
        "UPPER",
        "a.b_c:d/e",
        "-x",
        "x.error",
        "\u{0}",
        "a\nb",
        "\u{200b}",
        "\u{feff}",
        "\u{85}",
        "é",
        "o-7",
        "o-007",
        "o-99999999999999999999",
        "h-1",
        "p-1",
        "r-1",
        "r-01",
        "2018-02-30T00:00:00Z",
        "2018-04-05T12:00:00.5Z",
        "2018-04-05T24:00:00Z",
        "2018-04-05t12:00:00z",
        "2018-04-05T12:00:60Z",
        "9999-12-31T23:59:59Z",
        "1",
        "-1",
        "0",
        "-0",
        "0.0",
        "0.5",
        "1.0",
        "1.5",
        "01",
        "+1",
        "1.",
        ".5",
        "1e3",
        "123456789012",
        "1234567890123",
        "0.1234567890",
        "0.12345678901",
        "null",
        "GET",
        "get",
        "ann@example.com",
        "a@b@c.d",
        "ann@localhost",
        " ann@example.com",
        "/x",
        "/a//b",
        "/../x",
        "/%2f",
        "/%zz",
        "x?y",
        "https",
    ];
    let mut others: Vec<Value> = texts.iter().map(|text| json!(text)).collect();
    others.extend([16, 32, 64].map(|digits| json!("0123456789abcdef".repeat(digits / 16))));
    others.push(json!("A".repeat(64)));
    others.extend([33, 65, 129, 201, 256, 501, 513, 1001, 2049].map(|bytes| json!("x".repeat(bytes))));
    others.push(json!("é".repeat(260)));
    others.push(json!("é".repeat(1100)));
    others.extend([
        json!(null),
        json!(true),
        json!(false),
        json!([]),
        json!({}),
        json!([1]),
        json!(["x"]),
        json!([null]),
    ]);
    others.extend([
        json!({"x": 1}),
        json!({"Host": "x"}),
        json!({"principal": "x", "symbol": "y"}),
        json!({"x": "\n"}),
    ]);
    others.extend([
        json!(0),
        json!(1),
        json!(-1),
        json!(7),
        json!(100_000),
        json!(4_294_967_296_u64),
        json!(u64::MAX),
    ]);
    others.extend([
        json!(i64::MIN),
        json!(0.5),
        json!(1.0),
        json!(1.5),
        json!(-0.0),
        json!(1e30),
        json!(0.123_456_789_01),
    ]);
    others.extend([
        json!(999_999_999_999_u64),
        json!(1_000_000_000_000_u64),
        json!(0.99),
        json!(-0.99),
        json!(1.000_1),
    ]);
    others
}

/// Every value that differs from this one in one place.
fn mutants(value: &Value) -> Vec<Value> {
    let mut found = others();
    match value {
        Value::Object(members) => {
            let with = |key: &str, other: Option<Value>| {
                let mut changed: Map<String, Value> = members.clone();
                match other {
                    Some(other) => drop(changed.insert(key.to_owned(), other)),
                    None => drop(changed.remove(key)),
                }
                Value::Object(changed)
            };
            found.push(with("zz_unknown", Some(json!(1))));
            for (key, inner) in members {
                found.push(with(key, None));
                found.extend(mutants(inner).into_iter().map(|other| with(key, Some(other))));
            }
        }
        Value::Array(items) => {
            let repeated = |times: usize| {
                Value::Array(items.iter().cycle().take(items.len() * times).cloned().collect())
            };
            found.extend([repeated(2), repeated(300)]);
            for (nth, inner) in items.iter().enumerate().take(2) {
                found.extend(mutants(inner).into_iter().map(|other| {
                    let mut changed = items.clone();
                    changed[nth] = other;
                    Value::Array(changed)
                }));
            }
        }
        _ => {}
    }
    found
}

/// Beginnings of what readers say where a condition that no schema has is not met.
const SAID: &[(&str, &[&str])] = &[
    ("digits", &["is not an amount"]),
    ("whole", &["invalid type: floating point", "must be a whole number"]),
    ("calendar", &["is no instant of the calendar", "must be a time of the form"]),
    (
        "line",
        &["is not a order id", "is not a proposal id", "is named as `h-12`", "is not `r-` and a line number"],
    ),
    ("price", &["takes no `price`", "needs `price`", "needs `stop_price`"]),
    ("control", &["needs `target_strategy_id`", "needs `risk_mode`"]),
    ("rows", &["it brings"]),
    ("report", &["exec_type `"]),
    ("recipients", &["addresses together"]),
    ("recipient", &["a mail that is sent needs a recipient"]),
    ("address", &["must be one bare mail address"]),
    ("period", &["must be after"]),
    ("endpoint", &["`endpoint` must", "`endpoint` has a `%`"]),
    ("headers", &["`headers` must not have", "twice, but for case or `_`"]),
    ("seen", &["must be one line", "not seen"]),
    (
        "service",
        &[
            "one whole host name",
            "is a wildcard",
            "in another form",
            "`host`",
            "letters",
            "a host alone",
            "neither methods nor actions",
            "stands twice",
        ],
    ),
    ("bytes", &[" bytes"]),
];

/// The condition of this schema that a refusal is about.
fn condition(name: &str, why: &str) -> Option<&'static str> {
    let of = schemas::conditions(name);
    SAID.iter()
        .filter(|(condition, _)| of.iter().any(|known| known.name == *condition))
        .find(|(_, words)| words.iter().any(|words| why.contains(words)))
        .map(|(condition, _)| *condition)
}

#[test]
fn schemas_refuse_nothing_that_is_taken_and_name_what_they_let_pass() {
    let mut seen = BTreeSet::new();
    let mut faults = BTreeSet::new();
    let mut tried = 0;
    for (action, payloads) in taken() {
        let judge = judge(action);
        for payload in payloads.iter().rev().take(6) {
            for mutant in mutants(payload) {
                tried += 1;
                let text = mutant.to_string();
                match (judge.is_valid(&mutant), reader(action, &text)) {
                    (true, Ok(())) | (false, Err(_)) => {}
                    (false, Ok(())) if is_list_for_object(&judge, &mutant) => {}
                    (false, Ok(())) => {
                        let why: Vec<String> =
                            judge.iter_errors(&mutant).map(|error| error.to_string()).collect();
                        let text: String = text.chars().take(300).collect();
                        faults.insert(format!("{action}: taken, but not valid: {text}: {why:?}"));
                    }
                    (true, Err(why)) => match condition(action, &why) {
                        Some(condition) => drop(seen.insert((action, condition))),
                        None => drop(faults.insert(format!("{action}: valid, but {why}"))),
                    },
                }
            }
        }
    }
    assert!(
        faults.is_empty(),
        "{} faults:\n{}",
        faults.len(),
        faults.into_iter().collect::<Vec<_>>().join("\n")
    );
    assert!(tried > 20_000, "only {tried} payloads were tried");
    // A condition that nothing is ever refused for would be a promise about nothing.
    for rule in ACTIONS {
        for condition in schemas::conditions(rule.name) {
            assert!(
                seen.contains(&(rule.name, condition.name)),
                "{}: `{}` is never said",
                rule.name,
                condition.name
            );
        }
    }
}
