//! `audit tail`: prints the last lines, one row each, and with `-f` new ones as they come.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use spoolgate_ledger::batches::Line;
use spoolgate_replay::follow::Follower;
use spoolgate_replay::query::{Books, Filter};
use spoolgate_wire::code::Exit;

use super::filter::{Filters, Place, tell_missing};
use super::row::{Color, Rows};
use crate::cli::output::Output;
use crate::cli::run::stop_on_signals;

/// How often a followed ledger is checked, in milliseconds. A check costs two system calls.
const LOOK_EVERY_MS: i64 = 250;

/// How many lines, and which ones.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
    /// How many lines to show.
    #[arg(short = 'n', long, default_value_t = 20)]
    lines: usize,
    /// Continue with new lines until stopped.
    #[arg(short = 'f', long)]
    follow: bool,
    #[command(flatten)]
    filters: Filters,
    /// Whether to colour the outcome.
    #[arg(long, value_enum, default_value_t)]
    color: Color,
}

/// Prints the last lines.
pub(super) fn run(home: &Path, args: &Args, output: &Output) -> Result<Exit> {
    let rows = Rows::new(output, args.color);
    let filter = args.filters.filter();
    if args.follow {
        follow(home, args, &filter, &rows, output)?;
        return Ok(Exit::Success);
    }
    let books = args.place.books(home)?;
    tell_missing(&books, output)?;
    rows.heading()?;
    books.find(&filter, Some(args.lines), &mut |line| rows.line(line))?;
    Ok(Exit::Success)
}

fn follow(
    home: &Path,
    args: &Args,
    filter: &Filter,
    rows: &Rows<'_>,
    output: &Output,
) -> Result<()> {
    let stop = stop_on_signals()?;
    let Some(books) = wait_for(home, args, &stop, output)? else {
        return Ok(());
    };
    tell_missing(&books, output)?;
    let end = books.end()?;
    let mut before = filter.clone();
    before.lines.end = end.next.as_ref().map_or(0, |next| next.seq);
    rows.heading()?;
    books.find(&before, Some(args.lines), &mut |line| rows.line(line))?;
    let mut follower = Follower::new(books, end)?;
    let mut show = |line: &Line| -> Result<()> {
        if filter.matches(line)? {
            rows.line(line)
        } else {
            Ok(())
        }
    };
    while !stop.load(Ordering::Relaxed) {
        for remark in follower.poll(&mut show)? {
            output.remark(&remark);
        }
        if rest(&stop)? {
            break;
        }
    }
    Ok(())
}

/// Waits until there is a ledger, and opens it. `None` if the command was stopped before.
fn wait_for(
    home: &Path,
    args: &Args,
    stop: &Arc<AtomicBool>,
    output: &Output,
) -> Result<Option<Books>> {
    let folder = args.place.folder(home);
    let mut told = false;
    // A ledger is created as a whole: its first file exists or it does not.
    while !spoolgate_ledger::segment::is_log(&folder) {
        if !told {
            output.remark(&format!(
                "`{}` has no ledger yet; waiting for it",
                folder.display()
            ));
            told = true;
        }
        if rest(stop)? {
            return Ok(None);
        }
    }
    args.place.books(home).map(Some)
}

/// Waits a little. Returns true if the command should end: it was stopped, or the reader is gone.
fn rest(stop: &Arc<AtomicBool>) -> Result<bool> {
    let stdout = std::io::stdout();
    // No event is requested: only the closed other end of a pipe ends the wait early.
    let mut fds = [PollFd::new(&stdout, PollFlags::empty())];
    let timeout = Timespec {
        tv_sec: 0,
        tv_nsec: LOOK_EVERY_MS * 1_000_000,
    };
    match poll(&mut fds, Some(&timeout)) {
        Ok(0) | Err(Errno::INTR) => {}
        Ok(_) => return Ok(true),
        Err(error) => return Err(std::io::Error::from(error).into()),
    }
    Ok(stop.load(Ordering::Relaxed))
}
