//! Extracts the one file of a zip; refuses zip bombs, archives with several files and damage.

use std::io::{Cursor, Read};

use super::ImportError;
use super::text::shown_name;

/// Maximum bytes of a file, packed or unpacked: 64 MiB.
pub const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The one file of a zip.
#[derive(Debug)]
pub(super) struct Member {
    /// Its name inside the zip.
    pub(super) name: String,
    /// Its content.
    pub(super) bytes: Vec<u8>,
}

/// Unpacks a zip; `None` if the bytes are not a zip and can be read as they are.
pub(super) fn unpack(file: &str, bytes: &[u8]) -> Result<Option<Member>, ImportError> {
    let too_large = || ImportError::TooLarge {
        file: file.to_owned(),
        limit_bytes: FILE_BYTES_MAX,
    };
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(too_large());
    }
    if is_gzip(bytes) {
        return Err(ImportError::Packed {
            file: file.to_owned(),
        });
    }
    if !is_zip(bytes) {
        return Ok(None);
    }
    let damaged = |reason: String| ImportError::Zip {
        file: file.to_owned(),
        reason: shown_name(&reason),
    };
    let mut archive =
        zip::ZipArchive::new(Cursor::new(bytes)).map_err(|err| damaged(err.to_string()))?;
    if archive.len() != 1 {
        return Err(ImportError::ZipMembers {
            file: file.to_owned(),
            members: archive.len(),
        });
    }
    let member = archive
        .by_index(0)
        .map_err(|err| damaged(err.to_string()))?;
    if member.is_dir() {
        return Err(ImportError::ZipMembers {
            file: file.to_owned(),
            members: 0,
        });
    }
    let name = member
        .name()
        .map_err(|err| damaged(err.to_string()))?
        .into_owned();
    // The size in the zip is only a claim, so limit what comes out. One extra byte distinguishes a
    // full file from a cut one.
    let mut inner = Vec::new();
    member
        .take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut inner)
        .map_err(|err| damaged(err.to_string()))?;
    if inner.len() as u64 > FILE_BYTES_MAX {
        return Err(too_large());
    }
    if is_gzip(&inner) || is_zip(&inner) {
        return Err(ImportError::Packed {
            file: file.to_owned(),
        });
    }
    Ok(Some(Member { name, bytes: inner }))
}

/// Whether the bytes start like a zip; an empty zip starts with its end record.
fn is_zip(bytes: &[u8]) -> bool {
    bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(b"PK\x05\x06")
}

/// Whether the bytes start like gzip.
fn is_gzip(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1f, 0x8b])
}
