//! Whole gates with caged adapters.

use std::path::Path;
use std::process::Command;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, geteuid, pidfd_open};
use serde_json::Value;
use spoolgate_gate::Record;
use spoolgate_rules::gateway::ACTIONS;
use spoolgate_wire::signing::SignKey;

use super::*;
use crate::kit::gateway_home::{exec, gateway, with_core};
use crate::kit::process::{Running, answered, until};
use crate::kit::users;
use crate::kit::{Scratch, Sent, lines, show, sign, spoolgate, succeed};

const MAIL: &str = r#"{"to":["ann@example.com"],"subject":"hello","body":"a word"}"#;

/// A home with `core` and an adapter that may write into the folder `work`.
struct Gate {
    scratch: Scratch,
    core: SignKey,
}

impl Gate {
    fn new(script: &str) -> Gate {
        let scratch = Scratch::new();
        fs::create_dir(scratch.home().join("work")).unwrap();
        let mut adapter = exec(&ACTIONS, script, 300);
        adapter["command"]["write"] = json!(["work"]);
        let core = with_core(&scratch, &gateway(&[adapter]));
        Gate { scratch, core }
    }

    fn home(&self) -> PathBuf {
        self.scratch.home()
    }

    fn send(&self, id: &str) {
        let mail = sign(&self.core, "core", id, "email.send", MAIL);
        Sent::new(&format!("{id}.json"), mail).drop_into(&self.home());
    }

    fn work(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.home().join("work").join(name)).ok()
    }

    /// The code of each response line; empty for success.
    fn codes(&self) -> Vec<String> {
        let all = lines(&self.home()).unwrap().into_iter();
        let responses = all.filter_map(|(_, _, record)| match record {
            Some(Record::Response(line)) => Some(serde_json::to_value(&line).unwrap()),
            _ => None,
        });
        responses
            .map(|line| {
                line["metadata"]["code"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned()
            })
            .collect()
    }

    fn replays(&self) {
        succeed(&self.home(), &["audit", "verify"]);
        succeed(&self.home(), &["audit", "replay"]);
    }
}

/// Tries what an adapter must not, and says what became of each. The signal is none, so that the
/// gate lives on where it comes through.
const CURIOUS: &str = r#"cat >/dev/null
try() { if sh -c "$1" >/dev/null 2>&1; then echo "open: $1"; else echo closed; fi >>work/told; }
try "cat state/keyring.db"
try "ls rules"
try "echo x >spool/in/x.tmp"
try "echo '#' >>rules/safety.yaml"
try ": </proc/$PPID/mem"
try "kill -0 $PPID"
echo '{"success":true}'"#;

#[test]
fn a_curious_adapter_sends_its_mail_and_nothing_else() {
    if !can_cage() {
        return;
    }
    let gate = Gate::new(CURIOUS);
    let home = gate.home();
    let rules = fs::read(home.join("rules/safety.yaml")).unwrap();
    let running = Running::watching(&home);
    gate.send("m1");
    let answer = answered(&home, "m1.json");
    assert_eq!(answer["status"], "success", "{answer}");
    running.stop();
    assert_eq!(gate.work("told").unwrap(), "closed\n".repeat(6));
    assert_eq!(fs::read(home.join("rules/safety.yaml")).unwrap(), rules);
    let log = fs::read_to_string(home.join("audit/log-00000001.jsonl")).unwrap();
    assert!(log.contains(r#""cage":{"landlock":"#), "{log}");
    gate.replays();

    // The same adapter without a cage. The gate does not let its memory be opened, but by root.
    let gate = Gate::new(CURIOUS);
    crate::kit::uncaged(&gate.home());
    let running = Running::watching(&gate.home());
    gate.send("m1");
    answered(&gate.home(), "m1.json");
    running.stop();
    let told = gate.work("told").unwrap();
    let open = 5 + usize::from(geteuid().is_root());
    assert_eq!(told.matches("open: ").count(), open, "{told}");
}

/// Waits until a process has ended.
fn wait_for_end(pid: &str) {
    let pid = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else {
        return;
    };
    // The adapter itself would stay for five minutes.
    let patience = Timespec {
        tv_sec: 30,
        tv_nsec: 0,
    };
    let mut ends = [PollFd::new(&process, PollFlags::IN)];
    assert_eq!(poll(&mut ends, Some(&patience)).unwrap(), 1, "it lives on");
}

#[test]
fn a_killed_gate_takes_its_adapter_with_it() {
    if !can_cage() {
        return;
    }
    let gate = Gate::new("cat >/dev/null; echo $$ >work/new; mv work/new work/pid; exec sleep 300");
    let home = gate.home();
    let running = Running::watching(&home);
    gate.send("m1");
    until("the adapter runs", || gate.work("pid").is_some());
    running.kill();
    wait_for_end(&gate.work("pid").unwrap());
    for _ in 0..2 {
        succeed(&home, &["run", "--until-idle"]);
        assert_eq!(gate.codes(), ["UNKNOWN_OUTCOME"]);
        assert_eq!(
            answered(&home, "m1.json")["error"]["code"],
            "UNKNOWN_OUTCOME"
        );
    }
    // Nor is a folder left.
    assert!(!home.join(SCRATCH).exists());
    gate.replays();
}

/// Starts a program for which the kernel has no Landlock: every call that would make a set of its
/// rules fails as it does in a kernel without it (444 is the call, 38 is ENOSYS).
const WITHOUT_LANDLOCK: &str = "import ctypes, os, struct, sys\n\
    code = [(0x20, 0, 0, 0), (0x15, 0, 1, 444), (6, 0, 0, 0x50026), (6, 0, 0, 0x7fff0000)]\n\
    code = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *one) for one in code))\n\
    filter = struct.pack('HxxxxxxP', 4, ctypes.addressof(code))\n\
    prctl = ctypes.CDLL(None).prctl\n\
    assert prctl(38, 1, 0, 0, 0) == 0 and prctl(22, 2, ctypes.c_char_p(filter)) == 0\n\
    os.execv(sys.argv[1], sys.argv[1:])";

#[test]
fn a_gate_without_landlock_runs_no_adapter() {
    if !can_cage() {
        return;
    }
    let gate = Gate::new("cat >/dev/null; echo ran >>work/ran; echo '{\"success\":true}'");
    let home = gate.home();
    let run = |id: &str| {
        gate.send(id);
        let done = Command::new("python3")
            .args(["-c", WITHOUT_LANDLOCK, crate::kit::PROGRAM, "--home"])
            .arg(&home)
            .args(["run", "--until-idle"])
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", show(&done));
        answered(&home, &format!("{id}.json"))
    };
    let answer = run("m1");
    assert_eq!(answer["error"]["code"], "ADAPTER_NOT_RUN", "{answer}");
    assert_eq!(gate.work("ran"), None);
    // With less demanded the same adapter runs.
    let safety = home.join("rules/safety.yaml");
    let text = fs::read_to_string(&safety).unwrap();
    fs::write(&safety, text.replace("cage: require", "cage: auto")).unwrap();
    let answer = run("m2");
    assert_eq!(answer["status"], "success", "{answer}");
    assert_eq!(gate.work("ran").unwrap(), "ran\n");
    gate.replays();
}

/// Without the capabilities of root, which could look into every process.
fn plain(program: &str) -> Command {
    if !geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-all", "--inh-caps=-all", program]);
    command
}

fn can_look_into(pid: u32) -> bool {
    let mut look = plain("cat");
    look.arg(format!("/proc/{pid}/environ"));
    look.output().unwrap().status.success()
}

/// Programs of the gate's own user cannot look into a gate, also outside of a cage.
#[test]
fn a_gate_cannot_be_looked_into() {
    if Command::new("setpriv").arg("--version").output().is_err() {
        eprintln!("skipped: there is no setpriv");
        return;
    }
    let scratch = Scratch::new();
    let mut other = plain("sleep");
    other.arg("300");
    let other = Running::silent(other);
    until("it sleeps", || {
        let name = fs::read_to_string(format!("/proc/{}/comm", other.0.id()));
        name.is_ok_and(|name| name == "sleep\n")
    });
    assert!(can_look_into(other.0.id()));
    other.kill();
    let mut watch = plain(crate::kit::PROGRAM);
    watch.arg("--home").arg(scratch.home()).arg("watch");
    watch.stdout(std::process::Stdio::null());
    let gate = Running::begun(&scratch.home(), watch);
    assert!(!can_look_into(gate.0.id()));
    gate.stop();
}

/// What doctor says of the cage of a home.
fn cage_of(home: &Path) -> Value {
    let done = spoolgate(home, &["--format", "json", "doctor"]);
    let told = String::from_utf8(done.stdout).unwrap();
    let found = told.lines().map(|line| serde_json::from_str(line).unwrap());
    found
        .into_iter()
        .find(|finding: &Value| finding["what"] == "cage")
        .unwrap_or_else(|| panic!("{told}"))
}

#[test]
fn doctor_says_how_many_ways_out_are_closed() {
    if !can_cage() {
        return;
    }
    let scratch = Scratch::new();
    let home = scratch.home();
    let found = cage_of(&home);
    let message = found["message"].as_str().unwrap();
    assert_eq!(found["level"], "ok", "{found}");
    assert!(
        message.ends_with("seccomp: 15 of 15 ways out are closed"),
        "{message}"
    );
    let doctor = |home: &Path| {
        let mut python = Command::new("python3");
        python.args(["-c", WITHOUT_LANDLOCK, crate::kit::PROGRAM, "--home"]);
        let done = python.arg(home).arg("doctor").output().unwrap();
        String::from_utf8(done.stdout).unwrap()
    };
    assert!(doctor(&home).contains("this kernel has no Landlock"));
    crate::kit::prepared::edit(&home.join("rules/safety.yaml"), |text| {
        text.replace("cage: require", "cage: auto")
    });
    let told = doctor(&home);
    assert!(
        told.contains("truncating files is open (Landlock 3 closes it)"),
        "{told}"
    );
}

/// A gate that is not root closes its memory and still starts programs in their cages.
#[test]
fn a_gate_of_another_user_runs_its_adapter() {
    if let Some(what) = users::missing() {
        eprintln!("skipped: {what}");
        return;
    }
    if !can_cage() {
        return;
    }
    // Its folder has one that it closed to itself.
    let gate = Gate::new(
        "cat >/dev/null; id -u >work/uid; mkdir $HOME/a; (umask 777; mkdir $HOME/a/shut); \
         ls -d $HOME/a/* >work/shut; echo '{\"success\":true}'",
    );
    let beside = gate.scratch.beside("of-gate");
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(beside.parent().unwrap(), open).unwrap();
    users::settle(&gate.home(), &beside);
    let running = Running::begun(&beside, users::watch(&beside));
    let mail = sign(&gate.core, "core", "m1", "email.send", MAIL);
    Sent::new("m1.json", mail).drop_into(&beside);
    let answer = answered(&beside, "m1.json");
    assert_eq!(answer["status"], "success", "{answer}");
    let uid = fs::read_to_string(beside.join("work/uid")).unwrap();
    assert_eq!(uid, format!("{}\n", users::GATE));
    running.stop();
    let shut = fs::read_to_string(beside.join("work/shut")).unwrap();
    assert!(shut.ends_with("/a/shut\n"), "{shut}");
    assert_eq!(fs::read_dir(beside.join(SCRATCH)).unwrap().count(), 0);
}

/// Doctor names what the arguments of a program point at and its cage does not open, and lint the
/// absolute paths that lead into the gate's own folders, with their line.
#[test]
fn what_a_cage_withholds_is_named() {
    if !can_cage() {
        return;
    }
    let gate = Gate::new("");
    let home = gate.home();
    let file = home.join("rules/gateway.yaml");
    fs::create_dir_all(home.join("templates/new")).unwrap();
    fs::write(home.join("bin.conf"), "").unwrap();
    let with = |args: &str, more: &str| {
        let text = format!(
            "adapters:\n- actions: [email.send]\n  adapter: exec\n  command:\n    program: sh\n    \
             args: [{args}]\n    time_limit_s: 5\n    output_bytes_max: 100\n{more}"
        );
        fs::write(&file, text).unwrap();
    };
    let named = || {
        let done = spoolgate(&home, &["--format", "json", "doctor"]);
        let told = String::from_utf8(done.stdout).unwrap();
        let found = told.lines().map(|line| serde_json::from_str(line).unwrap());
        let of_cage = found.filter(|finding: &Value| {
            finding["what"] == "cage" && finding["place"] == "rules/gateway.yaml"
        });
        of_cage.collect::<Vec<_>>()
    };
    let outside = gate.scratch.beside("other");
    fs::create_dir(&outside).unwrap();
    let args = format!(
        "bin.conf, templates, --to={}, state/keyring.db, /usr/share, missing, '-c', '', '='",
        outside.display()
    );
    with(&args, "");
    let found = named();
    let has = |path: &Path, remedy: &str| {
        let path = fs::canonicalize(path).unwrap();
        let path = format!("`{}`", path.display());
        found.iter().any(|finding| {
            finding["message"].as_str().unwrap().contains(&path)
                && finding["remedy"].as_str().unwrap().contains(remedy)
        })
    };
    assert!(
        has(&home.join("templates"), "`read:` or `write:`"),
        "{found:?}"
    );
    assert!(has(&outside, "`read:` or `write:`"), "{found:?}");
    assert!(
        has(&home.join("state/keyring.db"), "move it out"),
        "{found:?}"
    );
    assert_eq!(found.len(), 3, "{found:?}");
    let opened = format!(
        "    read: [templates]\n    write: ['{}']\n",
        outside.display()
    );
    with(&args, &opened);
    assert_eq!(named().len(), 1);

    let lint = || {
        let done = spoolgate(&home, &["rules", "lint"]);
        (done.status.code(), String::from_utf8(done.stdout).unwrap())
    };
    assert_eq!(lint().0, Some(0), "{}", lint().1);
    for below in ["state", "spool/in", ""] {
        let path = home.join(below);
        let path = path.display();
        with("", &format!("    read:\n    - templates\n    - '{path}'\n"));
        let (code, told) = lint();
        assert_eq!(code, Some(2), "{told}");
        let fault = format!("rules/gateway.yaml:11: fault: `read: {path}` leads to");
        assert!(told.contains(&fault), "{told}");
        let found = named();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0]["level"], "error", "{found:?}");
    }
}
