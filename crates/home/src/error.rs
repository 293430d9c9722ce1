//! Why a home cannot be opened or used.

use std::io;
use std::path::{Path, PathBuf};

use super::batch::RenderError;
use crate::index::StoreError;
use spoolgate_host::entropy::EntropyError;
use spoolgate_host::keyring::KeyringError;
use spoolgate_ledger::LedgerError;
use spoolgate_ledger::disk::is_full;
use spoolgate_rules::RulebookError;
use spoolgate_wire::code::{Code, Exit};
use spoolgate_wire::ids::Principal;

/// Why a home cannot be opened or used any further.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// Another gate holds the lock.
    #[error(
        "another gate is running over `{0}`; stop it, or hand requests to it with `spoolgate \
            handle` or `submit`"
    )]
    Busy(PathBuf),
    /// An error of the ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// An error of the index.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An error of the keyring.
    #[error(transparent)]
    Keyring(#[from] KeyringError),
    /// An invalid key.
    #[error(transparent)]
    Key(#[from] spoolgate_ledger::note::KeyError),
    /// The rule files cannot be used, and there is no last good rulebook.
    #[error("rule file {0}")]
    Rulebook(#[from] RulebookError),
    /// No randomness is available.
    #[error(transparent)]
    Entropy(#[from] EntropyError),
    /// The lines of a decision cannot be written.
    #[error("ledger: {0}")]
    Render(#[from] RenderError),
    /// A ledger line that this program cannot fold.
    #[error("ledger: {0}")]
    Record(String),
    /// An answer that cannot be made again.
    #[error("a stored answer cannot be recomputed: {0}")]
    AnswerLost(String),
    /// An error of the disk, outside the ledger.
    #[error("`{path}`: {source}{}", way_out(source))]
    Disk {
        /// Path of the file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Something else is in the place of a folder of the home.
    #[error(
        "`{0}` is a file or a link, or is below one, but must be a folder of the home itself; move \
            it away, then start again"
    )]
    NoFolder(PathBuf),
    /// The question cannot be answered until a gate has run.
    #[error("{0}")]
    Unsettled(String),
    /// The requester may not do this, or not in this way.
    #[error("{0}")]
    NotAllowed(String),
    /// There is no home here.
    #[error("`{0}` is not a home; run `spoolgate init` first, or name the home with --home")]
    NotAHome(PathBuf),
    /// The first person is not in the rules as a human.
    #[error(
        "`{0}` is not a principal with `role: human` in rules/principals.yaml; add it there first, \
            or name another with --person"
    )]
    NoPerson(Principal),
}

/// Returns what to do about a disk error, if that is known.
fn way_out(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; free some space there, then try again"
        }
        io::ErrorKind::ReadOnlyFilesystem => "; mount it writable, then try again",
        io::ErrorKind::PermissionDenied => "; run this as the user who owns it",
        _ => "",
    }
}

impl HomeError {
    /// Creates a disk error for a path.
    pub fn disk(path: &Path, source: io::Error) -> HomeError {
        HomeError::Disk {
            path: path.to_owned(),
            source,
        }
    }

    /// Whether the disk is full, or what its quota leaves to the gate's user.
    pub(super) fn is_full(&self) -> bool {
        match self {
            HomeError::Disk { source, .. } => is_full(source),
            HomeError::Ledger(LedgerError::Disk { source, .. }) => is_full(source),
            HomeError::Store(error) => error.is_full(),
            HomeError::Keyring(error) => error.is_full(),
            _ => false,
        }
    }

    /// Returns the exit code of a command that ends with this error.
    pub fn exit(&self) -> Exit {
        match self {
            HomeError::Busy(_) | HomeError::Unsettled(_) => Exit::Busy,
            HomeError::Ledger(LedgerError::Corrupt(_))
            | HomeError::Record(_)
            | HomeError::Render(_) => Exit::LedgerCorrupt,
            HomeError::Rulebook(_)
            | HomeError::NoPerson(_)
            | HomeError::NotAllowed(_)
            | HomeError::Key(_)
            | HomeError::NotAHome(_) => Exit::Malformed,
            _ => Exit::Storage,
        }
    }

    /// Returns the stable code of the error; `None` for mistakes on the command line.
    pub fn code(&self) -> Option<Code> {
        match (self, self.exit()) {
            (HomeError::Rulebook(_), _) => Some(Code::RulebookInvalid),
            (_, Exit::Busy) => Some(Code::Busy),
            (_, Exit::LedgerCorrupt) => Some(Code::LedgerCorrupt),
            (_, Exit::Malformed) => None,
            _ => Some(Code::Storage),
        }
    }
}
