//! `spoolgate heartbeat`: a person answers for an agent that was not heard of.

use std::path::Path;

use anyhow::Result;
use spoolgate::wire::code::Exit;

use super::handover::{self, Person};
use super::output::Output;

/// Answer for an agent that was not heard of: it may enter again.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  spoolgate heartbeat trend-bot\n  echo '{}' | spoolgate sign - --as trend-bot --action heartbeat --key bot.key | spoolgate handle -"
)]
pub struct Args {
    /// The agent.
    principal: String,
    #[command(flatten)]
    by: Person,
}

/// Runs the command.
pub fn run(home: &Path, args: &Args, output: &Output) -> Result<Exit> {
    let payload = serde_json::json!({"principal": args.principal});
    handover::administer(home, &args.by.person, "heartbeat", &payload, output, |answer| {
        format!("the dead man's switch is armed for `{}` (ledger line {})", args.principal, answer.audit_ref)
    })
}
