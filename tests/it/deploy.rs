//! Setting up a gate: the sandbox holds and the gate still works in it; `doctor` finds each fault,
//! and nothing else; and what `init` writes can be installed.
//!
//! The test that really separates agent and gate makes users on this machine: `cargo test --test it
//! deploy:: -- --ignored`, as root.

mod doctor;
mod users;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::kit::gateway_home::{SERVICES, exec, gateway, with_core};
use crate::kit::process::{answered, find};
use crate::kit::{PROGRAM, Scratch, Sent, command, show, sign, spoolgate, succeed};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use serde_json::Value;
use spoolgate_home::doctor::{Finding, Level, examine};
use spoolgate_home::layout;
use spoolgate_home::read::real_seams;
use spoolgate_host::clock::ManualClock;
use spoolgate_host::doctor::User;
use spoolgate_host::sandbox::kernel_abi;
use spoolgate_wire::ids::Principal;
use spoolgate_wire::signing::SignKey;
use spoolgate_wire::time::Time;
use tempfile::TempDir;

/// A receiver of notices, as in a home without faults.
const TOLD: &str = "to: [{name: phone, on: [all], program: cat, time_limit_s: 5, \
    output_bytes_max: 4096}]\n";

const MAIL: &str = r#"{"to":["ann@example.com"],"subject":"hello","body":"a word"}"#;

/// Whether this kernel supports the test.
fn has_landlock() -> bool {
    let abi = kernel_abi();
    if abi < 3 {
        eprintln!("skipped: this kernel's Landlock is version {abi}, and 3 is wanted");
    }
    abi >= 3
}

/// A watcher and its output.
struct Gate {
    child: Child,
    said: Receiver<String>,
}

impl Gate {
    fn start(home: &Path, args: &[&str]) -> Gate {
        let mut command = command(home, &["watch"]);
        command.args(args);
        let mut gate = Gate::of(command);
        gate.until("watching");
        gate
    }

    fn of(mut command: Command) -> Gate {
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let (sender, said) = channel();
        std::thread::spawn(move || {
            lines
                .map_while(Result::ok)
                .try_for_each(|line| sender.send(line))
        });
        Gate { child, said }
    }

    /// Waits for the next line that contains this. Fails if the output ends or stops for long.
    #[track_caller]
    fn until(&mut self, part: &str) -> String {
        let mut before = Vec::new();
        while let Ok(line) = self.said.recv_timeout(Duration::from_secs(30)) {
            if line.contains(part) {
                return line;
            }
            before.push(line);
        }
        panic!(
            "it did not say `{part}` ({:?}) after {before:?}",
            self.child.try_wait()
        );
    }

    fn tell(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    #[track_caller]
    fn stop(mut self) {
        self.tell(Signal::TERM);
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A home whose adapter reports whether it could read a file outside and write beside it.
struct Canary {
    scratch: Scratch,
    core: SignKey,
    outside: TempDir,
}

impl Canary {
    fn new() -> Canary {
        let scratch = Scratch::new();
        crate::kit::uncaged(&scratch.home());
        // Not just beside the home, but at a place that no path of the home leads to.
        let outside = crate::kit::folder();
        fs::write(outside.path().join("canary"), "a secret").unwrap();
        let folder = outside.path().display();
        let script = format!(
            "cat > /dev/null; r=lost; w=lost\n\
             [ \"$(cat {folder}/canary 2> /dev/null)\" = 'a secret' ] && r=read\n\
             (echo x > {folder}/planted) 2> /dev/null && w=written\n\
             echo noted >> noted; mkdir -p made/below && rm -r made || exit 3\n\
             printf '{{\"success\":true,\"data\":{{\"read\":\"%s\",\"write\":\"%s\"}}}}' $r $w"
        );
        let core = with_core(&scratch, &gateway(&[exec(&["email.send"], &script, 30)]));
        Canary {
            scratch,
            core,
            outside,
        }
    }

    /// Returns what the adapter of a gate started with these arguments can do outside: read, write.
    fn tries(&self, id: &str, args: &[&str]) -> (String, String) {
        let home = self.scratch.home();
        let gate = Gate::start(&home, args);
        let data = self.ask(id);
        gate.stop();
        let _ = fs::remove_file(self.outside.path().join("planted"));
        data
    }

    fn ask(&self, id: &str) -> (String, String) {
        let home = self.scratch.home();
        Sent::new(
            &format!("{id}.json"),
            sign(&self.core, "core", id, "email.send", MAIL),
        )
        .drop_into(&home);
        let answer = answered(&home, &format!("{id}.json"));
        let of = |name: &str| {
            answer["data"][name]
                .as_str()
                .unwrap_or_else(|| panic!("{answer}"))
                .to_owned()
        };
        (of("read"), of("write"))
    }
}

#[test]
fn programs_of_a_sandboxed_gate_reach_what_they_were_left() {
    if !has_landlock() {
        return;
    }
    let canary = Canary::new();
    let outside = canary.outside.path().to_str().unwrap();
    for (id, args, read, write) in [
        ("off", vec!["--sandbox", "off"], "read", "written"),
        ("auto", vec![], "lost", "lost"),
        ("require", vec!["--sandbox", "require"], "lost", "lost"),
        (
            "reads",
            vec!["--sandbox", "require", "--allow-read", outside],
            "read",
            "lost",
        ),
        (
            "writes",
            vec!["--sandbox", "require", "--allow-write", outside],
            "read",
            "written",
        ),
    ] {
        assert_eq!(
            canary.tries(id, &args),
            (read.to_owned(), write.to_owned()),
            "{id}"
        );
    }
    let noted = fs::read_to_string(canary.scratch.home().join("noted")).unwrap();
    assert_eq!(noted.lines().count(), 5, "each wrote below the home");
}

/// An agent can make a device node without any privilege. It ended a gate in the sandbox, at every
/// start.
#[test]
fn a_device_node_in_the_spool_is_moved_away_by_a_sandboxed_gate() {
    if !has_landlock() {
        return;
    }
    let canary = Canary::new();
    let home = canary.scratch.home();
    let flat = home.join("spool/in");
    for (name, kind) in [("null.json", &["c", "0", "0"][..]), ("pipe.json", &["p"])] {
        let made = Command::new("mknod")
            .arg(flat.join(name))
            .args(kind)
            .status();
        if !made.is_ok_and(|made| made.success()) {
            eprintln!("skipped: mknod cannot make {name} here");
            return;
        }
    }
    let mut gate = Gate::start(&home, &["--sandbox", "require"]);
    gate.until("sandbox (Landlock");
    for name in ["null.json", "pipe.json"] {
        let answer = home.join(format!("spool/out/{name}.error.json"));
        let answer = find("the node is answered", || fs::read_to_string(&answer).ok());
        assert!(answer.contains("NOT_A_FILE"), "{answer}");
        assert!(fs::symlink_metadata(flat.join(name)).is_err());
    }
    gate.stop();
}

/// The watcher itself reads the rule files: one that leads outside shows what the watcher can still
/// read.
#[test]
fn a_sandboxed_gate_works_and_cannot_read_outside() {
    if !has_landlock() {
        return;
    }
    let canary = Canary::new();
    let home = canary.scratch.home();
    let socket = canary.outside.path().join("gate.sock");
    let args = ["--sandbox", "require", "--socket", socket.to_str().unwrap()];
    let mut gate = Gate::start(&home, &args);
    // The message names the place itself, not a link on the way to it.
    let place = home.canonicalize().unwrap();
    assert!(
        gate.until("sandbox (Landlock")
            .contains(place.to_str().unwrap())
    );
    let tasks = fs::read_dir(format!("/proc/{}/task", gate.child.id())).unwrap();
    let statuses =
        tasks.map(|task| fs::read_to_string(task.unwrap().path().join("status")).unwrap());
    let free: Vec<String> = statuses
        .filter(|status| !status.contains("NoNewPrivs:\t1"))
        .collect();
    assert!(free.is_empty(), "threads that gave up nothing: {free:?}");

    let elsewhere = canary.outside.path().join("services.yaml");
    fs::write(&elsewhere, format!("{SERVICES}# another\n")).unwrap();
    let rule = home.join("rules/services.yaml");
    fs::remove_file(&rule).unwrap();
    symlink(&elsewhere, &rule).unwrap();
    gate.tell(Signal::HUP);
    let remark = gate.until("is not accessible in the sandbox");
    let remedy = format!("--allow-read {}", canary.outside.path().display());
    assert!(
        remark.contains("rules/services.yaml") && remark.contains(&remedy),
        "{remark}"
    );
    let fault = gate.until("cannot be used");
    assert!(fault.contains("rules/services.yaml"), "{fault}");

    // A valid file again, which names another program outside.
    fs::remove_file(&rule).unwrap();
    fs::write(&rule, SERVICES).unwrap();
    let program = canary.outside.path().join("late");
    fs::write(&program, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let adapters = fs::read_to_string(home.join("rules/gateway.yaml")).unwrap();
    let mut late: Value = serde_json::from_str(&adapters).unwrap();
    let mut second = late["adapters"][0].clone();
    second["actions"] = serde_json::json!(["email.draft"]);
    second["command"]["program"] = program.to_str().unwrap().into();
    second["command"]["args"] = serde_json::json!([]);
    late["adapters"].as_array_mut().unwrap().push(second);
    fs::write(home.join("rules/gateway.yaml"), late.to_string()).unwrap();
    gate.tell(Signal::HUP);
    let remark = gate.until("late");
    assert!(
        remark.contains("rules/gateway.yaml") && remark.contains("not accessible"),
        "{remark}"
    );
    assert_eq!(canary.ask("still"), ("lost".to_owned(), "lost".to_owned()));
    gate.stop();
    assert!(
        !socket.exists(),
        "the socket outside is taken away at the end"
    );

    // After a restart it reaches what the rules name now, and everything else is unchanged.
    let mut gate = Gate::start(&home, &args);
    assert!(
        gate.until("sandbox (Landlock")
            .contains(canary.outside.path().to_str().unwrap())
    );
    let queries: Vec<Sent> = (0..300)
        .map(|n| canary.scratch.query(&format!("q{n}")))
        .collect();
    queries.iter().for_each(|query| query.drop_into(&home));
    (0..queries.len()).for_each(|n| drop(answered(&home, &format!("q{n}.json"))));
    gate.stop();
    succeed(&home, &["audit", "verify"]);
    let rebuilt: Value =
        serde_json::from_str(&succeed(&home, &["--format", "json", "rebuild"])).unwrap();
    assert_eq!(rebuilt["same_as_before"], Value::Bool(true));
    // As JSON.
    let mut gate = Gate::of(command(&home, &["--format", "json", "watch"]));
    let told: Value = serde_json::from_str(&gate.until("\"sandbox\"")).unwrap();
    assert_eq!(told["sandbox"]["on"], Value::Bool(true));
    gate.stop();
}

#[test]
fn folders_that_cannot_be_a_sandbox_are_refused() {
    let scratch = Scratch::new();
    for (args, says) in [
        (&["--allow-read", "/"][..], "whole file system"),
        (&["--allow-write", "/nowhere/at-all"], "/nowhere/at-all"),
        (
            &["--sandbox", "off", "--allow-read", "/opt"],
            "leave out --sandbox off",
        ),
    ] {
        let done = command(&scratch.home(), &["watch"])
            .args(args)
            .output()
            .unwrap();
        assert!(
            !done.status.success() && String::from_utf8_lossy(&done.stderr).contains(says),
            "{}",
            show(&done)
        );
    }
}

/// A user that no machine has.
const GATE: u32 = 61_234;

fn mode(path: PathBuf, bits: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(bits)).unwrap();
}

fn adapter(home: &Path, program: &str, bits: u32) {
    fs::write(home.join("act"), "#!/bin/sh\n").unwrap();
    mode(home.join("act"), bits);
    let mut rule = exec(&["email.send"], "", 5);
    rule["command"]["program"] = program.into();
    fs::write(home.join("rules/gateway.yaml"), gateway(&[rule])).unwrap();
    if geteuid().is_root() {
        chown(home.join("act"), Some(GATE), Some(GATE)).unwrap();
    }
}
