//! JSON Schemas against the real readers: an independent validator, over every kept payload, over
//! mutations of them, over the demo's answers and over the rule files. What a schema refuses, the
//! reader refuses; what the reader refuses in addition is on the short list in the schema's own
//! description.

mod answers;
mod payloads;
mod rule_files;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use jsonschema::Validator;
use serde_json::{Map, Value, json};
use spoolgate_gate::actions::{self, markdown, rows};
use spoolgate_gate::prepare::Authentic;
use spoolgate_gate::schemas;
use spoolgate_rules::admission::Policy;
use spoolgate_rules::approval::{self, Approval};
use spoolgate_rules::bundle::Bundle;
use spoolgate_rules::gateway::Gateway;
use spoolgate_rules::notify::Notify;
use spoolgate_rules::rates::Rates;
use spoolgate_rules::retention::Retention;
use spoolgate_rules::roles::Roles;
use spoolgate_rules::rule::set::NamedSet;
use spoolgate_rules::services::Services;
use spoolgate_rules::{Rulebook, golden};
use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::admission::AdmissionAttempt;
use spoolgate_wire::control::ControlAttempt;
use spoolgate_wire::envelope::Envelope;
use spoolgate_wire::sshsig::Signers;

fn root(below: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(below)
}

fn judge(name: &str) -> Validator {
    let schema = schemas::schema(name).unwrap_or_else(|| panic!("no schema `{name}`"));
    jsonschema::validator_for(&schema).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns whether the gate accepts a payload.
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

/// Returns payloads that were kept because they matter: those that the fuzzer found, and those that
/// it started from.
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

/// Further payloads, so that every action has one.
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
        "venue.snapshot",
        r#"{"run":"r","taken_at":"2018-04-05T12:00:00Z","after_exec":null,"balances":[{"currency":"BTC","total":"1","available":0}],"positions":[{"symbol":"BTC-USD","size":"-1"}],"orders":[{"order_id":"o-1","version":1,"cum_qty":"0","size":"1","price":null,"trigger":"2"}],"foreign":[{"venue_id":"x","symbol":"BTC-USD","side":"buy","size":"1"}]}"#,
    ),
    (
        "venue.snapshot",
        r#"{"run":"r","taken_at":"2018-04-05T12:00:00Z","after_exec":"e","balances":[],"positions":[],"orders":[],"foreign":[]}"#,
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
    ("halt.clear", r#"{"scope":{"bridge":"b"},"reason":"r"}"#),
    (
        "halt.set",
        r#"{"strategy":"trend","keep_orders":true,"reason":"r"}"#,
    ),
    ("halt.set", r#"{"symbol":"S","reason":"r"}"#),
    ("halt.set", r#"{"bridge":"b","reason":"r"}"#),
    ("order.cancel", r#"{"order_id":"o-1","reason":"r"}"#),
    (
        "position.close",
        r#"{"strategy":"trend","symbol":"S","size":"1","reason":"r"}"#,
    ),
    (
        "position.adjust",
        r#"{"strategy":"trend","symbol":"S","size":"-0.0001","price":"6795","reason":"r"}"#,
    ),
    (
        "venue.report",
        r#"{"order_id":"o-1","exec_type":"trade","exec_id":"E","transact_time":"2018-04-05T12:00:00Z","cum_qty":"1","last_qty":"1","last_px":"2","fee":"0.1","fee_currency":"BNB","fee_value":"0.3","liquidity":"maker"}"#,
    ),
    (
        "venue.assume",
        r#"{"order_id":"o-1","state":"gone","filled":"1","px":"2","fee":"-1","reason":"r"}"#,
    ),
    (
        "limits.override",
        r#"{"limit":"max_daily_loss","value":"1","until":"2026-02-20T14:42:00Z","reason":"r"}"#,
    ),
    ("limits.end", r#"{"limit":"max_daily_turnover"}"#),
    ("limits.end", r#"{"limit":"max_weekly_loss","reason":"r"}"#),
    (
        "proposal.approve",
        r#"{"id":"p-1","sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}"#,
    ),
    ("admission.cache_invalidate", r#"{"policy_profile_id":"p"}"#),
    (
        "admission.settle",
        r#"{"receipt_id":"r-4","spent":{"usd":"0.10","tokens":1800}}"#,
    ),
    ("strategies.get", r#"{"strategy_id":"s"}"#),
];

/// Returns payloads that their readers accept, each once, by action.
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

/// Returns the replacements for every place of a payload.
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

/// Returns every value that differs from this one in one place.
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

/// Beginnings of the readers' messages for conditions that no schema has.
const SAID: &[(&str, &[&str])] = &[
    ("digits", &["is not an amount", "a text of its digits"]),
    (
        "whole",
        &[
            "expected a whole number",
            "invalid type: floating point",
            "must be a whole number",
        ],
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
            "is not an order id",
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
    ("scope", &["exclude each other"]),
    ("rows", &["the payload has"]),
    ("report", &["`fee_value`", "exec_type `"]),
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
            "appears twice",
            "xxxxxxxxxx",
            "éééééééééé",
        ],
    ),
    ("bytes", &[" bytes"]),
    // Rule files.
    (
        "roster",
        &[
            "is not the name of a role",
            "printable characters",
            "which is not in `roles`",
            "which is not required",
            "two roles are called",
            "weights: ",
            "axis_floor: ",
            "text: it needs",
            "appears twice",
            "a word without letters",
            "has two floors",
            "no required role has it",
            "another role is computed",
            "there is no artifact",
            "it needs reject_below",
            "twice",
        ],
    ),
    ("evidence", &["evidence: ", "`evidence."]),
    (
        "command",
        &[
            "`program` is empty",
            "time_limit_s` is",
            "output_bytes_max` is",
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
            "appears twice",
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
        "areas",
        &[
            "is not the path of",
            "never applies",
            "the last area",
            "no usable key",
            "twice",
            "`need` is",
        ],
    ),
    (
        "entries",
        &["cannot be compared with anything", "appears twice"],
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
            "`name` is empty",
            "an earlier case has the same name",
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

/// Returns the condition of this schema that a refusal is about.
fn condition(name: &str, why: &str) -> Option<&'static str> {
    let of = schemas::conditions(name);
    SAID.iter()
        .filter(|(condition, _)| of.iter().any(|known| known.name == *condition))
        .find(|(_, words)| words.iter().any(|words| why.contains(words)))
        .map(|(condition, _)| *condition)
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
fn the_command_writes_the_committed_files() {
    let (folder, scratch) = (root("examples/schemas"), crate::kit::folder());
    let done = program(&["schema", "--all", "--out", scratch.path().to_str().unwrap()]);
    assert!(done.status.success(), "{done:?}");
    let files = |folder: &Path| -> BTreeMap<PathBuf, Vec<u8>> {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
        entries
            .map(|entry| (entry.file_name().into(), fs::read(entry.path()).unwrap()))
            .collect()
    };
    let (committed, written) = (files(&folder), files(scratch.path()));
    let names = |files: &BTreeMap<PathBuf, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&committed), names(&written));
    assert!(
        committed == written,
        "the program was built from other files"
    );
}

fn program(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_spoolgate"))
        .args(args)
        .output()
        .unwrap()
}

/// Visits every schema below this one, with its place.
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

/// Objects whose content is defined elsewhere.
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
    let names: Vec<&str> = schemas::names().collect();
    assert!(
        names.is_sorted() && names.len() > 100,
        "{} names",
        names.len()
    );
    for name in names {
        let schema = schemas::schema(name).unwrap();
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
        // Hosts of tools refuse alternatives at the top of an input schema.
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
    assert!(list.lines().eq(schemas::names()));
    for (wrong, near) in [
        ("order.sbmit", "`order.submit`"),
        ("safety", "`rules.safety`"),
        ("roles.yaml", "`council.roles`"),
    ] {
        let done = program(&["schema", wrong]);
        let said = String::from_utf8(done.stderr).unwrap();
        assert!(
            !done.status.success() && said.contains(&format!("schema `{wrong}` does not exist")),
            "{said}"
        );
        assert!(said.contains(near), "{said}");
    }
    let said = String::from_utf8(program(&["schema", "zzzzzzzzzz"]).stderr).unwrap();
    assert!(
        said.contains("`spoolgate schema --list` shows all names"),
        "{said}"
    );
}

/// Returns all files below a folder.
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

/// The schema of a home takes the rules that the home takes, and no field, operator or name that it
/// lacks.
#[test]
fn the_schema_of_a_home_knows_its_names() {
    let scratch = crate::kit::Scratch::new();
    let home = scratch.home();
    let told = program(&[
        "--home",
        home.to_str().unwrap(),
        "schema",
        "rules.rule",
        "--of-home",
    ]);
    assert!(
        told.status.success(),
        "{}",
        String::from_utf8_lossy(&told.stderr)
    );
    let schema: Value = serde_json::from_slice(&told.stdout).unwrap();
    let judge = jsonschema::validator_for(&schema).unwrap();
    let rule = |condition: &str| -> Value {
        let text = format!(
            "id: r\nstatus: active\napplies_to: {{action: order.submit, strategy: [trend]}}\nwhen: \
                [{condition}]\nthen: reject\nmessage: no\n"
        );
        serde_yaml::from_str(&text).unwrap()
    };
    for good in [
        "{field: order.symbol, op: eq, value: BTC-USD}",
        "{field: order.symbol, op: in, value: [BTC-USD]}",
        "{field: order.size, op: gt, value: \"0.5\"}",
        "{field: history.count, window_s: 60, op: gte, value: 3}",
        "{field: order.side, op: neq, value: buy}",
        "{field: order.target_price, op: absent}",
        "{field: \"payload.to[]\", op: first_seen}",
    ] {
        assert!(
            judge.is_valid(&rule(good)),
            "{good}: {:?}",
            judge.validate(&rule(good))
        );
    }
    for bad in [
        "{field: order.symbol, op: eq, value: btc-usd}",
        "{field: order.sise, op: gt, value: 1}",
        "{field: order.side, op: gt, value: buy}",
        "{field: order.side, op: eq, value: long}",
        "{field: order.size, op: matches, value: \"1\"}",
    ] {
        assert!(!judge.is_valid(&rule(bad)), "{bad}");
    }
    let mut other = rule("{field: order.size, op: gt, value: 1}");
    other["applies_to"]["strategy"][0] = json!("trendd");
    assert!(!judge.is_valid(&other));
    for path in below(&home.join("rules/core"))
        .into_iter()
        .chain(below(&home.join("rules/active")))
    {
        let text = fs::read_to_string(&path).unwrap();
        let read: Value = serde_yaml::from_str(&text).unwrap();
        assert!(judge.is_valid(&read), "{}", path.display());
    }
}
