//! `audit consistency`: proves from the log, or checks offline, that a later head extends an
//! earlier one.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use spoolgate_ledger::note::{self, Checkpoint, NoteError, VerifierKey};
use spoolgate_ledger::proof::{self, Extension, PROOF_BYTES_MAX, ProofError};
use spoolgate_wire::code::Exit;

use super::receipts::{
    hand_over, open_folder, open_prover, read_file, read_head, read_note, refuse, told,
};
use crate::cli::output::Output;

/// Which heads to compare.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The earlier checkpoint, noted at that time.
    old: PathBuf,
    /// The later checkpoint; default: the newest of the log, or the one in the proof.
    new: Option<PathBuf>,
    /// The audit folder; default: the home's.
    #[arg(long, value_name = "DIR", conflicts_with = "check")]
    dir: Option<PathBuf>,
    /// The file to write the proof to; default: standard output.
    #[arg(long, value_name = "FILE", conflicts_with = "check")]
    out: Option<PathBuf>,
    /// Check this proof offline instead of making one; `-` for standard input.
    #[arg(long, value_name = "PROOF", requires = "key")]
    check: Option<PathBuf>,
    /// The log's verifier key, for --check. Give the later head's key as well if keys were rotated
    /// in between.
    #[arg(long, value_name = "VKEY", requires = "check")]
    key: Vec<String>,
}

/// Makes a proof, or checks one.
pub(super) fn run(home: &Path, args: &Args, output: &Output) -> Result<Exit> {
    if let Some(proof) = &args.check {
        let keys: Vec<VerifierKey> = args
            .key
            .iter()
            .map(|key| key.parse())
            .collect::<Result<_, _>>()
            .context("--key")?;
        return match check(args, proof, &keys)? {
            Ok((old, new)) => shown(&old, &new, output),
            Err(error) => refuse(&error.to_string(), output),
        };
    }
    let disk = open_folder(home, args.dir.as_deref())?;
    let prover = open_prover(&disk)?;
    let old = read_head(&prover, &args.old)?;
    let new = match &args.new {
        Some(path) => read_head(&prover, path)?,
        None => prover.newest().map_err(told)?,
    };
    let made = prover.extension(&old, &new).map_err(told)?;
    let (before, after) = (old.checkpoint.size, new.checkpoint.size);
    if output.is_json() && args.out.is_none() {
        let root = new.checkpoint.root.to_string();
        output.json(
            &serde_json::json!({"old": before, "size": after, "root": root, "proof": made.text()}),
        )?;
        return Ok(Exit::Success);
    }
    let told = format!(
        "proof that the {after} lines of the new head begin with the {before} of the old one"
    );
    hand_over(&made.text(), args.out.as_ref(), &told, output)?;
    Ok(Exit::Success)
}

/// Opens something under the first key that fits; if none does, returns the error of the last key.
fn by_any<T>(
    keys: &[VerifierKey],
    open: impl Fn(&VerifierKey) -> Result<T, ProofError>,
) -> Result<T, ProofError> {
    let unknown = |error: &ProofError| {
        matches!(error, ProofError::Checkpoint(NoteError::NoKnownSignature))
            || matches!(
                error,
                ProofError::Head {
                    why: NoteError::NoKnownSignature,
                    ..
                }
            )
    };
    let mut opened = Err(ProofError::Checkpoint(NoteError::NoKnownSignature));
    for key in keys {
        opened = open(key);
        // Try another key only if the signature is by an unknown key.
        if !opened.as_ref().is_err_and(unknown) {
            break;
        }
    }
    opened
}

/// Returns the two heads if the proof joins them.
fn check(
    args: &Args,
    proof: &Path,
    keys: &[VerifierKey],
) -> Result<Result<(Checkpoint, Checkpoint), ProofError>> {
    let opened = |path: &Path, which| -> Result<Result<Checkpoint, ProofError>> {
        let note = read_note(path)?;
        Ok(by_any(keys, |key| {
            note::open_checkpoint(&note, key, key.name())
                .map_err(|why| ProofError::Head { which, why })
        }))
    };
    let old = match opened(&args.old, "old")? {
        Ok(old) => old,
        Err(error) => return Ok(Err(error)),
    };
    let given = match args
        .new
        .as_deref()
        .map(|path| opened(path, "new"))
        .transpose()?
    {
        Some(Err(error)) => return Ok(Err(error)),
        Some(Ok(new)) => Some(new),
        None => None,
    };
    // Two heads of the same size show a fork without any proof.
    if let Some(Err(error)) = given.as_ref().map(|new| proof::check_order(&old, new)) {
        return Ok(Err(error));
    }
    let bytes = read_file(proof, PROOF_BYTES_MAX)?;
    Ok(Extension::parse(&bytes)
        .and_then(|proof| by_any(keys, |key| proof.check(&old, key)))
        .and_then(|new| {
            let Some(given) =
                given.filter(|given| (given.size, given.root) != (new.size, new.root))
            else {
                return Ok((old, new));
            };
            proof::check_order(&given, &new).and(Err(ProofError::OtherNew {
                found_size: new.size,
                found: new.root,
                size: given.size,
                root: given.root,
            }))
        }))
}

fn shown(old: &Checkpoint, new: &Checkpoint, output: &Output) -> Result<Exit> {
    if output.is_json() {
        let head = |head: &Checkpoint| serde_json::json!({"size": head.size, "root": head.root.to_string()});
        output.json(
            &serde_json::json!({"ok": true, "origin": new.origin, "old": head(old),
                "new": head(new)}),
        )?;
        return Ok(Exit::Success);
    }
    let row = |name: &str, head: &Checkpoint| {
        vec![
            name.to_owned(),
            format!("{} lines, root {}", head.size, head.root),
        ]
    };
    let rows = [
        vec!["log".to_owned(), new.origin.clone()],
        row("the head over", new),
        row("begins with", old),
    ];
    output.table(&["proved", ""], &[], &rows)?;
    Ok(Exit::Success)
}
