//! Finding what is in the spool. The scan is the truth; events are only hints to scan. Folders are read
//! as open streams to their end and then again from the start, so that no name starves, and only as many
//! names as a batch takes are ever held.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use super::claim::{self, Claimed, Looked};
use super::name::is_ignored;
use crate::gate::prepare::Origin;
use crate::host::disk::{DirStream, Disk, Kind};
use crate::wire::ids::Principal;

/// Most requests in a batch, where nothing else was asked for.
pub const BATCH_ENTRIES_MAX: usize = 256;
/// A batch closes when its requests have this many bytes.
pub const BATCH_REQUEST_BYTES: usize = 1024 * 1024;
/// Names taken from one folder before the next has its turn.
const WINDOW: usize = 64;
/// How long a file that does not parse may still be half-written, milliseconds since it was first seen.
pub const PATIENCE_MS: u64 = 2000;
/// Most unfinished files remembered; beyond it further ones are looked at again and again, but never
/// refused early.
const UNFINISHED_MAX: usize = 4096;

/// Folder of one spool below the home.
pub fn folder(origin: &Origin) -> PathBuf {
    match origin {
        Origin::Local => PathBuf::from("spool/local/in"),
        Origin::Flat => PathBuf::from("spool/in"),
        Origin::Agent(name) => Path::new("spool/in").join(name.as_str()).join("new"),
    }
}

/// What a round of scanning found.
#[derive(Debug, Default)]
pub struct Found {
    /// Claimed files, at most a batch.
    pub claimed: Vec<Claimed>,
    /// Whether there may be more at once.
    pub more: bool,
}

struct Source {
    origin: Origin,
    stream: Option<DirStream>,
    /// Remembered unfinished files met since the stream was opened. A batch can fill up anywhere in a
    /// folder, so only a stream read to its end tells which are gone.
    met: BTreeSet<OsString>,
}

/// A file that did not parse when it was looked at.
struct Unfinished {
    since_ms: u64,
    version: Option<Version>,
}

/// Size, hard links and time of change: another value means that the file may parse by now.
type Version = (u64, u64, i128);

/// What stands there now; none if nothing does or it cannot be told.
fn version(disk: &dyn Disk, path: &Path) -> Option<Version> {
    let stat = disk.stat(path).ok().flatten()?;
    Some((stat.size, stat.links, stat.modified_ns))
}

/// The scanner over all spool folders.
pub struct Scanner {
    sources: Vec<Source>,
    turn: usize,
    entries_max: usize,
    unfinished: BTreeMap<(Origin, OsString), Unfinished>,
}

impl Scanner {
    /// A scanner over the local and flat spools and those of these agents.
    pub fn new<'a>(agents: impl Iterator<Item = &'a Principal>) -> Scanner {
        let entries_max = BATCH_ENTRIES_MAX;
        let mut scanner = Scanner { sources: Vec::new(), turn: 0, entries_max, unfinished: BTreeMap::new() };
        scanner.set_agents(agents);
        scanner
    }

    /// Most requests in a batch from now on, at least 1.
    pub fn set_entries_max(&mut self, entries: usize) {
        self.entries_max = entries.max(1);
    }

    /// The agents changed. Open streams are dropped: the next round starts afresh.
    pub fn set_agents<'a>(&mut self, agents: impl Iterator<Item = &'a Principal>) {
        // Two principals may share a folder; it is read once.
        let agents: BTreeSet<&Principal> = agents.collect();
        let own = agents.into_iter().cloned().map(Origin::Agent);
        let origins = [Origin::Local, Origin::Flat].into_iter().chain(own);
        self.sources = origins.map(|origin| Source { origin, stream: None, met: BTreeSet::new() }).collect();
        let sources = &self.sources;
        self.unfinished.retain(|(origin, _), _| sources.iter().any(|source| source.origin == *origin));
        self.turn = 0;
    }

    /// All spool folders, for watching.
    pub fn folders(&self) -> impl Iterator<Item = PathBuf> + '_ {
        self.sources.iter().map(|source| folder(&source.origin))
    }

    /// Whether files wait that do not parse yet.
    pub fn has_unfinished(&self) -> bool {
        !self.unfinished.is_empty()
    }

    /// Claims up to a batch of files for batch number `batch`. `only_local` takes just what commands handed
    /// over.
    ///
    /// # Errors
    /// What the disk says; a folder that is not there, or is none for the gate, is empty.
    pub fn round(
        &mut self,
        disk: &dyn Disk,
        monotonic_ms: u64,
        batch: u64,
        only_local: bool,
    ) -> io::Result<Found> {
        let mut found = Found::default();
        let mut bytes = 0;
        let mut dry = 0;
        while dry < self.sources.len() {
            self.turn = (self.turn + 1) % self.sources.len();
            let Some(source) = self.sources.get_mut(self.turn) else { break };
            if only_local && source.origin != Origin::Local {
                dry += 1;
                continue;
            }
            let origin = source.origin.clone();
            let dir = folder(&origin);
            let mut ended = false;
            for _ in 0..WINDOW {
                if found.claimed.len() >= self.entries_max || bytes >= BATCH_REQUEST_BYTES {
                    found.more = true;
                    return Ok(found);
                }
                let Some(source) = self.sources.get_mut(self.turn) else { break };
                let Some((name, kind)) = source.next_name(disk)? else {
                    // The whole folder was read: what was not met is no longer there and is forgotten.
                    let met = std::mem::take(&mut source.met);
                    self.unfinished.retain(|(of, name), _| *of != origin || met.contains(name));
                    ended = true;
                    break;
                };
                if is_ignored(&name) || is_agents_folder(disk, &dir, &origin, &name, kind)? {
                    continue;
                }
                let key = (origin.clone(), name);
                let since = self.unfinished.get(&key).map(|known| known.since_ms);
                let patience = since.is_none_or(|since| monotonic_ms.saturating_sub(since) < PATIENCE_MS);
                // What a command hands over is renamed in by this program: it is never half-written.
                let patience = patience && origin != Origin::Local;
                let path = dir.join(&key.1);
                let unchanged =
                    |known: &Unfinished| known.version.is_some() && known.version == version(disk, &path);
                if patience && self.unfinished.get(&key).is_some_and(unchanged) {
                    // It did not parse, and reading it again would only cost time.
                    let (_, name) = key;
                    self.sources.get_mut(self.turn).map(|source| source.met.insert(name));
                    continue;
                }
                let from = claim::From { origin: &origin, dir: &dir, batch };
                match claim::look(disk, &from, &key.1, patience)? {
                    Looked::Claimed(claimed) => {
                        self.unfinished.remove(&key);
                        bytes += claimed.weight;
                        found.claimed.push(*claimed);
                    }
                    Looked::Unfinished => {
                        if since.is_none() && self.unfinished.len() >= UNFINISHED_MAX {
                            continue;
                        }
                        let (_, name) = &key;
                        self.sources.get_mut(self.turn).map(|source| source.met.insert(name.clone()));
                        // Should it have changed since it was read, it is read again when its time is over.
                        let known = Unfinished {
                            since_ms: since.unwrap_or(monotonic_ms),
                            version: version(disk, &path),
                        };
                        self.unfinished.insert(key, known);
                    }
                    Looked::Skipped => {
                        self.unfinished.remove(&key);
                    }
                }
            }
            dry = if ended { dry + 1 } else { 0 };
        }
        Ok(found)
    }
}

/// Whether this is a directory in the flat spool that is, was, or may become an agent's own spool. Its rule
/// may be about to be written, or missing for a moment; sweeping it away would take the requests in it.
fn is_agents_folder(
    disk: &dyn Disk,
    dir: &Path,
    origin: &Origin,
    name: &OsStr,
    kind: Option<Kind>,
) -> io::Result<bool> {
    if *origin != Origin::Flat || name.to_str().is_none_or(|name| Principal::parse(name).is_err()) {
        return Ok(false);
    }
    let kind = match kind {
        Some(kind) => Some(kind),
        None => disk.stat(&dir.join(name))?.map(|stat| stat.kind),
    };
    Ok(kind == Some(Kind::Directory))
}

/// Whether this is what opening a file, a link or a folder closed to the gate gives.
fn is_no_folder(error: &io::Error) -> bool {
    const ELOOP: i32 = 40;
    matches!(error.kind(), io::ErrorKind::NotADirectory | io::ErrorKind::PermissionDenied)
        || error.raw_os_error() == Some(ELOOP)
}

impl Source {
    /// The next name of the folder; none at its end, after which it starts again.
    fn next_name(&mut self, disk: &dyn Disk) -> io::Result<Option<(OsString, Option<Kind>)>> {
        if self.stream.is_none() {
            self.stream = match disk.read_dir(&folder(&self.origin)) {
                Ok(stream) => Some(stream),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                // What lies in a folder of agents can be taken away or replaced by them, and is for them to mend;
                // the flat spool itself cannot.
                Err(error)
                    if self.origin != Origin::Flat
                        && (is_no_folder(&error) || claim::is_senders_doing(&error)) =>
                {
                    return Ok(None);
                }
                Err(error) => return Err(error),
            };
        }
        match self.stream.as_mut().and_then(Iterator::next) {
            Some(entry) => entry.map(|entry| Some((entry.name, entry.kind))),
            None => {
                self.stream = None;
                Ok(None)
            }
        }
    }
}
