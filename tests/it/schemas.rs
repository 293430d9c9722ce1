//! JSON Schemas against what really reads: a judge of another make, over every kept payload, over
//! mutations of them, over the demo's answers and over the rule files. What a schema refuses, the
//! reader refuses; what the reader refuses besides is on the short list of the schema's own
//! description.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use jsonschema::Validator;
use serde_json::{Map, Value, json};
use spoolgate_gate::actions::{markdown, rows};
use spoolgate_gate::prepare::Authentic;
use spoolgate_gate::schemas;
use spoolgate_rules::admission::Policy;
use spoolgate_rules::bundle::Bundle;
use spoolgate_rules::gateway::Gateway;
use spoolgate_rules::notify::Notify;
use spoolgate_rules::rates::Rates;
use spoolgate_rules::roles::Roles;
use spoolgate_rules::rule::set::NamedSet;
use spoolgate_rules::services::Services;
use spoolgate_rules::{Rulebook, golden};
use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::admission::AdmissionAttempt;
use spoolgate_wire::control::ControlAttempt;
use spoolgate_wire::envelope::Envelope;

fn root(below: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(below)
}

fn judge(name: &str) -> Validator {
    let schema = schemas::schema(name).unwrap_or_else(|| panic!("no schema `{name}`"));
    jsonschema::validator_for(&schema).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// What the gate makes of a payload.
fn reader(action: &str, payload: &str) -> Result<(), String> {
    let file = format!(
        r#"{{"id":"r","timestamp":"2018-04-05T12:00:00Z","action":"{action}","payload":{payload},"source":"s","signature":"0"}}"#
    );
    let envelope = Envelope::parse(file.as_bytes()).map_err(|error| error.to_string())?;
    let body = Authentic::unsigned(envelope)
        .body
        .map_err(|refusal| refusal.message)?;
    if let Some(attempt) = body.payload::<ControlAttempt>() {
        let read = attempt.decision.clone().map(drop);
        return read.map_err(|error| error.to_string());
    }
    let Some(attempt) = body.payload::<AdmissionAttempt>() else {
        return Ok(());
    };
    let read = attempt.body.clone().map(drop);
    read.map_err(|error| error.to_string())
}

/// Payloads that were kept because they were found to matter: the fuzzer's, and those that it
/// started from.
fn kept() -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root("fuzz/corpus/payload")).unwrap() {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        let Some((action, payload)) = bytes.split_first() else {
            continue;
        };
        let Ok(payload) = std::str::from_utf8(payload) else {
            continue;
        };
        found.push((
            ActionName::ALL[usize::from(*action) % ActionName::ALL.len()].as_str(),
            payload.to_owned(),
        ));
    }
    assert!(found.len() > 400, "only {} payloads are kept", found.len());
    found
}

/// Payloads besides, so that every action has one.
const MORE: &[(&str, &str)] = &[
    (
        "request.check",
        r#"{"action":"order.cancel","payload":{"order_id":"o-1"}}"#,
    ),
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
    (
        "services.credential",
        r#"{"service":"mail","credential_id":"0123456789abcdef0123456789abcdef"}"#,
    ),
    (
        "approval.grant",
        r#"{"id":"h-1","request_sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","reason":"r","remember":true}"#,
    ),
    (
        "approval.deny",
        r#"{"id":"h-1","request_sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","reason":"r"}"#,
    ),
    (
        "grant.add",
        r#"{"set":"s","value":"v","task":"research/t-1","expires_at":"2018-04-05T12:00:00Z"}"#,
    ),
    (
        "grant.end",
        r#"{"set":"s","value":"v","task":"research/t-1"}"#,
    ),
    (
        "keys.add",
        r#"{"principal":"bot","key_id":"0123456789abcdef","algorithm":"ed25519"}"#,
    ),
    (
        "keys.rotate",
        r#"{"principal":"bot","key_id":"0123456789abcdef","algorithm":"hmac-sha256","others_end":"2018-04-05T12:00:00Z"}"#,
    ),
    (
        "email.draft",
        r#"{"to":["ann@example.com"],"subject":"s","body":"b"}"#,
    ),
    (
        "calendar.fetch",
        r#"{"calendarId":"c","startDate":"2018-04-05T00:00:00Z","endDate":"2018-04-06T00:00:00Z"}"#,
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
    let more = MORE
        .iter()
        .map(|(action, payload)| (*action, (*payload).to_owned()));
    // An action without fields takes the empty object.
    let bare = rows()
        .filter(|row| row.payload == "(none)")
        .map(|row| (row.name.as_str(), "{}".to_owned()));
    for (action, payload) in kept().into_iter().chain(more).chain(bare) {
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
    for rule in rows() {
        let judge = judge(rule.name.as_str());
        let payloads = taken
            .get(rule.name.as_str())
            .unwrap_or_else(|| panic!("no payload of `{}` is taken", rule.name));
        for payload in payloads {
            let faults: Vec<String> = judge
                .iter_errors(payload)
                .map(|error| error.to_string())
                .collect();
            assert!(faults.is_empty(), "{}: {payload}: {faults:?}", rule.name);
        }
    }
}

/// What every place of a payload is replaced by.
#[expect(clippy::too_many_lines, reason = "a table of cases")]
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
        "h-99999999999999999999",
        "p-99999999999999999999",
        "r-99999999999999999999",
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
    others.extend(
        [33, 65, 129, 201, 256, 501, 513, 1001, 2049].map(|bytes| json!("x".repeat(bytes))),
    );
    others.extend([120, 150, 260, 600].map(|chars| json!("é".repeat(chars))));
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
                found.extend(
                    mutants(inner)
                        .into_iter()
                        .map(|other| with(key, Some(other))),
                );
            }
        }
        Value::Array(items) => {
            let repeated = |times: usize| {
                Value::Array(
                    items
                        .iter()
                        .cycle()
                        .take(items.len() * times)
                        .cloned()
                        .collect(),
                )
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

/// What no change in one place makes: it is valid, and what it lacks is a matter of several
/// members.
fn crossed() -> Vec<(&'static str, Value)> {
    let people = vec!["ann@example.com"; 150];
    let mail = json!({"to": people, "cc": people, "subject": "s", "body": "b"});
    let event = json!({"title": "t", "startTime": "2018-04-06T00:00:00Z", "endTime": "2018-04-05T00:00:00Z"});
    let bar = json!({"open_time": "2018-04-05T00:00:00Z", "interval_s": 60, "open": 1, "high": 1, "low": 1, "close": 1});
    let quote = json!({"time": "2018-04-05T00:00:00Z", "bid": 1, "ask": 2});
    vec![
        ("email.send", json!({"to": [], "subject": "s", "body": "b"})),
        ("email.send", mail.clone()),
        ("email.draft", mail),
        (
            "calendar.fetch",
            json!({"startDate": "2018-04-06T00:00:00Z", "endDate": "2018-04-05T00:00:00Z"}),
        ),
        ("calendar.create", event.clone()),
        ("calendar.update", event),
        ("market.update", json!({"symbol": "S"})),
        (
            "market.update",
            json!({"symbol": "S", "bars": vec![bar; 200], "quotes": vec![quote; 200]}),
        ),
    ]
}

/// Beginnings of what readers say where a condition that no schema has is not met.
const SAID: &[(&str, &[&str])] = &[
    ("digits", &["is not an amount"]),
    (
        "whole",
        &["invalid type: floating point", "must be a whole number"],
    ),
    (
        "calendar",
        &[
            "is not a time of the calendar",
            "must be a time of the form",
        ],
    ),
    (
        "line",
        &[
            "is not a order id",
            "is not a proposal id",
            "has the form `h-12`",
            "must be `r-` and a line number",
        ],
    ),
    (
        "price",
        &["takes no `price`", "needs `price`", "needs `stop_price`"],
    ),
    (
        "control",
        &["needs `target_strategy_id`", "needs `risk_mode`"],
    ),
    ("rows", &["the payload has"]),
    ("report", &["exec_type `"]),
    ("recipients", &["addresses together"]),
    ("recipient", &["a mail that is sent needs a recipient"]),
    ("address", &["must be one bare mail address"]),
    ("period", &["must be after"]),
    ("endpoint", &["`endpoint` must", "`endpoint` has a `%`"]),
    (
        "headers",
        &[
            "`headers` must not have",
            "twice: case and `_` do not count",
        ],
    ),
    ("seen", &["must be one line", "invisible"]),
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
            "xxxxxxxxxx",
            "éééééééééé",
        ],
    ),
    ("bytes", &[" bytes"]),
    // Rule files.
    (
        "roster",
        &[
            "is no name of a role",
            "printable characters",
            "which is not in `roles`",
            "which is not required",
            "two roles are called",
            "weights: ",
            "axis_floor: ",
            "text: it needs",
            "stands twice",
            "a word without letters",
            "has two floors",
            "no required role has it",
            "another role is computed",
            "there is no artifact",
            "it needs reject_below",
            "twice",
        ],
    ),
    ("evidence", &["evidence: "]),
    (
        "command",
        &[
            "`program` is empty",
            "`time_limit_s` is",
            "`output_bytes_max` is",
        ],
    ),
    (
        "together",
        &[
            "need each other",
            "is for the answer of a `policy_command`",
            "`policy_version` is longer",
        ],
    ),
    ("adapters", &["`exec` has a `command`", "has two adapters"]),
    ("bridge", &["`bridge`", "`group` is empty"]),
    (
        "once",
        &[
            "stands twice",
            "stand twice",
            "twice",
            "is the host of service",
            "go to two active",
            "goes to two active",
        ],
    ),
    (
        "role",
        &[
            "may own no strategies",
            "asks for nothing",
            "decides on no concern",
            "has no tasks",
            "speaks for no",
        ],
    ),
    ("meaning", &["condition on `", "`message` is"]),
    ("window", &["`restricted` from"]),
    (
        "entries",
        &["cannot be compared with anything", "stands twice"],
    ),
    (
        "strategy",
        &[
            "make a concern together",
            "stop_distance needs",
            "`degraded` gives",
            "active on `",
            "strategy_id `",
        ],
    ),
    (
        "cases",
        &[
            "a case has a name",
            "a case of this name",
            "there is no such field",
            "`rules` names a rule twice",
            "goes with `rules: []`",
        ],
    ),
    (
        "file",
        &[
            "must be the same",
            "must agree",
            "which has no file",
            "is not in rules/",
            "is that of no strategy file",
            "is not a principal",
            "has no spool of its own",
            "is no thesis",
            "no rule file",
        ],
    ),
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
                    (false, Ok(())) => {
                        let why: Vec<String> = judge
                            .iter_errors(&mutant)
                            .map(|error| error.to_string())
                            .collect();
                        let text: String = text.chars().take(300).collect();
                        faults.insert(format!("{action}: taken, but not valid: {text}: {why:?}"));
                    }
                    (true, Err(why)) => match condition(action, &why) {
                        Some(condition) => drop(seen.insert((action, condition))),
                        None => {
                            let end: String = why
                                .chars()
                                .skip(why.chars().count().saturating_sub(300))
                                .collect();
                            faults.insert(format!("{action}: valid, but {end}"));
                        }
                    },
                }
            }
        }
    }
    for (action, payload) in crossed() {
        assert!(judge(action).is_valid(&payload), "{action}: {payload}");
        let why = reader(action, &payload.to_string()).unwrap_err();
        let condition =
            condition(action, &why).unwrap_or_else(|| panic!("{action}: valid, but {why}"));
        seen.insert((action, condition));
    }
    assert!(
        faults.is_empty(),
        "{} faults:\n{}",
        faults.len(),
        faults.into_iter().collect::<Vec<_>>().join("\n")
    );
    assert!(tried > 20_000, "only {tried} payloads were tried");
    // A condition that nothing is ever refused for would be a promise about nothing.
    let named = ActionName::ALL
        .into_iter()
        .map(ActionName::as_str)
        .flat_map(|action| {
            schemas::conditions(action)
                .into_iter()
                .map(move |condition| (action, condition.name))
        });
    let unsaid: Vec<(&str, &str)> = named.filter(|named| !seen.contains(named)).collect();
    assert!(unsaid.is_empty(), "never said: {unsaid:?}");
}

/// With `UPDATE_DOCS=1` the test writes the table instead.
#[test]
fn the_table_of_actions_in_the_docs_is_that_of_the_program() {
    let path = root("docs/contracts.md");
    let (docs, table) = (fs::read_to_string(&path).unwrap(), markdown());
    let start = docs.find(table.lines().next().unwrap()).unwrap();
    let end = start + docs[start..].find("\n\n").unwrap() + 1;
    let made = [&docs[..start], &table, &docs[end..]].concat();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        return fs::write(&path, &made).unwrap();
    }
    assert!(
        docs == made,
        "docs/contracts.md should hold (UPDATE_DOCS=1 writes it):\n{table}"
    );
}

#[test]
fn the_committed_files_are_what_the_command_writes() {
    let folder = root("examples/schemas");
    let again = "run `spoolgate schema --all --out examples/schemas` and commit what it writes";
    let mut known = BTreeSet::new();
    for name in schemas::names() {
        let path = folder.join(format!("{name}.json"));
        let text = fs::read_to_string(&path)
            .unwrap_or_else(|_| panic!("{} is missing: {again}", path.display()));
        let schema = schemas::schema(&name).unwrap();
        assert_eq!(
            text,
            format!("{}\n", serde_json::to_string_pretty(&schema).unwrap()),
            "{name}: {again}"
        );
        known.insert(format!("{name}.json"));
    }
    for entry in fs::read_dir(&folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(
            known.contains(&name),
            "{name} is a schema of nothing; remove it"
        );
    }
    let scratch = tempfile::tempdir().unwrap();
    let done = program(&["schema", "--all", "--out", scratch.path().to_str().unwrap()]);
    assert!(done.status.success(), "{done:?}");
    for name in &known {
        let (here, there) = (
            fs::read(folder.join(name)).unwrap(),
            fs::read(scratch.path().join(name)).unwrap(),
        );
        assert!(here == there, "{name}: {again}");
    }
}

fn program(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_spoolgate"))
        .args(args)
        .output()
        .unwrap()
}

/// Every schema below this one, with its place.
fn each(schema: &Value, place: &str, visit: &mut dyn FnMut(&str, &Map<String, Value>)) {
    match schema {
        Value::Object(members) => {
            visit(place, members);
            for (key, inner) in members {
                if !matches!(key.as_str(), "default" | "const" | "enum" | "examples") {
                    each(inner, &format!("{place}/{key}"), visit);
                }
            }
        }
        Value::Array(items) => {
            for (nth, inner) in items.iter().enumerate() {
                each(inner, &format!("{place}/{nth}"), visit);
            }
        }
        _ => {}
    }
}

/// Objects of which others say what is in them.
const OPEN: [(&str, &str); 4] = [
    (
        "admission.evaluate",
        "/properties/envelope/properties/payload",
    ),
    ("admission.admit", "/properties/envelope/properties/payload"),
    ("admission.check", "/properties/envelope/properties/payload"),
    ("request", "/properties/envelope/properties/payload"),
];

#[test]
fn schemas_are_sound_closed_and_described() {
    let names = schemas::names();
    assert!(
        names.is_sorted() && names.len() > 100,
        "{} names",
        names.len()
    );
    for name in names {
        let schema = schemas::schema(&name).unwrap();
        assert!(
            jsonschema::meta::is_valid(&schema),
            "{name} is no JSON Schema"
        );
        assert_eq!(
            schema["$schema"], "https://json-schema.org/draft/2020-12/schema",
            "{name}"
        );
        assert_eq!(
            schema["$id"],
            format!("https://spoolgate.invalid/schemas/{name}.json")
        );
        assert_eq!(schema["title"], name);
        assert!(
            schema["description"]
                .as_str()
                .is_some_and(|text| text.len() > 20),
            "{name}"
        );
        // Hosts of tools refuse choices at the top of an input schema.
        if name.parse::<ActionName>().is_ok() {
            for key in ["oneOf", "anyOf", "allOf", "not", "$ref", "$defs"] {
                assert!(schema.get(key).is_none(), "{name} has `{key}` at its top");
            }
            assert_eq!(schema["type"], "object", "{name}");
        }
        each(&schema, "", &mut |place, members| {
            if let Some(properties) = members.get("properties").and_then(Value::as_object)
                && members.contains_key("type")
            {
                let is_open = OPEN
                    .iter()
                    .any(|(of, end)| *of == name && place.ends_with(end));
                assert!(
                    is_open || members["additionalProperties"] == false,
                    "{name}{place} is open"
                );
                for (key, property) in properties {
                    let about = property
                        .get("description")
                        .and_then(Value::as_str)
                        .unwrap_or_default();
                    assert!(!about.is_empty(), "{name}{place}: `{key}` is not described");
                }
            }
        });
    }
    assert_eq!(schemas::schema("order.sbmit"), None);
}

#[test]
fn the_command_names_what_is_near() {
    let one = program(&["schema", "order.submit"]);
    assert_eq!(
        String::from_utf8(one.stdout).unwrap(),
        fs::read_to_string(root("examples/schemas/order.submit.json")).unwrap()
    );
    let list = String::from_utf8(program(&["schema", "--list"]).stdout).unwrap();
    assert_eq!(list.lines().collect::<Vec<_>>(), schemas::names());
    for (wrong, near) in [
        ("order.sbmit", "`order.submit`"),
        ("safety", "`rules.safety`"),
        ("roles.yaml", "`council.roles`"),
    ] {
        let done = program(&["schema", wrong]);
        let said = String::from_utf8(done.stderr).unwrap();
        assert!(
            !done.status.success() && said.contains(&format!("there is no schema `{wrong}`")),
            "{said}"
        );
        assert!(said.contains(near), "{said}");
    }
    let said = String::from_utf8(program(&["schema", "zzzzzzzzzz"]).stderr).unwrap();
    assert!(
        said.contains("`spoolgate schema --list` has all names"),
        "{said}"
    );
}

/// All files below a folder.
fn below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(below(&path))
        } else {
            found.push(path)
        }
    }
    found
}

#[test]
fn every_answer_of_the_demo_is_valid() {
    let scratch = tempfile::tempdir().unwrap();
    let home = scratch.path().join("home");
    let done = program(&["--format", "json", "demo", home.to_str().unwrap()]);
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    let told: Value = serde_json::from_slice(&done.stdout).unwrap();
    let mut answers = told["decisions"].as_array().unwrap().clone();
    for path in below(&home.join("spool")) {
        if path.components().any(|part| part.as_os_str() == "out")
            && let Ok(answer) = serde_json::from_slice::<Value>(&fs::read(&path).unwrap())
            && answer.get("auditRef").is_some()
        {
            answers.push(answer);
        }
    }
    let mut actions: BTreeMap<String, String> = BTreeMap::new();
    for path in below(&home.join("audit"))
        .iter()
        .filter(|path| path.extension().is_some_and(|it| it == "jsonl"))
    {
        for line in fs::read_to_string(path).unwrap().lines() {
            let Ok(line) = serde_json::from_str::<Value>(line) else {
                continue;
            };
            if let (Some(id), Some(action)) = (line["id"].as_str(), line["action"].as_str()) {
                actions.insert(id.to_owned(), action.to_owned());
            }
        }
    }
    let whole = judge("answer");
    let mut seen = BTreeSet::new();
    for answer in &answers {
        let faults: Vec<String> = whole
            .iter_errors(answer)
            .map(|error| error.to_string())
            .collect();
        assert!(faults.is_empty(), "{answer}: {faults:?}");
        let (Some(action), Some(data)) = (
            actions.get(answer["auditRef"].as_str().unwrap()),
            answer.get("data"),
        ) else {
            continue;
        };
        let judge = judge(&format!("{action}.answer"));
        let faults: Vec<String> = judge
            .iter_errors(data)
            .map(|error| error.to_string())
            .collect();
        assert!(faults.is_empty(), "{action}: {data}: {faults:?}");
        seen.insert(action.clone());
        // What a judge takes of everything says nothing.
        let mut other = data.clone();
        if let Some(members) = other.as_object_mut() {
            members.insert("zz_unknown".to_owned(), json!(1));
        }
        assert!(!judge.is_valid(&other), "{action}: {other}");
    }
    assert!(
        answers.len() > 55 && seen.len() >= 10,
        "{} answers to {seen:?}",
        answers.len()
    );
}

/// The schema that the first line of a YAML file names.
fn header(path: &Path) -> Option<PathBuf> {
    let text = fs::read_to_string(path).unwrap();
    let named = text
        .lines()
        .next()?
        .strip_prefix("# yaml-language-server: $schema=")?;
    Some(path.parent().unwrap().join(named))
}

fn check_headers(root: &Path, folders: &[&str], least: usize) {
    let files = folders.iter().flat_map(|folder| below(&root.join(folder)));
    let yaml: Vec<PathBuf> = files
        .filter(|path| path.extension().is_some_and(|it| it == "yaml"))
        .collect();
    assert!(
        yaml.len() >= least,
        "only {} YAML files below {}",
        yaml.len(),
        root.display()
    );
    for path in yaml {
        let named = header(&path)
            .unwrap_or_else(|| panic!("{} names no schema in its first line", path.display()));
        let schema: Value = serde_json::from_slice(
            &fs::read(&named)
                .unwrap_or_else(|_| panic!("{}: there is no {}", path.display(), named.display())),
        )
        .unwrap();
        let value: Value = serde_yaml::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let judge = jsonschema::validator_for(&schema).unwrap();
        let faults: Vec<String> = judge
            .iter_errors(&value)
            .map(|error| error.to_string())
            .collect();
        assert!(faults.is_empty(), "{}: {faults:?}", path.display());
        let of = named.file_stem().unwrap().to_str().unwrap().to_owned();
        let file = path.file_stem().unwrap().to_str().unwrap();
        let is_own =
            !of.starts_with("rules.") || !schemas::names().contains(&format!("rules.{file}"));
        assert!(
            is_own || of == format!("rules.{file}"),
            "{} names the schema `{of}`",
            path.display()
        );
    }
}

#[test]
fn yaml_files_name_their_schema_and_are_valid_here_and_in_a_new_home() {
    check_headers(
        &root(""),
        &[
            "rules",
            "council",
            "examples/assistant/rules",
            "examples/proposals",
        ],
        40,
    );
    let scratch = tempfile::tempdir().unwrap();
    let home = scratch.path().join("home");
    let done = program(&["init", home.to_str().unwrap()]);
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    check_headers(&home, &["rules", "council"], 9);
    for (path, text) in theses() {
        let front = text.split("---\n").nth(1).unwrap();
        let value: Value = serde_yaml::from_str(front).unwrap();
        assert!(judge("proposals.thesis").is_valid(&value), "{path}");
    }
}

fn theses() -> Vec<(String, String)> {
    let files = below(&root("proposals/theses")).into_iter();
    files
        .map(|path| {
            (
                format!(
                    "proposals/theses/{}",
                    path.file_name().unwrap().to_str().unwrap()
                ),
                fs::read_to_string(path).unwrap(),
            )
        })
        .collect()
}

/// The rule files of this repository, by their path in a home.
fn bundle() -> BTreeMap<String, String> {
    let mut files: BTreeMap<String, String> = theses().into_iter().collect();
    for folder in ["rules", "council"] {
        for path in below(&root(folder))
            .iter()
            .filter(|path| path.extension().is_some_and(|it| it == "yaml"))
        {
            let name = path
                .strip_prefix(root(""))
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned();
            if !name.starts_with("rules/tests/") {
                files.insert(name, fs::read_to_string(path).unwrap());
            }
        }
    }
    files
}

/// What the gate makes of a rule file among the others.
fn file_reader(files: &BTreeMap<String, String>, path: &str, text: String) -> Result<(), String> {
    // Those with a reader of their own need no others; together they are far slower.
    let read = match path {
        _ if path.starts_with("rules/tests/") => {
            return golden::read(path, &text)
                .map(drop)
                .map_err(|faults| faults[0].to_string());
        }
        _ if path.starts_with("rules/sets/") => NamedSet::compile(path, &text).map(drop),
        _ if path.starts_with("rules/admission/") => Policy::read(path, &text).map(drop),
        "rules/rates.yaml" => Rates::read(path, &text).map(drop),
        "rules/notify.yaml" => Notify::read(path, &text).map(drop),
        "rules/gateway.yaml" => Gateway::read(path, &text).map(drop),
        "rules/services.yaml" => Services::read(path, &text).map(drop),
        "council/roles.yaml" => Roles::read(path, &text).map(drop),
        _ => return compiled(files, path, text),
    };
    read.map_err(|error| error.to_string())
}

fn compiled(files: &BTreeMap<String, String>, path: &str, text: String) -> Result<(), String> {
    let mut files = files.clone();
    files.insert(path.to_owned(), text);
    Rulebook::compile(&Bundle { files })
        .map(drop)
        .map_err(|error| error.to_string())
}

/// Rule files that the repository has none of, or none that says everything.
const FILES: &[(&str, &str, &str)] = &[
    (
        "rules.rates",
        "rules/rates.yaml",
        "spool: {requests_per_minute: 5, bytes_per_minute: 6, flat: {requests_per_minute: 1, \
            bytes_per_minute: 2}, principals: []}",
    ),
    (
        "rules.notify",
        "rules/notify.yaml",
        "command: {program: /bin/true, args: [a], time_limit_s: 5, output_bytes_max: 6}",
    ),
    (
        "rules.gateway",
        "rules/gateway.yaml",
        "adapters: [{actions: [email.send], adapter: exec, command: {program: p, time_limit_s: 1, \
            output_bytes_max: 1}, at_once: 2}]\nworkers: 3\nopen_max: 4\nrates: {per_hour: \
            {email.send: 3}, all_per_hour: 9}\nanomalies: {burst_max: 1, burst_window_s: 2, \
            payload_bytes_max: 3}",
    ),
    (
        "rules.services",
        "rules/services.yaml",
        "services: [{service: mail, host: smtp.example.com, port: 465, protocol: smtp, methods: \
            [GET], actions: [email.send], added_at: '2026-01-01T00:00:00Z', added_by: owner, \
            is_active: true}]",
    ),
    ("rules.safety", "rules/safety.yaml", ""),
    ("rules.principals", "rules/principals.yaml", ""),
    ("rules.instruments", "rules/instruments.yaml", ""),
    ("rules.strategy", "rules/strategies/trend.yaml", ""),
    ("rules.rule", "rules/core/worth-the-risk.yaml", ""),
    ("rules.rule", "rules/active/no-longs-into-funding.yaml", ""),
    ("rules.set", "rules/sets/majors.yaml", ""),
    ("rules.tests", "rules/tests/entries.yaml", ""),
    (
        "rules.admission",
        "rules/admission/research/agents/default.yaml",
        "",
    ),
    ("council.roles", "council/roles.yaml", ""),
];

/// The value with its fractions as texts: JSON would write small ones with an exponent.
fn in_digits(value: Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => json!(number.as_f64().unwrap().to_string()),
        Value::Array(items) => items.into_iter().map(in_digits).collect(),
        Value::Object(members) => members
            .into_iter()
            .map(|(key, inner)| (key, in_digits(inner)))
            .collect(),
        other => other,
    }
}

/// How many changes of each file are tried, about.
const TRIES: usize = 250;

/// Whether all that is wrong is that YAML's bare 7 or true stands where a text belongs: the reader
/// takes its letters.
fn is_bare(judge: &Validator, value: &Value) -> bool {
    judge.iter_errors(value).all(|error| {
        let is_scalar = matches!(
            error.instance().as_ref(),
            Value::Number(_) | Value::Bool(_) | Value::Null
        );
        is_scalar
            && (error.to_string().contains("string") || error.to_string().contains("is not one of"))
    })
}

#[test]
fn rule_files_are_refused_by_their_reader_where_their_schema_refuses_them() {
    let files = bundle();
    assert_eq!(
        Rulebook::compile(&Bundle {
            files: files.clone()
        })
        .map(drop),
        Ok(())
    );
    let mut faults = BTreeSet::new();
    let mut refused = 0;
    for (name, path, text) in FILES {
        let shipped = fs::read_to_string(root(path)).unwrap_or_default();
        let value =
            in_digits(serde_yaml::from_str(if text.is_empty() { &shipped } else { text }).unwrap());
        let judge = judge(name);
        assert!(judge.is_valid(&value), "{path}");
        assert_eq!(
            file_reader(&files, path, value.to_string()),
            Ok(()),
            "{path}"
        );
        let all = mutants(&value);
        // Every file has as many tries: the step is odd, so that no kind of change is always passed
        // over.
        let step = (all.len() / TRIES) | 1;
        for mutant in all.into_iter().step_by(step) {
            let is_valid = judge.is_valid(&mutant);
            if !is_valid && is_bare(&judge, &mutant) {
                continue;
            }
            let read = file_reader(&files, path, mutant.to_string());
            if is_valid {
                if let Err(why) = read
                    && condition(name, &why).is_none()
                {
                    let end: String = why.chars().take(200).collect();
                    faults.insert(format!("{name}: valid, but {end}"));
                }
                continue;
            }
            refused += 1;
            if read.is_ok() {
                let why: Vec<String> = judge
                    .iter_errors(&mutant)
                    .map(|error| format!("{}: {error}", error.instance_path()))
                    .collect();
                faults.insert(
                    format!("{path}: taken, but not valid: {why:?}")
                        .chars()
                        .take(400)
                        .collect::<String>(),
                );
            }
        }
    }
    assert!(
        faults.is_empty(),
        "{} faults:\n{}",
        faults.len(),
        faults.into_iter().collect::<Vec<_>>().join("\n")
    );
    assert!(refused > 1000, "only {refused} files were refused");
}
