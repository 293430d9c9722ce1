//! Other processes: the program that is measured, and this one in another role.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::bare;

/// The program that is measured.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_spoolgate");

/// Role of a process that runs another one and reports on it: what the system says of children, it
/// says of all together, and a large parent would count as its child's memory.
const MEASURE: &str = "role-measure";
/// Role of the bare server that the watch is compared with.
const SERVER: &str = "role-server";
/// Role of the bare command that one-shot commands are compared with.
const APPEND: &str = "role-append";

/// What a process took.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Usage {
    /// Seconds from start to end.
    pub wall: f64,
    /// Seconds of processor time, user and system.
    pub cpu: f64,
    /// MiB of memory at its peak.
    pub peak_mib: f64,
}

/// Plays another role than that of the benchmark, if the command line says so.
pub(crate) fn other_role() -> Option<Result<()>> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let (role, rest) = given.split_first()?;
    match role.as_str() {
        MEASURE => Some(measure_and_report(rest)),
        SERVER => Some(
            rest.first()
                .context("no folder")
                .and_then(|dir| bare::serve(Path::new(dir))),
        ),
        APPEND => Some(bare::append_once(rest)),
        _ => None,
    }
}

fn itself() -> Result<PathBuf> {
    std::env::current_exe().context("the path of this program")
}

/// Seconds of processor time of this thread so far; not a number where the system does not say.
pub(crate) fn thread_seconds() -> f64 {
    let now = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
    now.map_or(f64::NAN, |now| {
        now.tv_sec() as f64 + now.tv_nsec() as f64 / 1e9
    })
}

fn measure_and_report(command: &[String]) -> Result<()> {
    let (report, command) = command.split_first().context("no report")?;
    let (program, arguments) = command.split_first().context("no program")?;
    let started = Instant::now();
    let status = Command::new(program)
        .args(arguments)
        .stdout(Stdio::null())
        .status()?;
    let wall = started.elapsed().as_secs_f64();
    ensure!(status.success(), "`{program}` ended with {status}");
    let took = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let seconds =
        |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    let cpu = seconds(took.user_time()) + seconds(took.system_time());
    let usage = Usage {
        wall,
        cpu,
        peak_mib: took.max_rss() as f64 / 1024.0,
    };
    std::fs::write(report, serde_json::to_vec(&usage)?)?;
    Ok(())
}

/// Runs a program to its end, its output thrown away, and says what it took.
pub(crate) fn measured<S: AsRef<OsStr>>(
    scratch: &Path,
    program: &str,
    arguments: &[S],
) -> Result<Usage> {
    let report = scratch.join("usage.json");
    let done = Command::new(itself()?)
        .arg(MEASURE)
        .arg(&report)
        .arg(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()?;
    ensure!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    Ok(serde_json::from_slice(&std::fs::read(&report)?)?)
}

/// The gate over a home, not started yet.
pub(crate) fn gate(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command
        .arg("--home")
        .arg(home)
        .args(arguments)
        .stdin(Stdio::null());
    command
}

/// Runs the gate to its end and demands success.
pub(crate) fn succeed(home: &Path, arguments: &[&str]) -> Result<Output> {
    let done = gate(home, arguments).output()?;
    if !done.status.success() {
        bail!(
            "{arguments:?}: {}: {}",
            done.status,
            String::from_utf8_lossy(&done.stderr)
        );
    }
    Ok(done)
}

/// The bare server over a folder, not started yet.
pub(crate) fn bare_server(dir: &Path) -> Result<Command> {
    let mut command = Command::new(itself()?);
    command.arg(SERVER).arg(dir).stdin(Stdio::null());
    Ok(command)
}

/// The bare command: a start, a command line parsed, one durable append.
pub(crate) fn bare_append(log: &Path, file: &Path) -> Result<Command> {
    let mut command = Command::new(itself()?);
    command
        .arg(APPEND)
        .arg("--log")
        .arg(log)
        .arg(file)
        .stdin(Stdio::null());
    Ok(command)
}

/// Whether a tool is on this machine.
pub(crate) fn has(tool: &str, argument: &str) -> bool {
    let asked = Command::new(tool)
        .arg(argument)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    asked.is_ok_and(|status| status.success())
}

/// A line of `/proc/<pid>/status`, KiB.
pub(crate) fn status_kib(pid: u32, name: &str) -> Option<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    value.trim().strip_suffix(" kB")?.parse().ok()
}
