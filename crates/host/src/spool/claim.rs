//! Claims files: turns a name in the spool into bytes that only the gate has. The file is opened
//! once, without following links and without blocking, read into memory, and renamed into
//! `spool/work`. The gate decides on the bytes in memory, whatever a writer with an open descriptor
//! does afterwards.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use super::name::{ClaimName, FileName};
use spoolgate_gate::prepare::{Delivery, Origin, Refusal};
use spoolgate_ledger::disk::{Disk, Kind, Mode, ReadFile, Stat, is_full};
use spoolgate_wire::code::Code;
use spoolgate_wire::envelope::REQUEST_BYTES_MAX;
use spoolgate_wire::json;

/// Folder of claimed files below the home.
pub const WORK_DIR: &str = "spool/work";

/// From this attempt on, a request is tried before it is decided: one that kills the gate must not
/// do so for ever.
const TRIED_FROM: u32 = 3;

/// A claimed file and what was read of it.
#[derive(Clone, Debug)]
pub struct Claimed {
    /// Its name in `spool/work`.
    pub claim: ClaimName,
    /// The input of the decision.
    pub delivery: Delivery,
    /// Its size in memory, in bytes.
    pub weight: usize,
}

/// Result of looking at a name in the spool.
#[derive(Debug)]
pub enum Looked {
    /// The file was claimed.
    Claimed(Box<Claimed>),
    /// The file does not parse yet, or still has two links: it may be half-written.
    Unfinished,
    /// The gate may not move the entry, so it stays. This is the claim of it as if it had been
    /// moved, with the refusal that answers it; there is no file in `spool/work`.
    Stuck(Box<Claimed>),
    /// The entry cannot be read because of this error, for which the sender may not be to blame.
    Unread(io::Error),
    /// The file or its folder is gone, or its name is already claimed; another look will find what is
    /// there.
    Skipped,
}

/// A link in a place where links are not followed.
const ELOOP: i32 = 40;

/// Where a file is claimed from.
#[derive(Clone, Debug)]
pub struct From<'a> {
    /// Which spool.
    pub origin: &'a Origin,
    /// Its folder.
    pub dir: &'a Path,
    /// The number of the next batch.
    pub batch: u64,
    /// Metadata of the file, if just read.
    pub stat: Option<Stat>,
}

pub(super) fn path_of_claim(claim: &ClaimName) -> PathBuf {
    Path::new(WORK_DIR).join(claim.to_name())
}

/// Result of reading a file.
pub(super) enum Read {
    Bytes(Vec<u8>),
    Refused(Refusal),
    Gone,
}

/// Reads a file of at most `limit` bytes; `known` is its metadata, if just read.
pub(super) fn read(
    disk: &dyn Disk,
    path: &Path,
    shown: &str,
    limit: usize,
    known: Option<Stat>,
) -> io::Result<(Read, Option<ReadFile>)> {
    let refuse = |code, what: String| Ok((Read::Refused(Refusal::new(code, what)), None));
    let not_a_file = |kind: &str| {
        refuse(
            Code::NotAFile,
            format!("`{shown}` is {kind}, not a regular file"),
        )
    };
    let stat = match known.map_or_else(|| disk.stat(path), |known| Ok(Some(known))) {
        Ok(Some(stat)) => stat,
        Ok(None) => return Ok((Read::Gone, None)),
        Err(error) if is_senders_doing(&error) => {
            return refuse(
                Code::Unreadable,
                format!("`{shown}` may not be looked at by the gate"),
            );
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
        // Its writer holds a lease on it, which a non-blocking open does not break.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            return refuse(
                Code::Unreadable,
                format!("file `{shown}` is leased by another process"),
            );
        }
        // The file was replaced by a link or a device between the two calls.
        Err(error) if error.raw_os_error() == Some(ELOOP) || error.raw_os_error() == Some(6) => {
            return not_a_file("no longer a file");
        }
        // The gate has no permission to read it, or its folder was replaced by something else.
        Err(error) if is_senders_doing(&error) => {
            return refuse(
                Code::Unreadable,
                format!("file `{shown}` may not be read by the gate"),
            );
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
            Some(ReadFile {
                bytes: Vec::new(),
                ..file
            }),
        ));
    }
    if file.stat.links != 1 {
        let what = format!("file `{shown}` has {} hard links", file.stat.links);
        return Ok((
            Read::Refused(Refusal::new(Code::LinkedFile, what)),
            Some(ReadFile {
                bytes: Vec::new(),
                ..file
            }),
        ));
    }
    let stat = file.stat;
    Ok((
        Read::Bytes(file.bytes),
        Some(ReadFile {
            stat,
            bytes: Vec::new(),
        }),
    ))
}

/// Whether a sender can cause this error with its own permissions, mounts or links: then it must
/// cost the sender its request, and must not stop the gate.
pub fn is_senders_doing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::PermissionDenied
            | io::ErrorKind::ResourceBusy
            | io::ErrorKind::CrossesDevices
            | io::ErrorKind::NotADirectory
    ) || error.raw_os_error() == Some(ELOOP)
}

/// Whether this error on an entry of a folder that others can write concerns that entry alone. If
/// the gate has no files or memory left, that says nothing about the entry.
pub(super) fn concerns_entry(origin: &Origin, error: &io::Error) -> bool {
    const EINTR: i32 = 4;
    const ENOMEM: i32 = 12;
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    let is_general = matches!(error.raw_os_error(), Some(EINTR | ENOMEM | ENFILE | EMFILE))
        || error.kind() == io::ErrorKind::OutOfMemory;
    *origin != Origin::Local && !is_general
}

/// The claim of an entry that stays in its spool because of this error, with the refusal that
/// answers it.
pub(super) fn unread(from: &From<'_>, name: &OsStr, error: &io::Error) -> Box<Claimed> {
    let file = FileName::of(name);
    let what = format!("file `{}` cannot be read: {error}", file.shown);
    let claim = ClaimName {
        attempt: 1,
        batch: from.batch,
        origin: from.origin.clone(),
        file: file.known_as,
    };
    let refusal = Refusal::new(Code::Unreadable, what).staying();
    delivered(claim, file.shown, Err(refusal))
}

/// Looks at one name in a spool folder and claims the file if it is ready. With `patience`, an
/// unfinished file may wait.
///
/// # Errors
/// Returns the disk's error, unless it means that the file is gone or unreadable.
pub fn look(disk: &dyn Disk, from: &From<'_>, name: &OsStr, patience: bool) -> io::Result<Looked> {
    let file = FileName::of(name);
    let path = from.dir.join(name);
    if !file.is_good {
        if patience && is_directory(disk, &path) {
            return Ok(Looked::Unfinished);
        }
        let what = format!("`{}` is not a file name for requests", file.shown);
        return take(
            disk,
            from,
            &path,
            &file,
            Err(Refusal::new(Code::BadFileName, what)),
        );
    }
    let (content, opened) = match read(disk, &path, &file.shown, REQUEST_BYTES_MAX, from.stat) {
        Err(error) if concerns_entry(from.origin, &error) => return Ok(Looked::Unread(error)),
        other => other?,
    };
    let content = match content {
        Read::Gone => return Ok(Looked::Skipped),
        // The sender may not be done yet: one that links and unlinks instead of renaming, holds a
        // lease, or has not given the gate permission.
        Read::Refused(refusal)
            if patience && matches!(refusal.code, Code::LinkedFile | Code::Unreadable) =>
        {
            return Ok(Looked::Unfinished);
        }
        Read::Refused(refusal) => return take(disk, from, &path, &file, Err(refusal)),
        Read::Bytes(bytes) => bytes,
    };
    if json::check_object(&content).is_err() {
        if patience {
            return Ok(Looked::Unfinished);
        }
        // Claim the file and read it once more; the decision uses that second read.
        return take_and_read(disk, from, &path, &file);
    }
    let claimed = take(disk, from, &path, &file, Ok(content))?;
    if let (Looked::Claimed(claimed), Some(opened)) = (&claimed, opened) {
        // The renamed file must be the one that was read; if it was swapped in between, read it
        // again.
        let moved = disk.stat(&path_of_claim(&claimed.claim))?;
        if moved.is_none_or(|moved| moved.id != opened.stat.id) {
            return reread(disk, claimed.claim.clone(), file.shown);
        }
    }
    Ok(claimed)
}

/// Whether anything is at the path, as far as the gate can see.
fn is_there(disk: &dyn Disk, path: &Path) -> bool {
    disk.stat(path).is_ok_and(|stat| stat.is_some())
}

/// Whether a directory is at the path, as far as the gate can see.
pub(super) fn is_directory(disk: &dyn Disk, path: &Path) -> bool {
    disk.stat(path)
        .is_ok_and(|stat| stat.is_some_and(|stat| stat.kind == Kind::Directory))
}

fn take_and_read(
    disk: &dyn Disk,
    from: &From<'_>,
    path: &Path,
    file: &FileName,
) -> io::Result<Looked> {
    match take(disk, from, path, file, Ok(Vec::new()))? {
        Looked::Claimed(claimed) => reread(disk, claimed.claim, file.shown.clone()),
        other => Ok(other),
    }
}

/// Reads a file in `spool/work` and makes it a claim with that content.
///
/// # Errors
/// Returns the disk's error.
pub fn reread(disk: &dyn Disk, claim: ClaimName, shown: String) -> io::Result<Looked> {
    let content = match read(
        disk,
        &path_of_claim(&claim),
        &shown,
        REQUEST_BYTES_MAX,
        None,
    )?
    .0
    {
        Read::Gone => return Ok(Looked::Skipped),
        Read::Refused(refusal) => Err(refusal),
        Read::Bytes(bytes) => Ok(bytes),
    };
    Ok(claimed(claim, shown, content))
}

fn delivered(claim: ClaimName, shown: String, content: Result<Vec<u8>, Refusal>) -> Box<Claimed> {
    let weight = content.as_ref().map_or(0, Vec::len);
    let delivery = Delivery {
        origin: claim.origin.clone(),
        file: claim.file.clone(),
        shown,
        content,
    };
    Box::new(Claimed {
        claim,
        delivery,
        weight,
    })
}

fn claimed(claim: ClaimName, shown: String, content: Result<Vec<u8>, Refusal>) -> Looked {
    Looked::Claimed(delivered(claim, shown, content))
}

/// Renames a file into `spool/work`.
pub(super) fn take(
    disk: &dyn Disk,
    from: &From<'_>,
    path: &Path,
    file: &FileName,
    content: Result<Vec<u8>, Refusal>,
) -> io::Result<Looked> {
    let claim = ClaimName {
        attempt: 1,
        batch: from.batch,
        origin: from.origin.clone(),
        file: file.known_as.clone(),
    };
    let rename = || disk.rename_new(path, &path_of_claim(&claim));
    let renamed = match rename() {
        // The file exists, so the target folder is missing.
        Err(error) if error.kind() == io::ErrorKind::NotFound && is_there(disk, path) => {
            disk.create_dir(Path::new(WORK_DIR), Mode::Private)?;
            rename()
        }
        other => other,
    };
    match renamed {
        Ok(()) => Ok(claimed(claim, file.shown.clone(), content)),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound
                    | io::ErrorKind::AlreadyExists
                    | io::ErrorKind::NotADirectory
            ) || error.raw_os_error() == Some(ELOOP) =>
        {
            Ok(Looked::Skipped)
        }
        // It is met again by the next look, when there may be room.
        Err(error) if is_full(&error) => Ok(Looked::Skipped),
        // Somebody else's directory without write permission, a mount, or a file in a sticky
        // folder: whatever others can put there must not end the gate. If the gate cannot write to
        // its own folder, the operator must see that error.
        Err(error) if is_senders_doing(&error) && (is_directory(disk, path) || can_claim(disk)) => {
            let refusal = content.err().unwrap_or_else(|| {
                let what = format!("`{}` cannot be moved by the gate", file.shown);
                Refusal::new(Code::Unreadable, what)
            });
            let refused = delivered(claim, file.shown.clone(), Err(refusal.staying()));
            Ok(Looked::Stuck(refused))
        }
        Err(error) => Err(error),
    }
}

/// Whether the gate can make and remove files in its folder of claims.
fn can_claim(disk: &dyn Disk) -> bool {
    let probe = Path::new(WORK_DIR).join(".probe");
    disk.write(&probe, b"", Mode::Private, false)
        .and_then(|()| disk.remove(&probe))
        .is_ok()
}

/// Claims that an earlier process left behind, in name order; those that were set aside come last.
///
/// # Errors
/// Returns the disk's error.
pub fn left_behind(disk: &dyn Disk) -> io::Result<Vec<ClaimName>> {
    let mut claims = Vec::new();
    for entry in disk.read_dir(Path::new(WORK_DIR))? {
        claims.extend(ClaimName::parse(&entry?.name));
    }
    claims.sort_by_key(|claim| (claim.is_aside(), claim.to_name()));
    Ok(claims)
}

/// Begins a claim that was left behind again, as the next attempt. `batch` is the number of the next
/// batch. After two deaths, `trial` tries the claim under its new name and returns why the request
/// must be refused, if it must. Then the file is not read.
///
/// # Errors
/// Returns the disk's error.
pub fn begin_again(
    disk: &dyn Disk,
    claim: ClaimName,
    batch: u64,
    trial: &mut dyn FnMut(&ClaimName) -> Option<String>,
) -> io::Result<Looked> {
    let shown = claim.file.clone();
    let batch = if claim.is_aside() { batch } else { claim.batch };
    let mut next = ClaimName {
        attempt: claim.attempt.saturating_add(1),
        batch,
        ..claim.clone()
    };
    match disk.rename_new(&path_of_claim(&claim), &path_of_claim(&next)) {
        Ok(()) => {}
        // The attempt is not counted then.
        Err(error) if is_full(&error) => next = claim,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Looked::Skipped),
        Err(error) => return Err(error),
    }
    if next.file.starts_with('=') {
        let what = format!(
            "a file name with hash `{}` is not one for requests",
            next.file
        );
        return Ok(claimed(
            next,
            shown,
            Err(Refusal::new(Code::BadFileName, what)),
        ));
    }
    if next.attempt >= TRIED_FROM
        && let Some(why) = trial(&next)
    {
        let what = format!(
            "file `{shown}`: the gate ended {} times while it was deciding this, and {why}; the \
                same file may be sent again after an upgrade",
            next.attempt - 1
        );
        return Ok(claimed(
            next,
            shown,
            Err(Refusal::new(Code::Internal, what)),
        ));
    }
    reread(disk, next, shown)
}

/// Renames a claim that will wait, so that no decision for the same name is taken for its own. If
/// somebody removed the file, the claim keeps its name: what was read of it is decided anyway.
///
/// # Errors
/// Returns the disk's error.
pub fn set_aside(disk: &dyn Disk, claim: ClaimName) -> io::Result<ClaimName> {
    let mut number = 0;
    loop {
        let aside = claim.aside(number);
        match disk.rename_new(&path_of_claim(&claim), &path_of_claim(&aside)) {
            Ok(()) => return Ok(aside),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(error) if error.kind() == io::ErrorKind::NotFound || is_full(&error) => {
                return Ok(claim);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Ends the waiting of a claim: renames it for the batch that decides it.
///
/// # Errors
/// Returns the disk's error.
pub fn take_up(disk: &dyn Disk, claim: ClaimName, batch: u64) -> io::Result<ClaimName> {
    let next = ClaimName {
        batch,
        ..claim.clone()
    };
    match disk.rename_new(&path_of_claim(&claim), &path_of_claim(&next)) {
        Ok(()) => Ok(next),
        Err(error)
            if is_full(&error)
                || matches!(
                    error.kind(),
                    io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound
                ) =>
        {
            Ok(claim)
        }
        Err(error) => Err(error),
    }
}

/// Puts a claimed file back into its spool, undecided. Returns false if it stays claimed, because its
/// place there is taken or it had a name that no claim keeps.
///
/// # Errors
/// Returns the disk's error.
pub fn put_back(disk: &dyn Disk, claim: &ClaimName) -> io::Result<bool> {
    if !FileName::of(OsStr::new(&claim.file)).is_good {
        return Ok(false);
    }
    let place = super::scan::folder(&claim.origin).join(&claim.file);
    match disk.rename_new(&path_of_claim(claim), &place) {
        Ok(()) => Ok(true),
        // It could not be claimed, and lies there still.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists || is_full(&error) => Ok(false),
        Err(error) if is_senders_doing(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Renames a claim back to the name it had before it was begun again.
///
/// # Errors
/// Returns the disk's error.
pub fn give_back(disk: &dyn Disk, begun: &ClaimName, before: &ClaimName) -> io::Result<()> {
    disk.rename_new(&path_of_claim(begun), &path_of_claim(before))
}
