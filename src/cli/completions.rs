//! `spoolgate completions`: prints completions for a shell.

use anyhow::Result;
use clap::{Command, CommandFactory, ValueHint};
use clap_complete::Shell;
use spoolgate_wire::code::Exit;

use super::output::Output;

/// Completions for a shell.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  spoolgate completions bash > \
        ~/.local/share/bash-completion/completions/spoolgate")]
pub(super) struct Args {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// Runs the command.
pub(super) fn run(args: &Args, output: &Output) -> Result<Exit> {
    let mut text = Vec::new();
    clap_complete::generate(
        args.shell,
        &mut with_folders(super::Cli::command()),
        "spoolgate",
        &mut text,
    );
    output.raw(&text)?;
    Ok(Exit::Success)
}

/// Offers only folders as values of arguments named `DIR`.
fn with_folders(command: Command) -> Command {
    let command = command.mut_args(|arg| {
        let is_folder = arg
            .get_value_names()
            .is_some_and(|names| names.iter().any(|name| name == "DIR"));
        if is_folder {
            arg.value_hint(ValueHint::DirPath)
        } else {
            arg
        }
    });
    command.mut_subcommands(with_folders)
}
