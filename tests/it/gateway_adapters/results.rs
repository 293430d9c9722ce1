//! What the gate makes of the results of adapters: the hidden characters of their texts go, and
//! what adapters write is sealed and can be redacted.

use std::fs;
use std::path::Path;

use crate::kit::gateway_home::{GatewayHome, code, exec, gateway, let_trend_bot_act};
use crate::kit::{Scratch, sign, spoolgate, succeed, uncaged};
use serde_json::{Value, json};
use spoolgate_rules::gateway::ACTIONS;
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
    assert_eq!(file["data"], json!({"retry": "never"}));
}

/// Is in each text of the mail and nowhere else.
const MARKER: &str = "the-mail-says-hunter2";

/// Returns the files below these folders of the home that contain the marker, and how many files
/// were searched.
fn holding(home: &Path, folders: &[&str]) -> (Vec<String>, usize) {
    let (mut found, mut searched) = (Vec::new(), 0);
    let mut left: Vec<_> = folders.iter().map(|folder| home.join(folder)).collect();
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                left.push(path);
            } else if path.is_file() {
                searched += 1;
                let bytes = fs::read(&path).unwrap();
                if memchr::memmem::find(&bytes, MARKER.as_bytes()).is_some() {
                    found.push(path.display().to_string());
                }
            }
        }
    }
    (found, searched)
}

fn answer(home: &Path) -> Value {
    serde_json::from_slice(&fs::read(home.join("spool/out/mail-1.json")).unwrap()).unwrap()
}

fn request(scratch: &Scratch) -> Vec<u8> {
    sign(&scratch.bot, "trend-bot", "mail-1", "email.fetch", "{}")
}

fn send(home: &Path, request: &[u8]) {
    fs::write(home.join("spool/in/mail-1.json"), request).unwrap();
    succeed(home, &["run", "--until-idle"]);
}

fn is_sound(home: &Path) {
    succeed(home, &["audit", "verify"]);
    succeed(home, &["audit", "replay"]);
}

/// Makes a home whose adapter writes the marker where `output` has `@`.
fn home_of(output: &str) -> Scratch {
    let scratch = Scratch::with_prices();
    let home = scratch.home();
    let_trend_bot_act(&home);
    uncaged(&home);
    // Rule files are kept for ever, so the text must not be in them.
    let act = scratch.beside("act");
    fs::write(&act, output.replace('@', MARKER)).unwrap();
    let script = format!("cat >/dev/null; sh {}", act.display());
    let rules = gateway(&[exec(&ACTIONS, &script, 20)]);
    fs::write(home.join("rules/gateway.yaml"), rules).unwrap();
    scratch
}

#[test]
fn after_a_redaction_no_byte_of_a_mail_is_left() {
    let error = r#"{"success":false,"error":{"code":"E","message":"@"},"data":["@"]}"#;
    for (output, fields) in [
        (
            r#"printf '{"success":true,"data":"@ '; head -c 30000 /dev/zero | tr '\0' x; printf '"}'"#,
            vec!["data"],
        ),
        (
            &format!("echo no @ >&2; echo '{error}'"),
            vec!["data", "complaint", "message"],
        ),
    ] {
        let scratch = home_of(output);
        let home = scratch.home();
        let request = request(&scratch);
        send(&home, &request);
        let clear = answer(&home);
        assert!(clear.to_string().contains(MARKER), "{clear}");
        // Before a redaction only the answer has it in clear: disclosures are base64.
        let (found, searched) = holding(&home, &["audit", "spool", "state"]);
        assert!(searched > 5 && found.len() == 1, "{found:?}");
        is_sound(&home);
        let line = clear["auditRef"].as_str().unwrap();
        let told = succeed(&home, &["--format", "json", "audit", "disclose", line]);
        let told: Value = serde_json::from_str(&told).unwrap();
        let named: Vec<&str> = told
            .as_array()
            .unwrap()
            .iter()
            .map(|field| field["field"].as_str().unwrap())
            .collect();
        assert_eq!(named, fields);
        let disclosed: Vec<String> = told
            .as_array()
            .unwrap()
            .iter()
            .map(|field| format!("audit/blobs/sd-{}", field["sd"].as_str().unwrap()))
            .collect();
        assert!(disclosed.iter().all(|path| home.join(path).exists()));
        let redact = ["audit", "redact", "mail-1", "--reason", "asked", "--yes"];
        let done = succeed(&home, &redact);
        assert!(
            done.contains("redacted") && !done.contains("hashes"),
            "{done}"
        );
        assert!(disclosed.iter().all(|path| !home.join(path).exists()));
        let (found, _) = holding(&home, &["audit", "spool", "state"]);
        assert_eq!(found, Vec::<String>::new());
        is_sound(&home);
        // A start brings nothing back, and a later copy says what happened.
        send(&home, &request);
        let later = answer(&home);
        assert_eq!(later["redacted"], json!(true));
        // Of a refusal, only how to try again is left.
        let left = later.get("data").and_then(Value::as_object);
        assert!(left.is_none_or(|left| left.keys().eq(["retry"])), "{later}");
        assert_eq!(later["status"], clear["status"]);
        assert_eq!(later["error"]["code"], clear["error"]["code"]);
        assert_eq!(
            holding(&home, &["audit", "spool", "state"]).0,
            Vec::<String>::new()
        );
        is_sound(&home);
        let again = succeed(&home, &redact);
        assert!(again.contains("redacted already"), "{again}");
    }
}

#[test]
fn a_lost_disclosure_is_no_redaction() {
    let scratch = home_of(r#"echo '{"success":true,"data":"@"}'"#);
    let home = scratch.home();
    let request = request(&scratch);
    send(&home, &request);
    for blob in fs::read_dir(home.join("audit/blobs")).unwrap() {
        let path = blob.unwrap().path();
        if path.display().to_string().contains("/sd-") {
            fs::remove_file(path).unwrap();
        }
    }
    let verified = spoolgate(&home, &["audit", "verify"]);
    assert_ne!(verified.status.code(), Some(0));
    fs::remove_file(home.join("spool/out/mail-1.json")).unwrap();
    send(&home, &request);
    let mut answers = String::new();
    for entry in fs::read_dir(home.join("spool/out")).unwrap() {
        answers.push_str(&fs::read_to_string(entry.unwrap().path()).unwrap());
    }
    assert!(
        answers.contains("\"INTERNAL\"") && !answers.contains("redacted"),
        "{answers}"
    );
}
