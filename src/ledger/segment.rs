//! Segments: the files a log is cut into, and the line that ties each to the one before.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::frames::Archive;
use super::stub::Stub;
use crate::host::disk::{Access, Disk, LogFile};

/// A segment is cut after a seal at this length, in bytes.
pub const SEGMENT_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Or at this many lines.
pub const SEGMENT_LINES_MAX: u64 = 65_536;

/// Folder of the log below the home.
pub const AUDIT_DIR: &str = "audit";

/// Body of a `segment` line, the first of every file but the first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Segment {
    /// The file before.
    pub previous: Previous,
    /// What lies behind the valid length of that file; null: nothing.
    pub rest: Option<Rest>,
}

/// How the file before ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Previous {
    /// Its name.
    pub file: String,
    /// Its valid length in bytes: up to and with its last seal.
    pub length: u64,
    /// Its lines.
    pub lines: u64,
    /// Leaf hash of its last line, hex.
    pub head: String,
}

/// Bytes of a batch that was never sealed and never answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rest {
    /// Where they start.
    pub offset: u64,
    /// How many.
    pub length: u64,
    /// Their SHA-256, hex.
    pub sha256: String,
}

/// `log-00000001.jsonl` for 1.
pub fn file_name(number: u32) -> String {
    format!("log-{number:08}.jsonl")
}

/// Its path below the home.
pub fn path(number: u32) -> PathBuf {
    PathBuf::from(AUDIT_DIR).join(file_name(number))
}

/// `log-00000001.jsonl.zst` for 1: the name of its archive, which unpacks to the same bytes.
pub fn archive_name(number: u32) -> String {
    format!("{}{ARCHIVE_ENDING}", file_name(number))
}

/// What an archive's name ends with.
const ARCHIVE_ENDING: &str = ".zst";

/// `log-00000001.stub` for 1: what stays of a segment whose content was pruned.
pub fn stub_name(number: u32) -> String {
    format!("log-{number:08}{STUB_ENDING}")
}

const STUB_ENDING: &str = ".stub";

/// Opens a segment of the log in `dir` for reading, in whichever form it is kept: the plain file before its archive.
///
/// # Errors
/// What the disk says; [`io::ErrorKind::InvalidData`] for an archive that is none; one that [`is_pruned`] knows where
/// only a stub is left.
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

/// Opens the archive of a segment, whether the plain file is there or not.
///
/// # Errors
/// As [`open`].
pub fn open_archive(disk: &dyn Disk, dir: &Path, number: u32) -> io::Result<Box<dyn LogFile>> {
    let archive = disk.open_log(&dir.join(archive_name(number)), Access::Read)?;
    Ok(Box::new(Archive::over(archive)?))
}

/// Opens a segment for whoever needs no more than its first batch: of a pruned one that is all there is.
///
/// # Errors
/// As [`open`]; [`io::ErrorKind::InvalidData`] for a stub that is none.
pub fn open_head(disk: &dyn Disk, dir: &Path, number: u32) -> io::Result<Box<dyn LogFile>> {
    match open(disk, dir, number) {
        Err(error) if is_pruned(&error) => Ok(Box::new(Stub::read(disk, dir, number)?.into_head())),
        opened => opened,
    }
}

/// The content of a segment was pruned.
#[derive(Debug, thiserror::Error)]
#[error(
    "its content was pruned: bring `{}` back from where it was copied to, SHA-256 in SEGMENTS",
    archive_name(*.0)
)]
struct Pruned(u32);

/// Whether an error of [`open`] says that only a stub is left.
pub fn is_pruned(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Pruned>())
}

/// In which forms a segment is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// As it was written.
    pub plain: bool,
    /// As an archive.
    pub archived: bool,
    /// As what stays of it when its content is pruned.
    pub stub: bool,
}

impl Kept {
    /// Whether its content is not here.
    pub fn is_pruned(self) -> bool {
        !self.plain && !self.archived
    }

    /// Both together.
    #[must_use]
    pub fn and(self, other: Kept) -> Kept {
        Kept {
            plain: self.plain || other.plain,
            archived: self.archived || other.archived,
            stub: self.stub || other.stub,
        }
    }
}

/// Whether a folder on disk holds the first segment of a log, in whichever form.
pub fn is_log(dir: &Path) -> bool {
    [file_name(1), archive_name(1), stub_name(1)].iter().any(|name| dir.join(name).exists())
}

/// The number and the form in a file name of the log's folder; none: it is no segment.
pub fn form_of(name: &str) -> Option<(u32, Kept)> {
    if let Some(plain) = name.strip_suffix(ARCHIVE_ENDING) {
        return Some((number_of(plain)?, Kept { archived: true, ..Kept::default() }));
    }
    if let Some(stem) = name.strip_suffix(STUB_ENDING) {
        return Some((number_of(&format!("{stem}.jsonl"))?, Kept { stub: true, ..Kept::default() }));
    }
    Some((number_of(name)?, Kept { plain: true, ..Kept::default() }))
}

/// The number in a segment's file name.
pub fn number_of(name: &str) -> Option<u32> {
    let digits = name.strip_prefix("log-")?.strip_suffix(".jsonl")?;
    let number = digits.parse().ok().filter(|number| *number > 0)?;
    (file_name(number) == name).then_some(number)
}
