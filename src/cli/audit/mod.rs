//! `spoolgate audit`: verifying and reading the ledger. Needs nothing but the audit folder. One file a command.

mod disclose;
mod lines;
mod redact;
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
    /// Delete sealed fields of a request for good. Every proof stays valid.
    #[command(
        after_help = "Examples:\n  spoolgate audit redact req-1 --reason 'a customer asked for it'\n  spoolgate audit redact 42 --field /artifacts/diff_content --reason 'held a password' --yes\n\nOn the gate's own machine, while no gate runs on the home (exit code 7). Without --yes nothing is done."
    )]
    Redact(redact::Args),
    /// Print the disclosures of a line's sealed fields.
    #[command(
        after_help = "Examples:\n  spoolgate audit disclose 42\n  spoolgate audit disclose 42 --field /artifacts/diff_content\n\nEach is printed behind its digest: base64url(SHA-256(disclosure)), as in RFC 9901. Exit code 1 if one is gone."
    )]
    Disclose(disclose::Args),
}

/// Runs a command.
pub fn run(home: &Path, command: &Command, output: &Output) -> Result<Exit> {
    match command {
        Command::Verify(args) => verify::run(home, args, output),
        Command::Tail(args) => tail::run(home, args, output),
        Command::Show(args) => show::run(home, args, output),
        Command::Redact(args) => redact::run(home, args, output),
        Command::Disclose(args) => disclose::run(home, args, output),
    }
}
