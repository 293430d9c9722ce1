//! `audit query`: lines by what they say.

use std::path::Path;

use anyhow::Result;
use spoolgate::wire::code::Exit;

use super::filter::{Filters, Place, tell_missing};
use super::row::{Color, Rows};
use crate::cli::output::Output;

/// Which lines, and of which ledger.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    place: Place,
    /// Only so many of the newest.
    #[arg(short = 'n', long, value_name = "N")]
    recent: Option<usize>,
    #[command(flatten)]
    filters: Filters,
    /// Whether to colour how it came out.
    #[arg(long, value_enum, default_value_t)]
    color: Color,
}

/// Prints the lines, the newest last.
pub fn run(home: &Path, args: &Args, output: &Output) -> Result<Exit> {
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
        output.line("no such lines")?;
    }
    Ok(Exit::Success)
}
