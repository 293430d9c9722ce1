//! Requests of outgoing actions from the file to the answer: what the gateway document lists under
//! schema and signature.

use std::collections::BTreeMap;

use crate::kit::gateway_home::{GOOD, GatewayHome, NOTED, code, settle};
use serde_json::Value;
use serde_json::value::RawValue;
use spoolgate_gate::record::Status;
use spoolgate_wire::signing::SignKey;

#[test]
fn a_good_request_of_each_action_is_done_once() {
    let home = GatewayHome::new(NOTED);
    let mut gate = home.open();
    for (action, payload) in GOOD {
        let answer = home.one(&mut gate, &format!("good-{action}"), action, payload);
        assert_eq!(code(&answer), "", "{action}: {answer:?}");
    }
    let ran: Vec<String> = home
        .ran()
        .iter()
        .map(|task| task["action"].as_str().unwrap().to_owned())
        .collect();
    let expected: Vec<&str> = GOOD.iter().map(|(action, _)| *action).collect();
    assert_eq!(ran, expected);
    assert_eq!(home.responses().len(), 9);
}

/// The advice for a malformed envelope.
const ENVELOPE: &str = "; send exactly id, timestamp, action, payload, source, signature, and \
    causality if any (docs/contracts.md)";

/// Checks that a refused request is answered with this code and message and has its line, and that
/// no adapter runs.
fn check_refused(home: &GatewayHome, name: &str, wanted: &str, message: &str) {
    let answer = home
        .answer(&format!("{name}.json.error"))
        .or_else(|| home.answer(name));
    let answer =
        answer.unwrap_or_else(|| panic!("{name}: no answer, of {:?}", home.place.answers()));
    let error = answer.error.as_ref().unwrap();
    let remedy = match wanted {
        "MALFORMED_PAYLOAD" => "; send exactly the fields of the action's schema",
        "SIGNATURE_INVALID" => {
            "; sign the signing string of docs/contracts.md with a current key of the source"
        }
        "MALFORMED_ENVELOPE" => ENVELOPE,
        "UNKNOWN_ACTION" => "; use an action of the table in docs/contracts.md",
        _ => "",
    };
    let message = &format!("{}{remedy}", message.trim_end_matches(remedy));
    assert_eq!(
        (error.code.to_string(), &error.message),
        (wanted.to_owned(), message),
        "{name}"
    );
    let line = answer.audit_ref.parse().unwrap();
    let decision = home.decisions().remove(&line).unwrap();
    assert_eq!(decision.metadata.code, Some(error.code), "{name}");
    assert_eq!(decision.metadata.message.as_ref(), Some(message), "{name}");
    assert_eq!(decision.status, Status::Rejected, "{name}");
    assert!(
        home.ran().is_empty() && home.responses().is_empty(),
        "{name}: something was done"
    );
}

/// Returns the members of a good request as JSON texts.
fn members(home: &GatewayHome, id: &str) -> Vec<(String, String)> {
    let text = home.envelope(id, "email.send", GOOD[1].1).to_json();
    // The payload as it was signed: in another order it would be another payload.
    let members: BTreeMap<String, Box<RawValue>> = serde_json::from_str(&text).unwrap();
    members
        .into_iter()
        .map(|(name, value)| (name, value.get().to_owned()))
        .collect()
}

fn object(members: &[(String, String)]) -> Vec<u8> {
    let members: Vec<String> = members
        .iter()
        .map(|(name, value)| format!("{name:?}:{value}"))
        .collect();
    format!("{{{}}}", members.join(",")).into_bytes()
}

#[test]
fn a_missing_field_of_the_envelope_is_refused() {
    let home = GatewayHome::new(NOTED);
    let mut gate = home.open();
    for field in [
        "id",
        "timestamp",
        "action",
        "payload",
        "source",
        "signature",
    ] {
        let mut members = members(&home, "r");
        members.retain(|(name, _)| name != field);
        let name = format!("no-{field}");
        home.put(&name, &object(&members));
        settle(&mut gate);
        let answer = home
            .answer(&format!("{name}.json.error"))
            .unwrap()
            .error
            .unwrap();
        assert_eq!(answer.code.to_string(), "MALFORMED_ENVELOPE", "{field}");
        assert!(
            answer
                .message
                .contains(&format!("missing field `/{field}`")),
            "{}",
            answer.message
        );
        check_refused(&home, &name, "MALFORMED_ENVELOPE", &answer.message);
    }
}

#[test]
fn an_unknown_action_is_refused() {
    let home = GatewayHome::new(NOTED);
    let mut gate = home.open();
    for (nth, action) in ["email.delete", "email.send_all", "email"]
        .into_iter()
        .enumerate()
    {
        let id = format!("r{nth}");
        home.ask(&id, action, GOOD[1].1);
        settle(&mut gate);
        check_refused(
            &home,
            &id,
            "UNKNOWN_ACTION",
            &format!("action `{action}` does not exist"),
        );
    }
}

#[test]
fn a_malformed_payload_of_each_action_is_refused_by_name() {
    let home = GatewayHome::new(NOTED);
    let mut gate = home.open();
    for (action, payload, why) in [
        (
            "email.fetch",
            r#"{"limit":0}"#,
            "`limit` must be a whole number of 1 to 10000",
        ),
        (
            "email.send",
            r#"{"to":[],"subject":"s","body":"b"}"#,
            "`to` and `cc` are empty: a mail that is sent needs a recipient",
        ),
        (
            "email.draft",
            r#"{"to":["x"],"subject":"s","body":"b"}"#,
            "`to`, number 1: it must be one bare mail address, as ann@example.com",
        ),
        (
            "calendar.fetch",
            r#"{"startDate":"2026-03-03T00:00:00Z"}"#,
            "`endDate` is missing",
        ),
        (
            "calendar.create",
            r#"{"title":"a\nb","startTime":"2026-03-03T00:00:00Z","endTime":"2026-03-04T00:00:00Z"}"#,
            "`title` must be one line without control or direction characters",
        ),
        (
            "calendar.update",
            r#"{"title":"t","startTime":"2026-03-03T00:00:00Z","endTime":"2026-03-03T00:00:00Z"}"#,
            "`endTime` must be after `startTime`",
        ),
        (
            "finance.fetch_transactions",
            r#"{"accountId":""}"#,
            "`accountId` has 0 bytes; it must have 1 to 512",
        ),
        (
            "health.fetch",
            r#"{"dataType":null}"#,
            "`dataType` must be a text",
        ),
        (
            "service.api_call",
            r#"{"service":"","endpoint":"/","method":"GET"}"#,
            "`service` has 0 bytes; it must have 1 to 512",
        ),
        (
            "service.api_call",
            r#"{"service":"bank","endpoint":"https://evil.example/","method":"GET"}"#,
            "`endpoint` must be a path that begins with `/`: the host is in rules/services.yaml",
        ),
        (
            "email.send",
            r#"{"to":["ann@example.com"],"subject":"s","body":"b","bcc":[]}"#,
            "unknown key `bcc`; known keys are `to`, `cc`, `subject`, `body`, `replyToMessageId`",
        ),
    ] {
        let id = format!("r{}", home.decisions().len());
        home.ask(&id, action, payload);
        settle(&mut gate);
        check_refused(
            &home,
            &id,
            "MALFORMED_PAYLOAD",
            &format!("payload of `{action}`: {why}"),
        );
    }
}

/// Writes a file with one member changed after it was signed, and returns its name.
fn tampered(home: &GatewayHome, field: &str, value: &str) -> String {
    let name = format!("{field}-{}", home.decisions().len());
    let mut members = members(home, "tampered");
    let member = members.iter_mut().find(|(name, _)| name == field).unwrap();
    assert_ne!(member.1, value);
    value.clone_into(&mut member.1);
    home.put(&name, &object(&members));
    name
}

#[test]
fn an_invalid_timestamp_is_refused() {
    let home = GatewayHome::new(NOTED);
    let mut gate = home.open();
    for text in [
        "yesterday",
        "",
        "2026-03-02",
        "2026-03-02T12:00:00+00:00",
        "2026-02-30T12:00:00Z",
        "1772452800",
    ] {
        let name = tampered(&home, "timestamp", &Value::from(text).to_string());
        settle(&mut gate);
        let answer = home
            .answer(&format!("{name}.json.error"))
            .unwrap()
            .error
            .unwrap();
        assert!(
            answer.message.contains("timestamp") || answer.message.contains(text),
            "{}",
            answer.message
        );
        check_refused(&home, &name, "MALFORMED_ENVELOPE", &answer.message);
    }
}

#[test]
fn a_valid_signature_passes_and_nothing_signed_can_be_changed() {
    let home = GatewayHome::new(NOTED);
    let mut gate = home.open();
    let evil = GOOD[1].1.replace("ann@", "eve@");
    let other = Value::from(SignKey::Hmac([1; 32]).sign("x")).to_string();
    for (field, value) in [
        ("payload", evil.as_str()),
        ("timestamp", r#""2026-03-02T11:59:59Z""#),
        ("timestamp", r#""2026-03-02T12:00:00Z""#),
        ("action", r#""email.draft""#),
        ("id", r#""another""#),
        ("signature", &other),
        ("signature", r#""00""#),
    ] {
        let name = tampered(&home, field, value);
        settle(&mut gate);
        let why = format!(
            "file `{name}.json`: no current key of `core` made this signature over the \
                request"
        );
        check_refused(&home, &name, "SIGNATURE_INVALID", &why);
    }
    let name = tampered(&home, "source", r#""owner""#);
    settle(&mut gate);
    let why = format!(
        "file `{name}.json`: no current key of `owner` made this signature over the \
        request"
    );
    check_refused(&home, &name, "SIGNATURE_INVALID", &why);
    // The same request unchanged is done: the forged request with its id used up nothing.
    let members = members(&home, "tampered");
    home.put("tampered", &object(&members));
    settle(&mut gate);
    let done = home
        .answer("tampered")
        .unwrap_or_else(|| panic!("{:?}", home.place.answers()));
    assert_eq!(code(&done), "");
    assert_eq!(home.ran().len(), 1);
    assert_eq!(
        home.ran()[0]["payload"]["to"],
        serde_json::json!(["ann@example.com"])
    );
}

#[test]
fn an_invalid_signature_or_action_name_makes_the_envelope_malformed() {
    let home = GatewayHome::new(NOTED);
    let mut gate = home.open();
    let of_signature = "`signature` is neither 64 hex digits nor `ed25519:` and base64";
    let of_action = "`action` must be 1 to 64 characters of a-z, `.` and `_`";
    for (field, value, why) in [
        ("signature", "\"\"", of_signature),
        ("action", "\"\"", of_action),
        ("action", "\"EMAIL.SEND\"", of_action),
        ("action", "\"email.send \"", of_action),
    ] {
        let name = tampered(&home, field, value);
        settle(&mut gate);
        check_refused(
            &home,
            &name,
            "MALFORMED_ENVELOPE",
            &format!("file `{name}.json`: {why}"),
        );
    }
}

#[test]
fn a_wrong_key_is_refused() {
    let home = GatewayHome::new(NOTED);
    let mut gate = home.open();
    home.place.ask(
        &SignKey::Hmac([1; 32]),
        "core",
        "r1",
        "email.send",
        GOOD[1].1,
    );
    // The key of another principal is as wrong as any other.
    home.place
        .ask(&home.place.owner, "core", "r2", "email.send", GOOD[1].1);
    settle(&mut gate);
    for name in ["r1", "r2"] {
        let why = format!(
            "file `{name}.json`: no current key of `core` made this signature over the \
                request"
        );
        check_refused(&home, name, "SIGNATURE_INVALID", &why);
    }
}

#[test]
fn json_nested_50_000_deep_is_refused_and_the_gate_goes_on() {
    let home = GatewayHome::new(NOTED);
    let mut gate = home.open();
    let deep = |open: &str, close: &str| format!("{}{}", open.repeat(50_000), close.repeat(50_000));
    let signed = home.envelope(
        "r",
        "service.api_call",
        &format!(
            r#"{{"service":"bank","endpoint":"/","method":"POST","body":{}}}"#,
            deep("[", "]")
        ),
    );
    for (name, bytes) in [
        ("arrays", deep("[", "]").into_bytes()),
        ("objects", deep("{\"a\":", "}").into_bytes()),
        ("body", signed.to_json().into_bytes()),
        ("open", "[".repeat(50_000).into_bytes()),
    ] {
        home.put(name, &bytes);
        settle(&mut gate);
        // A file that is not JSON may be half-written, so the gate waits for it.
        home.place.pass_s(60);
        settle(&mut gate);
        let answer = home.answer(&format!("{name}.json.error"));
        let answer = answer.unwrap_or_else(|| panic!("{name}: {:?}", home.place.answers()));
        let error = answer.error.unwrap();
        assert!(
            error.message.contains("nested") || error.message.contains("not an object"),
            "{}",
            error.message
        );
        check_refused(&home, name, "MALFORMED_JSON", &error.message);
    }
    // 64 levels are allowed for the document: the payload's own 62 pass, and one more does not.
    for (depth, is_good) in [(62, true), (63, false)] {
        let body = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let id = format!("d{depth}");
        home.ask(
            &id,
            "service.api_call",
            &format!(r#"{{"service":"bank","endpoint":"/","method":"POST","body":{body}}}"#),
        );
        settle(&mut gate);
        assert_eq!(
            home.answer(&id)
                .is_some_and(|answer| code(&answer).is_empty()),
            is_good,
            "{depth}"
        );
    }
}

#[test]
fn an_unknown_key_beside_the_payload_is_refused() {
    let home = GatewayHome::new(NOTED);
    let mut gate = home.open();
    let mut members = members(&home, "r");
    members.push(("approved".to_owned(), "true".to_owned()));
    home.put("more", &object(&members));
    settle(&mut gate);
    let error = home.answer("more.json.error").unwrap().error.unwrap();
    assert!(
        error.message.contains("unknown field `/approved`"),
        "{}",
        error.message
    );
    check_refused(&home, "more", "MALFORMED_ENVELOPE", &error.message);
}
