//! Derived files: files that ledger lines imply, besides answers. Each kind is one row of
//! [`PROJECTIONS`].
//!
//! A batch publishes the files of its lines before their answers, because a client may open a file
//! as soon as it sees the answer. A start publishes the files of all lines after the last
//! `published` line again.
//!
//! A user with access to the folders can block single files by what they put there, but never the
//! gate.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use super::approvals::Holds;
use super::bridges::Pings;
use super::cases::Cases;
use super::core::Core;
use super::error::HomeError;
use super::forward::Forwarded;
use super::layout;
use super::open::Home;
use super::outbox::Instructions;
use super::parts::News;
use super::proposals::Proposals;
use super::rule_files::RuleFiles;
use spoolgate_gate::{Change, Record};
use spoolgate_host::spool::claim::is_senders_doing;
use spoolgate_host::spool::publish::{self, Published as Put};
use spoolgate_host::spool::retire;
use spoolgate_ledger::disk::Mode;

/// Every kind of derived file, in the order in which they are published. A decision that gets a new
/// kind of file also belongs in `index::fold::fold`, which determines the lines that a start looks
/// at again.
pub(super) static PROJECTIONS: &[&dyn Projection] = &[
    &RuleFiles,
    &Holds,
    &Proposals,
    &Cases,
    &Instructions,
    &Pings,
    &Forwarded,
];

/// A kind of file that ledger lines imply. It determines only which files; when and how they are
/// written is the same for all kinds.
pub(super) trait Projection: Sync {
    /// Names the kind.
    fn name(&self) -> &'static str;

    /// Folders that the files are below, relative to the home.
    fn folders(&self) -> &'static [&'static str];

    /// Returns the files that `line` implies, without those that cannot be made because a blob is
    /// lost.
    ///
    /// # Errors
    /// Returns [`HomeError`] if the ledger, the index or a blob cannot be read.
    fn files(&self, source: &Source<'_>, line: Line<'_>) -> Result<Vec<File>, HomeError>;

    /// Returns who may read the files, if their folders allow it.
    fn mode(&self) -> Mode {
        Mode::Shared
    }

    /// Returns what to do about a file that is blocked by something else at its path.
    fn obstacle(&self) -> Obstacle {
        Obstacle::Report
    }
}

/// A ledger line with its number.
pub(super) type Line<'a> = (u64, &'a Record);

/// What the rows read to compute their files.
pub(super) struct Source<'a> {
    pub(super) core: &'a Core,
    /// Lines that the index may not know yet: those of the batch that is being released.
    pub(super) batch: &'a [Line<'a>],
    /// Whether a start publishes them again.
    pub(super) again: bool,
}

impl Source<'_> {
    /// Returns the record of a line; `None` if neither these lines nor the index have it.
    ///
    /// # Errors
    /// Returns [`HomeError`] if the index or the line cannot be read.
    pub(super) fn record(&self, seq: u64) -> Result<Option<Cow<'_, Record>>, HomeError> {
        if let Some((_, record)) = self.batch.iter().find(|(line, _)| *line == seq) {
            return Ok(Some(Cow::Borrowed(record)));
        }
        if self.core.store.line(seq)?.is_none() {
            return Ok(None);
        }
        Ok(Some(Cow::Owned(self.core.record(seq)?.1)))
    }
}

/// What a line implies for one path.
#[derive(Clone, Debug)]
pub(super) struct File {
    pub(super) path: PathBuf,
    /// Number of the line.
    pub(super) line: u64,
    pub(super) want: Want,
}

/// What a path should hold.
#[derive(Clone, Debug)]
pub(super) enum Want {
    /// A file with these bytes.
    Bytes(Vec<u8>),
    /// No file.
    Nothing,
    /// A rule file with this text; `None` for no file. A file that has none of the `known` texts is
    /// a person's edit.
    Rule {
        text: Option<String>,
        known: Vec<Option<String>>,
    },
    /// A file that cannot be made, for this reason.
    Impossible(String),
}

/// What to do about a blocked file.
pub(super) enum Obstacle {
    /// Report it. A start writes the file if its line is not marked as published by then.
    Report,
    /// Report it in these words and try again before every batch. No line is marked as published
    /// meanwhile, because the files of marked lines are never written again.
    Retry(fn(&File, &io::Error) -> String),
}

/// Derived files that are not settled yet.
#[derive(Default)]
pub(super) struct Derived {
    /// Folders with files that are not known to be durable.
    dirty: BTreeSet<&'static str>,
    /// Files that are blocked and will be tried again.
    blocked: BTreeMap<PathBuf, (&'static dyn Projection, File)>,
    /// Answers for which the disk had no room.
    answers: BTreeMap<PathBuf, Vec<u8>>,
    /// Files of refused requests that the full disk has no room to move, with their new paths.
    moves: Vec<(PathBuf, PathBuf)>,
    /// Ends of credentials that the full disk of the keyring has not taken yet.
    wipes: Vec<Change>,
}

impl Derived {
    /// Reports whether files in a folder are not known to be durable.
    pub(super) fn is_dirty(&self, folder: &str) -> bool {
        self.dirty.contains(folder)
    }

    /// Reports whether a blocked file waits to be tried again.
    pub(super) fn is_blocked(&self) -> bool {
        !(self.blocked.is_empty()
            && self.answers.is_empty()
            && self.moves.is_empty()
            && self.wipes.is_empty())
    }

    /// Keeps moves until the disk has room for them. Returns whether there are any.
    pub(super) fn owe_moves(&mut self, moves: Vec<(PathBuf, PathBuf)>) -> bool {
        let is_any = !moves.is_empty();
        self.moves.extend(moves);
        is_any
    }

    /// Notes that an answer was published, or keeps it until the disk has room for it.
    pub(super) fn note_answer(&mut self, path: &Path, bytes: &[u8], has_room: bool) {
        if has_room {
            self.answers.remove(path);
        } else {
            self.answers.insert(path.to_owned(), bytes.to_vec());
        }
    }

    /// Returns the first rule file that is blocked.
    pub(super) fn blocked_rule(&self) -> Option<&File> {
        self.blocked
            .values()
            .map(|(_, file)| file)
            .find(|file| matches!(file.want, Want::Rule { .. }))
    }
}

impl Derived {
    /// Publishes the files of durable lines, row by row. A start compares with what the medium
    /// holds, because a file that exists can be empty after a power cut.
    ///
    /// # Errors
    /// Returns [`HomeError`] if reading or writing fails. A blocked file is not an error.
    pub(super) fn publish_files(
        &mut self,
        source: &Source<'_>,
        news: &mut News,
        lines: &[Line<'_>],
    ) -> Result<(), HomeError> {
        let Source { core, again, .. } = *source;
        // First what lines end: files are made of what is left after it.
        for (_, record) in lines {
            match core.wipe_credentials(record.changes(), again) {
                Err(error) if error.is_full() => self.wipes.extend(record.changes().to_vec()),
                other => other?,
            }
            if let Record::Redact(redaction) = record {
                core.delete_redacted(redaction)?;
            }
        }
        for row in PROJECTIONS {
            for file in files_of_row(source, *row, lines)? {
                let _has_room = self.put_file(core, news, *row, file, again)?;
            }
        }
        Ok(())
    }

    /// Puts a file into its place. Returns whether the disk had room for it.
    fn put_file(
        &mut self,
        core: &Core,
        news: &mut News,
        row: &'static dyn Projection,
        file: File,
        again: bool,
    ) -> Result<bool, HomeError> {
        self.dirty.extend(row.folders());
        let put = match &file.want {
            Want::Bytes(bytes) => core.try_derived(&file.path, bytes, row.mode(), again)?,
            Want::Nothing => core.remove_derived(&file.path)?,
            Want::Rule { text, known } => {
                core.put_rule(news, &file.path, file.line, text.as_deref(), known, again)?
            }
            Want::Impossible(why) => Put::Blocked(io::Error::other(why.clone())),
        };
        match (put, row.obstacle()) {
            (Put::NoRoom, _) => {
                let words = format!("`{}` waits until the disk has room", file.path.display());
                // Report it once, not before every batch.
                if self
                    .blocked
                    .insert(file.path.clone(), (row, file))
                    .is_none()
                {
                    news.tell(core, words);
                }
                return Ok(false);
            }
            (Put::Blocked(error), Obstacle::Retry(words)) => {
                let words = words(&file, &error);
                // Report it once, not before every batch.
                if self
                    .blocked
                    .insert(file.path.clone(), (row, file))
                    .is_none()
                {
                    news.tell(core, words);
                }
            }
            (put, _) => {
                self.blocked.remove(&file.path);
                news.tell_put(core, &file.path, &put);
            }
        }
        Ok(true)
    }

    /// Tries again to write the blocked files.
    ///
    /// # Errors
    /// Returns [`HomeError`] if writing fails. A file that is still blocked is not an error.
    pub(super) fn retry_files(&mut self, core: &Core, news: &mut News) -> Result<(), HomeError> {
        if !self.wipes.is_empty() && !core.storage.is_full() {
            core.wipe_credentials(&self.wipes, false)?;
            self.wipes.clear();
        }
        // Instructions for venues come first. As soon as one file of a kind has no room, the others
        // have none either.
        for (row, file) in self.blocked.clone().into_values() {
            if !self.put_file(core, news, row, file, true)? {
                break;
            }
        }
        while let Some((path, bytes)) = self.answers.pop_first() {
            let put = core.try_derived(&path, &bytes, Mode::Shared, true)?;
            if matches!(put, Put::NoRoom) {
                self.answers.insert(path, bytes);
                break;
            }
            news.tell_put(core, &path, &put);
        }
        while let Some((from, to)) = self.moves.pop() {
            let moved = retire::move_away(core.seams.disk.as_ref(), &from, &to)
                .map_err(|source| HomeError::disk(&to, source))?;
            if !moved {
                self.moves.push((from, to));
                break;
            }
        }
        Ok(())
    }

    /// Makes derived files durable, with one sync per folder that was written to.
    ///
    /// # Errors
    /// Returns the disk's error, unless the folder is gone.
    pub(super) fn sync_files(&mut self, core: &Core) -> Result<(), HomeError> {
        for folder in std::mem::take(&mut self.dirty) {
            match core.seams.disk.sync_fs(Path::new(folder)) {
                // If the folder is gone, so are its files; they can be made again from the ledger.
                Err(error) if is_in_the_way(&error) => {}
                other => other.map_err(|source| HomeError::disk(Path::new(folder), source))?,
            }
        }
        Ok(())
    }
}

impl Home {
    /// The names of all kinds of derived files.
    pub fn derived_kinds() -> impl Iterator<Item = &'static str> {
        PROJECTIONS.iter().map(|row| row.name())
    }

    /// Returns the files that line `seq` creates, each with the name of its kind.
    ///
    /// # Errors
    /// Returns [`HomeError`] if there is no such line.
    pub fn derived_files(&self, seq: u64) -> Result<Vec<(&'static str, PathBuf)>, HomeError> {
        let record = self.core.record(seq)?.1;
        let source = Source {
            core: &self.core,
            batch: &[],
            again: true,
        };
        let mut found = Vec::new();
        for row in PROJECTIONS {
            let files = files_of_row(&source, *row, &[(seq, &record)])?;
            let is_put = |file: &File| {
                matches!(file.want, Want::Bytes(_) | Want::Rule { text: Some(_), .. })
            };
            found.extend(
                files
                    .into_iter()
                    .filter(is_put)
                    .map(|file| (row.name(), file.path)),
            );
        }
        Ok(found)
    }
}

impl Core {
    /// Writes a file to its place, and creates missing folders.
    ///
    /// # Errors
    /// Returns the disk's error, unless the file is blocked.
    pub(super) fn try_derived(
        &self,
        path: &Path,
        bytes: &[u8],
        mode: Mode,
        again: bool,
    ) -> Result<Put, HomeError> {
        let put = if again {
            publish::publish_again
        } else {
            publish::publish
        };
        let disk = self.seams.disk.as_ref();
        let done = match put(disk, path, bytes, mode) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let mut folders: Vec<&Path> = path.ancestors().skip(1).collect();
                folders.retain(|folder| !folder.as_os_str().is_empty());
                folders
                    .iter()
                    .rev()
                    .try_for_each(|folder| disk.create_dir(folder, layout::mode_of(folder)))
                    .and_then(|()| put(disk, path, bytes, mode))
            }
            other => other,
        };
        match done {
            Err(error) if is_in_the_way(&error) => Ok(Put::Blocked(error)),
            other => other.map_err(|source| HomeError::disk(path, source)),
        }
    }

    pub(super) fn remove_derived(&self, path: &Path) -> Result<Put, HomeError> {
        match self.seams.disk.remove(path) {
            // Somebody removed it, or put a folder there: in both cases the file is gone.
            Err(error) if is_in_the_way(&error) => Ok(Put::Done),
            other => other
                .map(|()| Put::Done)
                .map_err(|source| HomeError::disk(path, source)),
        }
    }
}

/// Returns the files that a row computes from these lines: the last one for each path.
fn files_of_row(
    source: &Source<'_>,
    row: &dyn Projection,
    lines: &[Line<'_>],
) -> Result<Vec<File>, HomeError> {
    let mut files: Vec<File> = Vec::new();
    for line in lines {
        files.extend(row.files(source, *line)?);
    }
    Ok(last_of_each(files))
}

/// Keeps the last of several files with one path, and adds the texts that the earlier ones knew.
fn last_of_each(files: Vec<File>) -> Vec<File> {
    let mut last: BTreeMap<PathBuf, (usize, File)> = BTreeMap::new();
    for (index, mut file) in files.into_iter().enumerate() {
        let earlier = last.remove(&file.path);
        if let (
            Want::Rule { known, .. },
            Some((
                _,
                File {
                    want: Want::Rule { known: before, .. },
                    ..
                },
            )),
        ) = (&mut file.want, earlier)
        {
            known.extend(before);
        }
        last.insert(file.path.clone(), (index, file));
    }
    let mut files: Vec<(usize, File)> = last.into_values().collect();
    files.sort_by_key(|(index, _)| *index);
    files.into_iter().map(|(_, file)| file).collect()
}

/// Reports whether an error means that somebody removed a folder or put something in its place.
pub(super) fn is_in_the_way(error: &io::Error) -> bool {
    is_senders_doing(error)
        || matches!(
            error.kind(),
            io::ErrorKind::AlreadyExists
                | io::ErrorKind::NotFound
                | io::ErrorKind::IsADirectory
                | io::ErrorKind::DirectoryNotEmpty
        )
}
