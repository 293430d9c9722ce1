//! `spoolgate report`: one page for people.

use std::path::Path;

use anyhow::{Result, bail};
use spoolgate::wire::code::Exit;

use super::output::Output;

/// Write one page for people: equity, decisions, refusals, cases, the ledger.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  spoolgate report --html report.html")]
pub struct Args {
    /// The file.
    #[arg(long, value_name = "FILE")]
    html: std::path::PathBuf,
}

/// Runs the command.
pub fn run(home: &Path, _args: &Args, _output: &Output) -> Result<Exit> {
    bail!("`{}`: not built", home.display())
}
