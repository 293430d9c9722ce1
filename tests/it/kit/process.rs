//! Processes of the program under test, and waiting for what they do.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::{command, lines, log_bytes};

/// The longest that anything may take. It ends a test that would hang, and decides nothing else.
const PATIENCE: Duration = Duration::from_secs(120);

/// Looks until there is something, and returns it.
#[track_caller]
pub(crate) fn find<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(
            begun.elapsed() < PATIENCE,
            "waited two minutes until {what}"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until this is so.
#[track_caller]
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    find(what, || is_so().then_some(()));
}

/// The answer of this name in the flat spool, once it is there.
#[track_caller]
pub(crate) fn answered(home: &Path, name: &str) -> serde_json::Value {
    let path = home.join("spool/out").join(name);
    until(&format!("{name} is answered"), || path.exists());
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Waits until the gate of a home has said that its answers are durable: nothing is decided after
/// that line.
#[track_caller]
pub(crate) fn until_durable(home: &Path) {
    until("answers are durable", || {
        let log = String::from_utf8(log_bytes(home).pop().unwrap()).unwrap();
        log.rfind(r#""kind":"published""#) > log.rfind(r#""kind":"decision""#)
    });
}

/// Whether a process of this number runs.
pub(crate) fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

/// A process that does not outlive its test.
pub(crate) struct Running(pub Child);

impl Running {
    /// Starts it.
    pub(crate) fn start(mut command: Command) -> Running {
        Running(command.spawn().unwrap())
    }

    /// Starts it with nobody who reads what it prints.
    pub(crate) fn silent(mut command: Command) -> Running {
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Running::start(command)
    }

    /// A watcher that may not have begun yet.
    pub(crate) fn watch(home: &Path) -> Running {
        Running::silent(command(home, &["watch"]))
    }

    /// A watcher that holds the lock.
    pub(crate) fn watching(home: &Path) -> Running {
        let mut command = command(home, &["watch"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Running::begun(home, command)
    }

    /// Starts this command and waits until the gate that it is has begun.
    pub(crate) fn begun(home: &Path, command: Command) -> Running {
        let seqs = lines(home).unwrap().len();
        let gate = Running::start(command);
        until("the gate begins", || {
            lines(home).unwrap()[seqs..]
                .iter()
                .any(|(_, kind, _)| kind == "start")
        });
        gate
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    /// Whether it has not ended yet.
    pub(crate) fn is_running(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }

    /// How it ends by itself.
    #[track_caller]
    pub(crate) fn end(&mut self) -> ExitStatus {
        find("it ends", || self.0.try_wait().unwrap())
    }

    /// Waits for it to end, with what it said.
    pub(crate) fn output(mut self) -> Output {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        self.0
            .stdout
            .take()
            .map(|mut from| from.read_to_end(&mut stdout).unwrap());
        self.0
            .stderr
            .take()
            .map(|mut from| from.read_to_end(&mut stderr).unwrap());
        Output {
            status: self.end(),
            stdout,
            stderr,
        }
    }

    /// Ends it in order. Returns what it said on standard error, if that is a pipe.
    #[track_caller]
    pub(crate) fn stop(self) -> String {
        self.signal(Signal::TERM);
        let done = self.output();
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success(), "{}: {said}", done.status);
        said
    }

    /// Ends it without warning.
    pub(crate) fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// How many entries one of its folders in `/proc` has: of `fd`, its open files.
    pub(crate) fn count(&self, folder: &str) -> usize {
        fs::read_dir(format!("/proc/{}/{folder}", self.0.id()))
            .unwrap()
            .count()
    }

    /// Peak of its resident memory and what is mapped from files, KiB.
    pub(crate) fn memory_kib(&self) -> (u64, u64) {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let kib = |name: &str| -> u64 {
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix(name))
                .unwrap();
            line.trim()
                .strip_suffix("kB")
                .unwrap()
                .trim()
                .parse()
                .unwrap()
        };
        (kib("VmHWM:"), kib("RssFile:"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
