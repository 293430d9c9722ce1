//! What a verification returns: its report, or why the log cannot be read at all.

use std::io;
use std::path::PathBuf;

use super::LedgerError;
use super::recover::Corruption;
use super::redacted::Sealed;

/// The kind of proof that was reached, in the words of the table in the README.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reached {
    /// Every line names the one before it.
    Chain,
    /// In addition, every batch is sealed under the log's key.
    Seals,
    /// In addition, a head remembered outside the log is on it.
    RememberedHead,
}

/// The outcome of a verification.
#[derive(Clone, Debug, serde::Serialize)]
#[non_exhaustive]
pub struct Report {
    /// Whether no problem was found.
    pub ok: bool,
    /// What was proved.
    pub reached: Reached,
    /// The log's name.
    pub origin: String,
    /// The log's verifier key that is in force at its end.
    pub log_key: String,
    /// All verifier keys of the log, oldest first.
    pub keys: Vec<KeyReport>,
    /// Number of segments.
    pub segments: u32,
    /// Number of lines that verify.
    pub lines: u64,
    /// Number of sealed batches.
    pub batches: u64,
    /// Number of bytes that verify.
    pub bytes: u64,
    /// Root in the last seal, hex; empty if only links were checked.
    pub root: String,
    /// Leaf hash of the last line, hex.
    pub head: String,
    /// Number of torn batches that were frozen and are accounted for.
    pub torn: u64,
    /// Number of segments that are kept only as archives.
    pub archived: u32,
    /// Number of segments whose content was pruned; their stubs were checked.
    pub pruned: u32,
    /// How many of [`Report::lines`] are known only by their hash, because their segment was
    /// pruned.
    pub unseen_lines: u64,
    /// Heads noted elsewhere that are on the log.
    pub heads: Vec<String>,
    /// The checkpoint beside the log, if it is on the log. It does not protect the tail: anybody
    /// who cuts the tail can put an older checkpoint there.
    pub checkpoint: Option<String>,
    /// What this verification could not show, as text.
    pub not_shown: Vec<String>,
    /// Number of sealed fields, and what is known about their disclosures.
    pub sealed: Sealed,
    /// The problems found, in the order in which they were found.
    pub problems: Vec<Problem>,
}

/// A verifier key of the log.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct KeyReport {
    /// Number of the first line for which the key is in force.
    pub from_line: u64,
    /// The key.
    pub log_key: String,
}

/// A problem that was found.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Problem {
    /// The file.
    pub file: String,
    /// Byte offset in the file.
    pub offset: u64,
    /// What is wrong.
    pub what: String,
}

/// Why a log cannot be verified at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// The folder holds no log, or not all of its files.
    #[error("`{}`: {}", .0.file, .0.why)]
    NoLog(Box<Corruption>),
    /// The folder cannot be listed.
    #[error(transparent)]
    Ledger(LedgerError),
    /// A file of the log cannot be read.
    #[error("`{}`: {source}", path.display())]
    Disk {
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}
