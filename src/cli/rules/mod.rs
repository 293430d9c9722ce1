//! `spoolgate rules`: shows rules and tries them out. Everything here only reads rules;
//! `approval-reset` writes a line of the ledger.

mod approval_reset;
mod ask;
mod backtest;
mod cases;
mod change;
mod efficacy;
mod explain;
mod facts;
mod fields;
pub(super) mod folder;
mod lint;
mod review;
mod shown;
mod test;
mod witness;

use std::path::Path;

use anyhow::{Context, Result};
use spoolgate_wire::code::Exit;
use spoolgate_wire::time::Time;

use super::output::Output;
pub(super) use folder::Folder;

/// The commands.
#[derive(clap::Subcommand)]
pub(super) enum Command {
    /// Decide every logged request again under other rules, and list the decisions that would flip.
    Backtest(backtest::Args),
    /// Show what each rule has blocked, and how the blocked trades would have ended.
    Efficacy(efficacy::Args),
    /// Show every field that a rule may read.
    Fields(fields::Args),
    /// Find everything that is wrong with rule files, and correct parts without effect.
    Lint(lint::Args),
    /// Run the golden cases in rules/tests.
    Test(test::Args),
    /// Make golden cases from rules: beside each condition, left out, and not known.
    Cases(cases::Args),
    /// Show for each rule which conditions hold of a request, and what would have to change.
    Explain(explain::Args),
    /// Judge the change of a rulebook: does it only tighten, and who has to approve it?
    Review(review::Args),
    /// Let the rule files as they are now come into force without approvals, when the keys of the
    /// approvers are lost.
    ApprovalReset(approval_reset::Args),
    /// Show what the rules do to requests of which only some facts are given.
    Ask(ask::Args),
}

/// Runs a command.
pub(super) fn run(home: &Path, command: &Command, output: &Output) -> Result<Exit> {
    match command {
        Command::Backtest(args) => backtest::run(home, args, output),
        Command::Efficacy(args) => efficacy::run(home, args, output),
        Command::Fields(args) => fields::run(args, output),
        Command::Lint(args) => lint::run(home, args, output),
        Command::Test(args) => test::run(home, args, output),
        Command::Cases(args) => cases::run(home, args, output),
        Command::Explain(args) => explain::run(home, args, output),
        Command::Review(args) => review::run(home, args, output),
        Command::ApprovalReset(args) => approval_reset::run(home, args, output),
        Command::Ask(args) => ask::run(home, args, output),
    }
}

/// Parses a time given on the command line.
pub(super) fn time(name: &str, text: Option<&str>) -> Result<Option<Time>> {
    text.map(|text| Time::parse(text).with_context(|| format!("--{name}")))
        .transpose()
}
