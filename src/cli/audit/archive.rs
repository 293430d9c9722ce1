//! `audit archive`: compresses closed segments.

use std::path::Path;

use anyhow::Result;
use spoolgate_home::HomeError;
use spoolgate_home::read::real_seams;
use spoolgate_ledger::archive::{self, Archived};
use spoolgate_ledger::{recover, segment};
use spoolgate_wire::code::Exit;

use crate::cli::output::Output;
use crate::cli::progress::Progress;

/// Which segments to compress.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Leave the newest N closed segments as they are.
    #[arg(long, value_name = "N", default_value_t = 0)]
    keep: usize,
}

/// Archives closed segments.
pub(super) fn run(home: &Path, args: &Args, output: &Output) -> Result<Exit> {
    let disk = real_seams(home)?.disk;
    let dir = Path::new(segment::AUDIT_DIR);
    let fail = |path: &Path, source| HomeError::disk(path, source);
    if disk.stat(dir).map_err(|error| fail(dir, error))?.is_none() {
        return Err(HomeError::NotAHome(home.to_owned()).into());
    }
    let kept = recover::kept(disk.as_ref(), dir).map_err(HomeError::Ledger)?;
    let due = archive::due(&kept, args.keep);
    let mut total = 0_u64;
    for number in &due {
        let path = segment::path(*number);
        let stat = disk.stat(&path).map_err(|error| fail(&path, error))?;
        total = total.saturating_add(stat.map_or(0, |stat| stat.size));
    }
    let progress = Progress::bytes(output, "archiving", total);
    let mut done: Vec<Archived> = Vec::new();
    let mut before = 0_u64;
    for number in due {
        let one = archive::archive(disk.as_ref(), dir, number, &mut |bytes| {
            progress.at(before.saturating_add(bytes));
        });
        let one = one.map_err(HomeError::Ledger)?;
        before = before.saturating_add(one.bytes);
        done.push(one);
    }
    let listed = archive::list_all(disk.as_ref(), dir)
        .map_err(HomeError::Ledger)?
        .0
        .len();
    drop(progress);
    if output.is_json() {
        output.json(&serde_json::json!({"archived": done, "listed": listed}))?;
        return Ok(Exit::Success);
    }
    let rows: Vec<Vec<String>> = done
        .iter()
        .map(|one| {
            let (bytes, packed) = (one.bytes.to_string(), one.archive_bytes.to_string());
            vec![
                one.file.clone(),
                bytes,
                packed,
                ratio(one.bytes, one.archive_bytes),
            ]
        })
        .collect();
    if !rows.is_empty() {
        let columns = ["segment", "bytes", "archive", "ratio"];
        output.table(&columns, &["bytes", "archive", "ratio"], &rows)?;
    }
    let sum = |of: fn(&Archived) -> u64| done.iter().map(of).fold(0, u64::saturating_add);
    let (bytes, packed) = (sum(|one| one.bytes), sum(|one| one.archive_bytes));
    output.line(&format!(
        "{} segments archived, {bytes} bytes in {packed} (ratio {}); audit/SEGMENTS has {listed} \
            closed segments",
        done.len(),
        ratio(bytes, packed)
    ))?;
    Ok(Exit::Success)
}

/// Formats the compression ratio with two decimals.
fn ratio(bytes: u64, packed: u64) -> String {
    let hundredths = bytes.saturating_mul(100).checked_div(packed).unwrap_or(100);
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}
