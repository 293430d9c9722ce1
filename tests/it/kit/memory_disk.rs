//! A disk in memory that fails or returns wrong bytes on demand.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use spoolgate_ledger::disk::{Access, DirStream, Disk, LogFile, Mode, ReadFile, Space, Stat};
use spoolgate_ledger::memory::Memory;

/// The faults to inject. Each fault happens once.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// The next append writes only this many bytes and returns ENOSPC.
    pub append_room: Option<usize>,
    /// The next append stores its byte at this index with this bit flipped, and reports success.
    pub append_flip: Option<(usize, u8)>,
    /// The first read after the next append returns its first byte flipped, although the stored
    /// byte is right.
    pub read_back_flip: bool,
    /// This many syncs of the log's data return EIO; later ones succeed.
    pub sync_failures: u32,
    /// The next write of a file whose path contains this text returns EIO.
    pub write_fails_for: Option<String>,
    /// Whether an append happened.
    pub appended: bool,
}

/// The disk.
#[derive(Debug, Default)]
pub struct MemoryDisk {
    memory: Memory,
    /// The faults to inject.
    pub faults: Arc<Mutex<Faults>>,
}

fn error(code: i32) -> io::Error {
    io::Error::from_raw_os_error(code)
}

const EIO: i32 = 5;
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
        MemoryDisk {
            memory: self.memory.clone(),
            ..MemoryDisk::default()
        }
    }

    /// Writes a file unchanged, without any fault.
    pub fn put(&self, path: impl AsRef<Path>, bytes: &[u8]) {
        let written = self.memory.write(path.as_ref(), bytes, Mode::Shared, true);
        written.unwrap();
    }

    /// A file's bytes.
    pub fn get(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        Some(self.memory.read(path.as_ref(), usize::MAX).ok()?.bytes)
    }

    /// Leaves this much room on the disk; `None` for any.
    pub fn leave(&self, bytes: Option<u64>) {
        self.memory.limit(None);
        let free = bytes.map(|bytes| {
            self.memory.limit(Some(u64::MAX));
            let space = self.memory.space(Path::new("")).unwrap();
            u64::MAX - space.bytes + bytes
        });
        self.memory.limit(free);
    }

    /// Removes a file if it exists.
    pub fn drop_file(&self, path: impl AsRef<Path>) {
        let _ = self.memory.remove(path.as_ref());
    }

    /// All files whose path begins so.
    pub fn files_below(&self, start: &str) -> Vec<(PathBuf, Vec<u8>)> {
        let mut files = self.memory.files();
        files.retain(|(path, _)| path.starts_with(start) || start.is_empty());
        files
    }
}

impl Disk for MemoryDisk {
    fn read_dir(&self, dir: &Path) -> io::Result<DirStream> {
        self.memory.read_dir(dir)
    }

    fn stat(&self, path: &Path) -> io::Result<Option<Stat>> {
        self.memory.stat(path)
    }

    fn read(&self, path: &Path, limit: usize) -> io::Result<ReadFile> {
        self.memory.read(path, limit)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.memory.rename(from, to)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.memory.rename_new(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.memory.remove(path)
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
            return Err(error(EIO));
        }
        self.memory.write(path, bytes, Mode::Shared, true)
    }

    fn allocate(&self, path: &Path, offset: u64, bytes: u64) -> io::Result<()> {
        self.memory.allocate(path, offset, bytes)
    }

    fn space(&self, dir: &Path) -> io::Result<Space> {
        self.memory.space(dir)
    }

    fn write_again(&self, path: &Path, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.memory.write_again(path, offset, bytes)
    }

    fn write_at(&self, path: &Path, offset: u64, bytes: &[u8], mode: Mode) -> io::Result<()> {
        self.memory.write_at(path, offset, bytes, mode)
    }

    fn create_dir(&self, path: &Path, mode: Mode) -> io::Result<()> {
        self.memory.create_dir(path, mode)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.memory.sync_dir(dir)
    }

    fn sync_fs(&self, dir: &Path) -> io::Result<()> {
        self.memory.sync_fs(dir)
    }

    fn open_log(&self, path: &Path, access: Access) -> io::Result<Box<dyn LogFile>> {
        Ok(Box::new(MemoryLog {
            file: self.memory.open_log(path, access)?,
            faults: Arc::clone(&self.faults),
        }))
    }
}

struct MemoryLog {
    file: Box<dyn LogFile>,
    faults: Arc<Mutex<Faults>>,
}

impl LogFile for MemoryLog {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        let mut faults = self.faults.lock().unwrap();
        faults.appended = true;
        let room = faults.append_room.take();
        let mut bytes = bytes[..room.unwrap_or(bytes.len())].to_vec();
        if let Some((at, bit)) = faults.append_flip.take() {
            bytes[at] ^= 1 << bit;
        }
        self.file.append(&bytes)?;
        if room.is_some() {
            Err(error(ENOSPC))
        } else {
            Ok(())
        }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.file.read_at(offset, buffer)?;
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

    fn give_back_room(&self) -> io::Result<()> {
        self.file.give_back_room()
    }

    fn drop_cache(&self, _from: u64) -> io::Result<()> {
        Ok(())
    }
}
