//! Adapters that misbehave in every way: each run ends in one outcome line and one answer that say
//! what is known, and the next action is done. Nothing from which a credential could be read comes
//! back.

mod credentials;
mod results;
mod sharing;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use crate::kit::gateway_home::{
    GOOD, GatewayHome, SERVICES, code, exec, gateway, settle, with_core,
};
use crate::kit::process::{find, is_alive, until};
use crate::kit::{Scratch, Sent, sign, succeed};
use serde_json::{Value, json};
use spoolgate_gate::gateway::respond;
use spoolgate_gate::record::{Response, Status};
use spoolgate_home::Home;
use spoolgate_host::adapters::{Adapters, Credential, Own, Task};
use spoolgate_host::keyring::{SqliteKeyring, key_id};
use spoolgate_outgoing::open::OpenAction;
use spoolgate_rules::gateway::ACTIONS;
use spoolgate_rules::services::Services;
use spoolgate_wire::gateway::ActionId;
use spoolgate_wire::ids::{Principal, RequestId};
use spoolgate_wire::repair::Repair;
use spoolgate_wire::signing::SignKey;
use spoolgate_wire::time::Time;

const OUTPUT_BYTES_MAX: usize = 65536;
const DONE: &str = r#"cat >/dev/null; echo '{"success":true}'"#;
const FETCH: &str = "email.fetch";

/// Returns rules/gateway.yaml with one adapter for all nine actions and very high rates.
fn rules(
    program: &str,
    args: &[&str],
    time_limit_s: u32,
    output_bytes_max: usize,
    more: Value,
) -> String {
    let per_hour: serde_json::Map<String, Value> = ACTIONS
        .iter()
        .map(|action| ((*action).to_owned(), json!(100_000)))
        .collect();
    let command = json!({
        "program": program, "args": args, "time_limit_s": time_limit_s,
            "output_bytes_max": output_bytes_max,
    });
    let mut rules = json!({
        "adapters": [{"actions": ACTIONS, "adapter": "exec", "command": command, "at_once": 4}],
        "rates": {"per_hour": per_hour, "all_per_hour": 100_000},
        "anomalies": {"burst_max": 100_000, "burst_window_s": 5, "payload_bytes_max": 10_000_000},
    });
    rules
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    rules.to_string()
}

/// Makes a home whose adapter is the file `act`, run by `sh`.
fn home_of_act(time_limit_s: u32) -> GatewayHome {
    GatewayHome::with(
        SERVICES,
        &rules("sh", &["act"], time_limit_s, OUTPUT_BYTES_MAX, json!({})),
    )
}

fn payload_of(action: &str) -> &'static str {
    GOOD.iter().find(|(name, _)| *name == action).unwrap().1
}

/// Runs one action with this script and returns its line and its answer. Then runs one with a good
/// script, to show that the pool continues.
fn act(gateway: &GatewayHome, home: &mut Home, name: &str, script: &str) -> Response {
    fs::write(gateway.path("act"), script).unwrap();
    let line = one(gateway, home, name, FETCH, payload_of(FETCH));
    fs::write(gateway.path("act"), DONE).unwrap();
    let next = one(
        gateway,
        home,
        &format!("{name}-next"),
        FETCH,
        payload_of(FETCH),
    );
    assert_eq!(next.status, Status::Success, "after {name}: {next:?}");
    line
}

/// Runs one action and returns its only response line, after checking that its answer agrees.
fn one(gateway: &GatewayHome, home: &mut Home, id: &str, action: &str, payload: &str) -> Response {
    let answer = gateway.one(home, id, action, payload);
    let lines: Vec<(u64, Response)> = gateway
        .responses()
        .into_iter()
        .filter(|(_, line)| line.request_id == id)
        .collect();
    let [(seq, line)] = lines.as_slice() else {
        panic!("{id}: {lines:?}")
    };
    assert_eq!(answer.audit_ref, seq.to_string(), "{id}");
    assert_eq!(
        code(&answer),
        line.metadata
            .code
            .map_or_else(String::new, |code| code.to_string()),
        "{id}"
    );
    assert_eq!(
        answer.error.map(|error| error.message),
        line.metadata.message,
        "{id}"
    );
    assert_eq!(
        line.metadata.code.is_none(),
        line.status == Status::Success,
        "{id}"
    );
    // A refusal also says how to try again.
    let line_data = match line.metadata.code {
        Some(code) => Some(
            Repair::of(code.retry())
                .added_to(line.data.clone())
                .unwrap(),
        ),
        None => line.data.clone(),
    };
    let line_data = line_data.map(|data| data.get().to_owned());
    if line.data_blob.is_none() {
        assert_eq!(
            answer.data.map(|data| data.get().to_owned()),
            line_data,
            "{id}"
        );
    }
    assert!(home.state().actions.open.is_empty(), "{id}");
    line.clone()
}

/// Returns code, note and message of a line; the message without the text that every message of the
/// code begins and ends with.
fn said(line: &Response) -> (String, String, String) {
    let code = line
        .metadata
        .code
        .map_or_else(String::new, |code| code.to_string());
    let message = line.metadata.message.clone().unwrap_or_default();
    let message = message
        .strip_prefix(&format!("a-{}: ", line.request_line))
        .unwrap_or(&message)
        .to_owned();
    let remedy = line.metadata.code.map_or("", |code| code.remedy());
    let message = message
        .strip_suffix(remedy)
        .and_then(|text| text.strip_suffix("; "))
        .unwrap_or(&message);
    let note = match &line.complaint {
        Some(complaint) => format!("{}; it complained: {complaint}", line.note),
        None => line.note.clone(),
    };
    (code, note, message.to_owned())
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn whatever_an_adapter_does_one_line_and_one_answer_say_it() {
    let gateway = home_of_act(1);
    let mut home = gateway.open();
    let deep = r#"printf '{"success":true,"data":'; head -c 50000 /dev/zero | tr '\0' '['"#;
    let no_answer = "`sh` answered; its output is not an answer: ";
    let large = format!("{}1", "9".repeat(400));
    // Name, script, code, note, beginning of the message.
    let cases: &[(&str, &str, &str, &str, &str)] = &[
        (
            "hangs",
            "trap '' TERM INT HUP; while :; do sleep 1; done",
            "ADAPTER_TIMED_OUT",
            "`sh` took longer than 1 s",
            "",
        ),
        (
            "floods",
            "yes",
            "ADAPTER_OUTPUT",
            "`sh` wrote more than 65536 bytes",
            "",
        ),
        (
            "complains",
            "yes 2>&1 | head -c 3000000 >&2; echo '{\"success\":true}'",
            "",
            "`sh` answered",
            "",
        ),
        (
            "complains-for-ever",
            "yes no >&2",
            "ADAPTER_TIMED_OUT",
            "`sh` took longer than 1 s; it complained: no\\u{a}no\\u{a}",
            "`sh` took longer than 1 s",
        ),
        (
            "reads-nothing-and-hangs",
            "sleep 100",
            "ADAPTER_TIMED_OUT",
            "`sh` took longer than 1 s",
            "",
        ),
        (
            "reads-nothing",
            "echo '{\"success\":true}'",
            "",
            "`sh` answered",
            "",
        ),
        (
            "closes-its-input",
            "exec 0<&-; sleep 0.1; echo '{\"success\":true}'",
            "",
            "`sh` answered",
            "",
        ),
        (
            "goes",
            "exit 0",
            "ADAPTER_OUTPUT",
            "`sh` answered",
            &format!("{no_answer}the document is empty"),
        ),
        (
            "faults",
            "kill -SEGV $$",
            "ADAPTER_CRASHED",
            "`sh` was ended by signal 11",
            "",
        ),
        (
            "faults-behind-its-answer",
            "echo '{\"success\":true}'; kill -9 $$",
            "ADAPTER_CRASHED",
            "`sh` was ended by signal 9",
            "",
        ),
        (
            "fails-behind-its-answer",
            "echo '{\"success\":true}'; echo 'disk full' >&2; exit 3",
            "ADAPTER_CRASHED",
            "`sh` ended with exit code 3; it complained: disk full",
            "`sh` ended with exit code 3",
        ),
        (
            "prints-nothing",
            "cat >/dev/null",
            "ADAPTER_OUTPUT",
            "`sh` answered",
            &format!("{no_answer}the document is empty"),
        ),
        (
            "garbage",
            "echo hello",
            "ADAPTER_OUTPUT",
            "`sh` answered",
            &format!("{no_answer}the document is not an object"),
        ),
        (
            "two-objects",
            "echo '{\"success\":true}{\"success\":true}'",
            "ADAPTER_OUTPUT",
            "`sh` answered",
            &format!("{no_answer}unexpected data after the document"),
        ),
        (
            "half",
            "printf '{\"success\":tr'",
            "ADAPTER_OUTPUT",
            "`sh` answered",
            &format!("{no_answer}the document ends too early"),
        ),
        (
            "twice",
            "echo '{\"success\":false,\"success\":true}'",
            "ADAPTER_OUTPUT",
            "`sh` answered",
            &format!("{no_answer}duplicate key `success`"),
        ),
        (
            "twice-below",
            "echo '{\"success\":true,\"data\":[{\"a\":1,\"\\\\u0061\":2}]}'",
            "ADAPTER_OUTPUT",
            "`sh` answered",
            &format!("{no_answer}duplicate key `a`"),
        ),
        (
            "deep",
            deep,
            "ADAPTER_OUTPUT",
            "`sh` answered",
            &format!("{no_answer}more than 64 nested containers"),
        ),
        (
            "no-utf-8",
            "printf '{\"success\":true,\"data\":\"\\377\"}'",
            "ADAPTER_OUTPUT",
            "`sh` answered",
            &format!("{no_answer}the document is not UTF-8"),
        ),
        (
            "nul",
            "printf '{\"success\":true}\\0'",
            "ADAPTER_OUTPUT",
            "`sh` answered",
            &format!("{no_answer}unexpected data after the document"),
        ),
        (
            "nul-within",
            "printf '{\"success\":true,\"data\":\"\\0\"}'",
            "ADAPTER_OUTPUT",
            "`sh` answered",
            &format!("{no_answer}unescaped control character in a string"),
        ),
        (
            "array",
            "echo '[{\"success\":true}]'",
            "ADAPTER_OUTPUT",
            "`sh` answered",
            &format!("{no_answer}the document is not an object"),
        ),
        (
            "both",
            "echo '{\"success\":true,\"error\":{\"code\":\"E\",\"message\":\"m\"}}'",
            "ADAPTER_OUTPUT",
            "`sh` answered",
            "`sh` answered; its output reports both success and an error",
        ),
        (
            "neither",
            "echo '{\"success\":false}'",
            "ADAPTER_OUTPUT",
            "`sh` answered",
            "`sh` answered; its output reports neither success nor an error",
        ),
        (
            "unsaid",
            "echo '{\"data\":1}'",
            "ADAPTER_OUTPUT",
            "`sh` answered",
            &format!("{no_answer}missing field `success`"),
        ),
        (
            "no-error",
            "echo '{\"success\":false,\"error\":null}'",
            "ADAPTER_OUTPUT",
            "`sh` answered",
            &format!("{no_answer}invalid type: null"),
        ),
        (
            "text",
            "echo '{\"success\":\"true\"}'",
            "ADAPTER_OUTPUT",
            "`sh` answered",
            &format!("{no_answer}invalid type: string"),
        ),
        (
            "unknown-key",
            "echo '{\"success\":true,\"sucess\":false}'",
            "ADAPTER_OUTPUT",
            "`sh` answered",
            &format!("{no_answer}unknown field `sucess`"),
        ),
        (
            "unknown-key-of-its-error",
            "echo '{\"success\":false,\"error\":{\"code\":\"E\",\"message\":\"m\",\"more\":1}}'",
            "ADAPTER_OUTPUT",
            "`sh` answered",
            &format!("{no_answer}unknown field `more`"),
        ),
        (
            "says-so",
            "echo '{\"success\":false,\"error\":{\"code\":\"FULL\",\"message\":\"no \
                room\\\\u001b[2J\"},\"data\":{\"n\":1}}'; echo why >&2",
            "ADAPTER_FAILED",
            "`sh` answered; it complained: why",
            "FULL: no room\\u{1b}[2J",
        ),
        (
            "daemon",
            "sleep 300 & echo '{\"success\":true}'",
            "",
            "`sh` answered",
            "",
        ),
        (
            "says-it-is-late",
            "sleep 1.5; echo '{\"success\":true}'",
            "ADAPTER_TIMED_OUT",
            "`sh` took longer than 1 s",
            "",
        ),
        (
            "with-data",
            &format!("echo '{{\"success\":true,\"data\":[1e999999,{large},\"\\\\u0000\"]}}'"),
            "",
            "`sh` answered",
            "",
        ),
        (
            "null-data",
            " printf '\\n\\n {\"data\" : null , \"success\":true}\\n\\n'",
            "",
            "`sh` answered",
            "",
        ),
    ];
    for (name, script, code, note, message) in cases {
        let line = act(&gateway, &mut home, name, script);
        let (own_code, own_note, own_message) = said(&line);
        assert_eq!(
            (&*own_code, line.data_blob.as_ref()),
            (*code, None),
            "{name}: {line:?}"
        );
        if note.ends_with("\\u{a}") {
            assert!(
                own_note.starts_with(note) && own_note.len() < 3000,
                "{name}: {line:?}"
            );
        } else {
            assert_eq!(own_note, *note, "{name}");
        }
        let message = match (*code, *message) {
            ("", _) => "",
            (_, "") => note,
            (_, message) => message,
        };
        assert!(own_message.starts_with(message), "{name}: {own_message}");
        assert!(!code.is_empty() || own_message.is_empty(), "{name}");
        let data = line.data.as_ref().map(|data| data.get());
        let expect = match *name {
            "says-so" => Some(r#"{"n":1}"#.to_owned()),
            "with-data" => Some(format!(r#"[1e999999,{large},"\u0000"]"#)),
            _ => None,
        };
        assert_eq!(data, expect.as_deref(), "{name}");
    }
}

#[test]
fn an_answer_after_the_time_limit_is_never_accepted() {
    let gateway = home_of_act(1);
    let mut home = gateway.open();
    // It continues after its end, as far as its process group allows.
    fs::write(
        gateway.path("act"),
        "trap '' TERM; sh -c 'echo $$ >left; sleep 2; echo x >late' & wait",
    )
    .unwrap();
    let line = one(&gateway, &mut home, "late", FETCH, "{}");
    assert_eq!(said(&line).0, "ADAPTER_TIMED_OUT");
    let before = gateway.answer("late").unwrap().to_bytes();
    let left = fs::read_to_string(gateway.path("left")).unwrap();
    until("what it started ends", || !is_alive(&left));
    settle(&mut home);
    assert_eq!(gateway.answer("late").unwrap().to_bytes(), before);
    assert_eq!(gateway.responses().len(), 1);
    assert!(
        !gateway.path("late").exists(),
        "what it started outlived it"
    );
    // At exactly the limit, either result is possible, once.
    fs::write(gateway.path("act"), "sleep 0.98; echo '{\"success\":true}'").unwrap();
    let line = one(&gateway, &mut home, "just", FETCH, "{}");
    assert!(
        ["", "ADAPTER_TIMED_OUT"].contains(&said(&line).0.as_str()),
        "{line:?}"
    );
}

#[test]
fn an_adapter_may_write_as_much_as_its_limit_and_no_byte_more() {
    let limit = 5_000_000;
    let gateway = GatewayHome::with(SERVICES, &rules("sh", &["act"], 30, limit, json!({})));
    let mut home = gateway.open();
    let frame = r#"{"success":true,"data":""}"#.len();
    let script = |bytes: usize| {
        let letters = bytes - frame;
        format!(
            "printf '{{\"success\":true,\"data\":\"'; head -c {letters} /dev/zero | tr '\\0' x; \
                printf '\"}}'"
        )
    };
    let line = act(&gateway, &mut home, "at-the-limit", &script(limit));
    assert_eq!(said(&line).0, "");
    assert!(line.is_sealed("data") && line.data_blob.is_none());
    let data = gateway.answer("at-the-limit").unwrap().data.unwrap();
    assert_eq!(data.get().len(), limit - frame + 2);
    let line = act(&gateway, &mut home, "over-it", &script(limit + 1));
    assert_eq!(said(&line).0, "ADAPTER_OUTPUT");
    assert_eq!(line.note, "`sh` wrote more than 5000000 bytes");
    assert!(line.data.is_none() && line.data_blob.is_none());
}

#[test]
fn the_error_text_of_an_adapter_is_cut() {
    let gateway = home_of_act(10);
    let mut home = gateway.open();
    let script = "printf '{\"success\":false,\"error\":{\"code\":\"E\",\"message\":\"'; head -c \
        60000 /dev/zero | tr '\\0' m; printf '\"}}'";
    let line = act(&gateway, &mut home, "long", script);
    assert_eq!(said(&line).0, "ADAPTER_FAILED");
    assert!(line.metadata.message.unwrap().len() < 2000);
}

/// What an adapter said is sealed in the ledger, and a journal would keep it.
#[test]
fn what_an_adapter_said_is_not_printed() {
    let said = r#"echo '{"success":false,"error":{"code":"FULL","message":"hunter2"}}'"#;
    let refused = r#"echo '{"success":true,"hunter2":1}'"#;
    for (script, code) in [(said, "ADAPTER_FAILED"), (refused, "ADAPTER_OUTPUT")] {
        let scratch = Scratch::new();
        let home = scratch.home();
        let core = with_core(&scratch, &gateway(&[exec(&["email.send"], script, 10)]));
        let mail = r#"{"to":["ann@example.com"],"subject":"hello","body":"a word"}"#;
        let request = sign(&core, "core", "mail", "email.send", mail);
        Sent::new("mail.json", request).drop_into(&home);
        let printed = succeed(&home, &["run", "--until-idle"]);
        assert!(
            printed.contains(&format!("{code}: read the answer")),
            "{printed}"
        );
        assert!(!printed.contains("hunter2"), "{printed}");
        let answer = fs::read_to_string(home.join("spool/out/mail.json")).unwrap();
        assert!(answer.contains("hunter2"), "{answer}");
        // Nor when a copy is answered again.
        let request = sign(&core, "core", "mail", "email.send", mail);
        Sent::new("again.json", request).drop_into(&home);
        let printed = succeed(&home, &["run", "--until-idle"]);
        assert!(!printed.contains("hunter2"), "{printed}");
    }
}

#[test]
fn an_adapter_that_cannot_be_run_did_nothing() {
    /// A program, how it is changed first, and the note.
    type Case = (&'static str, fn(&Path), &'static str);
    let cases: [Case; 6] = [
        (
            "nowhere-to-be-found",
            |_| {},
            "`nowhere-to-be-found` could not be run: No such file or directory (os error 2)",
        ),
        (
            "./missing",
            |_| {},
            "`./missing` could not be run: No such file or directory (os error 2)",
        ),
        (
            "./plain",
            |path| fs::write(path.join("plain"), "#!/bin/sh\n").unwrap(),
            "`./plain` could not be run: Permission denied (os error 13)",
        ),
        (
            "./rules",
            |_| {},
            "`./rules` could not be run: Permission denied (os error 13)",
        ),
        (
            "./nobody",
            |path| script(&path.join("nobody"), "#!/nowhere/interpreter\n"),
            "`./nobody` could not be run: No such file or directory (os error 2)",
        ),
        (
            "./text",
            |path| script(&path.join("text"), "echo '{\"success\":true}'\n"),
            "`./text` could not be run: Exec format error (os error 8)",
        ),
    ];
    for (program, make, note) in cases {
        let gateway = GatewayHome::with(SERVICES, &rules(program, &[], 5, 100, json!({})));
        make(gateway.place.root.path());
        let mut home = gateway.open();
        let line = one(&gateway, &mut home, "first", FETCH, "{}");
        assert_eq!(
            said(&line),
            (
                "ADAPTER_NOT_RUN".to_owned(),
                note.to_owned(),
                note.to_owned()
            ),
            "{program}"
        );
        let line = one(&gateway, &mut home, "second", FETCH, "{}");
        assert_eq!(said(&line).0, "ADAPTER_NOT_RUN", "{program}");
    }
}

fn script(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn an_adapter_gets_its_task_and_nothing_else() {
    let gateway = home_of_act(10);
    let mut home = gateway.open();
    // Answers with its input, its environment, its open files, its folder and its group.
    let script = r#"task=$(cat); printf '{"success":true,"data":{"task":%s,"env":"%s","files":"%s","dir":"%s","leads":%s}}' \
        "$task" "$(env | grep -v -e ^PWD= -e ^_= -e ^SHLVL= -e ^OLDPWD= | sort | tr '\n' ' ')" \
        "$(for f in /proc/$$/fd/*; do readlink $f; done | tr '\n' ' ')" "$(pwd)" \
        "$(test "$(cut -d' ' -f5 /proc/$$/stat)" = $$ && echo true || echo false)""#;
    fs::write(gateway.path("act"), script).unwrap();
    one(
        &gateway,
        &mut home,
        "looks",
        "service.api_call",
        payload_of("service.api_call"),
    );
    let data: Value =
        serde_json::from_str(gateway.answer("looks").unwrap().data.unwrap().get()).unwrap();
    let task = json!({
        "id": "looks", "source": "core", "action": "service.api_call",
        "payload": {"service": "bank", "endpoint": "/v1/balance", "method": "GET"},
        "service": "bank", "host": "api.bank.example", "port": null, "protocol": "https",
            "credential": null,
    });
    assert_eq!(data["task"], task);
    assert_eq!(
        data["env"],
        "LANG=C.UTF-8 PATH=/usr/local/bin:/usr/bin:/bin "
    );
    let root = fs::canonicalize(gateway.place.root.path()).unwrap();
    let files = data["files"].as_str().unwrap().split_whitespace();
    let of_the_gate: Vec<&str> = files
        .filter(|file| Path::new(file).starts_with(&root))
        .collect();
    assert!(
        of_the_gate.iter().all(|file| file.ends_with("/act")),
        "inherited: {of_the_gate:?}"
    );
    assert_eq!(Path::new(data["dir"].as_str().unwrap()), root);
    assert_eq!(data["leads"], true);
    // Payloads come with their defaults, including large ones.
    one(&gateway, &mut home, "defaults", FETCH, "{}");
    let data: Value =
        serde_json::from_str(gateway.answer("defaults").unwrap().data.unwrap().get()).unwrap();
    assert_eq!(
        data["task"]["payload"],
        json!({"folder": "INBOX", "limit": 50})
    );
}

#[test]
fn an_adapter_that_changes_its_own_file_changes_the_next_run() {
    let gateway = home_of_act(10);
    let mut home = gateway.open();
    fs::write(
        gateway.path("act"),
        "{ cat >/dev/null; echo 'echo changed' >act; echo '{\"success\":true}'; exit; }",
    )
    .unwrap();
    assert_eq!(said(&one(&gateway, &mut home, "first", FETCH, "{}")).0, "");
    assert_eq!(
        said(&one(&gateway, &mut home, "second", FETCH, "{}")).0,
        "ADAPTER_OUTPUT"
    );
    fs::remove_file(gateway.path("act")).unwrap();
    let line = one(&gateway, &mut home, "third", FETCH, "{}");
    assert_eq!(said(&line).0, "ADAPTER_CRASHED", "sh itself runs: {line:?}");
}
