//! Blobs that the lines of a batch name by digest: written one by one, and made durable together
//! before the lines.

use std::path::{Path, PathBuf};

use super::batch::{BLOB_BYTES_MAX, BLOBS_DIR, Pending, blob_path};
use super::core::Core;
use super::error::HomeError;
use spoolgate_ledger::disk::{Disk, Mode, replace, temporary};

/// Blobs of a batch that are not known to be durable.
#[derive(Debug, Default)]
pub(super) struct Unsynced {
    /// The blob and its content, if there is only one.
    only: Option<(PathBuf, Vec<u8>)>,
    /// Whether there are several, or one existed before and may not have been synced.
    is_all: bool,
}

impl Unsynced {
    fn add(&mut self, path: PathBuf, bytes: &[u8]) {
        if self.only.take().is_some() || self.is_all {
            self.is_all = true;
        } else {
            self.only = Some((path, bytes.to_vec()));
        }
    }

    /// Makes the blobs durable: a single one by its own sync, several by a sync of the file system.
    ///
    /// # Errors
    /// Returns the disk's error.
    pub(super) fn sync(&self, disk: &dyn Disk) -> Result<(), HomeError> {
        let folder = Path::new(BLOBS_DIR);
        let (path, done) = match &self.only {
            _ if self.is_all => (folder, disk.sync_fs(folder)),
            Some((path, bytes)) => (
                path.as_path(),
                disk.write_again(path, 0, bytes)
                    .and_then(|()| disk.sync_dir(folder)),
            ),
            None => return Ok(()),
        };
        done.map_err(|source| HomeError::disk(path, source))
    }
}

impl Core {
    /// Stores blobs of lines that can wait. Returns false, and notes that the disk is full, if one of
    /// them has no room.
    ///
    /// # Errors
    /// Returns the disk's error, if it is another one.
    pub(super) fn put_blobs_if_room(
        &mut self,
        pending: &mut Pending,
        blobs: &[(String, Vec<u8>)],
    ) -> Result<bool, HomeError> {
        for (digest, bytes) in blobs {
            match self.put_blob(pending, digest, bytes) {
                Err(error) if error.is_full() => {
                    self.meet_full_disk()?;
                    return Ok(false);
                }
                other => other?,
            }
        }
        Ok(true)
    }

    /// Stores content under its digest; it becomes durable before the lines of the batch do.
    ///
    /// # Errors
    /// Returns the disk's error.
    pub(super) fn put_blob(
        &self,
        pending: &mut Pending,
        digest: &str,
        bytes: &[u8],
    ) -> Result<(), HomeError> {
        let (disk, path) = (self.seams.disk.as_ref(), blob_path(digest));
        let fail = |source| HomeError::disk(&path, source);
        match disk.read_from_medium(&path, BLOB_BYTES_MAX) {
            Ok(file) if file.bytes == bytes => {
                // It may be in the page cache only, left by a process that was killed before it
                // synced.
                pending.blobs.is_all = true;
                return Ok(());
            }
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(fail(error)),
            _ => {}
        }
        if let Err(error) = replace(disk, &path, bytes, Mode::Private, false) {
            // What was written of it takes room, and no redaction would find it.
            let _ = temporary(&path).map(|part| disk.remove(&part));
            return Err(fail(error));
        }
        pending.blobs.add(path, bytes);
        Ok(())
    }
}
