//! `audit redact` and `audit disclose` by the real program on real files: what it says, what it
//! refuses, and that no byte of the text is left anywhere below the home.

use std::fs;
use std::path::Path;

use crate::kit::process::Running;
use crate::kit::{Scratch, Sent, decisions, log_bytes, sign, spoolgate, succeed};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use spoolgate_wire::signing::{SignKey, sha256_hex, unhex};

/// No character of it is escaped in JSON.
const SECRET: &str = "the-password-is-hunter2";

fn key(scratch: &Scratch, name: &str) -> SignKey {
    let file = scratch.beside(&format!("{name}.key"));
    succeed(
        &scratch.home(),
        &["keys", "add", name, "--out", file.to_str().unwrap()],
    );
    let file: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    SignKey::Hmac(
        unhex(file["secret"].as_str().unwrap())
            .unwrap()
            .try_into()
            .unwrap(),
    )
}

fn run_one(home: &Path, id: &str, bytes: Vec<u8>) {
    Sent::new(&format!("{id}.json"), bytes).drop_into(home);
    succeed(home, &["run", "--until-idle"]);
}

/// Files below a folder that hold one of these texts.
fn holding(folder: &Path, texts: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(holding(&path, texts));
        } else if let Ok(bytes) = fs::read(&path)
            && texts.iter().any(|text| {
                bytes
                    .windows(text.len())
                    .any(|window| window == text.as_bytes())
            })
        {
            found.push(path.display().to_string());
        }
    }
    found
}

#[test]
fn a_case_is_redacted_and_every_proof_stays() {
    let scratch = Scratch::new();
    let home = scratch.home();
    let proposer = key(&scratch, "research-bot");
    let roles = [
        ("code-auditor", "Code Auditor"),
        ("integration-engineer", "Integration Engineer"),
    ];
    let keys = roles.map(|(name, _)| key(&scratch, name));
    let payload = json!({
        "request_id": "req_1", "timestamp": "2026-03-02T11:59:00Z", "proposer": "Q", "change_type": "CODE_REFACTOR",
        "context": {"summary": "A cleaner \
            loader.", "files_changed": ["loader.rs"], "key_metrics": {}},
        "artifacts": {"diff_content": format!("+ {SECRET}")},
    })
    .to_string();
    let request = sign(
        &proposer,
        "research-bot",
        "open",
        "council.request",
        &payload,
    );
    run_one(&home, "open", request.clone());
    let (line, opened) = decisions(&home)
        .unwrap()
        .into_iter()
        .find(|(_, decision)| decision.action.as_deref() == Some("council.request"))
        .unwrap();
    let line = line.to_string();
    let reason = ["--reason", "a customer asked for it"];
    let redact = |more: &[&str]| spoolgate(&home, &[&["audit", "redact"], more, &reason].concat());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    // Its roles need it still.
    let early = redact(&[&line, "--yes"]);
    assert!(
        !early.status.success() && text(&early.stderr).contains("is open until"),
        "{}",
        text(&early.stderr)
    );
    let answer: Value =
        serde_json::from_slice(&fs::read(home.join("spool/out/open.json")).unwrap()).unwrap();
    for ((name, role), key) in roles.iter().zip(&keys) {
        let verdict = json!({
            "request_id": "req_1", "request_sha256": answer["data"]["request_sha256"],
            "verdict": {
                "role": role, "verdict": "APPROVE", "confidence_score": 0.9,
                "checklist_results": [{"question": "q", "answer": "a", "pass": true}],
                "concerns": [], "required_actions": [],
            },
        });
        run_one(
            &home,
            name,
            sign(key, name, name, "council.verdict", &verdict.to_string()),
        );
    }
    assert!(home.join("spool/out/req_1.decision.json").exists());
    // What is disclosed is what the line commits to, as anybody can compute.
    let told = succeed(&home, &["audit", "disclose", &line]);
    let (digest, disclosure) = told.trim_end().split_once("  ").unwrap();
    assert_eq!(digest, opened.sealed[0].sd);
    use base64::Engine as _;
    let base64 = base64::engine::general_purpose::URL_SAFE_NO_PAD;
    assert_eq!(base64.encode(Sha256::digest(disclosure.as_bytes())), digest);
    let shown: Value = serde_json::from_slice(&base64.decode(disclosure).unwrap()).unwrap();
    assert_eq!(
        (&shown[1], &shown[2]),
        (&json!("diff_content"), &json!(format!("+ {SECRET}")))
    );
    // The text, its disclosure and every hash that nobody salted.
    let value = json!(format!("+ {SECRET}")).to_string();
    let mut texts = vec![SECRET.to_owned(), disclosure.to_owned()];
    texts.extend([payload.as_bytes(), &request, value.as_bytes()].map(sha256_hex));
    let before = holding(&home, &texts);
    let may = |path: &String| path.contains("/audit/blobs/sd-") || path.contains("/council/cases/");
    assert!(!before.is_empty() && before.iter().all(may), "{before:?}");
    let replayed: Value =
        serde_json::from_str(&succeed(&home, &["--format", "json", "audit", "replay"])).unwrap();
    assert_eq!(
        replayed["missing"], 0,
        "disclosures are blobs of another name"
    );
    let head = scratch.beside("head");
    fs::copy(home.join("audit/checkpoint"), &head).unwrap();
    let log = log_bytes(&home);
    // Without --yes it only tells; facts stay; a running gate is not disturbed.
    let dry = succeed(&home, &[&["audit", "redact", "open"], &reason[..]].concat());
    assert!(
        dry.contains(&format!(
            "would redact /artifacts/diff_content of line {line}"
        )),
        "{dry}"
    );
    assert_eq!(holding(&home, &texts), before);
    let fact = redact(&[&line, "--field", "/context/summary", "--yes"]);
    assert!(
        !fact.status.success() && text(&fact.stderr).contains("it is a fact"),
        "{}",
        text(&fact.stderr)
    );
    let watcher = Running::watching(&home);
    let busy = redact(&[&line]);
    assert_eq!(busy.status.code(), Some(7), "{}", text(&busy.stderr));
    watcher.kill();
    assert!(
        text(&busy.stderr).contains("a gate runs on this home"),
        "{}",
        text(&busy.stderr)
    );
    let done = succeed(
        &home,
        &[&["audit", "redact", "open", "--yes"], &reason[..]].concat(),
    );
    assert!(done.contains("redacted /artifacts/diff_content"), "{done}");
    assert_eq!(holding(&home, &texts), Vec::<String>::new());
    let again = succeed(
        &home,
        &[&["audit", "redact", &line, "--yes"], &reason[..]].concat(),
    );
    assert!(again.contains("redacted already, in line "), "{again}");
    // Nothing brings it back, and nothing that was shown to anybody is less true.
    succeed(&home, &["run", "--until-idle"]);
    succeed(&home, &["rebuild"]);
    assert_eq!(holding(&home, &texts), Vec::<String>::new());
    let report = succeed(
        &home,
        &[
            "--format",
            "json",
            "audit",
            "verify",
            "--strict",
            "--head",
            head.to_str().unwrap(),
        ],
    );
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(
        report["sealed"],
        json!({"fields": 2, "disclosed": 0, "redacted": 2, "not_seen": false})
    );
    let now = log_bytes(&home);
    assert!(
        log.iter().zip(&now).all(|(old, new)| new.starts_with(old)),
        "a line changed"
    );
    assert_eq!(
        spoolgate(&home, &["audit", "disclose", &line])
            .status
            .code(),
        Some(1)
    );
    // An auditor who has the lines alone is told so.
    let copy = scratch.beside("copy");
    fs::create_dir(&copy).unwrap();
    fs::copy(
        home.join("audit/log-00000001.jsonl"),
        copy.join("log-00000001.jsonl"),
    )
    .unwrap();
    let alone = succeed(&home, &["audit", "verify", copy.to_str().unwrap()]);
    assert!(alone.contains("disclosures not seen"), "{alone}");
    // It is not decided again, and nothing of it comes back with it.
    fs::remove_file(home.join("spool/out/open.json")).unwrap();
    run_one(&home, "open-again", request);
    let refused: Value = serde_json::from_slice(
        &fs::read(home.join("spool/out/open-again.json.error.json")).unwrap(),
    )
    .unwrap();
    assert_eq!(refused["error"]["code"], "REQUEST_ID_CONFLICT");
    assert_eq!(holding(&home, &texts), Vec::<String>::new());
}
