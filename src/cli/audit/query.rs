//! `audit query`: searches lines by their content.

use std::path::Path;

use anyhow::Result;
use spoolgate_wire::code::Exit;

use super::filter::{Filters, Place, tell_missing};
use super::row::{Color, Rows};
use crate::cli::output::Output;

/// Which lines, and from which ledger.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
    /// Only this many of the newest lines.
    #[arg(short = 'n', long, value_name = "N")]
    recent: Option<usize>,
    #[command(flatten)]
    filters: Filters,
    /// Whether to colour the outcome.
    #[arg(long, value_enum, default_value_t)]
    color: Color,
}

/// Prints the lines, newest last.
pub(super) fn run(home: &Path, args: &Args, output: &Output) -> Result<Exit> {
    let books = args.place.books(home)?;
    tell_missing(&books, output)?;
    let rows = Rows::new(output, args.color);
    let mut found = false;
    books.find(&args.filters.filter(), args.recent, &mut |line| {
        if !std::mem::replace(&mut found, true) {
            rows.heading()?;
        }
        rows.line(line)
    })?;
    if !found && !output.is_json() {
        output.line("no lines match")?;
    }
    Ok(Exit::Success)
}
