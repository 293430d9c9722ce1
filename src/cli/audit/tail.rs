//! `audit tail`: the last lines, a row each, and with `-f` those that come.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use spoolgate::home::follow::Follower;
use spoolgate::home::query::{Books, Filter};
use spoolgate::ledger::batches::Line;
use spoolgate::wire::code::Exit;

use super::filter::{Filters, Place, tell_missing};
use super::row::{Color, Rows};
use crate::cli::output::Output;
use crate::cli::run::stop_on_signals;

/// How often a ledger that is followed is looked at, milliseconds: two calls of the system.
const LOOK_EVERY_MS: i64 = 250;

/// How many lines, and which.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    place: Place,
    /// How many.
    #[arg(short = 'n', long, default_value_t = 20)]
    lines: usize,
    /// Go on with the lines that come, until stopped.
    #[arg(short = 'f', long)]
    follow: bool,
    #[command(flatten)]
    filters: Filters,
    /// Whether to colour how it came out.
    #[arg(long, value_enum, default_value_t)]
    color: Color,
}

/// Prints the last lines.
pub fn run(home: &Path, args: &Args, output: &Output) -> Result<Exit> {
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

fn follow(home: &Path, args: &Args, filter: &Filter, rows: &Rows<'_>, output: &Output) -> Result<()> {
    let stop = stop_on_signals()?;
    let Some(books) = wait_for(home, args, &stop, output)? else { return Ok(()) };
    tell_missing(&books, output)?;
    let end = books.end()?;
    let mut before = filter.clone();
    before.lines.end = end.next.as_ref().map_or(0, |next| next.seq);
    rows.heading()?;
    books.find(&before, Some(args.lines), &mut |line| rows.line(line))?;
    let mut follower = Follower::new(books, end)?;
    let mut show =
        |line: &Line| -> Result<()> { if filter.matches(line)? { rows.line(line) } else { Ok(()) } };
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

/// The ledger, once there is one; none: it was stopped before.
fn wait_for(home: &Path, args: &Args, stop: &Arc<AtomicBool>, output: &Output) -> Result<Option<Books>> {
    let folder = args.place.folder(home);
    let mut told = false;
    // A ledger appears whole, so that its first file is there or is not.
    while !spoolgate::ledger::segment::is_log(&folder) {
        if !told {
            output.remark(&format!("there is no ledger in `{}` yet; waiting for it", folder.display()));
            told = true;
        }
        if rest(stop)? {
            return Ok(None);
        }
    }
    args.place.books(home).map(Some)
}

/// Waits a little; says whether that was it: stopped, or nobody reads any more.
fn rest(stop: &Arc<AtomicBool>) -> Result<bool> {
    let stdout = std::io::stdout();
    // Nothing is asked for: what ends the wait early is that the other end of a pipe was closed.
    let mut fds = [PollFd::new(&stdout, PollFlags::empty())];
    let timeout = Timespec { tv_sec: 0, tv_nsec: LOOK_EVERY_MS * 1_000_000 };
    match poll(&mut fds, Some(&timeout)) {
        Ok(0) | Err(Errno::INTR) => {}
        Ok(_) => return Ok(true),
        Err(error) => return Err(std::io::Error::from(error).into()),
    }
    Ok(stop.load(Ordering::Relaxed))
}
