//! Archives closed segments. The plain file is removed only after its archive was read back from
//! the medium and gave the same bytes. If archiving is interrupted at any point, the home has the
//! plain file, the archive, or both.

use std::io;
use std::path::Path;

use super::LedgerError;
use super::closed;
use super::frames;
use super::recover;
use super::segment::{self, Kept};
use super::stub::Stub;
use super::sums::{self, Sums};
use super::tree::Hash;
use crate::disk::{self, Access, Disk, Mode};

/// How often writing an archive is tried if its temporary file disappears: a gate that shuts down
/// removes files that it does not recognise.
const TRIES: usize = 4;

/// One segment that was archived.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Archived {
    /// The plain file's name.
    pub file: String,
    /// Size of the plain file in bytes.
    pub bytes: u64,
    /// Size of the archive in bytes.
    pub archive_bytes: u64,
}

/// The segments to archive: every closed plain one, except for the newest `keep` closed ones.
pub fn due(kept: &[(u32, Kept)], keep: usize) -> Vec<u32> {
    let behind = keep.saturating_add(1);
    let closed = kept
        .get(..kept.len().saturating_sub(behind))
        .unwrap_or_default();
    closed
        .iter()
        .filter(|(_, kept)| kept.plain)
        .map(|(number, _)| *number)
        .collect()
}

/// Archives one closed, plain segment of the log in `dir`. Reports to `progress` how many of its
/// bytes are packed.
///
/// ```
/// # use std::{path::Path, sync::Arc};
/// # use spoolgate_ledger::memory::Memory;
/// use spoolgate_ledger::{archive, recover, verify};
/// # mod setup { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/setup.rs")); }
/// # let disk = Arc::new(Memory::default());
/// # let mut ledger = setup::create(&disk);
///
/// ledger.cut(None)?;
/// let dir = Path::new("audit");
/// let due = archive::due(&recover::kept(&*disk, dir)?, 0);
/// assert_eq!(due, [1]);
/// archive::archive(&*disk, dir, 1, &mut |_| ())?;
/// let (_, kept) = recover::kept(&*disk, dir)?.remove(0);
/// assert!(kept.archived && !kept.plain);
/// assert!(verify::verify(&*disk, dir, &verify::Options::default(), &|_| ())?.ok);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns [`LedgerError`]; the plain file is then still there, unchanged.
pub fn archive(
    disk: &dyn Disk,
    dir: &Path,
    number: u32,
    progress: &mut dyn FnMut(u64),
) -> Result<Archived, LedgerError> {
    let path = dir.join(segment::file_name(number));
    pack_one(disk, dir, number, progress).map_err(|source| LedgerError::Disk { path, source })
}

fn pack_one(
    disk: &dyn Disk,
    dir: &Path,
    number: u32,
    progress: &mut dyn FnMut(u64),
) -> io::Result<Archived> {
    let plain_path = dir.join(segment::file_name(number));
    let plain = disk.open_log(&plain_path, Access::Read)?;
    let stub = closed::look_at(disk, dir, number, plain.as_ref())?;
    // There may be an archive already, from an earlier try or restored beside the plain file.
    if !unpacks_to(disk, dir, number, &stub) {
        let packed = frames::pack(plain.as_ref(), progress)?;
        put(disk, &dir.join(segment::archive_name(number)), &packed)?;
        if !unpacks_to(disk, dir, number, &stub) {
            return Err(io::Error::other(
                "its archive reads back differently than it was written; the medium or memory is \
                    faulty",
            ));
        }
    }
    list(disk, dir, number, &stub)?;
    // A process that was killed may have renamed the archive without syncing the folder.
    disk.sync_dir(dir)?;
    disk.remove(&plain_path)?;
    disk.sync_dir(dir)?;
    let archive = disk.open_log(&dir.join(segment::archive_name(number)), Access::Read)?;
    Ok(Archived {
        file: stub.header.file,
        bytes: plain.len()?,
        archive_bytes: archive.len()?,
    })
}

/// Whether the existing archive, read from the medium, unpacks to the segment's bytes.
fn unpacks_to(disk: &dyn Disk, dir: &Path, number: u32, stub: &Stub) -> bool {
    let read = || -> io::Result<String> {
        let archive = segment::open_archive(disk, dir, number)?;
        archive.sync_data()?;
        archive.drop_cache(0)?;
        Ok(sums::sum_of(archive.as_ref())?.to_string())
    };
    read().is_ok_and(|sum| sum == stub.header.sha256)
}

fn put(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let write = || disk::replace(disk, path, bytes, Mode::Shared, true);
    (1..TRIES).fold(write(), |put, _| match put {
        Err(error) if error.kind() == io::ErrorKind::NotFound => write(),
        put => put,
    })
}

/// Adds a segment to `SEGMENTS`.
pub(super) fn list(disk: &dyn Disk, dir: &Path, number: u32, stub: &Stub) -> io::Result<()> {
    let mut sums = Sums::read(disk, dir)?;
    let sum = Hash::from_hex(&stub.header.sha256).ok_or(io::ErrorKind::InvalidData)?;
    if sums.0.insert(number, sum) != Some(sum) {
        put(
            disk,
            &dir.join(sums::SEGMENTS_NAME),
            sums.to_text().as_bytes(),
        )?;
    }
    Ok(())
}

/// Adds every closed segment that is missing to `SEGMENTS`. Existing entries stay as they are:
/// verification compares them with the bytes.
///
/// # Errors
/// Returns [`LedgerError`].
pub fn list_all(disk: &dyn Disk, dir: &Path) -> Result<Sums, LedgerError> {
    let kept = recover::kept(disk, dir)?;
    let (_, closed) = kept.split_last().ok_or(LedgerError::NotOnLog)?;
    let fail = |source| LedgerError::Disk {
        path: dir.join(sums::SEGMENTS_NAME),
        source,
    };
    let mut sums = Sums::read(disk, dir).map_err(fail)?;
    let before = sums.clone();
    for (number, kept) in closed
        .iter()
        .filter(|(number, _)| !before.0.contains_key(number))
    {
        let fail = |source| LedgerError::Disk {
            path: dir.join(segment::file_name(*number)),
            source,
        };
        let stub = if kept.is_pruned() {
            Stub::read(disk, dir, *number)
        } else {
            segment::open(disk, dir, *number)
                .and_then(|file| closed::look_at(disk, dir, *number, file.as_ref()))
        };
        let stub = stub.map_err(fail)?;
        sums.0
            .extend(Hash::from_hex(&stub.header.sha256).map(|sum| (*number, sum)));
    }
    if sums != before {
        put(
            disk,
            &dir.join(sums::SEGMENTS_NAME),
            sums.to_text().as_bytes(),
        )
        .map_err(fail)?;
    }
    Ok(sums)
}

/// Whether two files hold the same bytes.
///
/// # Errors
/// Returns an error if either file cannot be read.
pub fn are_same(one: &dyn disk::LogFile, other: &dyn disk::LogFile) -> io::Result<bool> {
    Ok(one.len()? == other.len()? && sums::sum_of(one)? == sums::sum_of(other)?)
}
