//! One writer per home.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// The lock of a home. Held as long as this value lives; the kernel releases it when the process
/// dies.
#[derive(Debug)]
pub struct HomeLock {
    file: File,
}

impl Drop for HomeLock {
    fn drop(&mut self) {
        // Closing is not enough: a forked child has copies of all our files until it executes
        // another program. If unlocking fails, closing releases the lock later.
        let _ = self.file.unlock();
    }
}

/// Returns the user to whom a file or folder belongs if that is not root and this process is root's.
///
/// # Errors
/// Returns the file system's error.
pub fn owner_beside_root(path: &Path) -> io::Result<Option<u32>> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let owner = std::fs::metadata(path)?.uid();
    Ok(Some(owner).filter(|owner| *owner != 0))
}

/// Path of the lock below the home.
pub const LOCK_FILE: &str = "state/lock";

/// Takes the lock of a home. `None` if another process holds it.
///
/// # Errors
/// Returns the file system's error, or that root would write to the home of another user: the files
/// that it makes there could keep the gate of that user from starting.
pub fn try_lock(home: &Path) -> io::Result<Option<HomeLock>> {
    let other = owner_beside_root(&home.join("state"))?;
    let file = OpenOptions::new()
        .create(other.is_none())
        .truncate(false)
        .write(true)
        // A pipe in its place would make this wait for ever.
        .custom_flags(libc::O_NONBLOCK)
        .open(home.join(LOCK_FILE))?;
    match (file.try_lock(), other) {
        (Ok(()), None) => Ok(Some(HomeLock { file })),
        (Ok(()), Some(owner)) => {
            let what = format!(
                "this home belongs to user {owner}; run the command as that user (`sudo -u \
                    '#{owner}' spoolgate ...`): files that root makes there could keep its gate \
                    from starting"
            );
            Err(io::Error::new(io::ErrorKind::PermissionDenied, what))
        }
        (Err(TryLockError::WouldBlock), _) => Ok(None),
        (Err(TryLockError::Error(error)), _) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The copy of the descriptor is what a forked child has until it executes another program.
    #[test]
    fn it_ends_with_its_holder_though_a_child_still_has_the_file() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("state")).unwrap();
        let lock = try_lock(home.path()).unwrap().unwrap();
        let inherited = lock.file.try_clone().unwrap();
        assert!(try_lock(home.path()).unwrap().is_none());
        drop(lock);
        assert!(try_lock(home.path()).unwrap().is_some());
        drop(inherited);
    }
}
