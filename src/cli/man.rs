//! `spoolgate man`: man pages of all commands.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::CommandFactory;
use spoolgate::wire::code::Exit;

use super::output::Output;

/// Man pages of all commands.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  spoolgate man ~/.local/share/man/man1")]
pub struct Args {
    /// The folder that they are written to; it is made where it is missing.
    dir: PathBuf,
}

/// Runs the command.
pub fn run(args: &Args, output: &Output) -> Result<Exit> {
    let dir = &args.dir;
    std::fs::create_dir_all(dir).with_context(|| format!("folder `{}`", dir.display()))?;
    clap_mangen::generate_to(super::Cli::command(), dir)
        .with_context(|| format!("folder `{}`", dir.display()))?;
    output.line(&format!("man pages in {}", dir.display()))?;
    Ok(Exit::Success)
}
