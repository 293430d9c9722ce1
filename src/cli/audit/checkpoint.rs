//! `audit checkpoint`: prints the newest head after checking that it lies on the log.

use std::path::{Path, PathBuf};

use anyhow::Result;
use spoolgate_wire::code::Exit;

use super::receipts::{hand_over, open_folder, open_prover, told};
use crate::cli::output::Output;

/// Which log, and where to write.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The audit folder; default: the home's.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The file to write the checkpoint to; default: standard output.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Prints the checkpoint.
pub(super) fn run(home: &Path, args: &Args, output: &Output) -> Result<Exit> {
    let disk = open_folder(home, args.dir.as_deref())?;
    let prover = open_prover(&disk)?;
    let head = prover.newest().map_err(told)?;
    prover.check_head(&head.checkpoint).map_err(told)?;
    let (size, root) = (head.checkpoint.size, head.checkpoint.root.to_string());
    if output.is_json() && args.out.is_none() {
        let key = head.key.to_string();
        let origin = &head.checkpoint.origin;
        output.json(
            &serde_json::json!({"origin": origin, "size": size, "root": root, "key": key,
                "checkpoint": head.note}),
        )?;
        return Ok(Exit::Success);
    }
    hand_over(
        &head.note,
        args.out.as_ref(),
        &format!("head over {size} lines"),
        output,
    )?;
    Ok(Exit::Success)
}
