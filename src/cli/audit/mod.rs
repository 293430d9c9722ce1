//! `spoolgate audit`: verifying and reading the ledger. Needs nothing but the audit folder. One file a command.

mod export;
mod filter;
mod lines;
mod query;
mod row;
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
    /// Show the last lines, and with -f those that come.
    #[command(
        after_help = "Examples:\n  spoolgate audit tail\n  spoolgate audit tail -f --action 'order.*' --verdict rejected\n  spoolgate --format json audit tail -n 100 | jq 'select(.kind==\"decision\")'\n\nOf batches that are sealed. Nothing is proved by it: that is `spoolgate audit verify`."
    )]
    Tail(Box<tail::Args>),
    /// Look lines up by what they say, the newest last.
    #[command(
        after_help = "Examples:\n  spoolgate audit query --request my-request-id\n  spoolgate audit query --action 'order.*' --verdict rejected --recent 20\n  spoolgate audit query /evidence/audit --from 2026-03-02T00:00:00Z --to 2026-03-03T00:00:00Z\n  spoolgate --format json audit query --check-failed drawdown | jq -r .request_id\n\nIt reads what stands there, of batches that are sealed, and proves nothing: run `spoolgate audit verify` for that."
    )]
    Query(Box<query::Args>),
    /// Write lines out for other programs.
    #[command(
        after_help = "Examples:\n  spoolgate audit export --format csv --out decisions.csv --kind decision\n  spoolgate audit export --format jsonl --from 2026-03-02T00:00:00Z | jq -c .metadata\n\nIn CSV a text that a spreadsheet would take for a formula has ' before it, and control characters are written as \\n. `--format jsonl` gives the lines' own bytes."
    )]
    Export(Box<export::Args>),
    /// Show one line, or the lines of a request.
    #[command(after_help = "Examples:\n  spoolgate audit show 42\n  spoolgate audit show my-request-id")]
    Show(show::Args),
}

impl Command {
    /// Whether it is the one with formats of its own.
    pub fn is_export(&self) -> bool {
        matches!(self, Command::Export(_))
    }
}

/// Runs a command.
pub fn run(home: &Path, command: &Command, output: &Output) -> Result<Exit> {
    match command {
        Command::Verify(args) => verify::run(home, args, output),
        Command::Tail(args) => tail::run(home, args, output),
        Command::Export(args) => export::run(home, args, output),
        Command::Query(args) => query::run(home, args, output),
        Command::Show(args) => show::run(home, args, output),
    }
}
