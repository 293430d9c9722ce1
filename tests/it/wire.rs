//! What docs/wire.md promises to clients: its worked example, and the published vectors of
//! `tests/vectors/wire`, which `make.py` beside them computes without any code of this repository.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};
use spoolgate_client::KeyFile;
use spoolgate_host::keyring::{SqliteKeyring, key_id};
use spoolgate_wire::answer::{Answer, AnswerStatus};
use spoolgate_wire::envelope::Envelope;
use spoolgate_wire::frames::FrameReader;
use spoolgate_wire::ids::Principal;
use spoolgate_wire::signing::{SignKey, VerifyKey, hex, unhex};
use spoolgate_wire::time::Time;

use crate::kit::place::{Place, drain};

/// Longer than the gate waits for the rest of a half-written file.
const PATIENCE_S: i64 = 3;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Vectors {
    format: u32,
    now: String,
    keys: Vec<Key>,
    frames: Vec<Frame>,
    requests: Vec<Request>,
    refused: Vec<Refused>,
    answers: Vec<AnswerFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Key {
    name: String,
    principal: String,
    algorithm: String,
    key_file: String,
    public: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Frame {
    hex: String,
    message: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    name: String,
    key: String,
    payload: String,
    causality: Option<String>,
    causality_min: Option<String>,
    sent: String,
    payload_min: String,
    payload_sha256: String,
    signing_string: String,
    signature: String,
    file_name: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Refused {
    name: String,
    bytes_base64: String,
    file_name: String,
    code: String,
    answered_as: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AnswerFile {
    name: String,
    bytes: String,
    outcome: String,
    order_id: Option<String>,
    hold_id: Option<String>,
    root: Option<String>,
    max_size: Option<String>,
    retry: Option<String>,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn vectors() -> Vectors {
    let text = fs::read(root().join("tests/vectors/wire/v1.json")).unwrap();
    let found: Vectors = serde_json::from_slice(&text).unwrap();
    assert_eq!(found.format, 1);
    found
}

impl Key {
    fn principal(&self) -> Principal {
        Principal::parse(&self.principal).unwrap()
    }

    /// Reads the key file as the gate's own client does.
    fn sign_key(&self) -> SignKey {
        let folder = crate::kit::folder();
        let path = folder.path().join("a.key");
        fs::write(&path, &self.key_file).unwrap();
        let file = KeyFile::read(&path, &self.principal()).unwrap();
        let key = file.sign_key().unwrap();
        assert_eq!(file.key_id, key_id(&key.verify_key()), "{}", self.name);
        assert_eq!(
            serde_json::to_value(file.algorithm).unwrap(),
            self.algorithm
        );
        match key.verify_key() {
            VerifyKey::Hmac(_) => assert_eq!(self.public, None, "{}", self.name),
            VerifyKey::Ed25519(public) => {
                assert_eq!(self.public, Some(hex(public.as_bytes())), "{}", self.name);
            }
        }
        key
    }
}

#[test]
fn the_worked_example_of_the_docs() {
    let page = fs::read_to_string(root().join("docs/wire.md")).unwrap();
    let blocks: Vec<&str> = page.split("```").skip(1).step_by(2).collect();
    let json_of = |member: &str| {
        let block = blocks.iter().find(|block| {
            block
                .strip_prefix("json")
                .is_some_and(|rest| rest.trim_start().starts_with(member))
        });
        block.unwrap().strip_prefix("json").unwrap()
    };
    let key = Key {
        name: "the page's".to_owned(),
        principal: "trend-bot".to_owned(),
        algorithm: "hmac-sha256".to_owned(),
        key_file: json_of(r#"{"principal""#).to_owned(),
        public: None,
    };
    let key = key.sign_key();
    let request = Envelope::parse(json_of(r#"{"id""#).as_bytes()).unwrap();
    let string = request.signing_string();
    assert!(
        key.verify_key().verifies(&string, &request.signature),
        "{request:?}"
    );
    let shown = |text: &str| blocks.iter().any(|block| block.trim() == text);
    assert!(shown(&format!("text\n{string}")), "{string}");
    assert!(page.contains(&format!("`{}`", request.payload)));
    assert!(page.contains(&format!("`{}`", request.payload_hash())));
}

#[test]
fn requests_have_these_strings_and_signatures() {
    let vectors = vectors();
    assert!(vectors.requests.len() >= 60);
    let keys: BTreeMap<&str, (SignKey, Principal)> = vectors
        .keys
        .iter()
        .map(|key| (key.name.as_str(), (key.sign_key(), key.principal())))
        .collect();
    for vector in &vectors.requests {
        let name = &vector.name;
        let (key, principal) = &keys[vector.key.as_str()];
        let request = Envelope::parse(vector.sent.as_bytes()).unwrap();
        assert_eq!(request.source, *principal, "{name}");
        assert_eq!(request.payload, vector.payload_min, "{name}");
        assert_eq!(request.payload_hash(), vector.payload_sha256, "{name}");
        assert_eq!(request.causality, vector.causality_min, "{name}");
        assert_eq!(request.signing_string(), vector.signing_string, "{name}");
        assert_eq!(request.signature, vector.signature, "{name}");
        assert_eq!(key.sign(&vector.signing_string), vector.signature, "{name}");
        let is_good = |key: &SignKey| {
            key.verify_key()
                .verifies(&vector.signing_string, &vector.signature)
        };
        for (other, (key, _)) in &keys {
            assert_eq!(is_good(key), *other == vector.key, "{name} by {other}");
        }
        assert_eq!(
            format!("{}.json", request.id.file_stem()),
            vector.file_name,
            "{name}"
        );
        // The gate's own client makes the same request of the texts.
        let again = spoolgate_client::sign(
            key,
            principal,
            &request.action,
            &vector.payload,
            vector.causality.as_deref(),
            Some(request.id.as_str()),
            Some(&request.timestamp_text),
        );
        assert_eq!(again.unwrap(), request, "{name}");
    }
}

#[test]
fn frames_are_split_in_any_pieces() {
    for Frame { hex, message } in vectors().frames {
        let bytes = unhex(&hex).unwrap();
        assert_eq!(
            spoolgate_wire::frames::frame(message.as_bytes()).as_deref(),
            Some(bytes.as_slice())
        );
        for at in 0..=bytes.len() {
            let mut reader = FrameReader::new(1024);
            reader.push(&bytes[..at]);
            let early = reader.next_frame();
            reader.push(&bytes[at..]);
            let whole = early.or_else(|| reader.next_frame()).unwrap().unwrap();
            assert_eq!(whole, message.as_bytes());
        }
    }
}

/// A gate has the keys, and everything is dropped into its flat spool at once.
#[test]
fn a_gate_refuses_what_is_to_be_refused() {
    let vectors = vectors();
    assert!(vectors.refused.len() >= 160);
    let place = Place::at(5, &vectors.now, |_| {});
    let keyring = SqliteKeyring::open(place.root.path(), false).unwrap();
    for key in &vectors.keys {
        let verify_key = key.sign_key().verify_key();
        keyring.insert(&verify_key).unwrap();
        let payload = json!({"principal": key.principal, "key_id": key_id(&verify_key),
            "algorithm": key.algorithm});
        place.ask_as_owner(
            &format!("key-{}", key.name),
            "keys.add",
            &payload.to_string(),
        );
    }
    drop(keyring);
    let mut home = place.settled();
    let before = place.answers();
    let mut expected = BTreeMap::new();
    for vector in &vectors.refused {
        let bytes = STANDARD.decode(&vector.bytes_base64).unwrap();
        place
            .disk
            .put(format!("spool/in/{}", vector.file_name), &bytes);
        let twice = expected.insert(vector.answered_as.clone(), vector);
        assert!(twice.is_none(), "{}: answered as another", vector.name);
    }
    drain(&mut home).unwrap();
    // Half-written files get time.
    place.pass_s(PATIENCE_S);
    drain(&mut home).unwrap();

    let mut answers: BTreeMap<String, Value> = place
        .disk
        .files_below("spool/out")
        .into_iter()
        .map(|(path, file)| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, file)
        })
        .filter(|(name, _)| !name.starts_with('.') && !before.contains(name))
        .map(|(name, file)| (name, serde_json::from_slice(&file).unwrap()))
        .collect();
    let mut wrong = Vec::new();
    for (answered_as, vector) in expected {
        let answer = answers.remove(&answered_as).unwrap_or_default();
        if answer["error"]["code"] != vector.code || answer["status"] != "error" {
            wrong.push(format!("{}: {answered_as}: {answer}", vector.name));
        }
    }
    let unexpected = answers
        .into_iter()
        .map(|(name, answer)| format!("{name}: {answer}"));
    wrong.extend(unexpected);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Answers that this version can give are read as the vectors say. Members and codes of later
/// versions are for clients alone.
#[test]
fn answers_mean_what_the_vectors_say() {
    let mut read = 0;
    for vector in vectors().answers {
        let name = &vector.name;
        let Ok(answer) = serde_json::from_str::<Answer>(&vector.bytes) else {
            assert!(
                vector.outcome == "none" || name.ends_with("of-a-later-version"),
                "{name}"
            );
            continue;
        };
        read += 1;
        let outcome = match answer.status {
            AnswerStatus::Success => "done",
            AnswerStatus::Error => "refused",
            AnswerStatus::RequiresApproval => "held",
            AnswerStatus::RateLimited => "rate_limited",
        };
        assert_eq!(outcome, vector.outcome, "{name}");
        let data: Value = answer.data.as_ref().map_or(Value::Null, |data| {
            serde_json::from_str(data.get()).unwrap_or_default()
        });
        if let Some(retry) = answer.retry() {
            assert_eq!(Some(retry.as_str()), vector.retry.as_deref(), "{name}");
        }
        let text = |pointer: &str| data.pointer(pointer).and_then(Value::as_str);
        if outcome == "done" {
            assert_eq!(vector.root, None, "{name}");
            if let Some(id) = &vector.order_id {
                assert_eq!(text("/Accepted/order_id"), Some(id.as_str()), "{name}");
            }
        } else {
            let code = answer.error.unwrap().code.to_string();
            let rows = ["/Rejected/checks_failed", "/Held/checks_failed"];
            let rows = rows.iter().find_map(|at| data.pointer(at)?.as_array());
            let named = |row: &&Value| row["check_name"].is_string();
            let rows: Vec<&Value> = rows.into_iter().flatten().filter(named).collect();
            let leads = |row: &&&Value| row.get("follows_from").is_none();
            let first = rows.iter().find(leads).or(rows.first());
            let root = first.map_or(code.as_str(), |row| row["check_name"].as_str().unwrap());
            assert_eq!(Some(root), vector.root.as_deref(), "{name}");
            let size = text("/Rejected/headroom/max_size");
            let size = size.filter(|size| size.parse().is_ok_and(f64::is_finite));
            assert_eq!(size, vector.max_size.as_deref(), "{name}");
            assert_eq!(text("/Held/hold_id"), vector.hold_id.as_deref(), "{name}");
        }
        assert!(Time::parse(&answer.timestamp.to_string()).is_ok());
    }
    assert!(read >= 20, "{read} answers were read");
}
