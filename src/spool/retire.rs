//! Retiring decided claims: removed, or their bytes kept in `spool/rejected`. Of what was read a copy is kept,
//! of the very bytes that were decided on: the file itself may still be open to its writer, who could
//! change it there. What was never read is moved there as it is.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use super::claim::{WORK_DIR, is_senders_doing, path_of_claim};
use super::name::ClaimName;
use crate::gate::prepare::Origin;
use crate::host::disk::{Disk, Mode};
use crate::wire::envelope::REQUEST_BYTES_MAX;
use crate::wire::signing::sha256_hex;

/// Folder of kept bytes below the home.
const REJECTED_DIR: &str = "spool/rejected";

/// Up to so many copies are made durable one by one. Beyond it the whole file system is, which is faster, but
/// waits for what everybody else has written as well.
const SYNCED_ALONE_MAX: usize = 32;

/// What is kept of a refused claim.
#[derive(Clone, Copy, Debug)]
pub struct Keep<'a> {
    /// Where, below the spool.
    pub place: &'a str,
    /// Hash of the bytes that were decided on; none for a file that was never read.
    pub sha256: Option<&'a str>,
    /// These bytes, unless the process that read them is gone.
    pub bytes: Option<&'a [u8]>,
}

/// A claim whose decision is sealed.
#[derive(Clone, Copy, Debug)]
pub struct Done<'a> {
    /// The claim.
    pub claim: &'a ClaimName,
    /// What is kept of it, if anything.
    pub keep: Option<Keep<'a>>,
}

/// Retires claims. Copies are durable before the files that they are of are removed.
///
/// # Errors
/// What the disk says; a claim that is gone is fine.
pub fn retire(disk: &dyn Disk, done: &[Done<'_>]) -> io::Result<()> {
    let to_copy = || done.iter().filter_map(|done| done.keep).filter(|keep| keep.sha256.is_some());
    // A copy that is found after a crash may be in the page cache only.
    let one_by_one = to_copy().count() <= SYNCED_ALONE_MAX && to_copy().all(|keep| keep.bytes.is_some());
    let mut to_move = Vec::new();
    let mut to_remove = Vec::new();
    let mut is_copied = false;
    for Done { claim, keep } in done {
        // A frame has no file.
        if claim.origin == Origin::Socket {
            if let Some(keep) = keep.as_ref().filter(|keep| keep.sha256.is_some()) {
                is_copied |= stands_copied(disk, claim, keep, one_by_one)?;
            }
            continue;
        }
        match keep {
            Some(keep) if !stands_copied(disk, claim, keep, one_by_one)? => to_move.push((claim, keep.place)),
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
    to_move.into_iter().try_for_each(|(claim, place)| move_away(disk, claim, place))
}

fn path_of(place: &str) -> PathBuf {
    Path::new("spool").join(place)
}

/// Makes the copy; false if these bytes are not, or no longer, to be had.
fn stands_copied(disk: &dyn Disk, claim: &ClaimName, keep: &Keep<'_>, durable: bool) -> io::Result<bool> {
    let Some(sha256) = keep.sha256 else { return Ok(false) };
    let path = path_of(keep.place);
    // After a sync that failed, memory can show a copy that no later one would write.
    let with_hash = |path: &Path| {
        let file = disk.read_from_medium(path, REQUEST_BYTES_MAX).ok()?;
        Some(file.bytes).filter(|bytes| sha256_hex(bytes) == sha256)
    };
    let bytes = match keep.bytes {
        Some(bytes) => Cow::Borrowed(bytes),
        // A crash came between the seal and here, perhaps after the copy was made.
        None if with_hash(&path).is_some() => return Ok(true),
        None => match with_hash(&path_of_claim(claim)) {
            Some(bytes) => Cow::Owned(bytes),
            // Its writer has changed it meanwhile: what there is is kept, and the ledger has the hash.
            None => return Ok(false),
        },
    };
    match disk.write(&path, &bytes, Mode::Private, durable) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            disk.create_dir(Path::new(REJECTED_DIR), Mode::Private)?;
            disk.write(&path, &bytes, Mode::Private, durable)?;
        }
        other => other?,
    }
    Ok(true)
}

fn move_away(disk: &dyn Disk, claim: &ClaimName, place: &str) -> io::Result<()> {
    let path = path_of_claim(claim);
    let keep = || disk.rename(&path, &path_of(place));
    match keep() {
        // A directory whose owner has closed it since: out of the way under a name that is no claim.
        Err(error) if is_senders_doing(&error) => {
            disk.rename(&path, &Path::new(WORK_DIR).join(format!(".{}", claim.to_name())))
        }
        // Not the claim is gone but the folder it goes to.
        Err(error) if error.kind() == io::ErrorKind::NotFound && disk.stat(&path)?.is_some() => {
            disk.create_dir(Path::new(REJECTED_DIR), Mode::Private)?;
            keep()
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
