//! What a person does about orders and positions with their own hands: cancel an order, close a
//! position. Neither needs the agent, its key or rules that are in order.

use std::path::Path;

use anyhow::Result;
use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::code::Exit;
use spoolgate_wire::ids::OrderId;

use super::explain_words;
use super::handover::{self, Person};
use super::look;
use super::output::Output;

/// The commands about one order.
#[derive(clap::Subcommand)]
pub(super) enum Command {
    /// Cancel any working order but a protective stop, whoever sent it.
    #[command(
        after_help = "Examples:\n  spoolgate order cancel o-12 --reason \"wrong price\"\n  \
            spoolgate order cancel o-12-target --reason \"let it run\"\n\nA protective stop is not \
            cancelled: close its position, which ends the stop too."
    )]
    Cancel(CancelArgs),
    /// State what became of an order at a venue that does not answer.
    #[command(
        after_help = "Examples:\n  spoolgate order assume o-12-stop --gone --reason \"the exchange's \
            page says so\"\n  spoolgate order assume o-12 --gone --filled 0.02 --px 9990 --fee 1.2 \
            --reason \"its statement\"\n  spoolgate order assume o-12 --working --reason \"seen \
            there\"\n\nIt is booked as a report of the order's bridge would be. Look at the venue \
            first: what it reports later of an\norder that is gone closes the symbols of its bridge \
            for entries."
    )]
    Assume(AssumeArgs),
}

/// States what became of an order.
#[derive(clap::Args)]
pub(super) struct AssumeArgs {
    /// The order, as `spoolgate orders` shows it.
    order: String,
    /// The venue works it no longer.
    #[arg(long, required_unless_present = "working", conflicts_with = "working")]
    gone: bool,
    /// The venue works it as last instructed.
    #[arg(long)]
    working: bool,
    /// What it filled in all, units; default: what the book has.
    #[arg(long, allow_negative_numbers = true, conflicts_with = "working")]
    filled: Option<String>,
    /// The price of what it filled besides what the book has.
    #[arg(long, allow_negative_numbers = true, conflicts_with = "working")]
    px: Option<String>,
    /// The fee of that, account currency; default: 0.
    #[arg(long, allow_negative_numbers = true, conflicts_with = "working")]
    fee: Option<String>,
    /// The reason; it is recorded in the ledger.
    #[arg(long)]
    reason: String,
    #[command(flatten)]
    by: Person,
}

/// Cancels an order.
#[derive(clap::Args)]
pub(super) struct CancelArgs {
    /// The order, as `spoolgate orders` shows it.
    order: String,
    /// The reason; it is recorded in the ledger.
    #[arg(long)]
    reason: String,
    #[command(flatten)]
    by: Person,
}

/// Closes a position at the market, or a part of it.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  spoolgate close --strategy trend --symbol BTC-USD --reason \"going \
        on holiday\"\n  spoolgate close --strategy trend --symbol BTC-USD --size 0.01 --reason \
        \"half of it\""
)]
pub(super) struct CloseArgs {
    /// The strategy whose position it is.
    #[arg(long)]
    strategy: String,
    /// The symbol.
    #[arg(long)]
    symbol: String,
    /// How much of it; default: all.
    #[arg(long, allow_negative_numbers = true)]
    size: Option<String>,
    /// The reason; it is recorded in the ledger.
    #[arg(long)]
    reason: String,
    #[command(flatten)]
    by: Person,
}

/// Runs a command about one order.
pub(super) fn run(home: &Path, command: &Command, output: &Output) -> Result<Exit> {
    match command {
        Command::Cancel(args) => cancel(home, args, output),
        Command::Assume(args) => assume(home, args, output),
    }
}

fn assume(home: &Path, args: &AssumeArgs, output: &Output) -> Result<Exit> {
    let state = if args.gone { "gone" } else { "working" };
    let mut payload = serde_json::json!({
        "order_id": args.order, "state": state, "reason": args.reason,
    });
    let figures = [
        ("filled", &args.filled),
        ("px", &args.px),
        ("fee", &args.fee),
    ];
    for (name, figure) in figures {
        if let (Some(figure), Some(members)) = (figure, payload.as_object_mut()) {
            members.insert(name.to_owned(), figure.as_str().into());
        }
    }
    handover::administer(
        home,
        &args.by.person,
        ActionName::VenueAssume,
        &payload,
        output,
        |answer| {
            let filled = handover::value(answer, "VenueAssumed", "filled");
            let line = &answer.audit_ref;
            format!(
                "`{}` counts as {state}, {filled} filled (ledger line {line})",
                args.order
            )
        },
    )
}

fn cancel(home: &Path, args: &CancelArgs, output: &Output) -> Result<Exit> {
    let payload = serde_json::json!({"order_id": args.order, "reason": args.reason});
    handover::administer(
        home,
        &args.by.person,
        ActionName::OrderCancel,
        &payload,
        output,
        |answer| {
            let what = ended(home, &args.order).unwrap_or_else(|| "may be cancelled".to_owned());
            let line = &answer.audit_ref;
            format!("`{}` {what} (ledger line {line})", args.order)
        },
    )
}

/// Says how an order ended, or that its end is asked for; `None` if that cannot be read.
fn ended(home: &Path, order: &str) -> Option<String> {
    let id = OrderId::parse(order).ok()?;
    let (view, _) = look::view(home).ok()?;
    if let Some(order) = view.state.book.orders.get(&id) {
        let bridge = &order.at_venue.as_ref()?.bridge;
        order.ending()?;
        return Some(format!("ends once `{bridge}` has confirmed it"));
    }
    let closed = view.closed_order(id).ok()??;
    Some(explain_words::end(closed.end).to_owned())
}

/// Closes a position.
pub(super) fn close(home: &Path, args: &CloseArgs, output: &Output) -> Result<Exit> {
    let mut payload = serde_json::json!({
        "strategy": args.strategy, "symbol": args.symbol, "reason": args.reason,
    });
    if let (Some(size), Some(members)) = (&args.size, payload.as_object_mut()) {
        members.insert("size".to_owned(), size.as_str().into());
    }
    handover::administer(
        home,
        &args.by.person,
        ActionName::PositionClose,
        &payload,
        output,
        |answer| {
            let value = |key| handover::value(answer, "PositionClosing", key);
            format!(
                "`{}` closes {} {} of `{}` at the market (ledger line {})",
                value("order_id"),
                value("size"),
                args.symbol,
                args.strategy,
                answer.audit_ref
            )
        },
    )
}
