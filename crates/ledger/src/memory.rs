//! A disk in memory, for tests and examples. It ignores modes and access, and syncs do nothing: it
//! shows what a log reads and writes, not what survives a crash. It can be given a capacity.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::disk::{
    Access, DirStream, Disk, Entry, FileId, Kind, LogFile, Mode, ReadFile, Space, Stat,
};

/// A disk that forgets everything when it is dropped. A clone has copies of all files.
///
/// ```
/// use std::path::Path;
///
/// use spoolgate_ledger::disk::{Disk as _, Mode, replace};
/// use spoolgate_ledger::memory::Memory;
///
/// let disk = Memory::default();
/// let path = Path::new("audit/checkpoint");
/// replace(&disk, path, b"first", Mode::Shared, true)?;
/// let before = disk.clone();
/// replace(&disk, path, b"second", Mode::Shared, true)?;
/// assert_eq!(disk.read(path, 100)?.bytes, b"second");
/// assert_eq!(before.read(path, 100)?.bytes, b"first");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Memory(Arc<Mutex<Entries>>);

#[derive(Debug, Default)]
struct Entries {
    files: BTreeMap<PathBuf, Arc<File>>,
    dirs: BTreeSet<PathBuf>,
    inodes: u64,
    /// Bytes that fit; `None` if there is no limit.
    capacity: Option<u64>,
}

#[derive(Debug)]
struct File {
    inode: u64,
    bytes: Mutex<Vec<u8>>,
    /// Where the room ends that was taken in advance.
    allocated: AtomicU64,
}

/// The error of a full disk.
const ENOSPC: i32 = 28;

/// A panic elsewhere cannot leave these half changed.
fn locked<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Clone for Memory {
    fn clone(&self) -> Memory {
        let copy = Memory::default();
        for (path, bytes) in self.files() {
            locked(&copy.0).put(&path, bytes);
        }
        locked(&copy.0).dirs.clone_from(&locked(&self.0).dirs);
        copy
    }
}

impl Memory {
    /// Returns all files with their bytes, in the order of their paths.
    pub fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let copy = |(path, file): (&PathBuf, &Arc<File>)| (path.clone(), file.copy());
        locked(&self.0).files.iter().map(copy).collect()
    }

    /// Limits how many bytes all files hold together; `None` ends the limit.
    pub fn limit(&self, capacity: Option<u64>) {
        locked(&self.0).capacity = capacity;
    }

    /// Returns how many of `bytes` more bytes of a file with `length` bytes, and room up to
    /// `allocated`, fit.
    fn fitting(&self, length: u64, allocated: u64, bytes: usize) -> usize {
        let Some(free) = locked(&self.0).free() else {
            return bytes;
        };
        let room = free.saturating_add(allocated.saturating_sub(length));
        bytes.min(usize::try_from(room).unwrap_or(usize::MAX))
    }

    fn file(&self, path: &Path) -> io::Result<Arc<File>> {
        let file = locked(&self.0).files.get(path).cloned();
        file.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Entries {
    /// Returns the bytes that are free; `None` if there is no limit.
    fn free(&self) -> Option<u64> {
        let used = self.files.values().map(|file| file.taken());
        Some(self.capacity?.saturating_sub(used.sum()))
    }

    fn put(&mut self, path: &Path, bytes: Vec<u8>) {
        self.inodes = self.inodes.saturating_add(1);
        let file = File {
            inode: self.inodes,
            bytes: Mutex::new(bytes),
            allocated: AtomicU64::new(0),
        };
        self.files.insert(path.to_owned(), Arc::new(file));
    }
}

impl File {
    fn length(&self) -> u64 {
        u64::try_from(locked(&self.bytes).len()).unwrap_or(u64::MAX)
    }

    /// Bytes of the disk that it takes.
    fn taken(&self) -> u64 {
        self.length().max(self.allocated.load(Ordering::SeqCst))
    }

    fn copy(&self) -> Vec<u8> {
        locked(&self.bytes).clone()
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut kept = locked(&self.bytes);
        let range = usize::try_from(offset)
            .ok()
            .and_then(|start| Some(start..start.checked_add(bytes.len())?))
            .ok_or(io::ErrorKind::FileTooLarge)?;
        if kept.len() < range.end {
            kept.resize(range.end, 0);
        }
        if let Some(place) = kept.get_mut(range) {
            place.copy_from_slice(bytes);
        }
        Ok(())
    }
}

fn stat_of(kind: Kind, inode: u64, bytes: usize) -> Stat {
    Stat {
        kind,
        id: FileId { device: 1, inode },
        uid: 0,
        links: 1,
        size: u64::try_from(bytes).unwrap_or(u64::MAX),
        modified_ns: 0,
        changed_ns: 0,
    }
}

impl Disk for Memory {
    fn read_dir(&self, dir: &Path) -> io::Result<DirStream> {
        let entries = locked(&self.0);
        let dirs = entries.dirs.iter().map(|path| (path, Kind::Directory));
        let files = entries.files.keys().map(|path| (path, Kind::File));
        let found: BTreeMap<_, _> = dirs
            .chain(files)
            .filter(|(path, _)| path.parent() == Some(dir))
            .filter_map(|(path, kind)| Some((path.file_name()?.to_owned(), kind)))
            .collect();
        Ok(Box::new(found.into_iter().map(|(name, kind)| {
            Ok(Entry {
                name,
                kind: Some(kind),
            })
        })))
    }

    fn stat(&self, path: &Path) -> io::Result<Option<Stat>> {
        if let Ok(file) = self.file(path) {
            let length = locked(&file.bytes).len();
            return Ok(Some(stat_of(Kind::File, file.inode, length)));
        }
        let is_dir = locked(&self.0).dirs.contains(path);
        Ok(is_dir.then(|| stat_of(Kind::Directory, 0, 0)))
    }

    fn read(&self, path: &Path, limit: usize) -> io::Result<ReadFile> {
        let file = self.file(path)?;
        let mut bytes = file.copy();
        let stat = stat_of(Kind::File, file.inode, bytes.len());
        bytes.truncate(limit.saturating_add(1));
        Ok(ReadFile { stat, bytes })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut entries = locked(&self.0);
        let file = entries.files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        entries.files.insert(to.to_owned(), file);
        Ok(())
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        match self.stat(to)? {
            Some(_) => Err(io::ErrorKind::AlreadyExists.into()),
            None => self.rename(from, to),
        }
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let removed = locked(&self.0).files.remove(path);
        removed
            .map(drop)
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn write(&self, path: &Path, bytes: &[u8], _: Mode, _: bool) -> io::Result<()> {
        // A new file takes the place of the old one, as on a real disk.
        let _ = self.remove(path);
        let fits = self.fitting(0, 0, bytes.len());
        let written = bytes.get(..fits).unwrap_or_default().to_vec();
        locked(&self.0).put(path, written);
        if fits < bytes.len() {
            return Err(io::Error::from_raw_os_error(ENOSPC));
        }
        Ok(())
    }

    fn write_again(&self, path: &Path, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file(path)?.write_at(offset, bytes)
    }

    fn write_at(&self, path: &Path, offset: u64, bytes: &[u8], _: Mode) -> io::Result<()> {
        if self.file(path).is_err() {
            locked(&self.0).put(path, Vec::new());
        }
        let file = self.file(path)?;
        let end = offset.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        let grows = usize::try_from(end.saturating_sub(file.length())).unwrap_or(usize::MAX);
        if self.fitting(file.length(), file.allocated.load(Ordering::SeqCst), grows) < grows {
            return Err(io::Error::from_raw_os_error(ENOSPC));
        }
        file.write_at(offset, bytes)
    }

    fn allocate(&self, path: &Path, offset: u64, bytes: u64) -> io::Result<()> {
        let file = self.file(path)?;
        let end = offset.saturating_add(bytes);
        let more = end.saturating_sub(file.taken());
        if locked(&self.0).free().is_some_and(|free| free < more) {
            return Err(io::Error::from_raw_os_error(ENOSPC));
        }
        file.allocated.fetch_max(end, Ordering::SeqCst);
        Ok(())
    }

    fn space(&self, _: &Path) -> io::Result<Space> {
        let bytes = locked(&self.0).free().unwrap_or(u64::MAX);
        Ok(Space { bytes, files: None })
    }

    fn create_dir(&self, path: &Path, _: Mode) -> io::Result<()> {
        locked(&self.0).dirs.insert(path.to_owned());
        Ok(())
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn sync_fs(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn open_log(&self, path: &Path, _: Access) -> io::Result<Box<dyn LogFile>> {
        Ok(Box::new(MemoryLog {
            file: self.file(path)?,
            disk: Memory(Arc::clone(&self.0)),
        }))
    }
}

/// An open file, which keeps its bytes when its name is given to another file.
struct MemoryLog {
    file: Arc<File>,
    disk: Memory,
}

impl LogFile for MemoryLog {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.length())
    }

    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        let allocated = self.file.allocated.load(Ordering::SeqCst);
        let fits = self
            .disk
            .fitting(self.file.length(), allocated, bytes.len());
        let written = bytes.get(..fits).unwrap_or_default();
        locked(&self.file.bytes).extend_from_slice(written);
        if fits < bytes.len() {
            return Err(io::Error::from_raw_os_error(ENOSPC));
        }
        Ok(())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = locked(&self.file.bytes);
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let mut rest = bytes.get(start..).unwrap_or_default();
        io::Read::read(&mut rest, buffer)
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn give_back_room(&self) -> io::Result<()> {
        self.file.allocated.store(0, Ordering::SeqCst);
        Ok(())
    }

    fn drop_cache(&self, _: u64) -> io::Result<()> {
        Ok(())
    }
}
