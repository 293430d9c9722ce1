//! The clients of `clients/` as their users run them: their own tests, which hold the published
//! vectors and a gate that is played against them, then a real gate, and random payloads that the
//! gate's library verifies. What is generated for them is up to date.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;
use serde_json::{Value, json};
use spoolgate_client::KeyFile;
use spoolgate_gate::actions;
use spoolgate_wire::envelope::Envelope;
use spoolgate_wire::ids::Principal;
use spoolgate_wire::json::minify;
use spoolgate_wire::signing::SignKey;

use crate::kit::process::{Running, is_there};
use crate::kit::{Dice, PROGRAM, Scratch, campaign, command, setting, show, succeed};

fn clients() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("clients")
}

/// A program that runs a client: its name, the arguments that run the client's tests, and those that
/// sign what comes in.
struct Runner {
    program: &'static str,
    tests: &'static [&'static str],
    signer: &'static str,
    /// How many requests the signer makes of one line.
    each: usize,
}

const RUNNERS: [Runner; 3] = [
    Runner {
        program: "python3",
        tests: &["-B", "-m", "unittest", "discover", "-s", "python/tests"],
        signer: "python/tests/sign_many.py",
        each: 2,
    },
    Runner {
        program: "node",
        tests: &["--test", "typescript/test/"],
        signer: "typescript/test-bin/sign_many.mjs",
        each: 1,
    },
    Runner {
        program: "bun",
        tests: &["test", "./typescript/test/"],
        signer: "typescript/test-bin/sign_many.mjs",
        each: 1,
    },
];

fn runners() -> impl Iterator<Item = &'static Runner> {
    RUNNERS.iter().filter(|runner| is_there(runner.program))
}

impl Runner {
    fn command(&self) -> Command {
        let mut command = Command::new(self.program);
        command
            .current_dir(clients())
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::null());
        command
    }

    /// Whether it can sign with Ed25519 keys: Python needs a package for that.
    fn knows_ed25519(&self) -> bool {
        let mut python = self.command();
        self.program != "python3"
            || python
                .args(["-c", "import cryptography"])
                .output()
                .is_ok_and(|done| done.status.success())
    }
}

#[test]
fn their_own_tests() {
    for runner in runners() {
        let done = runner.command().args(runner.tests).output().unwrap();
        assert!(done.status.success(), "{}: {}", runner.program, show(&done));
    }
}

/// The loops of `examples/` that the tests of the Python client run.
const LOOPS: [&str; 4] = [
    "loops/plain.py",
    "loops/langgraph_loop.py",
    "loops/openai_agents_loop.py",
    "loops/claude_agent_loop.py",
];

#[test]
fn each_loop_has_a_test() {
    let tests = fs::read_to_string(clients().join("python/tests/test_loops.py")).unwrap();
    for file in LOOPS {
        let module = Path::new(file).file_stem().unwrap().to_str().unwrap();
        assert!(tests.contains(&format!("\"{module}\"")), "{file}");
    }
}

/// Orders accepted, refused and held, the same bytes again, an own spool, an own key, the socket.
#[test]
fn against_a_real_gate() {
    for runner in runners() {
        let scratch = Scratch::with_prices();
        let home = scratch.home();
        let keys = ["own", "agent"].map(|name| scratch.beside(&format!("{name}.key")));
        let add = |args: &[&str]| succeed(&home, &[&["keys", "add"], args].concat());
        add(&["trend-bot", "--ed25519", "--out", keys[0].to_str().unwrap()]);
        add(&["research-bot", "--out", keys[1].to_str().unwrap()]);
        fs::write(
            home.join("rules/active/ask-first.yaml"),
            "id: ask-first\nstatus: active\napplies_to: {action: order.submit}\n\
                when: [{field: order.size, op: gt, value: 0.02}]\nthen: hold\nmessage: a person decides\n",
        )
        .unwrap();
        crate::kit::prepared::edit(&home.join("rules/principals.yaml"), |text| {
            text.replace(
                "- name: research-bot\n",
                "- name: research-bot\n    spool: research-bot\n",
            )
        });
        let socket = scratch.beside("gate.sock");
        let mut watch = command(&home, &["watch", "--socket", socket.to_str().unwrap()]);
        watch.stdout(Stdio::null()).stderr(Stdio::null());
        let gate = Running::begun(&home, watch);
        let mut tests = runner.command();
        tests
            .args(runner.tests)
            .env("SPOOLGATE", PROGRAM)
            .env("SPOOLGATE_HOME", &home)
            .env("SPOOLGATE_KEY_FILE", scratch.beside("bot.key"))
            .env("SPOOLGATE_OWN_KEY_FILE", &keys[0])
            .env("SPOOLGATE_AGENT_KEY_FILE", &keys[1])
            .env("SPOOLGATE_SOCKET", &socket)
            .env("SPOOLGATE_PID", gate.0.id().to_string());
        let done = tests.output().unwrap();
        assert!(done.status.success(), "{}: {}", runner.program, show(&done));
        gate.stop();
        succeed(&home, &["audit", "replay"]);
        // What was sent again was done once.
        let orders = succeed(&home, &["--format", "json", "audit", "query"]);
        let accepted = orders
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .filter(|line| line["action"] == "order.submit" && !line["order_id"].is_null())
            .count();
        assert_eq!(accepted, 1, "{}: {orders}", runner.program);
    }
}

/// A text with every kind of character and escape.
fn text(dice: &mut Dice) -> String {
    let mut text = String::from("\"");
    for _ in 0..dice.below(12) {
        match dice.below(8) {
            0 => text.push_str(
                ["\\\"", "\\\\", "\\/", "\\n", "\\u0000", "\\ud83d\\ude00"][dice.up_to(5)],
            ),
            1 => text
                .push(['\u{2028}', '\u{feff}', '\u{7f}', '\u{301}', '\u{10ffff}'][dice.up_to(4)]),
            2 => text.push_str([" ", "  ", "{", "]", ":", ",", "|"][dice.up_to(6)]),
            3 => {
                write!(text, "\\u{:04X}", 0x20 + dice.below(0xd000)).unwrap();
            }
            4 => {
                let any = char::from_u32(u32::try_from(dice.below(0x11_0000)).unwrap());
                text.extend(any.filter(|c| *c >= ' ' && !matches!(c, '"' | '\\')));
            }
            _ => text.push(char::from(b'a' + u8::try_from(dice.below(26)).unwrap())),
        }
    }
    text + "\""
}

fn number(dice: &mut Dice) -> String {
    let mut text = String::from(["", "-"][dice.up_to(1)]);
    let digits = |dice: &mut Dice, text: &mut String| {
        for _ in 0..=dice.below(24) {
            text.push(char::from(b'0' + u8::try_from(dice.below(10)).unwrap()));
        }
    };
    if dice.one_in(3) {
        text.push('0');
    } else {
        text.push(char::from(b'1' + u8::try_from(dice.below(9)).unwrap()));
        digits(dice, &mut text);
    }
    if dice.one_in(2) {
        text.push('.');
        digits(dice, &mut text);
    }
    if dice.one_in(5) {
        write!(
            text,
            "{}{}{}",
            ["e", "E"][dice.up_to(1)],
            ["", "+", "-"][dice.up_to(2)],
            dice.below(400)
        )
        .unwrap();
    }
    text
}

fn space(dice: &mut Dice, out: &mut String) {
    while dice.one_in(4) {
        out.push([' ', '\t', '\n', '\r'][dice.up_to(3)]);
    }
}

fn value(dice: &mut Dice, depth: u32, out: &mut String) {
    space(dice, out);
    match dice.below(if depth > 6 { 5 } else { 9 }) {
        0 | 1 => out.push_str(&text(dice)),
        2 | 3 => out.push_str(&number(dice)),
        4 => out.push_str(["true", "false", "null"][dice.up_to(2)]),
        5 | 6 => {
            out.push('[');
            for place in 0..dice.below(5) {
                out.push_str(if place > 0 { "," } else { "" });
                value(dice, depth + 1, out);
            }
            out.push(']');
        }
        _ => object(dice, depth, out),
    }
    space(dice, out);
}

fn object(dice: &mut Dice, depth: u32, out: &mut String) {
    out.push('{');
    for place in 0..dice.below(6) {
        out.push_str(if place > 0 { "," } else { "" });
        space(dice, out);
        // No name twice: a name begins with its place.
        let name = text(dice);
        write!(out, "\"{place}{}", &name[1..]).unwrap();
        space(dice, out);
        out.push(':');
        value(dice, depth + 1, out);
    }
    out.push('}');
}

/// `SPOOLGATE_WHOLE=1` signs 10,000 payloads with each key of each client.
#[test]
fn random_payloads_verify() {
    #[derive(Deserialize)]
    struct Key {
        name: String,
        key_file: String,
    }
    #[derive(Deserialize)]
    struct Vectors {
        keys: Vec<Key>,
    }
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/wire/v1.json");
    let vectors: Vectors = serde_json::from_slice(&fs::read(vectors).unwrap()).unwrap();
    let folder = crate::kit::folder();
    let bot = Principal::parse("trend-bot").unwrap();
    let mut dice = Dice::apart(setting("SPOOLGATE_SEED", 1));
    let payloads: Vec<(String, Option<String>)> = (0..campaign(400, 10_000))
        .map(|_| {
            let mut draw = || {
                let mut out = String::new();
                object(&mut dice, 0, &mut out);
                out
            };
            (
                draw(),
                Some(draw()).filter(|causality| causality.len() % 3 == 0),
            )
        })
        .collect();
    let input = folder.path().join("payloads");
    let lines = payloads.iter().map(|(payload, causality)| match causality {
        Some(causality) => json!({"payload": payload, "causality": causality}),
        None => json!({"payload": payload}),
    });
    let lines: String = lines.map(|line| format!("{line}\n")).collect();
    fs::write(&input, lines).unwrap();
    for runner in runners() {
        for name in ["shared", "own"] {
            if name == "own" && !runner.knows_ed25519() {
                continue;
            }
            let key = vectors.keys.iter().find(|key| key.name == name).unwrap();
            let file = folder.path().join(format!("{}-{name}", runner.program));
            fs::write(&file, &key.key_file).unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
            fs::set_permissions(&file, mode).unwrap();
            let sign_key = KeyFile::read_private(&file, &bot)
                .unwrap()
                .sign_key()
                .unwrap();
            let mut signer = runner.command();
            signer.arg(runner.signer).arg(&file);
            signer
                .stdin(File::open(&input).unwrap())
                .stdout(Stdio::piped());
            let mut signer = Running::start(signer);
            let made = BufReader::new(signer.0.stdout.take().unwrap()).split(b'\n');
            let made: Vec<Vec<u8>> = made.map(Result::unwrap).collect();
            assert!(signer.end().success(), "{}", runner.program);
            assert_eq!(
                made.len(),
                payloads.len() * runner.each,
                "{}",
                runner.program
            );
            for (place, bytes) in made.iter().enumerate() {
                let (payload, causality) = &payloads[place / runner.each];
                let as_text = place % runner.each == 0;
                verify(
                    bytes,
                    &sign_key,
                    as_text.then_some(payload),
                    causality.as_deref(),
                );
            }
        }
    }
}

/// The gate reads the request, and the key made its signature. `payload` is the text that was signed,
/// if it was signed as text.
fn verify(bytes: &[u8], key: &SignKey, payload: Option<&String>, causality: Option<&str>) {
    let shown = String::from_utf8_lossy(bytes);
    let request = Envelope::parse(bytes).unwrap_or_else(|error| panic!("{error}: {shown}"));
    let string = request.signing_string();
    assert!(
        key.verify_key().verifies(&string, &request.signature),
        "{shown}"
    );
    if let Some(payload) = payload {
        assert_eq!(request.payload, minify(payload), "{shown}");
    }
    let causality = causality.map(|text| minify(text).into_owned());
    assert_eq!(request.causality, causality, "{shown}");
}

/// With `UPDATE_DOCS=1` the test writes the files.
#[test]
fn what_is_generated_is_up_to_date() {
    if !is_there("python3") {
        return;
    }
    let mut generate = Command::new("python3");
    generate.args(["-B", "generate.py"]).current_dir(clients());
    if std::env::var_os("UPDATE_DOCS").is_none() {
        generate.arg("--check");
    }
    let done = generate.output().unwrap();
    assert!(done.status.success(), "{}", show(&done));
}

#[test]
fn they_have_the_programs_version() {
    let version = env!("CARGO_PKG_VERSION");
    for (file, line) in [
        (
            "python/pyproject.toml",
            format!("version = \"{version}\"\n"),
        ),
        (
            "python/src/spoolgate/__init__.py",
            format!("__version__ = \"{version}\"\n"),
        ),
        (
            "typescript/package.json",
            format!("\"version\": \"{version}\""),
        ),
    ] {
        let text = fs::read_to_string(clients().join(file)).unwrap();
        assert!(text.contains(&line), "clients/{file} should have {line}");
    }
}

/// `clients/tools.json` names every tool of the gate's table of actions, in its words, and a group for
/// it. With `UPDATE_DOCS=1` the test writes rows that are missing or differ; groups are yours to name.
#[test]
fn the_clients_have_the_gates_tools() {
    let path = clients().join("tools.json");
    let mut text = fs::read_to_string(&path).unwrap();
    let update = std::env::var_os("UPDATE_DOCS").is_some();
    for row in actions::rows() {
        let Some(tool) = row.tool else { continue };
        // Some models take no names with dots.
        let name = tool.name.replace('.', "_");
        let begin = format!(" {{\"name\": {}", json!(name));
        let line = format!(
            "{begin}, \"action\": {}, \"is_query\": {}, \"description\": {}}}",
            json!(row.name.as_str()),
            tool.is_query,
            json!(tool.description)
        );
        if update && !text.contains(&line) {
            let others = text.lines().filter(|old| !old.starts_with(&begin));
            text = others.map(|old| format!("{old}\n")).collect();
            text = text.replacen("\"tools\":[\n", &format!("\"tools\":[\n{line},\n"), 1);
        }
        assert!(
            text.contains(&line),
            "clients/tools.json should hold {line}"
        );
    }
    let table: Value = serde_json::from_str(&text).unwrap();
    if update {
        fs::write(path, &text).unwrap();
    }
    let groups: Vec<&Value> = table["groups"].as_object().unwrap().values().collect();
    for tool in table["tools"].as_array().unwrap() {
        let action = tool["action"].as_str().unwrap();
        assert!(actions::find(action).is_some(), "{tool}");
        let is_in = |group: &&Value| group.as_array().unwrap().contains(&tool["name"]);
        assert!(groups.iter().any(is_in), "{tool} is in no group");
    }
}
