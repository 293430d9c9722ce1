//! Archiving closed segments. The plain file goes only when its archive was read back from the medium and gives the
//! same bytes; stopped anywhere, a home has one of the two, or both.

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
use crate::host::disk::{self, Access, Disk, Mode};

/// How often an archive is written anew that somebody cleared away unfinished: a gate that ends takes what it does not
/// know for leftovers.
const TRIES: usize = 4;

/// One segment that was archived.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Archived {
    /// The plain file's name.
    pub file: String,
    /// Its bytes.
    pub bytes: u64,
    /// Those of its archive.
    pub archive_bytes: u64,
}

/// The segments that archiving would take: every closed one that is kept plain, but for the newest `keep` closed ones.
pub fn due(kept: &[(u32, Kept)], keep: usize) -> Vec<u32> {
    let behind = keep.saturating_add(1);
    let closed = kept.get(..kept.len().saturating_sub(behind)).unwrap_or_default();
    closed.iter().filter(|(_, kept)| kept.plain).map(|(number, _)| *number).collect()
}

/// Archives one closed segment of the log in `dir`, which is kept plain. `progress` hears how many of its bytes are
/// packed.
///
/// # Errors
/// [`LedgerError`]; the plain file is there then, as it was.
pub fn archive(
    disk: &dyn Disk,
    dir: &Path,
    number: u32,
    progress: &mut dyn FnMut(u64),
) -> Result<Archived, LedgerError> {
    let path = dir.join(segment::file_name(number));
    pack_one(disk, dir, number, progress).map_err(|source| LedgerError::Disk { path, source })
}

fn pack_one(disk: &dyn Disk, dir: &Path, number: u32, progress: &mut dyn FnMut(u64)) -> io::Result<Archived> {
    let plain_path = dir.join(segment::file_name(number));
    let plain = disk.open_log(&plain_path, Access::Read)?;
    let stub = closed::look_at(disk, dir, number, plain.as_ref())?;
    // One of an earlier try, or brought back beside the plain file.
    if !unpacks_to(disk, dir, number, &stub) {
        let packed = frames::pack(plain.as_ref(), progress)?;
        put(disk, &dir.join(segment::archive_name(number)), &packed)?;
        if !unpacks_to(disk, dir, number, &stub) {
            return Err(io::Error::other(
                "its archive reads back differently than it was written; the medium or memory is faulty",
            ));
        }
    }
    list(disk, dir, number, &stub)?;
    // What a killed process renamed may not be durable yet.
    disk.sync_dir(dir)?;
    disk.remove(&plain_path)?;
    disk.sync_dir(dir)?;
    let archive = disk.open_log(&dir.join(segment::archive_name(number)), Access::Read)?;
    Ok(Archived { file: stub.header.file, bytes: plain.len()?, archive_bytes: archive.len()? })
}

/// Whether the archive that is there gives the segment's bytes, read from the medium.
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

/// Has `SEGMENTS` tell of a segment.
pub(super) fn list(disk: &dyn Disk, dir: &Path, number: u32, stub: &Stub) -> io::Result<()> {
    let mut sums = Sums::read(disk, dir)?;
    let sum = Hash::from_hex(&stub.header.sha256).ok_or(io::ErrorKind::InvalidData)?;
    if sums.0.insert(number, sum) != Some(sum) {
        put(disk, &dir.join(sums::SEGMENTS_NAME), sums.to_text().as_bytes())?;
    }
    Ok(())
}

/// Has `SEGMENTS` tell of every closed segment. What it tells already stays: verifying holds it against the bytes.
///
/// # Errors
/// [`LedgerError`].
pub fn list_all(disk: &dyn Disk, dir: &Path) -> Result<Sums, LedgerError> {
    let kept = recover::kept(disk, dir)?;
    let (_, closed) = kept.split_last().ok_or(LedgerError::NotOnLog)?;
    let fail = |source| LedgerError::Disk { path: dir.join(sums::SEGMENTS_NAME), source };
    let mut sums = Sums::read(disk, dir).map_err(fail)?;
    let before = sums.clone();
    for (number, kept) in closed.iter().filter(|(number, _)| !before.0.contains_key(number)) {
        let fail = |source| LedgerError::Disk { path: dir.join(segment::file_name(*number)), source };
        let stub = if kept.is_pruned() {
            Stub::read(disk, dir, *number)
        } else {
            segment::open(disk, dir, *number)
                .and_then(|file| closed::look_at(disk, dir, *number, file.as_ref()))
        };
        let stub = stub.map_err(fail)?;
        sums.0.extend(Hash::from_hex(&stub.header.sha256).map(|sum| (*number, sum)));
    }
    if sums != before {
        put(disk, &dir.join(sums::SEGMENTS_NAME), sums.to_text().as_bytes()).map_err(fail)?;
    }
    Ok(sums)
}

/// Whether two files hold the same bytes.
///
/// # Errors
/// What either says.
pub fn are_same(one: &dyn disk::LogFile, other: &dyn disk::LogFile) -> io::Result<bool> {
    Ok(one.len()? == other.len()? && sums::sum_of(one)? == sums::sum_of(other)?)
}
