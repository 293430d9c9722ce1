//! `spoolgate audit`: verifying and reading the ledger. Needs nothing but the audit folder. One file a command.

mod lines;
mod replay;
mod show;
mod tail;
mod verify;

use std::path::Path;

use anyhow::Result;
use spoolgate::wire::code::Exit;

pub(super) use self::lines::records;
pub use self::verify::{print_report, verify_folder};
use super::output::Output;

/// The commands.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Verify the whole ledger.
    #[command(
        after_help = "Examples:\n  spoolgate audit verify\n  spoolgate audit verify /evidence/audit --strict --key 'example.org/log+1a2b3c4d+AZ...'\n  spoolgate audit verify --head yesterday.checkpoint\n\nExit code 5 if anything does not verify."
    )]
    Verify(verify::Args),
    /// Show the last lines.
    #[command(
        after_help = "Examples:\n  spoolgate audit tail\n  spoolgate --format json audit tail -n 100 | jq 'select(.kind==\"decision\")'"
    )]
    Tail(tail::Args),
    /// Show one line, or the lines of a request.
    #[command(after_help = "Examples:\n  spoolgate audit show 42\n  spoolgate audit show my-request-id")]
    Show(show::Args),
    /// Recompute every decision and answer from the first line on, and compare byte for byte.
    #[command(
        after_help = "Examples:\n  spoolgate audit replay\n  spoolgate audit replay /evidence/audit --threads 4\n  spoolgate audit replay --answers spool/out\n  spoolgate --format json audit replay | jq .first\n\nNothing is read but the audit folder (and FILES of --answers). Every line is counted in one row of the table. Exit code\n5 if a line differs, an answer was changed, or a blob or rulebook that is needed is missing."
    )]
    Replay(replay::Args),
}

/// Runs a command.
pub fn run(home: &Path, command: &Command, output: &Output) -> Result<Exit> {
    match command {
        Command::Verify(args) => verify::run(home, args, output),
        Command::Tail(args) => tail::run(home, args, output),
        Command::Show(args) => show::run(home, args, output),
        Command::Replay(args) => replay::run(home, args, output),
    }
}
