//! A request that a person wrote by hand, dropped before a running watcher, and repaired.

use std::fs;
use std::path::Path;

use crate::kit::process::{Running, answered, find};
use crate::kit::{Scratch, Sent, succeed};
use serde_json::{Value, json};
use spoolgate_wire::json::minify;

/// The payload of a file of 24 lines, from line 6 to line 19. The accent makes bytes and characters
/// differ.
const WRONG: &str = r#"{
    "strategy": "trend",
    "symbol":   "BTC-USD",
    "side":     "Buy",

    "size": "two", "étage": 1, "price": ["6740"],
      "stop_price" :
        6600.5e2,
	"thesis_slug": "btc-range-long",
    "planned_entry": "6740",
    "planned_stop": null,
    "leverage": { "times": 10 }

  }"#;

/// The faults of that file: pointer, line and column, as an editor counts them.
const FAULTS: [(&str, u64, u64); 8] = [
    ("/payload/side", 9, 17),
    ("/payload/size", 11, 13),
    ("/payload/étage", 11, 29),
    ("/payload/price", 11, 41),
    ("/payload/stop_price", 13, 9),
    ("/payload/planned_stop", 16, 21),
    ("/payload/leverage", 17, 17),
    ("/payload/order_type", 6, 14),
];

/// Writes a request by hand: with a good signature, over 24 lines if the payload is [`WRONG`].
fn by_hand(scratch: &Scratch, payload: &str) -> Vec<u8> {
    let small = minify(payload).into_owned();
    let signed = scratch.request("idea-1", "order.submit", &small);
    let signed: Value = serde_json::from_slice(&signed).unwrap();
    let text = format!(
        "{{\n  \"id\": \"idea-1\",\n  \"timestamp\": {},\n  \"action\": \"order.submit\",\n  \
            \"source\": \"trend-bot\",\n  \"payload\": {payload},\n\n\n  \"signature\":\n    \
            {}\n}}",
        signed["timestamp"], signed["signature"]
    );
    text.into_bytes()
}

fn answer_of(home: &Path) -> Value {
    serde_json::from_slice(&fs::read(home.join("spool/out/idea-1.json")).unwrap()).unwrap()
}

#[test]
fn a_file_written_by_hand_is_repaired_before_a_watcher() {
    let scratch = Scratch::with_prices();
    let home = scratch.home();
    let watcher = Running::watching(&home);
    let wrong = by_hand(&scratch, WRONG);
    let text = String::from_utf8(wrong.clone()).unwrap();
    assert_eq!(text.lines().count(), 24, "{text}");
    Sent::new("idea-1.json", wrong.clone()).drop_into(&home);
    let refused = answered(&home, "idea-1.json");
    assert_eq!(refused["error"]["code"], "MALFORMED_PAYLOAD");
    assert_eq!(refused["data"]["retry"], "same_id");
    let told: Vec<(&str, u64, u64)> = refused["data"]["faults"]
        .as_array()
        .unwrap()
        .iter()
        .map(|fault| {
            let number = |name: &str| fault["at"][name].as_u64().unwrap();
            let pointer = fault["pointer"].as_str().unwrap();
            (pointer, number("line"), number("column"))
        })
        .collect();
    assert_eq!(told, FAULTS, "{refused:#}");

    // Every example goes where its fault is, and what has none is left out.
    let mut payload: Value = serde_json::from_str(WRONG).unwrap();
    for fault in refused["data"]["faults"].as_array().unwrap() {
        let pointer = fault["pointer"].as_str().unwrap();
        let name = pointer.strip_prefix("/payload/").unwrap();
        match fault.get("example") {
            Some(example) => payload[name] = example.clone(),
            None => drop(payload.as_object_mut().unwrap().remove(name)),
        }
    }
    // The shape is right then; these are the values that the desk wants.
    for (name, value) in [
        ("size", "0.002"),
        ("price", "6740"),
        ("stop_price", "6600"),
        ("planned_stop", "6600"),
    ] {
        payload[name] = json!(value);
    }
    let right = by_hand(&scratch, &serde_json::to_string_pretty(&payload).unwrap());
    Sent::new("idea-1.json", right).drop_into(&home);
    let stands = find("the answer is replaced", || {
        Some(answer_of(&home)).filter(|answer| answer["auditRef"] != refused["auditRef"])
    });
    assert_eq!(stands["status"], "success", "{stands:#}");

    Sent::new("old.json", wrong).drop_into(&home);
    let aside = answered(&home, "old.json.error.json");
    assert_eq!(aside["error"]["code"], "REQUEST_ID_CONFLICT");
    assert_eq!(answer_of(&home), stands);
    watcher.stop();
    assert_eq!(answer_of(&home), stands);
    succeed(&home, &["audit", "verify", "--strict"]);
    succeed(&home, &["audit", "replay"]);
}
