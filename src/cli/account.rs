//! `spoolgate account`: deposits and withdrawals, which never count as profit or loss.

use std::path::Path;

use anyhow::{Result, bail};
use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::code::Exit;

use super::handover::{self, Person};
use super::output::Output;

/// The commands.
#[derive(clap::Subcommand)]
pub(super) enum Command {
    /// Put money into the account.
    #[command(
        after_help = "Examples:\n  spoolgate account deposit 5000 --reason \"opening balance\""
    )]
    Deposit(Args),
    /// Take money out of the account.
    #[command(
        after_help = "Examples:\n  spoolgate account withdraw 100.50 --reason \"to savings\""
    )]
    Withdraw(Args),
}

/// A deposit or a withdrawal.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Amount in the account currency, above 0.
    #[arg(allow_negative_numbers = true)]
    amount: String,
    /// The reason; it is recorded in the ledger.
    #[arg(long)]
    reason: String,
    #[command(flatten)]
    by: Person,
}

/// Runs a command.
pub(super) fn run(home: &Path, command: &Command, output: &Output) -> Result<Exit> {
    let (args, is_deposit) = match command {
        Command::Deposit(args) => (args, true),
        Command::Withdraw(args) => (args, false),
    };
    let amount = Amount::parse_wire(&args.amount)?;
    if !amount.is_positive() {
        bail!("the amount is {amount}; it must be above 0");
    }
    let signed = if is_deposit { amount } else { -amount };
    let payload = serde_json::json!({"amount": signed, "reason": args.reason});
    handover::administer(
        home,
        &args.by.person,
        ActionName::AccountAdjust,
        &payload,
        output,
        |answer| {
            let cash = handover::value(answer, "AccountAdjusted", "cash");
            format!(
                "the account holds {cash} in cash (ledger line {})",
                answer.audit_ref
            )
        },
    )
}
