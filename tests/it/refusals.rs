//! Refusals as repair orders: every fault of a payload at once, where an editor shows it, with a
//! value that is accepted there; and the repaired request under the same id.

mod advice;
mod killed;
mod watched;

use std::collections::BTreeSet;
use std::fs;

use crate::fuzzed::bodies::envelope::{keys, sign_key};
use crate::kit::desk::Desk;
use crate::kit::dice::Dice;
use crate::kit::place::drain;
use crate::kit::{campaign, signed};
use serde_json::{Map, Value, json};
use spoolgate_gate::actions::{self, examples::example};
use spoolgate_gate::prepare::{Authentic, Origin, prepare};
use spoolgate_gate::{Delivery, schemas};
use spoolgate_home::Home;
use spoolgate_home::batch::Outcome;
use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::code::{Code, Retry};
use spoolgate_wire::json::minify;
use spoolgate_wire::repair::{Fault, Place};
use spoolgate_wire::time::Time;

const NOW: &str = "2026-03-02T12:00:00Z";

/// Words of readers and of the language that the program is written in.
const FOREIGN: &[&str] = &[
    "i64",
    "i32",
    "u64",
    "u32",
    "u16",
    "u8",
    "usize",
    "nonzero",
    "struct",
    "expected value",
    "sequence",
    "floating point",
    "variant",
    "a map",
    "a string",
    "boolean",
];

/// A change that makes a payload invalid.
#[derive(Clone, Debug)]
enum Change {
    Remove(String),
    Add(String),
    Retype(String),
    /// Writes a value of the right type that is refused.
    Spoil(String, Value),
}

impl Change {
    fn pointer(&self) -> &str {
        match self {
            Change::Remove(pointer)
            | Change::Add(pointer)
            | Change::Retype(pointer)
            | Change::Spoil(pointer, _) => pointer,
        }
    }

    fn apply(&self, payload: &mut Value) {
        let pointer = self.pointer();
        match self {
            Change::Remove(_) => remove(payload, pointer),
            Change::Add(_) => put(payload, pointer, json!(1)),
            Change::Spoil(_, value) => put(payload, pointer, value.clone()),
            Change::Retype(_) => {
                let value = payload.pointer_mut(pointer).unwrap();
                let other = if value.is_object() {
                    json!([7])
                } else {
                    // Equal elements of a list would be a fault of the list.
                    json!({"zz": pointer})
                };
                *value = other;
            }
        }
    }
}

fn parent(pointer: &str) -> (&str, &str) {
    pointer.rsplit_once('/').unwrap()
}

fn remove(payload: &mut Value, pointer: &str) {
    let (above, name) = parent(pointer);
    match payload.pointer_mut(above) {
        Some(Value::Object(members)) => drop(members.remove(name)),
        Some(Value::Array(items)) => drop(items.remove(name.parse().unwrap())),
        other => panic!("{pointer}: {other:?}"),
    }
}

fn put(payload: &mut Value, pointer: &str, value: Value) {
    let (above, name) = parent(pointer);
    match payload.pointer_mut(above) {
        Some(Value::Object(members)) => drop(members.insert(name.to_owned(), value)),
        Some(Value::Array(items)) => items[name.parse::<usize>().unwrap()] = value,
        other => panic!("{pointer}: {other:?}"),
    }
}

/// Every change that the schema of an action refuses at one place of a payload.
fn changes(schema: &Value, value: &Value, pointer: &str, found: &mut Vec<Change>) {
    let Some(kind) = schema.get("type") else {
        return;
    };
    if !pointer.is_empty() {
        found.push(Change::Retype(pointer.to_owned()));
    }
    let allows =
        |name: &str| kind == name || kind.as_array().is_some_and(|of| of.contains(&json!(name)));
    match value {
        Value::Object(members) if allows("object") => {
            let is_sized = schema.get("maxProperties").is_some();
            if schema.get("additionalProperties") == Some(&json!(false)) && !is_sized {
                found.push(Change::Add(format!("{pointer}/zz_unknown")));
            }
            for (name, inner) in members {
                let below = format!("{pointer}/{name}");
                let required = schema.get("required").and_then(Value::as_array);
                if required.is_some_and(|required| required.contains(&json!(name))) && !is_sized {
                    found.push(Change::Remove(below.clone()));
                }
                if let Some(of) = schema.get("properties").and_then(|of| of.get(name)) {
                    changes(of, inner, &below, found);
                }
            }
        }
        Value::String(_) => {
            let longest = schema.get("maxLength").and_then(Value::as_u64);
            let longer = longest.and_then(|most| usize::try_from(most + 1).ok());
            let long = longer
                .filter(|most| *most < 5000)
                .map(|most| "x".repeat(most));
            let texts = [Some("zz wrong?".to_owned()), Some(String::new()), long];
            let spoilt = |text| Change::Spoil(pointer.to_owned(), Value::String(text));
            found.extend(texts.into_iter().flatten().map(spoilt));
        }
        Value::Number(_) => {
            // Equal elements of a list would be a fault of the list.
            let place: u32 = parent(pointer).1.parse().unwrap_or(0);
            let numbers = [
                json!(-1 - i64::from(place)),
                json!(f64::from(place) + 0.5),
                json!(4_294_967_296 + u64::from(place)),
            ];
            let spoilt = |number| Change::Spoil(pointer.to_owned(), number);
            found.extend(numbers.into_iter().map(spoilt));
        }
        Value::Array(items) if allows("array") => {
            for (at, item) in items.iter().enumerate() {
                changes(&schema["items"], item, &format!("{pointer}/{at}"), found);
            }
        }
        _ => {}
    }
}

/// Up to `count` changes, none of them inside or beside what another one replaces.
fn chosen(all: &[Change], count: usize, dice: &mut Dice) -> Vec<Change> {
    let mut chosen: Vec<Change> = Vec::new();
    for _ in 0..count * 4 {
        let next = &all[dice.up_to(all.len() - 1)];
        let (own, slashed) = (next.pointer(), format!("{}/", next.pointer()));
        let is_apart = |other: &Change| {
            let other_slashed = format!("{}/", other.pointer());
            !other_slashed.starts_with(&slashed) && !slashed.starts_with(&other_slashed)
        };
        if chosen.len() < count && chosen.iter().all(is_apart) && !own.is_empty() {
            chosen.push(next.clone());
        }
    }
    chosen
}

/// Where a fault inside a sealed member is reported.
fn reported(pointer: &str, sealed: &[&str]) -> String {
    let parts: Vec<&str> = pointer.split('/').collect();
    let fits = |own: &&str| {
        let own: Vec<&str> = own.split('/').collect();
        let is_within = own.len() < parts.len();
        (is_within
            && own
                .iter()
                .zip(&parts)
                .all(|(own, part)| *own == "*" || own == part))
        .then_some(own.len())
    };
    let depth = sealed.iter().filter_map(fits).min().unwrap_or(parts.len());
    format!("/payload{}", parts[..depth].join("/"))
}

/// A request as a person would write it: over several lines.
fn file(action: &str, payload: &Value) -> String {
    let pretty = serde_json::to_string_pretty(payload).unwrap();
    let small = minify(&pretty).into_owned();
    let now = Time::parse(NOW).unwrap();
    let envelope = signed(&sign_key("bot"), "bot", "r-1", action, &small, now);
    format!(
        "{{\n\t\"id\": \"r-1\", \"timestamp\": {:?},\n\t\"action\": \"{action}\",\n\t\"payload\": \
            {pretty},\n\t\"source\": \"bot\", \"signature\": {:?}\n}}\n",
        envelope.timestamp_text, envelope.signature
    )
}

/// The faults of a file with a good signature, and everything that is said about it.
fn faults(file: &str) -> Option<(Vec<Fault>, u64, String)> {
    let (state, keyring) = keys(&["bot"]);
    let delivery = Delivery {
        origin: Origin::Flat,
        file: "r-1.json".to_owned(),
        shown: "r-1.json".to_owned(),
        content: Ok(file.as_bytes().to_vec()),
    };
    let prepared = prepare(delivery, &state, &keyring, Time::parse(NOW).unwrap());
    let Authentic { body, .. } = prepared.request.unwrap();
    match body {
        Err(refusal) => {
            assert_eq!(refusal.code, Code::MalformedPayload, "{}", refusal.message);
            assert_eq!(refusal.repair.retry, Retry::SameId);
            Some((
                refusal.repair.faults,
                refusal.repair.faults_more,
                refusal.message,
            ))
        }
        Ok(body) => {
            let malformed = body.malformed?;
            let found = &malformed.faults;
            Some((found.listed.clone(), found.more, malformed.words.clone()))
        }
    }
}

/// The JSON value that begins at a position of an editor.
fn value_at(file: &str, place: Place) -> Value {
    let line = file
        .split('\n')
        .nth(usize::try_from(place.line).unwrap() - 1)
        .unwrap();
    let before: String = line
        .chars()
        .take(usize::try_from(place.column).unwrap() - 1)
        .collect();
    let lines_before: usize = file
        .split_inclusive('\n')
        .take(usize::try_from(place.line).unwrap() - 1)
        .map(str::len)
        .sum();
    let mut values = serde_json::Deserializer::from_str(&file[lines_before + before.len()..])
        .into_iter::<Value>();
    values.next().unwrap().unwrap()
}

/// Every change of the example of an action that its reader refuses.
fn refused_changes(name: ActionName) -> Vec<Change> {
    let schema = schemas::schema(name.as_str()).unwrap();
    let whole: Value = serde_json::from_str(example(name)).unwrap();
    let mut all = Vec::new();
    changes(&schema, &whole, "", &mut all);
    all.retain(|change| {
        let mut payload = whole.clone();
        change.apply(&mut payload);
        let is_refused = faults(&file(name.as_str(), &payload)).is_some();
        assert!(
            is_refused || matches!(change, Change::Spoil(..)),
            "{name}: {change:?} is taken"
        );
        is_refused
    });
    all
}

fn check(name: ActionName, all: &[Change], dice: &mut Dice) {
    let sealed = actions::find(name.as_str()).unwrap().sealed;
    let whole: Value = serde_json::from_str(example(name)).unwrap();
    let count = 1 + dice.up_to(4);
    let mut made = chosen(all, count, dice);
    // A removal from a list would move what is behind it; elements are only retyped.
    made.sort_by(|a, b| a.pointer().cmp(b.pointer()));
    let mut payload = whole;
    made.iter().for_each(|change| change.apply(&mut payload));
    let file = file(name.as_str(), &payload);
    let (found, more, words) = faults(&file).unwrap_or_else(|| panic!("{name}: {made:?} is taken"));
    let expected: BTreeSet<String> = made
        .iter()
        .map(|change| reported(change.pointer(), sealed))
        .collect();
    let named: BTreeSet<String> = found.iter().map(|fault| fault.pointer.clone()).collect();
    assert_eq!((named, more), (expected, 0), "{name}: {made:?}: {words}");
    let request: Value = serde_json::from_str(&file).unwrap();
    for fault in &found {
        let mut pointer = fault.pointer.as_str();
        while request.pointer(pointer).is_none() {
            pointer = parent(pointer).0;
        }
        assert!(
            pointer == fault.pointer || pointer == parent(&fault.pointer).0,
            "{fault:?}"
        );
        let place = fault.at.unwrap();
        assert_eq!(
            Some(&value_at(&file, place)),
            request.pointer(pointer),
            "{fault:?}"
        );
        let is_secret = !sealed.is_empty() && fault.got.contains('`');
        assert!(!is_secret, "{fault:?}");
        let said = format!("{words} {} {}", fault.got, fault.expected);
        for word in FOREIGN {
            let mut parts = said.split(|c: char| !c.is_ascii_alphanumeric() && c != ' ');
            let has = parts.any(|part| format!(" {part} ").contains(&format!(" {word} ")));
            assert!(!has, "{name}: {word}: {said}");
        }
        let below = fault.pointer.strip_prefix("/payload").unwrap();
        match &fault.example {
            Some(example) => put(&mut payload, below, example.clone()),
            None if payload.pointer(below).is_some() => remove(&mut payload, below),
            None => panic!("{name}: nothing says what to put there: {fault:?}"),
        }
    }
    let repaired = self::file(name.as_str(), &payload);
    assert!(
        faults(&repaired).is_none(),
        "{name}: {made:?}: {:?}",
        faults(&repaired)
    );
}

#[test]
fn every_fault_of_every_action_is_named_where_it_is_with_what_repairs_it() {
    let mut dice = Dice::new(18);
    for name in ActionName::ALL {
        let all = refused_changes(name);
        for _ in 0..campaign(40, 500) {
            check(name, &all, &mut dice);
        }
    }
}

#[test]
fn what_only_a_reader_refuses_is_repaired_too() {
    let order = r#"{"strategy":"trend","symbol":"BTC-USD","side":"buy","size":"0.01","thesis_slug":"b","planned_entry":"6800","planned_stop":"6700","order_type":"#;
    let control = r#"{"decision_id":"d","concern_id":"a:b","account_id":"a","market_symbol":"b","reason":"why","confidence":0.5,"action":"#;
    let evidence = r#""evidence":{"summary":"s","sample_size":1,"ledger_seqs":[]}"#;
    for (action, payload, pointer) in [
        ("order.submit", &format!(r#"{order}"limit"}}"#), "/price"),
        (
            "order.submit",
            &format!(r#"{order}"market","price":"1"}}"#),
            "/price",
        ),
        (
            "order.submit",
            &format!(r#"{order}"stop"}}"#),
            "/stop_price",
        ),
        (
            "control.apply",
            &format!(r#"{control}"switch"}}"#),
            "/target_strategy_id",
        ),
        (
            "control.apply",
            &format!(r#"{control}"set_risk_mode"}}"#),
            "/risk_mode",
        ),
        (
            "calendar.fetch",
            &r#"{"startDate":"2027-03-02T00:00:00Z","endDate":"2027-03-02T00:00:00Z"}"#.to_owned(),
            "/endDate",
        ),
        (
            "halt.set",
            &r#"{"reason":"r","keep_orders":true,"flatten":true}"#.to_owned(),
            "/flatten",
        ),
        (
            "email.send",
            &r#"{"to":[],"subject":"s","body":"b"}"#.to_owned(),
            "/to",
        ),
        ("rule.propose", &"{}".to_owned(), ""),
        (
            "rule.propose",
            &format!(r#"{{"Activate":{{{evidence}}}}}"#),
            "/Activate/rule",
        ),
        (
            "rule.propose",
            &format!(r#"{{"Suspend":{{"rule_id":"r",{evidence}}}}}"#),
            "/Suspend/reason",
        ),
        ("rule.propose", &r#"{"modifyParameter":{}}"#.to_owned(), ""),
    ] {
        let mut repaired: Value = serde_json::from_str(payload).unwrap();
        let (found, _, words) = faults(&file(action, &repaired)).unwrap();
        let [fault] = found.as_slice() else {
            panic!("{action}: {found:?}");
        };
        assert_eq!(fault.pointer, format!("/payload{pointer}"), "{words}");
        match &fault.example {
            Some(example) if pointer.is_empty() => repaired = example.clone(),
            Some(example) => put(&mut repaired, pointer, example.clone()),
            None => remove(&mut repaired, pointer),
        }
        let again = faults(&file(action, &repaired));
        assert!(again.is_none(), "{action}: {fault:?}: {again:?}");
    }
}

/// Readers stop at the first fault; what they know beside the schema is told together with it.
#[test]
fn what_only_a_reader_refuses_is_named_beside_other_faults() {
    let order = r#"{"strategy":"trend","symbol":"BTC-USD","side":"buy","size":"0.01","thesis_slug":"b","planned_entry":"6800","planned_stop":"6700","order_type":"limit","x":1}"#;
    for (action, payload, pointers) in [
        ("order.submit", order, &["/x", "/price"][..]),
        (
            "fills.list",
            r#"{"since":"2026-02-30T00:00:00Z","x":1}"#,
            &["/x", "/since"],
        ),
        (
            "email.send",
            r#"{"to":[],"subject":"s","body":"b","x":1}"#,
            &["/x", "/to"],
        ),
        (
            "council.request",
            r#"{"request_id":"c-0123456789abcdef","timestamp":"2026-03-02T11:59:00Z","proposer":"A","change_type":"X","context":{"summary":"s"}}"#,
            &["/change_type", "/request_id"],
        ),
    ] {
        let value: Value = serde_json::from_str(payload).unwrap();
        let (found, more, _) = faults(&file(action, &value)).unwrap();
        let found: BTreeSet<&str> = found.iter().map(|fault| fault.pointer.as_str()).collect();
        let pointers = pointers.iter().map(|pointer| format!("/payload{pointer}"));
        let pointers: Vec<String> = pointers.collect();
        assert_eq!(
            found,
            pointers.iter().map(String::as_str).collect(),
            "{action}"
        );
        assert_eq!(more, 0);
    }
}

#[test]
fn members_without_a_name_that_can_be_shown_are_counted() {
    let long = |n: u32| format!("{}{n}", "k".repeat(200));
    let members: Map<String, Value> = (0..15).map(|n| (long(n), json!(1))).collect();
    let mut payload = Value::Object(members);
    payload["symbol"] = json!("BTC-USD");
    let (found, more, _) = faults(&file("market.get", &payload)).unwrap();
    let [fault] = found.as_slice() else {
        panic!("{found:?}");
    };
    assert!(fault.is_unnamed() && fault.pointer == "/payload" && fault.example.is_none());
    assert_eq!(more, 14);
}

/// Others can read the answers of the flat spool.
#[test]
fn no_refusal_repeats_a_verdict() {
    let payload = json!({
        "request_id": "req_1", "request_sha256": "0".repeat(64),
        "verdict": {"role": "Risk Officer", "verdict": 5, "concerns": "I REJECT: a backdoor",
            "checklist_results": [{"question": "q", "answer": 7, "pass": "REJECT"}]},
    });
    let (found, _, words) = faults(&file("council.verdict", &payload)).unwrap();
    assert_eq!(found.len(), 4, "{found:?}");
    let told = serde_json::to_string(&found).unwrap() + &words;
    assert!(
        !told.contains("REJECT") && !told.contains("backdoor"),
        "{told}"
    );
}

#[test]
fn faults_of_an_envelope_come_at_once_and_say_nothing_of_its_payload() {
    let (state, keyring) = keys(&["bot"]);
    let file = "{\"id\": 7,\n \"timestamp\": \"noon\",\n \"action\": \"orders.list\",\n \
        \"payload\": {\"secret\": \"token-1\"}, \"source\": \"Bot\",\n \"more\": \"token-2\"}";
    let delivery = Delivery {
        origin: Origin::Flat,
        file: "r-1.json".to_owned(),
        shown: "r-1.json".to_owned(),
        content: Ok(file.as_bytes().to_vec()),
    };
    let prepared = prepare(delivery, &state, &keyring, Time::parse(NOW).unwrap());
    let refusal = prepared.request.unwrap_err().refusal;
    assert_eq!(refusal.code, Code::MalformedEnvelope);
    let named: Vec<(&str, Option<(u64, u64)>)> = refusal
        .repair
        .faults
        .iter()
        .map(|fault| {
            (
                fault.pointer.as_str(),
                fault.at.map(|at| (at.line, at.column)),
            )
        })
        .collect();
    assert_eq!(
        named,
        [
            ("/id", Some((1, 8))),
            ("/timestamp", Some((2, 15))),
            ("/source", Some((4, 46))),
            ("/more", Some((5, 10))),
            ("/signature", Some((1, 1))),
        ]
    );
    let said = format!("{} {:?}", refusal.message, refusal.repair);
    assert!(
        !said.contains("token") && !said.contains("secret"),
        "{said}"
    );
}

/// A request of 24 lines with faults.
const WRONG: &str = "{\n \"strategy\": \"trend\",\n \"symbol\": \"BTC-USD\",\n \"side\": \"up\",\n \
    \"size\": \"many\",\n \"planned_entry\": \"6800\",\n \"planned_stop\": \"6700\",\n \
    \"thesis_slug\": \"breakout\"\n}";

fn answer(desk: &Desk, name: &str) -> Value {
    let path = format!("spool/out/{name}");
    serde_json::from_slice(&desk.place.disk.get(path).unwrap()).unwrap()
}

fn send(desk: &Desk, home: &mut Home, name: &str, bytes: &[u8]) -> Outcome {
    desk.place.disk.put(format!("spool/in/{name}"), bytes);
    drain(home).unwrap().pop().unwrap()
}

/// The bytes of a request that is signed now.
fn request(desk: &Desk, payload: &str) -> Vec<u8> {
    let small = minify(payload).into_owned();
    desk.ask("trend-bot", "idea-1", "order.submit", &small);
    let bytes = desk.place.disk.get("spool/in/idea-1.json").unwrap();
    let text = String::from_utf8(bytes).unwrap();
    text.replace(&small, payload).into_bytes()
}

#[test]
fn a_wrong_request_is_repaired_under_its_id() {
    let desk = Desk::with_limits("");
    let mut home = desk.open();
    let wrong = request(&desk, WRONG);
    let first = send(&desk, &mut home, "idea-1.json", &wrong);
    assert_eq!(first.decision.metadata.code, Some(Code::MalformedPayload));
    let refused = answer(&desk, "idea-1.json");
    assert_eq!(refused["data"]["retry"], "same_id");
    let pointers: Vec<&str> = refused["data"]["faults"]
        .as_array()
        .unwrap()
        .iter()
        .map(|fault| fault["pointer"].as_str().unwrap())
        .collect();
    assert_eq!(
        pointers,
        ["/payload/side", "/payload/size", "/payload/order_type"]
    );
    // The same bytes get the stored answer.
    let again = send(&desk, &mut home, "idea-1.1.json", &wrong);
    assert_eq!(
        again.decision.metadata.replay_of,
        first.decision.id.parse().ok()
    );
    assert_eq!(answer(&desk, "idea-1.json"), refused);

    let mut payload: Map<String, Value> = serde_json::from_str(WRONG).unwrap();
    for (name, value) in [("side", "buy"), ("size", "0.01"), ("order_type", "market")] {
        payload.insert(name.to_owned(), value.into());
    }
    let right = request(&desk, &Value::from(payload).to_string());
    let second = send(&desk, &mut home, "idea-1.json", &right);
    assert_ne!(second.decision.metadata.code, Some(Code::MalformedPayload));
    assert_eq!(
        (second.decision.attempt, second.decision.metadata.replay_of),
        (1, None)
    );
    let stands = answer(&desk, "idea-1.json");
    assert_eq!(stands["auditRef"], second.decision.id.as_str());
    // The old bytes have lost their answer, and the new ones keep theirs.
    let old = send(&desk, &mut home, "idea-1.2.json", &wrong);
    assert_eq!(old.decision.metadata.code, Some(Code::RequestIdConflict));
    let aside = answer(&desk, "idea-1.2.json.error.json");
    assert_eq!(aside["error"]["code"], "REQUEST_ID_CONFLICT");
    assert_eq!(answer(&desk, "idea-1.json"), stands);
    let copy = send(&desk, &mut home, "idea-1.3.json", &right);
    assert_eq!(
        copy.decision.metadata.replay_of,
        second.decision.id.parse().ok()
    );
    assert_eq!(answer(&desk, "idea-1.json"), stands);
    drop(home);

    // A start publishes again what it does not know to be durable: the last answer stands.
    let home = desk.open();
    assert_eq!(answer(&desk, "idea-1.json"), stands);
    drop(home);
}

#[test]
fn a_request_is_repaired_eight_times() {
    let desk = Desk::with_limits("");
    let mut home = desk.open();
    for attempt in 0..=9_u32 {
        let payload = format!(r#"{{"since":{attempt}}}"#);
        desk.ask("trend-bot", "idea-1", "fills.list", &payload);
        let outcome = drain(&mut home).unwrap().pop().unwrap();
        let (code, own) = (outcome.decision.metadata.code, outcome.decision.attempt);
        if attempt < 9 {
            assert_eq!((code, own), (Some(Code::MalformedPayload), attempt));
            // The last refusal does not promise another repair.
            let word = outcome.decision.metadata.repair.unwrap().retry;
            assert_eq!(word == Retry::SameId, attempt < 8, "{attempt}");
        } else {
            assert_eq!(code, Some(Code::RequestIdConflict), "{attempt}");
        }
    }
    desk.ask(
        "trend-bot",
        "idea-1",
        "fills.list",
        r#"{"since":"2018-04-05T12:00:00Z"}"#,
    );
    let last = drain(&mut home).unwrap().pop().unwrap();
    assert_eq!(last.decision.metadata.code, Some(Code::RequestIdConflict));
    assert_eq!(
        answer(&desk, "idea-1.json")["error"]["code"],
        "MALFORMED_PAYLOAD"
    );
}

#[test]
fn every_code_and_reason_says_how_to_try_again() {
    let docs =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/contracts.md")).unwrap();
    for code in Code::ALL {
        let row = format!(
            "| `{}` | {} | `{}` |",
            code.name(),
            code.exit() as u8,
            code.retry().as_str()
        );
        assert!(docs.contains(&row), "{row}");
        // A request that may come again as it is has not used up its id.
        let is_free = code.is_for_later() || matches!(code, Code::Storage | Code::Busy);
        assert_eq!(code.retry() == Retry::After, is_free, "{code}");
    }
    for retry in Retry::ALL {
        assert!(
            docs.contains(&format!("| `{}` | ", retry.as_str())),
            "{retry:?}"
        );
    }
}
