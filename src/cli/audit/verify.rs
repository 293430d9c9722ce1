//! `audit verify`: verifies a ledger and prints the report.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use spoolgate_gate::record::canonical;
use spoolgate_home::HomeError;
use spoolgate_ledger::redacted::Sealed;
use spoolgate_ledger::segment;
use spoolgate_ledger::verify::{self, KeyReport, Options, Reached, Report, VerifyError};
use spoolgate_wire::code::Exit;

use super::receipts;
use crate::cli::output::{self, Output};
use crate::cli::progress::{Progress, log_bytes};

/// What to verify, and against what.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The audit folder; default: the home's.
    dir: Option<PathBuf>,
    /// Do not parse every line: check only the start of a line, its hash and its seal. The holder of
    /// the seal key may have sealed lines that are not JSON.
    #[arg(long)]
    fast: bool,
    /// Parse every line, serialize it again and demand the same bytes. This is the default.
    #[arg(long, conflicts_with_all = ["fast", "chain"])]
    strict: bool,
    /// Check only that each line names the hash of the line before it, without roots, seals and
    /// heads. This does not detect a line that was edited with all later hashes recomputed.
    #[arg(long, conflicts_with = "head")]
    chain: bool,
    /// A checkpoint or receipt noted earlier; its head must lie on this log.
    #[arg(long, value_name = "FILE")]
    head: Vec<PathBuf>,
    /// A verifier key of the log noted earlier; the log must have it, or have had it.
    #[arg(long, value_name = "VKEY")]
    key: Option<String>,
    /// How many threads read lines; default: one per core, at most 8. The result is the same with
    /// any number.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    threads: Option<u16>,
}

/// Maximum number of threads by default.
const THREADS_DEFAULT_MAX: usize = 8;

/// How many times to try again if a ledger does not verify.
const LIVE_TRIES: usize = 2;

/// Verifies a ledger and prints the report.
pub(super) fn run(home: &Path, args: &Args, output: &Output) -> Result<Exit> {
    let dir = args
        .dir
        .clone()
        .unwrap_or_else(|| home.join(segment::AUDIT_DIR));
    let mut options = Options {
        strict: (args.strict || !(args.fast || args.chain)).then_some(canonical),
        chain: args.chain,
        key: args
            .key
            .as_deref()
            .map(str::parse)
            .transpose()
            .context("--key")?,
        heads: Vec::new(),
        threads: match args.threads {
            Some(threads) => usize::from(threads),
            None => std::thread::available_parallelism()
                .map_or(1, usize::from)
                .min(THREADS_DEFAULT_MAX),
        },
    };
    for head in &args.head {
        options
            .heads
            .push((head.display().to_string(), receipts::read_noted(head)?));
    }
    let mut report = verify_folder(&dir, &options, output)?;
    // Beside a running gate, the last batch may be half written at first; real damage stays.
    for _ in 0..LIVE_TRIES {
        if report.ok {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
        report = verify_folder(&dir, &options, output)?;
    }
    print_report(&report, output)?;
    Ok(if report.ok {
        Exit::Success
    } else {
        Exit::LedgerCorrupt
    })
}

/// Verifies the ledger in a folder.
pub(crate) fn verify_folder(dir: &Path, options: &Options, output: &Output) -> Result<Report> {
    let disk = receipts::open_audit(dir)?;
    let progress = Progress::bytes(output, "verifying", log_bytes(dir));
    let report = verify::verify(&disk, Path::new(""), options, &|done| progress.at(done));
    report.map_err(|error| {
        anyhow::anyhow!(match error {
            VerifyError::Disk { path, source } => HomeError::disk(&dir.join(path), source),
            VerifyError::Ledger(error) => HomeError::Ledger(error),
            other => HomeError::Record(other.to_string()),
        })
    })
}

/// Prints a report.
pub(crate) fn print_report(report: &Report, output: &Output) -> Result<()> {
    if output.is_json() {
        return output.json(report);
    }
    let reached = match report.reached {
        Reached::Chain => "chain: every line names the one before it",
        Reached::Seals => {
            "chain and seals: only --head with a checkpoint noted elsewhere detects a cut-off end"
        }
        Reached::RememberedHead => "chain, seals, and a head noted elsewhere",
    };
    output.table(&["ledger", ""], &[], &rows(report, reached))?;
    let unfinished = report.sealed.unfinished.iter();
    let unfinished = unfinished.map(|found| format!("UNFINISHED  {}: {}", found.file, found.what));
    let problems = report.problems.iter().map(|problem| {
        let (file, offset) = (&problem.file, problem.offset);
        format!("PROBLEM  {file} at byte {offset}: {}", problem.what)
    });
    for told in unfinished.chain(problems) {
        // The ledger must not control the terminal of its auditor.
        output.line(&output::plain(&told))?;
    }
    Ok(())
}

/// Returns the rows of the table: a name and a value each.
fn rows(report: &Report, reached: &str) -> Vec<Vec<String>> {
    let row = |name: &str, value: &str| vec![name.to_owned(), value.to_owned()];
    let is_chain_only = report.root.is_empty();
    let counts = format!(
        "{} in {} sealed batches, {} segments",
        report.lines, report.batches, report.segments
    );
    let mut rows = vec![
        row("log", &report.origin),
        row("log key", &report.log_key),
        row("lines", &counts),
    ];
    if !is_chain_only {
        rows.push(row("root", &report.root));
    }
    rows.push(row("head", &report.head));
    rows.push(row("verified", if report.ok { reached } else { "NO" }));
    rows.extend(report.heads.iter().map(|head| row("noted head", head)));
    if !is_chain_only {
        let checkpoint = report.checkpoint.as_deref();
        rows.push(row("checkpoint", checkpoint.unwrap_or("none on the log")));
    }
    if report.keys.len() > 1 {
        let key = |key: &KeyReport| row(&format!("key from line {}", key.from_line), &key.log_key);
        rows.extend(report.keys.iter().map(key));
    }
    if report.ok {
        rows.extend(report.not_shown.iter().map(|what| row("not listed", what)));
    }
    if report.torn > 0 {
        let torn = format!(
            "{} torn batches (not known to be answered), frozen and accounted for",
            report.torn
        );
        rows.push(row("torn", &torn));
    }
    if report.archived > 0 {
        rows.push(row("archived", &format!("{} segments", report.archived)));
    }
    if report.pruned > 0 {
        let pruned = format!(
            "{} segments: of {} lines only the hashes were verified, under the later seals",
            report.pruned, report.unseen_lines
        );
        rows.push(row("pruned", &pruned));
    }
    if report.sealed.fields > 0 {
        let Sealed {
            fields,
            disclosed,
            redacted,
            unfinished,
            not_seen,
            ..
        } = &report.sealed;
        let mut known = if *not_seen {
            "disclosures not verified: the folder lacks `blobs`".to_owned()
        } else {
            format!(
                "{disclosed} disclosures match their commitments, {redacted} redacted by a line"
            )
        };
        if !unfinished.is_empty() {
            known += &format!(", {} redacted by a line but NOT deleted", unfinished.len());
        }
        rows.push(row("sealed fields", &format!("{fields}: {known}")));
    }
    rows
}
