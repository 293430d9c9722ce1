//! `halt set` closes entries even if nothing else works: it falls back to the file `rules/HALT`.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::kit::{PROGRAM, Scratch, show, spoolgate, succeed};

const SET: [&str; 4] = ["halt", "set", "--reason", "drill"];

#[track_caller]
fn is_halted(home: &Path) {
    let portfolio = spoolgate(home, &["portfolio"]);
    let halt = home.join("rules/HALT");
    assert!(halt.is_file(), "{}", show(&portfolio));
    assert_eq!(halt.metadata().unwrap().len(), 0);
}

#[test]
fn without_a_place_for_the_request() {
    let scratch = Scratch::new();
    let home = scratch.home();
    fs::remove_dir_all(home.join("spool/local/in")).unwrap();
    fs::write(home.join("spool/local/in"), "").unwrap();
    let done = spoolgate(&home, &SET);
    assert!(done.status.success(), "{}", show(&done));
    let said = show(&done);
    assert!(said.contains("`rules/HALT` was created instead"), "{said}");
    is_halted(&home);
    // Again: the file is there already.
    assert!(spoolgate(&home, &SET).status.success());
}

#[test]
fn without_a_key_or_a_keyring() {
    let scratch = Scratch::new();
    let home = scratch.home();
    let done = spoolgate(&home, &[&SET[..], &["--as", "somebody"]].concat());
    assert!(done.status.success(), "{}", show(&done));
    is_halted(&home);
    fs::remove_file(home.join("rules/HALT")).unwrap();
    fs::write(home.join("state/keyring.db"), "not a database").unwrap();
    assert!(spoolgate(&home, &SET).status.success());
    is_halted(&home);
}

#[test]
fn on_a_full_disk() {
    if Command::new("strace").arg("-V").output().is_err() {
        eprintln!("skipped: there is no strace on this machine");
        return;
    }
    let scratch = Scratch::new();
    let home = scratch.home();
    // The first write of all is that of the request.
    let calls = "inject=write:error=ENOSPC:when=1";
    let mut command = Command::new("strace");
    command.args([
        "-f",
        "-qq",
        "-o",
        "/dev/null",
        "-e",
        "trace=write",
        "-e",
        calls,
    ]);
    let done = command
        .args([PROGRAM, "--home", home.to_str().unwrap()])
        .args(SET)
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", show(&done));
    let said = show(&done);
    assert!(said.contains("No space left on device"), "{said}");
    is_halted(&home);
    // Once there is room, the gate records it, and removing the file opens entries again.
    succeed(&home, &["run", "--until-idle"]);
    let halted = succeed(
        &home,
        &["--format", "json", "audit", "query", "--kind", "halt"],
    );
    assert!(halted.contains("HaltFile"), "{halted}");
}

#[test]
fn a_folder_that_is_no_home_is_left_alone() {
    let scratch = Scratch::new();
    let folder = scratch.beside("folder");
    fs::create_dir_all(folder.join("rules")).unwrap();
    let done = spoolgate(&folder, &SET);
    assert!(!done.status.success(), "{}", show(&done));
    assert!(!folder.join("rules/HALT").exists());
}
