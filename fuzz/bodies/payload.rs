//! Any JSON as the payload of any action, properly signed, through to the line of its decision. Only known fields
//! pass, none of them null, and every decision makes a line that reads back.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::Value;
use spoolgate::gate::actions::ACTIONS;
use spoolgate::gate::prepare::{Origin, Payload};
use spoolgate::gate::record::Record;
use spoolgate::gate::{Delivery, Lookups, Prepared, State, decide, prepare};
use spoolgate::ledger::line;
use spoolgate::ledger::tree::Hash;
use spoolgate::rules::Rulebook;
use spoolgate::rules::principals::Role;
use spoolgate::wire::code::Code;
use spoolgate::wire::envelope::Envelope;
use spoolgate::wire::time::Time;

use super::envelope::{check_message, keys, signed};
use super::rulebook;

const NOW: &str = "2018-04-05T12:00:00Z";

/// The first byte is the action, the rest its payload.
pub fn body(data: &[u8]) {
    let Some((action, payload)) = data.split_first() else { return };
    let rule = &ACTIONS[usize::from(*action) % ACTIONS.len()];
    let Ok(payload) = std::str::from_utf8(payload) else { return };
    let source = match rule.senders[0] {
        Role::Human => "owner",
        Role::Agent => "trend-bot",
        Role::Feed => "prices",
    };
    let file = format!(
        "{{\"id\":\"r\",\"timestamp\":\"{NOW}\",\"action\":\"{}\",\"payload\":{payload},\"source\":\"{source}\",\"signature\":\"0\"}}",
        rule.name
    );
    let Ok(envelope) = Envelope::parse(file.as_bytes()) else { return };
    if envelope.action != rule.name || envelope.source.as_str() != source {
        return;
    }
    let now = Time::parse(NOW).unwrap();
    let (state, keyring) = keys(&["owner", "trend-bot", "prices"]);
    let envelope = signed(envelope);
    let delivery = Delivery {
        origin: Origin::Flat,
        file: "r.json".to_owned(),
        shown: "r.json".to_owned(),
        content: Ok(envelope.to_json().into_bytes()),
    };
    let prepared = prepare(delivery, &state, &keyring, now);
    let authentic = prepared.request.as_ref().expect("signed and not authentic");
    match &authentic.body {
        Ok(body) => {
            assert_eq!(body.rule.name, rule.name);
            match &body.payload {
                // Of the wrong shape it is answered with the contract's body, which is checked with the line.
                Payload::Control(attempt) if attempt.decision.is_err() => {}
                _ => check_fields(&envelope.payload, rule.payload),
            }
        }
        Err(refusal) => {
            assert!(matches!(refusal.code, Code::MalformedPayload | Code::TooLarge), "{refusal:?}");
            check_message(&refusal.message);
        }
    }
    check_line(&state, &prepared, now);
}

/// Fields that the table of actions does not name never pass, nor does a null that means nothing; an absent one only
/// if it is optional.
fn check_fields(payload: &str, fields: &str) {
    let Ok(Value::Object(found)) = serde_json::from_str(payload) else { panic!("no object: {payload}") };
    let known: Vec<&str> = fields.split(", ").filter(|field| *field != "(none)").collect();
    for (name, value) in &found {
        assert!(known.iter().any(|field| field.trim_end_matches('?') == name), "unknown field `{name}`");
        let may_be_null = name == "expected_active_strategy_id";
        let may_be_boolean = ["dry_run", "override"].contains(&name.as_str());
        assert!(may_be_null || !value.is_null(), "`{name}` is {value}");
        assert!(!value.is_array() && (may_be_boolean || !value.is_boolean()), "`{name}` is {value}");
        assert!(!value.is_object() || name == "scope", "`{name}` is {value}");
    }
    for field in known.iter().filter(|field| !field.ends_with('?')) {
        assert!(found.contains_key(*field), "`{field}` is missing");
    }
}

/// Decides, and reads the line back.
fn check_line(state: &State, prepared: &Prepared, now: Time) {
    static RULES: OnceLock<Rulebook> = OnceLock::new();
    let rules = RULES.get_or_init(rulebook::compiled);
    let decided = decide(state, rules, prepared, &Lookups::default(), now, 1);
    let body = Record::Decision(Box::new(decided.decision)).body().unwrap();
    let line = line::render(&Hash::ZERO, 1, 1, "decision", &body).expect("a decision that no line holds");
    let read = line::parse(line.as_bytes()).expect("a line that does not read back");
    let Ok(Some(Record::Decision(again))) = Record::parse(read.kind, &read.body()) else {
        panic!("no decision: {line}")
    };
    let blobs: BTreeMap<_, _> = decided.blobs.iter().cloned().collect();
    let blob = again.data_blob.as_ref().map(|digest| blobs[digest].as_slice());
    again.answer(blob).expect("a decision without an answer");
    assert_eq!(Record::Decision(again).body().unwrap(), body);
}
