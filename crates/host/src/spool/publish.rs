//! Publishes answers: writes them under a hidden name, then renames them. Answers can be derived
//! from the ledger, so they are not synced one by one; until they are known to be durable, recovery
//! compares and rewrites them.
//!
//! Whatever somebody with access to a folder of answers puts there can cost that one answer, but
//! never stops the gate.

use std::io;
use std::path::{Path, PathBuf};

use super::claim::{is_directory, is_senders_doing};
use spoolgate_ledger::disk::{self, Disk, Mode};

/// Path of an answer below the home.
pub fn path_of(answer: &str) -> PathBuf {
    Path::new("spool").join(answer)
}

/// Result of publishing an answer.
#[derive(Debug)]
pub enum Published {
    /// The answer is in its place.
    Done,
    /// The answer is in its place; a directory that was there was renamed to this hidden name
    /// beside it.
    MovedAside(PathBuf),
    /// The answer could not be published: somebody who can write to the folder, or has replaced the
    /// folder, prevents it. When the same request is sent again, the answer is published again.
    Blocked(io::Error),
    /// The disk has no room for the answer.
    NoRoom,
}

/// Files with room for an answer each, below the home: on a full disk answers and instructions are
/// written into them.
pub const RESERVE_DIR: &str = "spool/out/.reserve";
/// How many there are.
const RESERVE_FILES: u32 = 256;
/// How many of them answers leave to instructions for bridges: a flood of answers must not keep an
/// exit from its venue.
const FOR_INSTRUCTIONS: usize = 128;
/// The folder of these instructions.
const OUTBOX_DIR: &str = "spool/outbox";
/// The room of each, bytes.
const RESERVE_BYTES: usize = 4096;

/// Makes the files of [`RESERVE_DIR`] that are missing, as far as there is room for them.
pub fn fill_reserve(disk: &dyn Disk) {
    let folder = Path::new(RESERVE_DIR);
    let fill = |path: &Path| {
        if disk.stat(path)?.is_some() {
            return Ok(());
        }
        disk.write(path, b"", Mode::Shared, false)?;
        let bytes = u64::try_from(RESERVE_BYTES).unwrap_or(u64::MAX);
        // One without its room would only seem to be a reserve.
        disk.allocate(path, 0, bytes)
            .inspect_err(|_| drop(disk.remove(path)))
    };
    // The names do not matter, only that there are so many: one that cannot be made shows that no
    // other can.
    let _ = disk.create_dir(folder, Mode::Private).and_then(|()| {
        (0..RESERVE_FILES).try_for_each(|number| fill(&folder.join(format!("{number:03}"))))
    });
}

/// Writes an answer into one of the files of the reserve and gives it its name.
fn publish_from_reserve(disk: &dyn Disk, path: &Path, bytes: &[u8], mode: Mode) -> Published {
    let written = || -> io::Result<()> {
        if bytes.len() > RESERVE_BYTES || mode != Mode::Shared {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let folder = Path::new(RESERVE_DIR);
        let is_instruction = path.starts_with(OUTBOX_DIR);
        let left = if is_instruction { 0 } else { FOR_INSTRUCTIONS };
        let entry = disk.read_dir(folder)?.nth(left);
        let taken = folder.join(entry.ok_or(io::ErrorKind::StorageFull)??.name);
        let hidden = disk::temporary(path).ok_or(io::ErrorKind::InvalidInput)?;
        disk.rename(&taken, &hidden)?;
        disk.write_at(&hidden, 0, bytes, mode)?;
        disk.rename(&hidden, path)
    };
    written().map_or(Published::NoRoom, |()| Published::Done)
}

/// Maximum number of attempts per answer: somebody who creates obstacles as fast as the gate writes
/// must not hold it up.
const TRIES: usize = 4;
/// Number of hidden names to try for an obstacle.
const ASIDE_NAMES: u32 = 64;

/// Publishes an answer. Creates a missing folder (of an agent whose spool was removed) again. Moves
/// a directory in the way aside, without entering or removing it.
///
/// # Errors
/// Returns the disk's error, unless it counts as [`Published::Blocked`].
pub fn publish(disk: &dyn Disk, path: &Path, bytes: &[u8], mode: Mode) -> io::Result<Published> {
    let is_agents = path
        .parent()
        .and_then(Path::parent)
        .is_some_and(|above| above.ends_with("out"));
    let mut moved = None;
    let mut tries = 0;
    loop {
        tries += 1;
        let error = match disk::replace(disk, path, bytes, mode, false) {
            Ok(()) => return Ok(moved.map_or(Published::Done, Published::MovedAside)),
            Err(error) => error,
        };
        let kind = error.kind();
        let again = match kind {
            _ if disk::is_full(&error) => {
                // What was begun only takes room.
                let _ = disk::temporary(path).map(|hidden| disk.remove(&hidden));
                return Ok(publish_from_reserve(disk, path, bytes, mode));
            }
            io::ErrorKind::NotFound => make_folder(disk, path),
            io::ErrorKind::IsADirectory => move_aside(disk, path).map(|aside| moved = aside),
            // Somebody created the hidden name again after it was cleared.
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
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists
    )
}

fn make_folder(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    let Some(dir) = path.parent() else {
        return Ok(());
    };
    // Only the gate's own user may read answers to commands.
    let mode = if dir.ends_with("local/out") {
        Mode::Private
    } else {
        Mode::Shared
    };
    disk.create_dir(dir, mode)
}

/// Renames a directory at the answer's path, or at its temporary path, to a hidden name beside it.
/// The directory's owner could prevent a move to another folder.
fn move_aside(disk: &dyn Disk, path: &Path) -> io::Result<Option<PathBuf>> {
    let mut moved = None;
    let places = [Some(path.to_owned()), disk::temporary(path)];
    for place in places
        .into_iter()
        .flatten()
        .filter(|place| is_directory(disk, place))
    {
        let name = place
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
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

/// Renames a file and replaces what its new path names; moves a directory there aside, as [`publish`]
/// does.
///
/// # Errors
/// Returns the disk's error.
pub fn rename_over(disk: &dyn Disk, from: &Path, to: &Path) -> io::Result<()> {
    match disk.rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
            move_aside(disk, to)?;
            disk.rename(from, to)
        }
        other => other,
    }
}

/// Whether the file contains exactly these bytes. Existence alone proves nothing: after a power cut
/// the file can be empty.
///
/// # Errors
/// Returns the disk's error, unless it means that there is no readable file.
pub fn stands(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<bool> {
    /// Error of opening a socket, or a device file without a device.
    const ENXIO: i32 = 6;
    match disk.read_from_medium(path, bytes.len()) {
        Ok(file) => Ok(file.bytes == bytes),
        // A link, a leased file, or a path through something that is not a folder: in any case not
        // the answer.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::WouldBlock
            ) || error.raw_os_error() == Some(ENXIO)
                || is_senders_doing(&error) =>
        {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Makes sure after a crash that the answer has exactly these bytes. Also removes the temporary
/// file of a gate that was killed while it was publishing the same answer again.
///
/// # Errors
/// As [`publish`].
pub fn publish_again(
    disk: &dyn Disk,
    path: &Path,
    bytes: &[u8],
    mode: Mode,
) -> io::Result<Published> {
    if !stands(disk, path, bytes)? {
        return publish(disk, path, bytes, mode);
    }
    let Some(temporary) = disk::temporary(path) else {
        return Ok(Published::Done);
    };
    match disk.remove(&temporary) {
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::IsADirectory
            ) || is_senders_doing(&error) => {}
        other => other?,
    }
    Ok(Published::Done)
}
