//! Offline proofs for somebody who does not trust the log: that a line is in it, or that a later
//! head extends an earlier one. Pure.
//!
//! A receipt is a C2SP tlog-proof (<https://c2sp.org/tlog-proof>): index, inclusion path,
//! checkpoint, and the ledger line itself as its extra data. The format reserves that field for the
//! input of the leaf hash. The line is not trusted until the path from its hash to the signed root
//! holds.
//!
//! A consistency proof has the form of the request body that C2SP witnesses accept
//! (<https://c2sp.org/tlog-witness>, `add-checkpoint`): old size, path, new checkpoint.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::line::{self, LINE_BYTES_MAX, Line, LineError};
use super::note::{self, Checkpoint, NOTE_BYTES_MAX, NoteError, VerifierKey};
use super::tree::{Hash, empty_root, leaf_hash, verify_consistency, verify_inclusion};

/// First line of a tlog-proof.
pub(super) const HEADER: &str = "c2sp.org/tlog-proof@v1";

/// Maximum number of hashes on a path: a tree has at most 2^63 - 1 leaves.
pub const PATH_HASHES_MAX: usize = 63;

/// Longest proof that is read, in bytes: the largest checkpoint, the longest line in base64, the
/// longest path.
pub const PROOF_BYTES_MAX: usize =
    NOTE_BYTES_MAX + LINE_BYTES_MAX.div_ceil(3) * 4 + PATH_HASHES_MAX * 45 + 256;

/// Why a proof is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProofError {
    /// Longer than [`PROOF_BYTES_MAX`].
    #[error("the proof is longer than {PROOF_BYTES_MAX} bytes")]
    TooLarge,
    /// Not UTF-8.
    #[error("the proof is not text: byte {0} is not UTF-8")]
    NotText(usize),
    /// The first line is not `c2sp.org/tlog-proof@v1`.
    #[error("the first line is not `{HEADER}`, so this is not a tlog-proof")]
    Header,
    /// The first line of a consistency proof is not `old` and a size.
    #[error("the first line is not `old` and a size, so this is not a consistency proof")]
    OldSize,
    /// The extra data is not canonical base64.
    #[error("the extra data is not base64")]
    Extra,
    /// There is no `index` line with a plain decimal number.
    #[error("the proof has no `index` line with a plain decimal number")]
    Index,
    /// A line of the path is not the base64 of 32 bytes.
    #[error("hash {0} of the path is not the base64 of 32 bytes")]
    PathHash(usize),
    /// More than [`PATH_HASHES_MAX`].
    #[error("the path has more than {PATH_HASHES_MAX} hashes")]
    PathTooLong,
    /// The proof ends before its checkpoint.
    #[error("the proof ends before its checkpoint")]
    NoCheckpoint,
    /// The checkpoint of the proof is malformed or does not verify.
    #[error("the checkpoint of the proof: {0}")]
    Checkpoint(NoteError),
    /// One of the checkpoints to compare is malformed or does not verify.
    #[error("the {which} checkpoint: {why}")]
    Head {
        /// Which of the two.
        which: &'static str,
        /// What is wrong with it.
        why: NoteError,
    },
    /// The tlog-proof has no extra data, so it carries no line.
    #[error("the proof does not contain the line it is about")]
    NoLine,
    /// The extra data is not a ledger line.
    #[error("the proof does not contain a ledger line: {0}")]
    Line(#[from] LineError),
    /// The line has another `seq` than the index of the proof.
    #[error("the proof is about line {index} but contains line {seq}")]
    Seq {
        /// The index of the proof.
        index: u64,
        /// The `seq` of the line.
        seq: u64,
    },
    /// The path does not lead to the root.
    #[error("the line is not line {index} of the {size} lines that the checkpoint covers")]
    NotIncluded {
        /// Index of the proof.
        index: u64,
        /// Size of the checkpoint.
        size: u64,
    },
    /// The proof starts from another size than the old checkpoint.
    #[error("the proof starts from {found} lines, but the old checkpoint covers {expected}")]
    OtherOld {
        /// Size in the proof.
        found: u64,
        /// Size of the old checkpoint.
        expected: u64,
    },
    /// The proof leads to another head than the new checkpoint.
    #[error(
        "the proof leads to {found_size} lines with root {found}, but the new checkpoint covers \
            {size} with root {root}"
    )]
    OtherNew {
        /// Size that the proof leads to.
        found_size: u64,
        /// Root that the proof leads to.
        found: Hash,
        /// Size of the new checkpoint.
        size: u64,
        /// Root of the new checkpoint.
        root: Hash,
    },
    /// The checkpoints are from different logs.
    #[error("the old checkpoint is of log `{old}`, the new one of `{new}`")]
    OtherLog {
        /// Name of the old checkpoint's log.
        old: String,
        /// Name of the new checkpoint's log.
        new: String,
    },
    /// The old checkpoint is the newer one.
    #[error("the old checkpoint covers {old} lines and the new one {new}: swap them")]
    Order {
        /// Size of the checkpoint given as the old one.
        old: u64,
        /// Size of the checkpoint given as the new one.
        new: u64,
    },
    /// The log signed two heads of the same size with different roots.
    #[error(
        "FORK: the log signed two heads over {size} lines, with root {one} and with root {other}"
    )]
    Fork {
        /// Size of both.
        size: u64,
        /// One root.
        one: Hash,
        /// The other.
        other: Hash,
    },
    /// The path does not connect the two checkpoints.
    #[error(
        "the proof does not show that the first {old} of {new} lines are those of the old \
            checkpoint"
    )]
    NotConsistent {
        /// Size of the old checkpoint.
        old: u64,
        /// Size of the new one.
        new: u64,
    },
}

/// A parsed tlog-proof. Nothing in it is trusted before [`Receipt::check`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// Extra data: in receipts of this program the ledger line, without its LF.
    pub extra: Option<Vec<u8>>,
    /// Number of the line.
    pub index: u64,
    /// Sibling hashes from the leaf up; at most [`PATH_HASHES_MAX`].
    pub path: Vec<Hash>,
    /// The signed checkpoint, as a note.
    pub checkpoint: String,
}

/// What a receipt proves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proved<'r> {
    /// The line.
    pub line: Line<'r>,
    /// The bytes of the line as they are in the log.
    pub text: &'r [u8],
    /// The head that covers the line.
    pub checkpoint: Checkpoint,
}

impl Receipt {
    /// Makes the receipt of a line.
    pub fn new(line: Vec<u8>, index: u64, path: Vec<Hash>, checkpoint: String) -> Receipt {
        Receipt {
            extra: Some(line),
            index,
            path,
            checkpoint,
        }
    }

    /// Renders the receipt as a file.
    pub fn text(&self) -> String {
        let mut text = format!("{HEADER}\n");
        if let Some(extra) = &self.extra {
            // Writing to a String cannot fail, here and below.
            let _ = writeln!(text, "extra {}", STANDARD.encode(extra));
        }
        let _ = writeln!(text, "index {}", self.index);
        push_path(&mut text, &self.path, &self.checkpoint);
        text
    }

    /// Reads a file. [`Receipt::text`] of the result is the same text, byte for byte.
    ///
    /// # Errors
    /// Returns [`ProofError`] if the text does not have the form of a tlog-proof. The checkpoint is
    /// not checked here.
    pub fn parse(bytes: &[u8]) -> Result<Receipt, ProofError> {
        let text = text_of(bytes)?;
        let rest = text
            .strip_prefix(HEADER)
            .and_then(|rest| rest.strip_prefix('\n'));
        let rest = rest.ok_or(ProofError::Header)?;
        let (extra, rest) = match rest.strip_prefix("extra ") {
            Some(rest) => {
                let (base64, rest) = rest.split_once('\n').ok_or(ProofError::Index)?;
                (
                    Some(STANDARD.decode(base64).map_err(|_| ProofError::Extra)?),
                    rest,
                )
            }
            None => (None, rest),
        };
        let (index, rest) = number_line(rest, "index ").ok_or(ProofError::Index)?;
        let (path, checkpoint) = split_path(rest)?;
        Ok(Receipt {
            extra,
            index,
            path,
            checkpoint: checkpoint.to_owned(),
        })
    }

    /// Checks that the log of `key` signed a head that covers this line at this index.
    ///
    /// ```
    /// use spoolgate_ledger::proof::Receipt;
    ///
    /// let key = "example.org/log+d3e49c8a+AWksKng6bXZg10G5xS93kpMNoz9Hdu4hkpWOLKnrr1xf".parse()?;
    /// let receipt = Receipt::parse(&std::fs::read("testdata/line-3.tlog-proof")?)?;
    /// let proved = receipt.check(&key)?;
    /// assert_eq!((proved.line.seq, proved.line.kind), (3, "decision"));
    /// assert_eq!(proved.checkpoint.size, 10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`ProofError`] if the receipt proves nothing; do not use any part of it then.
    pub fn check(&self, key: &VerifierKey) -> Result<Proved<'_>, ProofError> {
        // A log's key is named after the log.
        let checkpoint = note::open_checkpoint(&self.checkpoint, key, key.name())
            .map_err(ProofError::Checkpoint)?;
        let text = self.extra.as_deref().ok_or(ProofError::NoLine)?;
        let (index, size) = (self.index, checkpoint.size);
        if !verify_inclusion(&leaf_hash(text), index, size, &self.path, &checkpoint.root) {
            return Err(ProofError::NotIncluded { index, size });
        }
        let line = line::parse(text)?;
        if line.seq != index {
            return Err(ProofError::Seq {
                index,
                seq: line.seq,
            });
        }
        Ok(Proved {
            line,
            text,
            checkpoint,
        })
    }
}

/// A parsed consistency proof. Nothing in it is trusted before [`Extension::check`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extension {
    /// Size of the earlier head.
    pub old_size: u64,
    /// Hashes of RFC 6962, section 2.1.2; at most [`PATH_HASHES_MAX`].
    pub path: Vec<Hash>,
    /// The later checkpoint, as a note.
    pub checkpoint: String,
}

impl Extension {
    /// Renders the proof as a file, which is also the request body for a witness.
    pub fn text(&self) -> String {
        let mut text = format!("old {}\n", self.old_size);
        push_path(&mut text, &self.path, &self.checkpoint);
        text
    }

    /// Reads a file. [`Extension::text`] of the result is the same text, byte for byte.
    ///
    /// # Errors
    /// Returns [`ProofError`] if the text does not have the form of a consistency proof. The
    /// checkpoint is not checked here.
    pub fn parse(bytes: &[u8]) -> Result<Extension, ProofError> {
        let (old_size, rest) = number_line(text_of(bytes)?, "old ").ok_or(ProofError::OldSize)?;
        let (path, checkpoint) = split_path(rest)?;
        Ok(Extension {
            old_size,
            path,
            checkpoint: checkpoint.to_owned(),
        })
    }

    /// Checks that the log of `key` signed a head whose first lines are exactly the lines of `old`,
    /// and returns that head.
    ///
    /// # Errors
    /// Returns [`ProofError::Fork`] if both heads have the same size and different roots: the log
    /// signed both. Returns another [`ProofError`] if the proof is invalid.
    pub fn check(&self, old: &Checkpoint, key: &VerifierKey) -> Result<Checkpoint, ProofError> {
        let new = note::open_checkpoint(&self.checkpoint, key, key.name())
            .map_err(ProofError::Checkpoint)?;
        check_order(old, &new)?;
        if self.old_size != old.size {
            return Err(ProofError::OtherOld {
                found: self.old_size,
                expected: old.size,
            });
        }
        // Every log extends the empty one, so no hashes are needed.
        let continues = if old.size == 0 {
            self.path.is_empty() && old.root == empty_root()
        } else {
            verify_consistency(old.size, new.size, &old.root, &new.root, &self.path)
        };
        if !continues {
            return Err(ProofError::NotConsistent {
                old: old.size,
                new: new.size,
            });
        }
        Ok(new)
    }
}

/// Checks that `new` can extend `old` at all.
///
/// # Errors
/// Returns [`ProofError::OtherLog`], [`ProofError::Fork`] for one size with two roots, or
/// [`ProofError::Order`].
pub fn check_order(old: &Checkpoint, new: &Checkpoint) -> Result<(), ProofError> {
    // Without this check, checkpoints of two logs could look like a fork of one of them.
    if old.origin != new.origin {
        return Err(ProofError::OtherLog {
            old: old.origin.clone(),
            new: new.origin.clone(),
        });
    }
    if old.size == new.size && old.root != new.root {
        return Err(ProofError::Fork {
            size: old.size,
            one: old.root,
            other: new.root,
        });
    }
    if old.size > new.size {
        return Err(ProofError::Order {
            old: old.size,
            new: new.size,
        });
    }
    Ok(())
}

fn push_path(text: &mut String, path: &[Hash], checkpoint: &str) {
    for hash in path {
        text.push_str(&hash.to_base64());
        text.push('\n');
    }
    text.push('\n');
    text.push_str(checkpoint);
}

fn text_of(bytes: &[u8]) -> Result<&str, ProofError> {
    if bytes.len() > PROOF_BYTES_MAX {
        return Err(ProofError::TooLarge);
    }
    std::str::from_utf8(bytes).map_err(|error| ProofError::NotText(error.valid_up_to()))
}

/// Returns the number in the first line, if the line is `name` and a canonical decimal, and the
/// rest of the text.
fn number_line<'t>(text: &'t str, name: &str) -> Option<(u64, &'t str)> {
    let (digits, rest) = text.strip_prefix(name)?.split_once('\n')?;
    let number: u64 = digits.parse().ok()?;
    (number.to_string() == digits).then_some((number, rest))
}

/// Returns the hashes before the first empty line, and the text after it.
fn split_path(mut rest: &str) -> Result<(Vec<Hash>, &str), ProofError> {
    let mut path = Vec::new();
    loop {
        let (line, behind) = rest.split_once('\n').ok_or(ProofError::NoCheckpoint)?;
        rest = behind;
        if line.is_empty() {
            return Ok((path, rest));
        }
        if path.len() == PATH_HASHES_MAX {
            return Err(ProofError::PathTooLong);
        }
        path.push(Hash::from_base64(line).ok_or(ProofError::PathHash(path.len() + 1))?);
    }
}
