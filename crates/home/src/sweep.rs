//! Removes what killed gates and commands leave behind and nothing else replaces.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::batch::BLOBS_DIR;
use super::core::Core;
use super::error::HomeError;
use spoolgate_ledger::disk::{Disk, Kind};
use spoolgate_ledger::segment::AUDIT_DIR;

/// Age in milliseconds after which an answer to a command is abandoned: a command waits one minute,
/// and this leaves room for clock changes.
const ABANDONED_MS: i64 = 3_600_000;

impl Core {
    /// Removes files that were being written when a process ended, and answers that no command
    /// fetched.
    ///
    /// # Errors
    /// Returns the disk's error.
    pub(super) fn sweep(&self) -> Result<(), HomeError> {
        let disk = self.seams.disk.as_ref();
        for folder in [AUDIT_DIR, BLOBS_DIR, "audit/rulebooks"] {
            remove(
                disk,
                folder,
                |name| name.starts_with(b".") && name.ends_with(b".tmp"),
                None,
            )?;
        }
        let abandoned = Some(self.seams.clock.now().ms().saturating_sub(ABANDONED_MS));
        remove(disk, "spool/local/out", |_| true, abandoned)?;
        remove(
            disk,
            "spool/local/in",
            |name| name.starts_with(b"."),
            abandoned,
        )
    }
}

/// Removes the files of a folder that `is_litter` selects by name; only those last changed before
/// `until`, if it is set.
fn remove(
    disk: &dyn Disk,
    folder: &str,
    is_litter: impl Fn(&[u8]) -> bool,
    until: Option<i64>,
) -> Result<(), HomeError> {
    let fail = |source| HomeError::disk(Path::new(folder), source);
    let names = match disk.read_dir(Path::new(folder)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other.map_err(fail)?,
    };
    for entry in names {
        let name = entry.map_err(fail)?.name;
        if !is_litter(name.as_bytes()) {
            continue;
        }
        let path = Path::new(folder).join(&name);
        let Some(stat) = disk.stat(&path).map_err(fail)? else {
            continue;
        };
        let is_old = until.is_none_or(|until| stat.modified_ns < i128::from(until) * 1_000_000);
        if stat.kind == Kind::File && is_old {
            match disk.remove(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(HomeError::disk(&path, error));
                }
                _ => {}
            }
        }
    }
    Ok(())
}
