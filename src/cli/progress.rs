//! Progress of long work: a bar or a counter on standard error, for a person at a terminal.
//!
//! Nothing is drawn if standard error is not a terminal or is a dumb one, if programs read the
//! output, or if the work is over at once. The bar has no colours, so `NO_COLOR` does not matter.
//! The library knows nothing of this: it calls back once per batch, or once per piece of the log.

use std::fs;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::output::Output;

/// Shorter work shows nothing, because a bar would only flicker.
const PATIENCE: Duration = Duration::from_millis(300);
/// How often a bar is redrawn per second.
const DRAWN_PER_S: u8 = 8;

/// The bar that is drawn now. It is global because a process has one standard error, and any event
/// may print a remark.
static DRAWN: Mutex<Option<ProgressBar>> = Mutex::new(None);

fn drawn() -> std::sync::MutexGuard<'static, Option<ProgressBar>> {
    DRAWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes to standard output while the bar is hidden if both go to a terminal, so that lines and
/// the bar do not mix.
pub(super) fn aside_of_output<T>(write: impl FnOnce() -> T) -> T {
    if io::stdout().is_terminal() {
        aside(write)
    } else {
        write()
    }
}

/// Writes to standard error while the bar is hidden.
pub(super) fn aside<T>(write: impl FnOnce() -> T) -> T {
    // Clone to release the lock first, because the write may block.
    let bar = drawn().clone();
    match bar {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

/// Progress of one piece of work. Dropping it clears it from the terminal, whatever the result of
/// the work.
pub(super) struct Progress {
    bar: ProgressBar,
    begun: Instant,
    /// Whether anything may be drawn at all.
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
        Progress {
            bar,
            begun: Instant::now(),
            is_wanted,
            is_drawn: AtomicBool::new(false),
        }
    }

    /// Creates a bar over a number of bytes, such as the size of a log.
    pub(super) fn bytes(output: &Output, what: &'static str, total: u64) -> Progress {
        let template = format!("{what} {{bar:30}} {{percent}}% {{bytes_per_sec}} {{eta}}");
        Progress::new(output, Some(total), &template)
    }

    /// Creates a bar over a number of things.
    pub(super) fn of(output: &Output, what: &'static str, total: u64) -> Progress {
        Progress::new(
            output,
            Some(total),
            &format!("{what} {{bar:30}} {{pos}} of {{len}} {{eta}}"),
        )
    }

    /// Creates a counter of bytes with an unknown total.
    pub(super) fn count_bytes(output: &Output, what: &'static str) -> Progress {
        Progress::new(output, None, &format!("{what}: {{bytes}} {{elapsed}}"))
    }

    /// Creates a counter of things.
    pub(super) fn count(output: &Output, what: &'static str) -> Progress {
        Progress::new(output, None, &format!("{what}: {{pos}} {{elapsed}}"))
    }

    /// Sets how much is done.
    pub(super) fn at(&self, done: u64) {
        if !self.is_wanted {
            return;
        }
        self.bar.set_position(done);
        self.draw_if_due();
    }

    /// Adds to what is done.
    pub(super) fn more(&self, done: usize) {
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
        self.bar
            .set_draw_target(ProgressDrawTarget::stderr_with_hz(DRAWN_PER_S));
        *drawn() = Some(self.bar.clone());
        self.bar.tick();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_drawn.load(Ordering::Relaxed) {
            *drawn() = None;
        }
        // This is needed even if the bar was never drawn: a bar that is dropped unfinished prints
        // itself.
        self.bar.finish_and_clear();
    }
}

/// Returns the bytes of the log in an audit folder; archived segments count with the size of their
/// archives.
pub(super) fn log_bytes(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .filter_map(Result::ok);
    let logs = entries.filter(|entry| {
        entry
            .file_name()
            .to_str()
            .is_some_and(|name| name.starts_with("log-"))
    });
    logs.filter_map(|entry| entry.metadata().ok())
        .map(|meta| meta.len())
        .fold(0, u64::saturating_add)
}
