//! `audit prune`: removes the contents of archived segments from the home, and keeps what proofs
//! need.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use spoolgate_home::Home;
use spoolgate_home::pruning::UpTo;
use spoolgate_home::read::real_seams;
use spoolgate_ledger::disk::Disk;
use spoolgate_ledger::segment;
use spoolgate_ledger::verify::Options;
use spoolgate_wire::code::Exit;

use super::receipts::open_or;
use super::verify::{print_report, verify_folder};
use crate::cli::output::Output;
use crate::cli::progress::Progress;

/// Which segments, and where their copies are.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Prune all segments before this one (`log-00000007.jsonl`, or 7).
    #[arg(long, value_name = "SEGMENT", value_parser = segment_number, conflicts_with = "keep")]
    before: Option<u32>,
    /// Prune all closed segments but the newest N.
    #[arg(long, value_name = "N", required_unless_present = "before")]
    keep: Option<usize>,
    /// The folder that the archives were copied to. Each copy must unpack to the same bytes.
    #[arg(long, value_name = "DIR", required_unless_present = "no_copy")]
    copied_to: Option<PathBuf>,
    /// There are no copies, or they cannot be read here: the contents may be lost for ever.
    #[arg(long, conflicts_with = "copied_to")]
    no_copy: bool,
    /// Prune. Without this, everything is checked and nothing is removed.
    #[arg(long)]
    yes: bool,
}

fn segment_number(text: &str) -> Result<u32> {
    let number = text.parse().ok().or_else(|| segment::number_of(text));
    number
        .filter(|number| *number > 0)
        .context("name a segment, as `log-00000007.jsonl` or 7")
}

/// Prunes segments.
pub(super) fn run(home: &Path, args: &Args, output: &Output) -> Result<Exit> {
    let seams = real_seams(home)?;
    // Verify the seals and the remaining segments too: they vouch for what is about to be removed.
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let report = verify_folder(
        &home.join(segment::AUDIT_DIR),
        &Options {
            threads,
            ..Options::default()
        },
        output,
    )?;
    if !report.ok {
        print_report(&report, output)?;
        return Ok(Exit::LedgerCorrupt);
    }
    let up_to = match (args.before, args.keep) {
        (Some(number), _) => UpTo::Before(number),
        (None, Some(count)) => UpTo::Keep(count),
        (None, None) => bail!("name the segments with --before SEGMENT or --keep N"),
    };
    let copies = match &args.copied_to {
        Some(folder) => Some(open_or(folder, || {
            format!("--copied-to `{}`", folder.display())
        })?),
        None => None,
    };
    let progress = Progress::count(output, "segments checked");
    let copies = copies.as_ref().map(|copies| copies as &dyn Disk);
    let pruned = Home::prune(home, seams, up_to, copies, !args.yes, &mut |done| {
        progress.at(done)
    })?;
    drop(progress);
    if output.is_json() {
        output.json(&serde_json::json!({"pruned": args.yes, "segments": pruned}))?;
        return Ok(Exit::Success);
    }
    if !pruned.is_empty() {
        let rows: Vec<Vec<String>> = pruned
            .iter()
            .map(|one| vec![one.file.clone(), one.lines.to_string(), one.sha256.clone()])
            .collect();
        output.table(
            &["segment", "lines", "SHA-256 of its plain bytes"],
            &["lines"],
            &rows,
        )?;
    }
    let verdict = if args.yes {
        "pruned"
    } else {
        "could be pruned; nothing was removed, --yes removes them"
    };
    output.line(&format!("{} segments {verdict}", pruned.len()))?;
    Ok(Exit::Success)
}
