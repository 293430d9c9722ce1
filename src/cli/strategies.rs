//! `spoolgate strategies`: shows the registry. Takes no lock, so it works beside a running gate.

use std::path::Path;

use anyhow::{Result, bail};
use spoolgate_gate::control::{self, StrategyView};
use spoolgate_wire::code::Exit;

use super::look;
use super::output::{Output, plain};

/// The commands.
#[derive(clap::Subcommand)]
pub(super) enum Command {
    /// Show all strategies.
    #[command(
        after_help = "Examples:\n  spoolgate strategies list\n  spoolgate --format json strategies \
            list | jq -r 'select(.status==\"active\").strategy_id'"
    )]
    List,
    /// Show one strategy.
    #[command(
        after_help = "Examples:\n  spoolgate strategies show trend\n  spoolgate --format json \
            strategies show trend | jq .degraded_reasons"
    )]
    Show {
        /// The strategy_id, or the name if the strategy's file has no id.
        id: String,
    },
}

/// Runs a command.
pub(super) fn run(home: &Path, command: &Command, output: &Output) -> Result<Exit> {
    let (view, now) = look::view(home)?;
    let all = control::strategies(&view.state, &view.rulebook, now);
    match command {
        Command::List => list(&all, output)?,
        Command::Show { id } => match all.iter().find(|strategy| strategy.strategy_id == id) {
            Some(strategy) => show(strategy, output)?,
            None => bail!("strategy `{id}` does not exist; `spoolgate strategies list` shows all"),
        },
    }
    Ok(Exit::Success)
}

fn or_dash(text: Option<String>) -> String {
    text.filter(|text| !text.is_empty())
        .unwrap_or_else(|| "-".to_owned())
}

fn yes_no(yes: bool) -> String {
    if yes { "yes" } else { "no" }.to_owned()
}

fn list(all: &[StrategyView<'_>], output: &Output) -> Result<()> {
    if output.is_json() {
        return all.iter().try_for_each(|strategy| output.json(strategy));
    }
    let rows: Vec<Vec<String>> = all
        .iter()
        .map(|strategy| {
            vec![
                strategy.strategy_id.to_owned(),
                or_dash(strategy.concern_id.map(ToString::to_string)),
                strategy.status.to_owned(),
                strategy.risk_mode.as_str().to_owned(),
                yes_no(strategy.runnable),
                yes_no(strategy.degraded),
            ]
        })
        .collect();
    output.table(
        &[
            "strategy",
            "concern",
            "status",
            "risk mode",
            "runnable",
            "degraded",
        ],
        &[],
        &rows,
    )
}

fn show(strategy: &StrategyView<'_>, output: &Output) -> Result<()> {
    if output.is_json() {
        return output.json(strategy);
    }
    let instruments: Vec<String> = strategy
        .instruments
        .iter()
        .map(ToString::to_string)
        .collect();
    let rows: Vec<Vec<String>> = [
        ("strategy", strategy.strategy_id.to_owned()),
        ("name in orders", strategy.name.to_string()),
        (
            "concern",
            or_dash(strategy.concern_id.map(ToString::to_string)),
        ),
        ("status", strategy.status.to_owned()),
        ("status in its file", strategy.file_status.to_owned()),
        ("risk mode", strategy.risk_mode.as_str().to_owned()),
        ("runnable", yes_no(strategy.runnable)),
        (
            "degraded",
            or_dash(Some(plain(&strategy.degraded_reasons.join("; ")))),
        ),
        ("instruments", instruments.join(", ")),
    ]
    .into_iter()
    .map(|(name, value)| vec![name.to_owned(), value])
    .collect();
    output.table(&["what", ""], &[], &rows)
}
