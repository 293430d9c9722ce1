//! Making receipts and consistency proofs from a ledger folder. Whatever is made was checked as its receiver will
//! check it; where a cached hash is wrong, it is made again from the lines.

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
use crate::host::disk::Disk;

/// Why there is no proof.
#[derive(Debug, thiserror::Error)]
pub enum ProveError {
    /// The log cannot be read.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The newest checkpoint cannot be read.
    #[error("`{CHECKPOINT_NAME}` of the audit folder: {0}")]
    NoCheckpoint(io::Error),
    /// The log does not say who signs it.
    #[error("the log names no keys; run `spoolgate audit verify`")]
    NoKeys,
    /// A checkpoint does not count.
    #[error("the checkpoint: {0}")]
    Head(NoteError),
    /// There is no such line.
    #[error("the log has no line {0}; `spoolgate audit tail` shows the newest")]
    NoLine(u64),
    /// The line stands behind what the checkpoint is over.
    #[error(
        "line {seq} is not under this checkpoint, which is over the {size} lines before line {size}; the next one will be over it"
    )]
    NotYet {
        /// The line.
        seq: u64,
        /// Size of the checkpoint.
        size: u64,
    },
    /// No seal of this log is over as many lines.
    #[error(
        "the checkpoint is over {size} lines with root {root}; no seal of this log is over so many: the log was cut or rewritten, or is another"
    )]
    OffLog {
        /// Size of the checkpoint.
        size: u64,
        /// Its root.
        root: Hash,
    },
    /// The log has other lines than those that were signed.
    #[error(
        "FORK: a signed checkpoint is over {size} lines with root {signed}; this log seals {size} lines with root {sealed}"
    )]
    Fork {
        /// Size of the checkpoint.
        size: u64,
        /// Root in the checkpoint.
        signed: Hash,
        /// Root in the log's seal.
        sealed: Hash,
    },
    /// Lines do not give the root that was signed.
    #[error(
        "the lines do not give the root {root} that was signed over {size} of them; run `spoolgate audit verify`"
    )]
    Damaged {
        /// Size of the checkpoint.
        size: u64,
        /// Its root.
        root: Hash,
    },
    /// What was made does not hold.
    #[error("{0}")]
    Proof(#[from] ProofError),
}

/// A checkpoint whose signature holds, under the key that was in force at its size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// What verifies it.
    pub key: VerifierKey,
    /// As it was signed.
    pub note: String,
    /// What it says.
    pub checkpoint: Checkpoint,
}

/// A ledger folder that proofs are made from.
pub struct Prover<'a> {
    disk: &'a dyn Disk,
    dir: &'a Path,
    keys: Timeline,
}

impl<'a> Prover<'a> {
    /// Takes the log's keys from the log.
    ///
    /// # Errors
    /// [`ProveError`].
    pub fn open(disk: &'a dyn Disk, dir: &'a Path) -> Result<Prover<'a>, ProveError> {
        let keys = keys_over_time(disk, dir)?;
        Ok(Prover { disk, dir, keys })
    }

    /// Finds lines.
    ///
    /// # Errors
    /// [`LedgerError`].
    pub fn finder(&self) -> Result<Finder<'a>, LedgerError> {
        Finder::open(self.disk, self.dir)
    }

    /// A checkpoint of this log; whether the log still holds it is not looked at.
    ///
    /// # Errors
    /// [`ProveError::Head`].
    pub fn head(&self, note: &str) -> Result<Head, ProveError> {
        // A key signs for nothing before it was in force, and for nothing after.
        let claimed = note::claimed(note).and_then(|head| self.keys.at(head.size));
        let keys = claimed.or_else(|| self.keys.last()).ok_or(ProveError::NoKeys)?;
        let checkpoint =
            note::open_checkpoint(note, &keys.log_key, &keys.origin).map_err(ProveError::Head)?;
        Ok(Head { key: keys.log_key.clone(), note: note.to_owned(), checkpoint })
    }

    /// The newest checkpoint, as [`Prover::head`].
    ///
    /// # Errors
    /// [`ProveError`].
    pub fn newest(&self) -> Result<Head, ProveError> {
        let file = self
            .disk
            .read(&self.dir.join(CHECKPOINT_NAME), NOTE_BYTES_MAX)
            .map_err(ProveError::NoCheckpoint)?;
        let note = String::from_utf8_lossy(&file.bytes);
        match self.head(&note) {
            // A gate that runs may have rotated its keys meanwhile.
            Err(ProveError::Head(_)) => Prover::open(self.disk, self.dir)?.head(&note),
            head => head,
        }
    }

    /// Demands that a checkpoint lies on the log: a seal of the log and its lines have that root.
    ///
    /// # Errors
    /// [`ProveError`].
    pub fn check_head(&self, head: &Checkpoint) -> Result<(), ProveError> {
        let (size, root) = (head.size, head.root);
        let sealed = match self.finder()?.line(size) {
            // Which of the lines were seals nobody knows any more; the root over their hashes says enough.
            Err(LedgerError::Pruned(_)) => Some(root),
            found => found?.and_then(|bytes| sealed_root(&bytes)),
        };
        match sealed {
            None => return Err(ProveError::OffLog { size, root }),
            Some(sealed) if sealed != root => return Err(ProveError::Fork { size, signed: root, sealed }),
            Some(_) => {}
        }
        let same = |leaves: &mut Leaves<'_>| Ok((leaves.root(size)? == Some(root)).then_some(()));
        self.with_leaves(size, &same)?.ok_or(ProveError::Damaged { size, root })
    }

    /// The receipt of a line under a checkpoint.
    ///
    /// # Errors
    /// [`ProveError`].
    pub fn receipt(&self, seq: u64, head: &Head) -> Result<Receipt, ProveError> {
        self.receipt_of(seq, self.finder()?.line(seq)?, head)
    }

    /// The same of a line that is brought along, without its LF, as its segment's content may have been pruned.
    ///
    /// # Errors
    /// [`ProveError`]; [`ProveError::Damaged`] for a line that is not this one.
    pub fn receipt_of(&self, seq: u64, line: Option<Vec<u8>>, head: &Head) -> Result<Receipt, ProveError> {
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

    /// The proof that the lines under `new` begin with those under `old`.
    ///
    /// # Errors
    /// [`ProveError`].
    pub fn extension(&self, old: &Head, new: &Head) -> Result<Extension, ProveError> {
        let (before, after) = (&old.checkpoint, &new.checkpoint);
        proof::check_order(before, after)?;
        let path = self.with_leaves(after.size, &|leaves| {
            let path = leaves.consistency(before.size, after.size)?;
            Ok(path
                .filter(|path| verify_consistency(before.size, after.size, &before.root, &after.root, path)))
        })?;
        let Some(path) = path else {
            self.check_head(before)?;
            self.check_head(after)?;
            return Err(ProveError::Damaged { size: after.size, root: after.root });
        };
        let made = Extension { old_size: before.size, path, checkpoint: new.note.clone() };
        made.check(before, &new.key)?;
        Ok(made)
    }

    /// What `make` makes of the leaves: none is what does not verify. With a cache that is wrong, once more without.
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

/// The root that a line seals, if it is a seal.
fn sealed_root(bytes: &[u8]) -> Option<Hash> {
    let line = line::parse(bytes).ok().filter(|line| line.kind == "seal")?;
    let seal: Seal = serde_json::from_str(&line.body()).ok()?;
    Hash::from_hex(&seal.root).filter(|_| seal.size == line.seq)
}
