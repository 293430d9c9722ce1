//! Files for others that are made from ledger lines, besides answers: written behind the seal, made again after a
//! crash. What somebody with access to their folders puts there costs those files, never the gate.

use std::io;
use std::path::Path;

use super::open::{Home, HomeError};
use crate::host::disk::Mode;
use crate::spool::claim::is_senders_doing;
use crate::spool::publish::{self, Published as Put};

impl Home {
    /// Puts a file in its place; `again` compares with what the medium holds. Missing folders are made. If something
    /// stands in the way, whoever runs the gate is told.
    ///
    /// # Errors
    /// What the disk says, other than of what stands in the way.
    pub(super) fn put_derived(&mut self, path: &Path, bytes: &[u8], again: bool) -> Result<(), HomeError> {
        let put = self.try_derived(path, bytes, again)?;
        self.tell_put(path, &put);
        Ok(())
    }

    /// The same without telling of what stands in the way.
    ///
    /// # Errors
    /// What the disk says, other than of that.
    pub(super) fn try_derived(&self, path: &Path, bytes: &[u8], again: bool) -> Result<Put, HomeError> {
        let put = if again { publish::publish_again } else { publish::publish };
        let disk = self.seams.disk.as_ref();
        let done = match put(disk, path, bytes) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let mut folders: Vec<&Path> = path.ancestors().skip(1).collect();
                folders.retain(|folder| !folder.as_os_str().is_empty());
                folders
                    .iter()
                    .rev()
                    .try_for_each(|folder| disk.create_dir(folder, Mode::Shared))
                    .and_then(|()| put(disk, path, bytes))
            }
            other => other,
        };
        match done {
            Err(error) if is_in_the_way(&error) => Ok(Put::Blocked(error)),
            other => other.map_err(|source| HomeError::disk(path, source)),
        }
    }

    /// Makes everything below a folder durable.
    ///
    /// # Errors
    /// What the disk says.
    pub(super) fn sync_derived(&self, dir: &Path) -> Result<(), HomeError> {
        match self.seams.disk.sync_fs(dir) {
            // With the folder the files are gone as well; they can be made again from the ledger.
            Err(error) if is_in_the_way(&error) => Ok(()),
            other => other.map_err(|source| HomeError::disk(dir, source)),
        }
    }
}

/// Whether somebody removed a folder, or put something in its place.
fn is_in_the_way(error: &io::Error) -> bool {
    is_senders_doing(error) || matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound)
}
