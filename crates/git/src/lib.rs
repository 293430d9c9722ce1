//! Reads commits and files of a git repository that is not trusted. Git only finds and unpacks
//! objects; each object's bytes are hashed here and compared with its id, so attributes, filters,
//! replaced objects and grafts have no say, and renames do not exist. Nothing that the repository
//! configures is run, and nothing is fetched.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this crate reads repositories, and starts git"
)]

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

mod batch;
mod object;

use batch::{Batch, Found};
use object::{Commit, parse_tree};
pub use object::{Entry, Kind, Mode, ObjectId};

/// Largest file that is read, in bytes.
pub const FILE_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// Most bytes of all files of one [`Repository::files`].
pub const ALL_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Most files and folders of one listing.
pub const ENTRIES_MAX: usize = 65_536;
/// Most folders that a file may be in.
pub const DEPTH_MAX: usize = 32;
/// Most commits that one [`Repository`] reads.
pub const COMMITS_MAX: usize = 1_000_000;
/// Where git looks for a reference, in this order.
const PLACES: [(&str, &str); 6] = [
    ("", ""),
    ("refs/", ""),
    ("refs/tags/", ""),
    ("refs/heads/", ""),
    ("refs/remotes/", ""),
    ("refs/remotes/", "/HEAD"),
];
/// Largest commit or folder, in bytes.
const META_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// Why a repository cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GitError {
    /// Neither the folder nor one above it is a repository.
    #[error("`{}` is not in a git repository", .0.display())]
    NoRepository(PathBuf),
    /// The history is cut off.
    #[error("`{}` is a shallow clone; fetch the whole history with `git fetch --unshallow`", .0.display())]
    Shallow(PathBuf),
    /// A file of the repository cannot be read, or git cannot be started.
    #[error("`{}`: {source}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Git ended. The text is what it complained about.
    #[error("git ended: {0}")]
    Ended(String),
    /// The revision names no commit.
    #[error("`{0}` is not a commit of this repository")]
    Revision(String),
    /// The object is not in the repository.
    #[error("object {0} is missing; fetch it first")]
    Missing(ObjectId),
    /// The object is not of the type that another object says, or its bytes do not have its id.
    #[error("object {0} is corrupt")]
    Corrupt(ObjectId),
    /// Git would not write such a commit or tree.
    #[error("object {0} is not a well-formed {1}")]
    Malformed(ObjectId, Kind),
    /// A judged path is a symbolic link, or leads through one.
    #[error("`{0}` is a symbolic link")]
    Link(String),
    /// A judged path is a submodule, or lies in one.
    #[error("`{0}` is a submodule")]
    Submodule(String),
    /// A judged file has a mode other than 100644 and 100755.
    #[error("`{path}` has mode {mode}; use 100644 or 100755")]
    Mode {
        /// The path.
        path: String,
        /// Its mode.
        mode: Mode,
    },
    /// A name below a judged path is not UTF-8, or could lead elsewhere.
    #[error("`{0}` is not a name that a rule file can have")]
    Name(String),
    /// A file is too large.
    #[error("`{0}` is larger than {FILE_BYTES_MAX} bytes")]
    FileTooLarge(String),
    /// A commit or a folder is too large.
    #[error("object {0} is larger than {META_BYTES_MAX} bytes")]
    ObjectTooLarge(ObjectId),
    /// All files together are too large.
    #[error("the files together are larger than {ALL_BYTES_MAX} bytes")]
    AllTooLarge,
    /// There are too many files and folders.
    #[error("more than {ENTRIES_MAX} files and folders")]
    TooMany,
    /// Folders are nested too deep.
    #[error("`{0}` is in more than {DEPTH_MAX} folders")]
    TooDeep(String),
    /// Several references have this name.
    #[error("`{0}` is the name of several references: {1}; write out the one that is meant")]
    Ambiguous(String, String),
    /// The history is too long.
    #[error("more than {COMMITS_MAX} commits")]
    TooManyCommits,
}

/// An open repository.
pub struct Repository {
    git_dir: PathBuf,
    /// `None` until it is needed, and after it ended.
    batch: Option<Batch>,
    commits: HashMap<ObjectId, Commit>,
}

impl Repository {
    /// Opens the repository that a folder is in: a work tree, a bare repository, or a linked work
    /// tree.
    ///
    /// # Errors
    /// Returns [`GitError`] if there is no repository, or if it is a shallow clone.
    pub fn open(folder: &Path) -> Result<Repository, GitError> {
        let io = |path: &Path| {
            let path = path.to_owned();
            move |source| GitError::Io { path, source }
        };
        let folder = fs::canonicalize(folder).map_err(io(folder))?;
        let mut git_dirs = folder.ancestors().map(git_dir);
        let git_dir = git_dirs.find_map(Result::transpose);
        let git_dir = git_dir.ok_or_else(|| GitError::NoRepository(folder.clone()))??;
        let common = match read_line(&git_dir.join("commondir"), "")? {
            Some(common) => git_dir.join(common),
            None => git_dir.clone(),
        };
        for shallow in [common.join("shallow"), git_dir.join("shallow")] {
            match fs::symlink_metadata(&shallow) {
                Ok(_) => return Err(GitError::Shallow(folder)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(io(&shallow)(error)),
            }
        }
        Ok(Repository {
            git_dir,
            batch: None,
            commits: HashMap::new(),
        })
    }

    /// Returns the commit that a revision names, such as `HEAD`, `origin/main`, a tag or an id. The
    /// name is looked up by git's rules, so it is as trustworthy as the branches of the repository.
    ///
    /// # Errors
    /// Returns [`GitError::Revision`] if it names no commit, and others if the commit cannot be
    /// read.
    pub fn resolve(&mut self, revision: &str) -> Result<ObjectId, GitError> {
        let fail = || GitError::Revision(revision.chars().take(200).collect());
        if revision.is_empty() || revision.chars().any(char::is_control) || revision.len() > 1024 {
            return Err(fail());
        }
        self.check_unambiguous(revision)?;
        let peeled = format!("{revision}^{{commit}}");
        let Found::Object { id, .. } = self.found(|batch| batch.ask(&peeled))? else {
            return Err(fail());
        };
        // The contents follow, and are read again under the id.
        self.batch = None;
        let id = ObjectId::parse(&id).ok_or_else(fail)?;
        self.commit(&id)?;
        Ok(id)
    }

    /// Checks that only one reference has this name: of several, git silently takes a tag before a
    /// branch, and a branch before that of another repository.
    fn check_unambiguous(&mut self, revision: &str) -> Result<(), GitError> {
        // A name may have an `@`; only `@{` ends it.
        let name = revision.split("@{").next();
        let name = name.and_then(|name| name.split(['^', '~', ':']).next());
        let Some(name) = name.filter(|name| !name.is_empty()) else {
            return Ok(());
        };
        let mut found = Vec::new();
        for (before, after) in PLACES {
            let full = format!("{before}{name}{after}");
            // A name without a folder is one of the repository's own, such as HEAD.
            let exists = match before {
                "" => !name.contains('/') && self.git_dir.join(name).is_file(),
                _ => match self.found(|batch| batch.ask(&full))? {
                    Found::Object { .. } => {
                        // The contents follow, and are not wanted.
                        self.batch = None;
                        true
                    }
                    Found::Missing => false,
                },
            };
            if exists {
                found.push(full);
            }
        }
        match found.len() {
            0 | 1 => Ok(()),
            _ => Err(GitError::Ambiguous(name.to_owned(), found.join(", "))),
        }
    }

    /// Returns the files of a commit at or below some paths, with their contents, by path from the
    /// root of the repository. Paths have no `/` at the end; an empty one is the root. A path that
    /// does not exist has no files.
    ///
    /// # Errors
    /// Returns [`GitError`] for an object that is missing or corrupt, for anything but plain files
    /// and folders, and above the bounds of this crate.
    pub fn files(
        &mut self,
        commit: &ObjectId,
        paths: &[&str],
    ) -> Result<BTreeMap<String, Vec<u8>>, GitError> {
        let mut files = BTreeMap::new();
        let mut room = ALL_BYTES_MAX;
        for (path, Entry { mode, id }) in self.entries(commit, paths)? {
            match mode {
                Mode::File | Mode::Executable => {}
                Mode::Link => return Err(GitError::Link(path)),
                Mode::Submodule => return Err(GitError::Submodule(path)),
                Mode::Folder | Mode::Other(_) => return Err(GitError::Mode { path, mode }),
            }
            let data = match self.object(&id, Kind::Blob, FILE_BYTES_MAX.min(room)) {
                Err(GitError::ObjectTooLarge(_)) if room < FILE_BYTES_MAX => {
                    return Err(GitError::AllTooLarge);
                }
                Err(GitError::ObjectTooLarge(_)) => return Err(GitError::FileTooLarge(path)),
                other => other?,
            };
            room = room.saturating_sub(data.len() as u64);
            files.insert(path, data);
        }
        Ok(files)
    }

    /// Returns what is at or below some paths in a commit, without folders and without reading any
    /// file, by path. Unlike [`Repository::files`], it returns links, submodules and other modes.
    ///
    /// # Errors
    /// Returns [`GitError`] as [`Repository::files`] does, and for a link or submodule that leads to
    /// one of the paths.
    pub fn entries(
        &mut self,
        commit: &ObjectId,
        paths: &[&str],
    ) -> Result<BTreeMap<String, Entry>, GitError> {
        let mut found = BTreeMap::new();
        let mut seen = 0_usize;
        let mut folders = vec![(String::new(), self.commit(commit)?.tree, 0)];
        while let Some((folder, tree, depth)) = folders.pop() {
            let data = self.object(&tree, Kind::Tree, META_BYTES_MAX)?;
            let entries = parse_tree(&data, &tree);
            for (name, entry) in entries.ok_or(GitError::Malformed(tree, Kind::Tree))? {
                let path = format!("{folder}{}", String::from_utf8_lossy(name));
                let is_judged = paths.iter().any(|judged| is_below(&path, judged));
                if !is_judged && !paths.iter().any(|judged| is_below(judged, &path)) {
                    continue;
                }
                seen = seen.saturating_add(1);
                if seen > ENTRIES_MAX {
                    return Err(GitError::TooMany);
                }
                if depth > DEPTH_MAX {
                    return Err(GitError::TooDeep(path));
                }
                if !is_name(name) {
                    return Err(GitError::Name(path.escape_debug().to_string()));
                }
                match entry.mode {
                    Mode::Folder => folders.push((format!("{path}/"), entry.id, depth + 1)),
                    _ if is_judged => {
                        found.insert(path, entry);
                    }
                    Mode::Link => return Err(GitError::Link(path)),
                    Mode::Submodule => return Err(GitError::Submodule(path)),
                    // Nothing can lie below a file.
                    Mode::File | Mode::Executable | Mode::Other(_) => {}
                }
            }
        }
        Ok(found)
    }

    /// Returns whether `base` is `head` or one of its ancestors.
    ///
    /// # Errors
    /// Returns [`GitError`] if a commit on the way cannot be read.
    pub fn is_ancestor(&mut self, base: &ObjectId, head: &ObjectId) -> Result<bool, GitError> {
        let mut is_found = false;
        self.history(head, |id, _| {
            is_found |= id == base;
            !is_found
        })?;
        Ok(is_found)
    }

    /// Returns the commits without parents in the history of a commit.
    ///
    /// # Errors
    /// Returns [`GitError`] if a commit on the way cannot be read.
    pub fn roots(&mut self, commit: &ObjectId) -> Result<BTreeSet<ObjectId>, GitError> {
        let mut roots = BTreeSet::new();
        self.history(commit, |id, commit| {
            if commit.parents.is_empty() {
                roots.insert(*id);
            }
            true
        })?;
        Ok(roots)
    }

    /// Returns the newest commit, of `commit` and its first parents, that changed something at or
    /// below some paths, compared with its first parent. `None` if there has never been anything.
    ///
    /// # Errors
    /// Returns [`GitError`] if a commit or folder on the way cannot be read, or if a link or
    /// submodule leads to one of the paths.
    pub fn newest_change(
        &mut self,
        commit: &ObjectId,
        paths: &[&str],
    ) -> Result<Option<ObjectId>, GitError> {
        let mut trees = HashMap::new();
        let mut at = *commit;
        let mut now = self.at_paths(&at, paths, &mut trees)?;
        loop {
            let Some(parent) = self.commit(&at)?.parents.first().copied() else {
                return Ok(now.iter().any(Option::is_some).then_some(at));
            };
            let before = self.at_paths(&parent, paths, &mut trees)?;
            if before != now {
                return Ok(Some(at));
            }
            (at, now) = (parent, before);
        }
    }

    /// Returns those of some paths at which a commit, or any of its ancestors, has something.
    ///
    /// # Errors
    /// Returns [`GitError`] if a commit or folder on the way cannot be read, or if a link or
    /// submodule leads to one of the paths.
    pub fn ever_at<'p>(
        &mut self,
        commit: &ObjectId,
        paths: &[&'p str],
    ) -> Result<BTreeSet<&'p str>, GitError> {
        let mut commits = Vec::new();
        if !paths.is_empty() {
            self.history(commit, |id, _| {
                commits.push(*id);
                true
            })?;
        }
        let (mut trees, mut found) = (HashMap::new(), BTreeSet::new());
        for id in commits {
            let entries = self.at_paths(&id, paths, &mut trees)?;
            let there = paths
                .iter()
                .zip(entries)
                .filter(|(_, entry)| entry.is_some());
            found.extend(there.map(|(path, _)| *path));
        }
        Ok(found)
    }

    /// Returns what a commit has at each path. `trees` keeps the answers of root folders.
    fn at_paths(
        &mut self,
        commit: &ObjectId,
        paths: &[&str],
        trees: &mut HashMap<ObjectId, Vec<Option<Entry>>>,
    ) -> Result<Vec<Option<Entry>>, GitError> {
        let root = self.commit(commit)?.tree;
        if let Some(known) = trees.get(&root) {
            return Ok(known.clone());
        }
        let found = paths.iter().map(|path| self.at_path(root, path));
        let found: Vec<Option<Entry>> = found.collect::<Result<_, _>>()?;
        trees.insert(root, found.clone());
        Ok(found)
    }

    fn at_path(&mut self, root: ObjectId, path: &str) -> Result<Option<Entry>, GitError> {
        let mut at = Entry {
            mode: Mode::Folder,
            id: root,
        };
        let mut walked = String::new();
        for name in path.split('/').filter(|name| !name.is_empty()) {
            match at.mode {
                Mode::Folder => {}
                Mode::Link => return Err(GitError::Link(walked)),
                Mode::Submodule => return Err(GitError::Submodule(walked)),
                Mode::File | Mode::Executable | Mode::Other(_) => return Ok(None),
            }
            let data = self.object(&at.id, Kind::Tree, META_BYTES_MAX)?;
            let entries = parse_tree(&data, &at.id);
            let mut entries = entries
                .ok_or(GitError::Malformed(at.id, Kind::Tree))?
                .into_iter();
            let Some((_, next)) = entries.find(|(own, _)| *own == name.as_bytes()) else {
                return Ok(None);
            };
            at = next;
            walked = if walked.is_empty() {
                name.to_owned()
            } else {
                format!("{walked}/{name}")
            };
        }
        Ok(Some(at))
    }

    /// Visits a commit and its ancestors, each once and the nearest first, until `visit` returns
    /// false.
    fn history(
        &mut self,
        from: &ObjectId,
        mut visit: impl FnMut(&ObjectId, &Commit) -> bool,
    ) -> Result<(), GitError> {
        let mut seen = HashSet::from([*from]);
        let mut next = VecDeque::from([*from]);
        while let Some(id) = next.pop_front() {
            let commit = self.commit(&id)?;
            if !visit(&id, commit) {
                break;
            }
            next.extend(commit.parents.iter().filter(|id| seen.insert(**id)));
        }
        Ok(())
    }

    fn commit(&mut self, id: &ObjectId) -> Result<&Commit, GitError> {
        if !self.commits.contains_key(id) {
            if self.commits.len() >= COMMITS_MAX {
                return Err(GitError::TooManyCommits);
            }
            let data = self.object(id, Kind::Commit, META_BYTES_MAX)?;
            let commit = Commit::parse(&data, id).ok_or(GitError::Malformed(*id, Kind::Commit))?;
            self.commits.insert(*id, commit);
        }
        self.commits.get(id).ok_or(GitError::Missing(*id))
    }

    /// Reads an object and compares its bytes with its id.
    fn object(&mut self, id: &ObjectId, kind: Kind, most: u64) -> Result<Vec<u8>, GitError> {
        let name = id.to_string();
        let found = self.found(|batch| batch.ask(&name))?;
        let Found::Object {
            id: found,
            kind: is,
            size,
        } = found
        else {
            return Err(GitError::Missing(*id));
        };
        if found != name || is != kind.to_string() {
            self.batch = None;
            return Err(GitError::Corrupt(*id));
        }
        let Some(size) = usize::try_from(size).ok().filter(|_| size <= most) else {
            // Its bytes are not worth reading.
            self.batch = None;
            return Err(GitError::ObjectTooLarge(*id));
        };
        let data = self.found(|batch| batch.data(size))?;
        if id.is_of(kind, &data) {
            Ok(data)
        } else {
            Err(GitError::Corrupt(*id))
        }
    }

    /// Talks to git, which is started if it does not run.
    fn found<T>(&mut self, talk: impl FnOnce(&mut Batch) -> io::Result<T>) -> Result<T, GitError> {
        let batch = match &mut self.batch {
            Some(batch) => batch,
            batch @ None => {
                let started = Batch::start(&self.git_dir).map_err(|source| GitError::Io {
                    path: "git".into(),
                    source,
                })?;
                batch.insert(started)
            }
        };
        talk(batch).map_err(|error| {
            let complaint = self.batch.take().map(Batch::end).unwrap_or_default();
            GitError::Ended(if complaint.is_empty() {
                error.to_string()
            } else {
                complaint.escape_debug().to_string()
            })
        })
    }
}

/// Returns the git folder of a folder, if it is a work tree or a bare repository.
fn git_dir(folder: &Path) -> Result<Option<PathBuf>, GitError> {
    let own = folder.join(".git");
    if is_git_dir(&own) {
        return Ok(Some(own));
    }
    if let Some(linked) = read_line(&own, "gitdir: ")? {
        return Ok(Some(folder.join(linked)));
    }
    Ok(Some(folder.to_owned()).filter(|folder| is_git_dir(folder)))
}

fn is_git_dir(folder: &Path) -> bool {
    let has_objects = folder.join("objects").is_dir() || folder.join("commondir").is_file();
    has_objects && folder.join("HEAD").symlink_metadata().is_ok()
}

/// Returns what follows `key` in a file of one line; `None` if there is no such plain file.
fn read_line(path: &Path, key: &str) -> Result<Option<String>, GitError> {
    if !path.is_file() {
        return Ok(None);
    }
    let text = fs::read_to_string(path).map_err(|source| GitError::Io {
        path: path.to_owned(),
        source,
    })?;
    let line = text
        .strip_prefix(key)
        .map(|line| line.trim_end_matches('\n'));
    Ok(line.map(str::to_owned))
}

/// Returns whether a name is the same for everybody who checks it out or copies it.
fn is_name(name: &[u8]) -> bool {
    std::str::from_utf8(name).is_ok_and(|name| {
        !name.is_empty()
            && !matches!(name, "." | "..")
            && !name.eq_ignore_ascii_case(".git")
            && !name.contains(|c: char| matches!(c, '/' | '\\') || c.is_control())
    })
}

/// Returns whether `path` is `folder` or below it; everything is below an empty folder.
fn is_below(path: &str, folder: &str) -> bool {
    folder.is_empty()
        || path
            .strip_prefix(folder)
            .is_some_and(|below| below.is_empty() || below.starts_with('/'))
}
