//! `spoolgate heartbeat`: a person vouches for an agent that has been silent.

use std::path::Path;

use anyhow::Result;
use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::code::Exit;

use super::handover::{self, Person};
use super::output::Output;

/// Vouch for an agent that has been silent: it may enter again.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  spoolgate heartbeat trend-bot\n  echo '{}' | spoolgate sign - --as \
        trend-bot --action heartbeat --key bot.key | spoolgate handle -"
)]
pub(super) struct Args {
    /// The agent.
    principal: String,
    #[command(flatten)]
    by: Person,
}

/// Runs the command.
pub(super) fn run(home: &Path, args: &Args, output: &Output) -> Result<Exit> {
    let payload = serde_json::json!({"principal": args.principal});
    handover::administer(
        home,
        &args.by.person,
        ActionName::Heartbeat,
        &payload,
        output,
        |answer| {
            format!(
                "the dead man's switch is armed for `{}` (ledger line {})",
                args.principal, answer.audit_ref
            )
        },
    )
}
