//! `spoolgate audit`: verifies and reads the ledger. Most commands need only the audit folder. One
//! file per command.

mod accept_rollback;
mod archive;
mod check_proof;
mod checkpoint;
mod consistency;
mod disclose;
mod export;
mod filter;
mod lines;
mod prove;
mod prune;
mod query;
mod receipts;
mod redact;
mod replay;
mod rotate;
mod row;
mod show;
mod tail;
mod verify;

use std::path::Path;

use anyhow::Result;
use spoolgate_wire::code::Exit;

pub(super) use self::lines::records;
pub(super) use self::prove::write_receipt;
pub(super) use self::verify::{print_report, verify_folder};
use super::output::Output;

/// The commands.
#[derive(clap::Subcommand)]
pub(super) enum Command {
    /// Verify the whole ledger.
    #[command(
        after_help = "Examples:\n  spoolgate audit verify\n  spoolgate audit verify \
            /evidence/audit --key 'example.org/log+1a2b3c4d+AZ...'\n  spoolgate audit verify \
            --head yesterday.checkpoint\n\nExit codes: 0 it verifies, 5 it does not, 6 something \
            could not be read."
    )]
    Verify(verify::Args),
    /// Show the last lines, and with -f new ones as they come.
    #[command(
        after_help = "Examples:\n  spoolgate audit tail\n  spoolgate audit tail -f --action \
            'order.*' --verdict rejected\n  spoolgate --format json audit tail -n 100 | jq \
            'select(.kind==\"decision\")'\n\nOnly sealed batches are shown, and nothing is \
            verified: `spoolgate audit verify` does that."
    )]
    Tail(Box<tail::Args>),
    /// Search lines by their content, newest last.
    #[command(
        after_help = "Examples:\n  spoolgate audit query --request my-request-id\n  spoolgate \
            audit query --action 'order.*' --verdict rejected --recent 20\n  spoolgate audit \
            query /evidence/audit --from 2026-03-02T00:00:00Z --to 2026-03-03T00:00:00Z\n  \
            spoolgate --format json audit query --check-failed drawdown | jq -r \
            .request_id\n\nOnly sealed batches are searched, and nothing is verified: `spoolgate \
            audit verify` does that."
    )]
    Query(Box<query::Args>),
    /// Export lines for other programs.
    #[command(
        after_help = "Examples:\n  spoolgate audit export --format csv --out decisions.csv --kind \
            decision\n  spoolgate audit export --format jsonl --from 2026-03-02T00:00:00Z | jq -c \
            .metadata\n\nIn CSV, a text that a spreadsheet would take for a formula is prefixed \
            with ', and control characters are written as \\n. `--format jsonl` gives the lines' \
            own bytes."
    )]
    Export(Box<export::Args>),
    /// Show one line, or the lines of a request.
    #[command(
        after_help = "Examples:\n  spoolgate audit show 42\n  spoolgate audit show my-request-id"
    )]
    Show(show::Args),
    /// Compress closed segments; the ledger verifies as before.
    #[command(
        after_help = "Examples:\n  spoolgate audit archive\n  spoolgate audit archive --keep 2\n  \
            zstd -dc audit/log-00000001.jsonl.zst | sha256sum; grep log-00000001 \
            audit/SEGMENTS\n\nSafe beside a running gate. audit/SEGMENTS has the SHA-256 of each \
            closed segment's plain bytes."
    )]
    Archive(archive::Args),
    /// Remove the contents of archived segments; proofs stay valid.
    #[command(
        after_help = "Examples:\n  spoolgate audit prune --keep 3 --copied-to /mnt/vault\n  \
            spoolgate audit prune --before log-00000007.jsonl --copied-to /mnt/vault --yes\n  cp \
            /mnt/vault/log-0000000*.jsonl.zst audit/   # brings them back\n\nNeeds the lock: stop \
            the gate first. Without the contents, state.db cannot be rebuilt; see docs/evidence.md."
    )]
    Prune(prune::Args),
    /// Give the log new keys: one for checkpoints, one for seals. Stop the watcher first.
    #[command(
        after_help = "Examples:\n  spoolgate audit rotate --reason \"yearly\"\n  spoolgate audit \
            rotate --as owner --reason \"an administrator left\"\n\nFor keys of principals, see \
            `spoolgate keys rotate`."
    )]
    Rotate(rotate::Args),
    /// Continue with an older copy of the ledger that was restored on purpose.
    #[command(
        after_help = "Examples:\n  spoolgate audit accept-rollback --head state --reason \"disk \
            lost, restored the copy of Monday\"\n  spoolgate audit accept-rollback --head \
            tuesday.checkpoint --reason \"...\""
    )]
    AcceptRollback(accept_rollback::Args),
    /// Make the receipt of a line: a C2SP tlog-proof that anybody can check without this ledger.
    #[command(
        after_help = "Examples:\n  spoolgate audit prove 42 --out 42.tlog-proof\n  spoolgate \
            audit prove my-request-id > my-request.tlog-proof\n  spoolgate audit prove 42 --dir \
            /evidence/audit --checkpoint yesterday.checkpoint"
    )]
    Prove(prove::Args),
    /// Check a receipt offline, and print what it proves.
    #[command(
        after_help = "Examples:\n  spoolgate audit check-proof 42.tlog-proof --key \
            'example.org/log+1a2b3c4d+AZ...'\n\nExit code 5 if it does not hold."
    )]
    CheckProof(check_proof::Args),
    /// Print the newest checkpoint after checking that it lies on the log.
    #[command(
        after_help = "Examples:\n  spoolgate audit checkpoint > today.checkpoint\n  spoolgate \
            audit verify --head today.checkpoint\n\nExit code 5 if it does not lie on the log."
    )]
    Checkpoint(checkpoint::Args),
    /// Prove that a later checkpoint extends an earlier one, or check such a proof offline.
    #[command(
        after_help = "Examples:\n  spoolgate audit consistency yesterday.checkpoint --out \
            day.consistency\n  spoolgate audit consistency yesterday.checkpoint --check \
            day.consistency --key 'example.org/log+1a2b3c4d+AZ...'\n\nThe proof is the request \
            body that C2SP witnesses take. Exit code 5 if there is no proof or it does not \
            hold;\ntwo checkpoints of the same size with different roots are a FORK."
    )]
    Consistency(consistency::Args),
    /// Recompute every decision and answer from the first line, and compare byte for byte.
    #[command(
        after_help = "Examples:\n  spoolgate audit replay\n  spoolgate audit replay \
            /evidence/audit --threads 4\n  spoolgate audit replay --answers spool/out\n  \
            spoolgate --format json audit replay | jq .first\n\nIt reads only the audit folder \
            (and the FILES of --answers). Every line is counted in one row of the table. Exit \
            code 5 if\na line differs, an answer was changed, or a needed blob or rulebook is \
            missing."
    )]
    Replay(replay::Args),
    /// Delete sealed fields of a request for good. Every proof stays valid.
    #[command(
        after_help = "Examples:\n  spoolgate audit redact req-1 --reason 'a customer asked for \
            it'\n  spoolgate audit redact 42 --field /body --reason 'held a password' --yes\n\nOn \
            the gate's own machine, while no gate runs on the home (exit code 7). Without --yes \
            nothing is done."
    )]
    Redact(redact::Args),
    /// Print the disclosures of a line's sealed fields.
    #[command(
        after_help = "Examples:\n  spoolgate audit disclose 42\n  spoolgate audit disclose 42 \
            --field /body\n\nEach is printed behind its digest: base64url(SHA-256(disclosure)), \
            as in RFC 9901. Exit code 1 if one is deleted."
    )]
    Disclose(disclose::Args),
}

impl Command {
    /// Returns whether this is `export`, which has formats of its own.
    pub(super) fn is_export(&self) -> bool {
        matches!(self, Command::Export(_))
    }
}

/// Runs a command.
pub(super) fn run(home: &Path, command: &Command, output: &Output) -> Result<Exit> {
    match command {
        Command::Verify(args) => verify::run(home, args, output),
        Command::Tail(args) => tail::run(home, args, output),
        Command::Export(args) => export::run(home, args, output),
        Command::Query(args) => query::run(home, args, output),
        Command::Show(args) => show::run(home, args, output),
        Command::Archive(args) => archive::run(home, args, output),
        Command::Prune(args) => prune::run(home, args, output),
        Command::Rotate(args) => rotate::run(home, args, output),
        Command::AcceptRollback(args) => accept_rollback::run(home, args, output),
        Command::Prove(args) => prove::run(home, args, output),
        Command::CheckProof(args) => check_proof::run(args, output),
        Command::Checkpoint(args) => checkpoint::run(home, args, output),
        Command::Consistency(args) => consistency::run(home, args, output),
        Command::Replay(args) => replay::run(home, args, output),
        Command::Redact(args) => redact::run(home, args, output),
        Command::Disclose(args) => disclose::run(home, args, output),
    }
}
