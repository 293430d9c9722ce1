//! The lines that files in the spool name: answers, instructions and forwarded tasks. Each shows
//! that its line was durable when the file was released, so a log that ends before it has lost
//! something, and its tail must not count as torn.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::batch::BLOB_BYTES_MAX;
use super::error::HomeError;
use super::forward::FORWARD_DIR;
use super::open::read_genesis;
use super::outbox::OUTBOX_DIR;
use crate::index::Store;
use spoolgate_host::spool::claim::{self, is_senders_doing};
use spoolgate_ledger::disk::{Disk, Kind, Stat};
use spoolgate_ledger::heads::{Release, Remembered};
use spoolgate_ledger::log::{Position, StoredPosition};
use spoolgate_ledger::recover;
use spoolgate_ledger::segment::{self, AUDIT_DIR};
use spoolgate_wire::admission::receipt_line;
use spoolgate_wire::time::Time;

/// Folders of released files. Agents, bridges and surfaces have folders of their own in them.
const FOLDERS: [&str; 4] = ["spool/out", "spool/local/out", OUTBOX_DIR, FORWARD_DIR];
/// Margin between the clock of the gate and the times of files, for file systems that keep seconds.
const MARGIN_MS: i64 = 2000;

/// The members that name a line.
#[derive(serde::Deserialize)]
struct Named {
    /// Of an answer.
    #[serde(rename = "auditRef")]
    audit_ref: Option<String>,
    /// Of an instruction.
    line: Option<String>,
    /// Of a forwarded task.
    receipt_id: Option<String>,
}

/// Returns the line that a released file names; `None` if the text is none.
fn line_of(text: &[u8]) -> Option<u64> {
    let named: Named = serde_json::from_slice(text).ok()?;
    match named {
        Named {
            audit_ref: Some(line),
            ..
        }
        | Named {
            line: Some(line), ..
        } => line.parse().ok(),
        Named { receipt_id, .. } => receipt_line(&receipt_id?),
    }
}

/// Returns what a released file that a person gives up shows of the log; `None` if the text is none.
pub(super) fn of_file(from: &str, text: &str) -> Option<Remembered> {
    let line = line_of(text.as_bytes())?;
    Some(Remembered::of_released(from, line, Release::GivenNow))
}

/// Returns whether a start looks for released files. A command that decides one request and ends
/// looks only where the last holder of the lock seems to have died, because the folder of answers
/// can be large.
pub(super) fn must_look(
    disk: &dyn Disk,
    store: &Store,
    tip: Option<&StoredPosition>,
) -> Result<bool, HomeError> {
    if !store.is_held_briefly() {
        return Ok(true);
    }
    let fail = |path: &Path, source| HomeError::disk(path, source);
    let work = Path::new(claim::WORK_DIR);
    let claims = claim::left_behind(disk).map_err(|source| fail(work, source))?;
    let Some(tip) = tip
        .and_then(Position::from_stored)
        .filter(|_| claims.is_empty())
    else {
        return Ok(true);
    };
    let at = |number| {
        let path = segment::path(number);
        disk.stat(&path).map_err(|source| fail(&path, source))
    };
    let ends_there = at(tip.segment)?.is_some_and(|stat| stat.size == tip.offset)
        && at(tip.segment.saturating_add(1))?.is_none();
    Ok(!ends_there)
}

/// Returns the highest lines that released files name: of the files that were certainly released after
/// `since`, and of the others. Counts only regular files of the user that the log belongs to, changed
/// since `since`, the time of a line that the log still has: files that were released for later lines
/// are newer, by a time that nobody can set. Without it, the first line counts; if the clock is behind
/// it, all files do.
///
/// # Errors
/// Returns [`HomeError::Disk`] if a folder cannot be read. Files that cannot be read are skipped.
pub(super) fn newest(
    disk: &dyn Disk,
    since: Option<Time>,
    now: Time,
) -> Result<Vec<Remembered>, HomeError> {
    let since = match since {
        Some(since) => Some(since),
        None => read_genesis(Path::new(""), disk)
            .ok()
            .map(|genesis| genesis.timestamp),
    };
    let ns = |ms: i64| i128::from(ms).saturating_mul(1_000_000);
    let since = since.filter(|since| *since <= now);
    let since_ns = since.map(|since| ns(since.ms().saturating_sub(MARGIN_MS)));
    let after_ns = since.map(|since| ns(since.ms().saturating_add(MARGIN_MS)));
    let when = |stat: &Stat| {
        let is_after = after_ns.is_some_and(|after_ns| stat.changed_ns > after_ns);
        // The clock may have been ahead when a file from the future was released.
        match is_after && stat.changed_ns <= ns(now.ms()) {
            true => Release::AfterKnown,
            false => Release::Unknown,
        }
    };
    let last = recover::segments(disk, Path::new(AUDIT_DIR))?.pop();
    let owner = last.and_then(|last| disk.stat(&segment::path(last)).ok().flatten());
    let counts = |stat: &Stat| {
        stat.kind == Kind::File
            && owner.is_some_and(|owner| owner.uid == stat.uid)
            && since_ns.is_none_or(|since_ns| stat.changed_ns >= since_ns)
    };
    let (mut after, mut others) = (BTreeMap::new(), BTreeMap::new());
    let mut folders: Vec<PathBuf> = FOLDERS.iter().map(PathBuf::from).collect();
    let is_top = |folder: &Path| FOLDERS.iter().any(|top| Path::new(top) == folder);
    while let Some(folder) = folders.pop() {
        let entries = match disk.read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            // An agent may have put something in the place of its own folder.
            Err(error) if !is_top(&folder) && is_senders_doing(&error) => continue,
            other => other.map_err(|source| HomeError::disk(&folder, source))?,
        };
        for entry in entries {
            let entry = entry.map_err(|source| HomeError::disk(&folder, source))?;
            let path = folder.join(&entry.name);
            if entry.kind == Some(Kind::Directory) && is_top(&folder) {
                folders.push(path);
                continue;
            }
            let is_released = entry
                .name
                .to_str()
                .is_some_and(|name| name.ends_with(".json") && !name.starts_with('.'));
            if is_released
                && let Ok(Some(stat)) = disk.stat(&path)
                && counts(&stat)
                && let Ok(file) = disk.read(&path, BLOB_BYTES_MAX)
                && let Some(line) = line_of(&file.bytes)
            {
                match when(&stat) {
                    Release::AfterKnown => after.insert(line, path),
                    _ => others.insert(line, path),
                };
            }
        }
    }
    let newest = |mut found: BTreeMap<u64, PathBuf>, when| {
        let (line, path) = found.pop_last()?;
        let from = format!("the file `{}`", path.display());
        Some(Remembered::of_released(&from, line, when))
    };
    let newest = [
        newest(after, Release::AfterKnown),
        newest(others, Release::Unknown),
    ];
    Ok(newest.into_iter().flatten().collect())
}
