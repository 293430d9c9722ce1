//! `spoolgate doctor`: checks a machine and a home for problems.

use std::path::Path;

use anyhow::{Result, bail};
use spoolgate_gate::openings::Opening;
use spoolgate_home::doctor::{Level, examine};
use spoolgate_home::dry_run::Trial;
use spoolgate_home::openings::{Entries, Openings};
use spoolgate_home::read::real_seams;
use spoolgate_home::status::holder;
use spoolgate_host::doctor::user;
use spoolgate_wire::code::Exit;

use super::output::Output;

/// Check this machine and this home for problems, and say how to fix them.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  spoolgate doctor\n  spoolgate doctor --agent-user bot\n  spoolgate \
        doctor --why\n  spoolgate --home /srv/gate --format json doctor | jq -r 'select(.level == \"error\").remedy'\n\nIt \
        changes nothing and takes no lock. Exit code 1: there is at least one error; warnings and \
        notes end with 0.\nWith --why, the smallest entry of each strategy is decided as if its agent had sent it, \
        without carrying it out;\nexit code 1: some of them are closed."
)]
pub(super) struct Args {
    /// A system user, by name or number: check whether an agent that runs as this user could write
    /// rules, ledger or state.
    #[arg(long, value_name = "NAME")]
    agent_user: Option<String>,
    /// Only say which strategies can enter now, and what keeps the others from it.
    #[arg(long, conflicts_with = "agent_user")]
    why: bool,
}

/// Runs the command.
pub(super) fn run(home: &Path, args: &Args, output: &Output) -> Result<Exit> {
    if args.why {
        return why(home, output);
    }
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

/// Says which strategies can enter, by deciding their smallest entries.
fn why(home: &Path, output: &Output) -> Result<Exit> {
    let seams = real_seams(home)?;
    let trial = Trial::of(home, &seams)?;
    let told = Openings::of(&trial)?;
    let exit = output.decided(match told.entries {
        Entries::Open => Exit::Success,
        Entries::InPart | Entries::Closed => Exit::Refused,
    });
    if holder(home, seams.disk.as_ref())?.is_none() {
        output.remark("no gate is running over this home, so nobody decides: spoolgate watch");
    }
    if output.is_json() {
        output.json(&told)?;
        return Ok(exit);
    }
    output.line(&format!("entries are {}", told.entries.as_str()))?;
    let rows: Vec<Vec<String>> = told.openings.iter().map(row).collect();
    if !rows.is_empty() {
        output.line("")?;
        output.table(
            &["strategy", "symbol", "direction", "entries", "why"],
            &[],
            &rows,
        )?;
    }
    if told.left_out > 0 {
        output.remark(&format!("{} more were not looked at", told.left_out));
    }
    Ok(exit)
}

fn row(opening: &Opening) -> Vec<String> {
    let Opening {
        leg,
        entries,
        cause,
    } = opening;
    let cause = cause.as_ref();
    vec![
        leg.strategy.to_string(),
        leg.symbol.to_string(),
        leg.direction.as_str().to_owned(),
        entries.as_str().to_owned(),
        cause.map_or_else(String::new, |cause| {
            format!("{}: {}", cause.check, cause.why)
        }),
    ]
}
