//! `spoolgate rules lint`: finds every fault of rule files, and correct parts without effect.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;
use spoolgate_host::clock::{Clock, SystemClock};
use spoolgate_rules::approval::{self, Approval};
use spoolgate_rules::lint::council;
use spoolgate_rules::lint::meaning::{self, Warning};
use spoolgate_rules::{RulebookError, golden};
use spoolgate_wire::code::Exit;
use spoolgate_wire::time::Time;

use super::folder::Folder;
use crate::cli::output::{Output, plain};

/// Find everything that is wrong with rule files, and correct parts without effect.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  spoolgate rules lint\n  spoolgate rules lint my-checkout \
        --strict\n  spoolgate --format json rules lint | jq -r \
        'select(.kind==\"fault\").message'\n\nNeeds the files only: no ledger, no gate. Exit \
        codes: 0 no fault (with --strict also: no warning), 1 warnings, with\n--strict, 2 faults. \
        `spoolgate selftest` finds limits that can never bind."
)]
pub(crate) struct Args {
    /// A home, or a folder that is its `rules`; default: the home.
    dir: Option<PathBuf>,
    /// Exit with 1 if there are warnings.
    #[arg(long)]
    strict: bool,
    /// Go on: say it again whenever the files change, until stopped.
    #[arg(long)]
    watch: bool,
    /// As of this time, RFC 3339 UTC; default: now.
    #[arg(long, value_name = "TIME")]
    at: Option<String>,
}

/// A fault or warning as JSON output.
#[derive(Serialize)]
struct RemarkView<'a> {
    kind: &'static str,
    what: &'a str,
    file: &'a str,
    line: Option<usize>,
    message: &'a str,
}

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(300);

/// Runs the command.
pub(super) fn run(home: &Path, args: &Args, output: &Output) -> Result<Exit> {
    if !args.watch {
        return look(home, args, output);
    }
    let mut seen = None;
    loop {
        let texts = Folder::read(home, args.dir.as_ref())?.texts;
        if seen.as_ref() != Some(&texts) {
            seen = Some(texts);
            look(home, args, output)?;
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

fn look(home: &Path, args: &Args, output: &Output) -> Result<Exit> {
    let now = match &args.at {
        Some(text) => Time::parse(text)?,
        None => SystemClock::default().now(),
    };
    let folder = Folder::read(home, args.dir.as_ref())?;
    let read = folder.rules();
    let mut faults: Vec<RulebookError> = folder.unread.clone();
    faults.extend(read.faults.iter().cloned().map(|fault| folder.shown(fault)));
    for (path, text) in folder.cases() {
        faults.extend(
            golden::read(path, text)
                .err()
                .into_iter()
                .flatten()
                .map(|fault| folder.shown(fault)),
        );
    }
    // This finds the faults outside rules and sets: in the other files, and in all of them
    // together.
    let mut of_book = Vec::new();
    match folder.meant_rulebook().filter(|_| faults.is_empty()) {
        Some(Ok(book)) => {
            faults.extend(folder.refused_paths(&book));
            of_book = council::warnings(&book);
            of_book.extend(book.doubts());
            of_book.extend(book.approvers.iter().flat_map(approval::warnings));
        }
        other => {
            let fault = match other {
                Some(book) => book.err(),
                None => Approval::of(&folder.texts).err(),
            };
            faults.extend(fault.map(|fault| folder.shown(fault)));
        }
    }
    let not_admitted = folder.not_admitted(&read).into_iter();
    faults.extend(not_admitted.map(|fault| folder.shown(fault)));
    faults.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
    let (mut warnings, is_cut) = meaning::warnings(&read, now);
    warnings.extend(of_book);
    let exit = output.decided(match (faults.is_empty(), warnings.is_empty()) {
        (false, _) => Exit::Malformed,
        (true, false) if args.strict => Exit::Refused,
        _ => Exit::Success,
    });
    for fault in &faults {
        say(output, "fault", "fault", fault)?;
    }
    for Warning { what, at } in &warnings {
        say(output, "warning", what.as_str(), &folder.shown(at.clone()))?;
    }
    if is_cut {
        output.remark("too many rules to compare each with every other; some were not compared");
    }
    let (rules, sets) = (read.rules.rules.len(), read.rules.sets.len());
    output.remark(&format!(
        "{rules} rules, {sets} sets, {} faults, {} warnings",
        faults.len(),
        warnings.len()
    ));
    Ok(exit)
}

fn say(output: &Output, kind: &'static str, what: &str, at: &RulebookError) -> Result<()> {
    if output.is_json() {
        let RulebookError {
            file,
            line,
            message,
        } = at;
        return output.json(&RemarkView {
            kind,
            what,
            file,
            line: *line,
            message,
        });
    }
    let told = RulebookError {
        message: format!("{kind}: {}", at.message),
        ..at.clone()
    };
    output.line(&plain(&told.to_string()))
}
