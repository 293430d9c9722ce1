//! `audit check-proof`: checks offline what a receipt proves.

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::Serialize;
use spoolgate_ledger::note::VerifierKey;
use spoolgate_ledger::proof::{PROOF_BYTES_MAX, Receipt};
use spoolgate_wire::code::Exit;

use super::receipts::{read_file, refuse, said};
use crate::cli::output::{Output, short};

/// Which receipt, and of which log.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The receipt; `-` for standard input.
    file: PathBuf,
    /// The log's verifier key, noted when its owner showed it to you.
    #[arg(long, value_name = "VKEY")]
    key: String,
}

/// What the receipt proves.
#[derive(Serialize)]
struct Shown<'a> {
    ok: bool,
    origin: &'a str,
    seq: u64,
    batch: u64,
    kind: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    action: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<String>,
    size: u64,
    root: String,
    line: &'a str,
}

/// Checks the receipt.
pub(super) fn run(args: &Args, output: &Output) -> Result<Exit> {
    let key: VerifierKey = args.key.parse().context("--key")?;
    let bytes = read_file(&args.file, PROOF_BYTES_MAX)?;
    let receipt = match Receipt::parse(&bytes) {
        Ok(receipt) => receipt,
        Err(error) => return refuse(&error.to_string(), output),
    };
    let proved = match receipt.check(&key) {
        Ok(proved) => proved,
        Err(error) => return refuse(&error.to_string(), output),
    };
    let said = said(&proved.line);
    let shown = Shown {
        ok: true,
        origin: &proved.checkpoint.origin,
        seq: proved.line.seq,
        batch: proved.line.batch,
        kind: proved.line.kind,
        request_id: said.request_id,
        action: said.action,
        outcome: said.outcome,
        size: proved.checkpoint.size,
        root: proved.checkpoint.root.to_string(),
        line: std::str::from_utf8(proved.text).unwrap_or_default(),
    };
    if output.is_json() {
        output.json(&shown)?;
        return Ok(Exit::Success);
    }
    let mut rows = vec![
        vec!["log".to_owned(), shown.origin.to_owned()],
        vec![
            "line".to_owned(),
            format!("{} of batch {}", shown.seq, shown.batch),
        ],
        vec!["kind".to_owned(), shown.kind.to_owned()],
    ];
    let optional = [
        ("request", shown.request_id),
        ("action", shown.action),
        ("outcome", shown.outcome),
    ]
    .into_iter();
    rows.extend(
        optional.filter_map(|(name, value)| Some(vec![name.to_owned(), short(&value?, 200)])),
    );
    rows.push(vec![
        "in the first".to_owned(),
        format!("{} lines", shown.size),
    ]);
    rows.push(vec!["with root".to_owned(), shown.root]);
    rows.push(vec!["signed by".to_owned(), key.to_string()]);
    output.table(&["proved", ""], &[], &rows)?;
    Ok(Exit::Success)
}
