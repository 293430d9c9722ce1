//! Room that is taken from the disk before it is needed, so that nobody who fills the disk can keep
//! a line from being written: behind the end of the open segment, and in a file that becomes the
//! next segment. A batch is decided only after room for it was looked for.
//!
//! `fallocate` takes the room, without changing the length of a file. Where a file system cannot do
//! that, nothing is taken, and a write shows whether there is room.

use std::io;
use std::path::Path;

use super::log::LedgerError;
use super::segment::{self, AUDIT_DIR};
use crate::disk::{Access, Disk, Kind, LogFile, Mode, is_full};

/// The file that becomes the next segment.
pub(super) const RESERVE_FILE: &str = "audit/.reserve";

/// The least that the reserve of a full disk may hold to be used at all, bytes.
const LEAST_BYTES: u64 = 1 << 20;

/// The room that a ledger has taken.
#[derive(Debug, Default)]
pub(super) struct Room {
    /// The open segment has room up to this offset.
    taken: u64,
    /// The file of the next segment has its room.
    has_reserve: bool,
}

fn fail(path: &Path, source: io::Error) -> LedgerError {
    LedgerError::Disk {
        path: path.to_owned(),
        source,
    }
}

impl Room {
    /// Takes room for `bytes` more bytes at the end of the open segment, which ends at `offset`.
    ///
    /// # Errors
    /// Returns the disk's error if the disk is full; any other trouble shows when it is written to.
    pub(super) fn take(
        &mut self,
        disk: &dyn Disk,
        segment: u32,
        offset: u64,
        bytes: u64,
    ) -> Result<(), LedgerError> {
        let end = offset.saturating_add(bytes);
        if self.taken >= end {
            return Ok(());
        }
        let path = segment::path(segment);
        match disk.allocate(&path, offset, bytes) {
            Ok(()) => self.taken = end,
            Err(error) if is_full(&error) => return Err(fail(&path, error)),
            Err(_) => self.taken = u64::MAX,
        }
        Ok(())
    }

    /// Takes room for the next batches, half of `ahead` bytes or more. Returns whether there was
    /// any.
    pub(super) fn take_ahead(
        &mut self,
        disk: &dyn Disk,
        segment: u32,
        offset: u64,
        ahead: u64,
    ) -> bool {
        let least = ahead / 2;
        if self.taken >= offset.saturating_add(least) {
            return true;
        }
        // Up to a multiple, so that one process after the other asks for the same.
        let steps = offset.checked_div(ahead).unwrap_or(0).saturating_add(2);
        let to = steps.saturating_mul(ahead);
        [to.saturating_sub(offset), least]
            .into_iter()
            .any(|bytes| self.take(disk, segment, offset, bytes).is_ok())
    }

    /// Takes `bytes` bytes for the next segment. Returns whether they are taken.
    pub(super) fn fill_reserve(&mut self, disk: &dyn Disk, bytes: u64) -> bool {
        // Where nothing can be taken, the disk is as full as a write finds it.
        if self.has_reserve || self.taken == u64::MAX {
            return true;
        }
        let path = Path::new(RESERVE_FILE);
        let is_new = !is_reserve(disk);
        if is_new && let Err(error) = disk.write(path, b"", Mode::Shared, false) {
            // Only a full disk has no room; with something else in its place there is no reserve.
            return !is_full(&error);
        }
        let taken = match disk.allocate(path, 0, bytes) {
            Err(error) if is_full(&error) => false,
            Ok(()) => true,
            // The open segment could take room; trouble here shows when it is written to.
            Err(_) => {
                let _ = disk.remove(path);
                return true;
            }
        };
        self.has_reserve = taken || !is_new && disk.allocate(path, 0, LEAST_BYTES).is_ok();
        if !self.has_reserve {
            // What it took of the last room is of more use to others.
            let _ = disk.remove(path);
        }
        taken
    }

    /// Whether the next segment has room of its own.
    pub(super) fn has_reserve(&self) -> bool {
        self.has_reserve
    }
}

/// Whether the file of the next segment exists and is empty.
fn is_reserve(disk: &dyn Disk) -> bool {
    let found = disk.stat(Path::new(RESERVE_FILE)).ok().flatten();
    found.is_some_and(|file| file.kind == Kind::File && file.size == 0 && file.links == 1)
}

/// Writes a whole segment into the reserve and gives it its name, or writes it elsewhere if there
/// is no reserve.
///
/// # Errors
/// Returns the disk's error, also if there is such a segment already.
pub(super) fn write_segment(
    disk: &dyn Disk,
    number: u32,
    bytes: &[u8],
) -> Result<Box<dyn LogFile>, LedgerError> {
    let path = segment::path(number);
    if disk
        .stat(&path)
        .map_err(|source| fail(&path, source))?
        .is_some()
    {
        return Err(fail(&path, io::ErrorKind::AlreadyExists.into()));
    }
    let written = if is_reserve(disk) {
        write_into_reserve(disk, &path, bytes)
    } else {
        Err(io::ErrorKind::NotFound.into())
    };
    written
        .or_else(|_| crate::disk::replace(disk, &path, bytes, Mode::Shared, true))
        .and_then(|()| disk.open_log(&path, Access::Append))
        .map_err(|source| fail(&path, source))
}

fn write_into_reserve(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let reserve = Path::new(RESERVE_FILE);
    let file = disk.open_log(reserve, Access::Append)?;
    file.append(bytes)?;
    file.sync_data()?;
    disk.rename_new(reserve, path)?;
    disk.sync_dir(Path::new(AUDIT_DIR))
}
