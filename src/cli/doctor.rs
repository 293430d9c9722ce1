//! `spoolgate doctor`: what is wrong with a machine and a home.

use std::path::Path;

use anyhow::{Result, bail};
use spoolgate::wire::code::Exit;

use super::output::Output;

/// Look at this machine and this home: what is wrong, and what to do about it.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  spoolgate doctor")]
pub struct Args {}

/// Runs the command.
pub fn run(home: &Path, _args: &Args, _output: &Output) -> Result<Exit> {
    bail!("`{}`: not built", home.display())
}
