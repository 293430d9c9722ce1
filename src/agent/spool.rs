//! Files into the spool and answers out of it. A file is whole and durable before it has its name, and never replaces one that
//! waits.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::sign::random_name;
use crate::host::entropy::EntropyError;
use crate::wire::answer::Answer;
use crate::wire::code::Code;
use crate::wire::ids::Principal;

/// How often the answer is looked for.
const POLL: Duration = Duration::from_millis(2);
/// How long an answer under an id that several requests had is held back for the word that the id was not this one's. A gate
/// publishes both in one go.
const CONTESTED: Duration = Duration::from_secs(1);

/// Why a file could not be handed to the spool.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// The agent has no folder of its own.
    #[error(
        "`{agent}` has no spool of its own at `{}`: with `spool: {agent}` in rules/principals.yaml the gate makes it at its next start or look at the rules",
        path.display()
    )]
    NoOwn {
        /// Who.
        agent: Principal,
        /// Where it would be.
        path: PathBuf,
    },
    /// There is no spool at all.
    #[error("there is no spool at `{}`; run `spoolgate init` first, or name the home with --home", path.display())]
    Missing {
        /// Where it would be.
        path: PathBuf,
    },
    /// What the disk says.
    #[error("`{}`: {source}", path.display())]
    Disk {
        /// Where.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// What the disk says once the request is in the spool: it may be decided all the same.
    #[error("`{}`: {source}; the request is in the spool", path.display())]
    HandedIn {
        /// Where.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// There is no name to be had.
    #[error("{0}")]
    Entropy(#[from] EntropyError),
}

impl SpoolError {
    fn disk(path: &Path, source: io::Error) -> SpoolError {
        SpoolError::Disk { path: path.to_owned(), source }
    }
}

/// The folders of the flat spool, or of an agent's own.
#[derive(Clone, Debug)]
pub struct Spool {
    unfinished: PathBuf,
    dropped: PathBuf,
    out: PathBuf,
}

/// Which version of a file stands somewhere.
type Version = Option<(u64, i64, i64)>;

fn version(path: &Path) -> Version {
    fs::metadata(path).ok().map(|meta| (meta.ino(), meta.mtime(), meta.mtime_nsec()))
}

/// Whether a folder is there, as far as it may be seen. That the disk does not say is another matter.
fn is_folder(path: &Path) -> Result<bool, SpoolError> {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    match fs::metadata(path) {
        Ok(meta) => Ok(meta.is_dir()),
        Err(error) if matches!(error.kind(), NotFound | NotADirectory | PermissionDenied) => Ok(false),
        Err(source) => Err(SpoolError::disk(path, source)),
    }
}

/// A file on its way, and where its answer will be.
#[derive(Debug)]
pub struct Sent {
    /// Its name in the spool.
    pub name: String,
    waits_at: PathBuf,
    inode: u64,
    /// Whether its first name was taken by a file that waits: perhaps another request of the same id.
    is_contested: bool,
    by_id: Option<(PathBuf, Version)>,
    by_file: (PathBuf, Version),
}

/// The answer at a path, if it is another version than this one. Empty and half-written ones are not there yet.
fn fresh(path: &Path, before: Version) -> Option<(Answer, Version)> {
    let now = version(path).filter(|now| Some(*now) != before)?;
    let answer = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    Some((answer, Some(now)))
}

impl Spool {
    /// The spool of a home, or an agent's own in it.
    ///
    /// # Errors
    /// [`SpoolError`] if it is not there.
    pub fn of(home: &Path, agent: Option<&Principal>) -> Result<Spool, SpoolError> {
        let (inward, out) = (home.join("spool/in"), home.join("spool/out"));
        let spool = match agent {
            Some(name) => {
                let own = inward.join(name.as_str());
                Spool { unfinished: own.join("tmp"), dropped: own.join("new"), out: out.join(name.as_str()) }
            }
            None => Spool { unfinished: inward.clone(), dropped: inward.clone(), out },
        };
        if is_folder(&spool.dropped)? {
            return Ok(spool);
        }
        let path = spool.dropped;
        Err(match agent.filter(|_| inward.is_dir()) {
            Some(agent) => SpoolError::NoOwn { agent: agent.clone(), path },
            None => SpoolError::Missing { path },
        })
    }

    /// Where answers come.
    pub fn out(&self) -> &Path {
        &self.out
    }

    /// Hands a request in, as `<stem>.json` or, where that waits already, `<stem>.1.json` and so on. `id` is the request's,
    /// if it has one: its answer goes by that.
    ///
    /// # Errors
    /// [`SpoolError`]; nothing was handed in then, unless it is [`SpoolError::HandedIn`].
    pub fn hand_in(&self, request: &[u8], stem: &str, id: Option<&str>) -> Result<Sent, SpoolError> {
        let hidden = self.unfinished.join(format!(".{}.tmp", random_name()?));
        let written = fs::File::create_new(&hidden).and_then(|mut copy| {
            copy.write_all(request)?;
            // What is said to be submitted must survive a power cut, and not as an empty file.
            copy.sync_all()?;
            Ok(copy.metadata()?.ino())
        });
        let inode = written.map_err(|source| {
            // A part of a request is of no use to anybody.
            let _ = fs::remove_file(&hidden);
            SpoolError::disk(&hidden, source)
        })?;
        let mut n = 0_u64;
        loop {
            let name = if n == 0 { format!("{stem}.json") } else { format!("{stem}.{n}.json") };
            let as_it_is = |path: PathBuf| (path.clone(), version(&path));
            let by_id = id.map(|id| as_it_is(self.out.join(format!("{id}.json"))));
            let by_file = as_it_is(self.out.join(format!("{name}.error.json")));
            let waits_at = self.dropped.join(&name);
            // A link fails where a rename would replace a request that waits under this name.
            match fs::hard_link(&hidden, &waits_at) {
                Ok(()) => {
                    let late = |path: &Path, source| SpoolError::HandedIn { path: path.to_owned(), source };
                    fs::remove_file(&hidden).map_err(|source| late(&hidden, source))?;
                    sync_folder(&self.dropped).map_err(|source| late(&self.dropped, source))?;
                    return Ok(Sent { name, waits_at, inode, is_contested: n > 0, by_id, by_file });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => n = n.saturating_add(1),
                Err(error) => {
                    let _ = fs::remove_file(&hidden);
                    return Err(SpoolError::disk(&self.dropped.join(&name), error));
                }
            }
        }
    }
}

impl Sent {
    /// Whether it was not claimed yet, as far as that may be seen.
    fn waits(&self) -> bool {
        fs::symlink_metadata(&self.waits_at).is_ok_and(|meta| meta.ino() == self.inode)
    }

    /// Waits for a new version of one of the answer files. None if none came in time: the request may still be decided.
    ///
    /// An answer does not say what was asked, so one under the id may be that of another request of this id. It is not this
    /// one's while this one waits, nor where this one is told that the id was used.
    pub fn answer_by(&self, deadline: Instant) -> Option<Answer> {
        let mut by_id = self.by_id.clone();
        let mut is_contested = self.is_contested;
        let mut seen: Option<Instant> = None;
        loop {
            let of_file = || fresh(&self.by_file.0, self.by_file.1).map(|(answer, _)| answer);
            // The id's answer first: anybody can have junk under this file name refused.
            if let Some((path, before)) = &mut by_id
                && let Some((answer, now)) = fresh(path, *before)
            {
                if self.waits() {
                    (*before, is_contested) = (now, true);
                } else if let Some(refused) = of_file().filter(is_conflict) {
                    return Some(refused);
                } else if !is_contested || seen.get_or_insert_with(Instant::now).elapsed() >= CONTESTED {
                    return Some(answer);
                }
            } else if let Some(answer) = of_file() {
                return Some(answer);
            }
            if Instant::now() >= deadline {
                return None;
            }
            std::thread::sleep(POLL);
        }
    }
}

fn is_conflict(answer: &Answer) -> bool {
    answer.error.as_ref().is_some_and(|error| error.code == Code::RequestIdConflict)
}

/// Makes a name in a folder durable, where the folder may be read: one to drop into need not be.
fn sync_folder(folder: &Path) -> io::Result<()> {
    match fs::File::open(folder) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        other => other?.sync_all(),
    }
}
