//! The socket's path in the file system. The socket never replaces a live one or any other file,
//! and only its owner can use it from the first moment.

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

/// Maximum number of retries if the path changes concurrently.
const TRIES: u32 = 16;

/// Maximum number of connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// Device and inode, which identify a socket at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Id(u64, u64);

/// A socket at its path. Dropping it removes the path if it still belongs to the same socket.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    id: Id,
}

impl Drop for Place {
    fn drop(&mut self) {
        // If this fails, the next gate finds a stale socket and replaces it.
        let _ = remove(&self.path, self.id);
    }
}

impl Place {
    /// Sets the mode of the socket, if the path still belongs to it. Returns the mode that it had,
    /// or `None` if nothing was to be done.
    pub(super) fn set_mode(&self, mode: u32) -> io::Result<Option<u32>> {
        let found = std::fs::symlink_metadata(&self.path)?;
        let had = found.permissions().mode() & 0o7777;
        if id(&found) != self.id || had == mode {
            return Ok(None);
        }
        std::fs::set_permissions(&self.path, std::fs::Permissions::from_mode(mode))?;
        Ok(Some(had))
    }
}

/// Creates a listening socket at this path.
pub(super) fn take(path: &Path) -> Result<(OwnedFd, Place), SocketError> {
    let io = |source: io::Error| SocketError::Io {
        path: path.to_owned(),
        source,
    };
    for _ in 0..TRIES {
        // Check first: if the path is in use, nothing is created.
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
            // Left behind by an earlier process with our process id.
            Err(Errno::ADDRINUSE) => continue,
            done => done.map_err(|error| io(error.into()))?,
        }
        match publish(&listener, &hidden, path) {
            Ok(Some(id)) => {
                return Ok((
                    listener,
                    Place {
                        path: path.to_owned(),
                        id,
                    },
                ));
            }
            Ok(None) => {}
            Err(error) => {
                let _ = std::fs::remove_file(&hidden);
                return Err(io(error));
            }
        }
        std::fs::remove_file(&hidden).map_err(io)?;
    }
    Err(io(io::Error::other(
        "other processes keep creating files there; find out what uses this path",
    )))
}

/// Starts listening and gives the socket its name. `None` if something appeared at that path
/// meanwhile.
fn publish(listener: &OwnedFd, hidden: &Path, path: &Path) -> io::Result<Option<Id>> {
    // Nobody can connect before `listen`, so the mode that the umask gave is not a risk.
    std::fs::set_permissions(hidden, std::fs::Permissions::from_mode(0o600))?;
    rustix::net::listen(listener, BACKLOG)?;
    let id = id(&std::fs::symlink_metadata(hidden)?);
    match renameat_with(CWD, hidden, CWD, path, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(Some(id)),
        Err(Errno::EXIST) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Makes sure that nothing is at the path: removes a stale socket, and refuses anything else.
fn clear(path: &Path) -> Result<(), SocketError> {
    let io = |source: io::Error| SocketError::Io {
        path: path.to_owned(),
        source,
    };
    let there = match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        there => there.map_err(io)?,
    };
    if !there.file_type().is_socket() {
        return Err(SocketError::NotASocket {
            path: path.to_owned(),
        });
    }
    let Ok(address) = SocketAddrUnix::new(path) else {
        return check_length(path, path);
    };
    let caller = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )
    .map_err(|error| io(error.into()))?;
    match rustix::net::connect(&caller, &address) {
        // AGAIN: a process listens and is busy. ACCESS: the socket of another user, about which we
        // cannot know more.
        Ok(())
        | Err(Errno::AGAIN | Errno::INPROGRESS | Errno::ACCESS | Errno::PERM | Errno::PROTOTYPE) => {
            Err(SocketError::InUse {
                path: path.to_owned(),
            })
        }
        Err(Errno::CONNREFUSED) => remove(path, id(&there)).map_err(io),
        Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(io(error.into())),
    }
}

/// Removes the socket at the path if it is `wanted`. Another socket could appear between check and
/// removal, so the file is first renamed to a name that nobody else uses, checked there, and put
/// back if it is another one.
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
        return Ok(renameat_with(
            CWD,
            &aside,
            CWD,
            path,
            RenameFlags::NOREPLACE,
        )?);
    }
    Err(io::Error::from(io::ErrorKind::AlreadyExists))
}

fn id(of: &std::fs::Metadata) -> Id {
    Id(of.dev(), of.ino())
}

/// Returns a unique name in the same folder, as short as possible.
fn hidden(path: &Path) -> io::Result<PathBuf> {
    static MADE: AtomicU32 = AtomicU32::new(0);
    if path.file_name().is_none() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the path has no file name; name the socket itself",
        ));
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
        return Err(SocketError::PathTooLong {
            path: path.to_owned(),
            bytes: bytes(path),
            bytes_max,
        });
    }
    Ok(())
}
