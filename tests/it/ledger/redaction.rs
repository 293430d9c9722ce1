//! `audit redact` and `audit disclose` with the real program on real files: what they print, what
//! they refuse, and that no byte of the text is left anywhere below the home.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::kit::keys::add_key;
use crate::kit::process::Running;
use crate::kit::{Scratch, Sent, decisions, log_bytes, show, sign, spoolgate, succeed};
use base64::Engine as _;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use spoolgate_gate::record::Decision;
use spoolgate_wire::code::Code;
use spoolgate_wire::signing::{SignKey, sha256_hex};

/// JSON escapes no character of it.
const SECRET: &str = "the-password-is-hunter2";

fn key(scratch: &Scratch, name: &str) -> SignKey {
    let file = scratch.beside(&format!("{name}.key"));
    add_key(&scratch.home(), name, &file)
}

fn run_one(home: &Path, id: &str, bytes: Vec<u8>) {
    Sent::new(&format!("{id}.json"), bytes).drop_into(home);
    succeed(home, &["run", "--until-idle"]);
}

/// Lists the files below a folder that contain one of these texts.
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

const REASON: [&str; 2] = ["--reason", "a customer asked for it"];

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A home with a council case whose request holds the secret.
struct Sealed {
    scratch: Scratch,
    home: PathBuf,
    payload: String,
    request: Vec<u8>,
    line: String,
    opened: Decision,
}

impl Sealed {
    fn new() -> Sealed {
        let scratch = Scratch::new();
        let home = scratch.home();
        let proposer = key(&scratch, "research-bot");
        let payload = json!({
            "request_id": "req_1", "timestamp": "2026-03-02T11:59:00Z", "proposer": "Q",
            "change_type": "CODE_REFACTOR",
            "context": {
                "summary": "A cleaner loader.", "files_changed": ["loader.rs"], "key_metrics": {},
            },
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
        let is_case = |decision: &Decision| decision.action.as_deref() == Some("council.request");
        let mut decided = decisions(&home).unwrap().into_iter();
        let (line, opened) = decided.find(|(_, decision)| is_case(decision)).unwrap();
        let line = line.to_string();
        Sealed {
            scratch,
            home,
            payload,
            request,
            line,
            opened,
        }
    }

    /// Decides the case by the verdicts of its roles.
    fn decide(&self) {
        let answer = fs::read(self.home.join("spool/out/open.json")).unwrap();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        for (name, role) in [
            ("code-auditor", "Code Auditor"),
            ("integration-engineer", "Integration Engineer"),
        ] {
            let verdict = json!({
                "request_id": "req_1", "request_sha256": answer["data"]["request_sha256"],
                "verdict": {
                    "role": role, "verdict": "APPROVE", "confidence_score": 0.9,
                    "checklist_results": [{"question": "q", "answer": "a", "pass": true}],
                    "concerns": [], "required_actions": [],
                },
            });
            let key = key(&self.scratch, name);
            let signed = sign(&key, name, name, "council.verdict", &verdict.to_string());
            run_one(&self.home, name, signed);
        }
        assert!(self.home.join("spool/out/req_1.decision.json").exists());
    }

    /// Returns the text, its disclosure and every unsalted hash.
    fn texts(&self) -> Vec<String> {
        // The disclosure has the digest that the line commits to, as anybody can compute.
        let told = succeed(&self.home, &["audit", "disclose", &self.line]);
        let (digest, disclosure) = told.trim_end().split_once("  ").unwrap();
        assert_eq!(digest, self.opened.sealed[0].sd);
        let base64 = base64::engine::general_purpose::URL_SAFE_NO_PAD;
        assert_eq!(base64.encode(Sha256::digest(disclosure.as_bytes())), digest);
        let shown: Value = serde_json::from_slice(&base64.decode(disclosure).unwrap()).unwrap();
        assert_eq!(
            (&shown[1], &shown[2]),
            (&json!("diff_content"), &json!(format!("+ {SECRET}")))
        );
        let value = json!(format!("+ {SECRET}")).to_string();
        let mut texts = vec![SECRET.to_owned(), disclosure.to_owned()];
        texts.extend([self.payload.as_bytes(), &self.request, value.as_bytes()].map(sha256_hex));
        texts
    }

    fn redact(&self, more: &[&str]) -> Output {
        spoolgate(&self.home, &[&["audit", "redact"], more, &REASON].concat())
    }

    #[track_caller]
    fn redacts(&self, more: &[&str], expect: &str) {
        let done = self.redact(more);
        let said = text(&done.stdout);
        assert!(
            done.status.success() && said.contains(expect),
            "{}",
            show(&done)
        );
    }

    #[track_caller]
    fn refuses(&self, more: &[&str], expect: &str) {
        let done = self.redact(more);
        let said = text(&done.stderr);
        assert!(!done.status.success() && said.contains(expect), "{said}");
    }
}

#[test]
fn open_cases_facts_and_running_gates_are_left_alone() {
    let case = Sealed::new();
    let (home, line) = (&case.home, case.line.as_str());
    // The roles of the case still need it.
    case.refuses(&[line, "--yes"], "is open until");
    assert_eq!(case.redact(&[line, "--yes"]).status.code(), Some(7));
    // There is no such line.
    let nothing = "the ledger has no line 99999";
    case.refuses(&["99999"], nothing);
    let disclosed = spoolgate(home, &["audit", "disclose", "99999"]);
    assert!(
        text(&disclosed.stderr).contains(nothing),
        "{}",
        show(&disclosed)
    );
    let exits = [case.redact(&["99999"]), disclosed].map(|done| done.status.code());
    assert_eq!(exits, [Some(2); 2]);
    case.decide();
    let texts = case.texts();
    let before = holding(home, &texts);
    let may = |path: &String| path.contains("/audit/blobs/sd-") || path.contains("/council/cases/");
    assert!(!before.is_empty() && before.iter().all(may), "{before:?}");
    let replayed: Value =
        serde_json::from_str(&succeed(home, &["--format", "json", "audit", "replay"])).unwrap();
    assert_eq!(
        replayed["missing"], 0,
        "disclosures are blobs of another name"
    );
    // Without --yes the command only prints what it would do.
    let would = format!("would redact /artifacts/diff_content of line {line}");
    case.redacts(&["open"], &would);
    assert_eq!(holding(home, &texts), before);
    case.refuses(&[line, "--field", "/context/summary", "--yes"], "as a fact");
    let watcher = Running::watching(home);
    let busy = case.redact(&[line]);
    assert_eq!(busy.status.code(), Some(7), "{}", text(&busy.stderr));
    watcher.kill();
    assert!(
        text(&busy.stderr).contains("a gate runs on this home"),
        "{}",
        text(&busy.stderr)
    );
    assert_eq!(holding(home, &texts), before);
}

#[test]
fn a_case_is_redacted_and_every_proof_stays() {
    let case = Sealed::new();
    let home = &case.home;
    case.decide();
    let texts = case.texts();
    let head = case.scratch.beside("head");
    fs::copy(home.join("audit/checkpoint"), &head).unwrap();
    let log = log_bytes(home);
    case.redacts(&["open", "--yes"], "redacted /artifacts/diff_content");
    assert_eq!(holding(home, &texts), Vec::<String>::new());
    case.redacts(&[&case.line, "--yes"], "redacted already, in line ");
    // Nothing brings the text back, and everything that was proved before still holds.
    succeed(home, &["run", "--until-idle"]);
    succeed(home, &["rebuild"]);
    assert_eq!(holding(home, &texts), Vec::<String>::new());
    let report = succeed(
        home,
        &[
            "--format",
            "json",
            "audit",
            "verify",
            "--head",
            head.to_str().unwrap(),
        ],
    );
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(
        report["sealed"],
        json!({"fields": 2, "disclosed": 0, "redacted": 2, "not_seen": false})
    );
    let now = log_bytes(home);
    assert!(
        log.iter().zip(&now).all(|(old, new)| new.starts_with(old)),
        "a line changed"
    );
    assert_eq!(
        spoolgate(home, &["audit", "disclose", &case.line])
            .status
            .code(),
        Some(1)
    );
    // An auditor who has only the lines gets a report that says so.
    let copy = case.scratch.beside("copy");
    fs::create_dir(&copy).unwrap();
    fs::copy(
        home.join("audit/log-00000001.jsonl"),
        copy.join("log-00000001.jsonl"),
    )
    .unwrap();
    let alone = succeed(home, &["audit", "verify", copy.to_str().unwrap()]);
    assert!(alone.contains("disclosures not verified"), "{alone}");
    // The request is not decided again, and nothing of the text comes back.
    fs::remove_file(home.join("spool/out/open.json")).unwrap();
    run_one(home, "open-again", case.request.clone());
    let refused: Value = serde_json::from_slice(
        &fs::read(home.join("spool/out/open-again.json.error.json")).unwrap(),
    )
    .unwrap();
    assert_eq!(refused["error"]["code"], "REQUEST_ID_CONFLICT");
    assert_eq!(holding(home, &texts), Vec::<String>::new());
}

/// Its text is sealed too, so a misspelt action does not keep a mail in the ledger for ever.
#[test]
fn a_request_for_an_action_that_does_not_exist_is_redacted() {
    let scratch = Scratch::new();
    let home = scratch.home();
    let payload = json!({"to": ["ann@example.com"], "subject": "hello", "body": SECRET});
    let payload = payload.to_string();
    let request = scratch.request("typo", "email.sned", &payload);
    run_one(&home, "typo", request.clone());
    let decided = decisions(&home).unwrap().into_values();
    let mut of_it = decided.filter(|line| line.request_id.as_deref() == Some("typo"));
    let line = of_it.next().unwrap();
    assert_eq!(line.metadata.code, Some(Code::UnknownAction));
    let sealed: Vec<&str> = line
        .sealed
        .iter()
        .map(|field| field.field.as_str())
        .collect();
    assert_eq!(sealed, ["", "digests"]);
    let mut texts = vec![SECRET.to_owned()];
    texts.extend([payload.as_bytes(), &request].map(sha256_hex));
    assert!(!is_in(&log_bytes(&home), &texts));
    succeed(&home, &["audit", "replay"]);
    // Sent again, it gets its answer, and no line about it has a hash either.
    fs::remove_file(home.join("spool/out/typo.json")).unwrap();
    run_one(&home, "again", request);
    assert!(home.join("spool/out/typo.json").exists());
    assert!(!is_in(&log_bytes(&home), &texts));
    let redact = [&["audit", "redact", "typo", "--yes"][..], &REASON].concat();
    assert!(succeed(&home, &redact).contains("redacted"));
    assert_eq!(holding(&home, &texts), Vec::<String>::new());
    for command in ["verify", "replay"] {
        succeed(&home, &["audit", command]);
    }
}

fn is_in(segments: &[Vec<u8>], texts: &[String]) -> bool {
    let has = |bytes: &[u8], text: &str| bytes.windows(text.len()).any(|at| at == text.as_bytes());
    let mut pairs = segments
        .iter()
        .flat_map(|bytes| texts.iter().map(move |text| (bytes, text)));
    pairs.any(|(bytes, text)| has(bytes, text))
}
