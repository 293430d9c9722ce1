//! The file-system seam: every file access of the watcher, ledger included, is one of these verbs. Paths
//! are relative to the home. An implementation never follows a link in the last component.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

/// What a directory entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A FIFO, socket or device.
    Other,
}

/// Which file it is, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId {
    /// Device.
    pub device: u64,
    /// Inode.
    pub inode: u64,
}

/// What is known of a path without opening it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// What it is.
    pub kind: Kind,
    /// Which one.
    pub id: FileId,
    /// Hard links.
    pub links: u64,
    /// Bytes.
    pub size: u64,
    /// Nanoseconds of the last change of content, for telling one version of a file from another.
    pub modified_ns: i128,
}

/// A file read in one go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadFile {
    /// What it was when it was opened.
    pub stat: Stat,
    /// Its bytes: all of them, or one more than the limit.
    pub bytes: Vec<u8>,
}

/// A directory entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: OsString,
    /// What it is, as far as the directory says.
    pub kind: Option<Kind>,
}

/// An open directory that is read to its end bit by bit.
pub type DirStream = Box<dyn Iterator<Item = io::Result<Entry>> + Send>;

/// Who may read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The gate's user only: 0600, directories 0700.
    Private,
    /// As the umask allows: 0644, directories 0755.
    Shared,
}

/// What a log is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading only: an auditor may not write.
    Read,
    /// Reading and appending.
    Append,
}

/// The verbs.
pub trait Disk: Send + Sync {
    /// Opens a directory for reading its entries. A fresh path look-up every time.
    fn read_dir(&self, dir: &Path) -> io::Result<DirStream>;
    /// What `path` is; none if there is nothing.
    fn stat(&self, path: &Path) -> io::Result<Option<Stat>>;
    /// Opens without following links and without blocking, and reads at most `limit + 1` bytes of a
    /// regular file; of anything else, nothing.
    fn read(&self, path: &Path, limit: usize) -> io::Result<ReadFile>;
    /// The same, but of what the medium holds or a later sync will write: after a sync that failed, memory can
    /// show bytes that neither is true of. A disk without a cache reads as ever.
    fn read_from_medium(&self, path: &Path, limit: usize) -> io::Result<ReadFile> {
        self.read(path, limit)
    }
    /// Renames, replacing what is there.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Renames only if nothing is there (`EEXIST` otherwise).
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file or an empty directory entry that is no directory.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Writes a new file in place of whatever is under this name; `durable` syncs it (not its directory).
    fn write(&self, path: &Path, bytes: &[u8], mode: Mode, durable: bool) -> io::Result<()>;
    /// Writes bytes that are already there once more at the same place, and syncs the file. After a sync that
    /// failed they can be in memory only, and no later sync would write them.
    fn write_again(&self, path: &Path, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Writes bytes at a place of a file, which is made if it is not there. Not synced. For caches that several may
    /// write at once, the same bytes each: a disk that is not asked for those need not do it.
    fn write_at(&self, _path: &Path, _offset: u64, _bytes: &[u8], _mode: Mode) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Makes a directory; one that is there is fine.
    fn create_dir(&self, path: &Path, mode: Mode) -> io::Result<()>;
    /// Makes the entries of a directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Makes everything on the file system of `dir` durable.
    fn sync_fs(&self, dir: &Path) -> io::Result<()>;
    /// Opens a log.
    fn open_log(&self, path: &Path, access: Access) -> io::Result<Box<dyn LogFile>>;
}

/// An append-only file.
pub trait LogFile: Send + Sync {
    /// Bytes in it.
    fn len(&self) -> io::Result<u64>;
    /// Whether nothing is in it.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Appends all of `bytes` or fails; on failure any prefix may be there.
    fn append(&self, bytes: &[u8]) -> io::Result<()>;
    /// Reads up to `buffer.len()` bytes at `offset`; 0 at the end.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
    /// Makes appended bytes durable.
    fn sync_data(&self) -> io::Result<()>;
    /// Drops cached pages from the byte `from` on, so that the next read comes from the medium. A hint.
    fn drop_cache(&self, from: u64) -> io::Result<()>;
}

/// Reads `length` bytes at `offset`, failing if the file ends before.
///
/// # Errors
/// [`io::ErrorKind::UnexpectedEof`] or what the file says.
pub fn read_exact_at(file: &dyn LogFile, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    fill_at(file, offset, &mut bytes)?;
    Ok(bytes)
}

/// Fills a buffer with the bytes at `offset`, failing if the file ends before.
///
/// # Errors
/// [`io::ErrorKind::UnexpectedEof`] or what the file says.
pub fn fill_at(file: &dyn LogFile, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
    let mut done = 0;
    while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
        let at = offset.saturating_add(u64::try_from(done).unwrap_or(u64::MAX));
        match file.read_at(at, rest) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => done += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The name beside `path` under which [`replace`] writes first; none for a path without a name.
pub fn temporary(path: &Path) -> Option<PathBuf> {
    let mut hidden = OsString::from(".");
    hidden.push(path.file_name()?);
    hidden.push(".tmp");
    Some(path.with_file_name(hidden))
}

/// Writes `bytes` under a temporary name beside `path` and renames it there, so that readers see the old
/// file or the whole new one. `durable` syncs file and directory.
///
/// # Errors
/// What the disk says.
pub fn replace(disk: &dyn Disk, path: &Path, bytes: &[u8], mode: Mode, durable: bool) -> io::Result<()> {
    let temporary = temporary(path).ok_or(io::ErrorKind::InvalidInput)?;
    disk.write(&temporary, bytes, mode, durable)?;
    disk.rename(&temporary, path)?;
    if durable { disk.sync_dir(path.parent().unwrap_or(Path::new(""))) } else { Ok(()) }
}
