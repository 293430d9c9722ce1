//! A folder on this machine, for reading: what an auditor needs who has a copy of a ledger.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "auditors read the files of the copy that they were given"
)]

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::disk::{Access, DirStream, Disk, Entry, FileId, Kind, LogFile, Mode, ReadFile, Stat};

/// A folder that is only read; whatever would write fails with
/// [`io::ErrorKind::ReadOnlyFilesystem`].
///
/// Meant for a folder that nobody else writes to meanwhile, such as a copy of a home's `audit`. A
/// link, FIFO or device in the place of a file is not opened, but somebody who replaces a file in
/// the instant between that look and the opening is not stopped, and folders on the way may be
/// links.
///
/// ```
/// use std::path::Path;
/// use spoolgate_ledger::{folder::Folder, recover};
///
/// let folder = Folder::open("testdata/log")?;
/// assert_eq!(recover::segments(&folder, Path::new(""))?, [1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Opens a folder. Paths are then relative to it; it is itself the empty path.
    ///
    /// # Errors
    /// Returns the system's error, or [`io::ErrorKind::NotADirectory`].
    pub fn open(path: impl Into<PathBuf>) -> io::Result<Folder> {
        let path = path.into();
        if fs::metadata(&path)?.is_dir() {
            Ok(Folder(path))
        } else {
            Err(io::ErrorKind::NotADirectory.into())
        }
    }

    fn open_file(&self, path: &Path) -> io::Result<(File, Stat)> {
        let path = self.0.join(path);
        if !fs::symlink_metadata(&path)?.is_file() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "it is not a regular file",
            ));
        }
        let file = File::open(path)?;
        let stat = stat_of(&file.metadata()?);
        Ok((file, stat))
    }
}

fn stat_of(metadata: &Metadata) -> Stat {
    let ns = |seconds: i64, nanoseconds: i64| {
        i128::from(seconds)
            .saturating_mul(1_000_000_000)
            .saturating_add(i128::from(nanoseconds))
    };
    Stat {
        kind: kind_of(metadata.file_type()),
        id: FileId {
            device: metadata.dev(),
            inode: metadata.ino(),
        },
        uid: metadata.uid(),
        links: metadata.nlink(),
        size: metadata.len(),
        modified_ns: ns(metadata.mtime(), metadata.mtime_nsec()),
        changed_ns: ns(metadata.ctime(), metadata.ctime_nsec()),
    }
}

fn kind_of(kind: fs::FileType) -> Kind {
    match kind {
        kind if kind.is_file() => Kind::File,
        kind if kind.is_dir() => Kind::Directory,
        kind if kind.is_symlink() => Kind::Link,
        _ => Kind::Other,
    }
}

macro_rules! refuse {
    ($($method:ident($($argument:ty),*))*) => {
        $(fn $method(&self, $(_: $argument),*) -> io::Result<()> {
            Err(io::ErrorKind::ReadOnlyFilesystem.into())
        })*
    };
}

impl Disk for Folder {
    fn read_dir(&self, dir: &Path) -> io::Result<DirStream> {
        let entries = fs::read_dir(self.0.join(dir))?;
        Ok(Box::new(entries.map(|entry| {
            let entry = entry?;
            Ok(Entry {
                name: entry.file_name(),
                kind: entry.file_type().ok().map(kind_of),
            })
        })))
    }

    fn stat(&self, path: &Path) -> io::Result<Option<Stat>> {
        match fs::symlink_metadata(self.0.join(path)) {
            Ok(metadata) => Ok(Some(stat_of(&metadata))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn read(&self, path: &Path, limit: usize) -> io::Result<ReadFile> {
        let (file, stat) = self.open_file(path)?;
        let mut bytes = Vec::new();
        file.take(u64::try_from(limit.saturating_add(1)).unwrap_or(u64::MAX))
            .read_to_end(&mut bytes)?;
        Ok(ReadFile { stat, bytes })
    }

    refuse! {
        rename(&Path, &Path) rename_new(&Path, &Path) remove(&Path) write(&Path, &[u8], Mode, bool)
        write_again(&Path, u64, &[u8]) create_dir(&Path, Mode) sync_dir(&Path) sync_fs(&Path)
    }

    fn open_log(&self, path: &Path, access: Access) -> io::Result<Box<dyn LogFile>> {
        match access {
            Access::Read => Ok(Box::new(ReadOnly(self.open_file(path)?.0))),
            Access::Append => Err(io::ErrorKind::ReadOnlyFilesystem.into()),
        }
    }
}

struct ReadOnly(File);

impl LogFile for ReadOnly {
    refuse! { append(&[u8]) sync_data() }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn drop_cache(&self, _: u64) -> io::Result<()> {
        Ok(())
    }
}
