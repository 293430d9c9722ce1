//! Where the socket stands in the file system: never in place of a live one or of anything else, and its owner's alone
//! from the first moment.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::SocketError;

/// Longest path that the address of a Unix socket has room for, in bytes.
const ADDRESS_BYTES_MAX: usize = 107;

/// How often a place that changes under our hands is looked at again.
const TRIES: u32 = 16;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// Device and inode: what tells one socket from another at the same path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Id(u64, u64);

/// A socket at its path. The path is taken away with this, if it is still the same socket's.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    id: Id,
}

impl Drop for Place {
    fn drop(&mut self) {
        // Where this fails the next gate finds a stale socket and replaces it.
        let _ = remove(&self.path, self.id);
    }
}

/// A listening socket at this path.
pub(super) fn take(path: &Path) -> Result<(OwnedFd, Place), SocketError> {
    let io = |source: io::Error| SocketError::Io { path: path.to_owned(), source };
    for _ in 0..TRIES {
        // Looked at before anything is made: a path in use stays as it is.
        clear(path)?;
        let hidden = hidden(path).map_err(io)?;
        check_length(path, &hidden)?;
        let listener = rustix::net::socket_with(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            None,
        )
        .map_err(|error| io(error.into()))?;
        let address = SocketAddrUnix::new(&hidden).map_err(|error| io(error.into()))?;
        match rustix::net::bind(&listener, &address) {
            // Left behind by a process that had our number.
            Err(Errno::ADDRINUSE) => continue,
            done => done.map_err(|error| io(error.into()))?,
        }
        match publish(&listener, &hidden, path) {
            Ok(Some(id)) => return Ok((listener, Place { path: path.to_owned(), id })),
            Ok(None) => {}
            Err(error) => {
                let _ = std::fs::remove_file(&hidden);
                return Err(io(error));
            }
        }
        std::fs::remove_file(&hidden).map_err(io)?;
    }
    Err(io(io::Error::other("others keep putting something there; look who uses this path")))
}

/// Has it listen and gives it its name; none if something came to stand there meanwhile.
fn publish(listener: &OwnedFd, hidden: &Path, path: &Path) -> io::Result<Option<Id>> {
    // Before it listens nobody gets in, so nobody does while its mode is still what the umask left.
    std::fs::set_permissions(hidden, std::fs::Permissions::from_mode(0o600))?;
    rustix::net::listen(listener, BACKLOG)?;
    let id = id(&std::fs::symlink_metadata(hidden)?);
    match renameat_with(CWD, hidden, CWD, path, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(Some(id)),
        Err(Errno::EXIST) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Sees to it that nothing is at the path: a stale socket goes, all else is an error.
fn clear(path: &Path) -> Result<(), SocketError> {
    let io = |source: io::Error| SocketError::Io { path: path.to_owned(), source };
    let there = match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        there => there.map_err(io)?,
    };
    if !there.file_type().is_socket() {
        return Err(SocketError::NotASocket { path: path.to_owned() });
    }
    let Ok(address) = SocketAddrUnix::new(path) else { return check_length(path, path) };
    let caller = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )
    .map_err(|error| io(error.into()))?;
    match rustix::net::connect(&caller, &address) {
        // AGAIN: somebody listens and is busy. ACCESS: another user's, of whom we cannot know.
        Ok(()) | Err(Errno::AGAIN | Errno::INPROGRESS | Errno::ACCESS | Errno::PERM | Errno::PROTOTYPE) => {
            Err(SocketError::InUse { path: path.to_owned() })
        }
        Err(Errno::CONNREFUSED) => remove(path, id(&there)).map_err(io),
        Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(io(error.into())),
    }
}

/// Removes what is at the path if it is this socket. Between looking and removing another could come to stand there:
/// it is moved aside first, looked at where nobody else puts anything, and put back if it is another.
fn remove(path: &Path, wanted: Id) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        there => {
            if id(&there?) != wanted {
                return Ok(());
            }
        }
    }
    for _ in 0..TRIES {
        let aside = hidden(path)?;
        match renameat_with(CWD, path, CWD, &aside, RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => continue,
            Err(Errno::NOENT) => return Ok(()),
            done => done?,
        }
        if id(&std::fs::symlink_metadata(&aside)?) == wanted {
            return std::fs::remove_file(&aside);
        }
        return Ok(renameat_with(CWD, &aside, CWD, path, RenameFlags::NOREPLACE)?);
    }
    Err(io::Error::from(io::ErrorKind::AlreadyExists))
}

fn id(of: &std::fs::Metadata) -> Id {
    Id(of.dev(), of.ino())
}

/// A name in the same folder that nothing else has, as short as can be.
fn hidden(path: &Path) -> io::Result<PathBuf> {
    static MADE: AtomicU32 = AtomicU32::new(0);
    if path.file_name().is_none() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no file name; name the socket itself"));
    }
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let name = format!(".s{:x}.{number:x}", std::process::id());
    Ok(path.with_file_name(OsString::from(name)))
}

fn check_length(path: &Path, hidden: &Path) -> Result<(), SocketError> {
    let bytes = |path: &Path| path.as_os_str().as_bytes().len();
    let more = bytes(hidden).saturating_sub(bytes(path));
    let bytes_max = ADDRESS_BYTES_MAX.saturating_sub(more);
    if bytes(path) > bytes_max {
        return Err(SocketError::PathTooLong { path: path.to_owned(), bytes: bytes(path), bytes_max });
    }
    Ok(())
}
