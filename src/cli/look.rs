//! `spoolgate portfolio`, `orders`, `fills`: show the state. They take no lock, so they work beside
//! a running gate.

use std::path::Path;

use anyhow::Result;
use spoolgate_gate::record::Event;
use spoolgate_gate::{Change, portfolio};
use spoolgate_home::read::{self, View, real_seams};
use spoolgate_home::rulebook;
use spoolgate_host::rule_folder::load;
use spoolgate_rules::{Bundle, Rulebook};
use spoolgate_trading::order::{Fill, OrderRole};
use spoolgate_trading::usage::LimitUse;
use spoolgate_trading::views::{self, OrderView, PortfolioState};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::code::Exit;
use spoolgate_wire::time::Time;

pub(super) use spoolgate_home::closed::{closed_for_now, rules_fault, why_closed};

use super::explain_words;
use super::output::Output;

/// Shows executions.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  spoolgate fills\n  spoolgate fills --since 2026-01-01T00:00:00Z\n  \
        spoolgate --format json fills | jq -s 'map(.fee|tonumber)|add'"
)]
pub(super) struct FillsArgs {
    /// Recorded at or after this time, RFC 3339 UTC; default: all.
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
}

pub(super) fn view(home: &Path) -> Result<(View, Time)> {
    let seams = real_seams(home)?;
    let mut view = read::read(home, &seams)?;
    // No gate may have recorded yet what it would see.
    let halts = &mut view.state.halts;
    (halts.file, halts.file_flattens) =
        rulebook::halt_file(seams.disk.as_ref(), halts.file_flattens);
    let now = seams.clock.now();
    let now = view.state.clock.last.map_or(now, |last| last.max(now));
    Ok((view, now))
}

/// Remarks what still keeps entries closed, after a person removed one reason: the person may believe
/// that they are open.
pub(super) fn remark_closed(home: &Path, output: &Output) -> Result<()> {
    let (view, _) = view(home)?;
    why_closed(&view.state)
        .iter()
        .for_each(|reason| output.remark(reason));
    Ok(())
}

/// Returns a remark if the rule files differ from those in force, or cannot be used, and no gate
/// has reported it yet. A person who has just edited them must not think that the output shows
/// their effect.
pub(super) fn rules_apart(home: &Path, view: &View) -> Option<String> {
    let in_force = |bundle: &Bundle| bundle.hash() == view.rulebook.hash;
    let is_same = load(home).and_then(|bundle| {
        let is_same = in_force(&bundle);
        if is_same {
            Ok(true)
        } else {
            Rulebook::compile_to_apply(&bundle).map(|_| false)
        }
    });
    match is_same {
        Ok(true) => None,
        Ok(false) => Some(match &view.state.rulebook.refused {
            Some(refused) => refused.in_words(),
            None => "the rule files were changed and are not in force yet; `spoolgate run \
                --until-idle` or a watcher loads them"
                .to_owned(),
        }),
        Err(_) if view.state.rulebook.fault.is_some() => None,
        Err(fault) => Some(format!(
            "rule file {fault}: no gate has tried to load it yet; older rules are in force"
        )),
    }
}

/// Remarks that the rule files have a fault or differ from the rules in force, beside a result or a
/// refusal.
pub(super) fn remark_rules(home: &Path, view: &View, output: &Output) {
    let told = rules_fault(&view.state)
        .into_iter()
        .chain(rules_apart(home, view));
    told.for_each(|told| output.remark(&told));
}

/// Describes an event, including a fault of the rule files.
pub(super) fn told(event: &Event) -> String {
    let faults = event.changes.iter().filter_map(|change| match change {
        Change::RulebookFaulted { fault } => Some(fault.as_str()),
        _ => None,
    });
    [event.note.as_str()]
        .into_iter()
        .chain(faults)
        .collect::<Vec<_>>()
        .join(": ")
}

fn or_dash(amount: Option<Amount>) -> String {
    amount.map_or_else(|| "-".to_owned(), |amount| amount.normalized().to_string())
}

/// Shows the account.
pub(super) fn portfolio(home: &Path, output: &Output) -> Result<Exit> {
    let (view, now) = view(home)?;
    let portfolio = portfolio::portfolio(&view.state, &view.rulebook, now);
    print_portfolio(&portfolio, output)?;
    if !output.is_json() {
        print_limits(&portfolio.limits, output)?;
        let reasons = why_closed(&view.state);
        reasons
            .iter()
            .try_for_each(|reason| output.line(&super::output::plain(reason)))?;
        rules_apart(home, &view)
            .iter()
            .try_for_each(|apart| output.line(&super::output::plain(apart)))?;
    }
    Ok(Exit::Success)
}

/// Prints the account and its positions.
pub(super) fn print_portfolio(portfolio: &PortfolioState, output: &Output) -> Result<()> {
    if output.is_json() {
        return output.json(portfolio);
    }
    let rows: Vec<Vec<String>> = [
        ("equity", or_dash(portfolio.equity)),
        ("cash", or_dash(Some(portfolio.cash))),
        (
            "deposits less withdrawals",
            or_dash(Some(portfolio.net_deposits)),
        ),
        ("realised", or_dash(Some(portfolio.realised))),
        ("unrealised", or_dash(portfolio.unrealised)),
        ("fees", or_dash(Some(portfolio.fees))),
        ("funding", or_dash(Some(portfolio.funding))),
        ("profit and loss of the day", or_dash(portfolio.day_pnl)),
        ("profit and loss of the week", or_dash(portfolio.week_pnl)),
        ("peak equity", or_dash(portfolio.peak_equity)),
        ("worst-case exposure", or_dash(portfolio.exposure)),
        ("risk to stops", or_dash(portfolio.open_risk)),
    ]
    .into_iter()
    .map(|(name, value)| vec![name.to_owned(), value])
    .collect();
    output.table(&["account", "amount"], &["amount"], &rows)?;
    if portfolio.equity.is_none() {
        output.line(
            "A price of an open position is missing or stale, so equity is unknown and entries are \
                refused.",
        )?;
    }
    let rows: Vec<Vec<String>> = portfolio
        .positions
        .iter()
        .map(|position| {
            let stops: Vec<String> = position
                .stops
                .iter()
                .map(|stop| {
                    let note = unconfirmed(stop.size, stop.confirmed);
                    format!(
                        "{} {} at {}{note}",
                        stop.order_id,
                        stop.size.normalized(),
                        or_dash(stop.trigger)
                    )
                })
                .collect();
            vec![
                position.strategy.to_string(),
                position.symbol.to_string(),
                match position.dust {
                    true => format!("{} (dust)", position.direction),
                    false => position.direction.to_owned(),
                },
                or_dash(Some(position.size)),
                position
                    .average_price
                    .clone()
                    .unwrap_or_else(|| "-".to_owned()),
                or_dash(position.mark),
                or_dash(position.unrealised),
                stops.join(", "),
            ]
        })
        .collect();
    if !rows.is_empty() {
        output.heading("Positions")?;
        let header = [
            "strategy",
            "symbol",
            "direction",
            "size",
            "average",
            "mark",
            "unrealised",
            "protective stops",
        ];
        output.table(&header, &["size", "average", "mark", "unrealised"], &rows)?;
    }
    Ok(())
}

/// Prints how much of every limit is used.
fn print_limits(limits: &[LimitUse], output: &Output) -> Result<()> {
    output.heading("Limits, and what is left of them")?;
    let rows: Vec<Vec<String>> = limits
        .iter()
        .map(|limit| {
            let amounts = if limit.unit == "bool" {
                [None; 3]
            } else {
                [limit.used, limit.limit, limit.left]
            };
            let [used, most, left] = amounts.map(or_dash);
            let note = match limit.closed.as_deref() {
                Some(why) => super::output::short(why, 90),
                None if limit.warning => "near its limit".to_owned(),
                None => String::new(),
            };
            let unit = if limit.unit == "bool" {
                ""
            } else {
                limit.unit.as_ref()
            }
            .to_owned();
            vec![
                limit.check.to_owned(),
                limit.of.clone(),
                used,
                most,
                left,
                unit,
                limit.source.to_string(),
                note,
            ]
        })
        .collect();
    let header = [
        "limit", "of", "used", "at most", "left", "unit", "source", "note",
    ];
    output.table(&header, &["used", "at most", "left"], &rows)
}

/// Shows open orders.
pub(super) fn orders(home: &Path, output: &Output) -> Result<Exit> {
    let (view, _) = view(home)?;
    print_orders(&views::orders(&view.state.book, |_| true), output)?;
    Ok(Exit::Success)
}

fn role(role: OrderRole) -> &'static str {
    match role {
        OrderRole::Entry => "entry",
        OrderRole::Exit => "exit",
        OrderRole::Protective => "protective",
        OrderRole::Target => "target",
        OrderRole::Adjust => "adjust",
    }
}

/// Says how much of a protective stop its venue works, unless it works all of it.
fn unconfirmed(size: Amount, confirmed: Amount) -> String {
    if confirmed == size {
        String::new()
    } else if confirmed.is_zero() {
        " (not confirmed)".to_owned()
    } else {
        format!(" ({} confirmed)", confirmed.normalized())
    }
}

/// Prints open orders.
pub(super) fn print_orders(orders: &[OrderView], output: &Output) -> Result<()> {
    if output.is_json() {
        return orders.iter().try_for_each(|order| output.json(order));
    }
    let rows: Vec<Vec<String>> = orders
        .iter()
        .map(|OrderView { order, leaves }| {
            let note = match order.role {
                OrderRole::Protective => unconfirmed(*leaves, order.confirmed()),
                _ => String::new(),
            };
            vec![
                order.order_id.to_string(),
                order.strategy.to_string(),
                order.symbol.to_string(),
                format!(
                    "{}{}{note}",
                    role(order.role),
                    explain_words::stands(order).1
                ),
                order.side.as_str().to_owned(),
                order.order_type.as_str().to_owned(),
                or_dash(Some(order.size)),
                or_dash(Some(*leaves)),
                or_dash(order.price),
                or_dash(order.trigger),
                order.accepted_at.to_string(),
            ]
        })
        .collect();
    if rows.is_empty() {
        return output.line("no open orders");
    }
    let header = [
        "order", "strategy", "symbol", "role", "side", "type", "size", "leaves", "price",
        "trigger", "accepted",
    ];
    output.table(&header, &["size", "leaves", "price", "trigger"], &rows)
}

/// Shows executions.
pub(super) fn fills(home: &Path, args: &FillsArgs, output: &Output) -> Result<Exit> {
    let since = args
        .since
        .as_deref()
        .map_or(Time::from_ms(-62_167_219_200_000), Time::parse)?;
    let (view, _) = view(home)?;
    print_fills(&view.fills_since(since)?, output)?;
    Ok(Exit::Success)
}

/// Shows a fee in account currency, and in what it was paid if that was something else.
pub(super) fn fee(fill: &Fill) -> String {
    let value = fill.fee.normalized();
    match &fill.fee_paid {
        Some(paid) => format!("{value} ({} {})", paid.amount.normalized(), paid.currency),
        None => value.to_string(),
    }
}

/// Prints executions.
pub(super) fn print_fills(fills: &[Fill], output: &Output) -> Result<()> {
    if output.is_json() {
        return fills.iter().try_for_each(|fill| output.json(fill));
    }
    let rows: Vec<Vec<String>> = fills
        .iter()
        .map(|fill| {
            vec![
                fill.market_time.to_string(),
                fill.order_id.to_string(),
                fill.strategy.to_string(),
                fill.symbol.to_string(),
                role(fill.role).to_owned(),
                fill.side.as_str().to_owned(),
                or_dash(Some(fill.size)),
                or_dash(Some(fill.price)),
                fee(fill),
                or_dash(Some(fill.realised)),
            ]
        })
        .collect();
    if rows.is_empty() {
        return output.line("no fills");
    }
    let header = [
        "market time",
        "order",
        "strategy",
        "symbol",
        "role",
        "side",
        "size",
        "price",
        "fee",
        "realised",
    ];
    output.table(&header, &["size", "price", "fee", "realised"], &rows)
}
