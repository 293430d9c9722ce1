//! `audit accept-rollback`: continues with an older copy of the ledger.

use std::path::{Path, PathBuf};

use anyhow::Result;
use spoolgate_home::Home;
use spoolgate_home::read::real_seams;
use spoolgate_home::rollback::Given;
use spoolgate_wire::code::Exit;

use super::receipts;
use crate::cli::handover::Person;
use crate::cli::output::Output;

/// Which head is given up, by whom, and why.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The head that is given up: a checkpoint or receipt that is no longer on the ledger, a file
    /// that the gate released for a line that is lost (an answer, an instruction, a forwarded
    /// task), or `state` for the head that state/state.db remembers.
    #[arg(long, value_name = "FILE|state")]
    head: PathBuf,
    /// The reason; it is recorded in the ledger.
    #[arg(long)]
    reason: String,
    #[command(flatten)]
    by: Person,
}

/// Accepts the rollback.
pub(super) fn run(home: &Path, args: &Args, output: &Output) -> Result<Exit> {
    let given = if args.head == Path::new("state") {
        Given::State
    } else {
        let shown = args.head.display().to_string();
        Given::File(format!("`{shown}`"), receipts::read_noted(&args.head)?)
    };
    let accepted = Home::accept_rollback(
        home,
        real_seams(home)?,
        &args.by.person,
        &args.reason,
        &given,
    )?;
    if output.is_json() {
        output.json(&accepted)?;
        return Ok(Exit::Success);
    }
    output.line(&format!(
        "ledger line {} records that these heads were given up:",
        accepted.line
    ))?;
    for head in &accepted.given_up.heads {
        output.line(&format!("  {head}"))?;
    }
    output.line(&format!("resumed from {}", accepted.given_up.resumed_from))?;
    output.line(
        "Requests that were answered after that point may get other decisions if their clients \
            send them again. Auditors who noted one of these heads hold a head of another branch: \
            inform them.",
    )?;
    Ok(Exit::Success)
}
