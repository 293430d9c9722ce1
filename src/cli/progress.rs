//! Progress of long work: a bar or a counter on standard error, for whoever sits at a terminal.
//!
//! Nothing is written where standard error is no terminal or a dumb one, where programs read the output, or for
//! work that is over at once. What is drawn has no colour, so `NO_COLOR` has nothing to ask for. The library knows
//! none of this: it calls back once a batch, or once a piece of the log.

use std::fs;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::output::Output;

/// Work that takes no longer shows nothing: a bar that comes and goes at once only flickers.
const PATIENCE: Duration = Duration::from_millis(300);
/// How often a bar is drawn anew.
const DRAWN_PER_S: u8 = 8;

/// What is drawn now. A process has one standard error, and remarks come from wherever an event is told.
static DRAWN: Mutex<Option<ProgressBar>> = Mutex::new(None);

fn drawn() -> std::sync::MutexGuard<'static, Option<ProgressBar>> {
    DRAWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes to standard output while nothing is drawn where both go to a terminal: lines and a bar do not mix.
pub fn aside_of_output<T>(write: impl FnOnce() -> T) -> T {
    if io::stdout().is_terminal() { aside(write) } else { write() }
}

/// Writes to standard error while nothing is drawn there.
pub fn aside<T>(write: impl FnOnce() -> T) -> T {
    // The lock is let go first: what writes may be waited for.
    let bar = drawn().clone();
    match bar {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

/// Progress of one piece of work. It is gone from the terminal when this is dropped, whatever the work came to.
pub struct Progress {
    bar: ProgressBar,
    begun: Instant,
    /// Whether anybody looks.
    is_wanted: bool,
    is_drawn: AtomicBool,
}

impl Progress {
    fn new(output: &Output, length: Option<u64>, template: &str) -> Progress {
        let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let is_wanted = !output.is_json() && !is_dumb && io::stderr().is_terminal();
        Progress { bar, begun: Instant::now(), is_wanted, is_drawn: AtomicBool::new(false) }
    }

    /// A bar over so many bytes, such as those of a log.
    pub fn bytes(output: &Output, what: &'static str, total: u64) -> Progress {
        let template = format!("{what} {{bar:30}} {{percent}}% {{bytes_per_sec}} {{eta}}");
        Progress::new(output, Some(total), &template)
    }

    /// A bar over so many things.
    pub fn of(output: &Output, what: &'static str, total: u64) -> Progress {
        Progress::new(output, Some(total), &format!("{what} {{bar:30}} {{pos}} of {{len}} {{eta}}"))
    }

    /// A counter of bytes: how many there will be is not known.
    pub fn count_bytes(output: &Output, what: &'static str) -> Progress {
        Progress::new(output, None, &format!("{what}: {{bytes}} {{elapsed}}"))
    }

    /// A counter of things.
    pub fn count(output: &Output, what: &'static str) -> Progress {
        Progress::new(output, None, &format!("{what}: {{pos}} {{elapsed}}"))
    }

    /// So much is done.
    pub fn at(&self, done: u64) {
        if !self.is_wanted {
            return;
        }
        self.bar.set_position(done);
        self.draw_if_due();
    }

    /// So much more is done.
    pub fn more(&self, done: usize) {
        if !self.is_wanted {
            return;
        }
        self.bar.inc(u64::try_from(done).unwrap_or(u64::MAX));
        self.draw_if_due();
    }

    fn draw_if_due(&self) {
        if self.begun.elapsed() < PATIENCE || self.is_drawn.swap(true, Ordering::Relaxed) {
            return;
        }
        self.bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(DRAWN_PER_S));
        *drawn() = Some(self.bar.clone());
        self.bar.tick();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_drawn.load(Ordering::Relaxed) {
            *drawn() = None;
        }
        // Also of one that was never drawn: a bar that is dropped unfinished says so.
        self.bar.finish_and_clear();
    }
}

/// Bytes of the log in an audit folder, archived segments by what their archives take.
pub fn log_bytes(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok);
    let logs =
        entries.filter(|entry| entry.file_name().to_str().is_some_and(|name| name.starts_with("log-")));
    logs.filter_map(|entry| entry.metadata().ok()).map(|meta| meta.len()).fold(0, u64::saturating_add)
}
