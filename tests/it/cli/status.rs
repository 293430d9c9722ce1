//! `spoolgate status`.

use std::fs;
use std::os::unix::fs::chown;

use rustix::process::geteuid;
use serde_json::Value;

use crate::kit::process::{Running, find};
use crate::kit::{Scratch, show, spoolgate, succeed};

/// Returns the status as a program reads it.
fn status(scratch: &Scratch) -> Value {
    serde_json::from_str(&succeed(&scratch.home(), &["--format", "json", "status"])).unwrap()
}

#[test]
fn it_says_whether_a_gate_is_running() {
    let scratch = Scratch::new();
    let home = scratch.home();
    let only = || spoolgate(&home, &["status", "--only", "gate"]);
    assert_eq!(only().status.code(), Some(1), "{}", show(&only()));
    let told = status(&scratch);
    assert_eq!(told["gate"]["running"], false);
    assert_eq!(told["spool_left"], Value::Null);
    assert!(
        told["storage"]["free_bytes"].as_u64().unwrap() > 0,
        "{told}"
    );
    assert!(succeed(&home, &["status"]).contains("not running"));

    let gate = Running::watching(&home);
    let told = find("the watcher says who it is", || {
        Some(status(&scratch)).filter(|told| told["gate"]["watcher"] == true)
    });
    assert_eq!(told["gate"]["pid"], gate.0.id());
    assert!(told["gate"]["since"].is_string(), "{told}");
    assert_eq!(told["spool_left"], serde_json::json!({}));
    assert_eq!(only().status.code(), Some(0), "{}", show(&only()));
    let words = succeed(&home, &["status"]);
    assert!(words.contains("a watcher is running since"), "{words}");
    assert!(words.contains("nothing"), "{words}");
    gate.stop();
    // What the watcher wrote is not taken for a running one.
    assert_eq!(only().status.code(), Some(1));
    assert_eq!(status(&scratch)["spool_left"], Value::Null);
}

#[test]
fn it_says_what_keeps_entries_closed() {
    let scratch = Scratch::new();
    assert_eq!(status(&scratch)["closed"], serde_json::json!([]));
    succeed(&scratch.home(), &["halt", "set", "--reason", "a drill"]);
    let told = status(&scratch);
    assert_eq!(told["halts"]["all"]["reason"], "a drill");
    assert!(
        told["closed"][0].as_str().unwrap().contains("a drill"),
        "{told}"
    );
    assert!(succeed(&scratch.home(), &["status"]).contains("a drill"));
}

/// The file halts the next gate too, so it counts before a gate has recorded it.
#[test]
fn it_looks_for_the_halt_file_itself() {
    let scratch = Scratch::new();
    let home = scratch.home();
    let file = home.join("rules/HALT");
    fs::write(&file, "").unwrap();
    let told = status(&scratch);
    assert_eq!(told["halts"]["file"], true, "{told}");
    assert!(told["closed"][0].as_str().unwrap().contains("rules/HALT"));
    for command in ["status", "portfolio"] {
        assert!(succeed(&home, &[command]).contains("rules/HALT exists"));
    }
    fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink("nowhere", &file).unwrap();
    assert_eq!(status(&scratch)["halts"]["file"], true);
    // A gate recorded it; without the file the next one opens entries.
    succeed(&home, &["run", "--until-idle"]);
    fs::remove_file(&file).unwrap();
    assert_eq!(status(&scratch)["closed"], serde_json::json!([]));
}

#[test]
fn what_the_gate_cannot_use_is_counted_by_spool() {
    if !geteuid().is_root() {
        eprintln!("skipped: only root gives folders away");
        return;
    }
    let scratch = Scratch::new();
    let home = scratch.home();
    let path = home.join("rules/principals.yaml");
    let rules = fs::read_to_string(&path).unwrap();
    let rules = rules.replace("name: trend-bot", "name: trend-bot\n    spool: trend-bot");
    fs::write(&path, rules).unwrap();
    let folder = home.join("spool/in/trend-bot");
    fs::create_dir(&folder).unwrap();
    chown(&folder, Some(61_999), None).unwrap();
    let _gate = Running::watching(&home);
    let left = |count: usize| {
        find("it is counted", || {
            let told = status(&scratch);
            let left = told["spool_left"]["agent-trend-bot"].as_u64().unwrap_or(0);
            (told["gate"]["watcher"] == true && left == count as u64).then_some(())
        });
    };
    left(1);
    let words = succeed(&home, &["status"]);
    assert!(words.contains("spool left (agent-trend-bot)"), "{words}");
    fs::remove_dir(&folder).unwrap();
    left(0);
}

#[test]
fn without_a_home_it_ends_as_other_commands_do() {
    let dir = crate::kit::folder();
    for args in [&["status"][..], &["status", "--only", "gate"]] {
        for home in [dir.path().to_owned(), dir.path().join("missing")] {
            let done = spoolgate(&home, args);
            assert_eq!(done.status.code(), Some(2), "{}", show(&done));
            assert!(String::from_utf8_lossy(&done.stderr).contains("is not a home"));
        }
    }
    let done = spoolgate(dir.path(), &["status", "--only", "weather"]);
    assert_eq!(done.status.code(), Some(2), "{}", show(&done));
}
