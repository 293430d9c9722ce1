//! Implements [`Disk`] on a real file system, with `openat` and similar calls below one directory.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    self as rfs, Advice, AtFlags, FallocateFlags, FileType, OFlags, RenameFlags, ResolveFlags,
};

use spoolgate_ledger::disk::{
    Access, DirStream, Disk, Entry, FileId, Kind, LogFile, Mode, ReadFile, Space, Stat,
};

/// A home on disk.
#[derive(Debug)]
pub struct RealDisk {
    root: OwnedFd,
    path: PathBuf,
}

impl RealDisk {
    /// Opens the home's directory.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn open(home: &Path) -> io::Result<RealDisk> {
        let root = rfs::open(
            home,
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            rfs::Mode::empty(),
        )?;
        Ok(RealDisk {
            root,
            path: home.to_owned(),
        })
    }

    /// The home's directory.
    pub fn home(&self) -> &Path {
        &self.path
    }

    /// Returns the folder in which a path's last component is looked up, and that component.
    /// Folders deeper than `spool/in` belong to other users. They are opened anew each time without
    /// following links; otherwise a folder replaced by a link would make the gate move files from
    /// anywhere.
    fn place<'a>(&'a self, path: &'a Path) -> io::Result<(Folder<'a>, &'a Path)> {
        if path.components().count() <= OWN_DEPTH {
            return Ok((Folder::Root(self.root.as_fd()), path));
        }
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let opened = match rfs::openat2(&self.root, parent, flags, rfs::Mode::empty(), resolve) {
            // Before Linux 5.6, or if a sandbox does not know the call.
            Err(rustix::io::Errno::NOSYS) => self.step_by_step(parent)?,
            other => other?,
        };
        Ok((Folder::Opened(opened), Path::new(name)))
    }

    /// Opens a folder component by component and follows no link.
    fn step_by_step(&self, folder: &Path) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut at = rfs::openat(&self.root, ".", flags, rfs::Mode::empty())?;
        for component in folder.components() {
            let Component::Normal(name) = component else {
                return Err(io::ErrorKind::InvalidInput.into());
            };
            at = rfs::openat(&at, name, flags, rfs::Mode::empty())?;
        }
        Ok(at)
    }

    fn open_at(&self, path: &Path, flags: OFlags, mode: rfs::Mode) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let (folder, name) = self.place(path)?;
        loop {
            match rfs::openat(&folder, name, flags, mode) {
                Err(rustix::io::Errno::INTR) => {}
                other => return Ok(other?),
            }
        }
    }

    /// Reads a file. `prepare` is called once it is open and known to be a regular file.
    fn read_with(
        &self,
        path: &Path,
        limit: usize,
        prepare: impl FnOnce(BorrowedFd<'_>) -> rustix::io::Result<()>,
    ) -> io::Result<ReadFile> {
        // Without NONBLOCK, opening a FIFO would block the gate for ever.
        let fd = self.open_at(
            path,
            OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY,
            rfs::Mode::empty(),
        )?;
        let stat = stat_of(&rfs::fstat(&fd)?);
        let mut bytes = Vec::new();
        if stat.kind == Kind::File {
            prepare(fd.as_fd())?;
            let expected = usize::try_from(stat.size).unwrap_or(usize::MAX).min(limit);
            bytes
                .try_reserve_exact(expected.saturating_add(1))
                .map_err(|_| io::ErrorKind::OutOfMemory)?;
            let cap = limit.saturating_add(1);
            let mut file = File::from(fd);
            bytes.resize(expected.saturating_add(1).min(cap), 0);
            let first = loop {
                match file.read(&mut bytes) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    other => break other?,
                }
            };
            let has_room = first < bytes.len();
            bytes.truncate(first);
            // If a regular file returned exactly its size although there was room for one more
            // byte, it is at its end; another read would only confirm that.
            if !has_room || first < expected {
                let rest = u64::try_from(cap.saturating_sub(first)).unwrap_or(u64::MAX);
                file.take(rest).read_to_end(&mut bytes)?;
            }
        }
        Ok(ReadFile { stat, bytes })
    }

    fn open_dir(&self, dir: &Path) -> io::Result<OwnedFd> {
        let dir = if dir.as_os_str().is_empty() {
            Path::new(".")
        } else {
            dir
        };
        self.open_at(dir, OFlags::RDONLY | OFlags::DIRECTORY, rfs::Mode::empty())
    }
}

/// Number of components of paths whose folders belong to the gate: `spool/in/<name>`.
const OWN_DEPTH: usize = 3;

/// Largest group of pages, in bytes, that Linux caches as a unit.
const CACHED_TOGETHER_MAX: u64 = 2 * 1024 * 1024;

/// A folder in which a name is looked up.
enum Folder<'a> {
    /// The home's directory.
    Root(BorrowedFd<'a>),
    /// A folder that was opened for this look-up.
    Opened(OwnedFd),
}

impl AsFd for Folder<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Folder::Root(root) => *root,
            Folder::Opened(folder) => folder.as_fd(),
        }
    }
}

fn file_mode(mode: Mode) -> rfs::Mode {
    match mode {
        Mode::Private => rfs::Mode::from_raw_mode(0o600),
        Mode::Shared => rfs::Mode::from_raw_mode(0o644),
    }
}

fn kind_of(file_type: FileType) -> Kind {
    match file_type {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Link,
        _ => Kind::Other,
    }
}

#[allow(
    clippy::useless_conversion,
    reason = "field types of stat differ between architectures"
)]
fn stat_of(stat: &rfs::Stat) -> Stat {
    let ns = |seconds: i128, nanoseconds: i128| {
        seconds
            .saturating_mul(1_000_000_000)
            .saturating_add(nanoseconds)
    };
    Stat {
        kind: kind_of(FileType::from_raw_mode(stat.st_mode)),
        id: FileId {
            device: stat.st_dev,
            inode: stat.st_ino,
        },
        uid: stat.st_uid,
        links: u64::from(stat.st_nlink),
        size: u64::try_from(stat.st_size).unwrap_or(u64::MAX),
        modified_ns: ns(stat.st_mtime.into(), stat.st_mtime_nsec.into()),
        changed_ns: ns(stat.st_ctime.into(), stat.st_ctime_nsec.into()),
    }
}

impl Disk for RealDisk {
    fn read_dir(&self, dir: &Path) -> io::Result<DirStream> {
        let stream = rfs::Dir::new(self.open_dir(dir)?)?;
        Ok(Box::new(stream.filter_map(|entry| {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => return Some(Err(error.into())),
            };
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                return None;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => None,
                known => Some(kind_of(known)),
            };
            Some(Ok(Entry {
                name: OsStr::from_bytes(name).to_owned(),
                kind,
            }))
        })))
    }

    fn stat(&self, path: &Path) -> io::Result<Option<Stat>> {
        let (folder, name) = match self.place(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        match rfs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat_of(&stat))),
            Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn read(&self, path: &Path, limit: usize) -> io::Result<ReadFile> {
        self.read_with(path, limit, |_| Ok(()))
    }

    fn read_from_medium(&self, path: &Path, limit: usize) -> io::Result<ReadFile> {
        // Dirty pages stay in the cache; the next sync writes them.
        self.read_with(path, limit, |fd| {
            rfs::fadvise(fd, 0, None, Advice::DontNeed)
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let ((from_folder, from), (to_folder, to)) = (self.place(from)?, self.place(to)?);
        Ok(rfs::renameat(&from_folder, from, &to_folder, to)?)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        let ((from_folder, from), (to_folder, to)) = (self.place(from)?, self.place(to)?);
        Ok(rfs::renameat_with(
            &from_folder,
            from,
            &to_folder,
            to,
            RenameFlags::NOREPLACE,
        )?)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let (folder, name) = self.place(path)?;
        Ok(rfs::unlinkat(&folder, name, AtFlags::empty())?)
    }

    fn write(&self, path: &Path, bytes: &[u8], mode: Mode, durable: bool) -> io::Result<()> {
        // Always create a new file: an existing one may be a leftover, a FIFO that would block the
        // gate, or a second name of a file that must not be overwritten.
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let fd = match self.open_at(path, flags, file_mode(mode)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.remove(path)?;
                self.open_at(path, flags, file_mode(mode))?
            }
            other => other?,
        };
        let mut file = File::from(fd);
        file.write_all(bytes)?;
        if durable { file.sync_all() } else { Ok(()) }
    }

    fn write_again(&self, path: &Path, offset: u64, bytes: &[u8]) -> io::Result<()> {
        // Not opened as a log: a file opened for appending always writes at its end, whatever the
        // offset.
        let file = File::from(self.open_at(
            path,
            OFlags::WRONLY | OFlags::NONBLOCK,
            rfs::Mode::empty(),
        )?);
        file.write_all_at(bytes, offset)?;
        file.sync_all()
    }

    fn write_at(&self, path: &Path, offset: u64, bytes: &[u8], mode: Mode) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NONBLOCK;
        let fd = self.open_at(path, flags, file_mode(mode))?;
        let stat = stat_of(&rfs::fstat(&fd)?);
        // A hard link to another file must not be written to.
        if stat.kind != Kind::File || stat.links != 1 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        File::from(fd).write_all_at(bytes, offset)
    }

    fn create_dir(&self, path: &Path, mode: Mode) -> io::Result<()> {
        let bits = match mode {
            Mode::Private => 0o700,
            Mode::Shared => 0o755,
        };
        let (folder, name) = self.place(path)?;
        let is_there = || match rfs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat_of(&stat).kind == Kind::Directory,
            Err(_) => false,
        };
        // Check first, because the directory nearly always exists: a check costs a third of a
        // failed attempt to create it.
        if is_there() {
            return Ok(());
        }
        match rfs::mkdirat(&folder, name, rfs::Mode::from_raw_mode(bits)) {
            Err(rustix::io::Errno::EXIST) if is_there() => Ok(()),
            other => Ok(other?),
        }
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        Ok(rfs::fsync(self.open_dir(dir)?)?)
    }

    fn sync_fs(&self, dir: &Path) -> io::Result<()> {
        Ok(rfs::syncfs(self.open_dir(dir)?)?)
    }

    fn allocate(&self, path: &Path, offset: u64, bytes: u64) -> io::Result<()> {
        let fd = self.open_at(path, OFlags::WRONLY | OFlags::NONBLOCK, rfs::Mode::empty())?;
        match rfs::fallocate(&fd, FallocateFlags::KEEP_SIZE, offset, bytes) {
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {
                Err(io::ErrorKind::Unsupported.into())
            }
            other => Ok(other?),
        }
    }

    fn space(&self, dir: &Path) -> io::Result<Space> {
        let known = rfs::fstatvfs(self.open_dir(dir)?)?;
        Ok(Space {
            bytes: known.f_bavail.saturating_mul(known.f_frsize),
            files: (known.f_files > 0).then_some((known.f_favail, known.f_files)),
        })
    }

    fn open_log(&self, path: &Path, access: Access) -> io::Result<Box<dyn LogFile>> {
        let flags = match access {
            Access::Read => OFlags::RDONLY | OFlags::NONBLOCK,
            Access::Append => OFlags::RDWR | OFlags::APPEND | OFlags::NONBLOCK,
        };
        let fd = self.open_at(path, flags, file_mode(Mode::Shared))?;
        if stat_of(&rfs::fstat(&fd)?).kind != Kind::File {
            return Err(io::Error::other(format!(
                "`{}` is not a regular file",
                path.display()
            )));
        }
        Ok(Box::new(RealLog {
            file: File::from(fd),
        }))
    }
}

struct RealLog {
    file: File,
}

impl LogFile for RealLog {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        (&self.file).write_all(bytes)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn give_back_room(&self) -> io::Result<()> {
        // Blocks behind the end are freed although the length stays as it is.
        self.file.set_len(self.len()?)
    }

    fn drop_cache(&self, from: u64) -> io::Result<()> {
        // The cache keeps pages in aligned groups, and does not drop a group that begins before the
        // offset.
        let from = from - from % CACHED_TOGETHER_MAX;
        Ok(rfs::fadvise(
            self.file.as_fd(),
            from,
            None,
            Advice::DontNeed,
        )?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_to_open_a_folder_stop_at_links() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(home.path().join("spool/in/bot/new")).unwrap();
        std::os::unix::fs::symlink("/", home.path().join("spool/in/bot/link")).unwrap();
        let disk = RealDisk::open(home.path()).unwrap();
        assert!(disk.step_by_step(Path::new("spool/in/bot/new")).is_ok());
        assert!(disk.place(Path::new("spool/in/bot/new/r.json")).is_ok());
        for folder in [
            "spool/in/bot/link",
            "spool/in/bot/link/etc",
            "spool/in/../in",
            "/etc",
        ] {
            assert!(disk.step_by_step(Path::new(folder)).is_err(), "{folder}");
        }
        assert!(disk.place(Path::new("spool/in/bot/link/r.json")).is_err());
    }
}
