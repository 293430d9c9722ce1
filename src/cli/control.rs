//! `spoolgate control`: a decision on a concern by a person or a controller.

use std::path::{Path, PathBuf};

use anyhow::Result;
use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::code::Exit;
use spoolgate_wire::control::ControlResponse;
use spoolgate_wire::repair;

use super::handover::{self, Person};
use super::output::Output;
use super::sign;

/// The commands.
#[derive(clap::Subcommand)]
pub(super) enum Command {
    /// Sign a control decision, have the gate decide it, and print the answer.
    #[command(
        after_help = "Examples:\n  spoolgate control apply pause.json\n  spoolgate control apply \
            switch.json --as hermes --key hermes.key\n  spoolgate --format json control apply - < \
            resume.json | jq .data.result\n\nThe file holds the payload, which docs/control.md \
            describes; with `\"dry_run\": true` nothing changes. The exit code is that\nof the \
            answer."
    )]
    Apply(ApplyArgs),
}

/// Applies a control decision.
#[derive(clap::Args)]
pub(super) struct ApplyArgs {
    /// File with the decision, a JSON object; `-` for standard input.
    file: PathBuf,
    #[command(flatten)]
    by: Person,
    /// Key file; default: the gate's own copy in this home's keyring.
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
}

/// Runs a command.
pub(super) fn run(home: &Path, command: &Command, output: &Output) -> Result<Exit> {
    let Command::Apply(ApplyArgs { file, by, key }) = command;
    let payload = sign::read_text(file, "decision")?;
    let key = sign::key_of(home, &by.person, key.as_deref())?;
    let answer = handover::ask_with(
        home,
        &key,
        &by.person,
        ActionName::ControlApply,
        &payload,
        None,
    )?;
    let said = answer.as_ref().and_then(|answer| answer.data.as_ref());
    let said = said.and_then(|data| {
        let own = repair::own_members(data).ok()?;
        serde_json::from_str::<ControlResponse>(own.get()).ok()
    });
    if let Some(said) = said.filter(|_| !output.is_json()) {
        print(&said, output)?;
    }
    handover::report(answer.as_ref(), output, |answer| {
        format!("ledger line {}", answer.audit_ref)
    })
}

fn print(said: &ControlResponse, output: &Output) -> Result<()> {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let joined =
        |texts: Vec<String>| or_dash(Some(texts.join(", ")).filter(|text| !text.is_empty()));
    let status = match said.result.would_be {
        Some(would_be) => format!("{}; would be {}", said.status.as_str(), would_be.as_str()),
        None => said.status.as_str().to_owned(),
    };
    let rows: Vec<Vec<String>> = [
        ("status", status),
        ("action", or_dash(said.action.clone())),
        (
            "concern",
            or_dash(said.concern_id.as_ref().map(ToString::to_string)),
        ),
        (
            "from",
            or_dash(said.from_strategy_id.as_ref().map(ToString::to_string)),
        ),
        (
            "to",
            or_dash(said.to_strategy_id.as_ref().map(ToString::to_string)),
        ),
        (
            "risk mode",
            or_dash(said.risk_mode.map(|mode| mode.as_str().to_owned())),
        ),
        (
            "cancelled",
            joined(
                said.result
                    .cancelled_orders
                    .iter()
                    .map(ToString::to_string)
                    .collect(),
            ),
        ),
        (
            "positions kept",
            joined(
                said.result
                    .positions_kept
                    .iter()
                    .map(|p| format!("{} {}", p.strategy, p.symbol))
                    .collect(),
            ),
        ),
        ("warnings", joined(said.warnings.clone())),
        (
            "errors",
            joined(
                said.errors
                    .iter()
                    .map(|fault| fault.as_str().to_owned())
                    .collect(),
            ),
        ),
    ]
    .into_iter()
    .map(|(name, value)| vec![name.to_owned(), super::output::plain(&value)])
    .collect();
    output.table(&["decision", ""], &[], &rows)
}
