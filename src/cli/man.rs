//! `spoolgate man`: writes man pages of all commands, and the reference of the command line for
//! docs/.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::{Command, CommandFactory as _};
use clap_mangen::Man;
use spoolgate_wire::code::Exit;

use super::output::Output;

/// Man pages of all commands.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  spoolgate man ~/.local/share/man/man1\n  spoolgate man --markdown \
        | head -n 40\n\nWith ~/.local/share/man in the man path, `man spoolgate-audit-verify` \
        shows the page of `spoolgate audit verify`."
)]
pub(super) struct Args {
    /// The folder to write to; it is made if it does not exist.
    #[arg(required_unless_present = "markdown", conflicts_with = "markdown")]
    dir: Option<PathBuf>,
    /// Print the help of all commands as one Markdown page instead.
    #[arg(long)]
    markdown: bool,
}

/// Columns of the help texts in the reference, independent of the terminal.
const COLUMNS: usize = 100;

/// Runs the command.
pub(super) fn run(args: &Args, output: &Output) -> Result<Exit> {
    if args.markdown {
        output.raw(markdown()?.as_bytes())?;
        return Ok(Exit::Success);
    }
    let Some(dir) = &args.dir else {
        bail!("name a folder for the man pages, or say --markdown")
    };
    std::fs::create_dir_all(dir).with_context(|| format!("folder `{}`", dir.display()))?;
    let mut command = super::Cli::command().disable_help_subcommand(true);
    command.build();
    write_pages(&command, dir)?;
    output.line(&format!(
        "man pages in {}",
        super::output::plain(&dir.display().to_string())
    ))?;
    Ok(Exit::Success)
}

/// Writes the pages of a command and its subcommands. The command must be built.
fn write_pages(command: &Command, dir: &Path) -> Result<()> {
    for below in command
        .get_subcommands()
        .filter(|below| !below.is_hide_set())
    {
        write_pages(below, dir)?;
    }
    let page = Man::new(command.clone());
    let path = dir.join(page.get_filename());
    let mut text = Vec::new();
    page.render(&mut text)?;
    let text = with_examples(&String::from_utf8(text)?);
    std::fs::write(&path, text).with_context(|| format!("file `{}`", path.display()))
}

/// Moves the examples and remarks, which clap calls "extra", to the sections where readers of man
/// pages expect them.
fn with_examples(page: &str) -> String {
    let Some((before, extra)) = page.split_once(".SH EXTRA\nExamples:\n") else {
        return page.to_owned();
    };
    let (extra, after) = match extra.find(".SH ") {
        Some(next) => extra.split_at(next),
        None => (extra, ""),
    };
    let commands = extra
        .lines()
        .take_while(|line| line.starts_with(' '))
        .count();
    let lines = |from: usize, to: usize| -> String {
        extra
            .lines()
            .skip(from)
            .take(to)
            .map(|line| format!("{}\n", line.trim_start()))
            .collect()
    };
    let remarks = lines(commands, usize::MAX);
    let notes = match remarks.trim() {
        "" => String::new(),
        remarks => format!(".SH NOTES\n{remarks}\n"),
    };
    format!(
        "{before}.SH EXAMPLES\n.nf\n{}.fi\n{notes}{after}",
        lines(0, commands)
    )
}

/// Returns the text of docs/reference/cli.md.
fn markdown() -> Result<String> {
    let mut page = String::from(
        "# Command line\n\nThe help of every command, made by `spoolgate man --markdown`. `--home` \
            and `--format` go with all of them.\n",
    );
    write_command(&mut page, super::Cli::command(), "spoolgate")?;
    Ok(page)
}

/// Writes a command and its subcommands. The subcommands are cloned before this one is built, or
/// each would list the global options again.
fn write_command(page: &mut String, command: Command, name: &str) -> Result<()> {
    let below: Vec<Command> = command.get_subcommands().cloned().collect();
    let mut command = command
        .term_width(COLUMNS)
        .bin_name(name)
        .disable_help_subcommand(true);
    let help = command.render_long_help().to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    writeln!(
        page,
        "\n## {name}\n\n```text\n{}\n```",
        lines.join("\n").trim_end()
    )?;
    for sub in below {
        let name = format!("{name} {}", sub.get_name());
        write_command(page, sub, &name)?;
    }
    Ok(())
}
