//! Retires claims after their decision: removes the file, or keeps its bytes in `spool/rejected`.
//! For a claim that was read, the copy has exactly the bytes that were decided on, because a writer
//! could still have the file open and change it. A claim that was never read is moved there
//! unchanged.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use super::claim::{WORK_DIR, is_senders_doing, path_of_claim};
use super::name::ClaimName;
use spoolgate_ledger::disk::{Disk, Mode, is_full};
use spoolgate_wire::envelope::REQUEST_BYTES_MAX;
use spoolgate_wire::signing::sha256_hex;

/// Folder of kept bytes below the home.
const REJECTED_DIR: &str = "spool/rejected";

/// Up to this many copies are synced one by one. For more, the whole file system is synced, which
/// is faster, but also waits for what other processes have written.
const SYNCED_ALONE_MAX: usize = 32;

/// The copy to keep of a refused claim.
#[derive(Clone, Copy, Debug)]
pub struct Keep<'a> {
    /// Path of the copy below the spool.
    pub place: &'a str,
    /// Hash of the bytes that were decided on. `None` for a file that was never read.
    pub sha256: Option<&'a str>,
    /// These bytes. `None` if the process that read them is gone.
    pub bytes: Option<&'a [u8]>,
}

/// A claim whose decision is sealed.
#[derive(Clone, Copy, Debug)]
pub struct Done<'a> {
    /// The claim.
    pub claim: &'a ClaimName,
    /// The copy to keep of it, if any.
    pub keep: Option<Keep<'a>>,
}

/// Retires claims. Copies are durable before the original files are removed. Returns the files that
/// a full disk has no room to move yet, each with its new path; see [`move_away`].
///
/// # Errors
/// Returns the disk's error. A claim that is already gone is not an error.
pub fn retire(disk: &dyn Disk, done: &[Done<'_>]) -> io::Result<Vec<(PathBuf, PathBuf)>> {
    let to_copy = || {
        done.iter()
            .filter_map(|done| done.keep)
            .filter(|keep| keep.sha256.is_some())
    };
    // A copy that was found after a crash may be in the page cache only, so it cannot be synced
    // alone.
    let one_by_one =
        to_copy().count() <= SYNCED_ALONE_MAX && to_copy().all(|keep| keep.bytes.is_some());
    let mut to_move = Vec::new();
    let mut to_remove = Vec::new();
    let mut is_copied = false;
    for Done { claim, keep } in done {
        // A frame has no file in the spool.
        if claim.origin.is_socket() {
            if let Some(keep) = keep.as_ref().filter(|keep| keep.sha256.is_some()) {
                is_copied |= stands_copied(disk, claim, keep, one_by_one)?;
            }
            continue;
        }
        match keep {
            Some(keep) if !stands_copied(disk, claim, keep, one_by_one)? => {
                to_move.push((claim, keep.place))
            }
            Some(_) => {
                is_copied = true;
                to_remove.push(claim);
            }
            None => to_remove.push(claim),
        }
    }
    match (is_copied, one_by_one) {
        (false, _) => {}
        (true, true) => disk.sync_dir(Path::new(REJECTED_DIR))?,
        (true, false) => disk.sync_fs(Path::new(REJECTED_DIR))?,
    }
    for claim in to_remove {
        match disk.remove(&path_of_claim(claim)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => other?,
        }
    }
    let mut left = Vec::new();
    for (claim, place) in to_move {
        let (from, to) = (path_of_claim(claim), path_of(place));
        if !move_away(disk, &from, &to)? {
            left.push((from, to));
        }
    }
    Ok(left)
}

fn path_of(place: &str) -> PathBuf {
    Path::new("spool").join(place)
}

/// Makes the copy. Returns false if the bytes are not available any more.
fn stands_copied(
    disk: &dyn Disk,
    claim: &ClaimName,
    keep: &Keep<'_>,
    durable: bool,
) -> io::Result<bool> {
    let Some(sha256) = keep.sha256 else {
        return Ok(false);
    };
    let path = path_of(keep.place);
    // After a failed sync, memory can show a copy that no later sync would write.
    let with_hash = |path: &Path| {
        let file = disk.read_from_medium(path, REQUEST_BYTES_MAX).ok()?;
        Some(file.bytes).filter(|bytes| sha256_hex(bytes) == sha256)
    };
    let bytes = match keep.bytes {
        Some(bytes) => Cow::Borrowed(bytes),
        // There was a crash between the seal and this point, perhaps after the copy was made.
        None if with_hash(&path).is_some() => return Ok(true),
        None => match with_hash(&path_of_claim(claim)) {
            Some(bytes) => Cow::Owned(bytes),
            // The writer has changed the file since. It is kept as it is, and the ledger has the
            // original hash.
            None => return Ok(false),
        },
    };
    match disk.write(&path, &bytes, Mode::Private, durable) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            disk.create_dir(Path::new(REJECTED_DIR), Mode::Private)?;
            disk.write(&path, &bytes, Mode::Private, durable)?;
        }
        // Then the file of the claim is kept as it is.
        Err(error) if is_full(&error) => {
            let _ = disk.remove(&path);
            return Ok(false);
        }
        other => other?,
    }
    Ok(true)
}

/// Moves the file of a claim to the refused ones. Returns whether the disk had room for that.
///
/// # Errors
/// Returns the disk's error. A claim that is already gone is not an error.
pub fn move_away(disk: &dyn Disk, path: &Path, to: &Path) -> io::Result<bool> {
    let keep = || disk.rename(path, to);
    let moved = match keep() {
        // A directory whose owner has revoked permissions since: rename it to a name that is not a
        // claim.
        Err(error) if is_senders_doing(&error) => {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            disk.rename(path, &Path::new(WORK_DIR).join(format!(".{name}")))
        }
        // The claim exists, so the target folder is missing.
        Err(error) if error.kind() == io::ErrorKind::NotFound && disk.stat(path)?.is_some() => disk
            .create_dir(Path::new(REJECTED_DIR), Mode::Private)
            .and_then(|()| keep()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    };
    match moved {
        Err(error) if is_full(&error) => Ok(false),
        other => other.map(|()| true),
    }
}
