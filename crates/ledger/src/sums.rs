//! `audit/SEGMENTS`: the SHA-256 of every closed segment's plain bytes, in the format of sha256sum.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::segment;
use super::tree::Hash;
use crate::disk::{self, Disk, LogFile};

/// File name in the log's folder.
pub(crate) const SEGMENTS_NAME: &str = "SEGMENTS";
/// Maximum number of bytes that are read of the file: enough for about 200,000 segments.
const SEGMENTS_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Number of bytes that are hashed at a time.
const CHUNK_BYTES: usize = 256 * 1024;

/// Why a file of digests is not one.
#[derive(Debug, thiserror::Error)]
enum SumsError {
    #[error(transparent)]
    NotText(std::str::Utf8Error),
    #[error("line {0} is not `<64 hex>  log-<8 digits>.jsonl`")]
    Line(u64),
    #[error("its lines are not one per segment, in order, each ended by an LF")]
    Order,
}

/// Digests by segment number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sums(pub BTreeMap<u32, Hash>);

impl Sums {
    /// Renders the text of the file.
    pub fn to_text(&self) -> String {
        let line =
            |(number, sum): (&u32, &Hash)| format!("{sum}  {}\n", segment::file_name(*number));
        self.0.iter().map(line).collect()
    }

    /// Parses the text of the file, which must be exactly what [`Sums::to_text`] writes.
    ///
    /// # Errors
    /// Returns [`SumsError`] for any other text.
    fn parse(text: &str) -> Result<Sums, SumsError> {
        let mut sums = Sums::default();
        for (at, line) in (1..).zip(text.lines()) {
            let entry = line
                .split_once("  ")
                .and_then(|(sum, name)| Some((segment::number_of(name)?, Hash::from_hex(sum)?)));
            let (number, sum) = entry.ok_or(SumsError::Line(at))?;
            sums.0.insert(number, sum);
        }
        if sums.to_text() == text {
            Ok(sums)
        } else {
            Err(SumsError::Order)
        }
    }

    /// Reads the file from the log's folder. Empty if there is no such file.
    ///
    /// # Errors
    /// Returns the disk's error, or [`io::ErrorKind::InvalidData`] if the text is malformed.
    pub fn read(disk: &dyn Disk, dir: &Path) -> io::Result<Sums> {
        match disk.read(&dir.join(SEGMENTS_NAME), SEGMENTS_BYTES_MAX) {
            Ok(file) => {
                let damaged = |error| io::Error::new(io::ErrorKind::InvalidData, error);
                let text = str::from_utf8(&file.bytes).map_err(SumsError::NotText);
                text.and_then(Sums::parse).map_err(damaged)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Sums::default()),
            Err(error) => Err(error),
        }
    }
}

/// SHA-256 of all bytes of a file.
///
/// # Errors
/// Returns an error if reading fails.
pub(crate) fn sum_of(file: &dyn LogFile) -> io::Result<Hash> {
    let length = file.len()?;
    let mut sum = Sha256::new();
    let mut at = 0;
    while at < length {
        let bytes = usize::try_from(length.saturating_sub(at))
            .unwrap_or(usize::MAX)
            .min(CHUNK_BYTES);
        sum.update(disk::read_exact_at(file, at, bytes)?);
        at = at.saturating_add(u64::try_from(bytes).map_err(io::Error::other)?);
    }
    Ok(Hash::from_bytes(sum.finalize().into()))
}
