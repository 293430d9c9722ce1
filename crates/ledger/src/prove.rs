//! Makes receipts and consistency proofs from a ledger folder. Every proof is checked as its
//! receiver will check it; if a cached hash is wrong, the proof is made again from the lines.

use std::io;
use std::path::Path;

use super::LedgerError;
use super::find::Finder;
use super::leaves::Leaves;
use super::line;
use super::note::{self, Checkpoint, NOTE_BYTES_MAX, NoteError, VerifierKey};
use super::proof::{self, Extension, ProofError, Receipt};
use super::recover::keys_over_time;
use super::rotation::Timeline;
use super::seal::Seal;
use super::tree::{Hash, leaf_hash, verify_consistency, verify_inclusion};
use super::verify::CHECKPOINT_NAME;
use crate::disk::Disk;

/// Why a proof could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProveError {
    /// The log cannot be read.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The newest checkpoint cannot be read.
    #[error("`{CHECKPOINT_NAME}` of the audit folder: {0}")]
    NoCheckpoint(io::Error),
    /// The log does not name its keys.
    #[error("the log names no keys; run `spoolgate audit verify`")]
    NoKeys,
    /// A checkpoint is malformed or does not verify.
    #[error("the checkpoint: {0}")]
    Head(NoteError),
    /// There is no such line.
    #[error("the log has no line {0}; `spoolgate audit tail` shows the newest lines")]
    NoLine(u64),
    /// The checkpoint does not cover the line yet.
    #[error(
        "this checkpoint covers the {size} lines before line {size} and not line {seq}; the next \
            checkpoint will cover it"
    )]
    NotYet {
        /// The line.
        seq: u64,
        /// Size of the checkpoint.
        size: u64,
    },
    /// The line that the caller provided is not that line of the log.
    #[error("the given line is not line {0} of this log")]
    OtherLine(u64),
    /// No seal of this log has the checkpoint's size.
    #[error(
        "the checkpoint covers {size} lines with root {root}; no seal of this log covers that \
            many: the log was cut or rewritten, or is another log"
    )]
    OffLog {
        /// Size of the checkpoint.
        size: u64,
        /// Its root.
        root: Hash,
    },
    /// The log has other lines than the ones that were signed.
    #[error(
        "FORK: a signed checkpoint covers {size} lines with root {signed}; this log seals {size} \
            lines with root {sealed}"
    )]
    Fork {
        /// Size of the checkpoint.
        size: u64,
        /// Root in the checkpoint.
        signed: Hash,
        /// Root in the log's seal.
        sealed: Hash,
    },
    /// The lines do not give the root that was signed.
    #[error(
        "the lines do not give the root {root} that was signed over {size} of them; run `spoolgate \
            audit verify`"
    )]
    Damaged {
        /// Size of the checkpoint.
        size: u64,
        /// Its root.
        root: Hash,
    },
    /// The proof that was made does not hold.
    #[error("{0}")]
    Proof(#[from] ProofError),
}

/// A checkpoint whose signature verifies under the key that was in force at its size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The key that verifies it.
    pub key: VerifierKey,
    /// The signed note.
    pub note: String,
    /// The content of the note.
    pub checkpoint: Checkpoint,
}

/// A ledger folder that proofs are made from.
///
/// ```
/// use std::path::Path;
///
/// use spoolgate_ledger::folder::Folder;
/// use spoolgate_ledger::prove::Prover;
///
/// let folder = Folder::open("testdata/log")?;
/// let prover = Prover::open(&folder, Path::new(""))?;
/// let head = prover.newest()?;
/// let receipt = prover.receipt(3, &head)?;
/// assert_eq!(receipt.text(), std::fs::read_to_string("testdata/line-3.tlog-proof")?);
/// assert!(receipt.check(&head.key).is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Prover<'a> {
    disk: &'a dyn Disk,
    dir: &'a Path,
    keys: Timeline,
}

impl<'a> Prover<'a> {
    /// Reads the log's keys from the log.
    ///
    /// # Errors
    /// Returns [`ProveError`] if they cannot be read.
    pub fn open(disk: &'a dyn Disk, dir: &'a Path) -> Result<Prover<'a>, ProveError> {
        let keys = keys_over_time(disk, dir)?;
        Ok(Prover { disk, dir, keys })
    }

    /// Returns a [`Finder`] for the lines of the log.
    ///
    /// # Errors
    /// Returns [`LedgerError`] if the segments cannot be listed.
    pub fn finder(&self) -> Result<Finder<'a>, LedgerError> {
        Finder::open(self.disk, self.dir)
    }

    /// Opens a checkpoint of this log. Does not check that the log still contains it.
    ///
    /// # Errors
    /// Returns [`ProveError::Head`] if the checkpoint does not verify.
    pub fn head(&self, note: &str) -> Result<Head, ProveError> {
        // A key signs only for the sizes at which it is in force.
        let claimed = note::claimed(note).and_then(|head| self.keys.at(head.size));
        let keys = claimed
            .or_else(|| self.keys.last())
            .ok_or(ProveError::NoKeys)?;
        let checkpoint =
            note::open_checkpoint(note, &keys.log_key, &keys.origin).map_err(ProveError::Head)?;
        Ok(Head {
            key: keys.log_key.clone(),
            note: note.to_owned(),
            checkpoint,
        })
    }

    /// Opens the newest checkpoint like [`Prover::head`].
    ///
    /// # Errors
    /// Returns [`ProveError`] if the checkpoint cannot be read or does not verify.
    pub fn newest(&self) -> Result<Head, ProveError> {
        let file = self
            .disk
            .read(&self.dir.join(CHECKPOINT_NAME), NOTE_BYTES_MAX)
            .map_err(ProveError::NoCheckpoint)?;
        let note = String::from_utf8_lossy(&file.bytes);
        match self.head(&note) {
            // A running gate may have rotated its keys meanwhile.
            Err(ProveError::Head(_)) => Prover::open(self.disk, self.dir)?.head(&note),
            head => head,
        }
    }

    /// Checks that a checkpoint is on the log: a seal of the log and the lines have its root.
    ///
    /// # Errors
    /// Returns [`ProveError`] if it is not.
    pub fn check_head(&self, head: &Checkpoint) -> Result<(), ProveError> {
        let (size, root) = (head.size, head.root);
        let sealed = match self.finder()?.line(size) {
            // In a pruned segment it is unknown which lines were seals; the root over the hashes is
            // enough.
            Err(LedgerError::Pruned(_)) => Some(root),
            found => found?.and_then(|bytes| sealed_root(&bytes)),
        };
        match sealed {
            None => return Err(ProveError::OffLog { size, root }),
            Some(sealed) if sealed != root => {
                return Err(ProveError::Fork {
                    size,
                    signed: root,
                    sealed,
                });
            }
            Some(_) => {}
        }
        let same = |leaves: &mut Leaves<'_>| Ok((leaves.root(size)? == Some(root)).then_some(()));
        self.with_leaves(size, &same)?
            .ok_or(ProveError::Damaged { size, root })
    }

    /// Makes the receipt of a line under a checkpoint.
    ///
    /// # Errors
    /// Returns [`ProveError`] if there is no such line under the checkpoint.
    pub fn receipt(&self, seq: u64, head: &Head) -> Result<Receipt, ProveError> {
        self.receipt_under(seq, self.finder()?.line(seq)?, head)
    }

    /// Makes the receipt of a line that the caller provides, without its LF, because the content of
    /// its segment may have been pruned.
    ///
    /// # Errors
    /// Returns [`ProveError`]; [`ProveError::OtherLine`] if the text is not that line.
    pub fn receipt_of(&self, seq: u64, line: Vec<u8>, head: &Head) -> Result<Receipt, ProveError> {
        match self.receipt_under(seq, Some(line), head) {
            // The head was found on the log, so the hashes of the log's own lines are right.
            Err(ProveError::Damaged { .. }) if self.check_head(&head.checkpoint).is_ok() => {
                Err(ProveError::OtherLine(seq))
            }
            other => other,
        }
    }

    fn receipt_under(
        &self,
        seq: u64,
        line: Option<Vec<u8>>,
        head: &Head,
    ) -> Result<Receipt, ProveError> {
        let Checkpoint { size, root, .. } = head.checkpoint;
        if seq >= size {
            return Err(if line.is_some() {
                ProveError::NotYet { seq, size }
            } else {
                ProveError::NoLine(seq)
            });
        }
        let Some(line) = line else {
            self.check_head(&head.checkpoint)?;
            return Err(ProveError::Damaged { size, root });
        };
        let leaf = leaf_hash(&line);
        let path = self.with_leaves(size, &|leaves| {
            let path = leaves.inclusion(seq, size)?;
            Ok(path.filter(|path| verify_inclusion(&leaf, seq, size, path, &root)))
        })?;
        let Some(path) = path else {
            self.check_head(&head.checkpoint)?;
            return Err(ProveError::Damaged { size, root });
        };
        let receipt = Receipt::new(line, seq, path, head.note.clone());
        receipt.check(&head.key)?;
        Ok(receipt)
    }

    /// Makes the proof that the lines under `new` begin with the lines under `old`.
    ///
    /// # Errors
    /// Returns [`ProveError`] if they do not.
    pub fn extension(&self, old: &Head, new: &Head) -> Result<Extension, ProveError> {
        let (before, after) = (&old.checkpoint, &new.checkpoint);
        proof::check_order(before, after)?;
        let path = self.with_leaves(after.size, &|leaves| {
            let path = leaves.consistency(before.size, after.size)?;
            Ok(path.filter(|path| {
                verify_consistency(before.size, after.size, &before.root, &after.root, path)
            }))
        })?;
        let Some(path) = path else {
            self.check_head(before)?;
            self.check_head(after)?;
            return Err(ProveError::Damaged {
                size: after.size,
                root: after.root,
            });
        };
        let made = Extension {
            old_size: before.size,
            path,
            checkpoint: new.note.clone(),
        };
        made.check(before, &new.key)?;
        Ok(made)
    }

    /// Calls `make`, which returns `None` if its result does not verify. If the cache was used,
    /// tries again without it.
    fn with_leaves<T>(
        &self,
        size: u64,
        make: &dyn Fn(&mut Leaves<'_>) -> Result<Option<T>, LedgerError>,
    ) -> Result<Option<T>, LedgerError> {
        if let Some(mut leaves) = Leaves::open(self.finder()?, size)? {
            let made = make(&mut leaves)?;
            if made.is_some() || !leaves.is_from_cache() {
                return Ok(made);
            }
        }
        match Leaves::rebuild(self.finder()?, size)? {
            Some(mut leaves) => make(&mut leaves),
            None => Ok(None),
        }
    }
}

/// The root in a line, if the line is a seal.
fn sealed_root(bytes: &[u8]) -> Option<Hash> {
    let line = line::parse(bytes).ok().filter(|line| line.kind == "seal")?;
    let seal: Seal = serde_json::from_str(&line.body()).ok()?;
    Hash::from_hex(&seal.root).filter(|_| seal.size == line.seq)
}
