//! The audit folder alone, which is all that a replay may read.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use spoolgate_ledger::disk::{Access, DirStream, Disk, LogFile, Mode, ReadFile, Stat};
use spoolgate_ledger::segment::AUDIT_DIR;

/// A read-only disk that shows the folder `dir` as the audit folder of a home with nothing else in
/// it.
pub(super) struct AuditFolder {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
}

impl AuditFolder {
    /// Shows the folder `dir` of a disk.
    pub(super) fn new(disk: Arc<dyn Disk>, dir: &Path) -> AuditFolder {
        AuditFolder {
            disk,
            dir: dir.to_owned(),
        }
    }

    fn within(&self, path: &Path) -> io::Result<PathBuf> {
        let below = path
            .strip_prefix(AUDIT_DIR)
            .map_err(|_| io::Error::from(io::ErrorKind::NotFound))?;
        // Joining an empty path would append a slash, which makes a different path.
        Ok(if below.as_os_str().is_empty() {
            self.dir.clone()
        } else {
            self.dir.join(below)
        })
    }
}

fn read_only<T>() -> io::Result<T> {
    Err(io::ErrorKind::ReadOnlyFilesystem.into())
}

impl Disk for AuditFolder {
    fn read_dir(&self, dir: &Path) -> io::Result<DirStream> {
        self.disk.read_dir(&self.within(dir)?)
    }

    fn stat(&self, path: &Path) -> io::Result<Option<Stat>> {
        match self.within(path) {
            Ok(path) => self.disk.stat(&path),
            Err(_) => Ok(None),
        }
    }

    fn read(&self, path: &Path, limit: usize) -> io::Result<ReadFile> {
        self.disk.read(&self.within(path)?, limit)
    }

    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        read_only()
    }

    fn rename_new(&self, _: &Path, _: &Path) -> io::Result<()> {
        read_only()
    }

    fn remove(&self, _: &Path) -> io::Result<()> {
        read_only()
    }

    fn write(&self, _: &Path, _: &[u8], _: Mode, _: bool) -> io::Result<()> {
        read_only()
    }

    fn write_again(&self, _: &Path, _: u64, _: &[u8]) -> io::Result<()> {
        read_only()
    }

    fn create_dir(&self, _: &Path, _: Mode) -> io::Result<()> {
        read_only()
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        read_only()
    }

    fn sync_fs(&self, _: &Path) -> io::Result<()> {
        read_only()
    }

    fn open_log(&self, path: &Path, access: Access) -> io::Result<Box<dyn LogFile>> {
        match access {
            Access::Read => self.disk.open_log(&self.within(path)?, access),
            Access::Append => read_only(),
        }
    }
}
