//! Removes folders that a hostile program has filled: of any depth, with any rights, and with a few
//! descriptors, as the gate has other uses for them.

use std::ffi::{CString, OsStr};
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, RenameFlags, openat, renameat_with, unlinkat};
use rustix::io::Errno;

/// Number of names that are read at a time: a folder changes while it is emptied.
const NAMES: usize = 1024;

/// Removes a folder with everything in it. Returns whether nothing is left; it gives up after
/// `limit`, or at an error.
pub(super) fn remove(folder: &Path, limit: Duration) -> bool {
    let removed = Removal {
        until: Instant::now() + limit,
        moved: 0,
    }
    .folder(folder);
    match removed {
        Err(error) => error.kind() == io::ErrorKind::NotFound,
        Ok(()) => true,
    }
}

struct Removal {
    until: Instant,
    /// Number of folders that were moved up.
    moved: u64,
}

/// Opens a folder, and gives its owner all rights over it. Follows no link, as a program that is left
/// may put one there.
fn open(above: impl AsFd, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let held = openat(above, name, flags | OFlags::PATH, Mode::empty())?;
    let path = format!("/proc/self/fd/{}", held.as_raw_fd());
    fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
    Ok(openat(held, ".", flags | OFlags::RDONLY, Mode::empty())?)
}

/// Reads some names of a folder, from its beginning.
fn names(folder: impl AsFd) -> io::Result<Vec<CString>> {
    let is_name = |name: &CString| !matches!(name.as_bytes(), b"." | b"..");
    let entries = Dir::read_from(folder)?.map(|entry| Ok(entry?.file_name().to_owned()));
    entries
        .filter(|name: &io::Result<CString>| name.as_ref().map_or(true, is_name))
        .take(NAMES)
        .collect()
}

/// Removes an entry that is no folder, or an empty one. Returns false for any other folder.
fn unlink(above: impl AsFd, name: &CString) -> io::Result<bool> {
    match unlinkat(&above, name, AtFlags::empty()) {
        Err(Errno::ISDIR | Errno::PERM) => {}
        Ok(()) | Err(Errno::NOENT) => return Ok(true),
        Err(error) => return Err(error.into()),
    }
    match unlinkat(above, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        Err(Errno::NOTEMPTY | Errno::ACCESS) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

impl Removal {
    fn folder(&mut self, folder: &Path) -> io::Result<()> {
        let top = open(CWD, folder.as_os_str())?;
        loop {
            let found = names(&top)?;
            if found.is_empty() {
                return fs::remove_dir(folder);
            }
            for name in found {
                if !unlink(&top, &name)? {
                    self.raise(&top, &name)?;
                }
            }
        }
    }

    /// Removes a folder in `top`, and moves those in it that are not empty up to `top`. So no depth
    /// needs more than three descriptors.
    fn raise(&mut self, top: &OwnedFd, name: &CString) -> io::Result<()> {
        let folder = open(top, OsStr::from_bytes(name.as_bytes()))?;
        loop {
            let found = names(&folder)?;
            if found.is_empty() {
                return Ok(unlinkat(top, name, AtFlags::REMOVEDIR)?);
            }
            for name in found {
                if Instant::now() >= self.until {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                if unlink(&folder, &name)? {
                    continue;
                }
                // A folder that is closed to its own user cannot be moved.
                drop(open(&folder, OsStr::from_bytes(name.as_bytes()))?);
                self.moved = self.moved.saturating_add(1);
                let to = format!(".{}", self.moved);
                match renameat_with(&folder, &name, top, to, RenameFlags::NOREPLACE) {
                    // The program had the same idea; the next round takes another name.
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::mkdirat;

    const LONG: Duration = Duration::from_secs(60);

    /// Makes a chain of folders that is deeper than any path is long.
    fn chain(top: &Path, depth: usize) {
        fs::create_dir(top).unwrap();
        let mut at = open(CWD, top.as_os_str()).unwrap();
        for _ in 0..depth {
            mkdirat(&at, "d", Mode::RWXU).unwrap();
            let path = format!("/proc/self/fd/{}", at.as_raw_fd());
            fs::write(format!("{path}/secret"), b"secret").unwrap();
            at = open(&at, OsStr::new("d")).unwrap();
        }
    }

    #[test]
    fn chains_of_any_depth_are_removed() {
        let scratch = tempfile::tempdir().unwrap();
        let top = scratch.path().join("scratch");
        chain(&top, 6000);
        assert!(remove(&top, LONG));
        assert!(!top.exists());
        assert!(remove(&top, LONG), "nothing is there");
    }

    #[test]
    fn names_closed_folders_and_links_are_no_obstacle() {
        let scratch = tempfile::tempdir().unwrap();
        let (top, beside) = (
            scratch.path().join("scratch"),
            scratch.path().join("beside"),
        );
        fs::create_dir_all(top.join("a/b/c")).unwrap();
        fs::create_dir_all(top.join("a/.1/x")).unwrap();
        fs::create_dir_all(top.join(".1/x")).unwrap();
        fs::create_dir_all(top.join(".2/x")).unwrap();
        fs::create_dir_all(top.join("many")).unwrap();
        for n in 0..NAMES + 1 {
            fs::write(top.join(format!("many/{n}")), b"").unwrap();
        }
        fs::create_dir(&beside).unwrap();
        fs::write(beside.join("kept"), b"").unwrap();
        std::os::unix::fs::symlink(&beside, top.join("a/link")).unwrap();
        for closed in ["a/b/c", "a/b", "a"] {
            fs::set_permissions(top.join(closed), fs::Permissions::from_mode(0o000)).unwrap();
        }
        assert!(remove(&top, LONG));
        assert!(!top.exists() && beside.join("kept").exists());
    }

    #[test]
    fn it_gives_up_when_its_time_is_over() {
        let scratch = tempfile::tempdir().unwrap();
        let top = scratch.path().join("scratch");
        chain(&top, 10);
        assert!(!remove(&top, Duration::ZERO));
        assert!(remove(&top, LONG));
    }
}
