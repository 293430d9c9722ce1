//! Programs of `rules/notify.yaml`: when they run, what they read, and what a crash repeats.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use spoolgate_home::Home;
use spoolgate_home::notify::MARKS;
use spoolgate_host::Clock;
use spoolgate_replay::replay::{Options, replay};
use spoolgate_wire::code::Code;

use crate::kit::desk::{failed, order};
use crate::kit::process::until;
use crate::kit::{command, folder, lines, show, spoolgate, succeed, uncaged};
use crate::proposals::gate::{Gate, acknowledged, activate, code, own_rule};

const LIMITS: &str = "time_limit_s: 20, output_bytes_max: 1000";

/// Returns the file with these receivers: a name, its kinds, and a line of shell.
fn file(receivers: &[(&str, &str, &str)]) -> String {
    let one = |(name, on, script): &(&str, &str, &str)| {
        let args = json!(["-c", script]);
        format!("  - {{name: {name}, on: [{on}], program: sh, args: {args}, {LIMITS}}}\n")
    };
    format!("to:\n{}", receivers.iter().map(one).collect::<String>())
}

/// A gate with these receivers, whose programs may write into the home.
fn telling(receivers: &[(&str, &str, &str)]) -> Gate {
    Gate::under(|root| {
        uncaged(root);
        fs::write(root.join("rules/notify.yaml"), file(receivers)).unwrap();
    })
}

/// Returns the notices that a program has written to a file.
fn told(gate: &Gate, name: &str) -> Vec<Value> {
    let text = fs::read_to_string(gate.path(name)).unwrap_or_default();
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn kinds(gate: &Gate, name: &str) -> Vec<String> {
    let kind = |notice: Value| notice["kind"].as_str().unwrap().to_owned();
    told(gate, name).into_iter().map(kind).collect()
}

fn halt(gate: &Gate, home: &mut Home, reason: &str) -> u64 {
    gate.owner_asks(home, "halt.set", &json!({"reason": reason}))
        .seq
}

/// Runs rounds, as a watcher does, until something is so.
fn rounds(home: &mut Home, what: &str, mut is_so: impl FnMut() -> bool) {
    until(what, || {
        home.write_news().unwrap();
        is_so()
    });
}

fn marks(gate: &Gate) -> Value {
    serde_json::from_str(&gate.read(MARKS)).unwrap()
}

#[test]
fn a_receiver_is_told_of_its_kinds_in_order() {
    let gate = telling(&[
        ("all", "all", "cat >> all"),
        ("halts", "halt, halt_cleared", "cat >> halts"),
    ]);
    let mut home = gate.open();
    let line = halt(&gate, &mut home, "trouble at the exchange");
    gate.owner_asks(
        &mut home,
        "halt.clear",
        &json!({"scope": "all", "reason": "over"}),
    );
    let (id, _) = acknowledged(&gate.propose(
        &mut home,
        &activate({
            let mut rule = own_rule("everyone", "5");
            rule["applies_to"] = json!({"action": "order.submit"});
            rule
        }),
    ));
    home.finish("done").unwrap();
    drop(home);
    assert_eq!(kinds(&gate, "halts"), ["halt", "halt_cleared"]);
    // The home was founded, and its first key added, before anybody could be told.
    let all = kinds(&gate, "all");
    let ours: Vec<&String> = all.iter().filter(|kind| *kind != "key").collect();
    assert_eq!(ours, ["stop", "halt", "halt_cleared", "proposal", "stop"]);
    let notice = &told(&gate, "halts")[0];
    assert_eq!(notice["id"], format!("n-{line}-0"));
    assert_eq!(notice["line"], line);
    assert_eq!(notice["level"], "alarm");
    assert!(
        notice["text"]
            .as_str()
            .unwrap()
            .contains("trouble at the exchange")
    );
    let all = told(&gate, "all");
    let proposal = all
        .iter()
        .find(|notice| notice["kind"] == "proposal")
        .unwrap();
    assert_eq!(proposal["ref"], id);
    assert_eq!(proposal["remedy"], format!("spoolgate proposals show {id}"));
    // Both have been told everything, so a start tells them nothing again.
    let marks = marks(&gate);
    assert_eq!(marks["all"], marks["halts"]);
    let mut home = gate.open();
    home.write_news().unwrap();
    home.finish("done").unwrap();
    assert_eq!(kinds(&gate, "halts").len(), 2);
}

#[test]
fn a_crash_before_the_mark_moves_repeats_a_notice() {
    let gate = telling(&[("phone", "halt", "cat >> told")]);
    let mut home = gate.open();
    let line = halt(&gate, &mut home, "first");
    until("the program has run", || told(&gate, "told").len() == 1);
    assert!(marks(&gate)["phone"].as_u64().unwrap() < line);
    drop(home);
    let mut home = gate.open();
    rounds(&mut home, "told again", || told(&gate, "told").len() == 2);
    rounds(&mut home, "the mark moves", || {
        marks(&gate)["phone"].as_u64().unwrap() >= line
    });
    drop(home);
    let ids: Vec<Value> = told(&gate, "told")
        .iter()
        .map(|it| it["id"].clone())
        .collect();
    assert_eq!(
        ids,
        [json!(format!("n-{line}-0")), json!(format!("n-{line}-0"))]
    );
    // A crash after the mark has moved repeats nothing.
    let mut home = gate.open();
    home.write_news().unwrap();
    home.finish("done").unwrap();
    assert_eq!(told(&gate, "told").len(), 2);
}

#[test]
fn a_crash_before_the_program_runs_loses_nothing() {
    let gate = telling(&[("phone", "halt", "test -e open && cat >> told")]);
    let mut home = gate.open();
    for number in 0..7 {
        halt(&gate, &mut home, &format!("reason {number}"));
    }
    drop(home);
    fs::write(gate.path("open"), "").unwrap();
    let mut home = gate.open();
    home.write_news().unwrap();
    home.finish("done").unwrap();
    // Read back at once, they are more than five within ten seconds.
    let told = told(&gate, "told");
    assert_eq!(told.len(), 6, "{told:?}");
    assert_eq!(told[5]["title"], "2 more notices `halt`");
}

#[test]
fn a_program_that_fails_is_tried_again_and_then_others_are_told() {
    let gate = telling(&[
        (
            "broken",
            "halt, not_told",
            "cat >> tried; echo secret >&2; exit 3",
        ),
        ("mail", "not_told", "cat >> mail"),
    ]);
    let mut home = gate.open();
    let line = halt(&gate, &mut home, "first");
    for (tries, wait_s) in [(1, 10), (2, 60), (3, 300)] {
        until_heard(&mut home);
        assert_eq!(told(&gate, "tried").len(), tries);
        let due = gate.clock.now().plus_ms(wait_s * 1000);
        gate.clock.set(due.plus_ms(-1));
        home.write_news().unwrap();
        home.write_news().unwrap();
        assert_eq!(told(&gate, "tried").len(), tries, "too early");
        gate.clock.set(due);
        home.write_news().unwrap();
    }
    rounds(&mut home, "the last try", || {
        told(&gate, "tried").len() == 4
    });
    rounds(&mut home, "another is told", || {
        told(&gate, "mail").len() == 1
    });
    let notice = &told(&gate, "mail")[0];
    assert_eq!(notice["kind"], "not_told");
    let text = notice["text"].as_str().unwrap();
    assert!(
        text.contains(&format!("`broken` was not told of n-{line}-0")),
        "{text}"
    );
    assert!(!text.contains("secret"), "{text}");
    // The receiver is not told of its own failure, and the mark has moved on.
    rounds(&mut home, "the mark moves", || {
        marks(&gate)["broken"].as_u64().unwrap() >= line
    });
    assert_eq!(told(&gate, "tried").len(), 4);
    drop(home);
    let kinds = lines(gate.root.path()).unwrap();
    assert_eq!(
        kinds
            .iter()
            .filter(|(_, kind, _)| kind == "not_told")
            .count(),
        1
    );
    let options = Options {
        threads: 1,
        answers: None,
    };
    let replayed = replay(gate.seams().disk, Path::new("audit"), &options, &mut |_| {}).unwrap();
    assert!(replayed.is_same(), "{replayed:?}");
}

#[test]
fn limits_that_are_near_holds_and_pulls_are_told() {
    let (gate, mut home) = Gate::holding();
    uncaged(gate.root.path());
    let text = file(&[("desk", "limit_near, hold, pull", "cat >> told")]);
    fs::write(gate.path("rules/notify.yaml"), text).unwrap();
    fs::write(
        gate.path("rules/core/look-first.yaml"),
        "id: look-first\nstatus: active\napplies_to: {action: order.submit}\nwhen: [{field: \
            order.size, op: eq, value: \"0.003\"}]\nthen: hold\nmessage: look first\n",
    )
    .unwrap();
    gate.settle(&mut home);
    // 149.4 of 250 are used and 196.3 after the first of these; four fifths are 200.
    for (size, thesis) in [("0.007", "spare-a"), ("0.002", "spare-b")] {
        let asked = order("trend", "buy", size, Some("6700"), thesis);
        assert_eq!(failed(&gate.order(&mut home, &asked)), [""; 0]);
    }
    let asked = order("trend", "buy", "0.003", Some("6700"), "spare-c");
    let held = gate.order(&mut home, &asked);
    assert_eq!(code(&held), Some(Code::Held), "{held:?}");
    halt(&gate, &mut home, "a drill");
    home.finish("done").unwrap();
    let told = told(&gate, "told");
    let of_kind = |kind: &str| -> Vec<&Value> {
        told.iter()
            .filter(|notice| notice["kind"] == kind)
            .collect()
    };
    let near = of_kind("limit_near");
    let position: Vec<_> = near
        .iter()
        .filter(|notice| notice["ref"] == "max_single_position")
        .collect();
    assert_eq!(position.len(), 1, "{near:?}");
    let title = position[0]["title"].as_str().unwrap();
    assert!(
        title.starts_with("`max_single_position` is at 210."),
        "{title}"
    );
    let holds = of_kind("hold");
    assert_eq!(holds.len(), 1, "{told:?}");
    let title = holds[0]["title"].as_str().unwrap();
    assert_eq!(title, "trend-bot asks: order.submit buy 0.003 BTC-USD");
    assert!(holds[0]["text"].as_str().unwrap().contains("look-first"));
    let pulls = of_kind("pull");
    assert_eq!(pulls.len(), 1, "{told:?}");
    assert_eq!(pulls[0]["level"], "act");
}

#[test]
fn a_program_that_is_missing_stops_nothing() {
    let gate = Gate::under(|root| {
        uncaged(root);
        let text = format!("to:\n  - {{name: gone, on: [halt], program: bin/none, {LIMITS}}}\n");
        fs::write(root.join("rules/notify.yaml"), text).unwrap();
    });
    let mut home = gate.open();
    let line = halt(&gate, &mut home, "first");
    until_heard(&mut home);
    assert!(halt(&gate, &mut home, "second") > line);
    home.finish("done").unwrap();
    assert!(marks(&gate)["gone"].as_u64().unwrap() < line);
}

#[test]
fn the_end_of_a_run_waits_five_seconds_and_the_next_start_tells_the_rest() {
    let script = "test -e open || { echo $$ > started; exec sleep 1000; }; cat >> told";
    let gate = Gate::under(|root| {
        uncaged(root);
        let text = file(&[("slow", "halt", script)]);
        let text = text.replace("time_limit_s: 20", "time_limit_s: 3600");
        fs::write(root.join("rules/notify.yaml"), text).unwrap();
    });
    let mut home = gate.open();
    let line = halt(&gate, &mut home, "first");
    let (clock, started) = (Arc::clone(&gate.clock), gate.path("started"));
    let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    until("the program has started", || read(&started).ends_with('\n'));
    let events = Arc::new(std::sync::Mutex::new(Vec::new()));
    let hears = Arc::clone(&events);
    home.tell_events(Box::new(move |event| {
        hears.lock().unwrap().push(event.note.clone());
    }));
    // The clock moves while the end waits.
    let before = clock.now();
    let is_over = Arc::new(AtomicBool::new(false));
    let over = Arc::clone(&is_over);
    let moves = std::thread::spawn(move || {
        while !over.load(Ordering::SeqCst) {
            clock.set(clock.now().plus_ms(500));
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    });
    home.finish("done").unwrap();
    is_over.store(true, Ordering::SeqCst);
    moves.join().unwrap();
    assert!(gate.clock.now() >= before.plus_ms(5_000));
    let events = events.lock().unwrap().join("\n");
    assert!(
        events.contains("notices that are not told yet: 1"),
        "{events}"
    );
    drop(home);
    assert!(!crate::kit::process::is_alive(&read(&started)));
    assert!(marks(&gate)["slow"].as_u64().unwrap() < line);
    fs::write(gate.path("open"), "").unwrap();
    let mut home = gate.open();
    home.write_news().unwrap();
    home.finish("done").unwrap();
    let told = told(&gate, "told");
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0]["line"], line);
}

/// Runs rounds until the gate has heard that a program failed.
fn until_heard(home: &mut Home) {
    let heard = Arc::new(AtomicBool::new(false));
    let hear = Arc::clone(&heard);
    home.tell_events(Box::new(move |event| {
        if event.note.contains("was not told of") {
            hear.store(true, Ordering::SeqCst);
        }
    }));
    rounds(home, "the gate hears of it", || {
        heard.load(Ordering::SeqCst)
    });
}

#[test]
fn a_program_that_hangs_holds_up_neither_the_gate_nor_others() {
    let gate = Gate::under(|root| {
        uncaged(root);
        let text = file(&[("phone", "halt", "cat >> phone")]);
        let hangs = "  - {name: hangs, on: [halt], program: sleep, args: ['1000'], time_limit_s: 1, \
            output_bytes_max: 10}\n";
        fs::write(root.join("rules/notify.yaml"), text + hangs).unwrap();
    });
    let mut home = gate.open();
    let line = halt(&gate, &mut home, "first");
    rounds(&mut home, "the other is told", || {
        told(&gate, "phone").len() == 1
    });
    // The end waits for the program's time limit and no longer, and the mark stays.
    home.finish("done").unwrap();
    assert!(marks(&gate)["hangs"].as_u64().unwrap() < line);
    assert!(marks(&gate)["phone"].as_u64().unwrap() >= line);
}

#[test]
fn a_receiver_that_is_named_later_starts_at_the_end() {
    let gate = telling(&[]);
    let mut home = gate.open();
    halt(&gate, &mut home, "before");
    assert!(!gate.path(MARKS).exists());
    fs::write(
        gate.path("rules/notify.yaml"),
        file(&[("phone", "halt", "cat >> told")]),
    )
    .unwrap();
    gate.settle(&mut home);
    let line = halt(&gate, &mut home, "after");
    home.finish("done").unwrap();
    drop(home);
    let all = told(&gate, "told");
    assert_eq!(all.len(), 1, "{all:?}");
    assert_eq!(all[0]["line"], line);
    // Without receivers there is no mark, so the next one starts at the end again.
    fs::write(gate.path("rules/notify.yaml"), "to: []\n").unwrap();
    let mut home = gate.open();
    gate.settle(&mut home);
    halt(&gate, &mut home, "between");
    home.finish("done").unwrap();
    assert!(!gate.path(MARKS).exists());
}

/// Makes a home by `init`.
fn init() -> (tempfile::TempDir, PathBuf) {
    let dir = folder();
    let home = dir.path().join("home");
    succeed(&home, &["init", home.to_str().unwrap()]);
    (dir, home)
}

/// Makes a home without cages, with these receivers.
fn made(receivers: &[(&str, &str, &str)]) -> (tempfile::TempDir, PathBuf) {
    let (dir, home) = init();
    uncaged(&home);
    if !receivers.is_empty() {
        fs::write(home.join("rules/notify.yaml"), file(receivers)).unwrap();
    }
    (dir, home)
}

#[test]
fn a_command_delivers_before_it_ends() {
    let (_dir, home) = made(&[("phone", "halt", "cat >> told")]);
    succeed(&home, &["halt", "set", "--reason", "a drill"]);
    let text = fs::read_to_string(home.join("told")).unwrap();
    assert_eq!(text.lines().count(), 1);
    assert!(text.contains("a drill"), "{text}");
}

#[test]
fn a_test_notice_is_sent_at_once_and_the_answer_is_shown() {
    let (_dir, home) = made(&[
        ("phone", "halt", "cat > told; echo thank you"),
        ("mail", "hold", "echo no relay >&2; exit 7"),
    ]);
    let done = spoolgate(&home, &["notify", "test", "phone"]);
    assert_eq!(done.status.code(), Some(0), "{}", show(&done));
    assert!(show(&done).contains("thank you"), "{}", show(&done));
    let notice: Value = serde_json::from_slice(&fs::read(home.join("told")).unwrap()).unwrap();
    assert_eq!(
        (&notice["kind"], &notice["version"]),
        (&json!("test"), &json!(1))
    );
    let done = spoolgate(&home, &["notify", "test"]);
    assert_eq!(done.status.code(), Some(1), "{}", show(&done));
    assert!(show(&done).contains("no relay"), "{}", show(&done));
    let done = spoolgate(&home, &["--format", "json", "notify", "test", "mail"]);
    assert_eq!(done.status.code(), Some(1));
    let shown: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(shown["receivers"][0]["told"], false);
    let done = spoolgate(&home, &["notify", "test", "fax"]);
    assert_eq!(done.status.code(), Some(2));
    assert!(show(&done).contains("phone, mail"), "{}", show(&done));
    fs::write(home.join("rules/notify.yaml"), "to: []\n").unwrap();
    let done = spoolgate(&home, &["notify", "test"]);
    assert_eq!(done.status.code(), Some(1), "{}", show(&done));
}

#[test]
fn a_program_in_its_cage_reads_its_notice_and_no_secret() {
    if spoolgate_host::sandbox::kernel_abi() < 6 {
        eprintln!("skipped: no Landlock of version 6");
        return;
    }
    let (_dir, home) = init();
    let script = "grep -c 'a test by' && env | grep -c TOKEN; \
        cat state/keyring.key rules/safety.yaml | wc -c";
    let text = file(&[("phone", "all", script)]);
    fs::write(home.join("rules/notify.yaml"), text).unwrap();
    let done = command(&home, &["--format", "json", "notify", "test"])
        .env("DESK_TOKEN", "hunter2")
        .output()
        .unwrap();
    let shown: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(shown["receivers"][0]["answer"], "1\n0\n0", "{shown}");
}

#[test]
fn root_runs_no_program_of_another_users_gate() {
    use std::os::unix::fs::chown;
    let (_dir, home) = made(&[("phone", "all", "cat > told")]);
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: this is not root");
        return;
    }
    chown(home.join("state"), Some(12345), None).unwrap();
    let done = std::process::Command::new(crate::kit::PROGRAM)
        .arg("--home")
        .arg(&home)
        .args(["notify", "test"])
        .output()
        .unwrap();
    assert_eq!(done.status.code(), Some(6), "{}", show(&done));
    assert!(show(&done).contains("12345"), "{}", show(&done));
    assert!(!home.join("told").exists());
}

#[test]
fn a_file_that_is_wrong_is_refused_with_its_line() {
    let (_dir, home) = made(&[]);
    for (text, says) in [
        (
            "to: []\nevents: [alarm]\n",
            ["rules/notify.yaml:2", "events"],
        ),
        (
            "to:\n  - {name: a, on: [war], program: p}\n",
            ["rules/notify.yaml:2", "war"],
        ),
        (
            "to:\n  - name: a\n    on: [halt]\n    shell: p\n",
            ["rules/notify.yaml:4", "shell"],
        ),
    ] {
        fs::write(home.join("rules/notify.yaml"), text).unwrap();
        for args in [&["rules", "lint"][..], &["notify", "test"]] {
            let done = spoolgate(&home, args);
            assert_ne!(done.status.code(), Some(0), "{text}");
            let shown = show(&done);
            assert!(says.iter().all(|said| shown.contains(said)), "{shown}");
        }
    }
}

#[test]
fn doctor_warns_until_somebody_is_told() {
    let (_dir, home) = made(&[]);
    let level = || {
        let done = command(&home, &["--format", "json", "doctor"])
            .output()
            .unwrap();
        let shown = String::from_utf8(done.stdout).unwrap();
        let mut found =
            shown
                .lines()
                .flat_map(|line| match serde_json::from_str::<Value>(line).unwrap() {
                    Value::Array(list) => list,
                    one => one["findings"].as_array().cloned().unwrap_or(vec![one]),
                });
        let found = found.find(|finding| finding["what"] == "notify").unwrap();
        let text = |key: &str| found[key].as_str().unwrap().to_owned();
        (text("level"), text("message"))
    };
    let (warned, message) = level();
    assert_eq!(warned, "warning");
    assert_eq!(message, "nobody is told of halt, loss_stop");
    for (on, is_enough) in [("halt", false), ("halt, loss_stop", true), ("all", true)] {
        let text = file(&[("phone", on, "cat")]);
        fs::write(home.join("rules/notify.yaml"), text).unwrap();
        assert_eq!(level().0 == "ok", is_enough, "{on}");
    }
}

#[test]
fn the_docs_name_each_kind() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| fs::read_to_string(project.join(path)).unwrap();
    let schema: Value = serde_json::from_str(&read("examples/schemas/rules.notify.json")).unwrap();
    let kinds = schema.pointer("/properties/to/items/properties/on/items/enum");
    let docs = read("docs/deploy.md");
    let table = docs.split("## Notices").nth(1).unwrap();
    for kind in kinds.unwrap().as_array().unwrap() {
        let kind = kind.as_str().unwrap();
        assert!(table.contains(&format!("`{kind}`")), "{kind}");
    }
}

#[test]
fn the_example_programs_are_well_formed() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    for name in ["notify/ntfy.sh", "notify/mail.sh", "notify/slack.sh"] {
        let path = examples.join(name);
        let done = std::process::Command::new("sh")
            .arg("-n")
            .arg(&path)
            .output();
        assert!(done.unwrap().status.success(), "{name}");
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_ne!(mode & 0o111, 0, "{name} cannot be run");
    }
}

/// Runs an example program with programs of this folder before those of the system.
fn run_example(name: &str, tools: &Path, input: &str) -> String {
    use std::io::Write;
    let path = format!("{}:/usr/bin:/bin", tools.display());
    let script = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("examples")
        .join(name);
    let mut child = std::process::Command::new("sh")
        .arg(script)
        .arg("there")
        .env("PATH", path)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let done = child.wait_with_output().unwrap();
    assert!(done.status.success(), "{name}: {done:?}");
    String::from_utf8(done.stdout).unwrap()
}

#[test]
fn the_example_programs_pass_a_notice_on() {
    use std::os::unix::fs::PermissionsExt;
    let tools = folder();
    for tool in ["curl", "sendmail"] {
        let path = tools.path().join(tool);
        fs::write(&path, "#!/bin/sh\nprintf '%s\\n' \"$@\"\ncat\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let notice = json!({"version": 1, "id": "n-4-0", "kind": "halt", "level": "alarm",
        "at": "2026-03-02T12:00:00.000Z", "line": 4, "title": "a \"quoted\" title",
        "text": "@/etc/back\\slash", "remedy": "spoolgate halt clear"});
    let line = format!("{notice}\n");
    let sent = run_example("notify/ntfy.sh", tools.path(), &line);
    // curl would read a file of this name as the text.
    assert!(!sent.lines().any(|argument| argument == "-d"), "{sent}");
    assert!(
        sent.contains("there") && sent.contains("Title: a \"quoted\" title"),
        "{sent}"
    );
    assert!(
        sent.contains("back\\slash") && sent.contains("spoolgate halt clear"),
        "{sent}"
    );
    let sent = run_example("notify/mail.sh", tools.path(), &line);
    assert!(
        sent.contains("Subject: [alarm] a \"quoted\" title"),
        "{sent}"
    );
    assert!(sent.contains("back\\slash"), "{sent}");
    let sent = run_example("notify/slack.sh", tools.path(), &line);
    let body = sent.lines().find(|line| line.starts_with('{')).unwrap();
    let body: Value = serde_json::from_str(body).unwrap();
    let text = body["text"].as_str().unwrap();
    assert!(
        text.contains("a \"quoted\" title") && text.contains("back\\slash"),
        "{text}"
    );
}
