//! What can be wrong with the lines of a log.

use super::line::LineError;
use super::note::NoteError;
use super::rotation::{GenesisError, RotationError};

/// Why a line does not continue the log, or a segment cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error(transparent)]
    Line(#[from] LineError),
    #[error(transparent)]
    Genesis(#[from] GenesisError),
    #[error(transparent)]
    Rotation(#[from] RotationError),
    #[error("the line is not UTF-8: {0}")]
    NotUtf8(#[from] std::string::FromUtf8Error),
    #[error("the file ends inside a line")]
    Unfinished,
    #[error("the first line is incomplete")]
    FirstLine,
    #[error("the file does not begin with a segment line")]
    NoSegmentLine,
    #[error("segment line: {0}")]
    SegmentLine(serde_json::Error),
    #[error("`{path}`: {source}")]
    Disk {
        path: String,
        source: std::io::Error,
    },
    #[error(
        "line {seq} of batch {batch} is at the place of line {wanted_seq} of batch {wanted_batch}"
    )]
    Number {
        seq: u64,
        batch: u64,
        wanted_seq: u64,
        wanted_batch: u64,
    },
    #[error("line {0} does not name the line before it")]
    Chain(u64),
    #[error("line {0} does not follow the line before it")]
    Order(u64),
    #[error("line {0} is of a kind that is not allowed there")]
    Place(u64),
    #[error("line {0} rotates keys where a rotation is not allowed")]
    RotationPlace(u64),
    #[error("line {0} is between a rotation and its seal")]
    AfterRotation(u64),
    #[error("line {seq}: {source}")]
    Body {
        seq: u64,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("line {0} is not in the canonical form of its kind")]
    Spelling(u64),
    #[error("seal at line {seq}: {source}")]
    Seal { seq: u64, source: serde_json::Error },
    #[error("the seal at line {0} is not in canonical form")]
    SealSpelling(u64),
    #[error("the root of the seal at line {0} is not a hash")]
    SealHash(u64),
    #[error("the seal at line {0} has another size or root than the lines before it")]
    SealRoot(u64),
    #[error("the signature of the seal at line {0} does not verify")]
    SealSignature(u64),
    #[error("a batch is longer than {} bytes", super::scan::BATCH_BYTES_MAX)]
    BatchLength,
    #[error("more lines than a log can have")]
    TooManyLines,
    #[error("`{0}` contains no sealed batch")]
    NothingSealed(String),
    #[error("the lines from here on are not sealed")]
    Unsealed,
}

/// Why a remembered head is not on the log.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HeadFault {
    #[error("the log has no key")]
    NoKey,
    #[error("does not verify under the log's key at its size: {0}")]
    Note(#[from] NoteError),
    #[error("{head}: given up by line {line}, which continued from an older copy of this log")]
    GivenUp { head: super::heads::Head, line: u64 },
    #[error("the first {size} lines had root {root} then and have another root now")]
    Root { size: u64, root: super::tree::Hash },
    #[error(
        "it covers {size} lines with root {root}; no seal of this log covers that many: the log \
            was cut or rewritten"
    )]
    Size { size: u64, root: super::tree::Hash },
}
