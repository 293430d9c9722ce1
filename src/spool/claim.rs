//! Claiming: from a name in the spool to bytes that only the gate has. The file is opened once, without
//! following links and without blocking, read into memory, and renamed into `spool/work`; the bytes in
//! memory are what is decided, whatever a writer with an open descriptor does afterwards.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use super::name::{ClaimName, FileName};
use crate::gate::prepare::{Delivery, Origin, Refusal};
use crate::host::disk::{Disk, Kind, Mode, ReadFile, Stat};
use crate::wire::code::Code;
use crate::wire::envelope::REQUEST_BYTES_MAX;
use crate::wire::json;

/// Folder of claimed files below the home.
pub const WORK_DIR: &str = "spool/work";

/// How often a request is begun before it is given up: one that kills the gate must not do so for ever.
const ATTEMPTS_MAX: u32 = 3;

/// A claimed file with what was read of it.
#[derive(Clone, Debug)]
pub struct Claimed {
    /// Its name in `spool/work`.
    pub claim: ClaimName,
    /// What is to be decided.
    pub delivery: Delivery,
    /// How many bytes it takes in memory.
    pub weight: usize,
}

/// What became of a name in the spool.
#[derive(Debug)]
pub enum Looked {
    /// It is claimed.
    Claimed(Box<Claimed>),
    /// It does not parse yet, or is still linked twice: it may be half-written.
    Unfinished,
    /// It is gone, its name is already claimed, or it is not for the gate to move: another look finds what
    /// there is.
    Skipped,
}

/// No permission, as opposed to `EPERM`, which sticky folders give.
const EACCES: i32 = 13;
/// A link where none is followed.
const ELOOP: i32 = 40;

/// Where a file is claimed from.
#[derive(Clone, Debug)]
pub struct From<'a> {
    /// Which spool.
    pub origin: &'a Origin,
    /// Its folder.
    pub dir: &'a Path,
    /// The batch that is next.
    pub batch: u64,
    /// What the file is, if that was just asked.
    pub stat: Option<Stat>,
}

pub(super) fn path_of_claim(claim: &ClaimName) -> PathBuf {
    Path::new(WORK_DIR).join(claim.to_name())
}

/// What reading a file came to.
pub(super) enum Read {
    Bytes(Vec<u8>),
    Refused(Refusal),
    Gone,
}

/// Reads a file of at most `limit` bytes; `known` is what it was when that was just asked.
pub(super) fn read(
    disk: &dyn Disk,
    path: &Path,
    shown: &str,
    limit: usize,
    known: Option<Stat>,
) -> io::Result<(Read, Option<ReadFile>)> {
    let refuse = |code, what: String| Ok((Read::Refused(Refusal::new(code, what)), None));
    let not_a_file = |kind: &str| refuse(Code::NotAFile, format!("`{shown}` is {kind}, not a regular file"));
    let stat = match known.map_or_else(|| disk.stat(path), |known| Ok(Some(known))) {
        Ok(Some(stat)) => stat,
        Ok(None) => return Ok((Read::Gone, None)),
        Err(error) if is_senders_doing(&error) => {
            return refuse(Code::Unreadable, format!("`{shown}` may not be looked at by the gate"));
        }
        Err(error) => return Err(error),
    };
    match stat.kind {
        Kind::File => {}
        Kind::Directory => return not_a_file("a directory"),
        Kind::Link => return not_a_file("a symbolic link"),
        Kind::Other => return not_a_file("a FIFO, socket or device"),
    }
    let file = match disk.read(path, limit) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Read::Gone, None)),
        // Its writer holds a lease on it, which opening without waiting does not break.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            return refuse(Code::Unreadable, format!("file `{shown}` is leased by another process"));
        }
        // Swapped for a link or device between the two calls.
        Err(error) if error.raw_os_error() == Some(ELOOP) || error.raw_os_error() == Some(6) => {
            return not_a_file("no longer a file");
        }
        // Closed to the gate, or its folder was swapped for something else.
        Err(error) if is_senders_doing(&error) => {
            return refuse(Code::Unreadable, format!("file `{shown}` may not be read by the gate"));
        }
        Err(error) => return Err(error),
    };
    if file.stat.kind != Kind::File {
        return not_a_file("no longer a file");
    }
    if file.bytes.len() > limit {
        let what = format!("file `{shown}` is larger than {limit} bytes");
        return Ok((
            Read::Refused(Refusal::new(Code::TooLarge, what)),
            Some(ReadFile { bytes: Vec::new(), ..file }),
        ));
    }
    if file.stat.links != 1 {
        let what = format!("file `{shown}` has {} hard links", file.stat.links);
        return Ok((
            Read::Refused(Refusal::new(Code::LinkedFile, what)),
            Some(ReadFile { bytes: Vec::new(), ..file }),
        ));
    }
    let stat = file.stat;
    Ok((Read::Bytes(file.bytes), Some(ReadFile { stat, bytes: Vec::new() })))
}

/// Whether an error is what a sender can bring about with permissions, mounts or links of its own: it must
/// cost the sender its request, never everybody the gate.
pub fn is_senders_doing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::PermissionDenied
            | io::ErrorKind::ResourceBusy
            | io::ErrorKind::CrossesDevices
            | io::ErrorKind::NotADirectory
    ) || error.raw_os_error() == Some(ELOOP)
}

/// Looks at one name in a spool folder. `patience` is whether an unfinished file may still wait.
///
/// # Errors
/// What the disk says, other than that the file is gone or may not be read.
pub fn look(disk: &dyn Disk, from: &From<'_>, name: &OsStr, patience: bool) -> io::Result<Looked> {
    let file = FileName::of(name);
    let path = from.dir.join(name);
    if !file.is_good {
        if patience && is_directory(disk, &path) {
            return Ok(Looked::Unfinished);
        }
        let what = format!("`{}` is not a file name for requests", file.shown);
        return take(disk, from, &path, &file, Err(Refusal::new(Code::BadFileName, what)));
    }
    let (content, opened) = read(disk, &path, &file.shown, REQUEST_BYTES_MAX, from.stat)?;
    let content = match content {
        Read::Gone => return Ok(Looked::Skipped),
        // A sender that links and unlinks instead of renaming is not done yet, nor is one that holds a
        // lease or has not opened its file to the gate.
        Read::Refused(refusal) if patience && matches!(refusal.code, Code::LinkedFile | Code::Unreadable) => {
            return Ok(Looked::Unfinished);
        }
        Read::Refused(refusal) => return take(disk, from, &path, &file, Err(refusal)),
        Read::Bytes(bytes) => bytes,
    };
    if json::check_object(&content).is_err() {
        if patience {
            return Ok(Looked::Unfinished);
        }
        // It is claimed and read once more, and that read decides.
        return take_and_read(disk, from, &path, &file);
    }
    let claimed = take(disk, from, &path, &file, Ok(content))?;
    if let (Looked::Claimed(claimed), Some(opened)) = (&claimed, opened) {
        // What was renamed must be what was read: a file swapped in between is read again.
        let moved = disk.stat(&path_of_claim(&claimed.claim))?;
        if moved.is_none_or(|moved| moved.id != opened.stat.id) {
            return reread(disk, claimed.claim.clone(), file.shown);
        }
    }
    Ok(claimed)
}

/// Whether anything is there, as far as the gate may see.
fn is_there(disk: &dyn Disk, path: &Path) -> bool {
    disk.stat(path).is_ok_and(|stat| stat.is_some())
}

/// Whether a directory is there, as far as the gate may see.
pub(super) fn is_directory(disk: &dyn Disk, path: &Path) -> bool {
    disk.stat(path).is_ok_and(|stat| stat.is_some_and(|stat| stat.kind == Kind::Directory))
}

fn take_and_read(disk: &dyn Disk, from: &From<'_>, path: &Path, file: &FileName) -> io::Result<Looked> {
    match take(disk, from, path, file, Ok(Vec::new()))? {
        Looked::Claimed(claimed) => reread(disk, claimed.claim, file.shown.clone()),
        other => Ok(other),
    }
}

/// Reads a file in `spool/work` and makes it a claim with that content.
///
/// # Errors
/// What the disk says.
pub fn reread(disk: &dyn Disk, claim: ClaimName, shown: String) -> io::Result<Looked> {
    let content = match read(disk, &path_of_claim(&claim), &shown, REQUEST_BYTES_MAX, None)?.0 {
        Read::Gone => return Ok(Looked::Skipped),
        Read::Refused(refusal) => Err(refusal),
        Read::Bytes(bytes) => Ok(bytes),
    };
    Ok(claimed(claim, shown, content))
}

fn claimed(claim: ClaimName, shown: String, content: Result<Vec<u8>, Refusal>) -> Looked {
    let weight = content.as_ref().map_or(0, Vec::len);
    let delivery = Delivery { origin: claim.origin.clone(), file: claim.file.clone(), shown, content };
    Looked::Claimed(Box::new(Claimed { claim, delivery, weight }))
}

/// Renames a file into `spool/work`.
pub(super) fn take(
    disk: &dyn Disk,
    from: &From<'_>,
    path: &Path,
    file: &FileName,
    content: Result<Vec<u8>, Refusal>,
) -> io::Result<Looked> {
    let claim =
        ClaimName { attempt: 1, batch: from.batch, origin: from.origin.clone(), file: file.known_as.clone() };
    let rename = || disk.rename_new(path, &path_of_claim(&claim));
    let renamed = match rename() {
        // Not the file is gone but the folder it goes to.
        Err(error) if error.kind() == io::ErrorKind::NotFound && is_there(disk, path) => {
            disk.create_dir(Path::new(WORK_DIR), Mode::Private)?;
            rename()
        }
        other => other,
    };
    match renamed {
        Ok(()) => Ok(claimed(claim, file.shown.clone(), content)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists) => {
            Ok(Looked::Skipped)
        }
        // A directory of somebody else that may not be written, a mount, a file in a sticky folder. That the
        // gate may not write its own folders is another matter, and its operator must hear of it.
        Err(error)
            if is_senders_doing(&error)
                && (error.raw_os_error() != Some(EACCES)
                    || matches!(from.origin, Origin::Agent(_))
                    || is_directory(disk, path)) =>
        {
            Ok(Looked::Skipped)
        }
        Err(error) => Err(error),
    }
}

/// Claims that an earlier process left behind, in name order; those that were set aside last.
///
/// # Errors
/// What the disk says.
pub fn left_behind(disk: &dyn Disk) -> io::Result<Vec<ClaimName>> {
    let mut claims = Vec::new();
    for entry in disk.read_dir(Path::new(WORK_DIR))? {
        claims.extend(ClaimName::parse(&entry?.name));
    }
    claims.sort_by_key(|claim| (claim.is_aside(), claim.to_name()));
    Ok(claims)
}

/// Begins a left-behind claim again under the next attempt; the last one is refused unread. `batch` is the number of
/// the batch that is next.
///
/// # Errors
/// What the disk says.
pub fn begin_again(disk: &dyn Disk, claim: ClaimName, batch: u64) -> io::Result<Looked> {
    let shown = claim.file.clone();
    let batch = if claim.is_aside() { batch } else { claim.batch };
    let next = ClaimName { attempt: claim.attempt.saturating_add(1), batch, ..claim.clone() };
    match disk.rename_new(&path_of_claim(&claim), &path_of_claim(&next)) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Looked::Skipped),
        Err(error) => return Err(error),
    }
    if next.file.starts_with('=') {
        let what = format!("a file name with hash `{}` is not one for requests", next.file);
        return Ok(claimed(next, shown, Err(Refusal::new(Code::BadFileName, what))));
    }
    if next.attempt >= ATTEMPTS_MAX {
        let what =
            format!("file `{shown}`: the gate ended {} times while it was deciding this", next.attempt - 1);
        return Ok(claimed(next, shown, Err(Refusal::new(Code::Internal, what))));
    }
    reread(disk, next, shown)
}

/// Renames a claim that will wait, so that no decision over its name is taken for its own. One that somebody took
/// away keeps its name: what was read of it is decided all the same.
///
/// # Errors
/// What the disk says.
pub fn set_aside(disk: &dyn Disk, claim: ClaimName) -> io::Result<ClaimName> {
    let mut number = 0;
    loop {
        let aside = claim.aside(number);
        match disk.rename_new(&path_of_claim(&claim), &path_of_claim(&aside)) {
            Ok(()) => return Ok(aside),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(claim),
            Err(error) => return Err(error),
        }
    }
}

/// The end of waiting: names the claim after the batch that decides it.
///
/// # Errors
/// What the disk says.
pub fn take_up(disk: &dyn Disk, claim: ClaimName, batch: u64) -> io::Result<ClaimName> {
    let next = ClaimName { batch, ..claim.clone() };
    match disk.rename_new(&path_of_claim(&claim), &path_of_claim(&next)) {
        Ok(()) => Ok(next),
        Err(error) if matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound) => {
            Ok(claim)
        }
        Err(error) => Err(error),
    }
}

/// Puts a claim back under the name it had before it was begun again.
///
/// # Errors
/// What the disk says.
pub fn give_back(disk: &dyn Disk, begun: &ClaimName, before: &ClaimName) -> io::Result<()> {
    disk.rename_new(&path_of_claim(begun), &path_of_claim(before))
}
