//! Stubs: what remains of a pruned segment. A stub has the segment's first batch, how the segment
//! ends, and the leaf hashes of all its lines. Chain, roots and proofs need no more; the seals
//! after the segment vouch for the hashes.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::scan::BATCH_BYTES_MAX;
use super::segment::{self, Rest};
use super::tree::{Hash, leaf_hash};
use crate::disk::{Disk, LogFile};

/// Value of the first member of the first line.
const FORMAT: &str = "spoolgate-stub/1";
/// Maximum number of lines of a segment: a full one and the batch that filled it. Each line has at
/// least 128 bytes.
const LINES_MAX: u64 = BATCH_BYTES_MAX / 64;
/// Maximum size of a stub in bytes: its first line, the first batch and the hashes.
const STUB_BYTES_MAX: u64 = BATCH_BYTES_MAX + LINES_MAX * 32 + 64 * 1024;

/// First line of a stub.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StubHeader {
    /// Name and version of the format.
    pub format: String,
    /// The segment's name.
    pub file: String,
    /// Number of its first line.
    pub first_line: u64,
    /// Number of its first batch.
    pub first_batch: u64,
    /// Number of its lines.
    pub lines: u64,
    /// Number of its batches.
    pub batches: u64,
    /// Its length in bytes, up to and including its last seal.
    pub length: u64,
    /// The bytes after that; null if there are none.
    pub rest: Option<Rest>,
    /// SHA-256 of all its bytes, hex.
    pub sha256: String,
    /// How many of its lines follow in the stub.
    pub head_lines: u64,
}

/// What remains of a pruned segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stub {
    /// The first line of the stub.
    pub header: StubHeader,
    /// The lines of the first batch, LF-ended.
    pub head: Vec<u8>,
    /// Leaf hashes of all lines, in order.
    pub leaves: Vec<Hash>,
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("the stub is damaged: {what}"),
    )
}

impl Stub {
    /// The name of the current format.
    pub fn format() -> String {
        FORMAT.to_owned()
    }

    /// Renders the stub as a file.
    ///
    /// # Errors
    /// Returns an error if the header cannot be written as JSON.
    pub fn to_bytes(&self) -> io::Result<Vec<u8>> {
        let mut bytes = serde_json::to_vec(&self.header)?;
        bytes.push(b'\n');
        bytes.extend_from_slice(&self.head);
        for leaf in &self.leaves {
            bytes.extend_from_slice(leaf.as_bytes());
        }
        Ok(bytes)
    }

    /// Reads a stub's bytes. Does not check that the hashes belong to the log: the seals after the
    /// segment show that.
    ///
    /// # Errors
    /// Returns [`io::ErrorKind::InvalidData`] if the bytes are not a stub.
    pub fn from_bytes(bytes: &[u8]) -> io::Result<Stub> {
        let (first, mut rest) =
            cut(bytes).ok_or_else(|| damaged("its first line is incomplete"))?;
        let header: StubHeader = serde_json::from_slice(first)
            .map_err(|error| damaged(&format!("first line: {error}")))?;
        if header.format != FORMAT || serde_json::to_vec(&header)? != first {
            return Err(damaged("its first line is not in the form of stubs"));
        }
        if header.lines == 0 || header.lines > LINES_MAX || header.head_lines > header.lines {
            return Err(damaged("it states an impossible number of lines"));
        }
        let behind = rest;
        let mut first_leaves = Vec::new();
        for _ in 0..header.head_lines {
            let (line, after) = cut(rest).ok_or_else(|| damaged("its lines are cut"))?;
            first_leaves.push(leaf_hash(line));
            rest = after;
        }
        let head = behind
            .get(..behind.len().saturating_sub(rest.len()))
            .unwrap_or_default()
            .to_vec();
        let (hashes, left) = rest.as_chunks::<32>();
        if !left.is_empty() || u64::try_from(hashes.len()).ok() != Some(header.lines) {
            return Err(damaged("it does not have one hash per line"));
        }
        let leaves: Vec<Hash> = hashes
            .iter()
            .map(|bytes| Hash::from_bytes(*bytes))
            .collect();
        if !leaves.starts_with(&first_leaves) {
            return Err(damaged("its lines do not match its hashes"));
        }
        Ok(Stub {
            header,
            head,
            leaves,
        })
    }

    /// Reads the stub of a segment of the log in `dir`.
    ///
    /// # Errors
    /// Returns the disk's error, or [`io::ErrorKind::InvalidData`] if the stub is damaged.
    pub fn read(disk: &dyn Disk, dir: &Path, number: u32) -> io::Result<Stub> {
        let limit = usize::try_from(STUB_BYTES_MAX).map_err(io::Error::other)?;
        let read = disk.read(&dir.join(segment::stub_name(number)), limit)?;
        if read.bytes.len() > limit {
            return Err(damaged("it is longer than any stub"));
        }
        let stub = Stub::from_bytes(&read.bytes)?;
        if stub.header.file != segment::file_name(number) {
            return Err(damaged("it belongs to another segment"));
        }
        Ok(stub)
    }

    /// Returns the first batch as a file.
    pub fn into_head(self) -> FirstBatch {
        FirstBatch::new(self.head)
    }
}

/// Returns the bytes before the first LF, and the bytes after it.
fn cut(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (line, behind) = bytes.split_at_checked(memchr::memchr(b'\n', bytes)?)?;
    Some((line, behind.get(1..).unwrap_or_default()))
}

/// The first batch of a pruned segment as a read-only file.
pub struct FirstBatch(Vec<u8>);

impl FirstBatch {
    /// Wraps the lines of the batch.
    pub fn new(lines: Vec<u8>) -> FirstBatch {
        FirstBatch(lines)
    }
}

impl LogFile for FirstBatch {
    fn len(&self) -> io::Result<u64> {
        u64::try_from(self.0.len()).map_err(io::Error::other)
    }

    fn append(&self, _bytes: &[u8]) -> io::Result<()> {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "a pruned segment is never written to",
        ))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let mut there = self.0.get(from..).unwrap_or_default();
        io::Read::read(&mut there, buffer)
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn drop_cache(&self, _from: u64) -> io::Result<()> {
        Ok(())
    }
}
