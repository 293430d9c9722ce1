//! `audit prove`: makes the receipt of a line.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use spoolgate_ledger::proof::Receipt;
use spoolgate_ledger::prove::{ProveError, Prover};
use spoolgate_ledger::{LedgerError, line};
use spoolgate_wire::code::Exit;
use spoolgate_wire::ids::RequestId;

use super::receipts::{self, hand_over, open_folder, open_prover, said, told};
use crate::cli::output::{Output, plain};

/// Which line, and under which head.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Number of the line (an answer's auditRef), or id of a request.
    what: String,
    /// The audit folder; default: the home's.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The file to write the receipt to; default: standard output.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// An older checkpoint to prove the line under; default: the newest.
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    /// A file with the line itself, from a copy, if the content of its segment was pruned.
    #[arg(long, value_name = "FILE")]
    line: Option<PathBuf>,
}

/// Finds the line with this number, or the line of this request.
fn find(prover: &Prover<'_>, what: &str, size: u64, output: &Output) -> Result<u64> {
    if let Ok(seq) = what.parse() {
        return Ok(seq);
    }
    let nothing = || {
        anyhow::anyhow!(
            "the ledger has no line and no request `{}`; `spoolgate audit tail` shows the newest \
                lines",
            plain(what)
        )
    };
    let id = RequestId::parse(what).map_err(|_| nothing())?;
    // Inside a JSON string the quotes would be escaped, so this matches only a member.
    let wanted = format!("\"request_id\":\"{id}\"");
    let finder = memchr::memmem::Finder::new(&wanted);
    let mut found = Vec::new();
    let lines = prover.finder().map_err(|error| told(error.into()))?;
    let looked = lines.each_line(0, size, &mut |seq, bytes| {
        let by_request = || said(&line::parse(bytes).ok()?).request_id;
        if finder.find(bytes).is_some() && by_request().as_deref() == Some(what) {
            found.push(seq);
        }
    });
    match looked {
        // Lines that were found stay found, even if others were pruned.
        Err(LedgerError::Pruned(_)) if !found.is_empty() => output.remark(&format!(
            "segments of this log are pruned: they may hold other lines of `{}`, such as the line \
                that first answered it; to prove one, name its number",
            plain(what)
        )),
        other => other.map_err(|error| told(error.into()))?,
    }
    match found.as_slice() {
        [] => Err(nothing()),
        [seq] => Ok(*seq),
        several => {
            let listed: Vec<String> = several.iter().map(u64::to_string).collect();
            bail!(
                "request `{}` is in lines {}: name one of them",
                plain(what),
                listed.join(", ")
            )
        }
    }
}

/// Time between two checks for a newer checkpoint.
const LOOK: Duration = Duration::from_millis(2);

/// Writes the receipt of the line that answers a request as soon as a checkpoint covers it, and
/// reports it. The answer stands even if this fails.
pub(crate) fn write_receipt(
    home: &Path,
    seq: &str,
    file: &Path,
    deadline: Instant,
    output: &Output,
) -> Exit {
    let written = receipt_of_answer(home, seq, deadline).and_then(|receipt| {
        receipts::write_file(file, &receipt.text())?;
        output.remark(&format!(
            "receipt of line {seq} written to {}",
            file.display()
        ));
        Ok(())
    });
    let Err(error) = written else {
        return Exit::Success;
    };
    let is_denied = |cause: &(dyn std::error::Error + 'static)| {
        cause
            .downcast_ref::<std::io::Error>()
            .is_some_and(|e| e.kind() == ErrorKind::PermissionDenied)
    };
    let remedy = if error.chain().any(is_denied) {
        format!("; the operator can make it with `spoolgate audit prove {seq}`")
    } else {
        format!("; try `spoolgate audit prove {seq}`")
    };
    output.remark(&format!("no receipt of line {seq}: {error}{remedy}"));
    Exit::Storage
}

/// Makes the receipt of an answer. The checkpoint is published after the answers and can be a batch
/// behind, so this waits for it.
fn receipt_of_answer(home: &Path, seq: &str, deadline: Instant) -> Result<Receipt> {
    let seq: u64 = seq.parse().context("the answer's auditRef")?;
    let disk = open_folder(home, None)?;
    let prover = open_prover(&disk)?;
    loop {
        let head = prover.newest().map_err(told)?;
        if head.checkpoint.size > seq {
            return prover.receipt(seq, &head).map_err(told);
        }
        if Instant::now() >= deadline {
            return Err(told(ProveError::NotYet {
                seq,
                size: head.checkpoint.size,
            }));
        }
        std::thread::sleep(LOOK);
    }
}

/// Makes the receipt.
pub(super) fn run(home: &Path, args: &Args, output: &Output) -> Result<Exit> {
    let disk = open_folder(home, args.dir.as_deref())?;
    let prover = open_prover(&disk)?;
    let head = match &args.checkpoint {
        Some(path) => receipts::read_head(&prover, path)?,
        None => prover.newest().map_err(told)?,
    };
    let (seq, receipt) = match &args.line {
        Some(path) => {
            let bytes = receipts::read_file(path, line::LINE_BYTES_MAX + 1)?;
            let line = bytes.strip_suffix(b"\n").unwrap_or(&bytes).to_vec();
            let seq = args
                .what
                .parse()
                .context("with --line, name the line by its number")?;
            (seq, prover.receipt_of(seq, line, &head).map_err(told)?)
        }
        None => {
            let seq = find(&prover, &args.what, head.checkpoint.size, output)?;
            (seq, prover.receipt(seq, &head).map_err(told)?)
        }
    };
    let size = head.checkpoint.size;
    let text = receipt.text();
    if output.is_json() && args.out.is_none() {
        let root = head.checkpoint.root.to_string();
        let key = head.key.to_string();
        output.json(
            &serde_json::json!({"seq": seq, "size": size, "root": root, "key": key,
                "receipt": text}),
        )?;
        return Ok(Exit::Success);
    }
    let told = format!("receipt of line {seq} under the head over {size} lines");
    hand_over(&text, args.out.as_ref(), &told, output)?;
    Ok(Exit::Success)
}
