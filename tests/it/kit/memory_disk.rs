//! A disk in memory that counts, fails and lies when told to. Copying a home on it is copying a
//! map.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use spoolgate_ledger::disk::{
    Access, DirStream, Disk, Entry, FileId, Kind, LogFile, Mode, ReadFile, Stat,
};

/// What is to go wrong. Each fault strikes once and is then gone.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// The next append writes only so many bytes, then says ENOSPC.
    pub append_room: Option<usize>,
    /// The next append stores this byte of it with this bit flipped, and says nothing.
    pub append_flip: Option<(usize, u8)>,
    /// The first read after the next append returns its first byte flipped, though the medium is
    /// fine.
    pub read_back_flip: bool,
    /// So many syncs of the log's data say EIO; later ones say OK.
    pub sync_failures: u32,
    /// Writing a file whose path contains this says ENOSPC.
    pub write_fails_for: Option<String>,
    /// Whether an append was seen.
    pub appended: bool,
}

#[derive(Debug)]
struct File {
    bytes: Vec<u8>,
    inode: u64,
}

#[derive(Debug, Default)]
struct Inner {
    files: BTreeMap<PathBuf, Arc<Mutex<File>>>,
    dirs: BTreeSet<PathBuf>,
    inodes: u64,
}

/// The disk.
#[derive(Debug, Default)]
pub struct MemoryDisk {
    inner: Mutex<Inner>,
    /// What is to go wrong.
    pub faults: Arc<Mutex<Faults>>,
}

fn error(code: i32) -> io::Error {
    io::Error::from_raw_os_error(code)
}

const ENOENT: i32 = 2;
const EIO: i32 = 5;
const EEXIST: i32 = 17;
const ENOSPC: i32 = 28;

impl MemoryDisk {
    /// A disk that holds these files.
    pub fn with(files: &[(PathBuf, Vec<u8>)]) -> MemoryDisk {
        let disk = MemoryDisk::default();
        for (path, bytes) in files {
            disk.put(path, bytes);
        }
        disk
    }

    /// The same files on another disk, without faults.
    pub fn copy(&self) -> MemoryDisk {
        let copy = MemoryDisk::with(&self.files_below(""));
        copy.inner.lock().unwrap().dirs = self.inner.lock().unwrap().dirs.clone();
        copy
    }

    /// Writes a file as it is, past all faults.
    pub fn put(&self, path: impl AsRef<Path>, bytes: &[u8]) {
        let mut inner = self.inner.lock().unwrap();
        inner.inodes += 1;
        let inode = inner.inodes;
        let file = Arc::new(Mutex::new(File {
            bytes: bytes.to_vec(),
            inode,
        }));
        inner.files.insert(path.as_ref().to_owned(), file);
    }

    /// A file's bytes.
    pub fn get(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        Some(self.file(path.as_ref()).ok()?.lock().unwrap().bytes.clone())
    }

    /// Takes a file away.
    pub fn drop_file(&self, path: impl AsRef<Path>) {
        self.inner.lock().unwrap().files.remove(path.as_ref());
    }

    /// All files whose path begins so.
    pub fn files_below(&self, start: &str) -> Vec<(PathBuf, Vec<u8>)> {
        let inner = self.inner.lock().unwrap();
        let below = inner
            .files
            .iter()
            .filter(|(path, _)| path.starts_with(start) || start.is_empty());
        below
            .map(|(path, file)| (path.clone(), file.lock().unwrap().bytes.clone()))
            .collect()
    }

    fn file(&self, path: &Path) -> io::Result<Arc<Mutex<File>>> {
        self.inner
            .lock()
            .unwrap()
            .files
            .get(path)
            .cloned()
            .ok_or_else(|| error(ENOENT))
    }
}

fn stat_of(file: &File) -> Stat {
    Stat {
        kind: Kind::File,
        id: FileId {
            device: 1,
            inode: file.inode,
        },
        links: 1,
        size: file.bytes.len() as u64,
        modified_ns: 0,
    }
}

impl Disk for MemoryDisk {
    fn read_dir(&self, dir: &Path) -> io::Result<DirStream> {
        let inner = self.inner.lock().unwrap();
        let mut entries: BTreeMap<OsString, Kind> = BTreeMap::new();
        for path in inner.dirs.iter().filter(|path| path.parent() == Some(dir)) {
            entries.insert(path.file_name().unwrap().to_owned(), Kind::Directory);
        }
        for path in inner.files.keys().filter(|path| path.parent() == Some(dir)) {
            entries.insert(path.file_name().unwrap().to_owned(), Kind::File);
        }
        let entries: Vec<_> = entries
            .into_iter()
            .map(|(name, kind)| {
                Ok(Entry {
                    name,
                    kind: Some(kind),
                })
            })
            .collect();
        Ok(Box::new(entries.into_iter()))
    }

    fn stat(&self, path: &Path) -> io::Result<Option<Stat>> {
        if let Ok(file) = self.file(path) {
            return Ok(Some(stat_of(&file.lock().unwrap())));
        }
        let is_dir = self.inner.lock().unwrap().dirs.contains(path);
        let id = FileId {
            device: 1,
            inode: 0,
        };
        Ok(is_dir.then_some(Stat {
            kind: Kind::Directory,
            id,
            links: 1,
            size: 0,
            modified_ns: 0,
        }))
    }

    fn read(&self, path: &Path, limit: usize) -> io::Result<ReadFile> {
        let file = self.file(path)?;
        let file = file.lock().unwrap();
        let end = file.bytes.len().min(limit.saturating_add(1));
        Ok(ReadFile {
            stat: stat_of(&file),
            bytes: file.bytes[..end].to_vec(),
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut inner = self.inner.lock().unwrap();
        let file = inner.files.remove(from).ok_or_else(|| error(ENOENT))?;
        inner.files.insert(to.to_owned(), file);
        Ok(())
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        if self.stat(to)?.is_some() {
            return Err(error(EEXIST));
        }
        self.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inner
            .lock()
            .unwrap()
            .files
            .remove(path)
            .map(|_| ())
            .ok_or_else(|| error(ENOENT))
    }

    fn write(&self, path: &Path, bytes: &[u8], _mode: Mode, _durable: bool) -> io::Result<()> {
        let mut faults = self.faults.lock().unwrap();
        let text = path.to_string_lossy();
        if faults
            .write_fails_for
            .as_ref()
            .is_some_and(|part| text.contains(part.as_str()))
        {
            faults.write_fails_for = None;
            self.put(path, &bytes[..bytes.len() / 2]);
            return Err(error(ENOSPC));
        }
        self.put(path, bytes);
        Ok(())
    }

    fn write_again(&self, path: &Path, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let file = self.file(path)?;
        let start = usize::try_from(offset).unwrap();
        file.lock().unwrap().bytes[start..start + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn write_at(&self, path: &Path, offset: u64, bytes: &[u8], _mode: Mode) -> io::Result<()> {
        if self.file(path).is_err() {
            self.put(path, b"");
        }
        let file = self.file(path)?;
        let mut file = file.lock().unwrap();
        let start = usize::try_from(offset).unwrap();
        let length = file.bytes.len().max(start + bytes.len());
        file.bytes.resize(length, 0);
        file.bytes[start..start + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn create_dir(&self, path: &Path, _mode: Mode) -> io::Result<()> {
        self.inner.lock().unwrap().dirs.insert(path.to_owned());
        Ok(())
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }

    fn sync_fs(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }

    fn open_log(&self, path: &Path, _access: Access) -> io::Result<Box<dyn LogFile>> {
        Ok(Box::new(MemoryLog {
            file: self.file(path)?,
            faults: Arc::clone(&self.faults),
        }))
    }
}

struct MemoryLog {
    file: Arc<Mutex<File>>,
    faults: Arc<Mutex<Faults>>,
}

impl LogFile for MemoryLog {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.lock().unwrap().bytes.len() as u64)
    }

    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        let mut faults = self.faults.lock().unwrap();
        faults.appended = true;
        let room = faults.append_room.take();
        let mut bytes = bytes[..room.unwrap_or(bytes.len())].to_vec();
        if let Some((at, bit)) = faults.append_flip.take() {
            bytes[at] ^= 1 << bit;
        }
        self.file.lock().unwrap().bytes.extend_from_slice(&bytes);
        if room.is_some() {
            Err(error(ENOSPC))
        } else {
            Ok(())
        }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let file = self.file.lock().unwrap();
        let from = usize::try_from(offset).unwrap().min(file.bytes.len());
        let length = buffer.len().min(file.bytes.len() - from);
        buffer[..length].copy_from_slice(&file.bytes[from..from + length]);
        let mut faults = self.faults.lock().unwrap();
        if faults.appended && faults.read_back_flip && length > 0 {
            faults.read_back_flip = false;
            buffer[0] ^= 1;
        }
        Ok(length)
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut faults = self.faults.lock().unwrap();
        if faults.sync_failures > 0 {
            faults.sync_failures -= 1;
            return Err(error(EIO));
        }
        Ok(())
    }

    fn drop_cache(&self, _from: u64) -> io::Result<()> {
        Ok(())
    }
}
