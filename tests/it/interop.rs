//! Requests signed by the example programs, which share no code with the gate, and what happens if
//! a signed request is changed afterwards: white space between tokens may change, any other byte
//! may not.

mod changed;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::kit::campaign;
use crate::kit::process::is_there;
use ed25519_dalek::SigningKey;
use serde_json::Value;
use spoolgate_gate::State;
use spoolgate_gate::prepare::{Authentic, Delivery, Keyring, Origin, Refusal, prepare};
use spoolgate_gate::state::KeyRecord;
use spoolgate_wire::admin::Algorithm;
use spoolgate_wire::code::{Code, Exit};
use spoolgate_wire::envelope::Envelope;
use spoolgate_wire::ids::{Principal, RequestId};
use spoolgate_wire::json::minify;
use spoolgate_wire::signing::{SignKey, VerifyKey, unhex};
use spoolgate_wire::time::Time;
use tempfile::TempDir;

const NOW: &str = "2026-02-20T14:42:00Z";

/// Every field of an order, in no particular order, with numbers as numbers and as text, and much
/// white space.
const ORDER: &str = " {\r\n\t\"planned_stop\" : 6700.00 , \"size\":0.0010000000,\n  \"symbol\": \
    \"BTC-USD\", \"side\":\"b\\u0075y\", \"order_type\" :\"limit\", \"price\": \
    \"6800.10\",\n\n\"stop_price\" :6700, \"thesis_slug\":\"btc-range-long\", \
    \"planned_entry\":6800.1 , \"strategy\": \"trend\" }\n";

/// Payloads that another program may write differently once it has read them.
const PAYLOADS: &[&str] = &[
    "{}",
    " { \t\r\n } \n",
    ORDER,
    r#"{ "b" : 1, "a" : { "z" : [ 1 , 2, { "y" : null }, [ ], { } ], "A" : [ true, false ] }, "" : "" }"#,
    r#"{"n": [0.1, 0.10, 1.0, 100, -0, -0.0, 0.10000000000000000001, 12345678901234567890123456789.5]}"#,
    r#"{"n": [9007199254740993, 1e3, 1E+3, 1000.0e0, 1e-400, 123e400]}"#,
    r#"{"s": " two  spaces , : {} [] ", "q": "\" \\", "r": "\\\" ", "slash": "/ \/", "bs": "\\\\"}"#,
    r#"{"s": "\b\f\n\r\t \u0000 \u001f \u0041", "u": "é \u00e9 \u00E9 ü 😀 \ud83d\ude00 \uD83D\uDE00"}"#,
    "{\"line separators\": \"\u{2028}\u{2029}\u{a0}\u{85}\u{feff}\u{7f}\", \"nfd\": \"e\u{301}\", \
        \"ł\" : \"日本語\"}",
];

/// A home with two keys of `trend-bot`, one of each kind.
struct Desk {
    dir: TempDir,
}

impl Desk {
    fn new() -> Desk {
        let desk = Desk {
            dir: crate::kit::folder(),
        };
        let done = desk.spoolgate(&["init"], "");
        assert_eq!(done.exit, 0, "{}", done.stderr);
        for args in [
            &["--out", "shared.key"][..],
            &["--out", "own.key", "--ed25519"][..],
        ] {
            let done = desk.spoolgate(&[&["keys", "add", "trend-bot"], args].concat(), "");
            assert_eq!(done.exit, 0, "{}", done.stderr);
        }
        desk
    }

    fn spoolgate(&self, args: &[&str], stdin: &str) -> Done {
        run(
            Command::new(env!("CARGO_BIN_EXE_spoolgate"))
                .args(args)
                .current_dir(&self.dir),
            stdin,
        )
    }

    /// Returns exit code and answer for an envelope.
    fn handle(&self, envelope: &str) -> (i32, Value) {
        let done = self.spoolgate(&["handle", "-"], envelope);
        let answer = serde_json::from_str(&done.stdout);
        (
            done.exit,
            answer.unwrap_or_else(|error| panic!("{error}: {}{}", done.stdout, done.stderr)),
        )
    }

    /// Returns a gate with the keys in this home's key files.
    fn gate(&self) -> Gate {
        let mut gate = Gate::default();
        for file in ["shared.key", "own.key"] {
            let file: Value =
                serde_json::from_slice(&fs::read(self.dir.path().join(file)).unwrap()).unwrap();
            let secret =
                <[u8; 32]>::try_from(unhex(file["secret"].as_str().unwrap()).unwrap()).unwrap();
            gate.add(
                file["key_id"].as_str().unwrap(),
                &sign_key(file["algorithm"] == "ed25519", secret),
            );
        }
        gate
    }
}

struct Done {
    exit: i32,
    stdout: String,
    stderr: String,
}

fn run(command: &mut Command, stdin: &str) -> Done {
    let pipes = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = pipes.spawn().unwrap();
    // A program that refuses its arguments does not read its input.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    let output = child.wait_with_output().unwrap();
    Done {
        exit: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// One of the example programs with one of the key files.
struct Example {
    program: &'static str,
    script: &'static str,
    key: &'static str,
}

const EXAMPLES: &[Example] = &[
    Example {
        program: "python3",
        script: "examples/sign_request.py",
        key: "shared.key",
    },
    Example {
        program: "node",
        script: "examples/sign_request.mjs",
        key: "shared.key",
    },
    Example {
        program: "node",
        script: "examples/sign_request.mjs",
        key: "own.key",
    },
];

fn examples() -> impl Iterator<Item = &'static Example> {
    EXAMPLES.iter().filter(|example| is_there(example.program))
}

impl Example {
    fn run(&self, folder: &Path, args: &[&str], stdin: &str) -> Done {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(self.script);
        run(
            Command::new(self.program)
                .arg(script)
                .args(args)
                .current_dir(folder),
            stdin,
        )
    }

    fn sign(&self, desk: &Desk, action: &str, payload: &str, id: &[&str]) -> String {
        let done = self.run(
            desk.dir.path(),
            &[&[self.key, action, "-"], id].concat(),
            payload,
        );
        assert_eq!(done.exit, 0, "{}: {}", self.script, done.stderr);
        done.stdout
    }
}

/// Authentication alone, in memory.
#[derive(Default)]
struct Gate {
    state: State,
    keyring: Keys,
}

#[derive(Default)]
struct Keys(BTreeMap<String, VerifyKey>);

impl Keyring for Keys {
    fn verify_key(&self, key_id: &str) -> Option<VerifyKey> {
        self.0.get(key_id).cloned()
    }
}

fn time() -> Time {
    Time::parse(NOW).unwrap()
}

fn bot() -> Principal {
    Principal::parse("trend-bot").unwrap()
}

fn sign_key(own: bool, secret: [u8; 32]) -> SignKey {
    if own {
        SignKey::Ed25519(Box::new(SigningKey::from_bytes(&secret)))
    } else {
        SignKey::Hmac(secret)
    }
}

impl Gate {
    fn add(&mut self, key_id: &str, key: &SignKey) {
        let algorithm = match key {
            SignKey::Hmac(_) => Algorithm::HmacSha256,
            SignKey::Ed25519(_) => Algorithm::Ed25519,
        };
        let record = KeyRecord {
            key_id: key_id.to_owned(),
            principal: bot(),
            algorithm,
            added_at: time(),
            ends_at: None,
            revoked_at: None,
        };
        self.state.keys.insert(key_id.to_owned(), record);
        self.keyring.0.insert(key_id.to_owned(), key.verify_key());
    }

    fn authenticate(&self, bytes: &[u8]) -> Result<Authentic, Refusal> {
        let (file, shown) = ("r.json".to_owned(), "r.json".to_owned());
        let delivery = Delivery {
            origin: Origin::Local,
            file,
            shown,
            content: Ok(bytes.to_vec()),
        };
        prepare(delivery, &self.state, &self.keyring, time())
            .request
            .map_err(|refused| refused.refusal)
    }

    fn authentic(&self, text: &str) -> Authentic {
        let refused = |refusal: Refusal| panic!("{refusal:?}: {text}");
        self.authenticate(text.as_bytes()).unwrap_or_else(refused)
    }

    fn refused(&self, bytes: &[u8]) -> Code {
        let shown = String::from_utf8_lossy(bytes);
        let Err(refusal) = self.authenticate(bytes) else {
            panic!("accepted: {shown}")
        };
        assert!(
            matches!(refusal.code.exit(), Exit::Refused | Exit::Malformed),
            "{refusal:?}: {shown}"
        );
        refusal.code
    }
}

#[test]
fn examples_sign_the_payload_as_it_was_written() {
    let desk = Desk::new();
    let gate = desk.gate();
    for example in examples() {
        for payload in PAYLOADS {
            let line = example.sign(&desk, "order.submit", payload, &[]);
            let shown = format!("{} {}: {line}", example.script, example.key);
            let authentic = gate.authentic(&line);
            assert_eq!(authentic.envelope.payload, minify(payload), "{shown}");

            // With the same id and time, the gate's own command gives exactly the same line.
            let (id, time) = (
                authentic.envelope.id.as_str(),
                authentic.envelope.timestamp_text.as_str(),
            );
            let args = [
                "sign",
                "-",
                "--as",
                "trend-bot",
                "--action",
                "order.submit",
                "--key",
                example.key,
            ];
            let own = desk.spoolgate(
                &[&args[..], &["--id", id, "--timestamp", time]].concat(),
                payload,
            );
            assert_eq!(own.stdout, line, "{shown}");
        }
    }
}

/// Signs every payload with every other text that can be causality, in the file for it.
#[test]
fn examples_sign_causality_as_it_was_written() {
    let desk = Desk::new();
    let gate = desk.gate();
    for example in examples() {
        for (number, causality) in PAYLOADS.iter().enumerate() {
            let payload = PAYLOADS[(number + 1) % PAYLOADS.len()];
            fs::write(desk.dir.path().join("causality.json"), causality).unwrap();
            let id = format!("{}-{number}", example.key);
            let line = example.sign(&desk, "order.submit", payload, &[&id, "causality.json"]);
            let shown = format!("{} {}: {line}", example.script, example.key);
            let Authentic {
                envelope,
                request_hash,
                ..
            } = gate.authentic(&line);
            assert_eq!(envelope.payload, minify(payload), "{shown}");
            assert_eq!(
                envelope.causality.as_deref(),
                Some(&*minify(causality)),
                "{shown}"
            );
            assert_eq!(request_hash, envelope.request_hash(), "{shown}");

            let args = [
                "sign",
                "-",
                "--as",
                "trend-bot",
                "--action",
                "order.submit",
                "--key",
                example.key,
            ];
            let more = [
                "--id",
                &id,
                "--timestamp",
                &envelope.timestamp_text,
                "--causality",
                "causality.json",
            ];
            let own = desk.spoolgate(&[&args[..], &more].concat(), payload);
            assert_eq!(own.stdout, line, "{shown}");

            // It can neither be removed, nor added to a request that was signed without it.
            let taken = Envelope {
                causality: None,
                ..envelope.clone()
            };
            assert_eq!(
                gate.refused(taken.to_json().as_bytes()),
                Code::SignatureInvalid,
                "{shown}"
            );
            let plain = gate
                .authentic(&example.sign(&desk, "order.submit", payload, &[&id]))
                .envelope;
            let put = Envelope {
                causality: envelope.causality,
                ..plain
            };
            assert_eq!(
                gate.refused(put.to_json().as_bytes()),
                Code::SignatureInvalid,
                "{shown}"
            );
        }
    }
}

#[test]
fn an_invalid_causality_is_not_signed() {
    let desk = Desk::new();
    let args = [
        "sign",
        "-",
        "--as",
        "trend-bot",
        "--action",
        "order.submit",
        "--key",
        "own.key",
    ];
    let file = desk.dir.path().join("causality.json");
    let too_large = format!(r#"{{"a":"{}"}}"#, "x".repeat(8192 - 7));
    for (causality, expect) in [
        ("null", "the causality: the document is not an object"),
        ("[{}]", "the causality: the document is not an object"),
        (r#"{"a":1,"a":1}"#, "duplicate key `a`"),
        ("", "the causality: the document is empty"),
        (
            &too_large,
            "the causality has 8193 bytes without white space, the limit is 8192",
        ),
    ] {
        fs::write(&file, causality).unwrap();
        let done = desk.spoolgate(
            &[&args[..], &["--causality", "causality.json"]].concat(),
            "{}",
        );
        assert_eq!((done.exit, done.stdout.as_str()), (2, ""), "{causality}");
        assert!(done.stderr.contains(expect), "{causality}: {}", done.stderr);
    }
    for (path, expect) in [
        ("-", "both payload and causality are `-`"),
        ("missing.json", "missing.json"),
    ] {
        let done = desk.spoolgate(&[&args[..], &["--causality", path]].concat(), "{}");
        assert_eq!((done.exit, done.stdout.as_str()), (2, ""), "{path}");
        assert!(done.stderr.contains(expect), "{path}: {}", done.stderr);
    }
}

/// docs/contracts.md promises this to agents that do not keep the text of their payloads.
#[test]
fn json_from_python_and_javascript_is_hashed_as_written() {
    let python = "import json, sys; value = json.load(sys.stdin); print(json.dumps(value, \
        indent=3)); print(json.dumps(value, separators=(',', ':')))";
    let node = "const value = JSON.parse(require('fs').readFileSync(0, 'utf8')); \
        console.log(JSON.stringify(value, null, '\\t')); console.log(JSON.stringify(value))";
    for (program, flag, script) in [("python3", "-c", python), ("node", "-e", node)] {
        if !is_there(program) {
            continue;
        }
        // Without the line that has infinity in binary floats, which Python does not write as JSON.
        for payload in PAYLOADS.iter().filter(|payload| !payload.contains("e400")) {
            let done = run(
                Command::new(program)
                    .args([flag, script])
                    .env("PYTHONUTF8", "1"),
                payload,
            );
            let (indented, compact) = done.stdout.trim_end().rsplit_once('\n').unwrap();
            assert_eq!(minify(indented), compact, "{program}");
            assert_eq!(minify(compact), compact, "{program}");
        }
    }
}

#[test]
fn the_gate_accepts_what_the_examples_sign() {
    let desk = Desk::new();
    for (number, example) in examples().enumerate() {
        let shown = format!("{} {}", example.script, example.key);
        let id = format!("portfolio-{number}");
        let (exit, answer) = desk.handle(&example.sign(&desk, "portfolio.get", " { } ", &[&id]));
        assert_eq!(
            (exit, &answer["status"], &answer["requestId"]),
            (0, &"success".into(), &id.into()),
            "{shown}"
        );

        // This home has neither money nor a price: the checks refuse, and they only see orders with
        // a good signature and payload.
        let (exit, answer) = desk.handle(&example.sign(&desk, "order.submit", ORDER, &[]));
        assert_eq!(
            (exit, &answer["error"]["code"]),
            (1, &"CHECKS_FAILED".into()),
            "{shown}: {answer}"
        );

        // A payload that fits no action is refused after its signature was verified.
        let (exit, answer) = desk.handle(&example.sign(&desk, "portfolio.get", PAYLOADS[3], &[]));
        assert_eq!(
            (exit, &answer["error"]["code"]),
            (2, &"MALFORMED_PAYLOAD".into()),
            "{shown}: {answer}"
        );

        // Free text in every spelling: the halt is in force, and its reason is the intended text.
        let reason = r#"{ "reason" : "caf\u00e9 é \ud83d\ude00 😀 \"quoted\" \\ \/ two  spaces" }"#;
        let (exit, answer) = desk.handle(&example.sign(&desk, "halt.set", reason, &[]));
        assert_eq!(
            (exit, &answer["status"]),
            (0, &"success".into()),
            "{shown}: {answer}"
        );
        let (_, answer) = desk.handle(&example.sign(
            &desk,
            "order.submit",
            &ORDER.replace("0.001", "0.002"),
            &[],
        ));
        let meant = r#"café é 😀 😀 \"quoted\" \\ / two  spaces"#;
        assert!(answer.to_string().contains(meant), "{shown}: {answer}");
    }
}

#[test]
fn examples_refuse_wrong_arguments() {
    let desk = Desk::new();
    let folder = desk.dir.path();
    for example in examples() {
        let key = example.key;
        for (args, stdin, expect) in [
            (&[][..], "", "usage: "),
            (&[key, "portfolio.get"][..], "", "usage: "),
            (
                &[key, "portfolio.get", "-", "id", "missing.json"][..],
                "{}",
                "missing.json",
            ),
            (
                &[key, "portfolio.get", "-", "id", "causality.json", "more"][..],
                "{}",
                "usage: ",
            ),
            (
                &["missing.key", "portfolio.get", "-"][..],
                "{}",
                "missing.key",
            ),
            (
                &[key, "portfolio.get", "missing.json"][..],
                "",
                "missing.json",
            ),
            (&[key, "portfolio.get", "-"][..], "{\"half\":", ""),
        ] {
            let done = example.run(folder, args, stdin);
            assert_eq!(
                (done.exit, done.stdout.as_str()),
                (2, ""),
                "{} {args:?}",
                example.script
            );
            assert!(
                done.stderr.contains(expect) && !done.stderr.is_empty(),
                "{args:?}: {}",
                done.stderr
            );
            assert!(
                !done.stderr.contains("Traceback"),
                "{args:?}: {}",
                done.stderr
            );
        }
        if example.program == "python3" {
            let done = example.run(folder, &["own.key", "portfolio.get", "-"], "{}");
            assert_eq!(done.exit, 2);
            assert!(
                done.stderr.contains("sign_request.mjs can use it"),
                "{}",
                done.stderr
            );
        }
    }
}

/// Returns a request with every kind of token, signed with a key of either kind, and a gate that
/// has the key.
fn signed(own: bool, causality: Option<&str>) -> (Gate, String) {
    let key = sign_key(own, [7; 32]);
    let mut gate = Gate::default();
    gate.add("0123456789abcdef", &key);
    let payload = r#"{"n":[0.10,-1e3,true,null],"":"\u00e9 \" é","side":"buy","o":{}}"#;
    let mut envelope = Envelope {
        id: RequestId::parse("r1:a.b_c-9").unwrap(),
        timestamp_text: NOW.to_owned(),
        timestamp: time(),
        action: "order.submit".to_owned(),
        payload: payload.to_owned(),
        source: bot(),
        signature: String::new(),
        causality: causality.map(str::to_owned),
    };
    envelope.signature = key.sign(&envelope.signing_string());
    let text = envelope.to_json();
    assert_eq!(gate.authentic(&text).envelope, envelope);
    (gate, text)
}

/// A key file once stayed behind when there was no keyring to add the key to, and then blocked the
/// next attempt, because key files are never overwritten. And once it was removed although the key
/// was valid, because the message could not be printed: then nobody had the key.
#[test]
fn a_key_file_is_left_exactly_by_a_key_that_was_added() {
    let desk = Desk {
        dir: crate::kit::folder(),
    };
    let add = |principal| {
        desk.spoolgate(&["keys", "add", principal, "--out", "bot.key"], "")
            .exit
    };
    let is_left = |name: &str| desk.dir.path().join(name).exists();
    assert_ne!(add("trend-bot"), 0, "there is no home yet");
    assert!(!is_left("bot.key"));
    assert_eq!(desk.spoolgate(&["init"], "").exit, 0);
    assert_eq!(add("nobody"), 1, "not in rules/principals.yaml");
    assert!(!is_left("bot.key"));
    assert_eq!(add("trend-bot"), 0);
    assert!(is_left("bot.key"));

    let full = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_spoolgate"));
    command.args([
        "keys",
        "rotate",
        "trend-bot",
        "--out",
        "new.key",
        "--overlap-s",
        "0",
    ]);
    let status = command
        .current_dir(&desk.dir)
        .stdout(full)
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(!status.success());
    assert!(is_left("new.key"));
    let args = [
        "sign",
        "-",
        "--as",
        "trend-bot",
        "--action",
        "portfolio.get",
        "--key",
        "new.key",
    ];
    assert_eq!(
        desk.handle(&desk.spoolgate(&args, "{}").stdout).0,
        0,
        "the key holds"
    );
}
