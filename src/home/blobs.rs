//! Contents that the lines of a batch name by digest: written as they come, and made durable together, before the lines.

use std::path::{Path, PathBuf};

use super::batch::{BLOB_BYTES_MAX, BLOBS_DIR, Pending, blob_path};
use super::open::{Home, HomeError};
use crate::host::disk::{Disk, Mode, replace};

/// What of a batch is not known to be durable.
#[derive(Debug, Default)]
pub(super) struct Unsynced {
    /// The only one, with its content.
    only: Option<(PathBuf, Vec<u8>)>,
    /// There are more than one, or one was there before and nobody knows whether it was synced.
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

    /// Makes it durable: one alone by its own sync, several by one of the file system.
    ///
    /// # Errors
    /// What the disk says.
    pub(super) fn sync(&self, disk: &dyn Disk) -> Result<(), HomeError> {
        let folder = Path::new(BLOBS_DIR);
        let (path, done) = match &self.only {
            _ if self.is_all => (folder, disk.sync_fs(folder)),
            Some((path, bytes)) => {
                (path.as_path(), disk.write_again(path, 0, bytes).and_then(|()| disk.sync_dir(folder)))
            }
            None => return Ok(()),
        };
        done.map_err(|source| HomeError::disk(path, source))
    }
}

impl Home {
    /// Keeps a content under its digest; it is durable before the lines of the batch are.
    ///
    /// # Errors
    /// What the disk says.
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
                // It may be in the page cache only, left by a process that was killed before it synced.
                pending.blobs.is_all = true;
                return Ok(());
            }
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(fail(error)),
            _ => {}
        }
        replace(disk, &path, bytes, Mode::Private, false).map_err(fail)?;
        pending.blobs.add(path, bytes);
        Ok(())
    }
}
