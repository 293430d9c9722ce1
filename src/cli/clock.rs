//! `spoolgate clock`: what to do after a step of the machine's clock.

use std::path::Path;

use anyhow::Result;
use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::code::Exit;

use super::handover::{self, Person};
use super::look;
use super::output::Output;

/// The commands.
#[derive(clap::Subcommand)]
pub(super) enum Command {
    /// Accept the machine's clock: its step no longer closes entries.
    #[command(after_help = "Examples:\n  spoolgate clock accept --reason \"NTP was off, checked\"")]
    Accept(Args),
}

/// Accepts the clock.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The reason; it is recorded in the ledger.
    #[arg(long)]
    reason: String,
    #[command(flatten)]
    by: Person,
}

/// Runs a command.
pub(super) fn run(home: &Path, command: &Command, output: &Output) -> Result<Exit> {
    let Command::Accept(args) = command;
    let payload = serde_json::json!({"reason": args.reason});
    let exit = handover::administer(
        home,
        &args.by.person,
        ActionName::ClockAccept,
        &payload,
        output,
        |answer| format!("the clock is accepted (ledger line {})", answer.audit_ref),
    )?;
    if exit == Exit::Success {
        look::remark_closed(home, output)?;
    }
    Ok(exit)
}
