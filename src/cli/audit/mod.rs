//! `spoolgate audit`: verifying and reading the ledger. Needs nothing but the audit folder. One file a command.

mod accept_rollback;
mod archive;
mod check_proof;
mod checkpoint;
mod consistency;
mod lines;
mod prove;
mod prune;
mod receipts;
mod rotate;
mod show;
mod tail;
mod verify;

use std::path::Path;

use anyhow::Result;
use spoolgate::wire::code::Exit;

pub(super) use self::lines::records;
pub(super) use self::prove::write_receipt;
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
    /// Compress closed segments; the ledger verifies as before.
    #[command(
        after_help = "Examples:\n  spoolgate audit archive\n  spoolgate audit archive --keep 2\n  zstd -dc audit/log-00000001.jsonl.zst | sha256sum; grep log-00000001 audit/SEGMENTS\n\nSafe beside a running gate. audit/SEGMENTS has the SHA-256 of each closed segment's plain bytes."
    )]
    Archive(archive::Args),
    /// Remove contents of archived segments; proofs stay valid.
    #[command(
        after_help = "Examples:\n  spoolgate audit prune --keep 3 --copied-to /mnt/vault\n  spoolgate audit prune --before log-00000007.jsonl --copied-to /mnt/vault --yes\n  cp /mnt/vault/log-0000000*.jsonl.zst audit/   # brings them back\n\nNeeds the lock: stop the gate first. Without the contents state.db cannot be made again; see docs/evidence.md."
    )]
    Prune(prune::Args),
    /// Give the log new keys: one for checkpoints, one for seals. Stop the watcher first.
    #[command(
        after_help = "Examples:\n  spoolgate audit rotate --reason \"yearly\"\n  spoolgate audit rotate --as owner --reason \"an administrator left\"\n\nThe keys of principals are another matter: see `spoolgate keys rotate`."
    )]
    Rotate(rotate::Args),
    /// Go on with an older copy of the ledger that was put back on purpose.
    #[command(
        after_help = "Examples:\n  spoolgate audit accept-rollback --head state --reason \"disk lost, restored the copy of Monday\"\n  spoolgate audit accept-rollback --head tuesday.checkpoint --reason \"...\""
    )]
    AcceptRollback(accept_rollback::Args),
    /// Make the receipt of a line: a C2SP tlog-proof that anybody can check without this ledger.
    #[command(
        after_help = "Examples:\n  spoolgate audit prove 42 --out 42.tlog-proof\n  spoolgate audit prove my-request-id > my-request.tlog-proof\n  spoolgate audit prove 42 --dir /evidence/audit --checkpoint yesterday.checkpoint"
    )]
    Prove(prove::Args),
    /// Check a receipt offline, and say what it proves.
    #[command(
        after_help = "Examples:\n  spoolgate audit check-proof 42.tlog-proof --key 'example.org/log+1a2b3c4d+AZ...'\n\nExit code 5 if it proves nothing."
    )]
    CheckProof(check_proof::Args),
    /// Print the newest checkpoint, once it was seen to lie on the log.
    #[command(
        after_help = "Examples:\n  spoolgate audit checkpoint > today.checkpoint\n  spoolgate audit verify --head today.checkpoint\n\nExit code 5 if it does not lie on the log."
    )]
    Checkpoint(checkpoint::Args),
    /// Prove that a later checkpoint holds an earlier one, or check such a proof offline.
    #[command(
        after_help = "Examples:\n  spoolgate audit consistency yesterday.checkpoint --out day.consistency\n  spoolgate audit consistency yesterday.checkpoint --check day.consistency --key 'example.org/log+1a2b3c4d+AZ...'\n\nThe proof is the request body that C2SP witnesses take. Exit code 5 if there is none, or it proves nothing;\ntwo checkpoints of one size with two roots are a FORK."
    )]
    Consistency(consistency::Args),
}

/// Runs a command.
pub fn run(home: &Path, command: &Command, output: &Output) -> Result<Exit> {
    match command {
        Command::Verify(args) => verify::run(home, args, output),
        Command::Tail(args) => tail::run(home, args, output),
        Command::Show(args) => show::run(home, args, output),
        Command::Archive(args) => archive::run(home, args, output),
        Command::Prune(args) => prune::run(home, args, output),
        Command::Rotate(args) => rotate::run(home, args, output),
        Command::AcceptRollback(args) => accept_rollback::run(home, args, output),
        Command::Prove(args) => prove::run(home, args, output),
        Command::CheckProof(args) => check_proof::run(args, output),
        Command::Checkpoint(args) => checkpoint::run(home, args, output),
        Command::Consistency(args) => consistency::run(home, args, output),
    }
}
