//! Publishing answers: written under a hidden name, then renamed. Answers are derived from the ledger, so
//! they are not synced one by one; until they are known to be durable, recovery compares and rewrites them.

use std::io;
use std::path::{Path, PathBuf};

use crate::host::disk::{self, Disk, Mode};

/// Path of an answer below the home.
pub fn path_of(answer: &str) -> PathBuf {
    Path::new("spool").join(answer)
}

/// Publishes an answer. A missing folder (of an agent whose spool was removed) is made again.
///
/// # Errors
/// What the disk says.
pub fn publish(disk: &dyn Disk, answer: &str, bytes: &[u8]) -> io::Result<()> {
    let path = path_of(answer);
    match disk::replace(disk, &path, bytes, Mode::Shared, false) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if let Some(dir) = path.parent() {
                // Answers to commands are the gate's own user's.
                let mode = if dir.ends_with("local/out") { Mode::Private } else { Mode::Shared };
                disk.create_dir(dir, mode)?;
            }
            disk::replace(disk, &path, bytes, Mode::Shared, false)
        }
        other => other,
    }
}

/// Whether exactly these bytes stand there. That a file exists proves nothing: after a power cut it can be
/// empty.
///
/// # Errors
/// What the disk says, other than that nothing readable is there.
pub fn stands(disk: &dyn Disk, answer: &str, bytes: &[u8]) -> io::Result<bool> {
    match disk.read_from_medium(&path_of(answer), bytes.len()) {
        Ok(file) => Ok(file.bytes == bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Makes these bytes stand there after a crash: writes what does not stand, and clears away what a gate that
/// was killed while it wrote the same answer again left half-written.
///
/// # Errors
/// What the disk says.
pub fn publish_again(disk: &dyn Disk, answer: &str, bytes: &[u8]) -> io::Result<()> {
    if !stands(disk, answer, bytes)? {
        return publish(disk, answer, bytes);
    }
    let Some(temporary) = disk::temporary(&path_of(answer)) else { return Ok(()) };
    match disk.remove(&temporary) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
