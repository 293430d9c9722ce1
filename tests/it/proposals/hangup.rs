//! SIGHUP: a watcher loads changed rule files at once, even while they keep changing.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use spoolgate_gate::{Change, Record};

use crate::kit::{Scratch, command, lines};

/// Returns the hashes of the rulebooks that came into force.
fn rulebooks(home: &Path) -> Vec<String> {
    let lines = lines(home).unwrap();
    let changes = lines
        .iter()
        .flat_map(|(_, _, record)| record.iter().flat_map(Record::changes));
    changes
        .filter_map(|change| match change {
            Change::RulebookLoaded { hash, .. } => Some(hash.clone()),
            _ => None,
        })
        .collect()
}

/// Replaces the rule atomically, with another message each time.
fn edit(home: &Path, n: u32) {
    let text = format!(
        "id: cap\nstatus: active\napplies_to: {{action: order.submit}}\nwhen: []\nthen: \
            reject\nmessage: \"{n}\"\n"
    );
    let hidden = home.join("rules/core/.cap");
    fs::write(&hidden, text).unwrap();
    fs::rename(hidden, home.join("rules/core/cap.yaml")).unwrap();
}

#[test]
fn sighup_takes_what_is_still_being_edited() {
    let scratch = Scratch::new();
    let home = scratch.home();
    fs::create_dir_all(home.join("rules/core")).unwrap();
    let mut watcher = command(&home, &["watch"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The watcher is ready once it answers.
    scratch.query("ready").drop_into(&home);
    let begun = Instant::now();
    while !home.join("spool/out/ready.json").exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "no answer");
        std::thread::sleep(Duration::from_millis(20));
    }
    let before = rulebooks(&home);
    let mut n = 0;
    let mut go_on = |until: &dyn Fn() -> bool, at_most: Duration| {
        let begun = Instant::now();
        while !until() && begun.elapsed() < at_most {
            n += 1;
            edit(&home, n);
            std::thread::sleep(Duration::from_millis(50));
        }
        until()
    };
    let is_taken = || rulebooks(&home) != before;
    let unasked = go_on(&is_taken, Duration::from_secs(4));
    kill_process(Pid::from_child(&watcher), Signal::HUP).unwrap();
    let asked = go_on(&is_taken, Duration::from_secs(30));
    kill_process(Pid::from_child(&watcher), Signal::TERM).unwrap();
    assert!(watcher.wait().unwrap().success());
    assert!(!unasked, "what was being edited was taken unasked");
    assert!(asked, "SIGHUP was passed over");
}
