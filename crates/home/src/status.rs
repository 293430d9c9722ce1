//! What a running watcher says of itself, for `spoolgate status`: a small file that it replaces
//! whenever the content changes. Only a watcher can count the entries that it cannot move, because
//! it tries. The file is not evidence, and nothing else reads it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::error::HomeError;
use super::open::Home;
use spoolgate_host::doctor;
use spoolgate_host::lock::LOCK_FILE;
use spoolgate_ledger::disk::{self, Disk, Mode};
use spoolgate_wire::time::Time;

/// Path of the file below the home.
const WATCHER_FILE: &str = "state/watcher.json";
/// Largest file that is read.
const BYTES_MAX: usize = 64 * 1024;

/// A watcher.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watcher {
    /// Its process.
    pub pid: u32,
    /// When it began.
    pub since: Time,
    /// The version of Landlock that confines it. `None` if it runs without a sandbox.
    pub landlock: Option<i32>,
    /// Number of entries per spool that it cannot move or read.
    pub spool_left: BTreeMap<String, usize>,
    /// The path of its socket. `None` if it takes files only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<PathBuf>,
}

/// The process that holds the lock of a home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its process.
    pub pid: u32,
    /// The name of its program.
    pub name: String,
    /// What it says of itself. `None` if it is not a watcher, or could not write that.
    pub watcher: Option<Watcher>,
}

/// Returns the process that holds the lock of a home. `None` if no gate is running.
///
/// # Errors
/// Returns [`HomeError`] if the lock or the file of the watcher cannot be examined.
pub fn holder(home: &Path, disk: &dyn Disk) -> Result<Option<Holder>, HomeError> {
    let lock = Path::new(LOCK_FILE);
    disk.stat(lock)
        .map_err(|source| HomeError::disk(lock, source))?;
    let Some((pid, name)) = doctor::holders(&home.join(lock)).into_iter().next() else {
        return Ok(None);
    };
    let path = Path::new(WATCHER_FILE);
    let watcher = match disk.read(path, BYTES_MAX) {
        Ok(file) => serde_json::from_slice::<Watcher>(&file.bytes).ok(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(source) => return Err(HomeError::disk(path, source)),
    };
    // Any other process has left the file behind.
    let watcher = watcher.filter(|watcher| watcher.pid == pid);
    Ok(Some(Holder { pid, name, watcher }))
}

impl Home {
    /// Writes what this watcher says of itself, if that changed. A disk that is full must not end
    /// the watcher, so a failure is ignored and the next round tries again.
    pub(super) fn show_watcher(&self, since: Time, shown: &mut Option<BTreeMap<String, usize>>) {
        let left = self.left();
        if shown.as_ref() == Some(&left) {
            return;
        }
        let watcher = Watcher {
            pid: std::process::id(),
            since,
            landlock: self.outside.sandbox.as_ref().map(|boxed| boxed.abi),
            spool_left: left,
            socket: self.intake.socket_path(),
        };
        let path = Path::new(WATCHER_FILE);
        let disk = self.core.seams.disk.as_ref();
        let written = serde_json::to_vec(&watcher)
            .map_err(std::io::Error::from)
            .and_then(|bytes| disk::replace(disk, path, &bytes, Mode::Private, false));
        if written.is_ok() {
            *shown = Some(watcher.spool_left);
        }
    }
}
