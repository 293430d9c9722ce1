//! Outgoing actions through the program itself: every way to hand one in ends with its final
//! answer; a gate that stops lets running adapters end, or ends them after a second signal; and
//! neither files, threads nor processes accumulate.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::kit::gateway_home::let_trend_bot_act;
use crate::kit::process::{Running, find, is_alive};
use crate::kit::{Scratch, Sent, campaign, command, lines, show, spoolgate, succeed};
use rustix::process::Signal;
use serde_json::{Value, json};
use spoolgate_gate::record::{Record, Response};
use spoolgate_rules::gateway::ACTIONS;
use spoolgate_wire::answer::Answer;

const MAIL: &str = r#"{"to":["ann@example.com"],"subject":"hello","body":"a word"}"#;
const DONE: &str = r#"cat >/dev/null; echo '{"success":true}'"#;
/// Begins, and ends once the file `go` exists.
const WAITS: &str = r#"cat >/dev/null; echo x >>begun; while ! test -e go; do sleep 0.02; done; echo '{"success":true,"data":"in time"}'"#;

/// A home in which `trend-bot` may request all nine actions, and this script does them.
struct Lab {
    scratch: Scratch,
}

impl Lab {
    fn new(script: &str, more: Value) -> Lab {
        let scratch = Scratch::new();
        let home = scratch.home();
        crate::kit::uncaged(&home);
        let per_hour: BTreeMap<&str, u32> =
            ACTIONS.iter().map(|action| (*action, 100_000)).collect();
        let command = json!({
            "program": "sh", "args": ["-c", script], "time_limit_s": 60, "output_bytes_max": 65536,
        });
        let mut rules = json!({
            "adapters": [{"actions": ACTIONS, "adapter": "exec", "command": command}],
            "rates": {"per_hour": per_hour, "all_per_hour": 100_000},
            "anomalies": {"burst_max": 100_000, "burst_window_s": 5,
                "payload_bytes_max": 10_000_000},
        });
        rules
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        fs::write(home.join("rules/gateway.yaml"), rules.to_string()).unwrap();
        let_trend_bot_act(&home);
        let lab = Lab { scratch };
        lab.take_rules();
        lab
    }

    /// Starts a gate, which loads the rule files as they are.
    fn take_rules(&self) {
        succeed(&self.home(), &["run", "--until-idle"]);
    }

    fn home(&self) -> PathBuf {
        self.scratch.home()
    }

    fn sent(&self, id: &str, payload: &str) -> Sent {
        Sent::new(
            &format!("{id}.json"),
            self.scratch.request(id, "email.send", payload),
        )
    }

    /// Writes a signed request into a file beside the home.
    fn file(&self, id: &str) -> String {
        let path = self.scratch.beside(&format!("{id}.json"));
        fs::write(&path, self.scratch.request(id, "email.send", MAIL)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn answer(&self, id: &str) -> Option<Answer> {
        let bytes = fs::read(self.home().join(format!("spool/out/{id}.json"))).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// Returns outcome lines by request, with their code, which is empty for a success.
    fn outcomes(&self) -> BTreeMap<String, (String, Response)> {
        let response = |(_, _, record)| match record {
            Some(Record::Response(line)) => {
                let code = line
                    .metadata
                    .code
                    .map_or_else(String::new, |code| code.to_string());
                Some((line.request_id.clone(), (code, *line)))
            }
            _ => None,
        };
        lines(&self.home())
            .unwrap()
            .into_iter()
            .filter_map(response)
            .collect()
    }

    fn begun(&self) -> usize {
        fs::read_to_string(self.home().join("begun"))
            .unwrap_or_default()
            .lines()
            .count()
    }
}

/// Starts a gate that writes its output to `gate.log` of its home.
fn start(home: &Path, args: &[&str]) -> Running {
    let log = fs::File::create(home.join("gate.log")).unwrap();
    let mut command = command(home, args);
    command.stdout(Stdio::null()).stderr(log);
    Running::start(command)
}

#[test]
fn every_way_in_ends_with_the_final_answer() {
    let lab = Lab::new(
        r#"cat >/dev/null; sleep 0.3; echo '{"success":true,"data":"sent"}'"#,
        json!({}),
    );
    let home = lab.home();
    let is_final = |bytes: &[u8]| {
        let answer: Answer = serde_json::from_slice(bytes).unwrap();
        assert_eq!(
            answer.data.as_ref().map(|data| data.get()),
            Some(r#""sent""#),
            "{answer:?}"
        );
    };
    let handled = spoolgate(
        &home,
        &["--format", "json", "handle", &lab.file("by-handle")],
    );
    assert!(handled.status.success(), "{}", show(&handled));
    is_final(&handled.stdout);
    lab.sent("by-run", MAIL).drop_into(&home);
    succeed(&home, &["run", "--until-idle"]);
    is_final(&fs::read(home.join("spool/out/by-run.json")).unwrap());
    let gate = start(&home, &["watch"]);
    let file = lab.file("by-submit");
    let submitted = spoolgate(
        &home,
        &["--format", "json", "submit", "--wait", "30", &file],
    );
    assert!(submitted.status.success(), "{}", show(&submitted));
    is_final(&submitted.stdout);
    let handed = spoolgate(
        &home,
        &["--format", "json", "handle", &lab.file("beside-a-gate")],
    );
    assert!(handed.status.success(), "{}", show(&handed));
    is_final(&handed.stdout);
    drop(gate);
    assert_eq!(lab.outcomes().len(), 4);
}

#[test]
fn a_held_request_is_done_once_it_is_granted() {
    let anomalies = json!({"burst_max": 1000, "burst_window_s": 5, "payload_bytes_max": 20});
    let lab = Lab::new(
        r#"cat >>ran; echo '{"success":true,"data":"sent"}'"#,
        json!({"anomalies": anomalies}),
    );
    let home = lab.home();
    lab.sent("held", MAIL).drop_into(&home);
    succeed(&home, &["run", "--until-idle"]);
    assert!(!home.join("ran").exists() && lab.outcomes().is_empty());
    let listed = succeed(&home, &["--format", "json", "approvals", "list"]);
    let hold: Value = serde_json::from_str(listed.lines().next().unwrap()).unwrap();
    succeed(&home, &["approvals", "grant", hold["id"].as_str().unwrap()]);
    let answer = lab.answer("held").unwrap();
    assert_eq!(answer.data.unwrap().get(), r#""sent""#);
    assert_eq!(
        fs::read_to_string(home.join("ran"))
            .unwrap()
            .matches("\"id\":\"held\"")
            .count(),
        1
    );
    assert_eq!(lab.outcomes()["held"].0, "");
}

#[test]
fn a_gate_that_stops_lets_what_runs_end_and_nothing_more_begin() {
    let lab = Lab::new(WAITS, json!({"workers": 2}));
    let home = lab.home();
    let mut gate = start(&home, &["watch"]);
    (0..5).for_each(|n| lab.sent(&format!("n-{n}"), MAIL).drop_into(&home));
    find("two run", || (lab.begun() == 2).then_some(()));
    find("five are open", || {
        (lines(&home)
            .unwrap()
            .iter()
            .filter(|(_, kind, _)| kind == "request")
            .count()
            == 5)
            .then_some(())
    });
    gate.signal(Signal::TERM);
    // Actions that never began are answered while the others run.
    find("three are answered", || {
        ((0..5)
            .filter(|n| lab.answer(&format!("n-{n}")).is_some())
            .count()
            == 3)
            .then_some(())
    });
    assert!(gate.is_running());
    let told = fs::read_to_string(home.join("gate.log")).unwrap();
    assert!(
        told.contains("2 actions are running: the gate stops when they have ended"),
        "{told}"
    );
    fs::write(home.join("go"), "").unwrap();
    assert_eq!(gate.end().code(), Some(0));
    let mut codes: Vec<String> = lab.outcomes().into_values().map(|(code, _)| code).collect();
    codes.sort();
    assert_eq!(
        codes,
        [
            "",
            "",
            "ADAPTER_NOT_RUN",
            "ADAPTER_NOT_RUN",
            "ADAPTER_NOT_RUN"
        ]
    );
    assert_eq!(lab.begun(), 2);
    let kinds: Vec<String> = lines(&home)
        .unwrap()
        .into_iter()
        .map(|(_, kind, _)| kind)
        .collect();
    let last = |kind: &str| kinds.iter().rposition(|other| other == kind).unwrap();
    assert!(last("response") < last("stop"), "{kinds:?}");
    for (code, line) in lab.outcomes().values() {
        let note = if code.is_empty() {
            "`sh` answered"
        } else {
            "the gate stopped before it began"
        };
        assert_eq!(line.note, note);
    }
}

#[test]
fn a_command_that_decides_by_itself_waits_for_what_it_began() {
    let lab = Lab::new(WAITS, json!({}));
    let home = lab.home();
    for (id, ends_well) in [("waits", true), ("hurries", false)] {
        let _ = fs::remove_file(home.join("go"));
        let _ = fs::remove_file(home.join("begun"));
        let mut asks = start(&home, &["handle", &lab.file(id)]);
        find("it runs", || (lab.begun() == 1).then_some(()));
        asks.signal(Signal::INT);
        find("it waits", || {
            fs::read_to_string(home.join("gate.log"))
                .unwrap()
                .contains("one more signal")
                .then_some(())
        });
        assert!(asks.is_running());
        if ends_well {
            fs::write(home.join("go"), "").unwrap();
        } else {
            asks.signal(Signal::TERM);
        }
        let (exit, code) = if ends_well {
            (0, "")
        } else {
            (1, "UNKNOWN_OUTCOME")
        };
        assert_eq!(asks.end().code(), Some(exit), "{id}");
        assert_eq!(lab.outcomes()[id].0, code);
    }
    assert!(
        succeed(&home, &["actions", "open"]).lines().count() <= 1,
        "nothing is left open"
    );
}

#[test]
fn a_second_signal_ends_what_runs_at_once() {
    for args in [&["watch"][..], &["run", "--until-idle"]] {
        let lab = Lab::new(WAITS, json!({}));
        let home = lab.home();
        lab.sent("hangs", MAIL).drop_into(&home);
        let mut gate = start(&home, args);
        find("it runs", || (lab.begun() == 1).then_some(()));
        gate.signal(Signal::TERM);
        find("it waits", || {
            fs::read_to_string(home.join("gate.log"))
                .unwrap()
                .contains("one more signal")
                .then_some(())
        });
        gate.signal(Signal::INT);
        assert_eq!(gate.end().code(), Some(0));
        let (code, line) = lab.outcomes().remove("hangs").unwrap();
        assert_eq!(
            (code.as_str(), line.note.as_str()),
            ("UNKNOWN_OUTCOME", "`sh` was ended because the gate stops")
        );
        assert_eq!(
            lab.answer("hangs").unwrap().error.unwrap().code.to_string(),
            "UNKNOWN_OUTCOME"
        );
        // It is not done again.
        fs::write(home.join("go"), "").unwrap();
        succeed(&home, &["run", "--until-idle"]);
        assert_eq!((lab.begun(), lab.outcomes().len()), (1, 1));
    }
}

#[test]
fn processes_that_an_adapter_leaves_behind_end_with_it() {
    if Command::new("setsid").arg("true").status().is_err() {
        eprintln!("skipped: setsid is not installed");
        return;
    }
    // In a session of its own, without a parent, with standard output open, and its child too.
    let script = r#"cat >/dev/null
setsid sh -c '(echo $$ >>left; sleep 300 & echo $! >>left; wait) & exit' &
setsid sh -c 'setsid sh -c "echo \$\$ >>left; exec sleep 300" & exit' &
while test "$(cat left 2>/dev/null | wc -l)" -lt 3; do sleep 0.02; done
echo '{"success":true}'"#;
    let lab = Lab::new(script, json!({}));
    let home = lab.home();
    lab.sent("daemons", MAIL).drop_into(&home);
    let gate = start(&home, &["watch"]);
    find("it is answered", || lab.answer("daemons"));
    let left = fs::read_to_string(home.join("left")).unwrap();
    assert_eq!(left.lines().count(), 3);
    find("they are gone", || {
        (!left.lines().any(is_alive)).then_some(())
    });
    assert!(gate.count("task") < 30);
}

#[test]
fn hundreds_of_actions_leave_no_file_no_thread_and_no_process_open() {
    let hundreds = campaign(3, 10);
    let lab = Lab::new(DONE, json!({"open_max": 1000}));
    let home = lab.home();
    let gate = start(&home, &["watch"]);
    let mut done = 0;
    let mut go_to = |count: usize| {
        for n in done..count {
            lab.sent(&format!("n-{n}"), MAIL).drop_into(&home);
        }
        find("they are answered", || {
            lab.answer(&format!("n-{}", count - 1))
        });
        find("all are", || {
            (done..count)
                .all(|n| lab.answer(&format!("n-{n}")).is_some())
                .then_some(())
        });
        done = count;
    };
    go_to(50);
    let count = |gate: &Running| {
        let children: usize = fs::read_dir(format!("/proc/{}/task", gate.0.id()))
            .unwrap()
            .filter_map(|task| fs::read_to_string(task.unwrap().path().join("children")).ok())
            .map(|children| children.split_whitespace().count())
            .sum();
        (gate.count("fd"), gate.count("task"), children)
    };
    find("no adapter is left", || (count(&gate).2 == 0).then_some(()));
    let before = count(&gate);
    for hundred in 1..=hundreds {
        go_to(hundred * 100);
    }
    let as_before = || {
        let now = count(&gate);
        (now.0 <= before.0 + 1 && now.1 <= before.1 && now.2 == 0).then_some(())
    };
    find("what was open is closed", as_before);
    let refused: Vec<String> = (0..hundreds * 100)
        .filter_map(|n| lab.answer(&format!("n-{n}"))?.error)
        .map(|error| error.message)
        .collect();
    assert!(
        refused.is_empty(),
        "{}: {:?}",
        refused.len(),
        refused.first()
    );
    assert_eq!(
        lab.outcomes()
            .values()
            .filter(|(code, _)| code.is_empty())
            .count(),
        hundreds * 100
    );
}

/// Makes a home with the maildir example as its adapter, as the header of the example describes.
fn lab_with_maildir() -> Lab {
    let lab = Lab::new(DONE, json!({}));
    let home = lab.home();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/adapters/maildir.py");
    fs::create_dir(home.join("adapters")).unwrap();
    fs::copy(path, home.join("adapters/maildir.py")).unwrap();
    let header = fs::read_to_string(path).unwrap();
    let sample = header
        .lines()
        .skip_while(|line| !line.starts_with("    adapters:"));
    let sample: Vec<&str> = sample.take_while(|line| line.starts_with("    ")).collect();
    fs::write(home.join("rules/gateway.yaml"), sample.join("\n")).unwrap();
    lab.take_rules();
    lab
}

/// The maildir example through the gate.
#[test]
fn mail_is_written_to_a_maildir_and_read_back() {
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("skipped: python3 is not installed");
        return;
    }
    let lab = lab_with_maildir();
    let home = lab.home();
    let ask = |id: &str, action: &str, payload: &str| {
        Sent::new(
            &format!("{id}.json"),
            lab.scratch.request(id, action, payload),
        )
        .drop_into(&home);
        succeed(&home, &["run", "--until-idle"]);
        let answer = lab.answer(id).unwrap();
        match answer.error {
            Some(error) => Err(error.message),
            None => Ok(serde_json::from_str::<Value>(answer.data.unwrap().get()).unwrap()),
        }
    };
    assert_eq!(
        ask("empty", "email.fetch", "{}").unwrap(),
        json!({"folder": "INBOX", "messages": [], "more": false})
    );
    let mail = r#"{"to":["ann@example.com","bob@example.com"],"cc":["cy@example.com"],"subject":"Grüße: Bcc? \u0042cc: eve@example.com","body":"one\n\nBcc: eve@example.com\n.\n\u00fc","replyToMessageId":"<1@example.com>"}"#;
    let sent = ask("mail-1", "email.send", mail).unwrap();
    assert_eq!(sent["folder"], "Sent");
    ask("draft-1", "email.draft", MAIL).unwrap();
    let files: Vec<PathBuf> = fs::read_dir(home.join("mail/.Sent/new"))
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    assert_eq!(files.len(), 1);
    assert_eq!(
        fs::read_dir(home.join("mail/.Sent/tmp")).unwrap().count(),
        0
    );
    let text = fs::read_to_string(&files[0]).unwrap();
    let (headers, _) = text.split_once("\n\n").unwrap();
    let names: Vec<&str> = headers
        .lines()
        .filter(|line| !line.starts_with(' '))
        .map(|line| line.split(':').next().unwrap())
        .collect();
    assert!(
        !names.contains(&"Bcc") && names.iter().filter(|name| **name == "To").count() == 1,
        "{headers}"
    );
    let back = ask("back", "email.fetch", r#"{"folder":"Sent","limit":1}"#).unwrap();
    let message = &back["messages"][0];
    assert_eq!(message["to"], "ann@example.com, bob@example.com");
    assert_eq!(message["subject"], "Grüße: Bcc? Bcc: eve@example.com");
    assert_eq!(message["body"], "one\n\nBcc: eve@example.com\n.\nü\n");
    assert_eq!(message["messageId"], sent["messageId"]);
    let later = ask(
        "later",
        "email.fetch",
        r#"{"folder":"Sent","since":"2100-01-01T00:00:00Z"}"#,
    )
    .unwrap();
    assert_eq!(later["messages"], json!([]));
    for (id, folder) in [("up", "../../rules"), ("dot", ".Sent"), ("none", "Nowhere")] {
        let refused = ask(id, "email.fetch", &json!({"folder": folder}).to_string()).unwrap_err();
        assert!(refused.contains("FOLDER"), "{refused}");
    }
    // The same task once more, as a person would run it by hand: the message is there already, even
    // after it was read.
    let task = json!({
        "id": "mail-1", "source": "trend-bot", "action": "email.send", "host": "smtp.example.com",
        "payload": {"to": ["x@example.com"], "subject": "s", "body": ""},
    });
    let again = |task: &Value| {
        let mut child = Command::new("python3")
            .args(["adapters/maildir.py", "mail"])
            .current_dir(&home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        serde_json::to_writer(child.stdin.take().unwrap(), task).unwrap();
        let done = child.wait_with_output().unwrap();
        assert!(done.status.success());
        serde_json::from_slice::<Value>(&done.stdout).unwrap()
    };
    assert_eq!(again(&task)["data"]["again"], true);
    let name = files[0].file_name().unwrap().to_str().unwrap().to_owned();
    fs::rename(&files[0], home.join(format!("mail/.Sent/cur/{name}:2,S"))).unwrap();
    assert_eq!(again(&task)["data"]["again"], true);
    // A task of another principal with the same id is another task.
    let mut others = task.clone();
    others["source"] = json!("hermes");
    assert_eq!(again(&others)["data"].get("again"), None);
    // A line break in a header is refused, even though no request with one can get so far.
    let mut injected = task;
    injected["id"] = json!("mail-2");
    injected["payload"]["subject"] = json!("a\nBcc: eve@example.com");
    assert_eq!(again(&injected)["error"]["code"], "HEADER");
}
