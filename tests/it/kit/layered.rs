//! A disk over another one. A hook sees each call before it is made and after it succeeded: it
//! counts calls, notes them, lets them fail, or panics in the place of a killed process.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use spoolgate_ledger::disk::{Access, DirStream, Disk, LogFile, Mode, ReadFile, Stat};

/// A call of a disk, or of a log on it.
pub(crate) struct Call<'a> {
    /// Name of the method.
    pub verb: &'static str,
    /// What it is about: of a log, the path that it was opened under.
    pub path: &'a Path,
    /// The new path, if it is a rename.
    pub to: Option<&'a Path>,
    /// What it writes.
    pub bytes: &'a [u8],
    /// Whether the file is synced with it.
    pub durable: bool,
    /// Whether the call was made.
    pub is_done: bool,
}

impl Call<'_> {
    /// The path that the call makes or changes: of a rename, the new one.
    pub(crate) fn target(&self) -> &Path {
        self.to.unwrap_or(self.path)
    }

    /// Whether a disk that dies before it is another one afterwards. Calls of logs and new folders
    /// do not count.
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

    /// Whether it is a call that writes to a log.
    pub(crate) fn is_of_log(&self) -> bool {
        ["append", "sync_data"].contains(&self.verb)
    }
}

/// What is done at each call. An error before the call is the call's result, and the call is not
/// made.
pub(crate) trait Hook: Fn(&Call<'_>) -> io::Result<()> + Send + Sync {}

impl<F: Fn(&Call<'_>) -> io::Result<()> + Send + Sync> Hook for F {}

/// How many more calls a disk makes before it is gone.
pub(crate) struct Fuse(AtomicI64);

impl Fuse {
    /// One that lasts until it is set.
    pub(crate) fn endless() -> Arc<Fuse> {
        Fuse::of(i64::MAX)
    }

    /// One for so many calls.
    pub(crate) fn of(calls: i64) -> Arc<Fuse> {
        Arc::new(Fuse(AtomicI64::new(calls)))
    }

    /// Makes it last for so many calls from now on. Returns how many were left.
    pub(crate) fn set(&self, calls: i64) -> i64 {
        self.0.swap(calls, Ordering::SeqCst)
    }

    /// How many calls are left.
    pub(crate) fn left(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }

    /// Uses up one call.
    ///
    /// # Errors
    /// EIO once it is used up.
    pub(crate) fn burn(&self) -> io::Result<()> {
        let is_alive = self.0.fetch_sub(1, Ordering::SeqCst) > 0;
        if is_alive {
            Ok(())
        } else {
            Err(io::Error::from_raw_os_error(5))
        }
    }
}

/// The disk.
pub(crate) struct Layered {
    disk: Arc<dyn Disk>,
    hook: Arc<dyn Hook>,
    syncs: bool,
}

/// A log on it.
struct LayeredLog {
    file: Box<dyn LogFile>,
    path: PathBuf,
    hook: Arc<dyn Hook>,
}

/// Makes a call between two calls of the hook.
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
    /// Puts a hook over a disk that sees calls before they are made.
    pub(crate) fn before(disk: Arc<dyn Disk>, hook: impl Hook + 'static) -> Layered {
        Layered::around(
            disk,
            move |call| if call.is_done { Ok(()) } else { hook(call) },
        )
    }

    /// Puts a hook over a disk that sees calls before and after they are made.
    pub(crate) fn around(disk: Arc<dyn Disk>, hook: impl Hook + 'static) -> Layered {
        Layered {
            disk,
            hook: Arc::new(hook),
            syncs: true,
        }
    }

    /// Does not sync whole file systems: a killed process loses nothing by it, and a test waits for
    /// other tests' files.
    pub(crate) fn without_syncs(self) -> Layered {
        Layered {
            syncs: false,
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
    /// In the order of names, so that every run meets files alike.
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
        self.file.read_at(offset, buffer)
    }
    fn sync_data(&self) -> io::Result<()> {
        around(&*self.hook, call("sync_data", &self.path), || {
            self.file.sync_data()
        })
    }
    fn drop_cache(&self, from: u64) -> io::Result<()> {
        self.file.drop_cache(from)
    }
}
