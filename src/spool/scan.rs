//! Finding what is in the spool. The scan is the truth; events are only hints to scan. Folders are read
//! as open streams to their end and then again from the start, so that no name starves, and only as many
//! names as a batch takes are ever held.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use super::claim::{self, Claimed, Looked};
use super::name::is_ignored;
use crate::gate::prepare::Origin;
use crate::host::disk::{DirStream, Disk, Kind};
use crate::wire::ids::Principal;

/// Most requests in a batch.
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
        Origin::Local => PathBuf::from("spool/in/.local"),
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
}

/// The scanner over all spool folders.
pub struct Scanner {
    sources: Vec<Source>,
    turn: usize,
    unfinished: BTreeMap<(Origin, OsString), u64>,
}

impl Scanner {
    /// A scanner over the local and flat spools and those of these agents.
    pub fn new<'a>(agents: impl Iterator<Item = &'a Principal>) -> Scanner {
        let mut scanner = Scanner { sources: Vec::new(), turn: 0, unfinished: BTreeMap::new() };
        scanner.set_agents(agents);
        scanner
    }

    /// The agents changed. Open streams are dropped: the next round starts afresh.
    pub fn set_agents<'a>(&mut self, agents: impl Iterator<Item = &'a Principal>) {
        let origins = [Origin::Local, Origin::Flat].into_iter().chain(agents.cloned().map(Origin::Agent));
        self.sources = origins.map(|origin| Source { origin, stream: None }).collect();
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
        let mut still_unfinished = BTreeSet::new();
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
                if found.claimed.len() >= BATCH_ENTRIES_MAX || bytes >= BATCH_REQUEST_BYTES {
                    found.more = true;
                    return Ok(found);
                }
                let Some(source) = self.sources.get_mut(self.turn) else { break };
                let Some((name, kind)) = source.next_name(disk)? else {
                    ended = true;
                    break;
                };
                let may_be_folder = matches!(kind, None | Some(Kind::Directory));
                if is_ignored(&name) || (may_be_folder && self.is_spool(disk, &origin, &dir, &name)) {
                    continue;
                }
                let key = (origin.clone(), name);
                let since = self.unfinished.get(&key).copied();
                let patience = since.is_none_or(|since| monotonic_ms.saturating_sub(since) < PATIENCE_MS);
                // What a command hands over is renamed in by this program: it is never half-written.
                let patience = patience && origin != Origin::Local;
                let from = claim::From { origin: &origin, dir: &dir, batch };
                match claim::look(disk, &from, &key.1, patience)? {
                    Looked::Claimed(claimed) => {
                        self.unfinished.remove(&key);
                        bytes += claimed.weight;
                        found.claimed.push(*claimed);
                    }
                    Looked::Unfinished => {
                        if since.is_none() && self.unfinished.len() < UNFINISHED_MAX {
                            self.unfinished.insert(key.clone(), monotonic_ms);
                        }
                        still_unfinished.insert(key);
                    }
                    Looked::Skipped => {
                        self.unfinished.remove(&key);
                    }
                }
            }
            dry = if ended { dry + 1 } else { 0 };
        }
        // A whole round was seen: what is no longer there is forgotten.
        if !only_local {
            self.unfinished.retain(|key, _| still_unfinished.contains(key));
        }
        Ok(found)
    }

    /// Whether a directory in the flat spool is an agent's own spool: one that the rulebook names, or one
    /// whose rule is gone or not there yet. What waits in it is not for the gate to throw away.
    fn is_spool(&self, disk: &dyn Disk, origin: &Origin, dir: &Path, name: &std::ffi::OsStr) -> bool {
        *origin == Origin::Flat
            && (claim::is_directory(disk, &dir.join(name).join("new"))
                || self.sources.iter().any(|source| match &source.origin {
                    Origin::Agent(agent) => name == agent.as_str(),
                    Origin::Local | Origin::Flat => false,
                }))
    }
}

impl Source {
    /// The next name of the folder; none at its end, after which it starts again.
    fn next_name(&mut self, disk: &dyn Disk) -> io::Result<Option<(OsString, Option<Kind>)>> {
        if self.stream.is_none() {
            self.stream = match disk.read_dir(&folder(&self.origin)) {
                Ok(stream) => Some(stream),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                // What lies in a folder of agents can be taken away by them; the flat spool itself cannot.
                Err(error) if self.origin != Origin::Flat && claim::is_senders_doing(&error) => {
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
