//! A disk on top of another disk. A hook sees each call before it is made and after it succeeded:
//! it counts calls, records them, makes them fail, or panics to act as a killed process.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use spoolgate_ledger::disk::{Access, DirStream, Disk, LogFile, Mode, ReadFile, Space, Stat};

/// A call of a disk, or of a log on it.
pub(crate) struct Call<'a> {
    /// Name of the method.
    pub verb: &'static str,
    /// The path that the call is about; for a log, the path under which it was opened.
    pub path: &'a Path,
    /// The new path of a rename.
    pub to: Option<&'a Path>,
    /// The bytes that the call writes.
    pub bytes: &'a [u8],
    /// Whether the call also syncs the file.
    pub durable: bool,
    /// Whether the call was made already.
    pub is_done: bool,
}

impl Call<'_> {
    /// Returns the path that the call creates or changes; for a rename, the new one.
    pub(crate) fn target(&self) -> &Path {
        self.to.unwrap_or(self.path)
    }

    /// Whether the disk has other contents after this call. Calls of logs and the creation of
    /// folders do not count.
    pub(crate) fn is_change(&self) -> bool {
        [
            "rename",
            "rename_new",
            "remove",
            "write",
            "write_again",
            "sync_dir",
            "sync_fs",
        ]
        .contains(&self.verb)
    }

    /// Whether the call writes to a log.
    pub(crate) fn is_of_log(&self) -> bool {
        ["append", "sync_data"].contains(&self.verb)
    }
}

/// What a test does at each call. If it returns an error before the call, the call is not made and
/// has this error.
pub(crate) trait Hook: Fn(&Call<'_>) -> io::Result<()> + Send + Sync {}

impl<F: Fn(&Call<'_>) -> io::Result<()> + Send + Sync> Hook for F {}

/// The number of calls that a disk still makes before it fails for good.
pub(crate) struct Fuse(AtomicI64);

impl Fuse {
    /// Makes a fuse that lasts until it is set.
    pub(crate) fn endless() -> Arc<Fuse> {
        Fuse::of(i64::MAX)
    }

    /// Makes a fuse for this number of calls.
    pub(crate) fn of(calls: i64) -> Arc<Fuse> {
        Arc::new(Fuse(AtomicI64::new(calls)))
    }

    /// Makes the fuse last for this number of calls from now on. Returns how many were left.
    pub(crate) fn set(&self, calls: i64) -> i64 {
        self.0.swap(calls, Ordering::SeqCst)
    }

    /// Returns how many calls are left.
    pub(crate) fn left(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }

    /// Uses up one call.
    ///
    /// EIO once no call is left.
    pub(crate) fn burn(&self) -> io::Result<()> {
        let is_alive = self.0.fetch_sub(1, Ordering::SeqCst) > 0;
        if is_alive {
            Ok(())
        } else {
            Err(io::Error::from_raw_os_error(5))
        }
    }
}

/// A disk with a hook.
pub(crate) struct Layered {
    disk: Arc<dyn Disk>,
    hook: Arc<dyn Hook>,
    syncs: bool,
    reads: bool,
}

/// A log on it.
struct LayeredLog {
    file: Box<dyn LogFile>,
    path: PathBuf,
    hook: Arc<dyn Hook>,
    reads: bool,
}

/// Runs the hook, then the call, then the hook again.
fn around<T>(
    hook: &dyn Hook,
    mut call: Call<'_>,
    make: impl FnOnce() -> io::Result<T>,
) -> io::Result<T> {
    hook(&call)?;
    let made = make();
    call.is_done = true;
    hook(&call)?;
    made
}

fn call<'a>(verb: &'static str, path: &'a Path) -> Call<'a> {
    Call {
        verb,
        path,
        to: None,
        bytes: &[],
        durable: false,
        is_done: false,
    }
}

impl Layered {
    /// Puts a hook on a disk that sees calls before they are made.
    pub(crate) fn before(disk: Arc<dyn Disk>, hook: impl Hook + 'static) -> Layered {
        Layered::around(
            disk,
            move |call| if call.is_done { Ok(()) } else { hook(call) },
        )
    }

    /// Puts a hook on a disk that sees calls before and after they are made.
    pub(crate) fn around(disk: Arc<dyn Disk>, hook: impl Hook + 'static) -> Layered {
        Layered {
            disk,
            hook: Arc::new(hook),
            syncs: true,
            reads: false,
        }
    }

    /// Turns syncs of whole file systems off: a killed process loses nothing without them, and they
    /// would wait for the files of other tests.
    pub(crate) fn without_syncs(self) -> Layered {
        Layered {
            syncs: false,
            ..self
        }
    }

    /// Shows the hook also each read of a log, as `read_at`.
    pub(crate) fn with_reads(self) -> Layered {
        Layered {
            reads: true,
            ..self
        }
    }

    fn with<T>(
        &self,
        call: Call<'_>,
        make: impl FnOnce(&dyn Disk) -> io::Result<T>,
    ) -> io::Result<T> {
        around(&*self.hook, call, || make(&*self.disk))
    }
}

impl Disk for Layered {
    /// Sorts by name, so that every run sees files in the same order.
    fn read_dir(&self, dir: &Path) -> io::Result<DirStream> {
        self.with(call("read_dir", dir), |disk| {
            let mut entries = disk.read_dir(dir)?.collect::<io::Result<Vec<_>>>()?;
            entries.sort_by(|a, b| a.name.cmp(&b.name));
            Ok(Box::new(entries.into_iter().map(Ok)) as DirStream)
        })
    }
    fn stat(&self, path: &Path) -> io::Result<Option<Stat>> {
        self.with(call("stat", path), |disk| disk.stat(path))
    }
    fn read(&self, path: &Path, limit: usize) -> io::Result<ReadFile> {
        self.with(call("read", path), |disk| disk.read(path, limit))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.with(
            Call {
                to: Some(to),
                ..call("rename", from)
            },
            |disk| disk.rename(from, to),
        )
    }
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.with(
            Call {
                to: Some(to),
                ..call("rename_new", from)
            },
            |disk| disk.rename_new(from, to),
        )
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.with(call("remove", path), |disk| disk.remove(path))
    }
    fn write(&self, path: &Path, bytes: &[u8], mode: Mode, durable: bool) -> io::Result<()> {
        let call = Call {
            bytes,
            durable,
            ..call("write", path)
        };
        self.with(call, |disk| disk.write(path, bytes, mode, durable))
    }
    fn write_again(&self, path: &Path, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.with(
            Call {
                bytes,
                ..call("write_again", path)
            },
            |disk| disk.write_again(path, offset, bytes),
        )
    }
    fn create_dir(&self, path: &Path, mode: Mode) -> io::Result<()> {
        self.with(call("create_dir", path), |disk| disk.create_dir(path, mode))
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.with(call("sync_dir", dir), |disk| disk.sync_dir(dir))
    }
    fn sync_fs(&self, dir: &Path) -> io::Result<()> {
        self.with(call("sync_fs", dir), |disk| {
            if self.syncs {
                disk.sync_fs(dir)
            } else {
                Ok(())
            }
        })
    }
    fn write_at(&self, path: &Path, offset: u64, bytes: &[u8], mode: Mode) -> io::Result<()> {
        let call = Call {
            bytes,
            ..call("write_at", path)
        };
        self.with(call, |disk| disk.write_at(path, offset, bytes, mode))
    }
    fn allocate(&self, path: &Path, offset: u64, bytes: u64) -> io::Result<()> {
        self.with(call("allocate", path), |disk| {
            disk.allocate(path, offset, bytes)
        })
    }
    fn space(&self, dir: &Path) -> io::Result<Space> {
        self.with(call("space", dir), |disk| disk.space(dir))
    }
    fn open_log(&self, path: &Path, access: Access) -> io::Result<Box<dyn LogFile>> {
        let verb = if access == Access::Append {
            "open_log"
        } else {
            "read_log"
        };
        let file = self.with(call(verb, path), |disk| disk.open_log(path, access))?;
        Ok(Box::new(LayeredLog {
            file,
            path: path.to_owned(),
            hook: Arc::clone(&self.hook),
            reads: self.reads,
        }))
    }
}

impl LogFile for LayeredLog {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        around(
            &*self.hook,
            Call {
                bytes,
                ..call("append", &self.path)
            },
            || self.file.append(bytes),
        )
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        if self.reads {
            around(&*self.hook, call("read_at", &self.path), || {
                self.file.read_at(offset, buffer)
            })
        } else {
            self.file.read_at(offset, buffer)
        }
    }
    fn sync_data(&self) -> io::Result<()> {
        around(&*self.hook, call("sync_data", &self.path), || {
            self.file.sync_data()
        })
    }
    fn give_back_room(&self) -> io::Result<()> {
        around(&*self.hook, call("give_back_room", &self.path), || {
            self.file.give_back_room()
        })
    }
    fn drop_cache(&self, from: u64) -> io::Result<()> {
        self.file.drop_cache(from)
    }
}
