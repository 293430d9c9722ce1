//! Ends processes that programs of the gate leave behind. A program ends together with its process
//! group, but a process that left the group and lost its parent would run for ever. If this process
//! is their subreaper, such processes become its children, and it kills them.
//!
//! Out of reach: a process that forks faster than it is killed, one whose parent is alive outside
//! the group, and all of them on a kernel without `/proc/<pid>/task/<tid>/children`.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, waitpid,
};

/// Maximum number of rounds of killing after a program ended: killing a process makes its children
/// ours.
const LOOKS: u32 = 50;
/// Time between two rounds, for killed processes to disappear.
const GIVEN: Duration = Duration::from_millis(1);

struct Running {
    /// Whether orphans become our children, and we have no other children than programs and
    /// orphans.
    adopts: bool,
    /// Running programs by process id, with their start time in clock ticks since boot.
    programs: BTreeMap<u32, u64>,
}

static RUNNING: Mutex<Running> = Mutex::new(Running {
    adopts: false,
    programs: BTreeMap::new(),
});

fn running() -> MutexGuard<'static, Running> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on, ends orphans together with the program that left them behind. Does nothing in a
/// process that already has children, because those are not programs of the gate.
///
/// # Errors
/// Returns the system's error.
pub fn adopt() -> io::Result<()> {
    if children().is_empty() {
        set_child_subreaper(Some(getpid()))?;
        running().adopts = true;
    }
    Ok(())
}

/// Starts a program. Holds the lock, so that a concurrent [`ended`] does not take the new process
/// for an orphan.
///
/// # Errors
/// Returns the error of starting it.
pub(super) fn start(command: &mut Command) -> io::Result<Child> {
    let mut running = running();
    let child = command.spawn()?;
    running
        .programs
        .insert(child.id(), started(child.id()).unwrap_or_default());
    Ok(child)
}

/// Kills what a program left behind. The program has ended and was waited for.
pub(super) fn ended(program: u32) {
    let mut running = running();
    running.programs.remove(&program);
    if !running.adopts {
        return;
    }
    for _ in 0..LOOKS {
        let left: Vec<u32> = children()
            .into_iter()
            .filter(|id| is_left(&running, *id))
            .collect();
        if left.is_empty() {
            return;
        }
        left.into_iter().for_each(kill);
        std::thread::sleep(GIVEN);
    }
}

/// Whether a child is an orphan: it is not a program, and it was started before every running
/// program.
fn is_left(running: &Running, id: u32) -> bool {
    if running.programs.contains_key(&id) {
        return false;
    }
    let Some(since) = started(id) else {
        return true;
    };
    running.programs.values().all(|program| *program > since)
}

fn kill(id: u32) {
    if let Some(pid) = i32::try_from(id).ok().and_then(Pid::from_raw) {
        // It may have ended already; if it is not gone yet, the next round sees it again.
        let _ = kill_process(pid, Signal::KILL);
        let _ = waitpid(Some(pid), WaitOptions::NOHANG);
    }
}

fn children() -> Vec<u32> {
    let tasks = fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten();
    let texts = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    texts
        .flat_map(|text| {
            text.split_whitespace()
                .filter_map(|id| id.parse().ok())
                .collect::<Vec<_>>()
        })
        .collect()
}

/// Start time of a process, in clock ticks since boot.
fn started(id: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The process name may contain spaces and parentheses; the start time is the 20th field after
    // it.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(19)?.parse().ok()
}
