//! strace as a fault injector: the system calls of a run, and the same run with one of them
//! disturbed.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::kit::PROGRAM;
use crate::syscalls::script::Script;

/// The longest time for a run. A run takes a few ms, and up to 5 s if it waits for locks.
const TIME_LIMIT: Duration = Duration::from_secs(20);

/// Calls that do nothing to a file or descriptor.
const NOT_ABOUT_FILES: &[&str] = &[
    "brk",
    "epoll_wait",
    "execve",
    "exit_group",
    "futex",
    "geteuid",
    "getpid",
    "getrandom",
    "gettid",
    "getuid",
    "madvise",
    "mmap",
    "mprotect",
    "munmap",
    "poll",
    "prlimit64",
    "rt_sigaction",
    "rt_sigprocmask",
    "sigaltstack",
];

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Blow {
    /// The process is killed instead.
    Kill,
    /// The call fails once with this error.
    Once(&'static str),
    /// This call and every later one of its name fail with this error.
    FromThenOn(&'static str),
}

impl Blow {
    /// All kinds.
    pub(super) const ALL: [Blow; 6] = [
        Blow::Kill,
        Blow::Once("EIO"),
        Blow::Once("ENOSPC"),
        Blow::Once("EINTR"),
        Blow::FromThenOn("EIO"),
        Blow::FromThenOn("ENOSPC"),
    ];
}

impl fmt::Display for Blow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Blow::Kill => write!(f, "SIGKILL"),
            Blow::Once(error) => write!(f, "{error}"),
            Blow::FromThenOn(error) => write!(f, "{error}+"),
        }
    }
}

/// The `nth` call of a name in a process, counted from 1, and what happens to it.
#[derive(Clone, Debug)]
pub(super) struct Point {
    /// The call's name.
    pub call: String,
    /// Which call of that name.
    pub nth: u32,
    /// What happens to it.
    pub blow: Blow,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {} {}", self.blow, self.call, self.nth)
    }
}

impl Point {
    /// A kill at this call.
    pub(super) fn kill(call: &str, nth: u32) -> Point {
        Point {
            call: call.to_owned(),
            nth,
            blow: Blow::Kill,
        }
    }

    /// Returns the arguments for strace.
    pub(super) fn to_args(&self) -> Vec<String> {
        let (call, nth) = (&self.call, self.nth);
        let what = match self.blow {
            Blow::Kill => format!("inject={call}:signal=KILL:when={nth}"),
            Blow::Once(error) => format!("inject={call}:error={error}:when={nth}"),
            Blow::FromThenOn(error) => format!("inject={call}:error={error}:when={nth}+"),
        };
        // Not --seccomp-bpf, which is faster: signals are not injected then (strace 6.1).
        ["-f", "-qq", "-e", &format!("trace={call}"), "-e", &what]
            .map(str::to_owned)
            .to_vec()
    }
}

/// Returns why points cannot be tried here, if so.
pub(super) fn missing() -> Option<String> {
    match Command::new("strace")
        .args(["-f", "-qq", "-e", "trace=close", "true"])
        .output()
    {
        Err(error) => Some(format!("strace: {error}")),
        Ok(done) if !done.status.success() => Some(format!(
            "strace cannot trace here: {}",
            String::from_utf8_lossy(&done.stderr).trim()
        )),
        Ok(_) => None,
    }
}

/// Returns the calls of a script's run that are about files, from where it opens its home: name,
/// first and last number.
pub(super) fn calls(script: &Script, dir: &Path) -> BTreeMap<String, (u32, u32)> {
    script.copy_to(dir);
    let trace = dir.join("trace");
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o"]).arg(&trace);
    let status = run_to_end(script, dir, command);
    let succeeded = status.is_some_and(|status| status.success());
    assert!(succeeded, "{}: {status:?}", script.name);
    let text = fs::read_to_string(&trace).unwrap();
    let mut found: BTreeMap<String, (u32, u32)> = BTreeMap::new();
    let mut is_open = false;
    for line in text.lines() {
        let call = line
            .split_once(' ')
            .map_or("", |(_, call)| call.trim_start());
        let Some((name, args)) = call.split_once('(') else {
            continue;
        };
        // The end of a call that another thread interrupted.
        if name.starts_with('<') {
            continue;
        }
        is_open |= name != "execve"
            && ["\"home\"", "\"home/"]
                .iter()
                .any(|path| args.contains(path));
        let range = found.entry(name.to_owned()).or_insert((1, 0));
        range.1 += 1;
        if !is_open {
            range.0 = range.1 + 1;
        }
    }
    assert!(is_open, "{}: its home is never opened", script.name);
    found.retain(|name, (first, last)| first <= last && !NOT_ABOUT_FILES.contains(&name.as_str()));
    found
}

/// Returns which calls of this name in the first thread of a script's run contain `part`, such as
/// a part of the file's path.
pub(super) fn calls_on(script: &Script, dir: &Path, call: &str, part: &str) -> Vec<u32> {
    script.copy_to(dir);
    let trace = dir.join("trace");
    let mut command = Command::new("strace");
    command
        .args(["-f", "-qq", "-y", "-e", &format!("trace={call}"), "-o"])
        .arg(&trace);
    let status = run_to_end(script, dir, command);
    let succeeded = status.is_some_and(|status| status.success());
    assert!(succeeded, "{}: {status:?}", script.name);
    let text = fs::read_to_string(&trace).unwrap();
    // strace counts the calls of each thread by itself.
    let first = text.split_once(' ').map_or("", |(thread, _)| thread);
    (1..)
        .zip(text.lines().filter(|line| line.starts_with(first)))
        .filter(|(_, line)| line.contains(part))
        .map(|(nth, _)| nth)
        .collect()
}

/// How a run ended.
pub(super) struct Struck {
    /// Its status. `None` if it was ended at the time limit.
    pub status: Option<ExitStatus>,
    /// The call that was hit first, as strace shows it. `None` if there were fewer calls.
    pub hit: Option<String>,
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error.
    pub stderr: String,
}

/// Runs a script in `dir` under this command of strace, which writes to a file, and so leaves a
/// SIGTERM to the program. Returns `None` if it had to be ended at the time limit.
fn run_to_end(script: &Script, dir: &Path, mut strace: Command) -> Option<ExitStatus> {
    let output = |name: &str| File::create(dir.join(name)).unwrap();
    let mut child = strace
        .arg(PROGRAM)
        .args(&script.args)
        .current_dir(dir)
        .stdout(output("stdout"))
        .stderr(output("stderr"))
        .process_group(0)
        .spawn()
        .unwrap();
    let deadline = Instant::now() + TIME_LIMIT;
    let mut stop_after = script.stop_after.map(|file| dir.join(file));
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        if Instant::now() > deadline {
            kill_process_group(Pid::from_child(&child), Signal::KILL).unwrap();
            child.wait().unwrap();
            return None;
        }
        if stop_after.take_if(|file| file.exists()).is_some() {
            kill_process_group(Pid::from_child(&child), Signal::TERM).unwrap();
            // A watcher that waits for a hint need not wait for its heartbeat.
            fs::write(dir.join("home/spool/in/.hint"), "").unwrap();
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Runs a script over a fresh copy in `dir` with one call disturbed.
pub(super) fn strike(script: &Script, dir: &Path, point: &Point) -> Struck {
    script.copy_to(dir);
    let [trace, stdout, stderr] = ["trace", "stdout", "stderr"].map(|name| dir.join(name));
    let mut command = Command::new("strace");
    command.args(point.to_args()).arg("-o").arg(&trace);
    let status = run_to_end(script, dir, command);
    let trace = fs::read_to_string(&trace).unwrap_or_default();
    let killed = status.is_some_and(|status| status.signal() == Some(9));
    let hit = match point.blow {
        // strace does not show the end of a call at which the process is killed.
        Blow::Kill => trace
            .lines()
            .rfind(|line| line.contains(&point.call))
            .filter(|_| killed),
        _ => trace.lines().find(|line| line.contains("(INJECTED)")),
    };
    Struck {
        status,
        hit: hit.map(str::to_owned),
        stdout: fs::read(stdout).unwrap(),
        stderr: fs::read_to_string(stderr).unwrap(),
    }
}
