//! Every example of every `--help` runs in a copy of one prepared home, and has the expected exit
//! code.
//!
//! Names in examples are replaced by names in the copy: numbers such as `h-42` and `42`, keys and
//! paths of other machines. `SPOOLGATE_EXAMPLE=text` runs the examples that contain `text` and
//! prints their output.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const PROGRAM: &str = env!("CARGO_BIN_EXE_spoolgate");

/// The examples that do not end with 0: a part of the line, the exit code, and why. The first match
/// counts.
const ENDS: &[(&str, i32, &str)] = &[
    ("spoolgate close", 1, "no position is open"),
    (
        "doctor --why",
        1,
        "no thesis is about a strategy on standby",
    ),
    ("order cancel o-12-target", 1, "the entry has no target"),
    (
        "spoolgate position adjust",
        1,
        "on paper the book is the venue",
    ),
    ("order assume o-12", 1, "on paper no venue works it"),
    ("limits end max", 1, "nobody has overridden a limit"),
    ("kill --bridge exchange", 1, "no rule names a bridge"),
    ("halt clear --symbol", 1, "no gap has halted the symbol"),
    ("admit tree", 1, "every example has a home of its own"),
    ("council wait", 8, "the case stays open"),
    ("audit accept-rollback", 2, "nothing was rolled back"),
    ("council dissent", 3, "the case is not decided yet"),
    ("council decide", 3, "a role is silent"),
    (
        "rules lint my-checkout --strict",
        1,
        "no rule names the sets",
    ),
    (
        "rules test my-checkout --coverage 100",
        1,
        "no case has one of the rules act",
    ),
    ("rules test --mutate", 1, "no case is at the limit"),
    ("selftest --strict", 1, "some limits can never bind"),
    ("status --only gate", 0, "the rest of the line follows"),
    ("services activate bank", 1, "it is active"),
    ("services add bank", 1, "it is there"),
    ("services add mail", 1, "another service has the action"),
    (
        "grants end --set payees",
        1,
        "no approval has remembered it",
    ),
    (
        "handle --dry-run --rules my-checkout witness.json",
        1,
        "the rules refuse the witness",
    ),
    (
        "rules review main-checkout . --witness",
        0,
        "the dry run ends last",
    ),
    ("rules review", 3, "the change has no approval"),
    ("rules approval-reset", 2, "the rules are in force"),
    ("--nearest", 3, "a limit order of this size is held"),
    (
        "rules ask --action order.submit",
        1,
        "a rule refuses orders at the market",
    ),
];

/// The examples that are not run: a part of the line, and why.
const NOT_RUN: &[(&str, &str)] = &[
    ("spoolgate demo", "`.ci/run` runs it"),
    (
        "*/5 * * * *",
        "a line of a crontab; the command in it is run",
    ),
    ("pass show bank", "needs a password store"),
    (
        "rules review origin/main",
        "is in a repository: tests/it/rules/reviewed.rs",
    ),
    ("any-model", "stands for a program of the reader"),
    ("my-bridge", "stands for a program of the reader"),
    ("my_bridge.py", "stands for a program of the reader"),
    (
        "--socket gate.sock",
        "root is no client; tests/it/gateway_socket.rs does it",
    ),
    ("watch | jq", "ends when it is stopped: tests/it/cli.rs"),
    (
        "/etc/spoolgate/keyring.key",
        "is outside the copies: tests/it/keyring.rs",
    ),
    (
        "ssh-keygen -Y",
        "signs what the next line verifies: tests/it/proposals.rs",
    ),
    (
        "zstd -dc",
        "needs an archived segment: tests/it/ledger/archive.rs",
    ),
    (
        "proposals verify",
        "needs a signature: tests/it/proposals.rs",
    ),
    (
        "submit r1.json --agent",
        "needs a spool of its own: tests/it/attacks.rs",
    ),
];

/// Makes the home; all examples run in copies of it.
const STAGE: &str = include_str!("../help/stage.sh");

fn run(dir: &Path, script: &str) -> Output {
    let path = format!(
        "{}:{}",
        dir.parent().unwrap().join("bin").display(),
        std::env::var("PATH").unwrap()
    );
    Command::new("timeout")
        .args(["--kill-after=5", "60", "bash", "-c", script])
        .current_dir(dir)
        .env("PATH", path)
        .env("HOME", dir.parent().unwrap())
        .env("SPOOLGATE_REPO", ROOT)
        .env_remove("RUST_BACKTRACE")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn told(done: &Output) -> String {
    format!(
        "{}\n{}{}",
        done.status,
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr)
    )
}

fn help(words: &[String]) -> String {
    let done = Command::new(PROGRAM)
        .args(words)
        .arg("--help")
        .output()
        .unwrap();
    assert!(done.status.success(), "{words:?}");
    String::from_utf8(done.stdout).unwrap()
}

/// Collects every command, including groups and the program itself.
fn commands(words: &[String], found: &mut Vec<Vec<String>>) {
    found.push(words.to_vec());
    let help = help(words);
    let listed = help.split("Commands:\n").nth(1).unwrap_or_default();
    let names = listed
        .lines()
        .take_while(|line| line.starts_with("  "))
        .filter(|line| !line.starts_with("   "));
    for name in names
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
    {
        let mut below = words.to_vec();
        below.push(name.to_owned());
        commands(&below, found);
    }
}

/// Returns the examples in a help text: wrapped lines are joined, and remarks beside them are left
/// out.
fn examples(help: &str) -> Vec<String> {
    let begins = |line: &str| {
        [
            "spoolgate",
            "echo",
            "cat",
            "*/5",
            "pass",
            "cp",
            "zstd",
            "ssh-keygen",
        ]
        .iter()
        .any(|word| line.split_whitespace().next() == Some(word))
    };
    let mut found: Vec<String> = Vec::new();
    let section = help.split("Examples:\n").nth(1).unwrap_or_default();
    for line in section.lines().take_while(|line| line.starts_with("  ")) {
        let line = line.trim();
        match found.last_mut() {
            Some(last) if !begins(line) => {
                last.push(' ');
                last.push_str(line);
            }
            _ => found.push(line.split("   ").next().unwrap().to_owned()),
        }
    }
    found
}

/// Replaces the names in a help text by names in the copy.
fn in_copy(line: &str, names: &[(String, String)]) -> String {
    names.iter().fold(line.to_owned(), |line, (shown, here)| {
        // With digits and letters around it, a number is part of another word.
        let mut out = String::new();
        let mut rest = line.as_str();
        while let Some(at) = rest.find(shown.as_str()) {
            let (before, after) = (&rest[..at], &rest[at + shown.len()..]);
            let glued = |c: Option<char>| {
                shown == "42" && c.is_some_and(|c| c.is_alphanumeric() || c == '-')
            };
            let apart = !glued(before.chars().last()) && !glued(after.chars().next());
            out.push_str(before);
            out.push_str(if apart { here } else { shown });
            rest = after;
        }
        out + rest
    })
}

fn copy(from: &Path, to: &Path) {
    let done = Command::new("cp")
        .arg("-a")
        .args([from, to])
        .status()
        .unwrap();
    assert!(done.success());
}

fn is_there(tool: &str) -> bool {
    let found = Command::new("sh")
        .args(["-c", &format!("command -v {tool}")])
        .stdout(Stdio::null())
        .status();
    found.is_ok_and(|status| status.success())
}

/// Runs one example in a copy of its own. Returns what is wrong with its end, if anything.
fn fault(stage: &Path, line: &str, n: usize) -> Option<String> {
    if let Some((_, why)) = NOT_RUN.iter().find(|(part, _)| line.contains(part)) {
        assert!(!why.is_empty());
        return None;
    }
    if let Some(tool) = ["jq", "zstd", "patch"]
        .iter()
        .find(|tool| line.contains(*tool) && !is_there(tool))
    {
        eprintln!("skipped: there is no {tool} for `{line}`");
        return None;
    }
    let dir: PathBuf = stage.join(format!("copy-{n}"));
    copy(&stage.join("home"), &dir);
    let names = fs::read_to_string(stage.join("names")).unwrap();
    let names: Vec<(String, String)> = names
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .map(|(shown, here)| {
            (
                shown.to_owned(),
                here.replace("@HOME", dir.to_str().unwrap()),
            )
        })
        .collect();
    let mut script = in_copy(line, &names);
    // An example that runs until it is stopped is stopped.
    if script.contains("watch") || script.contains("tail -f") {
        script = format!("timeout -s TERM 1 {script}");
    }
    if line.contains(" submit ") && (line.contains("--wait") || line.contains("--proof")) {
        script = format!("spoolgate watch & sleep 1; {script}; rc=$?; kill %1; exit $rc");
    }
    let done = run(&dir, &format!("set -o pipefail; {script}"));
    if std::env::var_os("SPOOLGATE_EXAMPLE").is_some() {
        println!("$ {script}\n{}", told(&done));
    }
    let expect = ENDS
        .iter()
        .find(|(part, _, _)| line.contains(part))
        .map_or(0, |(_, code, _)| *code);
    let code = done.status.code().unwrap_or(-1);
    // A stopped watcher ends with 0; `timeout` reports that it stopped it.
    let is_stopped = script.starts_with("timeout") && code == 124;
    let text = told(&done);
    let unclear = ["panicked", "Os {", "Some(", "Err("]
        .iter()
        .find(|word| text.contains(*word));
    fs::remove_dir_all(&dir).unwrap();
    let wrong = (code != expect && !is_stopped) || unclear.is_some();
    wrong.then(|| format!("`{line}` should end with {expect}:\n$ {script}\n{text}"))
}

#[test]
fn every_example_of_every_help_ends_as_it_should() {
    let scratch = crate::kit::folder();
    let stage = scratch.path();
    fs::create_dir(stage.join("bin")).unwrap();
    symlink(PROGRAM, stage.join("bin/spoolgate")).unwrap();
    fs::create_dir(stage.join("home")).unwrap();
    let made = run(&stage.join("home"), STAGE);
    assert!(
        made.status.success(),
        "the home cannot be made: {}",
        told(&made)
    );

    let mut all = Vec::new();
    commands(&[], &mut all);
    assert!(all.len() > 100, "{}", all.len());
    let only = std::env::var("SPOOLGATE_EXAMPLE").ok();
    let mut lines = BTreeSet::new();
    for words in &all {
        let found = examples(&help(words));
        let name = words.join(" ");
        assert!(!found.is_empty(), "`{name} --help` has no example");
        let of_it = |line: &&String| words.is_empty() || line.contains(&name);
        assert!(
            found.iter().any(|line| of_it(&line)),
            "no example of `{name} --help` is of it"
        );
        lines.extend(
            found
                .into_iter()
                .filter(|line| only.as_ref().is_none_or(|only| line.contains(only))),
        );
    }
    let lines: Vec<String> = lines.into_iter().collect();
    for (part, _) in NOT_RUN.iter().filter(|_| only.is_none()) {
        assert!(
            lines.iter().any(|line| line.contains(part)),
            "no example holds `{part}`: take it out"
        );
    }
    let next = AtomicUsize::new(0);
    let faults = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    let Some(line) = lines.get(n) else { break };
                    faults.lock().unwrap().extend(fault(stage, line, n));
                }
            });
        }
    });
    let faults = faults.into_inner().unwrap();
    assert!(
        faults.is_empty(),
        "{} of {} examples:\n\n{}",
        faults.len(),
        lines.len(),
        faults.join("\n\n")
    );
}
