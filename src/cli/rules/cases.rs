//! `spoolgate rules cases`: makes golden cases from rules.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use spoolgate_rules::cases::{self, Made};
use spoolgate_rules::nearest::did_you_mean;
use spoolgate_wire::code::Exit;
use spoolgate_wire::ids::RuleId;

use super::folder::Folder;
use crate::cli::output::{Output, plain};

/// The first line of a file of made cases. A file that begins otherwise is a person's.
const MADE: &str = "# Made by `spoolgate rules cases`: what the rules do beside each condition. Making it again replaces it.\n";

/// Make golden cases from rules: beside each condition, left out, and not known.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  spoolgate rules cases\n  spoolgate rules cases \
        no-entries-high-funding --write rules/tests/made.yaml\n\nThe cases expect what the rules do \
        now: read them once, and `rules test` notices every later change. The same rules\ngive the \
        same cases. A file that was not made by this command is not replaced. Needs the files \
        only: no ledger, no\ngate. Exit codes: 0 made, 2 faults of the rules, or no such rule."
)]
pub(crate) struct Args {
    /// The rule; default: every rule in force or in shadow.
    rule: Option<String>,
    /// Where to write the cases; default: they are printed.
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// A home, or a folder that is its `rules`; default: the home.
    #[arg(long, value_name = "DIR")]
    rules: Option<PathBuf>,
}

/// Checks that the file would not be read as a rule.
fn check_place(home: &Path, args: &Args, path: &Path) -> Result<()> {
    let dir = args.rules.as_deref().unwrap_or(home);
    let below = dir.join("rules");
    let rules = if below.is_dir() {
        below
    } else {
        dir.to_owned()
    };
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) | None => Path::new("."),
    };
    let shown = path.display();
    let folder = std::fs::canonicalize(folder).with_context(|| format!("folder of `{shown}`"))?;
    let rules = std::fs::canonicalize(&rules).with_context(|| rules.display().to_string())?;
    if folder.starts_with(&rules) && !folder.starts_with(rules.join("tests")) {
        bail!(
            "`{shown}` would be a fault of the rules: write the cases into `{}`",
            rules.join("tests").display()
        );
    }
    Ok(())
}

/// Runs the command.
pub(super) fn run(home: &Path, args: &Args, output: &Output) -> Result<Exit> {
    let folder = Folder::read(home, args.rules.as_ref())?;
    let rules = folder.sound_rules()?.rules;
    let rule = args.rule.as_ref().map(|name| {
        let id = RuleId::parse(name).ok();
        id.filter(|id| rules.rules.contains_key(id))
            .with_context(|| {
                let known = rules.rules.keys().map(RuleId::as_str);
                let near = did_you_mean(name, known, "");
                format!("there is no rule `{}`{near}", plain(name))
            })
    });
    let rule = rule.transpose()?;
    let Made { cases, unmade } = cases::cases(&rules, rule.as_ref());
    let text = format!("{MADE}{}", cases::file(&cases));
    for what in &unmade {
        output.remark(&plain(&format!(
            "no request was found for `{what}`: write the case yourself"
        )));
    }
    let Some(path) = &args.write else {
        output.line(text.trim_end())?;
        return Ok(Exit::Success);
    };
    let shown = path.display();
    check_place(home, args, path)?;
    if let Ok(before) = std::fs::read_to_string(path)
        && !before.starts_with(MADE)
    {
        bail!("`{shown}` was not made by this command; name another file, or remove it first");
    }
    std::fs::write(path, text).with_context(|| format!("file `{shown}`"))?;
    output.remark(&format!("{} cases in `{shown}`", cases.len()));
    Ok(Exit::Success)
}
