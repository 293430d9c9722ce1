//! `spoolgate rules approval-reset`: lets changed rules come into force without approvals, after all
//! keys of approvers were lost.

use std::path::Path;

use anyhow::Result;
use spoolgate_home::Home;
use spoolgate_home::read::real_seams;
use spoolgate_wire::code::Exit;

use crate::cli::handover::Person;
use crate::cli::output::Output;

/// Let the rule files as they are now come into force without approvals, when the keys of the
/// approvers are lost.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  spoolgate rules approval-reset --reason \"both keys were on the lost \
        laptop\" --as owner\n\nNo gate may run meanwhile. The ledger gets an `admin` line with the \
        hash of the rulebook, which comes into force when a\ngate starts; another rulebook needs \
        approvals as before. Exit codes: 0 done, 2 nothing needs approval."
)]
pub(crate) struct Args {
    /// The reason; it is recorded in the ledger.
    #[arg(long)]
    reason: String,
    #[command(flatten)]
    by: Person,
}

/// Runs the command.
pub(super) fn run(home: &Path, args: &Args, output: &Output) -> Result<Exit> {
    let freed = Home::free_rulebook(home, real_seams(home)?, &args.by.person, &args.reason)?;
    if output.is_json() {
        output.json(&freed)?;
        return Ok(Exit::Success);
    }
    output.line(&format!(
        "ledger line {}: rulebook {} may come into force without approvals",
        freed.line, freed.rulebook
    ))?;
    Ok(Exit::Success)
}
