//! `spoolgate rules`: looking at rules and trying them. Everything here only reads.

mod backtest;
mod change;
mod diff;
mod efficacy;
mod explain;
mod facts;
mod fields;
mod folder;
mod lint;
mod test;
mod witness;

use std::path::Path;

use anyhow::{Context, Result};
use spoolgate::wire::code::Exit;
use spoolgate::wire::time::Time;

use super::output::Output;
pub use folder::Folder;

/// The commands.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Decide every logged request again under other rules, and list what would flip.
    Backtest(backtest::Args),
    /// What each rule has blocked, and what would have come of it.
    Efficacy(efficacy::Args),
    /// Show every field that a rule may read.
    Fields(fields::Args),
    /// Say everything that is wrong with rule files, and what is right and means nothing.
    Lint(lint::Args),
    /// Try the golden cases in rules/tests.
    Test(test::Args),
    /// Say rule by rule which conditions hold of a request, and what would have to change.
    Explain(explain::Args),
    /// Say where one rulebook stands to another: tighter, looser, or neither.
    Diff(diff::Args),
}

/// Runs a command.
pub fn run(home: &Path, command: &Command, output: &Output) -> Result<Exit> {
    match command {
        Command::Backtest(args) => backtest::run(home, args, output),
        Command::Efficacy(args) => efficacy::run(home, args, output),
        Command::Fields(args) => fields::run(args, output),
        Command::Lint(args) => lint::run(home, args, output),
        Command::Test(args) => test::run(home, args, output),
        Command::Explain(args) => explain::run(home, args, output),
        Command::Diff(args) => diff::run(home, args, output),
    }
}

/// A time of the command line.
pub fn time(name: &str, text: Option<&str>) -> Result<Option<Time>> {
    text.map(|text| Time::parse(text).with_context(|| format!("--{name}"))).transpose()
}
