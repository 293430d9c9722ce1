//! `spoolgate doctor`: what is wrong with a machine and a home.

use std::path::Path;

use anyhow::{Result, bail};
use spoolgate::home::doctor::{Level, examine};
use spoolgate::host::doctor::user;
use spoolgate::wire::code::Exit;

use super::output::Output;

/// Look at this machine and this home: what is wrong, and what to do about it.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  spoolgate doctor\n  spoolgate doctor --agent-user bot\n  spoolgate --home /srv/gate --format json doctor | jq -r 'select(.level == \"error\").remedy'\n\nIt changes nothing and takes no lock. Exit code 1: there is at least one error; warnings and notes end with 0."
)]
pub struct Args {
    /// A user of the system, by name or number: could an agent that runs as this one write rules, ledger or state?
    #[arg(long, value_name = "NAME")]
    agent_user: Option<String>,
}

/// Runs the command.
pub fn run(home: &Path, args: &Args, output: &Output) -> Result<Exit> {
    let agent = match &args.agent_user {
        None => None,
        Some(name) => match user(name) {
            None => bail!("`{name}` is not in /etc/passwd; name a user of this machine with --agent-user"),
            found => found,
        },
    };
    let mut found = examine(home, agent);
    // The worst last: that is where people look.
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
    Ok(if is_sick { Exit::Refused } else { Exit::Success })
}
