//! What the commands about proofs share: the folder, files of strangers, files for strangers.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use spoolgate::gate::Record;
use spoolgate::home::HomeError;
use spoolgate::host::real_disk::RealDisk;
use spoolgate::ledger::line::Line;
use spoolgate::ledger::note::NOTE_BYTES_MAX;
use spoolgate::ledger::proof::PROOF_BYTES_MAX;
use spoolgate::ledger::prove::{Head, ProveError, Prover};
use spoolgate::ledger::segment;
use spoolgate::wire::code::Exit;

use crate::cli::output::{Output, plain};

/// Opens the audit folder of a home, or another one.
pub fn open_folder(home: &Path, dir: Option<&Path>) -> Result<RealDisk> {
    let dir = dir.map_or_else(|| home.join(segment::AUDIT_DIR), Path::to_owned);
    RealDisk::open(&dir).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => {
            anyhow!(
                "there is no audit folder `{}`; name a home with --home, or its audit folder with --dir",
                dir.display()
            )
        }
        _ => HomeError::disk(&dir, error).into(),
    })
}

/// Opens what makes proofs.
pub fn open_prover(disk: &RealDisk) -> Result<Prover<'_>> {
    Prover::open(disk, Path::new("")).map_err(told)
}

/// As the command line ends with it: what is wrong with a ledger has an exit code of its own.
pub fn told(error: ProveError) -> anyhow::Error {
    match error {
        ProveError::Ledger(error) => HomeError::Ledger(error).into(),
        ProveError::NoCheckpoint(error) => {
            let error = match error.kind() {
                ErrorKind::NotFound => io::Error::new(
                    ErrorKind::NotFound,
                    "is not in the audit folder; the next start of the gate writes it again, or bring a copy back",
                ),
                _ => error,
            };
            HomeError::disk(Path::new("checkpoint"), error).into()
        }
        ProveError::NoLine(_) | ProveError::NotYet { .. } => anyhow!("{error}"),
        other => HomeError::Record(other.to_string()).into(),
    }
}

/// Reads a file of anybody's making, or standard input: at most `limit` bytes of a regular file.
pub fn read_file(path: &Path, limit: usize) -> Result<Vec<u8>> {
    let shown = || format!("file `{}`", path.display());
    let mut bytes = Vec::new();
    let cap = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    if path == Path::new("-") {
        std::io::stdin().take(cap).read_to_end(&mut bytes).context("standard input")?;
    } else {
        // Without NONBLOCK a FIFO would block for ever.
        let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0);
        let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path).with_context(shown)?;
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

/// Reads a checkpoint that the log must have signed.
pub fn read_head(prover: &Prover<'_>, path: &Path) -> Result<Head> {
    prover.head(&read_note(path)?).map_err(told)
}

/// The text of a checkpoint file.
pub fn read_note(path: &Path) -> Result<String> {
    String::from_utf8(read_file(path, NOTE_BYTES_MAX)?)
        .map_err(|_| anyhow!(HomeError::Record(format!("`{}` is not text", path.display()))))
}

/// The text of a checkpoint or receipt that somebody noted.
pub fn read_noted(path: &Path) -> Result<String> {
    String::from_utf8(read_file(path, PROOF_BYTES_MAX)?)
        .with_context(|| format!("head `{}` is neither checkpoint nor receipt", path.display()))
}

/// Refuses a path where something else than a file is, such as a device: to take its place would break it.
pub fn replaceable(path: &Path) -> Result<()> {
    if path.symlink_metadata().is_ok_and(|there| !there.is_file() && !there.is_symlink()) {
        bail!("`{}` is not a regular file; name another with --out", path.display());
    }
    Ok(())
}

/// Writes a file that is there as a whole or not at all.
pub fn write_file(path: &Path, text: &str) -> Result<()> {
    let fail = |source| HomeError::disk(path, source);
    replaceable(path)?;
    let hidden = path.with_file_name(format!(".{}.tmp", spoolgate::agent::random_name()?));
    let written = fs::File::create_new(&hidden)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        })
        .and_then(|()| fs::rename(&hidden, path));
    if written.is_err() {
        // Half a file is of no use to anybody.
        let _ = fs::remove_file(&hidden);
    }
    Ok(written.map_err(fail)?)
}

/// Gives a proof to whoever asked: into a file, or on standard output.
pub fn hand_over(text: &str, out: Option<&PathBuf>, told: &str, output: &Output) -> Result<()> {
    if let Some(path) = out {
        write_file(path, text)?;
        output.remark(&format!("{told}, written to {}", path.display()));
        return Ok(());
    }
    // Signature lines of strangers can hold what a terminal obeys, and must not be changed.
    if text.split('\n').any(|line| plain(line) != line) {
        bail!("the proof holds characters that are not for terminals; name a file with --out");
    }
    output.raw(text.as_bytes())
}

/// What a line says of a request: id, action, outcome.
pub struct Said {
    /// Id of the request.
    pub request_id: Option<String>,
    /// What was asked.
    pub action: Option<String>,
    /// What came of it, and why not.
    pub outcome: Option<String>,
}

/// What a line says, as far as this program knows its kind.
pub fn said(line: &Line<'_>) -> Said {
    let Ok(Some(Record::Decision(decision))) = Record::parse(line.kind, &line.body()) else {
        return Said { request_id: None, action: None, outcome: None };
    };
    let status = serde_json::to_value(decision.status).ok();
    let status = status.as_ref().and_then(serde_json::Value::as_str).unwrap_or_default();
    let ruling = decision.decision.and_then(|ruling| serde_json::to_value(ruling).ok());
    let ruling = ruling.as_ref().and_then(serde_json::Value::as_str);
    let mut outcome = ruling.map_or_else(|| status.to_owned(), |ruling| format!("{ruling}, {status}"));
    if let Some(code) = decision.metadata.code {
        outcome.push_str(&format!(", {code}"));
    }
    if let Some(message) = &decision.metadata.message {
        outcome.push_str(&format!(": {message}"));
    }
    Said { request_id: decision.request_id, action: decision.action, outcome: Some(outcome) }
}

/// Says that what was to be checked does not hold.
pub fn refuse(why: &str, output: &Output) -> Result<Exit> {
    if output.is_json() {
        output.json(&serde_json::json!({"ok": false, "problem": why}))?;
    } else {
        output.line(&plain(&format!("NOT PROVED  {why}")))?;
    }
    Ok(Exit::LedgerCorrupt)
}
