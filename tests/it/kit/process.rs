//! Processes of the program under test, and waiting for what they do.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::{command, lines, log_bytes};

/// The maximum time to wait. It only ends a test that would otherwise hang.
const PATIENCE: Duration = Duration::from_secs(120);

/// Whether a program is installed. If not, prints this past the test's captured output.
pub(crate) fn is_there(program: &str) -> bool {
    match Command::new(program).arg("--version").output() {
        Ok(output) if output.status.success() => true,
        other => {
            let why = other.map_or_else(
                |error| error.to_string(),
                |output| output.status.to_string(),
            );
            let line = format!("SKIPPED: what needs `{program}` ({why})\n");
            io::stderr().write_all(line.as_bytes()).unwrap();
            false
        }
    }
}

/// Looks again and again until there is a value, and returns it.
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

/// Waits until the condition is true.
#[track_caller]
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    find(what, || is_so().then_some(()));
}

/// Waits for the answer of this name in the flat spool and returns it.
#[track_caller]
pub(crate) fn answered(home: &Path, name: &str) -> serde_json::Value {
    let path = home.join("spool/out").join(name);
    until(&format!("{name} is answered"), || path.exists());
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Waits until the gate of a home has written that its answers are durable: it decides nothing
/// after that line.
#[track_caller]
pub(crate) fn until_durable(home: &Path) {
    until("answers are durable", || {
        let log = String::from_utf8(log_bytes(home).pop().unwrap()).unwrap();
        log.rfind(r#""kind":"published""#) > log.rfind(r#""kind":"decision""#)
    });
}

/// Whether a process with this number runs.
pub(crate) fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

/// A process that does not outlive its test.
pub(crate) struct Running(pub Child);

impl Running {
    /// Starts the command.
    pub(crate) fn start(mut command: Command) -> Running {
        Running(command.spawn().unwrap())
    }

    /// Starts the command and discards its output.
    pub(crate) fn silent(mut command: Command) -> Running {
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Running::start(command)
    }

    /// Starts a watcher, which may not have begun when this returns.
    pub(crate) fn watch(home: &Path) -> Running {
        Running::silent(command(home, &["watch"]))
    }

    /// Starts a watcher and waits until it holds the lock.
    pub(crate) fn watching(home: &Path) -> Running {
        let mut command = command(home, &["watch"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Running::begun(home, command)
    }

    /// Starts a command that is a gate and waits until the gate has begun.
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

    /// Sends a signal to the process.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    /// Whether the process is still running.
    pub(crate) fn is_running(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }

    /// Waits until the process ends by itself.
    #[track_caller]
    pub(crate) fn end(&mut self) -> ExitStatus {
        find("it ends", || self.0.try_wait().unwrap())
    }

    /// Waits until the process ends, and returns its output.
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

    /// Stops the process in order. Returns its standard error, if that is a pipe.
    #[track_caller]
    pub(crate) fn stop(self) -> String {
        self.signal(Signal::TERM);
        let done = self.output();
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success(), "{}: {said}", done.status);
        said
    }

    /// Kills the process.
    pub(crate) fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Returns the number of entries in one of its folders in `/proc`; in `fd`, these are its open
    /// files. 0 for a gate of another user than root, which closes this folder to its user too.
    pub(crate) fn count(&self, folder: &str) -> usize {
        match fs::read_dir(format!("/proc/{}/{folder}", self.0.id())) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => 0,
            entries => entries.unwrap().count(),
        }
    }

    /// Returns the peak of its resident memory, and the memory mapped from files, in KiB.
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
