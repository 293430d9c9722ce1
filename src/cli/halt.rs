//! `spoolgate halt`: stops entries, and allows them again. Exits are never halted.

use std::fs::{self, File};
use std::path::Path;

use anyhow::Result;
use spoolgate_host::lock::LOCK_FILE;
use spoolgate_host::rule_folder::HALT_FILE;
use spoolgate_ledger::disk::is_full;
use spoolgate_ledger::segment;
use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::code::Exit;

use super::handover::{self, Person};
use super::look;
use super::output::Output;

/// The commands.
#[derive(clap::Subcommand)]
pub(super) enum Command {
    /// Halt the entries of all principals, or of one.
    #[command(
        after_help = "Examples:\n  spoolgate halt set --reason \"exchange trouble\"\n  spoolgate \
            halt set --principal trend-bot --reason drill\n\nIf the request cannot be handed over (a \
            full disk, a locked index, rule files that\ncannot be read, no key), the file rules/HALT \
            is created instead, which halts the entries of all\nprincipals, and the exit code is 0."
    )]
    Set(SetArgs),
    /// Clear a halt, the latched drawdown, or the closure of a strategy or a symbol.
    #[command(
        after_help = "Examples:\n  spoolgate halt clear --reason \"exchange is back\"\n  \
            spoolgate halt clear --drawdown --reason reviewed\n  spoolgate halt clear --strategy \
            trend --reason reviewed\n  spoolgate halt clear --symbol BTC-USD --reason \"the gap \
            was real\""
    )]
    Clear(ClearArgs),
}

/// Halts entries.
#[derive(clap::Args)]
pub(super) struct SetArgs {
    /// Whose entries to halt; default: those of all principals.
    #[arg(long)]
    principal: Option<String>,
    /// The reason; it is recorded in the ledger.
    #[arg(long)]
    reason: String,
    #[command(flatten)]
    by: Person,
}

/// Clears a halt.
#[derive(clap::Args)]
pub(super) struct ClearArgs {
    /// The halt of one principal; default: the halt of all principals.
    #[arg(long)]
    principal: Option<String>,
    /// The latched drawdown; its peak starts again at the current equity.
    #[arg(long, conflicts_with = "principal")]
    drawdown: bool,
    /// The closure of one strategy after losses in a row or too frequent executions.
    #[arg(long, conflicts_with_all = ["principal", "drawdown"])]
    strategy: Option<String>,
    /// The halt of entries in one symbol after an implausible price gap.
    #[arg(long, conflicts_with_all = ["principal", "drawdown", "strategy"])]
    symbol: Option<String>,
    /// The reason; it is recorded in the ledger.
    #[arg(long)]
    reason: String,
    #[command(flatten)]
    by: Person,
}

/// Halts entries by the file `rules/HALT`, after a request could not be handed over. That needs
/// neither room for data, nor a key, nor a gate that answers. Where no file can be made any more, it
/// is a second name of the lock, which is empty. `handed` is the outcome if this fails too.
fn brake(home: &Path, handed: Result<Exit>, output: &Output) -> Result<Exit> {
    // In a folder that is not a home, a file would halt nobody.
    if !segment::is_log(&home.join(segment::AUDIT_DIR)) {
        return handed;
    }
    let rules = home.join("rules");
    let made = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(rules.join(HALT_FILE))
        .map(drop)
        .or_else(|error| {
            if !is_full(&error) {
                return Err(error);
            }
            fs::hard_link(home.join(LOCK_FILE), rules.join(HALT_FILE))
        })
        .and_then(|()| File::open(&rules)?.sync_all());
    if let Err(source) = made {
        output.remark(&format!(
            "`{}` could not be created either: {source}; stop the gate, which stops entries",
            rules.join(HALT_FILE).display()
        ));
        return handed;
    }
    if let Err(error) = handed {
        output.remark(&format!("{error:#}"));
    }
    let done = "`rules/HALT` was created instead: entries of all principals are halted until you \
        remove it, and exits are still allowed; a running gate records it within seconds";
    if output.is_json() {
        output.json(&serde_json::json!({"halted_by": "rules/HALT"}))?;
    } else {
        output.line(done)?;
    }
    Ok(Exit::Success)
}

/// Runs a command.
pub(super) fn run(home: &Path, command: &Command, output: &Output) -> Result<Exit> {
    match command {
        Command::Set(args) => {
            let payload = match &args.principal {
                Some(name) => serde_json::json!({"principal": name, "reason": args.reason}),
                None => serde_json::json!({"reason": args.reason}),
            };
            let handed = handover::administer(
                home,
                &args.by.person,
                ActionName::HaltSet,
                &payload,
                output,
                |answer| {
                    format!(
                        "entries are halted and working entries are pulled; exits are still allowed \
                            (ledger line {})",
                        answer.audit_ref
                    )
                },
            );
            match handed {
                Ok(Exit::WaitTimeout) | Err(_) => brake(home, handed, output),
                Ok(exit) => Ok(exit),
            }
        }
        Command::Clear(args) => {
            let (scope, what) = match (&args.principal, &args.strategy, &args.symbol, args.drawdown)
            {
                (Some(name), ..) => (
                    serde_json::json!({"principal": name}),
                    format!("no halt of `{name}` alone is in force"),
                ),
                (None, Some(name), ..) => (
                    serde_json::json!({"strategy": name}),
                    format!("losses in a row and executions of `{name}` count from zero again"),
                ),
                (None, None, Some(symbol), _) => (
                    serde_json::json!({"symbol": symbol}),
                    format!("entries in `{symbol}` are allowed again"),
                ),
                (None, None, None, true) => (
                    serde_json::json!("drawdown"),
                    "the latched drawdown is cleared".to_owned(),
                ),
                (None, None, None, false) => (
                    serde_json::json!("all"),
                    "no halt of all principals is in force".to_owned(),
                ),
            };
            let payload = serde_json::json!({"scope": scope, "reason": args.reason});
            let exit = handover::administer(
                home,
                &args.by.person,
                ActionName::HaltClear,
                &payload,
                output,
                |answer| format!("{what} (ledger line {})", answer.audit_ref),
            )?;
            if exit == Exit::Success {
                look::remark_closed(home, output)?;
            }
            Ok(exit)
        }
    }
}
