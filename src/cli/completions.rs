//! `spoolgate completions`: completions for a shell.

use anyhow::Result;
use clap::CommandFactory;
use clap_complete::Shell;
use spoolgate::wire::code::Exit;

use super::output::Output;

/// Completions for a shell.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  spoolgate completions bash > ~/.local/share/bash-completion/completions/spoolgate"
)]
pub struct Args {
    /// Which shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// Runs the command.
pub fn run(args: &Args, output: &Output) -> Result<Exit> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut super::Cli::command(), "spoolgate", &mut text);
    output.raw(&text)?;
    Ok(Exit::Success)
}
