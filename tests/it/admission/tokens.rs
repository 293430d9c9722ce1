//! Admission tokens and forwarded files: genuine ones, every changed bit, other notes in place of a
//! token, and `spoolgate admit verify`.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use serde_json::Value;
use spoolgate_home::layout::log_signer;
use spoolgate_host::keyring::SqliteKeyring;
use spoolgate_ledger::note::{
    Checkpoint, NoteError, SignerKey, VerifierKey, open_checkpoint, sign_checkpoint, sign_note,
};
use spoolgate_ledger::token::{
    Claim, FORWARDED_BYTES_MAX, Forwarded, TokenError, forwarded, issue, verify, verify_forwarded,
};
use spoolgate_ledger::tree::leaf_hash;
use spoolgate_wire::signing::sha256_hex;
use tempfile::TempDir;

const ORIGIN: &str = "gate.example/desk";
const RECEIPT: &str = "r-42";
const REQUEST: &str = "task:1";
const ENVELOPE: &str = r#" { "tenant_id" : "desk", "surface_id":"api", "policy_profile_id":"default", "payload_kind":"work_order",
    "payload":{"target":"x  y","n":[0.10,1e999]}, "causality":{"root_task_id":"task:0","parent_task_id":"task:0","spawn_depth":1,"capability_id":"reader","recursion_budget_remaining":9}}
"#;

fn signer() -> SignerKey {
    SignerKey::from_seed(ORIGIN, &[1; 32]).unwrap()
}

fn key() -> VerifierKey {
    signer().verifier().clone()
}

fn request_hash() -> String {
    sha256_hex(b"request")
}

fn receipt(id: &str, request_hash: &str, phase: &str) -> String {
    format!(
        r#"{{ "receipt_id":"{id}", "request_hash":"{request_hash}", "phase":"{phase}", "spawn_depth":1, "policy":["1",null] }}"#
    )
}

fn good() -> Vec<u8> {
    let receipt = receipt(RECEIPT, &request_hash(), "accepted");
    forwarded(
        RECEIPT,
        REQUEST,
        &request_hash(),
        ENVELOPE,
        &receipt,
        &signer(),
        ORIGIN,
    )
    .unwrap()
}

fn check(bytes: &[u8]) -> Result<Forwarded, TokenError> {
    verify_forwarded(bytes, &key(), ORIGIN)
}

fn claim() -> Claim {
    check(&good()).unwrap().claim
}

/// Returns the file with its token replaced.
fn with_token(token: &str) -> Vec<u8> {
    let text = String::from_utf8(good()).unwrap();
    let at = text.find(r#""token":"#).unwrap();
    format!(
        "{}\"token\":{}}}\n",
        &text[..at],
        serde_json::to_string(token).unwrap()
    )
    .into_bytes()
}

fn token() -> String {
    let file: Value = serde_json::from_str(
        std::str::from_utf8(&good())
            .unwrap()
            .replace("1e999", "1")
            .as_str(),
    )
    .unwrap();
    file["token"].as_str().unwrap().to_owned()
}

#[test]
fn a_genuine_file_says_what_was_admitted() {
    let bytes = good();
    assert_eq!(bytes, good(), "the same parts, other bytes");
    assert_eq!(bytes.iter().filter(|byte| **byte == b'\n').count(), 1);
    assert!(bytes.ends_with(b"}\n"));
    let envelope = spoolgate_wire::json::minify(ENVELOPE);
    let found = check(&bytes).unwrap();
    assert_eq!(found.claim.receipt_id, RECEIPT);
    assert_eq!(found.claim.request_hash, request_hash());
    assert_eq!(found.claim.envelope_sha256, sha256_hex(envelope.as_bytes()));
    assert_eq!(
        (found.claim.request_id.as_str(), found.envelope.as_str()),
        (REQUEST, &*envelope)
    );
    assert_eq!(
        found.claim.receipt_sha256,
        sha256_hex(found.receipt.as_bytes())
    );
    assert!(found.receipt.contains(r#""policy":["1",null]"#));
    // White space between JSON tokens and the order of the members do not matter.
    let text = String::from_utf8(bytes).unwrap();
    let (head, tail) = text.split_at(text.find(r#""request_id""#).unwrap());
    let (first, rest) = tail.split_once(',').unwrap();
    let turned = format!(" {{ {first} ,\n{}{rest}", head.strip_prefix('{').unwrap());
    assert_eq!(check(turned.as_bytes()).as_ref(), Ok(&found));
}

/// No bit is harmless.
#[test]
fn every_changed_bit_is_refused() {
    let good = good();
    for bit in 0..good.len() * 8 {
        let mut bytes = good.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(
            check(&bytes).is_err(),
            "bit {bit}: {}",
            String::from_utf8_lossy(&bytes)
        );
    }
    // The line feed at the end is white space.
    for at in 0..good.len() - 1 {
        assert!(check(&good[..at]).is_err(), "cut off at {at}");
        let mut twice = good.clone();
        twice.insert(at, good[at]);
        assert!(check(&twice).is_err(), "{at} twice");
    }
}

#[test]
fn every_changed_bit_of_a_token_is_refused() {
    let token = token();
    assert_eq!(verify(&token, &key(), ORIGIN), Ok(claim()));
    for bit in 0..token.len() * 8 {
        let mut bytes = token.clone().into_bytes();
        bytes[bit / 8] ^= 1 << (bit % 8);
        if let Ok(text) = String::from_utf8(bytes) {
            assert!(verify(&text, &key(), ORIGIN).is_err(), "{text}");
        }
    }
    for at in (0..token.len()).filter(|at| token.is_char_boundary(*at)) {
        assert!(
            verify(&token[..at], &key(), ORIGIN).is_err(),
            "cut off at {at}"
        );
        assert!(check(&with_token(&token[..at])).is_err(), "cut off at {at}");
    }
}

#[test]
fn a_token_of_anything_else_is_refused() {
    let of = |claim: &Claim| issue(&signer(), ORIGIN, claim).unwrap();
    let mismatch = |found: Result<Forwarded, TokenError>, expect: &str| match found {
        Err(TokenError::Mismatch { part, .. }) => assert_eq!(part, expect),
        other => panic!("{expect}: {other:?}"),
    };
    mismatch(
        check(&with_token(&of(&Claim {
            receipt_id: "r-43".to_owned(),
            ..claim()
        }))),
        "`receipt_id`",
    );
    let other = Claim {
        request_hash: sha256_hex(b"other"),
        ..claim()
    };
    mismatch(check(&with_token(&of(&other))), "`request_hash`");
    let other = Claim {
        envelope_sha256: sha256_hex(b"{}"),
        ..claim()
    };
    mismatch(check(&with_token(&of(&other))), "the SHA-256 of `envelope`");
    let other = Claim {
        request_id: "task:2".to_owned(),
        ..claim()
    };
    mismatch(check(&with_token(&of(&other))), "`request_id`");
    let other = Claim {
        receipt_sha256: sha256_hex(b"{}"),
        ..claim()
    };
    mismatch(check(&with_token(&of(&other))), "the SHA-256 of `receipt`");

    // Tokens of another log: another key, another key under this log's name, this key for another
    // origin.
    for (name, seed) in [("other.example/desk", 2), (ORIGIN, 2)] {
        let other = SignerKey::from_seed(name, &[seed; 32]).unwrap();
        let found = check(&with_token(&issue(&other, ORIGIN, &claim()).unwrap()));
        let source = NoteError::NoKnownSignature;
        assert_eq!(
            found,
            Err(TokenError::Note {
                key: Box::new(key()),
                source
            }),
            "{name}"
        );
    }
    let elsewhere = issue(&signer(), "other.example/desk", &claim()).unwrap();
    assert!(matches!(
        check(&with_token(&elsewhere)),
        Err(TokenError::Kind { .. })
    ));
}

/// One key signs both, so neither may be read as the other, whatever their origins say.
#[test]
fn tokens_and_checkpoints_are_never_taken_for_each_other() {
    let token = token();
    let kind = format!("{ORIGIN}/admission");
    for origin in [ORIGIN, &kind, "other.example"] {
        assert!(open_checkpoint(&token, &key(), origin).is_err(), "{origin}");
    }
    for origin in [ORIGIN, &kind] {
        for extensions in [vec![], vec![sha256_hex(b"x")], vec![sha256_hex(b"x"); 3]] {
            let checkpoint = Checkpoint {
                extensions,
                ..Checkpoint::new(origin, 42, leaf_hash(b"x"))
            };
            let note = sign_checkpoint(&checkpoint, &signer()).unwrap();
            assert!(open_checkpoint(&note, &key(), origin).is_ok());
            let found = verify(&note, &key(), ORIGIN).unwrap_err();
            match found {
                TokenError::Kind { .. } => assert_eq!(origin, ORIGIN),
                TokenError::Line { line: 3, .. } => assert_eq!(origin, kind),
                other => panic!("{other}"),
            }
            assert_eq!(check(&with_token(&note)), Err(found));
        }
    }
}

#[test]
fn a_token_has_one_form() {
    let token = token();
    let (text, line) = token.split_once("\n\n").unwrap();
    let witness = SignerKey::from_seed("witness.example", &[2; 32]).unwrap();
    let other = sign_note(&format!("{text}\n"), &witness).unwrap();
    let other = other.split_once("\n\n").unwrap().1;
    for lines in [
        format!("{line}{line}"),
        format!("{line}{other}"),
        format!("{other}{line}"),
    ] {
        let found = verify(&format!("{text}\n\n{lines}"), &key(), ORIGIN);
        assert_eq!(
            found,
            Err(TokenError::SignatureLines { lines: 2 }),
            "{lines}"
        );
    }
    let signed = |text: &str| verify(&sign_note(text, &signer()).unwrap(), &key(), ORIGIN);
    assert_eq!(signed(&format!("{text}\n")), Ok(claim()));
    assert_eq!(
        signed(&format!("{text}\nmore\n")),
        Err(TokenError::Line {
            line: 7,
            expected: "absent"
        })
    );
    assert!(matches!(
        signed(&format!("{text}\n\n")),
        Err(TokenError::Line { line: 7, .. })
    ));
    assert!(matches!(
        signed(&format!("\n{text}\n")),
        Err(TokenError::Kind { .. })
    ));
    for (line, from, to) in [
        (2, RECEIPT, ""),
        (2, RECEIPT, "../r-42"),
        (2, RECEIPT, "r-42\u{7f}"),
        (
            3,
            request_hash().as_str(),
            request_hash().to_uppercase().as_str(),
        ),
        (3, request_hash().as_str(), &request_hash()[..62]),
        (4, claim().envelope_sha256.as_str(), "-"),
        (5, REQUEST, "task|1"),
        (6, claim().receipt_sha256.as_str(), ""),
    ] {
        let found = signed(&format!("{}\n", text.replacen(from, to, 1)));
        assert!(
            matches!(&found, Err(TokenError::Line { line: l, .. }) if *l == line),
            "{to}: {found:?}"
        );
    }
    let cut = text.rsplit_once('\n').unwrap().0;
    assert!(matches!(
        signed(&format!("{cut}\n")),
        Err(TokenError::Line { line: 6, .. })
    ));
}

#[test]
fn ambiguous_texts_are_not_signed() {
    for (receipt_id, request_hash) in [
        ("r-1\nr-2", request_hash()),
        ("", request_hash()),
        ("r-1", "x".to_owned()),
        ("r-1", String::new()),
    ] {
        let claim = Claim {
            receipt_id: receipt_id.to_owned(),
            request_hash,
            ..claim()
        };
        assert_eq!(
            issue(&signer(), ORIGIN, &claim),
            Err(NoteError::Ambiguous),
            "{claim:?}"
        );
    }
    let hash = request_hash();
    let accepted = receipt(RECEIPT, &hash, "accepted");
    for (request_id, envelope, receipt) in [
        (REQUEST, ENVELOPE, receipt("r-43", &hash, "accepted")),
        (
            REQUEST,
            ENVELOPE,
            receipt(RECEIPT, &sha256_hex(b"x"), "accepted"),
        ),
        (REQUEST, ENVELOPE, receipt(RECEIPT, &hash, "rejected")),
        (REQUEST, ENVELOPE, "null".to_owned()),
        (
            REQUEST,
            ENVELOPE,
            format!(r#"["{RECEIPT}","{hash}","accepted"]"#),
        ),
        (REQUEST, "[]", accepted.clone()),
        (REQUEST, "{", accepted.clone()),
        (REQUEST, "{},\"more\":{}", accepted.clone()),
        (REQUEST, r#"{"a":1,"a":1}"#, accepted.clone()),
        ("../x", ENVELOPE, accepted.clone()),
        ("task\n1", ENVELOPE, accepted),
    ] {
        let made = forwarded(
            RECEIPT,
            request_id,
            &hash,
            envelope,
            &receipt,
            &signer(),
            ORIGIN,
        );
        assert_eq!(
            made,
            Err(NoteError::Ambiguous),
            "{request_id} {envelope} {receipt}"
        );
    }
}

#[test]
fn a_file_that_is_not_a_forwarded_file_is_unreadable() {
    let text = String::from_utf8(good()).unwrap();
    for (from, to, expect) in [
        ("{", "[", "not an object"),
        ("{", r#"{"more":1,"#, "unknown field `more`"),
        (r#""receipt_id":"r-42","#, "", "missing field `receipt_id`"),
        (
            "{",
            r#"{"receipt_id":"r-42","#,
            "duplicate key `receipt_id`",
        ),
        (
            r#""phase":"accepted""#,
            r#""phase":"accepted","phase":"accepted""#,
            "duplicate key `phase`",
        ),
        (
            r#","phase":"accepted""#,
            "",
            "`receipt`: missing field `phase`",
        ),
        (
            r#""request_id":"task:1""#,
            r#""request_id":1"#,
            "invalid type: integer",
        ),
        (
            r#""token":""#,
            r#""token":null,"t":""#,
            "invalid type: null",
        ),
    ] {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text, "{from}");
        let error = check(changed.as_bytes()).unwrap_err();
        assert!(
            error.is_unreadable() && error.to_string().contains(expect),
            "{to}: {error}"
        );
    }
    let envelope = text.find(r#"{"tenant_id""#).unwrap();
    let end = text.find(r#","receipt":"#).unwrap();
    let changed = format!("{}[]{}", &text[..envelope], &text[end..]);
    assert!(check(changed.as_bytes()).unwrap_err().is_unreadable());
    let phase = check(text.replace("accepted", "rejected").as_bytes()).unwrap_err();
    assert!(matches!(
        phase,
        TokenError::Mismatch {
            part: "the SHA-256 of `receipt`",
            ..
        }
    ));
    // Even the log cannot forward what it refused.
    let (rejected, hash) = (
        receipt(RECEIPT, &request_hash(), "rejected"),
        request_hash(),
    );
    let receipt_sha256 = sha256_hex(spoolgate_wire::json::minify(&rejected).as_bytes());
    let signed = issue(
        &signer(),
        ORIGIN,
        &Claim {
            receipt_sha256,
            ..claim()
        },
    )
    .unwrap();
    let text = String::from_utf8(with_token(&signed)).unwrap();
    let accepted = spoolgate_wire::json::minify(&receipt(RECEIPT, &hash, "accepted")).into_owned();
    let text = text.replace(&accepted, &spoolgate_wire::json::minify(&rejected));
    assert_eq!(
        check(text.as_bytes()),
        Err(TokenError::Phase {
            found: "rejected".to_owned()
        })
    );
    let size_bytes = FORWARDED_BYTES_MAX + 1;
    assert_eq!(
        check(&vec![b' '; size_bytes]),
        Err(TokenError::TooLarge { size_bytes })
    );
}

proptest! {
    #[test]
    fn an_issued_token_says_what_it_was_issued_for(
        receipt_id in "[A-Za-z0-9][A-Za-z0-9._:-]{0,60}x",
        request in any::<[u8; 8]>(),
        envelope in any::<[u8; 8]>(),
        origin in "[a-z./]{1,20}",
    ) {
        let (request_hash, envelope_sha256) = (sha256_hex(&request), sha256_hex(&envelope));
        let (request_id, receipt_sha256) = (receipt_id.clone(), sha256_hex(origin.as_bytes()));
        let claim = Claim { receipt_id, request_hash, envelope_sha256, request_id, receipt_sha256 };
        let token = issue(&signer(), &origin, &claim).unwrap();
        prop_assert_eq!(verify(&token, &key(), &origin), Ok(claim));
        let first = format!("{origin}/admission");
        prop_assert!(open_checkpoint(&token, &key(), &first).is_err());
    }

    #[test]
    fn nothing_read_makes_it_panic(
        text in "([\n—+/a-f0-9 ]|r-42|gate.example/desk/admission\n){0,40}",
        json in "([{}\\[\\]\",:]|null|\"receipt\"|\"envelope\"|\"token\"){0,40}",
    ) {
        prop_assert!(verify(&text, &key(), ORIGIN).is_err());
        prop_assert!(check(&with_token(&text)).is_err());
        prop_assert!(check(json.as_bytes()).is_err());
    }
}

/// The signature is verified by a program that knows neither notes nor this gate.
#[test]
fn openssl_verifies_the_signature() {
    if !Command::new("openssl")
        .arg("version")
        .output()
        .is_ok_and(|done| done.status.success())
    {
        eprintln!("skipped: there is no openssl");
        return;
    }
    let folder = crate::kit::folder();
    let token = token();
    let (text, line) = token.split_once("\n\n").unwrap();
    let signature = STANDARD
        .decode(line.trim_end().rsplit(' ').next().unwrap())
        .unwrap();
    // SubjectPublicKeyInfo of an Ed25519 key (RFC 8410).
    let public = [
        b"\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00".as_slice(),
        key().public_key(),
    ]
    .concat();
    let verifies = |text: &str| {
        for (name, bytes) in [
            ("text", text.as_bytes()),
            ("signature", &signature[4..]),
            ("public.der", &public),
        ] {
            fs::write(folder.path().join(name), bytes).unwrap();
        }
        let args = "pkeyutl -verify -pubin -keyform DER -inkey public.der -rawin -in text -sigfile \
            signature";
        let done = Command::new("openssl")
            .args(args.split(' '))
            .current_dir(&folder)
            .output()
            .unwrap();
        done.status.success()
    };
    assert!(verifies(&format!("{text}\n")));
    assert!(!verifies(&format!("{text}\n").replace("r-42", "r-43")));
}

/// A home with a file that its log admitted.
struct Desk {
    dir: TempDir,
    log_key: String,
}

fn spoolgate(folder: &Path, args: &[&str], stdin: &[u8]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spoolgate"));
    let pipes = command.args(args).current_dir(folder);
    let pipes = pipes
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = pipes.spawn().unwrap();
    // A program that refuses its arguments does not read its input.
    let _ = child.stdin.take().unwrap().write_all(stdin);
    child.wait_with_output().unwrap()
}

impl Desk {
    fn new() -> Desk {
        let dir = crate::kit::folder();
        let home = dir.path().join("home");
        assert!(
            spoolgate(dir.path(), &["init", "home", "--origin", ORIGIN], b"")
                .status
                .success()
        );
        let keys = SqliteKeyring::open(&home, false)
            .unwrap()
            .log_keys()
            .unwrap();
        let signer = log_signer(ORIGIN, &keys).unwrap().log;
        let receipt = receipt(RECEIPT, &request_hash(), "accepted");
        let file = forwarded(
            RECEIPT,
            REQUEST,
            &request_hash(),
            ENVELOPE,
            &receipt,
            &signer,
            ORIGIN,
        );
        fs::write(dir.path().join("good.json"), file.unwrap()).unwrap();
        fs::write(dir.path().join("forged.json"), good()).unwrap();
        let half = String::from_utf8(good()).unwrap();
        fs::write(dir.path().join("half.json"), &half[..half.len() / 2]).unwrap();
        Desk {
            dir,
            log_key: signer.verifier().to_string(),
        }
    }

    fn run(&self, args: &[&str]) -> (i32, String, String) {
        let done = spoolgate(
            self.dir.path(),
            args,
            &fs::read(self.dir.path().join("good.json")).unwrap(),
        );
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (
            done.status.code().unwrap(),
            text(done.stdout),
            text(done.stderr),
        )
    }
}

#[test]
fn the_command_distinguishes_genuine_forged_and_unreadable_files() {
    let desk = Desk::new();
    let of_home = ["--home", "home", "admit", "verify"];
    let by_key = ["admit", "verify", "--log-key", &desk.log_key];
    let json = ["--format", "json"];
    for how in [&of_home[..], &by_key[..]] {
        for file in ["good.json", "-"] {
            let (exit, out, err) = desk.run(&[how, &[file]].concat());
            assert_eq!((exit, err.as_str()), (0, ""), "{out}");
            for (name, value) in [
                ("receipt", RECEIPT),
                ("request", REQUEST),
                ("tenant", "desk"),
                ("surface", "api"),
                ("task", "root task:0, depth 1, reader"),
                ("genuine", "log gate.example/desk admitted this;"),
            ] {
                let row = out
                    .lines()
                    .find(|line| line.starts_with(name))
                    .unwrap_or_else(|| panic!("{out}"));
                assert!(row[name.len()..].trim_start().starts_with(value), "{row}");
            }
        }
        let (exit, out, _) = desk.run(&[how, &json, &["good.json"]].concat());
        let value: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(
            (exit, &value["genuine"], &value["tenant_id"]),
            (0, &true.into(), &"desk".into())
        );
        assert_eq!(value["causality"]["spawn_depth"], 1);

        let (exit, out, err) = desk.run(&[how, &["forged.json"]].concat());
        assert_eq!((exit, out.as_str()), (1, ""));
        assert!(
            err.contains("NOT GENUINE") && err.contains(&desk.log_key),
            "{err}"
        );
        let (exit, out, _) = desk.run(&[how, &json, &["forged.json"]].concat());
        assert_eq!(
            (
                exit,
                serde_json::from_str::<Value>(&out).unwrap()["genuine"].as_bool()
            ),
            (1, Some(false))
        );

        for (file, expect) in [
            ("half.json", "ends too early"),
            ("missing.json", "missing.json"),
        ] {
            let (exit, out, err) = desk.run(&[how, &[file]].concat());
            assert_eq!((exit, out.as_str()), (2, ""), "{file}");
            assert!(err.contains(expect), "{err}");
        }
    }
    let forgers_key = key().to_string();
    let (exit, _, _) = desk.run(&["admit", "verify", "--log-key", &forgers_key, "forged.json"]);
    assert_eq!(exit, 0, "genuine, of another log: the key says whose");
    for (args, expect) in [
        (
            ["admit", "verify", "good.json", "--log-key", "x"],
            "--log-key",
        ),
        (
            ["--home", "nowhere", "admit", "verify", "good.json"],
            "nowhere",
        ),
    ] {
        let (exit, out, err) = desk.run(&args);
        assert_eq!((exit, out.as_str()), (2, ""), "{args:?}");
        assert!(err.contains(expect), "{err}");
    }
}
