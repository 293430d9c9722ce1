//! `spoolgate handle`: one signed file decided at once.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use spoolgate::wire::answer::Answer;
use spoolgate::wire::code::Exit;
use spoolgate::wire::envelope::REQUEST_BYTES_MAX;

use super::handover::{self, Handed};
use super::output::Output;

/// Decide one signed file at once and print the answer.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  spoolgate handle r1.json\n  spoolgate handle - < r1.json | jq .data\n\nThe exit code is that of the answer. Beside a running watcher the file is handed to it."
)]
pub struct Args {
    /// The signed request; `-` for standard input.
    file: PathBuf,
}

/// Reads a file or standard input, at most what a request may have and one byte more.
pub fn read_input(path: &Path) -> Result<Vec<u8>> {
    let cap = u64::try_from(REQUEST_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        std::io::stdin().take(cap).read_to_end(&mut bytes).context("standard input")?;
    } else {
        let file = File::open(path).with_context(|| format!("file `{}`", path.display()))?;
        file.take(cap).read_to_end(&mut bytes).with_context(|| format!("file `{}`", path.display()))?;
    }
    Ok(bytes)
}

/// Runs the command.
pub fn run(home: &Path, args: &Args, output: &Output) -> Result<Exit> {
    let request = read_input(&args.file)?;
    match handover::decide(home, &request)? {
        Handed::Answered(bytes) => {
            output.raw(&bytes)?;
            let answer: Answer = serde_json::from_slice(&bytes).context("the gate's answer")?;
            Ok(answer.exit())
        }
        Handed::TimedOut => {
            output.remark("the running gate did not answer in time; the request is still in its spool");
            Ok(Exit::WaitTimeout)
        }
    }
}
