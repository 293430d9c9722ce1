//! `spoolgate position`: what a person corrects about a position in the book.

use std::path::Path;

use anyhow::Result;
use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::code::Exit;

use super::handover::{self, Person};
use super::output::Output;

/// The commands about one position.
#[derive(clap::Subcommand)]
pub(super) enum Command {
    /// Book a difference between the book and a venue.
    #[command(
        after_help = "Examples:\n  spoolgate position adjust --strategy trend --symbol BTC-USD --size \
            -0.0001 --price 6795 --reason \"a fee that the venue took in coins\"\n  spoolgate position \
            adjust --strategy trend --symbol BTC-USD --size 0.02 --price 6800 --reason \"bought by \
            hand\"\n\nIt is booked as a fill of role `adjust` without a fee, only for a position at a \
            venue, behind a bridge or\nimitated. Stops and targets follow. What is added without a stop closes the \
            symbol for entries until `halt clear --symbol`."
    )]
    Adjust(AdjustArgs),
}

/// Books a difference.
#[derive(clap::Args)]
pub(super) struct AdjustArgs {
    /// The strategy whose position it is.
    #[arg(long)]
    strategy: String,
    /// The symbol.
    #[arg(long)]
    symbol: String,
    /// What is added to the signed position: above 0 like a purchase, below 0 like a sale.
    #[arg(long, allow_negative_numbers = true)]
    size: String,
    /// The price at which it is booked.
    #[arg(long, allow_negative_numbers = true)]
    price: String,
    /// The reason; it is recorded in the ledger.
    #[arg(long)]
    reason: String,
    #[command(flatten)]
    by: Person,
}

/// Runs a command about one position.
pub(super) fn run(home: &Path, command: &Command, output: &Output) -> Result<Exit> {
    let Command::Adjust(args) = command;
    let payload = serde_json::json!({
        "strategy": args.strategy, "symbol": args.symbol, "size": args.size, "price": args.price,
        "reason": args.reason,
    });
    handover::administer(
        home,
        &args.by.person,
        ActionName::PositionAdjust,
        &payload,
        output,
        |answer| {
            let value = |key| handover::value(answer, "PositionAdjusted", key);
            format!(
                "`{}` adds {} {}: `{}` holds {} now (ledger line {})",
                value("order_id"),
                args.size,
                args.symbol,
                args.strategy,
                value("position"),
                answer.audit_ref
            )
        },
    )
}
