//! Segments: the files that a log is divided into, and the line that links each segment to the one
//! before.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::frames::Archive;
use super::stub::Stub;
use crate::disk::{Access, Disk, LogFile};
use crate::folder::Folder;

/// A segment is cut after a seal at this length, in bytes.
pub const SEGMENT_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// A segment is also cut after a seal at this many lines.
pub const SEGMENT_LINES_MAX: u64 = 65_536;

/// Folder of the log below the home.
pub const AUDIT_DIR: &str = "audit";

/// Body of a `segment` line, the first line of every file except the first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Segment {
    /// The file before.
    pub previous: Previous,
    /// The bytes after the valid length of that file; null if there are none.
    pub rest: Option<Rest>,
}

/// How the previous file ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Previous {
    /// Its name.
    pub file: String,
    /// Its valid length in bytes, up to and including its last seal.
    pub length: u64,
    /// The number of its lines.
    pub lines: u64,
    /// Leaf hash of its last line, hex.
    pub head: String,
}

/// Bytes of a batch that was never sealed and never answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rest {
    /// Offset of the first byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
    /// Their SHA-256, hex.
    pub sha256: String,
}

/// `log-00000001.jsonl` for 1.
pub fn file_name(number: u32) -> String {
    format!("log-{number:08}.jsonl")
}

/// Path of a segment below the home.
pub fn path(number: u32) -> PathBuf {
    PathBuf::from(AUDIT_DIR).join(file_name(number))
}

/// `log-00000001.jsonl.zst` for 1: the name of a segment's archive, which unpacks to the same
/// bytes.
pub fn archive_name(number: u32) -> String {
    format!("{}{ARCHIVE_ENDING}", file_name(number))
}

/// Suffix of an archive's name.
const ARCHIVE_ENDING: &str = ".zst";

/// `log-00000001.stub` for 1: what remains of a segment whose content was pruned.
pub fn stub_name(number: u32) -> String {
    format!("log-{number:08}{STUB_ENDING}")
}

const STUB_ENDING: &str = ".stub";

/// Opens a segment of the log in `dir` for reading, in whichever form it is kept; prefers the plain
/// file to its archive.
///
/// # Errors
/// Returns the disk's error, [`io::ErrorKind::InvalidData`] for a damaged archive, or an error for
/// which [`is_pruned`] is true if only a stub is left.
pub fn open(disk: &dyn Disk, dir: &Path, number: u32) -> io::Result<Box<dyn LogFile>> {
    let error = match disk.open_log(&dir.join(file_name(number)), Access::Read) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => error,
        plain => return plain,
    };
    match open_archive(disk, dir, number) {
        Err(archive) if archive.kind() == io::ErrorKind::NotFound => {}
        archive => return archive,
    }
    match disk.stat(&dir.join(stub_name(number)))? {
        Some(_) => Err(io::Error::other(Pruned(number))),
        None => Err(error),
    }
}

/// Opens the archive of a segment, whether or not the plain file exists.
///
/// # Errors
/// As [`open`].
pub fn open_archive(disk: &dyn Disk, dir: &Path, number: u32) -> io::Result<Box<dyn LogFile>> {
    let archive = disk.open_log(&dir.join(archive_name(number)), Access::Read)?;
    Ok(Box::new(Archive::over(archive)?))
}

/// Opens a segment for callers that need only its first batch, which is all that remains of a
/// pruned one.
///
/// # Errors
/// As [`open`]; [`io::ErrorKind::InvalidData`] for a damaged stub.
pub fn open_head(disk: &dyn Disk, dir: &Path, number: u32) -> io::Result<Box<dyn LogFile>> {
    match open(disk, dir, number) {
        Err(error) if is_pruned(&error) => Ok(Box::new(Stub::read(disk, dir, number)?.into_head())),
        opened => opened,
    }
}

/// The content of a segment was pruned.
#[derive(Debug, thiserror::Error)]
#[error(
    "its content was pruned: restore `{}` from its copy, SHA-256 in SEGMENTS",
    archive_name(*.0)
)]
struct Pruned(u32);

/// Whether an error of [`open`] says that only a stub is left.
pub fn is_pruned(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Pruned>())
}

/// The forms in which a segment is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// As the plain file.
    pub plain: bool,
    /// As an archive.
    pub archived: bool,
    /// As a stub, which remains when the content is pruned.
    pub stub: bool,
}

impl Kept {
    /// Whether the content is gone.
    pub fn is_pruned(self) -> bool {
        !self.plain && !self.archived
    }

    /// The forms in either of the two.
    #[must_use]
    pub fn and(self, other: Kept) -> Kept {
        Kept {
            plain: self.plain || other.plain,
            archived: self.archived || other.archived,
            stub: self.stub || other.stub,
        }
    }
}

/// Whether a folder on disk holds the first segment of a log, in any form.
pub fn is_log(dir: &Path) -> bool {
    let Ok(folder) = Folder::open(dir) else {
        return false;
    };
    let is_there = |name: &String| {
        folder
            .stat(Path::new(name))
            .is_ok_and(|stat| stat.is_some())
    };
    [file_name(1), archive_name(1), stub_name(1)]
        .iter()
        .any(is_there)
}

/// Returns the number and the form that a file name in the log's folder states. `None` if the file
/// is not a segment.
pub fn form_of(name: &str) -> Option<(u32, Kept)> {
    if let Some(plain) = name.strip_suffix(ARCHIVE_ENDING) {
        return Some((
            number_of(plain)?,
            Kept {
                archived: true,
                ..Kept::default()
            },
        ));
    }
    if let Some(stem) = name.strip_suffix(STUB_ENDING) {
        return Some((
            number_of(&format!("{stem}.jsonl"))?,
            Kept {
                stub: true,
                ..Kept::default()
            },
        ));
    }
    Some((
        number_of(name)?,
        Kept {
            plain: true,
            ..Kept::default()
        },
    ))
}

/// The number in a segment's file name.
pub fn number_of(name: &str) -> Option<u32> {
    let digits = name.strip_prefix("log-")?.strip_suffix(".jsonl")?;
    let number = digits.parse().ok().filter(|number| *number > 0)?;
    (file_name(number) == name).then_some(number)
}
