//! Publishing answers: written under a hidden name, then renamed. Answers are derived from the ledger, so
//! they are not synced one by one; until they are known to be durable, recovery compares and rewrites them.
//!
//! What somebody with access to a folder of answers puts there can cost that one answer, never the gate.

use std::io;
use std::path::{Path, PathBuf};

use super::claim::{is_directory, is_senders_doing};
use crate::host::disk::{self, Disk, Mode};

/// Path of an answer below the home.
pub fn path_of(answer: &str) -> PathBuf {
    Path::new("spool").join(answer)
}

/// How publishing went.
#[derive(Debug)]
pub enum Published {
    /// The answer stands in its place.
    Done,
    /// So it does; a directory that stood there was given this hidden name beside it.
    MovedAside(PathBuf),
    /// It does not: somebody who may write in the folder, or has put something in the folder's place,
    /// keeps it away. The same request sent again has it published again.
    Blocked(io::Error),
}

/// How often an answer is tried: who plants as fast as the gate writes must not hold it up.
const TRIES: usize = 4;
/// Hidden names tried for what stands in the way.
const ASIDE_NAMES: u32 = 64;

/// Publishes an answer. A missing folder (of an agent whose spool was removed) is made again; a directory in
/// the way is moved aside, neither entered nor removed.
///
/// # Errors
/// What the disk says, other than what is [`Published::Blocked`].
pub fn publish(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<Published> {
    let is_agents = path.parent().and_then(Path::parent).is_some_and(|above| above.ends_with("out"));
    let mut moved = None;
    let mut tries = 0;
    loop {
        tries += 1;
        let error = match disk::replace(disk, path, bytes, Mode::Shared, false) {
            Ok(()) => return Ok(moved.map_or(Published::Done, Published::MovedAside)),
            Err(error) => error,
        };
        let kind = error.kind();
        let again = match kind {
            io::ErrorKind::NotFound => make_folder(disk, path),
            io::ErrorKind::IsADirectory => move_aside(disk, path).map(|aside| moved = aside),
            // The hidden name was planted anew after it was cleared.
            io::ErrorKind::AlreadyExists => Ok(()),
            _ => Err(error),
        };
        match again {
            Ok(()) if tries < TRIES => {}
            Ok(()) => return Ok(Published::Blocked(kind.into())),
            Err(error) if is_agents && (is_senders_doing(&error) || is_obstacle(&error)) => {
                return Ok(Published::Blocked(error));
            }
            Err(error) => return Err(error),
        }
    }
}

fn is_obstacle(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists)
}

fn make_folder(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    let Some(dir) = path.parent() else { return Ok(()) };
    // Answers to commands are the gate's own user's.
    let mode = if dir.ends_with("local/out") { Mode::Private } else { Mode::Shared };
    disk.create_dir(dir, mode)
}

/// Gives a directory that stands where the answer goes, or where it is written first, a hidden name beside it:
/// in another folder its owner could forbid it.
fn move_aside(disk: &dyn Disk, path: &Path) -> io::Result<Option<PathBuf>> {
    let mut moved = None;
    let places = [Some(path.to_owned()), disk::temporary(path)];
    for place in places.into_iter().flatten().filter(|place| is_directory(disk, place)) {
        let name = place.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let aside = (0..ASIDE_NAMES).find_map(|n| {
            let aside = place.with_file_name(format!(".aside-{n}-{name}"));
            match disk.rename_new(&place, &aside) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => None,
                other => Some(other.map(|()| aside)),
            }
        });
        moved = aside.transpose()?.or(moved);
    }
    Ok(moved)
}

/// Whether exactly these bytes stand there. That a file exists proves nothing: after a power cut it can be
/// empty.
///
/// # Errors
/// What the disk says, other than that nothing readable is there.
pub fn stands(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<bool> {
    /// A socket, or a device of nothing.
    const ENXIO: i32 = 6;
    match disk.read_from_medium(path, bytes.len()) {
        Ok(file) => Ok(file.bytes == bytes),
        // A link, a leased file, a folder that is none: not the answer, whatever it is.
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::WouldBlock)
                || error.raw_os_error() == Some(ENXIO)
                || is_senders_doing(&error) =>
        {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Makes these bytes stand there after a crash: writes what does not stand, and clears away what a gate that
/// was killed while it wrote the same answer again left half-written.
///
/// # Errors
/// As of [`publish`].
pub fn publish_again(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<Published> {
    if !stands(disk, path, bytes)? {
        return publish(disk, path, bytes);
    }
    let Some(temporary) = disk::temporary(path) else { return Ok(Published::Done) };
    match disk.remove(&temporary) {
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::IsADirectory)
                || is_senders_doing(&error) => {}
        other => other?,
    }
    Ok(Published::Done)
}
