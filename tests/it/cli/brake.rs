//! `halt set` closes entries even if nothing else works: it falls back to the file `rules/HALT`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::kit::prepared::copy;
use crate::kit::process::{Running, find};
use crate::kit::users::{Group, Mount, missing, said_by_watchers, settle, watch};
use crate::kit::{PROGRAM, Scratch, command, show, spoolgate, succeed};
use rustix::process::Signal;

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

/// An agent that takes the last inode keeps nobody from halting.
#[test]
fn a_disk_without_inodes_takes_a_second_name() {
    if let Some(what) = missing() {
        eprintln!("skipped: {what}");
        return;
    }
    let scratch = Scratch::new();
    succeed(&scratch.home(), &["run", "--until-idle"]);
    let Some(disk) = Mount::of(scratch.beside("disk"), 96 << 20, true) else {
        return;
    };
    let home = disk.0.join("home");
    copy(&scratch.home(), &home);
    let taken =
        (0..1_000_000).find(|n| fs::write(home.join(format!("spool/in/.{n}")), "").is_err());
    assert!(taken.is_some(), "there are fewer inodes");
    assert!(fs::write(home.join("rules/HALT"), "").is_err());
    let done = spoolgate(&home, &["halt", "set", "--reason", "no inodes"]);
    assert_eq!(done.status.code(), Some(0), "{}", show(&done));
    // A request that needs no file may have come through; otherwise the second name is there.
    let has_file = home.join("rules/HALT").exists();
    // Later it counts like any other, and the lock still is one.
    for n in 0..taken.unwrap() {
        fs::remove_file(home.join(format!("spool/in/.{n}"))).unwrap();
    }
    succeed(&home, &["run", "--until-idle"]);
    let told: Value =
        serde_json::from_str(&succeed(&home, &["--format", "json", "status"])).unwrap();
    let is_halted = told["halts"]["file"] == true || told["halts"]["all"].is_object();
    assert!(is_halted, "{has_file}: {told}");
}

/// What is at `rules/HALT` already halts, whatever it is.
#[test]
fn where_the_file_is_something_else() {
    for make in [
        "mkdir rules/HALT",
        "mkfifo rules/HALT",
        "ln -s nowhere rules/HALT",
    ] {
        let scratch = Scratch::new();
        let home = scratch.home();
        let mut sh = Command::new("sh");
        let made = sh.args(["-c", make]).current_dir(&home).status().unwrap();
        assert!(made.success());
        fs::remove_dir_all(home.join("spool/local/in")).unwrap();
        fs::write(home.join("spool/local/in"), "").unwrap();
        let done = spoolgate(&home, &SET);
        assert_eq!(done.status.code(), Some(0), "{make}: {}", show(&done));
    }
}

/// In memory a second name takes an inode too, so one of the files kept for answers takes the name.
#[test]
fn a_disk_in_memory_without_inodes_takes_a_file_that_is_not_needed() {
    if let Some(what) = missing() {
        eprintln!("skipped: {what}");
        return;
    }
    let scratch = Scratch::new();
    let Some(disk) = Mount::of(scratch.beside("disk"), 400 << 20, false) else {
        return;
    };
    let mut mount = Command::new("mount");
    mount.args(["-o", "remount,nr_inodes=1000"]).arg(&disk.0);
    assert!(mount.status().unwrap().success());
    let home = disk.0.join("home");
    copy(&scratch.home(), &home);
    Running::watching(&home).stop();
    assert!(home.join("spool/out/.reserve/000").exists());
    let taken = (0..2000).find(|n| fs::write(home.join(format!("spool/in/.{n}")), "").is_err());
    assert!(taken.is_some(), "there are fewer inodes");
    assert!(fs::hard_link(home.join("state/lock"), home.join("rules/HALT")).is_err());
    let done = spoolgate(&home, &SET);
    assert_eq!(done.status.code(), Some(0), "{}", show(&done));
    assert!(home.join("rules/HALT").exists(), "{}", show(&done));
    assert!(succeed(&home, &["status"]).contains("rules/HALT exists"));
}

/// An agent that takes every byte does not keep a person from demanding that positions are closed.
#[test]
fn a_full_disk_has_room_for_the_line_that_closes_positions() {
    if let Some(what) = missing() {
        eprintln!("skipped: {what}");
        return;
    }
    for is_ext4 in [false, true] {
        let scratch = Scratch::new();
        let Some(disk) = Mount::of(scratch.beside("disk"), 400 << 20, is_ext4) else {
            return;
        };
        let home = disk.0.join("home");
        copy(&scratch.home(), &home);
        Running::watching(&home).stop();
        assert!(home.join("spool/out/.reserve/000").exists());
        let mut all = fs::File::create(home.join("spool/in/.all")).unwrap();
        let mut block = vec![7_u8; 1 << 20];
        while !block.is_empty() {
            if std::io::Write::write_all(&mut all, &block).is_err() {
                block.truncate(block.len() / 2);
            }
        }
        let halt = home.join("rules/HALT");
        let kill = ["kill", "--flatten", "--wait", "0", "--reason", "stop it"];
        for _ in 0..2 {
            let done = spoolgate(&home, &kill);
            let said = show(&done);
            assert!(said.contains("`rules/HALT`"), "{said}");
            assert_eq!(fs::read(&halt).unwrap(), b"flatten\n", "{said}");
        }
        drop(all);
        // Where there is room, what a person wrote stays below the line.
        fs::remove_file(home.join("spool/in/.all")).unwrap();
        fs::write(&halt, "venue down, call Bob\n").unwrap();
        fs::remove_dir_all(home.join("spool/local/in")).unwrap();
        fs::write(home.join("spool/local/in"), "").unwrap();
        let done = spoolgate(&home, &kill);
        let text = fs::read_to_string(&halt).unwrap();
        assert_eq!(text, "flatten\nvenue down, call Bob\n", "{}", show(&done));
    }
}

/// Nobody ever writes to these, so whoever opens one waits for ever.
#[test]
fn where_a_file_of_the_state_is_a_pipe() {
    for file in ["state/state.db", "state/lock", "state/keyring.db"] {
        let scratch = Scratch::new();
        let home = scratch.home();
        fs::remove_file(home.join(file)).unwrap();
        let mut pipe = Command::new("mkfifo");
        assert!(pipe.arg(home.join(file)).status().unwrap().success());
        let mut halt = Command::new("timeout");
        halt.args(["-s", "KILL", "60", PROGRAM, "--home"])
            .arg(&home);
        let done = halt.args(SET).output().unwrap();
        assert_eq!(done.status.code(), Some(0), "{file}: {}", show(&done));
        is_halted(&home);
    }
}

/// A refusal does not halt either, so the file does; but a slip is told.
#[test]
fn a_request_that_is_refused() {
    let scratch = Scratch::new();
    let home = scratch.home();
    let done = spoolgate(&home, &[&SET[..], &["--principal", "nobody"]].concat());
    assert_eq!(done.status.code(), Some(1), "{}", show(&done));
    assert!(!home.join("rules/HALT").exists());
    let path = home.join("rules/principals.yaml");
    let rules = fs::read_to_string(&path).unwrap();
    fs::write(&path, rules.replace("owner", "boss")).unwrap();
    succeed(&home, &["run", "--until-idle"]);
    let done = spoolgate(&home, &SET);
    assert_eq!(done.status.code(), Some(0), "{}", show(&done));
    is_halted(&home);
}

/// A gate that is stopped keeps nobody waiting for long.
#[test]
fn beside_a_gate_that_does_not_answer() {
    let scratch = Scratch::new();
    let home = scratch.home();
    let mut watcher = command(&home, &["watch"]);
    let said = fs::File::create(home.join("said")).unwrap();
    watcher.stdout(Stdio::null()).stderr(said);
    let gate = Running::start(watcher);
    find("the gate watches", || {
        let said = fs::read_to_string(home.join("said")).unwrap();
        said.contains("watching").then_some(())
    });
    gate.signal(Signal::STOP);
    let begun = Instant::now();
    let done = spoolgate(&home, &SET);
    assert_eq!(done.status.code(), Some(0), "{}", show(&done));
    assert!(
        begun.elapsed() < Duration::from_secs(40),
        "{:?}",
        begun.elapsed()
    );
    is_halted(&home);
    gate.signal(Signal::CONT);
}

/// Root halts a gate of another user, and leaves nothing behind that the gate cannot read.
#[test]
fn by_root_beside_the_gate_of_another_user() {
    if let Some(what) = missing() {
        eprintln!("skipped: {what}");
        return;
    }
    let scratch = Scratch::new();
    succeed(&scratch.home(), &["run", "--until-idle"]);
    let place = crate::kit::folder();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let home = place.path().join("disk/home");
    fs::create_dir(home.parent().unwrap()).unwrap();
    settle(&scratch.home(), &home);
    let root = |mask: &str, args: &[&str]| {
        let script = format!("umask {mask}; exec \"$0\" --home \"$@\"");
        let mut command = Command::new("sh");
        command.args(["-c", &script, PROGRAM]).arg(&home).args(args);
        command.output().unwrap()
    };
    let owned_by_root = || {
        let mut find = Command::new("find");
        let found = find.arg(&home).args(["-uid", "0"]).output().unwrap();
        String::from_utf8(found.stdout).unwrap()
    };
    // Without a gate: no command of root writes to the home, and the file halts.
    for mask in ["022", "027", "077"] {
        let done = root(mask, &["account", "deposit", "5", "--reason", "more"]);
        assert_eq!(done.status.code(), Some(6), "{}", show(&done));
        assert!(show(&done).contains("belongs to user"), "{}", show(&done));
        assert_eq!(owned_by_root(), "");
        let done = root(mask, &SET);
        assert_eq!(done.status.code(), Some(0), "{}", show(&done));
        assert_eq!(
            owned_by_root().trim(),
            home.join("rules/HALT").to_str().unwrap()
        );
        fs::remove_file(home.join("rules/HALT")).unwrap();
    }
    // With one: the request is handed over.
    let gate = Group::start(watch(&home));
    find("the gate watches", || {
        let said = fs::read_to_string(said_by_watchers(&home)).unwrap_or_default();
        said.contains("watching").then_some(())
    });
    for mask in ["022", "027", "077"] {
        let done = root(mask, &SET);
        assert_eq!(done.status.code(), Some(0), "{}", show(&done));
        assert!(show(&done).contains("ledger line"), "{}", show(&done));
        assert_eq!(owned_by_root(), "");
    }
    drop(gate);
}
