//! `audit rotate`: hands the log's own keys over to new ones.

use std::path::Path;

use anyhow::Result;
use spoolgate_home::Home;
use spoolgate_home::read::real_seams;
use spoolgate_wire::code::Exit;

use crate::cli::handover::Person;
use crate::cli::output::{self, Output};

/// Who rotates, and why.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The reason; it is recorded in the ledger.
    #[arg(long)]
    reason: String,
    #[command(flatten)]
    by: Person,
}

/// Rotates the keys.
pub(super) fn run(home: &Path, args: &Args, output: &Output) -> Result<Exit> {
    let mut open = Home::open(home, real_seams(home)?)?;
    let rotated = open.rotate_keys(&args.by.person, &args.reason)?;
    if output.is_json() {
        output.json(&rotated)?;
        return Ok(Exit::Success);
    }
    output.line(&format!(
        "new keys from ledger line {} on; the old ones are deleted",
        rotated.line
    ))?;
    output.line(&output::plain(&format!("log key  {}", rotated.log_key)))?;
    output.line(
        "Publish this key where you published the previous one: checkpoints and receipts verify \
            under it from now on, older ones under the previous key.",
    )?;
    Ok(Exit::Success)
}
