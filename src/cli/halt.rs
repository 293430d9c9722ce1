//! `spoolgate halt`: stops entries, and allows them again. Exits are never halted.

use std::path::Path;

use anyhow::Result;
use spoolgate_home::read::{self, real_seams};
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
            halt set --principal trend-bot --reason drill"
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

/// Runs a command.
pub(super) fn run(home: &Path, command: &Command, output: &Output) -> Result<Exit> {
    match command {
        Command::Set(args) => {
            let payload = match &args.principal {
                Some(name) => serde_json::json!({"principal": name, "reason": args.reason}),
                None => serde_json::json!({"reason": args.reason}),
            };
            handover::administer(
                home,
                &args.by.person,
                ActionName::HaltSet,
                &payload,
                output,
                |answer| {
                    format!(
                        "entries are halted; exits are still allowed (ledger line {})",
                        answer.audit_ref
                    )
                },
            )
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
                // Report what else still keeps entries closed, or the person may believe that they
                // are open.
                let view = read::read(home, &real_seams(home)?)?;
                look::why_closed(&view.state)
                    .iter()
                    .for_each(|reason| output.remark(reason));
            }
            Ok(exit)
        }
    }
}
