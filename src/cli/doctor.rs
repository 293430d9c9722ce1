//! `spoolgate doctor`: checks a machine and a home for problems.

use std::path::Path;

use anyhow::{Result, bail};
use spoolgate_home::doctor::{Level, examine};
use spoolgate_host::doctor::user;
use spoolgate_wire::code::Exit;

use super::output::Output;

/// Check this machine and this home for problems, and say how to fix them.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  spoolgate doctor\n  spoolgate doctor --agent-user bot\n  spoolgate \
        --home /srv/gate --format json doctor | jq -r 'select(.level == \"error\").remedy'\n\nIt \
        changes nothing and takes no lock. Exit code 1: there is at least one error; warnings and \
        notes end with 0."
)]
pub(super) struct Args {
    /// A system user, by name or number: check whether an agent that runs as this user could write
    /// rules, ledger or state.
    #[arg(long, value_name = "NAME")]
    agent_user: Option<String>,
}

/// Runs the command.
pub(super) fn run(home: &Path, args: &Args, output: &Output) -> Result<Exit> {
    let agent = match &args.agent_user {
        None => None,
        Some(name) => match user(name) {
            None => bail!(
                "`{name}` is not in /etc/passwd; name a user of this machine with --agent-user"
            ),
            found => found,
        },
    };
    let mut found = examine(home, agent);
    // Sort the worst last, next to the prompt.
    found.sort_by_key(|finding| finding.level);
    if output.is_json() {
        found.iter().try_for_each(|finding| output.json(finding))?;
    } else {
        for finding in &found {
            let level = format!("{:?}", finding.level).to_lowercase();
            output.line(&super::output::plain(&format!(
                "{level:<8} {:<12} {}: {}",
                finding.what, finding.place, finding.message
            )))?;
            if let Some(remedy) = &finding.remedy {
                output.line(&super::output::plain(&format!("{:>21} {remedy}", "->")))?;
            }
        }
    }
    let is_sick = found.iter().any(|finding| finding.level == Level::Error);
    Ok(if is_sick {
        Exit::Refused
    } else {
        Exit::Success
    })
}
