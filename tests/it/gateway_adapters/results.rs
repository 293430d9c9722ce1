//! What the gate makes of the results of adapters: the hidden characters of their texts go.

use crate::kit::gateway_home::{GatewayHome, code};
use serde_json::{Value, json};
use spoolgate_wire::answer::Answer;

const FETCH: &str = r#"{"folder":"inbox"}"#;

/// Returns the answer to a fetch whose adapter writes `output`.
fn answered(output: &str) -> (Answer, Value) {
    let home = GatewayHome::new(&format!("cat >/dev/null; cat <<'END'\n{output}\nEND\n"));
    let mut gate = home.open();
    let answer = home.one(&mut gate, "r1", "email.fetch", FETCH);
    let bytes = home.place.disk.get("spool/out/r1.json").unwrap();
    (answer, serde_json::from_slice(&bytes).unwrap())
}

#[test]
fn invisible_characters_of_a_result_are_removed_and_counted() {
    let output = "{\"success\":true,\"data\":{\"subj\\u200bect\":\"pay\u{e0041}\u{e0042} now\",\
        \"n\":1.50,\"list\":[\"\\u202ea\",\"👨\u{200d}👩\",\"b\"]}}";
    let (answer, file) = answered(output);
    assert_eq!(code(&answer), "", "{answer:?}");
    assert_eq!(
        answer.data.unwrap().get(),
        "{\"subject\":\"pay now\",\"n\":1.50,\"list\":[\"a\",\"👨\u{200d}👩\",\"b\"]}"
    );
    assert_eq!(file["removed"], json!({"invisible": 4}));
    let (_, file) = answered(r#"{"success":true,"data":{"subject":"é"}}"#);
    assert_eq!(file.get("removed"), None, "nothing was removed: {file}");
}

#[test]
fn so_are_those_of_a_message_and_names_that_become_one_are_no_answer() {
    let error = "{\"success\":false,\"error\":{\"code\":\"FULL\",\"message\":\"no\\u200b room\"}}";
    let (answer, file) = answered(error);
    let message = answer.error.unwrap().message;
    assert!(message.contains("FULL: no room;"), "{message}");
    assert_eq!(file["removed"], json!({"invisible": 1}));
    let (answer, file) = answered("{\"success\":true,\"data\":{\"a\":1,\"a\\u200b\":2}}");
    assert_eq!(code(&answer), "ADAPTER_OUTPUT");
    assert_eq!(file.get("data"), None);
}
