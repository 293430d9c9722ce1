//! The bridge's process, and what was seen of it, in order.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process_group};

/// Number of events that a failure shows.
const SHOWN_EVENTS: usize = 8;
/// Number of bytes of the bridge's standard error that a failure shows.
const SHOWN_BYTES: usize = 400;

/// A moment at which the suite sees something of the bridge, and can end it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// The bridge has taken a file out of its folder.
    Taken,
    /// A request has arrived at the exchange.
    Asked,
    /// The exchange has carried a request out and not answered yet.
    Worked,
    /// The exchange has answered a request.
    Answered,
    /// A signed request of the bridge has arrived at the gate.
    Reported,
    /// The gate has answered a signed request.
    Booked,
}

/// Something that was seen of the bridge.
#[derive(Clone)]
pub(super) struct Event {
    pub what: What,
    /// The instruction, the operation at the exchange or the kind of report.
    pub verb: String,
    /// `<order>.<version>`, or empty where it is about no order.
    pub about: String,
}

/// Why a case fails.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    /// What the protocol demands.
    pub due: String,
    /// What happened.
    pub seen: String,
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure {
            due: "the suite can use its files".to_owned(),
            seen: error.to_string(),
        }
    }
}

/// The process and its trace.
pub(super) struct Trace {
    command: Vec<OsString>,
    stderr: PathBuf,
    child: Option<Child>,
    /// When it was started last.
    pub started: Option<Instant>,
    /// Everything seen so far.
    pub events: Vec<Event>,
    /// The first thing that the protocol forbids at any time.
    pub fault: Option<Failure>,
    /// The event at which the bridge is killed next: kind and verb.
    pub kill_at: Option<(What, &'static str)>,
}

impl Trace {
    /// Prepares a process; `command` holds all its words, and its output goes to `stderr`.
    pub(super) fn new(command: Vec<OsString>, stderr: PathBuf) -> Trace {
        Trace {
            command,
            stderr,
            child: None,
            started: None,
            events: Vec::new(),
            fault: None,
            kill_at: None,
        }
    }

    /// Starts the bridge in a process group of its own.
    ///
    /// # Errors
    /// The system's error if the program cannot be started.
    pub(super) fn start(&mut self) -> io::Result<()> {
        let mut words = self.command.iter();
        let program = words.next().ok_or(io::ErrorKind::InvalidInput)?;
        let mut log = OpenOptions::new();
        let log = log.create(true).append(true).open(&self.stderr)?;
        let mut command = Command::new(program);
        command
            .args(words)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0);
        self.child = Some(command.spawn()?);
        self.started = Some(Instant::now());
        Ok(())
    }

    /// Ends the process group with SIGKILL.
    pub(super) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Not reaped yet, so the id cannot belong to another group.
            let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
            if let Some(id) = id {
                let _ = kill_process_group(id, Signal::KILL);
            }
            let _ = child.wait();
        }
    }

    /// Whether the suite has ended the bridge.
    pub(super) fn is_killed(&self) -> bool {
        self.child.is_none()
    }

    /// How the bridge ended by itself, if it did.
    pub(super) fn has_ended(&mut self) -> Option<ExitStatus> {
        self.child.as_mut()?.try_wait().ok().flatten()
    }

    /// Records an event. Returns whether the bridge was killed at it, so that nothing may follow.
    pub(super) fn note(&mut self, what: What, verb: &str, about: &str) -> bool {
        self.events.push(Event {
            what,
            verb: verb.to_owned(),
            about: about.to_owned(),
        });
        let is_it = |(at, of): (What, &str)| at == what && of == verb && !about.is_empty();
        let is_due = self.kill_at.is_some_and(is_it);
        if is_due {
            self.kill_at = None;
            self.kill();
        }
        is_due
    }

    /// Records what the protocol forbids at any time; only the first fault counts.
    pub(super) fn fault(&mut self, due: &str, seen: String) {
        let due = due.to_owned();
        self.fault.get_or_insert(Failure { due, seen });
    }

    /// Number of events of a kind; `about` may be the start of `<order>.<version>`.
    pub(super) fn count(&self, what: What, verb: &str, about: &str) -> usize {
        let is_it = |it: &&Event| it.what == what && it.verb == verb && it.about.starts_with(about);
        self.events.iter().filter(is_it).count()
    }

    /// The last events in words, without polls, and the end of what the bridge has printed.
    pub(super) fn tail(&mut self) -> String {
        let told = self.events.iter().filter(|it| !it.about.is_empty());
        let told: Vec<String> = told
            .map(|it| format!("{:?} {} {}", it.what, it.verb, it.about).to_lowercase())
            .collect();
        let from = told.len().saturating_sub(SHOWN_EVENTS);
        let last = told.get(from..).unwrap_or_default().join(", ");
        let mut seen = match last.as_str() {
            "" => "nothing".to_owned(),
            last => format!("last: {last}"),
        };
        if let Some(status) = self.has_ended() {
            seen = format!("the bridge ended ({status}); {seen}");
        }
        let printed = fs::read(&self.stderr).unwrap_or_default();
        let from = printed.len().saturating_sub(SHOWN_BYTES);
        let printed = String::from_utf8_lossy(printed.get(from..).unwrap_or_default());
        match printed.trim() {
            "" => seen,
            printed => format!("{seen}; it printed: {printed}"),
        }
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        self.kill();
    }
}
