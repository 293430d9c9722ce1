//! Setting a gate up: the sandbox holds and what the gate does goes on in it; `doctor` finds each
//! broken thing, and only that; what `init` writes can be installed.
//!
//! Separating agent and gate for real makes users on this machine: `cargo test --test it deploy::
//! -- --ignored`, as root.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::kit::gateway_home::{SERVICES, exec, gateway};
use crate::kit::keys::add_key;
use crate::kit::process::answered;
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

const MAIL: &str = r#"{"to":["ann@example.com"],"subject":"hello","body":"a word"}"#;

/// Whether this kernel can be tested on.
fn has_landlock() -> bool {
    let abi = kernel_abi();
    if abi < 3 {
        eprintln!("skipped: this kernel's Landlock is version {abi}, and 3 is wanted");
    }
    abi >= 3
}

/// A watcher, and what it says.
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

    /// The next line that holds this. That it ends, or says nothing for long, is a failure.
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

/// A home whose adapter says whether it could read a file outside, and write beside it.
struct Canary {
    scratch: Scratch,
    core: SignKey,
    outside: TempDir,
}

impl Canary {
    fn new() -> Canary {
        let scratch = Scratch::new();
        let home = scratch.home();
        // Not beside the home only: somewhere that nothing of the home leads to.
        let outside = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        fs::write(outside.path().join("canary"), "a secret").unwrap();
        let folder = outside.path().display();
        let script = format!(
            "cat > /dev/null; r=lost; w=lost\n\
             [ \"$(cat {folder}/canary 2> /dev/null)\" = 'a secret' ] && r=read\n\
             (echo x > {folder}/planted) 2> /dev/null && w=written\n\
             echo noted >> noted; mkdir -p made/below && rm -r made || exit 3\n\
             printf '{{\"success\":true,\"data\":{{\"read\":\"%s\",\"write\":\"%s\"}}}}' $r $w"
        );
        fs::write(home.join("rules/services.yaml"), SERVICES).unwrap();
        fs::write(
            home.join("rules/gateway.yaml"),
            gateway(&[exec(&["email.send"], &script, 30)]),
        )
        .unwrap();
        let path = home.join("rules/principals.yaml");
        let principals = fs::read_to_string(&path).unwrap();
        let core = "  - name: core\n    role: agent\n    actions: [email.send]\n";
        fs::write(&path, format!("{principals}{core}")).unwrap();
        succeed(&home, &["run", "--until-idle"]);
        let file = scratch.beside("core.key");
        let core = add_key(&home, "core", &file);
        Canary {
            scratch,
            core,
            outside,
        }
    }

    /// What the adapter of a gate started with these arguments can do outside: read, write.
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

/// The rule files are read by the watcher itself: one that leads outside shows what that can still
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
    // The place itself is told, not a link on the way to it.
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
    let remark = gate.until("out of reach of the sandbox");
    let remedy = format!("--allow-read {}", canary.outside.path().display());
    assert!(
        remark.contains("rules/services.yaml") && remark.contains(&remedy),
        "{remark}"
    );
    let fault = gate.until("cannot be used");
    assert!(fault.contains("rules/services.yaml"), "{fault}");

    // A good file again, which names another program outside.
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
        remark.contains("rules/gateway.yaml") && remark.contains("out of reach"),
        "{remark}"
    );
    assert_eq!(canary.ask("still"), ("lost".to_owned(), "lost".to_owned()));
    gate.stop();
    assert!(
        !socket.exists(),
        "the socket outside is taken away at the end"
    );

    // Started again it reaches what the rules name now; and everything is as it was left.
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
    // As JSON, for programs.
    let mut gate = Gate::of(command(&home, &["--format", "json", "watch"]));
    let told: Value = serde_json::from_str(&gate.until("\"sandbox\"")).unwrap();
    assert_eq!(told["sandbox"]["on"], Value::Bool(true));
    gate.stop();
}

#[test]
fn folders_that_are_no_sandbox_are_refused() {
    let scratch = Scratch::new();
    for (args, says) in [
        (&["--allow-read", "/"][..], "whole file system"),
        (&["--allow-write", "/nowhere/at-all"], "/nowhere/at-all"),
        (
            &["--sandbox", "off", "--allow-read", "/opt"],
            "--sandbox off is none",
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

/// A home as it should be. As root it belongs to somebody else, as it should.
struct Sound {
    dir: TempDir,
}

impl Sound {
    fn new() -> Sound {
        let dir = TempDir::new().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let sound = Sound { dir };
        succeed(&sound.home(), &["init", sound.home().to_str().unwrap()]);
        sound.give_away();
        sound
    }

    /// As root: to somebody who is not.
    fn give_away(&self) {
        if geteuid().is_root() {
            let all = walk(&self.home());
            all.iter()
                .for_each(|path| lchown(path, Some(GATE), Some(GATE)).unwrap());
        }
    }

    fn copy(&self) -> Sound {
        let dir = TempDir::new().unwrap();
        mode(dir.path().to_owned(), 0o755);
        let done = Command::new("cp")
            .arg("-a")
            .arg(self.home())
            .arg(dir.path())
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", show(&done));
        Sound { dir }
    }

    fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }
}

/// Somebody whom no machine knows.
const GATE: u32 = 61_234;

fn walk(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![folder.to_owned()];
    if folder.symlink_metadata().unwrap().is_dir() {
        found.extend(
            fs::read_dir(folder)
                .unwrap()
                .flat_map(|entry| walk(&entry.unwrap().path())),
        );
    }
    found
}

/// What is worse than a note, as level, what and place.
fn bad(found: &[Finding]) -> Vec<(Level, &'static str, String)> {
    let bad = found.iter().filter(|finding| finding.level > Level::Note);
    for finding in bad.clone() {
        assert!(
            finding
                .remedy
                .as_ref()
                .is_some_and(|remedy| !remedy.is_empty()),
            "{finding:?}"
        );
    }
    bad.map(|finding| (finding.level, finding.what, finding.place.clone()))
        .collect()
}

fn mode(path: PathBuf, bits: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(bits)).unwrap();
}

fn rewrite(path: PathBuf, change: impl Fn(Vec<u8>) -> Vec<u8>) {
    let bytes = change(fs::read(&path).unwrap());
    fs::write(path, bytes).unwrap();
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

type Breaks = fn(&Path);

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn each_broken_thing_is_found_alone() {
    let cases: [(&str, Breaks, Level, &str, &str); 23] = [
        (
            "scripts of everybody",
            |home| mode(home.join("deploy"), 0o777),
            Level::Error,
            "mode",
            "deploy",
        ),
        (
            "schemas of everybody",
            |home| mode(home.join("schemas"), 0o777),
            Level::Error,
            "mode",
            "schemas",
        ),
        (
            "a ledger that is elsewhere",
            |home| {
                fs::rename(home.join("audit"), home.join("elsewhere")).unwrap();
                symlink("elsewhere", home.join("audit")).unwrap();
            },
            Level::Error,
            "link",
            "audit",
        ),
        (
            "a spool that is elsewhere",
            |home| {
                fs::rename(home.join("spool/in"), home.join("elsewhere")).unwrap();
                symlink("../elsewhere", home.join("spool/in")).unwrap();
            },
            Level::Error,
            "link",
            "spool/in",
        ),
        (
            "a file for a folder",
            |home| {
                fs::remove_dir_all(home.join("spool/out")).unwrap();
                fs::write(home.join("spool/out"), "").unwrap();
            },
            Level::Error,
            "home",
            "spool/out",
        ),
        (
            "rules without limits",
            |home| fs::remove_file(home.join("rules/safety.yaml")).unwrap(),
            Level::Error,
            "rules",
            "rules",
        ),
        (
            "a state to look into",
            |home| mode(home.join("state"), 0o750),
            Level::Error,
            "mode",
            "state",
        ),
        (
            "a ledger to look into",
            |home| mode(home.join("audit"), 0o755),
            Level::Error,
            "mode",
            "audit",
        ),
        (
            "rules of a group",
            |home| mode(home.join("rules"), 0o775),
            Level::Error,
            "mode",
            "rules",
        ),
        (
            "a rule of everybody",
            |home| mode(home.join("rules/safety.yaml"), 0o646),
            Level::Error,
            "mode",
            "rules/safety.yaml",
        ),
        (
            "a segment of a group",
            |home| mode(home.join("audit/log-00000001.jsonl"), 0o664),
            Level::Error,
            "mode",
            "audit/log-00000001.jsonl",
        ),
        (
            "a home of everybody",
            |home| mode(home.to_owned(), 0o777),
            Level::Error,
            "mode",
            ".",
        ),
        (
            "answers of everybody",
            |home| mode(home.join("spool/out"), 0o777),
            Level::Error,
            "mode",
            "spool/out",
        ),
        (
            "a spool without a sticky bit",
            |home| mode(home.join("spool/in"), 0o777),
            Level::Warning,
            "mode",
            "spool/in",
        ),
        (
            "a script for root",
            |home| mode(home.join("deploy/users.sh"), 0o666),
            Level::Error,
            "mode",
            "deploy/users.sh",
        ),
        (
            "a key to read",
            |home| {
                fs::write(home.join("bot.key"), "{}").unwrap();
                mode(home.join("bot.key"), 0o644);
            },
            Level::Error,
            "key-file",
            "bot.key",
        ),
        (
            "a program to change",
            |home| adapter(home, "./act", 0o777),
            Level::Error,
            "program",
            "act",
        ),
        (
            "no program",
            |home| adapter(home, "bin/missing", 0o755),
            Level::Warning,
            "program",
            "bin/missing",
        ),
        (
            "a rule that is none",
            |home| rewrite(home.join("rules/safety.yaml"), |_| b"max: [".to_vec()),
            Level::Error,
            "rules",
            "rules",
        ),
        (
            "an index that is none",
            |home| rewrite(home.join("state/state.db"), |_| vec![7; 9000]),
            Level::Warning,
            "state",
            "state/state.db",
        ),
        (
            "no keys",
            |home| fs::remove_file(home.join("state/keyring.db")).unwrap(),
            Level::Error,
            "log-keys",
            "state/keyring.db",
        ),
        (
            "a ledger that is none",
            |home| rewrite(home.join("audit/log-00000001.jsonl"), |_| b"{}\n".to_vec()),
            Level::Error,
            "ledger",
            "audit",
        ),
        (
            "somebody's lock",
            |_| {},
            Level::Warning,
            "lock",
            "state/lock",
        ),
    ];
    let model = Sound::new();
    // An index, and a lock file, are there from the first run on.
    succeed(&model.home(), &["run", "--until-idle"]);
    model.give_away();
    for (name, breaks, level, what, place) in cases {
        let sound = model.copy();
        let home = sound.home();
        assert_eq!(bad(&examine(&home, None)), [], "before {name}");
        breaks(&home);
        let lock = (what == "lock").then(|| fs::File::open(home.join("state/lock")).unwrap());
        lock.iter().for_each(|lock| lock.lock().unwrap());
        assert_eq!(
            bad(&examine(&home, None)),
            [(level, what, place.to_owned())],
            "{name}"
        );
        let exit = if level == Level::Error { 1 } else { 0 };
        let done = spoolgate(&home, &["doctor"]);
        assert_eq!(done.status.code(), Some(exit), "{name}: {}", show(&done));
        // What it says to do is typed as it stands, and helps.
        if ["mode", "link", "home", "key-file"].contains(&what) {
            let found = examine(&home, None);
            let remedies = found.iter().filter(|found| found.level > Level::Note);
            for remedy in remedies.filter_map(|found| found.remedy.as_deref()) {
                let typed = Command::new("sh").args(["-c", remedy]).output().unwrap();
                assert!(typed.status.success(), "{name}: {remedy}: {}", show(&typed));
            }
            assert_eq!(bad(&examine(&home, None)), [], "after {name}");
        }
    }
}

/// What earlier runs left, and credentials that fit no service any more.
#[test]
fn what_was_left_and_what_is_lent_is_found() {
    let sound = Sound::new();
    let home = sound.home();
    let token = sound.dir.path().join("token");
    fs::write(&token, "secret").unwrap();
    mode(token.clone(), 0o600);
    succeed(
        &home,
        &[
            "services",
            "add",
            "bank",
            "api.bank.example",
            "--method",
            "GET",
        ],
    );
    succeed(
        &home,
        &[
            "services",
            "credential",
            "set",
            "bank",
            "--from",
            token.to_str().unwrap(),
        ],
    );
    sound.give_away();
    assert_eq!(bad(&examine(&home, None)), []);
    let told = |what: &str| -> Vec<Finding> {
        examine(&home, None)
            .into_iter()
            .filter(|found| found.what == what)
            .collect()
    };
    assert_eq!(told("leftover"), []);
    // No process has this number, and none of these requests was ended.
    let socket = home.join(".s7ffffff0.1");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    fs::write(home.join("spool/work/torn"), "{").unwrap();
    fs::remove_dir(home.join("spool/rejected")).unwrap();
    let left: Vec<String> = told("leftover")
        .iter()
        .map(|found| found.place.clone())
        .collect();
    assert_eq!(left, [".s7ffffff0.1", "spool/work"]);
    let gone: Vec<(Level, String)> = told("home")
        .into_iter()
        .map(|found| (found.level, found.place))
        .collect();
    assert_eq!(gone, [(Level::Note, "spool/rejected".to_owned())]);

    rewrite(home.join("rules/services.yaml"), |text| {
        String::from_utf8(text)
            .unwrap()
            .replace("api.bank.example", "api.other.example")
            .into_bytes()
    });
    succeed(&home, &["run", "--until-idle"]);
    let lent = told("credential");
    assert!(
        lent.len() == 1 && lent[0].message.contains("`api.bank.example`"),
        "{lent:?}"
    );
    assert_eq!(
        (lent[0].level, lent[0].place.as_str()),
        (Level::Warning, "rules/services.yaml")
    );
    rewrite(home.join("rules/services.yaml"), |_| {
        b"services: []\n".to_vec()
    });
    succeed(&home, &["run", "--until-idle"]);
    let lent = told("credential");
    assert!(
        lent.len() == 1 && lent[0].message.contains("is no service"),
        "{lent:?}"
    );
    assert!(
        lent[0]
            .remedy
            .as_ref()
            .unwrap()
            .ends_with("services credential remove bank"),
        "{lent:?}"
    );

    // Those two runs were root's, in the home of another user, which cannot go on with what they
    // left.
    if geteuid().is_root() {
        let roots = told("owner");
        let places: BTreeSet<&str> = roots.iter().map(|found| found.place.as_str()).collect();
        assert!(
            places.contains("audit") && roots.iter().all(|found| found.level == Level::Error),
            "{roots:?}"
        );
        for remedy in roots.iter().filter_map(|found| found.remedy.as_deref()) {
            let typed = Command::new("sh").args(["-c", remedy]).output().unwrap();
            assert!(typed.status.success(), "{remedy}: {}", show(&typed));
        }
        assert_eq!(told("owner"), []);
    }
}

#[test]
fn a_clock_behind_the_ledger_is_found() {
    let dir = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let home = dir.path().join("home");
    succeed(&home, &["init", home.to_str().unwrap()]);
    // The same home, founded far from now.
    fs::remove_dir_all(home.join("audit")).unwrap();
    fs::remove_dir_all(home.join("state")).unwrap();
    let mut seams = real_seams(&home).unwrap();
    seams.clock = Arc::new(ManualClock::at(
        Time::parse("2190-01-01T00:00:00Z").unwrap(),
    ));
    layout::found(
        &home,
        &seams,
        "gate.example",
        &Principal::parse("owner").unwrap(),
    )
    .unwrap();
    let found = bad(&examine(&home, None));
    assert!(
        found.contains(&(Level::Warning, "clock", "clock".to_owned())),
        "{found:?}"
    );
}

#[test]
fn what_an_agent_could_do_is_found() {
    let stranger = || User {
        name: "stranger".to_owned(),
        uid: 61_999,
        gids: BTreeSet::from([61_888]),
    };
    let cases: [(&str, Breaks, &str); 6] = [
        ("nothing", |_| {}, ""),
        (
            "the keys",
            |home| {
                mode(home.join("state"), 0o711);
                mode(home.join("state/keyring.db"), 0o644);
            },
            "state/keyring.db",
        ),
        ("rules", |home| mode(home.join("rules"), 0o777), "rules"),
        (
            "a limit",
            |home| mode(home.join("rules/safety.yaml"), 0o666),
            "rules/safety.yaml",
        ),
        (
            "the whole home",
            |home| mode(home.parent().unwrap().to_owned(), 0o777),
            "/",
        ),
        ("a program", |home| adapter(home, "./act", 0o757), "act"),
    ];
    for (name, breaks, place) in cases {
        let sound = Sound::new();
        let home = sound.home();
        mode(home.join("spool/in"), 0o1777);
        breaks(&home);
        let found = examine(&home, Some(stranger()));
        let agents: Vec<_> = found
            .iter()
            .filter(|f| {
                f.level > Level::Note
                    && f.message.contains("agent") | f.message.contains("stranger")
            })
            .collect();
        if place.is_empty() {
            assert!(bad(&found).is_empty(), "{name}: {found:?}");
        } else {
            assert!(
                agents
                    .iter()
                    .any(|f| f.level == Level::Error && f.place.starts_with(place)),
                "{name}: {found:?}"
            );
        }
    }
    let sound = Sound::new();
    let shut = examine(&sound.home(), Some(stranger()));
    assert_eq!(
        bad(&shut),
        [(Level::Warning, "agent", "spool/in".to_owned())]
    );
    let own = User {
        name: "own".to_owned(),
        uid: fs::metadata(sound.home()).unwrap().uid(),
        gids: BTreeSet::new(),
    };
    assert_eq!(
        bad(&examine(&sound.home(), Some(own))),
        [(Level::Error, "agent", ".".to_owned())]
    );
    let nobody = spoolgate(&sound.home(), &["doctor", "--agent-user", "no-such-user"]);
    assert_eq!(nobody.status.code(), Some(2), "{}", show(&nobody));
}

#[test]
fn looking_changes_nothing_beside_a_running_gate_or_where_there_is_no_home() {
    let shape = |folder: &Path| -> BTreeMap<PathBuf, (u32, u64, i64, i64)> {
        let of = |path: &PathBuf| path.symlink_metadata().unwrap();
        let all = walk(folder).into_iter().map(|path| (of(&path), path));
        all.map(|(meta, path)| {
            (
                path,
                (meta.mode(), meta.size(), meta.mtime(), meta.mtime_nsec()),
            )
        })
        .collect()
    };
    let scratch = Scratch::new();
    let home = scratch.home();
    let before = shape(&home);
    let done = spoolgate(&home, &["--format", "json", "doctor"]);
    assert_eq!(shape(&home), before);
    for line in String::from_utf8(done.stdout).unwrap().lines() {
        let finding: Value = serde_json::from_str(line).unwrap();
        assert!(
            ["ok", "note", "warning", "error"].contains(&finding["level"].as_str().unwrap()),
            "{line}"
        );
    }
    let gate = Gate::start(&home, &[]);
    let beside = succeed(&home, &["doctor"]);
    assert!(
        beside.contains(&format!("a gate is running: process {}", gate.child.id())),
        "{beside}"
    );
    gate.stop();
    let empty = scratch.beside("empty");
    fs::create_dir(&empty).unwrap();
    for nowhere in [empty.clone(), scratch.beside("nothing")] {
        let done = spoolgate(&nowhere, &["doctor"]);
        assert_eq!(done.status.code(), Some(1), "{}", show(&done));
        assert!(
            String::from_utf8_lossy(&done.stdout).contains("no home"),
            "{}",
            show(&done)
        );
    }
    assert_eq!(walk(&empty).len(), 1);
}

fn there_is(program: &str) -> bool {
    let found = Command::new("sh")
        .args(["-c", &format!("command -v {program}")])
        .output()
        .unwrap();
    if !found.status.success() {
        eprintln!("skipped: there is no {program} on this machine");
    }
    found.status.success()
}

#[test]
fn what_init_writes_can_be_installed() {
    let dir = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let home = dir.path().join("a home of 100%");
    let made = Command::new(PROGRAM)
        .arg("init")
        .arg(&home)
        .args(["--agent-user", "bot"])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", show(&made));
    let said = String::from_utf8(made.stdout).unwrap();
    let script = fs::read_to_string(home.join("deploy/users.sh")).unwrap();
    let commands: Vec<&str> = script
        .lines()
        .filter(|line| !line.starts_with('#') && *line != "set -eu")
        .collect();
    assert!(
        commands.len() > 8 && commands.iter().all(|command| said.contains(command)),
        "{said}\n{script}"
    );
    assert!(script.contains("--shell /bin/sh bot\n"), "{script}");
    let checked = Command::new("sh")
        .arg("-n")
        .arg(home.join("deploy/users.sh"))
        .output()
        .unwrap();
    assert!(checked.status.success(), "{}", show(&checked));
    let same = Command::new(PROGRAM)
        .arg("init")
        .arg(dir.path().join("b"))
        .args(["--agent-user", "spoolgate"])
        .output()
        .unwrap();
    assert_eq!(same.status.code(), Some(2), "{}", show(&same));
    if there_is("systemd-analyze") {
        let unit = home.join("deploy/spoolgate.service");
        let done = Command::new("systemd-analyze")
            .arg("verify")
            .arg(unit)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(
            done.status.success() && !said.contains("spoolgate.service"),
            "{}",
            show(&done)
        );
    }
}

fn as_user(name: &str, home: &Path, args: &[&str]) -> Output {
    let mut command = Command::new("runuser");
    command
        .args(["-u", name, "--", PROGRAM, "--home"])
        .arg(home)
        .args(args);
    command.current_dir("/").output().unwrap()
}

/// Users that do not outlive their test, nor their group, unless that was there before.
struct Users {
    has_group: bool,
}

impl Users {
    fn new() -> Users {
        let groups = fs::read_to_string("/etc/group").unwrap();
        Users {
            has_group: groups
                .lines()
                .any(|line| line.starts_with("spoolgate-agents:")),
        }
    }
}

impl Drop for Users {
    fn drop(&mut self) {
        for name in ["sg-test-bot", "sg-test-gate"] {
            let _ = Command::new("userdel")
                .args(["--remove", "--force", name])
                .output();
        }
        if !self.has_group {
            let _ = Command::new("groupdel").arg("spoolgate-agents").output();
        }
    }
}

#[test]
#[ignore = "makes users on this machine"]
fn separate_users_can_submit_and_nothing_else() {
    if !geteuid().is_root() || !there_is("useradd") || !there_is("runuser") {
        eprintln!("skipped: only root can make users");
        return;
    }
    let _users = Users::new();
    let dir = TempDir::new().unwrap();
    mode(dir.path().to_owned(), 0o755);
    let home = dir.path().join("the gate's home");
    let key = home_for_users(dir.path(), &home);

    let mut watch = Command::new("runuser");
    watch
        .args(["-u", "sg-test-gate", "--", PROGRAM, "--home"])
        .arg(&home);
    watch.args(["watch", "--sandbox", "auto"]).current_dir("/");
    let mut gate = Gate::of(watch);
    gate.until("watching");
    let script = format!(
        "umask 027; cd; h='{}'; p={PROGRAM}; echo '{{\"symbol\":\"BTC-USD\"}}' > asked\n\
         $p sign asked --as trend-bot --key {key} --action market.get > r.json && $p --home \"$h\" \
         submit r.json --wait 20",
        home.display().to_string().replace('\'', r"'\''")
    );
    let as_bot = |args: &[&str], path: &Path| {
        let mut command = Command::new("runuser");
        command
            .args(["-u", "sg-test-bot", "--"])
            .args(args)
            .arg(path);
        command.output().unwrap()
    };
    let asked = as_bot(&["sh", "-c", &script], Path::new("sh"));
    let answered = String::from_utf8_lossy(&asked.stdout).into_owned();
    assert!(answered.contains("auditRef"), "{}", show(&asked));
    for path in [
        "rules/safety.yaml",
        "rules/new.yaml",
        "audit/log-00000001.jsonl",
        "state/state.db",
        "spool/out/x",
        "deploy/users.sh",
    ] {
        let done = as_bot(&["sh", "-c", "echo x >> \"$1\"", "sh"], &home.join(path));
        assert!(!done.status.success(), "{path} was written");
    }
    let read = as_bot(&["cat"], &home.join("state/keyring.db"));
    assert!(!read.status.success(), "the keyring was read");
    // runuser hands the signal on.
    gate.tell(Signal::TERM);
    gate.child.wait().unwrap();
    let verified = as_user("sg-test-gate", &home, &["audit", "verify"]);
    assert!(verified.status.success(), "{}", show(&verified));
}

/// Makes a home and its users by the script, as an operator does. Returns the key file of the
/// agent's user.
fn home_for_users(dir: &Path, home: &Path) -> String {
    let names = ["--gate-user", "sg-test-gate", "--agent-user", "sg-test-bot"];
    let made = Command::new(PROGRAM)
        .arg("init")
        .arg(home)
        .args(names)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", show(&made));
    for _ in 0..2 {
        let done = Command::new("sh")
            .arg(home.join("deploy/users.sh"))
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", show(&done));
    }
    let doctor = as_user(
        "sg-test-gate",
        home,
        &["doctor", "--agent-user", "sg-test-bot"],
    );
    assert!(doctor.status.success(), "{}", show(&doctor));
    assert!(
        !String::from_utf8_lossy(&doctor.stdout).contains("warning"),
        "{}",
        show(&doctor)
    );
    let key = dir.join("bot.key");
    let key = key.to_str().unwrap();
    fs::set_permissions(dir, fs::Permissions::from_mode(0o777)).unwrap();
    let added = as_user(
        "sg-test-gate",
        home,
        &["keys", "add", "trend-bot", "--out", key],
    );
    assert!(added.status.success(), "{}", show(&added));
    mode(dir.to_owned(), 0o755);
    let to_bot = Command::new("chown")
        .args(["sg-test-bot", key])
        .status()
        .unwrap();
    assert!(to_bot.success());
    key.to_owned()
}
