//! Puts requests into the spool and reads answers from it. A file is complete and durable before it
//! gets its name, and it never replaces a waiting one.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::sign::random_name;
use spoolgate_wire::answer::Answer;
use spoolgate_wire::code::Code;
use spoolgate_wire::ids::{Principal, RequestId};

/// Interval between two checks for the answer.
const POLL: Duration = Duration::from_millis(2);
/// How long to hold back an answer under an id that several requests have, in case the gate reports
/// that the id was not this request's. A gate publishes both together.
const CONTESTED: Duration = Duration::from_secs(1);

/// Why a file could not be handed to the spool.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpoolError {
    /// The agent has no folder of its own.
    #[error(
        "`{agent}` has no spool of its own at `{}`; with `spool: {agent}` in rules/principals.yaml \
            the gate creates it when it next starts or loads the rules",
        path.display()
    )]
    NoOwn {
        /// The agent.
        agent: Principal,
        /// Where the folder should be.
        path: PathBuf,
    },
    /// There is no spool at all.
    #[error("spool `{}` does not exist; run `spoolgate init` first, or name the home with \
        --home", path.display())]
    Missing {
        /// Where the spool should be.
        path: PathBuf,
    },
    /// A disk operation failed; the request is not in the spool.
    #[error("`{}`: {source}", path.display())]
    Disk {
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A disk operation failed after the request was put into the spool, so the gate may decide it
    /// anyway.
    #[error("`{}`: {source}; the request is in the spool", path.display())]
    HandedIn {
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A random file name cannot be generated.
    #[error("the operating system gave no random bytes: {0}")]
    Entropy(#[from] getrandom::Error),
}

impl SpoolError {
    fn disk(path: &Path, source: io::Error) -> SpoolError {
        SpoolError::Disk {
            path: path.to_owned(),
            source,
        }
    }
}

/// The folders of the flat spool, or of an agent's own spool.
#[derive(Clone, Debug)]
pub struct Spool {
    unfinished: PathBuf,
    dropped: PathBuf,
    out: PathBuf,
}

/// Identifies a version of a file: inode and time of change. `None` if there is no file.
type Version = Option<(u64, i64, i64)>;

fn version(path: &Path) -> Version {
    fs::metadata(path)
        .ok()
        .map(|meta| (meta.ino(), meta.mtime(), meta.mtime_nsec()))
}

/// Whether the folder exists and is accessible. Other disk errors are returned.
fn is_folder(path: &Path) -> Result<bool, SpoolError> {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    match fs::metadata(path) {
        Ok(meta) => Ok(meta.is_dir()),
        Err(error) if matches!(error.kind(), NotFound | NotADirectory | PermissionDenied) => {
            Ok(false)
        }
        Err(source) => Err(SpoolError::disk(path, source)),
    }
}

/// A file that was handed in, and where its answer will be.
#[derive(Debug)]
pub struct Sent {
    /// Its name in the spool.
    pub name: String,
    waits_at: PathBuf,
    inode: u64,
    /// Whether a waiting file had its first name already; that file may be another request with the
    /// same id.
    is_contested: bool,
    by_id: Option<(PathBuf, Version)>,
    by_file: (PathBuf, Version),
}

/// Returns the answer at a path if it is a newer version than `before`. An empty or half-written
/// answer does not count.
fn fresh(path: &Path, before: Version) -> Option<(Answer, Version)> {
    let now = version(path).filter(|now| Some(*now) != before)?;
    let answer = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    Some((answer, Some(now)))
}

impl Spool {
    /// Opens the spool of a home, or an agent's own spool in it.
    ///
    /// # Errors
    /// Returns [`SpoolError`] if it does not exist.
    pub fn of(home: &Path, agent: Option<&Principal>) -> Result<Spool, SpoolError> {
        let (inward, out) = (home.join("spool/in"), home.join("spool/out"));
        let spool = match agent {
            Some(name) => {
                let own = inward.join(name.as_str());
                Spool {
                    unfinished: own.join("tmp"),
                    dropped: own.join("new"),
                    out: out.join(name.as_str()),
                }
            }
            None => Spool {
                unfinished: inward.clone(),
                dropped: inward.clone(),
                out,
            },
        };
        if is_folder(&spool.dropped)? {
            return Ok(spool);
        }
        let path = spool.dropped;
        Err(match agent.filter(|_| inward.is_dir()) {
            Some(agent) => SpoolError::NoOwn {
                agent: agent.clone(),
                path,
            },
            None => SpoolError::Missing { path },
        })
    }

    /// The folder of answers.
    pub fn out(&self) -> &Path {
        &self.out
    }

    /// Hands a request in as `<stem>.json` or, if such a file is waiting already, `<stem>.1.json`
    /// and so on. `id` is the request's id, if it has one; its answer is named after it.
    ///
    /// ```
    /// use spoolgate_client::spool::Spool;
    ///
    /// let home = tempfile::tempdir()?;
    /// std::fs::create_dir_all(home.path().join("spool/in"))?;
    /// let spool = Spool::of(home.path(), None)?;
    /// assert_eq!(spool.hand_in(b"{}", "request", None)?.name, "request.json");
    /// assert_eq!(spool.hand_in(b"{}", "request", None)?.name, "request.1.json");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`SpoolError`]. Unless it is [`SpoolError::HandedIn`], nothing was handed in.
    pub fn hand_in(
        &self,
        request: &[u8],
        stem: &str,
        id: Option<&RequestId>,
    ) -> Result<Sent, SpoolError> {
        let hidden = self.unfinished.join(format!(".{}.tmp", random_name()?));
        let written = fs::File::create_new(&hidden).and_then(|mut copy| {
            copy.write_all(request)?;
            // A request that is reported as submitted must survive a power cut, and not as an empty
            // file.
            copy.sync_all()?;
            Ok(copy.metadata()?.ino())
        });
        let inode = written.map_err(|source| {
            // A partial request is useless.
            let _ = fs::remove_file(&hidden);
            SpoolError::disk(&hidden, source)
        })?;
        let mut n = 0_u64;
        loop {
            let name = if n == 0 {
                format!("{stem}.json")
            } else {
                format!("{stem}.{n}.json")
            };
            let as_it_is = |path: PathBuf| (path.clone(), version(&path));
            let by_id = id.map(|id| as_it_is(self.out.join(format!("{}.json", id.file_stem()))));
            let by_file = as_it_is(self.out.join(format!("{name}.error.json")));
            let waits_at = self.dropped.join(&name);
            // A link fails here; a rename would replace a waiting request of this name.
            match fs::hard_link(&hidden, &waits_at) {
                Ok(()) => {
                    let late = |path: &Path, source| SpoolError::HandedIn {
                        path: path.to_owned(),
                        source,
                    };
                    fs::remove_file(&hidden).map_err(|source| late(&hidden, source))?;
                    sync_folder(&self.dropped).map_err(|source| late(&self.dropped, source))?;
                    return Ok(Sent {
                        name,
                        waits_at,
                        inode,
                        is_contested: n > 0,
                        by_id,
                        by_file,
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    n = n.saturating_add(1)
                }
                Err(error) => {
                    let _ = fs::remove_file(&hidden);
                    return Err(SpoolError::disk(&self.dropped.join(&name), error));
                }
            }
        }
    }
}

impl Sent {
    /// Whether the file is visibly still unclaimed.
    fn waits(&self) -> bool {
        fs::symlink_metadata(&self.waits_at).is_ok_and(|meta| meta.ino() == self.inode)
    }

    /// Waits for a new version of one of the answer files. `None` if none came in time; the gate
    /// may still decide the request.
    ///
    /// An answer does not say which request it is for, so an answer under the id may belong to
    /// another request with that id. It does not belong to this request while this one is still
    /// waiting, or if the gate reports that the id was used.
    pub fn answer_by(&self, deadline: Instant) -> Option<Answer> {
        let mut by_id = self.by_id.clone();
        let mut is_contested = self.is_contested;
        let mut seen: Option<Instant> = None;
        loop {
            let of_file = || fresh(&self.by_file.0, self.by_file.1).map(|(answer, _)| answer);
            // Look at the id's answer first: anybody can provoke a refusal under this file name.
            if let Some((path, before)) = &mut by_id
                && let Some((answer, now)) = fresh(path, *before)
            {
                if self.waits() {
                    (*before, is_contested) = (now, true);
                } else if let Some(refused) = of_file().filter(is_conflict) {
                    return Some(refused);
                } else if !is_contested
                    || seen.get_or_insert_with(Instant::now).elapsed() >= CONTESTED
                {
                    return Some(answer);
                }
            } else if !self.waits()
                && let Some(answer) = of_file()
            {
                // While this file waits, a refusal under its name is an earlier file's.
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
    answer
        .error
        .as_ref()
        .is_some_and(|error| error.code == Code::RequestIdConflict)
}

/// Makes a name in a folder durable if the folder is readable: a folder to drop files into need not
/// be.
fn sync_folder(folder: &Path) -> io::Result<()> {
    match fs::File::open(folder) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        other => other?.sync_all(),
    }
}
