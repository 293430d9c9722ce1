//! The file-system interface: every file access of the gate, ledger included, is one of these
//! operations. Paths are relative to the home. An implementation never follows a link in the last
//! component.

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

/// Identifies a file, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId {
    /// Device.
    pub device: u64,
    /// Inode.
    pub inode: u64,
}

/// What is known about a path without opening it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The kind of entry.
    pub kind: Kind,
    /// The identity of the file.
    pub id: FileId,
    /// The user that it belongs to.
    pub uid: u32,
    /// Number of hard links.
    pub links: u64,
    /// Size in bytes.
    pub size: u64,
    /// Time of the last change of content, in nanoseconds; used to tell versions of a file apart.
    pub modified_ns: i128,
    /// Time of the last change of content, name, owner or mode, in nanoseconds. Nobody can set it.
    pub changed_ns: i128,
}

/// A file read in one go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadFile {
    /// The file's metadata at the time it was opened.
    pub stat: Stat,
    /// The file's bytes: all of them, or one more than the limit.
    pub bytes: Vec<u8>,
}

/// A directory entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: OsString,
    /// The kind, if the directory reports it.
    pub kind: Option<Kind>,
}

/// An open directory whose entries are read one at a time.
pub type DirStream = Box<dyn Iterator<Item = io::Result<Entry>> + Send>;

/// Free room on a file system, for a user who is not the superuser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Free bytes.
    pub bytes: u64,
    /// Files that can still be made, and all that the file system can hold; `None` if it does not
    /// limit them.
    pub files: Option<(u64, u64)>,
}

/// Who may read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The gate's user only: 0600, directories 0700.
    Private,
    /// As the umask allows: 0644, directories 0755.
    Shared,
}

/// The purpose for which a log is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading only: an auditor may not write.
    Read,
    /// Reading and appending.
    Append,
}

/// The file operations.
pub trait Disk: Send + Sync {
    /// Opens a directory to read its entries. Resolves the path anew every time.
    fn read_dir(&self, dir: &Path) -> io::Result<DirStream>;
    /// Returns the metadata of `path`. `None` if nothing is there.
    fn stat(&self, path: &Path) -> io::Result<Option<Stat>>;
    /// Opens the file without following links and without blocking, and reads at most `limit + 1`
    /// bytes of it. Reads no bytes of anything but a regular file.
    fn read(&self, path: &Path, limit: usize) -> io::Result<ReadFile>;
    /// As [`Disk::read`], but returns what the medium holds or what a later sync will write. After
    /// a failed sync the page cache can hold bytes for which neither is true. A disk without a
    /// cache just reads.
    fn read_from_medium(&self, path: &Path, limit: usize) -> io::Result<ReadFile> {
        self.read(path, limit)
    }
    /// Renames a file, replacing the target if it exists.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Renames a file only if the target does not exist (`EEXIST` otherwise).
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file or another directory entry that is not a directory.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Writes a new file that replaces whatever has this name. `durable` syncs the file, but not
    /// its directory.
    fn write(&self, path: &Path, bytes: &[u8], mode: Mode, durable: bool) -> io::Result<()>;
    /// Writes bytes that are already in the file again at the same offset, and syncs the file.
    /// After a failed sync they may be in memory only, and no later sync would write them.
    fn write_again(&self, path: &Path, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Writes bytes at an offset of a file and creates the file if necessary. Not synced. Meant for
    /// caches that several processes may write at once, all with the same bytes; other disks need
    /// not implement it.
    fn write_at(&self, _path: &Path, _offset: u64, _bytes: &[u8], _mode: Mode) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Creates a directory; succeeds if it exists.
    fn create_dir(&self, path: &Path, mode: Mode) -> io::Result<()>;
    /// Makes the entries of a directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Makes everything on the file system of `dir` durable.
    fn sync_fs(&self, dir: &Path) -> io::Result<()>;
    /// Takes room on the disk for the bytes `offset..offset + bytes` of a file that exists, without
    /// changing its length, so that no later write there fails for want of room. Takes nothing
    /// where the file has its room already.
    ///
    /// # Errors
    /// Returns the system's error; [`io::ErrorKind::Unsupported`] if the file system cannot do this.
    fn allocate(&self, _path: &Path, _offset: u64, _bytes: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Returns the free room on the file system of `dir`; a disk without limits has all of it.
    fn space(&self, _dir: &Path) -> io::Result<Space> {
        Ok(Space {
            bytes: u64::MAX,
            files: None,
        })
    }
    /// Opens a log.
    fn open_log(&self, path: &Path, access: Access) -> io::Result<Box<dyn LogFile>>;
}

/// An append-only file.
pub trait LogFile: Send + Sync {
    /// Bytes in it.
    fn len(&self) -> io::Result<u64>;
    /// Whether the file is empty.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Appends all of `bytes` or fails; after a failure any prefix of them may be in the file.
    fn append(&self, bytes: &[u8]) -> io::Result<()>;
    /// Reads up to `buffer.len()` bytes at `offset`; 0 at the end.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
    /// Makes appended bytes durable.
    fn sync_data(&self) -> io::Result<()>;
    /// Gives room back that was taken behind its end. Its bytes stay as they are.
    fn give_back_room(&self) -> io::Result<()> {
        Ok(())
    }
    /// Drops cached pages from byte `from` on, so that the next read comes from the medium. A hint.
    fn drop_cache(&self, from: u64) -> io::Result<()>;
}

/// Reads `length` bytes at `offset`.
///
/// # Errors
/// Returns [`io::ErrorKind::UnexpectedEof`] if the file ends earlier, or an error if reading fails.
pub fn read_exact_at(file: &dyn LogFile, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    fill_at(file, offset, &mut bytes)?;
    Ok(bytes)
}

/// Fills a buffer with the bytes at `offset`.
///
/// # Errors
/// Returns [`io::ErrorKind::UnexpectedEof`] if the file ends earlier, or an error if reading fails.
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

/// Whether this error means that the disk, or what its quota leaves to the gate's user, is full.
pub fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

/// The temporary name beside `path` that [`replace`] writes to first. `None` if the path has no
/// file name.
pub fn temporary(path: &Path) -> Option<PathBuf> {
    let mut hidden = OsString::from(".");
    hidden.push(path.file_name()?);
    hidden.push(".tmp");
    Some(path.with_file_name(hidden))
}

/// Writes `bytes` under a temporary name beside `path` and renames that file to `path`, so that
/// readers see either the old file or the whole new one. `durable` syncs the file and the
/// directory.
///
/// # Errors
/// Returns an error if writing or renaming fails.
pub fn replace(
    disk: &dyn Disk,
    path: &Path,
    bytes: &[u8],
    mode: Mode,
    durable: bool,
) -> io::Result<()> {
    let temporary = temporary(path).ok_or(io::ErrorKind::InvalidInput)?;
    disk.write(&temporary, bytes, mode, durable)?;
    disk.rename(&temporary, path)?;
    if durable {
        disk.sync_dir(path.parent().unwrap_or(Path::new("")))
    } else {
        Ok(())
    }
}
