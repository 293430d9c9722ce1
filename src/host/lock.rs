//! One writer per home.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;

/// Held as long as this lives; the kernel releases it when the process dies.
#[derive(Debug)]
pub struct HomeLock {
    _file: File,
}

/// Path of the lock below the home.
pub const LOCK_FILE: &str = "state/lock";

/// Takes the lock of a home; none if another process holds it.
///
/// # Errors
/// What the file system says.
pub fn try_lock(home: &Path) -> io::Result<Option<HomeLock>> {
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(home.join(LOCK_FILE))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(HomeLock { _file: file })),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}
