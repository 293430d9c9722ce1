//! Payloads of the nine outgoing actions: a good one for each, with every field missing, null, of
//! the wrong type, at its limit and hostile. A refusal names the field and never its value, and the
//! adapter gets exactly what passed.

mod calls;
mod mail;

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};
use spoolgate_wire::gateway::{
    GatewayCall, HEADERS_MAX, LIMIT_MAX, NAME_BYTES_MAX, PEOPLE_MAX, TEXT_BYTES_MAX,
};

/// The kind of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Line,
    Name,
    Time,
    Limit,
    Addresses,
    Endpoint,
    Method,
    Headers,
    Any,
}

use Kind::{Addresses, Any, Endpoint, Headers, Limit, Line, Method, Name, Text, Time};

#[derive(Debug)]
struct Schema {
    action: &'static str,
    least: &'static str,
    most: &'static str,
    /// What an adapter gets for the smallest payload.
    given: &'static str,
    /// The fields in the order in which they are checked, and whether each is required.
    fields: &'static [(&'static str, Kind, bool)],
}

const MAIL: &[(&str, Kind, bool)] = &[
    ("to", Addresses, true),
    ("cc", Addresses, false),
    ("subject", Line, true),
    ("body", Text, true),
    ("replyToMessageId", Name, false),
];
const EVENT: &[(&str, Kind, bool)] = &[
    ("calendarId", Name, false),
    ("title", Line, true),
    ("startTime", Time, true),
    ("endTime", Time, true),
    ("description", Text, false),
    ("attendees", Addresses, false),
];
const MOST_MAIL: &str = r#"{"to":["ann@example.com"],"cc":["bob@example.org"],"subject":"s","body":"b\r\n\u0007","replyToMessageId":"<1@example.com>"}"#;
const LEAST_EVENT: &str =
    r#"{"title":"t","startTime":"2026-02-20T10:00:00.000Z","endTime":"2026-02-20T11:00:00.000Z"}"#;
const GIVEN_EVENT: &str = r#"{"calendarId":"primary","title":"t","startTime":"2026-02-20T10:00:00.000Z","endTime":"2026-02-20T11:00:00.000Z"}"#;
const MOST_EVENT: &str = r#"{"calendarId":"work","title":"t","startTime":"2026-02-20T10:00:00Z","endTime":"2026-02-20T11:00:00Z","description":"d\n","attendees":["ann@example.com"]}"#;

const SCHEMAS: [Schema; 9] = [
    Schema {
        action: "email.fetch",
        least: "{}",
        most: r#"{"folder":"Sent Items","limit":7,"since":"2026-02-20T10:00:00Z"}"#,
        given: r#"{"folder":"INBOX","limit":50}"#,
        fields: &[
            ("folder", Name, false),
            ("limit", Limit, false),
            ("since", Time, false),
        ],
    },
    Schema {
        action: "email.send",
        least: r#"{"to":["ann@example.com"],"subject":"","body":""}"#,
        most: MOST_MAIL,
        given: r#"{"to":["ann@example.com"],"subject":"","body":""}"#,
        fields: MAIL,
    },
    Schema {
        action: "email.draft",
        least: r#"{"to":[],"subject":"","body":""}"#,
        most: MOST_MAIL,
        given: r#"{"to":[],"subject":"","body":""}"#,
        fields: MAIL,
    },
    Schema {
        action: "calendar.fetch",
        least: r#"{"startDate":"2026-02-20T10:00:00.000Z","endDate":"2026-02-20T10:00:00.001Z"}"#,
        most: r#"{"calendarId":"work","startDate":"2026-02-20T10:00:00Z","endDate":"2026-02-21T10:00:00Z"}"#,
        given: r#"{"calendarId":"primary","startDate":"2026-02-20T10:00:00.000Z","endDate":"2026-02-20T10:00:00.001Z"}"#,
        fields: &[
            ("calendarId", Name, false),
            ("startDate", Time, true),
            ("endDate", Time, true),
        ],
    },
    Schema {
        action: "calendar.create",
        least: LEAST_EVENT,
        most: MOST_EVENT,
        given: GIVEN_EVENT,
        fields: EVENT,
    },
    Schema {
        action: "calendar.update",
        least: LEAST_EVENT,
        most: MOST_EVENT,
        given: GIVEN_EVENT,
        fields: EVENT,
    },
    Schema {
        action: "finance.fetch_transactions",
        least: "{}",
        most: r#"{"accountId":"main","limit":10}"#,
        given: "{}",
        fields: &[("accountId", Name, false), ("limit", Limit, false)],
    },
    Schema {
        action: "health.fetch",
        least: r#"{"dataType":"steps"}"#,
        most: r#"{"dataType":"steps","startDate":"2026-02-20T10:00:00Z"}"#,
        given: r#"{"dataType":"steps"}"#,
        fields: &[("dataType", Name, true), ("startDate", Time, false)],
    },
    Schema {
        action: "service.api_call",
        least: r#"{"service":"bank","endpoint":"/","method":"GET"}"#,
        most: r#"{"service":"bank","endpoint":"/v1/pay?x=1&y=a%2Fb","method":"POST","headers":{"X-A":"1"},"body":{"n":1.50,"m":1e400}}"#,
        given: r#"{"service":"bank","endpoint":"/","method":"GET"}"#,
        fields: &[
            ("service", Name, true),
            ("endpoint", Endpoint, true),
            ("method", Method, true),
            ("headers", Headers, false),
            ("body", Any, false),
        ],
    },
];

/// Is in every refused value: no message may repeat it.
const VALUE: &str = "hunter2";

fn schema(action: &str) -> &'static Schema {
    SCHEMAS
        .iter()
        .find(|schema| schema.action == action)
        .unwrap()
}

/// Returns the full payload with one member replaced by this JSON text, or left out if it is
/// `None`.
fn with(schema: &Schema, name: &str, json: Option<&str>) -> String {
    let most: Map<String, Value> =
        serde_json::from_str(&schema.most.replace("1e400", "1")).unwrap();
    let members = most
        .iter()
        .filter(|(key, _)| *key != name)
        .map(|(key, value)| format!("{key:?}:{value}"));
    let members: Vec<String> = members
        .chain(json.map(|json| format!("{name:?}:{json}")))
        .collect();
    format!("{{{}}}", members.join(","))
}

fn read(schema: &Schema, name: &str, json: &str) -> Result<GatewayCall, String> {
    GatewayCall::read(schema.action, &with(schema, name, Some(json)))
        .map_err(|error| error.to_string())
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// Returns the expectation in the message for a field of this kind that has another type.
fn of_type(name: &str, kind: Kind, most: u32) -> String {
    match kind {
        Text | Line | Name | Endpoint | Method => format!("`{name}` must be a text"),
        Time => {
            format!("`{name}` must be a time of the form `2026-02-20T14:42:00Z` (UTC, with `Z`)")
        }
        Limit => format!("`{name}` must be a whole number of 1 to {most}"),
        Addresses => format!("`{name}` must be an array of mail addresses"),
        Headers => format!("`{name}` must be an object of texts"),
        Any => String::new(),
    }
}

/// Runs over every field of every action.
fn each_field(mut of: impl FnMut(&'static Schema, &'static str, Kind, bool)) {
    for schema in &SCHEMAS {
        for (name, kind, is_needed) in schema.fields {
            of(schema, name, *kind, *is_needed);
        }
    }
}

#[test]
fn the_least_and_the_most_pass_and_defaults_are_filled_in() {
    for Schema {
        action,
        least,
        most,
        given,
        ..
    } in &SCHEMAS
    {
        assert_eq!(
            GatewayCall::read(action, least).unwrap().to_json().unwrap(),
            *given,
            "{action}"
        );
        let written = GatewayCall::read(action, most).unwrap().to_json().unwrap();
        let whole = written.replace(".000Z", "Z");
        assert_eq!(
            whole, *most,
            "{action}: nothing is lost, numbers of a body as they are written"
        );
    }
}

#[test]
fn a_field_that_is_missing_is_named() {
    each_field(|schema, name, _, is_needed| {
        let found = GatewayCall::read(schema.action, &with(schema, name, None));
        match is_needed {
            true => assert_eq!(
                found.unwrap_err().to_string(),
                format!("`{name}` is missing"),
                "{}",
                schema.action
            ),
            false => assert!(found.is_ok(), "{} {name}", schema.action),
        }
    });
}

#[test]
fn null_and_other_types_are_refused_by_name() {
    let text = quoted(VALUE);
    let list = format!("[{text}]");
    let object = format!("{{{text}:{text}}}");
    let others = [
        "null", "true", "7", "-1", "1.5", &text, &list, &object, "[null]", "[7]", "[[]]",
    ];
    each_field(|schema, name, kind, _| {
        for json in others {
            let is_text = json.starts_with('"');
            let is_list = json == list;
            let is_of_type = match kind {
                Text | Line | Name | Endpoint | Method => is_text,
                Limit => json == "7",
                Headers => json == object,
                Addresses => is_list,
                Time => false,
                Any => true,
            };
            if is_of_type {
                continue;
            }
            let why = read(schema, name, json).unwrap_err();
            assert_eq!(
                why,
                of_type(name, kind, LIMIT_MAX),
                "{} {json}",
                schema.action
            );
        }
    });
}

#[test]
fn a_body_may_be_any_json() {
    for json in [
        "null",
        "false",
        "-0.10e+5",
        "\"x\"",
        "[1,[2]]",
        "{\"a\":{}}",
        "123456789012345678901234567890",
    ] {
        let call = read(schema("service.api_call"), "body", json)
            .unwrap()
            .to_json()
            .unwrap();
        assert!(call.ends_with(&format!("\"body\":{json}}}")), "{call}");
    }
}

#[test]
fn unknown_keys_are_refused_and_named_where_they_are_keys() {
    for schema in &SCHEMAS {
        let known: Vec<String> = schema
            .fields
            .iter()
            .map(|(name, ..)| format!("`{name}`"))
            .collect();
        let known = known.join(", ");
        for (key, which) in [
            ("bcc", "unknown key `bcc`".to_owned()),
            ("To", "unknown key `To`".to_owned()),
            ("", "unknown key".to_owned()),
            ("__proto__", "unknown key `__proto__`".to_owned()),
            ("the password is hunter2", "unknown key".to_owned()),
            (
                &*"k".repeat(64),
                format!("unknown key `{}`", "k".repeat(64)),
            ),
            (&*"k".repeat(65), "unknown key".to_owned()),
        ] {
            let payload = with(schema, key, Some("1"));
            let why = GatewayCall::read(schema.action, &payload)
                .unwrap_err()
                .to_string();
            let expected = format!("{which}; known keys are {known}");
            assert_eq!(why, expected, "{}", schema.action);
        }
    }
}

fn long(bytes: usize) -> String {
    format!("{VALUE}{}", "x".repeat(bytes - VALUE.len()))
}

#[test]
fn lengths_are_exact_to_the_byte() {
    each_field(|schema, name, kind, _| {
        let most = match kind {
            Line => TEXT_BYTES_MAX,
            Name => NAME_BYTES_MAX,
            _ => return,
        };
        for (bytes, is_good) in [(most - 1, true), (most, true), (most + 1, false)] {
            let found = read(schema, name, &quoted(&long(bytes)));
            assert_eq!(found.is_ok(), is_good, "{} {name} {bytes}", schema.action);
            let why = found.err().unwrap_or_default();
            assert!(
                why.is_empty() || why.starts_with(&format!("`{name}` has {bytes} bytes")),
                "{why}"
            );
            assert!(!why.contains(VALUE), "{why}");
        }
    });
    let endpoint = schema("service.api_call");
    for (bytes, is_good) in [
        (TEXT_BYTES_MAX - 1, true),
        (TEXT_BYTES_MAX, true),
        (TEXT_BYTES_MAX + 1, false),
    ] {
        assert_eq!(
            read(
                endpoint,
                "endpoint",
                &quoted(&format!("/{}", long(bytes - 1)))
            )
            .is_ok(),
            is_good
        );
        assert_eq!(
            read(endpoint, "headers", &json!({"X": long(bytes)}).to_string()).is_ok(),
            is_good
        );
    }
}

#[test]
fn limits_are_whole_numbers_in_digits() {
    each_field(|schema, name, kind, _| {
        if kind != Limit {
            return;
        }
        for json in ["1", "9999", "10000"] {
            assert!(read(schema, name, json).is_ok(), "{} {json}", schema.action);
        }
        for json in [
            "0",
            "-0",
            "10001",
            "4294967297",
            "1.0",
            "1e2",
            "99999999999999999999999",
            "\"7\"",
        ] {
            let why = read(schema, name, json).unwrap_err();
            assert_eq!(
                why,
                of_type(name, Limit, LIMIT_MAX),
                "{} {json}",
                schema.action
            );
        }
    });
}

#[test]
fn times_have_one_form() {
    each_field(|schema, name, kind, _| {
        if kind != Time {
            return;
        }
        for text in [
            VALUE,
            "",
            "2026-02-20",
            "2026-02-20T10:00:00",
            "2026-02-20T10:00:00+00:00",
            "2026-02-20t10:00:00z",
            "2026-02-30T10:00:00Z",
            "2026-02-20T25:00:00Z",
            "2026-02-20T10:00:60Z",
            "2026-02-20T10:00:00Z ",
            "1771581600",
        ] {
            let why = read(schema, name, &quoted(text)).unwrap_err();
            assert_eq!(why, of_type(name, Time, 0), "{} {text}", schema.action);
        }
    });
}

#[test]
fn an_end_must_be_after_its_begin() {
    for (action, start, end) in [
        ("calendar.fetch", "startDate", "endDate"),
        ("calendar.create", "startTime", "endTime"),
        ("calendar.update", "startTime", "endTime"),
    ] {
        let period = |from: &str, to: &str| {
            GatewayCall::read(
                action,
                &json!({"title": "t", start: from, end: to})
                    .to_string()
                    .replace(
                        "\"title\":\"t\"",
                        if action == "calendar.fetch" {
                            "\"calendarId\":\"c\""
                        } else {
                            "\"title\":\"t\""
                        },
                    ),
            )
        };
        assert!(period("2026-02-20T10:00:00Z", "2026-02-20T10:00:00.001Z").is_ok());
        for to in [
            "2026-02-20T10:00:00Z",
            "2026-02-20T10:00:00.0009Z",
            "2026-02-20T09:59:59.999Z",
            "0000-01-01T00:00:00Z",
        ] {
            let why = period("2026-02-20T10:00:00Z", to).unwrap_err().to_string();
            assert_eq!(
                why,
                format!("`{end}` must be after `{start}`"),
                "{action} {to}"
            );
        }
    }
}

/// Characters that end a line, are invisible, or change the direction of writing.
const HIDDEN: [&str; 16] = [
    "\r",
    "\n",
    "\r\n",
    "\t",
    "\u{0}",
    "\u{1b}[2J",
    "\u{7f}",
    "\u{85}",
    "\u{61c}",
    "\u{200b}",
    "\u{200e}",
    "\u{2028}",
    "\u{202e}",
    "\u{2066}",
    "\u{feff}",
    "\u{e0041}",
];

fn headers(json: Value) -> Result<(), String> {
    read(schema("service.api_call"), "headers", &json.to_string()).map(|_| ())
}

#[test]
fn a_payload_is_an_object_of_a_known_action() {
    for schema in &SCHEMAS {
        for payload in ["[]", "7", "null", "\"hunter2\"", ""] {
            let why = GatewayCall::read(schema.action, payload)
                .unwrap_err()
                .to_string();
            assert_eq!(why, "it must be an object", "{}", schema.action);
        }
    }
    assert!(GatewayCall::read("order.submit", "{}").is_err());
}

fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        select(vec![
            "",
            "a",
            "INBOX",
            "/",
            "/v1?x=%2F",
            "GET",
            "ann@example.com",
            "ANN@BÜCHER.example",
            "2026-02-20T10:00:00Z"
        ])
        .prop_map(str::to_owned),
        ".{0,12}",
        "[ -~]{0,12}",
    ]
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        4 => texts().prop_map(Value::from),
        1 => (0_u32..20_000).prop_map(Value::from),
        1 => Just(Value::Null),
        1 => prop::collection::vec(texts(), 0..3).prop_map(Value::from),
    ];
    prop_oneof![4 => leaf.clone(), 1 => prop::collection::btree_map("[A-Za-z-]{1,6}", leaf,
        0..3).prop_map(|map| json!(map))]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    /// The adapter gets what passed: read again it is the same, and nothing of it grows or is lost.
    #[test]
    fn a_valid_payload_reads_back_the_same(
        (schema, mutations) in (0..SCHEMAS.len()).prop_flat_map(|nth| {
            let fields = SCHEMAS[nth].fields.len();
            (Just(&SCHEMAS[nth]), prop::collection::vec((0..fields, values()), 0..3))
        }),
    ) {
        let mut payload: Map<String,
            Value> = serde_json::from_str(&schema.most.replace("1e400", "1")).unwrap();
        for (field, value) in mutations {
            payload.insert(schema.fields[field].0.to_owned(), value);
        }
        let Ok(call) = GatewayCall::read(schema.action,
            &Value::from(payload.clone()).to_string()) else { return Ok(()) };
        let once = call.to_json().unwrap();
        let again = GatewayCall::read(schema.action,
            &once).map_err(|why| TestCaseError::fail(why.to_string()))?.to_json().unwrap();
        prop_assert_eq!(&once, &again);
        let given: Map<String, Value> = serde_json::from_str(&once).unwrap();
        for key in payload.keys() {
            prop_assert!(given.contains_key(key), "{} is lost", key);
        }
    }
}
