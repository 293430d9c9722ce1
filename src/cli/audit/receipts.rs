//! What the commands about proofs share: opening the folder, and reading and writing proof files
//! that come from or go to others.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use spoolgate_gate::Record;
use spoolgate_home::HomeError;
use spoolgate_host::real_disk::RealDisk;
use spoolgate_ledger::line::Line;
use spoolgate_ledger::note::NOTE_BYTES_MAX;
use spoolgate_ledger::proof::PROOF_BYTES_MAX;
use spoolgate_ledger::prove::{Head, ProveError, Prover};
use spoolgate_ledger::segment;
use spoolgate_wire::code::Exit;

use crate::cli::output::{Output, plain};

/// Opens the audit folder of a home, or another one.
pub(super) fn open_folder(home: &Path, dir: Option<&Path>) -> Result<RealDisk> {
    let dir = dir.map_or_else(|| home.join(segment::AUDIT_DIR), Path::to_owned);
    RealDisk::open(&dir).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => {
            anyhow!(
                "audit folder `{}` does not exist; name a home with --home, or its audit folder \
                    with --dir",
                dir.display()
            )
        }
        _ => HomeError::disk(&dir, error).into(),
    })
}

/// Opens the audit folder that a command reads.
pub(super) fn open_audit(dir: &Path) -> Result<RealDisk> {
    open_or(dir, || {
        format!(
            "audit folder `{}`; name a home with --home, or its audit folder",
            dir.display()
        )
    })
}

/// Opens a folder. Only one that is not there is a mistake on the command line, which `mistake`
/// describes.
pub(super) fn open_or(dir: &Path, mistake: impl Fn() -> String) -> Result<RealDisk> {
    RealDisk::open(dir).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => {
            anyhow::Error::new(error).context(mistake())
        }
        _ => HomeError::disk(dir, error).into(),
    })
}

/// Opens the prover.
pub(super) fn open_prover(disk: &RealDisk) -> Result<Prover<'_>> {
    Prover::open(disk, Path::new("")).map_err(told)
}

/// Turns an error into the command line's: a damaged ledger has its own exit code.
pub(super) fn told(error: ProveError) -> anyhow::Error {
    match error {
        ProveError::Ledger(error) => HomeError::Ledger(error).into(),
        ProveError::NoCheckpoint(error) => {
            let error = match error.kind() {
                ErrorKind::NotFound => io::Error::new(
                    ErrorKind::NotFound,
                    "is not in the audit folder; the next start of the gate writes it again, or \
                        restore a copy",
                ),
                _ => error,
            };
            HomeError::disk(Path::new("checkpoint"), error).into()
        }
        ProveError::NoLine(_) | ProveError::NotYet { .. } | ProveError::OtherLine(_) => {
            anyhow!("{error}")
        }
        other => HomeError::Record(other.to_string()).into(),
    }
}

/// Reads an untrusted file or standard input: at most `limit` bytes of a regular file.
pub(super) fn read_file(path: &Path, limit: usize) -> Result<Vec<u8>> {
    let shown = || format!("file `{}`", path.display());
    let mut bytes = Vec::new();
    let cap = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    if path == Path::new("-") {
        std::io::stdin()
            .take(cap)
            .read_to_end(&mut bytes)
            .context("standard input")?;
    } else {
        // Without NONBLOCK, opening a FIFO would block for ever.
        let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0);
        let file = fs::OpenOptions::new()
            .read(true)
            .custom_flags(flags)
            .open(path)
            .with_context(shown)?;
        if !file.metadata().with_context(shown)?.is_file() {
            bail!("{} is not a regular file; `-` is standard input", shown());
        }
        file.take(cap).read_to_end(&mut bytes).with_context(shown)?;
    }
    if bytes.len() > limit {
        bail!("{} has more than {limit} bytes", shown());
    }
    Ok(bytes)
}

/// Reads a checkpoint, which must be signed by the log.
pub(super) fn read_head(prover: &Prover<'_>, path: &Path) -> Result<Head> {
    prover.head(&read_note(path)?).map_err(told)
}

/// Reads the text of a checkpoint file.
pub(super) fn read_note(path: &Path) -> Result<String> {
    String::from_utf8(read_file(path, NOTE_BYTES_MAX)?).map_err(|_| {
        anyhow!(HomeError::Record(format!(
            "`{}` is not text",
            path.display()
        )))
    })
}

/// Reads the text of a checkpoint or receipt that was noted earlier.
pub(super) fn read_noted(path: &Path) -> Result<String> {
    String::from_utf8(read_file(path, PROOF_BYTES_MAX)?).with_context(|| {
        format!(
            "head `{}` is neither a checkpoint nor a receipt",
            path.display()
        )
    })
}

/// Refuses a path that is not a regular file or a link, such as a device, because replacing it
/// would break it.
pub(super) fn replaceable(path: &Path) -> Result<()> {
    if path
        .symlink_metadata()
        .is_ok_and(|there| !there.is_file() && !there.is_symlink())
    {
        bail!(
            "`{}` is not a regular file; name another with --out",
            path.display()
        );
    }
    Ok(())
}

/// Writes a file as a whole or not at all.
pub(super) fn write_file(path: &Path, text: &str) -> Result<()> {
    let fail = |source| HomeError::disk(path, source);
    replaceable(path)?;
    let hidden = path.with_file_name(format!(".{}.tmp", spoolgate_client::random_name()?));
    let written = fs::File::create_new(&hidden)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        })
        .and_then(|()| fs::rename(&hidden, path));
    if written.is_err() {
        // Half a file is useless.
        let _ = fs::remove_file(&hidden);
    }
    Ok(written.map_err(fail)?)
}

/// Writes a proof to a file, or to standard output.
pub(super) fn hand_over(
    text: &str,
    out: Option<&PathBuf>,
    told: &str,
    output: &Output,
) -> Result<()> {
    if let Some(path) = out {
        write_file(path, text)?;
        output.remark(&format!("{told}, written to {}", path.display()));
        return Ok(());
    }
    // Foreign signature lines may contain control characters, and must not be changed.
    if text.split('\n').any(|line| plain(line) != line) {
        bail!(
            "the proof contains control characters, which terminals obey; name a file with --out"
        );
    }
    output.raw(text.as_bytes())
}

/// What a line contains about a request.
pub(super) struct Said {
    /// Id of the request.
    pub request_id: Option<String>,
    /// The action of the request.
    pub action: Option<String>,
    /// The outcome, and the reason for it.
    pub outcome: Option<String>,
}

/// Reads a line, as far as this program knows its kind.
pub(super) fn said(line: &Line<'_>) -> Said {
    let Ok(Some(Record::Decision(decision))) = Record::parse(line.kind, &line.body()) else {
        return Said {
            request_id: None,
            action: None,
            outcome: None,
        };
    };
    let status = serde_json::to_value(decision.status).ok();
    let status = status
        .as_ref()
        .and_then(serde_json::Value::as_str)
        .unwrap_or_default();
    let ruling = decision
        .decision
        .and_then(|ruling| serde_json::to_value(ruling).ok());
    let ruling = ruling.as_ref().and_then(serde_json::Value::as_str);
    let mut outcome =
        ruling.map_or_else(|| status.to_owned(), |ruling| format!("{ruling}, {status}"));
    if let Some(code) = decision.metadata.code {
        outcome.push_str(&format!(", {code}"));
    }
    if let Some(message) = &decision.metadata.message {
        outcome.push_str(&format!(": {message}"));
    }
    Said {
        request_id: decision.request_id,
        action: decision.action,
        outcome: Some(outcome),
    }
}

/// Reports that a check failed.
pub(super) fn refuse(why: &str, output: &Output) -> Result<Exit> {
    if output.is_json() {
        output.json(&serde_json::json!({"ok": false, "problem": why}))?;
    } else {
        output.line(&plain(&format!("NOT PROVED  {why}")))?;
    }
    Ok(Exit::LedgerCorrupt)
}
