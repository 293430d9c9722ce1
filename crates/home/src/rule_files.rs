//! Rule files that the gate writes: the rules that proposals changed, in `rules/active`, and
//! rules/services.yaml. They are derived from ledger lines and written again before a start reads
//! the rule files; otherwise the old files would silently undo what was applied.

use std::io;
use std::path::{Path, PathBuf};

use super::core::Core;
use super::derived::{Derived, File, Line, Obstacle, Projection, Source, Want};
use super::error::HomeError;
use super::parts::News;
use super::proposals::applied;
use spoolgate_gate::services;
use spoolgate_host::spool::publish::Published as Put;
use spoolgate_ledger::disk::{Disk, Mode};
use spoolgate_rules::services::PATH;
use spoolgate_rules::yaml::RULE_FILE_BYTES_MAX;

/// Folder of the rules, below the home.
pub(super) const RULES_DIR: &str = "rules";
/// Folder of the rules that proposals change, below the home.
const ACTIVE_DIR: &str = "rules/active";
/// Folder for a person's edit of a rule file that conflicts with a change applied meanwhile, below
/// the home.
const EDITED_DIR: &str = "proposals/edited";

/// The projection of rule files.
pub(super) struct RuleFiles;

impl Projection for RuleFiles {
    fn name(&self) -> &'static str {
        "rule files"
    }

    fn folders(&self) -> &'static [&'static str] {
        &[RULES_DIR, ACTIVE_DIR]
    }

    fn files(&self, source: &Source<'_>, (seq, record): Line<'_>) -> Result<Vec<File>, HomeError> {
        let rule = |path: &str, old: Option<String>, text: Option<String>| {
            let known = vec![old, text.clone()];
            File {
                path: PathBuf::from(path),
                line: seq,
                want: Want::Rule { text, known },
            }
        };
        let mut files: Vec<File> = applied(record.changes())
            .map(|(proposed, _)| rule(&proposed.path, proposed.old.clone(), proposed.new.clone()))
            .collect();
        for (_, base, hash) in services::edits(record.changes()) {
            match (source.core.services_of(base), source.core.services_of(hash)) {
                (Ok(old), Ok(new)) => files.push(rule(PATH, old, new)),
                // If the kept files are lost, the folder is taken as it is.
                _ if source.again => {}
                (Err(error), _) | (_, Err(error)) => return Err(error),
            }
        }
        Ok(files)
    }

    /// Entries are refused meanwhile, because the files differ from the rules in force.
    fn obstacle(&self) -> Obstacle {
        Obstacle::Retry(|File { path, line, .. }, error| {
            format!(
                "`{}` cannot be changed as ledger line {line} requires ({error}); entries are \
                    refused until it can: repair its folder",
                path.display()
            )
        })
    }
}

/// Returns whether a rule file holds one of these texts; `None` among them means that there is no
/// file.
pub(super) fn holds_any(disk: &dyn Disk, path: &Path, known: &[Option<&str>]) -> bool {
    let there = rule_file(disk, path);
    known
        .iter()
        .any(|text| there.as_deref() == text.map(str::as_bytes))
}

/// Returns the content of a rule file; `None` if there is none. An unreadable file yields bytes
/// that no rulebook has.
fn rule_file(disk: &dyn Disk, path: &Path) -> Option<Vec<u8>> {
    match disk.read(path, RULE_FILE_BYTES_MAX) {
        Ok(file) => Some(file.bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(_) => Some(vec![0]),
    }
}

impl Core {
    /// Puts a rule file in place. If the file there holds none of `known`, a person has just edited
    /// it, and the edit is set aside. `again` is set at a start and when a blocked write is
    /// retried: then nothing is written if a person's later edit is in force by now.
    ///
    /// # Errors
    /// Returns the disk's error, unless the rule file itself is what cannot be written.
    pub(super) fn put_rule(
        &self,
        news: &mut News,
        path: &Path,
        line: u64,
        text: Option<&str>,
        known: &[Option<String>],
        again: bool,
    ) -> Result<Put, HomeError> {
        let in_force = self
            .rulebook
            .files
            .files
            .get(path.to_string_lossy().as_ref());
        if again && in_force.map(String::as_str) != text {
            return Ok(Put::Done);
        }
        let there = rule_file(self.seams.disk.as_ref(), path);
        let is = |text: Option<&str>| there.as_deref() == text.map(str::as_bytes);
        if is(text) {
            return Ok(Put::Done);
        }
        if there.is_some() && !known.iter().any(|known| is(known.as_deref())) {
            self.keep_edit(news, path, line)?;
        }
        let Some(text) = text else {
            return Ok(match self.seams.disk.remove(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Put::Blocked(error),
                _ => Put::Done,
            });
        };
        self.try_derived(path, text.as_bytes(), Mode::Shared, false)
    }

    /// Moves a person's edit out of the way, and reports it.
    fn keep_edit(&self, news: &mut News, path: &Path, seq: u64) -> Result<(), HomeError> {
        let folder = Path::new(EDITED_DIR);
        self.seams
            .disk
            .create_dir(folder, Mode::Shared)
            .map_err(|source| HomeError::disk(folder, source))?;
        let stem = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let free = (0..u32::MAX).map(|n| match n {
            0 => folder.join(format!("{stem}.{seq}.yaml")),
            n => folder.join(format!("{stem}.{seq}.{n}.yaml")),
        });
        for aside in free {
            match self.seams.disk.rename_new(path, &aside) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                // The file is gone, or it blocks the write, which is reported elsewhere.
                Err(_) => return Ok(()),
                Ok(()) => {
                    news.tell(self, format!(
                        "`{}` was edited while ledger line {seq} changed it; the edit was moved to \
                            `{}`: repeat it on the file in force",
                        path.display(),
                        aside.display()
                    ));
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

impl Derived {
    /// Returns why the rule files differ from the rules in force; `None` if they do not, or if a
    /// person is editing them.
    pub(super) fn rules_blocked(&self) -> Option<String> {
        let File { path, line, .. } = self.blocked_rule()?;
        Some(format!(
            "{}: cannot be made what ledger line {line} says; mend its folder",
            path.display()
        ))
    }
}
