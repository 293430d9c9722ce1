//! Processes that programs of the gate leave behind. A program ends with its process group; what left the group and lost its
//! parent would go on for ever. Where this process is their reaper, they become its children, and are killed.
//!
//! Not reached by this: a process that forks faster than it is killed, one whose parent is alive outside the group, and all
//! of them on a kernel without `/proc/<pid>/task/<tid>/children`.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, waitpid};

/// How often the left behind are looked for when a program ends: killing one makes its children ours.
const LOOKS: u32 = 50;
/// How long a killed process is given before it is looked at again.
const GIVEN: Duration = Duration::from_millis(1);

struct Running {
    /// Whether what is left behind becomes ours, and nothing else does.
    adopts: bool,
    /// Programs that run, and when they were started, clock ticks since boot.
    programs: BTreeMap<u32, u64>,
}

static RUNNING: Mutex<Running> = Mutex::new(Running { adopts: false, programs: BTreeMap::new() });

fn running() -> MutexGuard<'static, Running> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on what programs leave behind is ended with them. Not in a process that has children already: those are not
/// programs of the gate.
///
/// # Errors
/// The system's.
pub fn adopt() -> io::Result<()> {
    if children().is_empty() {
        set_child_subreaper(Some(getpid()))?;
        running().adopts = true;
    }
    Ok(())
}

/// Starts a program. Nobody looks for what was left behind meanwhile, and takes it for that.
///
/// # Errors
/// Those of starting it.
pub(super) fn start(command: &mut Command) -> io::Result<Child> {
    let mut running = running();
    let child = command.spawn()?;
    running.programs.insert(child.id(), started(child.id()).unwrap_or_default());
    Ok(child)
}

/// Ends what a program left behind, now that it has ended and was waited for.
pub(super) fn ended(program: u32) {
    let mut running = running();
    running.programs.remove(&program);
    if !running.adopts {
        return;
    }
    for _ in 0..LOOKS {
        let left: Vec<u32> = children().into_iter().filter(|id| is_left(&running, *id)).collect();
        if left.is_empty() {
            return;
        }
        left.into_iter().for_each(kill);
        std::thread::sleep(GIVEN);
    }
}

/// Whether a child is nobody's any more: it is no program, and was there before every program that runs.
fn is_left(running: &Running, id: u32) -> bool {
    if running.programs.contains_key(&id) {
        return false;
    }
    let Some(since) = started(id) else { return true };
    running.programs.values().all(|program| *program > since)
}

fn kill(id: u32) {
    if let Some(pid) = i32::try_from(id).ok().and_then(Pid::from_raw) {
        // Gone already is as good; one that is not gone yet is met again.
        let _ = kill_process(pid, Signal::KILL);
        let _ = waitpid(Some(pid), WaitOptions::NOHANG);
    }
}

fn children() -> Vec<u32> {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let texts = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    texts
        .flat_map(|text| text.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// When a process was started, clock ticks since boot.
fn started(id: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // Its name may hold spaces and parentheses; the 20th field after it is the time.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(19)?.parse().ok()
}
