//! The same case through commands: one-shots, `council decide` over signed and unsigned files, and
//! their output.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};

use serde_json::{Value, json};
use spoolgate_home::cases::file_name_of;

use crate::kit::chamber::Chamber;
use crate::kit::court::{SEATS, edit_roles, opinion, request, speaker, verdict};
use crate::kit::process::Running;
use crate::kit::{command, names, show, spoolgate, succeed};

const ROLES: [&str; 3] = ["Risk Officer", "Code Auditor", "Integration Engineer"];

fn code(done: &Output) -> i32 {
    done.status.code().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Runs the command with this on standard input.
fn fed(chamber: &Chamber, args: &[&str], input: &[u8]) -> Output {
    let mut child = command(&chamber.home(), args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

/// The ways in which `council decide` gets its documents, and whether they are signed.
const WAYS: [(&str, bool); 5] = [
    ("files", true),
    ("stream", true),
    ("files", false),
    ("stream", false),
    ("bare", false),
];

/// The verdicts of the roles in every way: one of them rejects.
fn says(role: &str) -> Value {
    let is_auditor = role == "Code Auditor";
    opinion(role, if is_auditor { "REJECT" } else { "APPROVE" })
}

fn json_of(done: &Output) -> Value {
    serde_json::from_slice(&done.stdout).unwrap()
}

/// Through the spool, with a watcher; the roles answer in the `n`th order.
fn by_watcher(chamber: &Chamber, n: usize, case: &str) -> Value {
    let home = chamber.home();
    let watcher = Running::watch(&home);
    let asked = request(case, "UPDATE_CONFIG");
    chamber.send(
        "research-bot",
        &format!("open-{n}"),
        "council.request",
        &asked,
    );
    let brief = chamber.folder(case).join("briefs/risk-officer.md");
    crate::kit::process::until("the case", || brief.exists());
    for k in 0..3 {
        let role = ROLES[(n + k) % 3];
        let id = format!("w{n}-{}", file_name_of(role));
        let payload = verdict(case, &asked, &says(role));
        chamber.send(speaker(role), &id, "council.verdict", &payload);
    }
    let decision = chamber.wait_for_decision(case);
    watcher.stop();
    decision
}

/// By one-shots. Whoever reads the flat spool learns neither votes nor how many there are.
fn by_one_shots(chamber: &Chamber, case: &str) -> Value {
    let home = chamber.home();
    let asked = request(case, "UPDATE_CONFIG");
    let shot = |id: &str, source: &str, action: &str, payload: &str| {
        let file = chamber.beside("shot.json", chamber.signed(source, id, action, payload));
        json_of(&spoolgate(&home, &["handle", &file]))
    };
    let opened = shot("h", "research-bot", "council.request", &asked);
    assert_eq!(opened["data"]["roles"], json!(ROLES));
    for (n, role) in ROLES.iter().enumerate() {
        let payload = verdict(case, &asked, &says(role));
        let answer = shot(&format!("h{n}"), speaker(role), "council.verdict", &payload);
        let mut data = answer["data"].as_object().unwrap().clone();
        assert_eq!(data.remove("closes_at").is_some(), n == 2, "{answer}");
        let data = Value::Object(data);
        assert_eq!(data, json!({"case": case, "role": role}), "{answer}");
    }
    chamber.wait_for_decision(case)
}

/// By `council decide`, over signed or unsigned documents.
fn by_decide(chamber: &Chamber, way: &str, is_signed: bool, case: &str) -> Value {
    let asked = request(case, "UPDATE_CONFIG");
    let sign = |source: &str, id: String, action: &str, payload: String| match is_signed {
        true => text(&chamber.signed(source, &id, action, &payload)),
        false => payload,
    };
    let opens = sign(
        "research-bot",
        format!("o-{case}"),
        "council.request",
        asked.clone(),
    );
    let mut documents = vec![opens];
    for (n, role) in ROLES.iter().enumerate() {
        let payload = if way == "bare" {
            says(role).to_string()
        } else {
            verdict(case, &asked, &says(role))
        };
        documents.push(sign(
            speaker(role),
            format!("v{n}-{case}"),
            "council.verdict",
            payload,
        ));
    }
    let mut args = vec!["--format", "json", "council", "decide"];
    let done = if way == "stream" {
        args.push("-");
        fed(chamber, &args, documents.join("\n").as_bytes())
    } else {
        let file = |(n, text)| chamber.beside(&format!("d{n}.json"), text);
        let files: Vec<String> = documents.iter().enumerate().map(file).collect();
        args.extend(files.iter().map(String::as_str));
        spoolgate(&chamber.home(), &args)
    };
    // One rejection without a veto leaves the question open.
    assert_eq!(code(&done), 3, "{way} {is_signed}: {}", show(&done));
    assert_eq!(
        text(&done.stderr).contains("calculated from unsigned files"),
        !is_signed,
        "{}",
        show(&done)
    );
    json_of(&done)
}

/// Runs one case in all ways: the decision is the same.
#[test]
fn every_way_gives_the_same_decision() {
    let chamber = Chamber::new();
    let mut decisions: Vec<Value> = Vec::new();
    let mut keep = |mut decision: Value, case: &str| {
        assert_eq!(decision["request_id"], *case);
        decision["request_id"] = json!("");
        decisions.push(decision);
    };
    for n in 0..3 {
        let case = format!("req_watch_{n}");
        keep(by_watcher(&chamber, n, &case), &case);
        chamber.agrees(&case);
    }
    keep(by_one_shots(&chamber, "req_handle"), "req_handle");
    chamber.agrees("req_handle");
    for (way, is_signed) in WAYS {
        let case = format!("req_{way}_{is_signed}");
        keep(by_decide(&chamber, way, is_signed, &case), &case);
        assert_eq!(chamber.decision_path(&case).exists(), is_signed);
        if is_signed {
            chamber.agrees(&case);
        } else {
            let shown = spoolgate(&chamber.home(), &["council", "show", &case]);
            assert_eq!(code(&shown), 2);
        }
    }
    assert_eq!(decisions.len(), 9);
    for decision in &decisions {
        assert_eq!(decision, &decisions[0]);
    }
}

/// Runs a subcommand of `council` in both formats. Returns the exit code, both outputs and the
/// JSON.
fn in_both_formats(home: &Path, args: &[&str]) -> (i32, String, String, String) {
    let args: Vec<&str> = ["council"].iter().chain(args).copied().collect();
    let done = spoolgate(home, &args);
    let json = spoolgate(home, &[&["--format", "json"], args.as_slice()].concat());
    assert_eq!(
        done.status, json.status,
        "{args:?}: the format changes no exit code"
    );
    for line in text(&json.stdout).lines().filter(|_| args[1] != "brief") {
        serde_json::from_str::<Value>(line)
            .unwrap_or_else(|error| panic!("{args:?}: {error}: {line}"));
    }
    let [out, err, json] = [done.stdout.as_slice(), &done.stderr, &json.stdout].map(text);
    (code(&done), out, err, json)
}

/// Exit codes and output of every subcommand, from before there is a case until after it is
/// decided.
#[test]
fn messages_of_each_subcommand() {
    let chamber = Chamber::new();
    let home = chamber.home();
    let run = |args: &[&str]| in_both_formats(&home, args);
    assert_eq!(run(&["list"]).0, 0);
    for args in [
        &["show", "req_1"][..],
        &["brief", "req_1", "RO"],
        &["dissent", "req_1"],
    ] {
        let (code, out, err, _) = run(args);
        assert!(
            code == 2 && out.is_empty() && err.contains("case `req_1` does not exist"),
            "{args:?}: {code} {out} {err}"
        );
    }
    let (code, _, err, _) = run(&["wait", "req_1", "--timeout", "0"]);
    assert!(
        code == 8 && err.contains("does not exist after 0 s"),
        "{err}"
    );
    let asked = request("req_1", "UPDATE_CONFIG");
    chamber.send("research-bot", "open", "council.request", &asked);
    succeed(&home, &["run", "--until-idle"]);
    let (code, out, ..) = run(&["list", "--open"]);
    assert!(
        code == 0
            && out.contains("req_1")
            && out.contains("Risk Officer, Code Auditor, Integration Engineer"),
        "{out}"
    );
    let (code, out, _, json) = run(&["show", "req_1"]);
    assert!(
        code == 0 && out.contains("waits for Risk Officer, Code Auditor, Integration Engineer"),
        "{out}"
    );
    let shown: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&shown["decision"], &shown["recomputes"]),
        (&Value::Null, &Value::Null)
    );
    let (code, out, ..) = run(&["brief", "req_1", "ro"]);
    assert_eq!(code, 0);
    assert_eq!(
        out.as_bytes(),
        fs::read(chamber.folder("req_1").join("briefs/risk-officer.md")).unwrap()
    );
    let (code, _, err, _) = run(&["brief", "req_1", "Chairman"]);
    assert!(
        code == 2 && err.contains("its roles are Risk Officer, Code Auditor"),
        "{err}"
    );
    assert_eq!(run(&["dissent", "req_1"]).0, 3);
    assert_eq!(run(&["wait", "req_1", "--timeout", "0"]).0, 8);
    for (n, role) in ROLES.iter().enumerate() {
        let says = opinion(role, if n == 1 { "NEEDS_MORE_INFO" } else { "APPROVE" });
        chamber.send(
            speaker(role),
            &format!("v{n}"),
            "council.verdict",
            &verdict("req_1", &asked, &says),
        );
    }
    succeed(&home, &["run", "--until-idle"]);
    let (code, out, ..) = run(&["dissent", "req_1"]);
    assert!(
        code == 0 && out.contains("Risk Officer") && !out.contains("Code Auditor"),
        "{out}"
    );
    let (code, out, ..) = run(&["wait", "req_1", "--timeout", "0"]);
    assert!(code == 3 && out.contains("NEEDS_MORE_INFO"), "{out}");
    let (code, out, ..) = run(&["show", "req_1"]);
    assert!(
        code == 0 && out.contains("recomputed from the ledger: the same"),
        "{out}"
    );
    assert!(!run(&["list", "--open"]).1.contains("req_1") && run(&["list"]).1.contains("req_1"));
    assert!(!run(&["list", "-n", "0"]).1.contains("req_1"));
}

#[test]
fn the_three_outcomes_have_three_exit_codes() {
    let chamber = Chamber::new();
    let home = chamber.home();
    for (stance, exit) in [("APPROVE", 0), ("REJECT", 1), ("NEEDS_MORE_INFO", 3)] {
        let case = format!("req_{stance}");
        let asked = request(&case, "UPDATE_CONFIG");
        let mut files = vec![chamber.beside(
            "q",
            chamber.signed("research-bot", &case, "council.request", &asked),
        )];
        for (n, role) in ROLES.iter().enumerate() {
            let payload = verdict(&case, &asked, &opinion(role, stance));
            let id = format!("{case}-{n}");
            files.push(chamber.beside(
                &format!("v{n}"),
                chamber.signed(speaker(role), &id, "council.verdict", &payload),
            ));
        }
        let args: Vec<&str> = ["council", "decide"]
            .into_iter()
            .chain(files.iter().map(String::as_str))
            .collect();
        // The first time the case waits for the other verdicts.
        let done = spoolgate(&home, &args[..3]);
        assert!(
            code(&done) == 3 && text(&done.stderr).contains("waits for Risk Officer"),
            "{}",
            show(&done)
        );
        assert_eq!(code(&spoolgate(&home, &args)), exit, "{stance}");
        let (waited, ..) = in_both_formats(&home, &["wait", &case]);
        assert_eq!(waited, exit, "{stance}");
        // The second time, every file gets its stored answer.
        assert_eq!(code(&spoolgate(&home, &args)), exit, "{stance}");
    }
    let (code, out, ..) = in_both_formats(&home, &["dissent", "req_APPROVE"]);
    assert!(
        code == 0 && out.contains("every seat voted APPROVE"),
        "{out}"
    );
}

#[test]
fn bad_input_is_refused_in_whole() {
    let chamber = Chamber::new();
    let home = chamber.home();
    let asked = request("req_1", "UPDATE_CONFIG");
    let other = request("req_2", "UPDATE_CONFIG");
    let says = |role: &str| opinion(role, "APPROVE");
    let signed = |source: &str, id: &str, action: &str, payload: &str| {
        chamber.beside(id, chamber.signed(source, id, action, payload))
    };
    let good = signed("research-bot", "good", "council.request", &asked);
    let second = signed("research-bot", "second", "council.request", &other);
    let vote = signed(
        "risk-officer",
        "vote",
        "council.verdict",
        &verdict("req_1", &asked, &says("RO")),
    );
    let astray = signed(
        "risk-officer",
        "astray",
        "council.verdict",
        &verdict("req_2", &other, &says("RO")),
    );
    let bare = signed(
        "risk-officer",
        "bare",
        "council.verdict",
        &says("RO").to_string(),
    );
    let plain = chamber.beside("plain", &asked);
    let plain_vote = chamber.beside("plain-vote", says("RO").to_string());
    let unknown = chamber.beside("unknown", asked.replace("\"proposer\"", "\"proposed_by\""));
    let empty = chamber.beside("empty", " \n");
    let garbage = chamber.beside("garbage", "I approve");
    let half = chamber.beside("half", &asked[..asked.len() / 2]);
    let double = chamber.beside("double", asked.replacen('{', "{\"proposer\":\"x\",", 1));
    let array = chamber.beside("array", "[1]");
    let nobody = chamber.beside("nobody", asked.replace("QuantResearchAgent_v1", " "));
    let missing = home.join("missing.json").to_str().unwrap().to_owned();
    let lines = chamber.told().decisions.len();
    for (files, words) in [
        (vec![&missing], "missing.json"),
        (vec![&empty], "is empty"),
        (vec![&good, &empty], "is empty"),
        (vec![&garbage], "document 1"),
        (vec![&half], "document 1"),
        (vec![&array], "document 1"),
        (vec![&double], "document 1"),
        (vec![&unknown], "not a council request"),
        (vec![&nobody], "`proposer` has no visible character"),
        (vec![&plain_vote, &plain], "the request comes first"),
        (vec![&plain, &plain], "second request"),
        (vec![&plain, &good], "second request"),
        // Nothing was handed in before the last of them was read.
        (vec![&good, &vote, &second], "second request"),
        (vec![&good, &vote, &astray], "is about case `req_2`"),
        (vec![&good, &vote, &bare], "names no request"),
        (vec![&good, &vote, &garbage], "document 1"),
        (vec![&good, &vote, &missing], "missing.json"),
    ] {
        for format in ["table", "json"] {
            let mut args = vec!["--format", format, "council", "decide"];
            args.extend(files.iter().map(|file| file.as_str()));
            let done = spoolgate(&home, &args);
            assert_eq!(code(&done), 2, "{args:?}: {}", show(&done));
            assert!(
                done.stdout.is_empty() && text(&done.stderr).contains(words),
                "{args:?}: {}",
                show(&done)
            );
        }
    }
    assert_eq!(
        chamber.told().decisions.len(),
        lines,
        "a refused command left something in the ledger"
    );
}

/// A verdict on other bytes leaves its seat empty, one unsigned file makes the whole run a
/// calculation, and a refused verdict is reported: its refusal is the exit code if the rest
/// approves.
#[test]
fn wrong_unsigned_and_forged_verdicts_do_not_count() {
    let chamber = Chamber::new();
    let home = chamber.home();
    let asked = request("req_1", "UPDATE_CONFIG");
    let other = request("req_2", "UPDATE_CONFIG");
    let says = |role: &str| opinion(role, "APPROVE");
    let signed = chamber.signed("research-bot", "good", "council.request", &asked);
    let good = chamber.beside("good", signed);
    let plain = chamber.beside("plain", &asked);
    let plain_vote = chamber.beside("plain-vote", says("RO").to_string());
    let lines = chamber.told().decisions.len();
    let wrong = chamber.beside("wrong", verdict("req_1", &other, &says("RO")));
    let done = spoolgate(&home, &["council", "decide", &plain, &wrong, &plain_vote]);
    assert!(
        code(&done) == 3 && text(&done.stderr).contains("on other bytes"),
        "{}",
        show(&done)
    );
    let done = spoolgate(&home, &["council", "decide", &good, &plain_vote]);
    assert!(
        code(&done) == 3 && text(&done.stderr).contains("nothing is recorded"),
        "{}",
        show(&done)
    );
    assert_eq!(chamber.told().decisions.len(), lines);
    let forged = chamber.beside(
        "forged",
        text(&chamber.signed(
            "risk-officer",
            "f",
            "council.verdict",
            &verdict("req_1", &asked, &says("RO")),
        ))
        .replace("risk-officer", "code-auditor"),
    );
    let done = spoolgate(&home, &["council", "decide", &good, &forged]);
    assert!(
        code(&done) == 1 && text(&done.stderr).contains("SIGNATURE_INVALID"),
        "{}",
        show(&done)
    );
}

/// Characters that a terminal obeys, in every member that a sender can fill.
const HOSTILE: &str = "\u{1b}[31mred\u{7}\u{9b}2J\u{202e}abc\u{2066}x\u{200f}\r\u{8}\u{0}\u{85}";

fn poison(value: &mut Value, keep: &[&str]) {
    match value {
        Value::String(text) => text.push_str(HOSTILE),
        Value::Array(items) => items.iter_mut().for_each(|item| poison(item, keep)),
        Value::Object(members) => {
            members
                .iter_mut()
                .filter(|(key, _)| !keep.contains(&key.as_str()))
                .for_each(|(_, value)| poison(value, keep));
        }
        _ => {}
    }
}

#[track_caller]
fn is_harmless(args: &[&str], done: &Output) {
    for bytes in [&done.stdout, &done.stderr] {
        let text = String::from_utf8(bytes.clone()).unwrap();
        let bad = text.chars().find(|c| {
            (c.is_control() && *c != '\n')
                || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}'
                    | '\u{2066}'..='\u{2069}')
        });
        assert!(bad.is_none(), "{args:?}: {bad:?} in {text:?}");
    }
}

#[test]
fn hostile_text_in_every_member() {
    let chamber = Chamber::new();
    let home = chamber.home();
    let mut asked: Value = serde_json::from_str(&request("req_1", "DECLARE_PASS")).unwrap();
    poison(&mut asked, &["request_id", "timestamp", "change_type"]);
    asked["context"]["key_metrics"][format!("metric{HOSTILE}")] = json!(HOSTILE);
    asked["returns"] = json!(HOSTILE);
    asked["trial_returns"] = json!([[HOSTILE]]);
    let asked = asked.to_string();
    let check = |args: &[&str]| {
        let done = spoolgate(&home, args);
        is_harmless(args, &done);
        done
    };
    let look = |case: &str| {
        for format in ["table", "json"] {
            let f = ["--format", format];
            for rest in [
                &["council", "list"][..],
                &["council", "show", case],
                &["council", "dissent", case],
                &["council", "wait", case, "--timeout", "0"],
                &["council", "brief", case, "RO"],
                &[
                    "council",
                    "brief",
                    case,
                    HOSTILE.trim_end_matches('\0').split('\0').next().unwrap(),
                ],
                &["audit", "tail", "-n", "20"],
                &["audit", "show", "open"],
                &["audit", "show", "v1"],
            ] {
                check(&[&f[..], rest].concat());
            }
        }
    };
    let mut files = vec![chamber.beside(
        "req",
        chamber.signed("research-bot", "open", "council.request", &asked),
    )];
    let mut plain = vec![chamber.beside("plain", &asked)];
    for (n, (name, role)) in SEATS.iter().enumerate() {
        let mut says = opinion(role, ["APPROVE", "REJECT", "NEEDS_MORE_INFO"][n % 3]);
        poison(&mut says, &["role"]);
        says["checklist_results"][0]["check_id"] = json!(format!("c{HOSTILE}"));
        says["checklist_results"][0]["pass"] = json!(false);
        let payload = verdict("req_1", &asked, &says);
        files.push(chamber.beside(
            &format!("v{n}"),
            chamber.signed(name, &format!("v{n}"), "council.verdict", &payload),
        ));
        says["role"] = json!(format!("role {n}{HOSTILE}"));
        plain.push(chamber.beside(&format!("p{n}"), says.to_string()));
        // A role that nobody has: it is refused, and the message says so.
        let payload = verdict("req_1", &asked, &says);
        files.push(chamber.beside(
            &format!("r{n}"),
            chamber.signed(name, &format!("r{n}"), "council.verdict", &payload),
        ));
    }
    for format in ["table", "json"] {
        for files in [&plain[..], &files[..3], &files[..]] {
            let mut args = vec!["--format", format, "council", "decide"];
            args.extend(files.iter().map(String::as_str));
            let done = check(&args);
            assert!([1, 3].contains(&code(&done)), "{}", show(&done));
            if files.len() == 3 {
                look("req_1");
            }
        }
    }
    assert!(chamber.decision_path("req_1").exists());
    look("req_1");
    chamber.agrees("req_1");
    for bad in [
        format!("{{\"{HOSTILE}\":1"),
        asked.replace("\"context\"", &format!("{}", json!(HOSTILE))),
        HOSTILE.to_owned(),
    ] {
        let file = chamber.beside("bad", bad);
        assert_eq!(code(&check(&["council", "decide", &file])), 2);
    }
    // Nor does the watcher's own output.
    let done = check(&["run", "--until-idle"]);
    assert!(done.status.success());
}

/// Who decides by command sees what the gate computed; the JSON is the contract's decision alone.
#[test]
fn the_computed_checks_are_shown_with_the_decision() {
    let chamber = Chamber::new();
    let home = chamber.home();
    let file = chamber.beside("plain", request("req_1", "DECLARE_PASS"));
    let vote = opinion("Risk Officer", "APPROVE").to_string();
    let vote = chamber.beside("vote", vote);
    let done = spoolgate(&home, &["council", "decide", &file, &vote]);
    let said = text(&done.stdout);
    assert!(said.contains("Computed for the Quant Researcher"), "{said}");
    assert!(said.contains("QR-01"), "{said}");
    let args = ["--format", "json", "council", "decide", &file, &vote];
    let decision: Value = serde_json::from_slice(&spoolgate(&home, &args).stdout).unwrap();
    assert_eq!(decision.as_object().unwrap().len(), 6, "{decision}");
}

/// A home's own rules are used, and invalid ones are reported.
#[test]
fn unsigned_files_are_judged_by_the_rules_of_the_home() {
    let chamber = Chamber::new();
    let home = chamber.home();
    let file = chamber.beside("plain", request("req_1", "CODE_REFACTOR"));
    let votes: Vec<String> = ["Code Auditor", "Integration Engineer"]
        .iter()
        .map(|role| chamber.beside(&file_name_of(role), opinion(role, "APPROVE").to_string()))
        .collect();
    let args = ["council", "decide", &file, &votes[0], &votes[1]];
    assert_eq!(code(&spoolgate(&home, &args)), 0);
    edit_roles(&home, |text| {
        text.replace("confidence_floor: 0.6", "confidence_floor: 0.95")
    });
    assert_eq!(code(&spoolgate(&home, &args)), 3);
    fs::write(home.join("council/roles.yaml"), "roles: 1\n").unwrap();
    let done = spoolgate(&home, &args);
    assert!(
        code(&done) == 2 && text(&done.stderr).contains("council/roles.yaml"),
        "{}",
        show(&done)
    );
    // Outside of any home the shipped rules apply.
    let nowhere = home.join("nowhere");
    assert_eq!(code(&spoolgate(&nowhere, &args)), 0);
    assert!(!nowhere.exists() && !names(&home).contains(std::ffi::OsStr::new("nowhere")));
}
