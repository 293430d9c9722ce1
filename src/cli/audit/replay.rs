//! `audit replay`: prints how many lines replay to the same bytes, and the first that differs.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use spoolgate_home::HomeError;
use spoolgate_host::spool::publish::RESERVE_DIR;
use spoolgate_ledger::segment;
use spoolgate_replay::replay::{
    AnswerFiles, AnswersReport, Class, Difference, Options, Report, replay,
};
use spoolgate_wire::code::Exit;
use walkdir::WalkDir;

use super::receipts;
use crate::cli::output::{self, Output};
use crate::cli::progress::{Progress, log_bytes};

/// What to replay, and how.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The audit folder; default: the home's.
    dir: Option<PathBuf>,
    /// How many threads; default: one per core, at most 8. The result is the same with any number.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    threads: Option<u16>,
    /// A folder of answers such as spool/out: each file must be the answer in its line.
    #[arg(long, value_name = "DIR")]
    answers: Option<PathBuf>,
}

/// Maximum number of threads by default.
const THREADS_DEFAULT_MAX: usize = 8;

/// Runs the replay.
pub(super) fn run(home: &Path, args: &Args, output: &Output) -> Result<Exit> {
    let dir = args
        .dir
        .clone()
        .unwrap_or_else(|| home.join(segment::AUDIT_DIR));
    let disk = receipts::open_audit(&dir)?;
    let cores = || {
        std::thread::available_parallelism()
            .map_or(1, usize::from)
            .min(THREADS_DEFAULT_MAX)
    };
    let options = Options {
        threads: args.threads.map_or_else(cores, usize::from),
        answers: args.answers.as_deref().map(answer_files).transpose()?,
    };
    let progress = Progress::bytes(output, "replaying", log_bytes(&dir));
    let report = replay(Arc::new(disk), Path::new(""), &options, &mut |done| {
        progress.at(done)
    });
    drop(progress);
    let report = match report {
        Err(HomeError::NotAHome(_)) => return Err(HomeError::Record(no_log(&dir)).into()),
        report => report?,
    };
    if output.is_json() {
        output.json(&report)?;
    } else {
        print(&report, output)?;
    }
    Ok(if report.is_same() {
        Exit::Success
    } else {
        Exit::LedgerCorrupt
    })
}

fn no_log(dir: &Path) -> String {
    format!(
        "`{}` has no log; name a home with --home, or its audit folder",
        dir.display()
    )
}

fn answer_files(dir: &Path) -> Result<AnswerFiles> {
    let mut files = AnswerFiles::default();
    // Room for answers on a full disk holds none yet.
    let reserve = Path::new(RESERVE_DIR).file_name();
    let found = WalkDir::new(dir).follow_links(false).into_iter();
    for entry in found.filter_entry(|entry| Some(entry.file_name()) != reserve) {
        let entry = entry.with_context(|| format!("--answers `{}`", dir.display()))?;
        if entry.file_type().is_file() {
            let name = entry.path().strip_prefix(dir).unwrap_or(entry.path());
            let bytes =
                fs::read(entry.path()).with_context(|| format!("`{}`", entry.path().display()))?;
            files.insert(&name.to_string_lossy(), &bytes);
        }
    }
    Ok(files)
}

fn print(report: &Report, output: &Output) -> Result<()> {
    let Report {
        lines,
        decisions,
        answers,
        differences,
        missing,
        of_other_semantics: others,
        ..
    } = report;
    let verdict = match (report.is_same(), *others) {
        (false, _) => "NO".to_owned(),
        (true, 0) => "the same, byte for byte".to_owned(),
        (true, others) => format!(
            "the same, byte for byte, except {others} lines of other versions, which were NOT \
                recomputed"
        ),
    };
    let rows = [
        ("log", report.origin.clone()),
        (
            "lines",
            format!("{lines}, of which {decisions} are decisions"),
        ),
        ("answers", format!("{answers} restored")),
        ("differ", differences.to_string()),
        ("missing", missing.to_string()),
        ("replayed", verdict),
    ];
    let rows: Vec<Vec<String>> = rows
        .into_iter()
        .map(|(name, what)| vec![name.to_owned(), what])
        .collect();
    output.table(&["replay", ""], &[], &rows)?;
    let rows: Vec<Vec<String>> = report
        .rows
        .iter()
        .map(|row| {
            vec![
                row.lines.to_string(),
                class(row.class).to_owned(),
                row.what.clone(),
            ]
        })
        .collect();
    output.table(&["lines", "became", "what"], &["lines"], &rows)?;
    for name in &report.missing_files {
        output.line(&output::plain(&format!(
            "MISSING  {name}, or it does not hash to its name"
        )))?;
    }
    for seq in &report.unanswered {
        output.line(&format!("NO ANSWER  can be recomputed from line {seq}"))?;
    }
    if let Some(why) = &report.broken {
        output.line(&output::plain(&format!(
            "BROKEN  {why}; what follows was not recomputed"
        )))?;
    }
    if let Some(first) = &report.first {
        print_difference(first, output)?;
    }
    report
        .files
        .as_ref()
        .map_or(Ok(()), |files| print_files(files, output))
}

fn class(class: Class) -> &'static str {
    match class {
        Class::Recomputed => "recomputed, the same",
        Class::Record => "checked as a record of an input",
        Class::NotAgain => "cannot be recomputed",
        Class::Differs => "DIFFER",
        Class::Unreached => "not reached",
    }
}

fn print_difference(first: &Difference, output: &Output) -> Result<()> {
    let Difference {
        line,
        kind,
        written_by,
        recomputed_by,
        ..
    } = first;
    let of = first
        .request_id
        .as_ref()
        .map(|id| format!(" of request `{id}`"))
        .unwrap_or_default();
    let at = first
        .offset
        .map(|offset| format!(" from byte {offset} on"))
        .unwrap_or_default();
    output.line(&output::plain(&format!(
        "DIFFERS  line {line}, a `{kind}`{of},{at} is the first to differ"
    )))?;
    if let Some(why) = &first.why {
        output.line(&output::plain(&format!("  {why}")))?;
    }
    if let Some(member) = &first.member {
        let shown = |value: &Option<String>| value.clone().unwrap_or_else(|| "nothing".to_owned());
        output.line(&output::plain(&format!("  member      {member}")))?;
        output.line(&output::plain(&format!(
            "  recorded    {}",
            shown(&first.recorded)
        )))?;
        output.line(&output::plain(&format!(
            "  recomputed  {}",
            shown(&first.recomputed)
        )))?;
    }
    let words = if written_by == recomputed_by {
        format!(
            "decided and recomputed by version {recomputed_by}: the line is not what this program \
                writes"
        )
    } else {
        format!(
            "decided by version {written_by}, recomputed by {recomputed_by}: another program \
                version decided this; run it with that version to tell a change of program from \
                tampering"
        )
    };
    output.line(&output::plain(&format!("  {words}")))
}

fn print_files(files: &AnswersReport, output: &Output) -> Result<()> {
    let AnswersReport {
        same,
        changed,
        missing,
        unknown,
        ..
    } = files;
    output.line(&format!(
        "answers: {same} files are the same, {changed} were changed, {unknown} answer no line; \
            {missing} lines have no file"
    ))?;
    for name in &files.changed_files {
        output.line(&output::plain(&format!("CHANGED  {name}")))?;
    }
    for name in &files.unknown_files {
        output.line(&output::plain(&format!("ANSWERS NO LINE  {name}")))?;
    }
    Ok(())
}
